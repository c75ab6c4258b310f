"""What belongs together, once all files are read: facts beside runs, copies, checkpoints, tables in pieces."""

import hashlib
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

from scaleproof.auditor.read import published_claims
from scaleproof.auditor.read.configurations import attach_configurations
from scaleproof.auditor.read.reading import Reading
from scaleproof.auditor.read.reported import Evidence, ReportedRun
from scaleproof.auditor.read.reported_tables import ReportedTable
from scaleproof.auditor.read.run_fields import Fields, complete_from_name, debug_settings_in

SHARED = 0.6  # of the headings that pieces of one table have in common


def complete_runs(reading: Reading, given: dict[str, dict[str, int]]) -> None:
    """Complete every run by what is said about it elsewhere: claims files, configurations, its name, and `given`, facts
    by a part of a run's or file's name (from the command line; the longest part first).
    """
    for run in reading.evidence.runs:
        _complete(run, reading.scopes, reading.launchers.get(run.details.get("folder", "")))
        for part, facts in sorted(given.items(), key=lambda item: -len(item[0])):
            if part in run.name or part in run.files[0]:
                published_claims.complete(run, facts)
        complete_from_name(run)
        _mark_traced(run, reading.evidence)
    if reading.evidence.runs:
        attach_configurations(reading)


def settle(reading: Reading) -> None:
    """Leave every run once, under a name of its own, and join results that stand in one file each to one table."""
    evidence = reading.evidence
    _name_copies(reading)
    _join_checkpoints(evidence)
    _tell_apart(evidence.runs)
    evidence.tables = _join_tables(evidence.tables)


def _complete(
    run: ReportedRun, scopes: list[tuple[str, dict[str, dict[str, Any]]]], launcher: dict[str, Any] | None
) -> None:
    """Complete a run by claims files at or above its folder (`scopes`: folder, and facts by a part of a run's name) and
    by what its launcher noted (None without).
    """
    for folder, runs in scopes:
        if os.path.commonpath([folder, run.details["folder"]]) == folder:
            for part, facts in runs.items():
                if published_claims.matching(run.name, part):
                    published_claims.complete(run, facts)
    if launcher:
        top = Fields(launcher, run.problems)
        run.debug_settings |= debug_settings_in({**_mapping(launcher.get("nccl_env")), **_mapping(launcher.get("env"))})
        run.hosts = run.hosts or top.part("slurm").text("nodelist")
        run.details["launcher_world"] = top.count("world_size")


def _mapping(value: Any) -> dict[str, Any]:
    return {str(k): v for k, v in value.items()} if isinstance(value, dict) else {}


def _mark_traced(run: ReportedRun, evidence: Evidence) -> None:
    """Note a capture of Nsight Systems in the run's own folder, or in one like `profiles/` below it."""
    folder = Path(run.details["folder"])
    inside = [
        t
        for t in evidence.traced_folders
        if Path(t) == folder or (Path(t).parent == folder and Path(t).name.startswith(("profil", "nsys", "trace")))
    ]
    if inside and sum(other.details["folder"] == str(folder) for other in evidence.runs) == 1:
        run.debug_settings["nsys"] = "on"


def _name_copies(reading: Reading) -> None:
    """Note files with the same bytes, and mark the runs of all but the first of them as copies."""
    by_size: dict[int, list[str]] = defaultdict(list)
    for name, path in reading.paths.items():
        by_size[path.stat().st_size].append(name)
    first_of: dict[str, str] = {}
    for size, names in by_size.items():
        if len(names) < 2 or size == 0:
            continue
        by_digest: dict[str, list[str]] = defaultdict(list)
        for name in names:
            with reading.paths[name].open("rb") as file:
                by_digest[hashlib.file_digest(file, "sha256").hexdigest()].append(name)
        for same in by_digest.values():
            if len(same) > 1:
                reading.evidence.copies.append(same)
                first, *others = same
                first_of |= dict.fromkeys(others, first)
    for run in reading.evidence.runs:
        if run.files and run.files[0] in first_of:
            run.copy_of = first_of[run.files[0]]


def _join_checkpoints(evidence: Evidence) -> None:
    """Join states that a trainer saved along one run (`checkpoint-500`, `checkpoint-1000`, ...) to the last one,
    which has all that the others have.
    """
    grouped: dict[tuple[str, str], list[ReportedRun]] = defaultdict(list)
    for run in evidence.runs:
        if run.format == "HF Trainer state":
            folder = Path(run.files[0]).parent
            home = folder.parent if folder.name.startswith("checkpoint") else folder
            start = repr([(s.step, s.loss) for s in run.logged_steps[:1]])
            grouped[(str(home), start)].append(run)
    dropped: set[int] = set()
    for (home_name, _), runs in grouped.items():
        if len(runs) < 2:
            continue
        runs.sort(key=lambda r: (len(r.logged_steps), bool(r.timed_spans)))
        last = runs[-1]
        steps = _losses(last)
        parts = [run for run in runs[:-1] if _losses(run) == steps[: len(run.logged_steps)]]
        last.details["checkpoints"] = len(parts)
        last.files += [run.files[0] for run in parts]
        if parts and home_name != ".":
            last.name = home_name
        dropped |= {id(run) for run in parts}
    evidence.runs = [run for run in evidence.runs if id(run) not in dropped]


def _losses(run: ReportedRun) -> list[tuple[int, float | None]]:
    return [(logged.step, logged.loss) for logged in run.logged_steps]


def _tell_apart(runs: list[ReportedRun]) -> None:
    """Make names unique: a second run in the same folder goes by its file."""
    seen: dict[str, int] = {}
    for run in runs:
        count = seen[run.name] = seen.get(run.name, 0) + 1
        if count > 1:
            file = run.files[0]
            run.name = file if file not in seen else f"{file} ({count})"
            seen.setdefault(run.name, 1)


def _join_tables(tables: list[ReportedTable]) -> list[ReportedTable]:
    """Return the tables, with those of one row and of the same headings in files beside each other joined to one."""
    joined: list[ReportedTable] = []
    pieces: dict[tuple[str, str], list[ReportedTable]] = defaultdict(list)
    repeated = _repeated(tables)
    for table in tables:
        if table.form in ("JSON", "CSV") and len(table.rows) == 1:
            path = Path(table.file)
            home = path.parent.parent if path.name in repeated else path.parent  # a/results.json, b/results.json, ...
            pieces[(str(home), table.form)].append(table)
        else:
            joined.append(table)
    for (folder, form), group in pieces.items():
        while group:
            first = group[0]
            headings = _understood_headings(first)
            alike = [table for table in group if _alike(headings, _understood_headings(table))]
            group = [table for table in group if table not in alike]
            if len(alike) == 1:
                joined.append(first)
                continue
            rows = [row for table in alike for row in table.rows]
            for row in rows:
                row.label = row.label or row.file
            columns = list({column.heading: column for table in alike for column in table.columns}.values())
            joined.append(
                ReportedTable(f"{folder}/*{Path(first.file).suffix}", 1, f"{form}, one file a row", columns, rows)
            )
    return joined


def _repeated(tables: list[ReportedTable]) -> set[str]:
    """Names that files in several folders have, like results.json."""
    seen: dict[str, set[str]] = defaultdict(set)
    for table in tables:
        path = Path(table.file)
        seen[path.name].add(str(path.parent))
    return {name for name, folders in seen.items() if len(folders) > 1}


def _understood_headings(table: ReportedTable) -> set[str]:
    return {column.heading for column in table.columns if column.kind}


def _alike(a: set[str], b: set[str]) -> bool:
    """Whether two sets of headings are those of one table: they have most in common."""
    return len(a & b) >= SHARED * max(len(a | b), 1)
