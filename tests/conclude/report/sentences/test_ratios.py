"""Ratios in sentences."""

import pytest

from scaleproof.conclude.report.sentences.ratios import ratio_sentence
from scaleproof.ground.number_format import interval_text


def test_an_interval_of_two_runs_is_printed_only_where_it_says_something():
    assert interval_text(0.98, 1.02, 2) == "95 % CI 0.980-1.02, n=2"
    assert interval_text(3.744, 6_245_145, 2) == "n=2: interval too wide to print"
    assert interval_text(0.5, 1.4, "3") == "95 % CI 0.500-1.40, n=3"
    assert interval_text(None, None, 1) == "n=1: no interval"


@pytest.mark.parametrize(
    ("bounds", "sentence"),
    [
        ((0.995, 0.997, 0.9991), "b is slower than a, which has 1.003x its tokens/s (95 % CI 1.001-1.005, n=3)."),
        ((1.00002, 1.0001, 1.0002), "b is faster than a: 1.00010x its tokens/s (95 % CI 1.00002-1.00020, n=3)."),
        ((1.01, 1.05, 1.09), "b is faster than a: 1.05x its tokens/s (95 % CI 1.01-1.09, n=3)."),
        ((0.9999, 1.0001, 1.0003), "b cannot be told apart from a: 1.00x its tokens/s (95 % CI 1.000-1.00, n=3)."),
    ],
)
def test_a_ratio_that_is_claimed_is_not_printed_as_1(bounds, sentence):
    low, value, high = bounds
    assert ratio_sentence("b", "a", value, low, high, "3") == sentence
