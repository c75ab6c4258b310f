"""The runs of CSV files that are logs: one row a step, or one row an epoch."""

import csv
from collections.abc import Iterable, Iterator

import numpy as np

from scaleproof.auditor.read.csv_layout import RUN_KINDS, Layout, has_no_figures
from scaleproof.auditor.read.reported import ReportedRun, TimedSpan, positive, span_of, step_of
from scaleproof.auditor.read.run_fields import FIELDS, OF_KIND, figure, not_finite
from scaleproof.auditor.read.words import describe

MOST_RUNS = 500  # in one file
CLOCK_ROWS = 5  # epochs whose times all grow, each by about as much as the first one took: the column is a clock
MOST_TIMES_MEDIAN = 3.0  # that an epoch may take, by such a clock


def read_log(name: str, layout: Layout, lines: Iterator[str], first_line: int = 2) -> list[ReportedRun]:
    """Return the runs of a log, in the order of the file: one for each value of the columns that tell runs apart.

    `lines`: those below the heading, of which `first_line` is the number of the first.
    """
    readers: dict[tuple[str, ...], _LoggedRun] = {}
    if not layout.keys and layout.group is None:
        readers[()] = _LoggedRun(name, layout)  # a run, whatever its lines
    first_group: str | None = None
    for number, record in enumerate(records_of(lines, layout.delimiter), start=first_line):
        if layout.group is not None and layout.group < len(record):
            first_group = record[layout.group] if first_group is None else first_group
            if record[layout.group] != first_group:
                continue  # of another rank, split or fold
        key = tuple(record[k].strip() if k < len(record) else "" for k in layout.keys)
        if key not in readers:
            if len(readers) >= MOST_RUNS:
                break
            readers[key] = _LoggedRun(name, layout)
        readers[key].add_row(record, number)
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
        self._columns_of_figures = [k for what, k in layout.places.items() if what not in ("step", "epoch")]
        self._step_times_below_0 = 0
        self._lines_without_numbers = 0
        self._losses_not_finite = 0

    def add_row(self, record: list[str], number: int) -> None:
        """Take one row, line `number` of the file. Rows that say that there are no figures are passed over."""
        if len(record) == len(self.layout.names) and has_no_figures(record, self._columns_of_figures):
            return
        values = {what: figure(record[k]) if k < len(record) else None for what, k in self.layout.places.items()}
        for what in ("seconds", "epoch_seconds", "mfu"):
            value = values.get(what)
            if value is not None:
                values[what] = value * self.layout.scale(what)
        if self.layout.kind == "steps":
            self._add_step(record, values, number)
        else:
            self._add_epoch(record, values)
        if used := values.get("memory"):
            self.run.memory_reported_bytes = max(
                self.run.memory_reported_bytes or 0.0, used * self.layout.scale("memory")
            )

    def _note_loss_without_value(self, record: list[str], step: float | None) -> None:
        """Count a loss that is not finite, "nan", with its step where the row has one."""
        k = self.layout.places.get("loss")
        if k is not None and k < len(record) and not_finite(record[k]):
            self._losses_not_finite += 1
            if step is not None:
                self.run.nan_steps.append(int(step))

    def _add_step(self, record: list[str], values: dict[str, float | None], number: int) -> None:
        """Append the step of a row (`values`: what -> figure in base units), or count the row as broken."""
        seconds, step = values.get("seconds"), values.get("step")
        self._step_times_below_0 += seconds is not None and seconds <= 0
        if values.get("loss") is None:
            self._note_loss_without_value(record, step)
        has_figures = any(values.get(what) is not None for what in ("seconds", "tokens_per_s", "samples_per_s", "loss"))
        if step is None or not has_figures:
            # Lightning logs validation on rows of its own.
            is_validation = step is not None and values.get("val_loss") is not None
            self._lines_without_numbers += bool(record) and not is_validation
            return
        epoch = values.get("epoch")
        logged = step_of(int(step), seconds, values, number, None if epoch is None else int(epoch))
        self.run.logged_steps.append(logged)

    def _add_epoch(self, record: list[str], values: dict[str, float | None]) -> None:
        """Append the epoch of a row (`values`: what -> figure in base units), or count the row as broken."""
        epoch, seconds = values.get("epoch"), positive(values.get("epoch_seconds"))
        if values.get("loss") is None:
            self._note_loss_without_value(record, epoch)
        if epoch is None or (seconds is None and "epoch_seconds" in self.layout.places):
            self._lines_without_numbers += bool(record)
            return
        self.run.timed_spans.append(span_of(int(epoch), seconds, values))

    def finish(self, key: tuple[str, ...], several: bool) -> None:
        """Take what the columns that tell runs apart say of this one, and report what could not be used.

        `key`: their values, which are part of the run's name where there are `several` in the file.
        """
        run, problems = self.run, self.run.problems
        if "epoch_seconds" in self.layout.places and self.layout.kind_of("epoch_seconds") != "epoch_time_s":
            _subtract_clock(run.timed_spans)
        for k, text in zip(self.layout.keys, key, strict=True):
            _describe(run, self.layout.columns[k].kind, text)
        if several:
            run.name = f"{run.name}#{','.join(filter(None, key))}"[:200]
        if self._step_times_below_0:
            problems.append(f"{self._step_times_below_0:,} step times are 0 or less")
        if self._losses_not_finite:
            problems.append(f"{self._losses_not_finite:,} losses are not finite")
            run.details["nan_steps"] = self._losses_not_finite
        if self._lines_without_numbers:
            problems.append(f"{self._lines_without_numbers:,} lines are no rows of numbers")


def _subtract_clock(spans: list[TimedSpan]) -> None:
    """Make times of epochs out of a clock that runs through all of them, e.g. 60, 61, 59 out of 60, 121, 180 s."""
    clock = [span.seconds for span in spans if span.seconds]
    if len(clock) < max(CLOCK_ROWS, len(spans)):
        return
    differences = np.diff(clock, prepend=0.0)
    if differences.min() > 0 and differences.max() < MOST_TIMES_MEDIAN * np.median(differences):
        for span, seconds in zip(spans, differences.tolist(), strict=True):
            span.seconds = seconds


def _scope(layout: Layout) -> str | None:
    """Return whose rate the heading says it is: "rank" or "global". None where it does not say."""
    k = layout.places.get("tokens_per_s", layout.places.get("samples_per_s"))
    if k is None or layout.columns[k].per_device is None:
        return None
    return "rank" if layout.columns[k].per_device else "global"


def _describe(run: ReportedRun, kind: str | None, text: str) -> None:
    """Take what a cell below a heading of this kind says about a run: "FSDP bf16" -> strategy and precision."""
    field = OF_KIND.get(kind or "") if kind in RUN_KINDS else None
    if field and FIELDS[field].whole:
        value = figure(text)
        if value and value == int(value):
            setattr(run, field, int(value))
    elif kind in ("model", "dataset") and text:
        setattr(run, kind, text)
    else:
        description = describe(text)
        run.strategy = run.strategy or description.words.get("strategy")
        run.precision = run.precision or description.words.get("precision")
        run.world_size = run.world_size or description.numbers.get("devices")
