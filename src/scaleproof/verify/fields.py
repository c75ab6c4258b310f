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
from scaleproof.verify.contents import csv_of, json_of
from scaleproof.verify.raw import Difference, RawRun, close
from scaleproof.verify.raw_cells import BATCHLESS, RawAnswer, RawCell, comparable
from scaleproof.verify.recompute import devices

REPORT = "scaling_report.json"
CONFIDENCE = 0.95
LEVELS = ("printed", "watched", "built")  # of evidence, the weakest first
NAMES = ("id", "cell", "text", "rank")  # of an entry in a list, which no other one there has
TABLES = ("scaling", "strong", "weak", "comparison")
KEYS_OF_ROWS = ("cell", "repeat", "step", "name")  # of a row in a CSV file
LAW_OF = {"strong": "amdahl", "weak": "gustafson", None: None}
# Part of a waterfall -> where its milliseconds are from; that of the local batch is a cell.
SOURCES = {
    "exposed transfer": "trace",
    "waiting for the slowest rank": "trace",
    "exposed communication": "trace",
    "waiting for data": "timed runs",
    "host gaps": "traces",
    "smaller local batch": None,
}


def differing(file: str, where: str, stated: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the fields that are others than expected; figures may differ in their last digits."""
    for name, value in expected.items():
        is_figure = isinstance(value, float) and name in stated
        if not (close(stated[name], value, 1e-6) if is_figure else stated.get(name) == value):
            yield Difference(file, f"{where}, {name}".lstrip(", "), f"is {stated.get(name)}, the runs give {value}")


def check_repeated(folder: Path) -> Iterator[Difference]:
    """Yield entries of the files of results that stand there twice: by their names, of CSV files by cell and step."""
    for file in ("scaling_report.json", "claims.json", "comparison.json", "waterfall.json", "traces.json"):
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


def check_report(answer: RawAnswer, folder: Path) -> Iterator[Difference]:
    """Yield the fields of scaling_report.json that are not those of its runs, or of findings.json."""
    report = answer.report
    runs = [run for cell in answer.cells.values() for run in cell.runs]
    findings = json_of(folder / "findings.json")["findings"]
    concerning = [one for one in findings if one.get("concerns", "runs") in ("runs", "scaling")]
    invalid = sorted({finding["code"] for finding in concerning if finding["severity"] == "invalid"})
    expected: dict[str, Any] = {"confidence": CONFIDENCE, "clock": "window", "mismatches": invalid}
    expected["status"] = "invalid_comparison" if invalid else "ok"
    if runs:
        expected["unit"] = runs[0].metrics.get("unit", "tokens")
        expected["evidence"] = min((run.metrics.get("evidence", "built") for run in runs), key=LEVELS.index)
    yield from differing(REPORT, "", report, expected)
    for series in report["series"]:
        base = answer.cells.get(series["baseline"])
        law = {"law": LAW_OF[series["kind"]]}
        yield from differing(REPORT, series["name"], series, {"baseline_devices": base.devices} if base else {})
        yield from differing(REPORT, f"{series['name']}, law", series["law"] or law, law)
        for point in series["runs"].values():
            cell = answer.cells.get(point["cell"])
            if cell:
                yield from differing(REPORT, point["cell"], point, _of_point(cell, point))
            if cell and base:
                yield from _check_incomparable(point["incomparable"], cell, base)
    yield from _check_groups(report, answer)


def _of_point(cell: RawCell, point: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a size of a series says of its runs."""
    seconds = [run.metrics["window"]["wall_time_sec"] for run in cell.runs]
    return {
        "n": len(cell.runs),
        "repeats": sorted(run.metrics["repeat"] for run in cell.runs),
        "window_wall_time_sec": statistics.fmean(seconds),
        "metrics_paths": [f"{path.split('runs/')[0]}{run.path}" for path, run in _by_repeat(point, cell)],
    }


def _check_incomparable(fields: Sequence[str], cell: RawCell, base: RawCell) -> Iterator[Difference]:
    """Yield the fields in which two cells are said to differ, and do not."""
    own, of_base = _machine(cell), _machine(base)
    for name in set(fields) & own.keys() & of_base.keys():
        if own[name] == of_base[name]:
            yield Difference(REPORT, cell.name, f"does not differ from {base.name} in {name}")


def _machine(cell: RawCell) -> dict[str, set[str]]:
    """Return code, versions and machine of a cell's runs: field -> all of its values."""
    values: dict[str, set[str]] = {}
    for run in cell.runs:
        hardware = run.metrics["hardware"]
        fields = {"code": run.metrics["code_sha256"], "os": run.metrics["host"]["os"], **run.metrics["env"]}
        for name, value in (fields | {key: hardware[key] for key in ("cpu_model", "cpu_count")}).items():
            values.setdefault(name, set()).add(str(value))
    return values


def _by_repeat(point: Mapping[str, Any], cell: RawCell) -> list[tuple[str, RawRun]]:
    """Return the paths that a size states, each with the run that should stand there."""
    runs = sorted(cell.runs, key=lambda run: int(run.metrics["repeat"]))
    return list(zip([*point["metrics_paths"], *[""] * len(runs)], runs, strict=False))


def _check_groups(report: Mapping[str, Any], answer: RawAnswer) -> Iterator[Difference]:
    """Yield where the rankings are not of the cells that do the same work on as many devices, or name other work."""
    groups: dict[tuple[object, ...], set[str]] = {}
    for cell in answer.cells.values():
        groups.setdefault((cell.devices, *cell.work, cell.batch), set()).add(cell.name)
    stated = [{entry["cell"] for entry in ranking["cells"]} for ranking in report["ranking"]]
    for group in groups.values():
        if group not in stated:
            yield Difference(REPORT, "ranking", f"has none of {', '.join(sorted(group))} alone")
    for ranking in report["ranking"]:
        where = f"ranking on {ranking['devices']} devices"
        first = answer.cells.get(ranking["cells"][0]["cell"])
        if first is None:
            continue
        has_name = isinstance(first.config["workload"].get("model"), str)  # else it is described in words
        named = {name: value for name, value in zip(BATCHLESS, first.work, strict=True) if name != "model" or has_name}
        texts = {name: str(ranking[name]) for name in BATCHLESS}
        yield from differing(REPORT, where, {**texts, **_numbers(ranking)}, {**named, **_numbers_of(first)})
        for entry in ranking["cells"]:
            member = answer.cells.get(entry["cell"])
            if member:
                yield from differing(REPORT, entry["cell"], entry, {"strategy": member.strategy})
                yield from _check_incomparable(entry["incomparable"], member, first)
        letters = set("".join(entry["letters"] for entry in ranking["cells"]))
        if letters != {chr(ord("a") + place) for place in range(len(letters))} and len(letters) <= 26:
            yield Difference(REPORT, f"{where}, letters", f"has {''.join(sorted(letters))}, not the first of all")
        if bool(letters) != bool(ranking["method"]) and len(comparable(ranking)) > 1:
            yield Difference(REPORT, f"{where}, letters", "are there without a comparison, or are missing")


def _numbers(ranking: Mapping[str, Any]) -> dict[str, Any]:
    return {name: ranking[name] for name in ("devices", "global_batch")}


def _numbers_of(cell: RawCell) -> dict[str, Any]:
    return {"devices": cell.devices, "global_batch": cell.batch}


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
