"""The register of checks: flags become findings, codes have one page, rule sets a version."""

import pytest

from scaleproof.ground.findings.catalog import pages_by_code
from scaleproof.ground.findings.finding import Correction, Finding, Findings
from scaleproof.ground.findings.registry import (
    Code,
    Flag,
    Register,
    by_severity,
    codes_of,
    note_on_broken_check,
    one_note_a_cause,
    rules_version,
)

LATE = Code("too-late", "suspect", what="It is late.", detected="Clock.", seen="Here.", repair="Sleep.")
EARLY = Code("too-early", "note", what="It is early.", detected="Clock.", seen="Here.", repair="Wake.")


def register():
    hours: Register[int] = Register(lambda hour: [f"hour {hour}"])

    @hours.check(LATE, EARLY)
    def time_is_good(hour):
        """The hour is between 6 and 22."""
        if hour > 22:
            correction = Correction(value=22, unit="h", derivation="the last good hour")
            yield Flag(f"{hour} h", code="too-late", corrected=correction)
        if hour < 6:
            yield Flag(f"{hour} h", code="too-early", severity="invalid", about=["night"], advice="Stay.")

    return hours


def test_a_flag_takes_what_it_does_not_say_from_its_code_and_its_subject():
    early, late = by_severity(register().findings([23, 12, 3]))
    assert (late.code, late.severity, late.runs, late.advice) == ("too-late", "suspect", ["hour 23"], "Sleep.")
    assert str(late.corrected) == "22 h: the last good hour"
    assert (early.severity, early.runs, early.advice, early.corrected) == ("invalid", ["night"], "Stay.", None)


def test_a_check_cannot_use_a_code_that_it_has_not_registered():
    hours = register()

    @hours.check(LATE)
    def other(hour):
        yield Flag("", code="nonsense")

    with pytest.raises(ValueError, match="check other yields the code 'nonsense'"):
        hours.findings([12])


def test_one_code_has_one_page():
    other: Register[int] = Register(lambda hour: [])
    other.check(Code("too-late", "note", what="", detected="", seen="", repair=""))(lambda hour: [])
    assert set(codes_of(register())) == {"too-late", "too-early"}
    with pytest.raises(ValueError, match="too-late is registered with two pages"):
        codes_of(register(), other)


LATEST_HOURS = {"winter": 17.0, "summer": 21}


def test_the_version_of_the_rules_follows_codes_severities_and_thresholds(monkeypatch):
    codes = codes_of(register())
    harder = codes | {"too-early": Code("too-early", "invalid", what="", detected="", seen="", repair="")}
    assert rules_version(codes) == rules_version(dict(reversed(codes.items())))
    assert len({rules_version(codes), rules_version(harder), rules_version({"too-late": LATE})}) == 3
    before = rules_version(codes, [__name__])
    monkeypatch.setitem(LATEST_HOURS, "winter", 16.5)
    assert len({rules_version(codes), before, rules_version(codes, [__name__])}) == 3


def test_findings_of_an_older_schema_stay_readable():
    old = {
        "code": "x",
        "severity": "note",
        "cells": [],
        "runs": [],
        "evidence": "slow",
        "advice": "",
        "corrected": "3 ms: so",
    }
    findings = Findings.model_validate({"schema_version": "1.1", "campaign": "c", "checks": [], "findings": [old]})
    assert (findings.findings[0].corrected, findings.findings[0].evidence) == (None, "slow (corrected: 3 ms: so)")
    assert findings.rules_version == "unknown"


@pytest.mark.parametrize(
    ("value", "unit", "figure"), [(44854.2, "tokens/s", "44,854 tokens/s"), (3.333, "x", "3.333x")]
)
def test_a_correction_is_a_figure_with_its_unit(value, unit, figure):
    assert Correction(value=value, unit=unit, derivation="").figure == figure


def test_every_page_is_complete():
    for name, page in pages_by_code().items():
        assert all((page.what, page.detected, page.repair)), name  # `seen` is empty where nobody has published one


def test_a_correction_survives_json():
    correction = Correction(value=1.5, unit="ms", derivation="3 / 2")
    finding = Finding(code="x", severity="note", cells=[], runs=[], evidence="", advice="", corrected=correction)
    assert Finding.model_validate_json(finding.model_dump_json()) == finding


def test_checks_that_break_by_one_error_are_one_note():
    first, second = (note_on_broken_check(check, KeyError("x")) for check in ("a", "b"))
    other, sound = note_on_broken_check("a", ValueError("y")), *register().findings([3])
    merged, *rest = one_note_a_cause([first, sound, second, other])
    assert merged.evidence == "the check a, b could not be made on these files (KeyError: 'x')"
    assert (merged.runs, rest) == (["a", "b"], [sound, other])
