"""Losses of equal steps: when two trainings agree, and when they do not."""

import math

import pytest

from scaleproof.ground.losses import compare_losses


@pytest.mark.parametrize(
    ("a", "b", "differ", "words"),
    [
        ({1: 2.31, 2: 2.2}, {1: 2.3, 2: 2.21}, False, "Losses agree in 2 equal steps: at most 0.45 % apart."),
        ({1: 2.31, 2: 2.2}, {1: 2.31, 2: 1.9}, True, "Losses differ in 1 of 2 equal steps, first at step 2 (2.2 in a,"),
        ({1: 9e-05, 2: 8e-05}, {1: 4e-05, 2: 2e-05}, True, "Losses differ in 2 of 2 equal steps, first at step 1"),
        ({1: 2e-05}, {1: 3e-05}, False, "Losses agree in 1 equal step: at most 33 % apart, within"),  # one digit
        (
            {1: 8.0},
            {1: 5.3e5},
            True,
            "Losses differ in 1 of 1 equal step, first at step 1 (8 in a, 5.3e+05 in b: 100 %",
        ),
        ({1: 2.0, 2: 1.9}, {1: 2.0, 2: math.nan}, True, "Losses differ: at step 2 that of b is no finite number."),
        ({1: math.inf}, {1: math.nan}, False, "Losses were not compared: none is a finite number."),
        ({1: 2.0}, {2: 2.0}, False, "Losses were not compared: no step has one in all runs."),
        ({1: 2.0}, {}, False, ""),
    ],
)
def test_equal_steps_tell_whether_two_trainings_agree(a, b, differ, words):
    found_differ, text = compare_losses("a", "b", [a], [b])
    assert (found_differ, text[: len(words)]) == (differ, words)
