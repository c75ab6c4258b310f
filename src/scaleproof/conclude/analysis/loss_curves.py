"""Loss against step and against seconds: losses.csv, and the time to a loss that all runs reach."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from scaleproof.ground.confidence import Estimate, mean_time
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.run import TimedRun

SMOOTHED_SHARE = 0.1  # a smoothed loss is the mean of this share of the window's steps
FEWEST_SMOOTHED = 5  # and of no fewer steps, in a short window
# A derived target lies this part (of a nat, below 1) above what the slowest learner reaches, so that rounding does not
# decide.
SLACK = 1e-3
# A run whose smoothed loss fell by less than this share of the median run's fall has no say in a derived target: a
# diverged run would move everybody's target to the first steps.
LEARNT = 0.5
POINTS = 1000  # rows of a cell in losses.csv; longer series are thinned
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
    steps: float | None = None  # steps of the window, mean over runs


@dataclass(frozen=True)
class Curve:
    """Every step of a run, as arrays of one length. Losses of one `kind` are one quantity."""

    kind: tuple
    step: np.ndarray
    timed: np.ndarray  # whether the step is of the window
    loss: np.ndarray
    smoothed: np.ndarray  # mean loss of the last steps; at the beginning, of as many as there are
    seconds: np.ndarray  # since the window began; NaN before it


def curves_of(groups: dict[str, list[TimedRun]]) -> dict[str, list[Curve]]:
    """Return the curves of each cell's runs. `groups`: cell -> its runs with numbers.

    All are smoothed over one number of steps, that of the cell with the shortest window: equal losses have equal
    curves, also where a cell ran for longer.
    """
    windows = [max(len(run.elapsed) for run in runs) for runs in groups.values() if runs]
    averaged_steps = max(FEWEST_SMOOTHED, round(SMOOTHED_SHARE * min(windows, default=0)))
    return {cell: [_curve(run, averaged_steps) for run in runs] for cell, runs in groups.items()}


def _curve(run: TimedRun, averaged_steps: int) -> Curve:
    """Return the curve of a run, whose smoothed loss is the mean of the last `averaged_steps` at each step."""
    step = np.arange(len(run.losses))
    timed = step >= len(step) - len(run.elapsed)  # the window comes last; `elapsed` has one value for each of its steps
    seconds = np.full(len(step), np.nan)
    seconds[timed] = run.elapsed

    # Losses of a command compare only with those of the same command.
    workload = run.metrics.config["workload"]
    kind = (*(workload.get(name) for name in SAME_LOSS), workload.get("command"))
    return Curve(
        kind=kind,
        step=step,
        timed=timed,
        loss=run.losses,
        smoothed=_smoothed_losses(run.losses, averaged_steps),
        seconds=seconds,
    )


def _smoothed_losses(losses: np.ndarray, steps: int) -> np.ndarray:
    """Return the mean of the last `steps` losses at each step, of numbers alone; NaN where none is a number."""
    numbers = pd.Series(np.where(np.isfinite(losses), losses, np.nan))
    return numbers.rolling(steps, min_periods=1).mean().to_numpy()


def losses_table(curves: dict[str, list[Curve]]) -> pd.DataFrame:
    """Return losses.csv: means over the runs of each cell, one row a step, thinned evenly to POINTS rows a cell."""
    parts: dict[str, list[np.ndarray]] = {name: [] for name in COLUMNS}  # column -> its values for each cell
    for cell, runs in curves.items():
        if not runs:
            continue
        # The first run gives steps and phases: runs of one configuration have the same. A run that lacks steps gets a
        # finding elsewhere and must not end the report: rows go as far as the shortest run.
        first = runs[0]
        step_count = min(len(run.step) for run in runs)
        stride = math.ceil(step_count / POINTS)
        rows = np.unique(np.append(np.arange(0, step_count, stride), step_count - 1))  # with the last step

        parts["cell"].append(np.full(len(rows), cell, dtype=object))
        parts["n"].append(np.full(len(rows), len(runs)))
        parts["phase"].append(np.where(first.timed[rows], "window", "warmup").astype(object))
        parts["step"].append(first.step[rows])
        for name in MEANS:
            parts[name].append(np.mean([getattr(run, name)[rows] for run in runs], axis=0))
    return pd.DataFrame({name: np.concatenate(values) if values else values for name, values in parts.items()})


def times_to_loss(curves: dict[str, list[Curve]], target_loss: float | Literal["derive"]) -> dict[str, TimeToLoss]:
    """Return the time to loss of each cell, from the curves of its measured runs. `target_loss`: a loss, or "derive".

    A derived target is the lowest smoothed loss that all runs with the same kind of loss reach in their windows, and a
    thousandth more (SLACK); runs that have hardly learnt (LEARNT) do not count. Seconds are counted in the window
    alone: a target that is met in the warm-up has no time, because times of the warm-up are not comparable.
    """
    reached_by_all = _losses_reached_by_all([run for runs in curves.values() for run in runs])
    return {cell: _time_of_cell(runs, target_loss, reached_by_all) for cell, runs in curves.items()}


def _time_of_cell(
    runs: list[Curve], target_loss: float | Literal["derive"], reached_by_all: dict[tuple, float]
) -> TimeToLoss:
    """Return the time to loss of a cell from its runs. `reached_by_all`: see `_losses_reached_by_all`."""
    if not runs:
        return TimeToLoss(None, None, "no run has numbers")
    if any(np.isnan(run.loss).all() for run in runs):
        return TimeToLoss(None, None, "no loss was printed")
    if target_loss != "derive":
        return _time_to_loss(runs, target_loss)
    # All runs of a cell have one kind of loss. A kind of which no loss is a number has no entry.
    reached_loss = reached_by_all.get(runs[0].kind, math.inf)
    if not math.isfinite(reached_loss):
        return TimeToLoss(None, None, "a loss is no number any more")
    return _time_to_loss(runs, reached_loss + SLACK * max(reached_loss, 1.0))  # SLACK is relative above a loss of 1


def _time_to_loss(runs: list[Curve], target: float) -> TimeToLoss:
    """Return the mean time in which a cell's `runs` reach the loss `target` in their windows, or why there is none."""
    losses_above_target = [loss for loss in map(_lowest_loss, runs) if loss > target]  # of the runs that miss it
    if losses_above_target:
        worst = max(losses_above_target)
        why = f"not reached in {len(losses_above_target)} of {len(runs)} runs: the lowest is {worst:.6g}"
        return TimeToLoss(target, None, why)
    early_runs = sum(bool(np.any(~run.timed & (run.smoothed <= target))) for run in runs)
    if early_runs:  # the seconds count from the window on, so this has none
        return TimeToLoss(target, None, f"reached in the warm-up of {early_runs} of {len(runs)} runs")

    seconds, steps = [], []
    for run in runs:
        # argmax of an array of bool is the first index that is true. There is one, as no run missed the target.
        reaching_step = int(np.argmax(run.timed & (run.smoothed <= target)))
        first_step = int(np.argmax(run.timed))
        seconds.append(float(run.seconds[reaching_step]))
        steps.append(reaching_step - first_step + 1)
    return TimeToLoss(target, mean_time(seconds), None, float(np.mean(steps)))


def _lowest_loss(curve: Curve) -> float:
    """Return the lowest smoothed loss of the window; infinite where the loss became NaN."""
    lowest = float(curve.smoothed[curve.timed].min())
    return lowest if np.isfinite(lowest) else np.inf


def _losses_reached_by_all(runs: list[Curve]) -> dict[tuple, float]:
    """Return kind of loss -> the lowest smoothed loss that all its runs reach: the highest of their lowest losses.

    Runs whose loss fell less than LEARNT (half) of the median fall do not count; kinds without any loss are left out.
    """
    runs_with_loss = [run for run in runs if np.isfinite(run.smoothed).any()]
    reached_losses: dict[tuple, float] = {}
    for kind, runs_of_kind in group_by(runs_with_loss, lambda run: run.kind).items():
        lowest_losses = [_lowest_loss(run) for run in runs_of_kind]
        # A program may print its first loss later than its first step.
        first_losses = [float(run.smoothed[np.isfinite(run.smoothed)][0]) for run in runs_of_kind]
        falls = np.subtract(first_losses, lowest_losses)
        # A negative fall (the loss rose) is not halved: half of it would leave out the median run itself.
        median_fall = float(np.median(falls))
        least_fall = LEARNT * median_fall if median_fall > 0 else median_fall
        reached_losses[kind] = max(loss for loss, fall in zip(lowest_losses, falls, strict=True) if fall >= least_fall)
    return reached_losses
