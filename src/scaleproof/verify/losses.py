"""Losses over time, and the time to a target loss, computed again from the raw runs."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from scaleproof.ground.records.grouping import group_by
from scaleproof.verify.campaign_file import target_loss_of
from scaleproof.verify.contents import DAMAGES, csv_of
from scaleproof.verify.intervals import half_width
from scaleproof.verify.raw import TOLERANCE, Difference, RawRun, check_values, close, in_words
from scaleproof.verify.recompute import CONFIDENCE, Quantities, RecomputedQuantity, measured_by_cell

SHARE_OF_WINDOW, FEWEST_STEPS = 0.1, 5  # steps that a smoothed loss is the mean of
LOSS_TOLERANCE = 1e-7  # relative, of losses.csv, which has nine digits
UNTHINNED = 1000  # steps of a cell, of which each has a row; of more steps not all have one
DERIVED_TOLERANCE = 1e-5  # relative, within which a target of older results counts as derived from the runs
SLACK = 1e-3  # of a derived target above what the slowest learner reaches
LEARNT = 0.5  # of the median run's fall of the loss, below which a run has no say in a derived target
SAME_LOSS = ("task", "corpus", "tokenizer", "seq_len", "vocab_size", "command")


@dataclass(frozen=True)
class RawCurve:
    """The losses of a run, raw and smoothed, and the seconds at the end of each step of its window."""

    losses: list[float]
    smoothed: list[float]
    ends: list[float]

    @property
    def warmup_steps(self) -> int:
        return len(self.losses) - len(self.ends)

    @property
    def first_loss(self) -> float:
        """The first smoothed loss, which may come later than the first step; NaN where there is none."""
        return next(filter(math.isfinite, self.smoothed), math.nan)

    @property
    def lowest_loss(self) -> float:
        """The lowest smoothed loss of the window; infinite where one is no number."""
        window = self.smoothed[self.warmup_steps :]
        return min(window) if all(map(math.isfinite, window)) else math.inf


def loss_curves(cells: Mapping[str, Sequence[RawRun]]) -> dict[str, list[RawCurve]]:
    """Return cell -> the loss curve of each of its runs.

    A smoothed loss is the mean of the losses, those that are numbers, of the latest steps: a tenth of the longest
    window of the cell where that is shortest, and at least FEWEST_STEPS.
    """
    windows = _longest_windows(cells)
    smoothed_over = max(FEWEST_STEPS, round(SHARE_OF_WINDOW * min(windows, default=0)))
    return {cell: [_loss_curve(run, smoothed_over) for run in runs] for cell, runs in cells.items()}


def _longest_windows(cells: Mapping[str, Sequence[RawRun]]) -> list[int]:
    return [max(len(run.window) for run in runs) for runs in cells.values()]


def _loss_curve(run: RawRun, smoothed_over: int) -> RawCurve:
    losses = [step.loss for step in (*run.warmup, *run.window)]
    smoothed = []
    for end in range(1, len(losses) + 1):
        latest = list(filter(math.isfinite, losses[max(0, end - smoothed_over) : end]))
        smoothed.append(math.fsum(latest) / len(latest) if latest else math.nan)
    return RawCurve(losses, smoothed, run.ends)


def check_losses(folder: Path, runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield where losses.csv has other means over the runs of a cell than their steps.csv files give."""
    file = "losses.csv"
    rows = group_by(csv_of(folder / file), itemgetter("cell"))
    cells = measured_by_cell(runs)
    if set(rows) != set(cells):
        yield Difference(file, "cells", "are not those with numbers")
    curves_of = _curves_smoothed_as_stated(folder, cells)
    for cell in rows.keys() & cells.keys():
        steps = range(min(len(curve.losses) for curve in curves_of[cell]))
        absent = sorted({*steps} - {int(row["step"]) for row in rows[cell]})
        if absent and len(steps) <= UNTHINNED:
            yield Difference(file, f"{cell}, step {absent[0]}", "this row is missing in the table")
        for row in rows[cell]:
            differences = _differences_of_row(row, curves_of[cell])
            yield from islice(differences, 1)  # the first of each row: others follow from the same fault


def _curves_smoothed_as_stated(folder: Path, cells: Mapping[str, Sequence[RawRun]]) -> dict[str, list[RawCurve]]:
    """Return the curves as losses.csv has them: older results smooth those of each cell over a window of its own."""
    if len(set(_longest_windows(cells))) < 2:
        return loss_curves(cells)
    of_each = {cell: loss_curves({cell: runs})[cell] for cell, runs in cells.items()}
    try:
        rows = [row for row in csv_of(folder / "losses.csv") if row["cell"] in cells]
        is_of_each = not any(any(_differences_of_row(row, of_each[row["cell"]])) for row in rows)
    except (OSError, *DAMAGES):  # the check of this table says so
        is_of_each = False
    return of_each if is_of_each else loss_curves(cells)


def _differences_of_row(row: Mapping[str, str], curves: Sequence[RawCurve]) -> Iterator[Difference]:
    expected = _expected_means(curves, int(row["step"]))
    stated = {name: row[name] if name == "phase" else float(row[name]) for name in expected}
    where = f"{row['cell']}, step {int(row['step'])}"
    return check_values("losses.csv", where, stated, expected, "steps.csv gives", LOSS_TOLERANCE)


def _expected_means(curves: Sequence[RawCurve], step: int) -> dict[str, Any]:
    """Return the expected fields of one step in losses.csv; means that are no number are left out."""
    step_of_window = step - curves[0].warmup_steps  # below 0 in the warm-up
    means = {
        "loss": statistics.fmean(curve.losses[step] for curve in curves),
        "smoothed": statistics.fmean(curve.smoothed[step] for curve in curves),
    }
    if step_of_window >= 0:
        means["seconds"] = statistics.fmean(curve.ends[step_of_window] for curve in curves)
    known_means = {name: mean for name, mean in means.items() if not math.isnan(mean)}
    phase = "warmup" if step_of_window < 0 else "window"
    return {"n": float(len(curves)), **known_means, "phase": phase}


def check_time_to_loss(folder: Path, runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield each time to the target loss, and each derived target, that the raw files do not give."""
    file = "cells.csv"
    cells = measured_by_cell(runs)
    curves_of = _curves_smoothed_as_stated(folder, cells)
    targets = _derived_targets(cells, curves_of)
    rows = [row for row in csv_of(folder / file) if row["cell"] in cells and row["target_loss"]]
    target = target_loss_of(folder)  # a number, or "derive"; None for older results, which do not say it
    is_target_known = bool(target) or _are_derived(rows, targets)
    if isinstance(target, float):  # the campaign names one target for all cells; else each kind has a derived one
        targets = dict.fromkeys(targets, target)

    for row in csv_of(folder / file):
        if math.isfinite(targets.get(row["cell"], math.inf)) and not row["target_loss"]:
            yield Difference(file, f"{row['cell']}, target_loss", "is empty, and its runs reach one")

    for row in rows:
        cell = row["cell"]
        stated_target = float(row["target_loss"])
        if is_target_known and not close(stated_target, targets.get(cell), TOLERANCE):
            problem = f"is {row['target_loss']}, the raw files give {in_words(targets.get(cell))}"
            yield Difference(file, f"{cell}, target_loss", problem)
            continue
        expected = _expected_times(curves_of[cell], stated_target)
        stated = {name: float(row[name]) if row[name] else None for name in expected}
        yield from check_values(file, cell, stated, expected)


def times_to_loss(folder: Path, runs: Sequence[RawRun]) -> Quantities:
    """Return `cells/<cell>/time_to_loss_s` of the cells whose runs reach the target in cells.csv; {} without it."""
    cells = measured_by_cell(runs)
    quantities: Quantities = {}
    try:
        curves_of = _curves_smoothed_as_stated(folder, cells)
        targets = {row["cell"]: float(row["target_loss"] or "nan") for row in csv_of(folder / "cells.csv")}
    except (OSError, *DAMAGES):
        return {}
    for cell in targets.keys() & cells.keys():
        value, low, high, steps = _expected_times(curves_of[cell], targets[cell]).values()
        if value is not None:
            formula = f"mean over runs of the seconds until the smoothed loss is {targets[cell]:.4g}, {steps:.4g} steps"
            sources = tuple((run.path, run.sha256) for run in cells[cell])
            quantities[f"cells/{cell}/time_to_loss_s"] = RecomputedQuantity(
                value, len(cells[cell]), formula, sources, low, high
            )
    return quantities


def _are_derived(rows: Sequence[Mapping[str, str]], derived_targets: Mapping[str, float]) -> bool:
    """Return whether the stated targets of older results count as derived from the runs.

    Such results do not say whether the campaign named the target (any number) or had it derived. They count as derived
    where cells have different targets, or where one is near to the derived one.
    """
    if len({row["target_loss"] for row in rows}) > 1:
        return True
    return any(close(float(row["target_loss"]), derived_targets.get(row["cell"]), DERIVED_TOLERANCE) for row in rows)


def _expected_times(curves: Sequence[RawCurve], target: float) -> dict[str, float | None]:
    """Return column -> mean time (s) in which runs reach the target, with its interval, and mean steps.

    All are None where a run misses the target, reaches it in its warm-up, or has a loss that is no number.
    """
    names = ("time_to_loss_s", "time_to_loss_s_low", "time_to_loss_s_high", "steps_to_loss")
    times_s: list[float] = []
    step_counts: list[int] = []
    for curve in curves:
        warmup, window = curve.smoothed[: curve.warmup_steps], curve.smoothed[curve.warmup_steps :]
        steps = [step for step, loss in enumerate(window) if loss <= target]  # from 0; the first one counts
        is_in_warmup = any(loss <= target for loss in warmup)
        if is_in_warmup or not steps or math.isinf(curve.lowest_loss):
            return dict.fromkeys(names)
        times_s.append(curve.ends[steps[0]])
        step_counts.append(steps[0] + 1)

    mean_s = statistics.fmean(times_s)
    low = high = None
    if len(times_s) > 1:
        variance = statistics.variance(map(math.log, times_s)) / len(times_s)  # of the mean logarithm
        factor = math.exp(half_width(variance, len(times_s) - 1, CONFIDENCE))
        low, high = mean_s / factor, mean_s * factor
    return dict(zip(names, (mean_s, low, high, statistics.fmean(step_counts)), strict=True))


def _derived_targets(
    cells: Mapping[str, Sequence[RawRun]], curves_of: Mapping[str, Sequence[RawCurve]]
) -> dict[str, float]:
    """Return cell -> its derived target: the lowest loss that all runs of its kind which learnt reach, plus 0.1 %."""
    workloads = {cell: group[0].metrics["config"]["workload"] for cell, group in cells.items()}
    targets: dict[str, float] = {}
    for alike in group_by(cells, lambda cell: str([workloads[cell].get(name) for name in SAME_LOSS])).values():
        curves = [curve for cell in alike for curve in curves_of[cell] if math.isfinite(curve.first_loss)]
        if not curves:
            continue
        falls = [curve.first_loss - curve.lowest_loss for curve in curves]  # how much each run has learnt
        median_fall = statistics.median(falls)
        least_fall = LEARNT * median_fall if median_fall > 0 else median_fall  # half of a negative fall would be more
        learners = [curve for curve, fall in zip(curves, falls, strict=True) if fall >= least_fall]
        reached_loss = max(curve.lowest_loss for curve in learners)
        targets |= dict.fromkeys(alike, reached_loss + SLACK * max(reached_loss, 1.0))  # for the cells of this kind
    return targets
