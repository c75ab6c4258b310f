"""Quantiles of the studentized range, against printed tables and against scipy.stats."""

import pytest
from scipy.stats import studentized_range as distribution

from scaleproof.conclude.analysis.studentized_range import studentized_range_quantile


def test_quantiles_are_those_of_printed_tables():
    """Hsu 1996, appendix E."""
    assert studentized_range_quantile(0.95, 2, 10) == pytest.approx(3.151, abs=5e-4), "of two means it is Student's"
    assert studentized_range_quantile(0.95, 6, 10) == pytest.approx(4.912, abs=1e-3)
    assert studentized_range_quantile(0.99, 3, 60) == pytest.approx(4.282, abs=1e-3)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99, 0.999])
@pytest.mark.parametrize(("k", "freedom"), [(3, 4), (3, 200), (7, 12), (20, 38), (20, 5000), (250, 2241)])
def test_what_is_beyond_a_quantile_has_the_probability_asked_for(confidence, k, freedom):
    beyond = distribution.sf(studentized_range_quantile(confidence, k, freedom), k, freedom)
    assert beyond == pytest.approx(1 - confidence, rel=1e-6)


@pytest.mark.parametrize("k", [3, 20])
def test_a_search_that_begins_far_away_ends(k):
    """With one degree of freedom Bonferroni's bound is twice the quantile of a low level, and more."""
    for confidence in (0.05, 0.5):
        quantile = studentized_range_quantile(confidence, k, 1)
        assert distribution.cdf(quantile, k, 1) == pytest.approx(confidence, rel=1e-3)
