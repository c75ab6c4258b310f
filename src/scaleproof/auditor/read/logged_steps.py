"""The steps of a log. They are stored in columns: a log of 200 MB has millions of steps."""

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, overload

import numpy as np

Figures = np.ndarray[tuple[int], np.dtype[np.float64]]
UNKNOWN = -(2**62)  # a whole number that a line does not state


@dataclass(slots=True)
class LoggedStep:
    """One line of a step log, as its program printed it."""

    step: int
    seconds: float | None = None
    loss: float | None = None
    tokens_per_s: float | None = None
    epoch: int | None = None
    mfu: float | None = None  # 1 is the peak
    flops_per_s: float | None = None  # of one device
    samples_per_s: float | None = None
    line: int | None = None


LARGEST_MFU = 1.5  # a larger figure is no share, not even a wrong one
FIGURES = ("seconds", "loss", "tokens_per_s", "mfu", "flops_per_s", "samples_per_s")
_figures_of = attrgetter(*FIGURES)


class StepSeries(Sequence[LoggedStep]):
    """Steps in the order of their lines. Its elements are copies: changing one changes nothing here."""

    def __init__(self, steps: Iterable[LoggedStep] = ()) -> None:
        self.step_numbers = array("q")
        self._lines = array("q")
        self._epochs: array[int] | None = None  # None as long as no step has an epoch
        self._figures: dict[str, array[float]] = {}
        for step in steps:
            self.append(step)

    def append(self, step: LoggedStep) -> None:
        """Add one step. Raises OverflowError for whole numbers beyond 63 bits."""
        steps_before = len(self.step_numbers)
        try:
            self.step_numbers.append(step.step)
        except OverflowError:
            place = "" if step.line is None else f", line {step.line}"
            raise OverflowError(f"a step of {len(str(step.step))} digits{place}") from None
        self._lines.append(UNKNOWN if step.line is None else step.line)
        if step.epoch is not None and self._epochs is None:
            self._epochs = array("q", [UNKNOWN]) * steps_before
        if self._epochs is not None:
            self._epochs.append(UNKNOWN if step.epoch is None else step.epoch)

        # A column is as long as the last step that has its figure; `_columns` fills what is missing with NaN.
        for name, value in zip(FIGURES, _figures_of(step), strict=True):
            if value is not None:
                column = self._figures.get(name)
                if column is None or len(column) < steps_before:
                    column = self._filled(name, steps_before)
                column.append(value)

    def extend(
        self, numbers: Sequence[int], lines: Sequence[int], figures: Mapping[str, Sequence[float | None]]
    ) -> None:
        """Add steps by their numbers, their lines, and the figures of each column; none of them has an epoch."""
        steps_before = len(self)
        self.step_numbers.extend(numbers)
        self._lines.extend(lines)
        if self._epochs is not None:
            self._epochs.extend([UNKNOWN] * len(numbers))
        for name, values in figures.items():
            if any(value is not None for value in values):
                column = self._filled(name, steps_before)
                column.extend([math.nan if value is None else value for value in values])

    def _filled(self, name: str, length: int) -> "array[float]":
        """Return the column of a figure, with NaN behind its last one up to `length`."""
        column = self._figures.setdefault(name, array("d"))
        column.extend(array("d", [math.nan]) * (length - len(column)))
        return column

    def _columns(self) -> "dict[str, array[float]]":
        """Return the columns of all figures that any step has, each as long as the steps are many."""
        return {name: self._filled(name, len(self)) for name in self._figures}

    def __len__(self) -> int:
        return len(self.step_numbers)

    @overload
    def __getitem__(self, place: int) -> LoggedStep: ...
    @overload
    def __getitem__(self, place: slice) -> list[LoggedStep]: ...
    def __getitem__(self, place: int | slice) -> LoggedStep | list[LoggedStep]:
        if isinstance(place, slice):
            return [self._at(k) for k in range(len(self))[place]]
        return self._at(range(len(self))[place])

    def __iter__(self) -> Iterator[LoggedStep]:
        return map(self._at, range(len(self)))

    def _at(self, place: int) -> LoggedStep:
        """Return the step at an index of 0 or more."""
        step = LoggedStep(self.step_numbers[place], line=_unless_unknown(self._lines[place]))
        if self._epochs is not None:
            step.epoch = _unless_unknown(self._epochs[place])
        for name, column in self._figures.items():
            value = column[place] if place < len(column) else math.nan
            if not math.isnan(value):
                setattr(step, name, value)
        return step

    def read_mfu_as_share(self) -> None:
        """Divide the MFU of all steps by 100 where one is above LARGEST_MFU: a log without a unit had it in percent."""
        column = self.figures("mfu")
        if column.size and np.nanmax(column, initial=0.0) > LARGEST_MFU:
            self._figures["mfu"] = array("d", (column / 100).tobytes())

    def figures(self, name: str) -> Figures:
        """Return a copy of a column, with NaN where a line does not have the figure."""
        return np.array(self._filled(name, len(self))) if name in self._figures else np.full(len(self), math.nan)

    def values(self, name: str) -> Figures:
        """Return the known figures of a column: [2.3, nan, 2.1] -> [2.3, 2.1]."""
        column = self.figures(name)
        return column[~np.isnan(column)]

    def nonzero(self, name: str) -> Figures:
        """Return the known figures of a column that are not 0."""
        values = self.values(name)
        return values[values != 0]

    def having(self, *names: str) -> "StepSeries":
        """Return the steps that have all of these figures, none of them 0."""
        have_all = np.ones(len(self), dtype=bool)
        for name in names:
            column = self.figures(name)
            have_all &= ~np.isnan(column) & (column != 0)
        if have_all.all():
            return self

        places = np.flatnonzero(have_all)

        def at_places(typecode: Literal["q", "d"], column: "array[int] | array[float]") -> "array[Any]":
            """Return the elements of a column at the places of the steps that have all figures."""
            return array(typecode, np.array(column)[places].tobytes())

        part = StepSeries()
        part.step_numbers = at_places("q", self.step_numbers)
        part._lines = at_places("q", self._lines)
        if self._epochs is not None:
            part._epochs = at_places("q", self._epochs)
        part._figures = {name: at_places("d", column) for name, column in self._columns().items()}
        return part


def _unless_unknown(number: int) -> int | None:
    return None if number == UNKNOWN else number
