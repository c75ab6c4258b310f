"""Ratios in sentences."""

from scaleproof.ground.number_format import interval_text


def test_an_interval_of_two_runs_is_printed_only_where_it_says_something():
    assert interval_text(0.98, 1.02, 2) == "95 % CI 0.980-1.02, n=2"
    assert interval_text(3.744, 6_245_145, 2) == "n=2: interval too wide to print"
    assert interval_text(0.5, 1.4, "3") == "95 % CI 0.500-1.40, n=3"
    assert interval_text(None, None, 1) == "n=1: no interval"
