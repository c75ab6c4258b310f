"""Repeats that are no sample: drift, and two states of the machine."""

import numpy as np
import pytest
from synthetic import cells, write_run

from scalebench.audit.campaign.repeats import machine_did_not_drift, machine_has_one_state


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


def test_two_states_are_found(runs_with):
    runs = runs_with(lambda cell, k: 1.1 if (cell + k) % 2 else 1.0)
    (finding,) = machine_has_one_state(runs)
    assert "10 of 20 runs are 9." in finding.evidence
    assert machine_did_not_drift(runs) == []


def test_one_slow_run_is_no_state_and_few_runs_are_no_pattern(runs_with):
    assert machine_has_one_state(runs_with(lambda cell, k: 1.5 if (cell, k) == (0, 1) else 1.0)) == []


def test_few_runs_are_no_pattern(runs_with):
    runs = runs_with(lambda cell, k: (1 + 0.05 * k) * (1.1 if k % 2 else 1.0), repeats=2)
    assert machine_did_not_drift(runs) == machine_has_one_state(runs) == []
