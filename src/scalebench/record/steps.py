"""`steps.csv`: the raw series of a run, one row per step and rank."""

from pathlib import Path

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


def write_steps(frame: pd.DataFrame, path: Path) -> None:
    """Write a frame with the columns above; digits enough to read the same floats back."""
    frame.astype(COLUMNS)[list(COLUMNS)].to_csv(path, index=False, float_format="%.9g")


def read_steps(path: Path) -> pd.DataFrame:
    """Read a steps.csv. Raises ValueError where columns are missing or not numbers."""
    return pd.read_csv(path, dtype=COLUMNS, usecols=list(COLUMNS))


def window_steps(frame: pd.DataFrame) -> pd.DataFrame:
    """One row a step of the window: time and data wait are maxima over ranks, loss the mean weighted by samples."""
    window = frame[frame["phase"] == "window"]
    weighted = window.assign(loss=window["loss"] * window["samples"]).groupby("step")
    return pd.DataFrame(
        {
            "step_time_s": weighted["step_time_s"].max(),
            "data_wait_s": weighted["data_wait_s"].max(),
            "loss": weighted["loss"].sum() / weighted["samples"].sum(),
            "samples": weighted["samples"].sum(),
            "tokens": weighted["tokens"].sum(),
        }
    ).sort_index()


def loss_series(frame: pd.DataFrame) -> pd.Series:
    """Loss of every step, warm-up included, over all ranks; indexed by step."""
    weighted = frame.assign(loss=frame["loss"] * frame["samples"]).groupby("step")
    return (weighted["loss"].sum() / weighted["samples"].sum()).sort_index()
