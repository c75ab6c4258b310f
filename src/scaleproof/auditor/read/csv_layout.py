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
OWN_SERIES = {"phase", "rank", "data_wait_s"}  # the raw series of our own runs: their folder is what can be audited
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
    """Return where the columns of a CSV log are, by its first line; None for what is no log of steps or epochs."""
    delimiter = max(DELIMITERS, key=header.count)
    names = [name.strip().lower() for name in next(csv.reader([header], delimiter=delimiter), [])]
    is_own_series = set(names) >= OWN_SERIES
    if len(names) < 2 or is_own_series:
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
    layout.kind = _kind(layout)
    return layout if layout.kind else None


def _place_of(kinds: Sequence[str], columns: Sequence[TableColumn], statistics: Sequence[str | None]) -> int | None:
    """Return the place of the best column of `kinds`, the preferred first; None where there is none.

    Of two of one kind, that of all devices is better than that of one device.
    """
    for kind in kinds:
        places = [place for place, c in enumerate(columns) if c.kind == kind and c.statistic in statistics]
        if places:
            return min(places, key=lambda place: columns[place].per_device is True)
    return None


def _kind(layout: Layout) -> str:
    """Return what one row of a log is: "steps" or "epochs", or "" where its columns are of neither."""
    has = layout.places.keys()
    speeds = has & {"seconds", "tokens_per_s", "samples_per_s"}
    if (
        "epoch" in has
        and "epoch_seconds" in has
        and "seconds" not in has
        and layout.columns[layout.places["epoch"]].kind == "epoch"
    ):
        return "epochs"
    if "step" in has and speeds and layout.columns[layout.places["step"]].kind in ("step", "steps"):
        return "steps"
    if "step" in has and "loss" in has and layout.columns[layout.places["step"]].kind == "step":
        return "steps"
    if "epoch" in has and layout.columns[layout.places["epoch"]].kind == "epoch" and (speeds or "loss" in has):
        return "epochs"
    return ""


LOOKED_AT = 2_000  # rows that show the form of a file
OUTCOMES = RESULTS | {"loss", "val_loss", "perplexity", "accuracy", "power_w", "energy_j", "cost", "data_time_s"}
MOST_LENGTHS = 24  # of runs in one table
Records = Sequence[list[str]]


def settle_keys(layout: Layout, records: Records) -> None:
    """Correct `layout.keys`, the columns that tell the runs of a file apart, once its rows are seen.

    A column `gpu` of utilisation is none. Where an epoch is there more than once, columns of settings that nobody
    knows ("num_workers", "optimizer") are, if each epoch of their runs is there once.
    """
    layout.keys = [
        k for k in layout.keys if layout.columns[k].kind != "device" or counts_devices([_cell(r, k) for r in records])
    ]
    if not _repeated(layout, records, layout.keys):
        return
    settings = [k for k in range(len(layout.names)) if k not in layout.keys and _is_setting(layout, records, k)]
    for further in (*([k] for k in settings), settings):
        if further and not _repeated(layout, records, [*layout.keys, *further]):
            layout.keys = sorted({*layout.keys, *further})
            return


def goes_on(layout: Layout, records: Records) -> bool:
    """Whether the steps or epochs of at least one run go on from row to row, as they do in a log."""
    sequences = _sequences(layout, records, layout.keys)
    return any(_is_sequence(places) for places in sequences if len(places) > 1)


def _is_sequence(places: list[int]) -> bool:
    """Whether numbers are of a log: in order, or in an order that two runs that write to one file can make."""
    if len(places) < 2 or len(set(places)) < 2:
        return False
    if places == sorted(places) or len(places) > MOST_LENGTHS:
        return True
    inside = sorted(set(places))
    gaps = {b - a for a, b in pairwise(inside)}
    return len(gaps) == 1  # 10, 5, 20 are lengths of runs, fastest first


def _repeated(layout: Layout, records: Records, keys: list[int]) -> bool:
    return any(len(set(places)) < len(places) for places in _sequences(layout, records, keys))


def _sequences(layout: Layout, records: Records, keys: list[int]) -> list[list[int]]:
    """Return the steps or epochs of each run, in the order of the file; `keys` are the columns that tell runs apart."""
    at = layout.places["step" if layout.kind == "steps" else "epoch"]
    epoch = layout.places.get("epoch")  # steps may count from 0 in every epoch
    group: str | None = None
    runs: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for record in records:
        if len(record) <= at or (value := figure(record[at])) is None:
            continue
        if layout.group is not None and layout.group < len(record):
            group = record[layout.group] if group is None else group
            if record[layout.group] != group:
                continue
        key = [_cell(record, k) for k in keys]
        if epoch is not None and epoch != at and layout.columns[epoch].kind == "epoch":
            key.append(_cell(record, epoch))
        runs[tuple(key)].append(int(value))
    return list(runs.values())


def _is_setting(layout: Layout, records: Records, k: int) -> bool:
    """Whether a column has a few values, each of which stands for several rows: neither a result nor a place."""
    if k in layout.places.values() or k == layout.group or layout.columns[k].kind in OUTCOMES:
        return False
    values = {_cell(record, k) for record in records}
    return 2 <= len(values) <= len(records) // 2 and not any(is_nothing(value) for value in values)


def has_no_figures(record: list[str], figures: Sequence[int]) -> bool:
    """Whether a row says that its run gave no figures: its cells are empty, or one says that it ran out of memory."""
    return all(is_nothing(_cell(record, k)) for k in figures) or any(gave_no_figures(cell) for cell in record)


def _cell(record: list[str], k: int) -> str:
    return record[k].strip() if k < len(record) else ""
