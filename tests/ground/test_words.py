"""Words of reports: each has one meaning, and those that the published page uses are explained."""

import ast
import html
import re
from typing import get_args

import pytest

from scaleproof.auditor.audit_text import HEADINGS, SCALING
from scaleproof.cli.audit import _definition
from scaleproof.ground.campaign.strategies import PrecisionName, StrategyName
from scaleproof.ground.chart_words import CHART_WORDS
from scaleproof.ground.columns import COLUMNS
from scaleproof.ground.records.run_sections import FailureClass
from scaleproof.ground.verdict import Status
from scaleproof.ground.words import ANSWERS, GLOSSARY, LEARNT, MEASURED, PAIRS, TRACED, all_words, meaning_of_word


@pytest.mark.parametrize(
    "word",
    [
        "undecided",
        "Too close to call",
        "held-out",
        "LOW",
        "n",
        "95 % CI",
        "CI",
        "confidence interval",
        "P-value",
        "repeats",
        "built",
        "strong scaling",
        "no_figures",
        "host oom",
        "timeout",
        "n=6: too few",
        "n=6: too wide",
        "n=3: interval too wide to print",
        "noise floor",
        "non-inferiority",
        "replay",
        "A/B",
        "gloo",
        "95 %",
        "95%",
        "intervals",
        "Can I trust it?",
        "what is the baseline?",
        "95 % confidence",
        "ddp-n1x2",
        "step, window",
        "corrected for 15 comparisons",
        "losses",
        "measured",
        "ideal step",
        "traced step",
    ],
)
def test_a_word_is_known_however_it_is_written(word):
    assert meaning_of_word(word)


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("significant", "leaves out 1"),
        ("loss", "its rate is lower"),
        ("nodes", "machines"),
        ("On", "The machine of the runs"),
        ("n1x2", "One configuration"),
        ("Where scaling is lost", "A waterfall"),
        ("corrected for 15 comparisons", "Tukey"),
        ("1x2", "nodes x devices"),
        ("undecided", "scaleproof plan FILE"),
        ("the smallest difference that would show", "smallest true difference"),
        ("the simplest candidate", "nothing disturbed its runs"),
        ("may be as fast", "either side"),
        ("ga4", "gradient accumulation"),
        ("ddp-n1x2-ga4", "One configuration"),
    ],
)
def test_a_word_has_the_meaning_that_the_page_gives_it(word, meaning):
    assert meaning in (meaning_of_word(word) or "")


@pytest.mark.parametrize("word", ["", "undecide", "low good", "speed", "n=6", "figures", "p4", "4", "1x2x3x"])
def test_another_word_is_not_taken_for_one(word):
    assert meaning_of_word(word) is None


def test_each_word_has_one_meaning():
    assert len(set(all_words())) == len(all_words())
    assert len(GLOSSARY) == sum(map(len, (MEASURED, PAIRS, TRACED, LEARNT, ANSWERS)))


def test_words_of_the_published_page_are_known(repository):
    page = next(repository.glob("results/published/demo_*/report.html")).read_text()
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    for word in ("undecided", "too close to call", "Whole job", "Recommended"):
        assert word in text
        assert meaning_of_word(word), word
    cells = re.findall(r"<(th|dt|h2|h3)\b(.*?)</\1>", page, re.S)
    headings = {html.unescape(re.sub(r"^[^>]*>|<[^>]+>", "", cell)).strip() for _, cell in cells}
    assert len(headings) > 80
    assert {"Commit", "Order", "Charts", "tokens/s (95\u00a0%)"} <= headings
    assert _unexplained(headings) == []


def test_headings_of_all_pages_are_known(repository):
    headings = set()
    for path in (repository / "src/scaleproof").rglob("templates/*.j2"):
        texts = re.findall(r"<(?:h2|h3|dt|th)\b[^>]*>([^<{]+)<|fold\(\"([^\"]+)", path.read_text())
        headings |= {part for pair in texts for text in pair for part in text.strip(" \n(").split(", ")} - {""}
    assert {"Both sides", "All cells", "What was run", "Not read"} <= headings
    assert _unexplained(headings) == []


def test_words_that_the_program_chooses_from_are_known():
    charts = [chart.title for chart in CHART_WORDS.values()]
    kinds = (Status, FailureClass, StrategyName, PrecisionName)
    words = [*charts, *HEADINGS, *SCALING, *(word for kind in kinds for word in get_args(kind))]
    assert len(words) > 50
    assert _unexplained(words) == []


def test_headings_of_tables_on_the_console_are_known(repository):
    words = set()
    for path in (repository / "src/scaleproof").rglob("*.py"):
        if "tabulate(" in (text := path.read_text()):
            words |= set(_headings(ast.parse(text)))
    assert {"device hours", "tokens/s", "state/device", "retries", "of link"} <= words
    assert _unexplained(words - {""}) == []


def _unexplained(words):
    return [word for word in words if not (meaning_of_word(word) or _definition(word))]


def _headings(tree):
    """Yield the texts of all lists of headings: those called so, those given to tabulate, and keys of rows."""
    for node in ast.walk(tree):
        texts = []
        if isinstance(node, ast.Assign) and re.search("head(er|ing)s$", ast.unparse(node.targets[0])):
            texts = getattr(node.value, "elts", [])
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "tabulate" and len(node.args) > 1:
            texts = getattr(node.args[1], "elts", [])
        elif isinstance(node, ast.FunctionDef) and node.name.endswith("_row"):
            texts = [key for part in ast.walk(node) if isinstance(part, ast.Dict) for key in part.keys]
        yield from (text.value for text in texts if isinstance(text, ast.Constant))


def test_every_column_that_has_a_definition_is_found_by_its_heading():
    for column in COLUMNS.values():
        if column.definition and column.heading:
            assert meaning_of_word(column.heading) or _definition(column.heading), column.heading


def test_a_column_is_known_as_sentences_call_it():
    assert _definition("scaling efficiency") == _definition("scaling_efficiency")
    assert _definition("efficiency of scaling") is None
