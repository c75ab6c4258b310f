"""Whatever is taken away from a campaign's page, or from its claims, is missed by `verify`."""

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from verify.test_any_answer import unmissed_sentences

from scaleproof.verify import campaign_file, page_texts, unsaid
from scaleproof.verify import page as read_back
from scaleproof.verify.campaign import quantities_of, verify
from scaleproof.verify.contents import json_of
from scaleproof.verify.demanded import check_demanded
from scaleproof.verify.html_tree import Element, tree_of
from scaleproof.verify.raw import read_runs

PUBLISHED = sorted((Path(__file__).parents[2] / "results/published").glob("demo_*"))[-1]
TAGS = ("p", "li", "tr", "dd", "dl", "ul", "table", "figure", "section", "details")
UNMISSED = {"soft screen hover", "files"}  # classes of what says how to use the page
SAMPLE = 40
Place = tuple[Element, Element]  # an element, and what it stands in


def places(element: Element) -> Iterator[Place]:
    for child in element.children:
        if isinstance(child, Element) and child.tag not in ("svg", "nav", "script", "style"):
            if child.tag in TAGS and child.text and child.attributes.get("class") not in UNMISSED:
                yield child, element
            yield from places(child)


def test_nothing_can_be_left_out_of_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (PUBLISHED / "report.html").read_text()
    page = tree_of(text)
    runs, _ = read_runs(PUBLISHED)
    quantities, _ = quantities_of(PUBLISHED, runs)
    monkeypatch.setattr(read_back, "tree_of", lambda given: page if given == text else tree_of(given))
    assert list(read_back.check_page(PUBLISHED, quantities, runs)) == []
    unmissed = []
    for part, around in random.Random(7).sample(list(places(page)), SAMPLE):
        place = around.children.index(part)
        around.children.remove(part)
        if not list(read_back.check_page(PUBLISHED, quantities, runs)):
            unmissed.append(f"{part.tag}: {part.text[:80]}")
        around.children.insert(place, part)
    assert unmissed == []


def test_no_sentence_can_be_added_to_a_text_of_a_page() -> None:
    page = tree_of((PUBLISHED / "report.html").read_text())
    files = [json_of(PUBLISHED / name) for name in ("scaling_report.json", "claims.json", "findings.json")]
    assert list(page_texts.check_texts(page, *files)) == []
    for block in page_texts._blocks(page, page_texts.PARTS_ELSEWHERE):
        block.children.append(" Nobody wins.")
        (difference,) = page_texts.check_texts(page, *files)
        assert "nothing states nobody" in str(difference)
        block.children.pop()


def test_no_sentence_of_the_published_demo_can_be_left_out(tmp_path: Path) -> None:
    shutil.copytree(PUBLISHED, tmp_path / "demo")
    assert unmissed_sentences(tmp_path / "demo") == []


def test_words_of_another_version_are_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of this version must define its columns as this version does."""
    shutil.copytree(PUBLISHED, tmp_path / "demo")
    path = tmp_path / "demo/report.html"
    text = path.read_text()
    path.write_text(text.replace("measured runs, each by processes of its own", "measured runs, each a fresh start"))
    assert path.read_text() != text
    runs, _ = read_runs(tmp_path / "demo")
    quantities, _ = quantities_of(tmp_path / "demo", runs)
    (difference,) = read_back.check_page(tmp_path / "demo", quantities, runs)
    assert "does not have" in str(difference)
    monkeypatch.setattr(campaign_file, "__version__", "9.0")
    assert list(read_back.check_page(tmp_path / "demo", quantities, runs)) == []


def test_a_target_loss_that_is_not_the_campaigns_is_named(tmp_path: Path) -> None:
    shutil.copytree(PUBLISHED, tmp_path / "demo")
    with (tmp_path / "demo/campaign.yaml").open("a") as campaign:
        campaign.write("\ntarget_loss: 6.9\n")
    differences = [str(difference) for difference in verify(tmp_path / "demo", with_manifest=False)[0]]
    assert any("target_loss: is 6.96" in difference for difference in differences), differences


def test_a_verdict_is_about_the_largest_size() -> None:
    """One on a series has other words, which its own claim supports; it must not stand where sizes were ranked."""
    claims, report = (json.loads((PUBLISHED / name).read_text()) for name in ("claims.json", "scaling_report.json"))
    expected = {claim["id"]: claim for claim in claims["claims"]}
    sentences = claims["sentences"]
    assert list(unsaid.check_largest_size(sentences, expected, report)) == []
    of_series = next(name for name in expected if name.startswith("speed-up/"))
    other = [sentences[0] | {"claims": [of_series]}, *sentences[1:]]
    (difference,) = unsaid.check_largest_size(other, expected, report)
    assert "is about speed-up" in str(difference)


@pytest.mark.parametrize(("factor", "is_missed"), [(1, True), (4, False)])
def test_bounds_of_a_trace_that_say_nothing_are_not_demanded(tmp_path: Path, factor: float, is_missed: bool) -> None:
    """A page prints "1.1 (n=6: too few)" where one further run may take any time; otherwise its bounds."""
    runs, _ = read_runs(PUBLISHED)
    quantities, _ = quantities_of(PUBLISHED, runs)
    shutil.copytree(PUBLISHED, tmp_path / "demo")
    path = tmp_path / "demo/traces.json"
    report = json.loads(path.read_text())
    overhead = report["traces"][0]["overhead"]
    bounds = "[{low:.3g},\u00a0{high:.3g}]".format_map(overhead)
    text = (PUBLISHED / "report.html").read_text()
    assert bounds in text
    overhead |= {"low": overhead["low"] / factor, "high": overhead["high"] * factor}
    path.write_text(json.dumps(report))
    page = tree_of(text.replace(bounds, f"(n={overhead['n']}: too few)"))
    lacking = check_demanded(page, tmp_path / "demo", quantities, runs)
    assert any("traced / untraced" in difference.where for difference in lacking) is is_missed
