"""Sweeps: rows, tables, what is unsteady or slow, and files of nccl-tests."""

import json

import pytest

from scaleproof.conclude.forecast.collective import Group
from scaleproof.conclude.forecast.sweep import sizes_up_to
from scaleproof.conclude.forecast.sweep_file import (
    Calls,
    Launch,
    Sweep,
    merge_sweeps,
    read_nccl_tests,
    read_sweeps,
    sweep_rows,
    unstable_rows,
    weak_rows,
)
from scaleproof.conclude.forecast.text import sweep_text
from scaleproof.ground.errors import UserError
from scaleproof.ground.findings.forecast_report import SweepLink

SIZES = (65536, 2**20, 2**24)


def sweep(factors: tuple = (1.0, 1.02), link: float | None = None, **keys) -> Sweep:
    launches = [
        Launch(
            made_utc="2026-11-21T10:00:00Z",
            ranks=[],
            calls=[Calls(collective="all_reduce", nbytes=b, seconds=[f * (1e-5 + b / 1e10)] * 3) for b in SIZES],
        )
        for f in factors
    ]
    data = {"nodes": 1, "devices_per_node": 2, "backend": "gloo", "device": "cpu", "launches": launches}
    return Sweep(**data, link=SweepLink(bytes_per_s=link, source="datasheet") if link else None, **keys)


def test_a_row_is_the_median_of_launches_beside_its_bus_bandwidth():
    last = sweep_rows(sweep((1.0, 1.01, 1.02)))[-1]
    assert last.seconds == pytest.approx(1.01 * (1e-5 + 2**24 / 1e10))
    assert last.bus_bytes_per_s == pytest.approx(1e10, rel=0.02)


def test_launches_that_differ_are_unsteady_and_others_are_not():
    assert unstable_rows(sweep((1.0, 1.05))) == []
    assert len(unstable_rows(sweep((1.0, 1.3)))) == 3
    assert "sweep-unstable: launches of all_reduce" in sweep_text(sweep((1.0, 1.3)))
    assert "sweep-unstable" not in sweep_text(sweep())


def test_a_link_below_70_percent_of_its_figure_is_slow():
    assert weak_rows(sweep(link=1.1e10)) == []
    assert weak_rows(sweep()) == []  # nobody said what it carries
    (weak,) = weak_rows(sweep(link=2e10))
    assert weak.nbytes == SIZES[-1]  # never an average over sizes: latency rules the small ones
    assert "49 % of what the link" in sweep_text(sweep(link=2e10))


def test_sizes_reach_the_model_and_stay_within_a_gigabyte():
    assert sizes_up_to(3e6)[:2] == [4096, 16384]
    assert 3e6 <= sizes_up_to(3e6)[-1] <= 6e6 * 4
    assert sizes_up_to(1e12)[-1] == 2**30
    assert sizes_up_to(5e7)[-2:] == [2**25, 2**26]


def nccl_tests(**keys) -> dict:
    row = {
        "size": 2**20,
        "count": 2**18,
        "type": "float",
        "out_of_place": {"time": 50.0, "cpu_time": 55.0, "bus_bw": 40.0},
    }
    timed = row | {"size": 2**21, "out_of_place_per_iter": {"times_us": [60.0, 61.0]}}
    data = {"version": 3, "args": ["/opt/nccl-tests/build/all_reduce_perf", "-J", "x.json"], "env": ["TOKEN=secret"]}
    return data | {"nccl_version": 22809, "start_time": "now", "results": [row, timed]} | keys


def test_files_of_nccl_tests_are_read_without_their_environment(tmp_path):
    path = tmp_path / "all_reduce.json"
    path.write_text(json.dumps(nccl_tests()))
    read = read_nccl_tests(path, Group(1, 8))
    assert [c.seconds for c in read.launches[0].calls] == [[50e-6], [60e-6, 61e-6]]
    assert "secret" not in read.model_dump_json()
    assert len(merge_sweeps([read, read]).launches) == 2


@pytest.mark.parametrize(
    "change",
    [
        *({"version": 2}, {"args": ["sendrecv_perf"]}, {"results": []}, {"args": []}),
        {"results": [{"out_of_place": {"time": 50.0}}]},
        {"results": [{"size": 4096, "out_of_place": {"time": "long"}}]},
        {"results": [{"size": 4096, "out_of_place_per_iter": [50.0]}]},
    ],
)
def test_other_files_are_refused_by_name(tmp_path, change):
    path = tmp_path / "other.json"
    path.write_text(json.dumps(nccl_tests(**change)))
    with pytest.raises(UserError, match=r"other\.json"):
        read_nccl_tests(path, Group(1, 8))


def test_a_sweep_is_read_back_and_a_damaged_one_named(tmp_path):
    folder = tmp_path / "1x2"
    folder.mkdir()
    (folder / "sweep.json").write_text(sweep().model_dump_json())
    assert read_sweeps(tmp_path) == [sweep()]
    (folder / "sweep.json").write_text("{")
    with pytest.raises(UserError, match="damaged"):
        read_sweeps(tmp_path)
