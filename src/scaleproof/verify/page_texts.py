"""Every text of a page, tables and charts apart, is of claims.json, of a finding, or of a registry or template."""

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from scaleproof.ground.chart_words import CHART_WORDS
from scaleproof.ground.findings.finding import SEVERITIES
from scaleproof.ground.html import fixed_texts
from scaleproof.ground.number_format import in_unit
from scaleproof.ground.records.evidence import CHECKED, MEANING
from scaleproof.ground.snakemake_command import HERE
from scaleproof.verify.html_tree import Element
from scaleproof.verify.raw import Difference

FILE = "report.html"
PACKAGE = Path(__file__).parents[1]
TEMPLATES = ("conclude/report/templates/report.html.j2", "ground/templates/macros.html.j2")
BLOCKS = ("p", "li", "dd", "figcaption", "h2", "h3", "summary")
TAGS_ELSEWHERE = ("table", "svg", "style", "script", "pre")
# Ids or classes of parts whose sentences claims.json of schema 1.0 does not have.
PARTS_ELSEWHERE = {"step", "forecast", "failed", "environment", "trust", "trust-more"}
TERMS_ELSEWHERE = {"Measured", "On", "In all rows", "Time to loss"}
LETTERS = re.compile("[^\\W\\d_]{2}")  # of a word: other ones are figures
BRACKETS = re.compile(r" \((?=n=|scaleproof )")
WORD = re.compile(r"[^\W_]+(?:[./'_-]+[^\W_]+)*")


def check_texts(
    page: Element, report: Mapping[str, Any], claims: Mapping[str, Any], *contents: Mapping[str, Any]
) -> Iterator[Difference]:
    """Yield the blocks of text with words that nothing states, and the charts with the words of others.

    `report`: scaling_report.json; `claims`: claims.json; `contents`: of the other files of results, and of records.
    Their texts without a blank are names.
    """
    command = f"snakemake {report.get('snakemake') or HERE} {report.get('results')}/{report['campaign']}/report.html"
    texts = {command, *(text for content in (report, claims, *contents) for text in _texts_in(content))}
    names = {name.lower() for text in texts if " " not in text for name in (text, *text.split("/"))}
    # A page may have links to cells before what a text has in brackets at its end.
    parts = {part for text in texts if " " in text for part in (text, *BRACKETS.split(text))}
    known = _fixed_words(report["unit"]) | {_words(part) for part in parts}
    longest_first = sorted(known, key=len, reverse=True)
    for block in _blocks(page, PARTS_ELSEWHERE if claims.get("schema_version") == "1.0" else ()):
        words = f" {_words(block.text)} "
        for text in longest_first:
            words = words.replace(f" {text} ", " | ")
        unknown = [word for word in words.split() if word not in names and LETTERS.search(word) and "/" not in word]
        if unknown:
            yield Difference(FILE, f'"{block.text[:80]}"', f"nothing states {unknown[0]}")
    for figure in page.all("figure"):
        expected = CHART_WORDS.get(figure.attributes.get("id", "").removeprefix("chart-"), ())
        for tag, text in zip(("h3", "figcaption"), expected, strict=False):
            if not any(_words(element.text).startswith(_words(text)) for element in figure.all(tag)):
                yield Difference(FILE, figure.attributes["id"], f'does not have "{text[:80]}"')


@cache
def _fixed_words(unit: str) -> set[str]:
    """Return the words of the texts that do not depend on a campaign. `unit`: of its work."""
    texts = {text for template in TEMPLATES for text in fixed_texts(PACKAGE / template)}
    texts |= {"see", "too few", "too few for an interval"}  # before links; of runs, in place of bounds
    texts |= {*(f"{severity}s" for severity in SEVERITIES), "PASS", "FAIL", "not here", "UTC"}  # counted; of a doctor
    texts |= {*MEANING.values(), *CHECKED.values(), *(text for words in CHART_WORDS.values() for text in words)}
    return {_words(in_unit(text, unit)) for text in texts}


def _words(text: str) -> str:
    """Return a text in lower case with a blank between words, without punctuation around them."""
    return " ".join(WORD.findall(text.lower()))


def _blocks(element: Element, elsewhere: Collection[str]) -> Iterator[Element]:
    """Yield the innermost blocks of text in an element, without the parts whose id or class is in `elsewhere`."""
    term = ""
    for child in element.children:
        if not isinstance(child, Element) or child.tag in TAGS_ELSEWHERE:
            continue
        term = child.text if child.tag == "dt" else term
        is_fact_of_runs = child.tag == "dd" and term in TERMS_ELSEWHERE
        names = {child.attributes.get("id"), child.attributes.get("class")}
        if is_fact_of_runs or not names.isdisjoint(elsewhere):
            continue
        if child.tag in BLOCKS:
            yield child
        else:
            yield from _blocks(child, elsewhere)


def _texts_in(content: Any) -> Iterator[str]:
    """Yield the texts of a content of JSON."""
    if isinstance(content, str):
        yield content
    for part in content.values() if isinstance(content, Mapping) else content if isinstance(content, list) else ():
        yield from _texts_in(part)
