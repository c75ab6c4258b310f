"""When the steps of one rank were, and what its device did in them, as arrays."""

from dataclasses import dataclass

import numpy as np

from scaleproof.measure.trace.time_spans import Spans, merge_spans

GAP_NS = 10_000  # longer pauses of a device are counted


@dataclass(frozen=True)
class Windows:
    """When the traced steps of one rank began and ended. On a GPU a step lasts until the next step's first kernel."""

    starts: np.ndarray
    ends: np.ndarray
    host_starts: np.ndarray
    host_ends: np.ndarray


@dataclass(frozen=True)
class DeviceWork:
    """What one rank's device did, as parallel arrays: times in ns, and places in a breakdown's lists of names."""

    launched: np.ndarray
    start: np.ndarray
    end: np.ndarray
    kind: np.ndarray  # place in `kinds`
    collective: np.ndarray  # place in `collective_names`; -1: no collective

    def spans(self, chosen: np.ndarray, pause: int = 0) -> Spans:
        """Return when any work in the boolean mask `chosen` ran. Pauses of at most `pause` ns count as work."""
        return merge_spans(self.start[chosen], self.end[chosen], pause)


def count_gaps(busy: Spans, window: Windows) -> np.ndarray:
    """Return how many pauses of more than GAP_NS begin in each step. `busy`: when the device worked."""
    starts, ends = busy
    if not len(starts):
        return np.zeros(len(window.starts), np.int64)
    # A pause lasts from the end of a span of work to the start of the next, or to the end of the last step.
    pause_starts = ends
    pause_ends = np.append(starts[1:], window.ends[-1:])
    gaps = pause_starts[(pause_ends - pause_starts) > GAP_NS]
    return np.searchsorted(gaps, window.ends) - np.searchsorted(gaps, window.starts)
