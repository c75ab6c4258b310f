"""The tables of a campaign, held against recomputed figures."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scaleproof.ground.columns import (
    BOTH,
    CELLS,
    CELLS_TABLE,
    COLUMNS,
    CONFIGURED,
    INTERVAL,
    MAIN,
    RUNS,
    SCALING,
    SERIES_TABLE,
    Column,
)
from scaleproof.ground.number_format import is_useless, significant
from scaleproof.verify.contents import csv_of, entries_of, json_of, text_of
from scaleproof.verify.printed import numbers, stands_for
from scaleproof.verify.raw import Difference, RawRun, close
from scaleproof.verify.recompute import Quantities, by_cell, columns_of_no_run

# Heading of the tables for people -> column, of several the first, which the page explains.
HEADINGS = {
    heading.removesuffix(INTERVAL): column
    for column in reversed(COLUMNS.values())
    for heading in (column.heading, column.in_series)
    if heading
}
HEADINGS["vs fastest"] = replace(COLUMNS["fastest_over"], name="relative_to_fastest")  # in tables of 0.1

MAY_BE_COMMON = {*CONFIGURED, "kind", "target_loss"}  # stand below a table that has one value of them
# File -> the columns that it has by the registry, their bounds aside.
COLUMNS_OF = {
    file: [column.name for column in COLUMNS.values() if column.file in kinds]
    for file, kinds in {
        "runs.csv": (BOTH, RUNS),
        "cells.csv": (BOTH, CELLS),
        "tables/scaling.csv": (BOTH, CELLS, SCALING),
    }.items()
}
for of_kind in ("tables/strong.csv", "tables/weak.csv"):
    COLUMNS_OF[of_kind] = ["cell", *SERIES_TABLE, "window_wall_time_sec", "incomparable"]


AMPERSAND = re.compile(r"(?<!\\)&")  # between two entries of LaTeX


def check_columns(folder: Path, file: str) -> Iterator[Difference]:
    """Yield the columns that the registry says a table has, and that are not there."""
    for row in csv_of(folder / file)[:1]:
        for column in map(COLUMNS.__getitem__, COLUMNS_OF[file]):
            parts = (
                ("low", "high", "n") if column.group == "ratio" and file == "tables/scaling.csv" else ("low", "high")
            )
            has_parts = column.interval and file != "runs.csv"
            for name in (column.name, *(f"{column.name}_{part}" for part in parts if has_parts)):
                if name not in row:
                    yield Difference(file, name, "is not there")


def check_runs_table(
    folder: Path, runs: list[RawRun], quantities: Quantities, at_fault: Collection[str] = ()
) -> Iterator[Difference]:
    """Yield where runs.csv is not a row for every run, with the hash of its metrics and its figures.

    `at_fault`: cells whose rows are not looked at.
    """
    listed = [row for row in csv_of(folder / "runs.csv") if row["cell"] not in at_fault]
    rows = {(row["cell"], row["repeat"]): row for row in listed}
    runs_by_key = {(run.cell, str(run.metrics["repeat"])): run for run in runs}
    for key in sorted(rows.keys() ^ runs_by_key.keys()):
        where = "/rep".join(key)
        yield Difference("runs.csv", where, "no such run" if key in rows else "this run is missing in the table")
    for key in sorted(rows.keys() & runs_by_key.keys()):
        run, row = runs_by_key[key], rows[key]
        if row["sha256"] != run.sha256:
            yield Difference("runs.csv", run.name, f"was made from another {run.path}")
        if row["status"] != run.metrics["status"]:
            yield Difference("runs.csv", run.name, f"status is {row['status']}, not {run.metrics['status']}")
        for name, text in row.items():
            quantity = quantities.get(f"runs/{run.name}/{name}")
            if quantity and not is_figure(text, quantity.value):
                yield _wrong_text("runs.csv", f"{run.name}, {name}", text, quantity.value)


def check_cells_table(
    folder: Path, file: str, runs: list[RawRun], quantities: Quantities, at_fault: Collection[str] = ()
) -> Iterator[Difference]:
    """Yield where a table of cells has other cells or other figures than are recomputed.

    `file`: cells.csv, or scaling.csv, strong.csv or weak.csv in tables/; `at_fault`: cells that are not looked at.
    """
    rows = [row for row in csv_of(folder / file) if row["cell"] not in at_fault]
    cells = [row["cell"] for row in rows]
    if file in ("cells.csv", "tables/scaling.csv") and sorted(cells) != sorted(by_cell(runs)):
        yield Difference(file, "", "its cells are not those of runs/")
    in_cells = {row["cell"]: row for row in csv_of(folder / "cells.csv")} if file == "tables/scaling.csv" else {}
    without_values = {cell: columns_of_no_run(group) for cell, group in by_cell(runs).items()}
    for row in rows:
        for column in without_values.get(row["cell"], set()):
            if row.get(column):
                yield Difference(file, f"{row['cell']}, {column}", f"is {row[column]}, and no run has recorded any")
        for column, text in in_cells.get(row["cell"], {}).items():
            if row.get(column) != text:
                yield Difference(file, f"{row['cell']}, {column}", f"is {row.get(column)}, cells.csv has {text}")
        for column, text in row.items():
            base = re.sub(r"_(?:low|high)$", "", column)  # the bounds of an interval stand in columns of their own
            figure = COLUMNS[base].figure if base in COLUMNS else ""
            quantity = quantities.get(f"cells/{row['cell']}/{figure or base}")
            if quantity is None:
                continue
            suffix = column.removeprefix(base)
            value = {"": quantity.value, "_low": quantity.low, "_high": quantity.high}[suffix]
            is_unknown_bound = bool(suffix) and value is None
            if not is_unknown_bound and not is_figure(text, value, 1e-6 if suffix else 1e-9):
                yield _wrong_text(file, f"{row['cell']}, {column}", text, value)


def check_markdown(folder: Path, name: str) -> Iterator[Difference]:
    """Yield the entries of tables/<name>.md that do not repeat the CSV file beside it, which is checked by itself."""
    file = f"tables/{name}.md"
    text = text_of(folder / file)
    header, printed_rows = markdown_table(text)
    rows = csv_of(folder / f"tables/{name}.csv")
    if len(rows) != len(printed_rows):
        yield Difference(file, "", f"{len(printed_rows)} rows for {len(rows)} cells")
        return
    first_of = {row.get("series"): row["cell"] for row in reversed(rows)}  # the smallest of each series
    numbers_of_runs = _numbers_of_runs(folder) if name in ("strong", "weak") else {}
    known_columns = [COLUMNS[column] for column in (CELLS_TABLE if name == "scaling" else SERIES_TABLE)]
    columns = [_column_of(heading, known_columns) for heading in header]
    for row, printed in zip(rows, printed_rows, strict=True):
        row_with_base = {"baseline": first_of[row.get("series")], **numbers_of_runs.get(row["cell"], {}), **row}
        for column, heading, entry in zip(columns, header, printed, strict=True):
            if column and column.name in row and not _stands_for_entry(entry, column, row_with_base):
                words = _in_place_of_a_figure(column, row_with_base)
                yield _wrong_text(file, f"{row['cell']}, {heading}", entry, words or row[column.name])
    yield from _check_common(file, text, rows)
    report = json_of(folder / "scaling_report.json")
    baselines = ", ".join(f"{one['name']}: {one['baseline']}" for one in report["series"] if one["kind"]) or "none"
    stated = re.search(r"smallest number of devices \((.*?)\);", text)
    if stated and stated[1] != baselines:
        yield Difference(file, "baselines", f"are {stated[1][:80]}, scaling_report.json has {baselines[:80]}")
    sentences = entries_of(folder / "claims.json", "sentences") if name in ("strong", "weak") else ()
    for law in (sentence["text"] for sentence in sentences if sentence["topic"] == "law"):
        if any(law.startswith(f"{series}: ") for series in first_of) and _letters(law) not in _letters(text):
            yield Difference(file, "", f'does not have the sentence "{law[:80]}"')
    common = _text_on_all_rows(text)
    for column in known_columns:
        is_known = column.name == "findings" or any(_is_printed(column, row) for row in rows)
        if not rows or not is_known or column in columns:
            continue
        if column.name not in MAY_BE_COMMON:
            yield Difference(file, column.heading, f"is not there, and {column.name} is in {name}.csv")
        elif f"{column.heading} " not in common:
            yield Difference(file, "In all rows", f"does not have {column.heading}")


def _numbers_of_runs(folder: Path) -> dict[str, dict[str, str]]:
    """Return, by cell and as columns of cells.csv have it, over how many runs each figure of a scaling series is."""
    entries = [
        entry for series in entries_of(folder / "scaling_report.json", "series") for entry in series["runs"].values()
    ]
    return {
        entry["cell"]: {f"{name}_n": str(figure["n"]) for name, figure in entry.items() if isinstance(figure, dict)}
        for entry in entries
    }


def _column_of(heading: str, columns: Sequence[Column]) -> Column | None:
    """Return the column of a table that has this heading; rates have the unit of their work in it."""
    of_tokens = re.sub(rf"^(?:samples|steps|runs)/s(?={re.escape(INTERVAL)}|/)", "tokens/s", heading)
    return next((column for column in columns if of_tokens in (column.heading, column.in_series)), None)


def _is_printed(column: Column, row: Mapping[str, str]) -> bool:
    """Return whether tables for people also have this column of a row."""
    says_twice = column.name == "samples_per_s" and row.get("task") == "language-modelling"
    return bool(row.get(column.name)) and not says_twice


def _stands_for_entry(entry: str, column: Column, row: Mapping[str, str]) -> bool:
    """Return whether an entry for people repeats a row of a CSV file: its words, or its figure with bounds, rounded."""
    stated = row[column.name]
    words = _in_place_of_a_figure(column, row)
    if words is not None:
        return entry.replace(",", "") == words.replace(",", "")
    if not _is_printed(column, row):
        return entry in ("", "–", "not reached", "in the warm-up")
    if numbers(stated) != [stated]:
        return entry == {"True": "yes", "False": "no"}.get(stated, stated)
    bounds = (row.get(f"{column.name}_{bound}") for bound in ("low", "high"))
    values = [float(text) * column.factor for text in (stated, *bounds) if text]
    n = float(row.get(f"{column.name}_n") or row["n"])
    if "(n=" in entry and (len(values) < 3 or is_useless(values[1], values[2], n)):  # in place of bounds
        values = [values[0], n]
    printed = numbers(entry)
    return len(printed) == len(values) and all(map(stands_for, printed, values))


def _in_place_of_a_figure(column: Column, row: Mapping[str, str]) -> str | None:
    """Return the words that stand in place of a figure, or behind it; None where there are none."""
    name, n = column.name, row["n"]
    fields = row.get("best_single_incomparable" if name == "speedup_vs_best_single" else "incomparable")
    base = {"speedup": "baseline", "speedup_vs_best_single": "best_single"}.get(name, "")
    if name == "n":
        return n if row.get("runs", n) == n else f"{n} of {row['runs']}"
    if name == "strategy" and row.get("overhead_only") == "True":
        return f"{row[name]} (overhead only)"
    if name == "tokens_per_s" and n == "0":
        return row["failures"].replace("|", "/")
    if name == "fastest_over" and row.get("is_fastest") == "True":
        return "1 (highest)"
    if column.group != "ratio" or name == "fastest_over" or n == "0":
        return None
    if fields:
        return "–" if name == "karp_flatt" else f"incomparable: {fields}"
    return "1 (baseline)" if row["cell"] == row.get(base) else None


def _text_on_all_rows(text: str) -> str:
    """Return the sentence of a Markdown file on all rows of its table, without its beginning; "" where it has none."""
    sentence = re.search(r"^In all rows: (.*)\.$", text, re.MULTILINE)
    return sentence[1] if sentence else ""


def _check_common(file: str, text: str, rows: Sequence[Mapping[str, str]]) -> Iterator[Difference]:
    """Yield each value that a row of the CSV file does not have, and that the sentence on all rows states."""
    for part in filter(None, _text_on_all_rows(text).split(", ")):
        heading, _, entry = part.rpartition(" ")
        column = HEADINGS.get(heading)
        for row in rows if column else ():
            if column and row.get(column.name) and not _stands_for_entry(entry, column, row):
                yield Difference(file, f"In all rows, {heading}", f"is {entry}, {row['cell']} has {row[column.name]}")


def check_latex(folder: Path, name: str) -> Iterator[Difference]:
    """Yield the entries of tables/<name>.tex that do not repeat tables/<name>.md; none where it has no table."""
    file = f"tables/{name}.tex"
    text = text_of(folder / file)
    if r"\midrule" not in text:
        return
    markdown = text_of(folder / f"tables/{name}.md")
    header, rows = markdown_table(markdown)
    table, below = text.split(r"\toprule")[1].split(r"\bottomrule")
    head, body = table.split(r"\midrule")
    if _letters(markdown.rpartition("|\n")[2]) not in _letters(below):
        yield Difference(file, "below the table", f"does not have what stands below that of {name}.md")
    headings = list(map(_letters, AMPERSAND.split(head)))
    for heading in header:
        column = HEADINGS.get(heading.removesuffix(INTERVAL))
        is_main = column and ((column.figure or column.name) in MAIN or column.group in ("cell", "configured", "note"))
        if is_main and _letters(heading) not in headings:
            yield Difference(file, heading, f"is not there, and is in {name}.md")
    lines = [line for line in body.strip().split("\n") if line.strip()]
    for row, line in zip(rows, lines, strict=False):
        expected = dict(zip(map(_letters, header), row, strict=True))
        for heading, entry in zip(headings, AMPERSAND.split(line), strict=True):
            if heading in expected and _letters(expected[heading]) != _letters(entry):
                yield Difference(file, f"{row[0]}, {heading}", f"is {entry.strip()}, {name}.md has {expected[heading]}")
    if len(rows) != len(lines):
        yield Difference(file, "", f"{len(lines)} rows, {name}.md has {len(rows)}")


def _letters(text: str) -> str:
    """Return the letters, digits, points and signs of a text, of LaTeX without its commands."""
    return re.sub(r"\\(?:text\w+|times|[gl]eq|approx|rightarrow|ldots|shortstack\[.\])|--|[^A-Za-z0-9.-]", "", text)


def markdown_table(text: str) -> tuple[list[str], list[list[str]]]:
    """Return the headings and the rows of the table in a Markdown text. Raises ValueError where rows are cut off."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [[part.strip() for part in line.strip("|").split("|")] for line in lines]
    if any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("a row of the table has not as many cells as its heading; cut off?")
    if not rows:
        return [], []
    header, _line_below, *body = rows
    return header, body


def is_figure(text: str, value: float | None, tolerance: float = 1e-9) -> bool:
    """Return whether the text of a CSV field is the figure `value`; an empty field is None."""
    try:
        return close(float(text) if text else None, value, tolerance)
    except ValueError:
        return False


def _wrong_text(file: str, where: str, stated: Any, computed: Any) -> Difference:
    """Return the difference of what a file states and what the raw files give."""
    figure = significant(computed, 10) if isinstance(computed, float) else computed
    return Difference(file, where, f"is {stated or 'empty'}, the raw files give {figure}")
