"""The tables of a campaign, held against recomputed figures."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from scaleproof.ground.columns import COLUMNS, INTERVAL
from scaleproof.ground.number_format import significant
from scaleproof.verify.contents import csv_of, text_of
from scaleproof.verify.printed import numbers, stands_for
from scaleproof.verify.raw import Difference, RawRun, close
from scaleproof.verify.recompute import Quantities, by_cell

# Heading of the tables for people -> column.
HEADINGS = {
    heading.removesuffix(INTERVAL): column
    for column in COLUMNS.values()
    for heading in (column.heading, column.in_series)
    if heading
}


def check_runs_table(
    folder: Path, runs: list[RawRun], quantities: Quantities, at_fault: Collection[str] = ()
) -> Iterator[Difference]:
    """runs.csv: a row for every run, with the hash of its metrics and its figures; of cells `at_fault` nothing."""
    listed = [row for row in csv_of(folder / "runs.csv") if row["cell"] not in at_fault]
    rows = {(row["cell"], row["repeat"]): row for row in listed}
    known = {(run.cell, str(run.metrics["repeat"])): run for run in runs}
    for key in sorted(rows.keys() ^ known.keys()):
        where = "/rep".join(key)
        yield Difference("runs.csv", where, "no such run" if key in rows else "this run is missing in the table")
    for key in sorted(rows.keys() & known.keys()):
        run, row = known[key], rows[key]
        if row["sha256"] != run.sha256:
            yield Difference("runs.csv", run.name, f"was made from another {run.path}")
        if row["status"] != run.metrics["status"]:
            yield Difference("runs.csv", run.name, f"status is {row['status']}, not {run.metrics['status']}")
        for name in row:
            quantity = quantities.get(f"runs/{run.name}/{name}")
            if quantity and not _equal(row[name], quantity.value):
                yield _wrong("runs.csv", f"{run.name}, {name}", row[name], quantity.value)


def check_cells_table(
    folder: Path, file: str, runs: list[RawRun], quantities: Quantities, at_fault: Collection[str] = ()
) -> Iterator[Difference]:
    """cells.csv, tables/scaling.csv, strong.csv or weak.csv: all that is recomputed, but of cells `at_fault`."""
    rows = [row for row in csv_of(folder / file) if row["cell"] not in at_fault]
    cells = [row["cell"] for row in rows]
    if file in ("cells.csv", "tables/scaling.csv") and sorted(cells) != sorted(by_cell(runs)):
        yield Difference(file, "", "its cells are not those of runs/")
    for row in rows:
        for column, text in row.items():
            base = re.sub(r"_(?:low|high)$", "", column)
            figure = COLUMNS[base].figure if base in COLUMNS else ""
            quantity = quantities.get(f"cells/{row['cell']}/{figure or base}")
            if quantity is None:
                continue
            bound = column.removeprefix(base)
            value = {"": quantity.value, "_low": quantity.low, "_high": quantity.high}[bound]
            if (value is not None or not bound) and not _equal(text, value):
                yield _wrong(file, f"{row['cell']}, {column}", text, value)


def check_markdown(folder: Path, name: str, cells: list[str], quantities: Quantities) -> Iterator[Difference]:
    """A table for people: each printed figure is the recomputed one, rounded. `cells`: of its rows."""
    file = f"tables/{name}.md"
    header, rows = _markdown(text_of(folder / file))
    if len(rows) != len(cells):
        yield Difference(file, "", f"{len(rows)} rows for {len(cells)} cells")
        return
    for cell, row in zip(cells, rows, strict=True):
        for heading, text in zip(header, row, strict=True):
            yield from check_printed(file, cell, heading, text, quantities)


def check_printed(file: str, cell: str, heading: str, text: str, quantities: Quantities) -> Iterator[Difference]:
    """One printed figure under its heading."""
    heading_of_tokens = re.sub(rf"^(?:samples|steps|runs)/s(?={re.escape(INTERVAL)}|/)", "tokens/s", heading)
    column = HEADINGS.get(heading_of_tokens.removesuffix(INTERVAL))
    quantity = quantities.get(f"cells/{cell}/{column.figure or column.name}") if column else None
    printed = numbers(text)
    has_no_figure = text.startswith(("1 (baseline)", "incomparable", "–", "not reached")) or not printed
    if column is None or quantity is None or has_no_figure:
        return
    factor = column.factor
    values = [quantity.value * factor]
    if "[" in text and quantity.low is not None and quantity.high is not None:
        values += [quantity.low * factor, quantity.high * factor]
    for digits, value in zip(printed, values, strict=False):
        if not stands_for(digits, value):
            yield _wrong(file, f"{cell}, {heading}", digits, value)


def check_latex(folder: Path, name: str) -> Iterator[Difference]:
    """The LaTeX table has what the Markdown table has under the same headings."""
    file = f"tables/{name}.tex"
    text = text_of(folder / file)
    if r"\midrule" not in text:
        return
    header, rows = _markdown(text_of(folder / f"tables/{name}.md"))
    head, body = text.split(r"\toprule")[1].split(r"\bottomrule")[0].split(r"\midrule")
    headings = _cells(head)
    lines = [line for line in body.strip().split("\n") if line.strip()]
    for row, line in zip(rows, lines, strict=False):
        expected = dict(zip(header, row, strict=True))
        for heading, entry in zip(headings, _cells(line), strict=True):
            if _plain(expected.get(heading, entry)) != _plain(entry):
                yield Difference(file, f"{row[0]}, {heading}", f"is {entry}, {name}.md has {expected[heading]}")
    if len(rows) != len(lines):
        yield Difference(file, "", f"{len(lines)} rows, {name}.md has {len(rows)}")


def _cells(line: str) -> list[str]:
    """The entries of a row of LaTeX, as plain text."""
    plain = re.sub(r"\\shortstack\[.\]\{(.*?)\}(?= &| \\\\$)", _one_line, line.strip())
    plain = plain.removesuffix(r"\\").strip()
    for special, character in ((r"\&", "\0"), (r"\%", "%"), (r"\_", "_"), (r"\#", "#"), ("--", "–"), ("~", " ")):
        plain = plain.replace(special, character)
    return [part.strip().replace("\0", "&") for part in plain.split("&")]


def _one_line(stack: re.Match[str]) -> str:
    """A heading that is broken into lines."""
    return stack[1].replace(r" \\{} ", " ")


def _plain(text: str) -> str:
    """Without spaces and the marks of LaTeX."""
    return re.sub(r"\\text\w+|[\\{}$\s]", "", text.replace("\u00a0", " "))


def _markdown(text: str) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of a Markdown table."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [[part.strip() for part in line.strip("|").split("|")] for line in lines]
    if any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("a row of the table has not as many cells as its heading; cut off?")
    if not rows:
        return [], []
    header, _line_below, *body = rows
    return header, body


def _equal(text: str, value: float | None) -> bool:
    """Whether the text of a CSV field is a figure; an empty field is None."""
    try:
        return close(float(text) if text else None, value)
    except ValueError:
        return False


def _wrong(file: str, where: str, stated: Any, computed: Any) -> Difference:
    figure = significant(computed, 10) if isinstance(computed, float) else computed
    return Difference(file, where, f"is {stated or 'empty'}, the raw files give {figure}")
