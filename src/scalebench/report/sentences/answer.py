"""The answer to the campaign's question, made from the results and from nothing else."""

from dataclasses import dataclass
from typing import Literal

from scalebench.analysis.ranking import largest_group, single_device_ratio
from scalebench.analysis.recommend import SIMPLICITY
from scalebench.report.number_format import is_useless, number
from scalebench.report.sentences.forecast import answer_sentence
from scalebench.report.sentences.next_step import next_step
from scalebench.report.sentences.ratios import ab_sentence, interval_text, runs_text
from scalebench.report.sentences.verdict import Entry, comparable, devices, percent, verdict_on

MOST_NAMED = 5  # cells that are named; of more, their number
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
    """One statement of the answer. `text` stands alone; `interval` and `n` are what it rests on, `cells` the rows to
    link to (slugs, or names of A/B comparisons)."""

    topic: Topic
    text: str
    interval: str | None = None  # "95 % CI 1.05-1.40, n=3", or that there is none
    n: str | None = None  # runs or pairs behind it
    cells: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The text, with interval and n in brackets behind it where there are any."""
        return f"{self.text} ({self.interval})" if self.interval else self.text


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


def conclude(report: Entry, comparisons: list[Entry] | None = None, forecast: Entry | None = None) -> Answer:
    """The answer to the campaign's question.

    `report`: scaling_report.json; `comparisons`: of comparison.json; `forecast`: forecast.json where there is one.
    """
    reservations = _reservations(report)
    if report["status"] == "invalid_comparison":
        codes = ", ".join(report["mismatches"])
        return Answer(f"No answer: the numbers failed their own checks ({codes})", tuple(reservations), decided=False)
    if not report["series"]:
        return Answer("No answer: no run has numbers", decided=False)
    group = largest_group(report["ranking"])
    bullets = [
        *reservations,
        *_question(report.get("question")),
        *(_incomparable(report, group) if group else ()),
        *(_fastest(group) if group else ()),
        *(bullet for series in _leading(report) for bullet in _scaling(series)),
        *(_one_device(report, group) if group else ()),
        *(_recommended(group) if group else ()),
        *(_forecast(forecast) if forecast else ()),
    ]
    if not group and not any(len(s["runs"]) > 1 for s in report["series"]):
        bullets += [Bullet("comparison", ab_sentence(c), cells=(c["name"],)) for c in comparisons or ()]
    bullets += _repeats_taken(report.get("repeats"))
    verdict, decided = verdict_on(report, group, comparisons or [])
    step = None if decided else next_step(report, group)
    bullets += [Bullet("next", step)] if step else []
    return Answer(verdict, tuple(bullets), decided)


def _question(question: Entry | None) -> list[Bullet]:
    if not question or not question["ratio"]:
        return []
    ratio = question["ratio"]
    text = f"{question['is']} runs at {number(ratio['value'])}x the tokens/s of {question['better_than']}"
    text += f"; asked: more than {percent(question['by'])} faster" if question["by"] else "; asked: faster"
    interval = interval_text(ratio["low"], ratio["high"], ratio["n"])
    return [Bullet("question", text, interval, str(ratio["n"]), (question["is"], question["better_than"]))]


def _repeats_taken(look: Entry | None) -> list[Bullet]:
    """Why repeats ended, where results decided."""
    if not look:
        return []
    n = look["repeats"]
    taken = [str(k) for k in look["looks"] if k <= n]
    after = f"{', '.join(taken[:-1])} and {taken[-1]}" if len(taken) > 1 else "".join(taken)
    allowed = f"intervals allow for having looked after {after}"
    stopped = f"Stopped after {n} repeats per cell"
    texts = {
        "decided": f"{stopped}: decided; {allowed}",
        "at_most": f"{n} repeats per cell, still undecided at {percent(look['resolve'])} (repeats.at_most); {allowed}",
        "minutes": f"{stopped}, undecided: a further round exceeds {look['minutes']} minutes (repeats.minutes)",
        "device_hours": f"{stopped}, undecided: a further round exceeds {look['device_hours']} device hours "
        "(repeats.device_hours)",
        "nothing-to-compare": f"{stopped}: there is nothing that more of them could decide",
        None: f"{n} repeats per cell so far, not decided yet",
    }
    return [Bullet("repeats", texts[look["why"]], n=str(n))]


def _fastest(group: Entry) -> list[Bullet]:
    """The cell that is fastest, or measured highest, and those that may be as fast; then the slower ones."""
    first, *others = comparable(group)
    where = f"on {devices(group['devices'])}"
    rate = f"{number(first['tokens_per_sec_global']['value'], 4)} tokens/s"
    if others[0]["relative_to_fastest"]["low"] is None:
        n = runs_text(*dict.fromkeys(e["tokens_per_sec_global"]["n"] for e in comparable(group)))
        text = f"{first['cell']} measured highest {where}, {rate}; nothing is claimed"
        return [Bullet("fastest", text, interval_text(None, None, n), n, (first["cell"],))]
    slower = [entry for entry in others if entry["relative_to_fastest"]["high"] < 1]
    if group["fastest_shown"]:
        text = f"{first['cell']} is fastest {where} at {rate}; next: {_ratios(others[:1])}"
        bullet = Bullet("fastest", text, *_basis(group), (first["cell"], others[0]["cell"]))
        return [bullet, *_slower(group, first, others[1:])]
    equals = [entry for entry in others if entry not in slower]
    text = f"{first['cell']} measured highest {where}, {rate}; not told apart from it: {_ratios(equals)}"
    bullet = Bullet("fastest", text, *_basis(group), (first["cell"], *(entry["cell"] for entry in equals)))
    return [bullet, *_slower(group, first, slower)]


def _slower(group: Entry, first: Entry, slower: list[Entry]) -> list[Bullet]:
    """The cells that are shown to be slower than the fastest and are not named yet."""
    if not slower:
        return []
    text = f"Slower than {first['cell']}: {_ratios(slower)}"
    return [Bullet("slower", text, *_basis(group), tuple(entry["cell"] for entry in slower))]


def _ratios(entries: list[Entry]) -> str:
    """Each cell with its ratio to the fastest and the interval of that; of many, the first and the last."""
    if len(entries) > MOST_NAMED:
        return f"{len(entries)} cells, from {_ratio(entries[0])} to {_ratio(entries[-1])}"
    return " and ".join(filter(None, [", ".join(map(_ratio, entries[:-1])), _ratio(entries[-1])]))


def _ratio(entry: Entry) -> str:
    return f"{entry['cell']} {_with_bounds(entry['relative_to_fastest'])}"


def _with_bounds(ratio: Entry) -> str:
    """ "0.857x (0.675-1.09)"."""
    if ratio["low"] is None or is_useless(ratio["low"], ratio["high"], ratio["n"]):
        return f"{number(ratio['value'])}x"
    return f"{number(ratio['value'])}x ({number(ratio['low'])}-{number(ratio['high'])})"


def _basis(group: Entry) -> tuple[str, str]:
    """What the intervals of the cells relative to the fastest are, and n."""
    counts = sorted({entry["tokens_per_sec_global"]["n"] for entry in comparable(group)})
    n = runs_text(*counts)
    if group["claims"] == 1:
        return f"95 % CI, n={n}", n
    return f"95 % CIs, n={n}, corrected for {group['claims']} comparisons", n


def _one_device(report: Entry, group: Entry) -> list[Bullet]:
    """That a smaller gain over one device is shown where the fastest cell's larger one is not."""
    first, *others = comparable(group)
    ratio = single_device_ratio(report, first["cell"])
    if not ratio or ratio["low"] is None or ratio["low"] > 1:
        return []
    for entry in others:
        other = single_device_ratio(report, entry["cell"])
        if other and other["low"] is not None and other["low"] > 1:
            text = (
                f"{entry['cell']} is shown to beat one device, {_with_bounds(other)}; the larger gain of "
                f"{first['cell']} is not, because its runs spread more: {_with_bounds(ratio)}"
            )
            n = str(min(ratio["n"], other["n"]))
            return [Bullet("one-device", text, f"95 % CIs, n={n}", n, (entry["cell"], first["cell"]))]
    return []


def _recommended(group: Entry) -> list[Bullet]:
    advice = group["recommendation"]
    margin = percent(advice["margin"])
    if advice["cell"]:
        if advice["cell"] == advice["fastest"] and group["fastest_shown"]:
            text = f"Recommended: {advice['cell']}, the fastest"
            basis = None
        else:
            text = f"Recommended: {advice['cell']}, the simplest shown to be at most {margin} slower than any other"
            basis = _of_all_pairs(group)
        if advice["simpler"]:
            text += f"; {advice['simpler']} is simpler, but not yet shown to be as fast"
        text += "" if basis is None and not advice["simpler"] else _simplest_first(group)
        return [Bullet("recommended", text, basis, cells=(advice["cell"],))]
    if advice["why"] == "undecided":
        text = (
            f"No recommendation yet: {advice['candidate']} is the simplest that may be at most {margin} slower than "
            f"any other, but that is not shown{_simplest_first(group)}"
        )
        return [Bullet("recommended", text, _of_all_pairs(group), cells=(advice["candidate"],))]
    reasons = {
        "too-few-repeats": "a recommendation needs 3 repeats per cell",
        "none-beats-one-device": "no cell is shown to beat one device",
        "disturbed": f"runs of {_named(advice['disturbed'])} were disturbed",
    }
    return [Bullet("recommended", f"No recommendation: {reasons[advice['why']]}", cells=tuple(advice["disturbed"]))]


def _simplest_first(group: Entry) -> str:
    """What "simple" is said by: the strategies of the group, from the one with the least to configure."""
    strategies = {entry["strategy"].removesuffix("-offload") for entry in comparable(group)}
    if len(strategies) < 2:
        return ""
    return f" (simplest first: {', '.join(sorted(strategies, key=SIMPLICITY.index))})"


def _of_all_pairs(group: Entry) -> str:
    n = min(entry["tokens_per_sec_global"]["n"] for entry in comparable(group))
    return f"by the 95 % CIs of all pairs, n={n}"


def _incomparable(report: Entry, group: Entry) -> list[Bullet]:
    """Cells of that size that may not be compared: the fields, and the command that repairs it."""
    return [
        Bullet(
            "incomparable",
            f"{entry['cell']} is not compared: {', '.join(entry['incomparable'])} differ"
            f"{'' if len(entry['incomparable']) > 1 else 's'} from {group['cells'][0]['cell']}. Run it again: "
            f"scalebench retry config/campaigns/{report['campaign']}.yaml --cell {entry['cell']}",
            cells=(entry["cell"],),
        )
        for entry in group["cells"]
        if entry["incomparable"]
    ]


def _forecast(forecast: Entry) -> list[Bullet]:
    """What was forecast of cells that have not run, or how the forecasts of the others turned out."""
    text, cells = answer_sentence(forecast)
    return [Bullet("forecast", text, cells=cells)] if text else []


def _leading(report: Entry) -> list[Entry]:
    """The series whose scaling is stated: all where there are few, else that of the fastest cell."""
    several = [s for s in report["series"] if len(s["runs"]) > 1]
    if len(several) < 3:
        return several
    fastest = report["ranking"][-1]["cells"][0]["cell"]
    return [s for s in several if any(point["cell"] == fastest for point in s["runs"].values())]


def _scaling(series: Entry) -> list[Bullet]:
    points = list(series["runs"].values())
    base, last = points[0], points[-1]
    speedup = last["speedup"]
    if not speedup:
        return []
    n = runs_text(base["n"], last["n"])
    interval = interval_text(speedup["low"], speedup["high"], n)
    sizes = f"on {devices(last['devices'])} than on {base['devices']}"
    value = number(speedup["value"])
    if speedup["low"] is None:
        text = f"{series['name']} ran at {value}x {sizes.replace('than', 'relative to')}; nothing is claimed"
    elif speedup["low"] <= 1 <= speedup["high"]:
        text = f"{series['name']} on {devices(last['devices'])} cannot be told apart from {base['devices']}: {value}x"
    elif speedup["value"] > 1:
        text = f"{_efficiency(last)}{series['name']} is {value}x faster {sizes}"
    else:
        text = f"{series['name']} is slower {sizes}: {value}x"
    return [Bullet("scaling", text, interval, n, (base["cell"], last["cell"]))]


def _efficiency(point: Entry) -> str:
    """Scaling efficiency; above 100 % there is none to state, and the finding `super-linear` says why.

    It stands before the speed-up, whose interval follows.
    """
    value = point["scaling_efficiency"]["value"]
    return f"At {number(100 * value, 2)} % scaling efficiency, " if 0 < value <= 1 else ""


def _named(cells: list[str]) -> str:
    if len(cells) > MOST_NAMED:
        return f"{len(cells)} cells"
    return _and(cells)


def _and(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names)


def _all_or(cells: tuple[str, ...], measured: set[str]) -> str:
    return f"all {len(measured)} cells" if len(measured) > 2 and set(cells) == measured else _named(list(cells))


def _reservations(report: Entry) -> list[Bullet]:
    """The cells whose numbers have a finding, with a robust rate where runs of a cell differ."""
    codes: dict[str, list[str]] = {}
    robust: dict[str, str] = {}
    for series in report["series"]:
        for point in series["runs"].values():
            for code in dict.fromkeys(point["findings"]):
                codes.setdefault(code, []).append(point["cell"])
            median = point.get("tokens_per_sec_median")
            if median and SPREAD & set(point["findings"]):
                mean = point["tokens_per_sec_global"]["value"]
                robust[point["cell"]] = f"median run of {point['cell']} {number(median, 4)}, mean {number(mean, 4)}"
    if not codes:
        return []
    measured = {point["cell"] for series in report["series"] for point in series["runs"].values()}
    by_cells: dict[tuple[str, ...], list[str]] = {}
    for code, cells_of_code in codes.items():
        by_cells.setdefault(tuple(cells_of_code), []).append(code)
    text = "; ".join(f"{_and(names)} in {_all_or(cells, measured)}" for cells, names in by_cells.items())
    if 0 < len(robust) <= MOST_ROBUST:
        text += f"; {', '.join(robust.values())} tokens/s"
    cells = tuple(dict.fromkeys(cell for named in codes.values() for cell in named))
    explained = f" (scalebench explain {next(iter(codes))})"
    return [Bullet("reservation", f"With reservations: {text}{explained}", cells=cells)]
