"""Every number of a record is checked by something, or docs/audit.md says that it is not."""

import copy
import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sound_gpu_records import on_gpus
from sound_records import complete, random_set, sealed, write_complete, write_reference
from synthetic import cells, write_run

from scaleproof.conclude.analysis.run_tables import runs_table
from scaleproof.conclude.checks.all_checks import audit
from scaleproof.ground.records.run import MeasuredRun

RAISED = 1.004
# The numbers of runs.csv, cells.csv and the reports, by their place in the record.
PUBLISHED = (
    "config.*",
    "window.*",
    "ledger.*",
    "startup.launch_sec",
    "startup.setup_sec",
    "startup.warmup_sec",
    "startup.first_step_sec",
    "memory.*",
    "model.*",
    "utilization.*",
    "energy.*",
    "validation.loss",
    "validation.perplexity",
    "validation.accuracy",
    "ranks.*.cpu_load",
    "repeat",
    "total_wall_time_sec",
)


def numbers(data: Any, place: tuple = ()) -> Iterator[tuple]:
    """The places of all numbers in a record."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        if isinstance(value, dict | list):
            yield from numbers(value, (*place, key))
        elif isinstance(value, int | float) and not isinstance(value, bool) and (value or isinstance(value, int)):
            yield (*place, key)  # 0.4 % of 0.0 is nothing


def raise_at(data: dict, place: tuple) -> None:
    for key in place[:-1]:
        data = data[key]
    value = data[place[-1]]
    data[place[-1]] = value * RAISED if isinstance(value, float) else value + max(1, round(value * (RAISED - 1)))


def unchecked(repository: Path, on_gpus: bool) -> list[str]:
    """The patterns that docs/audit.md lists as unchecked."""
    text = (repository / "docs/audit.md").read_text()
    section = text.split("## Fields that nothing checks")[1].split("\n## ")[0]
    listed = re.findall(r"^- `([^`]+)`(.*)", section, re.MULTILINE)
    return [pattern for pattern, where in listed if on_gpus or "on GPUs" not in where]


@pytest.fixture(scope="module", params=["cpu", "gpu"])
def pair(request, tmp_path_factory) -> tuple[MeasuredRun, MeasuredRun]:
    """Two repeats of a cell on two devices."""
    root = tmp_path_factory.mktemp("results") / "x"
    runs = [complete(write_run(root / "runs", cells()[1], repeat, 0.06)) for repeat in (1, 2)]
    if request.param == "gpu":
        runs = [sealed(run, on_gpus(run)) for run in runs]
    for run in runs:
        write_complete(run)
    write_reference(runs[0])
    return runs[0], runs[1]


def test_raising_any_number_is_named_or_listed(pair, repository):
    first, run = pair
    assert audit("x", pair).findings == []
    original = run.metrics.model_dump(mode="json", by_alias=True)
    places = [place for place in numbers(original) if place[0] != "files"]
    silent = set()
    for place in places:
        edited = sealed(run, lambda data, place=place: raise_at(data, place))
        if not audit("x", [first, edited]).findings:
            silent.add(".".join(map(str, place)))
    sealed(run, lambda data: (data.clear(), data.update(copy.deepcopy(original))))
    patterns = unchecked(repository, run.metrics.window.clock == "cuda_events")
    assert len(places) >= 200
    assert [name for name in sorted(silent) if not any(fnmatch.fnmatch(name, p) for p in patterns)] == []
    assert [name for name in sorted(silent) if any(fnmatch.fnmatch(name, p) for p in PUBLISHED)] == []
    recorded = {".".join(map(str, place)) for place in places}
    assert [p for p in patterns if fnmatch.filter(recorded, p) and not fnmatch.filter(silent, p)] == []


@pytest.mark.parametrize("key", ["train_batch_size", "gradient_clipping", "stage"])
def test_an_engine_that_was_given_other_settings_is_named(tmp_path, key):
    runs = random_set(tmp_path / "results/x", 3)
    run = next(run for run in runs if run.metrics.training_config.zero_stage)

    def change(data):
        engine = data["engine_config"]
        (engine["zero_optimization"] if key == "stage" else engine)[key] += 1

    assert "figure-not-reproduced" in {finding.code for finding in audit("x", [sealed(run, change)]).findings}


def test_no_column_of_the_tables_is_unknown_here(pair):
    """A new column of runs.csv has to be looked at: is what it shows checked?"""
    numeric = runs_table(list(pair)).select_dtypes("number").columns
    assert set(numeric) - {"repeat"} <= {
        *("threads_per_device", "vocab_size", "seq_len", "micro_batch", "accumulation", "global_batch", "seed"),
        *("nodes", "devices", "tokens", "wall_time_s", "tokens_per_s", "samples_per_s", "tokens_per_s_per_device"),
        *("step_time_mean_s", "step_time_p50_s", "step_time_p95_s", "steps", "data_wait_share", "loss_first"),
        *("loss_last", "validation_loss", "perplexity", "accuracy", "mfu", "device_load", "joules_per_token"),
        *("skipped_steps", "state_bytes", "state_bytes_predicted", "max_rss_bytes", "startup_s", "warmup_s"),
        *("first_step_s", "total_wall_time_s", "max_cuda_mem_allocated_bytes", "max_cuda_mem_reserved_bytes"),
    }


@pytest.mark.parametrize("gpus", [False, True], ids=["cpu", "gpu"])
@pytest.mark.parametrize("seed", range(25))
def test_random_sound_records_are_not_accused(tmp_path, seed, gpus):
    """2,000 of them: benchmarks/sound_records.py."""
    findings = audit("x", random_set(tmp_path / "results/x", seed, gpus)).findings
    assert [(f.code, f.evidence) for f in findings if f.severity != "note"] == []
    assert sum(f.code == "device-throttled" for f in findings) <= 1, "power caps are one note of a campaign"
