"""The answer to the campaign's question, made from the results and from nothing else.

A claim is a figure, of a cell or of two, with the word that its interval supports: faster, undecided, unclaimed (none).
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace

from scaleproof.conclude.analysis.ranking import largest_group
from scaleproof.conclude.report.claims import Claims, GroupClaims, claims_of, claims_of_pairs
from scaleproof.conclude.report.sentences.bullet import Bullet
from scaleproof.conclude.report.sentences.forecast import answer_sentence
from scaleproof.conclude.report.sentences.next_step import REPEATED_FOR, busy_cells, next_step, next_step_beyond_repeats
from scaleproof.conclude.report.sentences.ratios import ab_sentence, runs_text
from scaleproof.conclude.report.sentences.verdict import (
    MOST_LISTED,
    describe_recommendation,
    devices_text,
    join_with_and,
    names_or_count,
    percent_text,
    verdict_on,
)
from scaleproof.ground.confidence import FEWEST_REPEATS
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.forecast_report import ForecastReport
from scaleproof.ground.number_format import interval_text, is_useless, number, span_text
from scaleproof.ground.records.claims import Claim
from scaleproof.ground.records.comparison_report import AbComparison
from scaleproof.ground.records.grouping import group_by, lists_by_key
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import (
    AnsweredQuestion,
    LookTaken,
    ScalingReport,
    ScalingSeries,
    SizeRanking,
)

MOST_ROBUST = 3  # cells whose median run stands beside their mean
# Findings that say that the runs of a cell are not a sample of one quantity: its mean is not its rate.
SPREAD = {"run-stands-out", "runs-far-apart", "two-clock-states", "drift-over-repeats", "repeats-correlated"}


@dataclass(frozen=True)
class Answer:
    """The answer in a few words (`verdict`), and three to five statements (`bullets`), reservations first.

    `decided`: whether the question of the campaign has an answer.
    """

    verdict: str
    bullets: tuple[Bullet, ...] = ()
    decided: bool = True
    claims: tuple[Claim, ...] = ()  # of the verdict

    @property
    def text(self) -> str:
        """As the console prints it."""
        return "\n".join([self.verdict, *(f"  - {bullet.sentence}" for bullet in self.bullets)])

    def bullets_of_page(self, report: ScalingReport, has_failures: bool) -> tuple[Bullet, ...]:
        """Return the bullets of the page: those of the answer, and a next step even where the answer names none.

        `has_failures`: some runs have no numbers. Where the question is open, these may decide it.
        """
        if any(bullet.topic == "next" for bullet in self.bullets):
            return self.bullets
        step = next_step_beyond_repeats(report, failures_may_decide=has_failures and not self.decided)
        return (*self.bullets, Bullet("next", "Next", *step))


def answer_campaign(
    report: ScalingReport,
    comparisons: Sequence[AbComparison] = (),
    forecast: ForecastReport | None = None,
    remarks: Sequence[tuple[list[str], str]] = (),
) -> Answer:
    """Return the answer to the campaign's question: the verdict and its bullets.

    `comparisons`: A/B comparisons of the campaign. `forecast`: forecast.json, where there is one. `remarks`: cells,
    and a sentence on what they learnt or read.
    """
    reservations = _reservations_bullet(report)
    if report.status == "invalid_comparison":
        codes = ", ".join(report.mismatches)
        return Answer(f"No answer: the numbers failed their own checks ({codes})", tuple(reservations), decided=False)
    if not report.series:
        return Answer("No answer: no run has numbers", decided=False)

    group = largest_group(report.ranking)
    claims = claims_of(report, comparisons)
    bullets = [*reservations, *_question_bullet(report.question, claims)]
    one_device: list[Bullet] = []
    if group:
        group_claims = GroupClaims(group, claims, report.ranking.index(group))
        one_device = _one_device_bullet(group_claims, report)
        bullets += [*_incomparable_bullets(report, group), *_fastest_bullet(group_claims), *one_device]
        bullets += [_recommended_bullet(group_claims), *_slower_bullet(group_claims)]
    for series in _leading_series(report):
        bullets += _scaling_bullet(series, claims, one_device)
    stated_cells = {cell for bullet in bullets if bullet.claims for cell in bullet.cells}
    bullets += _unranked_bullets(report, claims, stated_cells)
    bullets += [Bullet("remark", "", text.rstrip("."), join_with_and(cells), tuple(cells)) for cells, text in remarks]
    if forecast:
        bullets += _forecast_bullet(forecast)
    if not group and not report.series_of_sizes:  # only A/B pairs compare anything
        bullets += [Bullet("comparison", "", ab_sentence(c), None, (c.name,), claims_of_pairs(c)) for c in comparisons]
    bullets += _repeats_bullet(report.repeats)
    bullets = _each_correction_once(bullets)

    verdict = verdict_on(report, group, comparisons, claims)
    text = verdict.text
    if not text.startswith("No ") and (disturbances := _disturbances(verdict.claims, report)):
        text += f" (reservations: {', '.join(disturbances)})"
    step = None if verdict.is_decided else next_step(report, group, bool(comparisons))
    if step:
        bullets.append(Bullet("next", "Next", *step))
    return Answer(text, tuple(bullets), verdict.is_decided, verdict.claims)


def _each_correction_once(bullets: Sequence[Bullet]) -> list[Bullet]:
    """Return the bullets; of those with one basis, intervals corrected for several comparisons, the first says so."""
    kinds = [bullet.basis if " comparisons" in (bullet.basis or "") else None for bullet in bullets]
    return [
        replace(bullet, basis="intervals as above") if kind and kind in kinds[:place] else bullet
        for place, (kind, bullet) in enumerate(zip(kinds, bullets, strict=True))
    ]


def _disturbances(claims: Sequence[Claim], report: ScalingReport) -> list[str]:
    """Return the findings that a quiet machine may not give; [] unless all cells that `claims` are on have some."""
    cells = {cell for claim in claims if claim.kind != "pairs" for cell in (claim.subject, claim.baseline) if cell}
    codes = {code for point in report.points if point.cell in cells for code in point.findings}
    return sorted(codes & REPEATED_FOR) if cells.issubset(busy_cells(report)) else []


def _forecast_bullet(forecast: ForecastReport) -> list[Bullet]:
    """Return the bullet on forecasts; [] where nothing was forecast."""
    text, cells = answer_sentence(forecast)
    return [Bullet("forecast", "", text, cells=cells)] if text else []


def _question_bullet(question: AnsweredQuestion | None, claims: Claims) -> list[Bullet]:
    """Return the bullet on the question that the campaign asks; [] where its cells have no ratio."""
    if not question or not question.ratio:
        return []
    claim = claims[f"question/{question.subject}"]
    ratio = claim.ratio
    text = f"{question.subject} runs at {number(ratio.value)}x the tokens/s of {question.base}"
    if question.not_slower_than:
        text += f"; asked whether it is not more than {percent_text(question.by)} slower"
    elif question.by:
        text += f"; asked whether it is more than {percent_text(question.by)} faster"
    else:
        text += "; asked whether it is faster"
    interval = interval_text(ratio.low, ratio.high, ratio.n)
    return [Bullet("question", "Measured", text, interval, (question.subject, question.base), (claim,))]


def _repeats_bullet(look: LookTaken | None) -> list[Bullet]:
    """Return the bullet on why repeats ended, where results decide that. `look`: the last interim look at results."""
    if not look:
        return []
    n = look.repeats
    looks = [str(repeats) for repeats in look.looks if repeats <= n]
    looks_text = f"intervals account for looks after {join_with_and(looks)}"
    stopped, hours = f"stopped after {n} per cell", look.device_hours
    texts = {
        "decided": f"{stopped}, decided; {looks_text}",
        "at_most": f"{n} per cell, still undecided at {percent_text(look.resolve)} (repeats.at_most); {looks_text}",
        "minutes": f"{stopped}, undecided: a further round exceeds {look.minutes} minutes (repeats.minutes)",
        "device_hours": f"{stopped}, undecided: a further round exceeds {hours} device hours (repeats.device_hours)",
        "nothing-to-compare": f"{stopped}, as there is nothing that more of them could decide",
        None: f"{n} per cell so far, not decided yet",
    }
    return [Bullet("repeats", "Repeats", texts[look.why])]


def _fastest_bullet(group_claims: GroupClaims) -> list[Bullet]:
    """Return the bullet on the fastest cell and the next one, or all that may be as fast."""
    fastest, group = group_claims.fastest, group_claims.group
    rate = group_claims.claims[f"rate/{fastest.subject}"]
    rates_left_out = [entry.tokens_per_sec_global.value for entry in group.cells if entry.incomparable]
    among = " of the cells compared" if max(rates_left_out, default=0) > rate.ratio.value else ""
    where = f"on {devices_text(group.devices)}{among}, {number(rate.ratio.value, 4)} tokens/s"
    if not group_claims.has_intervals:  # too few runs: nothing is claimed about other cells
        n = runs_text(*dict.fromkeys(entry.tokens_per_sec_global.n for entry in group.comparable))
        text = f"unknown; {fastest.subject} has the highest rate {where}"
        basis = interval_text(None, None, n)
        return [Bullet("fastest", "Fastest", text, basis, (fastest.subject,), (fastest, rate))]

    near_claims = group_claims.near
    ratios_text, basis = _fastest_ratios_text(group_claims, near_claims)
    if fastest.word == "shown":
        text = f"{fastest.subject} {where}; {ratios_text}, the next"
    else:
        text = f"{fastest.subject} has the highest rate {where}; too close to call: {ratios_text}"
    cells = (fastest.subject, *(claim.subject for claim in near_claims))
    return [Bullet("fastest", "Fastest", text, basis, cells, (fastest, rate, *near_claims))]


def _slower_bullet(group_claims: GroupClaims) -> list[Bullet]:
    """Return the bullet on cells shown to be slower than the fastest and not named beside it; [] without such cells."""
    slower_claims = [claim for claim in group_claims.others if claim not in group_claims.near]
    if not group_claims.has_intervals or not slower_claims:
        return []
    fastest = group_claims.fastest.subject
    ratios_text, basis = _fastest_ratios_text(group_claims, slower_claims)
    cells = tuple(claim.subject for claim in slower_claims)
    text = f"{fastest} is {ratios_text}"
    return [Bullet("slower", "Clearly faster", text, basis, cells, tuple(slower_claims))]


def _fastest_ratios_text(group_claims: GroupClaims, claims: list[Claim]) -> tuple[str, str]:
    """Return two texts: how many times as fast as the others the fastest cell is, and the kind of its intervals.

    Example: "1.18x as fast as zero2-n1x2 (1.03-1.36)", "95 % CIs, n=3, corrected for 3 comparisons". `claims`: the
    ratios of other cells to the fastest, which the text inverts.
    """
    group = group_claims.group
    n = runs_text(*sorted({entry.tokens_per_sec_global.n for entry in group.comparable}))
    if group.claims == 1:  # two cells have one ratio: its bounds stand in the second text
        (claim,) = claims
        ratio = claim.ratio.inverse
        return f"{number(ratio.value)}x as fast as {claim.subject}", interval_text(ratio.low, ratio.high, n)
    ratios = [(claim.subject, claim.ratio.inverse) for claim in claims]
    texts = [f"{number(ratio.value)}x as fast as {cell}{_bounds_text(ratio)}" for cell, ratio in ratios]
    return _list_or_ends(texts), f"95 % CIs, n={n}, corrected for {group.claims} comparisons"


def _efficiency_of(cell: str, claims: Claims, baseline: str | None = None) -> tuple[str, list[Claim]]:
    """Return "; scaling efficiency of CELL: 82 % of BASELINE (71-93 %)", its claims; "", [] where it cannot be stated.

    `baseline`: of the ratios beside it, so that it is not named again. Its interval follows from that of the
    speed-up, which is claimed if it is corrected for picking the best of several cells. Where it is not, intervals of
    two kinds would stand in a sentence: then the efficiency is left to the table.
    """
    efficiency = claims.get(f"efficiency/{cell}")
    is_corrected = f"speed-up/{cell}" in claims
    if not efficiency or not is_corrected or not 0 < efficiency.ratio.value <= 1:  # above 1: `super-linear` says why
        return "", []
    over = "" if efficiency.baseline == baseline else f" of {efficiency.baseline}"
    text = f"; scaling efficiency of {cell}: {number(100 * efficiency.ratio.value, 2)} %{over}"
    return text + _bounds_text(efficiency.ratio, 100, 2, " %"), [efficiency]


def _list_or_ends(texts: list[str]) -> str:
    """Return the texts, one for each cell, as a list; of more than MOST_LISTED their number, the first and the last."""
    if len(texts) > MOST_LISTED:
        return f"{len(texts)} cells, from {texts[0]} to {texts[-1]}"
    return join_with_and(texts)


def _bounds_text(ratio: Estimated, factor: float = 1.0, digits: int = 3, unit: str = "") -> str:
    """Return the interval of a ratio, times `factor`, as " (0.917-1.48)" or " (interval too wide)"; "" without one."""
    if ratio.bounds is None:
        return ""
    if is_useless(*ratio.bounds, ratio.n):
        return " (interval too wide)"
    low, high = (number(bound * factor, digits) for bound in ratio.bounds)
    return f" ({span_text(low, high)}{unit})"


def _one_device_bullet(group_claims: GroupClaims, report: ScalingReport) -> list[Bullet]:
    """Return the bullet on which cells beat one device; [] unless several cells are compared with one device."""
    group = group_claims.group
    all_claims = [group_claims.claims.get(f"one-device/{entry.cell}") for entry in group.comparable]
    claims = [claim for claim in all_claims if claim and claim.word != "unclaimed"]
    if len(claims) < 2:
        return []
    statements = []
    for word in ("faster", "undecided", "slower"):
        ratios = [(claim.subject, claim.ratio) for claim in claims if claim.word == word]
        texts = [f"{cell} at {number(ratio.value)}x{_bounds_text(ratio)}" for cell, ratio in ratios]
        if texts:
            verb = "are" if len(texts) > 1 else "is"
            statements.append(f"{_list_or_ends(texts)} {verb} {word}")

    fastest = group.cells[0].cell
    efficiency_text, claims_of_efficiency = _efficiency_of(fastest, group_claims.claims, claims[0].baseline)
    text = "; ".join(statements) + efficiency_text
    n = runs_text(*sorted({claim.ratio.n for claim in claims}))
    basis = f"95 % CIs, n={n}, corrected for {group.claims} comparisons"
    cells = tuple(claim.subject for claim in claims)
    label = "Against one device" + (", with reservations" if _disturbances(claims, report) else "")
    return [Bullet("one-device", label, text, basis, cells, (*claims, *claims_of_efficiency))]


def _incomparable_bullets(report: ScalingReport, group: SizeRanking) -> Iterator[Bullet]:
    """Yield a bullet on each cell of `group` that may not be compared with its first, and on what repairs it."""
    for entry in group.cells:
        if not entry.incomparable:
            continue
        if entry.incomparable == ["repeats"]:
            reason = f"with {plural(entry.tokens_per_sec_global.n, 'repeat')}, {FEWEST_REPEATS} are needed"
            remedy, cells = "Run it again", entry.cell
        else:
            verb = "differ" if len(entry.incomparable) > 1 else "differs"
            reason = f"as {', '.join(entry.incomparable)} {verb} from {group.cells[0].cell}"
            remedy, cells = "Run all alike", "all"  # what is here now may be neither's
        command = f"scaleproof retry config/campaigns/{report.campaign}.yaml --cell {cells}"
        text = f"{entry.cell}, {reason}. {remedy}: {command}"
        yield Bullet("incomparable", "Not compared", text, cells=(entry.cell,))


def _recommended_bullet(group_claims: GroupClaims) -> Bullet:
    """Return the bullet on the cell to use. Its claims: the recommendation, and ratios of cells that may be as fast."""
    claim = group_claims.claims[f"recommended/{group_claims.index}"]
    claims = (claim, *(ratio for ratio in group_claims.others if ratio.word != "slower"))
    text, basis, cells = describe_recommendation(group_claims.group, claim, group_claims.others)
    return Bullet("recommended", "Recommended", text, basis, cells, claims)


def _leading_series(report: ScalingReport) -> list[ScalingSeries]:
    """Return the series whose speed-up the answer states: one or two, all of them; else those with the fastest cell.

    Only series count of whose largest size the speed-up is corrected.
    """
    candidates = [series for series in report.series_of_sizes if series.points[-1].speedup_corrected]
    if len(candidates) < 3 or not report.ranking:
        return candidates
    fastest = report.ranking[-1].cells[0].cell  # the largest size comes last, the fastest of its cells first
    return [series for series in candidates if any(point.cell == fastest for point in series.points)]


def _scaling_bullet(series: ScalingSeries, claims: Claims, one_device: list[Bullet]) -> list[Bullet]:
    """Return the bullet on the speed-up of a series, unless `one_device` ([] or one bullet) has it."""
    base, last = series.points[0], series.points[-1]
    claim = claims.get(f"speed-up/{last.cell}")
    is_in_one_device = base.devices == 1 and any(last.cell in bullet.cells for bullet in one_device)
    if not claim or is_in_one_device:
        return []
    interval = interval_text(claim.ratio.low, claim.ratio.high, runs_text(base.n, last.n))
    subject = f"{series.subject} on {devices_text(last.devices)}"
    ratio = f"{number(claim.ratio.value)}x its rate on {base.devices}"
    efficiency_text, claims_of_efficiency = _efficiency_of(last.cell, claims)
    texts = {
        "unclaimed": f"{subject} ran at {ratio}; nothing is claimed",
        "undecided": f"{subject} cannot be told apart from {base.devices}: {ratio}",
        "faster": f"{subject} is faster: {ratio}{efficiency_text}",
        "slower": f"{subject} is slower: {ratio}",
    }
    text = texts[claim.word or ""]
    stated_claims = (claim, *claims_of_efficiency[:1])
    return [Bullet("scaling", "Scaling", text, interval, (base.cell, last.cell), stated_claims)]


def _unranked_bullets(report: ScalingReport, claims: Claims, stated_cells: Set[str]) -> Iterator[Bullet]:
    """Yield the bullets on series whose largest size is in no ranking: its efficiency, with a single interval.

    `stated_cells`: of the bullets before. Of more than two such series, the one with the highest rate has a bullet.
    """
    unranked = [series for series in report.series_of_sizes if series.points[-1].cell not in stated_cells]
    if len(unranked) > 2:
        unranked = [max(unranked, key=lambda series: series.points[-1].tokens_per_sec_global.value)]
    for series in unranked:
        base, last = series.points[0], series.points[-1]
        claim = claims.get(f"efficiency/{last.cell}")
        if not claim or claim.ratio.bounds is None or not 0 < claim.ratio.value <= 1:
            continue
        low, high = (100 * bound for bound in claim.ratio.bounds)
        text = f"{series.subject} on {devices_text(last.devices)} has {number(100 * claim.ratio.value, 2)} % scaling "
        text += f"efficiency over {base.devices}"
        basis = interval_text(low, high, runs_text(base.n, last.n))
        yield Bullet("scaling", "Scaling", text, basis, (base.cell, last.cell), (claim,))


def _reservations_bullet(report: ScalingReport) -> list[Bullet]:
    """Return the bullet on cells with findings, "machine-busy and cores-shared in ddp-n1x2"; [] without any."""
    cells_of = lists_by_key((code, point.cell) for point in report.points for code in dict.fromkeys(point.findings))
    if not cells_of:
        return []
    measured_cells = {point.cell for point in report.points}
    parts = []
    # Cells -> the codes that concern just these.
    for cells, codes in group_by(cells_of, lambda code: tuple(cells_of[code])).items():
        are_all = len(measured_cells) > 2 and set(cells) == measured_cells
        where = f"all {len(measured_cells)} cells" if are_all else names_or_count(list(cells))
        parts.append(f"{join_with_and(codes)} in {where}")
    text = "; ".join(parts) + _median_rates(report)
    first_code, *_ = cells_of
    all_cells = tuple(dict.fromkeys(cell for cells in cells_of.values() for cell in cells))
    return [Bullet("reservation", "With reservations", text, f"scaleproof explain {first_code}", all_cells)]


def _median_rates(report: ScalingReport) -> str:
    """Return "; median run of ddp-n1x2 1,234, mean 1,310 tokens/s" for the cells whose runs differ (SPREAD).

    Returns "" for no such cell, or for more than MOST_ROBUST.
    """
    texts = {}  # cell -> text; several series may have the cell
    for point in report.points:
        median, mean = point.tokens_per_sec_median, point.tokens_per_sec_global.value
        if median and SPREAD & set(point.findings):
            texts[point.cell] = f"median run of {point.cell} {number(median, 4)}, mean {number(mean, 4)}"
    return f"; {', '.join(texts.values())} tokens/s" if 0 < len(texts) <= MOST_ROBUST else ""
