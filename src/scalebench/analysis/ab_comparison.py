"""comparison.json: every A/B comparison of a campaign, from its pairs of runs."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from scalebench.analysis.confidence import CONFIDENCE
from scalebench.analysis.paired_test import compare
from scalebench.audit.campaign.all_checks import audit
from scalebench.campaign.cells import Cell
from scalebench.errors import damaged
from scalebench.record.run import METRICS, Run, read_run

SCHEMA_VERSION = "1.0"


def comparison_report(campaign: str, comparisons: dict[str, tuple[Cell, Cell, Path]]) -> dict[str, Any]:
    """`comparisons`: name -> both arms and the pairs.json that their runs are listed in."""
    return {
        "schema_version": SCHEMA_VERSION,
        "campaign": campaign,
        "confidence": CONFIDENCE,
        "comparisons": [_describe(name, a, b, path) for name, (a, b, path) in comparisons.items()],
    }


def _describe(name: str, a: Cell, b: Cell, path: Path) -> dict[str, Any]:
    """`status`: ok; incomplete (fewer than two whole pairs of a kind); invalid (a check failed); incomparable."""
    try:
        entries = json.loads(path.read_bytes())["pairs"]
    except (ValueError, TypeError, KeyError) as error:
        raise damaged(path, f"it has no pairs: {error}"[:100]) from None
    pairs = [(entry, _arm(entry["a"]), _arm(entry["b"])) for entry in entries]
    whole = [(entry, x, y) for entry, x, y in pairs if x.ok and y.ok]
    ratios = {null: [_rate(y) / _rate(x) for e, x, y in whole if e["null"] == null] for null in (False, True)}
    findings = audit(name, [run for _, *both in whole for run in both]).findings
    invalid = sorted({f.code for f in findings if f.severity == "invalid"})
    other = [f.evidence for f in findings if f.code == "surroundings-differ"]
    failures = [run.metrics.failure for _, *both in pairs for run in both if run.metrics.failure]
    if min(len(values) for values in ratios.values()) < 2:
        reasons = dict.fromkeys(f"{f.failure_class}: {f.reason}" for f in failures)
        status, why = "incomplete", "; ".join(reasons) or "fewer than two pairs"
    elif invalid:
        status, why = "invalid", ", ".join(invalid)
    elif other:
        status, why = "incomparable", "; ".join(other)
    else:
        status, why = "ok", None
    return {
        "name": name,
        "a": a.slug,
        "b": b.slug,
        "declared": differences(a.config, b.config),
        "status": status,
        "why": why,
        "pairs": len(pairs),
        "estimate": asdict(compare(ratios[False], ratios[True])) if status == "ok" else None,
        "findings": [f.model_dump() for f in findings if f.code not in ("surroundings-differ", "single-run")],
        "metrics_paths": [str(run.folder / METRICS) for _, *both in pairs for run in both],
    }


def _arm(folder: str) -> Run:
    return replace(read_run(Path(folder)), label="/".join(Path(folder).parts[-3:]))


def _rate(run: Run) -> float:
    return run.metrics.window.tokens_per_s


def differences(a: dict, b: dict, at: str = "") -> dict[str, list]:
    """Keys of two effective configurations that differ, with both values."""
    found: dict[str, list] = {}
    for name in a:
        if isinstance(a[name], dict) and isinstance(b[name], dict):
            found |= differences(a[name], b[name], f"{at}{name}.")
        elif a[name] != b[name]:
            found[f"{at}{name}"] = [a[name], b[name]]
    return found
