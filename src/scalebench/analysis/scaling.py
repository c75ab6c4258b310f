"""Speed-up and efficiency: scaling_report.json."""

from typing import Any

from scalebench.analysis.collect import by_cell, configuration, throughput
from scalebench.analysis.intervals import Estimate, ratio, scaled
from scalebench.audit.finding import Findings
from scalebench.record.run import METRICS, Run

SCHEMA_VERSION = "3.0"
SPREAD = ("geometry", "nodes", "devices", "micro_batch", "accumulation")  # what a strong-scaling series may change


def scaling_report(campaign: str, title: str, runs: list[Run], findings: Findings) -> dict[str, Any]:
    """Strong scaling of each series of cells that differ in nothing but the number of devices.

    The baseline of a speed-up is the same series at its smallest world size; a second one is the fastest measured cell
    with one device and the same global batch. `status` is `invalid_comparison` where an `invalid` finding
    concerns a cell of a series; figures are kept, so that they can be looked at, and carry the codes.
    """
    cells = {cell: [r for r in group if r.ok] for cell, group in by_cell(runs).items()}
    measured = {cell: group for cell, group in cells.items() if group}
    rates = {cell: throughput(group) for cell, group in measured.items()}
    series = []
    for members in _series(measured).values():
        members.sort(key=lambda cell: configuration(measured[cell][0])["devices"])
        series.append(_describe(members, measured, rates, findings))
    invalid = any(f.severity == "invalid" for f in findings.findings)
    return {
        "schema_version": SCHEMA_VERSION,
        "campaign": campaign,
        "title": title,
        "kind": "strong",
        "clock": "window",
        "confidence": 0.95,
        "status": "invalid_comparison" if invalid else "ok",
        "mismatches": [f.model_dump() for f in findings.findings if f.severity == "invalid"],
        "series": series,
    }


def _series(measured: dict[str, list[Run]]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for cell, group in measured.items():
        fixed = {k: v for k, v in configuration(group[0]).items() if k not in SPREAD}
        grouped.setdefault(repr(fixed), []).append(cell)
    return grouped


def _describe(
    members: list[str], measured: dict[str, list[Run]], rates: dict[str, Estimate], findings: Findings
) -> dict:
    first = configuration(measured[members[0]][0])
    fixed = {k: v for k, v in first.items() if k not in SPREAD}
    single = _best_single(fixed, measured, rates)
    runs = {}
    for cell in members:
        values, group = configuration(measured[cell][0]), measured[cell]
        speedup = ratio(rates[cell], rates[members[0]]) if cell != members[0] else None
        share = values["devices"] / first["devices"]
        runs[values["geometry"]] = {
            "cell": cell,
            "devices": values["devices"],
            "metrics_paths": [str(run.folder / METRICS) for run in group],
            "n": len(group),
            "tokens_per_sec_global": _shown(rates[cell]),
            "window_wall_time_sec": sum(r.metrics.window.wall_time_sec for r in group) / len(group),
            "speedup": _shown(speedup),
            "scaling_efficiency": _shown(scaled(speedup, 1 / share) if speedup else None),
            "speedup_vs_best_single": _shown(ratio(rates[cell], rates[single]) if single and single != cell else None),
            "findings": [f.code for f in findings.of(cell)],
        }
    return {
        "name": f"{first['strategy']} {first['precision']}",
        "protocol": fixed,
        "baseline": members[0],
        "baseline_devices": first["devices"],
        "best_single": single,
        "runs": runs,
    }


def _best_single(fixed: dict, measured: dict[str, list[Run]], rates: dict[str, Estimate]) -> str | None:
    same = ("model", "corpus", "tokenizer", "seq_len", "global_batch", "threads_per_device")
    alike = [
        cell
        for cell, group in measured.items()
        if (values := configuration(group[0]))["devices"] == 1 and all(values[k] == fixed[k] for k in same)
    ]
    return max(alike, key=lambda cell: rates[cell].value) if alike else None


def _shown(estimate: Estimate | None) -> dict[str, Any] | None:
    return (
        None
        if estimate is None
        else {"value": estimate.value, "low": estimate.low, "high": estimate.high, "n": estimate.n}
    )
