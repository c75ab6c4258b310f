"""report.html read back: its figures, and the files that it names.

A figure is a link with its name (data-id), its cell (data-cell) and, as its title, its value with the interval.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from scaleproof.ground.columns import COLUMNS
from scaleproof.ground.number_format import significant
from scaleproof.verify.contents import text_of
from scaleproof.verify.html_tree import Element, tree_of
from scaleproof.verify.printed import numbers, stands_for
from scaleproof.verify.raw import METRICS, Difference, RawRun, folder_before
from scaleproof.verify.recompute import Quantities, RecomputedQuantity

FILE = "report.html"


def check_page(
    folder: Path, quantities: Quantities, runs: Sequence[RawRun], at_fault: Collection[str] = ()
) -> Iterator[Difference]:
    """Yield where report.html has other figures or files than the raw files; files of cells `at_fault` aside."""
    text = text_of(folder / FILE)
    if "</html>" not in text:
        raise ValueError("it ends before </html>; cut off?")
    page = tree_of(text)
    for row in page.all("tr"):
        yield from _check_row(row)
    for link in page.all("a", kind="figure"):
        identity = link.attributes.get("data-id", "")  # "cells/<cell>/<column>"
        if identity.split("/")[1:2] != [link.attributes.get("data-cell")]:  # a slice: no IndexError without "/"
            yield Difference(FILE, identity, f"links to {link.attributes.get('data-cell')}")
        if identity in quantities:
            yield from _check_figure(link, identity, quantities[identity])
    yield from _check_sources(page, runs, at_fault)


def _check_figure(link: Element, identity: str, quantity: RecomputedQuantity) -> Iterator[Difference]:
    """Yield the numbers of a figure, in its text and its title, that are not the recomputed ones."""
    *_, name = identity.split("/")
    factor = COLUMNS[name].factor if name in COLUMNS else 1.0
    computed = [quantity.value, *(bound for bound in (quantity.low, quantity.high) if bound is not None)]
    # "1.62 (1.20-2.19), n=3", in pages of before "1.62 [1.20, 2.19], n=3"; without interval "1.62", "1.62 (n=1)".
    for text in (link.attributes.get("title", ""), link.text):
        figure_text, _, _ = text.partition("n=")
        expected = computed if re.search(r" [(\[][-\d]", text) else computed[:1]  # value and bounds, or the value alone
        for printed, value in zip(numbers(figure_text), expected, strict=False):
            if not stands_for(printed, value * factor):
                gives = significant(value * factor, 7)
                yield Difference(FILE, identity, f"is {printed}, the raw files give {gives}")


def _check_row(row: Element) -> Iterator[Difference]:
    """Yield the figures in a table's row that are of another cell than its heading, or link to another cell's files."""
    heading = next(row.all("th", scope="row"), None)
    for link in row.all("a", kind="figure"):
        cell = link.attributes.get("data-cell", "")
        cell_of_row = heading.text.removesuffix("†") if heading else cell  # †: it has a footnote
        linked_cell = link.attributes.get("href", "").removeprefix("#from-")
        if not cell == cell_of_row == linked_cell:
            yield Difference(FILE, link.attributes.get("data-id", ""), f"stands in the row of {cell_of_row}")


def _check_sources(page: Element, runs: Sequence[RawRun], at_fault: Collection[str]) -> Iterator[Difference]:
    """Yield the rows of the table of files that name another cell, file or hash than a run has, and unlisted runs."""
    runs_by_path = {run.path: run for run in runs}
    unlisted_runs = dict(runs_by_path)
    for row in page.all("tr"):
        cell = row.attributes.get("data-cell", "")
        path = row.attributes.get("data-file", "")
        run_path = path.removeprefix(folder_before(path, f"runs/{cell}/rep/{METRICS}"))
        unlisted_runs.pop(run_path, None)  # a row of this run is there, right or not
        if "data-sha" not in row.attributes or cell in at_fault:  # a row of another table, or reported already
            continue
        run = runs_by_path.get(run_path)
        if run is None or run.sha256[:12] != row.attributes["data-sha"]:
            yield Difference(FILE, path, "the page was made from another file")
        elif run.sha256[:12] not in {code.text for code in row.all("code")}:
            yield Difference(FILE, path, f"does not show its sha256, {run.sha256[:12]}")
        elif run.cell != cell or not row.text.startswith(f"{cell}/"):
            yield Difference(FILE, path, f"is a file of {run.cell}, not of {cell}")
    yield from (Difference(FILE, run.name, "is not in the table of runs") for run in unlisted_runs.values())
