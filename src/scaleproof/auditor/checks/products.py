"""Products of columns that are one number in all rows: rate x time is the work, FLOP/s over rate the FLOPs of a sample.

The number itself need not be known, nor what exactly a column is of: devices and batch are factors where most of the
rows say so.
"""

import re
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from scaleproof.auditor.checks.agreements import (
    BATCHES,
    COUNTS,
    DEVICES,
    DURATIONS,
    FEWEST_ROWS,
    NEAR_WHOLE,
    RATES,
    REPLICAS,
    SIZE_KINDS,
    STAGES,
    Agreement,
    Factor,
    is_same_configuration,
    sentence_of,
)
from scaleproof.auditor.checks.columns import FigureColumn, FigureTable, groups_of
from scaleproof.auditor.checks.context import SAME_TOLERANCE, AuditContext, of_evidence
from scaleproof.auditor.checks.efficiencies import efficiencies_follow
from scaleproof.auditor.checks.explanations import columns_follow
from scaleproof.auditor.checks.formulas import SPEEDUP_HEADING
from scaleproof.auditor.checks.identities import totals_follow
from scaleproof.auditor.checks.relations import rows_with_another_product
from scaleproof.auditor.checks.rows import name_two_precisions
from scaleproof.auditor.checks.step_work import rate_times_time
from scaleproof.auditor.read.headings import OF_STATED_WORK, column_of
from scaleproof.auditor.read.printed_figures import RESULTS
from scaleproof.auditor.read.surroundings import UNIT_AT_END, numbers_around, works_of
from scaleproof.ground.findings.registry import Flag

FACTORS_OF_STEP = 4  # FLOP/s x time x devices / batch
THOUSAND = 1000.0
TIMES_OF_RATES = ("step_time_s", "epoch_time_s", "total_time_s")
OTHER_PARALLEL = re.compile(r"(?i)(?:cp|ep|context|expert)\b.*")  # then devices are not replicas x stages alone
EVIDENCE_OF_INVERSE = 6.0  # evidence that one of two columns is the inverse of what it is called
EVIDENCE_OF_INVERSE_SPEEDUP = 2.5  # likewise, where one of the two columns is called a speed-up


class ProductPattern(NamedTuple):
    """Kinds of columns whose product is constant in rows of the same work: rate x time."""

    first_kinds: tuple[str, ...]
    second_kinds: tuple[str, ...]
    exponent: int  # of the second column
    further_kinds: tuple[tuple[str, ...], ...] = ()  # for each further factor or divisor that there may be


# Where one of these products is constant, one column is the inverse of what it is called. -> evidence that is needed
INVERTED = {
    ProductPattern(DURATIONS, DURATIONS, 1): EVIDENCE_OF_INVERSE,
    ProductPattern(RATES, DURATIONS, -1): EVIDENCE_OF_INVERSE,
    ProductPattern(RATES, RATES, 1): EVIDENCE_OF_INVERSE,
    ProductPattern(("speedup",), DURATIONS, -1): EVIDENCE_OF_INVERSE_SPEEDUP,
    ProductPattern(("speedup",), RATES, 1): EVIDENCE_OF_INVERSE_SPEEDUP,
}
RATE_TIMES_DURATION = ProductPattern(RATES, DURATIONS, 1, (DEVICES, BATCHES))
ENERGY_OVER_POWER = ProductPattern(("energy_j",), ("power_w",), -1, ((*DURATIONS, "device_time_s"), DEVICES))
CONSTANT_PRODUCTS = (
    RATE_TIMES_DURATION,
    ProductPattern(("steps_per_s",), DURATIONS, 1),
    ProductPattern(RATES, RATES, -1, (DEVICES,)),
    ProductPattern(("flops_per_s",), RATES, -1, (DEVICES,)),
    ProductPattern(("flops_per_s",), DURATIONS, 1, (DEVICES, BATCHES)),
    ProductPattern(("mfu", "hfu"), ("flops_per_s",), -1, (DEVICES,)),
    ProductPattern(("mfu", "hfu"), RATES, -1),
    ProductPattern(("mfu",), ("hfu",), -1),
    ProductPattern(DURATIONS, DURATIONS, -1, (COUNTS,)),
    ENERGY_OVER_POWER,
    ProductPattern(("cost",), DURATIONS, -1, (DEVICES,)),
    ProductPattern(("energy_j",), ("cost",), -1),
    ProductPattern(("speedup", "efficiency"), DURATIONS, 1, (DEVICES,)),
    ProductPattern(("speedup", "efficiency"), RATES, -1, (DEVICES,)),
    ProductPattern(COUNTS, BATCHES, 1, (DEVICES,)),
    ProductPattern(BATCHES, BATCHES, -1, ((*DEVICES, *REPLICAS), ("accumulation",))),
    ProductPattern((*DEVICES, "nodes"), REPLICAS, -1),
)

# Checks whose findings on a row leave nothing to add for this one.
MADE_BEFORE = (totals_follow, columns_follow, efficiencies_follow, rate_times_time)

LOGS = (".log", ".out")
OF_ANSWERS = re.compile(r"(?i)concurren|\busers?\b|_users|\brequests?|prompt|completion|\banswer|\bresponse")


@of_evidence.finds("row-stands-out", "suspect")
def products_agree(context: AuditContext) -> Iterator[Flag]:
    """In one row of a table a product is another number than in all other rows: rate x time, although they did the same
    work, or FLOP/s over rate of one model. One of the figures is wrong.

    Detected: Three rows or more of one configuration, whose products agree within 1 % more closely than chance
    explains, and twice as many as are more than 5 % off (MFU: 12 %, unless the others agree to their digits). Devices
    and batch may be factors; replicas x tensor x pipeline stages are the devices. Two rows suffice for MFU over rate,
    and for the time of a stated amount of work, where only the size differs.
    Seen: One rate gives 6,245 images an epoch, all others 5,596 to 5,606.
    Repair: Look at the raw file of that row.
    """
    for table in context.all_tables:
        if table.form == "report text" and table.file.endswith(LOGS):
            continue  # of its lines, those at the end of an epoch are of a smaller batch
        works = works_of(table)  # numbers of samples or tokens that the text states
        numbers = works | numbers_around(table)
        for figures in context.figures_of(table):
            is_of_answers = _is_of_answers(figures)
            flags = list(_outliers(figures, works, is_of_answers))
            if not (is_of_answers and _columns_of(figures, DURATIONS)):
                flags += rows_with_another_product(figures, numbers)
            if flags:  # of each row the first counts; none where another check has a finding on this row alone
                subjects = (finding.runs for check in MADE_BEFORE for finding in context.findings_of(check))
                places = {place for about in subjects if len(about) == 1 for place in about}
                first_of_row = {flag.about[0]: flag for flag in reversed(flags) if not places & set(flag.about)}
                if len(places & {*figures.places}) <= 1:  # rows that are wrong themselves are no witnesses
                    yield from reversed(first_of_row.values())
            yield from _inverse_columns(figures)


def _inverse_columns(figures: FigureTable) -> Iterator[Flag]:
    """Flag two columns of which one is the inverse of what it is called: times 2, 4, 8 s and 0.5, 0.25, 0.125 s."""
    all_rows = list(range(len(figures.places)))
    for pattern, needed_evidence in INVERTED.items():
        for one, other in _pairs_of_columns(figures, pattern):
            if "speedup" in pattern.first_kinds and (
                not SPEEDUP_HEADING.search(one.heading) or len(_columns_of(figures, pattern.second_kinds)) > 1
            ):
                continue  # "0.167 s (2.04x)" may be how many times as long it takes; a ratio of two times follows one
            is_second_time = figures.columns.index(one) >= figures.columns.index(other)
            if pattern.first_kinds == pattern.second_kinds and is_second_time:
                continue  # each pair once, and no column with itself
            if any(
                _is_quotient(one, pair) for column in figures.columns for pair in ((column, other), (other, column))
            ):
                continue  # the speed-up is a ratio to a third column, which hardly varies
            agreement = Agreement((Factor(one, 1), Factor(other, pattern.exponent)), all_rows)
            if agreement.evidence >= needed_evidence and not agreement.stands_out.any():
                sign = " x " if pattern.exponent == 1 else " / "
                rows = np.flatnonzero(agreement.fits)
                examples = ", ".join(f"{one.texts[i]}{sign}{other.texts[i]}" for i in rows[:2])
                number = f"{agreement.expected.middle[0]:.4g} in all {len(rows)} rows ({examples})"
                evidence = f"{one.heading}{sign}{other.heading} is {number}: "
                yield Flag(f"{evidence}one of the two is the inverse of what it is called", figures.places)


def _is_quotient(ratios: FigureColumn, pair: tuple[FigureColumn, FigureColumn]) -> bool:
    """Whether a column is the first of a pair over the second, as printed: 1.70 of 9040 and 5325 ms."""
    values, above, below = (column.as_printed for column in (ratios, *pair))
    return bool(np.all(np.abs(values * below - above) <= SAME_TOLERANCE * above))


def _outliers(figures: FigureTable, works: set[float], is_of_answers: bool) -> Iterator[Flag]:
    """Flag each row once in which a product of columns is another number than in the other rows.

    Example: rate x time of an epoch is 5,596 to 5,606 images in five rows and 6,245 in one. `works`: the amounts of
    work that the text states, with which rate x time is compared even where few rows agree. `is_of_answers`: whether
    its times and rates are of requests.
    """
    flagged: set[int] = set()
    all_rows = list(range(len(figures.places)))
    for pattern, products in _possible_products(figures):
        kinds = {factor.column.kind for factor in products[0][:2]}  # one of both: of a request, and of all side by side
        if is_of_answers and (DURATIONS in (pattern.first_kinds, pattern.second_kinds) or len(kinds) == 1):
            continue
        if pattern is RATE_TIMES_DURATION and _has_another_time(figures, products[0]):
            continue
        by_group = [[Agreement(factors, rows) for factors in products] for rows in groups_of(figures, FEWEST_ROWS)]
        # For each group of rows the best of its products (with or without devices and batch): most rows share it.
        possible = [max(group, key=lambda a: (a.is_constant, -a.stands_out.sum(), a.evidence)) for group in by_group]
        if pattern is RATE_TIMES_DURATION:
            with_work = (Agreement(factors, all_rows, work) for factors, work in product(products, works))
            possible += [agreement for agreement in with_work if agreement.fits.any()]

        proven = [a for a in possible if a.is_constant or (_is_one_number(figures, a) and a.most_fit)]
        alternatives = [alternative for group in by_group for alternative in group]
        for agreement in sorted(proven, key=lambda a: (-a.evidence, a.stands_out.sum())):
            for i in _unexplained_rows(figures, agreement, alternatives):
                row = agreement.rows[i]
                if row not in flagged:
                    flagged.add(row)
                    yield Flag(sentence_of(figures, agreement, i), [figures.places[row]])


def _is_of_answers(figures: FigureTable) -> bool:
    """Whether a table is of requests, which may fail, come side by side, and get answers that differ in length."""
    headings = (*figures.words, *(column.heading for column in figures.columns))
    return any(map(OF_ANSWERS.search, (*headings, *figures.names)))


def _has_another_time(figures: FigureTable, factors: tuple[Factor, ...]) -> bool:
    """Whether a rate gives one number in all rows with another time than this one, which may be a part of that."""
    rate, time, *_ = factors
    times = [column for column in _columns_of(figures, DURATIONS) if column is not time.column]
    all_rows = list(range(len(figures.places)))
    products = (Agreement((rate, Factor(column, 1)), all_rows) for column in times)
    return any(product.fits.all() and product.is_constant for product in products)


def _pairs_of_columns(figures: FigureTable, pattern: ProductPattern) -> Iterator[tuple[FigureColumn, FigureColumn]]:
    """Yield each pair of a column of `first_kinds` and one of `second_kinds`."""
    return product(_columns_of(figures, pattern.first_kinds), _columns_of(figures, pattern.second_kinds))


def _possible_products(figures: FigureTable) -> Iterator[tuple[ProductPattern, list[tuple[Factor, ...]]]]:
    """Yield each pattern with the products that a pair of columns forms for it.

    A pair forms several products: rate x time, rate x time x GPUs, rate x time / GPUs.
    """
    stages = tuple(Factor(column, -1) for kind in STAGES for column in _columns_of(figures, (kind,)))
    headings = [*figures.words, *(column.heading for column in figures.columns)]
    has_other_parallel = any(map(OTHER_PARALLEL.fullmatch, headings))
    times = _columns_of(figures, (*DURATIONS, "device_time_s"))
    for pattern in CONSTANT_PRODUCTS:
        is_of_replicas = pattern.second_kinds == REPLICAS
        if is_of_replicas and has_other_parallel:
            continue
        for one, other in _pairs_of_columns(figures, pattern):
            have_same_kinds = pattern.first_kinds == pattern.second_kinds
            if one is other or (have_same_kinds and _are_of_one_quantity(one, other)):
                continue  # their ratio is no constant
            if _ordinal(figures, one) != _ordinal(figures, other):
                continue  # of repeated headings, the first "images/s" does not go with the second "efficiency"
            if name_two_precisions(one.heading, other.heading):
                continue
            if have_same_kinds and None in (column_of(one.heading).kind, column_of(other.heading).kind):
                continue  # the unit of their cells alone does not say of what they are: "cap 5120m"
            if "latency_s" in (one.kind, other.kind) and any(
                column.kind in TIMES_OF_RATES for column in figures.columns
            ):
                continue  # beside another time, of which it may be any part
            # Replicas x stages are the devices: no stage may be left out, as other factors may.
            choices = [stages] if is_of_replicas else _further_factors(figures, pattern.further_kinds, (one, other))
            if pattern is ENERGY_OVER_POWER:  # alone it is the time of a row, which differs
                choices = [chosen for chosen in choices if any(factor.column in times for factor in chosen)]
            products = [(Factor(one, 1), Factor(other, pattern.exponent), *chosen) for chosen in choices]
            if products:
                yield pattern, products


def _unexplained_rows(figures: FigureTable, agreement: Agreement, alternatives: list[Agreement]) -> Iterator[int]:
    """Yield the lone rows of an agreement that nothing explains: no other batch, configuration or product."""
    others = [other for other in alternatives if other.fits.sum() >= FEWEST_ROWS and other.evidence > 0]
    rows_of_others = {other.rows[i] for other in others for i in np.flatnonzero(other.fits)}
    ratios = agreement.factors[0].column
    is_of_ratios = ratios.kind in ("speedup", "efficiency")
    # Rows with a speed-up of 1, or an efficiency of 100 %, with or without the sign.
    baselines = [k for k, row in enumerate(agreement.rows) if is_of_ratios and ratios.figures.middle[row] in (1, 100)]

    for i in agreement.lone_rows:
        row = agreement.rows[i]
        if len(baselines) > 1 and agreement.same_as(i)[baselines].any():
            continue  # each baseline has its own product
        if abs(agreement.factor_of(i) / THOUSAND - 1) <= NEAR_WHOLE:
            continue  # "1.234" may be 1,234
        if agreement.is_multiple(i) and not _has_usual_size(figures, agreement, i):
            continue  # another batch or number of devices explains it
        if row in rows_of_others or not is_same_configuration(figures, agreement, row):
            continue  # it fits another product, or is of another configuration
        if not _is_of_stated_work(figures, alternatives, row) and not _has_other_part(figures, agreement, i):
            yield i


def _has_other_part(figures: FigureTable, agreement: Agreement, i: int) -> bool:
    """Whether a row fits without a part of its time that a further column states: 1126 ms, of them 102 of prefill."""
    times = [factor.column for factor in agreement.factors if factor.column.kind in DURATIONS]
    for whole, part in product(times, figures.columns):
        units = [m[1] for column in (whole, part) if (m := UNIT_AT_END.search(column.heading))]
        if part is not whole and len(units) == 2 and units[0] == units[1]:
            of_part, of_whole = (column.as_printed[agreement.rows] for column in (part, whole))
            remaining = agreement.figures.middle * (of_whole - of_part)  # times the whole
            expected = np.median(remaining[agreement.fits] / of_whole[agreement.fits]) * of_whole[i]
            if abs(remaining[i] - expected) <= SAME_TOLERANCE * expected:
                return True
    return False


def _is_of_stated_work(figures: FigureTable, alternatives: list[Agreement], row: int) -> bool:
    """Whether a product is proportional to a further column, which states the work: 29 tokens here, 64 there."""
    of_row = [agreement for agreement in alternatives if row in agreement.rows]
    for agreement, column in product(of_row, figures.columns):
        if all(factor.column is not column for factor in agreement.factors):
            below = column.figures.middle[agreement.rows]
            ratios = agreement.figures.middle / np.where(below, below, np.nan)
            is_same = np.abs(ratios / ratios[agreement.rows.index(row)] - 1) <= SAME_TOLERANCE
            if is_same.sum() >= FEWEST_ROWS and is_same[np.isfinite(ratios)].all():
                return True
    return False


def _is_one_number(figures: FigureTable, agreement: Agreement) -> bool:
    """Whether a product must be one number, so that two rows suffice to show that a third is wrong.

    Either it is rate x time of a step or an epoch whose work a text states. Or all rows are of one model, and it is MFU
    over the rate of one device, FLOP/s x time of a sample, or rate x time of a stated amount of work.
    """
    one, other = (factor.column for factor in agreement.factors[:2])
    if agreement.stated:
        return other.kind in ("epoch_time_s", "step_time_s") and one.kind != "rate"
    is_of_model = one.kind in ("mfu", "hfu") and other.kind in RATES and other.meaning.per_device is True
    is_of_model |= one.kind == "flops_per_s" and other.kind in DURATIONS and len(agreement.factors) == FACTORS_OF_STEP
    is_of_work = OF_STATED_WORK.fullmatch(other.heading) is not None
    settings = [column.texts for column in figures.columns if column.kind not in (*SIZE_KINDS, *RESULTS)]
    differ_in_size_alone = all(len(set(texts)) == 1 for texts in (*figures.words.values(), *settings))
    return (is_of_model or is_of_work) and differ_in_size_alone


def _are_of_one_quantity(one: FigureColumn, other: FigureColumn) -> bool:
    """Whether two columns are one quantity of two programs, "eager ms" and "compiled ms": their ratio may vary."""
    a, b = one.meaning, other.meaning
    if "latency_s" in (a.kind, b.kind):
        return True  # nothing says of what a latency is
    return (a.kind, a.per_device, a.item) == (b.kind, b.per_device, b.item)


def _ordinal(figures: FigureTable, column: FigureColumn) -> int:
    """Count the columns before this one that have its heading: 0 for the first "images/s", 1 for the second."""
    return sum(other.heading == column.heading for other in figures.columns[: figures.columns.index(column)])


def _columns_of(figures: FigureTable, kinds: tuple[str, ...]) -> list[FigureColumn]:
    """Return the columns of these kinds, but for medians and percentiles, which cannot be multiplied."""
    columns = (column for column in figures.columns if column.kind in kinds and not column.is_difference)
    return [column for column in columns if column.meaning.statistic in (None, "mean")]


def _further_factors(
    figures: FigureTable, further: tuple[tuple[str, ...], ...], used: tuple[FigureColumn, ...]
) -> Iterator[tuple[Factor, ...]]:
    """Yield each choice of further factors: for each group of kinds none, a column of it, or 1 / such a column."""
    choices: list[list[Factor | None]] = []
    for kinds in further:
        columns = [column for column in _columns_of(figures, kinds) if column not in used]
        choices.append([None, *(Factor(column, exponent) for column in columns for exponent in (1, -1))])
    for chosen in product(*choices):
        yield tuple(factor for factor in chosen if factor is not None)


def _has_usual_size(figures: FigureTable, agreement: Agreement, i: int) -> bool:
    """Whether row `i` has the batch and devices of the rows that fit, so that no other size explains its figure.

    Sizes that are factors of the product may differ. False unless one column states the batch and one the devices.
    """
    factors = [factor.column for factor in agreement.factors]
    fitting = [agreement.rows[k] for k in np.flatnonzero(agreement.fits)]
    batches, devices = _columns_of(figures, ("global_batch",)), _columns_of(figures, (*DEVICES, "nodes"))
    if not (batches and devices):
        return False
    sizes = [column.texts for column in (*batches, *devices) if column not in factors]
    return all({texts[row] for row in fitting} == {texts[agreement.rows[i]]} for texts in sizes)
