"""runs.csv and cells.csv: one row a run, one row a cell."""

import os
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from scaleproof.conclude.analysis.loss_curves import TimeToLoss, curves_of, times_to_loss
from scaleproof.ground.columns import bounds_columns, combined_columns
from scaleproof.ground.confidence import Estimate, pooled_rate, rate_with_interval
from scaleproof.ground.files import sha256_of
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.records.configuration import columns_of_config
from scaleproof.ground.records.evidence import lowest_level
from scaleproof.ground.records.grouping import all_known, runs_by_cell
from scaleproof.ground.records.metrics import Failed, Measured, Printed, Timed
from scaleproof.ground.records.run import METRICS, Run, TimedRun, timed_runs

PERCENTS = (5, 25, 50, 75, 95)  # of the quantiles of step times
# What a run with numbers adds: column -> how it is read from the metrics.
TIMED: dict[str, Callable[[Timed], Any]] = {
    "tokens": lambda m: m.window.tokens,
    "wall_time_s": lambda m: m.window.wall_time_s,
    "tokens_per_s": lambda m: m.window.tokens_per_s,
    "tokens_per_s_per_device": lambda m: m.window.tokens_per_s_per_device,
    "step_time_mean_s": lambda m: m.window.step_time_mean_s,
    "step_time_p50_s": lambda m: m.window.step_time_p50_s,
    "step_time_p95_s": lambda m: m.window.step_time_p95_s,
    "steps": lambda m: m.window.step_time_n,
    "loss_first": lambda m: m.window.train_loss_first,
    "loss_last": lambda m: m.window.train_loss_last,
}
# What a run of the trainer adds to that.
MEASURED: dict[str, Callable[[Measured], Any]] = {
    "samples_per_s": lambda m: m.ledger.samples_consumed / m.window.wall_time_s,
    "data_wait_share": lambda m: m.window.data_wait_mean_s / m.window.step_time_mean_s,
    "validation_loss": lambda m: m.validation and m.validation.loss,
    "perplexity": lambda m: m.validation and m.validation.perplexity,
    "accuracy": lambda m: m.validation and m.validation.accuracy,
    "mfu": lambda m: m.utilization.mfu,
    "device_load": lambda m: _device_load(m),
    "joules_per_token": lambda m: m.energy.joules_per_token,
    "skipped_steps": lambda m: m.window.skipped_optimizer_steps,
    "state_bytes": lambda m: m.memory.state_bytes,
    "state_bytes_predicted": lambda m: m.memory.state_bytes_predicted,
    "max_rss_bytes": lambda m: m.memory.max_rss_bytes,
    "max_cuda_mem_allocated_bytes": lambda m: m.memory.max_cuda_allocated_bytes,
    "max_cuda_mem_reserved_bytes": lambda m: m.memory.max_cuda_reserved_bytes,
    "startup_s": lambda m: m.startup.launch_s + m.startup.setup_s,
    "warmup_s": lambda m: m.startup.warmup_s,
    "first_step_s": lambda m: m.startup.first_step_s,
}


def runs_table(runs: Iterable[Run]) -> pd.DataFrame:
    """Return one row a run, failed ones included; each row names the file that it came from and the file's sha256."""
    return pd.DataFrame([_run_row(run) for run in runs])


def _run_row(run: Run) -> dict[str, Any]:
    """Return the row of a run in runs.csv, in the order of its columns."""
    metrics, metrics_path = run.metrics, run.folder / METRICS
    return {
        "cell": metrics.cell,
        "repeat": metrics.repeat,
        "status": metrics.status,
        "failure": metrics.failure.failure_class if metrics.failure else None,
        "reason": metrics.failure.reason if metrics.failure else None,
        "evidence": metrics.evidence,
        **configuration_columns(run),
        **{name: _column_value(metrics, name) for name in (*TIMED, *MEASURED)},
        "total_wall_time_s": metrics.total_wall_time_s,
        "timestamp_utc": metrics.timestamp_utc,
        "git_commit": metrics.git_commit,
        "fingerprint": metrics.fingerprint,
        "metrics": str(metrics_path),
        "sha256": sha256_of(metrics_path) if metrics_path.is_file() else "unknown",
    }


def add_pair_columns(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the table `runs` with the columns comparison, pair and arm (a or b) in front, read from the metrics' path.

    Such a path is compare/NAME/pair1/a/FILE; for runs of no comparison the columns are empty.
    """
    arms = runs["metrics"].map(os.path.abspath).str.extract(r"compare/([^/]+)/pair(\d+)/([ab])/[^/]+$")
    arms = arms.set_axis(["comparison", "pair", "arm"], axis="columns")
    arms["pair"] = arms["pair"].astype("Int64")
    return pd.concat([arms, runs], axis="columns")


def _has_step_times(metrics: Timed) -> bool:
    """Return whether steps were timed: a command whose log has no steps was timed as a whole."""
    return not isinstance(metrics, Printed) or metrics.reading.first_step is not None


def _column_value(metrics: Timed | Failed, name: str) -> Any:
    """Return the value of a run in the column `name` of TIMED or MEASURED; None where this kind of run has none."""
    if name in MEASURED:
        return MEASURED[name](metrics) if isinstance(metrics, Measured) else None
    if not isinstance(metrics, Timed):
        return None
    if name.startswith("step") and not _has_step_times(metrics):  # step_time_... or steps, but timed as a whole
        return None
    return TIMED[name](metrics)


def configuration_columns(run: Run) -> dict:
    """Return the columns of a run's configuration: {"strategy": "ddp", ..., "nodes": 2, "devices": 8}."""
    values = columns_of_config(run.metrics.config)
    if values["vocab_size"] == "derive" and run.metrics.data:
        values["vocab_size"] = run.metrics.data["vocab_size"]
    return values


def cell_rate(runs: Sequence[TimedRun]) -> Estimate:
    """Return the rate of a cell in tokens/s with its interval, from its runs with numbers."""
    windows = [run.metrics.window for run in runs]
    return rate_with_interval([w.tokens for w in windows], [w.wall_time_s for w in windows])


def rates_by_repeat(runs: Iterable[TimedRun]) -> dict[int, float]:
    """Return repeat -> tokens/s of the runs of a cell."""
    return {run.metrics.repeat: run.metrics.window.tokens_per_s for run in runs}


def rates_of_cells(cells: Mapping[str, Sequence[TimedRun]]) -> dict[str, Estimate]:
    """Return the tokens/s of each cell that has runs, by name, with an interval. `cells`: cell -> its runs."""
    rates = {cell: rates_by_repeat(runs) for cell, runs in cells.items() if runs}
    estimates = {}
    for cell, own_rates in rates.items():
        rates_of_others = [rates[other] for other in rates if other != cell]
        # The rate is that of the cell's own runs; the scatter of all cells gives its interval.
        estimates[cell] = pooled_rate(cell_rate(cells[cell]), own_rates, rates_of_others)
    return estimates


def samples_per_second(runs: Sequence[TimedRun]) -> float | None:
    """Return all samples over all time of some runs; None where a run did not count its samples."""
    seconds = sum(run.metrics.window.wall_time_s for run in runs)
    samples = [run.metrics.ledger.samples_consumed for run in runs if isinstance(run.metrics, Measured)]
    return sum(samples) / seconds if len(samples) == len(runs) else None


def cells_table(runs: Sequence[Run], findings: Findings, times: dict[str, TimeToLoss] | None = None) -> pd.DataFrame:
    """Return cells.csv, a row for each cell: its rate is all tokens over all time, its quantiles are over all steps.

    `times`: cell -> its time to the campaign's target loss; if not given, to the target derived from the runs.
    """
    measured_runs = measured_by_cell(runs)
    times = times or times_to_loss(curves_of(measured_runs), "derive")
    rates = rates_of_cells(measured_runs)
    rows = [
        _cell_row(cell, all_runs, measured_runs[cell], rates.get(cell), times[cell], findings)
        for cell, all_runs in runs_by_cell(runs).items()
    ]
    return pd.DataFrame(rows)


def _cell_row(
    cell: str,
    runs: Sequence[Run],
    repeats: Sequence[TimedRun],
    rate: Estimate | None,
    time_to_loss: TimeToLoss,
    findings: Findings,
) -> dict[str, Any]:
    """Return the row of a cell in cells.csv, in the order of its columns; a figure is None where no run has it.

    `runs`: all runs of the cell; `repeats`: its runs with numbers; `rate`: their rate in tokens/s; `time_to_loss`: the
    time to the target loss; `findings`: all findings of the campaign.
    """
    config = configuration_columns(runs[0])  # all runs of a cell have the same
    failures = [run.metrics.failure for run in runs if run.metrics.failure]
    failure_texts = dict.fromkeys(f"{failure.failure_class}: {failure.reason}" for failure in failures)
    loads = _known_figures(repeats, "device_load")
    job_times_s = [run.metrics.total_wall_time_s for run in repeats]
    return {
        "cell": cell,
        "evidence": lowest_level(run.metrics.evidence for run in repeats or runs),
        **config,
        "runs": len(runs),
        "n": len(repeats),
        **bounds_columns("tokens_per_s", rate),
        "tokens_per_s_median": _average_figure(repeats, "tokens_per_s"),
        "samples_per_s": rate and samples_per_second(repeats),  # None without a rate; so is the next figure
        "tokens_per_s_per_device": rate and rate.value / config["devices"],
        **_step_quantiles(repeats),
        "loss_last": repeats[0].metrics.window.train_loss_last if repeats else None,
        **{name: _average_figure(repeats, name, statistics.fmean) for name in combined_columns("mean")},
        "target_loss": time_to_loss.target,
        **bounds_columns("time_to_loss_s", time_to_loss.seconds),
        "time_to_loss_why": time_to_loss.why,
        "steps_to_loss": time_to_loss.steps,
        **{name: max(_known_figures(repeats, name), default=None) for name in combined_columns("largest")},
        "mfu": _scaled_mfu(repeats, rate),
        "joules_per_token": _joules_per_token(repeats),
        "startup_s": _average_figure(repeats, "startup_s"),
        "warmup_s": _average_figure(repeats, "warmup_s"),
        "window_s": _average_figure(repeats, "wall_time_s"),
        "total_wall_time_s": statistics.median(job_times_s) if job_times_s else None,
        "device_load": statistics.median(loads) if loads else None,
        "data_wait_share": _average_figure(repeats, "data_wait_share"),
        "failures": "; ".join(failure_texts),
        "findings": " ".join(sorted({finding.code for finding in findings.of(cell)})),
    }


def _step_quantiles(repeats: Sequence[TimedRun]) -> dict[str, float | None]:
    """Return column -> quantile (s) of all steps; None without steps, p95 below 20 of them."""
    columns: dict[str, float | None] = {f"step_time_p{percent:02}_s": None for percent in PERCENTS}
    columns["step_time_max_s"] = None
    times_of_runs = [run.step_times for run in repeats if _has_step_times(run.metrics)]
    step_times = np.concatenate(times_of_runs) if times_of_runs else np.empty(0)
    if len(step_times):
        quantiles = np.quantile(step_times, np.divide(PERCENTS, 100))
        columns = dict(zip(columns, [*quantiles, step_times.max()], strict=True))  # in the order of PERCENTS, then max
    if len(step_times) < 20:
        columns["step_time_p95_s"] = None  # it would be hardly more than the largest
    return columns | {"steps": len(step_times)}


def _known_figures(runs: Sequence[TimedRun], name: str) -> list[float]:
    """Return the figures of column `name` of the runs that have it."""
    figures = [_column_value(run.metrics, name) for run in runs]
    return [figure for figure in figures if figure is not None]


def _average_figure(
    runs: Sequence[TimedRun], name: str, average: Callable[[list[float]], float] = statistics.median
) -> float | None:
    """Return the median, or another `average`, of column `name` over runs; None without runs, or where one lacks it."""
    figures = all_known(_column_value(run.metrics, name) for run in runs)
    return average(figures) if figures else None


def _device_load(metrics: Measured) -> float | None:
    """Return the fraction of the window in which a run's devices were busy, mean over devices; None if unknown.

    For GPUs it is the utilization by NVML; for a CPU the cores used over the cores given.
    """
    ranks = metrics.ranks
    if gpus := [gpu for rank in ranks for gpu in rank.get("gpus") or []]:
        loads: list[float] = all_known(gpu["utilization_mean"] for gpu in gpus)
        return sum(loads) / len(loads) if loads else None
    is_on_cpus = ranks[0]["device_name"] == "cpu"  # as on all ranks
    if not is_on_cpus or "cpu_load" not in ranks[0]:
        return None
    return sum(rank["cpu_load"] / len(rank["cores"]) for rank in ranks) / len(ranks)


def _scaled_mfu(runs: Sequence[TimedRun], rate: Estimate | None) -> float | None:
    """Return the MFU of a cell at its `rate` (tokens/s) as a fraction; None if unknown.

    It is the first run's MFU, times the cell's rate over that run's rate: the MFU of all tokens over all time.
    """
    if not runs or rate is None:
        return None
    metrics = runs[0].metrics
    if not isinstance(metrics, Measured) or metrics.utilization.mfu is None:
        return None
    return metrics.utilization.mfu * rate.value / metrics.window.tokens_per_s


def _joules_per_token(runs: Sequence[TimedRun]) -> float | None:
    """Return all energy over all tokens of the runs; None without runs, or where a run has no energy."""
    joules = all_known(run.metrics.energy.joules if isinstance(run.metrics, Measured) else None for run in runs)
    return sum(joules) / sum(run.metrics.window.tokens for run in runs) if joules else None


def measured_by_cell(runs: Iterable[Run]) -> dict[str, list[TimedRun]]:
    """Return the runs with numbers of each cell; [] for a cell without any."""
    return {cell: timed_runs(group) for cell, group in runs_by_cell(runs).items()}
