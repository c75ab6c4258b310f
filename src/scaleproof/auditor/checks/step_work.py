"""rate x step time = batch: what a batch or a rate is of, a table says by what most of its rows fulfil."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.checks.rows import RATE_UNITS, multiplies, places
from scaleproof.auditor.checks.scaling import rates_over_baselines
from scaleproof.auditor.checks.work import RATE_MULTIPLIED, RATE_OF_ONE_RANK, rates_of_runs, wrong_scope
from scaleproof.auditor.read.reported_tables import PrintedInterval, Quantity, ReportedRow, ReportedTable, exact
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Flag
from scaleproof.ground.findings.shared_codes import RATE_TIMES_TIME
from scaleproof.ground.number_format import integer, percent

APART = 0.03  # relative difference that printing, medians and means do not explain
APART_BY_MAJORITY = 0.05  # relative difference allowed where only other rows show what the figures mean
CONSTANT = 0.01  # relative difference of products that are one number
ROWS_FOR_CONSTANT_FACTOR = 4  # that are needed to say that all are off by one factor
ROWS_FOR_EACH_ODD_ONE = 2  # that show what the figures of a table mean
LARGEST_ACCUMULATION = 64


@dataclass(frozen=True)
class _Product:
    """rate x step time of a row, in tokens or samples, beside the batches that the row states."""

    table: ReportedTable
    row: ReportedRow
    rate: Quantity
    time: Quantity

    @cached_property
    def work(self) -> PrintedInterval:
        return self.rate.interval * self.time.interval

    @cached_property
    def devices(self) -> int:
        return self.row.devices or int(self._around.get("devices", 1))

    @cached_property
    def _around(self) -> dict[str, float]:
        """What the table, or the paragraph above it, says of all rows."""
        return {q.kind: q.value for q in (*self.table.above, *self.table.figures)}

    @property
    def sentence(self) -> str:
        return f"{self.row.description}: {self.rate.printed} x {self.time.printed} = {integer(self.work.middle)}"

    @cached_property
    def batches(self) -> dict[str, float]:
        """What a step of all devices may be, in tokens or samples, by what the row calls it; {} where it says nothing.

        "global batch" is certain, and so is "batch" on one device. A batch on several may be of each or of all.
        """
        own = self._around | {q.kind: q.value for q in self.row.figures}
        length = own.get("seq_len", 0.0) if self.rate.kind == "tokens_per_s" else 1.0
        replicas = self.devices / (own.get("tensor_parallel") or 1) / (own.get("pipeline_parallel") or 1)
        batches = {}
        for kind in ("batch", "micro_batch"):
            if kind in own:
                batches["batch on each device"] = own[kind] * replicas * length
        for kind in ("batch", "global_batch"):
            if kind in own:
                batches[kind.replace("_", " ")] = own[kind] * length
        return {name: batch for name, batch in batches.items() if batch}

    @property
    def states_batch(self) -> bool:
        return any(self.row.value(kind) for kind in ("batch", "micro_batch", "global_batch"))

    @property
    def known_batch(self) -> str:
        """The name of the batch that is certainly that of a step; "" without one, or if whose rate it is is unknown."""
        if self.row.devices is None and self.rate.per_device is not False:
            return ""
        if not self.states_batch and not self.table.figures:
            return ""  # the paragraph above may be about other rows
        if "global batch" in self.batches:
            return "global batch"
        return "batch" if "batch" in self.batches and self.row.devices == 1 else ""

    @property
    def expected_work(self) -> PrintedInterval:
        """The known batch of a step. Raises KeyError where none is known."""
        return exact(self.batches[self.known_batch])

    @property
    def scopes(self) -> dict[str, float]:
        """What the rate may be of -> by what the work of all devices is divided to be that of the rate."""
        scopes = {}
        if self.rate.per_device is not True:
            scopes["the rate of all"] = 1.0
        if self.rate.per_device is not False:
            scopes["the rate of one"] = float(self.devices)
        return scopes

    @cached_property
    def meanings(self) -> dict[tuple[str, str, int], float]:
        """(batch, scope, micro-steps) under which the product is right -> the work that it should be.

        Micro-steps are those that a step accumulates: 1, unless the batch may be that of a micro-step.
        """
        meanings = {}
        for name, batch in self.batches.items():
            for scope, divisor in self.scopes.items():
                work = batch / divisor
                micro_steps = max(1, round(self.work.middle / work))
                most = 1 if name == "global batch" else LARGEST_ACCUMULATION
                # With a free factor almost any product is near: it must be nearer.
                tolerance = APART_BY_MAJORITY if micro_steps == 1 else CONSTANT
                if micro_steps <= most and self.work.meets(exact(work * micro_steps), tolerance):
                    meanings[(name, scope, micro_steps)] = work * micro_steps
        return meanings

    @property
    def follows(self) -> bool:
        """Whether the product is right under some meaning, a mark of thousands aside."""
        return any(micro_steps > 1 for _, _, micro_steps in self.meanings) or any(
            self.work.meets_but_for_thousands(exact(batch / divisor), APART)
            for batch in self.batches.values()
            for divisor in self.scopes.values()
        )


@of_evidence.check(RATE_TIMES_TIME, RATE_OF_ONE_RANK, RATE_MULTIPLIED)
def rate_times_time(context: AuditContext) -> Iterator[Flag]:
    """rate x time is the work: of an epoch, of a step, of the baseline. Off by the devices it has a code of its own."""
    if context.runs:
        yield from rates_of_runs(context)
        yield from rates_over_baselines(context)
    yield from _rows_against_batches(context)


def _rows_against_batches(context: AuditContext) -> Iterator[Flag]:
    """Flag rows whose rate x step time is not their batch.

    First rows whose batch of a step is known: a rate of one device taken for all, one factor for all rows, else row by
    row. Then all other rows, by the meaning that fits most rows of the table.
    """
    for table in context.tables:
        products = [p for row in table.rows if row.measured for p in _products(row, table)]
        certain = [p for p in products if p.known_batch]
        wrong = [p for p in certain if not p.follows]
        unexplained = []
        for p in wrong:
            sentence = f"{p.sentence}, {p.known_batch} {integer(p.expected_work.middle)}"
            flag = wrong_scope([p.row.place], sentence, p.work, p.expected_work, p.devices, p.rate, APART)
            if flag is not None:
                yield flag
            else:
                unexplained.append(p)
        some_are_right = len(wrong) < len(certain)
        if len(unexplained) >= ROWS_FOR_CONSTANT_FACTOR and not some_are_right:
            yield from _constant_factor(unexplained)
        else:
            yield from _single_rows(unexplained, some_are_right)
        yield from _rows_against_majority([p for p in products if p not in wrong])


def _products(row: ReportedRow, table: ReportedTable) -> Iterator[_Product]:
    """A product for each usable rate of the row, of all devices and of one, with its step time; none without a time."""
    time = row.known("step_time_s")
    if time is None:
        return
    for kind in RATE_UNITS:
        for rate in row.all_of(kind):
            usable = rate.unit_stated and rate.value > 0 and not rate.bound and not rate.remark
            if usable and multiplies(rate, time):
                yield _Product(table, row, rate, time)


def _rows_against_majority(products: list[_Product]) -> Iterator[Flag]:
    """Flag rows of one strategy and model whose product contradicts the meaning that most of these rows have."""
    groups: dict[tuple[str | None, ...], list[_Product]] = defaultdict(list)
    for p in products:
        if p.batches:
            # One batch that is stated for the whole table is that of all models.
            model = p.row.words.get("model") if p.states_batch else None
            groups[(p.rate.heading, p.row.words.get("strategy"), model)].append(p)
    for group in groups.values():
        votes = Counter(meaning for p in group for meaning in p.meanings)
        most = max(votes.values(), default=0)
        usual = [meaning for meaning, count in votes.items() if count == most]
        odd = [p for p in group if not p.meanings.keys() & set(usual)]
        if odd and most >= ROWS_FOR_EACH_ODD_ONE * len(odd) and most >= ROWS_FOR_EACH_ODD_ONE:
            for p in odd:
                yield _odd_row(p, usual[0], most)


def _odd_row(p: _Product, meaning: tuple[str, str, int], others: int) -> Flag:
    """The finding on a product that is wrong under the `meaning` that `others` other rows have."""
    name, scope, micro_steps = meaning
    work = p.batches.get(name, 0.0) / p.scopes.get(scope, 1.0) * micro_steps
    steps = f" in {micro_steps} micro-steps" if micro_steps > 1 else ""
    corrected = Correction(
        value=round(work / p.time.interval.middle, 2),
        unit=RATE_UNITS[p.rate.kind],
        derivation="if time and batch are right",
    )
    return Flag(
        f"{p.sentence}, but {name}{steps} would be {integer(work)} with {scope}, as in {plural(others, 'other row')}",
        [p.row.place],
        RATE_TIMES_TIME.name,
        severity="suspect",
        corrected=corrected if work else None,
    )


def _constant_factor(products: list[_Product]) -> Iterator[Flag]:
    """Flag all rows at once where one factor explains them: rate and time are not of the same steps; else each row."""
    factors = [p.work.middle / p.expected_work.middle for p in products]
    middle = median(factors)
    spread = max(abs(factor / middle - 1) for factor in factors)
    if spread > 2 * CONSTANT:
        yield from _single_rows(products, some_are_right=False)
        return
    first = products[0]
    rows = plural(len(products), "row")
    yield Flag(
        f"rate x step time is {middle:.3f} times the stated batch ({first.known_batch} "
        f"{integer(first.expected_work.middle)}) in all {rows}, within {percent(spread, 1)}, however fast they are: "
        "rate and time are not of the same steps",
        places(p.row for p in products),
        RATE_TIMES_TIME.name,
        severity="suspect",
    )


def _single_rows(wrong: list[_Product], some_are_right: bool) -> Iterator[Flag]:
    """Flag each wrong product, with a correction where `some_are_right`: other rows of the table have their batch."""
    for p in wrong:
        correction = None
        if some_are_right and p.rate.per_device is False:
            rate = p.expected_work / p.time.interval
            derivation = f"{p.known_batch} {integer(p.expected_work.middle)} / {p.time.printed}, if the time is right"
            correction = Correction(value=round(rate.middle, 2), unit=RATE_UNITS[p.rate.kind], derivation=derivation)
        yield Flag(
            f"{p.sentence}, but {p.known_batch} is {integer(p.expected_work.middle)}",
            [p.row.place],
            RATE_TIMES_TIME.name,
            severity="suspect",
            corrected=correction,
        )
