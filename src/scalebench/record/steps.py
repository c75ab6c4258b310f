"""`steps.csv`: the raw series of a run, one row per step and rank."""

from pathlib import Path

import numpy as np
import pandas as pd

COLUMNS = {
    "phase": "str",  # warmup or window
    "step": "int64",  # optimizer step, counted from 0 over warm-up and window
    "rank": "int64",
    "step_time_s": "float64",  # from asking for the first micro-batch to the end of the update
    "data_wait_s": "float64",  # of it, waiting for tokens
    "loss": "float64",  # mean over this rank's samples of the step
    "samples": "int64",
    "tokens": "int64",
}

KINDS = {"str": "U8"}  # numpy's name of the kind

Rows = pd.DataFrame | np.ndarray  # with the columns above; an array has a field for each


def write_steps(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame with the columns above; digits enough to read the same floats back."""
    frame.astype(COLUMNS)[list(COLUMNS)].to_csv(path, index=False, float_format="%.9g")


def read_steps(text: str) -> np.ndarray:
    """The rows of a steps.csv, as an array with a field for each column.

    Raises ValueError where columns are missing or not numbers.
    """
    header, *lines = text.splitlines()
    names = header.split(",")
    kinds = [(name, KINDS.get(kind, kind)) for name, kind in COLUMNS.items()]
    places = [names.index(name) for name in COLUMNS]
    # A run that failed leaves a header alone, at which numpy would warn. numpy reads a small file in a tenth of the time
    # that pandas takes; an audit reads ten thousand of them.
    return np.loadtxt(lines, dtype=kinds, delimiter=",", usecols=places, ndmin=1) if lines else np.empty(0, kinds)


def window_steps(rows: Rows) -> dict[str, np.ndarray]:
    """Columns with one value a step of the window: time and data wait are maxima over ranks, loss the mean by samples."""
    by_step = _ByStep(rows, _timed(rows))
    samples = by_step.sum("samples")
    return {
        "step": by_step.steps,
        "step_time_s": by_step.max("step_time_s"),
        "data_wait_s": by_step.max("data_wait_s"),
        "loss": by_step.sum("loss", "samples") / samples,
        "samples": samples.astype("int64"),
        "tokens": by_step.sum("tokens").astype("int64"),
    }


def loss_series(rows: Rows) -> pd.Series:
    """Loss of every step, warm-up included, over all ranks; indexed by step."""
    by_step = _ByStep(rows, slice(None))
    losses = by_step.sum("loss", "samples") / by_step.sum("samples")
    return pd.Series(losses, index=pd.Index(by_step.steps, name="step"), name="loss")


def elapsed(rows: Rows) -> np.ndarray:
    """Seconds since the window began at the end of each of its steps: each rank by its own clock, then the one that is behind."""
    window = _timed(rows)
    steps, place = np.unique(np.asarray(rows["step"])[window], return_inverse=True)
    ranks = np.asarray(rows["rank"])[window]
    times = np.zeros((len(steps), ranks.max() + 1))
    times[place, ranks] = np.asarray(rows["step_time_s"])[window]
    return times.cumsum(axis=0).max(axis=1)


def rank_totals(rows: Rows) -> np.ndarray:
    """Seconds of all steps of the window, of each rank."""
    window = _timed(rows)
    return np.bincount(np.asarray(rows["rank"])[window], np.asarray(rows["step_time_s"])[window])


def _timed(rows: Rows) -> np.ndarray:
    """Which rows are of the window."""
    return np.asarray(rows["phase"] == "window")


class _ByStep:
    """Some rows, and what they give over the ranks of each step; `steps` are the steps in ascending order."""

    def __init__(self, rows: Rows, chosen: np.ndarray | slice) -> None:
        self.rows, self.chosen = rows, chosen
        self.steps, self.place = np.unique(self._column("step"), return_inverse=True)

    def sum(self, name: str, weight: str | None = None) -> np.ndarray:
        values = self._column(name) * (self._column(weight) if weight else 1)
        return np.bincount(self.place, values, minlength=len(self.steps))

    def max(self, name: str) -> np.ndarray:
        largest = np.full(len(self.steps), -np.inf)
        np.maximum.at(largest, self.place, self._column(name))
        return largest

    def _column(self, name: str) -> np.ndarray:
        return np.asarray(self.rows[name])[self.chosen]
