"""Arithmetic with printed figures: what a figure may have been before it was rounded.

A printed 2.97 was between 2.96 and 2.98, whether it was rounded or cut off. An identity between printed figures is
broken only where no figures in these intervals fulfil it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from scaleproof.auditor.read.reported_tables import Quantity

# Means of ratios are not ratios of means, and figures of one row may be of different repeats.
TOLERANCE = 0.02
ABOUT = 0.08  # relative difference that "~" allows


@dataclass(frozen=True)
class PrintedInterval:
    """Every value that a positive figure may have had, both ends included."""

    low: float
    high: float

    def __mul__(self, other: "PrintedInterval | float") -> "PrintedInterval":
        if isinstance(other, PrintedInterval):
            return PrintedInterval(self.low * other.low, self.high * other.high)
        return PrintedInterval(self.low * other, self.high * other)

    def __add__(self, other: float) -> "PrintedInterval":
        return PrintedInterval(self.low + other, self.high + other)

    def __truediv__(self, other: "PrintedInterval | float") -> "PrintedInterval":
        if isinstance(other, PrintedInterval):
            return PrintedInterval(self.low / other.high, self.high / max(other.low, 1e-300))
        return PrintedInterval(self.low / other, self.high / other)

    def widened(self, relative: float) -> "PrintedInterval":
        """Both ends moved outwards by a share of their own value."""
        return PrintedInterval(self.low * (1 - relative), self.high * (1 + relative))

    def meets(self, other: "PrintedInterval", relative: float = TOLERANCE) -> bool:
        """Whether one value, give or take a relative difference, can be in both."""
        wide = self.widened(relative)
        return wide.low <= other.high and other.low <= wide.high

    def meets_but_for_thousands(self, other: "PrintedInterval", relative: float = TOLERANCE) -> bool:
        """Whether they meet, or would if a mark of thousands was taken for a decimal point in one or two figures."""
        return any(self.meets(other * factor, relative) for factor in (1.0, 1e3, 1e-3, 1e6, 1e-6))

    def contains(self, value: float, relative: float = TOLERANCE) -> bool:
        wide = self.widened(relative)
        return wide.low <= value <= wide.high

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def precision(self) -> float:
        """Half the width, relative to the middle."""
        return (self.high - self.low) / (self.high + self.low) if self.high + self.low > 0 else 1.0


def interval(quantity: Quantity) -> PrintedInterval:
    """What a printed figure may have been: one unit of its last digit either way, or ABOUT. Never below zero."""
    value, unit = abs(quantity.value), quantity.resolution
    if quantity.bound == "~":
        unit = max(unit, ABOUT * value)
    return PrintedInterval(max(0.0, value - unit), value + unit)


def exact(value: float) -> PrintedInterval:
    return PrintedInterval(value, value)


def hull(intervals: Iterable[PrintedInterval]) -> PrintedInterval:
    """The smallest interval that holds all of them."""
    intervals = tuple(intervals)
    return PrintedInterval(min(i.low for i in intervals), max(i.high for i in intervals))
