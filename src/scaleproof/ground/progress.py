"""Progress of long work: a bar on a terminal, a quiet line now and then in a log file."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tqdm import tqdm

from scaleproof.ground.number_format import integer

Item = TypeVar("Item")


def show_progress(items: Iterable[Item], total: int, label: str, unit: str) -> Iterator[Item]:
    """Yield `items`, of which there are `total`, and show on stderr how many are done: in a log, a line each tenth."""
    if sys.stderr.isatty():
        yield from tqdm(items, total=total, desc=label, unit=unit, file=sys.stderr)
        return
    for done, item in enumerate(items, start=1):
        yield item
        if done * 10 // total > (done - 1) * 10 // total:  # another tenth is complete
            print(f"{label}: {integer(done)} of {integer(total)} {unit}", file=sys.stderr, flush=True)


@contextmanager
def show_bytes(total: int | None, label: str, done: int = 0) -> Iterator[Callable[[int], None]]:
    """Show progress in bytes. Yield a function to call with the number of bytes that came since its last call.

    `total`: bytes in all, if known; `done`: bytes that were there before.
    """
    if sys.stderr.isatty():
        with tqdm(total=total, initial=done, desc=label, unit="B", unit_scale=True, file=sys.stderr, delay=1) as bar:
            yield bar.update
        return

    def note_bytes(count: int) -> None:
        """Note `count` further bytes, and print a line with each tenth of `total`."""
        nonlocal done
        before, done = done, done + count
        if total and done * 10 // total > before * 10 // total:  # another tenth is complete
            print(f"{label}: {integer(done)} of {integer(total)} bytes", file=sys.stderr, flush=True)

    yield note_bytes
