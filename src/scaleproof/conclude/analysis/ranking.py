"""The ranking of the cells of each size, with simultaneous intervals, groups that cannot be told apart and a
recommendation; and the formal question of a campaign."""

from collections.abc import Mapping, Sequence
from typing import Any

from scaleproof.conclude.analysis.comparability import unintended_differences
from scaleproof.conclude.analysis.measured_cells import SAME_WORK, MeasuredCell
from scaleproof.conclude.analysis.recommend import recommend
from scaleproof.conclude.analysis.simultaneous import Family, compare_all, letters, resolution
from scaleproof.ground.confidence import CONFIDENCE
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import AnsweredQuestion, RankedCell, ScalingReport, SizeRanking

MARGIN = 0.05
SMALLEST_EFFECT = 0.01  # that repeats are planned for where a question names none


def largest_group(ranking: Sequence[SizeRanking]) -> SizeRanking | None:
    """The group at the largest number of devices that has more than one comparable cell."""
    several = [group for group in ranking if len(group.comparable) > 1]
    return several[-1] if several else None


def single_device_ratio(report: ScalingReport, cell: str) -> Estimated | None:
    """Speed-up of a cell over the best single device."""
    return next((point.speedup_vs_best_single for point in report.points if point.cell == cell), None)


def ranking(
    cells: Mapping[str, MeasuredCell],
    findings: Findings,
    beats_single: Mapping[str, bool | None],
    margin: float = MARGIN,
    confidence: float = CONFIDENCE,
    effect: float | None = None,
) -> list[SizeRanking]:
    """For each number of devices its cells, fastest first, relative to the fastest. Only cells that do the same work.

    `beats_single`: cell -> whether it is shown to be faster than the best single device; None where there is none.
    `margin`: by which part a recommended cell may be slower than any other. `confidence`: of all intervals of a group
    together. `effect`: the difference that further repeats are planned for; the margin, if none is given.
    """
    same = ("devices", *SAME_WORK, "global_batch")
    groups: dict[tuple, list[MeasuredCell]] = {}
    for cell in cells.values():
        groups.setdefault(tuple(cell.values[k] for k in same), []).append(cell)
    described = []
    for key, members in sorted(groups.items(), key=lambda item: str(item[0])):
        members.sort(key=lambda cell: -cell.rate.value)
        work = dict(zip(same, key, strict=True))
        described.append(_group(work, members, findings, beats_single, margin, confidence, effect or margin))
    return sorted(described, key=lambda group: group.devices)


def _group(
    work: dict[str, Any],
    members: list[MeasuredCell],
    findings: Findings,
    beats_single: Mapping[str, bool | None],
    margin: float,
    confidence: float,
    effect: float,
) -> SizeRanking:
    """`work`: what its cells have in common."""
    fastest = members[0]
    differing = {c.cell: unintended_differences(fastest.provenance, c.provenance, same_program=False) for c in members}
    comparable = [cell for cell in members if not differing[cell.cell]]
    rates = {c.cell: c.rates for c in comparable}
    family = compare_all(rates, {c.cell: c.rate.value for c in comparable}, confidence)
    groups = letters(family) if family else {}
    entries = [_entry(cell, fastest, differing[cell.cell], family, groups) for cell in members]
    return SizeRanking(
        **work,
        cells=entries,
        method=family.method if family else None,
        claims=family.pairs if family else 0,
        fastest_shown=bool(family and family.differ[0, 1:].all()),
        resolve=resolution(family, effect) if family else None,
        recommendation=recommend(comparable, family, findings, beats_single, margin),
    )


def _entry(
    cell: MeasuredCell,
    fastest: MeasuredCell,
    differing: Sequence[str],
    family: Family | None,
    groups: Mapping[str, str],
) -> RankedCell:
    relative = None
    if cell is not fastest and not differing:
        n = min(len(cell.runs), len(fastest.runs))
        relative = Estimated(value=cell.rate.value / fastest.rate.value, low=None, high=None, n=n)
        if family:
            place = family.cells.index(cell.cell)
            relative.low, relative.high = family.low(place, 0), family.high(place, 0)
    return RankedCell(
        cell=cell.cell,
        strategy=cell.values["strategy"],
        tokens_per_sec_global=Estimated.of(cell.rate),
        relative_to_fastest=relative,
        letters=groups.get(cell.cell, ""),
        incomparable=list(differing),
    )


def answer_question(
    question: Mapping[str, str | float] | None, cells: Mapping[str, MeasuredCell], resolve: float | None = None
) -> AnsweredQuestion | None:
    """The campaign's formal question. `question`: `is` and `better_than` (cells), `by` (0.02: 2 %).

    It was stated before the runs, so its interval is a single one. `status`: yes, no (shown to be less), near (shown to
    differ from `by` by less than `resolve`), undecided, incomparable, unmeasured.
    """
    if not question:
        return None
    answer = AnsweredQuestion.model_validate(question)
    subject, base = cells.get(answer.subject), cells.get(answer.better_than)
    if subject is None or base is None:
        return answer
    differing = unintended_differences(base.provenance, subject.provenance, same_program=False)
    if differing:
        return answer.model_copy(update={"status": "incomparable", "incomparable": differing})
    relative = subject.relative_to(base)
    pair = (subject, base)
    rates = {c.cell: c.rates for c in pair}
    family = compare_all(rates, {c.cell: c.rate.value for c in pair}, subject.confidence)
    bound = 1 + answer.by
    answer.status = "undecided"
    answer.ratio = Estimated.of(relative)
    answer.within = resolve
    if family and relative.low is not None and relative.high is not None:
        answer.status = "yes" if relative.low > bound else "no" if relative.high < bound else "undecided"
        within = resolve is not None and bound / (1 + resolve) < relative.low <= relative.high < bound * (1 + resolve)
        answer.status = "near" if answer.status == "undecided" and within else answer.status
    if family and answer.status == "undecided":
        answer.resolve = resolution(family, max(answer.by, resolve or SMALLEST_EFFECT))
    return answer
