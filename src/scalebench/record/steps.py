"""`steps.csv`: the raw series of a run, one row per step and rank."""

from pathlib import Path
from typing import TextIO

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


def write_steps(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame with the columns above; digits enough to read the same floats back."""
    frame.astype(COLUMNS)[list(COLUMNS)].to_csv(path, index=False, float_format="%.9g")


def read_steps(path: Path) -> pd.DataFrame:
    """Read a steps.csv. Raises ValueError where columns are missing or not numbers."""
    with path.open() as file:
        header = file.readline().rstrip("\n").split(",")
        kinds = [(name, KINDS.get(kind, kind)) for name, kind in COLUMNS.items()]
        places = [header.index(name) for name in COLUMNS]
        # numpy reads a small file in a tenth of the time that pandas takes; an audit reads ten thousand of them.
        rows = (
            np.loadtxt(file, dtype=kinds, delimiter=",", usecols=places, ndmin=1) if _more(file) else np.empty(0, kinds)
        )
    return pd.DataFrame({name: rows[name] for name in COLUMNS})


def _more(file: TextIO) -> bool:
    """Whether anything follows: a run that failed leaves a header alone, at which numpy would warn."""
    here = file.tell()
    there = bool(file.readline())
    file.seek(here)
    return there


def window_steps(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a step of the window: time and data wait are maxima over ranks, loss the mean weighted by samples."""
    by_step = _ByStep(frame, (frame["phase"] == "window").to_numpy())
    samples = by_step.sum("samples")
    return pd.DataFrame(
        {
            "step_time_s": by_step.max("step_time_s"),
            "data_wait_s": by_step.max("data_wait_s"),
            "loss": by_step.sum("loss", "samples") / samples,
            "samples": samples.astype("int64"),
            "tokens": by_step.sum("tokens").astype("int64"),
        },
        index=pd.Index(by_step.steps, name="step"),
    )


def loss_series(frame: pd.DataFrame) -> pd.Series:
    """Loss of every step, warm-up included, over all ranks; indexed by step."""
    by_step = _ByStep(frame, slice(None))
    losses = by_step.sum("loss", "samples") / by_step.sum("samples")
    return pd.Series(losses, index=pd.Index(by_step.steps, name="step"), name="loss")


def elapsed(frame: pd.DataFrame) -> np.ndarray:
    """Seconds since the window began at the end of each of its steps: each rank by its own clock, then the one that is behind."""
    window = (frame["phase"] == "window").to_numpy()
    steps, place = np.unique(frame["step"].to_numpy()[window], return_inverse=True)
    ranks = frame["rank"].to_numpy()[window]
    times = np.zeros((len(steps), ranks.max() + 1))
    times[place, ranks] = frame["step_time_s"].to_numpy()[window]
    return times.cumsum(axis=0).max(axis=1)


def rank_totals(frame: pd.DataFrame) -> np.ndarray:
    """Seconds of all steps of the window, of each rank."""
    window = (frame["phase"] == "window").to_numpy()
    return np.bincount(frame["rank"].to_numpy()[window], frame["step_time_s"].to_numpy()[window])


class _ByStep:
    """Rows of some steps, and what they give over the ranks of each step; `steps` are the steps in ascending order."""

    def __init__(self, frame: pd.DataFrame, rows: np.ndarray | slice) -> None:
        self.columns = {name: frame[name].to_numpy()[rows] for name in COLUMNS if name != "phase"}
        self.steps, self.place = np.unique(self.columns["step"], return_inverse=True)

    def sum(self, name: str, weight: str | None = None) -> np.ndarray:
        values = self.columns[name] * (self.columns[weight] if weight else 1)
        return np.bincount(self.place, values, minlength=len(self.steps))

    def max(self, name: str) -> np.ndarray:
        largest = np.full(len(self.steps), -np.inf)
        np.maximum.at(largest, self.place, self.columns[name])
        return largest
