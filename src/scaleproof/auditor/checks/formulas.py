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
from scaleproof.auditor.checks.context import ROWS_PER_ODD_ROW, AuditContext, of_evidence
from scaleproof.auditor.checks.efficiencies import efficiencies_follow
from scaleproof.auditor.checks.ratios import RATIO_TOLERANCE, speedups_follow
from scaleproof.auditor.checks.rows import TIMES_OF_RUN, name_two_precisions
from scaleproof.auditor.read.headings import NOT_FIGURES
from scaleproof.auditor.read.printed_figures import figures_of, is_nothing
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Flag

USUAL_BASELINES = ("the first row", "the row that is 1")
FIT_TOLERANCE = 0.005  # relative difference of a figure and its formula, beside their rounding
CONTRADICTION = 0.03  # relative difference of a figure that contradicts its formula
FEWEST_EVIDENCE = 2.0  # decimal logarithm of how unlikely it is that any formula fits by chance
FEWEST_EVIDENCE_OF_NAMED = 1.0  # evidence that suffices where the heading names one of two columns
MOST_DIFFERENCE = 1.0  # relative difference of figures that may be about the same at all
COARSE_RATIO = 0.06  # relative width of a ratio of settings, "16 / 24", that another figure is near by chance
COARSE_WIDTH = 0.15  # relative width of figures that agree with nearly everything
ONLY_MEANING = 2  # how far a formula is expected that alone can be meant
TRIVIAL_DIFFERENCE = 0.02  # ratios as near to 1 prove nothing


def words_of(text: str) -> set[str]:
    """Return the words of a heading in lower case; numbers are words, too."""
    return set(re.findall(r"[a-z]+\d*|\d+", text.lower()))


RATIO_HEADING = re.compile(
    r"(?i)speed[ _-]?up|scal(?:ing|ability)|ratio|\bfaster\b(?! ?-?r-?cnn)|slower|\bgains?\b|improve|reduc|"
    r"overhead|saving|relative|normali[sz]ed|efficien|\bvs\.?\b|×|^x$|\(x\)|\bchange\b|diff|delta|increase|加速|提升"
)
TIMES_CELL = re.compile(r"\d ?[x×]")
OVERHEAD_HEADING = re.compile(r"(?i)\boverhead\b|\bslow[ -]?down\b|\bslower\b|\breduction\b|\bsav(?:ed|ings?)\b")
# What the heading of a speed-up may say besides the columns that it is of.
GENERAL_WORDS = words_of(
    "speedup speed up x over vs versus baseline gpu gpus single one 1 first scaling weak strong throughput training "
    "relative factor ratio to the of"
)
OVER_THE_ROW_ABOVE = re.compile(r"(?i)\b(?:previous|prior|preceding|above|incremental|step-?wise)\b")
END_OF_INTERVAL = re.compile(r"(?i)(?:\b|_)(?:low|high|lower|upper|min|max|std|ci|stderr)(?:\b|_)")
SPEEDUP_HEADING = re.compile(r"(?i)speed[ _-]?up|(?:weak|strong) scaling|加速比")
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
RATIO_DIMENSIONS = ("percent", "times")  # dimensions of ratios: "+3,530 tok/s" is a difference
DIFFERENCE = "difference"
LOST_UNIT = 3.0  # decimal logarithm of the factor between "1.31" and 1.31M, or a multiple of it
# Rows of these are statistics of ratios, not ratios of statistics.
STATISTIC_NAME = re.compile(r"(?i)(?:mean|avg|average|median|geomean|min|max|std)\b")
QUALITY = ("accuracy", "loss", "val_loss", "perplexity")  # of what was trained: no speed-up is over it


def family(column: FigureColumn) -> str | None:
    """Return the family of a column, "time" or "rate": ratios are of two of one. None: a setting, ratio or quality."""
    if column.kind in QUALITY or is_ratio(column) or (column.kind in SETTINGS and not column.has_decimals):
        return None
    if column.kind is None or column.kind in SETTINGS:
        return f"unknown{column.meaning.unit or ''}"
    return next((name for name, ends in FAMILIES.items() if column.kind.endswith(ends)), None)


def is_ratio(column: FigureColumn) -> bool:
    """Whether a column is of ratios or differences, by its kind or its heading; ends of intervals are not."""
    if END_OF_INTERVAL.search(column.heading) or column.meaning.statistic is not None:
        return False
    if column.kind in ("speedup", "efficiency", "change"):
        return True
    return column.kind in (None, "metric", "text") and RATIO_HEADING.search(column.heading) is not None


@dataclass(frozen=True)
class Formula:
    """What a column may be computed by. `values`: of each row; `sources`: the columns that it is formed of.

    `above`, `below`: the cells that are divided, row by row. `expected`: how far the heading or custom suggest it. 0:
    not at all; 1: a usual baseline, or one of two columns is named; ONLY_MEANING: nothing else can be meant.
    """

    name: str
    sources: tuple[str, ...]
    values: Figures
    expected: int
    above: list[str]
    below: list[str]
    is_steady: bool = True  # False: of whole times, which hold start-up and evaluation
    is_difference: bool = False  # in the unit of its source: "507.91 MB" saved

    def of(self, row: int) -> str:
        """Return the formula with the figures of a row: "time over the first row: 90 / 24 = 3.75"."""
        if self.is_difference:
            return f"{self.name}: {self.above[row]} - {self.below[row]}"
        as_printed = np.sqrt(self.values.low[row] * self.values.high[row])
        return f"{self.name}: {self.above[row]} / {self.below[row]} = {as_printed:.4g}"


def formulas_of(target: FigureColumn, table: FigureTable) -> Iterator[Formula]:
    """Yield formulas by which `target` may be computed: ratios of two other columns, or of one over a baseline row."""
    sources = [column for column in table.columns if column is not target and family(column)]
    if not name_two_precisions(target.heading):  # "FP16 over FP32" is of both
        sources = [column for column in sources if not name_two_precisions(target.heading, column.heading)]
    own_words = words_of(target.heading) - GENERAL_WORDS  # "New speedup" is of "New eager" and "New compiled"
    peers = [column for column in sources if own_words & words_of(column.heading)] or sources
    for above, below in permutations(sources, 2):
        if family(above) == family(below) and above.meaning.per_device == below.meaning.per_device:
            name, headings = f"{above.heading} / {below.heading}", (above.heading, below.heading)
            ratio = above.figures.over(below.figures)
            is_beside_one = target.position in (above.position, below.position)  # in brackets behind its figure
            of_family = [column for column in peers if family(column) == family(above)]
            is_only_pair = of_family in ([above, below], [below, above])
            expected = max(columns_named(target.heading, *headings), int(is_only_pair or is_beside_one))
            yield Formula(name, headings, ratio, expected, above.texts, below.texts)
            # What is not called a speed-up may be over the smaller one in each row.
            if SPEEDUP_HEADING.search(target.heading) is None and sources.index(above) < sources.index(below):
                inverse = below.figures.over(above.figures)
                larger = Figures(np.maximum(ratio.low, inverse.low), np.maximum(ratio.high, inverse.high))
                yield Formula(f"{name}, or the other way round", headings, larger, expected, above.texts, below.texts)
    meant = columns_of_speedups(target, sources)
    rule_meant = "the row above" if OVER_THE_ROW_ABOVE.search(target.heading) else "the row that is 1"
    of_devices = (column.figures for column in table.columns if column.kind in ("devices", "processes", "nodes"))
    devices = next(of_devices, table.devices)
    for rule, base in baselines(target, table):
        for source in sources:
            is_meant = source in meant and rule == rule_meant
            yield from _over_rows(source, rule, base, devices, meaning_of_ratio(target) if is_meant else None)


def meaning_of_ratio(target: FigureColumn) -> str:
    """Return what a column of ratios is: "speedup", "overhead" (how much longer something takes) or its kind."""
    if SPEEDUP_HEADING.search(target.heading):
        return "speedup"
    return "overhead" if OVERHEAD_HEADING.search(target.heading) else target.kind or "ratio"


def _over_rows(
    source: FigureColumn, rule: str, base: Rows, devices: Figures | None, meant: str | None
) -> Iterator[Formula]:
    """Yield formulas of a column over its baseline row, the other way round, x and / devices (if known), and -.

    `base`: the baseline of each row, -1 without one; `meant`: what the ratio is, where nothing but this source can be
    meant. Example: times 90, 24 over the first row give 1, 0.27 and 1, 3.75; on 1 and 4 devices also 1, 1.07 and 1, 15.
    """
    has_base = np.where(base >= 0, 1.0, np.nan)
    at_base = source.figures[base] * Figures(has_base, has_base)
    texts_at_base = [source.texts[i] for i in base]
    by_rule = int(rule in USUAL_BASELINES)
    name, headings = f"{source.heading} over {rule}", (source.heading,)
    is_steady = source.kind not in TIMES_OF_RUN
    for upwards in (True, False):
        ratio = source.figures.over(at_base) if upwards else at_base.over(source.figures)
        above, below = (source.texts, texts_at_base) if upwards else (texts_at_base, source.texts)
        # A speed-up is the baseline's time over the row's, an overhead the other way round.
        of_times = family(source) == "time" and meant != "overhead"
        expected = ONLY_MEANING if meant and upwards != of_times else by_rule
        yield Formula(name, headings, ratio, by_rule if meant == "efficiency" else expected, above, below, is_steady)
        if devices is not None:
            more = devices / devices[base]
            yield Formula(f"{name}, x devices", headings, ratio * more, 0, above, below, is_steady)
            divided = expected if meant == "efficiency" else by_rule
            yield Formula(f"{name}, / devices", headings, ratio / more, divided, above, below, is_steady)
    gap, width = np.abs(source.figures.middle - at_base.middle), (source.figures.high - source.figures.low) / 2
    around = Figures(np.maximum(gap - width, 0.0), gap + width)
    yield Formula(name, headings, around, by_rule, source.texts, texts_at_base, is_difference=True)


def columns_of_speedups(target: FigureColumn, sources: list[FigureColumn]) -> list[FigureColumn]:
    """Return the columns of speed of which `target` can be speed-ups: the one that it names, else all; else []."""
    if len(sources) == 1:
        return sources
    speeds = [column for column in sources if family(column) in ("rate", "time")]
    if SPEEDUP_HEADING.search(target.heading) is None:
        return []
    if words_of(target.heading) - GENERAL_WORDS - set().union(*(words_of(column.heading) for column in speeds)):
        return []  # of something that is not in the table
    shared = set.intersection(*(words_of(column.heading) for column in speeds)) if speeds else set()
    named = [column for column in speeds if set() < words_of(column.heading) - shared <= words_of(target.heading)]
    return named if len(named) == 1 else speeds


def columns_named(heading: str, above: str, below: str) -> int:
    """Count the two columns that a heading names: "DDP speedup" 1 of "time DDP", "time FSDP", "time DDP/FSDP" both."""
    words = words_of(heading)
    first, second = (words_of(re.sub(r"\(.*?\)", "", column)) for column in (above, below))  # without units
    common = first & second
    if first and second and not common and first | second <= words:
        return 2
    number = sum(bool(distinct) and distinct <= words for distinct in (first - second, second - first)) if common else 0
    # With other words in the heading it may be of a third thing.
    return number if words - first - second <= GENERAL_WORDS else min(number, 1)


def baselines(target: FigureColumn, table: FigureTable) -> Iterator[tuple[str, Rows]]:
    """Yield (what a baseline is called, its row for each row): ("the row above", [-1, 0, 1]); -1 is none."""
    rows = len(table.places)
    yield "the row above", np.arange(rows) - 1
    yield "the first row", np.zeros(rows, dtype=np.int64)
    yield "the last row", np.full(rows, rows - 1)
    marked = [i for i in range(rows) if is_marked(target, i)]
    if marked:
        nearest = [max((m for m in marked if m <= i), default=marked[0]) for i in range(rows)]
        yield "the row that is 1", np.array(nearest)
    settings = [column for column in table.columns if family(column) is None and not is_ratio(column)]
    groupings = {**table.words, **{column.heading: column.texts for column in settings}}
    for heading, texts in groupings.items():
        if 1 < len(set(texts)) < rows:
            first = [texts.index(text) for text in texts]
            yield f"the first row of its {heading}", np.array(first)
            if len(marked) > 1:
                of_group = {texts[m]: m for m in reversed(marked)}
                yield f"the row of its {heading} that is 1", np.array([of_group.get(text, -1) for text in texts])


def is_marked(column: FigureColumn, row: int) -> bool:
    """Whether a row of a column of ratios says that it is the baseline: by 1, 100 %, no difference, "-" or in words."""
    text, value = column.texts[row], column.figures.middle[row]
    return value in (0.0, 1.0, 100.0) or is_nothing(text) or "baseline" in text.lower()


def readings(column: FigureColumn) -> dict[str, Figures]:
    """Return reading -> a column of ratios read so: 20 may be 20 or 0.2 of something, so much more, or so much less."""
    printed = [figures_of(text) for text in column.texts]
    units = [figures[0].unit if figures else None for figures in printed]
    are_ratios = [unit is None or unit.dimension in RATIO_DIMENSIONS for unit in units]
    low, high = column.figures.low, column.figures.high
    ratios = Figures(np.where(are_ratios, low, np.nan), np.where(are_ratios, high, np.nan))
    if not np.isfinite(ratios.low).any():
        return {DIFFERENCE: column.figures}
    if not column.is_in_percent and (column.kind == "speedup" or SPEEDUP_HEADING.search(column.heading)):
        return {"is": ratios}
    scales = [0.01] if column.is_in_percent else [1.0, 0.01]
    if any("%" in text for text in column.texts) or column.meaning.unit == "percent":
        scales = [1.0]  # the unit of the cells, or of the heading, has counted already
    readings = {}
    for scale in scales:
        readings[f"{scale} of"] = ratios.scaled(scale)
        if column.kind == "efficiency":
            continue  # it is a share, no change
        readings[f"{scale} more"] = ratios.scaled(scale, 1.0)
        readings[f"{scale} less"] = ratios.scaled(-scale, 1.0)
    return readings


@dataclass(frozen=True)
class Explanation:
    """A formula beside one reading of the column that may be computed by it."""

    formula: Formula
    stated: Figures
    says_so: bool  # whether the heading calls it a speed-up, or names the columns

    @cached_property
    def distance(self) -> Floats:
        return self.stated.distance(self.formula.values)

    @cached_property
    def comparable(self) -> np.typing.NDArray[np.bool_]:
        """Return (rows,) whether a row has both figures, with digits enough, and its ratio is not about 1."""
        nontrivial = np.abs(self.formula.values.middle - 1) > TRIVIAL_DIFFERENCE
        precise = self.stated.width + self.formula.values.width < COARSE_WIDTH
        return np.isfinite(self.distance) & nontrivial & precise & (self.stated.middle > 0)

    @cached_property
    def agrees(self) -> np.typing.NDArray[np.bool_]:
        """Return (rows,) whether the stated figure is what the formula gives."""
        return self.comparable & (self.distance <= FIT_TOLERANCE)

    @cached_property
    def contradicts(self) -> np.typing.NDArray[np.bool_]:
        """Return (rows,) whether the stated figure is another number than the formula gives."""
        finite = np.isfinite(self.distance) & (self.stated.middle > 0)
        return finite & (self.distance > (CONTRADICTION if self.formula.is_steady else RATIO_TOLERANCE))

    @cached_property
    def evidence(self) -> float:
        """-log10 of the probability that the rows that agree do so by chance; each different value counts once."""
        values = self.formula.values
        distinct = {f"{value:.3g}": i for i, value in enumerate(values.middle) if self.agrees[i]}
        chance = [min(1.0, self.stated.width[i] + values.width[i] + 2 * FIT_TOLERANCE) for i in distinct.values()]
        return -float(np.sum(np.log10(chance))) if chance else 0.0

    def weight(self, tried: int) -> float:
        """Return log10 of how much likelier the explanation is than the best of `tried` that fit by chance."""
        return self.evidence + 2 * self.formula.expected - float(np.log10(tried))

    def rank(self, tried: int) -> tuple[bool, float, int, int]:
        """Return a key to compare explanations by: the larger, the better it explains the column."""
        fits = (self.weight(tried), int(self.comparable.sum()), -int(self.contradicts.sum()))
        return self.is_meant(tried), *fits

    def is_meant(self, tried: int) -> bool:
        """Whether rows that agree, or the heading, prove that it is meant; `tried`: of how many it was chosen."""
        right, wrong = int(self.agrees.sum()), int(self.contradicts.sum())
        if self.formula.expected == ONLY_MEANING:
            return right >= wrong or self._is_named_yet_mostly_wrong
        if len(self.formula.sources) == 2 and self.formula.expected:
            return right >= wrong and self.evidence >= FEWEST_EVIDENCE_OF_NAMED
        return right >= ROWS_PER_ODD_ROW * wrong and self.weight(tried) >= FEWEST_EVIDENCE

    @property
    def _is_named_yet_mostly_wrong(self) -> bool:
        """Whether the heading names it, and wrong rows are not off by one factor (another baseline) or far off."""
        factors = (self.stated.middle / self.formula.values.middle)[self.contradicts]
        is_of_one_column = len(factors) > 1 and len(self.formula.sources) == 1
        has_one_factor = is_of_one_column and np.ptp(factors) < CONTRADICTION * factors.max()
        units_off = np.log10(np.abs(factors)) / LOST_UNIT
        has_lost_unit = (np.round(units_off) != 0) & (np.abs(units_off - np.round(units_off)) < FIT_TOLERANCE)
        is_near = has_lost_unit | (self.distance[self.contradicts] < MOST_DIFFERENCE)
        return self.says_so and not has_one_factor and bool(is_near.all())

    def explains(self, row: int, meant: "Explanation") -> bool:
        """Whether this explanation gives a row that contradicts the `meant` one, so that the row may be right."""
        if meant.formula.expected == ONLY_MEANING and len(meant.formula.sources) == 2:
            return False  # the heading leaves no other meaning
        if not self.agrees[row]:
            return False
        has_same_sources = self.formula.sources == meant.formula.sources
        is_likely = bool(self.formula.expected) or int(self.agrees.sum()) >= ROWS_PER_ODD_ROW
        return has_same_sources or (is_likely and self.formula.values.width[row] < COARSE_RATIO)


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
    flagged = {place for flag in speedups for place in flag.about}
    flagged |= {place for finding in efficiencies_follow(context) for place in finding.runs}
    for figures in (figures for table in context.evidence.tables for figures in figure_tables(table)):
        for target in filter(is_ratio, figures.columns):
            if figures.on_side and SPEEDUP_HEADING.search(target.heading) is None:
                continue  # names of rows are of anything
            yield from (flag for flag in _wrong_ratios(figures, target) if not flagged & set(flag.about))


def _wrong_ratios(figures: FigureTable, target: FigureColumn) -> Iterator[Flag]:
    """Flag rows of a column of ratios that break the formula of most rows: 9.30 beside 1.80, of times 90, 50, 24."""
    formulas = list(formulas_of(target, figures))
    is_times = all(TIMES_CELL.search(text) or is_marked(target, i) for i, text in enumerate(target.texts))
    is_speedup = (SPEEDUP_HEADING.search(target.heading) is not None or is_times) and not target.is_in_percent
    explanations = [
        Explanation(formula, stated, is_speedup or len(formula.sources) == 2)
        for reading, stated in readings(target).items()
        for formula in formulas
        if formula.is_difference == (reading == DIFFERENCE)
    ]
    meant = max(explanations, key=lambda explanation: explanation.rank(len(explanations)), default=None)
    if meant is None or not meant.is_meant(len(explanations)):
        return
    agreeing = int(meant.agrees.sum())
    others = f"; {plural(agreeing, 'other row')} of the table follow" if agreeing else ""
    for i in np.flatnonzero(meant.contradicts).tolist():
        # A change of percentages may be a difference of points.
        in_points = all("%" in text for text in (target.texts[i], meant.formula.above[i], meant.formula.below[i]))
        explained = in_points or any(other.explains(i, meant) for other in explanations)
        if explained or STATISTIC_NAME.match(figures.names[i]) or _is_of_another_size(figures, meant, i):
            continue
        evidence = f"{figures.names[i]}: {target.heading} {target.texts[i]}, but {meant.formula.of(i)}{others}"
        yield Flag(evidence, [figures.places[i]])


def _is_of_another_size(figures: FigureTable, meant: Explanation, row: int) -> bool:
    """Whether all rows that agree share one number in a column of words ("257×257"), and this row has another."""
    agreeing = np.flatnonzero(meant.distance <= FIT_TOLERANCE).tolist()
    if not agreeing:
        return False
    first = agreeing[0]
    numbered = [texts for texts in figures.words.values() if re.search(r"\d", texts[row])]
    shared = (texts for texts in numbered if all(texts[i] == texts[first] for i in agreeing))
    return any(texts[first] != texts[row] and texts.count(texts[first]) > 1 for texts in shared)
