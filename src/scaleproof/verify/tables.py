"""The tables of a campaign, held against recomputed figures."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from scaleproof.ground.columns import CELLS_TABLE, COLUMNS, CONFIGURED, INTERVAL, MAIN
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
HEADINGS["vs fastest"] = replace(COLUMNS["fastest_over"], name="relative_to_fastest")  # in tables of 0.1


def check_runs_table(
    folder: Path, runs: list[RawRun], quantities: Quantities, at_fault: Collection[str] = ()
) -> Iterator[Difference]:
    """Yield where runs.csv is not a row for every run, with the hash of its metrics and its figures.

    `at_fault`: cells whose rows are not looked at.
    """
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
        for name, text in row.items():
            quantity = quantities.get(f"runs/{run.name}/{name}")
            if quantity and not _equal(text, quantity.value):
                yield _wrong("runs.csv", f"{run.name}, {name}", text, quantity.value)


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
    for row in rows:
        for column, text in row.items():
            base = re.sub(r"_(?:low|high)$", "", column)  # the bounds of an interval stand in columns of their own
            figure = COLUMNS[base].figure if base in COLUMNS else ""
            quantity = quantities.get(f"cells/{row['cell']}/{figure or base}")
            if quantity is None:
                continue
            suffix = column.removeprefix(base)
            value = {"": quantity.value, "_low": quantity.low, "_high": quantity.high}[suffix]
            is_unknown_bound = bool(suffix) and value is None
            if not is_unknown_bound and not _equal(text, value, 1e-6 if suffix else 1e-9):
                yield _wrong(file, f"{row['cell']}, {column}", text, value)


def check_markdown(folder: Path, name: str, cells: list[str], quantities: Quantities) -> Iterator[Difference]:
    """Yield where figures in tables/<name>.md are not the recomputed ones, rounded. `cells`: of its rows."""
    file = f"tables/{name}.md"
    header, rows = markdown_table(text_of(folder / file))
    if len(rows) != len(cells):
        yield Difference(file, "", f"{len(rows)} rows for {len(cells)} cells")
        return
    plain = {row["cell"]: row for row in csv_of(folder / f"tables/{name}.csv")}
    for cell, row in zip(cells, rows, strict=True):
        for heading, text in zip(header, row, strict=True):
            if cell in plain:
                yield from _check_words(file, cell, heading, text, plain[cell])
            yield from check_printed(file, cell, heading, text, quantities)
    yield from _check_common(folder, name)


def _check_words(file: str, cell: str, heading: str, text: str, row: Mapping[str, str]) -> Iterator[Difference]:
    """Yield where an entry says another number of runs, or a word in place of a figure. `row`: of the CSV file."""
    if heading == "n":
        n, runs = row["n"], row.get("runs") or row["n"]
        if text != (n if n == runs else f"{n} of {runs}"):
            yield _wrong(file, f"{cell}, n", text, f"{n} of {runs}")
    column = HEADINGS.get(heading.removesuffix(INTERVAL))
    known = row.get(column.name) if column and column.interval else None
    if known and (text.startswith("1 (baseline)") or not numbers(text)):
        yield _wrong(file, f"{cell}, {heading}", text, known)
    plain = row.get(column.name, "") if column else ""
    is_other_word = column and column.name in ("letters", "verdict") and text != (plain or "–")
    is_other_number = numbers(plain) == [plain] != [] and numbers(text) == [text] and column and not column.interval
    if is_other_word or (is_other_number and column and not stands_for(text, float(plain) * column.factor)):
        yield _wrong(file, f"{cell}, {heading}", text, plain)
    bases = {"speed-up": "baseline", "vs fastest 1-device": "best_single"}
    is_base = cell == row.get(bases.get(heading.removesuffix(INTERVAL), "")) and row["n"] != "0"
    if is_base and not text.startswith(("1 (baseline)", "incomparable")):
        yield _wrong(file, f"{cell}, {heading}", text, "1 (baseline)")


def _check_common(folder: Path, name: str) -> Iterator[Difference]:
    """Yield where the sentence on what all rows have in common states a figure that a row of the CSV file has not."""
    sentence = re.search(r"^In all rows: (.*)\.$", text_of(folder / f"tables/{name}.md"), re.MULTILINE)
    rows = csv_of(folder / f"tables/{name}.csv")
    for key in {*CONFIGURED, "target_loss"} & {*CELLS_TABLE} if name == "scaling" else ():
        is_constant = len({row.get(key) for row in rows} - {"", None}) == 1
        if is_constant and f"{COLUMNS[key].heading} " not in (sentence[1] if sentence else ""):
            yield Difference(f"tables/{name}.md", "In all rows", f"does not have {COLUMNS[key].heading}")
    for part in sentence[1].split(", ") if sentence else ():
        heading, _, text = part.rpartition(" ")
        column = HEADINGS.get(heading)
        for row in csv_of(folder / f"tables/{name}.csv") if column and numbers(text) == [text] else ():
            stated = row.get(column.name, "") if column else ""
            if stated and numbers(stated) == [stated] and not stands_for(text, float(stated)):
                problem = f"is {text}, {row['cell']} has {stated}"
                yield Difference(f"tables/{name}.md", f"In all rows, {heading}", problem)


def check_printed(file: str, cell: str, heading: str, text: str, quantities: Quantities) -> Iterator[Difference]:
    """Yield where `text`, one entry of a table for people, is not the recomputed figure of `cell`, rounded.

    `heading`: that of its column, by which the figure is known; an interval may stand behind the value in brackets.
    """
    # A rate stands under its own unit, and its figure is recorded as tokens/s.
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
    """Yield where tables/<name>.tex has not what tables/<name>.md has under the same headings; of no table, nothing."""
    file = f"tables/{name}.tex"
    text = text_of(folder / file)
    if r"\midrule" not in text:
        return
    markdown = text_of(folder / f"tables/{name}.md")
    header, rows = markdown_table(markdown)
    table, below = text.split(r"\toprule")[1].split(r"\bottomrule")
    head, body = table.split(r"\midrule")
    settings, has_settings, _ = below.partition("Intervals are")
    for number in numbers(settings) if has_settings else ():
        if number not in numbers(markdown):
            yield Difference(file, "below the table", f"has {number}, which {name}.md does not have")
    headings = _latex_entries(head)
    for heading in header:
        main = HEADINGS.get(heading.removesuffix(INTERVAL))
        if main and (main.figure or main.name) in MAIN and heading not in headings:
            yield Difference(file, heading, f"is not there, and is in {name}.md")
    lines = [line for line in body.strip().split("\n") if line.strip()]
    for row, line in zip(rows, lines, strict=False):
        expected = dict(zip(header, row, strict=True))
        for heading, entry in zip(headings, _latex_entries(line), strict=True):
            if heading in expected and _plain(expected[heading]) != _plain(entry):
                yield Difference(file, f"{row[0]}, {heading}", f"is {entry}, {name}.md has {expected[heading]}")
    if len(rows) != len(lines):
        yield Difference(file, "", f"{len(lines)} rows, {name}.md has {len(rows)}")


def _latex_entries(line: str) -> list[str]:
    """Return the entries of a row of LaTeX as plain text."""
    plain = re.sub(r"\\shortstack\[.\]\{(.*?)\}(?= &| \\\\$)", _one_line, line.strip())
    plain = plain.removesuffix(r"\\").strip()
    # An escaped & becomes NUL for a while: a plain one separates entries.
    for special, character in ((r"\&", "\0"), (r"\%", "%"), (r"\_", "_"), (r"\#", "#"), ("--", "–"), ("~", " ")):
        plain = plain.replace(special, character)
    return [part.strip().replace("\0", "&") for part in plain.split("&")]


def _one_line(stack: re.Match[str]) -> str:
    """Return the text of a heading that LaTeX breaks into lines, as one line."""
    return stack[1].replace(r" \\{} ", " ")


def _plain(text: str) -> str:
    """Return a text without spaces and the marks of LaTeX."""
    return re.sub(r"\\text\w+|[\\{}$\s]", "", text.replace("\u00a0", " "))


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


def _equal(text: str, value: float | None, tolerance: float = 1e-9) -> bool:
    """Return whether the text of a CSV field is the figure `value`; an empty field is None."""
    try:
        return close(float(text) if text else None, value, tolerance)
    except ValueError:
        return False


def _wrong(file: str, where: str, stated: Any, computed: Any) -> Difference:
    """Return the difference of what a file states and what the raw files give."""
    figure = significant(computed, 10) if isinstance(computed, float) else computed
    return Difference(file, where, f"is {stated or 'empty'}, the raw files give {figure}")
