"""The verdict on two commands, from their report and findings."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from scaleproof.conclude.report.sentences.ab import EXIT_CODES, AbVerdict, ab_verdict, rounds_needed
from scaleproof.driver import ab_verdict as verdicts
from scaleproof.driver.ab_campaign import AbRequest
from scaleproof.ground.findings.finding import Finding, Findings
from scaleproof.ground.records.metrics import Printed
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.run_sections import LogReading
from scaleproof.ground.records.scaling_report import AnsweredQuestion, ScalingReport

REQUEST = AbRequest(["python", "a.py", "--name", "two words"], ["python", "b.py"], steps=(5, 20), figures="whole")


def verdict(status: str, ratio: tuple[float, float, float] | None = (1.08, 1.05, 1.11), **report):
    estimated = Estimated(value=ratio[0], low=ratio[1], high=ratio[2], n=6) if ratio else None
    question = AnsweredQuestion.model_validate(
        {"is": "b-n1x1", "better_than": "a-n1x1", "by": 0.0, "status": status, "ratio": estimated}
        | {"incomparable": report.pop("incomparable", [])}
    )
    mismatches = report.pop("mismatches", [])
    made = ScalingReport(
        campaign="ab",
        title="x",
        confidence=0.95,
        evidence="printed",
        series=[],
        ranking=[],
        status="invalid_comparison" if mismatches else "ok",
        mismatches=mismatches,
        question=question,
    )
    evidence = [
        Finding(code=code, severity="invalid", cells=["b-n1x1"], runs=[], evidence="the loss is 3.1", advice="")
        for code in mismatches
    ]
    work = [
        Finding(code="watched-work-differs", severity="suspect", cells=[], runs=[], evidence=text, advice="")
        for text in report.get("work", [])
    ]
    doubts = [
        Finding(code=code, severity="suspect", cells=[], runs=[], evidence=text, advice="")
        for code, text in report.get("doubts", {}).items()
    ]
    findings = Findings(campaign="ab", checks=[], findings=evidence + work + doubts)
    failures, accept_differences = report.get("failures", {}), report.get("accept_differences", False)
    return ab_verdict(made, findings, failures, 0.02, accept_differences, report.get("confidence", 0.95))


def test_programs_that_were_seen_to_do_other_work_are_not_compared_unasked():
    made = verdict("yes", work=["parameters: 9 in a, 8 in b"])
    assert (made.word, made.sentence[:42]) == ("not-comparable", "not comparable: parameters: 9 in a, 8 in b")
    accepted = verdict("yes", work=["parameters: 9 in a, 8 in b"], accept_differences=True)
    assert (accepted.word, accepted.sentence[-36:]) == ("faster", "; differs: parameters: 9 in a, 8 in b"[-36:])


TWO = [("a", 11), ("b", 7)]


@pytest.mark.parametrize(
    ("made", "word", "sentence"),
    [
        (verdict("yes"), "faster", "B is 1.08x faster (tokens/s, 95 % CI 1.050-1.110, n=6, evidence: printed)"),
        (verdict("yes", confidence=0.99875), "faster", "B is 1.08x faster (tokens/s, 99.875 % CI 1.050-1.110, n=6"),
        (verdict("no", (0.9, 0.8, 0.95)), "slower", "B is slower: A has 1.11x its rate"),
        (verdict("near", (1.0, 0.99, 1.01)), "same", "B is as fast as A, within 2 %"),
        (verdict("undecided", (1.0, 0.9, 1.1)), "undecided", "cannot tell yet: B runs at 1.00x"),
        (verdict("yes", mismatches=["did-not-train"]), "did-not-train", "did not train: b-n1x1: the loss is 3.1"),
        (verdict("yes", mismatches=["clock-differs"]), "not-comparable", "not comparable: clock-differs"),
        (verdict("unmeasured", None, failures={"a-n1x1": "crash: no"}), "failed", "no numbers: a-n1x1: crash: no"),
        (
            verdict("unmeasured", None, failures={c: f"no_figures: {n} steps (2.{n}e+04), no work" for c, n in TWO}),
            "failed",
            "no numbers: a, b: no_figures: 11 steps (2.11e+04), no work",
        ),
        (
            verdict("unmeasured", None, failures={c: f"crash: exit code {n}" for c, n in TWO}),
            "failed",
            "no numbers: a: crash: exit code 11; b: crash: exit code 7",
        ),
    ],
)
def test_the_verdict_in_a_line(made, word, sentence):
    assert (made.word, made.sentence[: len(sentence)]) == (word, sentence)
    assert EXIT_CODES[made.word] == {"faster": 0, "slower": 3, "same": 4, "undecided": 5}.get(made.word, 1)


def test_a_crash_of_a_later_round_stands_in_the_verdict():
    made = verdict("undecided", (1.0, 0.9, 1.1), failures={"a-n1x1": "crash: exit code 1"})
    assert made.word == "undecided"
    assert made.sentence.endswith("evidence: printed); no numbers: a-n1x1: crash: exit code 1")
    assert "no numbers" not in verdict("undecided", (1.0, 0.9, 1.1)).sentence


@pytest.mark.parametrize(
    ("ratio", "rounds"),
    [
        ((1.1, 0.9, 1.35), 28),  # to exclude 1
        ((1.001, 0.95, 1.055), 47),  # to be within 2 %
        ((1.1, None, None), None),
    ],
)
def test_rounds_that_would_decide(ratio, rounds):
    assert rounds_needed(AbVerdict("undecided", "", *ratio, n=6), 0.02) == rounds


@pytest.mark.parametrize(
    ("ratio", "rounds", "trained_s", "words"),
    [
        ((1.1, 0.9, 1.35), 6, 9.0, ["about 47 minutes would tell (--minutes 47 goes on with these rounds)"]),
        (
            (1.1, None, None),
            1,
            9.0,
            ["about 50 minutes would tell (--minutes 50 goes on with these rounds)"],
        ),  # for a look at all
        (
            (1.001, 0.95, 1.055),
            6,
            9.0,
            ["47 rounds would be needed: longer runs (--seconds) or a larger --difference need fewer"],
        ),
        ((1.1, 0.9, 1.35), 6, 1.0, ["about 47 ", "training is 10% of the time of a run, the rest is its start"]),
    ],
)
def test_an_undecided_verdict_says_what_would_tell(monkeypatch, ratio, rounds, trained_s, words):
    verdict = AbVerdict("undecided", "", *ratio, n=6)
    monkeypatch.setattr(verdicts, "trained_s", lambda run: trained_s)
    said = list(verdicts._ways_to_decide(verdict, REQUEST, rounds, [SimpleNamespace(total_wall_time_s=10.0)]))
    assert [text[: len(word)] for text, word in zip(said, words, strict=True)] == words


def test_the_minutes_of_earlier_calls_count_in_those_that_would_tell(monkeypatch):
    """12 runs of 5 minutes were not made in the 2 minutes of this call: 75 with what is beside them."""
    monkeypatch.setattr(verdicts, "trained_s", lambda run: 290.0)
    verdict = AbVerdict("undecided", "", 1.1, 0.9, 1.35, n=6)
    runs = [SimpleNamespace(total_wall_time_s=300.0)] * 12
    (said,) = verdicts._ways_to_decide(verdict, replace(REQUEST, minutes=2.0), 6, runs)
    assert said == "about 350 minutes would tell (--minutes 350 goes on with these rounds)"


@pytest.mark.parametrize(
    ("unit", "per_step", "remark"),
    [
        (
            "steps",
            None,
            "steps of A are taken for as much work as those of B (if they are not: --metric samples/s --per-",
        ),
        ("items", None, "items of A are taken for as much work as those of B"),
        ("steps", 1, None),  # --metric steps/s says that they are
        ("samples", None, None),
    ],
)
def test_steps_of_unknown_work_are_a_reservation_with_its_remedy(unit, per_step, remark):
    reading = LogReading.model_construct(per_step=per_step, ended_after_s=None)
    run = Printed.model_construct(unit=unit, reading=reading, failure=None)
    campaign = SimpleNamespace(most_repeats=6)
    remarks = list(verdicts._remarks_on_verdict(verdict("yes"), REQUEST, campaign, [run], waited=False))
    assert [text[: len(remark or "")] for text in remarks] == [remark] * bool(remark)
    assert ("--per-step" in "".join(remarks)) == ("--metric" in (remark or ""))


def test_a_doubt_about_the_training_stands_behind_the_verdict():
    made = verdict("yes", doubts={"did-not-train": "all gradients are 0", "machine-busy": "in 3 runs"})
    assert (made.word, made.reservations) == ("faster", ("did-not-train", "machine-busy"))
    assert made.sentence.endswith("; perhaps did not train: all gradients are 0; with reservations: machine-busy")
    assert ("reservations" in verdict("yes").sentence, verdict("yes").reservations) == (False, ())


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (["unit"], "their rates are in different units; let both print the same one, or"),
        (["code", "torch"], "code, torch differ"),
    ],
)
def test_what_forbids_a_ratio_is_told(fields, words):
    assert verdict("incomparable", None, incomparable=fields).sentence.startswith(f"not comparable: {words}")
