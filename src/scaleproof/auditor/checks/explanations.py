"""Columns of ratios: which formula they are computed by, as most of their rows say, and which rows break it."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

import numpy as np

from scaleproof.auditor.checks import formulas
from scaleproof.auditor.checks.columns import FigureColumn, Figures, FigureTable, Floats
from scaleproof.auditor.checks.context import ROWS_PER_ODD_ROW, AuditContext, of_evidence, rows_that_follow
from scaleproof.auditor.checks.efficiencies import efficiencies_follow
from scaleproof.auditor.checks.excuses import is_explained
from scaleproof.auditor.checks.identities import totals_follow
from scaleproof.auditor.checks.ratios import RATIO_TOLERANCE, speedups_follow
from scaleproof.auditor.read.printed_figures import figures_of
from scaleproof.auditor.read.reported_tables import ABOUT, remarks_of
from scaleproof.ground.findings.finding import Severity
from scaleproof.ground.findings.registry import Flag

EXACT_TOLERANCE = 0.0005  # relative difference of a figure that a formula gives to the digit, beside their rounding
FIT_TOLERANCE = 0.005  # relative difference of a figure and its formula, beside their rounding
CONTRADICTION = 0.03  # relative difference of a figure that contradicts its formula
FEWEST_EVIDENCE = 2.0  # decimal logarithm of how unlikely it is that any formula fits by chance
FEWEST_EVIDENCE_OF_NAMED = 0.8  # evidence that suffices where the heading names one of two columns
FEWEST_FOLLOWING = 3  # rows beside a baseline that contradicts itself
MOST_DIFFERENCE = 1.0  # relative difference of figures that may be about the same at all
COARSE_RATIO = 0.06  # relative width of a ratio of settings, "16 / 24", that another figure is near by chance
COARSE_WIDTH = 0.15  # relative width of figures that agree with nearly everything
COARSEST_WIDTH = 1.0  # likewise, of figures whose formula is expected: ".03x" of 24.08 and 679.65 ms
TRIVIAL_DIFFERENCE = 0.02  # ratios as near to 1 prove nothing
TIMES_CELL = re.compile(r"\d ?[x×]")
LOST_UNIT = 3.0  # decimal logarithm of the factor between "1.31" and 1.31M, or a multiple of it
SAVING_HEADING = re.compile(r"(?i)\breduc(?:tion|ed)\b|\bsav(?:ed|ings?)\b")
NOT_MEASURED = {"projected", "theoretical", "estimated"}
Flags = np.typing.NDArray[np.bool_]


@dataclass(frozen=True)
class Explanation:
    """A formula by which a column may be computed, beside the figures of the column in one reading."""

    formula: formulas.Formula
    stated: Figures
    is_called_speedup: bool
    tried_count: int  # of how many it is one; ratios and differences, of columns and of rows, have equal chances
    is_called_change: bool = False  # in percent: a time may be so much less, or the speed so much more

    @cached_property
    def distance(self) -> Floats:
        return self.stated.distance(self.formula.values)

    @cached_property
    def width(self) -> Floats:
        return self.stated.width + self.formula.values.width

    @cached_property
    def comparable(self) -> Flags:
        """(rows,) whether a row can show anything: it has both figures, with digits enough, and is not about 1."""
        nontrivial = np.abs(self.formula.values.middle - 1) > TRIVIAL_DIFFERENCE
        # An expected formula needs fewer digits. It is one if the heading names one of two columns, or, for a formula
        # of one column, if nothing else can be meant.
        is_expected = self.formula.expected >= (1 if len(self.formula.sources) == 2 else formulas.ONLY_MEANING)
        precise = self.width < (COARSEST_WIDTH if is_expected else COARSE_WIDTH)
        return np.isfinite(self.distance) & nontrivial & precise & (self.stated.middle > 0)

    @property
    def fits(self) -> Flags:
        """(rows,) whether the stated figure is near what the formula gives, however coarse both are."""
        return self.distance <= FIT_TOLERANCE

    @cached_property
    def agrees(self) -> Flags:
        """(rows,) whether the stated figure is what the formula gives."""
        return self.comparable & self.fits

    @cached_property
    def finite(self) -> Flags:
        """(rows,) whether a row has the figures of the formula and a stated one."""
        return np.isfinite(self.distance) & (self.stated.middle > 0)

    @cached_property
    def is_exact(self) -> Flags:
        """(rows,) whether the formula gives the stated figure to the printed digit."""
        return self.finite & (self.distance <= EXACT_TOLERANCE)

    @cached_property
    def contradicts(self) -> Flags:
        """(rows,) whether the stated figure is another number than the formula gives."""
        return self.finite & (self.distance > (CONTRADICTION if self.formula.is_steady else RATIO_TOLERANCE))

    @property
    def has_one_exception(self) -> bool:
        """Whether one row is wrong, and all others, at least two, are right to the digit, which is no chance."""
        exact_count, wrong_count = int(self.is_exact.sum()), int(self.contradicts.sum())
        all_others_are_exact = exact_count == self.finite.sum() - 1 >= ROWS_PER_ODD_ROW
        if len(self.formula.sources) != 2 or wrong_count != 1 or not all_others_are_exact:
            return False

        expected = self.formula.values.middle
        change = expected if self.formula.is_difference else np.abs(expected - 1)
        rounding = self.width * expected
        # A change of 20 % may by chance be any from 0 to 40 %.
        with np.errstate(invalid="ignore"):  # 0 / 0 where both columns are 0
            chance = rounding / (2 * np.maximum(change, rounding))
        chances = {f"{self.stated.middle[i]:.3g}": chance[i] for i in np.flatnonzero(self.is_exact)}
        return -sum(math.log10(min(1.0, chance)) for chance in chances.values()) >= FEWEST_EVIDENCE_OF_NAMED

    @cached_property
    def evidence(self) -> float:
        """-log10 of the probability that the rows that agree do so by chance; each different value counts once."""
        rows, ratios = np.flatnonzero(self.agrees), self.formula.values.middle
        width = self.width + 2 * FIT_TOLERANCE
        # Equal ratios count once; of coarse ones, most of them near 1, those that are printed alike.
        compared = np.where(width < COARSE_WIDTH, ratios, self.stated.middle)
        # A ratio r is taken to be anywhere in a range of 1 + 2 |log r|, of which `width` agrees; a difference, of 1.
        spread = 0 if self.formula.is_difference else 2
        chances = {f"{compared[i]:.3g}": width[i] / (1 + spread * abs(math.log(ratios[i]))) for i in rows}
        return -sum(math.log10(min(1.0, chance)) for chance in chances.values())

    @cached_property
    def weight(self) -> float:
        """Log10 of how much likelier it is meant than that the best of all fits by chance; 2 or 4 more if expected."""
        return self.evidence + 2 * self.formula.expected - float(np.log10(self.tried_count))

    @property
    def is_over_rows(self) -> bool:
        """Whether it is of one column over its baseline row, and nothing else can be meant."""
        return len(self.formula.sources) == 1 and self.formula.expected == formulas.ONLY_MEANING

    @property
    def rank(self) -> tuple[float, int, int]:
        """A key to compare meant explanations by: the larger, the better it explains the column."""
        return self.weight, int(self.comparable.sum()), -int(self.contradicts.sum())

    @cached_property
    def is_meant(self) -> bool:
        """Whether the column is meant to be computed so: rows that agree prove it only of what the heading names."""
        if not self.formula.expected:
            return False
        right, wrong = int(self.agrees.sum()), int(self.contradicts.sum())
        if self.formula.expected == formulas.ONLY_MEANING:
            return right >= wrong or self._is_named_yet_mostly_wrong
        if 2 * right < self.comparable.sum() and not self.has_one_exception:
            return False  # most rows are near it at best
        if len(self.formula.sources) == 2:  # the heading names one of the two
            if self.is_called_speedup:
                return (right >= wrong and self.evidence >= FEWEST_EVIDENCE_OF_NAMED) or self.has_one_exception
            return (right >= ROWS_PER_ODD_ROW * wrong and self.evidence >= FEWEST_EVIDENCE) or self.has_one_exception
        is_named = self.is_called_speedup or self.is_called_change
        return is_named and right >= ROWS_PER_ODD_ROW * wrong and self.weight >= FEWEST_EVIDENCE

    @property
    def _is_named_yet_mostly_wrong(self) -> bool:
        """Whether the heading names it, and wrong rows are near or lost a unit, but are not all off by one factor."""
        factors = (self.stated.middle / self.formula.values.middle)[self.contradicts]
        is_of_one_column = len(factors) > 1 and len(self.formula.sources) == 1
        has_other_baseline = is_of_one_column and np.ptp(factors) < CONTRADICTION * factors.max()  # one factor for all
        thousands = np.log10(np.abs(factors)) / LOST_UNIT  # 2 where 1.31 stands for 1.31M
        has_lost_unit = (np.round(thousands) != 0) & (np.abs(thousands - np.round(thousands)) < FIT_TOLERANCE)
        is_near = has_lost_unit | (self.distance[self.contradicts] < MOST_DIFFERENCE)
        return (
            (self.is_called_speedup or len(self.formula.sources) == 2)
            and not has_other_baseline
            and bool(is_near.all())
        )

    def explains(self, row: int, meant: "Explanation") -> bool:
        """Whether `row`, which contradicts the `meant` explanation, may be right by this one."""
        if meant.formula.expected == formulas.ONLY_MEANING and len(meant.formula.sources) == 2:
            return False  # the heading names both columns: it leaves no other meaning
        # Right, but for a figure with "~", whose interval is 2 * ABOUT wide.
        is_rough = ABOUT < self.formula.values.width[row] < 3 * ABOUT and self.distance[row] == 0
        if is_rough and not self.contradicts.any():
            return True  # "~147 min" over 43 min
        is_alike = len(self.formula.sources) == 2 and self.formula.is_difference == meant.formula.is_difference
        is_as_likely = is_alike and self.formula.expected >= meant.formula.expected
        if is_as_likely and self.finite.all() and not self.contradicts.any():
            return True  # no row speaks against it
        if not self.agrees[row]:
            return False

        has_same_sources = {*self.formula.sources} == {*meant.formula.sources}  # the columns, divided in another way
        # A formula of other columns may fit by chance. It counts if it is precise, right as often as wrong, and either
        # expected or right in two rows.
        right, wrong = int(self.agrees.sum()), int(self.contradicts.sum())
        is_likely = right >= wrong and (bool(self.formula.expected) or right >= ROWS_PER_ODD_ROW)
        if meant.has_one_exception:  # to the digit in all other rows: the other formula must hold in most of them
            misses = self.finite & ~self.fits
            is_likely = right > misses.sum()
        return has_same_sources or (is_likely and self.formula.values.width[row] < COARSE_RATIO)


@of_evidence.finds("speedup-not-in-table", "suspect")
def columns_follow(context: AuditContext) -> Iterator[Flag]:
    """A speed-up does not follow from the rates and times of its own table.

    Detected: No rate and no time of the table, against the row that is marked 1, gives the printed speed-up, whatever
    their rounding, within 5 %; nor does the speed-up times the devices (weak scaling). A note where the heading does
    not name both columns and fewer than two rows follow the formula for each that does not.
    Seen: Tables retyped by hand; speed-ups of 18.75 to 20.86 that divide 20 epochs by 5.
    Repair: Compute the column from the rates; state the baseline and the clock.
    """
    speedups = list(speedups_follow(context))
    yield from speedups
    flagged = {place for flag in speedups for place in flag.about}
    flagged |= {place for finding in context.findings_of(efficiencies_follow) for place in finding.runs}
    for figures in (figures for table in context.all_tables for figures in context.figures_of(table)):
        ratios = (column for column in figures.columns if formulas.is_ratio(column))
        targets = [column for column in ratios if not figures.has_unread_figures_before(column)]
        if figures.is_transposed:  # the headings are names of rows, which may say anything
            targets = [column for column in targets if formulas.SPEEDUP_HEADING.search(column.heading)]
        flags = [flag for target in targets for flag in _wrong_ratios(figures, target)]
        # A row gets one finding: nothing is added where another check has one.
        if flags:
            flagged |= {place for finding in context.findings_of(totals_follow) for place in finding.runs}
        for flag in flags:
            if not flagged & set(flag.about):
                yield flag
                flagged |= set(flag.about)


def _wrong_ratios(figures: FigureTable, target: FigureColumn) -> Iterator[Flag]:
    """Flag rows of a column of ratios that break the formula of most rows: 9.30 beside 1.80, of times 90, 50, 24."""
    # Each cell is like "2.1x", or marks the baseline.
    is_times = all(TIMES_CELL.search(text) or formulas.is_marked(target, i) for i, text in enumerate(target.texts))
    is_speedup = (formulas.SPEEDUP_HEADING.search(target.heading) is not None or is_times) and not target.is_in_percent
    explanations = list(_explanations_of(figures, target, is_speedup))
    meant = max((one for one in explanations if one.is_meant), key=attrgetter("rank"), default=None)
    if meant is None:
        return
    is_only_meaning = meant.formula.expected == formulas.ONLY_MEANING
    if meant.is_over_rows:  # of several rows that are 1, the one that more rows are over: that of their batch size
        over_same = [one for one in explanations if one.formula.sources == meant.formula.sources]
        marked = [one for one in over_same if "that is 1" in one.formula.name]
        meant = max([meant, *marked], key=lambda one: int(one.agrees.sum()))

    formula, agreeing = meant.formula, int(meant.agrees.sum())
    marked_count = sum(formulas.is_marked(target, i) for i in range(len(target.texts)))
    is_of_one_column = len({e.formula.sources for e in explanations if e.is_over_rows}) == 1
    if not agreeing and len(formula.sources) == 1 and not (marked_count == 1 and is_of_one_column):
        return  # no row shows which of several columns the ratios are of, or over which row
    is_base = np.array([above == below for above, below in zip(formula.above, formula.below, strict=True)])
    if agreeing < FEWEST_FOLLOWING and len(formula.sources) == 1 and (meant.contradicts & is_base).any():
        return  # the baseline row itself contradicts: the ratios are over another row

    others = f"; {rows_that_follow(agreeing)}" if agreeing else ""
    inverse = formula.sources[::-1] if len(formula.sources) == 2 else None
    units = [re.sub(r"[\d.,]|\(.*", "", text).strip() for text in formula.above]  # "ms" of "24.1 ms (8)"
    units_agreeing = {units[k] for k in np.flatnonzero(meant.agrees)}
    is_measured = [not remarks_of(name) & NOT_MEASURED for name in figures.names]
    # "1.00x" among changes in percent is no change of 100 %; a "92.5" among them has lost its sign.
    signs = (1, 100) if any("%" in text for text in target.texts) else (1,)
    ratios = target.figures.middle / formula.values.middle
    is_printed = np.any([np.abs(ratios / sign - 1) <= FIT_TOLERANCE for sign in signs], axis=0)
    wrong_rows = np.flatnonzero(meant.contradicts & is_measured & ~is_printed).tolist()
    # Few rows may follow a formula by chance, or for a reason that the table does not say.
    is_proven = is_only_meaning or agreeing >= ROWS_PER_ODD_ROW * len(wrong_rows)
    severity: Severity | None = None if is_proven else "note"
    for i in wrong_rows:
        other_ways = [e for e in explanations if e.formula.sources == inverse and e.agrees[i]]
        if units[i] not in units_agreeing and other_ways:
            continue  # its figure is a speed, those of the other rows are times: the ratio is the other way round
        if any((e.agrees & ~meant.agrees).sum() >= (meant.agrees & ~e.agrees).sum() for e in other_ways):
            continue  # rows near 0 % fit both ways, and the others this one: +31 % of 0.38 and 0.29
        # A column of speed-ups does not change direction: "18.95x" is wrong where 24.08 / 679.65 is .04x.
        is_one_way = is_speedup and agreeing >= ROWS_PER_ODD_ROW and "slow" not in target.texts[i].lower()
        possible = [other for other in explanations if not (is_one_way and other.formula.sources == inverse)]
        is_right = is_explained(figures, target, i, formula, meant.fits)
        if is_right or any(other.explains(i, meant) for other in possible):
            continue
        evidence = f"{figures.names[i]}: {target.heading} {target.texts[i]}, but {formula.of(i)}{others}"
        place = target.place if figures.is_transposed else figures.places[i]
        yield Flag(evidence, [place], severity=severity)


def _explanations_of(figures: FigureTable, target: FigureColumn, is_speedup: bool) -> Iterator[Explanation]:
    """Yield each formula of a column of ratios beside each of its readings: as times, as a change, as a difference."""
    possible_formulas = list(formulas.formulas_of(target, figures))
    possible = [
        (formula, stated)
        for reading, stated in readings_of(target).items()
        for formula in possible_formulas
        if formula.is_difference == (reading == formulas.DIFFERENCE)
    ]
    # (difference or ratio, of one column or two) -> how many there are; each such family has an equal chance.
    sizes = Counter((formula.is_difference, len(formula.sources)) for formula, _ in possible)
    for formula, stated in possible:
        tried_count = len(sizes) * sizes[formula.is_difference, len(formula.sources)]
        is_change = target.kind == "change" and target.is_in_percent
        yield Explanation(formula, stated, is_speedup, tried_count, is_change)


def readings_of(column: FigureColumn) -> dict[str, Figures]:
    """Return each way to read a column of ratios -> its figures.

    A printed 20 is 20 ("1.0 of"), 20 % ("0.01 of": 0.2), 20 % more ("0.01 more": 1.2) or less (0.8). "is": a speed-up,
    which has one reading; DIFFERENCE: in the unit of the source.
    """
    printed = [figures_of(text) for text in column.texts]
    units = [figures[0].unit if figures else None for figures in printed]
    are_ratios = [unit is None or unit.dimension in formulas.RATIO_DIMENSIONS for unit in units]
    low, high = column.figures.low, column.figures.high
    least, most = np.sort(np.abs([low, high]), axis=0)
    difference = {formulas.DIFFERENCE: Figures(np.where(low * high < 0, 0.0, least), most)}  # "+3,530 tok/s", "0.00"

    ratios = Figures(np.where(are_ratios, low, np.nan), np.where(are_ratios, high, np.nan))
    if not np.isfinite(ratios.low).any():
        return difference

    are_times = all(unit is not None and unit.dimension == "times" for unit in units if unit)
    is_speedup = (
        column.kind == "speedup" or formulas.SPEEDUP_HEADING.search(column.heading) or (any(units) and are_times)
    )
    if not column.is_in_percent and is_speedup:
        return {"is": ratios}

    readings = {}
    is_saving = column.is_in_percent and SAVING_HEADING.search(column.heading)
    for scale in _scales_of(column):
        if not is_saving:
            readings[f"{scale} of"] = ratios.scaled(scale)
            readings[f"{scale} more"] = ratios.scaled(scale, 1.0)
        readings[f"{scale} less"] = ratios.scaled(-scale, 1.0)
    if not any(units) and formulas.DIFFERENCE_HEADING.search(column.heading):
        readings |= difference
    if column.kind == "efficiency":  # it is a share, no change
        return {name: figures for name, figures in readings.items() if name.endswith("of")}
    return readings


def _scales_of(column: FigureColumn) -> tuple[float, ...]:
    """Return by what the figures of a column may be multiplied to be ratios: by 1 or 0.01, of a plain 50."""
    if any("%" in text for text in column.texts) or column.meaning.unit == "percent":
        return (1.0,)  # the figures are divided by 100 already, for the "%" of the cells or heading
    return (0.01,) if column.is_in_percent else (1.0, 0.01)
