"""Page, sentences and tables written again: the same where nobody changed them; whatever was changed is named."""

import json
import random
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from verify.test_any_answer import CAMPAIGNS, any_campaign, finished

from scaleproof.conclude.publication import made_again
from scaleproof.conclude.publication.made_again import compare_with_rewritten
from scaleproof.conclude.publication.statements import blocks_of, differing
from scaleproof.conclude.report.page import write_page
from scaleproof.conclude.report.page_facts import RunFacts, collect_run_facts
from scaleproof.measure.doctor.doctor import JudgedLook, Report
from scaleproof.verify.html_tree import Element, tree_of
from scaleproof.verify.raw import Difference

PUBLISHED = sorted((Path(__file__).parents[3] / "results/published").glob("demo_*"))[-1]
SAMPLE = 60
Content = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished campaign."""
    root = tmp_path_factory.mktemp("campaign")
    finished(root, **any_campaign(3))
    return root


def named(folder: Path) -> list[str]:
    return list(map(str, compare_with_rewritten(folder).differences))


def edited(content: Content, **changes: Any) -> Content:
    first, *others = content["sentences"]
    return content | {"sentences": [first | changes, *others]}


EDITS: dict[str, tuple[Callable[[Content], Content], str]] = {
    "a word": (lambda c: edited(c, text=f"{c['sentences'][0]['text']}, surely"), ', surely", and its files give'),
    "a claim": (lambda c: edited(c, claims=["rate/ddp-n1x1"]), "rate/ddp-n1x1"),
    "a sentence more": (
        lambda c: c | {"sentences": [*c["sentences"], {"topic": "next", "text": "Rest.", "claims": []}]},
        '"next: Rest.": is not what its files give',
    ),
    "a sentence less": (lambda c: c | {"sentences": c["sentences"][:-1]}, "is left out"),
    "no code": (lambda c: c | {"code_sha256": None}, "code_sha256: is missing"),
}


def test_all_is_what_the_files_give(folder: Path) -> None:
    assert compare_with_rewritten(folder) == made_again.Rewritten([])


def test_what_differs_as_a_whole_is_one_difference() -> None:
    """Beside its hash; of other files, and of a page that differs in parts alone, what is said before stays."""
    sha256, part, of_table = (
        Difference("a", "sha256", "changed"),
        Difference("a", "x", "is 1"),
        Difference("b", "", "y"),
    )
    before = [sha256, part, of_table]
    as_a_whole = Difference("a", "", "is cut off")
    assert made_again.Rewritten([as_a_whole]).added_to(before) == [sha256, of_table, as_a_whole]
    assert made_again.Rewritten([Difference("a", "z", "is 2")]).added_to(before) == before
    unread = Difference("a", "", "not readable")
    assert made_again.Rewritten([as_a_whole]).added_to([sha256, unread]) == [sha256, unread]
    assert made_again.Rewritten([Difference("c", "z", "is 2")]).added_to(before)[:-1] == before


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_sentence_is_named(folder: Path, name: str) -> None:
    edit, expected = EDITS[name]
    claims = folder / "claims.json"
    text = claims.read_text()
    claims.write_text(json.dumps(edit(json.loads(text))))
    differences = named(folder)
    claims.write_text(text)
    assert any(expected in difference for difference in differences), differences


def test_the_published_demo_has_the_figures_and_words_that_its_files_give() -> None:
    """Code of before has written it: some words of it are others."""
    assert compare_with_rewritten(PUBLISHED) == made_again.Rewritten([])


def test_a_page_may_have_pseudonyms_of_hosts(tmp_path: Path) -> None:
    results = finished(tmp_path, **any_campaign(3))
    write_page(results.inputs(names=("ranking", "speedup"), anonymous=True), tmp_path / "report.html")
    assert "host1" in (tmp_path / "report.html").read_text()
    assert named(tmp_path) == []


def test_what_a_and_b_are_may_be_missing_on_a_page_of_before_and_be_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished(tmp_path, **CAMPAIGNS["better than"])

    def of_commands(*arguments: Any) -> RunFacts:
        commands = {"ddp-n1x2": "python train.py", "zero1-n1x2": "python train.py --fused"}
        return replace(collect_run_facts(*arguments), commands=commands)

    monkeypatch.setattr(made_again, "collect_run_facts", of_commands)
    assert named(tmp_path) == [], "without a word on it"
    page = tmp_path / "report.html"
    lines = '<dl class="lines sides">\n<dt>A</dt><dd>ddp-n1x2: <code>python {}</code></dd>\n</dl>'
    page.write_text(page.read_text().replace('<p class="trust">', f'{lines.format("other.py")}<p class="trust">', 1))
    assert any("other.py" in difference for difference in named(tmp_path))


def test_a_chart_that_nobody_asked_for_is_named(tmp_path: Path) -> None:
    names = ("ranking", "speedup", "seq_len")
    results = finished(tmp_path, **any_campaign(3))
    write_page(results.inputs(names=names, drawn=list(names)), tmp_path / "report.html")
    assert any('says "<figure id="chart-seq_len">"' in text for text in named(tmp_path))


def test_every_table_is_written_again() -> None:
    tables = [path.relative_to(PUBLISHED).as_posix() for path in PUBLISHED.glob("tables/*")]
    assert {file for file, *_ in made_again._both_versions(PUBLISHED, made_again.records_in(PUBLISHED))} == {
        "report.html",
        "claims.json",
        *tables,
    }


def looked_at(results: Any) -> Report:
    """The doctor's report of the machine of `results`, of a time before."""
    run = results.runs[0].metrics
    values = {"cores": 2, "threads_per_core": 2}
    look = JudgedLook(
        name="cores", area="cpu", status="PASS", evidence="2 logical CPUs", advice="", seconds=0, values=values
    )
    examined = datetime(2000, 1, 1, tzinfo=UTC)
    return Report(timestamp_utc=examined, host=run.host["hostname"], device="cpu", checks=[look])


def test_a_page_with_what_the_doctor_said_is_what_the_results_give(tmp_path: Path) -> None:
    """doctor.json is not among the results: what it alone knows stands in its own part of the page."""
    results = finished(tmp_path, **any_campaign(3))
    inputs = results.inputs(names=("ranking", "speedup"))
    facts = collect_run_facts(results.runs, looked_at(results))
    write_page(replace(inputs, facts=facts), tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "2 logical CPUs" in text
    assert named(tmp_path) == []
    row = '<tr><th scope="row">Python</th>'
    (tmp_path / "report.html").write_text(text.replace(row, f'<tr><th scope="row">More</th><td>1</td></tr>{row}', 1))
    differences = named(tmp_path)
    assert any('"More"' in difference for difference in differences), differences
    assert not any("<tr>" in difference for difference in differences), differences


@pytest.mark.parametrize(
    ("before", "after", "is_named"),
    [
        (r"(<p class=.verdict.>)", r"\1Not so: ", True),  # a word that decides
        (r"The interval contains 1", "Its interval contains 1", False),
        (r"(<th scope=.row. id=.row-)[\w-]+(.>)[\w-]+", r"\1x-n1x1\2x-n1x1", True),
        (r"(data-order=.)\d", r"\g<1>7", True),
        (r"Unknown, or does", "All unknown, or does", True),
        (r"95(.{1,6})over these runs", r"90\1over the runs", True),
        (r"(max-width: )\d", r"\g<1>9", False),  # of its style
        (r"(</style>)", r"\1<style>td { width: 9rem }</style>", True),  # one more, which no code has written
    ],
)
def test_of_other_code_words_may_be_others_and_figures_may_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, is_named: bool
) -> None:
    page = folder / "report.html"
    text = page.read_text()
    page.write_text(re.sub(before, after, text, count=1))
    assert page.read_text() != text
    assert named(folder) != []
    monkeypatch.setattr(made_again, "code_sha256", lambda *_: "0" * 64)
    again = compare_with_rewritten(folder)
    page.write_text(text)
    assert bool(again.differences) == is_named
    assert again.reservation.startswith("other code wrote the page; if " if is_named else "1 statement ")


def test_a_page_of_another_version_is_not_written_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_again, "__version__", "9.0")
    assert "another version" in compare_with_rewritten(folder).reservation


def test_a_page_that_cannot_be_written_is_a_difference(folder: Path) -> None:
    chart = folder / "charts/ranking.svg"
    text = chart.read_text()
    chart.write_text("no drawing")
    differences = named(folder)
    chart.write_text(text)
    assert any("report.html" in difference for difference in differences), differences


def places(element: Element) -> Iterator[tuple[Element, Element]]:
    """Every element of a page, and what it stands in."""
    for child in element.children:
        if isinstance(child, Element):
            yield child, element
            yield from places(child)


def test_nothing_of_a_page_can_be_left_out_or_stand_elsewhere() -> None:
    page = deepcopy(tree_of((PUBLISHED / "report.html").read_text()))  # the one of the cache is everybody's
    whole = blocks_of(page)
    for part, around in random.Random(7).sample(list(places(page)), SAMPLE):
        place = around.children.index(part)
        around.children.remove(part)
        assert list(differing(blocks_of(page), whole)) != [], part.opening
        around.children.insert(place, part)
        part.attributes["class"] = "other"
        assert list(differing(blocks_of(page), whole)) != [], part.opening
        whole = blocks_of(page)
