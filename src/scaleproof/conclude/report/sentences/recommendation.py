"""Which cell (configuration) the answer recommends among those of one size, and why, or why none."""

from collections.abc import Sequence

from scaleproof.conclude.analysis.recommend import SIMPLICITY
from scaleproof.conclude.report.sentences.next_step import rounded_up
from scaleproof.conclude.report.sentences.verdict import percent
from scaleproof.ground.number_format import number
from scaleproof.ground.records.claims import Claim
from scaleproof.ground.records.scaling_report import SizeRanking

# One-sided: that it is the fastest is another, two-sided question.
NO_SLOWER = "no slower than any other, though not yet to be faster"
MOST_NAMED = 5  # cells that are named; of more, their number


def recommendation(
    group: SizeRanking, claim: Claim, others: Sequence[Claim]
) -> tuple[str, str | None, tuple[str, ...]]:
    """Return what is recommended or why nothing is, what that rests on (or None), and the cells that it names.

    `claim`: which cell, or why none; `others`: the ratios of the other cells to the fastest.
    """
    advice = group.advice
    if claim.word == "recommended":
        return _recommended(group, claim)
    if claim.word == "undecided":
        return _undecided(group, claim, others), _simplest_first(group), (claim.subject,)
    reasons: dict[str | None, str] = {
        "too-few-repeats": "3 repeats per cell are needed",
        "none-beats-one-device": "no cell is shown to beat one device",
        "disturbed": f"runs of {named(advice.disturbed)} were disturbed",
    }
    text = f"none; {reasons[claim.word]}"
    return text, None, tuple(advice.disturbed)


def _recommended(group: SizeRanking, claim: Claim) -> tuple[str, str | None, tuple[str, ...]]:
    """Return the recommended cell in words, what that rests on (or None), and the cells that it names."""
    advice = group.advice
    basis = None
    if claim.subject == advice.fastest and group.fastest_shown:
        text = f"{claim.subject}, the fastest"
    else:
        loss = claim.estimate.value if claim.estimate else 0.0
        within = f"within {percent(advice.margin)} of the fastest: at most {_worst(claim)} slower"
        text = f"{claim.subject}{_simplest(group)} shown to be {within if loss else NO_SLOWER}"
        basis = _simplest_first(group)
    if advice.simpler:
        text += f"; {advice.simpler} is simpler, but not yet shown to be as fast"
        basis = _simplest_first(group)
    return text, basis, (claim.subject,)


def _undecided(group: SizeRanking, claim: Claim, others: Sequence[Claim]) -> str:
    """Return which cell is the best candidate, and what speaks against it. `others`: ratios to the fastest."""
    candidate, advice = claim.subject, group.advice
    accepted = f"the campaign accepts a choice up to {percent(advice.margin)} slower"
    if candidate != advice.fastest:
        simplest = _simplest(group, " candidate,")
        return f"none yet; {candidate}{simplest} may be up to {_worst(claim)} slower than another cell; {accepted}"
    nearest = max(others, key=lambda other: other.ratio.high or 0)
    rivals = [other for other in others if (other.ratio.high or 0) > 1 + advice.margin] or [nearest]
    simplest = " and the simplest candidate" if _simplest(group) else ""
    return f"{candidate} for now, the highest rate{simplest}; not confirmed: {_may_be_faster(rivals)}; {accepted}"


def _worst(claim: Claim) -> str:
    """Return in percent by how much the cell of a claim may be slower than another."""
    return rounded_up(claim.estimate.value if claim.estimate else 0.0)


def _simplest(group: SizeRanking, more: str = "") -> str:
    """ ", the simplest" and `more`, to stand behind a cell; "" where one is a command: its settings are unknown."""
    all_known = all(entry.strategy.removesuffix("-offload") in SIMPLICITY for entry in group.comparable)
    return f", the simplest{more}" if all_known else ""


def _may_be_faster(rivals: Sequence[Claim]) -> str:
    """Return cells with the part by which each may be faster than the fastest; of many, their number."""
    if len(rivals) > MOST_NAMED:
        return f"{len(rivals)} cells may be faster"
    parts = [f"{number(100 * ((rival.ratio.high or 0) - 1), 2)} %" for rival in rivals]
    first = f"{rivals[0].subject} may be up to {parts[0]} faster"
    others = [f"{rival.subject} up to {part}" for rival, part in zip(rivals[1:], parts[1:], strict=True)]
    return ", ".join([first, *others])


def _simplest_first(group: SizeRanking) -> str:
    """Return what a recommendation rests on: the order by which cells are called simple, and the bounds on the loss."""
    n = min(entry.tokens_per_sec_global.n for entry in group.comparable)
    bounds = f"95 % bounds on the loss against the best, n={n}"
    strategies = {entry.strategy.removesuffix("-offload") for entry in group.comparable}
    if len(strategies) < 2 or not _simplest(group):
        return bounds
    return f"simplest first: {', '.join(sorted(strategies, key=SIMPLICITY.index))}; {bounds}"


def named(cells: list[str]) -> str:
    """The cells, or their number where there are many."""
    if len(cells) > MOST_NAMED:
        return f"{len(cells)} cells"
    return listed(cells)


def listed(names: list[str]) -> str:
    """ "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)
