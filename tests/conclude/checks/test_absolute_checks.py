"""Checks against something absolute: other clocks, a replay, a census, the files as they were written."""

import json
from pathlib import Path

import numpy as np
import pytest
from explained_findings import codes
from sound_records import GRADIENT_NORM, begin_at, census_of, sealed, write_complete, write_reference
from synthetic import cells, rewrite, write_run

from scaleproof.conclude.checks.all_checks import audit
from scaleproof.conclude.checks.step_series import find_period
from scaleproof.ground.records.run import BENCHMARK, METRICS, MeasuredRun
from scaleproof.ground.records.steps import loss_series
from scaleproof.measure.reference.schema import FOLDER


def test_sound_runs_are_not_accused(sound):
    assert codes(sound) == {}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda total: f"{total + 2:.4f}", {}),
        (lambda total: f"{total + 250:.4f}", {}),  # a slow disk below Python
        (lambda total: f"{total - 0.5:.4f}", {}),
        (lambda total: f"{total - 3:.4f}", {"clock-differs": "invalid"}),
        (lambda total: f"{total + 400:.4f}", {"clock-differs": "invalid"}),
        (lambda total: "NA", {}),
    ],
)
def test_the_time_of_a_run_is_held_against_that_of_its_job(sound, change, expected):
    """By Snakemake's benchmark, where there is one."""
    run = sound[0]
    path = run.folder / BENCHMARK
    path.write_text(f"s\th:m:s\n{change(run.metrics.total_wall_time_s)}\t-\n")
    assert codes(sound) == expected


def census(*path):
    """A change of every rank's census; of rank 1 alone where the path begins with 1."""
    only, path = (path[0], path[1:]) if isinstance(path[0], int) else (None, path)

    def change(data):
        for rank, part in enumerate(data["census"]):
            if only in (None, rank) and callable(path[0]):
                path[0](part)
            elif only in (None, rank):
                for key in path[:-2]:
                    part = part[key]
                part[path[-2]] = path[-1](part[path[-2]]) if callable(path[-1]) else path[-1]

    return change


def sleeping(census):
    for when in ("before", "after"):
        census[when]["idle_s"] = 0.02


def sleeping_on_a_machine_that_loses(steal_s):
    """Rank 1 sleeps in both probed steps, of 60 ms each, on a machine that lost some seconds to its host."""

    def change(data):
        census(1, sleeping)(data)
        rank(1, machine_steal_s=steal_s)(data)

    return change


def rank(number, **fields):
    def change(data):
        record = data["ranks"][number]
        record |= {name: value(record[name]) if callable(value) else value for name, value in fields.items()}

    return change


def clock_of_window(factor):
    """Every time of the window by a clock that runs at another speed."""

    def change(data):
        data["window"]["wall_time_sec"] *= factor

    return change


EVENTS = ("window_start", "window_end", "closing")


def stopped_between_barrier_and_window(data):
    for rank in data["ranks"]:
        names = [f"{event}_{clock}_s" for clock in ("epoch", "monotonic") for event in EVENTS]
        rank |= {name: rank[name] + 0.4 for name in names}
    data["total_wall_time_sec"] += 0.4


TWICE_THE_GRADIENT = {"gradient_norm": 2 * GRADIENT_NORM, "scaled_by": 0.5 / GRADIENT_NORM}


def decaying(groups):
    """The first group has 32 elements of the second."""
    return [group | {"elements": group["elements"] + more} for group, more in zip(groups, (32, -32), strict=True)]


def written_slowly(data):
    data["closing_s"] += 3
    data["total_wall_time_sec"] += 3


def scaled(section, name, factor=1.004):
    def change(data):
        data[section][name] *= factor

    return change


def twice_forward(attention):
    return {name: calls if name.endswith("_backward") else 2 * calls for name, calls in attention.items()}


def half_the_state(data):
    for part in (data["memory"], *data["ranks"]):
        part["state_bytes"] //= 2


def other_validation(data):
    data["validation"] |= {"loss": 6.401, "perplexity": float(np.exp(6.401))}


FAULTS = {
    "clock of the window": (clock_of_window(0.8), "clock-differs"),
    "total": (lambda d: d.update(total_wall_time_sec=d["total_wall_time_sec"] + 3), "figure-not-reproduced"),
    "time around the window": (rank(0, closing_monotonic_s=lambda t: t + 1), "clock-differs"),
    "launcher's clock": (lambda d: d["second_clock"].update(window_s=9.0), "clock-differs"),
    "start": (rank(1, window_start_epoch_s=lambda t: t + 0.4), "ranks-start-apart"),
    "parameters": (census(1, "parameters", lambda n: n - 5), "model-differs"),
    "frozen": (census("trainable", lambda n: n - 5), "model-differs"),
    "half the work": (census("before", "linear_flops", lambda n: n // 2), "operations-differ"),
    "less work later": (census("after", "linear_flops", lambda n: n // 2), "operations-differ"),
    "eager": (census("before", lambda s: s | {"attention": {}, "batched_flops": 99}), "operations-differ"),
    "recomputed": (census("before", "attention", twice_forward), "operations-differ"),
    "one rank does otherwise": (census(1, "before", "products", "bfloat16"), "operations-differ"),
    "profiler": (census("modes_in_window", 1), "operations-differ"),
    "torch's profiler": (census(1, "slowed_by", ["torch's profiler"]), "operations-differ"),
    "another graph in the window": (census(1, "nodes_in_window", lambda n: n + 30), "operations-differ"),
    "another graph after the window": (census("after", "nodes", 80), "operations-differ"),
    "nobody counted the graph": (census("nodes_in_window", None), None),
    "another update rule": (census("before", "groups", 0, "variants", ["amsgrad"]), "settings-differ"),
    "threads": (census(1, "threads", 2), "settings-differ"),
    "cores": (census(1, "cores", [0, 1]), "settings-differ"),
    "learning rate": (census("before", "groups", 0, "learning_rate", 0.0), "settings-differ"),
    "weight decay": (census("before", "groups", 0, "weight_decay", 0.0), "settings-differ"),
    "not fused": (census("before", "updates", {}), "settings-differ"),
    "compiled": (census("compiled_graphs", 3), "settings-differ"),
    "engine": (census("engine", {"zero_stage": 1}), "settings-differ"),
    "tokens": (census("before", "tokens_checksum", "ff"), "tokens-differ-from-reference"),
    "tokens of the window": (census(1, "tokens_in_window", "1"), "tokens-differ-from-reference"),
    "nobody noted the tokens of the window": (census("tokens_in_window", None), None),
    "other weights": (census(1, "first_losses", 1, lambda x: 1.0001 * x), "losses-differ-from-reference"),
    "one sample was scored first": (census("first_losses", lambda losses: losses[:1]), None),
    "nobody looked at the model as built": (census("first_losses", None), None),
    "gradients": (census("before", lambda s: s | TWICE_THE_GRADIENT), "losses-differ-from-reference"),
    "not clipped": (census(1, "after", "scaled_by", 1.0), "settings-differ"),
    "nobody looked at the update": (census("before", lambda s: s | {"scaled_by": None, "gradient_norm": None}), None),
    "a rate in the window": (census(1, "updates_in_window", "weighted_rate", lambda r: 1.001 * r), "settings-differ"),
    "another beta in the window": (census("updates_in_window", "settings", 0, 2, 0.99), "settings-differ"),
    "no decay in the window": (census("updates_in_window", "settings", lambda s: s[:1]), "settings-differ"),
    "decay changes": (census("updates_in_window", "decays", 2), "settings-differ"),
    "an update more": (census("updates_in_window", "calls", lambda n: n + 1), "settings-differ"),
    "nobody logged the updates": (census("updates_in_window", None), None),
    "biases decay": (census("before", "groups", decaying), "settings-differ"),
    "nobody counted what decays": (census("before", "groups", 0, "elements", None), None),
    "validation": (other_validation, "validation-differs-from-reference"),
    "others": (rank(0, machine_busy_s=lambda s: s + 8), "machine-busy"),
    "others on the cores": (rank(1, cores_busy_s=lambda s: 1.5 * s, run_delay_s=1.2), "process-starved"),
    "others on the cores while the rank waits": (rank(1, cores_busy_s=lambda s: 1.5 * s, run_delay_s=0.05), None),
    "stolen": (rank(0, machine_steal_s=4.0), "process-starved"),
    "a sleep in every step": (census(1, sleeping), "step-idle"),
    "a sleep in every step, on a machine that loses a little": (sleeping_on_a_machine_that_loses(0.05), "step-idle"),
    "steps that wait for the host of their machine": (sleeping_on_a_machine_that_loses(0.3), None),
    "a pause in one probed step": (census(1, "before", "idle_s", 0.05), None),
    "rate per device": (scaled("window", "tokens_per_sec_per_device"), "figure-not-reproduced"),
    "state": (scaled("memory", "state_bytes_predicted"), "figure-not-reproduced"),
    "memory": (lambda d: d["memory"].update(state_bytes=9 * d["memory"]["state_bytes"]), "state-differs"),
    "less memory than the state takes": (half_the_state, "state-differs"),
    "configuration": (lambda d: d["config"]["workload"].update(seq_len=99), "record-edited"),
    "strategy": (lambda d: d["training_config"].update(strategy="single"), "figure-not-reproduced"),
    "dtype": (lambda d: d["dtypes"].update(reduced="bfloat16"), "figure-not-reproduced"),
    "commit": (lambda d: d.update(git_dirty=True), "code-uncommitted"),
    "host": (lambda d: d["host"].update(hostname="other"), "hosts-differ"),
    "hours later": (lambda d: begin_at(d, "2026-01-09T00:00:00Z"), None),
    "a time of day of another run": (lambda d: d.update(timestamp_utc="2026-01-09T00:00:00Z"), "clock-differs"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named(sound, name):
    change, code = FAULTS[name]
    sound[-1] = sealed(sound[-1], change)
    names = codes(sound)
    assert code in names if code else names == {}


@pytest.mark.fault(
    "the time of day is set during a run", "a finding; step times are right, as no clock is set for them"
)
@pytest.mark.parametrize(
    ("seconds", "expected"), [(3600, {"clock-stepped": "suspect"}), (-9, {"clock-stepped": "suspect"}), (0.02, {})]
)
def test_a_clock_that_is_set_is_named(sound, seconds, expected):
    sound[-1] = sealed(sound[-1], rank(1, window_end_epoch_s=lambda t: t + seconds))
    assert codes(sound) == expected


@pytest.mark.parametrize("change", [stopped_between_barrier_and_window, written_slowly])
def test_time_outside_the_window_is_not_held_against_it(sound, change):
    sound[-1] = sealed(sound[-1], change)
    write_complete(sound[-1])
    assert codes(sound) == {}


def use_of_cores(*shares):
    """The ranks used these shares of their cores, by every count."""

    def change(data):
        for record, share in zip(data["ranks"], shares, strict=True):
            length = record["window_end_monotonic_s"] - record["window_start_monotonic_s"]
            record |= {"cpu_s": share * length, "cpu_load": share, "cores_busy_s": share * length}
        for record in data["ranks"]:
            record["machine_busy_s"] = sum(other["cpu_s"] for other in data["ranks"])

    return change


def test_a_busy_machine_is_worth_a_note_where_the_ranks_have_cores_of_their_own(sound):
    def others(of_rank_1):
        def change(data):
            data["ranks"][0]["machine_busy_s"] += 8
            data["ranks"][1]["cores_busy_s"] += of_rank_1
            data["ranks"][1]["run_delay_s"] += of_rank_1

        return change

    assert codes([*sound[:-1], sealed(sound[-1], others(0.0))]) == {"machine-busy": "note"}
    assert codes([*sound[:-1], sealed(sound[-1], others(0.3))]) == {"machine-busy": "suspect"}
    assert codes([*sound[:-1], sealed(sound[-1], others(0.6))]) == {
        "machine-busy": "suspect",
        "process-starved": "suspect",
    }


def test_idle_cores_are_named(sound):
    assert codes([*sound[:-1], sealed(sound[-1], use_of_cores(0.4, 0.3))]) == {"process-idle": "suspect"}
    assert codes([*sound[:-1], sealed(sound[-1], use_of_cores(0.4, 0.9))]) == {}


def test_a_rank_that_computes_longer_is_named(sound):
    """Only where the window and both probed steps agree."""

    def busier(*when):
        def change(data):
            use_of_cores(0.6, 0.95)(data)
            for step in when:
                data["census"][1][step]["busy_s"] *= 1.6

        return change

    assert codes([*sound[:-1], sealed(sound[-1], busier("before"))]) == {}
    assert codes([*sound[:-1], sealed(sound[-1], busier("before", "after"))]) == {"ranks-uneven": "suspect"}


def test_losses_are_held_against_the_replay(sound):
    losses = loss_series(sound[0].steps)
    losses[7] *= 1 + 2e-5
    write_reference(sound[0], losses=losses.tolist())
    findings = audit("x", sound).findings
    assert {f.code for f in findings} == {"losses-differ-from-reference"}
    assert len(findings) == 6, "each run by itself"
    assert "from step 7 of 35 on" in findings[0].evidence


@pytest.mark.parametrize(("strategy", "expected"), [("zero2", ["state-differs"]), ("zero2-offload", [])])
def test_state_may_leave_the_device_only_where_it_is_offloaded(tmp_path, strategy, expected):
    (cell,) = cells(vary={"strategy": [strategy], "geometry": ["1x2"]})
    run = rewrite(write_run(tmp_path, cell), lambda d: d["memory"].update(state_bytes=d["memory"]["state_bytes"] // 2))
    assert [code for code in codes([run]) if code == "state-differs"] == expected


def test_what_stage_3_keeps_beside_its_state_is_said(tmp_path):
    def doubled(data):
        data["memory"].update(state_bytes=2 * data["memory"]["state_bytes"])
        zero = {"stage": 3, "reduce_bucket_size": 790_016, "param_persistence_threshold": 100_000}
        data["engine_config"] = {"zero_optimization": zero}

    (cell,) = cells(vary={"strategy": ["zero3"], "geometry": ["1x2"]})
    run = rewrite(write_run(tmp_path, cell), doubled)
    (finding,) = [f for f in audit("x", [run]).findings if f.code == "state-differs"]
    assert "keeps a gradient bucket (3.2 MB), on every device all parameters of fewer than 100,000" in finding.evidence


@pytest.mark.fault("a run's folder is copied to another repeat", "a finding; it does not count twice")
def test_a_copy_is_named(sound):
    copied = rewrite(sound[2], lambda d: None)
    data = json.loads((sound[1].folder / METRICS).read_text()) | {"repeat": 3}
    (copied.folder / METRICS).write_text(json.dumps(data))
    (copied.folder / "steps.csv").write_bytes((sound[1].folder / "steps.csv").read_bytes())
    from scaleproof.ground.records.run import read_run

    names = codes([*sound[:2], read_run(copied.folder), *sound[3:]])
    assert names["run-copied"] == "invalid"


@pytest.mark.fault("a finished run's metrics are edited", "a finding `invalid`")
def test_an_edit_without_the_seal_is_named(sound):
    sound[-1] = rewrite(sound[-1], lambda d: d["host"].update(cpu_busy_before=0.02))
    assert codes(sound) == {"record-edited": "invalid"}


@pytest.mark.fault("two runs at the same time on one machine", "a finding on both")
def test_runs_at_the_same_time_are_named(sound):
    first, wall = sound[0].metrics.ranks[0], sound[-1].metrics.window.wall_time_s

    def beginning_with_it(clock):
        start = first[f"window_start_{clock}_s"] + 0.5
        changed = {f"window_start_{clock}_s": start, f"window_end_{clock}_s": start + wall}
        return lambda data: [record.update(changed) for record in data["ranks"]]

    sound[-1] = sealed(sound[-1], beginning_with_it("epoch"))
    assert "runs-overlap" not in codes(sound), "the time of day was set back between them"
    sound[-1] = sealed(sound[-1], beginning_with_it("monotonic"))
    assert codes(sound)["runs-overlap"] == "invalid"


def test_a_key_without_a_trace_is_named(tmp_path):
    both = cells(vary={"geometry": ["1x2"], "bucket_elements": ["auto", 1000]})
    runs = [write_run(tmp_path / "runs", cell, 1) for cell in both]
    runs = [rewrite(run, lambda d, r=run: d.update(census=census_of(r))) for run in runs]
    assert codes(runs)["knob-without-trace"] == "suspect"
    runs[1] = rewrite(runs[1], census("before", "collectives", {"allreduce": {"calls": 9, "bytes": 8, "dtypes": []}}))
    assert "knob-without-trace" not in codes(runs)


@pytest.mark.fault("one record is damaged", "named; all others are still checked")
def test_a_record_that_cannot_be_checked_silences_no_other(sound):
    sound[0] = sealed(sound[0], rank(0, cores=None))
    (sound[1].folder / "steps.csv").write_text("damaged")
    sound[-1] = sealed(sound[-1], clock_of_window(0.8))
    findings = audit("x", [*sound[:1], MeasuredRun(sound[1].folder, sound[1].metrics), *sound[2:]]).findings
    named = {(f.code, f.runs[0]) for f in findings}
    assert ("record-unusable", sound[0].name) in named
    assert ("record-unusable", sound[1].name) in named
    assert ("clock-differs", sound[-1].name) in named


def test_launchers_thread_variables_are_not_compared(sound):
    sound[-1] = sealed(sound[-1], lambda d: d["env"].update(OMP_NUM_THREADS="2", CUDA_VISIBLE_DEVICES="1"))
    assert codes(sound) == {}


@pytest.mark.fault("a step stalls, or every n-th step is slow", "findings")
def test_a_stall_and_a_period_are_named(tmp_path):
    cell = cells()[0]

    def series(change):
        run = write_run(tmp_path / change.__name__, cell, 1, 0.1, spread=0.01)
        return codes([rewrite(run, None, lambda f: f.assign(step_time_s=change(f["step_time_s"].to_numpy())))])

    def stalled(times):
        return np.where(np.arange(len(times)) == 20, 3.0, times)

    def every_fifth(times):
        return np.where(np.arange(len(times)) % 5 == 4, 2 * times, times)

    assert "step-stalled" in series(stalled)
    assert "steps-periodic" in series(every_fifth)


def test_noise_has_no_period():
    chance = np.random.default_rng(0)
    for _ in range(2000):
        assert find_period(chance.lognormal(0, 0.15, 40) * np.where(chance.random(40) < 0.1, 1.6, 1)) is None
    times = np.ones(40)
    times[3::8] = 1.5
    assert find_period(times)[0] == 8
    times[[1, 20]], times[3::8] = 1.35, 2.5
    period, slow_steps = find_period(times)
    assert (period, slow_steps.tolist()) == (8, [3, 11, 19, 27, 35]), "two steps that were disturbed are not of it"


def test_folder_of_references_is_found(sound):
    assert (Path(sound[0].folder).parents[2] / FOLDER).is_dir()
