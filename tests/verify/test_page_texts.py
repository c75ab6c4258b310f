"""The texts of a page whose runs are too few for an interval."""

from scaleproof.verify.html_tree import tree_of
from scaleproof.verify.page_texts import check_texts

REPORT = {"campaign": "tiny", "results": "results", "unit": "tokens"}
CLAIMS = {"text": "Scaling: ddp on 2 devices ran at 1.04x; nothing is claimed (n=2: too few for an interval)"}


def unstated(page: str) -> list[str]:
    return [str(one) for one in check_texts(tree_of(page), REPORT, CLAIMS)]


def test_what_stands_in_place_of_bounds_is_stated():
    sentence = "Scaling: ddp on 2 devices ran at 1.04x; nothing is claimed"
    assert unstated(f"<p>{sentence} (n=2: too few for an interval)</p><p>~ 0.119 (n=2: too few)</p>") == []
    assert unstated(f"<p>{sentence} (see <a href='#a'>1</a>) <span>(n=2: too few for an interval)</span></p>") == []


def test_other_words_are_not():
    assert unstated("<p>Scaling: ddp on 2 devices ran at 1.04x; all is claimed (n=2: too few)</p>") != []
    assert unstated("<p>~ 0.119 (n=2: quite enough)</p>") != []


def test_a_page_adds_cells_before_the_command_of_a_sentence():
    claims = {
        "text": "With reservations: run-stands-out in 3 cells (scaleproof explain run-stands-out)",
        "cell": "ddp-n1x2",
    }
    page = "<li>With reservations: run-stands-out in 3 cells (see {}) (scaleproof explain run-stands-out)</li>"
    assert list(check_texts(tree_of(page.format("ddp-n1x2")), REPORT, claims)) == []
    assert list(check_texts(tree_of(page.format("nothing wrong")), REPORT, claims)) != []
