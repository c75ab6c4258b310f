"""The tables of a campaign, held against recomputed figures."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from scaleproof.ground.columns import BOTH, CELLS, COLUMNS, RUNS
from scaleproof.verify.contents import REPORT, csv_of, points_of
from scaleproof.verify.raw import Difference, RawRun, close, in_words
from scaleproof.verify.recompute import Quantities, by_cell, columns_of_no_run

# File -> the columns that it has by the registry, their bounds aside.
COLUMNS_OF = {
    file: [column.name for column in COLUMNS.values() if column.file in kinds]
    for file, kinds in {"runs.csv": (BOTH, RUNS), "cells.csv": (BOTH, CELLS)}.items()
}


def check_columns(folder: Path, file: str) -> Iterator[Difference]:
    """Yield the columns and bounds of COLUMNS that a table lacks, and those with values that they cannot have."""
    rows = csv_of(folder / file)
    if not rows:
        return
    for name in COLUMNS_OF[file]:
        names = [name]
        if COLUMNS[name].interval and file != "runs.csv":
            names += [f"{name}_low", f"{name}_high"]
        yield from (Difference(file, absent, "is not there") for absent in names if absent not in rows[0])
        if fault := COLUMNS[name].fault_of(row.get(name) or None for row in rows):
            yield Difference(file, name, fault)


def check_runs_table(
    folder: Path, file: str, runs: list[RawRun], quantities: Quantities, at_fault: Collection[str] = ()
) -> Iterator[Difference]:
    """Yield where runs.csv is not a row for every run, with the hash of its metrics and its figures."""
    sound_rows = [row for row in csv_of(folder / file) if row["cell"] not in at_fault]
    rows = {(row["cell"], row["repeat"]): row for row in sound_rows}
    runs_by_key = {(run.cell, str(run.metrics["repeat"])): run for run in runs}
    for key in sorted(rows.keys() ^ runs_by_key.keys()):
        problem = "no such run" if key in rows else "this run is missing in the table"
        yield Difference(file, "/rep".join(key), problem)

    for key in sorted(rows.keys() & runs_by_key.keys()):
        run, row = runs_by_key[key], rows[key]
        if row["sha256"] != run.sha256:
            yield Difference(file, run.name, f"was made from another {run.path}")
        if row["status"] != run.metrics["status"]:
            yield Difference(file, run.name, f"status is {row['status']}, not {run.metrics['status']}")
        for name, text in row.items():
            quantity = quantities.get(f"runs/{run.name}/{name}")
            if quantity and not is_figure(text, quantity.value):
                yield _wrong_text(file, f"{run.name}, {name}", text, quantity.value)


def check_cells_table(
    folder: Path, file: str, runs: list[RawRun], quantities: Quantities, at_fault: Collection[str] = ()
) -> Iterator[Difference]:
    """Yield where cells.csv, or a table of cells in tables/, has other cells or figures than are recomputed.

    `at_fault`: cells whose raw files are damaged, as is reported already: their rows do not count. `runs`: those of all
    other cells.
    """
    rows = [row for row in csv_of(folder / file) if row["cell"] not in at_fault]
    cells = [row["cell"] for row in rows]
    if file in ("cells.csv", "tables/scaling.csv"):
        for cell in sorted(set(cells) ^ by_cell(runs).keys()):
            problem = "no such cell in runs/" if cell in cells else "this cell is missing in the table"
            yield Difference(file, cell, problem)
    # Cell -> columns that must be empty, as none of its runs recorded the quantity.
    unrecorded_columns = {cell: columns_of_no_run(group) for cell, group in by_cell(runs).items()}
    for row in rows:
        for column in unrecorded_columns.get(row["cell"], set()):
            if row.get(column):
                yield Difference(file, f"{row['cell']}, {column}", f"is {row[column]}, and no run has recorded any")
        yield from _check_figures_of_row(file, row, quantities)


def _check_figures_of_row(file: str, row: Mapping[str, str], quantities: Quantities) -> Iterator[Difference]:
    """Yield the figures and bounds of a cell's row that are not the recomputed ones."""
    for column, text in row.items():
        name = re.sub(r"_(?:low|high)$", "", column)  # the bounds of a figure stand in columns of their own
        figure_name = COLUMNS[name].figure if name in COLUMNS else ""  # the column of cells.csv with this figure
        quantity = quantities.get(f"cells/{row['cell']}/{figure_name or name}")
        if quantity is None:
            continue

        computed = {name: quantity.value, f"{name}_low": quantity.low, f"{name}_high": quantity.high}[column]
        is_known = computed is not None  # a bound may need the runs of other cells
        tolerance = 1e-9 if column == name else 1e-6  # bounds: quantiles here are computed by other code
        if is_known and not is_figure(text, computed, tolerance):
            yield _wrong_text(file, f"{row['cell']}, {column}", text, computed)


def check_places(folder: Path, file: str, report: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where scaling.csv (`file`) has other series, baselines, letters than `report`, scaling_report.json."""
    places: dict[str, dict[str, Any]] = defaultdict(dict)  # cell -> column -> value
    for series, point in points_of(report):
        places[point["cell"]] = {
            "series": series["name"],
            "kind": series["kind"],
            "baseline": series["baseline"] if series["kind"] else None,
            "best_single": point["best_single"],
            "overhead_only": point["overhead_only"],
            "incomparable": ", ".join(point["incomparable"]),
            "best_single_incomparable": ", ".join(point["best_single_incomparable"]),
        }
    for ranking in report["ranking"]:
        entries = ranking["cells"]
        for index, entry in enumerate(entries):
            is_fastest = index == 0 and len(entries) > 1  # entries are in the order of rates
            places[entry["cell"]] |= {"letters": entry["letters"], "is_fastest": is_fastest}

    for row in csv_of(folder / file):
        for column, value in places[row["cell"]].items():
            text = "" if value is None else str(value)
            if row.get(column, "") != text:
                problem = f"is {row.get(column) or 'empty'}, and in {REPORT} {text or 'empty'}"
                yield Difference(file, f"{row['cell']}, {column}", problem)


def is_figure(text: str, value: float | None, tolerance: float = 1e-9) -> bool:
    """Return whether the text of a CSV field is the figure `value`; an empty field is None."""
    try:
        return close(float(text) if text else None, value, tolerance)
    except ValueError:
        return False


def _wrong_text(file: str, where: str, stated: Any, computed: Any) -> Difference:
    """Return the difference that a field of a file states another value than the raw files give."""
    return Difference(file, where, f"is {stated or 'empty'}, the raw files give {in_words(computed)}")
