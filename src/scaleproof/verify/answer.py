"""What a campaign concludes, computed again from its raw runs: bounds, baselines, letters, verdicts, recommendation.

Words of a report: a cell is a configuration; a point, one size of a series of cells that differ in devices alone; a
ranking, the cells of one size, of which those that share a letter are not told apart; a family, all of their ratios.
"""

import math
import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from scaleproof.ground.campaign.strategies import SHARDING, simplicity, without_offload
from scaleproof.ground.number_format import significant
from scaleproof.verify import intervals
from scaleproof.verify.intervals import Bounds, CellFamily, PairNoise
from scaleproof.verify.raw import Difference, RawRun, close
from scaleproof.verify.raw_cells import RawAnswer, RawCell, comparable

REPORT = "scaling_report.json"
ROUND_CONFIDENCE = 1 - 0.05 * (1 - 1.25**-3)  # of a look after further repeats (docs/statistics.md)
TOLERANCE = 1e-6  # of bounds: quantiles are of other code
TOLERANCE_OF_DRAWS = 0.06  # of what draws decide
DISTURBING = {"run-stands-out", "device-throttled", "cores-shared"}
DISTURBING_ROUNDS = {"two-clock-states", "drift-over-repeats", "repeats-correlated"}
LOW, EXCELLENT = 0.7, 0.85
MOST_REPEATS, MOST_TIMES = 1000, 5  # that are advised: in all, and for each one there is


def check_answer(answer: RawAnswer, runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield where the report of an answer states what does not follow from the raw `runs`."""
    report = answer.report
    yield from _check_series_names(answer)
    for series in report["series"]:
        for point in series["runs"].values():
            yield from _check_point(answer, series, point)
        yield from _check_resolve(series.get("resolve"), series["name"], _largest_noise(answer, series), answer)
    for place, ranking in enumerate(report["ranking"]):
        yield from _check_ranking(answer, place, ranking)
    yield from _check_in_answer(answer)
    if report["question"]:
        yield from _check_question(answer, report["question"])
    yield from _check_cost(answer, runs)


def _differs(where: str, stated: object, computed: object) -> Difference:
    """Return the difference of what the report states and what the raw files give."""
    return Difference(REPORT, where, f"is {_text(stated)}, the raw files give {_text(computed)}")


def _text(value: object) -> str:
    """Return a value as it stands in a message: a figure with seven digits."""
    return significant(value, 7) if isinstance(value, float) else f"{value}"


def _check_bounds(where: str, stated: Mapping[str, Any] | None, bounds: Bounds | None) -> Iterator[Difference]:
    """Yield where the bounds of a stated estimate are not the computed ones; no bounds where none can be computed."""
    if stated is None:
        return
    for name, computed in zip(("low", "high"), bounds or (None, None), strict=True):
        if not close(stated[name], computed, TOLERANCE):
            yield _differs(f"{where}, {name}", stated[name], computed)


def _check_series_names(answer: RawAnswer) -> Iterator[Difference]:
    """Yield series that are not of the cells that differ in devices alone, or have another baseline or kind."""
    members: dict[str, list[RawCell]] = {}
    for cell in answer.cells.values():
        members.setdefault(re.sub(r"(^|-)n\d+x\d+(?=-|$)", "", cell.name).strip("-"), []).append(cell)
    stated = {series["name"]: series for series in answer.report["series"]}
    if set(stated) != set(members):
        yield _differs("series", sorted(stated), sorted(members))
    for name in stated.keys() & members.keys():
        cells = sorted(members[name], key=lambda cell: (cell.devices, cell.nodes))
        series = stated[name]
        if series["baseline"] != cells[0].name:
            yield _differs(f"{name}, baseline", series["baseline"], cells[0].name)
        if [point["cell"] for point in series["runs"].values()] != [cell.name for cell in cells]:
            yield _differs(f"{name}, sizes", list(series["runs"]), [cell.name for cell in cells])
        kind = _kind(cells)
        if series["kind"] != kind:
            yield _differs(f"{name}, kind", series["kind"], kind)


def _kind(cells: Sequence[RawCell]) -> str | None:
    """Return "strong" for cells with one global batch, "weak" with one batch per device; None of one size, or else."""
    batches = {cell.batch for cell in cells}
    if len({cell.devices for cell in cells}) < 2 or None in batches:
        return None
    if len(batches) == 1:
        return "strong"
    return "weak" if len({cell.batch / cell.devices for cell in cells if cell.batch}) == 1 else None


def _check_point(answer: RawAnswer, series: Mapping[str, Any], point: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where the ratios of a size to its baseline have other bounds, or other words."""
    name, base = point["cell"], series["baseline"]
    if name not in answer.cells or base not in answer.cells:
        return
    cell, base_cell = answer.cells[name], answer.cells[base]
    if point["devices"] != cell.devices:
        yield _differs(f"{name}, devices", point["devices"], cell.devices)
    median = statistics.median(map(math.exp, cell.logs.values()))
    if point["tokens_per_sec_median"] is not None and not close(point["tokens_per_sec_median"], median, 1e-9):
        yield _differs(f"{name}, tokens_per_sec_median", point["tokens_per_sec_median"], median)
    _, speedup = answer.ratio(name, base)  # its bounds
    factor = base_cell.devices / cell.devices
    efficiency = speedup and (speedup[0] * factor, speedup[1] * factor)
    rating = _rating(efficiency, speedup) if point["speedup"] else None
    if point["verdict"] != rating:
        yield _differs(f"{name}, verdict", point["verdict"], rating)
    is_overhead = cell.devices == 1 and without_offload(cell.strategy) in SHARDING
    if point["overhead_only"] != is_overhead:
        yield _differs(f"{name}, overhead_only", point["overhead_only"], is_overhead)
    yield from _check_best_single(answer, series, point)


def _rating(efficiency: Bounds | None, speedup: Bounds | None) -> str | None:
    """Return the word for an efficiency, or the words of both bounds; None without bounds."""
    if efficiency is None or speedup is None:
        return None
    if speedup[1] < 1:
        return "slower than the baseline"
    low, high = ("low" if bound < LOW else "good" if bound < EXCELLENT else "excellent" for bound in efficiency)
    return low if low == high else f"undecided, {low} to {high}"


def _check_best_single(answer: RawAnswer, series: Mapping[str, Any], point: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where the cell with one device that a size is held against is not the fastest that does the same work."""
    cell, stated = answer.cells[point["cell"]], point["best_single"]
    if stated is None:
        return
    where = f"{cell.name}, best_single"
    # In weak scaling one device does its part of the cell's work.
    batch = cell.batch and cell.batch / (cell.devices if series["kind"] == "weak" else 1)
    singles = [other for other in answer.cells.values() if other.devices == 1]
    alike = [other for other in singles if batch and other.work == cell.work and other.batch == batch]
    best = next((other for other in alike if other.name == stated), None)
    if best is None:
        yield Difference(REPORT, where, f"is {stated}, which does not do the same work on one device")
        return
    program = _program(best)
    faster = [other.name for other in alike if other.rate > best.rate and _program(other) == program]
    if faster:
        yield _differs(where, stated, faster[0])


def _program(cell: RawCell) -> tuple[object, ...]:
    """Return the program and the machine of a cell, as a key that is equal for two comparable cells."""
    metrics = cell.runs[0].metrics
    settings = {key: value for key, value in cell.config["execution"].items() if key != "strategy"}
    return metrics["code_sha256"], str(metrics["env"]), str(metrics["hardware"]), str(settings)


def _check_in_answer(answer: RawAnswer) -> Iterator[Difference]:
    """Yield where the speed-ups of the answer do not hold together with the ranking, or with each other."""
    report = answer.report
    has_ranking = any(answer.family(place) for place in range(len(report["ranking"])))
    largest = [list(series["runs"].values())[-1] for series in report["series"] if len(series["runs"]) > 1]
    together = sum(bool(point["speedup"]) for point in largest)  # as many intervals hold, by Bonferroni
    for series in report["series"]:
        base = series["baseline"]
        for point in series["runs"].values():
            name, stated = point["cell"], point["speedup_in_answer"]
            for part in ("value", "n") if stated and point["speedup"] else ():
                if stated[part] != point["speedup"][part]:
                    yield _differs(f"{name}, speedup_in_answer, {part}", stated[part], point["speedup"][part])
            family = answer.family_with(name)
            bounds = None
            if family and answer.reference(point, base) == base:
                bounds = family.bounds(name, base)
            elif not has_ranking and point in largest and point["speedup"]:
                bounds = answer.ratio(name, base, 1 - (1 - answer.confidence) / together)[1]
            yield from _check_bounds(f"{name}, speedup_in_answer", stated, bounds)


def _check_ranking(answer: RawAnswer, place: int, ranking: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where the ranking of a size has other bounds, letters or claims, or recommends another cell."""
    family = answer.family(place)
    where = f"ranking on {ranking['devices']} devices"
    names = comparable(ranking)
    first = ranking["cells"][0]["cell"]
    stated = {entry["cell"]: entry for entry in ranking["cells"]}
    facts = {
        "method": family.method if family else None,
        "claims": len(family.cells) * (len(family.cells) - 1) // 2 if family else 0,
        "fastest_shown": bool(family and all(family.differ(first, name) for name in names if name != first)),
    }
    for key, computed in facts.items():
        if ranking[key] != computed:
            yield _differs(f"{where}, {key}", ranking[key], computed)
    for name, entry in stated.items():
        runs = len(answer.cells[name].runs) if name in answer.cells else 0
        if "repeats" in entry["incomparable"] and runs >= intervals.FEWEST:
            yield Difference(REPORT, f"{where}, {name}", f"is left out for its repeats, of which it has {runs}")
    if family is None:
        advice = ranking["recommendation"]
        if advice and (advice["cell"] or len(names) < 2):
            yield Difference(REPORT, f"{where}, recommendation", "is one, though cells were not compared")
        return
    for a, b in combinations(names, 2):
        share = bool(set(stated[a]["letters"]) & set(stated[b]["letters"]))
        if share == family.differ(a, b):
            verb = "share a letter, but are told apart" if share else "share no letter, but are not told apart"
            yield Difference(REPORT, f"{where}, letters", f"{a} and {b} {verb}")
    yield from _check_recommendation(answer, family, ranking, where)
    if ranking["resolve"]:
        yield from _check_resolution(
            ranking["resolve"], where, family.n, lambda n, level: intervals.shown_by_family(n, family, level), answer
        )


def _check_recommendation(
    answer: RawAnswer, family: CellFamily, ranking: Mapping[str, Any], where: str
) -> Iterator[Difference]:
    """Yield where the recommendation of a size is not the simplest cell that is shown to lose little."""
    stated, names = ranking["recommendation"], comparable(ranking)
    if stated is None:
        return
    least = 1 - stated["margin"]
    disturbing = DISTURBING if family.method == "tukey-blocks" else DISTURBING | DISTURBING_ROUNDS
    disturbed = [name for name in names if disturbing & answer.codes.get(name, set())]
    points = {point["cell"]: point for series in answer.report["series"] for point in series["runs"].values()}
    promising = [name for name in names if _beats_one(family, points.get(name))]
    simplest = sorted(promising, key=lambda name: (simplicity(answer.cells[name].strategy), names.index(name)))
    # Bounds of the ratio of each cell to the fastest of the others.
    worst = {name: family.worst(name, [other for other in names if other != name]) for name in names}
    highest = {name: min(family.bounds(name, other)[1] for other in names if other != name) for name in names}
    sound = [name for name in simplest if name not in disturbed]
    qualified = [name for name in sound if worst[name] >= least]
    possible = [name for name in sound if min(highest[name], 1.0) >= least]
    computed: dict[str, Any] = dict.fromkeys(("cell", "candidate", "why", "simpler"))
    computed |= {"fastest": names[0], "disturbed": disturbed}
    if qualified:
        computed["cell"] = qualified[0]
        own = simplicity(answer.cells[qualified[0]].strategy)
        simpler = [name for name in possible if simplicity(answer.cells[name].strategy) < own]
        computed["simpler"] = simpler[0] if simpler else None
    elif possible:
        computed |= {"why": "undecided", "candidate": possible[0]}
    else:
        computed["why"] = "disturbed" if set(promising) & set(disturbed) else "none-beats-one-device"
    for key, value in computed.items():
        if stated[key] != value:
            yield _differs(f"{where}, recommendation, {key}", stated[key], value)
    named = computed["cell"] or computed["candidate"]
    if named and not close(stated["worst"], 1 - worst[named], 1e-3):
        yield _differs(f"{where}, recommendation, worst", stated["worst"], 1 - worst[named])


def _beats_one(family: CellFamily, point: Mapping[str, Any] | None) -> bool:
    """Return whether the cell of a point beats the best single device, or has none to be held against."""
    if point is None or point["devices"] < 2:
        return True
    best = point["best_single"]
    if best in (None, point["cell"]) or point["speedup_vs_best_single"] is None:
        return True
    return best in family.cells and family.bounds(point["cell"], best)[0] > 1


def _check_question(answer: RawAnswer, question: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where the answer to the campaign's own question is not what its interval says."""
    if not question["ratio"]:
        return
    subject, base = question["is"], question["better_than"] or question["not_slower_than"]
    value, bounds = answer.ratio(subject, base)
    if not close(question["ratio"]["value"], value, 1e-9):
        yield _differs("question, ratio", question["ratio"]["value"], value)
    yield from _check_bounds("question, ratio", question["ratio"], bounds)
    mark = 1 + question["by"] if question["better_than"] else 1 - question["by"]  # the ratio that is asked for
    within = question["within"]
    status = "undecided"
    if bounds:
        low, high = bounds
        if low > mark:
            status = "yes"
        elif high < mark:
            status = "no"
        elif within and mark / (1 + within) < low and high < mark * (1 + within):
            status = "near"
    if question["status"] != status:
        yield _differs("question, status", question["status"], status)
    yield from _check_resolve(question["resolve"], "question", answer.noise(subject, base), answer)


def _largest_noise(answer: RawAnswer, series: Mapping[str, Any]) -> PairNoise | None:
    """Return the noise of the ratio of the largest comparable size to the smallest."""
    names = [point["cell"] for point in series["runs"].values() if not point["incomparable"]]
    return answer.noise(names[-1], names[0]) if len(names) > 1 else None


def _check_resolve(
    stated: Mapping[str, Any] | None, where: str, noise: PairNoise | None, answer: RawAnswer
) -> Iterator[Difference]:
    """Yield where further repeats of a ratio with that noise show other differences than stated; None: none stated."""
    if stated and noise:
        yield from _check_resolution(
            stated, where, noise.n, lambda n, level: intervals.shown_by_pair(n, noise, level), answer
        )
    elif stated:  # without three runs of each cell
        yield Difference(REPORT, f"{where}, resolve", "cannot be recomputed from the raw files")


def _check_resolution(
    stated: Mapping[str, Any], where: str, n: int, shown_by: Callable[[int, float], float], answer: RawAnswer
) -> Iterator[Difference]:
    """Yield where `n` repeats show another difference than stated. `shown_by(n, level)`: by simulation."""
    effect = shown_by(n, answer.confidence)
    if not close(stated["detectable"], effect, TOLERANCE_OF_DRAWS):
        yield _differs(f"{where}, resolve, detectable", stated["detectable"], effect)
    if stated["n"] != n:
        yield _differs(f"{where}, resolve, n", stated["n"], n)
    further, repeats = stated["further"], stated["repeats"]
    effect = shown_by(further["repeats"], ROUND_CONFIDENCE) if further["repeats"] > n else effect
    if not close(further["detectable"], effect, TOLERANCE_OF_DRAWS):
        yield _differs(f"{where}, resolve, further", further["detectable"], effect)
    look = answer.report.get("repeats")
    advice = next(
        (ranking["recommendation"] for ranking in answer.report["ranking"] if ranking["recommendation"]), None
    )
    planned = look["resolve"] if look else (advice or {}).get("margin")
    if planned and where != "question" and stated["effect"] != planned:
        yield _differs(f"{where}, resolve, effect", stated["effect"], planned)
    looks = _looks(n)
    in_reach = max((one for one in looks if one <= MOST_TIMES * n), default=n)
    if further["repeats"] != in_reach:
        yield _differs(f"{where}, resolve, further", further["repeats"], in_reach)
    fewer = max((one for one in looks if one < (repeats or math.inf)), default=None)
    too_many = fewer and shown_by(fewer, ROUND_CONFIDENCE) < stated["effect"] * (1 - TOLERANCE_OF_DRAWS)
    too_few = repeats and shown_by(repeats, ROUND_CONFIDENCE) > stated["effect"] * (1 + TOLERANCE_OF_DRAWS)
    if too_many or too_few or (repeats and repeats not in looks):
        yield Difference(REPORT, f"{where}, resolve, repeats", f"{repeats} repeats are not those that show the effect")


def _looks(n: int) -> list[int]:
    """Return after how many repeats results would be looked at: each time a quarter more, up to MOST_REPEATS."""
    looks: list[int] = []
    while (n := math.ceil(1.25 * n)) <= MOST_REPEATS:
        looks.append(n)
    return looks


def _check_cost(answer: RawAnswer, runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield where the time of a repeat of all cells, from which the cost of more is said, is another one."""
    stated = answer.report["seconds_per_repeat"]
    job_seconds: dict[str, list[float]] = {}  # of each cell
    for run in runs:
        seconds = run.metrics.get("total_wall_time_sec")
        if seconds is not None:
            job_seconds.setdefault(run.cell, []).append(seconds)
    computed = math.fsum(map(statistics.fmean, job_seconds.values())) if job_seconds else None
    if not close(stated, computed, 1e-9):
        yield _differs("seconds_per_repeat", stated, computed)
