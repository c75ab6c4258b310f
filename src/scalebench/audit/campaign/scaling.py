"""Findings on a scaling series: what cannot be, or what a reader must know before the curve is believed."""

from itertools import pairwise
from typing import Any

from scalebench.audit.finding import Finding

ABOVE = 1.02  # caches and clocks give a few parts in a hundred; beyond, an interval above 1 is not noise


def guard(series: dict[str, Any]) -> list[Finding]:
    """Findings of a described series (analysis/scaling.py): super-linear, not monotone, incomparable with its baseline."""
    points = list(series["runs"].values())
    return [*_super_linear(points), *_not_monotone(points), *_incomparable(series["baseline"], points)]


def _super_linear(points: list[dict[str, Any]]) -> list[Finding]:
    found = []
    for point in points:
        e = point["scaling_efficiency"]
        if e and e["low"] is not None and e["low"] > 1 and e["value"] > ABOVE:
            evidence = f"efficiency {e['value']:.3f}, 95 % interval {e['low']:.3f} to {e['high']:.3f}"
            found.append(
                _finding(
                    "super-linear",
                    point,
                    evidence,
                    "More than N times the rate of one Nth: the baseline was disturbed, or its working set does not fit "
                    "where that of the larger size does. Make the baseline anew before this is told.",
                )
            )
    return found


def _not_monotone(points: list[dict[str, Any]]) -> list[Finding]:
    """More devices with a lower rate, beyond both intervals."""
    found = []
    for smaller, larger in pairwise(points):
        a, b = smaller["tokens_per_sec_global"], larger["tokens_per_sec_global"]
        if larger["devices"] > smaller["devices"] and None not in (a["low"], b["high"]) and b["high"] < a["low"]:
            evidence = (
                f"{b['value']:,.0f} tokens/s on {larger['devices']} devices, {a['value']:,.0f} on {smaller['devices']}"
            )
            found.append(
                _finding(
                    "slower-with-more",
                    larger,
                    evidence,
                    "Adding devices made it slower. Communication or a shared resource is the limit; a trace of this cell tells which.",
                    "note",
                )
            )
    return found


def _incomparable(baseline: str, points: list[dict[str, Any]]) -> list[Finding]:
    return [
        _finding(
            "incomparable-baseline",
            point,
            f"{', '.join(point['incomparable'])} differ{'s' if len(point['incomparable']) == 1 else ''} from {baseline}",
            "A speed-up over this baseline would measure these as well, so none is given. Make both anew in one environment.",
        )
        for point in points
        if point["incomparable"]
    ]


def _finding(code: str, point: dict[str, Any], evidence: str, advice: str, severity: str = "suspect") -> Finding:
    runs = [f"{point['cell']}/rep{k}" for k in point["repeats"]]
    return Finding(code=code, severity=severity, cells=[point["cell"]], runs=runs, evidence=evidence, advice=advice)
