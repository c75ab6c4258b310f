"""A sample of the generated bad inputs: each is answered with one message that names what is wrong."""

from collections import Counter

import pytest

INPUTS = 120


@pytest.fixture
def bad_inputs(repository, monkeypatch):
    monkeypatch.syspath_prepend(repository / "benchmarks")
    import bad_inputs

    return bad_inputs


def test_bad_inputs_are_answered_well(bad_inputs, capsys, monkeypatch):
    """How fast, the benchmark says: here a machine may be slow."""
    monkeypatch.setattr(bad_inputs, "LONGEST_S", 300.0)
    monkeypatch.setattr(bad_inputs, "ALARM_S", 600)
    counts: Counter[str] = bad_inputs.run(INPUTS, seed=1)
    assert counts.total() == INPUTS
    assert not [kind for kind in counts if kind.endswith("BAD")], capsys.readouterr().out


def test_a_bad_answer_is_seen(bad_inputs):
    case = bad_inputs.Case(["audit"], ["PATH"])
    done = bad_inputs.Done(2, "", "Traceback")
    assert bad_inputs.faults(case, done, 6.0, {"a": (1, 1)}, {}) == [
        "has 'Traceback'",
        "took 6.0 s",
        "does not have 'PATH'",
        "changed ['a']",
    ]
    assert bad_inputs.faults(case, bad_inputs.Done(0, "", ""), 0.1, {}, {}) == ["exit code 0, not 2"]
    assert bad_inputs.faults(case, bad_inputs.Done(2, "", "PATH is missing"), 0.1, {}, {}) == []
