"""losses.csv and the time to loss, from loss series with known truth.

The loss is 7.0 - 0.02 x step; 30 steps follow 5 of warm-up.
"""

from types import SimpleNamespace

import pandas as pd
import pytest
from synthetic import cells, rewrite, write_failure, write_run

from scaleproof.conclude.analysis.loss_curves import POINTS, curves_of, losses_table, times_to_loss
from scaleproof.conclude.analysis.run_tables import cells_table, measured_by_cell
from scaleproof.conclude.checks.all_checks import audit
from scaleproof.verify.losses import check_losses, loss_curves
from scaleproof.verify.raw import read_runs


@pytest.fixture
def runs(tmp_path):
    """One device at 100 ms a step, two at 50 ms; three runs each, without spread."""
    times = {1: 0.1, 2: 0.05}
    return [write_run(tmp_path, c, k, times[c.batch.n_devices], spread=0) for c in cells() for k in (1, 2, 3)]


def times(runs, wanted="derive"):
    return times_to_loss(curves_of(measured_by_cell(runs)), wanted)


def test_losses_are_a_row_a_step_and_seconds_are_those_of_the_window(runs):
    table = losses_table(curves_of(measured_by_cell(runs)))
    two = table[table["cell"] == "ddp-n1x2"].reset_index(drop=True)
    assert two["step"].tolist() == list(range(35))
    assert two["phase"].tolist() == ["warmup"] * 5 + ["window"] * 30
    assert two["seconds"][:5].isna().all(), "the warm-up has no time"
    assert two["seconds"][5] == pytest.approx(0.05)
    assert two["seconds"][34] == pytest.approx(1.5)
    assert two["loss"][10] == pytest.approx(6.8), "the mean over ranks, which see other samples"
    assert two["smoothed"][10] == pytest.approx(6.8 + 0.02 * 2), "of five steps, the last one of them"
    assert two["n"].unique() == [3]


def test_long_series_are_thinned_and_keep_their_end(tmp_path):
    cell = cells(work={"global_batch": 16, "steps": 3 * POINTS - 5, "warmup_steps": 5}, vary={"geometry": ["1x1"]})[0]
    table = losses_table(curves_of({"x": [write_run(tmp_path, cell)]}))
    assert POINTS <= len(table) <= POINTS + 1
    assert table["step"].max() == 3 * POINTS - 1


def test_a_series_that_lacks_steps_ends_no_report(runs):
    """The missing step is a finding (figure-not-reproduced); the table ends where the shortest series does."""
    runs[0] = rewrite(runs[0], None, lambda frame: frame[frame["step"] != 34])
    table = losses_table(curves_of(measured_by_cell(runs)))
    assert table.groupby("cell")["step"].max().to_dict() == {"ddp-n1x1": 33, "ddp-n1x2": 34}


@pytest.mark.parametrize("steps_of_b", [30, 240])
def test_equal_losses_lie_on_one_line_whichever_cell_ran_for_longer(tmp_path, steps_of_b):
    """Commands that end by time differ in length: a window of smoothing of each cell's own drew two curves."""
    work = {"global_batch": 16, "warmup_steps": 5}
    groups = {
        name: [write_run(tmp_path / name, cells(work=work | {"steps": steps}, vary={"geometry": ["1x1"]})[0])]
        for name, steps in (("a", 60), ("b", steps_of_b))
    }
    table = losses_table(curves_of(groups)).set_index(["cell", "step"])["smoothed"]
    a, b = table["a"], table["b"]
    assert (a - b).dropna().abs().max() < 1e-12
    if steps_of_b == 240:
        alone = curves_of({"b": groups["b"]})["b"][0]
        assert alone.smoothed[40] == pytest.approx(a[40] + 0.02 * 9), "over 24 steps, where it is compared with none"


@pytest.mark.parametrize("is_older", [False, True])
def test_verify_knows_both_windows_of_smoothing(tmp_path, is_older):
    """Older results have a window of each cell's own; an edited mean has neither."""
    groups = {}
    for geometry, steps in (("1x1", 60), ("1x2", 240)):
        work = {"global_batch": 16, "warmup_steps": 5, "steps": steps}
        run = write_run(tmp_path / "runs", cells(work=work, vary={"geometry": [geometry]})[0])
        groups[run.metrics.cell] = [run]
    curves = curves_of(groups)
    if is_older:
        curves = {cell: curves_of({cell: runs})[cell] for cell, runs in groups.items()}
    table = losses_table(curves)
    table.to_csv(tmp_path / "losses.csv", index=False)
    runs, _ = read_runs(tmp_path)
    assert list(check_losses(tmp_path, runs)) == []
    table.loc[len(table) - 1, "smoothed"] += 0.1
    table.to_csv(tmp_path / "losses.csv", index=False)
    assert "smoothed" in next(map(str, check_losses(tmp_path, runs)))


def test_time_to_a_loss_is_the_time_of_the_first_step_below_it(runs):
    found = times(runs, 6.745)  # smoothed: 7.04 - 0.02 x step, so step 15, the eleventh of the window
    assert found["ddp-n1x1"].seconds.value == pytest.approx(1.1)
    assert found["ddp-n1x2"].seconds.value == pytest.approx(0.55)
    assert found["ddp-n1x1"].seconds.n == 3


def test_the_derived_target_is_what_all_reach(runs):
    found = times(runs)
    assert [t.target for t in found.values()] == [pytest.approx(1.001 * (7.04 - 0.02 * 34))] * 2
    assert all(t.seconds and t.why is None for t in found.values())
    slow = rewrite(runs[-1], None, lambda f: f.assign(loss=f["loss"] + 0.5))
    assert times([*runs[:-1], slow])["ddp-n1x1"].target == pytest.approx(1.001 * (7.54 - 0.02 * 34))


def test_one_diverged_run_does_not_move_the_target(runs):
    before = times(runs)
    flat = rewrite(runs[-1], None, lambda f: f.assign(loss=7.0))
    after = times([*runs[:-1], flat])
    assert [t.target for t in after.values()] == [t.target for t in before.values()]
    assert after["ddp-n1x1"].seconds == before["ddp-n1x1"].seconds
    assert "not reached in 1 of 3 runs" in after["ddp-n1x2"].why


def test_runs_that_all_diverge_have_a_target(runs):
    rising = [rewrite(run, None, lambda f: f.assign(loss=7.0 + 0.02 * f["step"])) for run in runs]
    assert all(t.target and t.target > 7 for t in times(rising).values())


def test_losses_that_become_no_number_have_no_target(runs):
    broken = [rewrite(run, None, lambda f: f.assign(loss=f["loss"].where(f["step"] < 20))) for run in runs[:3]]
    assert {(t.target, t.why) for t in times([*broken, *runs[3:]]).values()} == {(None, "a loss is no number any more")}


def test_a_program_may_print_its_first_loss_later_than_its_first_step(runs):
    sparse = [rewrite(run, None, lambda f: f.assign(loss=f["loss"].where(f["step"] % 3 == 2))) for run in runs]
    assert [t.target for t in times(sparse).values()] == [pytest.approx(7.04 - 0.02 * 34, rel=3e-3)] * 2
    for run, (curve,) in zip(sparse, (curves_of({"x": [run]})["x"] for run in sparse), strict=True):
        steps = [SimpleNamespace(loss=float(loss)) for loss in curve.loss]
        begin = int(curve.timed.argmax())
        raw = SimpleNamespace(warmup=steps[:begin], window=steps[begin:], ends=run.elapsed)
        (other,) = loss_curves({"x": [raw]})["x"]
        assert other.smoothed == pytest.approx(list(curve.smoothed), nan_ok=True)
        assert other.lowest_loss == pytest.approx(float(curve.smoothed[curve.timed].min()))


def test_a_target_that_is_met_in_the_warm_up_has_no_time(runs):
    reached = times(runs, 6.99)["ddp-n1x1"]
    assert (reached.seconds, reached.why) == (None, "reached in the warm-up of 3 of 3 runs")


def test_steps_to_the_target_are_counted(runs):
    assert {t.steps for t in times(runs, 6.745).values()} == {11}


def test_a_loss_that_is_not_reached_has_a_reason_and_no_number(runs, tmp_path):
    slow = rewrite(runs[-1], None, lambda f: f.assign(loss=f["loss"] + 0.5))
    found = times([*runs[:-1], slow], 6.5)
    assert found["ddp-n1x1"].seconds.value == pytest.approx(2.3)
    assert found["ddp-n1x2"].seconds is None
    assert "not reached in 1 of 3 runs: the lowest is 6.86" in found["ddp-n1x2"].why
    failed = times([*runs[:3], write_failure(tmp_path / "x", cells()[1])])
    assert (failed["ddp-n1x2"].seconds, failed["ddp-n1x2"].why) == (None, "no run has numbers")
    assert times([write_failure(tmp_path / "y", cells()[0])])["ddp-n1x1"].target is None


def test_losses_of_other_tokens_have_a_target_of_their_own(tmp_path):
    found = cells(vary={"seq_len": [64, 128]})
    runs = [write_run(tmp_path, c) for c in found]
    runs[0] = rewrite(runs[0], None, lambda f: f.assign(loss=f["loss"] + 1))
    targets = [t.target for t in times(runs).values()]
    assert targets[0] == pytest.approx(targets[1] + 1.001)


def test_cells_have_validation_and_time_to_loss(runs, tmp_path):
    table = cells_table([*runs, write_failure(tmp_path / "x", cells(vary={"geometry": ["1x4"]})[0])], audit("s", runs))
    assert table["validation_loss"][:2].tolist() == pytest.approx([6.4, 6.4])
    assert table["perplexity"][0] == pytest.approx(601.8450378720822)
    assert pd.isna(table["accuracy"]).all(), "tokens have none"
    one, two, failed = table.to_dict("records")
    assert one["time_to_loss_s"] == pytest.approx(2 * two["time_to_loss_s"])
    assert one["time_to_loss_s_low"] <= one["time_to_loss_s"] <= one["time_to_loss_s_high"]
    assert failed["time_to_loss_why"] == "no run has numbers"
    assert pd.isna(failed["time_to_loss_s"])


def test_a_run_without_validation_says_nothing_about_it(runs):
    runs[0] = rewrite(runs[0], lambda d: d.update(validation=None))
    table = cells_table(runs, audit("synthetic", runs))
    assert pd.isna(table["validation_loss"][0])
    assert table["validation_loss"][1] == pytest.approx(6.4)


def test_a_run_that_diverges_leaves_the_smoothed_losses_of_others_alone(runs):
    """All runs are smoothed in one go: what one of them adds up must not remain in the next."""
    diverged = rewrite(runs[1], None, lambda f: f.assign(loss=f["loss"].where(f["step"] < 20, 1e30)))
    groups = measured_by_cell([runs[0], diverged, *runs[2:]])
    together = [curve for curves in curves_of(groups).values() for curve in curves]
    alone = [curves_of({"x": [run]})["x"][0] for of_cell in groups.values() for run in of_cell]
    assert all((a.smoothed == b.smoothed).all() for a, b in zip(together, alone, strict=True))
    assert together[2].smoothed[-1] == pytest.approx(7.04 - 0.02 * 34)


def test_cells_without_numbers_have_no_curve(runs, tmp_path):
    assert curves_of({"x": []}) == {"x": []}
    assert losses_table(curves_of({"x": []})).empty
    assert [len(curves) for curves in curves_of({"x": [], "y": runs[:2], "z": []}).values()] == [0, 2, 0]
