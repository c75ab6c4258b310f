"""Two or more sides of a comparison, run in turn; ratios pair by pair, medians, spread."""

import ctypes
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of malloc.h


def keep_pages() -> None:
    """Let glibc's allocator keep its pages, in this process and those forked from it.

    Else each step of a small model gives some back and takes them again, none to 8,000, as memory happens to lie: up to
    7 % of a step, on either side.
    """
    allocator = ctypes.CDLL(None)
    allocator.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
    allocator.mallopt(M_MMAP_MAX, 0)


def in_turn(sides: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Run every side once a round and collect what each returns (seconds). The order turns from round to round."""
    names = list(sides)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            seconds[name].append(sides[name]())
        if (turn + 1) % max(1, rounds // 10) == 0:
            print(
                f"round {turn + 1} of {rounds}: " + ", ".join(f"{n} {seconds[n][-1]:.4g} s" for n in names), flush=True
            )
    return seconds


def quietly(command: list[Any], **options: Any) -> None:
    """Run a command that says nothing where it works; where it does not, this program ends with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")


def ratios(top: list[float], bottom: list[float]) -> list[float]:
    return [a / b for a, b in zip(top, bottom, strict=True)]


def show(label: str, values: list[float]) -> float:
    """Print and return the median, with the smallest and largest value beside it."""
    median = statistics.median(values)
    print(f"{label}: {median:.3f} (median of {len(values)}; {min(values):.3f} to {max(values):.3f})")
    return median
