"""The neutral form of a published table: rows of typed figures, each in one base unit and with its place in a file.

A cell that is not understood is kept as text and its column is named in `ReportedTable.not_understood`: nothing is
guessed.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from scaleproof.auditor.read.grids import Grid
from scaleproof.ground.errors import plural

# Kinds whose value is a word.
WORDS = ("strategy", "precision", "model", "dataset", "device", "backend", "run", "status")
SIZES = frozenset(("devices", "nodes"))  # of a run

SETTINGS = {
    *("micro_batch", "batch", "accumulation", "global_batch", "global_batch_tokens", "seq_len", "steps"),
    "tokens",
    *("devices", "nodes", "devices_per_node"),
}

Statistic = Literal["mean", "median", "p50", "p90", "p95", "p99", "min", "max", "std", "sum", "last", "first"]
# What a cell or a row says about itself: it was not measured, or could not be.
Remark = Literal["projected", "theoretical", "estimated", "out of memory", "failed", "not run", "reference"]
Bound = Literal["<", ">", "~"]
# Means of ratios are not ratios of means, and figures of one row may be of different repeats.
TOLERANCE = 0.02
LARGEST = 1e18  # more is a mistake, whatever it counts
ABOUT = 0.08  # relative difference that "~" allows


@dataclass(frozen=True)
class PrintedInterval:
    """Every value that a figure above 0 may have had before it was printed, both ends included.

    `as_printed`: the figure itself, or what follows from such figures; None where that is not known.
    """

    low: float
    high: float
    as_printed: float | None = field(default=None, compare=False)

    def __mul__(self, other: "PrintedInterval | float") -> "PrintedInterval":
        factor = other if isinstance(other, PrintedInterval) else exact(other)
        value = None
        if self.as_printed is not None and factor.as_printed is not None:
            value = self.as_printed * factor.as_printed
        return PrintedInterval(self.low * factor.low, self.high * factor.high, value)

    def __add__(self, other: float) -> "PrintedInterval":
        return PrintedInterval(self.low + other, self.high + other)

    def __truediv__(self, other: "PrintedInterval | float") -> "PrintedInterval":
        divisor = other if isinstance(other, PrintedInterval) else exact(other)
        inverse = 1 / divisor.as_printed if divisor.as_printed else None
        return self * PrintedInterval(1 / divisor.high, 1 / max(divisor.low, 1e-300), inverse)

    @classmethod
    def around(cls, intervals: "Iterable[PrintedInterval]") -> "PrintedInterval":
        """Return the smallest interval that holds all of these."""
        parts = list(intervals)
        value = parts[0].as_printed if len(parts) == 1 else None
        return cls(min(part.low for part in parts), max(part.high for part in parts), value)

    def widened(self, relative: float) -> "PrintedInterval":
        """Return the interval, both ends moved outwards by a share of their value: 100-200 by 0.1 -> 90-220."""
        return PrintedInterval(self.low * (1 - relative), self.high * (1 + relative))

    def meets(self, other: "PrintedInterval", relative: float = TOLERANCE) -> bool:
        """Whether one value, give or take a relative difference, can be in both."""
        widened = self.widened(relative)
        return widened.low <= other.high and other.low <= widened.high

    def meets_but_for_thousands(self, other: "PrintedInterval", relative: float = TOLERANCE) -> bool:
        """Whether they meet, or would if "1.234" was meant as 1,234 in one or two figures behind them."""
        return any(self.meets(other * factor, relative) for factor in (1.0, 1e3, 1e-3, 1e6, 1e-6))

    def contains(self, value: float, relative: float = TOLERANCE) -> bool:
        """Whether the figure may have been `value`, give or take a relative difference."""
        widened = self.widened(relative)
        return widened.low <= value <= widened.high

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def likeliest(self) -> float:
        """The figure as printed, 7.6 of "15.2" / "2"; else the geometric mean of the ends."""
        return math.sqrt(self.low * self.high) if self.as_printed is None else self.as_printed

    @property
    def in_known_digits(self) -> float:
        """The figure with the digits that are known of it: 3.7 of 3.27 to 4.22, 3.2 of 3.158 to 3.242."""
        value = self.likeliest
        width = (self.high - self.low) / 2
        is_known = 0 < width < value < math.inf
        if not is_known:
            return float(f"{value:.4g}")
        digits = max(-math.floor(math.log10(width)), 1 - math.floor(math.log10(value)))  # two at least: 15, not 20
        return round(value, digits)

    @property
    def precision(self) -> float:
        """Half the width, relative to the middle."""
        return (self.high - self.low) / (self.high + self.low) if self.high + self.low > 0 else 1.0


def exact(value: float) -> PrintedInterval:
    return PrintedInterval(value, value, value)


@dataclass(slots=True)
class Quantity:
    """One figure of a cell, in the base unit of its kind."""

    kind: str  # a key of KINDS
    value: float
    text: str  # the cell as printed
    heading: str  # of its column (or row, in a table on its side)
    resolution: float = 0.0  # what one unit of the last digit is worth, in the base unit; 0 where it is not known
    spread: float | None = None  # the figure after "±", in the base unit
    statistic: Statistic | None = None
    per_device: bool | None = None  # of rates, memory, FLOP/s; False: of all devices, None: it is not said
    item: str | None = None  # of rates: what is counted ("images", "sequences", "tokens")
    bound: Bound | None = None  # "~12", "<1", ">4"
    remark: Remark | None = None
    over: str = ""  # of ratios: another configuration that its heading names ("vs GPipe"), on as many devices
    line: int = 0  # where it stands, in a row that has several lines
    unit_stated: bool = True  # False: neither heading nor cell has a unit; ratios hold, the value itself does not

    @property
    def interval(self) -> PrintedInterval:
        """What the figure may have been: one unit of its last digit either way, or ABOUT. Never below zero."""
        value, unit = abs(self.value), self.resolution
        if self.bound == "~":
            unit = max(unit, ABOUT * value)
        return PrintedInterval(max(0.0, value - unit), value + unit, value)

    @property
    def printed(self) -> str:
        return " ".join(self.text.split())[:40] or f"{self.value:g}"

    @property
    def figure_and_unit(self) -> tuple[float, str]:
        """The number as its cell has it, and what stands behind it: "9T tokens" is (9, "T tokens")."""
        match = re.search(r"(\d[\d,]*(?:\.\d+)?)([^\d()]{0,12})", self.text)
        return (float(match[1].replace(",", "")), match[2].rstrip()) if match else (self.value, "")

    def is_like(self, other: "Quantity") -> bool:
        """Whether two figures state one thing of two rows: equal statistic, scope, item, both with a unit or none."""
        column = (self.statistic, self.per_device, self.item, self.unit_stated)
        return column == (other.statistic, other.per_device, other.item, other.unit_stated)


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
        """ "a.md:7", or "a.json#runs[2]" where lines do not tell rows apart; of a run, which has no line, its name."""
        if self.part or not self.line:
            return f"{self.file}#{self.part}" if self.part else self.file
        return f"{self.file}:{self.line}"

    def places_of(self, figures: Iterable[Quantity]) -> list[str]:
        """Return "file:line" of each of its figures where it has several lines, else the place of the row."""
        return [f"{self.file}:{line}" for line in sorted({figure.line for figure in figures} - {0})] or [self.place]

    @property
    def name(self) -> str:
        """What the row is called where its devices stand beside it: its label, else its size, else its place."""
        label = " ".join(self.label.split())[:60]
        return label or (self._size if self.devices else self.place)

    @property
    def description(self) -> str:
        """What the row is called in a sentence: its name, with the devices where it lacks them, "DDP, 4 devices"."""
        if not self.devices or re.search(rf"(?<![\d.]){self.devices}(?![\d.])", self.name.replace(",", "")):
            return self.name
        return f"{self.name}, {self._size}"

    @property
    def _size(self) -> str:
        return plural(self.devices or 0, "node" if self.value("nodes") == self.devices else "device")

    def with_devices(self, devices: float) -> "ReportedRow":
        return replace(self, figures=[*self.figures, Quantity("devices", devices, "", "devices")])

    def figure(self, kind: str, statistic: Statistic | None = None) -> Quantity | None:
        """Return the figure of a kind, without a remark if possible. By default: of no statistic, mean or median."""
        figures = [figure for figure in self.figures if figure.kind == kind]
        if not figures:  # most kinds: a row has few
            return None
        if len(figures) == 1 and figures[0].statistic == statistic:  # nearly always
            return figures[0]
        figures.sort(key=lambda figure: figure.remark is not None)
        preferred: tuple[Statistic | None, ...] = (statistic,) if statistic else (None, "mean", "median", "p50")
        matching = (figure for candidate in preferred for figure in figures if figure.statistic == candidate)
        return next(matching, None)

    def value(self, kind: str, statistic: Statistic | None = None) -> float | None:
        """Return the value of `figure`, in the base unit. None without one."""
        quantity = self.figure(kind, statistic)
        return None if quantity is None else quantity.value

    def all_of(self, kind: str) -> list[Quantity]:
        """Return all figures of a kind: several statistics, or two columns that say the same."""
        return [figure for figure in self.figures if figure.kind == kind]

    def usable(self, kind: str) -> Quantity | None:
        """Return a measured figure of a kind, above 0, no bound, no ratio to another configuration; else None."""
        quantity = self.figure(kind)
        if quantity is None or quantity.value <= 0 or quantity.bound in ("<", ">") or quantity.remark or quantity.over:
            return None
        return quantity

    def known(self, kind: str) -> Quantity | None:
        """Return a usable figure in a stated unit, whose value can be multiplied with others. None without one."""
        quantity = self.usable(kind)
        return quantity if quantity is not None and quantity.unit_stated else None

    @property
    def devices(self) -> int | None:
        """Devices in all: as stated, else processes, else nodes x devices per node. None: unknown, or not whole."""
        stated = self.value("devices") or self.value("processes")
        if stated is None:
            stated = (self.value("nodes") or 0.0) * (self.value("devices_per_node") or 0.0)
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
    cut_off: bool = False  # more rows stand in the file than were read
    grid: Grid | None = None  # its cells as printed

    @property
    def name(self) -> str:
        """file:line, the place for a message."""
        return f"{self.file}:{self.line}"

    @property
    def not_understood(self) -> list[str]:
        unknown = [column for column in self.columns if column.kind is None]
        return [column.heading for column in unknown if column.heading and not column.words and column.devices is None]

    @property
    def states_settings(self) -> bool:
        """Whether it has three settings or more, so that some follow from others."""
        return len(self.kinds() & SETTINGS) >= 3

    def kinds(self) -> set[str]:
        return {figure.kind for row in self.rows for figure in row.figures}

    def figures_of_all(self, numbers: dict[str, int], text: str) -> list[Quantity]:
        """Return the `numbers` of a text as figures of all rows: "on 8 GPUs" -> devices, 8.

        A table with sizes of its own takes none of the text: "4 nodes with 8 GPUs each" is one of its rows.
        """
        left_out = frozenset() if self.kinds().isdisjoint(SIZES) else SIZES
        return [Quantity(kind, float(n), str(n), text) for kind, n in numbers.items() if kind not in left_out]


def resolution_of(number: str) -> float:
    """Return what one unit of the last printed digit is worth: 0.01 of "2.97", 1 of "300", 1e3 of "1.2e4"."""
    mantissa, _, exponent = number.lower().replace(",", "").partition("e")
    decimals = len(mantissa.partition(".")[2])
    try:
        return math.pow(10.0, (int(exponent) if exponent else 0) - decimals)
    except (ValueError, OverflowError):
        return 0.0


REMARKS: tuple[tuple[str, Remark], ...] = (
    (r"\boom\b|out.of.memory|显存溢出|显存不足|爆显存", "out of memory"),
    (r"^\W*projection\b|\d[^()]*\((linear )?projection\)|\bproj(?:[.)]|ected\b)|\bextrapolat|\bforecast", "projected"),
    (r"\bpredicted\b|外推|推算", "projected"),
    (r"\btheoretical|\bideal\b|\blinear scaling\b|\bperfect scaling\b|理论|理想|理論|이론", "theoretical"),
    (r"\bestimat(?:ed?|ions?)\b|\best(?:\.|\))|\bexpect(?:ed|ations?)\b|\bgoal\b(?! ?\()", "estimated"),
    (r"^(?!.*\bdraft)(?s:.*)\btarget(?![- ](?:only|model))|\btypical\b|\bplaceholder|\bsimulated\b", "estimated"),
    (r"预计|预期|估计|估算|目标|推定|예상", "estimated"),
    (r"\bfail(?:ed|s|ure)?\b|\bimpossible\b|\bcrash|\berror\b|\btimeout\b|\bdiverged\b|失败|실패", "failed"),
    (r"\btbd\b|\btodo\b|\bnot (?:yet )?(?:run|measured|tested)\b|\bpending\b", "not run"),
    (r"\bpaper\b|\bliterature\b|\bpublished (?:by|in)\b", "reference"),
)
NO_FIGURES: set[Remark] = {"out of memory", "failed", "not run"}
# Words that judge a result, or that count something: "Target Met", "as expected", "above the target", "8 targets".
_TARGET = r"(?:expected|expectations?|targets?|goals?|ideal|linear)"
VERDICT = re.compile(
    r"\b(?:as|than|of|on|above|below|beyond|within|under|over|meets?|met|hits?|reach(?:ed|es)?|exceed(?:ed|s)?|"
    rf"missed|misses|match(?:es|ed)?|achieved?|near|vs\.?|\d+)[ -](?:the |its |our |all )?{_TARGET}\b|"
    rf"\b{_TARGET} (?:is |was |not )?(?:met|reached|achieved|hit|exceeded|passed|missed|complete\w*)\b|"
    r"\bun?expected(?:ly)? |\btargets\b|\b(?:better|worse|faster|slower|lower|higher) than \w+\b"
)


@lru_cache(maxsize=100_000)
def remarks_of(text: str) -> frozenset[Remark]:
    """Return what a text says about itself: projected, estimated, failed, ..."""
    lowered = VERDICT.sub(" ", text.lower())
    return frozenset(remark for pattern, remark in REMARKS if re.search(pattern, lowered))


def gave_no_figures(text: str) -> bool:
    """Whether a cell says that its configuration gave no figures: out of memory, failed, not run."""
    if not text or text[0].isdigit():
        return False
    remarks = remarks_of(text) & NO_FIGURES
    if not remarks or "out of memory" in remarks:
        return bool(remarks)
    return len(text) < 40 and not re.search(r"(?i)\d|\b(?:no|without|none)\b", text)  # not "no failures", "2 failed"
