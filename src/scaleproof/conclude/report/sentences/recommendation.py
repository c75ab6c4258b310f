"""Which cell the answer recommends, and why, or why none."""

from scaleproof.conclude.analysis.recommend import SIMPLICITY
from scaleproof.conclude.report.sentences.next_step import rounded_up
from scaleproof.conclude.report.sentences.verdict import percent
from scaleproof.ground.number_format import number
from scaleproof.ground.records.scaling_report import RankedCell, SizeRanking

MOST_NAMED = 5  # cells that are named; of more, their number


def recommendation(group: SizeRanking) -> tuple[str, str | None, tuple[str, ...]]:
    """Return what is recommended or why nothing is, what that rests on (or None), and the cells that it names."""
    advice = group.advice
    margin = percent(advice.margin)
    if advice.cell:
        basis = None
        if advice.cell == advice.fastest and group.fastest_shown:
            text = f"{advice.cell}, the fastest"
        else:
            worst = rounded_up(advice.worst or 0.0)
            text = f"{advice.cell}{_simplest(group)} shown to be within {margin} of the fastest: at most {worst} slower"
            basis = _simplest_first(group)
        if advice.simpler:
            text += f"; {advice.simpler} is simpler, but not yet shown to be as fast"
            basis = _simplest_first(group)
        return text, basis, (advice.cell,)
    if candidate := advice.candidate:
        first, *others = group.comparable
        if candidate == first.cell:
            nearest = max(others, key=lambda entry: entry.ratio.high or 0)
            rivals = [entry for entry in others if (entry.ratio.high or 0) > 1 + advice.margin] or [nearest]
            simplest = " and the simplest candidate" if _simplest(group) else ""
            text = f"{candidate} for now, the highest rate{simplest}; not confirmed: "
            text += f"{_may_be_faster(rivals)}; the campaign accepts a choice up to {margin} slower"
        else:
            worst = f"up to {rounded_up(advice.worst or 0.0)} slower than another cell"
            text = f"none yet; {candidate}{_simplest(group, ' candidate,')} may be {worst}; "
            text += f"the campaign accepts a choice up to {margin} slower"
        return text, _simplest_first(group), (candidate,)
    reasons: dict[str | None, str] = {
        "too-few-repeats": "3 repeats per cell are needed",
        "none-beats-one-device": "no cell is shown to beat one device",
        "disturbed": f"runs of {named(advice.disturbed)} were disturbed",
    }
    text = f"none; {reasons[advice.why]}"
    return text, None, tuple(advice.disturbed)


def _simplest(group: SizeRanking, more: str = "") -> str:
    """ ", the simplest" and `more` behind a cell, where its strategy is known; nothing of a command's settings."""
    known = all(entry.strategy.removesuffix("-offload") in SIMPLICITY for entry in group.comparable)
    return f", the simplest{more}" if known else ""


def _may_be_faster(rivals: list[RankedCell]) -> str:
    """Return cells with the part by which each may be faster than the fastest; of many, their number."""
    if len(rivals) > MOST_NAMED:
        return f"{len(rivals)} cells may be faster"
    parts = [f"{number(100 * ((entry.ratio.high or 0) - 1), 2)} %" for entry in rivals]
    first = f"{rivals[0].cell} may be up to {parts[0]} faster"
    others = [f"{entry.cell} up to {part}" for entry, part in zip(rivals[1:], parts[1:], strict=True)]
    return ", ".join([first, *others])


def _simplest_first(group: SizeRanking) -> str:
    """Return by what cells are called simple, from the strategy with the least to configure, and by what as fast."""
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
