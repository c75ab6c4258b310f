"""The runs of CSV files that are logs, by the columns that `csv_logs` has found."""

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from scaleproof.auditor.read.csv_logs import Layout, Records, cell_of, describe_run, of_first_group, records_of
from scaleproof.auditor.read.logged_steps import FIGURES
from scaleproof.auditor.read.printed_figures import is_nothing
from scaleproof.auditor.read.reported import ReportedRun, TimedSpan, positive, span_of, step_of
from scaleproof.auditor.read.reported_tables import LARGEST, gave_no_figures
from scaleproof.auditor.read.run_fields import figure, not_finite
from scaleproof.ground.errors import plural
from scaleproof.ground.records.grouping import group_by

MOST_RUNS = 500  # in one file
RATES = ("tokens_per_s", "samples_per_s")
ROWS_AT_ONCE = 1_000  # their columns are read one by one, which takes a fraction of the time
LEAST_EPOCHS_OF_CLOCK = 5  # fewer times that grow are no clock
MOST_TIMES_MEDIAN = 3.0  # an epoch takes no longer by a clock that runs through all epochs


def read_log(name: str, layout: Layout, lines: Iterator[str], first_line: int = 2) -> list[ReportedRun]:
    """Return the runs of a log, in the order of the file: one for each value of the columns that tell runs apart."""
    readers: dict[tuple[str, ...], _LoggedRun] = {}
    if not layout.key_columns and layout.group_column is None:
        readers[()] = _LoggedRun(name, layout)  # there is one run, even without a row
    numbered_records = enumerate(records_of(lines, layout.delimiter), start=first_line)
    rows = of_first_group(layout, numbered_records)
    while block := list(islice(rows, ROWS_AT_ONCE)):
        runs: dict[tuple[str, ...], list[tuple[int, list[str]]]] = {(): block}
        if layout.key_columns:
            runs = group_by(block, lambda row: tuple(cell_of(row[1], k) for k in layout.key_columns))
        for key, rows_of_run in runs.items():
            if key not in readers and len(readers) >= MOST_RUNS:
                continue  # further runs are left out
            if key not in readers:
                readers[key] = _LoggedRun(name, layout)
            readers[key].add_rows(rows_of_run)

    for key, reader in readers.items():
        reader.finish(key, several=len(readers) > 1)
    return [reader.run for reader in readers.values()]


class _LoggedRun:
    """One run of a log."""

    def __init__(self, name: str, layout: Layout) -> None:
        self.layout = layout
        self.run = ReportedRun(name, "step log (CSV)" if layout.kind == "steps" else "epoch log (CSV)")
        self.run.rate_scope = _scope(layout)
        self._result_columns = [k for quantity, k in layout.index_of.items() if quantity not in ("step", "epoch")]
        # Counts of what cannot be used.
        self._step_times_below_0 = 0
        self._lines_without_numbers: list[int] = []
        self._lines_longer_than_heading: list[int] = []

    def add_rows(self, rows: list[tuple[int, list[str]]]) -> None:
        """Take (line, record) of rows of the file, in its order: at once where all cells are usual, else one by one."""
        lines, records = zip(*rows, strict=True)
        if not self._add_columns(lines, records):
            for line, record in rows:
                self.add_row(record, line)

    def _add_columns(self, lines: Sequence[int], records: Records) -> bool:
        """Take steps by the columns of their rows. Return False, with nothing done, unless all is plain numbers."""
        layout = self.layout
        index_of = layout.index_of
        is_plain = layout.kind == "steps" and "epoch" not in index_of and not layout.has_decimal_commas
        if not is_plain or {*map(len, records)} != {len(layout.names)}:
            return False
        texts = list(zip(*records, strict=True))
        try:
            columns = {name: np.array([*map(float, texts[k])]) for name, k in index_of.items()}
        except ValueError:
            return False
        above_0 = [column for name, column in columns.items() if name in ("seconds", *RATES)]
        if not all(np.abs(column).max() < LARGEST for column in columns.values()):  # not "nan" either
            return False
        others = (cell for k, column in enumerate(texts) if k not in index_of.values() for cell in column)
        if any(column.min() <= 0 for column in above_0) or any(map(gave_no_figures, others)):
            return False

        figures = {name: (column * layout.columns[index_of[name]].scale).tolist() for name, column in columns.items()}
        numbers, memory = columns["step"].astype(int).tolist(), figures.get("memory")
        self.run.logged_steps.extend(numbers, lines, {name: figures[name] for name in FIGURES if name in figures})
        self.run.see_memory(max(memory) if memory else None)
        return True

    def add_row(self, record: list[str], line: int) -> None:
        """Take one row of the file. A full row that says that it has no figures ("OOM") is passed over.

        So are a heading that comes again, where a run went on, and longer rows: which value belongs to which heading?
        """
        names = self.layout.names
        if any(cell.strip() for cell in record[len(names) :]):
            # A comma in a last column of remarks moves no figure.
            last_kind, last_cell = self.layout.columns[-1].kind, record[len(names) - 1]
            if last_kind not in (None, "text") or figure(last_cell.strip()) is not None:
                self._lines_longer_than_heading.append(line)
                return
        if record and record[0].strip().lower() == names[0] and [cell.strip().lower() for cell in record] == names:
            return
        if len(record) == len(names):
            is_empty = all(is_nothing(cell_of(record, k)) for k in self._result_columns)
            if is_empty or any(map(gave_no_figures, record)):
                return

        values = self.layout.values_of(record)
        if self.layout.kind == "steps":
            self._add_step(record, values, line)
        else:
            self._add_epoch(record, values, line)
        if memory_bytes := values.get("memory"):
            self.run.see_memory(memory_bytes)

    def _note_loss_without_value(self, record: list[str], step: float | None) -> None:
        """Note the step of a row whose loss is not finite, "nan"."""
        k = self.layout.index_of.get("loss")
        if k is not None and step is not None and not_finite(cell_of(record, k)):
            self.run.nan_steps.append(int(step))

    def _add_step(self, record: list[str], values: dict[str, float | None], line: int) -> None:
        """Append the step of a row, or count the row as broken. `values`: {"step": 12, "loss": 2.3}, in base units."""
        seconds, step = values.get("seconds"), values.get("step")
        self._step_times_below_0 += seconds is not None and seconds <= 0
        if values.get("loss") is None:
            self._note_loss_without_value(record, step)

        has_figures = any(values.get(name) is not None for name in ("seconds", "tokens_per_s", "samples_per_s", "loss"))
        if step is None or not has_figures:
            # Lightning logs validation on rows of its own.
            is_validation = step is not None and values.get("val_loss") is not None
            self._lines_without_numbers += [line] if record and not is_validation else []
            return
        epoch = values.get("epoch")
        logged = step_of(int(step), seconds, values, line, None if epoch is None else int(epoch))
        self.run.logged_steps.append(logged)

    def _add_epoch(self, record: list[str], values: dict[str, float | None], line: int) -> None:
        """Append the epoch of a row, or count the row as broken. `values`: {"epoch": 1, "loss": 2.3}, in base units."""
        epoch, seconds = values.get("epoch"), positive(values.get("epoch_seconds"))
        if values.get("loss") is None:
            self._note_loss_without_value(record, epoch)
        if epoch is None or (seconds is None and "epoch_seconds" in self.layout.index_of):
            self._lines_without_numbers += [line] if record else []
            return
        self.run.timed_spans.append(span_of(int(epoch), seconds, values))

    def finish(self, key: tuple[str, ...], several: bool) -> None:
        """Take what the key columns say of this run, and report what could not be used.

        `key`: the texts in these columns. They are part of the run's name where the file has `several` runs.
        """
        run, layout = self.run, self.layout
        if "seconds" in layout.index_of and layout.columns[layout.index_of["seconds"]].unit is None:
            run.states_time_unit = False
        if "mfu" in layout.index_of and layout.columns[layout.index_of["mfu"]].unit is None:
            run.logged_steps.read_mfu_as_share()
        if "epoch_seconds" in layout.index_of and layout.kind_of("epoch_seconds") != "epoch_time_s":
            _subtract_clock(run.timed_spans)  # a "time" may run through all epochs
        for k, text in zip(layout.key_columns, key, strict=True):
            describe_run(run, layout.columns[k].kind, text)
        if several:
            run.name = f"{run.name}#{','.join(filter(None, key))}"[:200]
        self._report_problems()

    def _report_problems(self) -> None:
        """Note what could not be used."""
        problems = self.run.problems
        if longer := self._lines_longer_than_heading:
            lines = f"{plural(len(longer), 'line')} with more values than the heading has names"
            problems.append(f"{lines} (first: line {longer[0]}), not read; commas in numbers need quotes")
        if self._step_times_below_0:
            problems.append(f"{self._step_times_below_0:,} step times are 0 or less")
        if broken := self._lines_without_numbers:
            problems.append(f"{plural(len(broken), 'line')} without the numbers of a row (first: line {broken[0]})")


def _subtract_clock(spans: list[TimedSpan]) -> None:
    """Replace a clock that rises by about as much with each epoch by its differences: 60, 121, 180 -> 60, 61, 59 s."""
    clock = [span.seconds for span in spans if span.seconds]
    if len(clock) < max(LEAST_EPOCHS_OF_CLOCK, len(spans)):  # too few, or an epoch has no time
        return
    differences = np.diff(clock, prepend=0.0)
    if differences.min() > 0 and differences.max() < MOST_TIMES_MEDIAN * np.median(differences):
        for span, seconds in zip(spans, differences.tolist(), strict=True):
            span.seconds = seconds


def _scope(layout: Layout) -> str | None:
    """Return whose rate the heading says it is: "rank" or "global". None where it does not say."""
    k = layout.index_of.get("tokens_per_s", layout.index_of.get("samples_per_s"))
    per_device = None if k is None else layout.columns[k].per_device
    return {None: None, True: "rank", False: "global"}[per_device]
