"""Rules that look at a column of a table as a whole: counts of devices, units, ratios of two columns, percentages."""

import re
from dataclasses import replace
from itertools import permutations

from scaleproof.auditor.read.grids import Grid
from scaleproof.auditor.read.printed_figures import KINDS_OF_UNITS, SHARES, figures_of, is_nothing
from scaleproof.auditor.read.reported_tables import Quantity, ReportedRow, ReportedTable, TableColumn
from scaleproof.auditor.read.surroundings import by_own_unit


def counts_devices(cells: list[str]) -> bool:
    """Whether the cells of a column `gpu` are names or counts of devices.

    Machines have up to 8 devices, multiples of 4 up to 32, then of 8. Indices (0, 1, 2) and percentages of use (97) are
    no such counts.
    """
    numbers = {cell.strip() for cell in cells if not is_nothing(cell) and cell.strip()[:1].isdigit()}
    if not all(re.fullmatch(r"\d{1,5}(?:\.0)?", number) for number in numbers):
        return not any(re.fullmatch(r"\d+(?:\.\d+)? ?%?", number) for number in numbers)  # "4x A100", not "97.5 %"
    return all(_is_size_of_machines(int(float(number))) for number in numbers)


def _is_size_of_machines(count: int) -> bool:
    """Whether one machine or several equal ones may have so many devices."""
    if count <= 8:
        return count > 0
    return count % (4 if count <= 32 else 8) == 0


FOR_PEOPLE = ("Markdown table", "LaTeX table", "HTML table")  # programs print tables of operators and queues, too


def columns_by_units(grid: Grid, columns: list[TableColumn]) -> list[TableColumn]:
    """Return the columns of a table without a known heading, typed by their units.

    Cells "12 ms", "9 ms" below "ResNet" make a time with the note "ResNet". The result is [] where fewer than two
    cells have a unit.
    """
    if grid.form not in FOR_PEOPLE:
        return []
    title = grid.caption or "".join(grid.section[-1:])
    typed_columns = columns[:1]  # the first column names the rows
    cells_with_units = 0
    for k, column in enumerate(columns[1:], start=1):
        cells = [row[k] for _, row in grid.rows if k < len(row) and not is_nothing(row[k])]
        typed = column if column.kind is not None else _column_by_units(column, cells, title)
        if typed is not column:
            cells_with_units += len(cells)
        typed_columns.append(typed)
    return typed_columns if cells_with_units >= 2 else []


def _column_by_units(column: TableColumn, cells: list[str], title: str) -> TableColumn:
    """Return a column typed by the unit of all its cells, of its heading or of the table's title, else as it is."""
    figures_by_cell = [figures_of(cell) for cell in cells]
    units = [figures[0].unit if figures else None for figures in figures_by_cell]
    dimensions = {unit.dimension if unit is not None else "" for unit in units}
    kind = KINDS_OF_UNITS.get(dimensions.pop()) if len(dimensions) == 1 else None
    if kind is not None:
        return TableColumn(column.heading, kind, note=column.heading)

    if all(figures_by_cell):
        by_heading = by_own_unit(column, title)
        if by_heading.kind is not None:
            return replace(by_heading, note=column.heading)
    return column


MOST_COLUMNS = 12  # that are divided by each other
MOST_ROWS = 200
SPEED_HEADING = re.compile(
    r"(?i)[(\[,_ ](?:ms|s|secs?|seconds?|mins?|minutes?|h|hours?|\w+/s(?:ec)?|\w+/second)[)\]]?$"
)
SPEED_KINDS = ("time_s", "latency_s", "_per_s", "rate")
ROUNDING = 0.02  # relative difference that rounding of the columns explains


def mark_ratios_of_columns(table: ReportedTable) -> None:
    """Note on speed-ups that they are the ratio of two columns in every row: "FP16 / FP32"."""
    by_heading: dict[str, list[tuple[ReportedRow, Quantity]]] = {}
    for row in table.rows[:MOST_ROWS]:
        for speedup in row.all_of("speedup"):
            by_heading.setdefault(speedup.heading, []).append((row, speedup))

    for speedups in by_heading.values():
        if any(abs(speedup.value - 1) > ROUNDING for _, speedup in speedups):
            over = _ratio_of_columns(_columns_of_speeds(table), speedups)
            for _, speedup in speedups:
                speedup.over = speedup.over or over


def _columns_of_speeds(table: ReportedTable) -> dict[str, bool | None]:
    """Return heading -> whether it is per device, for times and rates. A column without a kind counts by its unit."""
    columns = {}
    for column in table.columns:
        is_speed = column.kind.endswith(SPEED_KINDS) if column.kind else SPEED_HEADING.search(column.heading)
        if is_speed:
            columns[column.heading] = column.per_device
    return dict(list(columns.items())[:MOST_COLUMNS])


def _ratio_of_columns(columns: dict[str, bool | None], speedups: list[tuple[ReportedRow, Quantity]]) -> str:
    """Return "A / B" where each of two speed-ups or more is the cell of column A over that of B; else ""."""
    if len(speedups) < 2 or len({speedup.value for _, speedup in speedups}) < 2:
        return ""
    for above, below in permutations(columns, 2):
        if columns[above] != columns[below]:
            continue  # one column is per device, the other is not
        if all(_is_ratio(speedup, row.texts.get(above, ""), row.texts.get(below, "")) for row, speedup in speedups):
            return f"{above} / {below}"
    return ""


def _is_ratio(speedup: Quantity, above: str, below: str) -> bool:
    """Whether a speed-up is the figure of one cell over that of another: 2.0 of "100 ms" and "50 ms"."""
    dividends, divisors = figures_of(above), figures_of(below)
    if not dividends or not divisors or not divisors[0].value:
        return False
    difference = abs(dividends[0].value / divisors[0].value - speedup.value)
    return difference <= max(speedup.resolution, ROUNDING * speedup.value)


SCALING = re.compile(r"(?i)(?<!of )(?<!linear )(?<!ideal )\bscaling\b(?! (?:eff|perc))")
LARGEST_EFFICIENCY = 1.5  # a larger figure below "Scaling" is a speed-up
LEAST_PERCENT = 20.0  # from here on a column that has a 1, too, may be in percent
LARGEST_SHARE = 1.0
LARGEST_WRONG_EFFICIENCY = 4.0  # an efficiency may be wrong, and above 1


def correct_shares(table: ReportedTable) -> None:
    """Divide shares by 100 that are in percent without saying so. "Scaling" of 1 and more becomes a speed-up."""
    for (kind, heading), shares in _shares_without_sign(table).items():
        if kind == "efficiency" and _are_speedups(heading, shares):
            for share in shares:
                share.kind = "speedup"
        elif _are_in_percent(kind, heading, shares):
            for share in shares:
                share.value /= 100
                share.resolution /= 100
                share.spread = None if share.spread is None else share.spread / 100


def _shares_without_sign(table: ReportedTable) -> dict[tuple[str, str], list[Quantity]]:
    """Return (kind, heading) -> the shares that have no "%"."""
    columns: dict[tuple[str, str], list[Quantity]] = {}
    for kind in SHARES:
        shares = [share for row in table.rows for share in row.all_of(kind)]
        for share in shares:
            if "%" not in share.text and "%" not in share.heading:
                columns.setdefault((kind, share.heading), []).append(share)
    return columns


def _are_speedups(heading: str, shares: list[Quantity]) -> bool:
    """Whether figures below "Weak scaling" are speed-ups, 1.00 and 3.39, and no efficiencies: some are well above 1."""
    values = [share.value for share in shares]
    has_range_of_speedups = min(values) == 1 and LARGEST_EFFICIENCY < max(values) < LEAST_PERCENT
    return has_range_of_speedups and SCALING.search(heading) is not None


def _are_in_percent(kind: str, heading: str, shares: list[Quantity]) -> bool:
    """Whether shares are larger than a share can be, and their heading does not say "percent"."""
    if "pct" in heading.lower() or "percent" in heading.lower():
        return False
    largest = LARGEST_WRONG_EFFICIENCY if kind == "efficiency" else LARGEST_SHARE
    return max(share.value for share in shares) > largest
