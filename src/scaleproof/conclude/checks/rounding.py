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
    """Factors by which tolerances are multiplied, 1 where training amplifies no rounding.

    `replayed`: of each replayed step; `later`: of all steps after them; `validation`: of the validation loss.
    """

    replayed: np.ndarray
    later: float = 1.0
    validation: float = 1.0

    def of(self, steps: int) -> np.ndarray:
        """Return the factors of the first `steps` steps."""
        known = self.replayed[:steps]
        return np.concatenate([known, np.full(steps - len(known), self.later)])


def amplification(reference: Reference | None) -> Amplification:
    """Return by how much training amplifies rounding, from how far the repetitions of a replay come apart.

    Repetitions make the steps of the replay with other rounding. Without a replay (`reference`), or without
    repetitions of it, all factors are 1.
    """
    if reference is None or not reference.repetitions or not reference.losses:
        return Amplification(np.ones(0))
    replays: tuple[Reference | Repetition, ...] = (reference, *reference.repetitions)
    # Relative spreads, by step: each factor is a spread over that of replays in which nothing is amplified.
    losses = _apart([replay.losses for replay in replays], SMALL_LOSS)
    norms = _apart([replay.gradient_norms for replay in replays], 0.0)
    scored = [[replay.validation_loss] for replay in replays if replay.validation_loss is not None]
    validation = float(_apart(scored, SMALL_LOSS)[0]) if scored else 0.0
    later = max(1.0, float(losses[-1]) / QUIET, float(norms[-1]) / UNSETTLED_NORM)
    replayed = np.maximum(1.0, np.maximum(losses / QUIET, norms / QUIET_NORM))
    return Amplification(replayed, later, max(later, validation / QUIET))


def _apart(series: Sequence[Sequence[float]], least: float) -> np.ndarray:
    """Return for each step how far the `series` have come apart up to it, relative to the first of them.

    Values of the first series that are below `least` count as `least`.
    """
    values = np.array(series)  # (series, steps)
    scale = np.maximum(np.abs(values[0]), max(least, 1e-30))
    return np.asarray(np.maximum.accumulate((values.max(axis=0) - values.min(axis=0)) / scale))


def comparable(tolerance: np.ndarray) -> int:
    """Return how many steps, from the first one on, can be compared: up to the first meaningless `tolerance`."""
    too_far = np.flatnonzero(tolerance > MEANINGLESS)
    return int(too_far[0]) if len(too_far) else len(tolerance)
