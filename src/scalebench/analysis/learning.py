"""Loss against step and against seconds: losses.csv, and the time to a loss that all runs reach."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from scalebench.analysis.intervals import Estimate, rate
from scalebench.record.run import Run
from scalebench.record.steps import elapsed, loss_series

SMOOTHED = 0.1  # of the window: steps that a smoothed loss is the mean of
LEAST = 5  # of them
SLACK = 1e-3  # a derived target lies this part (of a nat, below 1) above what the slowest learner reaches: rounding decides nothing
POINTS = 1000  # of a cell in losses.csv; longer series are thinned
COLUMNS = ("cell", "n", "phase", "step", "seconds", "loss", "smoothed")
# Losses of different tokens, or of different choices among them, are different quantities.
SAME_LOSS = ("task", "corpus", "tokenizer", "seq_len", "vocab_size")


@dataclass(frozen=True)
class TimeToLoss:
    """Seconds in the window until the smoothed training loss of a cell is at or below `target`; or why there are none."""

    target: float | None
    seconds: Estimate | None
    why: str | None


def curve(run: Run) -> pd.DataFrame:
    """Every step of a run: `phase`, `loss`, `smoothed` (trailing mean), `seconds` since the window began (NaN before it)."""
    loss = loss_series(run.steps)
    width = max(LEAST, round(SMOOTHED * len(run.window)))
    timed = loss.index.isin(run.window.index)
    seconds = np.full(len(loss), np.nan)
    seconds[timed] = elapsed(run.steps)
    phase = np.where(timed, "window", "warmup")
    smoothed = loss.rolling(width, min_periods=1).mean()
    return pd.DataFrame({"loss": loss, "smoothed": smoothed, "seconds": seconds, "phase": phase})


def losses_table(groups: dict[str, list[Run]]) -> pd.DataFrame:
    """losses.csv from the measured runs of each cell: means over runs, one row a step, thinned evenly where there are many."""
    parts = []
    for cell, runs in groups.items():
        if not runs:
            continue
        curves = pd.concat([curve(run).reset_index() for run in runs])
        frame = curves.groupby(["step", "phase"], as_index=False)[["seconds", "loss", "smoothed"]].mean()
        every = -(-len(frame) // POINTS)
        kept = frame[(frame.index % every == 0) | (frame.index == len(frame) - 1)]
        parts.append(kept.assign(cell=cell, n=len(runs)))
    return pd.concat(parts)[list(COLUMNS)] if parts else pd.DataFrame(columns=list(COLUMNS))


def times_to_loss(groups: dict[str, list[Run]], wanted: float | Literal["derive"]) -> dict[str, TimeToLoss]:
    """The time to loss of each cell, from its measured runs. `wanted`: a loss, or "derive".

    Derived: the lowest smoothed loss that every run with the same tokens reaches in its window, and a thousandth more.
    Seconds are those of the window alone: the steps of the warm-up train as well, but their time is not comparable.
    """
    windows = {cell: [c[c["phase"] == "window"] for c in (curve(run) for run in runs)] for cell, runs in groups.items()}
    kinds = {cell: _kind(runs[0]) for cell, runs in groups.items() if runs}
    lowest = {cell: [float(frame["smoothed"].min()) for frame in windows[cell]] for cell in kinds}
    slowest: dict[tuple, float] = {}  # kind -> the highest of these among its runs
    for cell, kind in kinds.items():
        slowest[kind] = max(slowest.get(kind, -np.inf), *lowest[cell])
    found = {}
    for cell, curves in windows.items():
        if not curves:
            found[cell] = TimeToLoss(None, None, "no run has numbers")
            continue
        reached = slowest[kinds[cell]]
        target = reached + SLACK * max(reached, 1.0) if wanted == "derive" else wanted
        missed = [x for x in lowest[cell] if x > target]
        if missed:
            why = f"not reached in {len(missed)} of {len(curves)} runs: the lowest is {max(missed):.6g}"
            found[cell] = TimeToLoss(target, None, why)
        else:
            times = [float(frame.loc[frame["smoothed"] <= target, "seconds"].iloc[0]) for frame in curves]
            found[cell] = TimeToLoss(target, _mean(times), None)
    return found


def _mean(seconds: list[float]) -> Estimate:
    """The mean with Student's t interval on the logarithms: a rate of one arrival, turned over."""
    e = rate([1.0] * len(seconds), seconds)
    low, high = (None if bound is None else 1 / bound for bound in (e.high, e.low))
    return Estimate(1 / e.value, low, high, e.n, e.variance, e.freedom)


def _kind(run: Run) -> tuple:
    return tuple(run.metrics.config["workload"].get(name) for name in SAME_LOSS)
