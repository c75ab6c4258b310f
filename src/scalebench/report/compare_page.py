"""`scalebench compare --html`: two campaigns or machines on one page that needs nothing but itself."""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy.special import stdtrit

from scalebench.analysis.compare_runs import Compared
from scalebench.record.run import Run
from scalebench.report.charts.ratios import draw_ratios
from scalebench.report.html import environment
from scalebench.report.inline_svg import inline_svg
from scalebench.report.number_format import estimate, number
from scalebench.report.page_facts import environment_facts, protocol, when
from scalebench.report.sentences.ratios import compared_sentence

FASTER = "faster"
SLOWER = "slower"
UNDECIDED = "cannot be told apart"
NO_INTERVAL = "no interval"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Side:
    """One of the two results; `runs`: empty where they are not of scalebench."""

    path: str
    runs: Sequence[Run]


@dataclass(frozen=True)
class Fact:
    """A line of the table about both sides."""

    name: str
    a: str
    b: str

    @property
    def differs(self) -> bool:
        return self.a != self.b


def compare_page(compared: Sequence[Compared], alone: Sequence[str], a: Side, b: Side, command: str) -> str:
    """The page. `alone`: cells that one side has; `command`: what made it."""
    comparable = [one for one in compared if one.ratio is not None]
    claims = {id(one): claim(one, len(comparable)) for one in comparable}
    names = {id(one): _cell(one, a, b) for one in compared}
    rows = [_row(one, names[id(one)], claims[id(one)]) for one in comparable]
    refused = [(names[id(one)], one.why or "") for one in compared if one.ratio is None]
    return (
        environment()
        .get_template("compare.html.j2")
        .render(
            a=a.path,
            b=b.path,
            verdict=_verdict(compared, list(claims.values())),
            rows=rows,
            several=len(comparable) > 1,
            unstated=sorted({name for one in compared for name in one.unstated}),
            refused=refused,
            alone=alone,
            chart=_chart([(names[id(one)], one) for one in comparable]),
            facts=_facts(a, b),
            command=command,
        )
    )


def claim(one: Compared, claims: int) -> str:
    """What a ratio supports, where `claims` of them are made at once with 95 % for all (Bonferroni)."""
    if one.ratio is None or one.low is None or one.high is None or one.freedom is None:
        return NO_INTERVAL
    wider = stdtrit(one.freedom, 1 - (1 - CONFIDENCE) / 2 / claims) / stdtrit(one.freedom, (1 + CONFIDENCE) / 2)
    half = math.log(one.high / one.ratio) * float(wider)
    if abs(math.log(one.ratio)) <= half:
        return UNDECIDED
    return FASTER if one.ratio > 1 else SLOWER


def _verdict(compared: Sequence[Compared], claims: list[str]) -> str:
    if len(compared) == 1:
        return compared_sentence(compared[0])
    if not claims:
        return f"No answer: none of the {len(compared)} common cells is comparable."
    counts = {word: claims.count(word) for word in (FASTER, SLOWER, UNDECIDED, NO_INTERVAL)}
    words = {FASTER: "faster in B", SLOWER: "slower in B", UNDECIDED: UNDECIDED, NO_INTERVAL: "without an interval"}
    parts = [f"{count} {words[word]}" for word, count in counts.items() if count]
    if len(claims) < len(compared):
        parts.append(f"{len(compared) - len(claims)} not comparable")
    return f"Of {len(compared)} common cells: {', '.join(parts)}."


def _cell(one: Compared, a: Side, b: Side) -> str:
    """The cell's name, or both where they differ."""
    first = _cell_of(one.a, a)
    second = _cell_of(one.b, b)
    return first if first == second else f"{second} against {first}"


def _cell_of(text: str, side: Side) -> str:
    return text.removeprefix(side.path).strip() or Path(text).name


def _row(one: Compared, name: str, supported: str) -> dict[str, str]:
    interval = {"value": one.ratio, "low": one.low, "high": one.high, "n": min(one.runs)}
    return {
        "cell": name,
        "findings": " ".join(one.suspect),
        "B over A [95 %]": estimate(interval),
        "claim": supported,
        f"A ({one.unit})": number(one.rates[0], 4),
        f"B ({one.unit})": number(one.rates[1], 4),
        "runs": f"{one.runs[0]} and {one.runs[1]}",
        "differs on purpose": ", ".join(one.intended) or "–",
    }


def _chart(comparable: Sequence[tuple[str, Compared]]) -> str:
    if len(comparable) < 2:
        return ""
    ratios = [(name, one.ratio, one.low, one.high) for name, one in comparable if one.ratio is not None]
    with tempfile.TemporaryDirectory() as folder:
        draw_ratios(ratios, Path(folder) / "ratios")
        return inline_svg(Path(folder) / "ratios.svg", "ratios", "B over A of every cell")


def _facts(a: Side, b: Side) -> list[Fact]:
    """Date, protocol and environment of both sides; none where a side is not of scalebench."""
    if not a.runs or not b.runs:
        return []
    sides = []
    for side in (a, b):
        runs = list(side.runs)
        sides.append({"Measured": when(runs), **dict(protocol(runs)), **dict(environment_facts(runs))})
    first, second = sides
    return [Fact(name, first.get(name, "–"), second.get(name, "–")) for name in dict.fromkeys([*first, *second])]
