"""The runs of CSV files that are logs: one row a step, or one row an epoch."""

import csv
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np

from scaleproof.auditor.read.csv_layout import RUN_KINDS, Layout, has_no_figures
from scaleproof.auditor.read.logged_steps import as_arrays
from scaleproof.auditor.read.reported import ReportedRun, TimedSpan, positive, span_of, step_of
from scaleproof.auditor.read.run_fields import FIELDS, LARGEST, OF_KIND, figure, not_finite
from scaleproof.auditor.read.words import described

MOST_RUNS = 500  # in one file
AT_ONCE = 10_000  # rows
CLOCK_ROWS = 5  # epochs whose times all grow, each by about as much as the first one took: the column is a clock
UNEVEN = 3.0  # times the median epoch that the first one may take
STEP_FIGURES = ("seconds", "loss", "tokens_per_s", "mfu", "samples_per_s")


def read_log(name: str, layout: Layout, lines: Iterator[str], first_line: int = 2) -> list[ReportedRun]:
    """Return the runs of a log, in the order of the file: one for each value of the columns that tell runs apart.
    `lines` are those below the heading; `first_line` is the number of the first.
    """
    if not layout.keys and layout.group is None:
        reader = _LoggedRun(name, layout)
        records = records_of(lines, layout.delimiter)
        while part := list(islice(records, AT_ONCE)):
            reader.rows(part, first_line)
            first_line += len(part)
        reader.finish((), several=False)
        return [reader.run]
    readers: dict[tuple[str, ...], _LoggedRun] = {}
    chosen: str | None = None  # the first rank, split or fold: rows of others are left out
    for number, record in enumerate(records_of(lines, layout.delimiter), start=first_line):
        if layout.group is not None and layout.group < len(record):
            chosen = record[layout.group] if chosen is None else chosen
            if record[layout.group] != chosen:
                continue
        key = tuple(record[k].strip() if k < len(record) else "" for k in layout.keys)
        if key not in readers:
            if len(readers) >= MOST_RUNS:
                break
            readers[key] = _LoggedRun(name, layout)
        readers[key].row(record, number)
    for key, reader in readers.items():
        reader.finish(key, several=len(readers) > 1)
    return [reader.run for reader in readers.values()]


def records_of(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    yield from csv.reader((line.replace("\0", "") for line in lines), delimiter=delimiter)


class _LoggedRun:
    """One run of a log."""

    def __init__(self, name: str, layout: Layout) -> None:
        self.layout = layout
        self.run = ReportedRun(name, "step log (CSV)" if layout.kind == "steps" else "epoch log (CSV)")
        self.run.rate_scope = _scope(layout)
        self._figures = [at for what, at in layout.places.items() if what not in ("step", "epoch")]
        # How many step times of 0 or less, lines that are no rows of numbers, and losses that are not finite.
        self._backward, self._broken = 0, 0
        self._not_finite = 0

    def rows(self, records: list[list[str]], first: int) -> None:
        """Take many rows that follow each other; `first` is the line of the first one."""
        if not self._plain(records, first):
            for number, record in enumerate(records, start=first):
                self.row(record, number)

    def _plain(self, records: list[list[str]], first: int) -> bool:
        """Take rows of steps of which every figure is there and possible, column by column; false, with nothing taken,
        where one is not.
        """
        places = self.layout.places
        if self.layout.kind != "steps" or "epoch" in places or len({len(record) for record in records}) != 1:
            return False
        columns = list(zip(*records, strict=True))
        if max(places.values()) >= len(columns):
            return False
        try:
            values = {what: np.array(columns[at], dtype=np.float64) for what, at in places.items()}
        except ValueError:
            return False
        if any(not (np.abs(column) < LARGEST).all() for column in values.values()):
            return False
        if any((values[what] <= 0).any() for what in ("seconds", "tokens_per_s", "samples_per_s") if what in values):
            return False
        figures = {what: values[what] for what in STEP_FIGURES if what in values}
        for what in ("seconds", "mfu"):
            if what in figures:
                figures[what] = figures[what] * self.layout.scale(what)
        self.run.logged_steps.extend(values["step"].astype(np.int64).tolist(), first, as_arrays(figures))
        if "memory" in values:
            most = float(values["memory"].max()) * self.layout.scale("memory")
            self.run.memory_reported_bytes = max(self.run.memory_reported_bytes or 0.0, most) or None
        return True

    def row(self, record: list[str], number: int) -> None:
        """Take one row, which is line `number` of the file; rows that say that there are no figures are passed over."""
        if len(record) == len(self.layout.names) and has_no_figures(record, self._figures):
            return
        values = {what: figure(record[at]) if at < len(record) else None for what, at in self.layout.places.items()}
        for what in ("seconds", "epoch_seconds", "mfu"):
            value = values.get(what)
            if value is not None:
                values[what] = value * self.layout.scale(what)
        if self.layout.kind == "steps":
            self._step(record, values, number)
        else:
            self._epoch(record, values)
        if used := values.get("memory"):
            self.run.memory_reported_bytes = max(
                self.run.memory_reported_bytes or 0.0, used * self.layout.scale("memory")
            )

    def _nan(self, record: list[str], step: float | None) -> None:
        """Note a loss that is not finite, with its step (None where the row has none)."""
        place = self.layout.places.get("loss")
        if place is not None and place < len(record) and not_finite(record[place]):
            self._not_finite += 1
            if step is not None:
                self.run.nan_steps.append(int(step))

    def _step(self, record: list[str], values: dict[str, float | None], number: int) -> None:
        """Append the step of a row (`values`: what -> figure in base units), or count the row as broken."""
        seconds, step = values.get("seconds"), values.get("step")
        self._backward += seconds is not None and seconds <= 0
        rate, samples = values.get("tokens_per_s"), values.get("samples_per_s")
        if values.get("loss") is None:
            self._nan(record, step)
        if step is None or (seconds is None and rate is None and samples is None and values.get("loss") is None):
            self._broken += bool(record) and not self._sparse(values)
            return
        epoch = values.get("epoch")
        at = None if epoch is None else int(epoch)
        self.run.logged_steps.append(step_of(int(step), seconds, values, number, at))

    def _sparse(self, values: dict[str, float | None]) -> bool:
        """Whether a row has only a validation loss: Lightning logs validation on rows of its own."""
        return values.get("step") is not None and values.get("val_loss") is not None

    def _epoch(self, record: list[str], values: dict[str, float | None]) -> None:
        """Append the epoch of a row (`values`: what -> figure in base units), or count the row as broken."""
        epoch, seconds = values.get("epoch"), positive(values.get("epoch_seconds"))
        if values.get("loss") is None:
            self._nan(record, epoch)
        if epoch is None or (seconds is None and "epoch_seconds" in self.layout.places):
            self._broken += bool(record)
            return
        self.run.timed_spans.append(span_of(int(epoch), seconds, values))

    def finish(self, key: tuple[str, ...], several: bool) -> None:
        """Take what the key columns say (`key`, a value each); report what could not be used. With `several` runs in a
        file their keys are part of their names.
        """
        run, problems = self.run, self.run.problems
        if "epoch_seconds" in self.layout.places and self.layout.kind_of("epoch_seconds") != "epoch_time_s":
            _take_differences(run.timed_spans)
        for place, text in zip(self.layout.keys, key, strict=True):
            _describe(run, self.layout.columns[place].kind, text)
        if several:
            run.name = f"{run.name}#{','.join(filter(None, key))}"[:200]
            run.details["key"] = ", ".join(
                f"{self.layout.names[k]}={v}" for k, v in zip(self.layout.keys, key, strict=True) if v
            )
        if self._backward:
            problems.append(f"{self._backward:,} step times are 0 or less")
        if self._not_finite:
            problems.append(f"{self._not_finite:,} losses are not finite")
            run.details["nan_steps"] = self._not_finite
        if self._broken:
            problems.append(f"{self._broken:,} lines are no rows of numbers")


def _take_differences(spans: list[TimedSpan]) -> None:
    """Make the times of epochs out of a clock that runs from epoch to epoch ("hours"); other times are left alone."""
    clock = [span.seconds for span in spans if span.seconds]
    seconds = np.diff(clock, prepend=0.0)
    if (
        len(spans) >= CLOCK_ROWS
        and len(clock) == len(spans)
        and seconds.min() > 0
        and seconds.max() < UNEVEN * np.median(seconds)
    ):
        for span, own in zip(spans, seconds.tolist(), strict=True):
            span.seconds = own


def _scope(layout: Layout) -> str | None:
    """Return whose rate the heading says it is: "rank" or "global"; None where it does not say."""
    place = layout.places.get("tokens_per_s", layout.places.get("samples_per_s"))
    per_device = None if place is None else layout.columns[place].per_device
    if per_device is None:
        return None
    return "rank" if per_device else "global"


def _describe(run: ReportedRun, kind: str | None, text: str) -> None:
    """Take what one cell below a heading of this kind says about a run: a number, a name, or words like "FSDP bf16"."""
    field = OF_KIND.get(kind or "") if kind in RUN_KINDS else None
    if field and FIELDS[field].whole:
        value = figure(text)
        if value and value == int(value):
            setattr(run, field, int(value))
    elif kind in ("model", "dataset") and text:
        setattr(run, kind, text)
    else:
        description = described(text)
        run.strategy = run.strategy or description.words.get("strategy")
        run.precision = run.precision or description.words.get("precision")
        run.world_size = run.world_size or description.numbers.get("devices")
