"""Speed-ups of a table that are one of its columns over another: of a variant, not of devices."""

import re
from itertools import permutations

from scaleproof.auditor.read.printed_figures import figures_of
from scaleproof.auditor.read.reported_tables import Quantity, ReportedRow, ReportedTable

MOST_COLUMNS = 12
MOST_ROWS = 200
SPEED = re.compile(r"(?i)[(\[,_ ](?:ms|s|secs?|seconds?|mins?|minutes?|h|hours?|\w+/s(?:ec)?|\w+/second)[)\]]?$")
SPEED_KINDS = ("time_s", "latency_s", "_per_s", "rate")
ROUNDING = 0.02  # relative difference that rounding of the columns explains


def mark_ratios_of_columns(table: ReportedTable) -> None:
    """Note on each speed-up, where all of a column are the ratio of the same two columns, which these are."""
    by_heading: dict[str, list[tuple[ReportedRow, Quantity]]] = {}
    for row in table.rows[:MOST_ROWS]:
        for quantity in row.all_of("speedup"):
            by_heading.setdefault(quantity.heading, []).append((row, quantity))
    for stated in by_heading.values():
        if any(abs(q.value - 1) > ROUNDING for _, q in stated):
            over = _two_columns(_columns_of_speeds(table), stated)
            for _, quantity in stated:
                quantity.over = quantity.over or over


def _columns_of_speeds(table: ReportedTable) -> dict[str, bool | None]:
    """Return the columns of times and rates (by their unit where their kind is not known) -> whether of one device."""
    columns = {}
    for column in table.columns:
        speed = column.kind.endswith(SPEED_KINDS) if column.kind else SPEED.search(column.heading)
        if speed:
            columns[column.heading] = column.per_device
    return dict(list(columns.items())[:MOST_COLUMNS])


def _two_columns(columns: dict[str, bool | None], stated: list[tuple[ReportedRow, Quantity]]) -> str:
    """Return "A / B" where each figure is A's cell over B's; "" where no two columns have figures with these ratios.

    One row proves nothing: some two of many figures have any ratio. The rate of all over that of one is no speed-up.
    """
    if len(stated) < 2 or len({q.value for _, q in stated}) < 2:
        return ""
    for above, below in permutations(columns, 2):
        if columns[above] != columns[below]:
            continue
        pairs = [(_value(row.texts.get(above, "")), _value(row.texts.get(below, ""))) for row, _ in stated]
        if all(
            a is not None and b and abs(a / b - q.value) <= max(q.resolution, ROUNDING * q.value)
            for (a, b), (_, q) in zip(pairs, stated, strict=True)
        ):
            return f"{above} / {below}"
    return ""


def _value(cell: str) -> float | None:
    figures = figures_of(cell)
    return figures[0].value if figures else None
