"""Identities over the rows of published tables: whichever figures a row states must fulfil those that they imply."""

from collections import Counter
from collections.abc import Iterator, Sequence

from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.checks.feasibility import PEAK_OF_ANOTHER_DEVICE, known_peaks
from scaleproof.auditor.checks.printed import TOLERANCE, PrintedInterval, interval
from scaleproof.auditor.checks.rows import RATE_UNITS, describe, known, multiplies, place, printed
from scaleproof.auditor.read.reported_tables import Quantity, ReportedRow
from scaleproof.ground.facts.peaks import DEVICES, TERA
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import Code, Flag
from scaleproof.ground.number_format import integer, number

CONSTANT = 0.01  # relative difference of two figures that are one peak
APART = 0.03  # relative difference that printing, medians and means do not explain
SLOWEST_RANKS = 0.10  # by which the slowest ranks' steps add up to more than the window; 2 % on a machine in use
OTHER_PEAK = 0.08  # by which a peak may differ between variants of a device
MOST = 2  # rows that show what the figures of a table mean, for each one that does not follow


PEAKS = {figure * TERA for _, figures, _ in DEVICES for figure in figures if figure}

TOTALS_DISAGREE = Code(
    "totals-disagree",
    "suspect",
    what="A total is not made of its parts: rate per device and devices, steps and step time, epochs and epoch "
    "time, power and time; or a row of means or totals is none of the rows above it.",
    detected="Outside of what the printed digits and 2 % allow. A total time may be longer than its parts "
    "(evaluation, start-up), never shorter; of steps on several devices not by more than 10 %: the slowest rank "
    "of each step may be another one, and their times add up to more than the time of any rank. A mean outside of "
    "its rows, a total below its largest part.",
    seen="Tables whose columns come from different runs.",
    repair="Compute one column from the other, or say what else is in the total.",
)


@of_evidence.check(TOTALS_DISAGREE)
def totals_follow(context: AuditContext) -> Iterator[Flag]:
    """total rate = rate per device x devices; total time >= steps x step time; steps/s x step time = 1; and so on."""
    for table in context.tables:
        rows = [row for row in table.rows if row.measured]
        for kind in RATE_UNITS:
            yield from _totals_and_shares(rows, kind)
        for row in rows:
            products = (_steps_per_s(row), _energy(row, "total_time_s"), _tokens(row), _trained(row))
            for evidence in filter(None, (*_sums(row), *products)):
                yield Flag(f"{describe(row)}: {evidence}", [place(row)])
        with_energy = [row for row in rows if _has_energy(row, "time_s")]
        wrong = [(row, evidence) for row in with_energy if (evidence := _energy(row, "time_s"))]
        if 2 * len(wrong) <= len(with_energy):  # else it is another time: of a step, of an epoch
            yield from (Flag(f"{describe(row)}: {evidence}", [place(row)]) for row, evidence in wrong)


def _totals_and_shares(rows: Sequence[ReportedRow], kind: str) -> Iterator[Flag]:
    """Rows whose rate per device x devices is not their total, for rates of one kind.

    A rate that may be of one device or of all is taken for the total only where it is one in most rows.
    """
    fits: Counter[bool] = Counter()  # rows that fulfil it, by whether they have several devices
    wrong = []
    for row in rows:
        each = [q for q in row.all_of(kind) if q.per_device is True]
        whole = [q for q in row.all_of(kind) if q.per_device is not True]
        if not row.devices or len(each) != 1 or len(whole) != 1 or whole[0].statistic != each[0].statistic:
            continue
        if whole[0].bound or each[0].bound or whole[0].item != each[0].item:
            continue
        if (interval(each[0]) * row.devices).meets_but_for_thousands(interval(whole[0])):
            fits[row.devices > 1] += 1
        else:
            wrong.append((row, whole[0], each[0]))
    for row, total, one in wrong:
        devices = row.devices or 1
        if total.per_device is False or fits[True] >= MOST * len(wrong):
            yield Flag(
                f"{describe(row)}: {printed(one)} per device x {devices} = {number(one.value * devices, 4)}, the total "
                f"is given as {printed(total)}",
                [place(row)],
            )


def _sums(row: ReportedRow) -> Iterator[str]:
    """What is wrong with steps x step time and with epochs x epoch time: a sentence, or "" where it is not known."""
    several = row.devices is None or row.devices > 1
    yield _sum_of_parts(row, "steps", "step_time_s", SLOWEST_RANKS if several else TOLERANCE)
    yield _sum_of_parts(row, "epochs", "epoch_time_s", TOLERANCE)


def _sum_of_parts(row: ReportedRow, count_kind: str, part_kind: str, tolerance: float) -> str:
    """A sentence where count x time of a part exceeds the total time by more than `tolerance`; else ""."""
    count, part = row.value(count_kind), known(row, part_kind)
    total = known(row, "total_time_s")
    if not count or part is None or total is None or not multiplies(part, total):
        return ""
    parts = interval(part) * count
    # A product above 200 times the total is taken for a unit or a count that was misread.
    if parts.low * (1 - tolerance) <= interval(total).high or parts.low > 200 * interval(total).high:
        return ""
    product = f"{integer(count)} {count_kind} x {printed(part)} = {number(parts.middle, 4)} s"
    return f"{product}, the total is given as {printed(total)}"


def _steps_per_s(row: ReportedRow) -> str:
    """A sentence where steps/s x step time is not 1; else ""."""
    rate, time = known(row, "steps_per_s"), known(row, "step_time_s")
    if rate is None or time is None or rate.per_device or not multiplies(rate, time):
        return ""
    steps = interval(rate) * interval(time)
    if steps.contains(1.0, 0.05):
        return ""
    return f"{printed(rate)} x {printed(time)} = {steps.middle:.3g} steps, not 1"


def _has_energy(row: ReportedRow, time: str) -> bool:
    return all(known(row, kind) for kind in ("power_w", time, "energy_j"))


def _energy(row: ReportedRow, time_kind: str) -> str:
    """A sentence where power x time is not the energy, whether the power is of all devices or of one; else ""."""
    power, time, energy = (known(row, kind) for kind in ("power_w", time_kind, "energy_j"))
    if power is None or time is None or energy is None or not multiplies(power, time, energy):
        return ""
    product = interval(power) * interval(time)
    readings = [product, product * (row.devices or 1)]
    if any(reading.meets_but_for_thousands(interval(energy), 2 * OTHER_PEAK) for reading in readings):
        return ""
    return f"{printed(power)} x {printed(time)} = {integer(product.middle)} J, the energy is given as {printed(energy)}"


def _tokens(row: ReportedRow) -> str:
    """A sentence where global batch x sequence length x steps are not the tokens, of all devices or of one; else ""."""
    tokens = row.figure("tokens")
    factors = [row.value(kind) for kind in ("global_batch", "seq_len", "steps")]
    if tokens is None or tokens.bound or not all(factors):
        return ""
    batch, length, steps = (factor or 0.0 for factor in factors)
    product = batch * length * steps
    if interval(tokens).contains(product, APART) or interval(tokens).contains(product * (row.devices or 1), APART):
        return ""
    evidence = f"global batch {integer(batch)} x {integer(length)} x {integer(steps)} steps = {integer(product)} tokens"
    return f"{evidence}, given are {printed(tokens)}"


def _trained(row: ReportedRow) -> str:
    """A sentence where more tokens were trained on than the rate, even if it is of one device, allows in the time."""
    tokens, rate, time = (known(row, kind) for kind in ("tokens", "tokens_per_s", "total_time_s"))
    if tokens is None or rate is None or time is None or not multiplies(rate, time):
        return ""
    product = interval(rate) * interval(time)
    most = product if rate.per_device is False else product * (row.devices or 1)
    is_known = row.devices is not None or rate.per_device is False
    if not is_known or interval(tokens).low <= most.high * (1 + SLOWEST_RANKS):
        return ""
    return f"{printed(rate)} x {printed(time)} = {integer(product.middle)} tokens, given are {printed(tokens)}"


@of_evidence.check(PEAK_OF_ANOTHER_DEVICE)
def utilization_is_of_the_peak(context: AuditContext) -> Iterator[Flag]:
    """MFU x peak = FLOP/s of one device, for some dense peak that its device has."""
    for table in context.tables:
        common_peaks = _peaks_of_rows(table.rows)
        for row in table.rows:
            named = row.words.get("device") or table.words.get("device")
            peaks = known_peaks(named) if named else common_peaks
            share, flops = known(row, "mfu"), known(row, "flops_per_s")
            if not (row.measured and peaks and share and flops and multiplies(share, flops)):
                continue
            readings = _flops_of_one(flops, row.devices or 1)
            if any((interval(share) * peak).meets(reading, OTHER_PEAK) for peak in peaks for reading in readings):
                continue
            highest = max(peaks)
            right_share = readings[0].middle / highest
            device = named or "the device of the other rows"
            corrected = Correction(
                value=round(100 * right_share, 1), unit="%", derivation=f"{printed(flops)} / {highest / TERA:g} TFLOP/s"
            )
            yield Flag(
                f"{describe(row)}: MFU {printed(share)} of {printed(flops)} is relative to "
                f"{readings[0].middle / share.value / TERA:,.0f} TFLOP/s; {device} has "
                f"{' or '.join(f'{peak / TERA:g}' for peak in sorted(peaks))}",
                [place(row)],
                severity="suspect",
                corrected=corrected if len(readings) == 1 else None,
            )


def _peaks_of_rows(rows: Sequence[ReportedRow]) -> set[float]:
    """The published peak that MFU and FLOP/s of most rows imply; none where any row names a device."""
    pairs = [(known(row, "mfu"), known(row, "flops_per_s"), row) for row in rows if row.measured]
    implied = [
        _flops_of_one(flops, row.devices or 1)[0] / interval(share) for share, flops, row in pairs if share and flops
    ]
    if any("device" in row.words for row in rows):
        return set()
    counts = {peak: sum(one.contains(peak, CONSTANT) for one in implied) for peak in PEAKS}
    most = max(counts.values(), default=0)
    return {peak for peak, count in counts.items() if count == most >= max(2, MOST * (len(implied) - count))}


def _flops_of_one(flops: Quantity, devices: int) -> list[PrintedInterval]:
    """FLOP/s of one device: one interval, or two where the figure may be of one device or of all."""
    stated = interval(flops)
    if flops.per_device or devices == 1:
        return [stated]
    if flops.per_device is False:
        return [stated / devices]
    return [stated, stated / devices]
