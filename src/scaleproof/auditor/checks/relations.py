"""Relations between columns that all rows but one fulfil to the digit, whatever the headings mean.

A column is the sum or the difference of others, or a product without a unit is 1. The fewer digits agree, and the more
relations were tried, the more rows must fulfil one.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scaleproof.auditor.checks import agreements
from scaleproof.auditor.checks.columns import FigureColumn, FigureTable, Floats, Rows, dimension_of
from scaleproof.auditor.read.headings import NOT_FIGURES
from scaleproof.auditor.read.printed_figures import figures_of
from scaleproof.ground.findings.finding import Severity
from scaleproof.ground.findings.registry import Flag

FEWEST_ROWS = 3  # of which one contradicts
FEWEST_EVIDENCE = 2.0  # decimal logarithm of how unlikely it is that any relation holds by chance
MORE_EVIDENCE = 1.0  # where columns are names of rows
MOST_COLUMNS = 9  # that are tried with each other
MOST_PARTS = 6  # columns side by side that are added up
EXACT_TOLERANCE = 0.002  # relative difference of products of counts that are equal
CONTRADICTION = 0.05  # relative difference of a row that does not fulfil a product
PART_OF_SUM = 0.1  # gap of a row that does not fulfil a sum, over its smallest part
COUNTS = (*agreements.DEVICES, *agreements.BATCHES, "nodes", "devices_per_node", "accumulation", "epochs", "seq_len")
SETTINGS = (*NOT_FIGURES, "learning_rate", "zero_stage", "step", "epoch", "repeats")
TOTAL = re.compile(r"(?i)(?:\b|_)(?:total|sum|all|overall|combined|both|end to end)(?:\b|_)")
TARGET = re.compile(r"(?i)target|goal|offered|requested|complet|succe|fail")  # which need not have been reached
NO_CONFIGURATION = re.compile(r"(?i)(?:mean|avg|average|median|geomean|min|max|std|total|sum)\b")
NUMBERS = tuple(10.0**k for k in (0, -12, -9, -6, -3, 3, 6, 9, 12))  # 1, or by a unit that a heading does not state
SURPRISE = 0.5  # decimal logarithm of how easily a product is near one of these other than 1 by chance

Flags = npt.NDArray[np.bool_]


class BrokenRelation(NamedTuple):
    """A row that does not fulfil a relation."""

    row: int  # index in the table
    sentence: str  # that says so
    certainty: float  # decimal logarithm of how unlikely it is that the other rows fulfil it by chance
    severity: Severity | None = None


def rows_with_another_sum(figures: FigureTable) -> Iterator[Flag]:
    """Flag the rows in which a column is not the sum of others, as it is to the digit in all other rows."""
    if search := _search_in(figures):
        yield from _surest(figures, search.sums())


def rows_with_another_product(figures: FigureTable) -> Iterator[Flag]:
    """Flag rows in which a product of columns without a unit is not the number of all others."""
    if search := _search_in(figures):
        yield from _surest(figures, search.products())


def _search_in(figures: FigureTable) -> "RelationSearch | None":
    """Return a search in the columns and rows that can be compared. Returns None where there are too few."""
    means = [column for column in figures.columns if column.meaning.statistic in (None, "mean")]
    # A setting follows from nothing; a "step" with decimals is no setting.
    measured = [column for column in means if column.kind not in SETTINGS or column.has_decimals]
    results = [column for column in measured if not TARGET.search(column.heading) and not _was_chosen(column)]
    rows = np.array([i for i, name in enumerate(figures.names) if not NO_CONFIGURATION.match(name)], dtype=np.int64)
    is_enough = len(rows) >= FEWEST_ROWS and len(results) >= 2
    return RelationSearch(figures, results[:MOST_COLUMNS], rows) if is_enough else None


def _was_chosen(column: FigureColumn) -> bool:
    """Whether a column has round figures alone, as settings have: 1000, 3000, 5000."""
    return all(re.fullmatch("[1-9],?0[0,]*", text) for text in column.texts)


def _surest(figures: FigureTable, relations: Iterable[BrokenRelation]) -> Iterator[Flag]:
    """Flag each row once, by the relation that is the surest to be broken; the surest row first."""
    surest: dict[int, BrokenRelation] = {}
    for relation in sorted(relations, key=lambda relation: -relation.certainty):
        surest.setdefault(relation.row, relation)
    for i, relation in surest.items():
        yield Flag(relation.sentence, [figures.places[i]], severity=relation.severity)


@dataclass(frozen=True)
class RelationSearch:
    """The relations of some columns of a table in some of its rows.

    Arrays are (columns, rows), exponents (products, columns). `used`: the columns of a product.
    """

    table: FigureTable
    columns: list[FigureColumn]
    rows: Rows

    @cached_property
    def values(self) -> Floats:
        """The figures; a figure that is not above 0 is NaN, because it has no logarithm."""
        values = np.array([column.figures.middle[self.rows] for column in self.columns])
        return np.where(values > 0, values, np.nan)

    @cached_property
    def digits(self) -> Floats:
        """What one unit of the last printed digit is worth."""
        return np.array([column.digits[self.rows] for column in self.columns])

    @cached_property
    def logarithms(self) -> Floats:
        return np.log(self.values)

    @cached_property
    def _relative_digits(self) -> Floats:
        """One unit of the last digit over the figure; counts are exact, and so are sizes such as 1, 16 and 256 MB."""
        is_count = np.array([[column.kind in COUNTS or _are_chosen(column.texts)] for column in self.columns])
        return np.where(is_count, 0.0, self.digits / self.values)

    @cached_property
    def dimensions(self) -> Floats:
        return np.array([dimension_of(column) for column in self.columns])

    @property
    def needed_certainty(self) -> float:
        """The certainty from which on a broken relation is reported."""
        return FEWEST_EVIDENCE + MORE_EVIDENCE * self.table.is_transposed

    def sums(self) -> Iterator[BrokenRelation]:
        """Yield rows in which a column is not the sum of others: 12.50 + 25.00 = 37.50 and so on, but 47.50 in one."""
        choices = self._possible_sums()
        for total, parts in choices:
            terms = self.values[[total, *parts]]
            gap = np.abs(terms[0] - terms[1:].sum(axis=0))
            digits = self.digits[[total, *parts]].max(axis=0)
            fits = gap <= digits * (0.51 + 0.5 * len(parts))  # half a digit for the total and for each part
            smallest = terms.min(axis=0)
            # Wrong is a gap of a tenth of the smallest figure, and of more than rounding explains.
            row = _only_exception(fits, gap > np.maximum(PART_OF_SUM * smallest, 4 * digits), np.isfinite(gap))
            if row is None or not self._has_one_unit((total, *parts), row):
                continue
            if any(
                abs(terms[0, row] / terms[1:, row].sum() / thousand - 1) < EXACT_TOLERANCE for thousand in (1e-3, 1e3)
            ):
                continue  # "1.000" of 700 and 300

            # By chance a gap is about as large as the smallest part.
            evidence = np.log10(np.maximum(smallest / (2 * gap + digits), 1.0))
            # A total right beside its parts is the usual place: fewer sums were tried there.
            is_beside = len(parts) > 1 and total in (parts[0] - 1, parts[-1] + 1)
            certainty = _evidence_of(evidence, terms, fits) - np.log10(2 if is_beside else len(choices))
            if certainty >= self.needed_certainty:
                sentence = f"{self.table.names[self.rows[row]]}: {self._sum_in_words(total, parts, row)}"
                is_named = TOTAL.search(self.columns[total].heading)  # else it may be no total, and right by chance
                yield BrokenRelation(int(self.rows[row]), sentence, certainty, None if is_named else "note")

    def _possible_sums(self) -> list[tuple[int, Sequence[int]]]:
        """Return (total, its parts) as indices of columns, (2, [0, 1]): parts that stand side by side, or any two."""
        ends = list(combinations(range(len(self.columns)), 2))  # first and last part
        neighbours: list[Sequence[int]] = [range(first, last + 1) for first, last in ends if last - first < MOST_PARTS]
        parts_of_sums = [*neighbours, *((a, b) for a, b in ends if b - a > 1)]
        choices = [(total, parts) for parts in parts_of_sums for total in range(len(self.columns))]
        return [(total, parts) for total, parts in choices if total not in parts and self._can_be_summed(total, parts)]

    def _can_be_summed(self, total: int, parts: Sequence[int]) -> bool:
        """Whether the columns may be of one quantity: times, or figures that are all in percent."""
        columns = [self.columns[k] for k in (total, *parts)]
        dimensions = self.dimensions[[total, *parts]]
        known = dimensions[~np.isnan(dimensions[:, 0])]
        has_known_units, is_total = len(known) == len(columns), bool(TOTAL.search(columns[0].heading))
        if not (has_known_units and is_total if self.table.is_transposed else has_known_units or is_total):
            return False  # sizes of blocks may add up by chance; the columns of a turned table are rows of the file
        have_one_dimension = bool((known == known[:1]).all())
        return have_one_dimension and len({column.is_in_percent for column in columns}) == 1

    def _has_one_unit(self, columns: Sequence[int], row: int) -> bool:
        """Whether cells of a row may be added up: not 57,826 tok/s and +63.9%, nor 335.8 and 1.55x."""
        figures = [figures_of(self.columns[k].texts[self.rows[row]]) for k in columns]
        dimensions = {figure[0].unit.dimension for figure in figures if figure and figure[0].unit}
        if dimensions and dimensions <= {"percent", "points"}:
            return all(re.search("%|pp$", text) for k in columns for text in self.columns[k].texts if figures_of(text))
        is_ratio = "times" in dimensions and any(figure and not figure[0].unit for figure in figures)
        return len(dimensions) < 2 and not is_ratio

    def _sum_in_words(self, total: int, parts: Sequence[int], row: int) -> str:
        """Return a sentence: "12.50 + 25.00 = 37.5, Total 47.50; in all other rows they are equal"."""
        column, i = self.columns[total], self.rows[row]
        terms = " + ".join(self.columns[k].texts[i] for k in parts)
        right = f"{self.values[list(parts), row].sum() / column.unit_of_cell(int(i)):.5g}"  # in the unit of the total
        return f"{terms} = {right}, {column.heading} {column.texts[i]}; in all other rows they are equal"

    def products(self) -> Iterator[BrokenRelation]:
        """Yield the rows that break a product which must be 1 because its units cancel, and is in all others.

        Example: ms/token x tokens/s is 1. A product is a row of exponents: [1, 1, 0] multiplies the first two of three
        columns. Of other products no law is inferred from rows that agree.
        """
        is_measured = (self._relative_digits > 0).any(axis=1)  # of each column
        exponents = self._exponents()  # (products, columns)
        has_figures = ((exponents != 0) & is_measured).any(axis=1)
        is_known = ~((exponents != 0) & np.isnan(self.dimensions[:, 0])).any(axis=1)
        is_pure = is_known & (exponents @ np.nan_to_num(self.dimensions) == 0).all(axis=1)  # all units cancel
        possible = exponents[is_pure & has_figures]
        tried = float(np.log10(max(1, len(possible))))  # chance: so many products were tried
        for nearest, k in self._nearly_all(possible):
            yield from self._broken_product(possible[k], nearest, tried)

    def _nearly_all(self, exponents: Floats) -> Rows:
        """Return (pairs, 2): one of NUMBERS, and a product that is this number in all rows but one, two or more."""
        is_used = (exponents != 0).astype(np.float64)
        results = exponents @ np.nan_to_num(self.logarithms)  # (products, rows)
        width = is_used @ np.nan_to_num(self._relative_digits)
        is_finite = is_used @ np.isnan(self.logarithms) == 0
        distances = np.abs(np.subtract.outer(np.log(NUMBERS), results))
        fits = (is_finite & (distances <= width + EXACT_TOLERANCE)).sum(axis=2)  # (numbers, products)
        return np.argwhere((fits >= FEWEST_ROWS - 1) & (fits == is_finite.sum(axis=1) - 1))

    def _broken_product(self, powers: Floats, nearest: int, tried: float) -> Iterator[BrokenRelation]:
        """Yield the row in which one product is not the number that it is in all others: 1, or a power of ten.

        `powers`: the exponent of each column; `nearest`: which of NUMBERS; `tried`: decimal logarithm of how many
        products are tried. Nothing, if it may be chance, or the row is of another configuration.
        """
        used = np.flatnonzero(powers)
        results = powers[used] @ self.logarithms[used]
        width = self._relative_digits[used].sum(axis=0)
        if len(used) == 2 and not powers.sum() and width.any():
            return  # two nearly equal columns may be two measurements of one thing
        distance = np.abs(np.log(NUMBERS[nearest]) - results)
        fits = distance <= width + EXACT_TOLERANCE
        row = _only_exception(fits, distance > width + CONTRADICTION, np.isfinite(results))
        if row is None or (nearest and all(self.columns[k].has_units for k in used)):
            return  # with all units known only 1 shows a law: 1,000 may be the tokens of two answers

        evidence = self._evidence_by_row(powers, width, fits)
        certainty = _evidence_of(evidence, self.logarithms[used], fits) - tried - (SURPRISE if nearest else 0.0)
        agreement = self._as_agreement(powers, NUMBERS[nearest])
        if certainty >= self.needed_certainty and not agreement.is_multiple(row):  # it may be of other devices
            sentence = agreements.sentence_of(self.table, agreement, row)
            yield BrokenRelation(int(self.rows[row]), sentence, certainty)

    def _evidence_by_row(self, powers: Floats, width: Floats, fits: Flags) -> Floats:
        """Return (rows,) -log10 of the probability that a product is so near by chance. `width`: (rows,), by digits."""
        chance = np.minimum(1.0, width + 2 * EXACT_TOLERANCE)
        spread = self._spread(powers, fits, float(np.median(width[fits])))
        evidence: Floats = np.log10(np.maximum(spread / chance, 1.0))
        best = np.where(fits, chance, np.inf).argmin()
        evidence[best] = -np.log10(chance[best])  # it shows which number, the others that it is always that
        return evidence

    def _as_agreement(self, powers: Floats, number: float) -> agreements.Agreement:
        """Return a product as an agreement of all rows, for its sentence; `number`: what it should be.

        Divisors come last: "86.53 / 5.23 / 13.07" rather than "5.23 x 13.07 / 86.53".
        """
        sign = -1 if (powers < 0).any() and powers.sum() > 0 else 1  # inverted: one dividend before its divisors
        factors = [agreements.Factor(self.columns[k], int(sign * powers[k])) for k in np.flatnonzero(powers)]
        in_order = tuple(sorted(factors, key=lambda factor: -factor.exponent))
        return agreements.Agreement(in_order, self.rows.tolist(), number**sign)

    def _exponents(self) -> Floats:
        """Return (products, columns): the exponents of all products of two or three columns, also with devices.

        The first column has 1, so that a product comes once, not as its inverse, too: (1, 1), (1, -1).
        """
        devices = [k for k, column in enumerate(self.columns) if column.kind in agreements.DEVICES][:1]
        others = [k for k, column in enumerate(self.columns) if k not in devices and not column.is_difference]
        exponents = []
        for chosen in (*combinations(others, 2), *combinations(others, 3)):
            has_brackets = any(self.columns[k].is_in_brackets for k in chosen)
            if has_brackets and len({self.columns[k].position for k in chosen}) > 1:
                continue  # a figure in brackets goes with that of its own cell
            choices = [(1.0, -1.0)] * (len(chosen) - 1)
            for *signs, of_devices in product(*choices, (0.0, 1.0, -1.0) if devices else (0.0,)):
                powers = np.zeros(len(self.columns))
                powers[[*chosen, *devices]] = [1.0, *signs, *([of_devices] if devices else [])]
                exponents.append(powers)
        return np.array(exponents).reshape(-1, len(self.columns))

    def _spread(self, powers: Floats, fits: Flags, width: float) -> float:
        """Return the least variation, in rows that fit, of the columns of a product and of products of some of them.

        It is a natural logarithm, at most 1: where GPUs over speed-up is about 1 anyway, agreement in a larger product
        says little. What does not vary is left out; 0 where fewer than two of them vary.
        """
        used = np.flatnonzero(powers)
        parts = [list(part) for size in range(1, len(used)) for part in combinations(used, size)]
        variations = [float(np.ptp(powers[part] @ self.logarithms[part][:, fits])) for part in parts]
        telling = [variation for variation in variations if variation > width + EXACT_TOLERANCE]
        return min(1.0, *telling) if len(telling) > 1 else 0.0


def _are_chosen(texts: Sequence[str]) -> bool:
    """Whether all cells are whole numbers like 16 and 256 (powers of two) or 3000 (one digit): they were chosen."""
    numbers = [int(text) for text in texts if re.fullmatch(r"[1-9]\d*", text)]
    is_round = (number & (number - 1) == 0 or len(str(number).rstrip("0")) == 1 for number in numbers)
    return len(numbers) == len(texts) and all(is_round)


def _only_exception(fits: Flags, contradicts: Flags, has_figures: Flags) -> int | None:
    """Return the one row that contradicts where all others, two at least, fit. Returns None without such a row."""
    is_clear = contradicts.sum() == 1 and fits.sum() >= FEWEST_ROWS - 1 and (fits | contradicts)[has_figures].all()
    return int(np.flatnonzero(contradicts)[0]) if is_clear else None


def _evidence_of(evidence: Floats, terms: Floats, fits: Flags) -> float:
    """Add up the evidence of the rows that fit; rows with equal figures count once."""
    distinct = {tuple(terms[:, i].round(6)): evidence[i] for i in np.flatnonzero(fits)}
    return float(sum(distinct.values()))
