"""Parts of result files as tests need them: what a test does not say is as in a sound campaign."""

from typing import Any

from scaleproof.ground.findings.forecast_report import ForecastRow
from scaleproof.ground.records.comparison_report import AbComparison, ComparisonReport, Paired
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import (
    AnsweredQuestion,
    RankedCell,
    Resolution,
    ScalingPoint,
    ScalingReport,
    ScalingSeries,
    SizeRanking,
)


def estimated(value: float, low: float | None = None, high: float | None = None, n: int = 3) -> Estimated:
    return Estimated(value=value, low=low, high=high, n=n)


def paired(**changes: Any) -> Paired:
    """B is 5 % faster."""
    fields: dict[str, Any] = {"ratio": 1.05, "low": 1.03, "high": 1.07, "n": 2, "floor": 0.01, "claim": "faster"}
    fields |= {"detectable_low": 0.02, "detectable_high": 0.09, "pairs_low": 8, "pairs_high": 20, "overstated": False}
    return Paired(**fields | {"ratios": [1.04, 1.06], "null_ratios": [1.0, 1.01]} | changes)


def comparison(estimate: Paired | None, **changes: Any) -> AbComparison:
    fields: dict[str, Any] = {"name": "fused", "a": "x", "b": "y", "declared": {}, "status": "ok", "why": None}
    return AbComparison(**fields | {"pairs": 4, "findings": [], "estimate": estimate} | changes)


def comparisons(*entries: AbComparison) -> ComparisonReport:
    return ComparisonReport(campaign="synthetic", confidence=0.95, comparisons=list(entries))


def scaling(**changes: Any) -> ScalingReport:
    """Of nothing."""
    fields: dict[str, Any] = {"campaign": "demo", "title": "", "confidence": 0.95, "status": "ok", "mismatches": []}
    return ScalingReport(**fields | {"series": [], "ranking": []} | changes)


def series(**changes: Any) -> ScalingSeries:
    fields: dict[str, Any] = {"name": "ddp", "strategy": "ddp", "kind": "strong", "protocol": {}, "law": None}
    return ScalingSeries(**fields | {"baseline": "ddp-n1x1", "baseline_devices": 1, "runs": {}} | changes)


def point(cell: str, devices: int = 1, n: int = 3, **changes: Any) -> ScalingPoint:
    """A size whose ratios are not known."""
    fields: dict[str, Any] = dict.fromkeys(("speedup", "scaling_efficiency", "speedup_by_job_wall_time", "verdict"))
    fields |= dict.fromkeys(("karp_flatt", "best_single", "speedup_vs_best_single"))
    fields |= {"repeats": list(range(1, n + 1)), "metrics_paths": [], "window_wall_time_sec": 1.0}
    fields |= {"incomparable": [], "best_single_incomparable": [], "overhead_only": False}
    rate = estimated(1000.0, n=n)
    return ScalingPoint(**{"cell": cell, "devices": devices, "n": n, "tokens_per_sec_global": rate} | fields | changes)


def resolution(n: int, detectable: float) -> Resolution:
    further = {"repeats": n, "detectable": detectable}
    return Resolution(effect=0.05, n=n, repeats=None, detectable=detectable, further=further)


def question(**changes: Any) -> AnsweredQuestion:
    return AnsweredQuestion(**{"is": "a", "better_than": "b", "by": 0.0} | changes)


def ranked(cell: str, letters: str = "") -> RankedCell:
    rate = estimated(1000.0)
    none = {"relative_to_fastest": None, "incomparable": []}
    return RankedCell(cell=cell, strategy="ddp", tokens_per_sec_global=rate, letters=letters, **none)


def ranking(*cells: RankedCell, resolve: Resolution | None = None) -> SizeRanking:
    work: dict[str, Any] = {"devices": 2, "model": "m", "vocab_size": 8, "corpus": "c", "tokenizer": "t", "seq_len": 8}
    known: dict[str, Any] = {"global_batch": 8, "method": None, "claims": 0, "fastest_shown": False}
    return SizeRanking(cells=list(cells), resolve=resolve, recommendation=None, **work, **known)


def forecast_row(
    cell: str, devices: int, value: float | None, measured: float | None = None, half: float = 0.1, **changes: Any
) -> ForecastRow:
    """A forecast with an interval of `half` its value to either side; refused without a value."""
    fields: dict[str, Any] = {"cell": cell, "strategy": "ddp", "devices": devices, "level": 0.95, "n": 3, "wide": False}
    fields |= {"construction": "leave-largest-out", "made_utc": "2026-11-01T10:00:00Z", "tokens_per_step": 1000}
    fields |= {"relatives": [], "measured_s": measured, "inside": None, "error": None, "wide": half > 0.15}
    if value is None:
        fields |= {"refusal": "group-too-large", "reason": "1x8 has too many devices", "measure": "run ddp on 1x8"}
    else:
        low, high = value * (1 - half), value * (1 + half)
        fields |= {"value": value, "low": low, "high": high}
        fields |= {"inside": low <= measured <= high, "error": value / measured - 1} if measured else {}
    return ForecastRow(**fields | changes)
