"""Speed-up, efficiency and ranking: scaling_report.json."""

import re
from collections.abc import Sequence
from typing import Any

from scalebench.analysis.comparability import unintended_differences
from scalebench.analysis.confidence import CONFIDENCE, Estimate, ratio, scaled, times_per_second
from scalebench.analysis.measured_cells import MeasuredCell, measured_cells
from scalebench.analysis.recommend import recommend
from scalebench.analysis.scaling_laws import fit, karp_flatt
from scalebench.audit.finding import Findings, codes_above_note
from scalebench.record.run import METRICS, Run

SCHEMA_VERSION = "3.2"
GEOMETRY_IN_SLUG = re.compile(r"(^|-)n[0-9]+x[0-9]+(?=-|$)")
OVERHEAD = ("fsdp", "zero1", "zero2", "zero3")  # strategies that shard; with one device there is nothing to shard
# What two cells must have in common to do the same work, their batch aside.
SAME_WORK = ("model", "vocab_size", "corpus", "tokenizer", "seq_len")


def scaling_report(campaign: str, title: str, runs: Sequence[Run], findings: Findings) -> dict[str, Any]:
    """Each series of cells that differ in nothing but their devices, and the ranking of all cells of one size.

    The baseline of a speed-up is the same series at its smallest number of devices; a second one is the fastest measured
    cell with one device and the same batch. No ratio is formed between cells whose provenance differs: `incomparable`
    names the fields. `status` is `invalid_comparison` where an `invalid` finding concerns a cell, and `mismatches` are
    the codes; figures are kept, so that they can be looked at, with the codes of their findings.
    """
    series = scaling_series(runs)
    for one in series:
        for point in one["runs"].values():
            point["findings"] = codes_above_note(findings.of(point["cell"]))
    numbers = [*findings.concerning("runs"), *findings.concerning("scaling")]
    invalid = sorted({f.code for f in numbers if f.severity == "invalid"})
    return {
        "schema_version": SCHEMA_VERSION,
        "campaign": campaign,
        "title": title,
        "clock": "window",
        "confidence": CONFIDENCE,
        "status": "invalid_comparison" if invalid else "ok",
        "mismatches": invalid,
        "series": series,
        "ranking": _ranking(measured_cells(runs)),
    }


def scaling_series(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The series of a campaign with their figures; findings are made from these (audit/campaign/scaling.py)."""
    cells = measured_cells(runs)
    return [_describe(name, members, cells) for name, members in _series(cells).items()]


def _series(cells: dict[str, MeasuredCell]) -> dict[str, list[MeasuredCell]]:
    """Cells by what their slug says beside the geometry: what a campaign varies otherwise makes another series."""
    grouped: dict[str, list[MeasuredCell]] = {}
    for cell in cells.values():
        grouped.setdefault(GEOMETRY_IN_SLUG.sub("", cell.cell).strip("-"), []).append(cell)
    return {
        name: sorted(members, key=lambda c: (c.values["devices"], c.values["nodes"]))
        for name, members in grouped.items()
    }


def scaling_kind(cells: list[dict]) -> str | None:
    """strong: one global batch for all sizes. weak: one batch per device. None: neither, or a single size."""
    if len({c["devices"] for c in cells}) < 2:
        return None
    if len({c["global_batch"] for c in cells}) == 1:
        return "strong"
    return "weak" if len({c["global_batch"] / c["devices"] for c in cells}) == 1 else None


def _describe(name: str, members: list[MeasuredCell], cells: dict[str, MeasuredCell]) -> dict[str, Any]:
    kind = scaling_kind([c.values for c in members])
    base = members[0]
    protocol = {k: v for k, v in base.values.items() if all(c.values[k] == v for c in members)}
    points = {c.values["geometry"]: _point(c, base, kind, cells) for c in members}
    comparable = [c for c in members if not points[c.values["geometry"]]["incomparable"]]
    return {
        "name": name,
        "strategy": base.values["strategy"],
        "kind": kind,
        "protocol": protocol,
        "baseline": base.cell,
        "baseline_devices": base.values["devices"],
        "law": fit(kind, {c.values["devices"]: _rates(c) for c in comparable}) if kind else None,
        "runs": points,
    }


def _point(cell: MeasuredCell, base: MeasuredCell, kind: str | None, cells: dict[str, MeasuredCell]) -> dict[str, Any]:
    devices = cell.values["devices"]
    incomparable = unintended_differences(base.provenance, cell.provenance, same_program=True) if kind else []
    related = kind and cell is not base and not incomparable
    speedup = ratio(cell.rate, base.rate) if related else None
    efficiency = speedup and scaled(speedup, base.values["devices"] / devices)
    # By the wall time of whole jobs, start-up and warm-up with it: what a user waits for. Only equal work has one.
    by_job = ratio(_jobs_per_second(cell), _jobs_per_second(base)) if related and kind == "strong" else None
    from_one = kind == "strong" and base.values["devices"] == 1
    single, single_incomparable = _best_single(cell, kind, cells)
    return {
        "cell": cell.cell,
        "devices": devices,
        "repeats": [run.metrics.repeat for run in cell.runs],
        "metrics_paths": [str(run.folder / METRICS) for run in cell.runs],
        "n": len(cell.runs),
        "tokens_per_sec_global": _as_dict(cell.rate),
        "window_wall_time_sec": sum(r.metrics.window.wall_time_s for r in cell.runs) / len(cell.runs),
        "speedup": _as_dict(speedup),
        "scaling_efficiency": _as_dict(efficiency),
        "speedup_by_job_wall_time": _as_dict(by_job),
        "verdict": verdict(_as_dict(efficiency), _as_dict(speedup)),
        "karp_flatt": karp_flatt(_as_dict(speedup), devices) if from_one else None,
        "incomparable": incomparable,
        "best_single": single and single.cell,
        "speedup_vs_best_single": _as_dict(ratio(cell.rate, single.rate) if single and single is not cell else None),
        "best_single_incomparable": single_incomparable,
        "overhead_only": devices == 1 and cell.values["strategy"].removesuffix("-offload") in OVERHEAD,
    }


def _rates(cell: MeasuredCell) -> list[float]:
    return [run.metrics.window.tokens_per_s for run in sorted(cell.runs, key=lambda r: r.metrics.repeat)]


def _jobs_per_second(cell: MeasuredCell) -> Estimate:
    return times_per_second([run.metrics.total_wall_time_s for run in cell.runs])


def _best_single(
    cell: MeasuredCell, kind: str | None, cells: dict[str, MeasuredCell]
) -> tuple[MeasuredCell | None, list[str]]:
    """The fastest comparable cell with one device that does the same work, and what made others incomparable.

    The same work: the same global batch, or in weak scaling one device's part of it.
    """
    values = cell.values
    batch = values["global_batch"] / (values["devices"] if kind == "weak" else 1)
    comparable: list[MeasuredCell] = []
    fields: set[str] = set()
    for one in cells.values():
        v = one.values
        if v["devices"] == 1 and v["global_batch"] == batch and all(v[k] == values[k] for k in SAME_WORK):
            differing = unintended_differences(one.provenance, cell.provenance, same_program=False)
            fields |= set(differing)
            comparable += [] if differing else [one]
    best = max(comparable, key=lambda one: one.rate.value, default=None)
    return best, [] if comparable else sorted(fields)


def _ranking(cells: dict[str, MeasuredCell]) -> list[dict[str, Any]]:
    """For each number of devices its cells, fastest first, relative to the fastest. Only cells that do the same work."""
    same = ("devices", *SAME_WORK, "global_batch")
    groups: dict[tuple, list[MeasuredCell]] = {}
    for cell in cells.values():
        groups.setdefault(tuple(cell.values[k] for k in same), []).append(cell)
    ranking = []
    for key, members in sorted(groups.items(), key=lambda item: str(item[0])):
        members.sort(key=lambda cell: -cell.rate.value)
        entries = [_entry(cell, members[0]) for cell in members]
        ranking.append(dict(zip(same, key, strict=True)) | {"cells": entries, "recommendation": recommend(entries)})
    return sorted(ranking, key=lambda group: group["devices"])


def _entry(cell: MeasuredCell, fastest: MeasuredCell) -> dict[str, Any]:
    incomparable = unintended_differences(fastest.provenance, cell.provenance, same_program=False)
    related = cell is not fastest and not incomparable
    return {
        "cell": cell.cell,
        "strategy": cell.values["strategy"],
        "tokens_per_sec_global": _as_dict(cell.rate),
        "relative_to_fastest": _as_dict(ratio(cell.rate, fastest.rate)) if related else None,
        "incomparable": incomparable,
    }


def _as_dict(estimate: Estimate | None) -> dict[str, Any] | None:
    if estimate is None:
        return None
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high, "n": estimate.n}


def verdict(efficiency: dict[str, Any] | None, speedup: dict[str, Any] | None) -> str | None:
    """The usual words for an efficiency, where its whole interval supports them: below 0.7 low, from 0.85 excellent.

    A speed-up below 1 is "slower than the baseline". None without an interval; "undecided" where it spans a mark.
    """
    if not efficiency or not speedup or efficiency["low"] is None:
        return None
    if speedup["high"] < 1:
        return "slower than the baseline"
    low, high = (_word(efficiency[bound]) for bound in ("low", "high"))
    return low if low == high else f"undecided, {low} to {high}"


def _word(efficiency: float) -> str:
    return "low" if efficiency < 0.7 else "good" if efficiency < 0.85 else "excellent"
