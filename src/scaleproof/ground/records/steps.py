"""`steps.csv`: the raw series of a run, one row per step and rank; in memory an array with a field for each column."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

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


def write_steps(rows: np.ndarray, path: Path) -> None:
    """Write `rows`, an array of ROW, as a steps.csv."""
    formats = [FORMATS[ROW[name].kind] for name in COLUMNS]
    np.savetxt(path, rows, fmt=formats, delimiter=",", header=",".join(COLUMNS), comments="")


def read_steps(text: str) -> np.ndarray:
    """Return the rows of a steps.csv, an array of ROW. Raises ValueError where columns are missing or not numbers.

    series.py reads the files of many runs together.
    """
    if not text.strip():
        raise ValueError("steps.csv is empty")
    header, *lines = text.splitlines()
    names = header.split(",")
    if lacking := [name for name in COLUMNS if name not in names]:
        raise ValueError(f"steps.csv has no column {', '.join(lacking)}")
    places = [names.index(name) for name in COLUMNS]
    if not lines:  # of a run that failed; numpy would warn
        return np.empty(0, ROW)
    return np.loadtxt(lines, dtype=ROW, delimiter=",", usecols=places, ndmin=1)


def window_steps(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return columns with one value a step of the window: times are maxima over ranks, the loss the mean by samples."""
    return windows_of(rows, [len(rows)])[0]


def windows_of(rows: np.ndarray, ends: Sequence[int]) -> list[dict[str, np.ndarray]]:
    """Return the window's steps of several runs: for each run, what `window_steps` returns.

    `rows`: those of all runs, one run after another; `ends`: the row behind the last of each run.
    """
    timed = _in_window(rows)
    by_step = _ByStep(rows[timed], _run_numbers(ends)[timed], len(ends))
    samples = by_step.sum("samples")
    return by_step.split(
        {
            "step": by_step.steps,
            "step_time_s": by_step.max("step_time_s"),
            "data_wait_s": by_step.max("data_wait_s"),
            "loss": by_step.sum("loss", "samples") / samples,
            "samples": samples.astype("int64"),
            "tokens": by_step.sum("tokens").astype("int64"),
        }
    )


def loss_series(rows: np.ndarray) -> np.ndarray:
    """Return the loss of every step over all ranks, warm-up included."""
    return losses_of(rows, [len(rows)])[0]


def losses_of(rows: np.ndarray, ends: Sequence[int]) -> list[np.ndarray]:
    """Return for each of several runs what `loss_series` returns. `rows`, `ends`: as in `windows_of`."""
    by_step = _ByStep(rows, _run_numbers(ends), len(ends))
    losses = by_step.sum("loss", "samples") / by_step.sum("samples")
    return [run["loss"] for run in by_step.split({"loss": losses})]


def step_ends_s(rows: np.ndarray) -> np.ndarray:
    """Return the seconds from the start of the window to the end of each step, on the rank that ends it last.

    `rows`: all rows of a run, warm-up included. Each rank's step times are summed by themselves.
    """
    window = rows[_in_window(rows)]
    steps, ranks = window["step"], window["rank"]
    n_ranks = int(ranks.max(initial=-1)) + 1
    is_table = n_ranks > 0 and len(ranks) % n_ranks == 0  # rows in the usual order are a table, steps x ranks
    if is_table and _is_in_turn(steps.reshape(-1, n_ranks), ranks.reshape(-1, n_ranks)):
        times_s = window["step_time_s"].reshape(-1, n_ranks)
    else:
        distinct_steps, index = np.unique(steps, return_inverse=True)
        times_s = np.zeros((len(distinct_steps), n_ranks))
        times_s[index, ranks] = window["step_time_s"]
    ends_s: np.ndarray = times_s.cumsum(axis=0).max(axis=1, initial=0.0)
    return ends_s


def _is_in_turn(steps: np.ndarray, ranks: np.ndarray) -> bool:
    """Return whether rows are in the order in which a run writes them: step by step, in each the ranks from 0 on."""
    first = steps[:, 0]
    every_rank = (ranks == np.arange(ranks.shape[1])).all() and (steps == first[:, None]).all()
    return bool(every_rank and (first[1:] > first[:-1]).all())


def rank_totals(rows: np.ndarray, column: str = "step_time_s") -> np.ndarray:
    """Return the seconds of all steps of the window, or the sum of another column, for each rank."""
    window = _in_window(rows)
    return np.bincount(rows["rank"][window], rows[column][window])


def median(values: np.ndarray) -> float:
    """Return the median, NaN where a value is NaN. np.median takes five times as long for a few dozen steps."""
    ordered = np.sort(values)  # NaN comes last
    middle = 0.5 * (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2])
    return float("nan") if np.isnan(ordered[-1]) else float(middle)


def _in_window(rows: np.ndarray) -> np.ndarray:
    timed: np.ndarray = rows["phase"] == "window"
    return timed


def _run_numbers(ends: Sequence[int]) -> np.ndarray:
    """Return the number of the run of each row, from 0. `ends`: where the rows of each run end."""
    return np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))


class _ByStep:
    """The rows of some runs, and what they give over the ranks of each step.

    `steps`: the numbers of the steps, of each run in ascending order, one run after the other; `place`: for each row
    the index of its step in `steps`; `ends`: for each run the index at which its steps end.
    """

    def __init__(self, rows: np.ndarray, run: np.ndarray, n_runs: int) -> None:
        """Find the steps of `rows`. `run`: for each row the number of its run, from 0 to `n_runs` - 1, ascending."""
        self.rows = rows
        step = rows["step"]
        # Runs that are written as they should be have their steps in order: a step begins where step or run changes.
        # In others the rows of a step may be far apart, and sorting brings them together.
        begins_step = np.ones(len(step), bool)
        begins_step[1:] = (step[1:] != step[:-1]) | (run[1:] != run[:-1])
        is_in_order = (step[1:] >= step[:-1])[run[1:] == run[:-1]].all()
        if is_in_order:
            self.place = begins_step.cumsum() - 1
            keys = np.stack([run, step])[:, begins_step]
        else:
            keys, self.place = np.unique(np.stack([run, step]), axis=1, return_inverse=True)
        run_of_step, self.steps = keys
        self.ends = np.searchsorted(run_of_step, np.arange(n_runs), side="right")

    def sum(self, name: str, weight: str | None = None) -> np.ndarray:
        """Return the sum of a column over the rows of each step, each row times its value in `weight`, if given."""
        values = self.rows[name] * (self.rows[weight] if weight else 1.0)
        return np.bincount(self.place, values, minlength=len(self.steps))

    def max(self, name: str) -> np.ndarray:
        """Return the largest value of a column among the rows of each step."""
        largest = np.full(len(self.steps), -np.inf)
        np.maximum.at(largest, self.place, self.rows[name])
        return largest

    def split(self, columns: dict[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
        """Return columns with a value for each of `steps`, cut into those of each run."""
        bounds = list(zip([0, *self.ends[:-1]], self.ends, strict=True))
        return [{name: values[start:end] for name, values in columns.items()} for start, end in bounds]
