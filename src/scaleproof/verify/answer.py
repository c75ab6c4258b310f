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

from scaleproof.ground.campaign.strategies import SHARDING, without_offload
from scaleproof.ground.records.grouping import group_by
from scaleproof.verify import intervals
from scaleproof.verify.advice import check_further_repeats, check_repeats_of_ratio, expected_advice
from scaleproof.verify.contents import REPORT
from scaleproof.verify.intervals import Bounds, CellFamily
from scaleproof.verify.raw import METRICS, Difference, RawRun, check_values, folder_before
from scaleproof.verify.raw_cells import BATCHLESS, RawAnswer, RawCell
from scaleproof.verify.recompute import CONFIDENCE, by_cell, comparable, has_speedup
from scaleproof.verify.reports import is_of_runs
from scaleproof.verify.stated import settings_of

LEVELS = ("printed", "watched", "built")  # of evidence, the weakest first
LAW_OF = {"strong": "amdahl", "weak": "gustafson", None: None}
BY_FINDINGS = "findings.json gives"
LOW, EXCELLENT = 0.7, 0.85  # an efficiency is "low" below the first, "excellent" from the second on


def check_answer(
    answer: RawAnswer, runs: Sequence[RawRun], findings: Sequence[Mapping[str, Any]]
) -> Iterator[Difference]:
    """Yield the fields of scaling_report.json whose values are not those that `runs` and `findings` give.

    A field that is null, or is not there, differs from any value that it should have.
    """
    report = answer.report
    yield from check_values(REPORT, "", report, _expected_of_report(runs))
    invalid_findings = [finding for finding in findings if finding["severity"] == "invalid"]
    mismatches = sorted({finding["code"] for finding in invalid_findings if is_of_runs(finding)})  # not of pairs
    validity = {"mismatches": mismatches, "status": "invalid_comparison" if mismatches else "ok"}
    yield from check_values(REPORT, "", report, validity, BY_FINDINGS)
    yield from _check_members(answer)
    for series in report["series"]:
        yield from _check_sizes(answer, series)
    yield from _check_groups(answer)
    for index, ranking in enumerate(report["ranking"]):
        yield from _check_ranking(answer, index, ranking)
    if report["question"]:
        yield from _check_question(answer, report["question"])


def _check_sizes(answer: RawAnswer, series: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where the sizes of a series, or what further repeats of it would show, are not as its runs give them."""
    points = series["runs"].values()
    for point in points:
        name, base = point["cell"], series["baseline"]
        if {name, base} <= answer.cells.keys():  # both have runs with numbers
            yield from check_values(REPORT, name, point, _expected_of_size(answer, series, point))
            codes = list(answer.codes.get(name, ()))
            yield from check_values(REPORT, f"{name}, findings", point.get("findings"), codes, BY_FINDINGS)
            yield from _check_incomparable(point["incomparable"], answer.cells[name], answer.cells[base])
            yield from _check_best_single(answer, series, point)
    comparable_sizes = [point["cell"] for point in points if not point["incomparable"]]
    noise = None  # of the ratio of the largest size (the last) to the smallest one (the first)
    if len(comparable_sizes) > 1:
        noise = answer.noise(comparable_sizes[-1], comparable_sizes[0])
    yield from check_repeats_of_ratio(series["resolve"], series["name"], noise, answer)


def _expected_of_report(runs: Sequence[RawRun]) -> dict[str, Any]:
    """Return the expected fields on all runs: level, unit, evidence, and the time of one run of each cell."""
    ended_runs = [run for run in runs if run.metrics.get("total_wall_time_sec") is not None]
    means_of_cells = [statistics.fmean(run.job_seconds for run in group) for group in by_cell(ended_runs).values()]
    expected = {
        "confidence": CONFIDENCE,
        "clock": "window",
        "seconds_per_repeat": math.fsum(means_of_cells) or None,
    }

    if measured := [run.metrics for run in runs if run.ok]:
        levels = [metrics.get("evidence", "built") for metrics in measured]
        expected["evidence"] = min(levels, key=LEVELS.index)
        expected["unit"] = measured[0].get("unit", "tokens")
    return expected


def _check_members(answer: RawAnswer) -> Iterator[Difference]:
    """Yield where series are not the cells that differ only in their number of devices, by name, cells or fields."""
    expected_cells = group_by(answer.cells.values(), _series_name)
    stated_series = {series["name"]: series for series in answer.report["series"]}
    yield from check_values(REPORT, "series", sorted(stated_series), sorted(expected_cells))
    for name in stated_series.keys() & expected_cells.keys():
        cells = sorted(expected_cells[name], key=lambda cell: (cell.devices, cell.runs[0].nodes))
        series = stated_series[name]
        sizes = [point["cell"] for point in series["runs"].values()]
        yield from check_values(REPORT, f"{name}, sizes", sizes, [cell.name for cell in cells])
        yield from check_values(REPORT, name, series, _expected_of_series(cells))


def _series_name(cell: RawCell) -> str:
    """Return a cell's name without its size: ddp-n1x2 -> "ddp"; n1x2, of a command, -> "command"."""
    return re.sub(r"(^|-)n\d+x\d+(?=-|$)", "", cell.name).strip("-") or "command"


def _expected_of_series(cells: Sequence[RawCell]) -> dict[str, Any]:
    """Return the expected fields of a series. `cells`: all cells of the series, the smallest first."""
    smallest = cells[0]
    kind = _kind_of_scaling(cells)
    settings_of_cells = [settings_of(cell.runs[0]) | {"global_batch": cell.batch} for cell in cells]
    protocol: dict[str, object] = {}  # setting -> its value; None where cells differ in it
    for name, value in settings_of_cells[0].items():
        has_one_value = all(settings.get(name) == value for settings in settings_of_cells)
        protocol[name] = value if has_one_value else None
    del protocol["evidence"]  # it is a field of the whole report
    return {
        "baseline": smallest.name,
        "baseline_devices": smallest.devices,
        "strategy": smallest.strategy,
        "kind": kind,
        "law": {"law": LAW_OF[kind]} if kind else None,
        "protocol": protocol,
    }


def _kind_of_scaling(cells: Sequence[RawCell]) -> str | None:
    """Return "strong" for one global batch, "weak" for one per device, None for others, or for a single size."""
    batches = {cell.batch for cell in cells}
    if len({cell.devices for cell in cells}) < 2 or None in batches:
        return None
    if len(batches) == 1:
        return "strong"
    batches_per_device = {cell.batch / cell.devices for cell in cells if cell.batch}
    return "weak" if len(batches_per_device) == 1 else None


def _expected_of_size(answer: RawAnswer, series: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, Any]:
    """Return the expected fields of a size of a series, apart from its figures."""
    cell, base = answer.cells[point["cell"]], answer.cells[series["baseline"]]
    speedup_bounds = answer.speedup_bounds(series, point) if has_speedup(series, point) else None
    verdict = speedup_bounds and _verdict_on_efficiency(speedup_bounds, base.devices / cell.devices)
    # Results may have been moved: the folder before runs/ is taken as each path states it. "" is for missing paths.
    stated_paths = [*point["metrics_paths"], *[""] * len(cell.runs)]
    stated_folders = [folder_before(path, f"runs/{cell.name}/rep/{METRICS}") for path in stated_paths]
    return {
        "devices": cell.devices,
        "n": len(cell.runs),
        "repeats": [run.metrics["repeat"] for run in cell.runs],
        "metrics_paths": [f"{folder}{run.path}" for folder, run in zip(stated_folders, cell.runs, strict=False)],
        "window_wall_time_sec": statistics.fmean(run.metrics["window"]["wall_time_sec"] for run in cell.runs),
        "tokens_per_sec_median": statistics.median(map(math.exp, cell.logs.values())),
        "verdict": verdict,
        "overhead_only": cell.devices == 1 and without_offload(cell.strategy) in SHARDING,
        **_expected_correction(answer, series, point),
    }


def _expected_correction(answer: RawAnswer, series: Mapping[str, Any], point: Mapping[str, Any]) -> dict[str, object]:
    """Return what a size says of the interval of its speed-up that holds together with others.

    Before schema 6 that was a second interval, beside one of its own.
    """
    is_corrected, bounds = answer.correction(series, point)
    if not answer.has_two_intervals:
        return {"speedup_corrected": is_corrected}
    if not is_corrected:
        return {"speedup_in_answer": None}
    name, base = point["cell"], series["baseline"]
    value, _ = answer.ratio(name, base)
    n = min(len(answer.cells[cell].runs) for cell in (name, base))
    low, high = bounds or (None, None)
    return {"speedup_in_answer": {"value": value, "low": low, "high": high, "n": n}}


def _verdict_on_efficiency(speedup_bounds: Bounds, efficiency_over_speedup: float) -> str:
    """Return the word that both bounds of an efficiency have, else "undecided, low to good" with the words of both."""
    low_speedup, high_speedup = speedup_bounds
    if high_speedup < 1:
        return "slower than the baseline"
    low_word = _word_for_efficiency(low_speedup * efficiency_over_speedup)
    high_word = _word_for_efficiency(high_speedup * efficiency_over_speedup)
    return low_word if low_word == high_word else f"undecided, {low_word} to {high_word}"


def _word_for_efficiency(efficiency: float) -> str:
    """Return "low", "good" or "excellent"."""
    if efficiency < LOW:
        return "low"
    return "good" if efficiency < EXCELLENT else "excellent"


def _check_best_single(answer: RawAnswer, series: Mapping[str, Any], point: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield a difference where `best_single` is not the fastest cell with one device and the same work.

    `best_single` may be None where there is no such cell, or where each such cell is incomparable: it differs from
    this one in the fields of `best_single_incomparable`. Faster cells of another program are not reported.
    """
    cell = answer.cells[point["cell"]]
    stated_name = point["best_single"]
    where = f"{cell.name}, best_single"
    candidates = _single_devices_with_same_work(answer, cell, series["kind"])
    if stated_cell := next((other for other in candidates if other.name == stated_name), None):
        same_program = [other for other in candidates if other.program == stated_cell.program]
        if faster := [other.name for other in same_program if other.rate > stated_cell.rate]:
            yield from check_values(REPORT, where, stated_name, faster[0])
    elif stated_name:
        yield Difference(REPORT, where, f"is {stated_name}, which does not do the same work on one device")
    else:
        fields = point["best_single_incomparable"]
        for other in candidates:
            yield from _check_incomparable(fields, cell, other)
            if not fields:  # a comparable candidate, which the report should have named
                yield from check_values(REPORT, where, stated_name, other.name)


def _single_devices_with_same_work(answer: RawAnswer, cell: RawCell, kind: str | None) -> list[RawCell]:
    """Return the cells on one device that do the work of a cell; in weak scaling, the work of one of its devices."""
    if not cell.batch:  # a command whose batch nobody states
        return []
    batch = cell.batch / cell.devices if kind == "weak" else cell.batch
    single_devices = [other for other in answer.cells.values() if other.devices == 1]
    return [other for other in single_devices if (other.work, other.batch) == (cell.work, batch)]


def _check_incomparable(fields: Sequence[str], cell: RawCell, base: RawCell) -> Iterator[Difference]:
    """Yield each of `fields`, in which two cells differ by the report, that has one value in both."""
    for name in fields:
        if name in cell.machine and cell.machine[name] == base.machine.get(name):
            yield Difference(REPORT, cell.name, f"does not differ from {base.name} in {name}")


def _check_groups(answer: RawAnswer) -> Iterator[Difference]:
    """Yield each group of cells with the same work and devices that is not exactly the content of a ranking."""
    stated_groups = [{entry["cell"] for entry in ranking["cells"]} for ranking in answer.report["ranking"]]
    for group in group_by(answer.cells.values(), lambda cell: (cell.devices, cell.work, cell.batch)).values():
        names = {cell.name for cell in group}
        if names not in stated_groups:
            yield Difference(REPORT, "ranking", f"has none of {', '.join(sorted(names))} alone")


def _check_ranking(answer: RawAnswer, index: int, ranking: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the bounds, letters, claims and recommendation of a ranking that are not those that its runs give."""
    family = answer.family(index)
    names = comparable(ranking)
    where = f"ranking on {ranking['devices']} devices"
    entries = {entry["cell"]: entry for entry in ranking["cells"]}
    fastest = answer.cells.get(next(iter(entries)))  # entries are in the order of rates
    if fastest is None:  # it has no run with numbers: another check says so
        return

    yield from check_values(REPORT, where, ranking, _expected_of_ranking(fastest, family, names))
    work = dict(zip(BATCHLESS, fastest.work, strict=True))
    if not isinstance(fastest.config["workload"].get("model"), str):  # a shape, which the report describes in words
        del work["model"]
    yield from check_values(REPORT, where, {name: str(ranking[name]) for name in BATCHLESS}, work)

    for name in filter(answer.cells.__contains__, entries):
        yield from _check_ranked_cell(where, entries[name], answer.cells[name], fastest)
    yield from _check_letters(family, where, names, entries)

    advice = expected_advice(answer, family, ranking)
    if advice or not ranking["recommendation"]:
        yield from check_values(REPORT, f"{where}, recommendation", ranking["recommendation"], advice)
    else:  # stated, but there is no family to derive one from
        yield Difference(REPORT, f"{where}, recommendation", "is one, though cells were not compared")

    if family and ranking["resolve"]:
        shown_by = partial(intervals.detectable_by_family, family)
        yield from check_further_repeats(ranking["resolve"], where, family.n, shown_by, answer)
    elif family or ranking["resolve"]:
        yield Difference(REPORT, f"{where}, resolve", "is there without a comparison, or is missing")


def _expected_of_ranking(fastest: RawCell, family: CellFamily | None, names: Sequence[str]) -> dict[str, Any]:
    """Return the expected fields of a ranking. `names`: its cells that may be compared with the fastest."""
    expected: dict[str, Any] = {"devices": fastest.devices, "global_batch": fastest.batch}
    if family is None:
        return expected | {"method": None, "claims": 0, "fastest_shown": False}
    is_shown = all(family.differ(fastest.name, name) for name in names if name != fastest.name)
    pair_count = math.comb(len(family.cells), 2)
    return expected | {"method": family.method, "claims": pair_count, "fastest_shown": is_shown}


def _check_ranked_cell(where: str, entry: Mapping[str, Any], cell: RawCell, fastest: RawCell) -> Iterator[Difference]:
    """Yield where a cell's `entry` in a ranking has another strategy than its runs, or wrong reasons to omit it."""
    yield from check_values(REPORT, cell.name, entry, {"strategy": cell.strategy})
    yield from _check_incomparable(entry["incomparable"], cell, fastest)
    if "repeats" in entry["incomparable"] and len(cell.runs) >= intervals.FEWEST:
        problem = f"is left out for its repeats, of which it has {len(cell.runs)}"
        yield Difference(REPORT, f"{where}, {cell.name}", problem)


def _check_letters(
    family: CellFamily | None, where: str, names: Sequence[str], entries: Mapping[str, Mapping[str, Any]]
) -> Iterator[Difference]:
    """Yield where letters do not say which cells are told apart, leave one out (a, c), or are in another order.

    `names`: the comparable cells. `entries`: cell -> its entry in the ranking, the fastest first.
    """
    where = f"{where}, letters"
    letters_of = {name: entry["letters"] for name, entry in entries.items()}
    if family:
        for a, b in combinations(names, 2):
            share_letter = bool(set(letters_of[a]) & set(letters_of[b]))
            if share_letter == family.differ(a, b):
                fault = "a letter, but are" if share_letter else "no letter, but are not"
                yield Difference(REPORT, where, f"{a} and {b} share {fault} told apart")

    letters = "".join(sorted(set("".join(letters_of.values()))))
    if len(letters) <= len(ascii_lowercase) and not ascii_lowercase.startswith(letters):  # beyond z: not checked
        yield Difference(REPORT, where, f"has {letters}, not the first of all")

    # Letter -> indices of its cells in the ranking, such as [[0, 1], [1, 2]] for a, ab, b: "a" has the fastest cells.
    groups = [[place for place, own in enumerate(letters_of.values()) if letter in own] for letter in letters]
    if groups != sorted(groups):
        yield Difference(REPORT, where, "are not in the order of the cells that share one")
    cells_with_letters = [name for name, own in letters_of.items() if own]
    yield from check_values(REPORT, where, cells_with_letters, list(names) if family else [])


def _check_question(answer: RawAnswer, question: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where status, ratio and `resolve` of the campaign's question are not those that its two cells give."""
    subject = question["is"]
    base = question["better_than"] or question["not_slower_than"]
    are_measured = {subject, base} <= answer.cells.keys()
    if are_measured:
        yield from _check_incomparable(question["incomparable"], answer.cells[base], answer.cells[subject])

    expected: dict[str, Any] = {"status": "incomparable" if are_measured else "unmeasured", "ratio": None}
    noise = None
    if are_measured and not question["incomparable"]:
        value, bounds = answer.ratio(subject, base)
        low, high = bounds or (None, None)
        expected = {"status": _status_of(question, bounds), "ratio": {"value": value, "low": low, "high": high}}
        if expected["status"] == "undecided":  # further repeats are advised for such a question alone
            noise = answer.noise(subject, base)
    yield from check_values(REPORT, "question", question, expected)
    yield from check_repeats_of_ratio(question["resolve"], "question", noise, answer)


def _status_of(question: Mapping[str, Any], bounds: Bounds | None) -> str:
    """Return the status of a question by the interval of its ratio; without an interval it is undecided."""
    ratio = 1 + question["by"] if question["better_than"] else 1 - question["by"]  # the ratio that is asked about
    low, high = bounds or (0.0, math.inf)
    if low > ratio:
        return "yes"
    if high < ratio:
        return "no"
    # "near": the whole interval is within this factor of the ratio that is asked about.
    factor = 1 + (question["within"] or 0.0)
    is_near = ratio / factor < low and high < ratio * factor
    return "near" if is_near else "undecided"
