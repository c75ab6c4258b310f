"""Each check finds its fault in runs that are otherwise sound, and nothing in sound ones."""

import math
import re

import pytest
from synthetic import cells, rewrite, write_failure, write_run

from scaleproof.conclude.checks.all_checks import audit, check_names
from scaleproof.conclude.checks.copies import of_all_runs
from scaleproof.ground.findings.registry import of_run, of_runs, of_timed
from scaleproof.ground.records.run import METRICS, DamagedMetrics, read_run


@pytest.fixture
def sound(tmp_path):
    one, two = cells()
    return [write_run(tmp_path, cell, k, t) for cell, t in ((one, 0.1), (two, 0.06)) for k in (1, 2, 3)]


def found(runs):
    return {f.code: f for f in audit("synthetic", runs).findings}


def test_sound_runs_have_no_findings(sound):
    result = audit("synthetic", sound)
    assert result.findings == []
    assert len(result.checks) == len(check_names(of_run, of_runs, of_all_runs, of_timed)) == len(set(result.checks))


def set_in(*path):
    """A change of the metrics: the value at `path[:-1]` becomes `path[-1]`, or what it returns for the old value."""

    def change(data):
        for key in path[:-2]:
            data = data[key]
        data[path[-2]] = path[-1](data[path[-2]]) if callable(path[-1]) else path[-1]

    return change


def by_turns(frame):
    """Each rank is slow in every other step; both need the same time for all of them."""
    slow = (frame["step"] + frame["rank"]) % 2 == 0
    return frame.assign(step_time_s=frame["step_time_s"].mean() * slow.map({True: 1.2, False: 0.8}))


def slow(data):
    """A run whose clock ran three times as long: every figure agrees, but not with the other runs of the cell."""
    data["window"]["tokens_per_sec_global"] /= 3


HOT = {"throttled": {"power_cap": 1.0, "thermal_hardware": 0.4}, "sm_clock_mhz_mean": 1200.0}
FAULTS = {
    "ledger-differs-from-plan": (set_in("ledger", "consumed_sha256", "f" * 64), None, "invalid"),
    "tokens-differ-from-batches": (set_in("window", "tokens_processed_global", lambda n: n * 2), None, "invalid"),
    "rate-times-time": (set_in("window", "tokens_per_sec_global", lambda r: r * 4), None, "invalid"),
    "figure-not-reproduced": (set_in("window", "step_time_mean_sec", lambda s: s * 5.26), None, "invalid"),
    "ranks-slow-by-turns": (None, by_turns, "suspect"),
    "data-wait": (set_in("window", "dataload_time_mean_sec", lambda s: s * 20), None, "suspect"),
    "window-short": (set_in("window", "wall_time_sec", 0.2), None, "suspect"),
    "text-damaged": (set_in("data", "replaced_characters", 3), None, "note"),
    "traffic-differs": (set_in("collectives", "allreduce", "bytes", lambda b: 2 * b), None, "invalid"),
    "precision-differs": (set_in("dtypes", "products", "bfloat16"), None, "invalid"),
    "updates-differ-from-steps": (set_in("window", "skipped_optimizer_steps", -30), None, "invalid"),
    "utilization-impossible": (
        set_in("utilization", lambda u: u | {"mfu": 1.2, "peak_flops_per_sec": 1e12, "peak_source": "x"}),
        None,
        "invalid",
    ),
    "steps-do-not-fill-window": (None, lambda f: f.assign(step_time_s=f["step_time_s"] * 0.9), "invalid"),
    "losses-differ": (None, lambda f: f.assign(loss=f["loss"] * 1.001), "invalid"),
    "validation-differs-from-plan": (set_in("validation", "samples_sha256", "f" * 64), None, "invalid"),
    "learns-differently": (set_in("validation", "loss", lambda x: 1.01 * x), None, "suspect"),
    "machine-busy": (set_in("host", "cpu_busy_before", 0.6), None, "suspect"),
    "cores-shared": (set_in("ranks", 1, "cores", [0]), None, "suspect"),
    "run-stands-out": (slow, None, "suspect"),
    "device-throttled": (set_in("ranks", 0, lambda r: r | {"gpus": [HOT]}), None, "suspect"),
    "provenance-differs": (set_in("env", "torch_version", "2"), None, "suspect"),
}


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_is_found_and_named(sound, code):
    change_metrics, change_steps, severity = FAULTS[code]
    sound[-1] = rewrite(sound[-1], change_metrics, change_steps)
    finding = found(sound)[code]
    assert finding.severity == severity
    assert "ddp-n1x2" in finding.cells
    assert finding.evidence
    assert finding.advice


@pytest.mark.fault("half of a cell's runs are far from their median", "a finding on the cell, none on single runs")
@pytest.mark.parametrize(
    ("factors", "code"),
    [((1, 3, 1 / 3), "runs-far-apart"), ((1, 1, 1 / 3), "run-stands-out"), ((1, 1.01, 0.99), None)],
)
def test_half_of_the_runs_or_more_are_a_cell_without_a_usual_rate(sound, factors, code):
    for place, factor in zip((3, 4, 5), factors, strict=True):  # the runs of ddp-n1x2
        change = set_in("window", "tokens_per_sec_global", lambda rate, factor=factor: factor * rate)
        sound[place] = rewrite(sound[place], change)
    named = {code: finding for code, finding in found(sound).items() if code in ("runs-far-apart", "run-stands-out")}
    assert {*named} == ({code} if code else set())
    if code == "runs-far-apart":
        assert (len(named[code].runs), named[code].severity, named[code].cells) == (3, "suspect", ["ddp-n1x2"])
        assert named[code].evidence.startswith("rates of ")


def test_power_caps_are_one_note_of_a_campaign(sound):
    capped = HOT | {"throttled": {"power_cap": 1.0, "thermal_hardware": 0.01}}
    change = set_in("ranks", 0, lambda rank: rank | {"gpus": [capped]})
    runs = [rewrite(run, change) for run in sound]
    (finding,) = audit("synthetic", runs).findings
    assert (finding.code, finding.severity, len(finding.runs)) == ("device-throttled", "note", len(runs))
    assert finding.evidence == "devices of 6 of 6 runs were at their power cap in the window"


@pytest.mark.parametrize(("precision", "severity"), [("fp32", "invalid"), ("fp16", "suspect")])
def test_only_fp16_may_skip_an_update(sound, precision, severity):
    def skipped(data):
        data["window"].update(skipped_optimizer_steps=3, optimizer_steps=27)
        data["training_config"]["precision"] = precision

    assert found([rewrite(sound[-1], skipped)])["updates-differ-from-steps"].severity == severity


@pytest.mark.parametrize(
    ("clock", "share", "flagged"),
    [("monotonic", 0.03, True), ("cuda_events", 0.03, False), ("cuda_events", 0.06, True)],
)
def test_a_gpu_works_on_while_its_host_waits(sound, clock, share, flagged):
    def waiting(data):
        window = data["window"]
        window.update(clock=clock, dataload_time_mean_sec=share * window["step_time_mean_sec"])

    sound[-1] = rewrite(sound[-1], waiting)
    assert ("data-wait" in found(sound)) == flagged


@pytest.mark.parametrize(("part", "flagged"), [(0.0, True), (0.99, False), (1.1, True)])
def test_ranks_wait_for_data_within_the_window(sound, part, flagged):
    def waiting(frame):
        return frame.assign(data_wait_s=part * frame["step_time_s"])

    wall_s = float(sound[-1].window["step_time_s"].sum())
    sound[-1] = rewrite(sound[-1], set_in("window", "wall_time_sec", wall_s), waiting)
    assert ("steps-do-not-fill-window" in found(sound)) == flagged


@pytest.mark.parametrize(("lost_s", "flagged"), [(0.015, False), (0.15, True)])
def test_a_rank_may_lose_its_processor_once(sound, lost_s, flagged):
    """Two ranks, one each, at different steps of 5 ms; a scheduler may keep a processor for a while."""
    window = sound[-1].window
    last = int(window["step"].max())
    wall_s = 0.005 * len(set(window["step"])) + lost_s

    def disturbed(frame):
        loses = (frame["rank"] < 2) & (frame["step"] == last - frame["rank"])
        return frame.assign(step_time_s=0.005 + loses * lost_s)

    sound[-1] = rewrite(sound[-1], set_in("window", "wall_time_sec", wall_s), disturbed)
    assert ("ranks-slow-by-turns" in found(sound)) == flagged


def test_the_plan_is_made_anew_not_believed(sound):
    """A trainer that reports its wrong plan as planned does not get away with it."""
    wrong = "f" * 64
    sound[0] = rewrite(sound[0], lambda d: d["ledger"].update(consumed_sha256=wrong, planned_sha256=wrong))
    assert "ledger-differs-from-plan" in found(sound)


def test_the_first_epoch_of_another_corpus_is_not_compared(sound):
    sound[-1] = rewrite(sound[-1], set_in("data", "train_sha256", "0" * 64), lambda f: f.assign(loss=f["loss"] + 1))
    assert "losses-differ" not in found(sound)


def test_a_summary_that_is_not_the_series_or_no_number_is_found(sound):
    runs = [*sound[:-1], rewrite(sound[-1], set_in("window", "train_loss_last", 1.0))]
    assert "figure-not-reproduced" in found(runs)
    sound[0] = rewrite(sound[0], lambda d: d.update(total_wall_time_sec=0.5))
    assert "less than its window" in found(sound)["figure-not-reproduced"].evidence
    path = sound[-1].folder / METRICS
    path.write_text(re.sub(r'("tokens_per_sec_global": )[0-9.]+', r"\1NaN", path.read_text()))
    with pytest.raises(DamagedMetrics, match="tokens_per_sec_global cannot be nan; allowed: a finite number"):
        read_run(path.parent)


def test_rounding_is_no_fault(sound):
    def summary(data):
        for name in ("train_loss_first", "train_loss_last", "train_loss_avg_global"):
            data["window"][name] *= 1 + 8e-6

    sound[-1] = rewrite(sound[-1], summary, lambda f: f.assign(loss=f["loss"] * (1 + 8e-6)))
    assert found(sound) == {}


def test_what_rounding_makes_of_a_validation_loss_is_no_fault(sound):
    def rounded(data):
        loss = 1.001 * data["validation"]["loss"]
        data["validation"] |= {"loss": loss, "perplexity": math.exp(loss)}

    sound[-1] = rewrite(sound[-1], rounded)
    assert found(sound) == {}


def test_a_run_without_validation_is_not_judged_by_it(sound):
    sound[0] = rewrite(sound[0], set_in("validation", None))
    sound[-1] = rewrite(sound[-1], set_in("validation", None))
    assert found(sound) == {}


def test_a_loss_near_zero_makes_no_difference_large(sound):
    """Classifiers get there: 8e-6 nats are 0.1 % of 0.01, and nothing."""

    def moved(run, by):
        def summary(data):
            data["window"]["train_loss_first"] += by
            data["window"]["train_loss_last"] += by
            data["window"]["train_loss_avg_global"] += by

        return rewrite(run, summary, lambda f: f.assign(loss=f["loss"] + by))

    runs = [moved(run, -6.29) for run in sound]
    runs[-1] = moved(runs[-1], 8e-6)
    assert found(runs) == {}
    runs[-1] = moved(runs[-1], 1e-3)
    assert "losses-differ" in found(runs)


def test_a_missing_step_is_no_agreement(sound):
    sound[-1] = rewrite(sound[-1], None, lambda f: f[f["step"] != 34])
    assert "losses-differ" in found(sound)


def test_a_single_run_is_noted(tmp_path):
    assert found([write_run(tmp_path, cells()[0])])["single-run"].severity == "note"


def test_failed_runs_are_not_checked(tmp_path, sound):
    findings = audit("synthetic", [*sound, write_failure(tmp_path / "x", cells()[0])]).findings
    assert [(f.code, f.severity) for f in findings] == [("repeat-failed", "note")]


def test_the_gravest_come_first(sound):
    sound[0] = rewrite(sound[0], set_in("host", "cpu_busy_before", 0.6))
    sound[1] = rewrite(sound[1], set_in("window", "tokens_per_sec_global", 1.0))
    severities = [f.severity for f in audit("synthetic", sound).findings]
    assert severities == sorted(severities, key=["invalid", "suspect", "note"].index)


def test_figures_of_long_windows_are_computed_again_as_well(tmp_path):
    """A figure that is missing is named, too: runs of these tests have no 99 % quantile."""
    cell = cells(work={"global_batch": 16, "steps": 2100, "warmup_steps": 5}, vary={"geometry": ["1x1"]})[0]
    window = {"step_time_p95_sec": 0.5}
    wrong = rewrite(write_run(tmp_path, cell), lambda data: data["window"].update(window))
    evidence = found([wrong])["figure-not-reproduced"].evidence
    assert re.fullmatch(
        r"window.step_time_p95_s is 0.5, computed again 0.10\d+; "
        r"window.step_time_p99_s is null, computed again 0.10\d+",
        evidence,
    )
