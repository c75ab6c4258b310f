"""What a campaign concludes, computed again from its raw runs: sizes, baselines, letters, verdicts, recommendation.

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
from scaleproof.verify import intervals
from scaleproof.verify.intervals import TOLERANCE_OF_DRAWS, Bounds, CellFamily, PairNoise
from scaleproof.verify.raw import Difference, RawRun, check_values, close
from scaleproof.verify.raw_cells import BATCHLESS, RawAnswer, RawCell, comparable
from scaleproof.verify.recompute import CONFIDENCE, has_speedup
from scaleproof.verify.stated import settings_of

REPORT = "scaling_report.json"
ROUND_CONFIDENCE = 1 - 0.05 * (1 - 1.25**-3)  # of a look after further repeats (docs/statistics.md)
LEVELS = ("printed", "watched", "built")  # of evidence, the weakest first
LAW_OF = {"strong": "amdahl", "weak": "gustafson", None: None}
DISTURBING = {"run-stands-out", "device-throttled", "cores-shared"}
DISTURBING_ROUNDS = {"two-clock-states", "drift-over-repeats", "repeats-correlated"}
LOW, EXCELLENT = 0.7, 0.85
MOST_REPEATS, MOST_TIMES = 1000, 5  # that are advised: in all, and for each one there is


def check_answer(
    answer: RawAnswer, runs: Sequence[RawRun], findings: Sequence[Mapping[str, Any]]
) -> Iterator[Difference]:
    """Yield the fields of scaling_report.json whose values are not those that `runs` and `findings` give.

    A field that is null, or is not there, differs from any value that it should have.
    """
    report = answer.report
    yield from check_values(REPORT, "", report, _expected_of_report(runs, findings))
    yield from _check_series_names(answer)
    for series in report["series"]:
        base = answer.cells.get(series["baseline"])
        for point in series["runs"].values():
            if base and point["cell"] in answer.cells:
                yield from check_values(REPORT, point["cell"], point, _expected_of_size(answer, series, point))
                yield from _check_incomparable(point["incomparable"], answer.cells[point["cell"]], base)
                yield from _check_best_single(answer, series, point)
        names = [point["cell"] for point in series["runs"].values() if not point["incomparable"]]
        noise = answer.noise(names[-1], names[0]) if len(names) > 1 else None  # of the largest size to the smallest
        yield from _check_resolve(series["resolve"], series["name"], noise, answer)
    yield from _check_groups(answer)
    for index, ranking in enumerate(report["ranking"]):
        yield from _check_ranking(answer, index, ranking)
    if report["question"]:
        yield from _check_question(answer, report["question"])


def _expected_of_report(runs: Sequence[RawRun], findings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the expected fields on all runs: level, unit, evidence, validity, and the time of a repeat."""
    concerning = [one for one in findings if one.get("concerns", "runs") in ("runs", "scaling")]
    invalid = sorted({finding["code"] for finding in concerning if finding["severity"] == "invalid"})
    expected = {"confidence": CONFIDENCE, "clock": "window", "mismatches": invalid}
    expected["status"] = "invalid_comparison" if invalid else "ok"
    measured = [run.metrics for run in runs if run.ok]
    if measured:
        expected["unit"] = measured[0].get("unit", "tokens")
        expected["evidence"] = min((metrics.get("evidence", "built") for metrics in measured), key=LEVELS.index)
    job_seconds: dict[str, list[float]] = {}  # of each cell
    for run in runs:
        seconds = run.metrics.get("total_wall_time_sec")
        if seconds is not None:
            job_seconds.setdefault(run.cell, []).append(seconds)
    repeat = math.fsum(map(statistics.fmean, job_seconds.values())) if job_seconds else None
    return expected | {"seconds_per_repeat": repeat}


def _check_series_names(answer: RawAnswer) -> Iterator[Difference]:
    """Yield where a series does not have the cells that differ in devices alone, or has other fields than they give."""
    members: dict[str, list[RawCell]] = {}
    for cell in answer.cells.values():
        members.setdefault(re.sub(r"(^|-)n\d+x\d+(?=-|$)", "", cell.name).strip("-"), []).append(cell)
    stated = {series["name"]: series for series in answer.report["series"]}
    yield from check_values(REPORT, "series", sorted(stated), sorted(members))
    for name in stated.keys() & members.keys():
        cells = sorted(members[name], key=lambda cell: (cell.devices, cell.runs[0].nodes))
        series = stated[name]
        sizes = [point["cell"] for point in series["runs"].values()]
        yield from check_values(REPORT, f"{name}, sizes", sizes, [cell.name for cell in cells])
        yield from check_values(REPORT, name, series, _expected_of_series(cells))


def _expected_of_series(cells: Sequence[RawCell]) -> dict[str, Any]:
    """Return the expected fields of a series. `cells`: those of the series, the smallest first."""
    settings = [settings_of(cell.runs[0]) | {"global_batch": cell.batch} for cell in cells]
    # The protocol has what all cells have in common, and None for a setting in which they differ.
    common = {key: value for key, value in settings[0].items() if all(one.get(key) == value for one in settings)}
    kind = _kind_of_scaling(cells)
    return {
        "baseline": cells[0].name,
        "baseline_devices": cells[0].devices,
        "strategy": cells[0].strategy,
        "kind": kind,
        "law": {"law": LAW_OF[kind]} if kind else None,
        "protocol": {key: common.get(key) for key in settings[0] if key != "evidence"},
    }


def _kind_of_scaling(cells: Sequence[RawCell]) -> str | None:
    """Return "strong" for cells with one global batch, "weak" with one per device; None for neither, or one size."""
    batches = {cell.batch for cell in cells}
    if len({cell.devices for cell in cells}) < 2 or None in batches:
        return None
    if len(batches) == 1:
        return "strong"
    return "weak" if len({cell.batch / cell.devices for cell in cells if cell.batch}) == 1 else None


def _expected_of_size(answer: RawAnswer, series: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the expected fields of a size of a series, apart from its figures."""
    cell, base = answer.cells[point["cell"]], answer.cells[series["baseline"]]
    speedup = answer.ratio(cell.name, base.name)[1] if has_speedup(series, point) else None  # its bounds
    factor = base.devices / cell.devices  # efficiency over speed-up
    paths = [*point["metrics_paths"], *[""] * len(cell.runs)]  # each in the folder that it states
    return {
        "devices": cell.devices,
        "n": len(cell.runs),
        "repeats": [run.metrics["repeat"] for run in cell.runs],
        "metrics_paths": [f"{path.split('runs/')[0]}{run.path}" for path, run in zip(paths, cell.runs, strict=False)],
        "window_wall_time_sec": statistics.fmean(run.metrics["window"]["wall_time_sec"] for run in cell.runs),
        "tokens_per_sec_median": statistics.median(map(math.exp, cell.logs.values())),
        "verdict": speedup and _words_for_efficiency((speedup[0] * factor, speedup[1] * factor), speedup),
        "overhead_only": cell.devices == 1 and without_offload(cell.strategy) in SHARDING,
        "findings": list(answer.codes.get(cell.name, ())),
        "speedup_in_answer": _speedup_in_answer(answer, series, point),
    }


def _words_for_efficiency(efficiency: Bounds, speedup: Bounds) -> str:
    """Return the word for an efficiency by the bounds of both; "undecided, ..." where its bounds have two words."""
    if speedup[1] < 1:
        return "slower than the baseline"
    low, high = ("low" if bound < LOW else "good" if bound < EXCELLENT else "excellent" for bound in efficiency)
    return low if low == high else f"undecided, {low} to {high}"


def _speedup_in_answer(answer: RawAnswer, series: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the speed-up of a size whose interval holds together with the ranking, or with those of other series.

    None where the report must state none.
    """
    name, base = point["cell"], series["baseline"]
    family = answer.family_with(name)
    bounds: Bounds | None
    n = min(len(answer.cells[cell].runs) for cell in (name, base))
    if family and answer.reference(series, point) == base:
        bounds = family.bounds(name, base)
    else:
        has_ranking = any(answer.family(index) for index in range(len(answer.report["ranking"])))
        largest = [(one, list(one["runs"].values())[-1]) for one in answer.report["series"]]
        together = [last["cell"] for one, last in largest if has_speedup(one, last)]
        if has_ranking or name not in together:
            return None
        # The intervals of all series hold together, by Bonferroni.
        bounds = answer.ratio(name, base, 1 - (1 - answer.confidence) / len(together))[1]
    low, high = bounds or (None, None)
    return {"value": answer.ratio(name, base)[0], "low": low, "high": high, "n": n}


def _check_best_single(answer: RawAnswer, series: Mapping[str, Any], point: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield a difference where `best_single` is not the fastest cell with one device and the same work.

    It may be None where there is no such cell, or where each differs in a field that the report names.
    """
    cell, stated = answer.cells[point["cell"]], point["best_single"]
    where = f"{cell.name}, best_single"
    # In weak scaling one device does its part of the cell's work.
    batch = cell.batch and cell.batch / (cell.devices if series["kind"] == "weak" else 1)
    singles = [other for other in answer.cells.values() if other.devices == 1]
    same_work = [other for other in singles if batch and other.work == cell.work and other.batch == batch]
    named = next((other for other in same_work if other.name == stated), None)
    if stated is None:
        for other in same_work:
            fields = point["best_single_incomparable"]
            yield from _check_incomparable(fields, cell, other)
            if not fields:
                yield from check_values(REPORT, where, stated, other.name)
    elif named is None:
        yield Difference(REPORT, where, f"is {stated}, which does not do the same work on one device")
    else:
        program = named.program
        faster = [other.name for other in same_work if other.rate > named.rate and other.program == program]
        yield from check_values(REPORT, where, stated, [*faster, stated][0])


def _check_incomparable(fields: Sequence[str], cell: RawCell, base: RawCell) -> Iterator[Difference]:
    """Yield each of the `fields` that are said to differ between two cells, and that is equal in both."""
    machine, base_machine = cell.machine, base.machine
    for name in set(fields) & machine.keys() & base_machine.keys():
        if machine[name] == base_machine[name]:
            yield Difference(REPORT, cell.name, f"does not differ from {base.name} in {name}")


def _check_groups(answer: RawAnswer) -> Iterator[Difference]:
    """Yield each group of cells with the same work and as many devices that no ranking has, with no other cell."""
    groups: dict[tuple[object, ...], set[str]] = {}
    for cell in answer.cells.values():
        groups.setdefault((cell.devices, *cell.work, cell.batch), set()).add(cell.name)
    stated = [{entry["cell"] for entry in ranking["cells"]} for ranking in answer.report["ranking"]]
    for group in groups.values():
        if group not in stated:
            yield Difference(REPORT, "ranking", f"has none of {', '.join(sorted(group))} alone")


def _check_ranking(answer: RawAnswer, index: int, ranking: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the bounds, letters, claims and recommendation of a ranking that are not those that its runs give."""
    family, names = answer.family(index), comparable(ranking)
    where = f"ranking on {ranking['devices']} devices"
    entries = {entry["cell"]: entry for entry in ranking["cells"]}
    first = answer.cells.get(next(iter(entries)))
    if first is None:  # it has no run with numbers: another check says so
        return
    has_name = isinstance(first.config["workload"].get("model"), str)  # else it is described in words
    work = {name: value for name, value in zip(BATCHLESS, first.work, strict=True) if name != "model" or has_name}
    expected = {
        "devices": first.devices,
        "global_batch": first.batch,
        "method": family.method if family else None,
        "claims": len(family.cells) * (len(family.cells) - 1) // 2 if family else 0,
        "fastest_shown": bool(family and all(family.differ(first.name, name) for name in names if name != first.name)),
    }
    yield from check_values(REPORT, where, ranking, expected)
    yield from check_values(REPORT, where, {name: str(ranking[name]) for name in BATCHLESS}, work)
    for name, entry in entries.items():
        cell = answer.cells.get(name)
        if cell:
            yield from check_values(REPORT, name, entry, {"strategy": cell.strategy})
            yield from _check_incomparable(entry["incomparable"], cell, first)
        if cell and "repeats" in entry["incomparable"] and len(cell.runs) >= intervals.FEWEST:
            problem = f"is left out for its repeats, of which it has {len(cell.runs)}"
            yield Difference(REPORT, f"{where}, {name}", problem)
    yield from _check_letters(family, where, names, entries)
    advice = _expected_advice(answer, family, ranking)
    if advice or not ranking["recommendation"]:
        yield from check_values(REPORT, f"{where}, recommendation", ranking["recommendation"], advice)
    else:
        yield Difference(REPORT, f"{where}, recommendation", "is one, though cells were not compared")
    if family and ranking["resolve"]:

        def shown_by(n: int, level: float) -> float:
            return intervals.detectable_by_family(n, family, level)

        yield from _check_resolution(ranking["resolve"], where, family.n, shown_by, answer)
    elif bool(family) != bool(ranking["resolve"]):
        yield Difference(REPORT, f"{where}, resolve", "is there without a comparison, or is missing")


def _check_letters(
    family: CellFamily | None, where: str, names: Sequence[str], entries: Mapping[str, Mapping[str, Any]]
) -> Iterator[Difference]:
    """Yield cells that share a letter and are told apart, or the other way round, and letters that should not be."""
    where = f"{where}, letters"
    for a, b in combinations(names, 2) if family else ():
        share = bool(set(entries[a]["letters"]) & set(entries[b]["letters"]))
        if family and share == family.differ(a, b):
            verb = "share a letter, but are told apart" if share else "share no letter, but are not told apart"
            yield Difference(REPORT, where, f"{a} and {b} {verb}")
    letters = sorted(set("".join(entry["letters"] for entry in entries.values())))
    if letters != [chr(ord("a") + number) for number in range(len(letters))] and len(letters) <= 26:
        yield Difference(REPORT, where, f"has {''.join(letters)}, not the first of all")
    # The group of the fastest cell has the first letter, and so on.
    members = [[place for place, one in enumerate(entries.values()) if letter in one["letters"]] for letter in letters]
    if members != sorted(members):
        yield Difference(REPORT, where, "are not in the order of the cells that share one")
    lettered = [name for name, entry in entries.items() if entry["letters"]]
    yield from check_values(REPORT, where, lettered, list(names) if family else [])


def _expected_advice(answer: RawAnswer, family: CellFamily | None, ranking: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the recommendation of a size: the simplest cell that is shown to lose little, or why there is none."""
    names = comparable(ranking)
    if len(names) < 2:
        return None
    margin = (ranking["recommendation"] or {}).get("margin", math.nan)
    advice: dict[str, Any] = dict.fromkeys(("cell", "candidate", "worst", "simpler"))
    advice |= {"why": "too-few-repeats", "fastest": names[0], "margin": margin, "disturbed": []}
    if family is None:
        return advice
    disturbing = DISTURBING if family.method == "tukey-blocks" else DISTURBING | DISTURBING_ROUNDS
    disturbed = [name for name in names if disturbing & set(answer.codes.get(name, ()))]
    points = {point["cell"]: point for series in answer.report["series"] for point in series["runs"].values()}
    promising = [name for name in names if _beats_one_device(family, points.get(name))]
    effort = {name: simplicity(answer.cells[name].strategy) for name in names}
    # Bounds of the ratio of each cell to the fastest of the others.
    worst = {name: family.worst(name, [other for other in names if other != name]) for name in names}
    highest = {name: min(family.bounds(name, other)[1] for other in names if other != name) for name in names}
    sound = sorted(set(promising) - set(disturbed), key=lambda name: (effort[name], names.index(name)))
    qualified = [name for name in sound if worst[name] >= 1 - margin]
    possible = [name for name in sound if min(highest[name], 1.0) >= 1 - margin]
    advice |= {"why": None, "disturbed": disturbed}
    if qualified:
        simpler = [name for name in possible if effort[name] < effort[qualified[0]]]
        advice |= {"cell": qualified[0], "simpler": next(iter(simpler), None)}
    elif possible:
        advice |= {"why": "undecided", "candidate": possible[0]}
    else:
        advice["why"] = "disturbed" if set(promising) & set(disturbed) else "none-beats-one-device"
    named = advice["cell"] or advice["candidate"]
    if named:
        advice["worst"] = 1 - worst[named]
    return advice


def _beats_one_device(family: CellFamily, point: Mapping[str, Any] | None) -> bool:
    """Return whether the cell of a point beats the best single device, or has none to be held against."""
    if point is None or point["devices"] < 2 or point["best_single"] in (None, point["cell"]):
        return True
    best = point["best_single"]
    return best in family.cells and family.bounds(point["cell"], best)[0] > 1


def _check_question(answer: RawAnswer, question: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield a status of the campaign's question that the interval of its ratio does not give."""
    subject, base = question["is"], question["better_than"] or question["not_slower_than"]
    cells = [answer.cells[name] for name in (base, subject) if name in answer.cells]
    are_measured = len(cells) == 2
    yield from _check_incomparable(question["incomparable"], *cells) if are_measured else ()
    expected: dict[str, Any] = {"status": "incomparable" if are_measured else "unmeasured", "ratio": None}
    noise = None
    if are_measured and not question["incomparable"]:
        value, bounds = answer.ratio(subject, base)
        low, high = bounds or (None, None)
        expected = {"status": _status_of(question, bounds), "ratio": {"value": value, "low": low, "high": high}}
        noise = answer.noise(subject, base) if expected["status"] == "undecided" else None
    yield from check_values(REPORT, "question", question, expected)
    yield from _check_resolve(question["resolve"], "question", noise, answer)


def _status_of(question: Mapping[str, Any], bounds: Bounds | None) -> str:
    """Return the status of a question by the interval of its ratio; without one it is undecided."""
    mark = 1 + question["by"] if question["better_than"] else 1 - question["by"]  # the ratio that is asked for
    low, high = bounds or (0.0, math.inf)
    within = 1 + (question["within"] or 0.0)
    if low > mark or high < mark:
        return "yes" if low > mark else "no"
    return "near" if mark / within < low and high < mark * within else "undecided"


def _check_resolve(
    stated: Mapping[str, Any] | None, where: str, noise: PairNoise | None, answer: RawAnswer
) -> Iterator[Difference]:
    """Yield where further repeats of a ratio show other differences than stated. `noise`: None where nothing is due."""
    if stated and noise:
        yield from _check_resolution(
            stated, where, noise.n, lambda n, level: intervals.detectable_by_pair(n, noise, level), answer
        )
    elif stated or noise:  # it needs three runs of each cell
        problem = "cannot be recomputed from the raw files" if stated else "is missing"
        yield Difference(REPORT, f"{where}, resolve", problem)


def _check_resolution(
    stated: Mapping[str, Any], where: str, n: int, shown_by: Callable[[int, float], float], answer: RawAnswer
) -> Iterator[Difference]:
    """Yield where `n` repeats, or more, show other differences than stated.

    `shown_by(n, level)`: the difference that n repeats show in intervals of that level, by simulation.
    """
    where = f"{where}, resolve"
    looks = _repeats_after_looks(n)
    in_reach = max((one for one in looks if one <= MOST_TIMES * n), default=n)
    expected: dict[str, Any] = {"n": n, "further": {"repeats": in_reach}}
    look, rankings = answer.report.get("repeats"), answer.report["ranking"]
    advice = next((ranking["recommendation"] for ranking in rankings if ranking["recommendation"]), None)
    planned = look["resolve"] if look else (advice or {}).get("margin")
    if planned and where != "question, resolve":
        expected["effect"] = planned
    yield from check_values(REPORT, where, stated, expected)
    now = shown_by(n, answer.confidence)
    later = shown_by(in_reach, ROUND_CONFIDENCE) if in_reach > n else now
    for name, one, effect in (("detectable", stated, now), ("further, detectable", stated["further"], later)):
        if not close(math.log1p(one["detectable"]), math.log1p(effect), TOLERANCE_OF_DRAWS):
            yield from check_values(REPORT, f"{where}, {name}", one["detectable"], effect)
    repeats = stated["repeats"]
    fewer = max((one for one in looks if one < (repeats or math.inf)), default=None)
    too_many = fewer and shown_by(fewer, ROUND_CONFIDENCE) < stated["effect"] * (1 - TOLERANCE_OF_DRAWS)
    too_few = repeats and shown_by(repeats, ROUND_CONFIDENCE) > stated["effect"] * (1 + TOLERANCE_OF_DRAWS)
    if too_many or too_few or (repeats and repeats not in looks):
        yield Difference(REPORT, f"{where}, repeats", f"{repeats} repeats are not those that show the effect")


def _repeats_after_looks(n: int) -> list[int]:
    """Return after how many repeats results would be looked at: each time a quarter more, up to MOST_REPEATS."""
    looks: list[int] = []
    while (n := math.ceil(1.25 * n)) <= MOST_REPEATS:
        looks.append(n)
    return looks
