"""The first line of the answer: yes, no, or what is missing."""

from collections.abc import Sequence

from scaleproof.conclude.analysis.ranking import single_device_ratio
from scaleproof.ground.confidence import FEWEST_REPEATS
from scaleproof.ground.errors import plural
from scaleproof.ground.number_format import number
from scaleproof.ground.records.comparison_report import AbComparison
from scaleproof.ground.records.scaling_report import AnsweredQuestion, ScalingReport, ScalingSeries, SizeRanking

MOST_NAMED = 2  # cells that the verdict names; of more, their number


def verdict_on(
    report: ScalingReport, group: SizeRanking | None, comparisons: Sequence[AbComparison]
) -> tuple[str, bool]:
    """Return the verdict, and whether the question has an answer. `group`: the ranking that is concluded from."""
    if report.question:
        return _verdict_on_question(report.question)
    if group:
        return _verdict_on_group(report, group)
    series = [s for s in report.series if len(s.runs) > 1]
    if series:
        return _verdict_on_series(series[0])
    for comparison in comparisons:
        estimate = comparison.estimate
        if not estimate:
            continue
        a, b = comparison.a, comparison.b
        ratio = f"{number(estimate.ratio)}x"
        if estimate.claim:
            return f"{b} is {estimate.claim} than {a}: {ratio} its tokens/s", True
        return f"No clear winner yet: {b} runs at {ratio} the tokens/s of {a}", False
    return "No answer yet: one cell alone has numbers, and there is nothing to compare it with", False


def _verdict_on_question(question: AnsweredQuestion) -> tuple[str, bool]:
    """Return the verdict on the question that the campaign asks, and whether it is decided."""
    subject = question.subject
    base = question.base
    by = percent(question.by)
    if question.status == "incomparable":
        return f"No answer: {subject} and {base} differ in {', '.join(question.incomparable)}", False
    if question.ratio is None:
        return f"No answer yet: {subject} or {base} has no numbers", False
    ratio = f"{number(question.ratio.value)}x its tokens/s"
    if question.status == "yes":
        relation = f"at most {by} slower" if question.not_slower_than else "faster"
        return f"Yes: {subject} is {relation} than {base}: {ratio}", True
    if question.status == "no":
        if question.not_slower_than:
            return f"No: {subject} is more than {by} slower than {base}: {ratio}", True
        aim = f" by {by}" if question.by else ""
        return f"No: {subject} is not faster than {base}{aim}: {ratio}", True
    if question.status == "near":
        within = percent(question.within or 0.0)
        if question.by:
            return f"Too near to call: {subject} against {base}: {ratio}, within {within} of the {by} asked", True
        return f"No: {subject} is as fast as {base} within {within}: {ratio}", True
    if question.ratio.n < FEWEST_REPEATS:
        return _too_few(question.ratio.n), False
    return f"No clear answer yet: {subject} against {base}: {ratio}", False


def _verdict_on_group(report: ScalingReport, group: SizeRanking) -> tuple[str, bool]:
    """Return the verdict on cells of one size, and whether it is decided."""
    advice = group.advice
    cell = advice.cell
    against = single_device_ratio(report, cell) if cell else None
    if cell and against:
        return f"{cell} pays off: {number(against.value)}x one device", True
    if cell:
        fastest = group.cells[0].cell
        if cell == fastest:
            return f"{cell}: the fastest", True
        return f"{cell}: as fast as {fastest} and simpler", True
    if advice.why == "too-few-repeats":
        return _too_few(min(entry.tokens_per_sec_global.n for entry in group.comparable)), False
    if advice.why == "none-beats-one-device":
        against_single = [single_device_ratio(report, entry.cell) for entry in group.comparable]
        if all(s and s.below() for s in against_single):
            return f"No: one device is faster than {devices(group.devices)}", True
        return f"No clear winner yet: {devices(group.devices)} are not shown to beat one", False
    if advice.why == "disturbed":
        return "No clear winner yet: the runs were disturbed", False
    first, *others = group.comparable
    equals = [entry.cell for entry in others if entry.may_be_as_fast]
    named = " and ".join(equals) if len(equals) <= MOST_NAMED else f"{len(equals)} other cells"
    against = single_device_ratio(report, first.cell)
    if against and against.above():
        return f"{first.cell} pays off: {number(against.value)}x one device; {named} may be as fast", False
    return f"No clear winner yet: {first.cell} measured highest; {named} may be as fast", False


def _verdict_on_series(series: ScalingSeries) -> tuple[str, bool]:
    """Return the verdict on the scaling of a series, from its largest size, and whether it is decided."""
    points = series.points
    last = points[-1]
    speedup = last.speedup_in_answer
    if not speedup:
        return f"No answer: {last.cell} and {points[0].cell} are not comparable", False
    if speedup.low is None:
        return _too_few(speedup.n).replace("winner", "answer"), False
    where = f"on {devices(last.devices)}"
    if speedup.above():
        return f"{series.name} pays off: {number(speedup.value)}x {where}", True
    if speedup.below():
        return f"No: {series.name} is slower {where}: {number(speedup.value)}x", True
    return f"No clear answer yet: {series.name} runs at {number(speedup.value)}x {where}", False


def _too_few(n: int) -> str:
    return f"No clear winner yet: {plural(n, 'repeat')} per cell, {FEWEST_REPEATS} are needed"


def percent(part: float) -> str:
    return f"{100 * part:.2g} %"


def devices(n: int) -> str:
    return f"{n} device{'s' if n > 1 else ''}"
