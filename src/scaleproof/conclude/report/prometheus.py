"""A campaign's cells as a Prometheus text file, for the textfile collector of a node exporter.

The format: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import pandas as pd

from scaleproof.conclude.report.read_results import records
from scaleproof.ground.columns import COLUMNS

GROUPS = ("rate", "figure", "ratio", "learnt")  # of columns that are measured
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def is_measured(name: str) -> bool:
    """Return whether the column of this name, of runs.csv or cells.csv, holds a figure that was measured."""
    return name in COLUMNS and COLUMNS[name].group in GROUPS and not COLUMNS[name].is_text


def prometheus(campaign: str, cells: pd.DataFrame) -> str:
    """Return every measured column of `cells` (cells.csv) as a gauge, with the bounds of its interval as two more.

    A gauge has the column's name, behind `scaleproof_`, and a value for each cell that has one.
    """
    rows = records(cells)
    lines: list[str] = []
    for column in COLUMNS.values():
        if not is_measured(column.name):
            continue
        bounds = ((f"{column.name}_low", "lower bound: "), (f"{column.name}_high", "upper bound: "))
        for name, what in ((column.name, ""), *bounds):
            values = {row["cell"]: row.get(name) for row in rows}
            measured = {cell: value for cell, value in values.items() if isinstance(value, int | float)}
            if measured:
                unit = f" ({column.unit})" if column.unit else ""
                text = f"{what}{column.definition or column.heading or column.name}{unit}"
                lines += [f"# HELP scaleproof_{name} {_escaped_help(text)}", f"# TYPE scaleproof_{name} gauge"]
                lines += [
                    f'scaleproof_{name}{{campaign="{_escaped(campaign)}",cell="{_escaped(cell)}"}} {float(value)!r}'
                    for cell, value in measured.items()
                ]
    return "".join(f"{line}\n" for line in lines)


def _escaped(label: str) -> str:
    """The value of a label with backslashes, quotes and line breaks as the format wants them."""
    return label.translate(ESCAPES)


def _escaped_help(text: str) -> str:
    """A line of help, in which quotes stay as they are, on one line."""
    return text.replace("\\", r"\\").replace("\n", " ")
