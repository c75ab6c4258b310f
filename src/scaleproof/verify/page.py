"""report.html read back: figures, links, files, machine, and the sentences of claims.json word by word.

A figure is a link with its name (data-id), its cell (data-cell) and, as its title, its value with the interval.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from scaleproof.ground.columns import COLUMNS
from scaleproof.ground.number_format import significant
from scaleproof.verify.contents import json_of, text_of
from scaleproof.verify.printed import numbers, stands_for
from scaleproof.verify.raw import Difference, RawRun
from scaleproof.verify.recompute import Quantities

FILE = "report.html"
CLAIMS = "claims.json"
VOID = ("br", "hr", "img", "input", "link", "meta", "col", "wbr")
DRAWN = ("path", "use", "text", "title", "image")  # elements of a chart
OF_RUN = ("tokens_per_s", "wall_time_s", "loss_last")  # columns of numbers in the table of runs
# Sections of the page, by the topics of the sentences that stand there; all others are of the answer.
SECTIONS = {"lost": "lost", "pairs": "pairs", "drift": "pairs", "law": "strong"}
CELLS_BEHIND = re.compile(r" \[[^\]]*\]| \(see [^)]*\)")  # in brackets in pages of before
# What the page says of the environment -> where a run has it.
ENVIRONMENT = {
    "Machine": ("host", "hostname"),
    "Operating system": ("host", "os"),
    "Python": ("env", "python_version"),
    "torch": ("env", "torch_version"),
    "transformers": ("env", "transformers_version"),
    "deepspeed": ("env", "deepspeed_version"),
    "scaleproof": ("env", "scaleproof_version"),
}


@dataclass
class Element:
    """An element of a page."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: "list[Element | str]" = field(default_factory=list)

    def all(self, tag: str, **attributes: str) -> "Iterator[Element]":
        """Yield the elements inside with that tag and these attributes; `kind` is their class."""
        expected = {name.replace("kind", "class"): value for name, value in attributes.items()}
        for child in self.children:
            if isinstance(child, Element):
                if child.tag == tag and all(child.attributes.get(name) == value for name, value in expected.items()):
                    yield child
                yield from child.all(tag, **attributes)

    @property
    def text(self) -> str:
        """All text inside, with single spaces."""
        return " ".join("".join(self._parts()).replace("\u00a0", " ").split())

    def _parts(self) -> Iterator[str]:
        """Yield the texts inside, in their order."""
        for child in self.children:
            if isinstance(child, str):
                yield child
            else:
                yield from child._parts()


class _Page(HTMLParser):
    """Parser of a page into a tree."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        for depth in range(len(self._open) - 1, 0, -1):  # the innermost one of that tag ends, with all inside of it
            if self._open[depth].tag == tag:
                del self._open[depth:]
                return

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)


def check_page(
    folder: Path, quantities: Quantities, runs: Sequence[RawRun], at_fault: Collection[str] = ()
) -> Iterator[Difference]:
    """Yield where report.html has other figures, files, machines or sentences than the raw files and claims.json.

    Where cells are `at_fault`, their files and the sentences are not looked at.
    """
    parser = _Page()
    parser.feed(text_of(folder / FILE))
    page = parser.root
    yield from _check_figures(page, quantities)
    yield from _check_sources(page, runs, at_fault)
    yield from _check_drawings(page, folder)
    yield from _check_findings(page, folder, quantities)
    if at_fault:
        return
    if (folder / CLAIMS).exists():
        yield from _check_links(page)
        yield from _check_sentences(page, json_of(folder / CLAIMS)["sentences"])
        yield from _check_environment(page, runs)
    else:
        yield from _check_rates(page, quantities)


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
    hashes = {run.path: (run.cell, run.sha256[:12]) for run in runs}
    listed = {row.attributes.get("data-file", "").split("runs/", 1)[-1] for row in page.all("tr")}
    for run in runs:
        if run.path.removeprefix("runs/") not in listed:
            yield Difference(FILE, run.name, "is not in the table of runs")
    for row in page.all("tr"):
        cell, path = row.attributes.get("data-cell", ""), row.attributes.get("data-file", "")
        if "data-sha" not in row.attributes or cell in at_fault:
            continue
        known = hashes.get(f"runs/{path.split('runs/', 1)[-1]}")
        if known is None or known[1] != row.attributes["data-sha"]:
            yield Difference(FILE, path, "the page was made from another file")
        elif known[0] != cell or not row.text.startswith(f"{cell}/"):
            yield Difference(FILE, path, f"is a file of {known[0]}, not of {cell}")


def _check_findings(page: Element, folder: Path, quantities: Quantities) -> Iterator[Difference]:
    """Yield the findings of findings.json that the page does not have, and rows of runs with other codes or figures."""
    findings = json_of(folder / "findings.json")["findings"]
    section = _plain(next(page.all("section", id="findings"), Element("section")).text)
    for finding in findings:
        if _plain(finding["evidence"]) not in section:
            yield Difference(FILE, finding["code"], f'does not have "{finding["evidence"][:80]}"')
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
        if count and int(count[1]) != len(runs):
            yield Difference(FILE, code, f"is said of {count[1]} runs, in findings.json of {len(runs)}")
        for line in part.all("li"):
            named = next(line.all("b"), Element("b")).text
            texts = {finding["evidence"] for finding in group if _plain(finding["evidence"]) in _plain(line.text)}
            evidence = max(texts, key=len, default="")  # one may be the beginning of another
            alike = [finding for finding in group if finding["evidence"] == evidence]
            expected = {run for finding in alike for run in finding["runs"] or finding["cells"]}
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
    """Yield the charts of the page whose lines, marks or texts are not those of their files, which are checked."""
    for drawing in page.all("svg"):
        name = next((g.attributes["id"].rpartition("-")[0] for g in drawing.all("g") if "id" in g.attributes), "")
        path = folder / "charts" / f"{name}.svg"
        if not name or not path.is_file():
            continue
        original = _Page()
        original.feed(text_of(path))
        for tag in DRAWN:
            if _drawn(drawing, tag) != _drawn(original.root, tag):
                yield Difference(FILE, f"chart {name}", f"is not the drawing of charts/{name}.svg")
                break


def _drawn(drawing: Element, tag: str) -> list[tuple[str, ...]]:
    """Return where each element of a kind stands, and what is written in it."""
    places = ("d", "x", "y", "width", "height", "transform")
    return [
        (part.text, *(" ".join(part.attributes.get(place, "").split()) for place in places))
        for part in drawing.all(tag)
    ]


def _check_links(page: Element) -> Iterator[Difference]:
    """Yield the links within the page that lead nowhere, or to the row of another cell than they name."""
    places = {
        element.attributes["id"]
        for tag in ("tr", "th", "section", "figure", "h3", "div", "ul", "dialog", "article")
        for element in page.all(tag)
        if "id" in element.attributes
    }
    for link in page.all("a"):
        target = link.attributes.get("href", "")
        if target.startswith("#row-") and target.removeprefix("#row-") != link.text:
            yield Difference(FILE, link.text, f"links to the row of {target.removeprefix('#row-')}")
        if target.startswith(("#row-", "#from-")) and target[1:] not in places:
            yield Difference(FILE, link.text, f"links to {target}, which the page does not have")


def _check_sentences(page: Element, sentences: Sequence[Mapping[str, Any]]) -> Iterator[Difference]:
    """Yield the sentences of the page that are not those of claims.json, in their order."""
    answer = _answer(page)
    printed = [next(answer.all("p", kind="verdict"), Element("p")).text, *(item.text for item in answer.all("li"))]
    expected = [_plain(sentence["text"]) for sentence in sentences if sentence["topic"] not in SECTIONS]
    for text, stated in zip(printed, expected, strict=False):
        if not _same(text, stated):
            yield Difference(FILE, "answer", f'is "{text[:80]}", {CLAIMS} has "{stated[:80]}"')
    if len(printed) != len(expected):
        yield Difference(FILE, "answer", f"{len(printed)} sentences, {CLAIMS} has {len(expected)}")
    whole = _plain(page.text)
    for sentence in sentences:
        if sentence["topic"] in SECTIONS and _plain(sentence["text"]) not in whole:
            yield Difference(FILE, sentence["topic"], f'does not have the sentence "{sentence["text"][:80]}"')


def _plain(text: str) -> str:
    """Return a text without the marks that the page sets for quotes around commands."""
    return " ".join(text.replace("\u00a0", " ").replace('"', "").split()).replace(" %", "%")


def _same(printed: str, stated: str) -> bool:
    """Return whether a sentence of the page is the stated one; cells that it does not name stand behind it there."""
    return CELLS_BEHIND.sub("", _plain(printed)) == CELLS_BEHIND.sub("", stated)


def _check_environment(page: Element, runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield what the page says of processor, devices and versions that no run has, or leaves out."""
    section = next(page.all("div", id="environment"), Element("div"))
    stated = {}
    for row in section.all("tr"):
        cells = [*row.all("th"), *row.all("td")]
        if len(cells) == 2:
            stated[cells[0].text] = cells[1].text
    expected = {name: [run.metrics[section].get(key) for run in runs] for name, (section, key) in ENVIRONMENT.items()}
    hardware = [run.metrics["hardware"] for run in runs]
    expected["Processor"] = [f"{of_run['cpu_model']}, {of_run['cpu_allowed']} logical CPUs" for of_run in hardware]
    commits = {run.metrics["git_commit"][:12] for run in runs if run.metrics["git_commit"]}
    if not commits <= _words(stated.get("Commit", "")):
        yield Difference(FILE, "Commit", "is not that of all runs")
    if "Devices" in stated:
        devices = [rank["device_name"] for run in runs for rank in run.metrics.get("ranks") or []]
        expected["Devices"] = devices or ["none came up"]
    for name, values in expected.items():
        texts = {" ".join(str("unknown" if value is None else value).split()) for value in values}
        if set(stated.get(name, "").split("; ")) != texts:
            gives = "; ".join(sorted(texts))
            yield Difference(FILE, name, f'is "{stated.get(name, "")[:80]}", the runs have "{gives[:80]}"')
    head = next((element.text for element in page.all("dd") if "logical CPUs" in element.text), "")
    if runs and not any(text in head for text in expected["Processor"]):
        yield Difference(FILE, "On", f'is "{head[:80]}", which no run has')


def _words(text: str) -> set[str]:
    """Return the words of a text, without the marks behind them."""
    return {word.strip(";,") for word in text.split()}


def _check_rates(page: Element, quantities: Quantities) -> Iterator[Difference]:
    """Yield rates in the answer that no cell or run has: of pages that were made before there were claims."""
    rates = [quantity.value for name, quantity in quantities.items() if name.endswith("/tokens_per_s")]
    for printed in re.findall(r"([\d,]+(?:\.\d+)?) (?:tokens|samples|steps|runs)/s", _answer(page).text):
        if not any(stands_for(printed, rate) for rate in rates):
            yield Difference(FILE, "answer", f"no cell or run has a rate of {printed}/s")


def _answer(page: Element) -> Element:
    """Return the answer at the top of a page; an empty element where there is none."""
    answers = (element for element in page.all("div") if element.attributes.get("class", "").startswith("answer"))
    return next(answers, Element("div"))
