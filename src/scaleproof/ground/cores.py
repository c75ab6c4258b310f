"""The cores that this process may use, and work in a second process on one of them."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
STOPS = (signal.SIGINT, signal.SIGTERM)
MANY_RUNS = 1000  # from as many on a second process is worth its start


def available_cores() -> int:
    """Logical CPUs that this process may use: its affinity where the system has one, else those of the machine."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def halves(items: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
    """For this process, and for the one beside it."""
    half = len(items) // 2
    return items[:half], items[half:]


@contextmanager
def beside(work: Callable[[], Result], runs: int) -> Iterator[Callable[[], Result]]:
    """Do `work` in a forked process during the block; gives a function that waits for its result.

        with beside(lambda: checked(runs[half:]), len(runs)) as rest:
            findings = checked(runs[:half]) + rest()

    The other process has all that this one has read, and only the result is sent back, which must be picklable. With
    one core, few `runs`, or where the other process failed or was killed, `work` is done here when its result is asked
    for: an error is raised here, once. The process ends with the block, however that ends.
    """
    if available_cores() < 2 or runs < MANY_RUNS:
        yield work
        return
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(work, sender), daemon=True)
    with _signals_later():  # none before the other process can end without a word
        process.start()
    sender.close()  # so that the end of the other process is the end of the pipe

    def result() -> Result:
        try:
            return receiver.recv()
        except EOFError:
            return work()

    try:
        yield result
    finally:
        process.kill()
        process.join()
        receiver.close()


def _send(work: Callable[[], Result], sender: Connection) -> None:
    """In the other process. What fails here is done, and reported, by the first one."""
    end_silently()
    with contextlib.suppress(Exception):
        sender.send(work())


def end_silently() -> None:
    """In a process that works for another one: Ctrl-C and SIGTERM end it, and the other one says so."""
    for number in STOPS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)


@contextmanager
def _signals_later() -> Iterator[None]:
    """Ctrl-C and SIGTERM wait until the end of the block; a process that is forked in it goes on without them."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
