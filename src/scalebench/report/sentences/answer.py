"""The answer to the campaign's question, made from the results and from nothing else."""

from dataclasses import dataclass
from typing import Literal

from scalebench.analysis.ranking import largest_group
from scalebench.report.number_format import number
from scalebench.report.sentences.forecast import answer_sentence
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
    "scaling",
    "recommended",
    "comparison",
    "forecast",
    "repeats",
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
        *(_recommended(group) if group else ()),
        *(_forecast(forecast) if forecast else ()),
    ]
    if not group and not any(len(s["runs"]) > 1 for s in report["series"]):
        bullets += [Bullet("comparison", ab_sentence(c), cells=(c["name"],)) for c in comparisons or ()]
    bullets += _repeats_taken(report.get("repeats"))
    verdict, decided = verdict_on(report, group, comparisons or [])
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
    """The cell that is fastest, or measured highest, and the next one; then those that are shown to be slower."""
    first, second, *_ = comparable(group)
    where = f"on {devices(group['devices'])}"
    rate = f"{number(first['tokens_per_sec_global']['value'], 4)} tokens/s"
    equals = [e for e in comparable(group)[1:] if set(e["letters"]) & set(first["letters"])]
    other = equals[0] if equals else second
    relative = other["relative_to_fastest"]
    value = number(relative["value"])
    if group["fastest_shown"]:
        text = f"{first['cell']} is fastest {where} at {rate}; next is {second['cell']} at {value}x"
        cells = [first["cell"], second["cell"]]
    elif relative["low"] is None:
        text = f"{first['cell']} measured highest {where}, {rate}; nothing is claimed"
        cells = [first["cell"]]
    else:
        names = _named([e["cell"] for e in equals])
        text = f"{first['cell']} measured highest {where}, {rate}; {names} cannot be told apart from it"
        text += f", {other['cell']} at {value}x"
        cells = [first["cell"], *(e["cell"] for e in equals)]
    bullet = Bullet("fastest", text, *_basis(group, first, other), tuple(cells))
    slower = [e for e in comparable(group)[1:] if e is not other and (e["relative_to_fastest"]["high"] or 1) < 1]
    return [bullet, *_slower(group, first, slower)]


def _slower(group: Entry, first: Entry, slower: list[Entry]) -> list[Bullet]:
    """The cells that are shown to be slower than the fastest and are not named yet; the interval is the last one's."""
    if not slower:
        return []
    last = slower[-1]
    ratios = [f"{e['cell']} {number(e['relative_to_fastest']['value'])}x" for e in slower]
    if len(ratios) > MOST_NAMED:
        ratios = [f"{len(ratios) - 1} cells", ratios[-1]]
    text = f"Slower than {first['cell']}: {_named(ratios)}"
    return [Bullet("slower", text, *_basis(group, first, last), tuple(e["cell"] for e in slower))]


def _basis(group: Entry, first: Entry, other: Entry) -> tuple[str, str]:
    """Interval and n of one cell relative to the fastest."""
    relative = other["relative_to_fastest"]
    n = runs_text(first["tokens_per_sec_global"]["n"], other["tokens_per_sec_global"]["n"])
    several = group["claims"] > 1 and relative["low"] is not None
    together = f", corrected for {group['claims']} comparisons" if several else ""
    return interval_text(relative["low"], relative["high"], n) + together, n


def _recommended(group: Entry) -> list[Bullet]:
    advice = group["recommendation"]
    margin = percent(advice["margin"])
    if advice["cell"]:
        why = "the simplest" if advice["cell"] != advice["fastest"] or not group["fastest_shown"] else "the fastest"
        text = f"Recommended: {advice['cell']}, {why}"
        if why == "the simplest":
            text += f" shown to be at most {margin} slower than any other"
        if advice["simpler"]:
            text += f"; {advice['simpler']} is simpler, but not yet shown to be as fast"
        basis = _of_all_pairs(group) if why == "the simplest" else None
        return [Bullet("recommended", text, basis, cells=(advice["cell"],))]
    if advice["why"] == "undecided":
        text = (
            f"No recommendation yet: {advice['candidate']}, the simplest, "
            f"may still be up to {percent(advice['worst'])} slower than another"
        )
        return [Bullet("recommended", text, _of_all_pairs(group), cells=(advice["candidate"],))]
    reasons = {
        "too-few-repeats": "a recommendation needs 3 repeats per cell",
        "none-beats-one-device": "no cell is shown to beat one device",
        "disturbed": f"runs of {_named(advice['disturbed'])} were disturbed",
    }
    return [Bullet("recommended", f"No recommendation: {reasons[advice['why']]}", cells=tuple(advice["disturbed"]))]


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
        text = f"{series['name']} {sizes.replace(' than', ' cannot be told apart from')}: {value}x"
    elif speedup["value"] > 1:
        text = f"{series['name']} is {value}x faster {sizes}{_efficiency(last)}"
    else:
        text = f"{series['name']} is slower {sizes}: {value}x"
    return [Bullet("scaling", text, interval, n, (base["cell"], last["cell"]))]


def _efficiency(point: Entry) -> str:
    """Scaling efficiency; above 100 % there is none to state, and the finding `super-linear` says why."""
    value = point["scaling_efficiency"]["value"]
    return f": {number(100 * value, 2)} % scaling efficiency" if 0 < value <= 1 else ""


def _named(cells: list[str]) -> str:
    if len(cells) > MOST_NAMED:
        return f"{len(cells)} cells"
    return " and ".join([", ".join(cells[:-1]), cells[-1]]) if len(cells) > 1 else "".join(cells)


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
    text = "; ".join(f"{code} in {_named(cells)}" for code, cells in codes.items())
    if 0 < len(robust) <= MOST_ROBUST:
        text += f"; {', '.join(robust.values())} tokens/s"
    cells = tuple(dict.fromkeys(cell for named in codes.values() for cell in named))
    explained = f" (scalebench explain {next(iter(codes))})"
    return [Bullet("reservation", f"With reservations: {text}{explained}", cells=cells)]
