"""What a campaign concludes, computed again from its raw runs: sizes, baselines, letters, verdicts, recommendation.

Words of a report: a cell is a configuration; a point, one size of a series of cells that differ in devices alone; a
ranking, the cells of one size, of which those that share a letter are not told apart; a family, all of their ratios.
"""

import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from string import ascii_lowercase
from typing import Any

from scaleproof.ground.campaign.strategies import SHARDING, simplicity, without_offload
from scaleproof.ground.records.grouping import group_by
from scaleproof.verify import intervals
from scaleproof.verify.contents import REPORT, points_of
from scaleproof.verify.intervals import Bounds, CellFamily
from scaleproof.verify.raw import Difference, RawRun, check_values
from scaleproof.verify.raw_cells import BATCHLESS, RawAnswer, RawCell
from scaleproof.verify.recompute import CONFIDENCE, by_cell, comparable, has_speedup
from scaleproof.verify.reports import is_of_runs
from scaleproof.verify.resolution import check_resolution, check_resolve
from scaleproof.verify.stated import settings_of

LEVELS = ("printed", "watched", "built")  # of evidence, the weakest first
LAW_OF = {"strong": "amdahl", "weak": "gustafson", None: None}
DISTURBING = {"run-stands-out", "device-throttled", "cores-shared"}  # codes; a cell with one is not recommended
# They change from round to round, which disturbs no ratio of cells whose repeats match.
DISTURBING_ROUNDS = {"two-clock-states", "drift-over-repeats", "repeats-correlated"}
LOW, EXCELLENT = 0.7, 0.85  # an efficiency is "low" below the first, "excellent" from the second on


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
        yield from _check_series(answer, series)
    yield from _check_groups(answer)
    for index, ranking in enumerate(report["ranking"]):
        yield from _check_ranking(answer, index, ranking)
    if report["question"]:
        yield from _check_question(answer, report["question"])


def _check_series(answer: RawAnswer, series: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where the sizes of a series, or what further repeats of it would show, are not as its runs give them."""
    points = series["runs"].values()
    for point in points:
        name, base = point["cell"], series["baseline"]
        if {name, base} <= answer.cells.keys():  # both have runs with numbers
            yield from check_values(REPORT, name, point, _expected_of_size(answer, series, point))
            yield from _check_incomparable(point["incomparable"], answer.cells[name], answer.cells[base])
            yield from _check_best_single(answer, series, point)
    sizes = [point["cell"] for point in points if not point["incomparable"]]
    largest_over_smallest = answer.noise(sizes[-1], sizes[0]) if len(sizes) > 1 else None
    yield from check_resolve(series["resolve"], series["name"], largest_over_smallest, answer)


def _expected_of_report(runs: Sequence[RawRun], findings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the expected fields on all runs: level, unit, evidence, validity, and the time of one run of each cell."""
    invalid = sorted({one["code"] for one in findings if is_of_runs(one) and one["severity"] == "invalid"})
    status = "invalid_comparison" if invalid else "ok"
    expected = {"confidence": CONFIDENCE, "clock": "window", "mismatches": invalid, "status": status}
    measured = [run.metrics for run in runs if run.ok]
    if measured:
        expected["unit"] = measured[0].get("unit", "tokens")
        expected["evidence"] = min((metrics.get("evidence", "built") for metrics in measured), key=LEVELS.index)
    ended = [run for run in runs if run.metrics.get("total_wall_time_sec") is not None]
    mean_of_cell = [statistics.fmean(run.job_seconds for run in group) for group in by_cell(ended).values()]
    return expected | {"seconds_per_repeat": math.fsum(mean_of_cell) or None}


def _check_series_names(answer: RawAnswer) -> Iterator[Difference]:
    """Yield where a series does not have the cells that differ in devices alone, or has other fields than they give."""
    # A series is called as its cells are without their size: ddp-n1x2 is in ddp.
    members = group_by(answer.cells.values(), lambda cell: re.sub(r"(^|-)n\d+x\d+(?=-|$)", "", cell.name).strip("-"))
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
        "protocol": {key: common.get(key) for key in settings[0] if key != "evidence"},  # which is said of all runs
    }


def _kind_of_scaling(cells: Sequence[RawCell]) -> str | None:
    """Return "strong" for one global batch, "weak" for one batch per device; None for neither, or cells of one size."""
    batches = {cell.batch for cell in cells}
    if len({cell.devices for cell in cells}) < 2 or None in batches:
        return None
    if len(batches) == 1:
        return "strong"
    return "weak" if len({cell.batch / cell.devices for cell in cells if cell.batch}) == 1 else None


def _expected_of_size(answer: RawAnswer, series: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the expected fields of a size of a series, apart from its figures."""
    cell, base = answer.cells[point["cell"]], answer.cells[series["baseline"]]
    _, speedup_bounds = answer.ratio(cell.name, base.name) if has_speedup(series, point) else (None, None)
    efficiency_over_speedup = base.devices / cell.devices
    # Results may have been moved: the folder before runs/ is taken as each path states it.
    paths = [*point["metrics_paths"], *[""] * len(cell.runs)]
    return {
        "devices": cell.devices,
        "n": len(cell.runs),
        "repeats": [run.metrics["repeat"] for run in cell.runs],
        "metrics_paths": [f"{path.split('runs/')[0]}{run.path}" for path, run in zip(paths, cell.runs, strict=False)],
        "window_wall_time_sec": statistics.fmean(run.metrics["window"]["wall_time_sec"] for run in cell.runs),
        "tokens_per_sec_median": statistics.median(map(math.exp, cell.logs.values())),
        "verdict": speedup_bounds and _verdict_on_efficiency(speedup_bounds, efficiency_over_speedup),
        "overhead_only": cell.devices == 1 and without_offload(cell.strategy) in SHARDING,
        "findings": list(answer.codes.get(cell.name, ())),
        "speedup_in_answer": _speedup_in_answer(answer, series, point),
    }


def _verdict_on_efficiency(speedup_bounds: Bounds, efficiency_over_speedup: float) -> str:
    """Return the word that both bounds of an efficiency have, else "undecided, low to good" with the words of both."""
    if speedup_bounds[1] < 1:
        return "slower than the baseline"
    efficiencies = (bound * efficiency_over_speedup for bound in speedup_bounds)
    low, high = ("low" if bound < LOW else "good" if bound < EXCELLENT else "excellent" for bound in efficiencies)
    return low if low == high else f"undecided, {low} to {high}"


def _speedup_in_answer(answer: RawAnswer, series: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the speed-up of a size in an interval that holds together with all others that the answer states.

    Those are the ratios of its ranking; without rankings, the speed-ups of the largest size of each series. Else None.
    """
    name, base = point["cell"], series["baseline"]
    value, _ = answer.ratio(name, base)
    family = answer.family_with(name)
    bounds: Bounds | None
    if family and answer.reference(series, point) == base:
        bounds = family.bounds(name, base)
    else:
        has_ranking = any(answer.family(index) for index in range(len(answer.report["ranking"])))
        largest_sizes = [(one, list(one["runs"].values())[-1]) for one in answer.report["series"]]
        together = [largest["cell"] for one, largest in largest_sizes if has_speedup(one, largest)]
        if has_ranking or name not in together:
            return None
        _, bounds = answer.ratio(name, base, 1 - (1 - answer.confidence) / len(together))  # by Bonferroni
    low, high = bounds or (None, None)
    return {"value": value, "low": low, "high": high, "n": min(len(answer.cells[cell].runs) for cell in (name, base))}


def _check_best_single(answer: RawAnswer, series: Mapping[str, Any], point: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield a difference where `best_single` is not the fastest cell with one device and the same work.

    It may be None where there is no such cell, or where each differs in a field that the report names.
    """
    cell, stated = answer.cells[point["cell"]], point["best_single"]
    where = f"{cell.name}, best_single"
    same_work = _single_devices_with_same_work(answer, cell, series["kind"])
    best = next((other for other in same_work if other.name == stated), None)
    if best:
        faster = [other.name for other in same_work if other.rate > best.rate and other.program == best.program]
        if faster:  # by the same program on the same machine
            yield from check_values(REPORT, where, stated, faster[0])
        return
    if stated:
        yield Difference(REPORT, where, f"is {stated}, which does not do the same work on one device")
        return
    fields = point["best_single_incomparable"]
    for other in same_work:
        yield from _check_incomparable(fields, cell, other)
        if not fields:
            yield from check_values(REPORT, where, stated, other.name)


def _single_devices_with_same_work(answer: RawAnswer, cell: RawCell, kind: str | None) -> list[RawCell]:
    """Return the cells on one device that do the work of a cell; in weak scaling, that of one of its devices."""
    if not cell.batch:  # a command whose batch nobody states
        return []
    work = (cell.work, cell.batch / (cell.devices if kind == "weak" else 1))
    return [other for other in answer.cells.values() if other.devices == 1 and (other.work, other.batch) == work]


def _check_incomparable(fields: Sequence[str], cell: RawCell, base: RawCell) -> Iterator[Difference]:
    """Yield each of the `fields` that the report says differ between two cells, and that do not."""
    for name in fields:
        if name in cell.machine and cell.machine[name] == base.machine.get(name):
            yield Difference(REPORT, cell.name, f"does not differ from {base.name} in {name}")


def _check_groups(answer: RawAnswer) -> Iterator[Difference]:
    """Yield a difference for each group of cells, of the same work and number of devices, that is not a ranking."""
    stated = [{entry["cell"] for entry in ranking["cells"]} for ranking in answer.report["ranking"]]
    for cells in group_by(answer.cells.values(), lambda cell: (cell.devices, *cell.work, cell.batch)).values():
        names = sorted(cell.name for cell in cells)
        if set(names) not in stated:
            yield Difference(REPORT, "ranking", f"has none of {', '.join(names)} alone")


def _check_ranking(answer: RawAnswer, index: int, ranking: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the bounds, letters, claims and recommendation of a ranking that are not those that its runs give."""
    family, names = answer.family(index), comparable(ranking)
    where = f"ranking on {ranking['devices']} devices"
    entries = {entry["cell"]: entry for entry in ranking["cells"]}
    first = answer.cells.get(next(iter(entries)))
    if first is None:  # it has no run with numbers: another check says so
        return
    yield from check_values(REPORT, where, ranking, _expected_of_ranking(first, family, names))
    work = dict(zip(BATCHLESS, first.work, strict=True))
    if not isinstance(first.config["workload"].get("model"), str):  # a shape, which the report describes in words
        del work["model"]
    yield from check_values(REPORT, where, {name: str(ranking[name]) for name in BATCHLESS}, work)
    for name in filter(answer.cells.__contains__, entries):
        yield from _check_ranked_cell(where, entries[name], answer.cells[name], first)
    yield from _check_letters(family, where, names, entries)
    advice = _expected_advice(answer, family, ranking)
    if advice or not ranking["recommendation"]:
        yield from check_values(REPORT, f"{where}, recommendation", ranking["recommendation"], advice)
    else:
        yield Difference(REPORT, f"{where}, recommendation", "is one, though cells were not compared")
    if family and ranking["resolve"]:
        shown_by = partial(intervals.detectable_by_family, family)
        yield from check_resolution(ranking["resolve"], where, family.n, shown_by, answer)
    elif family or ranking["resolve"]:
        yield Difference(REPORT, f"{where}, resolve", "is there without a comparison, or is missing")


def _expected_of_ranking(first: RawCell, family: CellFamily | None, names: Sequence[str]) -> dict[str, Any]:
    """Return the expected fields of a ranking whose first cell is `first`, and whose comparable ones are `names`."""
    expected: dict[str, Any] = {"devices": first.devices, "global_batch": first.batch}
    if family is None:
        return expected | {"method": None, "claims": 0, "fastest_shown": False}
    is_shown = all(family.differ(first.name, name) for name in names if name != first.name)
    pairs = math.comb(len(family.cells), 2)
    return expected | {"method": family.method, "claims": pairs, "fastest_shown": is_shown}


def _check_ranked_cell(where: str, entry: Mapping[str, Any], cell: RawCell, first: RawCell) -> Iterator[Difference]:
    """Yield where a ranking says of a cell what its runs do not. `first`: the fastest cell."""
    yield from check_values(REPORT, cell.name, entry, {"strategy": cell.strategy})
    yield from _check_incomparable(entry["incomparable"], cell, first)
    if "repeats" in entry["incomparable"] and len(cell.runs) >= intervals.FEWEST:
        problem = f"is left out for its repeats, of which it has {len(cell.runs)}"
        yield Difference(REPORT, f"{where}, {cell.name}", problem)


def _check_letters(
    family: CellFamily | None, where: str, names: Sequence[str], entries: Mapping[str, Mapping[str, Any]]
) -> Iterator[Difference]:
    """Yield cells of `names` whose letters do not say whether they are told apart, and letters that should not be."""
    where = f"{where}, letters"
    for a, b in combinations(names, 2) if family else ():
        share = bool(set(entries[a]["letters"]) & set(entries[b]["letters"]))
        if family and share == family.differ(a, b):
            verb = "share a letter, but are told apart" if share else "share no letter, but are not told apart"
            yield Difference(REPORT, where, f"{a} and {b} {verb}")
    letters = "".join(sorted(set("".join(entry["letters"] for entry in entries.values()))))
    if len(letters) <= 26 and not ascii_lowercase.startswith(letters):
        yield Difference(REPORT, where, f"has {letters}, not the first of all")
    # Places of the cells that have a letter; the group of the fastest cell has the first letter, and so on.
    groups = [[place for place, one in enumerate(entries.values()) if letter in one["letters"]] for letter in letters]
    if groups != sorted(groups):
        yield Difference(REPORT, where, "are not in the order of the cells that share one")
    lettered = [name for name, entry in entries.items() if entry["letters"]]
    yield from check_values(REPORT, where, lettered, list(names) if family else [])


def _expected_advice(answer: RawAnswer, family: CellFamily | None, ranking: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the advice on a size: its simplest cell that is shown to lose little, or why there is none."""
    names = comparable(ranking)
    if len(names) < 2:  # nothing to choose from
        return None
    margin = (ranking["recommendation"] or {}).get("margin", math.nan)  # the part of the best rate that it may lose
    advice: dict[str, Any] = dict.fromkeys(("cell", "candidate", "worst", "simpler"))
    advice |= {"why": "too-few-repeats", "fastest": names[0], "margin": margin, "disturbed": []}
    if family is None:
        return advice
    disturbing = DISTURBING if family.method == "tukey-blocks" else DISTURBING | DISTURBING_ROUNDS
    advice["disturbed"] = [name for name in names if disturbing & set(answer.codes.get(name, ()))]
    points = {point["cell"]: point for _, point in points_of(answer.report)}
    promising = [name for name in names if _beats_one_device(family, points.get(name))]
    candidates = [name for name in promising if name not in advice["disturbed"]]
    advice["why"] = "disturbed" if len(candidates) < len(promising) else "none-beats-one-device"
    effort_of = {name: simplicity(answer.cells[name].strategy) for name in candidates}
    return advice | _choice(family, names, effort_of, margin)


def _choice(
    family: CellFamily, names: Sequence[str], effort_of: Mapping[str, tuple[int, bool]], margin: float
) -> dict[str, str | float | None]:
    """Return which of the cells with an effort, that of their strategy, is to be taken; {} if none is near enough."""
    others_of = {name: [other for other in names if other != name] for name in effort_of}
    # Bounds of the ratio of each cell to the fastest of the others.
    lowest = {name: family.worst(name, others) for name, others in others_of.items()}
    highest = {name: min(family.bounds(name, other)[1] for other in others) for name, others in others_of.items()}
    simplest_first = sorted(effort_of, key=effort_of.__getitem__)
    possible = [name for name in simplest_first if highest[name] >= 1 - margin]
    chosen = next((name for name in simplest_first if lowest[name] >= 1 - margin), None)
    if chosen:
        simpler = next((name for name in possible if effort_of[name] < effort_of[chosen]), None)
        return {"why": None, "cell": chosen, "worst": 1 - lowest[chosen], "simpler": simpler}
    if possible:
        return {"why": "undecided", "candidate": possible[0], "worst": 1 - lowest[possible[0]]}
    return {}


def _beats_one_device(family: CellFamily, point: Mapping[str, Any] | None) -> bool:
    """Return whether the cell of a point beats the best single device; True if it has none to be held against."""
    if point is None or point["devices"] < 2 or point["best_single"] in (None, point["cell"]):
        return True
    best = point["best_single"]
    return best in family.cells and family.bounds(point["cell"], best)[0] > 1


def _check_question(answer: RawAnswer, question: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where status, ratio and `resolve` of the campaign's question are not those that its two cells give."""
    subject, base = question["is"], question["better_than"] or question["not_slower_than"]
    are_measured = {subject, base} <= answer.cells.keys()
    if are_measured:
        yield from _check_incomparable(question["incomparable"], answer.cells[base], answer.cells[subject])
    expected: dict[str, Any] = {"status": "incomparable" if are_measured else "unmeasured", "ratio": None}
    noise = None  # further repeats are advised of an undecided question alone
    if are_measured and not question["incomparable"]:
        value, bounds = answer.ratio(subject, base)
        low, high = bounds or (None, None)
        expected = {"status": _status_of(question, bounds), "ratio": {"value": value, "low": low, "high": high}}
        noise = answer.noise(subject, base) if expected["status"] == "undecided" else None
    yield from check_values(REPORT, "question", question, expected)
    yield from check_resolve(question["resolve"], "question", noise, answer)


def _status_of(question: Mapping[str, Any], bounds: Bounds | None) -> str:
    """Return the status of a question by the interval of its ratio; without an interval it is undecided."""
    aim = 1 + question["by"] if question["better_than"] else 1 - question["by"]  # the ratio that is asked for
    low, high = bounds or (0.0, math.inf)
    if low > aim or high < aim:
        return "yes" if low > aim else "no"
    factor = 1 + (question["within"] or 0.0)  # "near" has no bound that is further from the aim
    return "near" if aim / factor < low and high < aim * factor else "undecided"
