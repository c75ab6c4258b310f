"""The first line of the answer, yes, no, or what is missing, and which cell is recommended, or why none.

A claim is a figure with the word that it supports.
"""

from collections.abc import Sequence
from typing import NamedTuple

from scaleproof.conclude.report.claims import Claims, GroupClaims
from scaleproof.ground.campaign.strategies import STAGES, simplicity, without_offload
from scaleproof.ground.confidence import FEWEST_REPEATS
from scaleproof.ground.errors import plural
from scaleproof.ground.number_format import digits_beside_one, is_useless, number, rounded_up_percent
from scaleproof.ground.records.claims import Claim
from scaleproof.ground.records.comparison_report import AbComparison
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import AnsweredQuestion, ScalingReport, ScalingSeries, SizeRanking

MOST_NAMED = 2  # cells that the verdict names; of more, their number


class Verdict(NamedTuple):
    """The first line of the answer. `is_decided`: whether the question has an answer. `claims`: what `text` states."""

    text: str
    is_decided: bool
    claims: tuple[Claim, ...]


def verdict_on(
    report: ScalingReport, group: SizeRanking | None, comparisons: Sequence[AbComparison], claims: Claims
) -> Verdict:
    """Return the verdict on what the campaign compares: its question, else a group, a series, or the A/B pairs."""
    if report.question:
        claim = claims.get(f"question/{report.question.subject}")
        text, is_decided = _verdict_on_question(report.question, claim, [point.cell for point in report.points])
        return Verdict(text, is_decided, (claim,) if claim else ())
    if group:
        return _verdict_on_group(GroupClaims(group, claims, report.ranking.index(group)))
    if report.series_of_sizes:
        first_series = report.series_of_sizes[0]
        claim = claims.get(f"speed-up/{first_series.points[-1].cell}")
        text, is_decided = _verdict_on_series(first_series, claim)
        return Verdict(text, is_decided, (claim,) if claim else ())
    claims_on_pairs = [claim for comparison in comparisons if (claim := claims.get(f"pairs/{comparison.name}"))]
    if claims_on_pairs:
        return _verdict_on_pairs(claims_on_pairs[0])
    if len(report.points) == 1:
        return Verdict("No answer yet: one cell alone has numbers, and there is nothing to compare it with", False, ())
    cells = f"the {len(report.points)} cells"
    text = f"No answer yet: nothing ranks {cells}, as they differ in work, or in strategy and devices at once"
    return Verdict(text, False, ())


def _verdict_on_pairs(claim: Claim) -> Verdict:
    """Return the verdict on an A/B comparison. `claim`: the ratio of its pairs."""
    subject, base = claim.subject, claim.baseline
    if claim.word == "faster":
        return Verdict(f"{subject} is faster than {base}: {_times(claim.ratio)} its tokens/s", True, (claim,))
    if claim.word == "slower":
        inverse = _times(claim.ratio.inverse)
        return Verdict(f"{subject} is slower than {base}, which has {inverse} its tokens/s", True, (claim,))
    text = f"No clear winner yet: {subject} against {base}: {_span_text(claim.ratio)}"
    return Verdict(text, False, (claim,))


def _times(ratio: Estimated) -> str:
    """Return a ratio, where its interval leaves 1 out with enough digits to show it: "1.05x", "1.0004x"."""
    is_told = ratio.bounds is not None and not ratio.bounds[0] <= 1 <= ratio.bounds[1]
    return f"{number(ratio.value, digits_beside_one(ratio.value) if is_told else 3)}x"


def _verdict_on_question(question: AnsweredQuestion, claim: Claim | None, measured: Sequence[str]) -> tuple[str, bool]:
    """Return the verdict on the question that the campaign asks, and whether it is decided.

    `claim`: its ratio. `measured`: the cells that have numbers.
    """
    subject = question.subject
    base = question.base
    by = percent_text(question.by)
    if question.status == "incomparable":
        return f"No answer: {subject} and {base} differ in {', '.join(question.incomparable)}", False
    if claim is None:
        unmeasured = " and ".join(cell for cell in (subject, base) if cell not in measured)
        return f"No answer yet: no numbers of {unmeasured or f'both {subject} and {base}'}", False
    ratio = f"{_times(claim.ratio)} its tokens/s"

    if claim.word == "yes":
        relation = f"at most {by} slower" if question.not_slower_than else "faster"
        return f"Yes: {subject} is {relation} than {base}: {ratio}", True
    if claim.word == "no" and (question.not_slower_than or claim.ratio.below()):
        slower = f"more than {by} slower" if question.not_slower_than else "slower"
        inverse = f"{_times(claim.ratio.inverse)} its tokens/s"
        return f"No: {subject} is {slower} than {base}, which has {inverse}", True
    if claim.word == "no":
        margin = f" by {by}" if question.by else ""
        return f"No: {subject} is not faster than {base}{margin}: {ratio}", True
    if claim.word == "near":
        within = percent_text(question.within or 0.0)
        if question.by:
            return f"Too near to call: {subject} against {base}: {ratio}, within {within} of the {by} asked", True
        return f"No: {subject} is as fast as {base} within {within}: {ratio}", True
    if claim.ratio.n < FEWEST_REPEATS:
        return _too_few_verdict(claim.ratio.n), False
    return f"No clear answer yet: {subject} against {base}: {_span_text(claim.ratio)}", False


def _verdict_on_group(group_claims: GroupClaims) -> Verdict:
    """Return the verdict on cells of one size: the recommended cell, or why no cell is recommended."""
    group, claims = group_claims.group, group_claims.claims
    fastest = group_claims.fastest
    advice = claims[f"recommended/{group_claims.index}"]
    if advice.word == "recommended":
        return _verdict_on_recommended(group, advice, fastest, claims.get(f"one-device/{advice.subject}"))
    if advice.word == "too-few-repeats":
        n = min(entry.tokens_per_sec_global.n for entry in group.comparable)
        return Verdict(_too_few_verdict(n), False, (advice, claims[f"rate/{fastest.subject}"]))
    if advice.word == "none-beats-one-device":
        return _verdict_against_one_device(group, claims, advice)
    if advice.word == "disturbed":
        return Verdict("No clear winner yet: the runs were disturbed", False, (advice,))

    # Undecided: several cells may be the fastest.
    rivals = [claim for claim in group_claims.others if claim.word != "slower"]
    names = [claim.subject for claim in rivals]
    rivals_text = " and ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} other cells"
    over_one_device = claims.get(f"one-device/{fastest.subject}")
    if over_one_device and over_one_device.ratio.above():  # a gain, but which cell has the largest is open
        gain = f"{number(over_one_device.ratio.value)}x as fast as one device"
        text = f"{fastest.subject} pays off: {gain}; {rivals_text} may be as fast"
        return Verdict(text, False, (over_one_device, *rivals))
    text = f"No clear winner yet: {fastest.subject} measured highest; {rivals_text} may be as fast"
    return Verdict(text, False, (fastest, *rivals))


def _verdict_on_recommended(
    group: SizeRanking, advice: Claim, fastest: Claim, over_one_device: Claim | None
) -> Verdict:
    """Return the verdict on the recommended cell. `over_one_device`: its ratio to one device, where there is one."""
    cell = advice.subject
    if over_one_device:
        text = f"{cell} pays off: {number(over_one_device.ratio.value)}x as fast as one device"
        return Verdict(text, True, (advice, over_one_device))
    on_devices = f"on {devices_text(group.devices)}"  # on others a cell may be faster
    if fastest.word == "shown" and cell == fastest.subject:
        return Verdict(f"{cell}: the fastest {on_devices}", True, (advice, fastest))
    # A bound on one side may be met before those on both, which stand below: so the headline says which it is.
    loss = f"at most {_worst_loss(advice)}" if advice.estimate and advice.estimate.value > 0 else "no"
    others = f"any other {on_devices}" if cell == fastest.subject else f"{fastest.subject}, and simpler"
    return Verdict(f"{cell}: {loss} slower than {others} (one-sided bound)", True, (advice, fastest))


def _verdict_against_one_device(group: SizeRanking, claims: Claims, advice: Claim) -> Verdict:
    """Return the verdict where no cell of a size is shown to beat one device; it is decided if all lose."""
    all_claims = [claims.get(f"one-device/{entry.cell}") for entry in group.comparable]
    over_one_device = tuple(claim for claim in all_claims if claim)
    devices = devices_text(group.devices)
    do_all_lose = all(claim and claim.ratio.below() for claim in all_claims)
    if do_all_lose:
        return Verdict(f"One device is faster than {devices}", True, (advice, *over_one_device))
    baselines = {claim.baseline for claim in over_one_device}
    one = f"one ({baselines.pop()})" if len(baselines) == 1 else "one"
    return Verdict(f"No clear winner yet: {devices} are not shown to beat {one}", False, (advice, *over_one_device))


def _verdict_on_series(series: ScalingSeries, claim: Claim | None) -> tuple[str, bool]:
    """Return the verdict on a series by the speed-up of its largest size (`claim`), and whether it is decided."""
    last = series.points[-1]
    if not claim:
        of_work = ": their steps are of unequal, perhaps unstated, work (batch; of a command per_step)"
        why = of_work if series.has_unequal_work else ""
        return f"No answer: {last.cell} and {series.points[0].cell} are not comparable{why}", False
    if claim.word == "unclaimed":  # a series has no winner
        return _too_few_verdict(claim.ratio.n).replace("winner", "answer"), False
    where = f"on {devices_text(last.devices)}"
    if claim.word == "faster":
        return f"{series.subject} pays off: {number(claim.ratio.value)}x {where}", True
    if claim.word == "slower":
        return f"{series.subject} is slower {where}: {number(claim.ratio.value)}x", True
    against = f"{series.subject} {where} against {series.points[0].devices}"
    return f"No clear answer yet: {against}: {_span_text(claim.ratio)}", False


def _span_text(ratio: Estimated) -> str:
    """Return what an undecided ratio may be, "0.95x to 1.09x its tokens/s": its value alone would read as a claim."""
    if ratio.bounds is None or is_useless(*ratio.bounds, ratio.n):
        return "the interval is too wide to print"
    low, high = map(number, ratio.bounds)
    return f"{low}x to {high}x its tokens/s"


def _too_few_verdict(n: int) -> str:
    """Return the verdict on a comparison of cells that have `n` repeats each, too few for an interval."""
    return f"No clear winner yet: {plural(n, 'repeat')} per cell, {FEWEST_REPEATS} are needed"


def percent_text(part: float) -> str:
    """Return a part in percent, with two digits: "5 %" for 0.05."""
    return f"{100 * part:.2g} %"


def devices_text(n: int) -> str:
    """Return a number of devices in words: "1 device", "4 devices"."""
    return f"{n} device{'s' if n > 1 else ''}"


# A cell may be shown to be no slower (one-sided) before it is shown to be the fastest (two-sided).
NO_SLOWER = "no slower than any other, though not yet to be faster"
MOST_LISTED = 5  # cells that are named; for more cells, their number


class Recommended(NamedTuple):
    """What is recommended, or why nothing is. `basis`: what it rests on. `cells`: the cells that the text names."""

    text: str
    basis: str | None
    cells: tuple[str, ...]


def describe_recommendation(group: SizeRanking, claim: Claim, others: Sequence[Claim]) -> Recommended:
    """Return the recommendation in words. `claim`: which cell, or why none. `others`: ratios to the fastest cell."""
    advice = group.advice
    if claim.word == "recommended":
        return _recommended_cell(group, claim)
    if claim.word == "undecided":
        return Recommended(_best_candidate(group, claim, others), _recommendation_basis(group), (claim.subject,))
    reasons: dict[str | None, str] = {
        "too-few-repeats": "3 repeats per cell are needed",
        "none-beats-one-device": "no cell is shown to beat one device",
        "disturbed": f"runs of {names_or_count(advice.disturbed)} were disturbed",
    }
    cells = advice.disturbed if claim.word == "disturbed" else ()
    return Recommended(f"none; {reasons[claim.word]}", None, tuple(cells))


def _recommended_cell(group: SizeRanking, claim: Claim) -> Recommended:
    """Return the recommended cell in words, and what the recommendation rests on."""
    advice = group.advice
    is_fastest = claim.subject == advice.fastest and group.fastest_shown
    if is_fastest:
        text = f"{claim.subject}, the fastest on {devices_text(group.devices)}"
    elif claim.estimate and claim.estimate.value > 0:  # at worst slower than the best
        loss = f"within {percent_text(advice.margin)} of the fastest: at most {_worst_loss(claim)} slower"
        text = f"{claim.subject}{_simplest_text(group)} shown to be {loss}"
    else:
        text = f"{claim.subject}{_simplest_text(group)} shown to be {NO_SLOWER}"
    if advice.simpler:
        text += f"; {advice.simpler} is simpler, but not yet shown to be as fast"
    text += _disturbed_text(group, claim.subject)
    needs_no_basis = is_fastest and not advice.simpler
    return Recommended(text, None if needs_no_basis else _recommendation_basis(group), (claim.subject,))


def _best_candidate(group: SizeRanking, claim: Claim, others: Sequence[Claim]) -> str:
    """Return in words which cell is the best candidate, and which may be faster. `others`: ratios to the fastest."""
    candidate, advice = claim.subject, group.advice
    accepted = f"the campaign accepts {percent_text(advice.margin)}"
    if candidate != advice.fastest:
        subject = f"{candidate}{_simplest_text(group, ' candidate,')}"
        loss = f"may be up to {_worst_loss(claim)} slower than another cell, and {accepted}"
        return f"none yet; {subject} {loss}{_passed_over_text(group, candidate)}"
    rivals = [other for other in others if (other.ratio.high or 0) > 1 + advice.margin]
    if not rivals:  # then the one with the highest bound is named
        rivals = [max(others, key=lambda other: other.ratio.high or 0)]
    reason = "the highest rate and the simplest candidate" if _simplest_text(group) else "the highest rate"
    names = " or ".join(rival.subject for rival in rivals) if len(rivals) <= MOST_LISTED else "another cell"
    loss = f"it may be up to {_worst_loss(claim)} slower than {names}, and {accepted}"
    return f"{candidate} for now, {reason}; not confirmed: {loss}{_passed_over_text(group, candidate)}"


def _worst_loss(claim: Claim) -> str:
    """Return in percent by how much, at worst, the cell of a claim is slower than another."""
    return rounded_up_percent(claim.estimate.value if claim.estimate else 0.0)


def _simplest_text(group: SizeRanking, addition: str = "") -> str:
    """Return ", the simplest" and `addition`, or "" where a cell is a command of unknown strategy."""
    are_known = all(without_offload(entry.strategy) in STAGES for entry in group.comparable)
    return f", the simplest{addition}" if are_known else ""


def _disturbed_text(group: SizeRanking, cell: str) -> str:
    """Return which cells are simpler than the recommended `cell`, but disturbed; "" where there are none."""
    simpler = [name for name in group.advice.disturbed if name in _simpler_cells(group, cell)]
    if not simpler:
        return ""
    verb, of = ("are", "their") if len(simpler) > 1 else ("is", "its")
    return f"; {names_or_count(simpler)} {verb} simpler, but {of} runs were disturbed"


def _passed_over_text(group: SizeRanking, candidate: str) -> str:
    """Return which cells are simpler than the `candidate`, and why they are none; "" where there are none."""
    simpler = _simpler_cells(group, candidate)
    disturbed = [name for name in simpler if name in group.advice.disturbed]
    too_slow = [name for name in simpler if name not in disturbed]  # else the candidate would be one of them
    parts = [(disturbed, "runs disturbed"), (too_slow, "too slow")]
    reasons = [f"{names_or_count(names)} ({why})" for names, why in parts if names]
    return f"; simpler, but no candidates: {', '.join(reasons)}" if reasons else ""


def _simpler_cells(group: SizeRanking, cell: str) -> list[str]:
    """Return the cells that are simpler than `cell`; [] where a cell is a command of unknown strategy."""
    strategies = {entry.cell: entry.strategy for entry in group.comparable}
    limit = simplicity(strategies[cell])
    return [name for name, strategy in strategies.items() if simplicity(strategy) < limit and _simplest_text(group)]


def _recommendation_basis(group: SizeRanking) -> str:
    """Return what a recommendation rests on: the strategies, simplest first, and the bounds on the loss."""
    n = min(entry.tokens_per_sec_global.n for entry in group.comparable)
    bounds = f"one-sided 95 % bounds on the loss against the best, n={n}"
    strategies = {without_offload(entry.strategy) for entry in group.comparable}
    if len(strategies) < 2 or not _simplest_text(group):
        return bounds
    return f"simplest first: {', '.join(sorted(strategies, key=simplicity))}; {bounds}"


def names_or_count(cells: list[str]) -> str:
    """Return the names of the cells as one list; for more than MOST_LISTED, their number."""
    return f"{len(cells)} cells" if len(cells) > MOST_LISTED else join_with_and(cells)


def join_with_and(names: list[str]) -> str:
    """Return names as one list: "a, b and c"; "" for none."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
