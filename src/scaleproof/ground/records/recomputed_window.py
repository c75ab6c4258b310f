"""The figures of a window, computed again from the rows of steps.csv by code that no trainer has."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Row = tuple[int, float, float, float, int, int]  # step of a rank: number, seconds, waiting, loss, samples, tokens


@dataclass(frozen=True)
class Step:
    """One optimizer step over all ranks: times are those of the slowest rank, the loss is the mean over samples."""

    seconds: float
    data_wait_s: float
    loss: float
    samples: int
    tokens: int


def merge_steps(rows: Iterable[Row]) -> list[Step]:
    """Merge the rows of each step (a row for each rank, in any order) into one step. Returns the steps in order."""
    by_step: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        by_step[row[0]].append(row)  # the number of the step
    return [_merge_ranks(by_step[number]) for number in sorted(by_step)]


def _merge_ranks(ranks: list[Row]) -> Step:
    _, seconds, waits, losses, samples, tokens = zip(*ranks, strict=True)
    total = sum(samples)
    loss = math.fsum(loss * count for loss, count in zip(losses, samples, strict=True)) / total
    return Step(max(seconds), max(waits), loss, total, sum(tokens))


@dataclass(frozen=True)
class WindowFigures:
    """What the steps and the time of a window give, under the names that it has in a record (records/metrics.py)."""

    step_time_mean_s: float
    step_time_min_s: float
    step_time_max_s: float
    step_time_p50_s: float
    step_time_p95_s: float | None
    step_time_p99_s: float | None
    data_wait_mean_s: float
    train_loss_mean: float
    train_loss_first: float
    train_loss_last: float
    step_time_n: int
    tokens: int
    tokens_per_s: float


def window_figures(steps: Sequence[Step], wall_s: float) -> WindowFigures:
    """Return the figures of the window in which `steps` were made in `wall_s` seconds."""
    count = len(steps)
    times = sorted(step.seconds for step in steps)
    tokens = sum(step.tokens for step in steps)
    return WindowFigures(
        step_time_mean_s=math.fsum(times) / count,
        step_time_min_s=times[0],
        step_time_max_s=times[-1],
        step_time_p50_s=quantile(times, 0.50),
        step_time_p95_s=quantile(times, 0.95) if count >= 20 else None,
        step_time_p99_s=quantile(times, 0.99) if count >= 100 else None,
        data_wait_mean_s=math.fsum(step.data_wait_s for step in steps) / count,
        train_loss_mean=math.fsum(step.loss for step in steps) / count,
        train_loss_first=steps[0].loss,
        train_loss_last=steps[-1].loss,
        step_time_n=count,
        tokens=tokens,
        tokens_per_s=tokens / wall_s,
    )


def quantile(values: Sequence[float], part: float) -> float:
    """Return the quantile of `values` at `part` (0.5: the median), interpolated between the two nearest values."""
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])
