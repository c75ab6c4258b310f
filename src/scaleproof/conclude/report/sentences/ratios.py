"""What a ratio with its interval supports, in one sentence; `answer.py` says the same of a series."""

from dataclasses import replace
from typing import TYPE_CHECKING

from scaleproof.ground.errors import plural
from scaleproof.ground.number_format import digits_beside_one, interval_text, number
from scaleproof.ground.records.grouping import group_by, lists_by_key

if TYPE_CHECKING:  # with it come the schemas of all records, whose making takes a third of the time of a table
    from collections.abc import Sequence

    from scaleproof.ground.comparison import Compared
    from scaleproof.ground.records.comparison_report import AbComparison, Paired


OVERSTATED = " An effect that is just large enough to be claimed tends to be overstated: repeat it before quoting it."


def runs_text(*counts: int) -> str:
    """Return how many runs stand behind compared figures: "3", or "3 and 5"."""
    return str(counts[0]) if len(set(counts)) == 1 else " and ".join(map(str, counts))


def ratio_sentence(
    subject: str, base: str, value: float, low: float | None, high: float | None, n: str, unit: str = "tokens/s"
) -> str:
    """Return a sentence on the ratio `value` of `subject` to `base`, with its 95 % interval where there is one.

    A decided ratio is stated above 1, so that nobody has to invert it. `n`: number of runs, as text. `unit`: of what
    is divided.
    """
    if low is None or high is None:
        figure = f"{subject} runs at {number(value)}x the {unit} of {base}"
        return f"{figure}; without an interval nothing is claimed (n={n})."
    if low <= 1 <= high:
        interval = interval_text(low, high, n)
        return f"{subject} cannot be told apart from {base}: {number(value)}x its {unit} ({interval})."
    relation = f"faster than {base}:" if value > 1 else f"slower than {base}, which has"
    below, above_1, above = (low, value, high) if value > 1 else (1 / high, 1 / value, 1 / low)
    digits = digits_beside_one(below, above_1, above)
    interval = interval_text(below, above, n, digits)
    return f"{subject} is {relation} {number(above_1, digits)}x its {unit} ({interval})."


def compared_sentences(compared: "Sequence[Compared]") -> list[str]:
    """Return a sentence for each cell; those without a ratio for the same reason have one.

    The reservations of several cells are in `compared_verdict`.
    """
    if len(compared) > 1:
        compared = [replace(cell, suspect=[], sessions=[]) for cell in compared]
    groups = group_by(compared, lambda cell: (cell.why or cell.b, cell.losses)).values()
    return [compared_sentence(first, others=len(more)) for first, *more in groups]


def compared_sentence(compared: "Compared", others: int = 0) -> str:
    """Return what `scaleproof compare` prints of two results, and of so many `others` with the same reason."""
    if compared.why or compared.ratio is None:  # not comparable, for the reason `why`
        and_others = f", and {plural(others, 'further cell')}" if others else ""
        text = f"{compared.b} and {compared.a}{and_others}: no ratio; {compared.why}."
    else:
        n = runs_text(*compared.runs)
        bounds = (compared.low, compared.high)
        text = ratio_sentence(compared.b, compared.a, compared.ratio, *bounds, n, unit=compared.unit)
    if compared.losses:
        text += f" {compared.losses}"
    if compared.unstated:
        text += f" Not stated by both, so not compared: {', '.join(compared.unstated)}."
    if compared.unit == "steps/s" and not compared.why:
        text += " A step of one is taken for as much work as one of the other: nobody checked that."
    return text + _reservations_text([", ".join(compared.reservations), _sessions_text([compared])])


def _reservations_text(reservations: "Sequence[str]") -> str:
    """Return the sentence on reservations, with its space in front; "" where all are empty."""
    stated = "; ".join(filter(None, reservations))
    return f" With reservations: {stated}." if stated else ""


def _sessions_text(compared: "Sequence[Compared]") -> str:
    """Return that A and B were measured in two sessions, where an interval seems to speak of both; "" elsewhere."""
    for cell in compared:
        if cell.sessions and cell.low is not None:
            of_a, of_b = cell.sessions
            gate = "scaleproof gate compares B with three earlier results or more"
            return f"A is of {of_a}, B of {of_b}: two sessions differ by themselves, by an unknown amount; {gate}"
    return ""


def compared_verdict(compared: "Sequence[Compared]") -> str:
    """Return what all cells of a comparison say together; "" for a single cell, whose own sentence says it."""
    from scaleproof.conclude.report.sentences.verdict import names_or_count
    from scaleproof.ground.comparison import FASTER, NO_INTERVAL, SLOWER, UNDECIDED, claim_on

    if len(compared) == 1:
        return ""
    comparable = [cell for cell in compared if cell.ratio is not None]
    if not comparable:
        return f"No answer: none of the {len(compared)} common cells is comparable."
    a, b = (side.rpartition(" ")[0] for side in (compared[0].a, compared[0].b))  # without the cell
    words = {FASTER: f"faster in {b}", SLOWER: f"faster in {a}"}
    words |= {UNDECIDED: UNDECIDED, NO_INTERVAL: "without an interval"}
    parts = []
    for outcome, word in words.items():
        if ratios := sorted(cell.ratio or 0 for cell in comparable if claim_on(cell) == outcome):
            ends_above_1 = (1 / ratios[-1], 1 / ratios[0]) if outcome == SLOWER else (ratios[0], ratios[-1])
            ends = dict.fromkeys(f"{number(ratio, digits_beside_one(*ends_above_1))}x" for ratio in ends_above_1)
            by = f" ({' to '.join(ends)})" if outcome in (FASTER, SLOWER) else ""
            parts.append(f"{len(ratios)} {word}{by}")
    if len(comparable) < len(compared):
        parts.append(f"{len(compared) - len(comparable)} not comparable")
    cells_of = lists_by_key((why, cell.b.removeprefix(f"{b} ")) for cell in comparable for why in cell.reservations)
    reservations = [f"{name} in {names_or_count(cells)}" for name, cells in cells_of.items()]
    text = f"Of {len(compared)} common cells: {', '.join(parts)}."
    return text + _reservations_text([*reservations, _sessions_text(comparable)])


def intervals_note(compared: "Sequence[Compared]") -> str:
    """Return a sentence on the number of cells for which the intervals hold at once; "" for a single cell."""
    claims = max((cell.claims for cell in compared), default=1)
    return f"The intervals hold for all {claims} cells at once with 95 % (Bonferroni)." if claims > 1 else ""


def ab_sentence(comparison: "AbComparison") -> str:
    """Return the sentences on what an A/B comparison supports, and on the noise that its A/A pairs (A twice) show."""
    from scaleproof.conclude.report.claims import claims_of_pairs

    name, estimate = comparison.name, comparison.estimate
    if comparison.status != "ok" or estimate is None:
        return f"{name}: no answer, {comparison.status} ({comparison.why})."
    claim, floor_claim, _ = claims_of_pairs(comparison)  # ratio, noise, detectable effect
    ratio, n = claim.ratio, claim.ratio.n
    sentence = ratio_sentence(claim.subject, claim.baseline or "", ratio.value, ratio.low, ratio.high, f"{n} pairs")
    floor_percent = number(100 * floor_claim.ratio.value, 2)
    nulls_text = plural(floor_claim.ratio.n, "A/A pair")
    noise = f" Noise, by {nulls_text}: the mean of {n} pairs without an effect may be off by up to {floor_percent} %."
    if claim.word in ("faster", "slower"):
        return f"{name}: {sentence}{noise}{OVERSTATED if estimate.overstated else ''}"
    if claim.word == "within-noise":
        # [:-1]: without the full stop.
        sentence = f"{sentence[:-1]}, but the effect is within the noise: nothing is claimed."
    return f"{name}: {sentence}{noise} {_power_sentence(estimate)}"


def detected_text(estimate: "Paired") -> str:
    """Return in words which effect so many pairs detect; without a full stop, so that a sentence can go on from it."""
    low, high = estimate.detectable
    effect = f"{number(100 * low, 2)} % to {number(100 * high, 2)} %"
    return f"{estimate.n} pairs detect an effect of {effect}, depending on the true noise, 4 times in 5"


def _power_sentence(estimate: "Paired") -> str:
    """Return the sentences on the effect that these pairs detect, and on how many pairs would detect 2 %."""
    text = detected_text(estimate)
    if estimate.n < 6:  # the spread of so few pairs says nothing about the pairs needed
        return f"{text}. With 6 pairs, the report can say how many would show an effect of 2 %."
    return f"{text}; an effect of 2 % needs {_pairs_text(estimate.pairs_low, estimate.pairs_high)}."


def _pairs_text(low: int | None, high: int | None) -> str:
    """Return in words how many pairs an effect needs, by both bounds of the noise. None: more than 1,000 pairs."""
    if low is None:
        return "more than 1,000 pairs"
    return f"{low} pairs or more, perhaps above 1,000" if high is None else f"up to {high} pairs"
