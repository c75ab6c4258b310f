"""Statements of a page, and what of them other words may not change."""

import pytest

from scaleproof.conclude.publication.statements import (
    Statement,
    blocks_of,
    differing,
    differing_contents,
    fault_of_whole,
    in_words,
    names_in,
)
from scaleproof.verify.html_tree import tree_of

NAMES = {"ddp-n1x2", "host", "gaps"}


def test_a_block_is_one_statement_with_all_that_is_in_it():
    page = tree_of('<div id="a"><p>one <b>two</b></p><ul><li>three</ul>four</div>')
    assert [(one.text, one.whole) for one in blocks_of(page)] == [
        ("", '<div id="a">'),
        ("one two", "<p> one <b> two"),
        ("", "<ul>"),
        ("three", "<li> three"),
        ("four", "four"),
    ]


@pytest.mark.parametrize(
    ("text", "contents"),
    [
        ("ddp-n1x2 runs at 1.45x (1.2-1.7)", "ddp-n1x2 1.45 1.2 1.7"),
        ("ddp-n1x2 runs at 1.45 [1.2,\u00a01.7]", "ddp-n1x2 1.45 1.2 1.7"),  # as it was written before
        ("it is faster, and 1.0 is 1.0", "faster and 1.0 1.0"),
        ("unexplained -1.5 ms: host gaps", "-1.5 host gaps"),
        ('<td style="width: 7" class="number more" data-order="3.5">a', "more 3.5"),
        ('<a href="#row-ddp-n1x2">here', ""),
    ],
)
def test_contents_are_figures_names_and_words_that_decide(text, contents):
    assert Statement("", text).contents(NAMES) == contents


@pytest.mark.parametrize(
    ("stated", "again", "differs"),
    [
        (["ddp-n1x2: it runs at 1.4x"], ["ddp-n1x2: ddp-n1x2 runs at 1.4x"], False),
        (["at 1.4x"], ["at 1.5x"], True),
        (["is faster"], ["is slower"], True),
        (["at 1.4x", "one"], ["two", "at 1.4x"], False),
        ([], ["ddp-n1x2 is there"], True),
        ([], ["the interval contains 1"], True),
        ([], ["so it is explained"], False),
        (["~ 1.06"], ["1.06"], True),
        (["of 6 runs, 4"], ["of 6 runs, 4 of 6"], True),
        ([r"\textasciitilde{}~1.06"], ["~1.06"], True),
        (["and ddp-n1x2"], ["ddp-n1x2"], True),
        (["nobody wins"], [], True),
        (["hides 1.5 ms: all of it"], ["hides 1.5 ms; yet all of it"], True),
        (["long enough"], ["too short"], True),
        (["Next: 12 repeats show 5 %"], ["Next: on a quiet machine, retry ddp-n1x2"], False),
        (["Next: 12 repeats show 5 %"], ["ddp-n1x2 has 12"], True),
        (["Next: 12 repeats show 5 %", "ddp-n1x2: 5"], ["ddp-n1x2: 5", "Next: retry ddp-n1x2"], False),
        (["Next: none, ddp-n1x2 is faster"], ["Next: on a quiet machine, retry ddp-n1x2"], True),
    ],
)
def test_other_words_with_the_same_contents_do_not_differ(stated, again, differs):
    pairs = list(differing(*([Statement(text, text) for text in side] for side in (stated, again))))
    assert bool(differing_contents(pairs, NAMES)) == differs


def test_a_page_of_before_may_have_fewer_explanations_and_marks():
    pairs = [(None, Statement("", "the interval contains 1")), (Statement("", "1.06"), Statement("", "~ 1.06"))]
    assert differing_contents(pairs, NAMES, is_of_before=True) == []
    assert differing_contents(pairs, NAMES) == pairs


def test_a_large_page_is_compared_in_a_second():
    """Of twenty thousand equal rows that are compared with each other, it would take minutes."""
    row = Statement("", "<tr>")
    stated, again = ([Statement("", first), *[row] * 20_000, Statement("", "end")] for first in ("one", "two"))
    assert list(differing(stated, again)) == [(stated[0], again[0])]
    again = [*again[:-1], Statement("", "other")]
    assert list(differing(stated, again)) == [(stated[0], again[0]), (stated[-1], again[-1])]


def test_a_difference_is_shown_where_it_begins():
    long = "so many words that nobody would find what differs " * 3
    where, problem = in_words((Statement(f"{long}one", ""), Statement(f"{long}two", "")))
    assert where.startswith('"so many')
    assert 'differs one", and its files give "' in problem
    assert in_words((None, Statement("gone", "")))[1] == "is left out"
    assert in_words((Statement("more", ""), None))[1] == "is not what its files give"


@pytest.mark.parametrize(
    ("stated", "fault"),
    [
        ("one,two,thr", "is cut off: 2 of its 6 statements are there"),
        ("version,oid,size", 'is another text ("version")'),
        ("<<<<<<< HEAD,one,two,three,four,five,six", "has a merge conflict of git"),
        ("one,two,THREE,four,five,six", ""),
        ("one,two,three,four,five", ""),  # it is named by itself
        ("one,two,three,four,five,six", ""),
    ],
)
def test_a_text_that_is_cut_off_or_another_is_one_fault(stated: str, fault: str) -> None:
    again = "one,two,three,four,five,six"
    sides = ([Statement(word, word) for word in text.split(",")] for text in (stated, again))
    stated_side, expected_side = map(list, sides)
    assert fault_of_whole(stated_side, expected_side, count=len([*differing(stated_side, expected_side)])) == fault


@pytest.mark.parametrize(("count", "is_named"), [(50, False), (200, True)])
def test_a_page_of_other_results_is_one_fault(count: int, is_named: bool) -> None:
    again = [Statement(str(n), str(n)) for n in range(400)]
    stated = [Statement("x", "x") if n < 2 * count and n % 2 else one for n, one in enumerate(again)]
    fault = "differs in 200 of its 400 statements: is it of other results?"
    assert fault_of_whole(stated, again, count=len([*differing(stated, again)])) == (fault if is_named else "")


def test_names_are_short_texts():
    content = {"cell": "ddp-n1x2", "parts": ["host gaps", "Of many words this is a sentence"]}
    assert set(names_in(content)) == NAMES


def test_a_pseudonym_stands_for_a_word_and_for_no_more():
    def statements(text: str) -> list[Statement]:
        return [Statement(text, text)]

    assert list(differing(statements("devices per host1."), statements("devices per node."))) == []
    assert list(differing(statements("devices per host1."), statements("devices per node and rank."))) != []
    assert list(differing(statements("devices per rank."), statements("devices per node."))) != []
