"""The neutral form of a published table: rows of typed figures, each in one base unit and with its place in a file.

A cell that is not understood is kept as text and its column is named in `ReportedTable.not_understood`: nothing is
guessed.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from scaleproof.auditor.read.grids import Grid

# Kinds whose value is a word.
WORDS = ("strategy", "precision", "model", "dataset", "device", "backend", "run", "status")

Statistic = Literal["mean", "median", "p50", "p90", "p95", "p99", "min", "max", "std", "sum", "last", "first"]
# What a cell or a row says about itself: it was not measured, or could not be.
Remark = Literal["projected", "theoretical", "estimated", "out of memory", "failed", "not run", "reference"]


@dataclass(slots=True)
class Quantity:
    """One figure of a cell, in the base unit of its kind."""

    kind: str  # a key of KINDS
    value: float
    text: str  # the cell as printed
    heading: str  # of its column (or row, in a table on its side)
    resolution: float = (
        0.0  # what one unit of the last printed digit is worth, in the base unit; 0 where it is not known
    )
    spread: float | None = None  # the figure after "±", in the base unit
    statistic: Statistic | None = None
    per_device: bool | None = (
        None  # of rates, memory, FLOP/s: True for one device, False for all, None where it is not said
    )
    item: str | None = None  # of rates: what is counted ("images", "sequences", "tokens")
    bound: Literal["<", ">", "~"] | None = None  # "~12", "<1", ">4"
    remark: Remark | None = None
    over: str = ""  # of ratios: another configuration that its heading names ("vs GPipe"), on as many devices
    unit_stated: bool = True  # False: neither heading nor cell has a unit; ratios hold, the value itself does not


@dataclass(slots=True)
class ReportedRow:
    """One configuration of a table; with a column per number of devices, one for each of them."""

    file: str
    line: int  # 1-based; in a notebook or spreadsheet the cell's row
    label: str  # the cells of text, joined
    figures: list[Quantity] = field(default_factory=list)
    words: dict[str, str] = field(default_factory=dict)  # a key of WORDS -> normalised word ("ddp", "bf16", ...)
    texts: dict[str, str] = field(default_factory=dict)  # heading -> every cell as printed
    remarks: set[Remark] = field(default_factory=set)
    not_understood: dict[str, str] = field(default_factory=dict)  # heading -> cell, of columns with a kind
    part: str = ""  # in JSON whose lines do not tell rows apart: where it stands, "runs[2].ddp"

    @property
    def place(self) -> str:
        """file:line, or the part of a JSON file."""
        return f"{self.file}#{self.part}" if self.part else f"{self.file}:{self.line}"

    def figure(self, kind: str, statistic: Statistic | None = None) -> Quantity | None:
        """Return the figure of a kind. Without `statistic` the unspecified one, else the mean, the median, or None."""
        of_kind = [q for q in self.figures if q.kind == kind]
        preferred: tuple[Statistic | None, ...] = (statistic,) if statistic else (None, "mean", "median", "p50")
        for candidate in preferred:
            for quantity in of_kind:
                if quantity.statistic == candidate:
                    return quantity
        return None

    def value(self, kind: str, statistic: Statistic | None = None) -> float | None:
        """The value of `figure`, in the base unit."""
        quantity = self.figure(kind, statistic)
        return None if quantity is None else quantity.value

    def all_of(self, kind: str) -> list[Quantity]:
        """All figures of a kind: several statistics, or two columns that say the same."""
        return [q for q in self.figures if q.kind == kind]

    @property
    def devices(self) -> int | None:
        """Devices in all: stated, or the processes, or nodes x devices per node, of which some may be idle."""
        stated = self.value("devices") or self.value("processes")
        if stated is None:
            nodes, each = self.value("nodes"), self.value("devices_per_node")
            stated = nodes * each if nodes and each else None
        return int(stated) if stated and stated == int(stated) and stated > 0 else None

    @property
    def measured(self) -> bool:
        """False where the row says that it is a projection, an estimate, a reference, or a failure."""
        return not self.remarks


@dataclass(slots=True)
class TableColumn:
    """What a column was understood as; `kind` is None where it was not."""

    heading: str
    kind: str | None = None
    scale: float = 1.0  # printed number x scale = base unit
    unit: str | None = None  # as printed
    statistic: Statistic | None = None
    per_device: bool | None = None
    item: str | None = None
    devices: int | None = None  # of a column that is one number of devices ("4 GPUs")
    over_devices: int | None = None  # of ratios whose heading names the baseline ("vs 1 GPU")
    over: str = ""  # of ratios whose heading names another configuration ("vs GPipe")
    words: dict[str, str] = field(default_factory=dict)  # of a column that is one strategy, precision, ... ("FSDP")
    note: str = ""  # what else the heading says in brackets


@dataclass(slots=True)
class ReportedTable:
    """A table of results as somebody published it."""

    file: str
    line: int  # of its heading row
    form: str  # "Markdown table", "pandas text", "CSV", "JSON", "LaTeX table", ...
    columns: list[TableColumn]
    rows: list[ReportedRow]
    caption: str = ""
    heading: str = ""  # the section of the document that it stands in
    section: list[str] = field(default_factory=list)  # headings above, outermost first
    words: dict[str, str] = field(default_factory=dict)  # what caption and heading say of all rows
    figures: list[Quantity] = field(default_factory=list)  # likewise: "on 4 GPUs", "batch size 32"
    above: list[Quantity] = field(default_factory=list)  # what the paragraph above it says, perhaps of all rows
    checked: bool = True  # False: its headings are not understood, only the units in its cells
    states_spread: bool = False  # how far its figures scatter, or how often they were measured
    cut_off: bool = False  # more rows stand in the file than were read
    grid: Grid | None = None  # its cells as printed

    @property
    def name(self) -> str:
        """file:line, the place for a message."""
        return f"{self.file}:{self.line}"

    @property
    def not_understood(self) -> list[str]:
        """Headings of the columns that no quantity is known for."""
        return [c.heading for c in self.columns if c.kind is None and not c.words and c.devices is None]

    def column(self, kind: str) -> list[Quantity]:
        """The figures of a kind, row by row, of the rows that have one."""
        return [q for row in self.rows if (q := row.figure(kind)) is not None]

    def kinds(self) -> set[str]:
        """Kinds of which at least one row has a figure."""
        return {q.kind for row in self.rows for q in row.figures}

    def groups(self, *keys: str) -> Iterator[tuple[tuple[str | float | None, ...], list[ReportedRow]]]:
        """Yield (values of `keys`, rows that agree in them), in the order of the table. Keys are words or kinds."""
        grouped: dict[tuple[str | float | None, ...], list[ReportedRow]] = {}
        for row in self.rows:
            key = tuple(row.words.get(k) if k in WORDS else row.value(k) for k in keys)
            grouped.setdefault(key, []).append(row)
        yield from grouped.items()


def resolution_of(number: str) -> float:
    """Return what one unit of the last printed digit is worth: 0.01 of "2.97", 1 of "300", 1e3 of "1.2e4"."""
    mantissa, _, exponent = number.lower().replace(",", "").partition("e")
    decimals = len(mantissa.partition(".")[2])
    try:
        return math.pow(10.0, (int(exponent) if exponent else 0) - decimals)
    except (ValueError, OverflowError):
        return 0.0
