"""Whether the figures can be trusted, in words: what the findings concern, and how small a difference n shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from scaleproof.conclude.analysis.ranking import concluded_from, largest_group
from scaleproof.conclude.analysis.simultaneous import POWER_IN_WORDS
from scaleproof.conclude.report.sentences.ratios import detected_text
from scaleproof.ground.confidence import FEWEST_REPEATS
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.finding import Finding, Findings
from scaleproof.ground.number_format import rounded_up_percent
from scaleproof.ground.records.comparison_report import AbComparison
from scaleproof.ground.records.scaling_report import ScalingReport

# What findings concern -> where their runs are, if the answer is not made from them.
ELSEWHERE = {"comparison": "the A/B pairs", "trace": "the traces"}
ABOVE_NOTE = ("invalid", "suspect")


@dataclass(frozen=True)
class Trust:
    """Two answers, because sound runs may be too few: `word` and `text` on the measurements, then `precision`.

    `text` goes on from the verdict, `word`. `elsewhere`: a sentence on findings in runs that the answer does not use.
    `precision`: a sentence; "" where nothing is compared.
    """

    word: str
    text: str
    elsewhere: str = ""
    precision: str = ""


def trust_in(
    findings: Findings, report: ScalingReport, lost: int = 0, comparisons: Sequence[AbComparison] = ()
) -> Trust | None:
    """Return whether the answer can be trusted, by the findings above a note, and how precise it is.

    Findings count if they are on runs that the answer uses; others are only named. The precision of invalid figures is
    not stated. Returns None where nothing was checked. `lost`: number of raw files that are gone.
    """
    if not findings.checks:
        return None
    above_note = [finding for finding in findings.findings if finding.severity in ABOVE_NOTE]
    concerns = _concerns_of_answer(report)  # such as {"runs", "scaling"}
    on_answer = [finding for finding in above_note if finding.concerns in concerns]
    elsewhere = _unused_findings_sentence([finding for finding in above_note if finding.concerns not in concerns])
    precision = _precision_sentence(report, comparisons)
    if lost:
        text = f": {plural(lost, 'raw file')} missing, so figures cannot be recomputed."
        return Trust("not fully", text, elsewhere, precision)

    runs = {f"{point.cell}/rep{repeat}" for point in report.points for repeat in point.repeats}
    runs_text = _runs_text(len(runs), is_compared=concluded_from(report) is not None)
    if invalid := [finding for finding in on_answer if finding.severity == "invalid"]:
        text = f": checks failed ({_codes(invalid)}) in {_part_text(invalid, runs)} {runs_text}."
        return Trust("no", text, elsewhere)
    if on_answer:
        text = f": {_codes(on_answer)} in {_part_text(on_answer, runs)} {runs_text}."
        return Trust("with reservations", text, elsewhere, precision)
    text = f": {plural(len(findings.checks), 'check')} found nothing worse than a note in {runs_text}."
    has_answer = not report.question or report.question.ratio
    return Trust("yes" if has_answer else "there is no answer", text, elsewhere, precision)


def _runs_text(count: int, is_compared: bool) -> str:
    """Return which runs the answer is made from, to stand after "2 of". `count`: their number, 0 for the A/B pairs."""
    if count == 1:
        return "1 run"
    return f"the {count} runs {'compared' if is_compared else 'measured'}" if count else "the runs of the A/B pairs"


def _precision_sentence(report: ScalingReport, comparisons: Sequence[AbComparison]) -> str:
    """Return which differences the answer's repeats show, or which effect its pairs detect; "" without either."""
    compared = concluded_from(report)  # the question, group or series that the answer is on
    if not compared:
        estimates = [comparison.estimate for comparison in comparisons if comparison.estimate]
        return f"{detected_text(estimates[0])}." if estimates else ""
    if compared.resolve:
        repeats = plural(compared.resolve.n, "repeat")
        difference = rounded_up_percent(compared.resolve.detectable)
        return (
            f"{repeats} show differences of {difference} ({POWER_IN_WORDS}); smaller ones are often missed. "
            "A difference that is called faster or slower stands even so: its interval excludes 1x."
        )
    # `resolve` is None: a lack of repeats is named, any other reason is not.
    n = min((point.n for point in report.points), default=0)
    too_few = 0 < n < FEWEST_REPEATS
    return f"No difference shows yet, {FEWEST_REPEATS} repeats per cell are needed (n={n})." if too_few else ""


def _concerns_of_answer(report: ScalingReport) -> set[str]:
    """Return what a finding may concern (`Finding.concerns`) to count for the answer.

    Pairs count where the answer is made from them alone: without several cells of one size, or sizes of one series.
    """
    if largest_group(report.ranking) or report.series_of_sizes:
        return {"runs", "scaling"}
    return {"runs", "scaling", "comparison"}


def _unused_findings_sentence(findings: Sequence[Finding]) -> str:
    """Return a sentence on findings in runs that the answer does not use; "" where there are none."""
    parts = []
    for concern, place in ELSEWHERE.items():
        if group := [finding for finding in findings if finding.concerns == concern]:
            verb = "is" if _count_runs(group) == 1 else "are"
            parts.append(f"{_subjects(group)} ({_codes(group)}) {verb} in {place} alone, which the answer does not use")
    return f"{'; '.join(parts)}." if parts else ""


def _codes(findings: Sequence[Finding]) -> str:
    """Return the codes of findings, each once."""
    return ", ".join(dict.fromkeys(finding.code for finding in findings))


def _part_text(findings: Sequence[Finding], runs: set[str]) -> str:
    """Return which of the runs compared have the findings, to stand before "the 6 runs compared".

    The text is their number, "2 of"; where findings name no run, their cells, "ddp-n1x2, among"; else "some of".
    `runs`: the runs compared; where it is empty, all runs that findings name count.
    """
    runs_with_findings = set(chain.from_iterable(finding.runs for finding in findings))
    if runs:
        runs_with_findings &= runs
    if runs_with_findings:
        return f"{len(runs_with_findings)} of"
    cells = ", ".join(dict.fromkeys(chain.from_iterable(finding.cells for finding in findings)))
    return f"{cells}, among" if cells else "some of"


def _count_runs(findings: Sequence[Finding]) -> int:
    """Return how many runs the findings concern; for a finding that names no run, its cells count instead."""
    return len(set(chain.from_iterable(finding.runs or finding.cells for finding in findings)))


def _subjects(findings: Sequence[Finding]) -> str:
    """Return in words how many runs have the findings, and their worst severity: "2 suspect runs", "1 invalid run"."""
    severity = "invalid" if any(finding.severity == "invalid" for finding in findings) else "suspect"
    return plural(_count_runs(findings), f"{severity} run")
