"""Products of columns that must be one number in all rows: rate x time of an epoch is its work, speed-up x time that of
the baseline.

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
    DEVICES,
    DURATIONS,
    FEWEST_ROWS,
    NEAR_WHOLE,
    RATES,
    REPLICAS,
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
from scaleproof.auditor.checks.rows import TIMES, name_two_precisions
from scaleproof.auditor.checks.step_work import rate_times_time
from scaleproof.auditor.read.surroundings import works_of
from scaleproof.ground.findings.registry import Flag

THOUSAND = 1000.0
EVIDENCE_OF_INVERSE = 2.5  # that a speed-up, or a time or rate beside it, is the inverse of what it is called


class ProductPattern(NamedTuple):
    """Kinds of columns whose product is constant in rows of the same work: rate x time."""

    first_kinds: tuple[str, ...]
    second_kinds: tuple[str, ...]
    exponent: int  # of the second column
    further_kinds: tuple[tuple[str, ...], ...] = ()  # for each further factor or divisor that there may be


INVERTED = (ProductPattern(("speedup",), DURATIONS, -1), ProductPattern(("speedup",), RATES, 1))
RATE_TIMES_EPOCH = ProductPattern(RATES, ("epoch_time_s",), 1, (DEVICES,))
RATE_TIMES_STEP = ProductPattern(RATES, ("step_time_s",), 1, (BATCHES, DEVICES))
CONSTANT_PRODUCTS = (
    RATE_TIMES_EPOCH,
    RATE_TIMES_STEP,
    ProductPattern(("speedup",), TIMES, 1),
    ProductPattern(("speedup",), RATES, -1),
    ProductPattern(BATCHES, BATCHES, -1, ((*DEVICES, *REPLICAS), ("accumulation",))),
)

# Checks whose findings on a row leave nothing to add for this one.
MADE_BEFORE = (totals_follow, columns_follow, efficiencies_follow, rate_times_time)

LOGS = (".log", ".out")
OF_ANSWERS = re.compile(r"(?i)concurren|\busers?\b|_users|\brequests?|prompt|completion|\banswer|\bresponse")


@of_evidence.finds("row-stands-out", "suspect")
def products_agree(context: AuditContext) -> Iterator[Flag]:
    """In one row of a table a product is another number than it must be: rate x time of an epoch, although all rows did
    the same work, speed-up x time of one baseline, or global batch over batch and devices. One of the figures is wrong.

    Detected: Three rows or more of one configuration, whose products agree within 1 % more closely than chance
    explains, and twice as many as are more than 5 % off. Products are rate x time of an epoch, or of a step over its
    batch, speed-up x time or over rate, batches, and what is 1 by its units (ms/token x tokens/s). No other law is
    inferred from rows that agree. A note where the product is of settings alone, which are chosen.
    Seen: One rate gives 6,245 images an epoch, all others 5,596 to 5,606.
    Repair: Look at the raw file of that row.
    """
    for table in context.all_tables:
        if table.form == "report text" and table.file.endswith(LOGS):
            continue  # of its lines, those at the end of an epoch are of a smaller batch
        works = works_of(table)  # numbers of samples or tokens that the text states
        for figures in context.figures_of(table):
            is_of_answers = _is_of_answers(figures)
            flags = list(_outliers(figures, works, is_of_answers))
            if not (is_of_answers and _columns_of(figures, DURATIONS)):
                flags += rows_with_another_product(figures)
            if flags:  # of each row the first counts; none where another check has a finding on this row alone
                subjects = (finding.runs for check in MADE_BEFORE for finding in context.findings_of(check))
                places = {place for about in subjects if len(about) == 1 for place in about}
                first_of_row = {flag.about[0]: flag for flag in reversed(flags) if not places & set(flag.about)}
                if len(places & {*figures.places}) <= 1:  # rows that are wrong themselves are no witnesses
                    yield from reversed(first_of_row.values())
            yield from _inverse_columns(figures)


def _inverse_columns(figures: FigureTable) -> Iterator[Flag]:
    """Flag a speed-up that is the inverse of what it is called, or a time beside it: 1, 2, 4x of 0.1, 0.2, 0.4 s."""
    all_rows = list(range(len(figures.places)))
    for pattern in INVERTED:
        for one, other in _pairs_of_columns(figures, pattern):
            if not SPEEDUP_HEADING.search(one.heading) or len(_columns_of(figures, pattern.second_kinds)) > 1:
                continue  # "0.167 s (2.04x)" may be how many times as long it takes; a ratio of two times follows one
            if any(
                _is_quotient(one, pair) for column in figures.columns for pair in ((column, other), (other, column))
            ):
                continue  # the speed-up is a ratio to a third column, which hardly varies
            agreement = Agreement((Factor(one, 1), Factor(other, pattern.exponent)), all_rows)
            if agreement.evidence >= EVIDENCE_OF_INVERSE and not agreement.stands_out.any():
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
    work that the text states, with which rate x time is compared even where few rows agree.
    """
    flagged: set[int] = set()
    all_rows = list(range(len(figures.places)))
    for pattern, products in _possible_products(figures):
        by_group = [[Agreement(factors, rows) for factors in products] for rows in groups_of(figures, FEWEST_ROWS)]
        # For each group of rows the best of its products (with or without devices and batch): most rows share it.
        possible = [max(group, key=lambda a: (a.is_constant, -a.stands_out.sum(), a.evidence)) for group in by_group]
        if pattern in (RATE_TIMES_EPOCH, RATE_TIMES_STEP):
            with_work = (Agreement(factors, all_rows, work) for factors, work in product(products, works))
            possible += [agreement for agreement in with_work if agreement.fits.any()]

        proven = [a for a in possible if a.is_constant or (_is_of_known_work(a) and a.most_fit)]
        alternatives = [alternative for group in by_group for alternative in group]
        for agreement in sorted(proven, key=lambda a: (-a.evidence, a.stands_out.sum())):
            for i in _unexplained_rows(figures, agreement, alternatives):
                row = agreement.rows[i]
                if row not in flagged:
                    flagged.add(row)
                    evidence = sentence_of(figures, agreement, i)
                    yield Flag(evidence, [figures.places[row]], severity=agreement.severity)


def _is_of_answers(figures: FigureTable) -> bool:
    """Whether a table is of requests, which may fail, come side by side, and get answers that differ in length."""
    headings = (*figures.words, *(column.heading for column in figures.columns))
    return any(map(OF_ANSWERS.search, (*headings, *figures.names)))


def _pairs_of_columns(figures: FigureTable, pattern: ProductPattern) -> Iterator[tuple[FigureColumn, FigureColumn]]:
    """Yield each pair of a column of `first_kinds` and one of `second_kinds`."""
    return product(_columns_of(figures, pattern.first_kinds), _columns_of(figures, pattern.second_kinds))


def _possible_products(figures: FigureTable) -> Iterator[tuple[ProductPattern, list[tuple[Factor, ...]]]]:
    """Yield each pattern with the products that a pair of columns forms for it.

    A pair forms several products: rate x time, rate x time x GPUs, rate x time / GPUs.
    """
    for pattern in CONSTANT_PRODUCTS:
        for one, other in _pairs_of_columns(figures, pattern):
            if one is other or one.kind == other.kind:
                continue  # their ratio is no constant
            if _ordinal(figures, one) != _ordinal(figures, other):
                continue  # of repeated headings, the first "images/s" does not go with the second "efficiency"
            if name_two_precisions(one.heading, other.heading):
                continue
            choices = list(_further_factors(figures, pattern.further_kinds, (one, other)))
            if pattern is RATE_TIMES_STEP:  # alone it is the work of a step, which differs
                choices = [chosen for chosen in choices if any(factor.column.kind in BATCHES for factor in chosen)]
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
        if not _is_of_stated_work(figures, alternatives, row):
            yield i


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


def _is_of_known_work(agreement: Agreement) -> bool:
    """Whether it is rate x time of a step or an epoch whose work a text states: then two rows suffice."""
    return agreement.stated is not None and agreement.factors[0].column.kind != "rate"


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
