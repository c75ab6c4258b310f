"""The runs of CSV files that are logs, a row a step or an epoch: where their columns are, and what they say."""

import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.logged_steps import StepSeries
from scaleproof.auditor.read.printed_figures import RESULTS, gave_no_figures, is_nothing
from scaleproof.auditor.read.reported import ReportedRun, TimedSpan, positive, span_of, step_of
from scaleproof.auditor.read.reported_tables import TableColumn
from scaleproof.auditor.read.row_figures import counts_devices
from scaleproof.auditor.read.run_fields import FIELDS, OF_KIND, figure, not_finite
from scaleproof.auditor.read.words import describe

DELIMITERS = (",", "\t", ";", "|")
# The raw series of our own runs: their folder is what can be audited.
COLUMNS_OF_SCALEPROOF = {"phase", "rank", "data_wait_s"}
# Columns of which one row stands for each value: the rows of the first value are read ...
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
    places: dict[str, int] = field(default_factory=dict)  # what -> column
    keys: list[int] = field(default_factory=list)  # columns that tell runs apart
    group: int | None = None  # column of GROUPS: of its values the first one is read

    def kind_of(self, what: str) -> str | None:
        return self.columns[self.places[what]].kind

    def scale(self, what: str) -> float:
        """Return what 1 in this column is worth in the base unit."""
        return self.columns[self.places[what]].scale


# What a log has -> kinds of figures, the preferred first.
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
    """Return where the columns of a CSV log are, by its first line: "step,loss,step_time_ms". None for other files."""
    delimiter = max(DELIMITERS, key=header.count)
    names = [name.strip().lower() for name in next(csv.reader([header], delimiter=delimiter), [])]
    if len(names) < 2 or set(names) >= COLUMNS_OF_SCALEPROOF:
        return None

    columns = [column_of(name) for name in names]
    layout = Layout(kind="", delimiter=delimiter, names=names, columns=columns)
    for quantity, kinds in KINDS_OF.items():
        # The memory of a run is its peak; a maximum of anything else is not what a run is like.
        statistics = (None, "mean", "max") if quantity == "memory" else (None, "mean")
        if (place := _place_of(kinds, columns, statistics)) is not None:
            layout.places[quantity] = place
    rates = [place for place, column in enumerate(columns) if column.kind == "rate"]
    if rates and "tokens_per_s" not in layout.places:
        layout.places["rate"] = rates[0]  # of an unknown unit: the row's other columns may say which

    layout.group = next((place for place, name in enumerate(names) if name in GROUPS), None)
    for place, (name, column) in enumerate(zip(names, columns, strict=True)):
        tells_runs_apart = name in RUN_KEYS or column.kind in RUN_KINDS or column.kind == "run"
        if tells_runs_apart and place != layout.group:
            layout.keys.append(place)
    layout.kind = _kind_of_rows(layout)
    return layout if layout.kind else None


def _place_of(kinds: Sequence[str], columns: Sequence[TableColumn], statistics: Sequence[str | None]) -> int | None:
    """Return the index of the best column of `kinds`, the first being preferred; None without any."""
    for kind in kinds:
        places = [k for k, column in enumerate(columns) if column.kind == kind and column.statistic in statistics]
        if places:
            return min(places, key=lambda place: columns[place].per_device is True)
    return None


def _kind_of_rows(layout: Layout) -> str:
    """Return what the rows of a log are: "steps" or "epochs". "" where its columns are of neither."""
    has = layout.places.keys()
    has_speed = bool(has & {"seconds", "tokens_per_s", "samples_per_s"})
    has_epoch = "epoch" in has and layout.kind_of("epoch") == "epoch"  # not "epochs", how many there were
    if has_epoch and "epoch_seconds" in has and "seconds" not in has:
        return "epochs"
    # "steps" may be how many there were: a speed has to be in the row, too.
    if "step" in has and (has_speed or (layout.kind_of("step") == "step" and "loss" in has)):
        return "steps"
    return "epochs" if has_epoch and (has_speed or "loss" in has) else ""


ROWS_LOOKED_AT = 2_000  # that show what is in a file
OUTCOMES = RESULTS | {"loss", "val_loss", "perplexity", "accuracy", "power_w", "energy_j", "cost", "data_time_s"}
MOST_LENGTHS = 24  # of runs in one table
Records = Sequence[list[str]]


def settle_keys(layout: Layout, records: Records) -> None:
    """Correct `layout.keys`, the columns that tell the runs of a file apart, once its rows are seen.

    A column `gpu` of utilisation is no key. Where a run would have an epoch twice, the first setting without a known
    meaning ("optimizer") that parts it into runs which have none twice becomes a key; if none does, all of them may.
    """
    for k in list(layout.keys):
        if layout.columns[k].kind == "device" and not counts_devices([_cell(record, k) for record in records]):
            layout.keys.remove(k)
    if not _has_repeated_places(layout, records, layout.keys):
        return
    settings = [k for k in range(len(layout.names)) if k not in layout.keys and _is_setting(layout, records, k)]
    for further in (*([k] for k in settings), settings):
        if further and not _has_repeated_places(layout, records, [*layout.keys, *further]):
            layout.keys = sorted({*layout.keys, *further})
            return


def continues_from_row_to_row(layout: Layout, records: Records) -> bool:
    """Whether the steps or epochs of at least one run go on from row to row, as they do in a log."""
    sequences = _sequences(layout, records, layout.keys)
    return any(_is_sequence(places) for places in sequences if len(places) > 1)


def _is_sequence(places: list[int]) -> bool:
    """Whether numbers are steps of a log, e.g. 1, 2, 1, 3 of two runs in one file; not 10, 5, 20, lengths of runs."""
    if len(set(places)) < 2:
        return False
    if places == sorted(places) or len(places) > MOST_LENGTHS:
        return True
    gaps = {after - before for before, after in pairwise(sorted(set(places)))}
    return len(gaps) == 1


def _has_repeated_places(layout: Layout, records: Records, keys: list[int]) -> bool:
    """Whether a step or an epoch of a run is there more than once, with these columns to tell runs apart."""
    return any(len(set(places)) < len(places) for places in _sequences(layout, records, keys))


def _sequences(layout: Layout, records: Records, keys: list[int]) -> list[list[int]]:
    """Return the steps or epochs of each run, told apart by the columns `keys`: [[0, 1, 2], [0, 1, 2]]."""
    counter = layout.places["step" if layout.kind == "steps" else "epoch"]
    epoch = layout.places.get("epoch")
    if epoch is not None and epoch != counter and layout.columns[epoch].kind == "epoch":
        keys = [*keys, epoch]  # steps may count from 0 in every epoch
    counted = (record for record in records if len(record) > counter and figure(record[counter]) is not None)
    runs: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for _, record in _of_first_group(layout, enumerate(counted)):
        runs[tuple(_cell(record, k) for k in keys)].append(int(figure(record[counter]) or 0))
    return list(runs.values())


def _of_first_group(layout: Layout, records: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    """Yield (number, record) of the first rank, split or fold in a file; of all where no column says which."""
    k, first_group = layout.group, None
    for number, record in records:
        if k is not None and k < len(record):
            first_group = record[k] if first_group is None else first_group
            if record[k] != first_group:
                continue
        yield number, record


def _is_setting(layout: Layout, records: Records, k: int) -> bool:
    """Whether a column has a few values, each of several rows ("adam", "sgd"), and is neither a result nor a step."""
    if k in layout.places.values() or k == layout.group or layout.columns[k].kind in OUTCOMES:
        return False
    values = {_cell(record, k) for record in records}
    return 2 <= len(values) <= len(records) // 2 and not any(is_nothing(value) for value in values)


def _cell(record: list[str], k: int) -> str:
    return record[k].strip() if k < len(record) else ""


MOST_RUNS = 500  # in one file
CLOCK_ROWS = 5  # epochs whose times all grow, each by about as much as the first one took: the column is a clock
MOST_TIMES_MEDIAN = 3.0  # that an epoch may take, by such a clock


def read_log(name: str, layout: Layout, lines: Iterator[str], first_line: int = 2) -> list[ReportedRun]:
    """Return the runs of a log, in the order of the file: one for each value of the columns that tell runs apart."""
    readers: dict[tuple[str, ...], _LoggedRun] = {}
    if not layout.keys and layout.group is None:
        readers[()] = _LoggedRun(name, layout)  # a run, whatever its lines
    numbered = enumerate(records_of(lines, layout.delimiter), start=first_line)
    for number, record in _of_first_group(layout, numbered):
        key = tuple(_cell(record, k) for k in layout.keys)
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
        self._longer_lines = 0  # than the heading

    def add_row(self, record: list[str], number: int) -> None:
        """Take one row, line `number` of the file. A whole row that says that it has no figures is passed over."""
        self._longer_lines += any(cell.strip() for cell in record[len(self.layout.names) :])
        is_empty = all(is_nothing(_cell(record, k)) for k in self._columns_of_figures)
        if len(record) == len(self.layout.names) and (is_empty or any(map(gave_no_figures, record))):  # "OOM"
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
            self.run.see_memory(used * self.layout.scale("memory"))

    def _note_loss_without_value(self, record: list[str], step: float | None) -> None:
        """Count a loss that is not finite, "nan", with its step where the row has one."""
        k = self.layout.places.get("loss")
        if k is not None and not_finite(_cell(record, k)):
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
            _subtract_clock(run.timed_spans)  # a "time" may run through all epochs
        for k, text in zip(self.layout.keys, key, strict=True):
            _describe(run, self.layout.columns[k].kind, text)
        if several:
            run.name = f"{run.name}#{','.join(filter(None, key))}"[:200]
        if self._longer_lines and self._longer_lines >= len(run.logged_steps) + len(run.timed_spans):  # all lines
            run.logged_steps, run.timed_spans = StepSeries(), []
            problems.append("its lines have more values than its heading has names; decimal commas need quotes")
        if self._step_times_below_0:
            problems.append(f"{self._step_times_below_0:,} step times are 0 or less")
        if self._losses_not_finite:
            problems.append(f"{self._losses_not_finite:,} losses are not finite")
            run.details["nan_steps"] = self._losses_not_finite
        if self._lines_without_numbers:
            problems.append(f"{self._lines_without_numbers:,} lines are no rows of numbers")


def _subtract_clock(spans: list[TimedSpan]) -> None:
    """Replace times that are a clock through all epochs by their differences: 60, 121, 180 s become 60, 61, 59 s.

    Other times are left alone; a clock rises by about as much with every epoch.
    """
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
    per_device = None if k is None else layout.columns[k].per_device
    return {None: None, True: "rank", False: "global"}[per_device]


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
