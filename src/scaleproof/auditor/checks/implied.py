"""Figures that are the product of others in their row: tokens of rate and time, cost of price and hours, and so on.

Whether a rate or a price is of one device, the heading says, or the rows of the table do that fulfil the identity.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.checks.identities import TOTALS_DISAGREE, totals_follow
from scaleproof.auditor.checks.printed import PrintedInterval, exact, interval
from scaleproof.auditor.checks.rows import describe, multiplies, place, printed
from scaleproof.auditor.read.printed_figures import MAGNITUDES, is_nothing
from scaleproof.auditor.read.reported_tables import Quantity, ReportedRow, ReportedTable
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Flag
from scaleproof.ground.number_format import number

FITS = 0.03  # relative difference that printing, medians and means do not explain
ODD = 0.10  # the same, of a row that does not follow
MISREAD = 200.0  # a factor above it is a unit or a magnitude that was misread
COARSE = 0.1  # one unit of the last digit, relative to a figure that was rounded for certain
MOST = 2  # rows that fit, for each one that does not

SPAN = ("total_time_s", "time_s")
# What follows, its factors, and whether more may be in it than the factors say: evaluation, storage, idle power.
IDENTITIES: tuple[tuple[str, tuple[tuple[str, ...], ...], bool], ...] = (
    ("tokens", (("tokens_per_s",), SPAN), False),
    ("tokens", (("tokens_per_s",), ("device_time_s",)), False),
    ("samples", (("samples_per_s",), SPAN), False),
    ("tokens", (("global_batch_tokens",), ("steps",)), False),
    ("tokens_per_s", (("samples_per_s",), ("seq_len",)), False),
    ("device_time_s", (SPAN,), True),
    ("cost", (("price_per_s",), SPAN), True),
    ("cost", (("price_per_s",), ("device_time_s",)), True),
    ("energy_j", (("power_w",), ("device_time_s",)), True),
)
OF_ONE = ("device_time_s",)  # sums over all devices: a rate of one goes with them, never a rate of all

TOKENS = re.compile(r"(?i)(?<![\w.])(\d+(?:\.\d+)?) ?(k|m|b|t|million|billion|trillion) tokens")
COUNT = re.compile(r"(?i)(?<![\w.])(\d+(?:\.\d+)?)(k?) (?:gpus|devices|chips|tpus)\b")


@dataclass(frozen=True)
class Product:
    """A figure of a row beside the factors that make it. `readings`: result over product, by the devices in it."""

    row: ReportedRow
    result: Quantity
    factors: Sequence[Quantity]
    devices: int | None
    readings: dict[bool, PrintedInterval] = field(default_factory=dict)

    @property
    def fitting(self) -> set[bool]:
        return {whole for whole, ratio in self.readings.items() if ratio.contains(1.0, FITS)}

    def is_odd(self, whole: bool) -> bool:
        """Whether it does not follow with (`whole`) or without the devices as a factor, however it is read."""
        apart = [ratio.contains(1.0, ODD) or _is_misread(ratio) for ratio in self.readings.values()]
        return whole in self.readings and not any(apart)

    def sentence(self, whole: bool, others: int) -> str:
        """What follows from the factors, what is stated, and how many rows of the table show that it is meant."""
        by_devices = [str(self.devices)] if whole and self.devices != 1 else []
        terms = " x ".join([*map(printed, self.factors), *by_devices])
        stated, unit = _number_and_unit(self.result)
        product = prod(factor.value for factor in self.factors) * (self.devices or 1 if whole else 1)
        right = stated * product / self.result.value
        fits = f"; {plural(others, 'other row')} of the table follow"
        return f"{describe(self.row)}: {terms} = {number(right, 4)}{unit}, given is {printed(self.result)}{fits}"


@of_evidence.check(TOTALS_DISAGREE)
def figures_are_implied(context: AuditContext) -> Iterator[Flag]:
    """A figure that is the product of others in most rows of its table is so in all."""
    flagged = {row for finding in totals_follow(context) for row in finding.runs}
    for table in context.tables:
        for result, factors, may_be_more in IDENTITIES:
            products = [p for row in table.rows for p in _products(table, row, result, factors)]
            for p, evidence in _odd_ones(products, may_be_more):
                if place(p.row) not in flagged:
                    flagged.add(place(p.row))
                    yield Flag(evidence, [place(p.row)], severity="suspect")


def _odd_ones(products: list[Product], may_be_more: bool) -> Iterator[tuple[Product, str]]:
    """The products that are wrong where the others are right, and what to say of each."""
    votes = Counter(whole for p in products for whole in p.fitting)
    if not votes:
        return
    whole, fits = votes.most_common(1)[0]
    odd = [p for p in products if p.is_odd(whole)]
    certain = all(len(p.readings) == 1 for p in products)
    for p in odd:
        more = may_be_more and p.readings[whole].low > 1
        if fits >= len(odd) if certain and not more else fits >= MOST * len(odd) and fits >= MOST:
            yield p, p.sentence(whole, fits)


def _products(
    table: ReportedTable, row: ReportedRow, result: str, kinds: tuple[tuple[str, ...], ...]
) -> Iterator[Product]:
    """The product in a row, where it or its table state the result and all factors; else nothing."""
    if not row.measured:
        return
    chosen = [next((q for kind in names if (q := _stated(table, row, kind))), None) for names in kinds]
    factors = [factor for factor in chosen if factor is not None]
    stated = _stated(table, row, result)
    if stated is None or len(factors) < len(kinds) or not multiplies(stated, *factors):
        return
    if all(q in table.figures for q in (stated, *factors)):
        return
    product = exact(1.0)
    for factor in factors:
        product = product * _interval(factor)
    if not product.low:
        return
    ratio, devices = _interval(stated) / product, _devices(table, row, factors)
    readings = {whole: ratio / float(devices or 1) if whole else ratio for whole in _scopes(stated, factors, devices)}
    if readings:
        yield Product(row, stated, factors, devices, readings)


def _scopes(stated: Quantity, factors: Sequence[Quantity], devices: int | None) -> set[bool]:
    """Whether the devices are a factor: {True}, {False}, both where nothing says it, or none that can be used."""
    per_device = {factor.per_device for factor in factors if factor.kind not in ("total_time_s", "time_s", "steps")}
    if any(factor.kind in OF_ONE for factor in factors):
        return set() if False in per_device else {False}
    if stated.kind == "device_time_s":
        return {True} if devices else set()
    if stated.per_device is not None and stated.per_device in per_device:
        return {False}
    scopes = {True: {True}, False: {False}}.get(next(iter(per_device - {None}), None) or False, {True, False})
    if per_device <= {None}:
        scopes = {True, False}
    if stated.kind in ("tokens", "samples") and any(f.kind == "global_batch_tokens" for f in factors):
        scopes = {False}
    return scopes if devices else scopes - {True}


def _stated(table: ReportedTable, row: ReportedRow, kind: str) -> Quantity | None:
    """A figure of a row, or what its heading, its table or the paragraph above say of all rows; None without any."""
    quantity = row.figure(kind)
    if quantity is not None:
        usable = quantity.value > 0 and not quantity.bound and quantity.unit_stated and not is_nothing(quantity.text)
        return quantity if usable else None
    if kind == "tokens":
        time = next((q for name in SPAN if (q := row.figure(name))), None)
        return _tokens_in(f"{time.heading if time else ''} . {table.caption} . {table.heading}")
    return next((q for q in (*table.figures, *table.above) if q.kind == kind), None)


def _tokens_in(text: str) -> Quantity | None:
    """The one number of tokens that a text states, as "Training Time (9T tokens)" does; None without one."""
    matches = {m[0]: m for m in TOKENS.finditer(text)}
    if len(matches) != 1:
        return None
    (match,) = matches.values()
    scale = MAGNITUDES[match[2][0].lower()]
    return Quantity("tokens", float(match[1]) * scale, match[0], text)


def _devices(table: ReportedTable, row: ReportedRow, factors: Sequence[Quantity]) -> int | None:
    """The devices of a product: those that the heading of a time names ("10T tokens, 1K GPUs"), else the row's."""
    for factor in factors:
        if match := COUNT.search(factor.heading):
            return round(float(match[1]) * (1024 if match[2] else 1))
    stated = next((q for q in (*table.figures, *table.above) if q.kind == "devices"), None)
    return row.devices or (int(stated.value) if stated else None)


def _interval(quantity: Quantity) -> PrintedInterval:
    """What a figure may have been; nobody cuts 1.9T off to 1T."""
    if quantity.resolution > COARSE * quantity.value:
        return interval(replace(quantity, resolution=quantity.resolution / 2))
    return interval(quantity)


def _is_misread(ratio: PrintedInterval) -> bool:
    return not 1 / MISREAD < ratio.middle < MISREAD


def _number_and_unit(quantity: Quantity) -> tuple[float, str]:
    """The number of a figure as its cell has it, and what stands behind it: "9T tokens" is (9, "T tokens")."""
    match = re.search(r"(\d[\d,]*(?:\.\d+)?)([^\d()]{0,12})", quantity.text)
    return (float(match[1].replace(",", "")), match[2].rstrip()) if match else (quantity.value, "")
