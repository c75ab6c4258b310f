"""The ranking of the cells of each size, with simultaneous intervals, groups that cannot be told apart and a
recommendation: the simplest cell that is shown to lose little, never one that merely was not shown to be slower.
And the formal question of a campaign.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from scaleproof.conclude.analysis.measured_cells import MeasuredCell, unintended_differences
from scaleproof.conclude.analysis.simultaneous import (
    Family,
    compare_all,
    letter_groups,
    resolution_of_family,
    resolution_of_ratio,
)
from scaleproof.ground.campaign.strategies import simplicity
from scaleproof.ground.confidence import FEWEST_REPEATS
from scaleproof.ground.findings.finding import Findings, codes_above_note
from scaleproof.ground.records.configuration import GROUPED_BY, size_of
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import (
    AnsweredQuestion,
    RankedCell,
    Recommendation,
    ScalingReport,
    ScalingSeries,
    SizeRanking,
)

# Findings about what disturbed a run, so that its rate is not that of the cell.
DISTURBED = {"run-stands-out", "runs-far-apart", "device-throttled", "cores-shared"}
# With findings about what changes from round to round, which ratios cancel where the repeats of the cells match.
DISTURBED_UNPAIRED = DISTURBED | {"two-clock-states", "drift-over-repeats", "repeats-correlated"}


def choose_recommendation(
    cells: Sequence[MeasuredCell],
    family: Family | None,
    findings: Findings,
    beats_single: Mapping[str, bool | None],
    margin: float,
) -> Recommendation | None:
    """Recommend one of the comparable `cells` of a size, which come fastest first; None for a single cell.

    It is the simplest cell that qualifies; of equally simple cells the faster. A cell qualifies if no other may be
    faster by more than `margin` (non-inferiority, by Hsu's comparisons with the best), if it is not known to lose
    against one device (`beats_single`, by cell; None: unknown), and if nothing disturbed its runs.

    `family`: the answer of `family_of_size`; None where repeats are too few.
    """
    if len(cells) < 2:
        return None
    advice = Recommendation(fastest=cells[0].cell, margin=margin)
    if family is None:
        advice.why = "too-few-repeats"
        return advice

    repeats_match = family.method == "tukey-blocks"  # then ratios cancel what changes from round to round
    codes = DISTURBED if repeats_match else DISTURBED_UNPAIRED
    advice.disturbed = [cell.cell for cell in cells if codes & set(codes_above_note(findings.of(cell.cell)))]
    promising_cells = {cell.cell for cell in cells if beats_single.get(cell.cell) is not False}

    _set_choice(advice, cells, family, promising_cells - set(advice.disturbed))
    if not advice.cell and not advice.candidate:
        advice.why = "disturbed" if promising_cells & set(advice.disturbed) else "none-beats-one-device"
    return advice


def _set_choice(
    advice: Recommendation, cells: Sequence[MeasuredCell], family: Family, eligible: Collection[str]
) -> None:
    """Set in `advice` the simplest of the `eligible` cells that qualifies, or else the candidate, if there is one.

    The candidate is the simplest cell that further repeats may show to qualify. Beside a chosen cell it is set as
    `simpler`, if it is simpler. `worst`: the part by which the chosen cell, or the candidate, may be slower.
    """
    # Bounds of each cell's ratio to the fastest of the others, 1 at most. The family begins with `cells`.
    count = len(cells)
    lows = family.lower_bounds(count)
    highs = np.exp((family.log_ratio + family.half)[:count, :count].min(axis=1))

    # All of these are indices into `cells`; of equally simple cells the faster one comes first.
    simplicities = [simplicity(cell.values["strategy"]) for cell in cells]
    eligible_indices = [index for index in range(count) if cells[index].cell in eligible]
    simplest_first = sorted(eligible_indices, key=simplicities.__getitem__)
    qualified_indices = [index for index in simplest_first if lows[index] >= 1 - advice.margin]
    possible_indices = [index for index in simplest_first if highs[index] >= 1 - advice.margin]

    if qualified_indices:
        chosen_index = qualified_indices[0]
        advice.cell = cells[chosen_index].cell
        advice.worst = 1 - float(lows[chosen_index])
        if possible_indices and simplicities[possible_indices[0]] < simplicities[chosen_index]:
            advice.simpler = cells[possible_indices[0]].cell
    elif possible_indices:
        advice.why = "undecided"
        advice.candidate = cells[possible_indices[0]].cell
        advice.worst = 1 - float(lows[possible_indices[0]])


MARGIN = 0.05  # part by which a recommended cell may be slower than another
SMALLEST_EFFECT = 0.01  # difference that repeats are planned for where a question names none


def largest_group(ranking: Sequence[SizeRanking]) -> SizeRanking | None:
    """Return the ranking of the largest size that has more than one comparable cell; None without such a size."""
    groups = [group for group in ranking if len(group.comparable) > 1]
    return groups[-1] if groups else None


def concluded_from(report: ScalingReport) -> AnsweredQuestion | SizeRanking | ScalingSeries | None:
    """Return what the answer is made from: the campaign's question, else its largest group, else its first series."""
    return report.question or largest_group(report.ranking) or next(iter(report.series_of_sizes), None)


def cells_by_size(cells: Mapping[str, MeasuredCell]) -> dict[tuple, list[MeasuredCell]]:
    """Return values of GROUPED_BY -> the cells that have them: they do the same work on equally many devices.

    Groups with few devices come first. A group begins with the cells that may be compared with each other, as most of
    it may, the fastest first: one added cell of other code must not cost the comparison. It ends with the cells that
    are short of repeats.
    """
    groups = group_by(cells.values(), lambda cell: size_of(cell.values))
    for members in groups.values():
        members.sort(key=lambda cell: -cell.rate.value)
        short_cells = _cells_without_interval(members)
        groups_alike = _alike([cell for cell in members if cell.cell not in short_cells])
        names = {cell.cell for cell in max(groups_alike, key=len)}
        members.sort(key=lambda cell: (cell.cell in short_cells, cell.cell not in names))

    def by_devices(key: tuple) -> tuple[int, str]:
        devices, *others = key
        return devices, str(others)  # others as text, because they may be None

    return {key: groups[key] for key in sorted(groups, key=by_devices)}


def family_of_size(
    members: Sequence[MeasuredCell], references: Mapping[str, MeasuredCell], confidence: float
) -> Family | None:
    """Compare the comparable cells of a size with each other and with their references; None for a single cell.

    They are one family, because two families with an error of 5 % each make false claims in up to 10 % of campaigns.
    The family begins with the cells of `members`, fastest first. `references`: cell -> its single device, or baseline.
    """
    comparable = _comparable_cells(members)
    if len(comparable) < 2:
        return None
    own_references = [references[cell.cell] for cell in comparable if cell.cell in references]
    family_cells = {cell.cell: cell for cell in (*comparable, *own_references)}  # several may have one reference
    rates = {name: cell.rates for name, cell in family_cells.items()}
    return compare_all(rates, {name: cell.rate.value for name, cell in family_cells.items()}, confidence)


def rank_cells(
    key: tuple,
    members: Sequence[MeasuredCell],
    family: Family | None,
    findings: Findings,
    beats_single: Mapping[str, bool | None],
    margin: float = MARGIN,
    effect: float | None = None,
) -> SizeRanking:
    """Return the ranking of the cells of one size.

    `key`, `members`: an item of `cells_by_size`; `family`: the answer of `family_of_size`; `beats_single`, `margin`:
    see `choose_recommendation`; `effect`: the difference that further repeats are planned for, by default the margin.
    """
    comparable = _comparable_cells(members)
    letters = letter_groups(family, len(comparable)) if family else {}
    why_not = _why_not_compared(members)
    entries = []
    for cell in members:
        entry = RankedCell(
            cell=cell.cell,
            strategy=cell.values["strategy"],
            tokens_per_sec_global=Estimated.of(cell.rate),
            relative_to_fastest=None,
            letters=letters.get(cell.cell, ""),
            incomparable=why_not[cell.cell],
        )
        if cell is not members[0] and not entry.incomparable:
            entry.relative_to_fastest = ratio_in_family(cell, members[0], family)
        entries.append(entry)

    return SizeRanking(
        **dict(zip(GROUPED_BY, key, strict=True)),
        cells=entries,
        method=family.method if family else None,
        claims=family.pairs if family else 0,  # ratios whose intervals hold together
        # The family begins with the comparable cells, fastest first.
        fastest_shown=bool(family and family.differ[0, 1 : len(comparable)].all()),
        resolve=resolution_of_family(family, effect or margin) if family else None,
        recommendation=choose_recommendation(comparable, family, findings, beats_single, margin),
    )


def _alike(cells: Sequence[MeasuredCell]) -> list[list[MeasuredCell]]:
    """Return the cells in groups between whose cells nothing forbids a ratio; all in their order."""
    groups: list[list[MeasuredCell]] = []
    for cell in cells:
        for group in groups:
            if not unintended_differences(group[0].provenance, cell.provenance, same_program=False):
                group.append(cell)
                break
        else:
            groups.append([cell])
    return groups


def _comparable_cells(members: Sequence[MeasuredCell]) -> list[MeasuredCell]:
    """Return the cells of a size that nothing forbids to compare with the first, which is the fastest of them."""
    why_not = _why_not_compared(members)
    return [cell for cell in members if not why_not[cell.cell]]


def _cells_without_interval(members: Sequence[MeasuredCell]) -> set[str]:
    """Return the cells with too few repeats for an interval, if two or more others have enough; else none.

    The others are then compared without them: one failed run must not cost the whole comparison.
    """
    short = {cell.cell for cell in members if len(cell.runs) < FEWEST_REPEATS}
    return short if len(members) - len(short) > 1 else set()


def _why_not_compared(members: Sequence[MeasuredCell]) -> dict[str, list[str]]:
    """Return cell -> what forbids a ratio to the first of `members`: fields that differ, or "repeats"; else empty."""
    first = members[0].provenance
    why_not = {cell.cell: unintended_differences(first, cell.provenance, same_program=False) for cell in members}
    return why_not | {name: ["repeats"] for name in _cells_without_interval(members)}


def ratio_in_family(cell: MeasuredCell, other: MeasuredCell, family: Family | None) -> Estimated:
    """Return the rate of a cell over that of another, with the interval of their `family`; None: without interval."""
    low = high = None
    if family:
        index, other_index = family.cells.index(cell.cell), family.cells.index(other.cell)
        low, high = family.low(index, other_index), family.high(index, other_index)
    fewest_runs = min(len(cell.runs), len(other.runs))
    return Estimated(value=cell.rate.value / other.rate.value, low=low, high=high, n=fewest_runs)


def answer_question(
    question: Mapping[str, str | float] | None, cells: Mapping[str, MeasuredCell], resolve: float | None = None
) -> AnsweredQuestion | None:
    """Return the answer to a campaign's formal question; None without one.

    `question`: its keys are `is`, `better_than` or `not_slower_than` (cells), and `by` (a part: 0.02). The interval is
    not widened for other comparisons: this one was stated before the runs. `resolve`: the relative difference that is
    precise enough to end the repeats; None without such a rule.

    `status` is "yes" or "no" where the whole interval is above or below the ratio that is asked for, "near" where the
    interval is within `resolve` of that ratio, else "undecided".
    """
    if not question:
        return None
    answer = AnsweredQuestion.model_validate(question)
    subject, base = cells.get(answer.subject), cells.get(answer.base)
    if subject is None or base is None:
        return answer  # "unmeasured" by default
    if differing := unintended_differences(base.provenance, subject.provenance, same_program=False):
        return answer.model_copy(update={"status": "incomparable", "incomparable": differing})

    relative = subject.relative_to(base)
    answer.status = "undecided"
    answer.ratio = Estimated.of(relative)
    answer.within = resolve
    if relative.low is None or relative.high is None:
        return answer

    bound = answer.bound  # the ratio that is asked for
    if relative.low > bound:
        answer.status = "yes"
    elif relative.high < bound:
        answer.status = "no"
    elif resolve is not None and bound / (1 + resolve) < relative.low <= relative.high < bound * (1 + resolve):
        answer.status = "near"
    else:  # undecided: how many repeats would decide it
        effect = max(answer.by, resolve or SMALLEST_EFFECT)
        answer.resolve = resolution_of_ratio(relative, effect, subject.confidence)
    return answer
