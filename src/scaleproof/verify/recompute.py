"""Every figure of a campaign from its raw runs: value, n, interval where it is over runs, formula, source files.

A cell is a configuration with its runs. A command is somebody's program, of which only its log is known.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy.stats import f as f_ratio
from scipy.stats import t as student

from scaleproof.ground.number_format import fixed, integer, significant
from scaleproof.ground.records.grouping import all_known, group_by
from scaleproof.ground.records.recomputed_window import quantile
from scaleproof.verify.contents import points_of
from scaleproof.verify.intervals import NOISY_PAIR, half_width
from scaleproof.verify.raw import RawRun, rate_of

CONFIDENCE = 0.95


@dataclass(frozen=True)
class RecomputedQuantity:
    """A figure computed again, with what it was computed from.

    `n`: how many runs it is over. `low` and `high`: None where there is no interval, or it is not over runs alone.
    """

    value: float
    n: int
    formula: str
    sources: tuple[tuple[str, str], ...]  # path and sha256 of each file
    low: float | None = None
    high: float | None = None


Quantities = dict[str, RecomputedQuantity]
Figures = dict[str, tuple[float, str]]  # column -> value, formula


def cell_quantities(runs: Sequence[RawRun]) -> Quantities:
    """Return the figures `cells/<cell>/<column>` of a cell, ratios aside; none where none of its runs is measured."""
    measured = [run for run in runs if run.ok]
    figures = _figures_of_cell(measured) if measured else {}
    return {f"cells/{runs[0].cell}/{column}": figure for column, figure in figures.items()}


def with_pooled_intervals(quantities: Quantities, runs: list[RawRun]) -> Quantities:
    """Return `quantities`, with each cell's interval of its rate from a variance pooled over cells.

    Reports from schema 5.1 on have such intervals. The variance is pooled over cells with the same repeats, between
    rounds and within them, with Satterthwaite's degrees of freedom. A cell that is noisier than the others (F test,
    30 %) keeps its own interval.
    """
    logs: dict[str, dict[int, float]] = {}  # cell -> repeat -> logarithm of the rate
    for run in runs:
        if run.ok:
            logs.setdefault(run.cell, {})[run.metrics["repeat"]] = math.log(rate_of(run))
    pooled = dict(quantities)
    for cell, logs_of_cell in logs.items():
        logs_of_cells = [other for other in logs.values() if set(other) == set(logs_of_cell)]
        name = f"cells/{cell}/tokens_per_s"
        if len(logs_of_cells) < 2 or len(logs_of_cell) < 2 or name not in quantities:  # one cell, one run, no figure
            continue
        factor = _factor_by_all_cells(logs_of_cell, logs_of_cells)
        if factor is not None:
            quantity = quantities[name]
            pooled[name] = replace(quantity, low=quantity.value / factor, high=quantity.value * factor)
    return pooled


def _factor_by_all_cells(
    logs_of_cell: Mapping[int, float], logs_of_cells: Sequence[Mapping[int, float]]
) -> float | None:
    """Return the factor from a cell's rate to its bounds; None where the cell is noisier than others, or noise is 0.

    `logs_of_cell`: repeat -> logarithm of the cell's rate. `logs_of_cells`: the same of all cells with these repeats,
    the cell itself included.
    """
    n_cells, n_runs = len(logs_of_cells), len(logs_of_cell)
    own_variance = statistics.variance(logs_of_cell.values())
    variance = statistics.fmean(statistics.variance(logs.values()) for logs in logs_of_cells)
    variance_of_others = (n_cells * variance - own_variance) / (n_cells - 1)
    if variance <= 0 or variance_of_others <= 0:
        return None
    p_value = f_ratio.sf(own_variance / variance_of_others, n_runs - 1, (n_cells - 1) * (n_runs - 1))
    if p_value < NOISY_PAIR:
        return None

    # The runs of a round share its noise: Satterthwaite's formula takes the mean squares between and within rounds.
    round_means = [statistics.fmean(logs[repeat] for logs in logs_of_cells) for repeat in logs_of_cell]
    between = n_cells * statistics.variance(round_means)
    within = (n_cells * variance - between) / (n_cells - 1)
    degrees_of_freedom = (n_runs - 1) * (n_cells * variance) ** 2 / (between**2 + (n_cells - 1) * within**2)
    return math.exp(float(student.ppf((1 + CONFIDENCE) / 2, degrees_of_freedom)) * math.sqrt(variance / n_runs))


def with_bounds(quantities: Quantities, bounds: Mapping[str, tuple[float, float] | None]) -> Quantities:
    """Return `quantities` with the intervals that `bounds` names.

    A quantity of which `bounds` has None, or nothing, stays as it is.
    """
    known = {name: pair for name, pair in bounds.items() if pair and name in quantities}
    return quantities | {name: replace(quantities[name], low=low, high=high) for name, (low, high) in known.items()}


def without_intervals(quantities: Quantities) -> Quantities:
    """Return `quantities` without intervals: where runs of other cells are missing, they cannot be recomputed."""
    return {name: replace(quantity, low=None, high=None) for name, quantity in quantities.items()}


def by_cell(runs: list[RawRun]) -> dict[str, list[RawRun]]:
    """Return the runs of each cell, in the order of their repeats."""
    groups = group_by(runs, lambda run: run.cell)
    return {cell: sorted(group, key=lambda run: run.metrics["repeat"]) for cell, group in groups.items()}


def measured_by_cell(runs: Sequence[RawRun]) -> dict[str, list[RawRun]]:
    """Return the runs with numbers of each cell that has some, in the order of their repeats."""
    return by_cell([run for run in runs if run.ok])


def log_interval(values: list[float]) -> tuple[float, float] | tuple[None, None]:
    """Return the factors from a mean to the bounds of its 95 % interval; (None, None) for fewer than two values.

    The interval is Student's t over the logarithms of `values`.
    """
    if len(values) < 2:
        return None, None
    variance = statistics.variance([math.log(value) for value in values]) / len(values)  # of the mean logarithm
    half = half_width(variance, len(values) - 1, CONFIDENCE)
    return math.exp(-half), math.exp(half)


def _figures_of_cell(runs: list[RawRun]) -> Quantities:
    """Return every figure of a cell by its column, from its measured runs."""
    rates = [rate_of(run) for run in runs]
    figures = _rates(runs, rates)
    if all(_has_steps(run) for run in runs):  # else a run is timed as a whole, and has no step times
        figures |= _step_times([step.seconds for run in runs for step in run.window])
    last_loss = runs[0].metrics["window"]["train_loss_last"]
    if last_loss is not None:
        figures["loss_last"] = (last_loss, "loss of the last timed step of the first run")
    if counts_samples(runs):
        startups = [run.metrics["startup"] for run in runs]
        startup_s = statistics.median(startup["launch_sec"] + startup["setup_sec"] for startup in startups)
        figures["startup_s"] = (startup_s, "median over runs of launch and set-up")
    else:
        del figures["samples_per_s"]  # a log of a command does not count samples
    for name, (how, path) in FROM_METRICS.items():  # "validation_loss", ("mean of", "validation.loss")
        if values := _figures_at(runs, path):
            figures[name] = (COMBINED[how](values), f"{how} {path} over runs")
    rate, _ = figures["tokens_per_s"]
    figures |= _shares(runs, rate)

    sources = tuple((run.path, run.sha256) for run in runs)
    quantities = {
        name: RecomputedQuantity(value, len(runs), formula, sources) for name, (value, formula) in figures.items()
    }
    below, above = log_interval(rates)
    if below is not None and above is not None:
        quantities["tokens_per_s"] = replace(quantities["tokens_per_s"], low=rate * below, high=rate * above)
    return quantities


def _rates(runs: list[RawRun], rates: list[float]) -> Figures:
    """Return the rates of a cell, and how many runs they are over. `rates`: tokens/s of each run."""
    seconds = math.fsum(run.seconds for run in runs)
    tokens = sum(step.tokens for run in runs for step in run.window)
    samples = sum(step.samples for run in runs for step in run.window)
    rate = tokens / seconds
    devices = runs[0].devices
    tokens_over_time = f"{integer(tokens)} / {fixed(seconds, 6)} s"
    return {
        "tokens_per_s": (rate, f"sum of window tokens / sum of window seconds = {tokens_over_time}"),
        "samples_per_s": (samples / seconds, f"samples / window seconds = {integer(samples)} / {fixed(seconds, 6)} s"),
        "tokens_per_s_per_device": (rate / devices, f"tokens/s / {devices} devices"),
        "tokens_per_s_median": (statistics.median(rates), "median of the rates of the runs"),
        "n": (len(runs), "runs with status ok"),
    }


def _step_times(seconds: list[float]) -> Figures:
    """Return number, maximum and quantiles of the steps of a cell. `seconds`: the time of each step of all runs."""
    figures: Figures = {
        "steps": (len(seconds), "timed steps of all runs"),
        "step_time_max_s": (max(seconds), "largest step time of all runs"),
    }
    for percent in (5, 25, 50, 75, 95):
        if percent != 95 or len(seconds) >= 20:  # fewer steps have no 95 % quantile
            formula = f"{percent} % quantile over {len(seconds)} step times, each of the slowest rank"
            figures[f"step_time_p{percent:02}_s"] = (quantile(seconds, percent / 100), formula)
    return figures


def _shares(runs: list[RawRun], rate: float) -> Figures:
    """Return shares, load and energy of a cell; {} for a command, whose runs record none. `rate`: tokens/s."""
    if any("reading" in run.metrics for run in runs):
        return {}
    shares = {"data_wait_share": (waiting_share(runs), "median over runs of waiting for data / step time")}
    loads = [_load(run.metrics["ranks"]) for run in runs]
    if known_loads := [load for load in loads if load is not None]:
        shares["device_load"] = (statistics.median(known_loads), "median over runs of the mean load of devices")
    if joules := _figures_at(runs, "energy.joules"):
        tokens = math.fsum(run.tokens for run in runs)
        shares["joules_per_token"] = (math.fsum(joules) / tokens, "all joules / all tokens")
    mfu = _figure_at(runs[0].metrics, "utilization.mfu")
    if mfu is not None:  # FLOPs of a token are the same in all runs
        own_rate = runs[0].metrics["window"]["tokens_per_sec_global"]
        shares["mfu"] = (mfu * rate / own_rate, "MFU of the first run, at the rate of the cell")
    return shares


def waiting_share(runs: Sequence[RawRun]) -> float:
    """Return the share of a step that waits for data, the median over runs."""
    windows = [run.metrics["window"] for run in runs]  # its means were compared with steps.csv when it was read
    return statistics.median(window["dataload_time_mean_sec"] / window["step_time_mean_sec"] for window in windows)


def _load(ranks: list[dict[str, Any]]) -> float | None:
    """Return the mean load of a run's devices as a share: of GPUs by NVML, of CPUs by used cores; None if unknown."""
    if gpus := [gpu for rank in ranks for gpu in rank.get("gpus") or []]:
        loads = [gpu["utilization_mean"] for gpu in gpus]
        return None if None in loads else statistics.fmean(loads)
    is_on_cpu = ranks[0]["device_name"] == "cpu"  # all ranks are, or none is
    if not is_on_cpu or "cpu_load" not in ranks[0]:
        return None
    return statistics.fmean(rank["cpu_load"] / len(rank["cores"]) for rank in ranks)


def counts_samples(runs: Sequence[RawRun]) -> bool:
    """Return whether the samples of a step are known: only the built-in trainer counts them, not the log of a command.

    Runs of the trainer are those that record a start-up.
    """
    return all("startup" in run.metrics for run in runs)


def _has_steps(run: RawRun) -> bool:
    """Return whether each row of a run's window is a step; a program may have been timed as a whole."""
    reading = run.metrics.get("reading")
    return reading is None or reading["first_step"] is not None


def _figure_at(metrics: dict[str, Any], path: str) -> float | None:
    """Return the figure of the metrics at `path`, "section.key" or "key"; None where it, or its section, is missing."""
    section_name, _, key = path.rpartition(".")
    section = metrics.get(section_name) if section_name else metrics  # a command has no memory, no start-up
    value: float | None = (section or {}).get(key)
    return value


def _figures_at(runs: Sequence[RawRun], path: str) -> list[float]:
    """Return the figure at `path` of each run; [] where a run has none: the figure of the cell is unknown then."""
    return all_known(_figure_at(run.metrics, path) for run in runs)


COMBINED: dict[str, Callable[[list[float]], float]] = {
    "mean of": statistics.fmean,
    "largest": max,
    "median of": statistics.median,
}
# Column -> how values of runs are combined, where the value of a run stands.
FROM_METRICS = {
    "validation_loss": ("mean of", "validation.loss"),
    "perplexity": ("mean of", "validation.perplexity"),
    "accuracy": ("mean of", "validation.accuracy"),
    "state_bytes": ("largest", "memory.state_bytes"),
    "state_bytes_predicted": ("largest", "memory.state_bytes_predicted"),
    "max_rss_bytes": ("largest", "memory.max_rss_bytes"),
    "max_cuda_mem_allocated_bytes": ("largest", "memory.max_cuda_mem_allocated_bytes_global"),
    "warmup_s": ("median of", "startup.warmup_sec"),
    "window_s": ("median of", "window.wall_time_sec"),
    "total_wall_time_s": ("median of", "total_wall_time_sec"),
}


def columns_of_no_run(runs: Sequence[RawRun]) -> set[str]:
    """Return the columns of a cell for which none of its runs has recorded a value."""
    path_of = {name: path for name, (_, path) in FROM_METRICS.items()}
    path_of |= {"joules_per_token": "energy.joules", "mfu": "utilization.mfu"}
    columns = set(path_of)
    for run in runs:
        columns -= {name for name in columns if _figure_at(run.metrics, path_of[name]) is not None}
    return columns


def ratio_quantities(quantities: Quantities, runs: list[RawRun], report: dict[str, Any]) -> Quantities:
    """Return the speed-up, efficiency and other ratios of cells, as `cells/<cell>/<column>`.

    `quantities`: the rates of cells. `report`: scaling_report.json, which names baselines and the fastest cells.
    """
    cells = measured_by_cell(runs)
    ratios: Quantities = {}
    for ranking in report["ranking"]:
        fastest = ranking["cells"][0]["cell"]
        for cell in comparable(ranking):
            if cell != fastest and {cell, fastest} <= cells.keys():
                ratios[f"cells/{cell}/relative_to_fastest"] = _ratio(quantities, cell, fastest)
                ratios[f"cells/{cell}/fastest_over"] = _ratio(quantities, fastest, cell)

    for series, point in points_of(report):
        cell = point["cell"]
        base = series["baseline"]
        best = point["best_single"]
        if best != cell and {cell, best} <= cells.keys():
            ratios[f"cells/{cell}/speedup_vs_best_single"] = _ratio(quantities, cell, best)
        if has_speedup(series, point) and {cell, base} <= cells.keys():
            speedup = _ratio(quantities, cell, base)
            ratios[f"cells/{cell}/speedup"] = speedup
            ratios |= _derived_ratios(speedup, cell, base, cells, is_strong=series["kind"] == "strong")
    return ratios


def comparable(ranking: Mapping[str, Any]) -> list[str]:
    """Return the cells of a ranking that may be compared with its fastest, which comes first."""
    return [entry["cell"] for entry in ranking["cells"] if not entry["incomparable"]]


def has_speedup(series: Mapping[str, Any], point: Mapping[str, Any]) -> bool:
    """Return whether a size of a series has a speed-up over its baseline, which it may be compared with."""
    return bool(series["kind"]) and point["cell"] != series["baseline"] and not point["incomparable"]


def _ratio(quantities: Quantities, cell: str, base: str) -> RecomputedQuantity:
    """Return the rate of `cell` over the rate of `base`."""
    top = quantities[f"cells/{cell}/tokens_per_s"]
    bottom = quantities[f"cells/{base}/tokens_per_s"]
    formula = f"tokens/s of {cell} / tokens/s of {base} = {significant(top.value, 7)} / {significant(bottom.value, 7)}"
    return RecomputedQuantity(top.value / bottom.value, min(top.n, bottom.n), formula, top.sources + bottom.sources)


def _derived_ratios(
    speedup: RecomputedQuantity, cell: str, base: str, cells: dict[str, list[RawRun]], is_strong: bool
) -> Quantities:
    """Return what follows from the speed-up of `cell` over `base` and their numbers of devices.

    That is the efficiency. In strong scaling, where the work is equal, the speed-up by jobs and the Karp-Flatt serial
    part follow too. `cells`: cell -> its measured runs.
    """
    s = speedup.value  # the S of the formulas
    n_devices = cells[cell][0].devices
    base_devices = cells[base][0].devices
    device_ratio = n_devices / base_devices
    devices_text = f"{n_devices} / {base_devices} devices"
    efficiency_formula = f"speed-up / ({devices_text}) = {significant(s, 7)} / {significant(device_ratio, 6)}"
    figures = {"scaling_efficiency": (s / device_ratio, efficiency_formula)}
    if is_strong:
        job_s = statistics.fmean(run.job_seconds for run in cells[cell])
        base_job_s = statistics.fmean(run.job_seconds for run in cells[base])
        seconds_text = f"{significant(base_job_s, 6)} s / {significant(job_s, 6)} s"
        job_formula = f"mean wall time of a job of {base} / that of {cell} = {seconds_text}"
        figures["speedup_by_job_wall_time"] = (base_job_s / job_s, job_formula)
        if base_devices == 1 and 1 < s <= n_devices:
            serial_part = (1 / s - 1 / n_devices) / (1 - 1 / n_devices)
            serial_formula = f"(1/S - 1/N) / (1 - 1/N) with S = {significant(s, 7)}, N = {n_devices}"
            figures["karp_flatt"] = (serial_part, serial_formula)
    return {
        f"cells/{cell}/{name}": replace(speedup, value=value, formula=formula)
        for name, (value, formula) in figures.items()
    }


def run_quantities(runs: list[RawRun]) -> Quantities:
    """Return the figures `runs/<cell>/rep<k>/<column>` of each measured run, from its record where that has them."""
    quantities: Quantities = {}
    for run in runs:
        if not run.ok:
            continue
        window = run.metrics["window"]
        recorded = {
            "tokens_per_s": (window["tokens_per_sec_global"], "tokens / wall time of the window"),
            "step_time_p95_s": (window["step_time_p95_sec"], "95 % quantile of the step times"),
            "wall_time_s": (window["wall_time_sec"], "wall time of the window"),
            "tokens": (window["tokens_processed_global"], "tokens of the ledger in the window"),
            "loss_last": (window["train_loss_last"], "loss of the last timed step"),
            "loss_first": (window["train_loss_first"], "loss of the first timed step"),
            "step_time_mean_s": (window["step_time_mean_sec"], "mean step time"),
            "step_time_p50_s": (window["step_time_p50_sec"], "median step time"),
            "total_wall_time_s": (run.metrics["total_wall_time_sec"], "launcher's start to the last result"),
        }
        figures = _figures_of_cell([run])
        for name in ("n", *recorded):  # one run has no n; what is recorded is taken from the record
            figures.pop(name, None)
        for name, (value, formula) in recorded.items():
            if value is not None and (_has_steps(run) or not name.startswith("step")):
                figures[name] = RecomputedQuantity(value, 1, formula, ((run.path, run.sha256),))
        quantities |= {f"runs/{run.name}/{name}": figure for name, figure in figures.items()}
    return quantities
