"""Where the columns of a CSV log are, by its heading: one row a step, or one row an epoch."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field

from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.reported_tables import TableColumn

DELIMITERS = (",", "\t", ";")
OWN_SERIES = {"phase", "rank", "data_wait_s"}  # the raw series of our own runs: their folder is what can be audited
# Columns of which one row stands for each value: the rows of the first value are read ...
GROUPS = ("rank", "local_rank", "split", "phase", "fold", "process", "process_index")
# ... and columns whose values are different runs.
RUN_KEYS = (
    "seed",
    "run",
    "run_id",
    "trial",
    "repeat",
    "experiment",
    "exp",
    "config",
    "configuration",
    "name",
    "method",
    "mode",
    "setup",
)
RUN_KINDS = (
    "strategy",
    "precision",
    "model",
    "dataset",
    "device",
    "backend",
    "devices",
    "processes",
    "nodes",
    "batch",
    "global_batch",
    "micro_batch",
    "zero_stage",
    "accumulation",
    "seq_len",
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
