"""The runs of CSV files that are logs, a row a step or an epoch: where their columns are, and what they say."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.printed_figures import RESULTS, figures_of, gave_no_figures, is_european, is_nothing
from scaleproof.auditor.read.reported import ReportedRun, TimedSpan, positive, span_of, step_of
from scaleproof.auditor.read.reported_tables import TableColumn
from scaleproof.auditor.read.row_figures import counts_devices
from scaleproof.auditor.read.run_fields import FIELDS, OF_KIND, figure, not_finite
from scaleproof.auditor.read.words import describe
from scaleproof.ground.errors import plural
from scaleproof.ground.records.grouping import group_by

DELIMITERS = (",", "\t", ";", "|")
# The raw series of our own runs: their folder is what can be audited.
COLUMNS_OF_SCALEPROOF = {"phase", "rank", "data_wait_s"}
# Columns of ranks and splits: the rows of the first value are read ...
GROUPS = ("rank", "local_rank", "split", "phase", "fold", "process", "process_index")
# ... and columns whose values are different runs.
RUN_KEYS = (
    *("seed", "run", "run_id", "trial", "repeat", "experiment", "exp"),
    *("config", "configuration", "name", "method", "mode", "setup"),
)
RUN_KINDS = (
    *("strategy", "precision", "model", "dataset", "device", "backend", "devices", "processes", "nodes"),
    *("batch", "global_batch", "micro_batch", "zero_stage", "accumulation", "seq_len"),
)


@dataclass(slots=True)
class Layout:
    """Where the columns of a log are."""

    kind: str  # "steps" or "epochs"
    delimiter: str
    names: list[str]
    columns: list[TableColumn]
    index_of: dict[str, int] = field(default_factory=dict)  # quantity of KINDS_OF, or "rate" -> its column
    key_columns: list[int] = field(default_factory=list)  # columns that tell runs apart
    group_column: int | None = None  # a column of GROUPS: the rows of its first value are read
    has_decimal_commas: bool = False

    def kind_of(self, quantity: str) -> str | None:
        return self.columns[self.index_of[quantity]].kind

    def values_of(self, record: list[str]) -> dict[str, float | None]:
        """Return quantity -> figure of a row in base units: {"step": 12, "tokens_per_s": 39400} of "12,39.4"."""
        values: dict[str, float | None] = {}
        for quantity, k in self.index_of.items():
            cell = record[k] if k < len(record) else ""
            value = figure(cell.replace(".", "").replace(",", ".") if self.has_decimal_commas else cell)
            values[quantity] = None if value is None else value * self.columns[k].scale
            if quantity in ("seconds", "epoch_seconds") and (":" in cell or not cell[-1:].isdigit()):  # "63s"
                for printed in figures_of(cell.strip(), self.has_decimal_commas):
                    if printed.unit and printed.unit.dimension == "time":
                        values[quantity] = printed.value * printed.unit.scale
        return values


# Quantity of a log -> kinds of figures, the preferred first.
KINDS_OF = {
    "step": ("step", "steps"),
    "epoch": ("epoch", "epochs"),
    "seconds": ("step_time_s",),
    "epoch_seconds": ("epoch_time_s", "time_s", "total_time_s"),
    "tokens_per_s": ("tokens_per_s",),
    "samples_per_s": ("samples_per_s",),
    "loss": ("loss",),
    "val_loss": ("val_loss",),
    "memory": ("memory_bytes",),
    "mfu": ("mfu",),
}


def layout_of(header: str) -> Layout | None:
    """Return where the columns of a CSV log are, by its headings: "step,loss,step_time_ms". None for other files."""
    delimiter = max(DELIMITERS, key=header.count)
    names = [name.strip().lower() for name in next(csv.reader([header], delimiter=delimiter), [])]
    if len(names) < 2 or set(names) >= COLUMNS_OF_SCALEPROOF:
        return None

    columns = [column_of(name) for name in names]
    layout = Layout(kind="", delimiter=delimiter, names=names, columns=columns)
    for quantity, kinds in KINDS_OF.items():
        # Of memory the peak is wanted; the maximum of another quantity is not typical of a run.
        statistics = (None, "mean", "max") if quantity == "memory" else (None, "mean")
        index = _index_of(kinds, columns, statistics)
        if index is not None:
            layout.index_of[quantity] = index
    rates = [k for k, column in enumerate(columns) if column.kind == "rate"]
    if rates and "tokens_per_s" not in layout.index_of:
        layout.index_of["rate"] = rates[0]  # a row whose rate is empty has no result, whatever the unit

    layout.group_column = next((k for k, name in enumerate(names) if name in GROUPS), None)
    for k, (name, column) in enumerate(zip(names, columns, strict=True)):
        tells_runs_apart = name in RUN_KEYS or column.kind in RUN_KINDS or column.kind == "run"
        if tells_runs_apart and k != layout.group_column:
            layout.key_columns.append(k)
    layout.kind = _kind_of_rows(layout)
    return layout if layout.kind else None


def _index_of(kinds: Sequence[str], columns: Sequence[TableColumn], statistics: Sequence[str | None]) -> int | None:
    """Return the index of the best column of `kinds`, of which the first is preferred; None without any.

    A column of all devices is better than a column of one device.
    """
    for kind in kinds:
        matching = [k for k, column in enumerate(columns) if column.kind == kind and column.statistic in statistics]
        if matching:
            return min(matching, key=lambda k: columns[k].per_device is True)
    return None


def _kind_of_rows(layout: Layout) -> str:
    """Return what the rows of a log are: "steps" or "epochs". "" where its columns are of neither."""
    quantities = layout.index_of.keys()
    has_speed = bool(quantities & {"seconds", "tokens_per_s", "samples_per_s"})
    has_loss = "loss" in quantities
    has_epoch = "epoch" in quantities and layout.kind_of("epoch") == "epoch"  # not "epochs", how many there were
    if has_epoch and "epoch_seconds" in quantities and "seconds" not in quantities:
        return "epochs"
    # "steps" may be how many there were: a speed has to be in the row, too.
    if "step" in quantities and (has_speed or (has_loss and layout.kind_of("step") == "step")):
        return "steps"
    return "epochs" if has_epoch and (has_speed or has_loss) else ""


ROWS_LOOKED_AT = 2_000  # that show what is in a file
OUTCOMES = RESULTS | {"loss", "val_loss", "perplexity", "accuracy", "power_w", "energy_j", "cost", "data_time_s"}
MOST_LENGTHS = 24  # of runs in one table
Records = Sequence[list[str]]


def settle_layout(layout: Layout, records: Records) -> None:
    """Complete a layout by the rows of its file: whether commas are decimal, and which columns tell runs apart.

    Where an epoch has a fraction, 0.25, rows with a step are of steps.
    """
    cells = [_cell(record, k) for record in records for k in layout.index_of.values()]
    layout.has_decimal_commas = is_european(cells)
    if layout.kind == "epochs" and "step" in layout.index_of:
        epochs = (figure(_cell(record, layout.index_of["epoch"])) for record in records)
        if any(epoch and epoch % 1 for epoch in epochs):
            layout.kind = "steps"
            del layout.index_of["epoch"]
    _settle_keys(layout, records)


def _settle_keys(layout: Layout, records: Records) -> None:
    """Correct `layout.key_columns`, which tell the runs of a file apart, by the rows of the file.

    A column `gpu` that does not count devices (of utilisation, say) is no key. Where a run would have an epoch twice,
    the first setting without a known meaning ("optimizer") that splits it into runs without repeated epochs becomes a
    key, or else all such settings.
    """
    for k in list(layout.key_columns):
        if layout.columns[k].kind == "device" and not counts_devices([_cell(record, k) for record in records]):
            layout.key_columns.remove(k)
    if not _has_repeated_numbers(layout, records, layout.key_columns):
        return

    others = [k for k in range(len(layout.names)) if k not in layout.key_columns]
    settings = [k for k in others if _is_setting(layout, records, k)]
    for candidates in (*([k] for k in settings), settings):
        if candidates and not _has_repeated_numbers(layout, records, [*layout.key_columns, *candidates]):
            layout.key_columns = sorted({*layout.key_columns, *candidates})
            return


def continues_from_row_to_row(layout: Layout, records: Records) -> bool:
    """Whether the steps or epochs of at least one run go on from row to row, as they do in a log."""
    sequences = _sequences(layout, records, layout.key_columns)
    return any(_is_sequence(numbers) for numbers in sequences if len(numbers) > 1)


def _is_sequence(numbers: list[int]) -> bool:
    """Whether numbers are steps of a log, e.g. 1, 2, 1, 3 of two runs in one file; not 10, 5, 20, lengths of runs."""
    if len(set(numbers)) < 2:
        return False
    if numbers == sorted(numbers) or len(numbers) > MOST_LENGTHS:  # too many for a table of runs
        return True
    gaps = {after - before for before, after in pairwise(sorted(set(numbers)))}
    return len(gaps) == 1  # evenly spaced: 10, 20, 10, 20


def _has_repeated_numbers(layout: Layout, records: Records, key_columns: list[int]) -> bool:
    """Whether a step or an epoch of a run is there more than once, with these columns to tell runs apart."""
    return any(len(set(numbers)) < len(numbers) for numbers in _sequences(layout, records, key_columns))


def _sequences(layout: Layout, records: Records, key_columns: list[int]) -> list[list[int]]:
    """Return the steps or epochs of each run, told apart by `key_columns`: [[0, 1, 2], [0, 1, 2]]."""
    counter = layout.index_of["step" if layout.kind == "steps" else "epoch"]
    epoch = layout.index_of.get("epoch")
    if epoch is not None and epoch != counter and layout.columns[epoch].kind == "epoch":
        key_columns = [*key_columns, epoch]  # steps may count from 0 in every epoch

    numbered = (record for record in records if len(record) > counter and figure(record[counter]) is not None)
    first_group = _of_first_group(layout, enumerate(numbered))  # numbered in place of lines, which are not needed
    runs = group_by((record for _, record in first_group), lambda record: tuple(_cell(record, k) for k in key_columns))
    return [[int(figure(record[counter]) or 0) for record in run] for run in runs.values()]


def _of_first_group(layout: Layout, records: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, record) of the first rank, split or fold, "train", in a file; of all where no column says which."""
    k, first_group = layout.group_column, None
    for line, record in records:
        group = record[k] if k is not None and k < len(record) else None
        first_group = group if first_group is None else first_group
        if group in (None, first_group):
            yield line, record


def _is_setting(layout: Layout, records: Records, k: int) -> bool:
    """Whether a column has a few values, each of several rows ("adam", "sgd"), and is neither a result nor a step."""
    if k in layout.index_of.values() or k == layout.group_column or layout.columns[k].kind in OUTCOMES:
        return False
    values = {_cell(record, k) for record in records}
    return 2 <= len(values) <= len(records) // 2 and not any(is_nothing(value) for value in values)


def _cell(record: list[str], k: int) -> str:
    return record[k].strip() if k < len(record) else ""


MOST_RUNS = 500  # in one file
LEAST_EPOCHS_OF_CLOCK = 5  # fewer times that grow are no clock
MOST_TIMES_MEDIAN = 3.0  # an epoch takes no longer by a clock that runs through all epochs


def read_log(name: str, layout: Layout, lines: Iterator[str], first_line: int = 2) -> list[ReportedRun]:
    """Return the runs of a log, in the order of the file: one for each value of the columns that tell runs apart."""
    readers: dict[tuple[str, ...], _LoggedRun] = {}
    if not layout.key_columns and layout.group_column is None:
        readers[()] = _LoggedRun(name, layout)  # there is one run, even without a row
    numbered_records = enumerate(records_of(lines, layout.delimiter), start=first_line)
    for line, record in _of_first_group(layout, numbered_records):
        key = tuple(_cell(record, k) for k in layout.key_columns)
        if key not in readers and len(readers) >= MOST_RUNS:
            continue  # further runs are left out
        if key not in readers:
            readers[key] = _LoggedRun(name, layout)
        readers[key].add_row(record, line)

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
        self._result_columns = [k for quantity, k in layout.index_of.items() if quantity not in ("step", "epoch")]
        # Counts of what cannot be used.
        self._step_times_below_0 = 0
        self._lines_without_numbers: list[int] = []
        self._lines_longer_than_heading: list[int] = []

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
            is_empty = all(is_nothing(_cell(record, k)) for k in self._result_columns)
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
        if k is not None and step is not None and not_finite(_cell(record, k)):
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


def describe_run(run: ReportedRun, kind: str | None, text: str) -> None:
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
