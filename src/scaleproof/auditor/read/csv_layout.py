"""Where the columns of a CSV log are, by its heading; whether it has a row for each step, epoch or configuration."""

import csv
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.printed_figures import gave_no_figures, is_nothing
from scaleproof.auditor.read.reported_tables import TableColumn
from scaleproof.auditor.read.row_figures import counts_devices
from scaleproof.auditor.read.run_fields import figure
from scaleproof.auditor.read.units import RESULTS

DELIMITERS = (",", "\t", ";")
COLUMNS_OF_SCALEPROOF = {
    "phase",
    "rank",
    "data_wait_s",
}  # the raw series of our own runs: their folder is what can be audited
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
        """Printed number x scale = base unit."""
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
    """The index of the best column of `kinds`: the preferred first, that of all devices before that of one; or None."""
    for kind in kinds:
        places = [k for k, column in enumerate(columns) if column.kind == kind and column.statistic in statistics]
        if places:
            return min(places, key=lambda place: columns[place].per_device is True)
    return None


def _kind_of_rows(layout: Layout) -> str:
    """Return what the rows of a log are: "steps" or "epochs". "" where its columns are of neither."""
    has = layout.places.keys()
    has_speed = bool(has & {"seconds", "tokens_per_s", "samples_per_s"})
    has_epoch = "epoch" in has and layout.kind_of("epoch") == "epoch"
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

    A column `gpu` of utilisation is none. Where an epoch is there more than once, columns of unknown settings
    ("num_workers", "optimizer") are, if each epoch of their runs is there once.
    """
    for k in list(layout.keys):
        if layout.columns[k].kind == "device" and not counts_devices([_cell(record, k) for record in records]):
            layout.keys.remove(k)
    if not _has_repeated_places(layout, records, layout.keys):
        return
    settings = [k for k in range(len(layout.names)) if k not in layout.keys and _is_setting(layout, records, k)]
    for further in (*([k] for k in settings), settings):  # one of them, else all of them
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
    """The steps or epochs of each run, told apart by the columns `keys`, e.g. [[0, 1, 2], [0, 1, 2]]."""
    place = layout.places["step" if layout.kind == "steps" else "epoch"]
    epoch = layout.places.get("epoch")
    if epoch is not None and epoch != place and layout.columns[epoch].kind == "epoch":
        keys = [*keys, epoch]  # steps may count from 0 in every epoch
    first_group: str | None = None
    runs: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for record in records:
        if len(record) <= place or (number := figure(record[place])) is None:
            continue
        if layout.group is not None and layout.group < len(record):
            first_group = record[layout.group] if first_group is None else first_group
            if record[layout.group] != first_group:
                continue  # of another rank or split
        runs[tuple(_cell(record, k) for k in keys)].append(int(number))
    return list(runs.values())


def _is_setting(layout: Layout, records: Records, k: int) -> bool:
    """Whether a column has a few values, each of several rows ("adam", "sgd"), and is neither a result nor a step."""
    if k in layout.places.values() or k == layout.group or layout.columns[k].kind in OUTCOMES:
        return False
    values = {_cell(record, k) for record in records}
    return 2 <= len(values) <= len(records) // 2 and not any(is_nothing(value) for value in values)


def has_no_figures(record: list[str], figures: Sequence[int]) -> bool:
    """Whether a row says that its run gave no figures: `figures`, its cells of them, are empty, or one says "OOM"."""
    return all(is_nothing(_cell(record, k)) for k in figures) or any(gave_no_figures(cell) for cell in record)


def _cell(record: list[str], k: int) -> str:
    return record[k].strip() if k < len(record) else ""
