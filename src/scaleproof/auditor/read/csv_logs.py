"""CSV files that are logs, a row a step or an epoch: where their columns are, and which of them tell runs apart."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.printed_figures import RESULTS, figures_of, is_european, is_nothing
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.reported_tables import TableColumn
from scaleproof.auditor.read.row_figures import counts_devices
from scaleproof.auditor.read.run_fields import FIELDS, OF_KIND, figure
from scaleproof.auditor.read.words import describe
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
    cells = [cell_of(record, k) for record in records for k in layout.index_of.values()]
    layout.has_decimal_commas = is_european(cells)
    if layout.kind == "epochs" and "step" in layout.index_of:
        epochs = (figure(cell_of(record, layout.index_of["epoch"])) for record in records)
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
        if layout.columns[k].kind == "device" and not counts_devices([cell_of(record, k) for record in records]):
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
    first_group = of_first_group(layout, enumerate(numbered))  # numbered in place of lines, which are not needed
    runs = group_by(
        (record for _, record in first_group), lambda record: tuple(cell_of(record, k) for k in key_columns)
    )
    return [[int(figure(record[counter]) or 0) for record in run] for run in runs.values()]


def of_first_group(layout: Layout, records: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, record) of the first rank, split or fold, "train", in a file; of all where no column says which."""
    k, first_group = layout.group_column, None
    if k is None:
        yield from records
        return
    for line, record in records:
        group = record[k] if k < len(record) else None
        first_group = group if first_group is None else first_group
        if group in (None, first_group):
            yield line, record


def _is_setting(layout: Layout, records: Records, k: int) -> bool:
    """Whether a column has a few values, each of several rows ("adam", "sgd"), and is neither a result nor a step."""
    if k in layout.index_of.values() or k == layout.group_column or layout.columns[k].kind in OUTCOMES:
        return False
    values = {cell_of(record, k) for record in records}
    return 2 <= len(values) <= len(records) // 2 and not any(is_nothing(value) for value in values)


def cell_of(record: list[str], k: int) -> str:
    return record[k].strip() if k < len(record) else ""


def records_of(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    yield from csv.reader((line.replace("\0", "") for line in lines), delimiter=delimiter)


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
