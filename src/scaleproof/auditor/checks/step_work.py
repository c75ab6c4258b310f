"""Rate x step time must be the batch. Whether a rate or a batch is per device is taken from most rows of a table."""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from scaleproof.auditor.checks.context import ROWS_PER_ODD_ROW, SAME_TOLERANCE, AuditContext, of_evidence
from scaleproof.auditor.checks.rows import RATE_UNITS, SLOWEST_RANKS_TOLERANCE, multiplies, places
from scaleproof.auditor.checks.scaling import rates_over_baselines
from scaleproof.auditor.checks.work import RATE_MULTIPLIED, RATE_OF_ONE_RANK, rates_of_runs, wrong_scope
from scaleproof.auditor.read.reported_tables import PrintedInterval, Quantity, ReportedRow, ReportedTable, exact
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Flag
from scaleproof.ground.findings.shared_codes import RATE_TIMES_TIME
from scaleproof.ground.number_format import integer, number, percent
from scaleproof.ground.records.grouping import group_by

PRODUCT_TOLERANCE = 0.03  # relative difference that printing, medians and means explain
MAJORITY_TOLERANCE = 0.05  # the same where only other rows show what the figures mean
ROWS_FOR_CONSTANT_FACTOR = 4  # that are needed to say that all are off by one factor
LARGEST_ACCUMULATION = 64  # micro-steps
LARGEST_SLIP = 100  # times; a rate that is further off is not what is wrong


@dataclass(frozen=True)
class _Product:
    """A rate and the step time of a row, whose product in tokens or samples should be one of its batches."""

    table: ReportedTable
    row: ReportedRow
    rate: Quantity
    time: Quantity

    @cached_property
    def work(self) -> PrintedInterval:
        return self.rate.interval * self.time.interval

    @cached_property
    def possible_work(self) -> PrintedInterval:
        """`work`, or less: where steps were timed one by one, a mean may be of the slowest rank of each."""
        statistics = {figure.statistic for figure in self.row.figures if figure.kind == self.time.kind}
        has_others = bool(statistics - {None, "mean"})  # a median or a percentile
        if self.devices == 1 or self.time.statistic != "mean" or not has_others:
            return self.work
        return replace(self.work, low=self.work.low * (1 - SLOWEST_RANKS_TOLERANCE))

    @cached_property
    def devices(self) -> int:
        """The devices of the row, else those that its table or the paragraph above states, else 1."""
        return self.row.devices or int(self._around.get("devices", 1))

    @cached_property
    def _around(self) -> dict[str, float]:
        """Kind -> what the table, or the paragraph above it, says of all rows."""
        return {figure.kind: figure.value for figure in (*self.table.above, *self.table.figures)}

    @property
    def sentence(self) -> str:
        unit = re.search(r"[(\[_ ](ms|us|µs|s|sec|min)[)\]]?$", self.time.heading)
        time = f"{self.time.printed} {unit[1]}" if unit and self.time.printed[-1:].isdigit() else self.time.printed
        return f"{self.row.description}: {self.rate.printed} x {time} = {_amount(self.work.middle)}"

    @cached_property
    def batches(self) -> dict[str, float]:
        """What the batch of the row may be -> the tokens or samples in a step of all devices, if it is that.

        A "batch" on several devices may be of each or of all: 8 on 4 devices are {"batch on each device": 32, "batch":
        8}. A micro-batch is of each device, a global batch of all. {} for tokens/s without a sequence length.
        """
        figures = self._around | {figure.kind: figure.value for figure in self.row.figures}
        length = figures.get("seq_len", 0.0) if self.rate.kind == "tokens_per_s" else 1.0
        replicas = self.devices / (figures.get("tensor_parallel") or 1) / (figures.get("pipeline_parallel") or 1)
        on_each = figures.get("micro_batch", figures.get("batch", 0.0))
        batches = {
            "batch on each device": on_each * replicas * length,
            "batch": figures.get("batch", 0.0) * length,
            "global batch": figures.get("global_batch", 0.0) * length,
        }
        return {name: batch for name, batch in batches.items() if batch}

    @property
    def states_batch(self) -> bool:
        """Whether the row itself has a batch, not only the text around its table."""
        return any(self.row.value(kind) for kind in ("batch", "micro_batch", "global_batch"))

    @property
    def certain_batch(self) -> str:
        """The key of `batches` that is surely the batch of one step on all devices. It is "" where none is."""
        if self.row.devices is None and self.rate.per_device is not False:
            return ""  # the rate may be one device's
        if not self.states_batch and not self.table.figures:
            return ""  # the paragraph above may be about other rows
        if "global batch" in self.batches:
            return "global batch"
        return "batch" if "batch" in self.batches and self.row.devices == 1 else ""

    @property
    def expected_work(self) -> PrintedInterval:
        """The work of one step by `certain_batch`. Raises KeyError where none is certain."""
        return exact(self.batches[self.certain_batch])

    @property
    def scopes(self) -> dict[str, float]:
        """What the rate may be of -> by what the work is divided: {"the rate of all": 1.0, "the rate of one": 4.0}."""
        scopes = {}
        if self.rate.per_device is not True:
            scopes["the rate of all"] = 1.0
        if self.rate.per_device is not False:
            scopes["the rate of one"] = float(self.devices)
        return scopes

    @cached_property
    def meanings(self) -> dict[tuple[str, str, int], float]:
        """(key of `batches`, key of `scopes`, micro-steps) under which the product is right -> the work that it means.

        A step may accumulate several micro-steps, unless its batch is the global one. Example: a product of 64 beside a
        batch of 8 on 4 devices -> {("batch on each device", "the rate of all", 2): 64, ...}.
        """
        meanings = {}
        for name, batch in self.batches.items():
            for scope, divisor in self.scopes.items():
                work = batch / divisor
                micro_steps = max(1, round(self.work.middle / work))
                most_steps = 1 if name == "global batch" else LARGEST_ACCUMULATION
                # Some number of micro-steps fits almost any product: the tolerance is smaller there.
                tolerance = MAJORITY_TOLERANCE if micro_steps == 1 else SAME_TOLERANCE
                if micro_steps <= most_steps and self.possible_work.meets(exact(work * micro_steps), tolerance):
                    meanings[(name, scope, micro_steps)] = work * micro_steps
        return meanings

    @property
    def is_right(self) -> bool:
        """Whether the product is right under some meaning, or 1,000 times off: a thousands separator was lost then."""
        # Meanings of a single micro-step are compared again, as their tolerance is wider.
        return any(micro_steps > 1 for _, _, micro_steps in self.meanings) or any(
            self.possible_work.meets_but_for_thousands(exact(batch / divisor), PRODUCT_TOLERANCE)
            for batch in self.batches.values()
            for divisor in self.scopes.values()
        )


@of_evidence.check(RATE_TIMES_TIME, RATE_OF_ONE_RANK, RATE_MULTIPLIED)
def rate_times_time(context: AuditContext) -> Iterator[Flag]:
    """Flag rates whose product with the time is not the work: of an epoch, of a step, of the baseline."""
    if context.runs:
        yield from rates_of_runs(context)
        yield from rates_over_baselines(context)
    for table in context.tables:
        yield from _rows_without_their_batch(table)


def _rows_without_their_batch(table: ReportedTable) -> Iterator[Flag]:
    """Flag rows whose rate x step time is not their batch: 1,000 samples/s x 0.25 s = 250, global batch 256.

    Where the batch of a step is certain, a wrong row has a rate of one device, shares one factor with all others, or is
    wrong alone. All other rows are judged by the meaning (per device or in all) that most of them have.
    """
    products = [product for row in table.rows if row.measured for product in _products(row, table)]
    certain = [product for product in products if product.certain_batch]
    wrong = [product for product in certain if not product.is_right]
    of_right_scope = []  # wrong, but not because the rate is of one device or multiplied
    for product in wrong:
        work = product.expected_work
        sentence = f"{product.sentence}, {product.certain_batch} {integer(work.middle)}"
        possible = product.possible_work
        flag = wrong_scope(
            [product.row.place], sentence, product.rate, product.devices, PRODUCT_TOLERANCE, product=possible, work=work
        )
        if flag is not None:
            yield flag
        else:
            of_right_scope.append(product)

    some_are_right = len(wrong) < len(certain)
    if len(of_right_scope) >= ROWS_FOR_CONSTANT_FACTOR and not some_are_right:
        yield from _off_by_one_factor(of_right_scope)
    else:
        yield from _wrong_rows(of_right_scope, some_are_right)
    yield from _rows_against_majority([product for product in products if product not in wrong])


def _products(row: ReportedRow, table: ReportedTable) -> Iterator[_Product]:
    """Yield a product for each usable rate of the row, of all devices or of one; none where it has no step time."""
    time = row.known("step_time_s")
    if time is None:
        return
    for kind in RATE_UNITS:
        for rate in row.all_of(kind):
            usable = rate.unit_stated and rate.value > 0 and not rate.bound and not rate.remark
            if usable and multiplies(rate, time):
                yield _Product(table, row, rate, time)


def _rows_against_majority(products: list[_Product]) -> Iterator[Flag]:
    """Flag rows whose product is wrong under the meanings that most rows of their strategy and model agree on."""

    def work_of(product: _Product) -> tuple[str | None, ...]:
        # A batch that only the text around the table states holds for all models: they are one group.
        model = product.row.words.get("model") if product.states_batch else None
        return product.rate.heading, product.row.words.get("strategy"), model

    for group in group_by((product for product in products if product.batches), work_of).values():
        votes = Counter(meaning for product in group for meaning in product.meanings)
        most_votes = max(votes.values(), default=0)
        usual_meanings = [meaning for meaning, count in votes.items() if count == most_votes]
        wrong = [product for product in group if not product.meanings.keys() & set(usual_meanings)]
        if most_votes >= ROWS_PER_ODD_ROW * max(len(wrong), 1):
            yield from (_row_against_majority(product, usual_meanings[0], most_votes) for product in wrong)


def _row_against_majority(product: _Product, meaning: tuple[str, str, int], others: int) -> Flag:
    """Flag a product that is wrong under the meaning that `others` other rows have; `meaning`: a key of `meanings`."""
    name, scope, micro_steps = meaning
    work = product.batches.get(name, 0.0) / product.scopes.get(scope, 1.0) * micro_steps  # 0: the row has no such batch
    steps = f" in {micro_steps} micro-steps" if micro_steps > 1 else ""
    right = f"{name}{steps} would be {integer(work)} with {scope}, as in {plural(others, 'other row')}"
    rate, unit = round(work / product.time.interval.middle, 2), RATE_UNITS[product.rate.kind]
    corrected = Correction(value=rate, unit=unit, derivation="if time and batch are right")
    times_off = work / product.work.middle if work else math.inf
    is_slip = 1 / LARGEST_SLIP < times_off < LARGEST_SLIP  # else it is rather a time in another unit
    return _wrong_product(product, right, corrected if is_slip else None)


def _wrong_product(product: _Product, right: str, corrected: Correction | None) -> Flag:
    """Flag a product: "1,000 x 0.25 s = 250, but ", and what would be `right`."""
    evidence = f"{product.sentence}, but {right}"
    return Flag(evidence, [product.row.place], RATE_TIMES_TIME.name, severity="suspect", corrected=corrected)


def _amount(value: float) -> str:
    """Return tokens or samples, which are whole numbers, unless they are fewer than ten."""
    return integer(value) if value >= 10 else number(value)


def _off_by_one_factor(products: list[_Product]) -> Iterator[Flag]:
    """Flag all rows at once where each product is the same factor of its batch, 1.25 for example; else each row."""
    factors = [product.work.middle / product.expected_work.middle for product in products]
    middle = median(factors)
    spread = max(abs(factor / middle - 1) for factor in factors)
    if spread > 2 * SAME_TOLERANCE:
        yield from _wrong_rows(products, some_are_right=False)
        return
    batch = f"{products[0].certain_batch} {integer(products[0].expected_work.middle)}"
    rows = f"all {plural(len(products), 'row')}, within {percent(spread, 1)}, however fast they are"
    evidence = f"rate x step time is {middle:.3f} times the stated batch ({batch}) in {rows}: "
    evidence += "rate and time are not of the same steps"
    yield Flag(evidence, places(product.row for product in products), RATE_TIMES_TIME.name, severity="suspect")


def _wrong_rows(wrong: list[_Product], some_are_right: bool) -> Iterator[Flag]:
    """Flag each wrong product, "but global batch is 256", with the right rate if `some_are_right` among other rows."""
    for product in wrong:
        corrected = None
        batch = integer(product.expected_work.middle)
        if some_are_right and product.rate.per_device is False:  # else the batch itself may be what is wrong
            rate = round((product.expected_work / product.time.interval).middle, 2)
            derivation = f"{product.certain_batch} {batch} / {product.time.printed}, if the time is right"
            corrected = Correction(value=rate, unit=RATE_UNITS[product.rate.kind], derivation=derivation)
        yield _wrong_product(product, f"{product.certain_batch} is {batch}", corrected)
