"""Repeats that are no sample: drift, two states of the machine, correlation."""

import numpy as np
import pytest
from synthetic import cells, write_run

from scaleproof.conclude.checks.comparability import runs_have_a_usual_rate, runs_stay_together
from scaleproof.conclude.checks.repeats import (
    lag_one,
    machine_did_not_drift,
    machine_has_one_state,
    repeats_do_not_resemble_the_one_before,
)


@pytest.fixture
def runs_with(tmp_path):
    """Four cells with `repeats` runs each, step times times `factor(cell, repeat)`."""

    def make(factor, repeats=5):
        random = np.random.default_rng(1)
        four = cells(vary={"strategy": ["ddp", "zero1", "zero2", "zero3"], "geometry": ["1x2"]})
        return [
            write_run(tmp_path, cell, k, 0.05 * factor(i, k) * random.lognormal(0, 0.005), spread=0)
            for i, cell in enumerate(four)
            for k in range(1, repeats + 1)
        ]

    return make


def test_a_steady_machine_has_neither(runs_with):
    runs = runs_with(lambda cell, k: 1.0)
    assert machine_did_not_drift(runs) == []
    assert machine_has_one_state(runs) == []


def test_drift_is_found_in_all_cells_together(runs_with):
    (finding,) = machine_did_not_drift(runs_with(lambda cell, k: 1 + 0.02 * k))
    assert finding.code == "drift-over-repeats"
    assert "rates change by -7." in finding.evidence


def test_cells_of_one_run_hide_no_drift_of_the_others(tmp_path, runs_with):
    single = cells(vary={"seed": list(range(16)), "geometry": ["1x2"]})
    others = [write_run(tmp_path, cell, 1, 0.05, spread=0) for cell in single]
    assert machine_did_not_drift([*runs_with(lambda cell, k: 1 + 0.02 * k), *others])


def test_two_states_are_found(runs_with):
    runs = runs_with(lambda cell, k: 1.1 if (cell + k) % 2 else 1.0)
    (finding,) = machine_has_one_state(runs)
    assert finding.code == "two-clock-states"
    assert "10 of 20 runs are 9." in finding.evidence
    assert machine_did_not_drift(runs) == []


TWO_GROUPS = (1.0, 1.01, 1.04, 2.0, 2.02, 1.98)


@pytest.mark.parametrize(
    ("times", "odd", "is_apart"),
    [
        (TWO_GROUPS, [], True),
        ((1.0, 2.0), [], True),
        ((1.0, 1.4, 2.0, 2.8, 4.0, 5.6), [], True),
        ((1.0, 1.01, 1.04, 1.0, 1.02, 1.98), [6], False),
        ((1.0, 1.01, 1.04, 1.0, 2.02, 1.98), [5, 6], False),
        ((1.0, 1.01, 1.04, 1.0, 1.2, 1.1), [], False),
    ],
)
def test_where_half_of_the_runs_are_apart_none_stands_out(tmp_path, times, odd, is_apart):
    runs = [write_run(tmp_path, cells()[0], k, 0.05 * time, spread=0) for k, time in enumerate(times, 1)]
    assert [finding.runs for finding in runs_stay_together(runs)] == [[runs[k - 1].name] for k in odd]
    assert [finding.runs for finding in runs_have_a_usual_rate(runs)] == [[run.name for run in runs]] * is_apart


def test_one_slow_run_is_no_state_and_few_runs_are_no_pattern(runs_with):
    assert machine_has_one_state(runs_with(lambda cell, k: 1.5 if (cell, k) == (0, 1) else 1.0)) == []


def test_few_runs_are_no_pattern(runs_with):
    runs = runs_with(lambda cell, k: (1 + 0.05 * k) * (1.1 if k % 2 else 1.0), repeats=2)
    assert machine_did_not_drift(runs) == machine_has_one_state(runs) == []


def slow_wave(k):
    return 1 + 0.1 * np.sin(k / 2)


def test_repeats_that_follow_each_other_are_found(tmp_path):
    two = cells()
    runs = [write_run(tmp_path, cell, k, 0.05 * slow_wave(k), spread=0) for cell in two for k in range(1, 16)]
    (finding,) = repeats_do_not_resemble_the_one_before(runs)
    assert (finding.code, finding.severity) == ("repeats-correlated", "suspect")
    assert finding.evidence.startswith("15 repeats correlate with the repeat before them: 0.7")
    few = [run for run in runs if run.metrics.repeat < 12]
    assert repeats_do_not_resemble_the_one_before(few) == [], "eleven repeats cannot show it"


def test_independent_repeats_are_not_accused(tmp_path):
    """Nor is a state of the machine that all cells of a repeat share."""
    random = np.random.default_rng(3)
    states = random.lognormal(0, 0.05, 16)
    runs = [write_run(tmp_path, cell, k, 0.05 * states[k], spread=0) for cell in cells() for k in range(1, 16)]
    assert repeats_do_not_resemble_the_one_before(runs) == []


def test_correlation_by_chance_is_rare():
    random = np.random.default_rng(4)
    seen = [lag_one(random.standard_normal(12)) * np.sqrt(12) > 3 for _ in range(2000)]
    assert np.mean(seen) < 0.002
