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
