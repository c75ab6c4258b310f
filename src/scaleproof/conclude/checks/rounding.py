"""By how much training itself amplifies rounding: replays of the same steps that were rounded otherwise tell.

Where the loss is steep, sound runs come apart by more than any constant allows: with a learning rate of 0.01 a tiny
GPT-2 does so a thousand times within two steps, on one device too. Tolerances grow by as much.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scaleproof.measure.reference.schema import Reference, Repetition

SMALL_LOSS = 1.0  # nats; differences of smaller losses are relative to it
# How far apart three replays are in which nothing is amplified: losses were within 6e-8 over 29 steps, norms of the
# gradients, which show it earlier, within 5e-7. One draw of rounding may well be some ten times another: tolerances
# stand 50 to 100 times above.
QUIET, QUIET_NORM = 1e-7, 2e-6
UNSETTLED_NORM = 1e-5  # norms that are so far apart at the end of the replay announce that losses will be
MEANINGLESS, MEANINGLESS_NORM = 0.1, 0.5  # relative; of a tolerance with which nothing is compared any more


@dataclass(frozen=True)
class Amplification:
    """Factors of tolerances, 1 where nothing is amplified: of each replayed step, and of what comes after them."""

    replayed: np.ndarray
    later: float = 1.0
    validation: float = 1.0

    def of(self, steps: int) -> np.ndarray:
        """Of as many steps from the first one on."""
        known = self.replayed[:steps]
        return np.concatenate([known, np.full(steps - len(known), self.later)])


def amplification(reference: Reference | None) -> Amplification:
    """What the repetitions of a reference show; nothing is amplified where there is none, or none of them."""
    if reference is None or not reference.repetitions or not reference.losses:
        return Amplification(np.ones(0))
    series: tuple[Reference | Repetition, ...] = (reference, *reference.repetitions)
    losses = _apart([made.losses for made in series], SMALL_LOSS)
    norms = _apart([made.gradient_norms for made in series], 0.0)
    scored = [[made.validation_loss] for made in series if made.validation_loss is not None]
    validation = float(_apart(scored, SMALL_LOSS)[0]) if scored else 0.0
    later = max(1.0, float(losses[-1]) / QUIET, float(norms[-1]) / UNSETTLED_NORM)
    replayed = np.maximum(1.0, np.maximum(losses / QUIET, norms / QUIET_NORM))
    return Amplification(replayed, later, max(later, validation / QUIET))


def _apart(series: Sequence[Sequence[float]], least: float) -> np.ndarray:
    """How far apart some series have come up to each step, relative to the first one."""
    values = np.array(series)
    scale = np.maximum(np.abs(values[0]), max(least, 1e-30))
    return np.asarray(np.maximum.accumulate((values.max(axis=0) - values.min(axis=0)) / scale))


def comparable(tolerance: np.ndarray) -> int:
    """Steps from the first one on in which a comparison within `tolerance` means something."""
    too_far = np.flatnonzero(tolerance > MEANINGLESS)
    return int(too_far[0]) if len(too_far) else len(tolerance)
