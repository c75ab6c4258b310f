"""What somebody's program printed about its training, whoever has read it: a neutral form of its log."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, slots=True)
class PrintedStep:
    """A line about one step. `None`: the line does not say."""

    step: int
    line: int | None = None  # counted from 1
    seconds: float | None = None
    tokens_per_s: float | None = None
    samples_per_s: float | None = None
    loss: float | None = None  # NaN: printed, and no number


@dataclass(frozen=True, slots=True)
class PrintedSpan:
    """Something that was timed as a whole, such as an epoch or the whole training."""

    seconds: float | None = None
    tokens: int | None = None
    tokens_per_s: float | None = None
    samples_per_s: float | None = None
    steps: int | None = None
    loss: float | None = None
    epoch: int | None = None  # its number; None where it is no epoch


@dataclass(frozen=True)
class PrintedLog:
    """One run, as its log tells it."""

    reader: str
    guessed: bool = False  # no program is known that prints such lines
    steps: list[PrintedStep] = field(default_factory=list)
    spans: list[PrintedSpan] = field(default_factory=list)
    runs: int = 1  # whose steps are in the log; figures are those of the last one
    world_size: int | None = None
    tokens_per_step: float | None = None
    samples_per_step: int | None = None
    rate_of: Literal["all", "device"] | None = None  # whose rate the program is known to print


# Reads a log by the reader that knows its lines ("auto") or by a named one. None: there is no figure that it
# understands. Houses that measure are handed one: they know no reader themselves.
ReadLog = Callable[[Path, str], PrintedLog | None]
