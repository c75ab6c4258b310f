"""Speed-up, efficiency and ranking: scaling_report.json."""

import re
from typing import Any

from scalebench.analysis.collect import by_cell, configuration, throughput
from scalebench.analysis.intervals import CONFIDENCE, Estimate, ratio, scaled
from scalebench.audit.finding import Findings
from scalebench.record.run import METRICS, Run

SCHEMA_VERSION = "3.0"
GEOMETRY_IN_SLUG = re.compile(r"(^|-)n[0-9]+x[0-9]+(?=-|$)")
OVERHEAD = ("fsdp", "zero1", "zero2", "zero3")  # strategies that shard; with one device there is nothing to shard


def scaling_report(campaign: str, title: str, runs: list[Run], findings: Findings) -> dict[str, Any]:
    """Each series of cells that differ in nothing but their devices, and the ranking of all cells of one size.

    The baseline of a speed-up is the same series at its smallest world size; a second one is the fastest measured cell
    with one device and the same batch. `status` is `invalid_comparison` where an `invalid` finding concerns a
    cell; figures are kept, so that they can be looked at, and carry the codes.
    """
    measured = {cell: ok for cell, group in by_cell(runs).items() if (ok := [run for run in group if run.ok])}
    rates = {cell: throughput(group) for cell, group in measured.items()}
    values = {cell: configuration(group[0]) for cell, group in measured.items()}
    invalid = [f for f in findings.findings if f.severity == "invalid"]
    return {
        "schema_version": SCHEMA_VERSION,
        "campaign": campaign,
        "title": title,
        "clock": "window",
        "confidence": CONFIDENCE,
        "status": "invalid_comparison" if invalid else "ok",
        "mismatches": [f.model_dump() for f in invalid],
        "series": [
            _describe(name, members, measured, rates, values, findings) for name, members in _series(values).items()
        ],
        "ranking": _ranking(rates, values),
    }


def _series(values: dict[str, dict]) -> dict[str, list[str]]:
    """Cells by what their slug says beside the geometry: what a campaign varies otherwise makes another series."""
    grouped: dict[str, list[str]] = {}
    for cell in values:
        grouped.setdefault(GEOMETRY_IN_SLUG.sub("", cell).strip("-"), []).append(cell)
    return {
        name: sorted(cells, key=lambda c: (values[c]["devices"], values[c]["nodes"])) for name, cells in grouped.items()
    }


def scaling_kind(cells: list[dict]) -> str | None:
    """strong: one global batch for all sizes. weak: one batch per device. None: neither, or a single size."""
    if len({c["devices"] for c in cells}) < 2:
        return None
    if len({c["global_batch"] for c in cells}) == 1:
        return "strong"
    return "weak" if len({c["global_batch"] / c["devices"] for c in cells}) == 1 else None


def _describe(
    name: str,
    members: list[str],
    measured: dict[str, list[Run]],
    rates: dict[str, Estimate],
    values: dict[str, dict],
    findings: Findings,
) -> dict[str, Any]:
    kind, base = scaling_kind([values[c] for c in members]), members[0]
    runs = {}
    for cell in members:
        group, devices = measured[cell], values[cell]["devices"]
        speedup = ratio(rates[cell], rates[base]) if kind and cell != base else None
        single = _best_single(cell, kind, rates, values)
        runs[values[cell]["geometry"]] = {
            "cell": cell,
            "devices": devices,
            "metrics_paths": [str(run.folder / METRICS) for run in group],
            "n": len(group),
            "tokens_per_sec_global": _shown(rates[cell]),
            "window_wall_time_sec": sum(r.metrics.window.wall_time_sec for r in group) / len(group),
            "speedup": _shown(speedup),
            "scaling_efficiency": _shown(speedup and scaled(speedup, values[base]["devices"] / devices)),
            "best_single": single,
            "speedup_vs_best_single": _shown(ratio(rates[cell], rates[single]) if single and single != cell else None),
            "overhead_only": devices == 1 and values[cell]["strategy"].removesuffix("-offload") in OVERHEAD,
            "findings": [f.code for f in findings.of(cell) if f.severity != "note"],
        }
    same = {k: v for k, v in values[base].items() if all(values[c][k] == v for c in members)}
    return {
        "name": name,
        "kind": kind,
        "protocol": same,
        "baseline": base,
        "baseline_devices": values[base]["devices"],
        "runs": runs,
    }


def _best_single(cell: str, kind: str | None, rates: dict[str, Estimate], values: dict[str, dict]) -> str | None:
    """The fastest cell with one device that does the same work: the same global batch, or in weak scaling one device's part."""
    wanted = values[cell]
    batch = wanted["global_batch"] / (wanted["devices"] if kind == "weak" else 1)
    same = ("model", "vocab_size", "corpus", "tokenizer", "seq_len")
    alike = [
        other
        for other, v in values.items()
        if v["devices"] == 1 and v["global_batch"] == batch and all(v[k] == wanted[k] for k in same)
    ]
    return max(alike, key=lambda other: rates[other].value, default=None)


def _ranking(rates: dict[str, Estimate], values: dict[str, dict]) -> list[dict[str, Any]]:
    """For each number of devices: its cells, fastest first, each relative to the fastest. Only cells that do the same work."""
    same = ("devices", "model", "vocab_size", "corpus", "tokenizer", "seq_len", "global_batch")
    groups: dict[tuple, list[str]] = {}
    for cell, v in values.items():
        groups.setdefault(tuple(v[k] for k in same), []).append(cell)
    found = []
    for key, cells in sorted(groups.items(), key=lambda item: str(item[0])):
        cells.sort(key=lambda cell: -rates[cell].value)
        entries = [
            {
                "cell": cell,
                "tokens_per_sec_global": _shown(rates[cell]),
                "relative_to_fastest": _shown(ratio(rates[cell], rates[cells[0]])) if cell != cells[0] else None,
            }
            for cell in cells
        ]
        found.append(dict(zip(same, key, strict=True)) | {"cells": entries})
    return sorted(found, key=lambda group: group["devices"])


def _shown(estimate: Estimate | None) -> dict[str, Any] | None:
    return (
        None
        if estimate is None
        else {"value": estimate.value, "low": estimate.low, "high": estimate.high, "n": estimate.n}
    )
