"""What is made of runs and traces beyond rates: losses over time, where scaling is lost, the parts of a traced step.

The window of a run are its timed steps, after its warm-up. A waterfall leads from the ideal time of a cell's step,
which its baseline stands for, part by part to the measured one.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from scaleproof.ground.number_format import significant
from scaleproof.ground.records.grouping import group_by
from scaleproof.verify.campaign_file import target_loss_of
from scaleproof.verify.contents import csv_of, json_of, points_of
from scaleproof.verify.intervals import half_width
from scaleproof.verify.raw import TOLERANCE, Difference, RawRun, check_values, close, differing_settings, in_words
from scaleproof.verify.recompute import CONFIDENCE, has_speedup, measured_by_cell, waiting_share

WATERFALL, PROFILE = "waterfall.json", "profile_summary.json"
PART_OF_WINDOW, FEWEST_STEPS = 0.1, 5  # steps that a smoothed loss is the mean of
LOSS_TOLERANCE = 1e-7  # relative, of losses.csv, which has nine digits
SLACK = 1e-3  # of a derived target above what the slowest learner reaches
LEARNT = 0.5  # of the median run's fall of the loss, below which a run has no say in a derived target
TRACED = ("wall_ms", "compute_ms", "communication_ms", "exposed_ms", "overlapped_ms", "wait_ms", "exposed_wait_ms")
TRACE_PARTS = (*TRACED, "idle_ms")
# Part of a waterfall -> where its milliseconds are from; None: from a cell that the part names.
SOURCES = {
    "exposed transfer": "trace",
    "waiting for the slowest rank": "trace",
    "exposed communication": "trace",
    "waiting for data": "timed runs",
    "host gaps": "traces",
    "smaller local batch": None,
}
SAME_LOSS = ("task", "corpus", "tokenizer", "seq_len", "vocab_size", "command")


@dataclass(frozen=True)
class RawCurve:
    """The losses of a run, those smoothed, and the seconds at the end of each step of its window."""

    losses: list[float]
    smoothed: list[float]
    ends: list[float]

    @property
    def before(self) -> int:
        """Steps of the warm-up."""
        return len(self.losses) - len(self.ends)

    @property
    def first(self) -> float:
        """The first smoothed loss, which may come later than the first step; NaN where there is none."""
        return next(filter(math.isfinite, self.smoothed), math.nan)

    @property
    def lowest(self) -> float:
        """The lowest smoothed loss of the window; infinite where one is no number."""
        window = self.smoothed[self.before :]
        return min(window) if all(map(math.isfinite, window)) else math.inf


def loss_curves(runs: Sequence[RawRun]) -> list[RawCurve]:
    """Return the loss curve of each of a cell's runs, smoothed: at each step it is the mean of the latest losses.

    The latest are those of a tenth of the longest window, of FEWEST_STEPS at least; losses that are NaN do not count.
    """
    smoothed_over = max(FEWEST_STEPS, round(PART_OF_WINDOW * max(len(run.window) for run in runs)))
    made = []
    for run in runs:
        losses = [step.loss for step in (*run.warmup, *run.window)]
        smoothed = []
        for end in range(1, len(losses) + 1):
            known = list(filter(math.isfinite, losses[max(0, end - smoothed_over) : end]))
            smoothed.append(math.fsum(known) / len(known) if known else math.nan)
        made.append(RawCurve(losses, smoothed, run.ends))
    return made


def check_losses(folder: Path, runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield where losses.csv has other means over runs than steps.csv gives."""
    file = "losses.csv"
    rows = group_by(csv_of(folder / file), itemgetter("cell"))
    cells = measured_by_cell(runs)
    if set(rows) != set(cells):
        yield Difference(file, "cells", "are not those with numbers")
    for cell in rows.keys() & cells.keys():
        curves = loss_curves(cells[cell])
        for row in rows[cell]:
            step = int(row["step"])
            step_of_window = step - curves[0].before  # below 0 in the warm-up
            means = {
                "loss": statistics.fmean(curve.losses[step] for curve in curves),
                "smoothed": statistics.fmean(curve.smoothed[step] for curve in curves),
            }
            if step_of_window >= 0:
                means["seconds"] = statistics.fmean(curve.ends[step_of_window] for curve in curves)
            known = {name: mean for name, mean in means.items() if not math.isnan(mean)}
            expected: dict[str, Any] = {"n": float(len(curves)), **known}
            stated = {name: float(row[name]) for name in expected} | {"phase": row["phase"]}
            expected["phase"] = "warmup" if step_of_window < 0 else "window"
            where = f"{cell}, step {step}"
            differences = check_values(file, where, stated, expected, "steps.csv gives", LOSS_TOLERANCE)
            yield from islice(differences, 1)  # one of a row is enough


def check_time_to_loss(folder: Path, runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield each time to the target loss, and each derived target, that the raw files do not give."""
    file = "cells.csv"
    cells = measured_by_cell(runs)
    curves_of = {cell: loss_curves(group) for cell, group in cells.items()}
    targets = _derived_targets(cells, curves_of)
    rows = [row for row in csv_of(folder / file) if row["cell"] in cells and row["target_loss"]]
    target = target_loss_of(folder)
    # Of older results nobody knows whether the campaign names its target, which may then be any: it counts as derived
    # from the runs where cells have several, or where one is near to what is derived.
    are_several = len({row["target_loss"] for row in rows}) > 1
    are_derived = are_several or any(close(float(row["target_loss"]), targets.get(row["cell"]), 1e-5) for row in rows)
    if isinstance(target, float):  # one for all cells, whatever they have reached
        targets = dict.fromkeys(targets, target)
    for row in csv_of(folder / file):
        if math.isfinite(targets.get(row["cell"], math.inf)) and not row["target_loss"]:
            yield Difference(file, f"{row['cell']}, target_loss", "is empty, and its runs reach one")
    for row in rows:
        cell, stated_target = row["cell"], float(row["target_loss"])
        if (target or are_derived) and not close(stated_target, targets.get(cell), TOLERANCE):
            problem = f"is {row['target_loss']}, the raw files give {in_words(targets[cell])}"
            yield Difference(file, f"{cell}, target_loss", problem)
            continue
        expected = _expected_times(_when_reached(curves_of[cell], stated_target))
        stated = {name: float(row[name]) if row[name] else None for name in expected}
        yield from check_values(file, cell, stated, expected)


def _expected_times(reached: Sequence[tuple[float, int]] | None) -> dict[str, float | None]:
    """Return the mean time to the target with its interval, and the mean steps: column -> value, None if not reached.

    `reached`: seconds and steps of each run; None where one does not reach the target.
    """
    names = ("time_to_loss_s", "time_to_loss_s_low", "time_to_loss_s_high", "steps_to_loss")
    if reached is None:
        return dict.fromkeys(names)
    seconds, steps = zip(*reached, strict=True)
    value = statistics.fmean(seconds)
    low = high = None
    if len(seconds) > 1:
        logs = [math.log(time) for time in seconds]
        factor = math.exp(half_width(statistics.variance(logs) / len(logs), len(logs) - 1, CONFIDENCE))
        low, high = value / factor, value * factor
    return dict(zip(names, (value, low, high, statistics.fmean(steps)), strict=True))


def _when_reached(curves: Sequence[RawCurve], target: float) -> list[tuple[float, int]] | None:
    """Return (seconds, steps) after which each run reaches the target; None where one does not, or in its warm-up."""
    reached = []
    for curve in curves:
        in_warmup = any(loss <= target for loss in curve.smoothed[: curve.before])
        window = enumerate(zip(curve.ends, curve.smoothed[curve.before :], strict=True), 1)
        first = next(((end, step) for step, (end, loss) in window if loss <= target), None)
        if in_warmup or first is None or math.isinf(curve.lowest):  # infinite: a loss of the window is no number
            return None
        reached.append(first)
    return reached


def _derived_targets(
    cells: Mapping[str, Sequence[RawRun]], curves_of: Mapping[str, Sequence[RawCurve]]
) -> dict[str, float]:
    """Return cell -> the lowest loss that all runs of its kind reach, and a thousandth more; none without losses.

    Cells of a kind learn the same tokens; runs that have hardly learnt (LEARNT) do not count.
    """
    workloads = {cell: group[0].metrics["config"]["workload"] for cell, group in cells.items()}
    targets: dict[str, float] = {}
    for kind in group_by(cells, lambda cell: str([workloads[cell].get(name) for name in SAME_LOSS])).values():
        curves = [curve for cell in kind for curve in curves_of[cell] if math.isfinite(curve.first)]
        if not curves:
            continue
        falls = [curve.first - curve.lowest for curve in curves]  # how much each run has learnt
        typical = statistics.median(falls)
        least = LEARNT * typical if typical > 0 else typical  # a median that rose is not to be halved
        reached = max(curve.lowest for curve, fall in zip(curves, falls, strict=True) if fall >= least)
        targets |= dict.fromkeys(kind, reached + SLACK * max(reached, 1.0))
    return targets


def check_waterfall(folder: Path, runs: Sequence[RawRun], report: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where the parts of a cell's step in waterfall.json are not those that runs and traces give."""
    cells = measured_by_cell(runs)
    entries = {entry["cell"]: entry for entry in json_of(folder / WATERFALL)["cells"]}
    expected = {
        point["cell"]: (series["baseline"], series["kind"])
        for series, point in points_of(report)
        if has_speedup(series, point)
    }
    if set(entries) != set(expected):
        yield Difference(WATERFALL, "cells", "are not those beyond a baseline")
    for cell in entries.keys() & expected.keys():
        entry, (base, kind) = entries[cell], expected[cell]
        yield from _check_form_of_parts(entry)
        strategy = cells[cell][0].metrics["config"]["execution"]["strategy"]
        of_runs = {"strategy": strategy, "baseline": base, "kind": kind, "n": len(cells[cell])}
        stated = entry | {part["name"]: part["ms"] for part in entry["parts"]}
        computed = _expected_parts(folder, entry, cells, base, kind)
        due = {name: value for name, value in computed.items() if name in stated}  # an entry need not have all parts
        yield from check_values(WATERFALL, cell, stated, of_runs | due)


def _check_form_of_parts(entry: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield a part of a waterfall that is there twice, or by another source than its own, and a wrong sum of parts."""
    cell, parts = entry["cell"], entry["parts"]
    if len({part["name"] for part in parts}) < len(parts):
        yield Difference(WATERFALL, cell, "has a part twice")
    for part in parts:
        source = SOURCES.get(part["name"])
        by_another = source is not None and part["ms"] is not None and part["source"] != source
        if part["name"] not in SOURCES or by_another:
            yield Difference(WATERFALL, f"{cell}, {part['name']}", f"is no part of a step by {part['source']}")
    total = entry["ideal_ms"] + entry["unexplained_ms"] + math.fsum(part["ms"] or 0.0 for part in parts)
    if not close(total, entry["measured_ms"], 1e-7):
        sums = f"parts sum to {significant(total, 7)} ms, the step is {significant(entry['measured_ms'], 7)}"
        yield Difference(WATERFALL, cell, sums)


def _expected_parts(
    folder: Path, entry: Mapping[str, Any], cells: Mapping[str, Sequence[RawRun]], base: str, kind: str
) -> dict[str, float | None]:
    """Return what runs and traces give of the step of an entry's cell: part or field -> milliseconds.

    Of waiting for data and of host gaps it is what exceeds those of the baseline `base`, scaled to the ideal step.
    """
    group, base_group = cells[entry["cell"]], cells[base]
    scale = base_group[0].devices / group[0].devices if kind == "strong" else 1.0  # ideal step over the baseline's
    measured, ideal = _step_ms(group), _step_ms(base_group) * scale
    steps, base_steps = _steps_of_trace(folder, entry["cell"]), _steps_of_trace(folder, base)
    computed: dict[str, float | None] = {
        "measured_ms": measured,
        "ideal_ms": ideal,
        "waiting for data": _data_ms(group) - scale * _data_ms(base_group),
        **_part_of_smaller_batch(entry, group, cells, ideal),
        **_exposed_parts(steps, measured),
    }
    if steps and base_steps:  # idle time of the device that is not waiting for data
        gaps = _idle_share(steps) * measured - _data_ms(group)
        base_gaps = _idle_share(base_steps) * _step_ms(base_group) - _data_ms(base_group)
        computed["host gaps"] = gaps - scale * base_gaps
    return computed


def _step_ms(runs: Sequence[RawRun]) -> float:
    """Return the mean milliseconds of a step: of a global batch at the rate in samples of all runs."""
    seconds = math.fsum(run.seconds for run in runs)
    samples = sum(step.samples for run in runs for step in run.window)
    return float(1e3 * runs[0].metrics["config"]["work"]["global_batch"] * seconds / samples)


def _data_ms(runs: Sequence[RawRun]) -> float:
    """Return the mean milliseconds of a step in which it waits for data."""
    return waiting_share(runs) * _step_ms(runs)


def _part_of_smaller_batch(
    entry: Mapping[str, Any], group: Sequence[RawRun], cells: Mapping[str, Sequence[RawRun]], ideal: float
) -> dict[str, float | None]:
    """Return {"smaller local batch": ms}: what a step on one device, with the batch of one, takes above the ideal.

    The part names the cell with such steps as its source; ms is None where it does other work. {} where no ms are
    stated.
    """
    stated = next((part for part in entry["parts"] if part["name"] == "smaller local batch"), None)
    if stated is None or stated["ms"] is None:
        return {}
    other = cells.get(stated["source"])
    if other is None or other[0].devices != 1:
        return {stated["name"]: None}
    config, other_config = group[0].metrics["config"], other[0].metrics["config"]
    has_local_batch = other_config["work"]["global_batch"] == config["work"]["global_batch"] / group[0].devices
    other_work = any(key.startswith("workload.") for key in differing_settings(config, other_config))
    return {stated["name"]: _step_ms(other) - ideal if has_local_batch and not other_work else None}


def _steps_of_trace(folder: Path, cell: str) -> list[dict[str, Any]]:
    """Return the traced steps of a cell, of each rank; none where there is no trace, or it lacks a part of them."""
    path = folder / "traces" / cell / PROFILE
    steps: list[dict[str, Any]] = json_of(path).get("per_step", []) if path.is_file() else []
    needed = set(TRACE_PARTS) - {"exposed_wait_ms"}  # which older traces lack
    return steps if all(step.get(name) is not None for step in steps for name in needed) else []


def _sum_over_steps(steps: Sequence[Mapping[str, Any]], name: str) -> float:
    """Return the milliseconds of one part of all steps."""
    return math.fsum(step[name] for step in steps)


def _idle_share(steps: Sequence[Mapping[str, Any]]) -> float:
    """Return the part of the traced steps in which the device has nothing to do."""
    return _sum_over_steps(steps, "idle_ms") / _sum_over_steps(steps, "wall_ms")


def _exposed_parts(steps: Sequence[Mapping[str, Any]], measured: float) -> dict[str, float | None]:
    """Return what the traced `steps` of a cell give of its timed step of `measured` ms: parts in ms, and two ratios.

    All parts are None without steps. Older traces lack exposed_wait_ms: of them transfer and waiting are one part,
    "exposed communication". The ratios, computing over transfer and the exposed share of the transfer, are None where
    nothing is transferred.
    """
    transfer, waiting = "exposed transfer", "waiting for the slowest rank"
    if not steps:
        return {transfer: None, waiting: None, "exposed communication": None}
    wall, exposed = _sum_over_steps(steps, "wall_ms"), _sum_over_steps(steps, "exposed_ms")
    if any(step.get("exposed_wait_ms") is None for step in steps):
        return {"exposed communication": exposed / wall * measured, waiting: None}
    waits = _sum_over_steps(steps, "exposed_wait_ms")
    transfers = _sum_over_steps(steps, "communication_ms") - _sum_over_steps(steps, "wait_ms")
    has_transfers = transfers > 0
    return {
        transfer: (exposed - waits) / wall * measured,
        waiting: waits / wall * measured,
        "compute_to_communication": _sum_over_steps(steps, "compute_ms") / transfers if has_transfers else None,
        "transfer_exposed": max(0.0, exposed - waits) / transfers if has_transfers else None,
    }


def check_traces(folder: Path, runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield where traces.json has other means over steps and ranks than the profiles, or parts that do not add up."""
    file = "traces.json"
    for trace in json_of(folder / file)["traces"]:
        cell = trace["cell"]
        profile = json_of(folder / "traces" / cell / PROFILE)
        if profile.get("cell") != cell:
            yield Difference(file, cell, f"its profile is of {profile.get('cell')}")
        steps = profile.get("per_step", [])
        if sorted(part["rank"] for part in trace["per_rank"]) != sorted(profile.get("ranks", [])):
            yield Difference(file, cell, "its ranks are not those of the profile")
        stated_means = [(cell, trace, steps)]  # of all ranks, then of each: where, what is stated, the steps it is of
        for part in trace["per_rank"]:
            of_rank = [step for step in steps if step["rank"] == part["rank"]]
            stated_means.append((f"{cell}, rank {part['rank']}", part, of_rank))
        for where, stated, traced in stated_means:
            means = {name: _mean([step.get(name) for step in traced]) for name in TRACE_PARTS}
            yield from check_values(file, where, stated, means, "the profile gives")
        overhead = _expected_overhead(profile, runs)
        expected = _expected_phases(trace, profile) | ({"overhead": overhead} if overhead else {})
        yield from check_values(file, cell, trace, expected)
        for name in sorted(trace.keys() & profile.keys()):
            if trace[name] != profile[name]:
                yield Difference(file, f"{cell}, {name}", "is not that of the profile")
        yield from _check_steps(f"traces/{cell}/{PROFILE}", steps)


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean of values; None where one is unknown, or there is none."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known and len(known) == len(values) else None


def _expected_phases(trace: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a trace that its profile gives: the mean time of each phase, and the classified share."""
    steps = profile.get("per_step", [])
    phases = {name for step in steps for name in step["ranges_ms"]}
    return {
        "phases_ms": {name: statistics.fmean(step["ranges_ms"].get(name, 0.0) for step in steps) for name in phases},
        "classified_share": (profile.get("coverage") or {}).get("classified_share"),
        "file": f"traces/{trace['cell']}/{PROFILE}",
    }


def _expected_overhead(profile: Mapping[str, Any], runs: Sequence[RawRun]) -> dict[str, Any] | None:
    """Return a traced step over a timed one, with the interval that one further run would have; None without either."""
    timed_runs = [run for run in runs if run.ok and run.metrics["fingerprint"] == profile.get("fingerprint")]
    logs = [math.log(1e3 * run.seconds / len(run.window)) for run in timed_runs]
    traced = profile.get("step_time_ms") or []
    if not logs or not traced:  # damaged runs are reported where they are read
        return None
    timed = math.exp(statistics.fmean(logs))
    ratio, n = statistics.fmean(traced) / timed, len(logs)
    overhead = {"value": ratio, "n": n, "timed_step_ms": timed}
    if n > 1:
        half = half_width(statistics.variance(logs) * (1 + 1 / n), n - 1, CONFIDENCE)
        overhead |= {"low": ratio * math.exp(-half), "high": ratio * math.exp(half)}
    return overhead


def _check_steps(file: str, steps: Sequence[Mapping[str, Any]]) -> Iterator[Difference]:
    """Yield each traced step whose parts do not sum to the step, or to its communication."""
    for step in steps:
        sums = {"wall_ms": ("compute_ms", "exposed_ms", "idle_ms"), "communication_ms": ("exposed_ms", "overlapped_ms")}
        for whole, parts in sums.items():
            if any(step.get(name) is None for name in (whole, *parts)):
                continue
            if not close(step[whole], math.fsum(step[name] for name in parts), 1e-4):
                where = f"step {step['step']}, rank {step['rank']}"
                yield Difference(file, where, f"{whole} is not the sum of its parts")
