"""Products of columns in groups of rows: which rows agree on a number, and whether chance explains that."""

import math
import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scaleproof.auditor.checks.columns import FigureColumn, Figures, FigureTable
from scaleproof.auditor.checks.context import ROWS_PER_ODD_ROW, SAME_TOLERANCE
from scaleproof.auditor.checks.rows import TIMES
from scaleproof.ground.findings.finding import Severity
from scaleproof.ground.number_format import number

NEAR_WHOLE = 2 * SAME_TOLERANCE  # relative difference from a whole factor
STANDS_OUT = 0.05  # relative difference of a row that stands out
FAR_OFF = 2.0  # factor by which rows of one odd product are of another model rather than wrong
FEWEST_ROWS = 3  # that show what the number is
# Decimal logarithm of how unlikely it is that rows agree by chance; twice that for all but rate x time.
FEWEST_EVIDENCE = 2.0
FEWEST_EVIDENCE_OF_ONE = 1.5  # of a product that is 1
LEAST_VARIATION = 1.05  # largest over smallest figure of a column whose products say anything
RATES = ("tokens_per_s", "samples_per_s", "rate")  # of work
DURATIONS = (*TIMES, "latency_s")
DEVICES = ("devices", "processes")
REPLICAS = ("data_parallel",)
STAGES = ("tensor_parallel", "pipeline_parallel")
PARALLEL = (*REPLICAS, *STAGES)
BATCHES = ("global_batch", "batch", "micro_batch")
COUNTS = ("steps", "epochs")
EXACT_TOLERANCE = 0.002  # relative difference of a ratio that one column was computed by, beside its rounding
MOST_ROUNDS = 3  # of the samples of a benchmark over the devices of all rows
LARGEST_IN_DIGITS = 1e9  # from which on a product is printed as a power of ten


@dataclass(frozen=True)
class Factor:
    """A column in a product, with its exponent."""

    column: FigureColumn
    exponent: int

    @cached_property
    def figures(self) -> Figures:
        """The figures to the power of the exponent, 1 or -1; NaN in rows where they are not above 0."""
        low, high = self.column.figures.low, self.column.figures.high
        if self.is_exact:
            low = high = self.column.figures.middle  # a count is not rounded: no interval around it
        positive = Figures(np.where(low > 0, low, np.nan), high)
        return positive if self.exponent == 1 else Figures(np.ones_like(low), np.ones_like(low)) / positive

    @property
    def is_exact(self) -> bool:
        """Whether its figures are counts, which nobody rounds."""
        return self.column.kind in (*DEVICES, *BATCHES, *COUNTS, *PARALLEL, "accumulation", "nodes", "devices_per_node")

    @property
    def variation(self) -> float:
        """The largest over the smallest figure; 1 without figures."""
        middle = self.figures.middle[np.isfinite(self.figures.middle)]
        return float(middle.max() / middle.min()) if middle.size else 1.0


@dataclass(frozen=True)
class Agreement:
    """A product of columns in a group of rows: 100 x 50, 200 x 25, 400 x 20. The third product stands out.

    `rows`: the indices of the rows in the table; `i` and `k` count within the group. `stated`: what a text says it is.
    """

    factors: tuple[Factor, ...]
    rows: list[int]
    stated: float | None = None

    @cached_property
    def figures(self) -> Figures:
        """The product in each row of the group."""
        value = self.factors[0].figures
        for factor in self.factors[1:]:
            value = value * factor.figures
        return value[np.array(self.rows)]

    @property
    def severity(self) -> Severity | None:
        """A note for products of settings, which are chosen and not measured; else that of the finding."""
        return "note" if all(factor.is_exact for factor in self.factors) else None

    @cached_property
    def expected(self) -> Figures:
        """Per row, the product to compare with, the same in all: the stated one, else the one that most rows share."""
        if self.stated is not None:
            value = np.full(len(self.rows), self.stated)
            return Figures(value, value)
        return self.figures[np.full(len(self.rows), self._usual_row)]

    @cached_property
    def _usual_row(self) -> int:
        """The index of a row whose product most rows share."""
        as_column = Figures(self.figures.low[:, np.newaxis], self.figures.high[:, np.newaxis])
        shared_by = (as_column.distance(self.figures) <= SAME_TOLERANCE).sum(axis=1)  # how many rows have each product
        return int(shared_by.argmax())

    def products_as_printed(self, i: int) -> tuple[float, float]:
        """Return the product of the figures in the i-th row as they are printed, and the one to compare with."""
        middles = [factor.column.figures.middle[np.array(self.rows)] ** factor.exponent for factor in self.factors]
        products = np.prod(middles, axis=0)
        return float(products[i]), float(products[self._usual_row]) if self.stated is None else self.stated

    def same_as(self, i: int) -> np.typing.NDArray[np.bool_]:
        """Return (rows,) whether the product is the same number as in the i-th row."""
        return self.figures.distance(self.figures[np.full(len(self.rows), i)]) <= SAME_TOLERANCE

    @cached_property
    def fits(self) -> np.typing.NDArray[np.bool_]:
        """(rows,) whether the product is the expected one."""
        return self.figures.distance(self.expected) <= SAME_TOLERANCE

    @cached_property
    def stands_out(self) -> np.typing.NDArray[np.bool_]:
        """(rows,) whether the product is another number than the expected one."""
        return self.figures.distance(self.expected) > STANDS_OUT

    @cached_property
    def lone_rows(self) -> list[int]:
        """The rows that stand out, except three or more with one product, or two far off: of another model, perhaps.

        Nor are those at the end of a trend: 128.7, 130.2, 133.0, 139.5 and 153.2 at batches that rise.
        """
        outliers = self.stands_out
        return [
            i
            for i in np.flatnonzero(outliers).tolist()
            if (self.same_as(i) & outliers).sum() < (2 if self.factor_of(i) > FAR_OFF else FEWEST_ROWS)
            and not self._continues_trend(i)
        ]

    def _continues_trend(self, i: int) -> bool:
        """Whether all rows from this one to an end of the table are off, ever more, and so is the row before them."""
        off = self.figures.middle / self.expected.middle - 1
        for tail in (off[i - 1 :] if i else off[:0], off[: i + 2][::-1]):
            rises = (np.diff(np.abs(tail)) > 0).all() and (np.sign(tail) == np.sign(off[i])).all()
            if len(tail) > 1 and rises and abs(tail[0]) > max(SAME_TOLERANCE, abs(tail[1]) / 5):
                return True
        return False

    def factor_of(self, i: int) -> float:
        """Return how many times too large or too small a row's product is: 4, where it is 400 or 25 instead of 100."""
        ratio = float(self.figures.middle[i] / self.expected.middle[i])
        return max(ratio, 1 / ratio)

    def is_multiple(self, i: int) -> bool:
        """Whether a row's product is N or 1/N times the expected one: N times the batch or devices would explain it."""
        times_off = self.factor_of(i)
        if self._is_identity_of_counts:
            return False  # batch and devices are factors of the product already: N times as many explain nothing
        return abs(times_off / round(times_off) - 1) <= NEAR_WHOLE or self._has_idle_devices(i)

    def _has_idle_devices(self, i: int) -> bool:
        """Whether whole rounds explain a row's low rate: 14 samples take 4 on 4 devices, the last of which has 2."""
        devices = [factor.figures.middle for factor in self.factors if factor.column.kind in DEVICES]
        exponents = [factor.exponent for factor in self.factors if factor.column.kind in RATES]
        if len(devices) != 1 or len(exponents) != 1:
            return False
        counts = np.maximum(devices[0], 1 / devices[0])[self.rows]  # also of a divisor
        share = float(self.figures.middle[i] / self.expected.middle[i]) ** exponents[0]
        even = math.lcm(*map(round, counts[self.fits]))  # samples that give all devices of the other rows the same
        rounds = (samples / counts[i] for samples in range(even, MOST_ROUNDS * even + 1, even))
        return any(share < 1 and abs(full / math.ceil(full) / share - 1) <= SAME_TOLERANCE for full in rounds)

    @cached_property
    def evidence(self) -> float:
        """-log10 of the probability that the rows that fit agree by chance.

        By chance the logarithms of the products would spread as widely as those of the first column: over
        log(`variation`), where `variation` is largest / smallest. A row then agrees with probability `width` / that.
        """
        fitting = self.factors[0].figures.middle[np.array(self.rows)][self.fits]
        if not fitting.size:
            return 0.0  # no product is a number
        agreeing = len({f"{value:.3g}" for value in fitting})  # rows with equal figures count once
        if self._is_identity_of_counts:
            variation = max(factor.variation for factor in self.factors)
        else:
            agreeing -= 1  # the first row only shows what the number is
            variation = fitting.max() / fitting.min()
        if agreeing < 1 or variation < LEAST_VARIATION:
            return 0.0

        farthest = float(self.figures.distance(self.expected)[self.fits].max())
        width = float(np.median(self.figures.width[self.fits])) + 2 * farthest + 1e-4  # 1e-4: exact ones have width 0
        return -agreeing * float(np.log10(min(1.0, width / np.log(variation))))

    @property
    def _is_identity_of_counts(self) -> bool:
        """Whether all factors are counts and the product is 1, as in global batch / batch / devices."""
        is_one = abs(float(self.expected.middle[0]) - 1) <= SAME_TOLERANCE
        return is_one and all(factor.is_exact for factor in self.factors)

    @property
    def most_fit(self) -> bool:
        """Whether each row far off has two witnesses, rows that fit or a stated product, and no row is a bit off."""
        far = int((self.figures.distance(self.expected) > 2 * STANDS_OUT).sum())
        witnesses = int(self.fits.sum()) + (self.stated is not None)
        return witnesses >= ROWS_PER_ODD_ROW * max(far, 1) and far == self.stands_out.sum()

    def unit_of_row(self, i: int) -> float:
        """Return what 1 of the product of a row's printed figures is worth in base units: 0.001 for "ms"."""
        units = (factor.column.unit_of_cell(self.rows[i]) ** factor.exponent for factor in self.factors)
        return math.prod(units)

    @property
    def is_constant(self) -> bool:
        """Whether more rows agree than chance explains, and twice as many as stand out.

        What is expected to be constant needs less evidence: counts, then rate x time (work).
        """
        agreeing = self.fits.sum()
        if self._is_identity_of_counts:
            return self.evidence >= FEWEST_EVIDENCE_OF_ONE and agreeing >= ROWS_PER_ODD_ROW * self.stands_out.sum()

        kinds = {factor.column.kind for factor in self.factors}
        is_rate_x_time = len(self.factors) == 2 and bool(kinds & {*RATES}) and bool(kinds & {*DURATIONS})
        certain_evidence = FEWEST_EVIDENCE if is_rate_x_time else 2 * FEWEST_EVIDENCE
        # Where chance is ruled out, one row less suffices.
        fewest_rows = FEWEST_ROWS - 1 if self.evidence >= certain_evidence else FEWEST_ROWS
        needed_rows = max(fewest_rows, ROWS_PER_ODD_ROW * len(self.lone_rows))
        return self.evidence >= certain_evidence and agreeing >= needed_rows


OF_DECODING = re.compile(r"(?i)decod|generat")
OF_FIRST_TOKEN = re.compile(r"(?i)ttft|first.?token|prefill")
OF_FIRST_RUN = re.compile(r"(?i)\b(?:cold|warm-?up|first run)\b")  # with start-up


def is_same_configuration(figures: FigureTable, agreement: Agreement, row: int) -> bool:
    """Whether a row is of the configuration of the rows that fit, so that its product must be theirs.

    It is of another one if it says "bf16" where all others say "fp32", has another size of model, or is the only cold
    start among them.
    """
    headings = [*figures.words, *(column.heading for column in figures.columns)]
    is_of_decoding = any(OF_DECODING.search(factor.column.heading) for factor in agreement.factors)
    if is_of_decoding and any(map(OF_FIRST_TOKEN.search, headings)):
        return False  # a decoding rate leaves out the first token, a time beside it may include it

    fitting = [agreement.rows[i] for i in np.flatnonzero(agreement.fits)]
    first_runs = {i for i, name in enumerate(figures.names) if OF_FIRST_RUN.search(name)}
    if row in first_runs and first_runs.isdisjoint(fitting):
        return False
    if any(texts[row] not in [texts[i] for i in fitting] for texts in _settings_of_work(figures, agreement)):
        return False  # with another setting it did other work

    for texts in figures.words.values():
        other_texts = [texts[i] for i in fitting]
        # A word tells configurations apart where rows share it; names of rows are all different.
        is_shared = len(set(other_texts)) < len(other_texts) or texts.count(texts[row]) > 1
        if texts[row] not in other_texts and is_shared:
            return False
    return True


def _settings_of_work(figures: FigureTable, agreement: Agreement) -> list[list[str]]:
    """Return the settings that the product depends on, the cells of a column each: [["gpt2", "gpt2", "bert"]]."""
    if agreement.stated is not None or all(factor.is_exact for factor in agreement.factors):
        return []  # a stated number, and a product of counts, hold for any model
    return figures.model_sizes


def sentence_of(figures: FigureTable, agreement: Agreement, i: int) -> str:
    """Return what is wrong in the i-th row: "4: 62.5 x 99.9 = 6244 (img/s, s); in 5 other rows 5600"."""
    row = agreement.rows[i]
    terms = ((" x " if factor.exponent == 1 else " / ") + factor.column.texts[row] for factor in agreement.factors)
    product = "".join(terms).removeprefix(" x ")
    headings = ", ".join(factor.column.heading for factor in agreement.factors)
    products = agreement.products_as_printed(i)
    result, expected = (_in_digits(product / agreement.unit_of_row(i)) for product in products)
    others = f"{agreement.fits.sum()} other rows"
    return f"{figures.names[row]}: {product} = {result} ({headings}); in {others} {expected}"


def _in_digits(value: float) -> str:
    """Return a number with four digits, a very large or small one as a power of ten."""
    return number(value, 4) if 1 / LARGEST_IN_DIGITS < value < LARGEST_IN_DIGITS else f"{value:.4g}"
