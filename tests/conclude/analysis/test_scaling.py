"""What a series shows: guards, verdicts, comparability, recommendation, and published figures digit for digit."""

from pathlib import Path

import pytest
from result_models import estimated
from synthetic import cells, rewrite, write_run

from scaleproof.conclude.analysis.campaign_findings import campaign_findings
from scaleproof.conclude.analysis.scaling import efficiency_verdict, scaling_report
from scaleproof.conclude.analysis.simultaneous import compare_all
from scaleproof.conclude.report.tables import scaling

# Published by the project that trained GPT-2 on 1, 2 and 4 V100 with a fixed global batch of 16: devices -> tokens/s.
V100 = {1: 29600.05, 2: 57289.31, 4: 100791.44}
V100_WALL = {1: 1017.61, 2: 522.01, 4: 296.10}


def test_words_of_the_rating_are_explained_where_it_stands():
    page = (Path(scaling.__file__).parent.parent / "templates/report.html.j2").read_text()
    for efficiency in (0.5, 0.99):
        word = efficiency_verdict(estimated(efficiency, efficiency, efficiency), estimated(1.5, 1.4, 1.6))
        assert f" {word}" in scaling.NOTES
        assert f" {word}" in page.partition("<dt>Rating</dt>")[2][:200]


def report(runs):
    return scaling_report("synthetic", "Does it scale?", runs, campaign_findings("synthetic", runs))


def curve_findings(runs):
    """Code and cells of the findings that only a series can show."""
    return [(f.code, f.cells) for f in campaign_findings("synthetic", runs).concerning("scaling")]


def sizes(tmp_path, times, repeats=3, spread=0.02):
    """One series: devices -> seconds a step."""
    found = cells(vary={"geometry": [f"1x{n}" for n in times]})
    return [
        write_run(tmp_path, c, k, times[c.batch.n_devices], spread=spread) for c in found for k in range(1, repeats + 1)
    ]


def points(found):
    return {p.devices: p for p in found.series[0].points}


def of_rates(tmp_path, rates, wall=None):
    """Runs, one a size, whose windows have exactly these tokens/s."""
    runs = []
    for run in sizes(tmp_path, dict.fromkeys(rates, 0.1), repeats=1, spread=0):
        devices = len(run.metrics.ranks)

        def change(data, devices=devices):
            window = data["window"]
            window["tokens_per_sec_global"] = rates[devices]
            window["wall_time_sec"] = window["tokens_processed_global"] / rates[devices]
            data["total_wall_time_sec"] = (wall or dict.fromkeys(rates, 1.0))[devices]

        runs.append(rewrite(run, change))
    return runs


def test_the_published_v100_figures_come_out_digit_for_digit(tmp_path):
    found = points(report(of_rates(tmp_path, V100, V100_WALL)))
    assert found[2].speedup.value == pytest.approx(1.935446, abs=5e-7)
    assert found[2].scaling_efficiency.value == pytest.approx(0.967723, abs=5e-7)
    assert found[4].speedup.value == pytest.approx(3.405110, abs=5e-7)
    assert found[4].scaling_efficiency.value == pytest.approx(0.851278, abs=5e-7)
    assert found[4].speedup_by_job_wall_time.value == pytest.approx(3.437, abs=5e-4), "the other clock is named"
    assert found[4].speedup.low is None
    assert found[4].speedup.n == 1
    assert found[4].verdict is None, "one run carries no verdict"


def test_the_published_t4_figures_come_out_when_ranks_are_added_up(tmp_path):
    """The 4-GPU file has the rate of a rank, 11,213.47 tokens/s: times four it is the published 3.473 and 0.868."""
    found = points(report(of_rates(tmp_path, {1: 12914.91, 4: 4 * 11213.47})))
    assert round(found[4].speedup.value, 3) == 3.473
    assert round(found[4].scaling_efficiency.value, 3) == 0.868


def test_a_speed_up_above_the_number_of_devices_is_a_finding(tmp_path):
    runs = sizes(tmp_path, {1: 0.1, 2: 0.04})
    found = report(runs)
    assert curve_findings(runs) == [("super-linear", ["ddp-n1x2"])]
    assert "super-linear" in points(found)[2].findings
    assert points(found)[1].findings == []


def test_a_little_above_is_none(tmp_path):
    assert curve_findings(sizes(tmp_path, {1: 0.1, 2: 0.0496})) == []


def test_more_devices_and_slower_is_a_finding(tmp_path):
    runs = sizes(tmp_path, {1: 0.1, 2: 0.06, 4: 0.08})
    assert curve_findings(runs) == [("slower-with-more", ["ddp-n1x4"])]
    assert report(runs).series[0].law.fraction is not None, "both sizes are faster than one device"


@pytest.mark.parametrize(
    ("low", "value", "high", "words"),
    [
        (0.4, 0.5, 0.6, "low"),
        (0.72, 0.75, 0.8, "good"),
        (0.9, 0.95, 1.0, "excellent"),
        (0.6, 0.75, 0.9, "undecided, low to excellent"),
    ],
)
def test_a_verdict_needs_the_whole_interval(low, value, high, words):
    efficiency = estimated(value, low, high)
    assert efficiency_verdict(efficiency, estimated(4 * value, 4 * low, 4 * high)) == words
    assert efficiency_verdict(efficiency, estimated(0.9, 0.8, 0.99)) == "slower than the baseline"
    assert efficiency_verdict(estimated(value), estimated(4 * value)) is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda d: d["env"].update(torch_version="2.11.0"), "torch_version"),
        (lambda d: d.update(code_sha256="f" * 64), "code"),
        (lambda d: d["env"].update(NCCL_DEBUG="INFO"), "NCCL_DEBUG"),
        (lambda d: d.update(scheduler={"type": "slurm"}), "launcher"),
        (lambda d: d["hardware"].update(cpu_model="another"), "cpu_model"),
        (lambda d: d["model"].update(parameters=1), "parameters"),
        (lambda d: d["dtypes"].update(products="bfloat16"), "dtype of products"),
    ],
)
def test_no_ratio_over_an_undeclared_difference(tmp_path, change, field):
    runs = sizes(tmp_path, {1: 0.1, 2: 0.06})
    runs = [rewrite(run, change) if len(run.metrics.ranks) == 2 else run for run in runs]
    found = report(runs)
    point = points(found)[2]
    assert point.incomparable == [field]
    assert point.speedup is point.scaling_efficiency is point.verdict is None
    assert "incomparable-baseline" in point.findings
    if field != "dtype of products":  # strategies may differ in their dtypes, sizes may not
        assert point.best_single is None
        assert point.best_single_incomparable == [field]


def test_what_slurm_sets_for_each_size_takes_no_ratio_away(tmp_path):
    """One device is `0`, two are `0,1`, a repeat may land on another index; OpenMP threads follow the devices."""
    runs = sizes(tmp_path, {1: 0.1, 2: 0.06})
    for k, run in enumerate(runs):
        visible = "0,1" if len(run.metrics.ranks) == 2 else str(k % 2)
        runs[k] = rewrite(
            run, lambda d, v=visible: d["env"].update(CUDA_VISIBLE_DEVICES=v, OMP_NUM_THREADS=str(len(v)))
        )
    point = points(report(runs))[2]
    assert point.incomparable == []
    assert point.speedup.value == pytest.approx(0.1 / 0.06, rel=0.01)
    assert point.best_single is not None


@pytest.mark.parametrize("other", ["ddp", "zero1"])
def test_the_ranking_keeps_out_what_is_incomparable(tmp_path, other):
    """Even where it is the fastest: it is not all others that are kept out."""
    found = cells(vary={"strategy": ["ddp", "zero1", "zero2"], "geometry": ["1x2"]})
    times = {"ddp": 0.1, "zero1": 0.12, "zero2": 0.15}
    runs = [write_run(tmp_path, c, k, times[c.execution.strategy]) for c in found for k in (1, 2, 3)]
    runs = [rewrite(r, lambda d: d["env"].update(torch_version="2")) if other in r.metrics.cell else r for r in runs]
    group = report(runs).ranking[0]
    compared = [strategy for strategy in times if strategy != other]
    assert [(c.strategy, c.incomparable) for c in group.cells] == [
        *((strategy, []) for strategy in compared),
        (other, ["torch_version"]),
    ]
    assert group.cells[2].relative_to_fastest is None
    assert group.cells[1].relative_to_fastest
    assert f"{other}-n1x2" not in (group.recommendation.cell, group.recommendation.candidate)


def test_sizes_are_in_the_order_of_their_numbers(tmp_path):
    rates = {2: 200.0, 8: 700.0, 16: 1200.0}
    assert [group.devices for group in report(of_rates(tmp_path, rates)).ranking] == list(rates)


def of_strategies(tmp_path, strategies, noise, repeats=3):
    """One device and two under each strategy, all equally fast.

    `noise`: factors of step times, which every second cell has in another order.
    """
    members = cells(vary={"strategy": ["ddp"], "geometry": ["1x1"]})
    members += cells(vary={"strategy": strategies, "geometry": ["1x2"]})
    return [
        write_run(tmp_path, cell, k, 0.06 * noise[(place // 2 + k) % len(noise)], spread=0)
        for place, cell in enumerate(members)
        for k in range(1, repeats + 1)
    ]


def against_one_device(runs):
    """Cell -> its ratio to the best single device."""
    found = report(runs)
    several = [point for one in found.series for point in one.points if point.devices > 1]
    return {point.cell: point.speedup_vs_best_single for point in several}


def test_cells_of_one_size_are_compared_with_one_device_together(tmp_path):
    noise = (1.0, 1.03, 0.97, 1.02)
    runs = of_strategies(tmp_path, ["ddp", "zero1"], noise)
    rates: dict[str, dict[int, float]] = {}
    for run in runs:
        rates.setdefault(run.metrics.cell, {})[run.metrics.repeat] = run.metrics.window.tokens_per_s
    family = compare_all(rates, {name: 3 / sum(1 / r for r in of_cell.values()) for name, of_cell in rates.items()})
    several = against_one_device(runs)
    for place, name in enumerate(family.cells[1:], start=1):
        assert several[name].low == pytest.approx(family.low(place, 0))
        assert several[name].high == pytest.approx(family.high(place, 0))
    # Alone it is a single, paired comparison.
    single = against_one_device([run for run in runs if run.metrics.cell != "zero1-n1x2"])["ddp-n1x2"]
    assert single.value == pytest.approx(several["ddp-n1x2"].value)
    assert single.high < several["ddp-n1x2"].high


def test_two_repeats_compare_several_cells_with_one_device_without_an_interval(tmp_path):
    several = against_one_device(of_strategies(tmp_path, ["ddp", "fsdp"], (1.0, 1.03, 0.97), repeats=2))
    assert {ratio.low for ratio in several.values()} == {None}


def test_a_repeat_costs_the_wall_time_of_the_jobs_of_all_cells(tmp_path):
    runs = of_rates(tmp_path, V100, V100_WALL)
    assert report(runs).seconds_per_repeat == pytest.approx(sum(V100_WALL.values()))
    assert report([]).seconds_per_repeat is None
