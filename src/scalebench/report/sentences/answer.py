"""The answer to the campaign's question, made from the results and from nothing else."""

from dataclasses import dataclass
from typing import Any, Literal

from scalebench.analysis.ranking import largest_group, single_device_ratio
from scalebench.analysis.simultaneous import FEWEST
from scalebench.report.number_format import number
from scalebench.report.sentences.forecast import answer_sentence
from scalebench.report.sentences.ratios import ab_sentence, interval_text, runs_text

MOST_NAMED = 5  # cells that are named; of more, their number
Topic = Literal[
    "reservation",
    "incomparable",
    "question",
    "fastest",
    "scaling",
    "recommended",
    "comparison",
    "forecast",
    "repeats",
]
Entry = dict[str, Any]  # of scaling_report.json


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
    def basis(self) -> str:
        """Interval and n in brackets, or nothing."""
        return f" ({self.interval})" if self.interval else ""


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
        return "\n".join([self.verdict, *(f"  - {bullet.text}{bullet.basis}" for bullet in self.bullets)])


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
    verdict, decided = _verdict(report, group, comparisons or [])
    return Answer(verdict, tuple(bullets), decided)


def _verdict(report: Entry, group: Entry | None, comparisons: list[Entry]) -> tuple[str, bool]:
    if report.get("question"):
        return _verdict_on_question(report["question"])
    if group:
        return _verdict_on_group(report, group)
    series = [s for s in report["series"] if len(s["runs"]) > 1]
    if series:
        return _verdict_on_series(series[0])
    ok = [c for c in comparisons if c["status"] == "ok"]
    if ok:
        e = ok[0]["estimate"]
        if e["claim"]:
            return f"{ok[0]['b']} is {e['claim']} than {ok[0]['a']}: {number(e['ratio'])}x", True
        return f"Cannot tell {ok[0]['b']} and {ok[0]['a']} apart: {number(e['ratio'])}x", False
    return "No answer yet: one cell alone has numbers, and there is nothing to compare it with", False


def _verdict_on_question(question: Entry) -> tuple[str, bool]:
    subject = question["is"]
    base = question["better_than"]
    by = _percent(question["by"])
    if question["status"] == "unmeasured":
        return f"No answer yet: {subject} or {base} has no numbers", False
    if question["status"] == "incomparable":
        return f"No answer: {subject} and {base} differ in {', '.join(question['incomparable'])}", False
    value = number(question["ratio"]["value"])
    if question["status"] == "yes":
        return f"Yes: {subject} is {value}x faster than {base}", True
    if question["status"] == "no":
        aim = f" by {by}" if question["by"] else ""
        return f"No: {subject} is not faster than {base}{aim}: {value}x", True
    if question["status"] == "near":
        within = _percent(question["within"])
        if question["by"]:
            return f"Too near to call: {subject} is {value}x as fast as {base}, within {within} of the {by} asked", True
        return f"No: {subject} is as fast as {base} within {within}: {value}x", True
    if question["ratio"]["n"] < FEWEST:
        return _too_few(question["ratio"]["n"]), False
    return _cannot_tell(question["resolve"]), False


def _verdict_on_group(report: Entry, group: Entry) -> tuple[str, bool]:
    advice = group["recommendation"]
    cell = advice["cell"]
    against = single_device_ratio(report, cell) if cell else None
    if cell and against:
        return f"{cell} pays off: {number(against['value'])}x one device", True
    if cell:
        first = group["cells"][0]["cell"]
        return (f"{cell}: the fastest" if cell == first else f"{cell}: as fast as {first} and simpler"), True
    if advice["why"] == "too-few-repeats":
        return _too_few(min(entry["tokens_per_sec_global"]["n"] for entry in _comparable(group))), False
    if advice["why"] == "none-beats-one-device":
        against_single = [single_device_ratio(report, entry["cell"]) for entry in _comparable(group)]
        if all(s and s["high"] is not None and s["high"] < 1 for s in against_single):
            return f"No: one device is faster than {_devices(group['devices'])}", True
        return f"Cannot tell yet whether {_devices(group['devices'])} beat one: {_more(group['resolve'])}", False
    if advice["why"] == "disturbed":
        return "Cannot tell: the runs were disturbed; run them again on a quiet machine", False
    first = group["cells"][0]["cell"]
    against = single_device_ratio(report, first)
    if against and against["low"] is not None and against["low"] > 1:
        verdict = f"{first} pays off: {number(against['value'])}x one device"
        return f"{verdict}. Cannot tell yet which cell is best: {_more(group['resolve'])}", False
    return _cannot_tell(group["resolve"]), False


def _verdict_on_series(series: Entry) -> tuple[str, bool]:
    points = list(series["runs"].values())
    speedup, last = points[-1]["speedup"], points[-1]
    if not speedup:
        return f"No answer: {last['cell']} and {points[0]['cell']} are not comparable", False
    if speedup["low"] is None:
        return "Cannot tell yet: one run per cell has no interval, at least 2 more repeats per cell", False
    where = f"on {_devices(last['devices'])}"
    if speedup["low"] > 1:
        return f"{series['name']} pays off: {number(speedup['value'])}x {where}", True
    if speedup["high"] < 1:
        return f"No: {series['name']} is slower {where}: {number(speedup['value'])}x", True
    return (
        f"Cannot tell yet: {series['name']} runs at {number(speedup['value'])}x {where}, more repeats per cell",
        False,
    )


def _too_few(n: int) -> str:
    return f"Cannot tell yet: n={n}, at least {FEWEST - n} more {_repeats(FEWEST - n)}"


def _cannot_tell(resolve: Entry | None) -> str:
    return f"Cannot tell yet: {_more(resolve)}"


def _more(resolve: Entry | None) -> str:
    """About how many more repeats per cell resolve an effect: a range, from that of the noise."""
    if not resolve:
        return "more repeats per cell"
    effect = _percent(resolve["effect"])
    low, high = (max(resolve[bound] - resolve["n"], 0) for bound in ("low", "high"))
    if high == 0:
        return f"the difference lies too near to {effect}, which {resolve['n']} repeats resolve"
    if resolve["high"] >= 1000:
        return f"{max(low, 1)} or more repeats per cell would show {effect}"
    low = max(low, 1)
    count = str(high) if low >= high else f"{low}-{high}"
    return f"about {count} more {_repeats(high)} would show {effect}"


def _repeats(n: int) -> str:
    return f"repeat{'s' if n != 1 else ''} per cell"


def _percent(part: float) -> str:
    return f"{100 * part:.2g} %"


def _comparable(group: Entry) -> list[Entry]:
    return [entry for entry in group["cells"] if not entry["incomparable"]]


def _question(question: Entry | None) -> list[Bullet]:
    if not question or not question["ratio"]:
        return []
    ratio = question["ratio"]
    text = f"{question['is']} runs at {number(ratio['value'])}x the tokens/s of {question['better_than']}"
    text += f"; asked: more than {_percent(question['by'])} faster" if question["by"] else "; asked: faster"
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
        "at_most": f"{n} repeats per cell, still undecided at {_percent(look['resolve'])} (repeats.at_most); {allowed}",
        "minutes": f"{stopped}, undecided: a further round exceeds {look['minutes']} minutes (repeats.minutes)",
        "device_hours": f"{stopped}, undecided: a further round exceeds {look['device_hours']} device hours "
        "(repeats.device_hours)",
        "nothing-to-compare": f"{stopped}: there is nothing that more of them could decide",
        None: f"{n} repeats per cell so far, not decided yet",
    }
    return [Bullet("repeats", texts[look["why"]], n=str(n))]


def _fastest(group: Entry) -> list[Bullet]:
    first, second, *_ = _comparable(group)
    last = _comparable(group)[-1]
    slow = last["relative_to_fastest"]
    slowest = ""
    if last is not second and slow["high"] is not None and slow["high"] < 1:
        bounds = f"{number(slow['low'])}-{number(slow['high'])}"
        slowest = f"slowest is {last['cell']} at {number(slow['value'])}x ({bounds}); "
    where = f"on {_devices(group['devices'])}"
    rate = f"{number(first['tokens_per_sec_global']['value'], 4)} tokens/s"
    relative = second["relative_to_fastest"]
    n = runs_text(first["tokens_per_sec_global"]["n"], second["tokens_per_sec_global"]["n"])
    if group["fastest_shown"]:
        text = f"{first['cell']} is fastest {where} at {rate}; {slowest}next is {second['cell']} at "
        text += f"{number(relative['value'])}x"
        cells = [first["cell"], second["cell"]]
    elif relative["low"] is None:
        text = f"{first['cell']} measured highest {where}, {rate}; nothing is claimed"
        cells = [first["cell"]]
    else:
        cells = [e["cell"] for e in _comparable(group) if set(e["letters"]) & set(first["letters"])]
        text = f"{_named(cells)} cannot be told apart {where}; {slowest}{first['cell']} measured highest at {rate}"
        text += f", {second['cell']} {number(relative['value'])}x that"
    together = f", {group['claims']} pairs at once" if group["claims"] > 1 and relative["low"] is not None else ""
    interval = interval_text(relative["low"], relative["high"], n) + together
    return [Bullet("fastest", text, interval, n, tuple(dict.fromkeys(cells)))]


def _recommended(group: Entry) -> list[Bullet]:
    advice = group["recommendation"]
    margin = _percent(advice["margin"])
    if advice["cell"]:
        why = "the simplest" if advice["cell"] != advice["fastest"] or not group["fastest_shown"] else "the fastest"
        text = f"Recommended: {advice['cell']}, {why}"
        if why == "the simplest":
            text += f" shown to be at most {margin} slower than any other"
        if advice["simpler"]:
            text += f"; {advice['simpler']} is simpler, but not yet shown to be as fast"
        return [Bullet("recommended", text, cells=(advice["cell"],))]
    if advice["why"] == "undecided":
        text = (
            f"No recommendation yet: {advice['candidate']}, the simplest, "
            f"may be up to {_percent(advice['worst'])} slower"
        )
        return [Bullet("recommended", text, cells=(advice["candidate"],))]
    reasons = {
        "too-few-repeats": "a recommendation needs 3 repeats per cell",
        "none-beats-one-device": "no cell is shown to beat one device",
        "disturbed": f"runs of {_named(advice['disturbed'])} were disturbed",
    }
    return [Bullet("recommended", f"No recommendation: {reasons[advice['why']]}", cells=tuple(advice["disturbed"]))]


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
    sizes = f"on {_devices(last['devices'])} than on {base['devices']}"
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


def _devices(n: int) -> str:
    return f"{n} device{'s' if n > 1 else ''}"


def _named(cells: list[str]) -> str:
    if len(cells) > MOST_NAMED:
        return f"{len(cells)} cells"
    return " and ".join([", ".join(cells[:-1]), cells[-1]]) if len(cells) > 1 else "".join(cells)


def _reservations(report: Entry) -> list[Bullet]:
    """The cells whose numbers have a finding."""
    codes: dict[str, list[str]] = {}
    for series in report["series"]:
        for point in series["runs"].values():
            for code in dict.fromkeys(point["findings"]):
                codes.setdefault(code, []).append(point["cell"])
    if not codes:
        return []
    text = "; ".join(f"{code} in {_named(cells)}" for code, cells in codes.items())
    cells = tuple(dict.fromkeys(cell for named in codes.values() for cell in named))
    return [Bullet("reservation", f"With reservations: {text}", cells=cells)]
