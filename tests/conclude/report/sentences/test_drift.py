"""The same work measured among the cells and in pairs: said where the rates differ by more than their intervals."""

import pandas as pd
import pytest
from result_models import comparison

from scaleproof.conclude.report.sentences.ab import drift_sentences
from scaleproof.ground.confidence import estimate_from_interval, mean_rate
from scaleproof.ground.records.result_file import Estimated


def rate(*runs):
    return Estimated.of(mean_rate(list(runs)))


def entry(a, same_work):
    arms = {"a": {"tokens_per_s": a, "same_work": same_work}, "b": {"tokens_per_s": rate(70, 71), "same_work": []}}
    return comparison(None, a="single-n1x1-ga1", b="single-n1x1-ga4", arms=arms)


def table(cell, *runs):
    e = rate(*runs) if runs else None
    row = {"cell": cell, "n": len(runs), "tokens_per_s": e and e.value}
    return pd.DataFrame([row | {"tokens_per_s_low": e and e.low, "tokens_per_s_high": e and e.high}])


def test_another_rate_than_in_the_table_is_said():
    (text,) = drift_sentences(entry(rate(130, 131, 129, 132), ["ddp-n1x1"]), table("ddp-n1x1", 96, 97, 95))
    assert "single-n1x1-ga1 ran at 130.5 tokens/s in these pairs; ddp-n1x1, which does the same work" in text
    assert "at 96.00 among the cells: 1.36x (95 % CI 1.3" in text
    assert "n=4 and 3); the machine changed in between, or the strategy costs as much" in text


def test_of_the_same_configuration_it_is_the_machine():
    same = entry(rate(130, 131, 129, 132), ["single-n1x1-ga1"])
    (text,) = drift_sentences(same, table("single-n1x1-ga1", 96, 97, 95))
    assert "in these pairs and at 96.00 among the cells" in text
    assert "; the machine changed in between. B / A is" in text


def test_a_configuration_of_another_name_is_no_other_strategy():
    same = entry(rate(130, 131, 129, 132), ["single-n1x1-gb8"])
    (text,) = drift_sentences(same, table("single-n1x1-gb8", 96, 97, 95))
    assert "in these pairs, and as single-n1x1-gb8 at 96.00 among the cells" in text
    assert "; the machine changed in between. B / A is" in text


@pytest.mark.parametrize(
    ("cells", "same_work"),
    [
        (("ddp-n1x1", 120, 130, 140), ["ddp-n1x1"]),  # within both intervals
        (("ddp-n1x1", 96), ["ddp-n1x1"]),  # one run has no interval
        (("ddp-n1x1",), ["ddp-n1x1"]),  # no numbers
        (("ddp-n1x2", 96, 97, 95), []),  # other work
    ],
)
def test_nothing_is_said_where_nothing_is_shown(cells, same_work):
    assert drift_sentences(entry(rate(130, 131, 129, 132), same_work), table(*cells)) == []
    assert drift_sentences(comparison(None), table(*cells)) == [], "a file of an older version"


def test_an_estimate_is_recovered_from_what_is_published():
    e = mean_rate([96.0, 97.0, 95.0])
    again = estimate_from_interval(e.value, e.low, e.high, e.n)
    assert again.variance == pytest.approx(e.variance)
    assert again.freedom == e.freedom
