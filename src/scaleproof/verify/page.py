"""report.html read back: figures, links, files, machine, and the sentences of claims.json word by word.

A figure is a link with its name (data-id), its cell (data-cell) and, as its title, its value with the interval.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scaleproof.ground.columns import COLUMNS
from scaleproof.ground.number_format import significant
from scaleproof.verify.campaign_file import are_of_this_version
from scaleproof.verify.contents import json_of, text_of
from scaleproof.verify.demanded import check_demanded
from scaleproof.verify.html_tree import Element, plain, tree_of
from scaleproof.verify.page_texts import check_texts
from scaleproof.verify.printed import numbers, stands_for
from scaleproof.verify.raw import Difference, RawRun
from scaleproof.verify.recompute import Quantities
from scaleproof.verify.signature import SIGNATURE, signer_of

FILE = "report.html"
CLAIMS = "claims.json"
DRAWN = ("path", "use", "text", "title", "image")  # elements of a chart
OF_RUN = ("tokens_per_s", "wall_time_s", "loss_last")  # columns of numbers in the table of runs


def check_page(
    folder: Path, quantities: Quantities, runs: Sequence[RawRun], at_fault: Collection[str] = ()
) -> Iterator[Difference]:
    """Yield where report.html has other figures, files, machines or sentences than the raw files and claims.json.

    Where cells are `at_fault`, their files and the sentences are not looked at.
    """
    page = tree_of(text_of(folder / FILE))
    yield from _check_figures(page, quantities)
    yield from _check_sources(page, runs, at_fault)
    yield from _check_drawings(page, folder)
    yield from _check_findings(page, folder, quantities)
    if at_fault:
        return
    if (folder / CLAIMS).exists():
        yield from _check_links(page)
        yield from check_demanded(page, folder, quantities, runs)
        if are_of_this_version(runs):
            files = (CLAIMS, "findings.json", "comparison.json")
            others = [json_of(folder / file) for file in files if (folder / file).exists()]
            failures = [{"runs": run.name, **(run.metrics.get("failure") or {})} for run in runs]
            signed = {"signed": f"by the SSH key {signer_of(folder)[0]}: {SIGNATURE}"}
            yield from check_texts(page, json_of(folder / "scaling_report.json"), *others, *failures, signed)


def _check_figures(page: Element, quantities: Quantities) -> Iterator[Difference]:
    """Yield the figures that are others than the recomputed ones, or stand in the row of another cell."""
    for row in page.all("tr"):
        yield from _check_row(row)
    for link in page.all("a", kind="figure"):
        identity = link.attributes.get("data-id", "")
        quantity = quantities.get(identity)
        if identity.split("/")[1:2] != [link.attributes.get("data-cell")]:
            yield Difference(FILE, identity, f"links to {link.attributes.get('data-cell')}")
        if quantity is None:
            continue
        name = identity.rsplit("/", 1)[1]
        factor = COLUMNS[name].factor if name in COLUMNS else 1.0
        computed = [quantity.value, *(bound for bound in (quantity.low, quantity.high) if bound is not None)]
        for text in (link.attributes.get("title", ""), link.text):
            stated = numbers(text.partition(", n=")[0])
            if "[" not in text:  # without an interval behind the value
                stated = stated[:1]
            for printed, value in zip(stated, computed, strict=False):
                if not stands_for(printed, value * factor):
                    gives = significant(value * factor, 7)
                    yield Difference(FILE, identity, f"is {printed}, the raw files give {gives}")


def _check_row(row: Element) -> Iterator[Difference]:
    """Yield the figures of a table's row that are of another cell than its heading names, or link to another."""
    heading = next(row.all("th", scope="row"), None)
    for link in row.all("a", kind="figure"):
        cell = link.attributes.get("data-cell", "")
        named = heading.text.removesuffix("†") if heading else cell
        linked = link.attributes.get("href", "").removeprefix("#from-")
        if not cell == named == linked:
            yield Difference(FILE, link.attributes.get("data-id", ""), f"stands in the row of {named}")


def _check_sources(page: Element, runs: Sequence[RawRun], at_fault: Collection[str]) -> Iterator[Difference]:
    """Yield the rows of the table of files that name another cell, another file or another hash."""
    unlisted = {run.path: run for run in runs}
    hashes = {run.path: (run.cell, run.sha256[:12]) for run in runs}
    for row in page.all("tr"):
        cell, path = row.attributes.get("data-cell", ""), row.attributes.get("data-file", "")
        run_path = f"runs/{path.split('runs/', 1)[-1]}"
        unlisted.pop(run_path, None)
        if "data-sha" not in row.attributes or cell in at_fault:
            continue
        known = hashes.get(run_path)
        if known is None or known[1] != row.attributes["data-sha"]:
            yield Difference(FILE, path, "the page was made from another file")
        elif known[1] not in {code.text for code in row.all("code")}:
            yield Difference(FILE, path, f"does not show its sha256, {known[1]}")
        elif known[0] != cell or not row.text.startswith(f"{cell}/"):
            yield Difference(FILE, path, f"is a file of {known[0]}, not of {cell}")
    yield from (Difference(FILE, run.name, "is not in the table of runs") for run in unlisted.values())


def _check_findings(page: Element, folder: Path, quantities: Quantities) -> Iterator[Difference]:
    """Yield the findings that the page has of other runs, and rows of runs with other codes or figures."""
    findings = json_of(folder / "findings.json")["findings"]
    yield from _check_runs_of_findings(page, findings)
    for row in page.all("tr"):
        name = next(row.all("th"), Element("th")).text
        if "data-sha" not in row.attributes:
            continue
        links = [link for link in row.all("a") if link.attributes.get("class", "").startswith("chip")]
        codes = {link.text.removesuffix(" (note)") for link in links}
        expected = {finding["code"] for finding in findings if name in finding["runs"]}
        if codes != expected:
            other = ", ".join(sorted(codes ^ expected))
            yield Difference(FILE, name, f"its findings are others than those of findings.json: {other}")
        for column, cell in zip(OF_RUN, row.all("td", kind="number"), strict=False):
            quantity = quantities.get(f"runs/{name}/{column}")
            for text in (cell.text, cell.attributes.get("data-order", "")):
                if quantity and numbers(text) and not stands_for(text, quantity.value):
                    gives = significant(quantity.value, 7)
                    yield Difference(FILE, f"{name}, {column}", f"is {text}, the raw files give {gives}")


def _check_runs_of_findings(page: Element, findings: Sequence[Mapping[str, Any]]) -> Iterator[Difference]:
    """Yield the findings that the page has of other runs, or of another number of runs, than findings.json."""
    for part in page.all("div", kind="finding"):
        code = next(part.all("code"), Element("code")).text
        severity = next(part.all("span"), Element("span")).text
        group = [finding for finding in findings if (finding["code"], finding["severity"]) == (code, severity)]
        runs = {run for finding in group for run in finding["runs"]}
        where = next(part.all("span", kind="where"), Element("span")).text
        count = re.search(r"\((\d+) runs?\)", where)
        cells = {cell for finding in group for cell in finding["cells"]}
        subject = re.sub(r" ?\(\d+ runs?\)$", "", where).removeprefix("in ")
        if subject != f"{len(cells)} cells" and set(subject.split(", ")) - {""} != cells:
            yield Difference(FILE, code, f'is said of "{subject}", in findings.json of {", ".join(sorted(cells))}')
        if count and int(count[1]) != len(runs):
            yield Difference(FILE, code, f"is said of {count[1]} runs, in findings.json of {len(runs)}")
        for line in part.all("li"):
            named = next(line.all("b"), Element("b")).text
            texts = {finding["evidence"] for finding in group if plain(finding["evidence"]) in plain(line.text)}
            evidence = max(texts, key=len, default="")  # one may be the beginning of another
            same_evidence = [finding for finding in group if finding["evidence"] == evidence]
            expected = {run for finding in same_evidence for run in finding["runs"] or finding["cells"]}
            if _runs_in(named) != expected:
                other = ", ".join(sorted(_runs_in(named) ^ expected))
                yield Difference(FILE, code, f"its runs are others than those of findings.json: {other}")


def _runs_in(names: str) -> set[str]:
    """Return the runs in "ddp-n1x2/rep1, rep2; fsdp-n1x2/rep1"."""
    runs = set()
    for of_cell in names.split("; "):
        cell = ""
        for name in of_cell.split(", "):
            is_repeat = cell and "/" not in name
            runs.add(f"{cell}/{name}" if is_repeat else name)
            cell = cell if is_repeat else name.rpartition("/")[0]
    return runs - {""}


def _check_drawings(page: Element, folder: Path) -> Iterator[Difference]:
    """Yield each chart whose lines, marks or texts differ from its file in charts/, which is checked by itself."""
    for drawing in page.all("svg"):
        name = next((g.attributes["id"].rpartition("-")[0] for g in drawing.all("g") if "id" in g.attributes), "")
        path = folder / "charts" / f"{name}.svg"
        if not name or not path.is_file():
            continue
        original = tree_of(text_of(path))
        for tag in DRAWN:
            if _drawn(drawing, tag) != _drawn(original, tag):
                yield Difference(FILE, f"chart {name}", f"is not the drawing of charts/{name}.svg")
                break


def _drawn(drawing: Element, tag: str) -> list[tuple[str, ...]]:
    """Return the text and the coordinates of each element with that tag."""
    attributes = ("d", "x", "y", "width", "height", "transform")
    return [
        (part.text, *(" ".join(part.attributes.get(name, "").split()) for name in attributes))
        for part in drawing.all(tag)
    ]


def _check_links(page: Element) -> Iterator[Difference]:
    """Yield the links within the page that lead nowhere, or to the row of another cell than they name."""
    targets = {
        element.attributes["id"]
        for tag in ("tr", "th", "section", "figure", "h3", "div", "ul", "dialog", "article")
        for element in page.all(tag)
        if "id" in element.attributes
    }
    for link in page.all("a"):
        target = link.attributes.get("href", "")
        if target.startswith("#row-") and target.removeprefix("#row-") != link.text:
            yield Difference(FILE, link.text, f"links to the row of {target.removeprefix('#row-')}")
        if target.startswith(("#row-", "#from-")) and target[1:] not in targets:
            yield Difference(FILE, link.text, f"links to {target}, which the page does not have")
