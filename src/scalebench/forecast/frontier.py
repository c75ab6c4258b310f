"""The largest micro-batch by search: two short trials, a line, the answer and the failure above it.

At most four trials where memory is a line; six at the most. Every trial is in fresh processes; every failure is a row.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from scalebench.audit.campaign.memory import NEAR_FULL

MOST_TRIALS = 6


@dataclass(frozen=True)
class Trial:
    """One short run at a micro-batch. `nbytes`: peak of a device; None where it ran out of memory."""

    micro_batch: int
    nbytes: float | None
    tokens_per_s: float | None = None
    retries: int = 0

    @property
    def fits(self) -> bool:
        return self.nbytes is not None


@dataclass(frozen=True)
class Frontier:
    """What the search found. `largest` is None where not even the smallest micro-batch fits.

    `fastest`: of those whose throughput was compared; None where that was not asked for.

    certified: the micro-batch above `largest` was tried and ran out of memory, or there is none that divides the work.
    """

    limit: float
    trials: tuple[Trial, ...]
    largest: int | None
    fastest: int | None
    certificate: Literal["ran out of memory", "largest allowed", "none"]
    near_full: bool


def search(run: Callable[[int], Trial], limit: float, allowed: list[int], start: int = 2) -> Frontier:
    """`run` makes one trial; `limit` in bytes for a device; `allowed` micro-batches that the work divides into.

    `start`: where to begin; near a quarter of the answer the line through it and its double is a good one. A forecast
    is never the answer: `largest` is always a micro-batch that was run.
    """
    sizes = sorted(allowed)
    trials: dict[int, Trial] = {}

    def attempt(size: int) -> Trial:
        if size not in trials:
            trials[size] = run(size)
        return trials[size]

    first = _at_most(sizes, max(start, 2))
    while not attempt(first).fits:
        smaller = [s for s in sizes if s < first]
        if not smaller or len(trials) == MOST_TRIALS:
            return _result(trials, sizes, limit)
        first = _at_most(smaller, first / 4)
    if len(trials) < MOST_TRIALS:
        attempt(_at_most(sizes, 2 * first))
    while len(trials) < MOST_TRIALS:
        low = max(s for s, t in trials.items() if t.fits)
        failed = [s for s, t in trials.items() if not t.fits]
        between = [s for s in sizes if s > low and (not failed or s < min(failed))]
        if not between:
            break
        attempt(_next(between, trials, limit, bool(failed)))
    return _result(trials, sizes, limit)


def fastest(run: Callable[[int], Trial], answer: Frontier, allowed: list[int]) -> Frontier:
    """The answer of `search` with the best micro-batch by tokens/s of the largest one, its half and its quarter.

    The largest is often not the fastest: a nearly full allocator retries. `run` makes a trial that is long enough
    to time.
    """
    if answer.largest is None:
        return answer
    sizes = sorted(allowed)
    sizes_compared = sorted({_at_most(sizes, answer.largest / part) for part in (4, 2, 1)})
    timed = [run(size) for size in sizes_compared]
    rated = [t for t in timed if t.fits and t.tokens_per_s is not None]
    best = max(rated, key=lambda t: t.tokens_per_s or 0.0).micro_batch if rated else None
    return replace(answer, trials=(*answer.trials, *timed), fastest=best)


def _at_most(sizes: list[int], limit: float) -> int:
    return max((s for s in sizes if s <= limit), default=sizes[0])


def _predicted(trials: dict[int, Trial], limit: float) -> float | None:
    """Where the line through the two largest fitting trials meets the limit; None where it does not rise."""
    fitting = sorted((t.micro_batch, t.nbytes) for t in trials.values() if t.nbytes is not None)[-2:]
    if len(fitting) < 2:
        return None
    (small, low), (large, high) = fitting
    slope = (high - low) / (large - small)
    return large + (limit - high) / slope if slope > 0 else None


def _next(between: list[int], trials: dict[int, Trial], limit: float, failed: bool) -> int:
    """Where the line says so, or its neighbour; else the middle once something failed, twice as much before that."""
    line = _predicted(trials, limit)
    if failed:
        below = [s for s in between if line is not None and s <= line]
        return below[-1] if below and below[-1] != between[-1] else between[len(between) // 2]
    return _at_most(between, line if line is not None else 2 * between[0])


def _result(trials: dict[int, Trial], sizes: list[int], limit: float) -> Frontier:
    fitting = [t for t in trials.values() if t.fits]
    made = tuple(trials.values())
    if not fitting:
        return Frontier(limit, made, None, None, "ran out of memory", False)
    best = max(fitting, key=lambda t: t.micro_batch)
    above = [s for s in sizes if s > best.micro_batch]
    if not above:
        certificate: Literal["ran out of memory", "largest allowed", "none"] = "largest allowed"
    else:
        certificate = "ran out of memory" if above[0] in trials else "none"
    near = best.retries > 0 or (best.nbytes or 0.0) > NEAR_FULL * limit
    return Frontier(limit, made, best.micro_batch, None, certificate, near)
