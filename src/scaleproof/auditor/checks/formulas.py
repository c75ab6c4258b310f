"""Columns that follow from others: by which formula, most of their rows say; the rest of the rows must follow it, too.

No heading has to be understood for that. A ratio of two columns, or of one column over a baseline row, is one where
more rows than chance explains agree with it to the printed digit.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations

import numpy as np

from scaleproof.auditor.checks.columns import FigureColumn, Figures, FigureTable, Floats, Rows, figure_tables
from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.checks.efficiencies import efficiencies_follow
from scaleproof.auditor.checks.ratios import RATIO_TOLERANCE, speedups_follow
from scaleproof.auditor.read.headings import NOT_FIGURES
from scaleproof.auditor.read.printed_figures import figures_of, is_nothing
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Flag

USUAL_BASELINES = ("the first row", "the row that is 1")
FITS = 0.005  # relative difference of a figure and what it follows from, beside their rounding
DOES_NOT_FOLLOW = 0.03  # relative difference of a figure that does not follow
EVIDENCE = 2.0  # decimal logarithm of how unlikely it is that any formula fits by chance
NAMED_EVIDENCE = 1.0  # evidence that suffices where the heading names one of two columns
ROWS_FOR_EACH_ODD_ONE = 2  # that fit, for each row that does not follow
NEAR = 1.0  # relative difference of figures that may be about the same at all
COARSE = 0.15  # relative width of figures that agree with nearly everything
TRIVIAL = 0.02  # ratios as near to 1 prove nothing


def words_of(text: str) -> set[str]:
    """The words of a heading, in lower case; numbers are words, too."""
    return set(re.findall(r"[a-z]+\d*|\d+", text.lower()))


RATIO = re.compile(
    r"(?i)speed[ _-]?up|scal(?:ing|ability)|ratio|\bfaster\b(?! ?-?r-?cnn)|slower|\bgains?\b|improve|reduc|"
    r"overhead|saving|relative|normali[sz]ed|efficien|\bvs\.?\b|×|^x$|\(x\)|\bchange\b|diff|delta|increase|加速|提升"
)
OVERHEAD = re.compile(r"(?i)\boverhead\b|\bslow[ -]?down\b|\bslower\b")
# What the heading of a speed-up may say besides the columns that it is of.
PLAIN = words_of(
    "speedup speed up x over vs versus baseline gpu gpus single one 1 first scaling weak strong throughput training "
    "relative factor ratio to the of"
)
END_OF_INTERVAL = re.compile(r"(?i)(?:\b|_)(?:low|high|lower|upper|min|max|std|ci|stderr)(?:\b|_)")
SPEEDUP = re.compile(r"(?i)speed[ _-]?up|(?:weak|strong) scaling|加速比")
# Kinds whose figures can be divided by each other. Others are so by figures of the same heading's unit.
FAMILIES = {
    "time": ("time_s", "latency_s"),
    "rate": ("_per_s", "rate"),
    "memory": ("memory_bytes",),
    "energy": ("energy_j",),
    "power": ("power_w",),
    "cost": ("cost",),
}
SETTINGS = (
    *NOT_FIGURES,
    *("devices", "nodes", "devices_per_node", "processes", "batch", "micro_batch", "global_batch", "accumulation"),
    *("seq_len", "steps", "epochs", "step", "epoch", "zero_stage", "tensor_parallel", "pipeline_parallel"),
    *("data_parallel", "learning_rate", "repeats", "gradient_norm"),
)
SHARES = ("percent", "times")  # dimensions of ratios: "+3,530 tok/s" is a difference
STATISTIC = re.compile(r"(?i)(?:mean|avg|average|median|geomean|min|max|std)\b")  # of ratios, not ratios of statistics
QUALITY = ("accuracy", "loss", "val_loss", "perplexity")  # of what was trained: no speed-up is over it
WHOLE = ("total_time_s", "time_s")  # that may hold start-up and evaluation


def family(column: FigureColumn) -> str | None:
    """What the figures of a column are, where they can be divided by others of the same; None of settings."""
    if column.kind in QUALITY or is_ratio(column) or (column.kind in SETTINGS and not column.has_decimals):
        return None
    if column.kind is None or column.kind in SETTINGS:
        return f"unknown{column.meaning.unit or ''}"
    return next((name for name, ends in FAMILIES.items() if column.kind.endswith(ends)), None)


def is_ratio(column: FigureColumn) -> bool:
    """Whether a column is one of ratios or differences, by its kind or its heading."""
    if END_OF_INTERVAL.search(column.heading) or column.meaning.statistic is not None:
        return False
    if column.kind in ("speedup", "efficiency", "change"):
        return True
    return column.kind in (None, "metric", "text") and RATIO.search(column.heading) is not None


@dataclass(frozen=True)
class Formula:
    """What a column may follow from. `values`: of each row; `sources`: the columns that it is formed of.

    `expected`: how far the heading or custom suggest it. 0: not at all; 1: a baseline as they usually are, or one of
    two columns is named; 2: nothing else can be meant. `above`, `below`: the cells that are divided, row by row.
    """

    name: str
    sources: tuple[str, ...]
    values: Figures
    expected: int
    above: list[str]
    below: list[str]
    is_steady: bool = True  # False: of whole times, which hold start-up and evaluation

    def of(self, row: int) -> str:
        """The formula with the figures of a row."""
        return f"{self.name}: {self.above[row]} / {self.below[row]} = {self.value(row):.4g}"

    def value(self, row: int) -> float:
        """What the figures of a row give, as they are printed."""
        return float(np.sqrt(self.values.low[row] * self.values.high[row]))


def formulas_of(target: FigureColumn, table: FigureTable) -> Iterator[Formula]:
    """Ratios that may be those of `target`: of two columns, or of one column over its rows that are baselines."""
    sources = [column for column in table.columns if column is not target and family(column)]
    for above, below in permutations(sources, 2):
        if family(above) == family(below) and above.meaning.per_device == below.meaning.per_device:
            name, both = f"{above.heading} / {below.heading}", (above.heading, below.heading)
            expected = max(named(target.heading, *both), int(len(sources) == 2))
            yield Formula(name, both, above.figures / below.figures, expected, above.texts, below.texts)
            if SPEEDUP.search(target.heading) is None and sources.index(above) < sources.index(below):
                larger = (above.figures / below.figures).larger_of(below.figures / above.figures)
                yield Formula(f"{name}, or the other way round", both, larger, expected, above.texts, below.texts)
    meant = measured(target, sources)
    devices = next((c.figures for c in table.columns if c.kind in ("devices", "processes", "nodes")), table.devices)
    for rule, base in baselines(target, table):
        for source in sources:
            is_meant = source in meant and rule == "the row that is 1"
            yield from _over_rows(source, rule, base, devices, meaning_of_ratio(target) if is_meant else None)


def meaning_of_ratio(target: FigureColumn) -> str:
    """What a column of ratios is, in a word: its kind, or that it says how much longer something takes."""
    if SPEEDUP.search(target.heading):
        return "speedup"
    return "overhead" if OVERHEAD.search(target.heading) else target.kind or "ratio"


def _over_rows(
    source: FigureColumn, rule: str, base: Rows, devices: Figures | None, meant: str | None
) -> Iterator[Formula]:
    """A column over that of the row `base` of each row, and the other way round; x and / devices, where known.

    `meant`: what the column is that is to follow, where nothing else than this source can be meant.
    """
    known = base >= 0
    there = source.figures[base]
    there = Figures(np.where(known, there.low, np.nan), np.where(known, there.high, np.nan))
    cells = [source.texts[i] for i in base]
    usual = int(rule in USUAL_BASELINES)
    name, one = f"{source.heading} over {rule}", (source.heading,)
    is_steady = source.kind not in WHOLE
    for upwards in (True, False):
        ratio = source.figures / there if upwards else there / source.figures
        above, below = (source.texts, cells) if upwards else (cells, source.texts)
        # A speed-up is the baseline's time over the row's, an overhead the other way round.
        of_times = family(source) == "time" and meant != "overhead"
        expected = 2 if meant and upwards != of_times else usual
        yield Formula(name, one, ratio, usual if meant == "efficiency" else expected, above, below, is_steady)
        if devices is not None:
            more = devices / devices[base]
            yield Formula(f"{name}, x devices", one, ratio * more, 0, above, below, is_steady)
            divided = expected if meant == "efficiency" else usual
            yield Formula(f"{name}, / devices", one, ratio / more, divided, above, below, is_steady)


def measured(target: FigureColumn, sources: list[FigureColumn]) -> list[FigureColumn]:
    """The columns that speed-ups can be of: the one whose own words they repeat, else all of rates and times."""
    if len(sources) == 1:
        return sources
    speeds = [column for column in sources if family(column) in ("rate", "time")]
    if SPEEDUP.search(target.heading) is None:
        return []
    if words_of(target.heading) - PLAIN - set().union(*(words_of(column.heading) for column in speeds)):
        return []  # of something that is not in the table
    shared = set.intersection(*(words_of(column.heading) for column in speeds)) if speeds else set()
    own = [c for c in speeds if set() < words_of(c.heading) - shared <= words_of(target.heading)]
    return own if len(own) == 1 else speeds


def named(heading: str, above: str, below: str) -> int:
    """How many of two columns a heading names by the words that tell the two apart."""
    words = words_of(heading)
    first, second = (words_of(re.sub(r"\(.*?\)", "", column)) for column in (above, below))  # units tell nothing apart
    apart, common = (first - second, second - first), first & second
    number = sum(bool(own) and own <= words for own in apart) if common else 0
    return number if common <= words else min(number, 1)


def baselines(target: FigureColumn, table: FigureTable) -> Iterator[tuple[str, Rows]]:
    """(what it is called, the baseline row of each row): -1 where a row has none."""
    rows = len(table.places)
    yield "the row above", np.arange(rows) - 1
    yield "the first row", np.zeros(rows, dtype=np.int64)
    yield "the last row", np.full(rows, rows - 1)
    marked = [i for i in range(rows) if is_marked(target, i)]
    if marked:
        nearest = [max((m for m in marked if m <= i), default=marked[0]) for i in range(rows)]
        yield "the row that is 1", np.array(nearest)
    groupings = {**table.words, **{c.heading: c.texts for c in table.columns if family(c) is None and not is_ratio(c)}}
    for heading, texts in groupings.items():
        if 1 < len(set(texts)) < rows:
            first = [texts.index(text) for text in texts]
            yield f"the first row of its {heading}", np.array(first)
            if len(marked) > 1:
                of_group = {texts[m]: m for m in reversed(marked)}
                yield f"the row of its {heading} that is 1", np.array([of_group.get(text, -1) for text in texts])


def is_marked(column: FigureColumn, row: int) -> bool:
    """Whether a row of a column of ratios says that it is the baseline."""
    text, value = column.texts[row], column.figures.middle[row]
    return value in (0.0, 1.0, 100.0) or is_nothing(text) or "baseline" in text.lower()


def readings(column: FigureColumn) -> dict[str, Figures]:
    """What a column of ratios may say, as ratios: as it stands, in percent, how much more or less than 1."""
    in_cells = any("%" in text for text in column.texts)
    units = [printed[0].unit if (printed := figures_of(text)) else None for text in column.texts]
    ratio = [unit is None or unit.dimension in SHARES for unit in units]
    figures = Figures(*(np.where(ratio, ends, np.nan) for ends in (column.figures.low, column.figures.high)))
    if not column.is_in_percent and (column.kind == "speedup" or SPEEDUP.search(column.heading)):
        return {"is": figures}
    scales = [1.0] if in_cells else [0.01] if column.is_in_percent else [1.0, 0.01]
    readings = {}
    for scale in scales:
        readings[f"{scale} of"] = figures.scaled(scale)
        if column.kind == "efficiency":
            continue
        readings[f"{scale} more"] = figures.scaled(scale, 1.0)
        readings[f"{scale} less"] = figures.scaled(-scale, 1.0)
    return readings


@dataclass(frozen=True)
class Explanation:
    """A formula beside one reading of the column that may follow from it."""

    formula: Formula
    stated: Figures
    says_so: bool  # whether the heading calls it a speed-up, or names the columns

    @cached_property
    def distance(self) -> Floats:
        return self.stated.distance(self.formula.values)

    @cached_property
    def comparable(self) -> np.typing.NDArray[np.bool_]:
        """The rows that have both and in which the ratio is not about 1."""
        nontrivial = np.abs(self.formula.values.middle - 1) > TRIVIAL
        precise = self.stated.width + self.formula.values.width < COARSE
        return np.isfinite(self.distance) & nontrivial & precise & (self.stated.middle > 0)

    @cached_property
    def fits(self) -> np.typing.NDArray[np.bool_]:
        return self.comparable & (self.distance <= FITS)

    @cached_property
    def does_not_follow(self) -> np.typing.NDArray[np.bool_]:
        """(rows,) whether the stated figure is another number than the formula gives."""
        finite = np.isfinite(self.distance) & (self.stated.middle > 0)
        return finite & (self.distance > (DOES_NOT_FOLLOW if self.formula.is_steady else RATIO_TOLERANCE))

    @cached_property
    def evidence(self) -> float:
        """-log10 of the probability that the rows that fit do so by chance."""
        values = self.formula.values
        distinct = {f"{value:.3g}": i for i, value in enumerate(values.middle) if self.fits[i]}
        chance = [min(1.0, self.stated.width[i] + values.width[i] + 2 * FITS) for i in distinct.values()]
        return -float(np.sum(np.log10(chance))) if chance else 0.0

    def weight(self, tried: int) -> float:
        """Decimal logarithm of how much likelier the explanation is than the best of `tried` chance ones."""
        return self.evidence + 2 * self.formula.expected - float(np.log10(tried))

    def rank(self, tried: int) -> tuple[float, int, int]:
        """The larger, the better it explains the column."""
        return self.weight(tried), int(self.comparable.sum()), -int(self.does_not_follow.sum())

    def holds(self, tried: int) -> bool:
        """Whether the rows that fit, or the heading, prove that it is meant."""
        fits, odd = int(self.fits.sum()), int(self.does_not_follow.sum())
        if self.formula.expected == 2 and fits < odd:
            # Off by one factor, all are over another baseline.
            factors = (self.stated.middle / self.formula.values.middle)[self.does_not_follow]
            one_factor = (
                odd > 1 and len(self.formula.sources) == 1 and np.ptp(factors) < DOES_NOT_FOLLOW * factors.max()
            )
            return self.says_so and not one_factor and all(self.distance[self.does_not_follow] < NEAR)
        if self.formula.expected == 2:
            return True
        if len(self.formula.sources) == 2 and self.formula.expected:
            return fits >= odd and self.evidence >= NAMED_EVIDENCE
        return fits >= ROWS_FOR_EACH_ODD_ONE * odd and self.weight(tried) >= EVIDENCE

    def explains(self, row: int, usual: "Explanation") -> bool:
        """Whether a row that is odd by the `usual` explanation follows from this one."""
        if usual.formula.expected == 2 and len(usual.formula.sources) == 2:
            return False  # the heading leaves no other meaning
        if not (self.distance[row] <= FITS and self.comparable[row]):
            return False
        same = self.formula.sources == usual.formula.sources
        return same or bool(self.formula.expected) or int(self.fits.sum()) >= ROWS_FOR_EACH_ODD_ONE


@of_evidence.finds("speedup-not-in-table", "suspect")
def columns_follow(context: AuditContext) -> Iterator[Flag]:
    """A speed-up does not follow from the rates and times of its own table.

    Detected: No rate and no time of the table, against the row that is marked 1, gives the printed speed-up, whatever
    their rounding, within 5 %; nor does the speed-up times the devices (weak scaling).
    Seen: Tables retyped by hand; speed-ups of 18.75 to 20.86 that divide 20 epochs by 5.
    Repair: Compute the column from the rates; state the baseline and the clock.
    """
    speedups = list(speedups_follow(context))
    yield from speedups
    known = {place for flag in speedups for place in flag.about}
    known |= {place for finding in efficiencies_follow(context) for place in finding.runs}
    for table in context.evidence.tables:
        for figures in figure_tables(table):
            for target in filter(is_ratio, figures.columns):
                if figures.on_side and SPEEDUP.search(target.heading) is None:
                    continue  # names of rows are of anything
                yield from (flag for flag in _ratios(figures, target) if not known & set(flag.about))


def _ratios(figures: FigureTable, target: FigureColumn) -> Iterator[Flag]:
    """Flag rows of a column of ratios that another formula would have to explain than the rest of the column."""
    formulas = list(formulas_of(target, figures))
    is_speedup = SPEEDUP.search(target.heading) is not None and not target.is_in_percent
    explanations = [
        Explanation(formula, stated, is_speedup or len(formula.sources) == 2)
        for stated in readings(target).values()
        for formula in formulas
    ]
    usual = max(explanations, key=lambda e: e.rank(len(explanations)), default=None)
    if usual is None or not usual.holds(len(explanations)):
        return
    for i in np.flatnonzero(usual.does_not_follow).tolist():
        in_points = all("%" in text for text in (target.texts[i], usual.formula.above[i], usual.formula.below[i]))
        explained = in_points or any(other.explains(i, usual) for other in explanations)
        if explained or STATISTIC.match(figures.names[i]) or _is_of_another_size(figures, usual, i):
            continue
        fits = f"; {plural(int(usual.fits.sum()), 'other row')} of the table follow" if usual.fits.any() else ""
        yield Flag(
            f"{figures.names[i]}: {target.heading} {target.texts[i]}, but {usual.formula.of(i)}{fits}",
            [figures.places[i]],
        )


def _is_of_another_size(figures: FigureTable, usual: Explanation, row: int) -> bool:
    """Whether a row has another number in a column of words ("513×513") than all rows that follow: its own baseline."""
    fitting = np.flatnonzero(usual.distance <= FITS).tolist()
    numbered = [texts for texts in figures.words.values() if re.search(r"\d", texts[row])]
    shared = (texts for texts in numbered if {texts[i] for i in fitting} == {texts[fitting[0]]}) if fitting else ()
    return any(texts[fitting[0]] != texts[row] and texts.count(texts[fitting[0]]) > 1 for texts in shared)
