"""Loss against step and against seconds: losses.csv, and the time to a loss that all runs reach."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from scaleproof.ground.confidence import Estimate, mean_time
from scaleproof.ground.records.run import TimedRun

SMOOTHED_SHARE = 0.1  # part of the window's steps that a smoothed loss is the mean of
FEWEST_SMOOTHED = 5  # steps that a smoothed loss is the mean of, in a short window
# A derived target lies this part (of a nat, below 1) above what the slowest learner reaches, so that rounding does not
# decide.
SLACK = 1e-3
# A run that has learnt less than this part of what the median run has (of the fall of its smoothed loss) has no say in
# a derived target: a diverged run would move everybody's target to the first steps.
LEARNT = 0.5
POINTS = 1000  # of a cell in losses.csv; longer series are thinned
MEANS = ("seconds", "loss", "smoothed")  # over the runs of a cell
COLUMNS = ("cell", "n", "phase", "step", *MEANS)
# Losses of different tokens, or of different choices among them, are different quantities.
SAME_LOSS = ("task", "corpus", "tokenizer", "seq_len", "vocab_size")


@dataclass(frozen=True)
class TimeToLoss:
    """Seconds in the window until the smoothed training loss of a cell reaches `target`, or why that is unknown."""

    target: float | None
    seconds: Estimate | None
    why: str | None
    steps: float | None = None  # of the window, mean over runs


@dataclass(frozen=True)
class Curve:
    """Every step of a run, as arrays of one length. Losses of one `kind` are one quantity."""

    kind: tuple
    step: np.ndarray
    timed: np.ndarray  # whether the step is of the window
    loss: np.ndarray
    smoothed: np.ndarray  # mean of the last steps, of as many as there are at the beginning
    seconds: np.ndarray  # since the window began; NaN before it


def curves_of(groups: dict[str, list[TimedRun]]) -> dict[str, list[Curve]]:
    """Return the curves of each cell's runs. `groups`: cell -> its runs with numbers."""
    curves: dict[str, list[Curve]] = {}
    for cell, runs in groups.items():
        longest = max((len(run.elapsed) for run in runs), default=0)
        averaged_steps = max(FEWEST_SMOOTHED, round(SMOOTHED_SHARE * longest))  # one number for all runs of the cell
        curves[cell] = [_curve(run, averaged_steps) for run in runs]
    return curves


def _curve(run: TimedRun, averaged_steps: int) -> Curve:
    """Return the curve of a run, whose smoothed loss is the mean of the last `averaged_steps` at each step."""
    step = np.arange(len(run.losses))
    timed = step >= len(step) - len(run.elapsed)  # the window comes last; `elapsed` has one value for each of its steps
    seconds = np.full(len(step), np.nan)
    seconds[timed] = run.elapsed
    # Losses of a command compare only with those of the same command.
    workload = run.metrics.config["workload"]
    kind = (*(workload.get(name) for name in SAME_LOSS), workload.get("command"))
    return Curve(kind, step, timed, run.losses, _smoothed_losses(run.losses, averaged_steps), seconds)


def _smoothed_losses(losses: np.ndarray, steps: int) -> np.ndarray:
    """Return at each step the mean of the last `steps` losses (of as many as there are, without NaN); NaN for none."""
    known = np.isfinite(losses)
    sums = np.cumsum(np.append(0.0, np.where(known, losses, 0.0)))  # of all losses before each step
    counts = np.cumsum(np.append(0, known))
    ends = np.arange(1, len(losses) + 1)
    begins = np.maximum(ends - steps, 0)
    n_known = counts[ends] - counts[begins]
    means: np.ndarray = np.where(n_known, (sums[ends] - sums[begins]) / np.maximum(n_known, 1), np.nan)
    return means


def losses_table(curves: dict[str, list[Curve]]) -> pd.DataFrame:
    """Return losses.csv: means over the runs of each cell, one row a step, thinned evenly to POINTS rows a cell."""
    columns: dict[str, list[np.ndarray]] = {name: [] for name in COLUMNS}  # of each a part per cell
    for cell, runs in curves.items():
        if not runs:
            continue
        # The first run stands for all: of one configuration, they have the same steps. That one lacks some is a
        # finding, and must not end the report.
        first = runs[0]
        steps = min(len(run.step) for run in runs)
        stride = math.ceil(steps / POINTS)
        rows = np.unique(np.append(np.arange(0, steps, stride), steps - 1))  # every so many steps, and the last
        columns["cell"].append(np.full(len(rows), cell, dtype=object))
        columns["n"].append(np.full(len(rows), len(runs)))
        columns["phase"].append(np.where(first.timed[rows], "window", "warmup").astype(object))
        columns["step"].append(first.step[rows])
        for name in MEANS:
            columns[name].append(np.mean([getattr(run, name)[rows] for run in runs], axis=0))
    return pd.DataFrame({name: np.concatenate(parts) if parts else parts for name, parts in columns.items()})


def times_to_loss(curves: dict[str, list[Curve]], target_loss: float | Literal["derive"]) -> dict[str, TimeToLoss]:
    """Return the time to loss of each cell, from the curves of its measured runs. `target_loss`: a loss, or "derive".

    A derived target is the lowest smoothed loss that all runs with the same kind of loss reach in their windows, and a
    thousandth more (SLACK); runs that have hardly learnt (LEARNT) do not count. Seconds are of the window alone: a
    target that is met in the warm-up has no time, as that of the warm-up is not comparable.
    """
    reached_by_all = _losses_reached_by_all([run for runs in curves.values() for run in runs])
    times: dict[str, TimeToLoss] = {}
    for cell, runs in curves.items():
        if not runs:
            times[cell] = TimeToLoss(None, None, "no run has numbers")
        elif any(np.isnan(run.loss).all() for run in runs):
            times[cell] = TimeToLoss(None, None, "no loss was printed")
        elif target_loss != "derive":
            times[cell] = _time_to_loss(runs, target_loss)
        elif math.isfinite(reached := reached_by_all.get(runs[0].kind, math.inf)):  # one kind for all runs of a cell
            times[cell] = _time_to_loss(runs, reached + SLACK * max(reached, 1.0))
        else:
            times[cell] = TimeToLoss(None, None, "a loss is no number any more")
    return times


def _time_to_loss(runs: list[Curve], target: float) -> TimeToLoss:
    """Return the mean time in which a cell's `runs` reach the loss `target` in their windows, or why there is none."""
    missed = [loss for loss in map(_lowest_loss, runs) if loss > target]
    if missed:
        why = f"not reached in {len(missed)} of {len(runs)} runs: the lowest is {max(missed):.6g}"
        return TimeToLoss(target, None, why)
    early = sum(bool(np.any(~run.timed & (run.smoothed <= target))) for run in runs)
    if early:  # before any second of the window
        return TimeToLoss(target, None, f"reached in the warm-up of {early} of {len(runs)} runs")
    # argmax of an array of bool: the first place that is true. Every run has one, as none missed the target.
    reaching_steps = [int(np.argmax(run.timed & (run.smoothed <= target))) for run in runs]
    window_begins = [int(np.argmax(run.timed)) for run in runs]
    seconds = [float(run.seconds[step]) for run, step in zip(runs, reaching_steps, strict=True)]
    steps_of_window = [step - begin + 1 for step, begin in zip(reaching_steps, window_begins, strict=True)]
    return TimeToLoss(target, mean_time(seconds), None, float(np.mean(steps_of_window)))


def _lowest_loss(curve: Curve) -> float:
    """Return the lowest smoothed loss of the window; infinite where the loss became NaN."""
    lowest = float(curve.smoothed[curve.timed].min())
    return lowest if np.isfinite(lowest) else np.inf


def _losses_reached_by_all(runs: list[Curve]) -> dict[tuple, float]:
    """Return kind of loss -> the lowest smoothed loss that all its runs reach: the highest of their lowest losses.

    Runs whose loss fell less than LEARNT (half) of the median fall do not count; kinds without any loss are left out.
    """
    reached: dict[tuple, float] = {}
    for kind in dict.fromkeys(run.kind for run in runs):
        alike = [run for run in runs if run.kind == kind and np.isfinite(run.smoothed).any()]
        if not alike:
            continue
        lowest = [_lowest_loss(run) for run in alike]
        # A program may print its first loss later than its first step.
        first = [float(run.smoothed[np.isfinite(run.smoothed)][0]) for run in alike]
        falls = np.subtract(first, lowest)
        typical = float(np.median(falls))
        # Where the loss of the median run rose (typical < 0), half of that would leave out the median run itself.
        least = LEARNT * typical if typical > 0 else typical
        reached[kind] = max(loss for loss, fall in zip(lowest, falls, strict=True) if fall >= least)
    return reached
