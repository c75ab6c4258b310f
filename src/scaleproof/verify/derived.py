"""Where scaling is lost, and the parts of a traced step, computed again from runs and traces.

A waterfall leads from the ideal time of a cell's step, for which its baseline stands, part by part to the measured one.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scaleproof.ground.configurations import configuration_differences
from scaleproof.ground.number_format import significant
from scaleproof.ground.records.grouping import all_known
from scaleproof.verify.contents import entries_of, json_of, points_of
from scaleproof.verify.intervals import half_width
from scaleproof.verify.raw import Difference, RawRun, check_values, close
from scaleproof.verify.recompute import CONFIDENCE, counts_samples, has_speedup, measured_by_cell, waiting_share

Steps = Sequence[Mapping[str, Any]]  # of a trace, of each rank

WATERFALL, TRACES = "waterfall.json", "traces.json"
PROFILE = "profile_summary.json"
TRACE_PARTS = (
    *("wall_ms", "compute_ms", "communication_ms", "exposed_ms", "overlapped_ms", "wait_ms", "exposed_wait_ms"),
    "idle_ms",
)
# Time of a traced step -> the parts that it is the sum of.
PARTS_OF = {"wall_ms": ("compute_ms", "exposed_ms", "idle_ms"), "communication_ms": ("exposed_ms", "overlapped_ms")}
SUM_TOLERANCE, TRACED_SUM_TOLERANCE = 1e-7, 1e-4  # relative
LOCAL_BATCH = "smaller local batch"  # a part of strong scaling alone
# Part of a waterfall -> where its milliseconds are from; None: from a cell that the part names.
SOURCES = {
    "exposed transfer": "trace",
    "waiting for the slowest rank": "trace",
    "exposed communication": "trace",
    "waiting for data": "timed runs",
    "host gaps": "traces",
    LOCAL_BATCH: None,
}
ALWAYS_PARTS = {"waiting for data", "host gaps"}  # of every waterfall; a part that nothing measured has no milliseconds


def check_waterfall(folder: Path, runs: Sequence[RawRun], report: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where the parts of a cell's step in waterfall.json are not those that runs and traces give."""
    cells = measured_by_cell(runs)
    entries = {entry["cell"]: entry for entry in json_of(folder / WATERFALL)["cells"]}
    series_of = {  # cells with a speed-up whose steps count samples: only these have a waterfall
        point["cell"]: series
        for series, point in points_of(report)
        if has_speedup(series, point) and counts_samples(cells[point["cell"]])
    }
    traced = [trace["cell"] for trace in entries_of(folder / TRACES, "traces")]  # other folders are of earlier states
    steps_of = {cell: _steps_of_trace(folder / "traces" / cell / PROFILE) for cell in traced}
    if set(entries) != set(series_of):
        yield Difference(WATERFALL, "cells", "are not those beyond a baseline")
    for cell in entries.keys() & series_of.keys():
        entry = entries[cell]
        base = series_of[cell]["baseline"]
        kind = series_of[cell]["kind"]
        yield from _check_form_of_parts(entry)

        strategy = cells[cell][0].metrics["config"]["execution"]["strategy"]
        expected = {"strategy": strategy, "baseline": base, "kind": kind, "n": len(cells[cell])}
        stated = entry | {part["name"]: part["ms"] for part in entry["parts"]}
        parts = _expected_parts(steps_of, entry, cells, base, kind)
        expected |= {name: value for name, value in parts.items() if name in stated}  # an entry need not have all parts
        yield from check_values(WATERFALL, cell, stated, expected)


def _check_form_of_parts(entry: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield waterfall parts that are missing, repeated, unknown, of a wrong source, or do not sum to the step."""
    cell, parts = entry["cell"], entry["parts"]
    names = {part["name"] for part in parts}
    if len(names) < len(parts):
        yield Difference(WATERFALL, cell, "has a part twice")
    needed_names = ALWAYS_PARTS | {LOCAL_BATCH} if entry["kind"] == "strong" else ALWAYS_PARTS
    for name in sorted(needed_names - names):
        yield Difference(WATERFALL, cell, f'has no part "{name}"')

    for part in parts:
        source = SOURCES.get(part["name"])
        has_other_source = source is not None and part["ms"] is not None and part["source"] != source
        if part["name"] not in SOURCES or has_other_source:
            yield Difference(WATERFALL, f"{cell}, {part['name']}", f"is no part of a step by {part['source']}")

    total_ms = entry["ideal_ms"] + entry["unexplained_ms"] + math.fsum(part["ms"] or 0.0 for part in parts)
    if not close(total_ms, entry["measured_ms"], SUM_TOLERANCE):
        problem = f"parts sum to {significant(total_ms, 7)} ms, the step is {significant(entry['measured_ms'], 7)}"
        yield Difference(WATERFALL, cell, problem)


def _expected_parts(
    steps_of: Mapping[str, Steps], entry: Mapping[str, Any], cells: Mapping[str, Sequence[RawRun]], base: str, kind: str
) -> dict[str, float | None]:
    """Return what runs and traces give of the step of an entry's cell: part or field -> milliseconds.

    `steps_of`: traced cell -> its steps. Waiting for data and host gaps count as far as they exceed those of the
    baseline `base`, scaled to the ideal step.
    """
    group, base_group = cells[entry["cell"]], cells[base]
    scale = base_group[0].devices / group[0].devices if kind == "strong" else 1.0  # ideal step over the baseline's
    step_ms, base_step_ms = _step_ms(group), _step_ms(base_group)
    data_ms, base_data_ms = _data_ms(group), _data_ms(base_group)
    steps, base_steps = steps_of.get(entry["cell"], ()), steps_of.get(base, ())
    ideal_ms = base_step_ms * scale
    parts: dict[str, float | None] = {
        "measured_ms": step_ms,
        "ideal_ms": ideal_ms,
        "waiting for data": data_ms - scale * base_data_ms,
        **_part_of_smaller_batch(entry, group, cells, ideal_ms),
        **_exposed_parts(steps, step_ms),
    }
    if steps and base_steps:  # host gaps: time in which the device idles, and does not wait for data
        gaps_ms = _idle_share(steps) * step_ms - data_ms
        base_gaps_ms = _idle_share(base_steps) * base_step_ms - base_data_ms
        parts["host gaps"] = gaps_ms - scale * base_gaps_ms
    return parts


def _step_ms(runs: Sequence[RawRun]) -> float:
    """Return the mean milliseconds of a step: what a global batch takes at the samples/s of all runs together."""
    seconds = math.fsum(run.seconds for run in runs)
    samples = sum(step.samples for run in runs for step in run.window)
    return float(1e3 * runs[0].metrics["config"]["work"]["global_batch"] * seconds / samples)


def _data_ms(runs: Sequence[RawRun]) -> float:
    """Return the mean milliseconds of a step in which it waits for data."""
    return waiting_share(runs) * _step_ms(runs)


def _part_of_smaller_batch(
    entry: Mapping[str, Any], group: Sequence[RawRun], cells: Mapping[str, Sequence[RawRun]], ideal_ms: float
) -> dict[str, float | None]:
    """Return {"smaller local batch": ms}: how much longer than the ideal a step on one device takes.

    The step is of another cell, named as the part's source: one device, and the batch that each device of this cell
    has. The time is None where the source is no such cell, or does other work. Returns {} where the entry states no
    time: nothing is to be checked then. `entry`: of this cell in waterfall.json. `group`: its runs. `cells`: every
    cell's runs.
    """
    sources = [part["source"] for part in entry["parts"] if part["name"] == LOCAL_BATCH and part["ms"] is not None]
    if not sources:
        return {}
    source = cells.get(sources[0])  # the runs of the cell that the part names
    if source is None or source[0].devices != 1:
        return {LOCAL_BATCH: None}

    config, source_config = group[0].metrics["config"], source[0].metrics["config"]
    has_local_batch = source_config["work"]["global_batch"] == config["work"]["global_batch"] / group[0].devices
    differs_in_work = any(key.startswith("workload.") for key in configuration_differences(config, source_config))
    if not has_local_batch or differs_in_work:
        return {LOCAL_BATCH: None}
    return {LOCAL_BATCH: _step_ms(source) - ideal_ms}


def _steps_of_trace(profile: Path) -> list[dict[str, Any]]:
    """Return the traced steps in a profile, of each rank; none where it is missing, or a step lacks a part."""
    steps: list[dict[str, Any]] = json_of(profile).get("per_step", []) if profile.is_file() else []
    needed_parts = set(TRACE_PARTS) - {"exposed_wait_ms"}  # older traces lack it
    are_whole = all(step.get(name) is not None for step in steps for name in needed_parts)
    return steps if are_whole else []


def _sum_over_steps(steps: Steps, name: str) -> float:
    """Return the milliseconds of one part of all steps."""
    return math.fsum(step[name] for step in steps)


def _idle_share(steps: Steps) -> float:
    """Return the share of the traced steps in which the device has nothing to do."""
    return _sum_over_steps(steps, "idle_ms") / _sum_over_steps(steps, "wall_ms")


def _exposed_parts(steps: Steps, step_ms: float) -> dict[str, float | None]:
    """Return {part: ms} of exposed communication (nothing is computed) in a timed step of `step_ms`, and two ratios.

    All parts are None without steps. Older traces lack exposed_wait_ms: transfer and waiting are one part then,
    "exposed communication". The ratios, computing over transfer and the exposed share of the transfer, are None where
    nothing is transferred.
    """
    transfer, waiting = "exposed transfer", "waiting for the slowest rank"
    if not steps:
        return {transfer: None, waiting: None, "exposed communication": None}
    wall_ms = _sum_over_steps(steps, "wall_ms")
    exposed_ms = _sum_over_steps(steps, "exposed_ms")
    if any(step.get("exposed_wait_ms") is None for step in steps):
        return {"exposed communication": exposed_ms / wall_ms * step_ms, waiting: None}

    exposed_wait_ms = _sum_over_steps(steps, "exposed_wait_ms")
    transfer_ms = _sum_over_steps(steps, "communication_ms") - _sum_over_steps(steps, "wait_ms")
    parts: dict[str, float | None] = {
        transfer: (exposed_ms - exposed_wait_ms) / wall_ms * step_ms,
        waiting: exposed_wait_ms / wall_ms * step_ms,
    }
    if transfer_ms <= 0:
        return parts | {"compute_to_communication": None, "transfer_exposed": None}
    return parts | {
        "compute_to_communication": _sum_over_steps(steps, "compute_ms") / transfer_ms,
        "transfer_exposed": max(0.0, exposed_ms - exposed_wait_ms) / transfer_ms,
    }


def check_traces(folder: Path, runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield where traces.json has other figures than its profiles, or where parts of a traced step do not add up."""
    for trace in json_of(folder / TRACES)["traces"]:
        cell = trace["cell"]
        profile = json_of(folder / "traces" / cell / PROFILE)
        if profile.get("cell") != cell:
            yield Difference(TRACES, cell, f"its profile is of {profile.get('cell')}")
        yield from _check_means(trace, profile)

        overhead = _expected_overhead(profile, runs)
        expected = _expected_phases(trace, profile) | ({"overhead": overhead} if overhead else {})
        yield from check_values(TRACES, cell, trace, expected)
        for name in sorted(trace.keys() & profile.keys()):  # fields that traces.json copies from the profile
            if trace[name] != profile[name]:
                yield Difference(TRACES, f"{cell}, {name}", "is not that of the profile")
        yield from _check_steps(f"traces/{cell}/{PROFILE}", profile.get("per_step", []))


def _check_means(trace: Mapping[str, Any], profile: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield where the means of a trace, over all ranks and over each, are not those of the steps in its profile."""
    cell = trace["cell"]
    steps = profile.get("per_step", [])
    if sorted(part["rank"] for part in trace["per_rank"]) != sorted(profile.get("ranks", [])):
        yield Difference(TRACES, cell, "its ranks are not those of the profile")
    yield from check_values(TRACES, cell, trace, _means_over(steps), "the profile gives")
    for part in trace["per_rank"]:
        means = _means_over([step for step in steps if step["rank"] == part["rank"]])
        yield from check_values(TRACES, f"{cell}, rank {part['rank']}", part, means, "the profile gives")


def _means_over(steps: Steps) -> dict[str, float | None]:
    """Return the mean of each part over `steps`; None where a step lacks the part, and without steps."""
    means: dict[str, float | None] = {}
    for name in TRACE_PARTS:
        values = all_known(step.get(name) for step in steps)
        means[name] = statistics.fmean(values) if values else None
    return means


def _expected_phases(trace: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a trace that its profile gives: the mean time of each phase, and the classified share."""
    ranges_of_steps = [step["ranges_ms"] for step in profile.get("per_step", [])]  # phase -> milliseconds, of each step
    names = set().union(*ranges_of_steps)
    phases_ms = {name: statistics.fmean(ranges_ms.get(name, 0.0) for ranges_ms in ranges_of_steps) for name in names}
    return {
        "phases_ms": phases_ms,
        "classified_share": (profile.get("coverage") or {}).get("classified_share"),
        "file": f"traces/{trace['cell']}/{PROFILE}",
    }


def _expected_overhead(profile: Mapping[str, Any], runs: Sequence[RawRun]) -> dict[str, Any] | None:
    """Return the time of a traced step over a timed one, with the prediction interval of one further timed run.

    Returns None where traced or timed steps are missing.
    """
    timed_runs = [run for run in runs if run.ok and run.metrics["fingerprint"] == profile.get("fingerprint")]
    logs = [math.log(1e3 * run.seconds / len(run.window)) for run in timed_runs]
    traced_ms = profile.get("step_time_ms") or []
    if not logs or not traced_ms:  # damaged runs are reported where they are read
        return None
    n = len(logs)
    timed_ms = math.exp(statistics.fmean(logs))
    ratio = statistics.fmean(traced_ms) / timed_ms
    overhead = {"value": ratio, "n": n, "timed_step_ms": timed_ms}
    if n > 1:
        half = half_width(statistics.variance(logs) * (1 + 1 / n), n - 1, CONFIDENCE)
        overhead |= {"low": ratio * math.exp(-half), "high": ratio * math.exp(half)}
    return overhead


def _check_steps(file: str, steps: Steps) -> Iterator[Difference]:
    """Yield each traced step whose parts do not sum to it, or whose parts of communication do not sum to that."""
    for step in steps:
        for whole, parts in PARTS_OF.items():
            if any(step.get(name) is None for name in (whole, *parts)):
                continue
            if not close(step[whole], math.fsum(step[name] for name in parts), TRACED_SUM_TOLERANCE):
                where = f"step {step['step']}, rank {step['rank']}"
                yield Difference(file, where, f"{whole} is not the sum of its parts")
