"""A check of ours that breaks is a note that names it, never a finding against somebody's run."""

from dataclasses import replace

import pytest
from synthetic import cells, rewrite, write_run

from scaleproof.auditor.audit import audit_context
from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.read.reported import Evidence
from scaleproof.conclude.checks import all_checks
from scaleproof.conclude.checks.all_checks import audit, audit_campaign
from scaleproof.ground.findings.registry import Register, of_run, of_runs

ERRORS = [
    AttributeError("'NoneType' has no 'ranks'"),
    KeyError("x"),
    ZeroDivisionError(),
    RuntimeError("tensors"),
    AssertionError(),
]


@pytest.fixture
def runs(tmp_path):
    return [write_run(tmp_path, cell, repeat, 0.1) for cell in cells() for repeat in (1, 2, 3)]


def broken(monkeypatch, register: Register, error: Exception, on=lambda subject: True) -> str:
    """The first check of a register raises on some subjects; its name."""
    first = register._checks[0]

    def function(subject):
        if on(subject):
            raise error
        return first.function(subject)

    monkeypatch.setattr(register, "_checks", [replace(first, function=function), *register._checks[1:]])
    return first.name


@pytest.mark.fault("a check of ours breaks on a run", "a note that names the check; nothing against the run")
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("register", [of_run, of_runs, all_checks.of_all_runs])
def test_a_check_of_ours_that_breaks_accuses_nobody(monkeypatch, runs, register, error):
    before = audit("x", runs).findings
    name = broken(monkeypatch, register, error)
    findings = audit("x", runs).findings
    notes = [finding for finding in findings if finding not in before]
    assert notes
    for note in notes:
        assert (note.code, note.severity) == ("file-unreadable", "note")
        assert note.evidence.startswith(f"the check {name} could not be made on these files ({type(error).__name__}")
        assert note.advice == "Report it as a defect of scaleproof, with the file."
    assert not [finding for finding in findings if finding.severity == "invalid"]


def test_a_check_that_breaks_on_one_run_is_made_on_the_others(monkeypatch, runs):
    seen = []
    name = broken(monkeypatch, of_runs, KeyError("x"), lambda some: seen.append(len(some)) or runs[0] in some)
    (note,) = [finding for finding in audit("x", runs).findings if finding.code == "file-unreadable"]
    assert (note.runs, name in note.evidence) == ([runs[0].name], True)
    assert len(runs) - 1 in seen


@pytest.mark.parametrize("register", ["of_series", "of_trace", "of_arms", "of_excluded_node"])
def test_checks_of_series_traces_and_pairs_do_not_stop_the_report(monkeypatch, runs, register):
    broken(monkeypatch, getattr(all_checks, register), KeyError("x"))
    some = {"of_series": "series", "of_trace": "traces", "of_arms": "arms", "of_excluded_node": "excluded"}[register]
    monkeypatch.setattr(getattr(all_checks, register), "_checks", getattr(all_checks, register)._checks[:1])
    findings = audit_campaign(audit("x", runs), **{some: [object()]}).findings
    assert [finding.severity for finding in findings if finding.code == "file-unreadable"] == ["note"]


@pytest.mark.parametrize("error", ERRORS)
def test_the_external_twin_says_the_same(monkeypatch, error):
    name = broken(monkeypatch, of_evidence, error)
    (note,) = [f for f in audit_context(AuditContext(Evidence())) if f.code == "file-unreadable"]
    assert note.severity == "note"
    assert note.evidence.startswith(f"the check {name} could not be made on these files ({type(error).__name__}")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rank: rank.update(cores=None), "ranks.0.cores is None, no list"),
        (lambda rank: rank.pop("cores"), "ranks.0.cores is None, no list"),
        (lambda rank: rank.update(window_start_epoch_s="noon"), "ranks.0.window_start_epoch_s is 'noon', no number"),
    ],
)
def test_a_field_that_is_not_what_was_written_is_the_records_fault_and_said_once(runs, change, words):
    runs[0] = rewrite(runs[0], lambda data: change(data["ranks"][0]))
    unusable = [finding for finding in audit("x", runs).findings if finding.code == "record-unusable"]
    assert [(f.severity, f.runs, f.evidence) for f in unusable] == [("invalid", [runs[0].name], words)]


def test_one_fault_of_several_records_is_one_finding_and_another_fault_another(runs):
    changed = [rewrite(run, lambda data: data["ranks"][0].update(cores=None)) for run in runs[:2]]
    changed.append(rewrite(runs[2], lambda data: data["ranks"][0].update(window_start_epoch_s="noon")))
    unusable = [finding for finding in audit("x", [*changed, *runs[3:]]).findings if finding.code == "record-unusable"]
    of_each = [(finding.runs, finding.evidence.split(" is ")[0]) for finding in unusable]
    assert ([run.name for run in changed[:2]], "ranks.0.cores") in of_each
    assert ([changed[2].name], "ranks.0.window_start_epoch_s") in of_each
    assert len(unusable) == 2
