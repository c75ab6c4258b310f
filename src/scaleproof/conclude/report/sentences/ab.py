"""A/B in words: the verdict on two commands in one line (`scaleproof ab`); where cells and pairs differ in one work."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd

from scaleproof.conclude.report.read_results import row_dicts
from scaleproof.conclude.report.sentences.ratios import runs_text
from scaleproof.conclude.report.sentences.verdict import percent_text
from scaleproof.ground.confidence import CONFIDENCE, estimate_from_interval, ratio_of_independent
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.number_format import interval_text, number, span_text
from scaleproof.ground.records.comparison_report import AbComparison
from scaleproof.ground.records.evidence import EvidenceLevel, WorkUnit
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.scaling_report import AnsweredQuestion, ScalingReport

Word = Literal["faster", "slower", "same", "undecided", "not-comparable", "did-not-train", "failed"]
# Exit codes: 2 is wrong input, as everywhere.
EXIT_CODES: dict[Word, int] = {
    "faster": 0,
    "not-comparable": 1,
    "did-not-train": 1,
    "failed": 1,
    "slower": 3,
    "same": 4,
    "undecided": 5,
}
DID_NOT_TRAIN = "did-not-train"
WORK_DIFFERS = "watched-work-differs"


@dataclass(frozen=True)
class AbVerdict:
    """B against A. `ratio`: the rate of B over the rate of A; None where no ratio can be made."""

    word: Word
    sentence: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    unit: WorkUnit = "tokens"
    evidence: EvidenceLevel = "printed"
    reservations: tuple[str, ...] = ()  # codes of suspect findings


@dataclass(frozen=True)
class AbAnswer(AbVerdict):
    """What `scaleproof ab --json` prints: the verdict, and the files behind it."""

    campaign: str = ""
    report: str | None = None  # None where the minutes were over before the page was made


def ab_verdict(
    report: ScalingReport,
    findings: Findings,
    failures: Mapping[str, str],
    difference: float,
    accept_differences: bool = False,
    confidence: float = CONFIDENCE,
) -> AbVerdict:
    """Return the verdict of a campaign whose question is whether B is faster than A.

    `failures`: cell -> why a run of it has no numbers. `difference`: the smallest difference that matters, as a part
    (0.02). `accept_differences`: whether watched programs that do other work are compared all the same. `confidence`:
    the level of the interval over all interim looks; higher where several comparisons share a chance of error.
    """
    question = report.question
    assert question is not None  # every such campaign has one
    untrained = [finding for finding in findings.findings if finding.code == DID_NOT_TRAIN]
    if DID_NOT_TRAIN in report.mismatches:  # the codes of invalid findings
        cells = sorted({cell for finding in untrained for cell in finding.cells})
        return AbVerdict("did-not-train", f"did not train: {', '.join(cells)}: {untrained[0].evidence}")

    work_differences = [finding.evidence for finding in findings.findings if finding.code == WORK_DIFFERS]
    obstacle = _why_not_comparable(report, question, findings)
    if not obstacle and work_differences and not accept_differences:
        obstacle = f"{work_differences[0]} (--accept-differences compares them)"
    if obstacle:
        return AbVerdict("not-comparable", f"not comparable: {obstacle}")

    if question.ratio is None:
        return no_numbers(failures)

    verdict = _verdict(report, question, difference, confidence)
    if failures:  # of further runs
        verdict = with_words(verdict, no_numbers(failures).sentence)
    if work_differences:
        verdict = with_words(verdict, f"differs: {work_differences[0]}")
    if untrained:  # here the finding is at most suspect
        verdict = with_words(verdict, f"perhaps did not train: {untrained[0].evidence}")
    suspect_codes = {finding.code for finding in findings.findings if finding.severity == "suspect"}
    if reservations := sorted(suspect_codes - {DID_NOT_TRAIN, WORK_DIFFERS}):  # those two are said above
        verdict = with_words(verdict, f"with reservations: {', '.join(reservations)}")
    return replace(verdict, reservations=tuple(sorted(suspect_codes)))


def no_numbers(failures: Mapping[str, str]) -> AbVerdict:
    """Return the verdict where a command has no figures. `failures`: cell -> why a run of it has no numbers."""

    def without_figures(cell: str) -> str:
        """Return the reason of a cell; of one whose log is not enough without how many steps it had printed."""
        reason = failures[cell]
        return re.sub(r"\d[\d.,e+-]*", "", reason) if reason.startswith("no_figures") else reason

    groups = group_by(failures, without_figures).values()  # the first reason of each is shown
    reasons = "; ".join(f"{', '.join(cells)}: {failures[cells[0]]}" for cells in groups)
    return AbVerdict("failed", f"no numbers: {reasons or 'no run has numbers'}")


def _why_not_comparable(report: ScalingReport, question: AnsweredQuestion, findings: Findings) -> str:
    """Return what forbids a comparison: an invalid finding, or fields that differ; "" where nothing does."""
    if report.status == "invalid_comparison":
        invalid = next(finding for finding in findings.findings if finding.severity == "invalid")
        text = f"{', '.join(report.mismatches)}: {invalid.evidence}"
        return f"{text}. {invalid.advice}" if invalid.advice else text
    if question.status != "incomparable":
        return ""
    if "unit" in question.incomparable:
        return "their rates are in different units; let both print the same one, or give --metric and --per-step"
    return f"{', '.join(question.incomparable)} differ"


def with_words(verdict: AbVerdict, *words: str) -> AbVerdict:
    """Return the verdict with further words behind its sentence."""
    return replace(verdict, sentence="; ".join([verdict.sentence, *words]))


def rounds_needed(verdict: AbVerdict, difference: float) -> int | None:
    """Return about how many rounds would decide a comparison, rounds so far included; None without an interval.

    It is decided where the interval excludes 1, or lies within `difference` of it, whichever needs fewer rounds.
    """
    if verdict.ratio is None or verdict.low is None or verdict.high is None:
        return None
    half_width = math.log(verdict.high / verdict.low) / 2
    distance_from_1 = abs(math.log(verdict.ratio))
    # Of the two half-widths that would decide, the wider one needs fewer rounds.
    deciding_half_width = max(distance_from_1, math.log1p(difference) - distance_from_1)
    return math.ceil(verdict.n * (half_width / deciding_half_width) ** 2)  # widths shrink with the root of the rounds


def _verdict(report: ScalingReport, question: AnsweredQuestion, difference: float, confidence: float) -> AbVerdict:
    """Return the verdict where both commands have rates. `difference`, `confidence`: as in `ab_verdict`."""
    ratio = question.ratio
    assert ratio is not None
    printed_ratio = ratio.inverse if question.status == "no" else ratio  # A over B where B is slower: above 1
    interval = "no interval"
    if bounds := printed_ratio.bounds:
        interval = f"{100 * confidence:.6g} % CI {span_text(*(number(bound, 4) for bound in bounds))}"
    basis = f"{report.unit}/s, {interval}, n={ratio.n}, evidence: {report.evidence}"
    word: Word = "undecided"
    text = f"cannot tell yet: B runs at {number(ratio.value)}x the rate of A"
    if question.status == "yes":
        word, text = "faster", f"B is {number(ratio.value)}x faster"
    elif question.status == "no":
        word, text = "slower", f"B is slower: A has {number(printed_ratio.value)}x its rate"
    elif question.status == "near":
        word, text = "same", f"B is as fast as A, within {percent_text(difference)}"
    return AbVerdict(
        word=word,
        sentence=f"{text} ({basis})",
        ratio=ratio.value,
        low=ratio.low,
        high=ratio.high,
        n=ratio.n,
        unit=report.unit,
        evidence=report.evidence,
    )


RATE = "tokens_per_s"


def drift_sentences(comparison: AbComparison, cells: pd.DataFrame) -> list[str]:
    """Return a sentence for each arm (A or B) whose rate differs from the rate of a cell with the same work.

    They differ where Welch's 95 % interval of their ratio excludes 1. Then the machine changed between arm and cell:
    intervals of rates do not cover such a change, and ratios of pairs do not contain it. `cells`: cells.csv.
    """
    if not comparison.arms:
        return []
    rows = {row["cell"]: row for row in row_dicts(cells) if row["n"]}
    sentences = []
    # A cell without numbers, or without a decided difference, is passed over.
    for arm, measured in ((comparison.a, comparison.arms.a), (comparison.b, comparison.arms.b)):
        rate = measured.tokens_per_s
        arm_rate = estimate_from_interval(rate.value, rate.low, rate.high, rate.n)
        for cell in measured.same_work:
            if cell not in rows:
                continue
            row = rows[cell]
            cell_rate = estimate_from_interval(row[RATE], row[f"{RATE}_low"], row[f"{RATE}_high"], int(row["n"]))
            ratio = ratio_of_independent(arm_rate, cell_rate)
            if ratio.low is None or ratio.high is None or ratio.low <= 1 <= ratio.high:
                continue
            interval = interval_text(ratio.low, ratio.high, runs_text(rate.n, cell_rate.n))
            ratio_text = f"{number(ratio.value)}x ({interval})"
            sentences.append(_drift_sentence(arm, rate.value, cell, cell_rate.value, ratio_text))
    return sentences


def _drift_sentence(arm: str, arm_rate: float, cell: str, cell_rate: float, ratio_text: str) -> str:
    """Return the sentence on an arm that ran at `arm_rate` tokens/s, and a cell that ran at `cell_rate`."""
    link, cause = " and", "the machine changed in between"
    arm_strategy, _, _ = arm.partition("-n")  # names begin with the strategy and the geometry
    cell_strategy, _, _ = cell.partition("-n")
    if arm_strategy != cell_strategy:  # the same work by another strategy: both on one device
        link = f"; {cell}, which does the same work on one device, ran"
        cause += ", or the strategy costs as much"
    elif arm != cell:  # one configuration under two names
        link = f", and as {cell}"
    return (
        f"Do not compare rates of the pairs with those of the cells: {arm} ran at {number(arm_rate, 4)} tokens/s in "
        f"these pairs{link} at {number(cell_rate, 4)} among the cells: {ratio_text}; {cause}. "
        "B / A is of runs side by side, so it does not contain that."
    )
