"""Fields of results that repeat or count what other files have: of reports, A/B comparisons, waterfalls and traces."""

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from scaleproof.ground.comparison import dotted_items
from scaleproof.ground.records.claims import ClaimsReport
from scaleproof.ground.records.comparison_report import ComparisonReport
from scaleproof.ground.records.result_file import ResultPart
from scaleproof.ground.records.scaling_report import ScalingReport
from scaleproof.ground.records.traces_report import TracesReport
from scaleproof.ground.records.waterfall_report import WaterfallReport
from scaleproof.verify.contents import csv_of, json_of
from scaleproof.verify.raw import Difference, RawRun, differing
from scaleproof.verify.recompute import devices

CONFIDENCE = 0.95
NAMES = ("id", "cell", "text", "rank")  # of an entry in a list, which no other one there has
MODELS: dict[str, type[ResultPart]] = {
    "scaling_report.json": ScalingReport,
    "comparison.json": ComparisonReport,
    "waterfall.json": WaterfallReport,
    "traces.json": TracesReport,
    "claims.json": ClaimsReport,
}
TABLES = ("scaling", "strong", "weak", "comparison")
KEYS_OF_ROWS = ("cell", "repeat", "step", "name")  # of a row in a CSV file
# Part of a waterfall -> where its milliseconds are from; that of the local batch is a cell.
SOURCES = {
    "exposed transfer": "trace",
    "waiting for the slowest rank": "trace",
    "exposed communication": "trace",
    "waiting for data": "timed runs",
    "host gaps": "traces",
    "smaller local batch": None,
}


def check_left_out(folder: Path) -> Iterator[Difference]:
    """Yield the fields of files of results that are not there, and that their schemas of today have."""
    for file, model in MODELS.items():
        stated = json_of(folder / file) if (folder / file).exists() else {}
        current = model.model_fields["schema_version"].default
        if stated and stated.get("schema_version") in (None, current):
            whole = model.model_validate(stated).model_dump(mode="json")
            yield from (Difference(file, name, "is not there") for name in _left_out(stated, whole))


def _left_out(stated: Any, whole: Any, at: str = "") -> Iterator[str]:
    """Yield the places of what a content of JSON leaves out. `whole`: the same with all of its fields."""
    if isinstance(whole, dict):
        yield from (f"{at}{name}" for name in whole.keys() - stated.keys())
    pairs = whole.items() if isinstance(whole, dict) else enumerate(whole) if isinstance(whole, list) else ()
    for key, part in pairs:
        if isinstance(stated, list) or key in stated:
            yield from _left_out(stated[key], part, f"{at}{key}, ")


def check_repeated(folder: Path) -> Iterator[Difference]:
    """Yield entries of the files of results that stand there twice: by their names, of CSV files by cell and step."""
    for file in MODELS:
        if (folder / file).exists():
            yield from (Difference(file, name, "stands there twice") for name in _repeated(json_of(folder / file)))
    for file in ("runs.csv", "cells.csv", "losses.csv", *(f"tables/{name}.csv" for name in TABLES)):
        rows = csv_of(folder / file) if (folder / file).exists() else []
        keys = [" ".join(row[name] for name in KEYS_OF_ROWS if name in row) for row in rows]
        yield from (Difference(file, key, "stands there twice") for key, n in Counter(keys).items() if n > 1)


def _repeated(content: object) -> Iterator[str]:
    """Yield the names that two entries of one list have."""
    inner = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    entries = [entry for entry in inner if isinstance(content, list) and isinstance(entry, dict)]
    for key in NAMES:
        names = [str(entry[key]) for entry in entries if key in entry]
        yield from (name for name, n in Counter(names).items() if n > 1)
    for entry in inner:
        yield from _repeated(entry)


def check_pairs(
    entry: Mapping[str, Any], listed: Sequence[Mapping[str, Any]], runs: Sequence[RawRun], cells: Sequence[RawRun]
) -> Iterator[Difference]:
    """Yield the fields of an A/B comparison that are not those of its runs.

    `listed`: of pairs.json; `cells`: runs of the campaign's own cells.
    """
    file, name = "comparison.json", entry["name"]
    configs = {run.cell: run.metrics["config"] for run in runs}
    declared = _differences(configs.get(entry["a"], {}), configs.get(entry["b"], {}))
    yield from differing(file, name, entry, {"status": "ok", "why": None, "pairs": len(listed), "declared": declared})
    for arm, stated in (entry.get("arms") or {}).items():
        own = [run for run in runs if run.cell == entry[arm]]
        yield from differing(file, f"{name}, tokens/s of {arm.upper()}", stated["tokens_per_s"], {"n": len(own)})
        if not own:
            continue
        by_any_strategy = {"execution.strategy"} if devices(own[0]) == 1 else set()
        of_arm = own[0].metrics["config"]
        alike = {
            run.cell for run in cells if _differences(of_arm, run.metrics["config"]).keys() in (set(), by_any_strategy)
        }
        known = {run.cell for run in cells}
        if alike != known & set(stated["same_work"]):
            other = ", ".join(sorted(alike ^ (known & set(stated["same_work"]))))
            yield Difference(file, f"{name}, {arm.upper()}, same_work", f"is another of {other}")


def _differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the keys of two configurations that differ, "section.key", with both values."""
    one, two = dict(dotted_items(a)), dict(dotted_items(b))
    return {key: [one.get(key), two.get(key)] for key in one.keys() | two.keys() if one.get(key) != two.get(key)}


def check_waterfalls(
    entries: Mapping[str, Mapping[str, Any]],
    cells: Mapping[str, Sequence[RawRun]],
    bases: Mapping[str, tuple[str, str]],
) -> Iterator[Difference]:
    """Yield the fields of waterfalls that are not those of their runs. `bases`: cell -> its baseline, its scaling."""
    file = "waterfall.json"
    for cell in entries.keys() & bases.keys():
        entry, (base, kind) = entries[cell], bases[cell]
        strategy = cells[cell][0].metrics["config"]["execution"]["strategy"]
        expected = {"strategy": strategy, "baseline": base, "kind": kind, "n": len(cells[cell])}
        yield from differing(file, cell, entry, expected)
        names = [part["name"] for part in entry["parts"]]
        if len(set(names)) < len(names):
            yield Difference(file, cell, "has a part twice")
        for part in entry["parts"]:
            source = SOURCES.get(part["name"], "")
            if source == "" or (source and part["ms"] is not None and part["source"] != source):
                yield Difference(file, f"{cell}, {part['name']}", f"is no part of a step by {part['source']}")


def check_trace(trace: Mapping[str, Any], profile: Mapping[str, Any], runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield the fields of a trace that are not those of its profile, or of the timed runs of its cell."""
    steps = profile.get("per_step", [])
    phases = {name for step in steps for name in step["ranges_ms"]}
    means = {name: statistics.fmean(step["ranges_ms"].get(name, 0.0) for step in steps) for name in phases}
    file, cell = "traces.json", trace["cell"]
    yield from differing(file, f"{cell}, phases_ms", trace["phases_ms"], means)
    coverage = profile.get("coverage") or {}
    expected = {"classified_share": coverage.get("classified_share"), "file": f"traces/{cell}/profile_summary.json"}
    yield from differing(file, cell, trace, expected)
    alike = [run for run in runs if run.ok and run.metrics["fingerprint"] == profile.get("fingerprint")]
    windows = [run.metrics["window"]["wall_time_sec"] / len(run.window) for run in alike]
    traced = profile.get("step_time_ms") or []
    if not windows or not traced:  # maybe as the files of its cell are at fault
        return
    logs = np.log(1e3 * np.array(windows))
    ratio = statistics.fmean(traced) / math.exp(logs.mean())
    overhead: dict[str, Any] = {"value": ratio, "n": len(logs), "timed_step_ms": math.exp(logs.mean())}
    if len(logs) > 1:  # where one further run would lie
        half = stats.t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1) * math.sqrt(logs.var(ddof=1) * (1 + 1 / len(logs)))
        overhead |= {"low": ratio * math.exp(-half), "high": ratio * math.exp(half)}
    yield from differing(file, f"{cell}, overhead", trace["overhead"] or {}, overhead)
