"""The answer to the campaign's question, made from the results and from nothing else."""

import re
from dataclasses import dataclass
from typing import Any, Literal

from scalebench.report.number_format import number

Topic = Literal["reservation", "question", "fastest", "scaling", "recommended", "incomparable", "comparison"]


@dataclass(frozen=True)
class Bullet:
    """One statement of the answer. `text` stands alone; `interval` and `n` are what it rests on, `cells` the rows to
    link to (slugs, or names of A/B comparisons)."""

    topic: Topic
    text: str
    interval: str | None = None  # "95 % CI 1.05-1.40"
    n: str | None = None  # runs or pairs behind it
    cells: tuple[str, ...] = ()

    @property
    def basis(self) -> str:
        """Interval and n in brackets, or nothing."""
        parts = [part for part in (self.interval, f"n={self.n}" if self.n else None) if part]
        return f" ({', '.join(parts)})" if parts else ""


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


def conclude(report: dict[str, Any], comparisons: list[dict[str, Any]] | None = None) -> Answer:
    """The answer to the campaign's question. `report`: scaling_report.json; `comparisons`: of comparison.json."""
    first, *others = re.split(r"(?<=[.]) (?=\S)", answer(report, comparisons))
    bullets = tuple(Bullet("fastest", sentence) for sentence in others)
    return Answer(first, bullets, decided=not first.startswith("No answer"))


NAMED = 5  # cells that are told by name; of more, their number


def answer(report: dict[str, Any], comparisons: list[dict[str, Any]] | None = None) -> str:
    """What the intervals carry: which cell is fastest, how the fastest scales. What they do not carry is not claimed."""
    if report["status"] == "invalid_comparison":
        codes = ", ".join(report["mismatches"])
        return f"No answer: the numbers did not pass their own checks ({codes}). See the findings."
    if not report["series"]:
        return "No answer: no run has numbers. See the runs without numbers."
    sentences = [*_fastest(report), *(s for series in _leading(report) if (s := _scaling(series)))]
    sentences = sentences or [compared(c) for c in comparisons or []]
    sentences += _reservations(report) if sentences else []
    return " ".join(sentences) or "No answer yet: one cell alone has numbers, and there is nothing to compare it with."


def _fastest(report: dict[str, Any]) -> list[str]:
    """The ranking at the largest number of devices at which there is more than one cell."""
    groups = [g for g in report["ranking"] if len(_comparable(g)) > 1]
    if not groups:
        return []
    group = groups[-1]
    first, second, last = (_comparable(group)[i] for i in (0, 1, -1))
    where, rate = f"On {_devices(group['devices'])}", f"{number(first['tokens_per_sec_global']['value'], 4)} tokens/s"
    relative, runs = second["relative_to_fastest"], _runs(second, first)
    if relative["low"] is None:
        return [f"{where}, {first['cell']} made the most, {rate}, but without an interval nothing is claimed ({runs})."]
    interval = f"95 % interval {number(relative['low'])} to {number(relative['high'])}, {runs}"
    times = f"{number(relative['value'])} times the tokens/s of {first['cell']} ({interval})"
    if relative["high"] >= 1:
        told = [f"{where}, {first['cell']} with {rate} and {second['cell']} are not distinguishable: {times}."]
    else:
        told = [f"{where}, {first['cell']} is fastest with {rate}; the next is {second['cell']} with {times}."]
    others = [e["cell"] for e in _comparable(group)[2:] if (e["relative_to_fastest"]["high"] or 0) >= 1]
    if others:
        told.append(f"Nor {'is' if len(others) == 1 else 'are'} {', '.join(others)} distinguishable from it.")
    slow = last["relative_to_fastest"]
    if last is not second and slow["high"] is not None and slow["high"] < 1:
        bounds = f"95 % interval {number(slow['low'])} to {number(slow['high'])}"
        told.append(f"The slowest is {last['cell']} with {number(slow['value'])} times that ({bounds}).")
    return told + _against_single(report, first["cell"]) + _recommended(group) + _left_out(group)


def _comparable(group: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry for entry in group["cells"] if not entry["incomparable"]]


def _recommended(group: dict[str, Any]) -> list[str]:
    """Where the intervals carry one: with the reason for it, and what comes next."""
    advice = group["recommendation"]
    if not advice:
        return []
    if advice["cell"] != advice["fastest"]:
        why = "the simplest of those that are not distinguishable from the fastest"
    elif advice["within_noise"]:
        why = "the fastest, and the simplest of those that are not distinguishable from it"
    else:
        why = "the fastest"
    return [f"Recommended: {advice['cell']}, {why}; runner-up: {advice['runner_up']}."]


def _left_out(group: dict[str, Any]) -> list[str]:
    """Cells of that size that may not be compared, and why."""
    return [
        f"{entry['cell']} is incomparable with it: {', '.join(entry['incomparable'])} differ{'' if len(entry['incomparable']) > 1 else 's'}."
        for entry in group["cells"]
        if entry["incomparable"]
    ]


def _against_single(report: dict[str, Any], cell: str) -> list[str]:
    """The fastest cell against the best single device, where that is not the baseline that its own series has."""
    for series in report["series"]:
        for run in series["runs"].values():
            shown = run["speedup_vs_best_single"]
            if run["cell"] == cell and shown and shown["low"] is not None and run["best_single"] != series["baseline"]:
                interval = f"95 % interval {number(shown['low'])} to {number(shown['high'])}"
                times = f"{number(shown['value'])} times its tokens/s ({interval})"
                if shown["low"] <= 1 <= shown["high"]:
                    return [
                        f"{cell} is not distinguishable from the best single device, {run['best_single']}: {times}."
                    ]
                return [f"The best single device is {run['best_single']}; {cell} makes {times}."]
    return []


def _leading(report: dict[str, Any]) -> list[dict]:
    """The series whose scaling is told: all where there are few, else that of the fastest cell."""
    several = [s for s in report["series"] if len(s["runs"]) > 1]
    if len(several) < 3:
        return several
    fastest = report["ranking"][-1]["cells"][0]["cell"]
    return [s for s in several if any(r["cell"] == fastest for r in s["runs"].values())]


def _scaling(series: dict[str, Any]) -> str | None:
    points = list(series["runs"].values())
    last, base = points[-1], points[0]
    speedup = last["speedup"]
    if not speedup:
        return None
    who, against = f"{series['name']}: {_devices(last['devices'])}", _devices(base["devices"])
    value, runs = number(speedup["value"]), _runs(last, base)
    if speedup["low"] is None:
        return (
            f"{who} made {value} times the tokens/s of {against}, but without an interval nothing is claimed ({runs})."
        )
    interval = f"95 % interval {number(speedup['low'])} to {number(speedup['high'])}, {runs}"
    if speedup["low"] <= 1 <= speedup["high"]:
        return f"{who} and {against} are not distinguishable: {value} times the tokens/s ({interval})."
    verdict = "more" if speedup["low"] > 1 else "less"
    efficiency = number(100 * last["scaling_efficiency"]["value"])
    return f"{who} make {verdict} than {against}: {value} times the tokens/s ({interval}), an efficiency of {efficiency} %."


def _devices(n: int) -> str:
    return f"{n} device{'s' if n > 1 else ''}"


def _runs(*points: dict[str, Any]) -> str:
    """How many runs stand behind the compared cells."""
    counts = [p["tokens_per_sec_global"]["n"] for p in points]
    if len(set(counts)) == 1:
        return f"{counts[0]} run{'s' if counts[0] > 1 else ''} each"
    return f"{' and '.join(map(str, counts))} runs"


def _reservations(report: dict[str, Any]) -> list[str]:
    """The cells whose numbers carry a finding."""
    codes: dict[str, list[str]] = {}
    for series in report["series"]:
        for run in series["runs"].values():
            for code in dict.fromkeys(run["findings"]):
                codes.setdefault(code, []).append(run["cell"])
    several = {
        code: ", ".join(cells) if len(cells) <= NAMED else f"{len(cells)} cells" for code, cells in codes.items()
    }
    told = "; ".join(f"{code} in {cells}" for code, cells in several.items())
    return [f"With reservations, see the findings: {told}."] if told else []


def compared(comparison: dict[str, Any]) -> str:
    """What an A/B comparison carries, in a sentence or two."""
    name, a, b, e = (comparison[key] for key in ("name", "a", "b", "estimate"))
    if comparison["status"] != "ok":
        return f"{name}: no answer, {comparison['status']} ({comparison['why']})."
    interval = f"95 % interval {number(e['low'], 4)} to {number(e['high'], 4)}, {e['n']} pairs"
    noise = f"pairs of A against A differ by {number(100 * e['floor'], 2)} %"
    if e["claim"]:
        bounds = sorted(100 * abs(e[bound] - 1) for bound in ("low", "high"))
        part = f"95 % interval {number(bounds[0])} to {number(bounds[1])} %, {e['n']} pairs"
        return f"{name}: {b} is {number(100 * abs(e['ratio'] - 1))} % {e['claim']} than {a} ({part}; {noise})."
    more = e["more_pairs"]
    resolved = {0: "these pairs resolve 2 %", None: "more than 1,000 pairs would be needed to resolve 2 %"}
    return (
        f"{name}: {b} and {a} are not distinguishable: {number(e['ratio'], 4)} times the tokens/s ({interval}; {noise}). "
        f"An effect of {number(100 * e['detectable'], 2)} % would have been seen four times out of five; "
        f"{resolved.get(more, f'{more} more pairs would resolve 2 %')}."
    )
