"""From files and folders to evidence: what each file is, is told by what is in it, not by its name."""

import csv
import itertools
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scalebench.errors import UserError
from scalebench.importers import csv_tables, logs, metrics_json, published_claims, text_files
from scalebench.importers.debug_settings import debug_settings_in
from scalebench.importers.fields import Fields, figure
from scalebench.importers.reported import Evidence, ReportedRun, ScalingReport, Unread
from scalebench.importers.run_names import complete_from_name
from scalebench.importers.text_files import Unreadable, printable
from scalebench.record.run import METRICS
from scalebench.record.steps import COLUMNS

FURTHER = 2 << 20  # bytes of a text in which a log's dialect is looked for
# A file that breaks a reader in one of these ways is reported like one that cannot be read.
BREAKS = (ValueError, TypeError, KeyError, IndexError, AttributeError, ArithmeticError, RecursionError, StopIteration, csv.Error)  # fmt: skip
SERIES = ",".join(COLUMNS[:3])  # how the series of our own runs begins
NO_NUMBERS = ("failed", "not_applicable")
COMPLETE = re.compile(r"RUN_COMPLETE .*\bworld_size=")
MARKS = re.compile(
    r'"(training_config|train_time_per_epoch|log_history|nccl_env|tokens_per_sec\w*)":'
)  # of JSON that is ours to read
TRACES = (b"(nvtx_sum):", b"(cuda_gpu_kern_sum):", b"(osrt_sum):", b"(cuda_api_sum):", text_files.SQLITE)
GENERIC = {"training_metrics.json", "metrics.csv", "metrics.json", "step_log.csv", "gpu_log.csv", "trainer_state.json", "train.log", "scaling_report.json"}  # fmt: skip


def gather(paths: list[Path], given: dict[str, dict[str, int]] | None = None) -> Evidence:
    """Read every file below `paths`; `given` has facts by a part of a run's name, "" for all runs.

    What a file says itself counts more than a claims file beside it, that more than `given`, that more than the run's name.
    Raises UserError where a path does not exist; all else is evidence or `unread`.
    """
    evidence = Evidence(named_files=set(paths))
    scopes: list[tuple[str, dict[str, dict[str, Any]]]] = []
    launchers: dict[str, dict[str, Any]] = {}
    for root in paths:
        if not os.path.lexists(root):
            raise UserError(f"{printable(str(root))}: no such file or folder")
        for path in _files(root, evidence):
            name = _name(root, path, len(paths) > 1)
            try:
                _read(path, name, evidence, scopes, launchers)
            except Unreadable as reason:
                evidence.unread.append(Unread(name, str(reason)))
            except OSError as error:
                evidence.unread.append(Unread(name, error.strerror or str(error)))
            except BREAKS as error:
                evidence.unread.append(
                    Unread(name, f"its contents are not what such a file has ({type(error).__name__})")
                )
    for claim in evidence.runs:
        _complete(claim, scopes, launchers.get(claim.details.get("folder", "")))
        for part, facts in sorted((given or {}).items(), key=lambda item: -len(item[0])):
            if part in claim.name or part in claim.files[0]:
                published_claims.complete(claim, facts)
        complete_from_name(claim)
        _traced(claim, evidence)
    _tell_apart(evidence.runs)
    return evidence


def _files(root: Path, evidence: Evidence) -> Iterator[Path]:
    """Regular files, in order. Runs of this program are noted as folders and left alone."""
    if not root.is_dir():
        yield root
        return

    def closed(error: OSError) -> None:
        evidence.unread.append(Unread(printable(os.path.relpath(error.filename, root)), error.strerror or str(error)))

    for folder, below, names in os.walk(root, onerror=closed):
        below[:] = sorted(d for d in below if not d.startswith(".") and d not in ("node_modules", "__pycache__"))
        here = Path(folder)
        if "training_metrics.json" in names and "steps.csv" in names and _own(here / "training_metrics.json"):
            evidence.own_runs.append(folder)
            continue
        for name in sorted(names):
            if stat.S_ISREG((here / name).lstat().st_mode) or (here / name).is_file():
                yield here / name


def _own(path: Path) -> bool:
    try:
        return bool(re.search(rb'"schema_version": *"3\.', text_files.head(path)))
    except Unreadable:
        return False


def _name(root: Path, path: Path, several: bool) -> str:
    base = root.parent if several or not root.is_dir() else root
    parts = path.relative_to(base)
    if not root.is_dir() and parts.name in GENERIC and root.absolute().parent.name:
        return printable(f"{root.absolute().parent.name}/{parts.name}")
    return printable(str(parts))


def _read(path: Path, name: str, evidence: Evidence, scopes: list, launchers: dict) -> None:
    start = text_files.head(path)
    if not start.strip():
        if path.name in GENERIC or path in evidence.named_files:
            raise Unreadable("it is empty")
        evidence.ignored.append(name)
    elif any(mark in start for mark in TRACES):
        evidence.traces.append(name)
        evidence.traced_folders.append(str(path.parent))
    elif (encoding := text_files.encoding(start)) is None:
        if path.name in GENERIC or path in evidence.named_files:
            raise Unreadable("it is binary")
        evidence.ignored.append(name)
    else:
        opening = start.decode("utf-16" if encoding == "utf-16" else encoding, errors="replace")
        opening = text_files.CONTROL.sub("", opening)
        if opening.startswith(SERIES) and not (path.parent / METRICS).is_file():
            raise Unreadable(f"the series of a run whose {METRICS} is not here: the run was lost or taken away")
        if not _as_json(path, name, encoding, opening, start, evidence, launchers) and not _as_text(
            path, name, encoding, opening, evidence, scopes
        ):
            if path.name == METRICS:
                raise Unreadable("it is not a metrics file of any known schema")
            evidence.ignored.append(name)


def _as_json(
    path: Path, name: str, encoding: str, opening: str, start: bytes, evidence: Evidence, launchers: dict
) -> bool:
    first = opening.lstrip()[:1]
    if first not in ("{", "["):
        return False
    try:
        data = json.loads(opening if len(start) < text_files.HEAD else text_files.whole(path, encoding))
    except (ValueError, RecursionError) as error:
        if first == "{" and (path.name in GENERIC or path in evidence.named_files or MARKS.search(opening)):
            raise Unreadable(f"it is cut off or no JSON: {str(error)[:100]}") from None
        return False
    if not isinstance(data, dict):
        return False
    folder = str(path.parent)
    if metrics_json.is_metrics(data):
        _claim(evidence, metrics_json.read_metrics(name, data), path)
    elif metrics_json.is_legacy(data):
        _claim(evidence, metrics_json.read_legacy(name, data), path)
    elif "log_history" in data and "global_step" in data:
        _claim(evidence, logs.read_trainer_state(name, data), path)
    elif "rank0_host" in data or "nccl_env" in data:
        launchers[folder] = data
    elif isinstance(data.get("status"), str) and ("protocol" in data or "mismatches" in data) and "series" not in data:
        evidence.scaling_reports.append(_report(name, data))
    elif "nvtx_top5" in data:
        evidence.traces.append(name)
    else:
        return False
    return True


def _as_text(path: Path, name: str, encoding: str, opening: str, evidence: Evidence, scopes: list) -> bool:
    folder = str(path.parent)
    if published_claims.is_claims_file(opening):
        scopes.append((folder, published_claims.read_claims_file(text_files.whole(path, encoding), evidence)))
        return True
    if COMPLETE.search(opening):
        pairs = dict(re.findall(r"(\w+)=(\S+)", opening))
        evidence.completions.append(
            {"name": name, "folder": folder, "world": figure(pairs.get("world_size")), "rate": figure(pairs.get("tokens_per_sec")), "wall": figure(pairs.get("total_wall_time_sec"))}
        )  # fmt: skip
        return True
    for place, header in enumerate(opening.splitlines()[:5]):
        if "," in header and (kind := csv_tables.kind_of(header)):
            lines = itertools.islice(text_files.lines(path, encoding), place + 1, None)
            _table(kind, name, path, header, lines, evidence)
            return True
    dialect = logs.dialect_of(opening)
    if dialect is None and len(opening) >= text_files.HEAD // 2:
        with path.open(encoding=encoding, errors="replace") as file:
            dialect = logs.dialect_of(text_files.CONTROL.sub("", file.read(FURTHER)))
    if dialect is None:
        return False
    _claim(evidence, logs.read_log(name, dialect, text_files.lines(path, encoding)), path)
    return True


def _table(kind: str, name: str, path: Path, header: str, lines: Iterator[str], evidence: Evidence) -> None:
    if kind == "gpus":
        evidence.gpu_logs.append(csv_tables.read_gpus(name, header, lines))
    elif kind == "operators":
        evidence.operator_tables.append(csv_tables.read_operators(name, header, lines))
    else:
        _claim(
            evidence, (csv_tables.read_steps if kind == "steps" else csv_tables.read_epochs)(name, header, lines), path
        )


def _claim(evidence: Evidence, claim: ReportedRun, path: Path) -> None:
    if not (claim.timed_spans or claim.logged_steps or claim.rank_losses or claim.details.get("status") in NO_NUMBERS):
        told = f"; {'; '.join(claim.problems[:3])}" if claim.problems else ""
        raise Unreadable(f"it is a {claim.format} without a single timed step or epoch{told}")
    claim.files, claim.details["folder"] = [claim.name], str(path.parent)
    if path.name in GENERIC and Path(claim.name).parent != Path("."):
        claim.name = str(Path(claim.name).parent)
    if path.stat().st_size > text_files.LINES:
        claim.problems.append(f"the file has more than {text_files.LINES >> 20} MiB; the rest was not read")
    evidence.runs.append(claim)


def _report(name: str, data: dict[str, Any]) -> ScalingReport:
    top = Fields(data, [])
    rows = {}
    for key, entry in data["runs"].items() if isinstance(data.get("runs"), dict) else ():
        devices = figure(str(key))
        if devices and devices == int(devices):
            row = Fields(entry, [])
            rows[int(devices)] = {
                "rate": row.positive("mean_tokens_per_sec_global"),
                "spread": row.number("stdev_tokens_per_sec_global"),
                "runs": len(row.values("metrics_paths")),
                "speedup": row.positive("speedup_vs_1gpu"),
                "efficiency": row.positive("scaling_efficiency"),
            }
    mismatches = [str(m.get("field")) for m in top.values("mismatches") if isinstance(m, dict)]
    return ScalingReport(name, str(data["status"])[:40], rows, mismatches)


def _complete(claim: ReportedRun, scopes: list, launcher: dict[str, Any] | None) -> None:
    for folder, runs in scopes:
        if os.path.commonpath([folder, claim.details["folder"]]) == folder:
            for part, facts in runs.items():
                if published_claims.matching(claim.name, part):
                    published_claims.complete(claim, facts)
    if launcher:
        top = Fields(launcher, claim.problems)
        claim.debug_settings |= debug_settings_in(
            {**_mapping(launcher.get("nccl_env")), **_mapping(launcher.get("env"))}
        )
        claim.hosts = claim.hosts or top.part("slurm").text("nodelist")
        claim.details["launcher_world"] = top.count("world_size")


def _traced(claim: ReportedRun, evidence: Evidence) -> None:
    """A capture in a folder of the run's own, `profiles/` say, was taken while it ran."""
    folder = claim.details["folder"]
    inside = [
        t for t in evidence.traced_folders if Path(t).parent == Path(folder) and Path(t).name.startswith("profil")
    ]
    if inside and sum(c.details["folder"] == folder for c in evidence.runs) == 1:
        claim.debug_settings["nsys"] = "on"


def _mapping(value: Any) -> dict[str, Any]:
    return {str(k): v for k, v in value.items()} if isinstance(value, dict) else {}


def _tell_apart(claims: list[ReportedRun]) -> None:
    """Names are unique: a second run in the same folder is told by its file."""
    seen: dict[str, int] = {}
    for claim in claims:
        n = seen[claim.name] = seen.get(claim.name, 0) + 1
        if n > 1:
            claim.name = claim.files[0] if claim.files[0] not in seen else f"{claim.files[0]} ({n})"
            seen.setdefault(claim.name, 1)
