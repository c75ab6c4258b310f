"""The answer to the campaign's question, made from the results and from nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scaleproof.conclude.analysis.ranking import largest_group, single_device_ratio
from scaleproof.conclude.report.sentences.forecast import answer_sentence
from scaleproof.conclude.report.sentences.next_step import next_step
from scaleproof.conclude.report.sentences.ratios import ab_sentence, runs_text
from scaleproof.conclude.report.sentences.recommendation import MOST_NAMED, listed, named, recommendation
from scaleproof.conclude.report.sentences.verdict import devices, percent, verdict_on
from scaleproof.ground.findings.forecast_report import ForecastReport
from scaleproof.ground.number_format import interval_text, is_useless, number
from scaleproof.ground.records.comparison_report import AbComparison
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import (
    AnsweredQuestion,
    LookTaken,
    RankedCell,
    ScalingPoint,
    ScalingReport,
    ScalingSeries,
    SizeRanking,
)

MOST_ROBUST = 3  # cells whose median run stands beside their mean
# Findings that say that the runs of a cell are no sample of one quantity: its mean is not its rate.
SPREAD = {"run-stands-out", "two-clock-states", "drift-over-repeats", "repeats-correlated"}
Topic = Literal[
    "reservation",
    "incomparable",
    "question",
    "fastest",
    "slower",
    "one-device",
    "scaling",
    "recommended",
    "comparison",
    "forecast",
    "repeats",
    "next",
]


@dataclass(frozen=True)
class Bullet:
    """One statement of the answer: what it is about, what it says, and what that rests on.

    `cells`: the rows to link to (slugs, or names of A/B comparisons).
    """

    topic: Topic
    label: str  # "Fastest"; empty where the text says it
    text: str
    basis: str | None = None  # "95 % CI 1.05-1.40, n=3", or that there is none
    cells: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        text = f"{self.label}: {self.text}" if self.label else self.text
        return f"{text} ({self.basis})" if self.basis else text


@dataclass(frozen=True)
class Answer:
    """`verdict`: the answer in a few words, first. `bullets`: three to five statements, reservations first.

    `decided`: whether the question of the campaign has an answer.
    """

    verdict: str
    bullets: tuple[Bullet, ...] = ()
    decided: bool = True

    @property
    def text(self) -> str:
        """As the console prints it."""
        return "\n".join([self.verdict, *(f"  - {bullet.sentence}" for bullet in self.bullets)])


def conclude(
    report: ScalingReport, comparisons: Sequence[AbComparison] = (), forecast: ForecastReport | None = None
) -> Answer:
    """Return the answer to the campaign's question: the verdict and its bullets.

    `comparisons`: A/B comparisons of the campaign. `forecast`: forecast.json, where there is one.
    """
    reservations = _reservations(report)
    if report.status == "invalid_comparison":
        codes = ", ".join(report.mismatches)
        return Answer(f"No answer: the numbers failed their own checks ({codes})", tuple(reservations), decided=False)
    if not report.series:
        return Answer("No answer: no run has numbers", decided=False)
    group = largest_group(report.ranking)
    bullets = [*reservations, *_question(report.question)]
    one_device: list[Bullet] = []
    if group:
        one_device = _one_device(report, group)
        bullets += [*_incomparable(report, group), *_fastest(group), *_recommended(group), *_slower(group), *one_device]
    bullets += [bullet for series in _leading(report) for bullet in _scaling(series, one_device)]
    if forecast:
        bullets += _forecast(forecast)
    if not group and not any(len(s.runs) > 1 for s in report.series):
        bullets += [Bullet("comparison", "", ab_sentence(c), cells=(c.name,)) for c in comparisons]
    bullets += _repeats_taken(report.repeats)
    verdict, decided = verdict_on(report, group, comparisons)
    step = None if decided else next_step(report, group)
    if step:
        bullets.append(Bullet("next", "Next", *step))
    return Answer(verdict, tuple(bullets), decided)


def _question(question: AnsweredQuestion | None) -> list[Bullet]:
    """Return the bullet on the question that the campaign asks, if it has a ratio."""
    if not question or not question.ratio:
        return []
    ratio = question.ratio
    text = f"{question.subject} runs at {number(ratio.value)}x the tokens/s of {question.base}"
    if question.not_slower_than:
        text += f"; asked: not more than {percent(question.by)} slower"
    elif question.by:
        text += f"; asked: more than {percent(question.by)} faster"
    else:
        text += "; asked: faster"
    interval = interval_text(ratio.low, ratio.high, ratio.n)
    return [Bullet("question", "Measured", text, interval, (question.subject, question.base))]


def _repeats_taken(look: LookTaken | None) -> list[Bullet]:
    """Return the bullet on why repeats ended, where results decided that. `look`: the last look at them."""
    if not look:
        return []
    n = look.repeats
    taken = [str(k) for k in look.looks if k <= n]
    after = f"{', '.join(taken[:-1])} and {taken[-1]}" if len(taken) > 1 else "".join(taken)
    allowed = f"intervals account for looks after {after}"
    stopped = f"stopped after {n} per cell"
    texts = {
        "decided": f"{stopped}, decided; {allowed}",
        "at_most": f"{n} per cell, still undecided at {percent(look.resolve)} (repeats.at_most); {allowed}",
        "minutes": f"{stopped}, undecided: a further round exceeds {look.minutes} minutes (repeats.minutes)",
        "device_hours": f"{stopped}, undecided: a further round exceeds {look.device_hours} device hours "
        "(repeats.device_hours)",
        "nothing-to-compare": f"{stopped}, as there is nothing that more of them could decide",
        None: f"{n} per cell so far, not decided yet",
    }
    return [Bullet("repeats", "Repeats", texts[look.why])]


def _fastest(group: SizeRanking) -> list[Bullet]:
    """Return the bullet on the fastest cell and the next one, or on the highest rate and those that may be as fast."""
    first, *others = group.comparable
    where = f"on {devices(group.devices)}, {number(first.tokens_per_sec_global.value, 4)} tokens/s"
    if others[0].ratio.low is None:
        n = runs_text(*dict.fromkeys(e.tokens_per_sec_global.n for e in group.comparable))
        text = f"unknown; {first.cell} has the highest rate {where}"
        return [Bullet("fastest", "Fastest", text, interval_text(None, None, n), (first.cell,))]
    near = _near(group)
    ratios, basis = _to_fastest(group, near)
    if group.fastest_shown:
        text = f"{first.cell} {where}; next is {ratios}"
    else:
        text = f"{first.cell} has the highest rate {where}; too close to call: {ratios}"
    return [Bullet("fastest", "Fastest", text, basis, (first.cell, *(entry.cell for entry in near)))]


def _near(group: SizeRanking) -> list[RankedCell]:
    """Return the cells that may be as fast as the fastest; where it is shown to be fastest, the next one."""
    others = group.comparable[1:]
    if group.fastest_shown:
        return others[:1]
    return [entry for entry in others if entry.may_be_as_fast]


def _slower(group: SizeRanking) -> list[Bullet]:
    """Return the bullet on cells that are shown to be slower than the fastest and are not named beside it."""
    first, *others = group.comparable
    if others[0].ratio.low is None:
        return []
    near = _near(group)
    slower = [entry for entry in others if entry not in near]
    if not slower:
        return []
    ratios, basis = _to_fastest(group, slower)
    cells = tuple(entry.cell for entry in slower)
    return [Bullet("slower", f"Slower than {first.cell}", ratios, basis, cells)]


def _to_fastest(group: SizeRanking, entries: list[RankedCell]) -> tuple[str, str]:
    """Return `entries` with their ratios to the fastest cell as text, and what their intervals are."""
    n = runs_text(*sorted({entry.tokens_per_sec_global.n for entry in group.comparable}))
    if group.claims == 1:
        ratio = entries[0].ratio
        text = f"{entries[0].cell} at {number(ratio.value)}x its rate"
        return text, interval_text(ratio.low, ratio.high, n)
    ratios = [(entry.cell, entry.ratio) for entry in entries]
    wide = all(_too_wide(ratio) for _, ratio in ratios)
    level = "95 % CIs too wide to print" if wide else "95 % CIs"
    return _ratios(ratios, " its rate"), f"{level}, n={n}, {_corrected(group)}"


def _corrected(group: SizeRanking) -> str:
    return f"corrected for {group.claims} comparisons"


def _efficiency_of(report: ScalingReport, cell: str) -> str:
    """Return the scaling efficiency of a cell with a leading separator; "" where it has none, or one above 100 %.

    Its interval is that of the speed-up in the answer: of several cells it was picked because it looked best.
    """
    point = next(point for point in report.points if point.cell == cell)
    efficiency, speedup = point.scaling_efficiency, point.speedup_in_answer
    if not efficiency or not 0 < efficiency.value <= 1:
        return ""
    text = f"; scaling efficiency of {cell}: {number(100 * efficiency.value, 2)} %"
    if not speedup or speedup.bounds is None:
        return text
    low, high = (number(100 * bound * efficiency.value / speedup.value, 2) for bound in speedup.bounds)
    return f"{text} ({low}-{high} %)"


def _ratios(pairs: Sequence[tuple[str, Estimated]], of: str = "") -> str:
    """Each cell with its ratio and the interval of that; of many, the first and the last. `of`: behind the first."""
    texts = [f"{cell} at {_with_bounds(ratio, of if k == 0 else '')}" for k, (cell, ratio) in enumerate(pairs)]
    return f"{len(texts)} cells, from {texts[0]} to {texts[-1]}" if len(texts) > MOST_NAMED else listed(texts)


def _with_bounds(ratio: Estimated, of: str) -> str:
    """Return a ratio with its interval: "0.857x (0.675-1.09)". `of`: text behind the x, such as " its rate"."""
    value = f"{number(ratio.value)}x{of}"
    if ratio.bounds is None or _too_wide(ratio):
        return value
    return f"{value} ({'-'.join(map(number, ratio.bounds))})"


def _too_wide(ratio: Estimated) -> bool:
    return ratio.bounds is not None and is_useless(*ratio.bounds, ratio.n)


def _one_device(report: ScalingReport, group: SizeRanking) -> list[Bullet]:
    """Return the bullet on which cells beat one device, where several are compared with it: what "pays off" asks."""
    ratios = {entry.cell: single_device_ratio(report, entry.cell) for entry in group.comparable}
    known = [(cell, ratio) for cell, ratio in ratios.items() if ratio and ratio.low is not None]
    if len(known) < 2:
        return []
    parts = {
        "faster": [(cell, ratio) for cell, ratio in known if ratio.above()],
        "undecided": [(cell, ratio) for cell, ratio in known if ratio.spans()],
        "slower": [(cell, ratio) for cell, ratio in known if ratio.below()],
    }
    text = "; ".join(
        f"{_ratios(pairs)} {'are' if len(pairs) > 1 else 'is'} {word}" for word, pairs in parts.items() if pairs
    )
    text += _efficiency_of(report, group.cells[0].cell)
    n = runs_text(*sorted({ratio.n for _, ratio in known}))
    cells = tuple(cell for cell, _ in known)
    basis = f"95 % CIs, n={n}, {_corrected(group)}"
    return [Bullet("one-device", "Against one device", text, basis, cells)]


def _recommended(group: SizeRanking) -> list[Bullet]:
    return [Bullet("recommended", "Recommended", *recommendation(group))]


def _incomparable(report: ScalingReport, group: SizeRanking) -> list[Bullet]:
    """Return a bullet on each cell that differs from the first of `group` in other fields, and what repairs it."""
    return [
        Bullet(
            "incomparable",
            "Not compared",
            f"{entry.cell}, as {', '.join(entry.incomparable)} differ"
            f"{'' if len(entry.incomparable) > 1 else 's'} from {group.cells[0].cell}. Run it again: "
            f"scaleproof retry config/campaigns/{report.campaign}.yaml --cell {entry.cell}",
            cells=(entry.cell,),
        )
        for entry in group.cells
        if entry.incomparable
    ]


def _forecast(forecast: ForecastReport) -> list[Bullet]:
    """What was forecast of cells that have not run, or how the forecasts of the others turned out."""
    text, cells = answer_sentence(forecast)
    return [Bullet("forecast", "", text, cells=cells)] if text else []


def _leading(report: ScalingReport) -> list[ScalingSeries]:
    """Return the series whose scaling is stated: all where there are few, else that of the fastest cell.

    Where a ranking is stated, of those that are compared with their baseline in its family of comparisons.
    """
    several = [s for s in report.series if len(s.runs) > 1 and s.points[-1].speedup_in_answer]
    if len(several) < 3:
        return several
    fastest = report.ranking[-1].cells[0].cell
    return [s for s in several if any(point.cell == fastest for point in s.points)]


def _scaling(series: ScalingSeries, one_device: list[Bullet]) -> list[Bullet]:
    """Return the bullet on the speed-up of a series, unless `one_device`, the bullet on one device, has it."""
    points = series.points
    base, last = points[0], points[-1]
    speedup = last.speedup_in_answer
    if not speedup or (base.devices == 1 and any(last.cell in bullet.cells for bullet in one_device)):
        return []
    n = runs_text(base.n, last.n)
    interval = interval_text(speedup.low, speedup.high, n)
    where = f"{series.name} on {devices(last.devices)}"
    ratio = f"{number(speedup.value)}x its rate on {base.devices}"
    if speedup.low is None:
        text = f"{where} ran at {ratio}; nothing is claimed"
    elif speedup.spans():
        text = f"{where} cannot be told apart from {base.devices}: {ratio}"
    elif speedup.value > 1:
        text = f"{where} is faster: {ratio}{_efficiency(last)}"
    else:
        text = f"{where} is slower: {ratio}"
    return [Bullet("scaling", "Scaling", text, interval, (base.cell, last.cell))]


def _efficiency(point: ScalingPoint) -> str:
    """Scaling efficiency; above 100 % there is none to state, and the finding `super-linear` says why."""
    efficiency = point.scaling_efficiency
    sound = efficiency is not None and 0 < efficiency.value <= 1
    return f", at {number(100 * efficiency.value, 2)} % scaling efficiency" if efficiency and sound else ""


def _all_or(cells: tuple[str, ...], measured: set[str]) -> str:
    return f"all {len(measured)} cells" if len(measured) > 2 and set(cells) == measured else named(list(cells))


def _reservations(report: ScalingReport) -> list[Bullet]:
    """Return the bullet on cells whose numbers have a finding, with a robust rate where runs of a cell differ."""
    codes: dict[str, list[str]] = {}  # code -> cells
    robust: dict[str, str] = {}  # cell -> its median and mean, in words
    for point in report.points:
        for code in dict.fromkeys(point.findings):
            codes.setdefault(code, []).append(point.cell)
        median = point.tokens_per_sec_median
        if median and SPREAD & set(point.findings):
            mean = point.tokens_per_sec_global.value
            robust[point.cell] = f"median run of {point.cell} {number(median, 4)}, mean {number(mean, 4)}"
    if not codes:
        return []
    measured = {point.cell for point in report.points}
    by_cells: dict[tuple[str, ...], list[str]] = {}  # cells -> the codes that all of them have
    for code, cells_of_code in codes.items():
        by_cells.setdefault(tuple(cells_of_code), []).append(code)
    text = "; ".join(f"{listed(names)} in {_all_or(cells, measured)}" for cells, names in by_cells.items())
    if 0 < len(robust) <= MOST_ROBUST:
        text += f"; {', '.join(robust.values())} tokens/s"
    cells = tuple(dict.fromkeys(cell for named in codes.values() for cell in named))
    return [Bullet("reservation", "With reservations", text, f"scaleproof explain {next(iter(codes))}", cells)]
