"""Identities over the rows of published tables: whichever figures a row states must fulfil those that they imply."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, prod
from typing import Literal

from scaleproof.auditor.checks.agreements import FEWEST_ROWS
from scaleproof.auditor.checks.context import ROWS_PER_ODD_ROW, AuditContext, of_evidence, rows_that_follow
from scaleproof.auditor.checks.relations import rows_with_another_sum
from scaleproof.auditor.checks.rows import RATE_UNITS, SLOWEST_RANKS_TOLERANCE, TIMES_OF_RUN, multiplies
from scaleproof.auditor.checks.summaries import summaries_follow, totals_not_of_devices
from scaleproof.auditor.read.printed_figures import PREFIXES, figures_of, is_nothing
from scaleproof.auditor.read.reported_tables import PrintedInterval, Quantity, ReportedRow, ReportedTable, exact
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Flag
from scaleproof.ground.number_format import number

TOTAL_TOLERANCE = 0.02  # by which a total may be below its parts
FIT_TOLERANCE = 0.03  # relative difference that printing, medians and means do not explain
CONTRADICTION = 0.10  # relative difference of a row that does not follow
MISREAD_FACTOR = 200.0  # a factor above it is a unit or a magnitude that was misread
COMPUTED_TOLERANCE = 0.005  # relative difference of a figure that was computed from the others
COMPUTED_RESOLUTION = 0.06  # one unit of the last digit of such a figure, relative to it
COARSE_RESOLUTION = 0.1  # one unit of the last digit, relative to a figure that was rounded for certain
MOST_NATS = 100.0  # a loss above it is of something else
POWER_TOLERANCE = 0.16  # relative difference of energy and power x time: power is sampled
BATCH_KINDS = ("global_batch", "micro_batch", "batch")
COUNTED_KINDS = ("tokens", "samples")
EXACT_KINDS = ("steps", "epochs", "seq_len", *BATCH_KINDS)  # settings, unless they are printed as 300k
NO_RUN = re.compile(r"(?i)\b(?:default|example|range|recommended|typical)\b")  # a column of a table of settings
TOKENS_IN_TEXT = re.compile(r"(?i)(?<![\w.])(\d+(?:\.\d+)?) ?(k|m|b|t|million|billion|trillion) tokens")
DEVICES_IN_HEADING = re.compile(r"(?i)(?<![\w.])(\d+(?:\.\d+)?)(k?) (?:gpus|devices|chips|tpus)\b")


@of_evidence.finds("totals-disagree", "suspect")
def totals_follow(context: AuditContext) -> Iterator[Flag]:
    """A total is not made of its parts: rate per device and devices, steps and step time, epochs and epoch time, power
    and time; or a row of means or totals is none of the rows above it.

    Detected: Outside of what the printed digits and 2 % allow. A total time may be longer than its parts (evaluation,
    start-up), never shorter; of steps on several devices not by more than 10 %: the slowest rank of each step may be
    another one, and their times add up to more than the time of any rank. A mean outside of its rows, a total below its
    largest part. A sum that no heading calls a total is a note.
    Seen: Tables whose columns come from different runs.
    Repair: Compute one column from the other, or say what else is in the total.
    """
    summaries = list(summaries_follow(context))
    yield from summaries
    places = {place for flag in summaries for place in flag.about}
    for figures in (figures for table in context.all_tables for figures in context.figures_of(table)):
        yield from (flag for flag in rows_with_another_sum(figures) if places.isdisjoint(flag.about))
    for table in (*context.tables, *context.evidence.settings):
        rows = [row for row in table.rows if row.measured and not _is_of_settings(row, table)]
        for kind in (*RATE_UNITS, "memory_bytes"):
            yield from totals_not_of_devices(rows, kind)
        # Going backwards, earlier flags on a row replace later ones.
        first_of_row = {flag.about[0]: flag for flag in reversed(list(_wrong_rows(table, rows)))}
        yield from first_of_row.values()


def _is_of_settings(row: ReportedRow, table: ReportedTable) -> bool:
    """Whether a row, or a column that was read as one, is called "Default": a mode of that name says nothing."""
    name = row.label if table.grid and row.label in table.grid.header else next(iter(row.texts.values()), row.label)
    return NO_RUN.search(name) is not None


def _wrong_rows(table: ReportedTable, rows: Sequence[ReportedRow]) -> Iterator[Flag]:
    """Flag each row as often as it breaks an identity: steps/s x step time = 1, perplexity = e^loss, IDENTITIES."""
    yield from (Flag(evidence, [row.place]) for row in rows if (evidence := _wrong_steps_per_s(row)))
    yield from _wrong_perplexities(rows)
    if len(rows) < FEWEST_ROWS:  # `products_agree` checks batches where there are more rows
        yield from (flag for row in rows if (flag := _wrong_global_batch(row, table)))
    kinds = table.kinds() | {figure.kind for figure in (*table.figures, *table.above)} | {"tokens"}  # of its text
    possible = [one for one in IDENTITIES if one.result in kinds and not any(map(kinds.isdisjoint, one.factors))]
    for identity in possible:
        # Of each row that states them all: the identity's result, and the factors that make it.
        products = [product for row in rows if (product := _product(table, row, identity))]
        for product, evidence in _contradicting_products(products, identity):
            places = product.row.places_of((product.result, *product.factors))
            yield Flag(f"{product.row.description}: {evidence}", places)


def _wrong_steps_per_s(row: ReportedRow) -> str:
    """Return a sentence where steps/s x step time is not 1 ("2 x 0.25 s = 0.5 steps, not 1"). Returns "" otherwise."""
    rate, time = row.known("steps_per_s"), row.known("step_time_s")
    if rate is None or time is None or rate.per_device or not multiplies(rate, time):
        return ""
    steps = rate.interval * time.interval
    if steps.contains(1.0, 0.05):
        return ""
    return f"{row.description}: {rate.printed} x {time.printed} = {steps.middle:.3g} steps, not 1"


def _wrong_global_batch(row: ReportedRow, table: ReportedTable) -> Flag | None:
    """Flag a row whose global batch is no multiple of micro-batch x accumulation: 46 beside 8 x 4.

    The multiple is the number of replicas. Times the stages of the model, it must divide the devices, if known.
    """
    stated = [_stated(table, row, kind) for kind in ("global_batch", "micro_batch", "accumulation")]
    figures = [figure for figure in stated if figure]
    if len(figures) < len(stated) or not any(figure in row.figures for figure in figures):
        return None

    global_batch, micro_batch, accumulation = (int(figure.value) for figure in figures)
    if micro_batch < 1 or accumulation < 1:  # 0.5 samples are no batch
        return None
    length = int(row.value("seq_len") or 1)
    is_in_tokens = length > 1 and global_batch % length == 0  # then it is not comparable with the micro-batch
    stages = int((row.value("tensor_parallel") or 1) * (row.value("pipeline_parallel") or 1))
    devices = _devices(table, row, ())
    replicas, rest = divmod(global_batch, micro_batch * accumulation)
    fits = replicas == 1 or not devices or (replicas * stages <= devices and devices % (replicas * stages) == 0)
    if (replicas and not rest and fits) or is_in_tokens:
        return None

    terms = " x ".join(f"{figure.heading} {figure.printed}" for figure in figures[1:])
    of_devices = f" on {plural(devices, 'device')}" if devices else ""
    product = f"{terms} = {micro_batch * accumulation}, which gives no global batch of {global_batch}{of_devices}"
    return Flag(f"{row.description}: {product}", row.places_of(figures))


@dataclass(frozen=True)
class Identity:
    """A kind of figure that is a product of others, perhaps x devices: total time = steps x step time.

    `factors`: for each factor the kinds that it may be, the first that a row has; `over`: likewise for a divisor.
    `bound`: what a row must fulfil by itself, whatever other rows say. `innocent`: what the result may be for a good
    reason: more (evaluation, storage) or less (restarts, padding). `tolerance`: relative difference of a right row.
    """

    result: str
    factors: tuple[tuple[str, ...], ...]
    innocent: Literal["", "more", "less"] = ""
    bound: Literal["", "equal", "at most", "at least"] = ""
    tolerance: float = CONTRADICTION
    over: tuple[str, ...] = ()


IDENTITIES = (
    Identity("devices", (("devices_per_node",), ("nodes",)), "", "equal"),
    Identity("total_time_s", (("steps",), ("step_time_s",)), "more", "at least"),
    Identity("total_time_s", (("epochs",), ("epoch_time_s",)), "more", "at least"),
    Identity("tokens", (("global_batch",), ("seq_len",), ("steps",)), "", "equal"),
    Identity("global_batch_tokens", (("global_batch",), ("seq_len",)), "", "equal"),
    Identity("tokens", (("global_batch_tokens",), ("steps",)), "", "equal"),
    Identity("tokens", (("tokens_per_s",), ("total_time_s",)), "less", "at most"),
    Identity("tokens", (("tokens_per_s",), ("time_s",)), "less"),
    Identity("tokens", (("tokens_per_s",), ("device_time_s",)), "less"),
    Identity("samples", (("samples_per_s",), TIMES_OF_RUN), "less"),
    Identity("steps", (("steps_per_s",), TIMES_OF_RUN), "less"),
    Identity("tokens_per_s", (("samples_per_s",), ("seq_len",)), "less"),
    Identity("samples_per_s", (BATCH_KINDS, ("steps",)), "more", over=TIMES_OF_RUN),
    Identity("tokens_per_s", (BATCH_KINDS, ("seq_len",), ("steps",)), "more", over=TIMES_OF_RUN),
    Identity("device_time_s", (TIMES_OF_RUN,), "more"),
    Identity("cost", (("price_per_s",), TIMES_OF_RUN), "more"),
    Identity("cost", (("price_per_s",), ("device_time_s",)), "more"),
    Identity("cost_per_token", (("price_per_s",),), "more", over=("tokens_per_s",)),
    Identity("energy_j", (("power_w",), TIMES_OF_RUN), tolerance=POWER_TOLERANCE),
    Identity("energy_j", (("power_w",), ("device_time_s",)), tolerance=POWER_TOLERANCE),
)


@dataclass(frozen=True)
class Product:
    """A figure of a row beside the factors that make it: 1,000 s beside 2,000 steps and 0.5 s.

    `readings`: whether the devices are a factor, where both may be meant -> result over product, 1 if it is right.
    `is_of_row`: whether all figures are measured ones of the row itself.
    """

    row: ReportedRow
    result: Quantity
    factors: Sequence[Quantity]
    over: Quantity | None
    devices: int | None
    readings: dict[bool, PrintedInterval]
    is_of_row: bool

    def value(self, with_devices: bool) -> float:
        """Return the product of the figures as they are printed, with or without the devices as a factor."""
        factors = prod(factor.value for factor in self.factors) * (self.devices or 1 if with_devices else 1)
        return factors / (self.over.value if self.over else 1.0)

    def is_computed(self, with_devices: bool) -> bool:
        """Whether the result was computed as this product, not measured: it is equal, and has digits enough to tell."""
        tolerance = max(self.result.resolution, COMPUTED_TOLERANCE * self.result.value)
        has_digits = self.result.resolution <= COMPUTED_RESOLUTION * self.result.value
        is_equal = abs(self.value(with_devices) - self.result.value) <= tolerance
        return with_devices in self.readings and has_digits and is_equal

    def contradicts(self, with_devices: bool, tolerance: float) -> bool:
        """Whether the result is another number than the product under all readings, of which `with_devices` is one."""
        if with_devices not in self.readings or _is_misread(self.readings[with_devices]):
            return False
        return not any(ratio.contains(1.0, tolerance) for ratio in self.readings.values())

    def has_other_result(self, with_devices: bool) -> bool:
        """Whether another figure of its kind in the row is what the product gives: 29 of the 50 tokens came."""
        of_kind = (text for heading, text in self.row.texts.items() if self.result.kind in heading.lower())
        values = [figure.value for text in of_kind for figure in figures_of(text)]
        return any(abs(self.value(with_devices) - value) <= CONTRADICTION * value for value in values)

    def breaks(self, bound: str) -> bool:
        """Whether the row breaks a `bound` of Identity under all readings: 500 s are not "at least" 2,000 x 0.5 s."""
        ratios = self.readings.values()
        if not self.is_of_row or any(map(_is_misread, ratios)):
            return False
        if bound == "equal":
            return not any(ratio.contains(1.0, FIT_TOLERANCE) for ratio in ratios)
        if bound == "at most":
            # Without the number of devices, a rate that does not say whose it is may be that of one device.
            is_of_all = self.devices is not None or self.factors[0].per_device is False
            return is_of_all and all(ratio.low > 1 + SLOWEST_RANKS_TOLERANCE for ratio in ratios)
        # Times of steps are of the slowest rank, which may be another one in each step: their sum may be too large.
        has_ranks = self.factors[0].kind == "steps" and self.row.devices != 1
        least = 1 - (SLOWEST_RANKS_TOLERANCE if has_ranks else TOTAL_TOLERANCE)
        return bound == "at least" and all(ratio.high < least for ratio in ratios)

    def sentence(self, with_devices: bool, others: int) -> str:
        """Return "2000 x 0.5 s = 1,000 s, given is 500 s; 3 other rows follow it". `others`: the 3."""
        by_devices = [str(self.devices)] if with_devices and self.devices not in (None, 1) else []
        terms = " x ".join([*(factor.printed for factor in self.factors), *by_devices])
        if self.over:
            terms += f" / {self.over.printed}"
        stated, unit = self.result.figure_and_unit  # as printed, not in the base unit
        right = number(stated * self.value(with_devices) / self.result.value, 4)
        follow = f"; {rows_that_follow(others)}" if others else ""
        verb = "are" if self.result.kind in COUNTED_KINDS else "is"
        return f"{terms} = {right}{unit}, given {verb} {self.result.printed}{follow}"


def _contradicting_products(products: list[Product], identity: Identity) -> Iterator[tuple[Product, str]]:
    """Yield each product that breaks the identity, with a sentence that says so.

    A product is wrong if it breaks the bound of the identity, or if enough other rows are right. The right rows also
    show whether the devices are a factor. A result that is off in the `innocent` direction is wrong only where most
    others were computed, not measured: then evaluation, restarts and the like explain nothing.
    """
    readings = (item for product in products for item in product.readings.items())
    votes = Counter(with_devices for with_devices, ratio in readings if ratio.contains(1.0, FIT_TOLERANCE))
    with_devices, right_count = votes.most_common(1)[0] if votes else (True, 0)
    wrong = [product for product in products if product.contradicts(with_devices, identity.tolerance)]
    computed_count = sum(product.is_computed(with_devices) for product in products)
    have_one_reading = all(len(product.readings) == 1 for product in products)

    for product in products:
        if product.breaks(identity.bound):
            usual = with_devices if with_devices in product.readings else max(product.readings)
            yield product, product.sentence(usual, right_count)
        elif right_count and product in wrong and not product.has_other_result(with_devices):
            is_innocent = identity.innocent == ("more" if product.readings[with_devices].low > 1 else "less")
            witnesses = computed_count if is_innocent else right_count
            # One right row for each wrong one suffices where nothing else can be meant.
            witnesses_per_wrong_row = 1 if have_one_reading and not is_innocent else ROWS_PER_ODD_ROW
            if witnesses >= witnesses_per_wrong_row * len(wrong):
                yield product, product.sentence(with_devices, right_count)


def _product(table: ReportedTable, row: ReportedRow, identity: Identity) -> Product | None:
    """Return the product of an identity in a row; its table, or the text above, may state some of the figures.

    Returns None where a figure is missing, where the row itself states none of them, or where no reading makes sense.
    """
    if (result := _stated(table, row, identity.result)) is None:
        return None
    factors = [figure for kinds in identity.factors if (figure := _first_stated(table, row, kinds))]
    over = _first_stated(table, row, identity.over)
    has_divisor = over is not None or not identity.over
    if len(factors) < len(identity.factors) or not has_divisor:
        return None
    figures = [result, *factors, *filter(None, [over])]
    if not multiplies(*figures) or all(figure in table.figures for figure in figures):
        return None

    product = exact(1.0)
    for factor in factors:
        product = product * _possible_values(factor)
    if over is not None:
        product = product / _possible_values(over)
    if not product.low:
        return None

    ratio = _possible_values(result) / product
    devices = _devices(table, row, figures[1:])
    answers = _possible_readings(result, factors, devices)  # to "are devices a factor?"
    readings = {with_devices: ratio / float(devices or 1) if with_devices else ratio for with_devices in answers}
    is_of_row = all(figure in row.figures and not figure.remark for figure in figures)
    return Product(row, result, factors, over, devices, readings, is_of_row) if readings else None


def _first_stated(table: ReportedTable, row: ReportedRow, kinds: Sequence[str]) -> Quantity | None:
    """Return the figure of the first of `kinds` that a row, its table or the text above states; None without any."""
    return next((figure for kind in kinds if (figure := _stated(table, row, kind))), None)


def _possible_readings(stated: Quantity, factors: Sequence[Quantity], devices: int | None) -> set[bool]:
    """Return the answers to "are devices a factor?": {True} for a rate per device and total tokens, both if unknown.

    Empty where the figures do not go together: the time of all devices with the rate of all.
    """
    if stated.kind == "devices":
        return {False}
    kinds = {factor.kind for factor in factors}
    per_device = {factor.per_device for factor in factors} - {None}
    if "device_time_s" in kinds:  # of all devices: the rate of one goes with it, never that of all
        return set() if False in per_device else {False}
    if stated.kind == "device_time_s":
        return {True} if devices else set()
    if stated.kind == "total_time_s" or "global_batch_tokens" in kinds:
        return {False}
    if stated.per_device is not None and stated.per_device in per_device:
        return {False}  # both are of one device, or both of all
    if True in per_device:
        return {True} if devices else set()
    return {True, False} if devices and not per_device else {False}


def _wrong_perplexities(rows: Sequence[ReportedRow]) -> Iterator[Flag]:
    """Flag rows whose perplexity is not e to the loss, though it is in most rows: 25 beside a loss of 3.0."""
    right_count, wrong_count = 0, 0
    far_off: list[tuple[ReportedRow, str]] = []  # the rows that are clearly wrong, and what is wrong
    for row in rows:
        perplexity, loss = row.known("perplexity"), row.known("val_loss") or row.known("loss")
        if not perplexity or not loss:
            continue
        expected, printed = exp(min(loss.value, MOST_NATS)), _possible_values(perplexity)
        if printed.contains(expected, FIT_TOLERANCE + loss.resolution):
            right_count += 1
            continue
        wrong_count += 1
        if not printed.contains(expected, CONTRADICTION + loss.resolution):
            terms = f"e to the {loss.heading} {loss.printed} is {number(expected, 4)}"
            far_off.append((row, f"{terms}, {perplexity.heading} is {perplexity.printed}"))

    for row, evidence in far_off if right_count >= wrong_count else ():
        yield Flag(f"{row.description}: {evidence}; {rows_that_follow(right_count)}", [row.place])


def _stated(table: ReportedTable, row: ReportedRow, kind: str) -> Quantity | None:
    """Return the usable figure of a row, or else of its table or of the paragraph above. Returns None without any.

    Tokens may also stand in the heading of a time, "Training Time (9T tokens)", or of the table.
    """
    figure = row.figure(kind)
    if figure is not None:
        is_usable = figure.value > 0 and not figure.bound and figure.unit_stated and not is_nothing(figure.text)
        return figure if is_usable else None
    if kind == "tokens":
        time = next((time for name in TIMES_OF_RUN if (time := row.figure(name))), None)
        return _tokens_in(f"{time.heading if time else ''} . {table.caption} . {table.heading}")
    return _stated_by_table(table, kind)


def _tokens_in(text: str) -> Quantity | None:
    """Return the number of tokens that a text states, as "9T tokens". Returns None where it states none or several."""
    matches = {match[0]: match for match in TOKENS_IN_TEXT.finditer(text)}  # a number stated twice counts once
    if len(matches) != 1:
        return None
    ((printed, match),) = matches.items()
    magnitude = PREFIXES[match[2][0].lower()]  # by its first letter: "b" and "billion" are 1e9
    return Quantity("tokens", value=float(match[1]) * magnitude, text=printed, heading=text)


def _devices(table: ReportedTable, row: ReportedRow, factors: Sequence[Quantity]) -> int | None:
    """Return the devices that the heading of a time names ("10T tokens, 1K GPUs"), else the row's, else the table's."""
    for factor in factors:
        if match := DEVICES_IN_HEADING.search(factor.heading):
            return round(float(match[1]) * (1024 if match[2] else 1))
    stated = _stated_by_table(table, "devices")
    return row.devices or (int(stated.value) if stated else None)


def _stated_by_table(table: ReportedTable, kind: str) -> Quantity | None:
    """Return the figure that a table, else the paragraph above it, states for all of its rows; None without one."""
    return next((figure for figure in (*table.figures, *table.above) if figure.kind == kind), None)


def _possible_values(quantity: Quantity) -> PrintedInterval:
    """Return what a figure may have been before it was printed: a count is exact, "1T" was 0.5T to 1.5T.

    A coarse figure was rounded, half a digit either way: nobody cuts 1.9T off to 1T. A finer one may be off by a digit.
    """
    if quantity.kind in EXACT_KINDS and quantity.resolution <= 1:
        return exact(quantity.value)
    if quantity.resolution > COARSE_RESOLUTION * quantity.value:
        return replace(quantity, resolution=quantity.resolution / 2).interval
    return quantity.interval


def _is_misread(ratio: PrintedInterval) -> bool:
    """Whether a result is so far off that a unit or a magnitude was misread, so that nothing is said of it."""
    return not 1 / MISREAD_FACTOR < ratio.middle < MISREAD_FACTOR
