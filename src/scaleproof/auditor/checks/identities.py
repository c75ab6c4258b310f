"""Rates, times and work of published tables: rate x time, totals and parts, whole and per device."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.checks.printed import TOLERANCE, PrintedInterval, exact, interval
from scaleproof.auditor.checks.rows import describe, known, multiplies, place, places, printed, work_of
from scaleproof.auditor.checks.work import RATE_MULTIPLIED, RATE_OF_ONE_RANK
from scaleproof.auditor.read.reported_tables import Quantity, ReportedRow, ReportedTable
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Code, Flag
from scaleproof.ground.findings.shared_codes import RATE_TIMES_TIME
from scaleproof.ground.number_format import integer, percent

APART = 0.03  # relative difference that printing, medians and means do not explain
CONSTANT = 0.01  # products that are one number
SLOWEST_RANKS = 0.10  # by which the slowest ranks' steps add up to more than the window; 2 % on a machine in use
ROWS = 4  # rows that are needed to say that one of them stands out

UNITS = {"tokens_per_s": "tokens/s", "samples_per_s": "samples/s"}


@dataclass(frozen=True)
class _Product:
    """rate x step time of a row, in tokens or samples, beside the batch that the row states."""

    row: ReportedRow
    rate: Quantity
    time: Quantity
    work: PrintedInterval
    stated: PrintedInterval | None  # of all devices; None where the row does not state it
    source: str


@of_evidence.check(RATE_TIMES_TIME, RATE_OF_ONE_RANK, RATE_MULTIPLIED)
def table_rate_times_time(context: AuditContext) -> Iterator[Flag]:
    """rate x step time = batch, in every row that states all three."""
    for table in context.tables:
        products = [p for row in table.rows if row.measured for p in _products(row, table)]
        wrong = [p for p in products if not _fits(p)]
        right = [p for p in products if p.stated is not None and p not in wrong]
        for p in wrong:
            flag = _scope(p)
            if flag is not None:
                yield flag
        rest = [p for p in wrong if _scope(p) is None and not _other_scope(p)]
        yield from _constant_factor(rest) if len(rest) >= ROWS and not right else _single_rows(rest, right)


def _fits(p: _Product) -> bool:
    """Whether the work of a step is the stated batch; or a micro-step's, where the row states a micro-batch; or
    several of it (accumulation), where it may be a micro-batch."""
    if p.stated is None or p.work.meets_but_for_thousands(p.stated, APART):
        return True
    for each in ("micro_batch", "batch"):
        micro = p.row.value(each)
        length = p.row.value("seq_len") or 1.0
        if micro and p.work.meets(exact(micro * (p.row.devices or 1) * (length if _tokens(p) else 1.0)), APART):
            return True
    several = round(p.work.middle / p.stated.middle) if p.stated.middle else 0
    accumulated = 2 <= several <= 64 and p.work.meets(p.stated * several, CONSTANT)
    return accumulated and "global" not in p.source


def _tokens(p: _Product) -> bool:
    return p.rate.kind == "tokens_per_s"


def _products(row: ReportedRow, table: ReportedTable) -> Iterator[_Product]:
    """One for each rate of the row: of all devices, of one, or both."""
    time = known(row, "step_time_s")
    if time is None:
        return
    for kind in UNITS:
        stated, source = _batch(row, table, kind)
        for rate in row.all_of(kind):
            usable = rate.unit_stated and rate.value > 0 and not rate.bound and not rate.remark
            if usable and multiplies(rate, time):
                yield _Product(row, rate, time, interval(rate) * interval(time), stated, source)


def _batch(row: ReportedRow, table: ReportedTable, kind: str) -> tuple[PrintedInterval | None, str]:
    """The stated work of a step on all devices, with its source in words."""
    own = {q.kind: q for q in (*table.figures, *row.figures)}
    # On one device the batch that is meant is not in doubt, only how many of it make a step.
    name = "global_batch" if "global_batch" in own else "batch"
    if name not in own or (name == "batch" and row.devices != 1):
        return None, ""
    batch = exact(own[name].value)
    words = name.replace("_", " ")
    if kind == "samples_per_s":
        return batch, f"{words} {batch.middle:g}"
    if "seq_len" not in own:
        return None, ""
    length = own["seq_len"].value
    return batch * length, f"{words} {batch.middle:g} x {length:g} tokens"


def _scope(p: _Product) -> Flag | None:
    """A rate that says it is of all devices and is of one, or the other way round."""
    devices = p.row.devices or 1
    if devices < 2 or p.stated is None:
        return None
    sentence = f"{describe(p.row)}: {printed(p.rate)} x {printed(p.time)} = {integer(p.work.middle)}, {p.source}"
    unit = UNITS[p.rate.kind]
    if p.rate.per_device is False and (p.work * devices).meets(p.stated, APART):
        correction = Correction(value=p.rate.value * devices, unit=unit, derivation=f"the printed rate x {devices}")
        return Flag(f"{sentence}: 1/{devices} of it", [place(p.row)], RATE_OF_ONE_RANK.name, corrected=correction)
    if p.rate.per_device is not True and p.work.meets(p.stated * devices, APART):
        correction = Correction(value=p.rate.value / devices, unit=unit, derivation=f"the printed rate / {devices}")
        return Flag(f"{sentence}: {devices} times of it", [place(p.row)], RATE_MULTIPLIED.name, corrected=correction)
    return None


def _other_scope(p: _Product) -> bool:
    """Whether the rate is simply of one device: its heading does not say so, or says so."""
    devices = p.row.devices or 1
    return p.stated is not None and p.rate.per_device is not False and (p.work * devices).meets(p.stated, APART)


def _constant_factor(products: list[_Product]) -> Iterator[Flag]:
    """All rows are off by one factor, whatever their speed: rate and time are not of the same steps."""
    factors = [p.work.middle / p.stated.middle for p in products if p.stated is not None]
    middle = median(factors)
    spread = max(abs(f / middle - 1) for f in factors)
    if spread > 2 * CONSTANT:
        yield from _single_rows(products, [])
        return
    first = products[0]
    rows = plural(len(products), "row")
    yield Flag(
        f"rate x step time is {middle:.3f} times the stated batch ({first.source}) in all {rows}, within "
        f"{percent(spread, 1)}, however fast they are: rate and time are not of the same steps",
        places(p.row for p in products),
        RATE_TIMES_TIME.name,
        severity="suspect",
    )


def _single_rows(wrong: list[_Product], right: list[_Product]) -> Iterator[Flag]:
    for p in wrong:
        if p.stated is None:
            continue
        correction = None
        if right and p.rate.per_device is False:
            rate = p.stated / interval(p.time)
            derivation = f"{p.source} / {printed(p.time)}, if the time is right"
            correction = Correction(value=round(rate.middle, 2), unit=UNITS[p.rate.kind], derivation=derivation)
        yield Flag(
            f"{describe(p.row)}: {printed(p.rate)} x {printed(p.time)} = {integer(p.work.middle)}, but {p.source} is "
            f"{integer(p.stated.middle)}",
            [place(p.row)],
            RATE_TIMES_TIME.name,
            severity="suspect",
            corrected=correction,
        )


@of_evidence.check(
    Code(
        "row-stands-out",
        "suspect",
        what="In one row of a table rate x time is another number than in all other rows, although they did the same "
        "work: one of its two figures is wrong.",
        detected="Four rows or more of the same configuration and batch, whose products agree within 1 %; one is more "
        "than 5 % off.",
        seen="One rate gives 6,245 images an epoch, all others 5,596 to 5,606.",
        repair="Look at the raw file of that row.",
    )
)
def products_agree(context: AuditContext) -> Iterator[Flag]:
    """rate x time of rows that did the same work is one number."""
    for table in context.tables:
        for rate_kind in ("tokens_per_s", "samples_per_s"):
            for time_kind in ("epoch_time_s", "step_time_s"):
                for rows in _same_work(table, time_kind):
                    yield from _outlier(rows, rate_kind, time_kind)


def _same_work(table: ReportedTable, time_kind: str) -> list[list[ReportedRow]]:
    """Measured rows of one configuration; of steps those with one stated global batch."""
    groups: dict[object, list[ReportedRow]] = {}
    for row in table.rows:
        batch = row.value("global_batch")
        if row.measured and (time_kind == "epoch_time_s" or batch):
            key = (work_of(row, table), batch if time_kind == "step_time_s" else None)
            groups.setdefault(key, []).append(row)
    return [rows for rows in groups.values() if len(rows) >= ROWS]


def _outlier(rows: list[ReportedRow], rate_kind: str, time_kind: str) -> Iterator[Flag]:
    pairs = [
        (row, rate, time)
        for row in rows
        if (rate := known(row, rate_kind)) is not None
        and (time := known(row, time_kind)) is not None
        and rate.per_device is not True
        and multiplies(rate, time)
    ]
    if len(pairs) < ROWS:
        return
    products = [interval(rate) * interval(time) for _, rate, time in pairs]
    middle = median(p.middle for p in products)
    off = [i for i, p in enumerate(products) if not p.contains(middle, 0.05)]
    others = [p for i, p in enumerate(products) if i not in off]
    if len(off) != 1 or any(not p.contains(middle, CONSTANT) for p in others):
        return
    row, rate, time = pairs[off[0]]
    yield Flag(
        f"{describe(row)}: {printed(rate)} x {printed(time)} = {integer(products[off[0]].middle)}; in the "
        f"{len(others)} other rows {integer(min(p.middle for p in others))} to "
        f"{integer(max(p.middle for p in others))}",
        [place(row)],
    )


@of_evidence.check(
    Code(
        "totals-disagree",
        "suspect",
        what="A total is not made of its parts: rate per device and devices, steps and step time, epochs and epoch "
        "time.",
        detected="Outside of what the printed digits and 2 % allow. A total time may be longer than its parts "
        "(evaluation, start-up), never shorter; of steps on several devices not by more than 10 %: the slowest rank "
        "of each step may be another one, and their times add up to more than the time of any rank.",
        seen="Tables whose columns come from different runs.",
        repair="Compute one column from the other, or say what else is in the total.",
    )
)
def totals_follow(context: AuditContext) -> Iterator[Flag]:
    """total rate = rate per device x devices; total time >= steps x step time; steps/s x step time = 1."""
    for table in context.tables:
        for row in table.rows:
            for check in TOTALS if row.measured else ():
                evidence = check(row)
                if evidence:
                    yield Flag(f"{describe(row)}: {evidence}", [place(row)])


def _per_device(row: ReportedRow) -> str:
    devices = row.devices
    for kind in UNITS:
        whole = [q for q in row.all_of(kind) if q.per_device is False]
        each = [q for q in row.all_of(kind) if q.per_device is True]
        if not devices or len(whole) != 1 or len(each) != 1 or whole[0].statistic != each[0].statistic:
            continue
        if whole[0].bound or each[0].bound or whole[0].item != each[0].item:
            continue
        if not (interval(each[0]) * devices).meets_but_for_thousands(interval(whole[0])):
            return (
                f"{printed(each[0])} per device x {devices} = {each[0].value * devices:,.6g}, the total is given as "
                f"{printed(whole[0])}"
            )
    return ""


def _steps(row: ReportedRow) -> str:
    several = row.devices is None or row.devices > 1
    return _sum_of_parts(row, "steps", "step_time_s", SLOWEST_RANKS if several else TOLERANCE)


def _epochs(row: ReportedRow) -> str:
    return _sum_of_parts(row, "epochs", "epoch_time_s")


def _sum_of_parts(row: ReportedRow, count_kind: str, part_kind: str, tolerance: float = TOLERANCE) -> str:
    count, part = row.value(count_kind), known(row, part_kind)
    total = known(row, "total_time_s")
    if not count or part is None or total is None or not multiplies(part, total):
        return ""
    least = interval(part) * count
    if least.low * (1 - tolerance) <= interval(total).high or least.low > 200 * interval(total).high:
        return ""
    product = f"{integer(count)} {count_kind} x {printed(part)} = {least.middle:,.4g} s"
    return f"{product}, the total is given as {printed(total)}"


def _steps_per_s(row: ReportedRow) -> str:
    rate, time = known(row, "steps_per_s"), known(row, "step_time_s")
    if rate is None or time is None or rate.per_device or not multiplies(rate, time):
        return ""
    steps = interval(rate) * interval(time)
    if steps.contains(1.0, 0.05):
        return ""
    return f"{printed(rate)} x {printed(time)} = {steps.middle:.3g} steps, not 1"


TOTALS: tuple[Callable[[ReportedRow], str], ...] = (_per_device, _steps, _epochs, _steps_per_s)
