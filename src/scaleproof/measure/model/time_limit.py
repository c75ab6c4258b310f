"""A limit of the computing time for a user's code that may never return."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block once it has computed for `seconds`; never where it is not the main thread's."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"it has not returned after {seconds:g} s of computing")

    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
