"""Speed-up, efficiency and ranking: scaling_report.json."""

import re
from dataclasses import dataclass
from typing import Any

from scalebench.analysis.comparability import Circumstances, circumstances, undeclared
from scalebench.analysis.confidence import CONFIDENCE, Estimate, rate, ratio, scaled
from scalebench.analysis.recommend import recommend
from scalebench.analysis.run_tables import by_cell, configuration, throughput
from scalebench.analysis.scaling_laws import fit, karp_flatt
from scalebench.audit.campaign.scaling import guard
from scalebench.audit.finding import Findings
from scalebench.record.run import METRICS, Run

SCHEMA_VERSION = "3.1"
GEOMETRY_IN_SLUG = re.compile(r"(^|-)n[0-9]+x[0-9]+(?=-|$)")
OVERHEAD = ("fsdp", "zero1", "zero2", "zero3")  # strategies that shard; with one device there is nothing to shard


def scaling_report(campaign: str, title: str, runs: list[Run], findings: Findings) -> dict[str, Any]:
    """Each series of cells that differ in nothing but their devices, and the ranking of all cells of one size.

    The baseline of a speed-up is the same series at its smallest world size; a second one is the fastest measured cell
    with one device and the same batch. No ratio is formed between cells whose circumstances differ: `incomparable`
    names the fields. `status` is `invalid_comparison` where an `invalid` finding concerns a cell; figures are kept, so
    that they can be looked at, and carry the codes. `findings` are those that only a series can show.
    """
    cells = _measured(runs)
    invalid = [f for f in findings.findings if f.severity == "invalid"]
    series = [_describe(name, members, cells, findings) for name, members in _series(cells).items()]
    found = [f for one in series for f in guard(one)]
    for one in series:
        for point in one["runs"].values():
            point["findings"] += [f.code for f in found if point["cell"] in f.cells and f.severity != "note"]
    return {
        "schema_version": SCHEMA_VERSION,
        "campaign": campaign,
        "title": title,
        "clock": "window",
        "confidence": CONFIDENCE,
        "status": "invalid_comparison" if invalid else "ok",
        "mismatches": [f.model_dump() for f in invalid],
        "series": series,
        "ranking": _ranking(cells),
        "findings": [f.model_dump() for f in found],
    }


@dataclass(frozen=True)
class Measured:
    """A cell with its runs that have numbers."""

    cell: str
    runs: list[Run]
    values: dict[str, Any]  # its configuration, as in runs.csv
    rate: Estimate  # tokens/s
    around: Circumstances


def _measured(runs: list[Run]) -> dict[str, Measured]:
    groups = {cell: ok for cell, group in by_cell(runs).items() if (ok := [run for run in group if run.ok])}
    return {
        cell: Measured(cell, group, configuration(group[0]), throughput(group), circumstances(group))
        for cell, group in groups.items()
    }


def _series(cells: dict[str, Measured]) -> dict[str, list[Measured]]:
    """Cells by what their slug says beside the geometry: what a campaign varies otherwise makes another series."""
    grouped: dict[str, list[Measured]] = {}
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


def _describe(name: str, members: list[Measured], cells: dict[str, Measured], findings: Findings) -> dict[str, Any]:
    kind, base = scaling_kind([c.values for c in members]), members[0]
    same = {k: v for k, v in base.values.items() if all(c.values[k] == v for c in members)}
    points = {c.values["geometry"]: _point(c, base, kind, cells, findings) for c in members}
    alike = [c for c in members if not points[c.values["geometry"]]["incomparable"]]
    return {
        "name": name,
        "strategy": base.values["strategy"],
        "kind": kind,
        "protocol": same,
        "baseline": base.cell,
        "baseline_devices": base.values["devices"],
        "law": fit(kind, {c.values["devices"]: _rates(c) for c in alike}) if kind else None,
        "runs": points,
    }


def _point(
    cell: Measured, base: Measured, kind: str | None, cells: dict[str, Measured], findings: Findings
) -> dict[str, Any]:
    devices = cell.values["devices"]
    incomparable = undeclared(base.around, cell.around, same_program=True) if kind else []
    related = kind and cell is not base and not incomparable
    speedup = ratio(cell.rate, base.rate) if related else None
    efficiency = speedup and scaled(speedup, base.values["devices"] / devices)
    # By the wall time of whole jobs, start-up and warm-up with it: what a user waits for. Only equal work has one.
    by_job = ratio(_jobs_per_second(cell), _jobs_per_second(base)) if related and kind == "strong" else None
    single, other = _best_single(cell, kind, cells)
    return {
        "cell": cell.cell,
        "devices": devices,
        "repeats": [run.metrics.repeat for run in cell.runs],
        "metrics_paths": [str(run.folder / METRICS) for run in cell.runs],
        "n": len(cell.runs),
        "tokens_per_sec_global": _shown(cell.rate),
        "window_wall_time_sec": sum(r.metrics.window.wall_time_s for r in cell.runs) / len(cell.runs),
        "speedup": _shown(speedup),
        "scaling_efficiency": _shown(efficiency),
        "speedup_by_job_wall_time": _shown(by_job),
        "verdict": verdict(_shown(efficiency), _shown(speedup)),
        "karp_flatt": karp_flatt(_shown(speedup), devices)
        if kind == "strong" and base.values["devices"] == 1
        else None,
        "incomparable": incomparable,
        "best_single": single and single.cell,
        "speedup_vs_best_single": _shown(ratio(cell.rate, single.rate) if single and single is not cell else None),
        "best_single_incomparable": other,
        "overhead_only": devices == 1 and cell.values["strategy"].removesuffix("-offload") in OVERHEAD,
        "findings": list(dict.fromkeys(f.code for f in findings.of(cell.cell) if f.severity != "note")),
    }


def _rates(cell: Measured) -> list[float]:
    return [run.metrics.window.tokens_per_s for run in sorted(cell.runs, key=lambda r: r.metrics.repeat)]


def _jobs_per_second(cell: Measured) -> Estimate:
    return rate([1.0] * len(cell.runs), [run.metrics.total_wall_time_s for run in cell.runs])


def _best_single(cell: Measured, kind: str | None, cells: dict[str, Measured]) -> tuple[Measured | None, list[str]]:
    """The fastest comparable cell with one device that does the same work, and what made others incomparable.

    The same work: the same global batch, or in weak scaling one device's part of it.
    """
    wanted = cell.values
    batch = wanted["global_batch"] / (wanted["devices"] if kind == "weak" else 1)
    same = ("model", "vocab_size", "corpus", "tokenizer", "seq_len")
    alike, other = [], set()
    for one in cells.values():
        v = one.values
        if v["devices"] == 1 and v["global_batch"] == batch and all(v[k] == wanted[k] for k in same):
            differing = undeclared(one.around, cell.around, same_program=False)
            other |= set(differing)
            alike += [] if differing else [one]
    return max(alike, key=lambda one: one.rate.value, default=None), sorted(other) if not alike else []


def _ranking(cells: dict[str, Measured]) -> list[dict[str, Any]]:
    """For each number of devices: its cells, fastest first, each relative to the fastest. Only cells that do the same work."""
    same = ("devices", "model", "vocab_size", "corpus", "tokenizer", "seq_len", "global_batch")
    groups: dict[tuple, list[Measured]] = {}
    for cell in cells.values():
        groups.setdefault(tuple(cell.values[k] for k in same), []).append(cell)
    found = []
    for key, members in sorted(groups.items(), key=lambda item: str(item[0])):
        members.sort(key=lambda cell: -cell.rate.value)
        entries = [_place(cell, members[0]) for cell in members]
        found.append(dict(zip(same, key, strict=True)) | {"cells": entries, "recommendation": recommend(entries)})
    return sorted(found, key=lambda group: group["devices"])


def _place(cell: Measured, fastest: Measured) -> dict[str, Any]:
    incomparable = undeclared(fastest.around, cell.around, same_program=False)
    related = cell is not fastest and not incomparable
    return {
        "cell": cell.cell,
        "strategy": cell.values["strategy"],
        "tokens_per_sec_global": _shown(cell.rate),
        "relative_to_fastest": _shown(ratio(cell.rate, fastest.rate)) if related else None,
        "incomparable": incomparable,
    }


def _shown(estimate: Estimate | None) -> dict[str, Any] | None:
    return (
        None
        if estimate is None
        else {"value": estimate.value, "low": estimate.low, "high": estimate.high, "n": estimate.n}
    )


def verdict(efficiency: dict[str, Any] | None, speedup: dict[str, Any] | None) -> str | None:
    """The usual words for an efficiency, where its whole interval carries them: below 0.7 low, from 0.85 excellent.

    A speed-up below 1 is "slower than the baseline". None without an interval; "undecided" where it spans a mark.
    """
    if not efficiency or efficiency["low"] is None:
        return None
    if speedup["high"] < 1:
        return "slower than the baseline"
    words = [_word(efficiency[bound]) for bound in ("low", "high")]
    return words[0] if words[0] == words[1] else f"undecided, {words[0]} to {words[1]}"


def _word(efficiency: float) -> str:
    return "low" if efficiency < 0.7 else "good" if efficiency < 0.85 else "excellent"
