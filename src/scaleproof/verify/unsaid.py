"""Sentences that claims.json must have by what the campaign's other files say, whether or not they state a figure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scaleproof.ground.snakemake_command import HERE
from scaleproof.verify.intervals import FEWEST
from scaleproof.verify.printed import numbers, rounded_up_percent, stands_for
from scaleproof.verify.raw import Difference
from scaleproof.verify.raw_cells import largest_comparison

FILE = "claims.json"
MOST_NAMED = 5  # cells; of more a sentence says how many they are
FEW_SERIES = 3  # of fewer the scaling of each is stated, else that of the fastest cell's
NEXT = re.compile("scaleproof (?:plan|retry|explain) |snakemake |make a campaign|are not worth their time")
BEYOND_REPEATS = re.compile("may answer otherwise|goes on with it")
MEASURE_AGAIN = "scaleproof retry"
# Kind of the claim that a verdict is about -> its words with which further repeats could settle nothing.
DECIDED = {
    "recommended": {"recommended"},
    "question": {"yes", "no", "near"},
    "speed-up": {"faster", "slower"},
    "pairs": {"faster", "slower"},
}
NAME_OR_PATH = re.compile(r"\S*[A-Za-z]\S*[-/]\S*")
FIXED_COUNTS = (3, 7, 9, 10, 100, 1000)  # repeats that an interval needs, "7 to 9 times in 10", the most repeats
HIDES = 3.0  # computing over transfers that usually hides them
Sentences = Sequence[Mapping[str, Any]]


def check_unsaid(
    sentences: Sentences,
    expected: Mapping[str, Any],
    report: Mapping[str, Any],
    comparisons: Mapping[str, Any],
    lost: Mapping[str, Any],
) -> Iterator[Difference]:
    """Yield each claim, name or figure that a sentence of its topic must state, and none does.

    `expected`: the claims by their ids; `report`: scaling_report.json; `comparisons`, `lost`: the entries of
    comparison.json and of waterfall.json by name.
    """
    yield from check_largest_size(sentences, expected, report)
    for sentence in sentences:
        if sentence["topic"] == "lost":
            yield from _check_lost_time(sentence["text"], lost)
        if sentence["topic"] in ("recommended", "fastest"):
            yield from _check_ratios_listed(sentence["topic"], sentence["claims"], expected)
        if sentence["topic"] == "one-device":
            yield from _check_one_device(sentence, expected, report)
    texts: dict[str, list[str]] = {}
    for sentence in sentences:
        texts.setdefault(sentence["topic"], []).append(sentence["text"])
    yield from _check_next_step(sentences, expected, report)
    for topic, words in _due_words(report, comparisons, lost):
        if not any(all(word in text for word in words) for text in texts.get(topic, ())):
            yield Difference(FILE, topic, f"no sentence says {' and '.join(words)}")
    yield from _check_scaling_said(sentences, report)


def _check_next_step(
    sentences: Sentences, expected: Mapping[str, Any], report: Mapping[str, Any]
) -> Iterator[Difference]:
    """Yield where the next step is missing, asks to repeat what is decided, or states figures of nothing."""
    steps = [sentence["text"] for sentence in sentences if sentence["topic"] == "next"]
    if not any(map(NEXT.search, steps)):
        yield Difference(FILE, "next", "no sentence says what to do next, and with which command")
    verdict: list[str] = next((sentence["claims"] for sentence in sentences if sentence["topic"] == "verdict"), [])
    kind, word = verdict[0].partition("/")[0] if verdict else "", expected.get((verdict or [""])[0], {}).get("word")
    figures = _figures_of_next_step(report)
    for step in steps:
        is_beyond_repeats = bool(BEYOND_REPEATS.search(step))
        if word in DECIDED.get(kind, ()) and not is_beyond_repeats and MEASURE_AGAIN not in step:
            yield Difference(FILE, f'next: "{step[:60]}"', f"{verdict[0]} is {word}, and needs no further repeats")
        is_open = kind == "fastest" and report["ranking"][int(verdict[0].partition("/")[2])]["resolve"]
        if is_open and is_beyond_repeats and not report["repeats"]:
            yield Difference(FILE, f'next: "{step[:60]}"', "says nothing of repeats, and no cell is recommended")
        for printed in numbers(NAME_OR_PATH.sub(" ", step)):
            if not any(stands_for(printed, figure) for figure in figures):
                yield Difference(FILE, f'next: "{step[:60]}"', f"{printed} is no figure of what repeats show or cost")


def _figures_of_next_step(report: Mapping[str, Any]) -> list[float]:
    """Return the numbers that the next step may state: how many repeats, what they show, what they cost."""
    points = [point for series in report["series"] for point in series["runs"].values()]
    counts = {*(point["n"] for point in points), len(points), *FIXED_COUNTS}
    differences = []
    for part in (report["question"], *report["ranking"], *report["series"]):
        resolve = (part or {}).get("resolve")
        if resolve:
            differences += [resolve["effect"], resolve["detectable"], resolve["further"]["detectable"]]
            counts |= {resolve["n"], resolve["repeats"], resolve["further"]["repeats"]} - {None}
    look = report["repeats"] or {}
    counts |= {look[name] for name in ("at_least", "at_most") if name in look}
    counts |= {float(f"{count:.2g}") for count in counts}
    more = {a - b for a in counts for b in counts if a > b}
    seconds = report["seconds_per_repeat"] or 0.0
    times = [count * seconds / unit for count in more for unit in (1, 60, 3600)]
    in_texts = [*map(rounded_up_percent, differences), report["snakemake"] or HERE]
    return [*counts, *more, *times, *(float(number) for text in in_texts for number in numbers(text))]


def cells_of_codes(points: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return code of a finding -> the cells that have it. `points`: of all series of scaling_report.json."""
    cells: dict[str, list[str]] = {}
    for point in points:
        for code in dict.fromkeys(point["findings"]):
            cells.setdefault(code, []).append(point["cell"])
    return cells


def _due_words(
    report: Mapping[str, Any], comparisons: Mapping[str, Any], lost: Mapping[str, Any]
) -> Iterator[tuple[str, list[str]]]:
    """Yield topic and words of each sentence that must be there."""
    points = [point for series in report["series"] for point in series["runs"].values()]
    for code, cells in cells_of_codes(points).items():
        if len(cells) > MOST_NAMED or (len(cells) == len(points) > 2):  # "6 cells", "all 3 cells"
            yield "reservation", [code, f"{len(cells)} cells"]
        else:
            yield from (("reservation", [code, cell]) for cell in cells)
    for entry in comparisons.values():
        yield "pairs", [entry["b"], entry["a"]] if entry["estimate"] else [entry["name"]]
    for cell, entry in lost.items():
        if 2 * sum(part["ms"] is not None for part in entry["parts"]) >= len(entry["parts"]):
            yield "lost", [cell]
    if report["status"] != "ok" or not report["series"]:
        return
    if report["repeats"]:
        yield "repeats", [str(report["repeats"]["repeats"])]
    question = report["question"]
    if question and question["ratio"]:
        yield "question", [question["is"]]
    ranking = largest_comparison(report)
    for entry in ranking["cells"] if ranking else ():
        if entry["incomparable"]:
            yield "incomparable", [entry["cell"], *(field for field in entry["incomparable"] if field != "repeats")]
    if ranking is None and not any(len(series["runs"]) > 1 for series in report["series"]):
        for entry in comparisons.values():
            yield "comparison", [entry["b"], entry["a"]] if entry["estimate"] else [entry["name"]]


def check_trust_said(sentences: Sentences, report: Mapping[str, Any], checks: Sequence[str]) -> Iterator[Difference]:
    """Yield what no sentence says on whether the answer can be trusted, and which differences its repeats show.

    `checks`: those of findings.json.
    """
    texts = [sentence["text"] for sentence in sentences if sentence["topic"] == "trust"]
    several = next((series for series in report["series"] if len(series["runs"]) > 1), None)
    compared = report["question"] or largest_comparison(report) or several
    n = min((point["n"] for series in report["series"] for point in series["runs"].values()), default=0)
    due = ["Can I trust it? "] if checks else []
    if compared and compared["resolve"]:
        due.append(f"{compared['resolve']['n']} repeat")
    elif compared and 0 < n < FEWEST:
        due.append(f"(n={n})")
    if "Can I trust it? no:" in " ".join(texts):  # of numbers that are wrong it does not matter
        due = due[:1]
    for words in due:
        if not any(words in text for text in texts):
            yield Difference(FILE, "trust", f"no sentence says {words}")


def _check_one_device(
    sentence: Mapping[str, Any], expected: Mapping[str, Any], report: Mapping[str, Any]
) -> Iterator[Difference]:
    """Yield what the sentence against one device has twice, a cell, or leaves out, the efficiency of the fastest."""
    for claim in sentence["claims"]:
        cell = claim.partition("/")[2]
        if sentence["text"].count(f"{cell} at ") > 1:
            yield Difference(FILE, "one-device", f"has {cell} twice")
    ranking = largest_comparison(report)
    efficiency = f"efficiency/{ranking['cells'][0]['cell']}" if ranking else ""
    if efficiency in expected and 0 < expected[efficiency]["figure"][0] <= 1 and efficiency not in sentence["claims"]:
        yield Difference(FILE, "one-device", f"does not say the {efficiency.replace('/', ' of ')}")


def _check_scaling_said(sentences: Sentences, report: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield each series of whose largest size no sentence states the speed-up, or the efficiency."""
    if report["status"] != "ok":
        return
    stated = [set(sentence["claims"]) for sentence in sentences if sentence["topic"] in ("scaling", "one-device")]
    claims_of_all: set[str] = set().union(*stated)
    last_of = [list(series["runs"].values())[-1] for series in report["series"] if len(series["runs"]) > 1]
    several = [point for point in last_of if point["speedup_in_answer"]]
    if len(several) >= FEW_SERIES:
        fastest = report["ranking"][-1]["cells"][0]["cell"]
        of_fastest = [series for series in report["series"] if fastest in {p["cell"] for p in series["runs"].values()}]
        several = [point for point in several if any(point in series["runs"].values() for series in of_fastest)]
    for point in several:
        cell = point["cell"]
        if claims_of_all.isdisjoint({f"speed-up/{cell}", f"one-device/{cell}"}):
            yield Difference(FILE, "scaling", f"no sentence says the speed-up of {cell}")
        is_faster = (point["speedup_in_answer"]["low"] or 0) > 1
        in_scaling = any(f"speed-up/{cell}" in claims and f"one-device/{cell}" not in claims for claims in stated)
        has_efficiency = 0 < (point["scaling_efficiency"] or {"value": 0})["value"] <= 1
        if is_faster and in_scaling and has_efficiency and f"efficiency/{cell}" not in claims_of_all:
            yield Difference(FILE, "scaling", f"no sentence says the efficiency of {cell}")


def _check_ratios_listed(topic: str, claims: Sequence[str], expected: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield each ratio that a sentence on the fastest or recommended cell must list and does not, or must not and does.

    Where a cell is shown to be fastest, the sentence on it lists the next one alone.
    """
    indices = [identity.partition("/")[2] for identity in claims if identity.startswith(f"{topic}/")]
    fastest = [expected[f"fastest/{index}"] for index in indices if f"fastest/{index}" in expected]
    for first in fastest:
        ratios = [claim for claim in expected.values() if claim["kind"] == "ratio"]
        words = {claim["id"]: claim["word"] for claim in ratios if claim["baseline"] == first["subject"]}
        listed = [identity for identity, word in words.items() if word != "slower"]
        if topic == "fastest" and first["word"] == "shown":
            listed = list(words)[:1]
        if topic == "fastest" and "unclaimed" in [*words.values()][:1]:
            listed = []
        for identity, word in words.items():
            if (identity in listed) != (identity in claims):
                verb = "does not list" if identity in listed else "lists"
                yield Difference(FILE, topic, f"{verb} {identity}, whose word is {word}")


def _check_lost_time(text: str, lost: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the parts of lost time that a sentence does not state as waterfall.json has them."""
    cell = lost.get(text.split(" (n=")[0].split(":")[0])
    if cell is None or cell["measured_ms"] <= cell["ideal_ms"]:
        return
    unknown = ", ".join(part["name"] for part in cell["parts"] if part["ms"] is None)
    stated = re.search(r" Not measured: (.*?)\.(?: |$)", text)
    if (stated[1] if stated else "") != unknown:
        yield Difference(FILE, f'lost: "{text[:60]}"', f"not measured: {unknown or 'nothing'}, by waterfall.json")
    left_ms = cell["unexplained_ms"]
    parts = {part["name"]: part["ms"] for part in (*cell["parts"], {"name": "unexplained", "ms": max(left_ms, 0)})}
    due = [(rf"[:,] {re.escape(name)} (-?[\d.,]+) ms", ms) for name, ms in parts.items() if ms]
    due += [] if left_ms > 0 else [(r", together (-?[\d.,]+) ms more than the loss", -left_ms)]
    for pattern, ms in due:
        match = re.search(pattern, text)
        if not match or not stands_for(match[1], ms):
            problem = f"says {match[1]} ms, not {ms:.3g}" if match else f"does not say {ms:.3g} ms where it should"
            yield Difference(FILE, f'lost: "{text[:60]}"', problem)
    ratio, exposed = cell["compute_to_communication"], cell["transfer_exposed"]
    if ratio is not None and exposed is not None:
        word = "too short to hide" if ratio < HIDES else "long enough to hide"
        if word not in text or (ratio >= HIDES and ("; yet" in text) != (exposed > 0.5)):
            yield Difference(FILE, f'lost: "{text[:60]}"', f'does not say "{word}" of {ratio:.3g} times')


def check_largest_size(
    sentences: Sentences, expected: Mapping[str, Any], report: Mapping[str, Any]
) -> Iterator[Difference]:
    """Yield claims on the largest size that no sentence of the answer says, and a verdict that is missing."""
    if report["status"] != "ok" or not report["series"]:
        return
    indices = [index for index in range(len(report["ranking"])) if f"fastest/{index}" in expected]
    stated = {name for sentence in sentences if sentence["topic"] != "verdict" for name in sentence["claims"]}
    verdict = sentences[0] if sentences and sentences[0]["topic"] == "verdict" else None
    if not verdict:
        yield Difference(FILE, "verdict", "is missing")
    elif verdict["claims"]:
        question, kind = report["question"], verdict["claims"][0].partition("/")[0]
        kinds = {"recommended", "fastest", "one-device"} if indices else set()  # the last size, where one is ranked
        if question:
            kinds = {"question"} & {name.partition("/")[0] for name in expected}
        if kinds and kind not in kinds:
            yield Difference(FILE, "verdict", f"is about {kind}, and not {' or '.join(sorted(kinds))}")
    if not indices:
        return
    last = indices[-1]  # rankings come in the order of their sizes
    due = [f"fastest/{last}", f"recommended/{last}", f"rate/{report['ranking'][last]['cells'][0]['cell']}"]
    for kind, least in (("ratio", 1), ("one-device", 2)):  # one cell against one device is a sentence of its series
        identities = [f"{kind}/{entry['cell']}" for entry in report["ranking"][last]["cells"]]
        made = [name for name in identities if expected.get(name, {}).get("word") not in (None, "unclaimed")]
        due += made if len(made) >= least else []
    for identity in due:
        if identity in expected and identity not in stated:
            yield Difference(FILE, identity, "no sentence of the answer says it")
