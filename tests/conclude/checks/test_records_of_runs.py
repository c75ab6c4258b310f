"""Replicas, series, copies, names of cells, missing repeats, energy, peaks, graphs, biased losses, arms of pairs."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from explained_findings import codes
from sound_gpu_records import on_gpus
from sound_records import complete, sealed, write_reference
from synthetic import cells, write_run

from scaleproof.conclude.analysis.ab_comparison import Pair
from scaleproof.conclude.analysis.campaign_findings import campaign_findings
from scaleproof.conclude.checks.all_checks import audit
from scaleproof.conclude.checks.clock import BUDGET_S, BUDGET_SHARE
from scaleproof.conclude.checks.step_series import find_shift
from scaleproof.ground.records.run import COMPLETE, LAUNCHER, METRICS, MeasuredRun, read_run
from scaleproof.ground.records.steps import loss_series


def run_of(tmp_path, change=lambda data: None, steps=None, **keys) -> MeasuredRun:
    """A complete run of the last cell of a campaign of two devices, changed."""
    execution = {"strategy": "ddp"} | keys
    cell = cells(execution=execution, vary={"geometry": ["1x2"]})[-1]
    return complete(write_run(tmp_path / "results/x/runs", cell, 1, 0.06), None, change, steps)


def weights(*checksums):
    def change(data):
        for part, checksum in zip(data["census"], checksums, strict=True):
            part["weights"] = checksum

    return change


def on_other_devices(data):
    weights("aa", "bb")(data)
    data["ranks"][1]["device_name"] = "another"


def on_nodes(*models):
    """Each rank on a node of its own, with these models of CPU; None: the node does not say."""

    def change(data):
        weights("aa", "bb")(data)
        for number, rank in enumerate(data["ranks"]):
            rank["host"] = f"n{number}.cluster"
        nodes = {f"n{number}": {"cpu_model": model} for number, model in enumerate(models) if model}
        data["hardware"] |= {"nodes": nodes} if nodes else {}

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (weights("aa", "aa"), {}),
        (weights(None, None), {}),
        (weights("aa", "bb"), {"replicas-differ": "invalid"}),
        (on_other_devices, {}),
        (on_nodes("one", "one"), {"replicas-differ": "invalid"}),
        (on_nodes("one", "another"), {}),
        (on_nodes(None, None), {}),
    ],
)
def test_replicas_that_drifted_apart_are_named(sound, change, expected):
    sound[-1] = sealed(sound[-1], change)
    assert {code: s for code, s in codes(sound).items() if code == "replicas-differ"} == expected


def without_the_slow_steps(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[~frame["step"].isin([30, 31])]


def one_step_earlier(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(phase=frame["phase"].where(frame["step"] != 4, "window"))


def one_step_twice(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(step=frame["step"].where(frame["step"] != 33, 34))


@pytest.mark.parametrize("change", [without_the_slow_steps, one_step_earlier, one_step_twice])
def test_a_series_that_is_not_whole_is_named(tmp_path, change):
    assert codes([run_of(tmp_path, steps=change)])["series-incomplete"] == "invalid"


def use(share):
    """Every rank used this share of its core."""

    def change(data):
        for rank in data["ranks"]:
            rank["cpu_s"] = share * (rank["window_end_monotonic_s"] - rank["window_start_monotonic_s"])

    return change


def test_a_step_that_was_not_timed_is_named(tmp_path):
    def last_step(frame):
        return frame.assign(step_time_s=frame["step_time_s"].where(frame["step"] != 34, 0.0))

    def short_step(frame):
        return frame.assign(step_time_s=frame["step_time_s"] * np.where(frame["step"] == 34, 0.4, 1.0))

    assert codes([run_of(tmp_path / "a", steps=last_step)])["step-too-short"] == "invalid"
    assert "step-too-short" not in codes([run_of(tmp_path / "b", steps=short_step)])


@pytest.mark.parametrize(("used", "named"), [(0.9, True), (0.1, False)])
def test_a_step_among_starved_ones_is_not_too_short(tmp_path, used, named):
    """The machine gave the ranks a tenth of their cores, but in one step."""

    def starved(frame):
        return frame.assign(step_time_s=frame["step_time_s"] * np.where(frame["step"] == 20, 0.08, 1.0))

    run = sealed(run_of(tmp_path, steps=starved), use(used))
    assert ("step-too-short" in codes([run])) == named


def test_steps_that_change_their_length_for_good_are_named(tmp_path):
    def slower(by):
        return lambda frame: frame.assign(step_time_s=frame["step_time_s"] * np.where(frame["step"] >= 20, by, 1.0))

    assert codes([run_of(tmp_path / "a", steps=slower(2.0))])["steps-shift"] == "suspect"
    assert "steps-shift" not in codes([run_of(tmp_path / "b", steps=slower(1.4))])


@pytest.mark.parametrize(("used", "of_the_machine"), [(1.0, True), (0.6, False)])
def test_a_shift_with_cores_in_full_use_is_the_machines(tmp_path, used, of_the_machine):
    def slower(frame):
        return frame.assign(step_time_s=frame["step_time_s"] * np.where(frame["step"] >= 20, 2.0, 1.0))

    run = sealed(run_of(tmp_path, steps=slower), use(used))
    (evidence,) = [f.evidence for f in audit("x", [run]).findings if f.code == "steps-shift"]
    assert ("most likely the machine changed its speed, not the trainer" in evidence) == of_the_machine


def test_noise_shifts_nothing():
    chance = np.random.default_rng(0)
    for _ in range(2000):
        slow = np.where(chance.random(40) < 0.2, 2.5, 1)
        assert find_shift(chance.lognormal(0, 0.2, 40) * slow) is None
    assert find_shift(np.linspace(1, 2, 40)) is None, "a machine that warms up has no step"
    assert find_shift(np.array([1.0] * 25 + [2.0] * 15)) == 25


def copied(source: MeasuredRun, to: MeasuredRun, scale: float, waits: float) -> MeasuredRun:
    """`to` with the times of `source` times `scale`, and its waits times `waits`; all figures are computed again."""
    frame = pd.DataFrame(source.steps)
    frame["step_time_s"] *= scale
    frame["data_wait_s"] *= waits
    return sealed(to, lambda data: None, lambda old: frame)


@pytest.mark.parametrize(("scale", "waits"), [(1.01, 0.99), (1.01, 1.0), (1.0, 1.02)])
def test_a_copy_under_another_name_is_named(sound, scale, waits):
    sound[-1] = copied(sound[-2], sound[-1], scale, waits)
    findings = [f for f in audit("x", sound).findings if f.code == "run-copied"]
    assert [f.runs for f in findings] == [[sound[-2].name, sound[-1].name]]


def test_cells_of_one_configuration_are_named(sound):
    def as_the_other(data):
        other = json.loads((sound[0].folder / METRICS).read_text())
        data |= {name: other[name] for name in ("config", "fingerprint")}

    small = cells(vary={"geometry": ["1x2"], "micro_batch": [4, 8]})
    runs = [write_run(sound[0].folder.parents[3] / "y", cell, 1) for cell in small]
    assert "cells-alike" not in codes(runs)

    def dropped(data):
        data |= {name: getattr(runs[0].metrics, name) for name in ("config", "fingerprint")}

    assert codes([runs[0], sealed(runs[1], dropped)])["cells-alike"] == "suspect"
    searched = json.loads((runs[1].folder / METRICS).read_text())
    searched["cell"] = "ddp-n1x2-mblargest"
    (runs[1].folder / METRICS).write_text(json.dumps(searched))
    assert "cells-alike" not in codes([runs[0], read_run(runs[1].folder)]), "trials came to the same micro-batch"
    assert codes([*sound[:-1], sealed(sound[-1], as_the_other)])["cells-alike"] == "suspect"


def test_a_repeat_that_is_not_there_is_noted(sound):
    assert codes([*sound[:4], sound[5]]) == {}, "its folder is there: something else says what is wrong with it"
    shutil.rmtree(sound[4].folder)
    assert codes([*sound[:4], sound[5]]) == {"repeat-missing": "note"}
    shutil.rmtree(sound[5].folder)
    assert "repeat-missing" not in codes(sound[:4]), "one run that was picked out"


def test_an_arm_of_a_pair_is_no_repeat_that_is_missing(tmp_path):
    """A pair of A and A has no B of its number."""
    a, b = cells()
    arms = [(1, "a", a), (1, "b", b), (2, "a", a), (2, "b", b), (3, "a", a), (3, "b", a)]
    runs = []
    for k, arm, cell in arms:
        written = write_run(tmp_path / "written" / arm, cell, k)
        folder = tmp_path / f"results/x/compare/null/pair{k}/{arm}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        runs.append(read_run(written.folder.rename(folder)))
    assert "repeat-missing" not in codes(runs)


def gpu(**fields):
    return lambda data: [record["gpus"][0].update(fields) for record in data["ranks"]]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda data: None, {}),
        (gpu(power_w_mean=600.0), {"energy-differs": "invalid"}),
        (gpu(energy_integral_j=1e6), {"energy-differs": "invalid"}),
        (gpu(power_w_mean=600.0, samples=4), {}),
    ],
)
def test_energy_is_that_of_the_window(tmp_path, change, expected):
    run = complete(write_run(tmp_path / "results/x/runs", cells()[1], 1, 0.1))
    run = sealed(sealed(run, on_gpus(run)), change)
    named = codes([run])
    assert {code: named[code] for code in named if code == "energy-differs"} == expected


def test_another_peak_than_its_source_has_is_named(tmp_path):
    run = complete(write_run(tmp_path / "results/x/runs", cells()[1], 1, 0.1))
    run = sealed(run, on_gpus(run))

    def doubled(source):
        def change(data):
            use = data["utilization"]
            use |= {"peak_flops_per_sec": 2 * use["peak_flops_per_sec"], "peak_source": source or use["peak_source"]}
            use |= {name: use[name] / 2 for name in ("mfu", "mfu_causal")}

        return change

    assert "figure-not-reproduced" in codes([sealed(run, doubled(None))])
    again = sealed(run, doubled(None))
    assert "figure-not-reproduced" not in codes([sealed(again, lambda d: d["utilization"].update(peak_source="new"))])


def alone(share):
    """The only rank used this share of its core."""

    def change(data):
        (record,) = data["ranks"]
        used = share * (record["window_end_monotonic_s"] - record["window_start_monotonic_s"])
        record |= {"cpu_s": used, "cpu_load": share, "cores_busy_s": used, "machine_busy_s": used}

    return change


def test_a_rank_that_waits_for_nobody_is_not_idle(sound):
    assert codes([sealed(sound[0], alone(0.6)), *sound[1:]]) == {"process-idle": "suspect"}
    assert codes([sealed(sound[0], alone(0.8)), *sound[1:]]) == {}

    def stolen(data):
        alone(0.6)(data)
        data["ranks"][0]["machine_steal_s"] = 0.4 * 3.0 * data["ranks"][0]["machine_cpus"]

    assert "process-idle" not in codes([sealed(sound[0], stolen), *sound[1:]]), "its host took the time"


def test_a_clock_that_is_a_little_off_is_named_on_a_quiet_machine(sound):
    def off(seconds, delay):
        def change(data):
            for record in data["ranks"]:
                record["run_delay_s"] = delay
                for clock in ("epoch", "monotonic"):
                    record[f"window_end_{clock}_s"] += seconds
                length = record["window_end_monotonic_s"] - record["window_start_monotonic_s"]
                record["cpu_load"] = record["cpu_s"] / length

        return change

    assert codes([*sound[:-1], sealed(sound[-1], off(0.04, 0.001))]) == {"clock-differs": "invalid"}
    assert codes([*sound[:-1], sealed(sound[-1], off(0.04, 0.1))]) == {}, "a rank may have waited for its core there"
    assert codes([*sound[:-1], sealed(sound[-1], off(0.01, 0.001))]) == {}


@pytest.mark.parametrize(("starved", "named"), [(1.0, True), (10.0, False)])
def test_what_lies_between_the_window_and_the_validation_is_slowed_as_the_steps_are(tmp_path, starved, named):
    def slower(frame):
        return frame.assign(step_time_s=frame["step_time_s"] * np.where(frame["step"] % 5, starved, 1.0))

    def later(data):
        for rank in data["ranks"]:
            rank["closing_monotonic_s"] += BUDGET_SHARE * data["window"]["wall_time_sec"] + 3 * BUDGET_S

    assert ("clock-differs" in codes([sealed(run_of(tmp_path, steps=slower), later)])) == named


@pytest.mark.parametrize(("share", "named"), [(0.02, True), (0.95, False)])
def test_ranks_that_wait_for_cores_all_the_time_wait_before_the_validation_too(tmp_path, share, named):
    def later(data):
        for rank in data["ranks"]:
            rank["run_delay_s"] = share * data["window"]["wall_time_sec"]
            rank["closing_monotonic_s"] += BUDGET_SHARE * data["window"]["wall_time_sec"] + 3 * BUDGET_S

    assert ("clock-differs" in codes([sealed(run_of(tmp_path), later)])) == named


def test_a_compiled_step_is_another_graph_than_the_probed_one(tmp_path):
    def another_graph(data):
        data["census"][0]["nodes_in_window"] = 1

    run = run_of(tmp_path, compile=True)
    assert "operations-differ" not in codes([sealed(run, another_graph)])
    gpus = complete(write_run(tmp_path / "gpus/x/runs", cells()[1], 1, 0.1))
    gpus = sealed(sealed(gpus, on_gpus(gpus)), another_graph)
    assert codes([gpus])["operations-differ"] == "suspect", "nobody has looked at sound runs there"


def test_losses_in_low_precision_have_no_bias(tmp_path):
    def named(bias, noise, steps=30):
        work = {"global_batch": 16, "steps": steps, "warmup_steps": 5}
        cell = cells(execution={"precision": "bf16"}, vary={"geometry": ["1x2"]}, work=work)[0]
        run = complete(write_run(tmp_path / f"{bias}-{noise}-{steps}" / "results/x/runs", cell, 1, 0.06))
        losses = loss_series(run.steps)
        errors = np.random.default_rng(1).standard_normal(len(losses))
        write_reference(run, losses=(losses * (1 + bias + noise * (errors - errors.mean()))).tolist())
        return codes([run]).get("losses-differ-from-reference")

    assert named(1.5e-3, 5e-4) == "suspect"
    assert named(5e-4, 1e-5) is None, "rounding may have a little"
    assert named(9e-4, 1e-3) is None, "of that noise it is chance"
    assert named(1.5e-3, 5e-4, steps=3) is None, "too few"


def test_updates_that_fp16_skipped_leave_no_rates_to_check(tmp_path):
    """ZeRO's calls, two a step, of half of the steps are as many as those of all steps, one a step."""

    def other_rates(skipped):
        def change(data):
            data["census"][0]["updates_in_window"]["weighted_rate"] *= 1.3
            data["window"]["skipped_optimizer_steps"] = skipped

        return change

    run = run_of(tmp_path)
    assert "settings-differ" in codes([sealed(run, other_rates(0))])
    assert "settings-differ" not in codes([sealed(run, other_rates(12))])


def test_arms_of_a_comparison_are_two(tmp_path):
    def findings(*names, null=("a", "a")):
        of_name = {"a": cells()[0], "b": cells()[1], "c": cells(execution={"strategy": "fsdp"})[0]}

        def run(name, folder):
            return write_run(tmp_path / "-".join((*names, *null)) / folder, of_name[name], 1)

        pairs = [
            Pair(False, run(name, f"{place}/a"), run(other, f"{place}/b")) for place, (name, other) in enumerate(names)
        ]
        pairs.append(Pair(True, run(null[0], "null/a"), run(null[1], "null/b")))
        result = campaign_findings("x", [run("a", "own")], (), {"buckets": pairs})
        assert "pairs_have_both_arms" in result.checks
        return [(f.severity, f.cells) for f in result.of_comparison("buckets") if f.code == "arms-mixed-up"]

    assert findings("ab", "ab") == []
    assert findings("ab", "aa") == [("invalid", ["buckets"])]
    assert findings("ab", null="ab") == [("invalid", ["buckets"])]
    assert findings("ab", "ac") == [("invalid", ["buckets"])]


def test_a_record_without_the_census_that_others_have_is_unusable(sound):
    """A census that was taken out would leave the checks of it with nothing to look at."""
    assert "record-unusable" not in codes(sound)
    bare = sealed(sound[0], lambda data: data.update(census=None))
    unusable = [f for f in audit("x", [bare, *sound[1:]]).findings if f.code == "record-unusable"]
    assert [(f.severity, f.runs) for f in unusable] == [("invalid", [bare.name])]
    assert "no census" in unusable[0].evidence
    of_another_version = sealed(sound[0], lambda data: data.update(census=None, schema_version="3.1"))
    assert "record-unusable" not in codes([of_another_version])


def test_a_record_whose_seal_was_taken_away_is_unusable(tmp_path):
    run = run_of(tmp_path)
    assert "record-unusable" not in codes([run])
    (run.folder / COMPLETE).write_text("[Rank 0] RUN_COMPLETE world_size=2\n")
    (run.folder / LAUNCHER).unlink()
    assert "launcher_metadata.json is missing" in audit("x", [run]).findings[0].evidence


def test_a_run_in_the_folder_of_another_cell_is_named(tmp_path):
    """Anybody may copy a cell under a name of his own, but not under that of another cell."""
    one, two = cells()[:2]
    run = write_run(tmp_path / "runs", one)
    assert "record-edited" not in codes([run])
    for name, is_named in ((two.slug, True), ("monday", False), (f"{one.slug}-monday", False)):
        moved = shutil.copytree(run.folder, tmp_path / "runs" / name / "rep1")
        assert ("record-edited" in codes([read_run(moved)])) is is_named


def test_a_damaged_run_is_named_where_its_path_begins_in_the_folder_of_its_cell(tmp_path, monkeypatch):
    folder = run_of(tmp_path).folder
    (folder / "steps.csv").write_text("phase\n")
    monkeypatch.chdir(folder.parent)  # a path of fewer parts than CAMPAIGN/runs/CELL/rep1
    assert [*codes([read_run(Path(folder.name))])] == ["record-unusable"]
