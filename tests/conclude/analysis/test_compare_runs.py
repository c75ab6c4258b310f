"""`scaleproof compare`: any two results, by the rules of a campaign."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import scaleproof
from synthetic import cells, rewrite, write_run

from scaleproof.conclude.analysis import compare_runs
from scaleproof.conclude.analysis.compare_runs import are_all_own, compare_results, read_runs_by_cell
from scaleproof.conclude.analysis.measured_cells import measured_cells
from scaleproof.conclude.report.sentences.next_step import step_of_comparison
from scaleproof.conclude.report.sentences.ratios import compared_sentence, compared_verdict
from scaleproof.ground.comparison import why_incomparable
from scaleproof.ground.errors import UserError
from scaleproof.ground.findings.registry import finding_on_unusable_record
from scaleproof.ground.records.run import read_run


@pytest.fixture
def two(tmp_path):
    """A step of 100 ms with the fused optimizer and of 120 ms without it, three runs each."""
    found = cells(vary={"fused_optimizer": [True, False], "geometry": ["1x2"]})
    for c in found:
        for k in (1, 2, 3):
            write_run(tmp_path / "runs", c, k, 0.1 if c.execution.fused_optimizer else 0.12)
    return tuple(tmp_path / "runs" / c.slug for c in found)


def test_what_is_meant_to_differ_is_compared(two):
    (found,), alone = compare_results(*two, ["fused_optimizer"])
    assert alone == []
    assert found.ratio == pytest.approx(100 / 120, rel=0.02)
    assert found.low < 100 / 120 < found.high
    assert found.intended == ["execution.fused_optimizer"]
    assert "nofused is slower than" in compared_sentence(found)
    # Repeat k of both has the same noise here: in pairs it cancels.
    assert "fused, which has 1.20x its tokens/s (95 % CI 1.20-1.20, n=3)." in compared_sentence(found)


def test_cells_of_one_campaign_have_the_interval_that_its_page_would_give(two, tmp_path, monkeypatch):
    (third,) = cells(vary={"strategy": ["zero2"], "geometry": ["1x2"]})
    for k, step_s in enumerate((0.08, 0.14, 0.1), start=1):
        write_run(tmp_path / "runs", third, k, step_s)
    read_folders = []
    monkeypatch.setattr(compare_runs, "read_run", lambda folder: read_folders.append(folder) or read_run(folder))
    (found,), _ = compare_results(*two, ["fused_optimizer"])
    assert len(read_folders) == len({folder.resolve() for folder in read_folders}) == 9, "each run is read once"
    runs = [run for of_cell in read_runs_by_cell(tmp_path / "runs").values() for run in of_cell]
    measured = measured_cells(runs)
    a, b = (measured[folder.name] for folder in two)
    relative = b.relative_to(a)
    assert (found.ratio, found.low, found.high) == (relative.value, relative.low, relative.high)
    (elsewhere := tmp_path / "other/runs").mkdir(parents=True)
    moved = two[1].rename(elsewhere / two[1].name)
    (apart,), _ = compare_results(two[0], moved, ["fused_optimizer"])
    assert apart.high - apart.low != pytest.approx(found.high - found.low), "of two campaigns each has its own noise"


def test_a_setting_that_an_older_record_lacks_is_a_difference(two):
    for k in (1, 2, 3):
        rewrite(compare_run(two[0] / f"rep{k}"), lambda d: d["config"]["execution"].pop("start"))
    for pair in (two, two[::-1]):
        (compared,), _ = compare_results(*pair, ["fused_optimizer"])
        assert "execution.start" in compared.why


def test_suspicions_stand_beside_a_ratio(two):
    rewrite(compare_run(two[1] / "rep1"), lambda d: d["host"].update(cpu_busy_before=0.5))
    (found,), _ = compare_results(*two, ["fused_optimizer"])
    assert found.ratio is not None
    assert compared_sentence(found).endswith("With reservations: machine-busy (B).")


@pytest.mark.parametrize(("severity", "sides"), [("note", {"machine-busy": "B"}), ("suspect", {})])
def test_a_note_on_a_side_is_no_suspicion_of_it(two, monkeypatch, severity, sides):
    """Others were busy on other cores of A's machine, which a quiet machine would not mend."""
    rewrite(compare_run(two[1] / "rep1"), lambda d: d["host"].update(cpu_busy_before=0.5))
    real_audit = compare_runs.audit

    def audit_with_one_more(name, runs):
        audited = real_audit(name, runs)
        cell = two[0].name
        busy = finding_on_unusable_record(f"{cell}/rep1", cell, "").model_copy(
            update={"code": "machine-busy", "severity": severity}
        )
        more = [busy] if any(run.metrics.cell == cell for run in runs) else []
        return audited.model_copy(update={"findings": [*audited.findings, *more]})

    monkeypatch.setattr(compare_runs, "audit", audit_with_one_more)
    (compared,), _ = compare_results(*two, ["fused_optimizer"])
    assert compared.suspect == ["machine-busy"]
    assert compared.suspect_sides == sides
    assert (
        step_of_comparison([compared]) == f"measure {sides.get('machine-busy', 'both sides')} again on a quiet machine"
    )


def test_results_are_not_compared_with_themselves(two):
    with pytest.raises(UserError, match="are the same results"):
        compare_results(two[0], two[0].parent / two[0].name, [])
    copy = shutil.copytree(two[0], two[0].parents[1] / "copy" / two[0].name)
    with pytest.raises(UserError, match="are the same results"):
        compare_results(two[0], copy, [])
    with pytest.raises(UserError, match="or one is part of the other"):
        compare_results(two[0] / "rep1", two[0], [])


@pytest.mark.parametrize("place", ["results/demo/runs", "elsewhere"])
def test_a_damaged_run_is_named_with_its_cure(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    run = write_run(tmp_path / place, cells()[0], 1).folder.relative_to(tmp_path)
    assert len(read_runs_by_cell(run.parent)) == 1
    (run / "training_metrics.json").write_text("{")
    with pytest.raises(UserError, match=f"; restore it, .*or move {run} away to compare the others") as fault:
        read_runs_by_cell(run.parent)
    again = f"measure it again (scaleproof retry config/campaigns/demo.yaml --cell {run.parent.name}/rep1 && "
    assert (again in str(fault.value)) == (place != "elsewhere")
    (run / "training_metrics.json").write_text('{"schema_version": "4.0", "status": "ok"}')
    with pytest.raises(UserError, match=f"; update scaleproof or move {run} away to compare the others"):
        read_runs_by_cell(run.parent)


@pytest.mark.parametrize("damage", [Path.mkdir, lambda path: path.symlink_to("gone.json")], ids=["folder", "link"])
def test_a_record_that_is_no_file_is_not_left_out(tmp_path, damage):
    runs = [write_run(tmp_path, cells()[0], repeat).folder for repeat in (1, 2)]
    assert len(read_runs_by_cell(tmp_path)[cells()[0].slug]) == 2
    (runs[1] / "training_metrics.json").unlink()
    damage(runs[1] / "training_metrics.json")
    assert are_all_own(tmp_path)
    with pytest.raises(UserError, match=f"{runs[1]}.* is a .*; restore it"):
        read_runs_by_cell(tmp_path)


def test_an_unintended_difference_gives_no_ratio(two):
    (found,), _ = compare_results(*two, [])
    assert found.ratio is None
    assert found.why.startswith("incomparable: execution.fused_optimizer")


def test_provenance_counts_too(two):
    for k in (1, 2, 3):
        run = compare_run(two[1] / f"rep{k}")
        rewrite(run, lambda d: d["env"].update(torch_version="2.11.0"))
    (found,), _ = compare_results(*two, ["fused_optimizer"])
    assert found.why.startswith("incomparable: torch_version")
    (found,), _ = compare_results(*two, ["fused_optimizer", "torch_version"])
    assert found.why is None


def compare_run(folder):
    from scaleproof.ground.records.run import read_run

    return read_run(folder)


def test_an_invalid_result_gives_no_ratio(two):
    rewrite(compare_run(two[1] / "rep1"), lambda d: d["window"].update(tokens_per_sec_global=1e9))
    (found,), _ = compare_results(*two, ["fused_optimizer"])
    assert found.why.startswith("invalid: ")
    assert "rate-times-time" in found.why


def test_a_copied_run_gives_no_ratio(two):
    target = two[1] / "rep1"
    (target / "steps.csv").write_bytes((two[0] / "rep1/steps.csv").read_bytes())
    original = compare_run(two[0] / "rep1").metrics
    rewrite(
        compare_run(target),
        lambda d: d.update(
            run_id=original.run_id, window=original.window.model_dump(by_alias=True), files=original.files
        ),
    )
    (found,), _ = compare_results(*two, ["fused_optimizer"])
    assert found.ratio is None
    assert "run-copied" in found.why


def test_campaigns_are_compared_cell_by_cell(tmp_path):
    for seed, (side, factor) in enumerate((("a", 1.0), ("b", 0.9))):
        for c in cells(vary={"geometry": ["1x1", "1x2"] if side == "a" else ["1x1", "1x4"]}):
            for k in (1, 2, 3):
                write_run(tmp_path / side / "runs", c, k, factor * 0.1 / c.batch.n_devices, seed=seed)
    found, alone = compare_results(tmp_path / "a", tmp_path / "b", [])
    assert [c.ratio for c in found] == [pytest.approx(1 / 0.9, rel=0.02)]
    assert alone == ["ddp-n1x2", "ddp-n1x4"]


@pytest.mark.parametrize(
    ("slower", "suspect"),
    [
        ([1.3, 1.31, 1.32], []),  # B is slower than A, and no run of it stands out
        ([1.0, 1.01, 1.5], ["run-stands-out (B)"]),
        ([1.9, 1.9, 1.3], ["run-stands-out (B)"]),  # the median is that of its own side
    ],
)
def test_a_run_stands_out_among_the_repeats_of_its_own_side(tmp_path, slower, suspect):
    (cell,) = cells(vary={"geometry": ["1x2"]})
    for side, factors in (("a", [1.0, 1.01, 0.99, 1.0]), ("b", slower)):
        for k, factor in enumerate(factors, start=1):
            write_run(tmp_path / side / "runs", cell, k, 0.1 * factor, seed=ord(side))
    (found,), _ = compare_results(tmp_path / "a", tmp_path / "b", [])
    assert (found.why, found.reservations) == (None, suspect)


def test_one_configuration_has_other_names_in_two_campaigns(tmp_path):
    for side, axes in (("a", {}), ("b", {"micro_batch": [8]})):
        (cell,) = cells(vary={"geometry": ["1x2"], **axes})
        for k in (1, 2, 3):
            write_run(tmp_path / side / "runs", cell, k, 0.1, seed=ord(side))
    (found,), _ = compare_results(tmp_path / "a", tmp_path / "b", [])
    assert (found.a, found.b) == (f"{tmp_path}/a ddp-n1x2", f"{tmp_path}/b ddp-n1x2-mb8")
    assert (found.why, found.suspect) == (None, [])


def test_the_advised_option_can_be_typed():
    why = why_incomparable(["cpu_model", "cpu_model of rank 0"], ["code"])
    assert why.endswith("(if this is meant to differ: --vary code cpu_model 'cpu_model of rank 0')")


@pytest.mark.parametrize("name", ["work.optimizer.eps", "eps", "work.optimizer", "work"])
def test_a_key_of_a_section_in_a_section_is_meant_by_each_of_its_names(tmp_path, name):
    for side, eps in (("a", 1e-8), ("b", 1e-7)):
        (cell,) = cells(work={"optimizer": {"eps": eps}}, vary={"geometry": ["1x2"]})
        for k in (1, 2, 3):
            write_run(tmp_path / side / "runs", cell, k, 0.1, seed=ord(side))
    (refused,), _ = compare_results(tmp_path / "a", tmp_path / "b", ["strategy"])
    assert "(if this is meant to differ: --vary strategy work.optimizer.eps)" in refused.why
    (found,), _ = compare_results(tmp_path / "a", tmp_path / "b", [name])
    assert (found.why, found.intended) == (None, ["work.optimizer.eps"])


def test_one_run_a_side_claims_nothing(two):
    (found,), _ = compare_results(two[0] / "rep1", two[1] / "rep1/training_metrics.json", ["fused_optimizer"])
    assert found.low is None
    assert "nothing is claimed" in compared_sentence(found)


@pytest.mark.parametrize(
    ("starts_a", "starts_b", "jobs", "sessions"),
    [
        ("01T10 01T11 01T12", "02T10 02T11 02T12", "", ["2026-03-01", "2026-03-02"]),
        ("04T10 05T10 06T10", "02T10 02T11 02T12", "", ["2026-03-04 to 2026-03-06", "2026-03-02"]),
        ("01T10 01T11 01T12", "01T13 01T14 01T15", "777888", ["job 7", "job 8"]),
        ("01T10 01T11 01T12", "01T13 01T14 01T15", "", []),  # one day, and no job
        ("01T10 01T11 01T12", "01T13 01T14 01T15", "789999", []),  # a job in common
        ("01T10 01T12 01T14", "01T11 01T13 01T15", "123456", []),  # in turn, each in a job of its own
        ("01T10 03T10 05T10", "02T10 04T10 06T10", "", []),  # in turn
    ],
)
def test_an_interval_of_two_sessions_says_so(tmp_path, starts_a, starts_b, jobs, sessions):
    (cell,) = cells(vary={"geometry": ["1x2"]})
    for side, starts in (("a", starts_a), ("b", starts_b)):
        for k, start in enumerate(starts.split(), start=1):
            run = write_run(tmp_path / side / "runs", cell, k, 0.1, seed=ord(side))
            job = {"type": "slurm", "job_id": jobs["ab".index(side) * 3 + k - 1]} if jobs else None
            rewrite(run, lambda d, at=start, job=job: d.update(timestamp_utc=f"2026-03-{at}:00:00Z", scheduler=job))
    (compared,), _ = compare_results(tmp_path / "a", tmp_path / "b", [])
    assert compared.sessions == sessions
    reservation = " With reservations: A is of {}, B of {}: two sessions differ by themselves".format(*sessions or "??")
    assert (reservation in compared_sentence(compared)) == bool(sessions)
    assert ("sessions" in compared_verdict([compared, compared])) == bool(sessions)
    (single,), _ = compare_results(tmp_path / "a/runs/ddp-n1x2/rep1", tmp_path / "b/runs/ddp-n1x2/rep1", [])
    assert "sessions" not in compared_sentence(single), "nothing is claimed"


@pytest.mark.parametrize(
    ("fields", "message"),
    [(["stratgy"], 'there is no field "stratgy". Did you mean "strategy"?'), (["torch"], 'there is no field "torch"')],
)
def test_a_field_that_does_not_exist(two, fields, message):
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        compare_results(*two, fields)


def test_nothing_there(tmp_path, two):
    with pytest.raises(UserError, match="no such file"):
        compare_results(tmp_path / "none", two[0], [])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no measured run below"):
        compare_results(two[0], tmp_path / "empty", [])


def test_the_command(two):
    command = [sys.executable, "-m", "scaleproof", "compare", *map(str, two)]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 1
    assert "--vary execution.fused_optimizer" in refused.stdout
    done = subprocess.run([*command, "--json", "--may-differ", "fused_optimizer"], capture_output=True, text=True)
    assert done.returncode == 0, "the name of --vary until 1.0"
    assert json.loads(done.stdout)["compared"][0]["runs"] == [3, 3]


def test_a_run_without_its_record_is_left_out_aloud(two):
    command = ["compare", *two, "--vary", "fused_optimizer"]
    for place in two[0].glob("rep*"):
        (place / "launcher_metadata.json").touch()
    (two[0] / "rep4").mkdir()
    (two[0] / "rep4/train.log").touch()  # not finished
    assert scaleproof(*command, cwd=two[0]).stderr == ""
    (two[0] / "rep2/training_metrics.json").unlink()
    lost = f"left out: {two[0] / 'rep2'} is no longer complete (no training_metrics.json)\n"
    assert scaleproof(*command, cwd=two[0]).stderr == lost
