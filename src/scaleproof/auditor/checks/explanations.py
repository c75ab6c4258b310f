"""Columns of ratios, and single ratios beside a baseline: which formula they are computed by, and who breaks it.

Most rows of a column say by which formula. Nothing shows it of a single "+72% improvement"; but where another cell of
its column says "baseline", some figure of its row over some other figure of the table must give it.
"""

import math
import re
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from scaleproof.auditor.checks.columns import FigureColumn, Figures, FigureTable, Floats, figure_tables
from scaleproof.auditor.checks.context import ROWS_PER_ODD_ROW, AuditContext, listed, of_evidence
from scaleproof.auditor.checks.efficiencies import efficiencies_follow
from scaleproof.auditor.checks.formulas import (
    DIFFERENCE,
    FAMILIES,
    ONLY_MEANING,
    RATIO_HEADING,
    SETTINGS,
    SPEEDUP_HEADING,
    Formula,
    family,
    formulas_of,
    is_marked,
    is_ratio,
    readings,
)
from scaleproof.auditor.checks.ratios import RATIO_TOLERANCE, speedups_follow
from scaleproof.auditor.read.printed_figures import NUMBER, number
from scaleproof.auditor.read.reported_tables import ABOUT, resolution_of
from scaleproof.auditor.read.sentences import VERBS, WAYS
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Flag

FIT_TOLERANCE = 0.005  # relative difference of a figure and its formula, beside their rounding
CONTRADICTION = 0.03  # relative difference of a figure that contradicts its formula
FEWEST_EVIDENCE = 2.0  # decimal logarithm of how unlikely it is that any formula fits by chance
FEWEST_EVIDENCE_OF_NAMED = 1.0  # evidence that suffices where the heading names one of two columns
MOST_DIFFERENCE = 1.0  # relative difference of figures that may be about the same at all
COARSE_RATIO = 0.06  # relative width of a ratio of settings, "16 / 24", that another figure is near by chance
COARSE_WIDTH = 0.15  # relative width of figures that agree with nearly everything
COARSEST_WIDTH = 1.0  # likewise, of figures whose formula is expected: ".03x" of 24.08 and 679.65 ms
TRIVIAL_DIFFERENCE = 0.02  # ratios as near to 1 prove nothing
TIMES_CELL = re.compile(r"\d ?[x×]")
LOST_UNIT = 3.0  # decimal logarithm of the factor between "1.31" and 1.31M, or a multiple of it
STATISTIC_NAME = re.compile(r"(?i)(?:mean|avg|average|median|geomean|min|max|std)\b")
MOST_ROWS = 8  # of more, some two figures give nearly every ratio
MARK = re.compile(r"(?i).*\b(?:baseline|reference)\b.*|[-–—]+|1(?:\.0+)? ?[x×]?|\+?0(?:\.0+)? ?%|100(?:\.0+)? ?%")
BASELINE = re.compile(
    r"(?i)\b(?:baseline|before|original|(?:py)?torch|eager|naive|vanilla|reference|default|serial|sequential|cpu|fp32|"
    r"cublas|standard|old)\b"
)
# What a ratio may be of that the columns must name.
QUANTITY = re.compile(
    r"(?i)memory|vram|accura|loss|quality|util|param|flop|power|energy|cost|size|storage|bandwidth|hit|success|accept|"
    r"score|ppl|perplex|retain|token"
)
WAY = re.compile(rf"(?i)\b(?:{WAYS}|{VERBS}|overhead|over)\b")
STATED = re.compile(rf"(?P<about>[~≈]?) ?(?P<sign>[+−-]?)(?P<n>{NUMBER}) ?(?P<unit>x\b|×|%)")
RANGE = re.compile(r"\d ?[-–] ?$|[<>≤≥] ?$")


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
    def width(self) -> Floats:
        return self.stated.width + self.formula.values.width

    @cached_property
    def comparable(self) -> np.typing.NDArray[np.bool_]:
        """Return (rows,) whether a row has both figures, with digits enough, and its ratio is not about 1."""
        nontrivial = np.abs(self.formula.values.middle - 1) > TRIVIAL_DIFFERENCE
        # Of two columns where the heading or custom expects it, of one where nothing else can be meant.
        is_expected = self.formula.expected + len(self.formula.sources) > ONLY_MEANING
        precise = self.width < (COARSEST_WIDTH if is_expected else COARSE_WIDTH)
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
        rows, ratios = np.flatnonzero(self.agrees), self.formula.values.middle
        width = self.width + 2 * FIT_TOLERANCE
        # Of coarse ratios those that are printed alike count once; most are near 1.
        compared = np.where(width < COARSE_WIDTH, ratios, self.stated.middle)
        chances = {f"{compared[i]:.3g}": width[i] / (1 + 2 * abs(math.log(ratios[i]))) for i in rows}
        return -sum(math.log10(min(1.0, chance)) for chance in chances.values())

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
        # Names of rows are of anything.
        is_known = [not figures.on_side or SPEEDUP_HEADING.search(column.heading) for column in figures.columns]
        targets = [
            column for column, known in zip(figures.columns, is_known, strict=True) if known and is_ratio(column)
        ]
        flags = [flag for target in targets for flag in _wrong_ratios(figures, target)]
        if not flagged & set(figures.places):
            flags += _ratios_of_nothing(figures)
        for flag in flags:
            if not flagged & set(flag.about):
                yield flag
                flagged |= set(flag.about)


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
    others = f"; so in {plural(agreeing, 'other row')} of the table" if agreeing else ""
    for i in np.flatnonzero(meant.contradicts).tolist():
        if is_speedup and agreeing >= ROWS_PER_ODD_ROW and "slow" not in target.texts[i].lower():
            # "18.95x" where 24.08 / 679.65 is .04x: no column of speed-ups has some of them the other way round
            inverse = meant.formula.sources[::-1]
            explanations = [other for other in explanations if len(inverse) < 2 or other.formula.sources != inverse]
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


def _ratios_of_nothing(table: FigureTable) -> Iterator[Flag]:
    """Flag a cell that states a ratio which no two figures of the table give: "2.4x" of 100 and 180 tokens/s."""
    sources = [column for column in table.columns if family(column) in FAMILIES]
    if len(table.places) > MOST_ROWS or not sources:
        return
    headings = " ".join(column.heading.lower() for column in sources)
    of_figures = {column.heading: column.texts for column in table.columns if is_ratio(column)}
    for heading, texts in (of_figures | table.words).items():
        if "efficien" in heading.lower():
            continue  # of devices
        is_speedup = SPEEDUP_HEADING.search(heading) is not None
        is_of_ratios = heading in of_figures or RATIO_HEADING.search(heading) is not None
        # Of a table on its side a share may be of another row: "+90%" in a column of differences.
        texts_of_ratios = ["" if table.on_side and "%" in text else text for text in texts]
        stated = {
            i: ratio for i, text in enumerate(texts_of_ratios) if (ratio := _stated(text, is_of_ratios)) is not None
        }
        base = _baseline_of(texts, stated.keys())
        if base is None and not (is_speedup and _are_variant_and_baseline(sources)):
            continue
        gaps = {i: _least_gap(table, sources, i, ratio, is_speedup) for i, ratio in stated.items() if i != base}
        wrong = [i for i, gap in gaps.items() if gap > RATIO_TOLERANCE]
        quantities = [word.lower() for i in wrong for word in QUANTITY.findall(f"{heading} {texts[i]}")]
        is_known = all(word in headings for word in quantities)
        if len(wrong) == 1 and is_known and not _has_other_baseline(table, wrong[0], base):
            i = wrong[0]
            others = [f" and {column.texts[base]}" if base is not None else "" for column in sources]
            figures = (
                f"{column.heading} {column.texts[i]}{other}" for column, other in zip(sources, others, strict=True)
            )
            evidence = (
                f"{table.names[i]}: {heading} {texts[i]}, but no two figures of the table give it: {listed(figures)}"
            )
            yield Flag(evidence, [table.places[i]])


def _baseline_of(texts: list[str], stated: Set[int]) -> int | None:
    """The row that is called the baseline, or the first one where all others, and not it, state a ratio; else None."""
    marked = [i for i, text in enumerate(texts) if MARK.fullmatch(text)]
    if not marked and stated == set(range(1, len(texts))) and stated:
        return 0
    return marked[0] if len(marked) == 1 else None


def _has_other_baseline(table: FigureTable, row: int, base: int | None) -> bool:
    """Whether the baseline shares a setting or a word with a row, and this row has another: its own is elsewhere."""
    settings = [column.texts for column in table.columns if family(column) not in FAMILIES and not is_ratio(column)]
    groups = (texts for texts in (*settings, *table.words.values()) if base is not None)
    return any(texts[row] != texts[base or 0] and texts.count(texts[base or 0]) > 1 for texts in groups)


def _are_variant_and_baseline(columns: list[FigureColumn]) -> bool:
    """Whether there are two columns of one quantity, one of which is called the baseline: "PyTorch ms", "Triton ms"."""
    is_pair = len(columns) == 2 and family(columns[0]) == family(columns[1])
    return is_pair and any(BASELINE.search(column.heading) for column in columns)


def _stated(text: str, is_in_column_of_ratios: bool) -> Figures | None:
    """What the ratio that a cell states may be, as times: 1.72 or 0.28 of "72% improvement"; None without one."""
    m = STATED.search(text)
    if m is None or RANGE.search(text[: m.start("n")]) or not (is_in_column_of_ratios or m["sign"] or WAY.search(text)):
        return None
    value = number(m["n"]) or np.nan
    around = max(resolution_of(m["n"]), ABOUT * value if m["about"] else 0.0)
    printed = Figures(np.array([value - around]), np.array([value + around]))
    if m["unit"] != "%":
        return printed
    readings = [printed.scaled(0.01, 1.0), printed.scaled(-0.01, 1.0), *([] if m["sign"] else [printed.scaled(0.01)])]
    return Figures(np.stack([reading.low for reading in readings]), np.stack([reading.high for reading in readings]))


def _least_gap(table: FigureTable, sources: list[FigureColumn], row: int, stated: Figures, is_speedup: bool) -> float:
    """How far a stated ratio is from the nearest one of a figure of its row and another one; -1 where there is none.

    `sources`: the columns of these figures. The devices, the batch and other settings may be factors of the ratio.
    """
    sizes = [column.figures.middle for column in table.columns if column.kind in SETTINGS and not column.has_decimals]
    sizes += [table.devices.middle] if table.devices is not None else []
    gaps = [np.empty(0)]
    for one, other in product(sources, repeat=2):
        if family(one) == family(other):
            others = np.array([i for i in range(len(one.texts)) if i != row or one is not other], dtype=np.int64)
            here, there = one.figures[np.full(len(others), row)], other.figures[others]
            ratios = [here.over(there), there.over(here)]
            if is_speedup and one is other:
                ratios = ratios[1:] if family(one) == "time" else ratios[:1]
            with np.errstate(divide="ignore", invalid="ignore"):
                more = [size[row] / size[others] for size in sizes]
            for factor in (np.ones(len(others)), *more, *(1 / times for times in more)):
                gaps += [stated.distance(Figures(r.low * factor, r.high * factor)).ravel() for r in ratios]
    finite = np.concatenate(gaps)
    finite = finite[np.isfinite(finite)]
    return float(finite.min()) if finite.size else -1.0
