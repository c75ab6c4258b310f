"""Identities over the rows of published tables: whichever figures a row states must fulfil those that they imply."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from math import exp, prod
from operator import add
from typing import Literal

import numpy as np

from scaleproof.auditor.checks.columns import FigureTable, figure_tables, summaries_follow
from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.checks.rows import RATE_UNITS, multiplies
from scaleproof.auditor.read.printed_figures import MAGNITUDES, is_nothing
from scaleproof.auditor.read.reported_tables import (
    TOLERANCE,
    PrintedInterval,
    Quantity,
    ReportedRow,
    ReportedTable,
    exact,
)
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Flag
from scaleproof.ground.number_format import number

APART = 0.03  # relative difference that printing, medians and means do not explain
SLOWEST_RANKS = 0.10  # by which the slowest ranks' steps add up to more than the window; 2 % on a machine in use
ROWS_FOR_EACH_ODD_ONE = 2  # that show what the figures of a table mean
MOST_PARTS = 6  # columns side by side that are added up


@of_evidence.finds("totals-disagree", "suspect")
def totals_follow(context: AuditContext) -> Iterator[Flag]:
    """A total is not made of its parts: rate per device and devices, steps and step time, epochs and epoch time, power
    and time; or a row of means or totals is none of the rows above it.

    Detected: Outside of what the printed digits and 2 % allow. A total time may be longer than its parts (evaluation,
    start-up), never shorter; of steps on several devices not by more than 10 %: the slowest rank of each step may be
    another one, and their times add up to more than the time of any rank. A mean outside of its rows, a total below its
    largest part.
    Seen: Tables whose columns come from different runs.
    Repair: Compute one column from the other, or say what else is in the total.
    """
    yield from summaries_follow(context)
    for figures in (one for table in context.evidence.tables for one in figure_tables(table) if not one.on_side):
        yield from _sums_of_columns(figures)
    # total rate = rate per device x devices, steps/s x step time = 1, and IDENTITIES. One finding for a row.
    for table in context.tables:
        rows = [row for row in table.rows if row.measured]
        for kind in RATE_UNITS:
            yield from _totals_and_shares(rows, kind)
        wrong = [(row, evidence) for row in rows if (evidence := _steps_per_s(row))]
        wrong += _perplexities(rows)
        for identity in IDENTITIES:
            products = [product for row in rows if (product := _product(table, row, identity))]
            wrong += [(p.row, f"{p.row.description}: {evidence}") for p, evidence in _wrong_ones(products, identity)]
        first = {row.place: evidence for row, evidence in reversed(wrong)}
        yield from (Flag(evidence, [where]) for where, evidence in first.items())


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
        if (each[0].interval * row.devices).meets_but_for_thousands(whole[0].interval):
            fits[row.devices > 1] += 1
        else:
            wrong.append((row, whole[0], each[0]))
    for row, total, one in wrong:
        devices = row.devices or 1
        if total.per_device is False or fits[True] >= ROWS_FOR_EACH_ODD_ONE * len(wrong):
            yield Flag(
                f"{row.description}: {one.printed} per device x {devices} = {number(one.value * devices, 4)}, the "
                f"total is given as {total.printed}",
                [row.place],
            )


def _steps_per_s(row: ReportedRow) -> str:
    """A sentence where steps/s x step time is not 1; else ""."""
    rate, time = row.known("steps_per_s"), row.known("step_time_s")
    if rate is None or time is None or rate.per_device or not multiplies(rate, time):
        return ""
    steps = rate.interval * time.interval
    if steps.contains(1.0, 0.05):
        return ""
    return f"{row.description}: {rate.printed} x {time.printed} = {steps.middle:.3g} steps, not 1"


FITS = 0.03  # relative difference that printing, medians and means do not explain
DOES_NOT_FOLLOW = 0.10  # relative difference of a row that does not follow
MISREAD = 200.0  # a factor above it is a unit or a magnitude that was misread
COMPUTED = 0.005  # relative difference of a figure that was computed from the others
COMPUTED_DIGITS = 0.06  # one unit of the last digit of such a figure, relative to it
COARSE = 0.1  # one unit of the last digit, relative to a figure that was rounded for certain

MOST_NATS = 100.0  # a loss above it is of something else

POWER = 0.16  # relative difference of energy and power x time: power is sampled

SPAN = ("total_time_s", "time_s")
BATCH = ("global_batch", "micro_batch", "batch")
COUNTED = ("tokens", "samples")
EXACT = ("steps", "epochs", "seq_len", *BATCH)  # settings, unless they are printed as 300k


@dataclass(frozen=True)
class Identity:
    """`result` is the product of one figure of each of `factors`, perhaps x devices, over one of `over`.

    `alone`: what a row must fulfil by itself, whatever other rows say. `innocent`: what the result may be for a good
    reason: more (evaluation, storage) or less (restarts, padding). `apart`: relative difference of an odd row.
    """

    result: str
    factors: tuple[tuple[str, ...], ...]
    innocent: Literal["", "more", "less"] = ""
    alone: Literal["", "equal", "at most", "at least"] = ""
    apart: float = DOES_NOT_FOLLOW
    over: tuple[str, ...] = ()


IDENTITIES = (
    Identity("total_time_s", (("steps",), ("step_time_s",)), "more", "at least"),
    Identity("total_time_s", (("epochs",), ("epoch_time_s",)), "more", "at least"),
    Identity("tokens", (("global_batch",), ("seq_len",), ("steps",)), "", "equal"),
    Identity("tokens", (("global_batch_tokens",), ("steps",))),
    Identity("tokens", (("tokens_per_s",), ("total_time_s",)), "less", "at most"),
    Identity("tokens", (("tokens_per_s",), ("time_s",)), "less"),
    Identity("tokens", (("tokens_per_s",), ("device_time_s",)), "less"),
    Identity("samples", (("samples_per_s",), SPAN), "less"),
    Identity("steps", (("steps_per_s",), SPAN), "less"),
    Identity("tokens_per_s", (("samples_per_s",), ("seq_len",)), "less"),
    Identity("samples_per_s", (BATCH, ("steps",)), "more", over=SPAN),
    Identity("tokens_per_s", (BATCH, ("seq_len",), ("steps",)), "more", over=SPAN),
    Identity("device_time_s", (SPAN,), "more"),
    Identity("cost", (("price_per_s",), SPAN), "more"),
    Identity("cost", (("price_per_s",), ("device_time_s",)), "more"),
    Identity("energy_j", (("power_w",), SPAN), apart=POWER),
    Identity("energy_j", (("power_w",), ("device_time_s",)), apart=POWER),
)

TOKENS = re.compile(r"(?i)(?<![\w.])(\d+(?:\.\d+)?) ?(k|m|b|t|million|billion|trillion) tokens")
COUNT = re.compile(r"(?i)(?<![\w.])(\d+(?:\.\d+)?)(k?) (?:gpus|devices|chips|tpus)\b")


@dataclass(frozen=True)
class Product:
    """A figure of a row beside the factors that make it.

    `readings`: result over product, without (False) and with (True) the devices as a factor. `is_own`: whether all
    figures are measured ones of the row itself.
    """

    row: ReportedRow
    result: Quantity
    factors: Sequence[Quantity]
    over: Quantity | None
    devices: int | None
    readings: dict[bool, PrintedInterval]
    is_own: bool

    def value(self, whole: bool) -> float:
        """The product, with (`whole`) or without the devices, of the figures as they are printed."""
        factors = prod(factor.value for factor in self.factors) * (self.devices or 1 if whole else 1)
        return factors / (self.over.value if self.over else 1.0)

    def is_computed(self, whole: bool) -> bool:
        """Whether the result is the product to its last digit, or to half a percent: somebody computed it."""
        apart = max(self.result.resolution, COMPUTED * self.result.value)
        precise = self.result.resolution <= COMPUTED_DIGITS * self.result.value
        return whole in self.readings and precise and abs(self.value(whole) - self.result.value) <= apart

    @property
    def fitting(self) -> set[bool]:
        return {whole for whole, ratio in self.readings.items() if ratio.contains(1.0, FITS)}

    def is_odd(self, whole: bool, apart: float) -> bool:
        """Whether it does not follow with (`whole`) or without the devices as a factor, however it is read."""
        near = [ratio.contains(1.0, apart) or _is_misread(ratio) for ratio in self.readings.values()]
        return whole in self.readings and not any(near)

    def breaks(self, alone: str) -> bool:
        """Whether it is wrong whatever other rows say."""
        ratios = self.readings.values()
        if not self.is_own or any(map(_is_misread, ratios)):
            return False
        if alone == "equal":
            return not any(ratio.contains(1.0, FITS) for ratio in ratios)
        if alone == "at most":
            is_known = self.devices is not None or self.factors[0].per_device is False
            return is_known and all(ratio.low > 1 + SLOWEST_RANKS for ratio in ratios)
        # The slowest rank of each step may be another one.
        several = self.factors[0].kind == "steps" and self.row.devices != 1
        return alone == "at least" and all(r.high < 1 - (SLOWEST_RANKS if several else TOLERANCE) for r in ratios)

    def sentence(self, whole: bool, others: int) -> str:
        """What follows from the factors, what is stated, and how many rows of the table show that it is meant."""
        by_devices = [str(self.devices)] if whole and self.devices not in (None, 1) else []
        terms = " x ".join([*(q.printed for q in self.factors), *by_devices])
        if self.over:
            terms += f" / {self.over.printed}"
        stated, unit = self.result.figure_and_unit
        right = number(stated * self.value(whole) / self.result.value, 4)
        fits = f"; {plural(others, 'other row')} of the table follow" if others else ""
        verb = "are" if self.result.kind in COUNTED else "is"
        return f"{terms} = {right}{unit}, given {verb} {self.result.printed}{fits}"


def _wrong_ones(products: list[Product], identity: Identity) -> Iterator[tuple[Product, str]]:
    """Yield each wrong product with a sentence: wrong whatever other rows say, or where most other rows are right."""
    votes = Counter(whole for p in products for whole in p.fitting)
    whole, fits = votes.most_common(1)[0] if votes else (True, 0)
    odd = [p for p in products if p.is_odd(whole, identity.apart)]
    certain = all(len(p.readings) == 1 for p in products)
    for p in products:
        if p.breaks(identity.alone):
            yield p, p.sentence(max(p.readings), fits)
        elif fits and p in odd:
            direction = "more" if p.readings[whole].low > 1 else "less"
            if identity.innocent == direction:
                enough = sum(other.is_computed(whole) for other in products) >= ROWS_FOR_EACH_ODD_ONE * len(odd)
            else:
                enough = fits >= len(odd) if certain else fits >= ROWS_FOR_EACH_ODD_ONE * len(odd)
            if enough:
                yield p, p.sentence(whole, fits)


def _product(table: ReportedTable, row: ReportedRow, identity: Identity) -> Product | None:
    """The product in a row, where it or its table state the result and all factors; else None."""
    parts = [*identity.factors, identity.over] if identity.over else [*identity.factors]
    chosen = [next((q for kind in names if (q := _stated(table, row, kind))), None) for names in parts]
    figures = [quantity for quantity in chosen if quantity is not None]
    stated = _stated(table, row, identity.result)
    if stated is None or len(figures) < len(parts) or not multiplies(stated, *figures):
        return None
    factors, over = (figures[:-1], figures[-1]) if identity.over else (figures, None)
    product = exact(1.0)
    for factor in factors:
        product = product * _interval(factor)
    if over is not None:
        product = product / _interval(over)
    if not product.low or all(q in table.figures for q in (stated, *figures)):
        return None
    ratio, devices = _interval(stated) / product, _devices(table, row, figures)
    readings = {whole: ratio / float(devices or 1) if whole else ratio for whole in _scopes(stated, factors, devices)}
    is_own = all(q in row.figures and not q.remark for q in (stated, *figures))
    return Product(row, stated, factors, over, devices, readings, is_own) if readings else None


def _scopes(stated: Quantity, factors: Sequence[Quantity], devices: int | None) -> set[bool]:
    """Whether the devices are a factor: {True}, {False}, both where nothing says it, or none that can be used."""
    kinds = {factor.kind for factor in factors}
    per_device = {factor.per_device for factor in factors} - {None}
    if "device_time_s" in kinds:  # of all devices: the rate of one goes with it, never that of all
        return set() if False in per_device else {False}
    if stated.kind == "device_time_s":
        return {True} if devices else set()
    if stated.kind == "total_time_s" or "global_batch_tokens" in kinds:
        return {False}
    if stated.per_device is not None and stated.per_device in per_device:
        return {False}
    scopes = {True} if True in per_device else {False} if per_device else {True, False}
    return scopes if devices else scopes - {True}


def _perplexities(rows: Sequence[ReportedRow]) -> Iterator[tuple[ReportedRow, str]]:
    """The rows whose perplexity is not e to the loss, where it is in as many others or more."""
    pairs = [(row, row.known("perplexity"), row.known("val_loss") or row.known("loss")) for row in rows]
    stated = [(row, ppl, loss, exp(min(loss.value, MOST_NATS))) for row, ppl, loss in pairs if ppl and loss]
    right = [_interval(ppl).contains(e, FITS + loss.resolution) for _, ppl, loss, e in stated]
    odd = [one for one, fits in zip(stated, right, strict=True) if not fits]
    for row, ppl, loss, e in odd if sum(right) >= len(odd) else ():
        if not _interval(ppl).contains(e, DOES_NOT_FOLLOW + loss.resolution):
            others = plural(sum(right), "other row")
            evidence = f"e to the {loss.heading} {loss.printed} is {number(e, 4)}, {ppl.heading} is {ppl.printed}"
            yield row, f"{row.description}: {evidence}; {others} of the table follow"


def _sums_of_columns(figures: FigureTable) -> Iterator[Flag]:
    """The one row in which a column is not the sum of columns side by side that it is, to the digit, in all others."""
    columns = [column for column in figures.columns if not column.is_in_percent]
    rows = len(figures.places)
    for total, first, last in product(columns, range(len(columns)), range(len(columns))):
        parts = columns[first : last + 1]
        if (
            rows <= ROWS_FOR_EACH_ODD_ONE + 1
            or not 2 <= len(parts) <= MOST_PARTS
            or total in parts
            or not total.has_decimals
        ):
            continue
        whole = reduce(add, (part.figures for part in parts))
        equal = (whole.distance(total.figures) == 0) & (total.figures.width + whole.width < COMPUTED * 2)
        odd = np.flatnonzero((whole.distance(total.figures) > APART) & ~equal).tolist()
        if len(odd) == 1 and equal.sum() == rows - 1 and len(set(total.texts)) == rows:
            terms = f"{' + '.join(part.texts[odd[0]] for part in parts)} = {whole.middle[odd[0]]:.5g}"
            given = f"{total.heading} {total.texts[odd[0]]}; in all other rows they are equal"
            yield Flag(f"{figures.names[odd[0]]}: {terms}, {given}", [figures.places[odd[0]]])


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
    """What a figure may have been: counts are exact, and nobody cuts 1.9T off to 1T."""
    if quantity.kind in EXACT and quantity.resolution <= 1:
        return exact(quantity.value)
    if quantity.resolution > COARSE * quantity.value:
        return replace(quantity, resolution=quantity.resolution / 2).interval
    return quantity.interval


def _is_misread(ratio: PrintedInterval) -> bool:
    return not 1 / MISREAD < ratio.middle < MISREAD
