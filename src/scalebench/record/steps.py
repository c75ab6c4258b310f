"""`steps.csv`: the raw series of a run, one row per step and rank; in memory an array with a field for each column."""

from pathlib import Path

import numpy as np
from pydantic_core import from_json

# numpy and not pandas: it reads a small file in a tenth of the time, and no rank has to load pandas.
ROW = np.dtype(
    [
        ("phase", "U8"),  # warmup or window
        ("step", "i8"),  # optimizer step, counted from 0 over warm-up and window
        ("rank", "i8"),
        ("step_time_s", "f8"),  # from asking for the first micro-batch to the end of the update
        ("data_wait_s", "f8"),  # of it, waiting for tokens
        ("loss", "f8"),  # mean over this rank's samples of the step
        ("samples", "i8"),
        ("tokens", "i8"),
    ]
)
COLUMNS: tuple[str, ...] = ROW.names or ()
FORMATS = {"U": "%s", "i": "%d", "f": "%.9g"}  # digits enough to compute what the metrics say
PHASES = ("warmup", "window")
EXACT = 2.0**53  # whole numbers below it are themselves as floats
IN_NUMBERS = b"0123456789+-.e,Na"  # of JSON, in which NaN is one
WHOLE = [place for place, name in enumerate(COLUMNS) if ROW[name].kind == "i"]


def write_steps(rows: np.ndarray, path: Path) -> None:
    """Write `rows`, an array of ROW."""
    formats = [FORMATS[ROW[name].kind] for name in COLUMNS]
    np.savetxt(path, rows, fmt=formats, delimiter=",", header=",".join(COLUMNS), comments="")


def read_steps(text: str) -> np.ndarray:
    """The rows of a steps.csv, an array of ROW. Raises ValueError where columns are missing or not numbers."""
    rows = _as_written(text)
    if rows is not None:
        return rows
    header, *lines = text.splitlines()
    names = header.split(",")
    places = [names.index(name) for name in COLUMNS]
    # A run that failed leaves a header alone, at which numpy would warn.
    return np.loadtxt(lines, dtype=ROW, delimiter=",", usecols=places, ndmin=1) if lines else np.empty(0, ROW)


def _as_written(text: str) -> np.ndarray | None:
    """The rows of a file of exactly the form that `write_steps` gives it; None for any other.

    All numbers are read at once, as a list of JSON, in a tenth of the time of `np.loadtxt`: a report reads ten thousand
    series.
    """
    header, _, body = text.partition("\n")
    lines = f"\n{body}"
    n_rows = body.count("\n")
    if header != ",".join(COLUMNS) or not n_rows or not body.endswith("\n"):
        return None
    if sum(lines.count(f"\n{phase},") for phase in PHASES) != n_rows:
        return None
    # The phase of each row becomes its place in PHASES, counted from -1 downwards: no other number is negative.
    for place, phase in enumerate(PHASES, start=1):
        lines = lines.replace(f"\n{phase},", f"\n-{place},")
    numbers = lines[1:-1].replace("\n", ",").replace("nan", "NaN")
    if numbers.encode().translate(None, IN_NUMBERS):
        return None
    try:
        values = np.fromiter(from_json(f"[{numbers}]"), float)
    except (ValueError, OverflowError):
        return None
    if len(values) != n_rows * len(COLUMNS):
        return None
    table = values.reshape(n_rows, -1)
    whole = table[:, WHOLE]
    phases = -1 - table[:, 0]
    if not ((whole == np.floor(whole)) & (np.abs(whole) < EXACT)).all() or not ((phases == 0) | (phases == 1)).all():
        return None
    rows = np.empty(n_rows, ROW)
    rows["phase"] = np.array(PHASES)[phases.astype(int)]
    for place, name in enumerate(COLUMNS[1:], start=1):
        rows[name] = table[:, place]
    return rows


def window_steps(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Columns with one value a step of the window: times are maxima over ranks, the loss the mean by samples."""
    by_step = _ByStep(rows[_timed(rows)])
    samples = by_step.sum("samples")
    return {
        "step": by_step.steps,
        "step_time_s": by_step.max("step_time_s"),
        "data_wait_s": by_step.max("data_wait_s"),
        "loss": by_step.sum("loss", "samples") / samples,
        "samples": samples.astype("int64"),
        "tokens": by_step.sum("tokens").astype("int64"),
    }


def loss_series(rows: np.ndarray) -> np.ndarray:
    """Loss of every step over all ranks, warm-up included."""
    by_step = _ByStep(rows)
    return by_step.sum("loss", "samples") / by_step.sum("samples")


def elapsed(rows: np.ndarray) -> np.ndarray:
    """Seconds since the window began at the end of each of its steps: by each rank's own clock, then the last one's."""
    window = rows[_timed(rows)]
    ranks, n_ranks = window["rank"], _ranks_in_turn(window["step"])
    if n_ranks and (ranks.reshape(-1, n_ranks) == np.arange(n_ranks)).all():
        times = window["step_time_s"].reshape(-1, n_ranks)
    else:
        steps, place = np.unique(window["step"], return_inverse=True)
        times = np.zeros((len(steps), ranks.max() + 1))
        times[place, ranks] = window["step_time_s"]
    return times.cumsum(axis=0).max(axis=1)


def rank_totals(rows: np.ndarray) -> np.ndarray:
    """Seconds of all steps of the window, of each rank."""
    window = _timed(rows)
    return np.bincount(rows["rank"][window], rows["step_time_s"][window])


def _timed(rows: np.ndarray) -> np.ndarray:
    """Which rows are of the window."""
    return rows["phase"] == "window"


class _ByStep:
    """Some rows, and what they give over the ranks of each step; `steps` are the steps in ascending order."""

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        self.n_ranks = _ranks_in_turn(rows["step"])
        if self.n_ranks:
            self.steps = rows["step"][:: self.n_ranks]
        else:
            self.steps, self.place = np.unique(rows["step"], return_inverse=True)

    def sum(self, name: str, weight: str | None = None) -> np.ndarray:
        values = self.rows[name] * (self.rows[weight] if weight else 1.0)
        if self.n_ranks:  # a row for each rank, so that they are added one after the other, as below
            return np.ascontiguousarray(values.reshape(-1, self.n_ranks).T).sum(axis=0)
        return np.bincount(self.place, values, minlength=len(self.steps))

    def max(self, name: str) -> np.ndarray:
        if self.n_ranks:
            return self.rows[name].reshape(-1, self.n_ranks).max(axis=1)
        largest = np.full(len(self.steps), -np.inf)
        np.maximum.at(largest, self.place, self.rows[name])
        return largest


def _ranks_in_turn(steps: np.ndarray) -> int:
    """Rows of each step, where all steps have as many and follow each other, as a run writes them; else 0."""
    n_ranks = int((steps == steps[0]).sum()) if len(steps) else 0
    if not n_ranks or len(steps) % n_ranks:
        return 0
    table = steps.reshape(-1, n_ranks)
    in_turn = (table == table[:, :1]).all() and (np.diff(table[:, 0]) > 0).all()
    return n_ranks if in_turn else 0
