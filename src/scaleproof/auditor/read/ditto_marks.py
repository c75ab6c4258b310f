"""Marks in cells that stand for the text above them: "-" below "TitanX"."""

import re
from itertools import pairwise

from scaleproof.auditor.read.grids import Grid, Row
from scaleproof.auditor.read.headings import NOT_FIGURES
from scaleproof.auditor.read.reported_tables import TableColumn

DITTO = re.compile(r"-|–|—|\"|“|”|〃|″|''|ditto|idem|", re.IGNORECASE)


def without_dittos(grid: Grid, columns: list[TableColumn]) -> list[Row]:
    """Return the rows of a grid, with the text above in place of each mark that stands for it: "-" below "TitanX".

    The marks of a column of names do where two names or more have one below them; it may mean "none" in others.
    """
    if grid.form in ("CSV", "JSON"):
        return grid.rows
    texts = [k for k, column in enumerate(columns) if column.kind is None or column.kind in NOT_FIGURES]
    of_names = [k for k in texts if (k == 0 or columns[k].kind in ("device", "model")) and _has_dittos(grid.rows, k)]
    if not of_names:
        return grid.rows
    rows: list[Row] = []
    above: dict[int, str] = {}
    for line, cells in grid.rows:
        first = cells[0] if cells else ""
        goes_on = 0 not in texts or DITTO.fullmatch(first) or first == above.get(0)  # no row of its own name
        has_mark = any(map(DITTO.fullmatch, (cells[k] for k in of_names if k < len(cells))))
        if goes_on and has_mark and sum(map(bool, cells)) > 1:
            cells = [above.get(k, cell) if DITTO.fullmatch(cell) else cell for k, cell in enumerate(cells)]
        above = {k: cells[k] for k in texts if k < len(cells)}
        rows.append((line, cells))
    return rows


def _has_dittos(rows: list[Row], k: int) -> bool:
    """Whether column `k` begins with a name, and two names or more of it have a mark below them."""
    cells = [row[k] for _, row in rows if k < len(row)]
    names = {above for above, cell in pairwise(cells) if DITTO.fullmatch(cell) and not DITTO.fullmatch(above)}
    return len(names) > 1 and not DITTO.fullmatch(cells[0])
