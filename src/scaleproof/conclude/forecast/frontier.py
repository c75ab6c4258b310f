"""The largest micro-batch by search: two short trials, a line, the answer and the failure above it.

At most four trials. Every trial is in fresh processes; every failure is a row.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from scaleproof.conclude.checks.memory import NEAR_FULL

MOST_TRIALS = 4
NEAR_END = 0.85  # of where the first line meets the limit: far enough for a good second line, and likely to fit


Certificate = Literal["ran out of memory", "a larger one ran out of memory", "largest allowed", "none"]


@dataclass(frozen=True)
class Trial:
    """One short run at a micro-batch. `nbytes`: peak of a device; None where it ran out of memory.

    `base`: bytes of it that do not grow with the micro-batch, as far as the run could tell.
    """

    micro_batch: int
    nbytes: float | None
    tokens_per_s: float | None = None
    retries: int = 0
    base: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether it did not run out of memory."""
        return self.nbytes is not None


@dataclass(frozen=True)
class FrontierResult:
    """What the search found. `largest` is None where not even the smallest micro-batch fits.

    `fastest`: of those whose throughput was compared; None where that was not asked for.

    `certificate`: the next micro-batch ran out of memory; a larger one did, and those between were not tried; there is
    no larger one that divides the work; nothing larger was tried. `failed`: the smallest that ran out of memory.
    """

    limit: float
    trials: tuple[Trial, ...]
    largest: int | None
    fastest: int | None
    certificate: Certificate
    near_full: bool
    failed: int | None = None


def search(run: Callable[[int], Trial], limit: float, allowed: list[int], start: int = 2) -> FrontierResult:
    """Search the largest micro-batch that fits into `limit` bytes of a device.

    `run`: makes one trial at a micro-batch; `allowed`: micro-batches that the work divides into; `start`: where to
    begin, best near a quarter of the answer. The second trial goes near the end by the line from the first one's base
    through its peak, the third to where the line through both peaks meets the limit, the fourth to its neighbour. A
    forecast is never the answer: `largest` is always a micro-batch that was run.
    """
    sizes = sorted(allowed)
    trials: dict[int, Trial] = {}
    size: int | None = _at_most(sizes, max(start, 2))
    while size is not None and len(trials) < MOST_TRIALS:
        trials[size] = run(size)
        size = _next(sizes, trials, limit)
    return _result(trials, sizes, limit)


def fastest(run: Callable[[int], Trial], answer: FrontierResult, allowed: list[int]) -> FrontierResult:
    """The answer of `search` with its `fastest` micro-batch, by tokens/s, of the largest one, its half and its quarter.

    The largest is often not the fastest: a nearly full allocator retries. `run`: makes a trial that is long enough to
    time. Where no micro-batch fits the answer stays as it is.
    """
    if answer.largest is None:
        return answer
    sizes = sorted(allowed)
    sizes_compared = sorted({_at_most(sizes, answer.largest / part) for part in (4, 2, 1)})
    timed = [run(size) for size in sizes_compared]
    rates = {trial.micro_batch: trial.tokens_per_s for trial in timed if trial.fits and trial.tokens_per_s is not None}
    best = max(rates, key=lambda micro_batch: rates[micro_batch], default=None)
    return replace(answer, trials=(*answer.trials, *timed), fastest=best)


def _at_most(sizes: list[int], limit: float) -> int:
    """The largest size up to `limit`; the smallest of all where none is so small."""
    return max((size for size in sizes if size <= limit), default=sizes[0])


def _next(sizes: list[int], trials: dict[int, Trial], limit: float) -> int | None:
    """The micro-batch of the next trial; None where the largest is certain.

    `sizes`: all that are allowed, ascending; `trials`: those made, by micro-batch; `limit`: bytes of a device.
    """
    failed = [size for size, trial in trials.items() if not trial.fits]
    fitting = sorted((size, trial.nbytes) for size, trial in trials.items() if trial.nbytes is not None)
    largest = max((size for size, _ in fitting), default=0)
    between = [size for size in sizes if size > largest and (not failed or size < min(failed))]
    if not between:
        return None
    if not fitting:
        return _at_most(between, min(failed) / 4)
    if len(fitting) == 1:
        end = NEAR_END * _meets((0, trials[largest].base), fitting[0], limit)
        if failed:  # a line that has already promised too much is not believed again: half of the way
            end = (largest + min(failed)) / 2
        return _at_most(between, end)
    end = _meets(fitting[-2], fitting[-1], limit)  # by the two largest
    if failed and min(failed) <= end:  # the line promised too much here as well: the neighbour below the failure
        return between[-1]
    return _at_most(between, end)


def _meets(one: tuple[int, float], other: tuple[int, float], limit: float) -> float:
    """The micro-batch at which the line through two trials meets `limit`; twice the larger where it does not rise.

    `one`, `other`: (micro-batch, bytes), the smaller first.
    """
    (small, low), (large, high) = one, other
    slope = (high - low) / (large - small)
    return large + (limit - high) / slope if slope > 0 else 2.0 * large


def _result(trials: dict[int, Trial], sizes: list[int], limit: float) -> FrontierResult:
    """The result of a search from its `trials`, by micro-batch. `sizes`: all that were allowed, ascending."""
    best = max((trial for trial in trials.values() if trial.fits), key=lambda trial: trial.micro_batch, default=None)
    failed = min((size for size, trial in trials.items() if not trial.fits), default=None)
    above = [size for size in sizes if best is None or size > best.micro_batch]
    certificate: Certificate
    if not above:
        certificate = "largest allowed"
    elif failed is None:
        certificate = "none"
    elif failed == above[0]:
        certificate = "ran out of memory"
    else:
        certificate = "a larger one ran out of memory"
    return FrontierResult(
        limit,
        tuple(trials.values()),
        largest=best.micro_batch if best else None,
        fastest=None,
        certificate=certificate,
        near_full=best is not None and (best.retries > 0 or (best.nbytes or 0.0) > NEAR_FULL * limit),
        failed=failed,
    )
