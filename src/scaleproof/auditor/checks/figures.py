"""Single figures of published tables: what cannot be, what was copied, what was not measured."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice, pairwise
from operator import attrgetter

from scaleproof.auditor.checks.context import AuditContext, listed, of_evidence
from scaleproof.auditor.checks.feasibility import LARGEST_SHARE
from scaleproof.auditor.checks.rows import MEASURED, MOST_ROWS, RATES, places
from scaleproof.auditor.read.printed_figures import figures_of
from scaleproof.auditor.read.reported_tables import Quantity, ReportedRow, ReportedTable, Statistic, TableColumn
from scaleproof.ground.campaign.strategies import SHARDING
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Flag

SHARE_KINDS = ("utilization", "communication_share", "memory_share")
ORDER_OF_TIMES: tuple[Statistic, ...] = ("min", "p50", "median", "p90", "p95", "p99", "max")
ORDER_OF_RATES: tuple[Statistic, ...] = ("min", "median", "max")  # 99 % of a rate may be what 99 % of the steps reach
MEAN_AND_ENDS: tuple[Statistic, ...] = ("min", "mean", "max")
FEWEST_SHARED_DIGITS = 10  # significant digits that two rows do not share by chance
FEWEST_SHARED_FIGURES = 3  # different figures that two series do not share by chance

# The largest device of a name, by the data sheets of NVIDIA.
DEVICE_MEMORY_GB = {"V100": 32, "T4": 16, "P100": 16, "A100": 80, "H100": 96, "H200": 141, "L4": 24, "A40": 48}
DEVICE_MEMORY_GB |= {"L40S": 48, "A6000": 48, "A10": 24, "A10G": 24, "3090": 24, "4090": 24, "5090": 32, "4080": 16}
IN_BRACKETS = re.compile(r"[(\[]([^()\[\]]*)[)\]]")
SIZES = ("devices", "nodes", "processes", "devices_per_node")
MAY_BE_NONE = re.compile(r"(?i)gpu|accelerator|card|tpu|worker")  # of a CPU, of a loader of data
OF_DIFFERENCES = re.compile(
    r"(?i)Δ|delta|diff|change|vs\b|versus|gain|saving|overhead|gap|relative|improve|drift|slack"
)
GB_BYTES = 2.0**30 * 1.08  # bytes; some programs divide by 1e9
DEVICE_MEMORY_HEADING = re.compile(r"(?i)gpu|vram|device|cuda|peak|alloc")

# NVIDIA devices from Ampere on, as drivers and people name them. "RTX 6000" and "RTX 8000" alone are Turing.
TF32_DEVICES = re.compile(
    r"(?i)(?<![a-z0-9])(?:[ah][18]00|h20|h200|gh200|g?b[123]00|a2|a10g?|a16|a30|a40|l4|l20|l40s?|orin|"
    r"(?:rtx ?)?[345]0[5-9]0|rtx ?a\d{4}|a[2456]000|rtx pro \d{4}|rtx ?\d{4} ada)(?![0-9])"
)
IN_16_BITS = re.compile("fp16|bf16|float16")


@of_evidence.finds("figure-impossible", "invalid")
def figures_are_possible(context: AuditContext) -> Iterator[Flag]:
    """A share above 100 %, or statistics that are out of order: a median above the maximum, a mean below the minimum;
    more memory than the device has; a negative time, rate or number of devices, no nodes or ranks.

    Detected: Utilization, share of communication or of memory above 1, whatever the rounding; min, median, percentiles
    and max of one figure that fall; memory of one device above that of the largest of its name; one cell below 0 in a
    column of times, rates or devices; 0 nodes or ranks beside other numbers of them.
    Repair: Look at what the figure is a share or a statistic of.
    """
    for table in context.tables:
        # "100 % (baseline)" in a column of memory: its per cents are of that, not of a device.
        memory = (figure for row in table.rows for figure in row.all_of("memory_share"))
        relative_headings = {figure.heading for figure in memory if re.search(r"\b100(?:\.0+)?\s?\\?%", figure.text)}
        for row in table.rows:
            if row.measured:
                yield from _shares_above_one(row, relative_headings)
                yield from _statistics_out_of_order(row)
                yield from _more_memory_than_device(row, table)
        rows = [row for row in table.rows if row.measured and not OF_DIFFERENCES.search(row.label)]
        measured = [column.heading for column in table.columns if column.kind in MEASURED]
        rows = [
            row
            for row in rows  # no remark in a row
            if any(f.kind not in SIZES and f.value for f in row.figures)
            or any(figures_of(row.texts.get(heading, "")) for heading in measured)
        ]
        for column in table.columns:
            yield from _not_above_zero(rows, column)


def _shares_above_one(row: ReportedRow, relative_headings: set[str]) -> Iterator[Flag]:
    """Flag percentages, as of communication, that are above 100 % whatever their rounding: 103.2 %."""
    for quantity in row.figures:
        # 0.94 of "94 %"; "94 (95)" below "median % (p95)" was not understood as such.
        is_divided = quantity.value < quantity.figure_and_unit[0]
        in_percent = quantity.kind in SHARE_KINDS and "%" in quantity.text + quantity.heading and is_divided
        is_change = quantity.text.lstrip().startswith("+")
        is_share = in_percent and not is_change and quantity.heading not in relative_headings
        if is_share and quantity.interval.low > LARGEST_SHARE:
            yield Flag(f"{row.description}: {quantity.heading} is {quantity.printed}", [row.place])


def _statistics_out_of_order(row: ReportedRow) -> Iterator[Flag]:
    """Flag statistics of one figure that fall from min to max, or a mean beyond them: p50 12.0 ms, p99 11.0 ms."""
    of_times = {figure.statistic for figure in row.figures if figure.kind.endswith("time_s")}
    for kind, statistics in _statistics_by_figure(row):
        ends = [statistics[name].value for name in ("min", "max") if name in statistics and name in of_times]
        if kind.endswith("per_s") and len(ends) == 2 and ends[0] > ends[1]:
            continue  # "min" is the rate of the least time, above that of the most
        for order in (ORDER_OF_RATES if kind in RATES else ORDER_OF_TIMES, MEAN_AND_ENDS):
            present = [statistics[name] for name in order if name in statistics]
            for low, high in pairwise(present):
                if low.interval.low > high.interval.high * LARGEST_SHARE:  # by more than rounding and half a percent
                    evidence = f"{low.heading} {low.printed} is above {high.heading} {high.printed}"
                    yield Flag(f"{row.description}: {evidence}", [row.place], severity="suspect")


def _statistics_by_figure(row: ReportedRow) -> Iterator[tuple[str, dict[Statistic, Quantity]]]:
    """Yield (kind, its statistics) for each figure of a row: ("step_time_s", {"p50": 12.0 ms, "p99": 13.0 ms})."""
    by_figure: dict[tuple[str, bool | None, str | None, str], dict[Statistic, Quantity]] = defaultdict(dict)
    for quantity in row.figures:
        if quantity.statistic is not None and quantity.unit_stated and not quantity.bound:
            of_what = "".join(IN_BRACKETS.findall(quantity.heading))  # "stale gradients" of "Max (stale gradients)"
            # Only statistics that are equal in all four are of one figure.
            statistics = by_figure[(quantity.kind, quantity.per_device, quantity.item, of_what)]
            statistics.setdefault(quantity.statistic, quantity)
    for (kind, *_), statistics in by_figure.items():
        yield kind, statistics


def _more_memory_than_device(row: ReportedRow, table: ReportedTable) -> Iterator[Flag]:
    """Flag memory of one device above that of the largest of its name: 90 GB on an A100, which has 80 GB."""
    device = row.words.get("device") or table.words.get("device") or ""
    size = next((size for name, size in DEVICE_MEMORY_GB.items() if name in device.replace("-", " ").split()), 0)
    for used in row.all_of("memory_bytes"):
        of_one = used.per_device or (row.devices == 1 and used.per_device is None)
        if size and of_one and DEVICE_MEMORY_HEADING.search(used.heading) and used.interval.low > size * GB_BYTES:
            evidence = f"{used.heading} {used.printed}; {device} has at most {size} GB"
            yield Flag(f"{row.description}: {evidence}", [row.place])


def _not_above_zero(rows: Sequence[ReportedRow], column: TableColumn) -> Iterator[Flag]:
    """Flag the one cell of a column that is impossible: -12.4 samples/s, 0 nodes. -1 and -99 stand for "not known"."""
    if column.kind not in (*MEASURED, *SIZES) or OF_DIFFERENCES.search(column.heading):
        return
    cells = [(row, row.texts.get(column.heading, "")) for row in rows]
    figures = [(row, cell, read[0].value) for row, cell in cells if (read := figures_of(cell)) and "%" not in cell]

    allows_zero = column.kind not in SIZES or MAY_BE_NONE.search(column.heading)
    odd = [(row, cell) for row, cell, value in figures if value < 0 or (value == 0 and not allows_zero)]
    if len(odd) == 1 and len(figures) > 2 and not re.fullmatch(r"[-−](?:[1-9]|99+|100)(?:\.0+)?\D*", odd[0][1]):
        row, cell = odd[0]
        yield Flag(f"{row.description}: {column.heading} is {cell}", [row.place])


@of_evidence.finds("figures-copied", "suspect")
def measurements_do_not_repeat(context: AuditContext) -> Iterator[Flag]:
    """Two rows of different sizes have the same measured figures to the last digit. Measurements never repeat like
    that: one row is a copy.

    Detected: Equal rates or times, ten significant digits or more together, in rows with different devices.
    Seen: A CPU run and a GPU run that both took 23295.6115 s.
    Repair: Look at the raw files of both rows.
    """
    for table in context.tables:
        rows = list(islice((row for row in table.rows if row.measured and row.devices), MOST_ROWS))
        by_size: dict[int, list[ReportedRow]] = defaultdict(list)
        for row in rows:
            by_size[row.devices or 0].append(row)
        for row, other in combinations(rows, 2):
            shared = _shared_figures(row, other) if row.devices != other.devices else []
            if _total_digits(shared) >= FEWEST_SHARED_DIGITS:
                yield _copied_rows([row, other], shared)
        for first, second in combinations(by_size.values(), 2):
            yield from _sizes_copied(first, second)


def _sizes_copied(first: list[ReportedRow], second: list[ReportedRow]) -> Iterator[Flag]:
    """Flag two sizes whose rows are equal one by one, though each has too few digits to tell a copy by itself."""
    pairs = [_shared_figures(row, other) for row, other in zip(first, second, strict=False)]
    if len(first) != len(second) or len(first) < FEWEST_SHARED_FIGURES or not all(pairs):
        return
    shared = [quantity for pair in pairs for quantity in pair]
    are_several = len({quantity.text for quantity in shared}) >= FEWEST_SHARED_FIGURES
    # A pair that tells by itself has been flagged before.
    if are_several and _total_digits(shared) >= FEWEST_SHARED_DIGITS > max(map(_total_digits, pairs)):
        yield _copied_rows([*first, *second], shared)


def _copied_rows(rows: Sequence[ReportedRow], shared: Iterable[Quantity]) -> Flag:
    """Flag `rows` that have the figures `shared` in common: "DDP, FSDP: the same step time 12.345 s"."""
    same = listed(f"{quantity.heading} {quantity.printed}" for quantity in shared)
    names = ", ".join(dict.fromkeys(row.description for row in rows))
    return Flag(f"{names}: the same {same}", places(rows))


def _shared_figures(row: ReportedRow, other: ReportedRow) -> list[Quantity]:
    """Return the measured figures of a row that the other row has, too, alike in text, kind, statistic and scope.

    Rows that come from one line share its columns: "2 GPU (s)" and "4 GPU (s)" both have its "Total (s)".
    """
    as_printed = attrgetter("kind", "statistic", "per_device", "text")
    of_line = row.texts if row.place == other.place else {}
    of_other = set(map(as_printed, other.figures))
    measured = (quantity for quantity in row.figures if quantity.kind in MEASURED and not quantity.bound)
    return [quantity for quantity in measured if quantity.heading not in of_line and as_printed(quantity) in of_other]


def _total_digits(quantities: Iterable[Quantity]) -> int:
    """Count the significant digits of all figures together: 3 in "0.0123", 2 in "1,200"."""
    total = 0
    for quantity in quantities:
        number = re.search(r"\d[\d,]*(?:\.\d+)?", quantity.text)
        digits = number[0].replace(",", "") if number else ""
        if "." not in digits:
            digits = digits.rstrip("0")  # the zeros of a whole number may be from rounding
        total += len(digits.replace(".", "").lstrip("0"))
    return total


@of_evidence.finds("projected-beside-measured", "note")
def rows_were_measured(context: AuditContext) -> Iterator[Flag]:
    """Rows that were projected, estimated or taken from elsewhere stand in one table with measured ones.

    Detected: The row or its heading says so.
    Seen: rows marked “(proj)” beside measured ones.
    Repair: Put them into a table of their own.
    """
    marks = {"projected", "theoretical", "estimated", "reference"}
    for table in context.tables:
        marked = [row for row in table.rows if row.remarks & marks]
        if marked and len(marked) < len(table.rows):
            names = listed(f"{row.description} ({', '.join(sorted(row.remarks & marks))})" for row in marked)
            yield Flag(f"beside {plural(len(table.rows) - len(marked), 'measured row')}: {names}", places(marked))


@of_evidence.finds("sharding-one-device", "note")
def shards_need_devices(context: AuditContext) -> Iterator[Flag]:
    """ZeRO and FSDP divide state among devices; with one there is nothing to divide, and what is measured is their
    overhead.

    Detected: World size 1 with a sharding strategy.
    Seen: ZeRO stages and precisions on one H100: read as a result about ZeRO.
    Repair: Label it overhead only, or use two devices and more.
    """
    for table in context.tables_and_runs:
        sharded = (row for row in table.rows if row.words.get("strategy") in SHARDING or row.value("zero_stage"))
        if alone := [row for row in sharded if row.devices == 1]:
            yield Flag(f"one device: {listed(dict.fromkeys(row.name for row in alone))}", places(alone))


@of_evidence.finds("fp32-without-tf32", "note")
def tf32_was_on(context: AuditContext) -> Iterator[Flag]:
    """fp32 without TF32 does not use the tensor cores. A gain of 16 bits over it is mostly the gain of using them.

    Detected: fp32 runs beside 16-bit runs, none of them TF32, on an NVIDIA device that has TF32 (Ampere and later).
    Seen: ZeRO stages and precisions on one H100: “3.1 times” over strict fp32.
    Repair: Add TF32 as a row (torch.backends.cuda.matmul.allow_tf32), and bf16.
    """
    for table in context.tables_and_runs:
        in_16_bits = [row for row in table.rows if IN_16_BITS.search(row.words.get("precision", ""))]
        sizes = {row.devices for row in in_16_bits}
        in_fp32 = [row for row in table.rows if row.words.get("precision") in ("fp32", "float32")]
        beside = [row for row in in_fp32 if row.devices in sizes and _tf32_matters(row, table)]
        if beside and not any(row.words.get("precision") == "tf32" for row in table.rows):
            evidence = f"{len(beside)} in fp32 beside {len(in_16_bits)} in 16 bits; nothing says whether TF32 was on"
            yield Flag(evidence, places(beside))


def _tf32_matters(row: ReportedRow, table: ReportedTable) -> bool:
    """Whether a row is of a device with TF32 and has a figure of speed: TF32 does not change memory or accuracy."""
    named = " ".join(text for text in (row.words.get("device"), table.words.get("device")) if text)
    has_tf32 = TF32_DEVICES.search(named.replace("-", " ")) is not None
    return has_tf32 and any(row.figure(kind) for kind in (*MEASURED, "speedup", "mfu"))


@of_evidence.finds("batches-compared", "note")
def batches_are_equal(context: AuditContext) -> Iterator[Flag]:
    """Strategies are compared at different batches. A larger batch spreads the fixed cost of a step over more samples:
    part of the difference is the batch, not the strategy.

    Detected: Rows with rates, equal in devices and model: each strategy has one batch, the largest at least twice the
    smallest.
    Seen: DDP at a global batch of 24 beside ZeRO-3 at 160.
    Repair: Measure all of them at one batch, too.
    """
    for table in context.tables:
        groups: dict[tuple[object, ...], list[ReportedRow]] = defaultdict(list)
        for row in table.rows:
            if row.measured and any(row.figure(kind) for kind in RATES):
                words = tuple(row.words.get(word) for word in ("model", "dataset", "device"))
                groups[(row.devices, row.value("seq_len"), *words)].append(row)
        for rows in groups.values():
            yield from _strategies_with_own_batch(rows)


def _strategies_with_own_batch(rows: list[ReportedRow]) -> Iterator[Flag]:
    """Flag rows whose strategies have one batch each, the largest twice the smallest or more: ddp 24, zero3 160."""
    # Of one kind: the global batch of a row is not compared with the micro-batch of another.
    kinds = ("global_batch", "batch", "micro_batch")
    kind = next((kind for kind in kinds if all(row.value(kind) for row in rows)), None)
    strategies = [row.words.get("strategy") or row.words.get("run") for row in rows]
    if kind is None or None in strategies:
        return  # a row of unknown strategy may be of any

    batches: dict[str | None, set[float]] = defaultdict(set)
    for strategy, row in zip(strategies, rows, strict=True):
        batches[strategy].add(row.value(kind) or 0.0)
    if len(batches) < 2 or any(len(sizes) > 1 for sizes in batches.values()):
        return  # one strategy, or a sweep over batches
    batch_of = {strategy: next(iter(sizes)) for strategy, sizes in batches.items()}
    if max(batch_of.values()) >= 2 * min(batch_of.values()):
        named = listed(f"{strategy} {batch:g}" for strategy, batch in batch_of.items())
        yield Flag(f"rates of {len(batch_of)} strategies at different batches: {named}", places(rows))
