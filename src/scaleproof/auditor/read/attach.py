"""What belongs together, once all files are read: facts beside runs, copies, checkpoints, tables in pieces."""

import hashlib
import os
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

from scaleproof.auditor.read import published_claims
from scaleproof.auditor.read.reported import Evidence, ReportedRun
from scaleproof.auditor.read.reported_tables import ReportedTable
from scaleproof.auditor.read.run_fields import Fields, complete_from_name, debug_settings_in
from scaleproof.auditor.read.text_files import UnreadableFile
from scaleproof.auditor.read.tracker_series import PREFIX

# Names that say nothing about a run: it goes by its folder.
GENERIC = {
    *("training_metrics.json", "metrics.csv", "metrics.json", "step_log.csv", "gpu_log.csv"),
    *("trainer_state.json", "train.log", "scaling_report.json", "results.json", "output.log"),
    *("log.txt", "stdout.txt", "summary.json", "wandb-summary.json", "results.csv"),
    *("findings.json", "comparison.json", "waterfall.json", "traces.json"),
}
NO_NUMBERS = ("failed", "not_applicable")


@dataclass
class Reading:
    """What one call of `gather` collects along the way."""

    evidence: Evidence
    # (folder, facts by a part of a run's name) of each claims file
    claims_of_folders: list[tuple[str, dict[str, dict[str, Any]]]] = field(default_factory=list)
    launchers: dict[str, dict[str, Any]] = field(default_factory=dict)  # folder -> launcher's record
    paths: dict[str, Path] = field(default_factory=dict)  # name -> file, of all that was read
    settings: list[str] = field(default_factory=list)  # files of settings, which say what was meant, and are not read


def add_run(reading: Reading, run: ReportedRun, path: Path) -> None:
    """Add a run of a file, named by the file or, where that says nothing ("train.log"), by its folder.

    Raises UnreadableFile where it has neither a time nor a loss, and is not said to have failed.
    """
    figures = run.timed_spans or run.logged_steps or run.rank_losses or run.steps_per_s
    if not figures and run.details.get("status") not in NO_NUMBERS:
        problems = f"; {'; '.join(run.problems[:3])}" if run.problems else ""
        raise UnreadableFile(f"it is a {run.format} without a single timed step or epoch{problems}")
    file, _, part = run.name.partition("#")
    run.files = [file]
    run.details["folder"] = str(path.parent)
    generic = path.name in GENERIC or PREFIX in path.name
    if generic and Path(file).parent != Path("."):
        run.name = str(Path(file).parent) + (f"#{part}" if part else "")
    reading.paths[file] = path
    reading.evidence.runs.append(run)


LEAST_COMMON_SHARE = 0.6  # of the headings, in pieces of one table


def settle(reading: Reading, given: dict[str, dict[str, int]]) -> None:
    """Complete every run by what is said about it elsewhere: claims files, `given`, its name.

    Then leave every run once, under a name of its own, and join results of one file each to one table. `given`: facts
    of the command line by a part of a run's or file's name, {"ddp": {"world_size": 4}}; of several parts the longest
    counts most.
    """
    for run in reading.evidence.runs:
        _complete_from_claims(run, reading.claims_of_folders)
        if launcher := reading.launchers.get(run.details.get("folder", "")):
            _complete_from_launcher(run, launcher)
        for part, facts in sorted(given.items(), key=lambda item: -len(item[0])):
            if part in run.name or part in run.files[0]:
                published_claims.complete(run, facts)
        complete_from_name(run)
        _mark_traced(run, reading.evidence)

    evidence = reading.evidence
    _mark_copies(reading)
    _join_checkpoints(evidence)
    _make_names_unique(evidence.runs)
    evidence.tables = _join_tables(evidence.tables)


def _complete_from_claims(run: ReportedRun, claims_of_folders: list[tuple[str, dict[str, dict[str, Any]]]]) -> None:
    """Complete a run by the facts of claims files at or above its folder."""
    for folder, facts_by_part in claims_of_folders:
        if os.path.commonpath([folder, run.details["folder"]]) != folder:
            continue  # of other runs
        for part, facts in facts_by_part.items():
            if published_claims.matching(run.name, part):
                published_claims.complete(run, facts)


def _complete_from_launcher(run: ReportedRun, launcher: dict[str, Any]) -> None:
    """Complete a run by what its launcher noted: the environment, the hosts, the world size."""
    record = Fields(launcher, run.problems)
    environment: dict[str, Any] = {}
    for variables in (launcher.get("nccl_env"), launcher.get("env")):
        if isinstance(variables, dict):
            environment |= {str(name): value for name, value in variables.items()}
    run.debug_settings |= debug_settings_in(environment)
    run.hosts = run.hosts or record.part("slurm").text("nodelist")
    run.details["launcher_world"] = record.count("world_size")


def _mark_traced(run: ReportedRun, evidence: Evidence) -> None:
    """Note that a run was profiled where its folder, or one like `profiles/` below it, has a capture of Nsight Systems.

    Not where its folder has several runs: nobody knows which of them it is of.
    """
    folder = Path(run.details["folder"])
    below = [traced for traced in map(Path, evidence.traced_folders) if traced.parent == folder]
    is_traced = str(folder) in evidence.traced_folders
    is_traced |= any(traced.name.startswith(("profil", "nsys", "trace")) for traced in below)
    if is_traced and sum(other.details["folder"] == str(folder) for other in evidence.runs) == 1:
        run.debug_settings["nsys"] = "on"


def _mark_copies(reading: Reading) -> None:
    """Set `copy_of` of each run whose file has the same bytes as one that was read before it."""
    by_size: dict[int, list[str]] = defaultdict(list)
    for name, path in reading.paths.items():
        by_size[path.stat().st_size].append(name)
    original_of: dict[str, str] = {}  # file -> the first one with its bytes
    for size, names in by_size.items():
        first_with: dict[str, str] = {}  # digest -> file
        for name in names if size and len(names) > 1 else ():
            with reading.paths[name].open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            if (first := first_with.setdefault(digest, name)) != name:
                original_of[name] = first
    for run in reading.evidence.runs:
        if run.files and run.files[0] in original_of:
            run.copy_of = original_of[run.files[0]]


def _join_checkpoints(evidence: Evidence) -> None:
    """Join states that a trainer saved in `checkpoint-500`, `checkpoint-1000`, ... to the last one, which has all."""
    states: dict[tuple[str, str], list[ReportedRun]] = defaultdict(list)  # by folder and first loss
    for run in evidence.runs:
        if run.format == "HF Trainer state":
            folder = Path(run.files[0]).parent
            home = folder.parent if folder.name.startswith("checkpoint") else folder
            states[(str(home), repr(_losses(run)[:1]))].append(run)

    joined: set[int] = set()  # id of a run
    for (home_name, _), runs in states.items():
        *earlier, last = sorted(runs, key=lambda run: (len(run.logged_steps), bool(run.timed_spans)))
        losses = _losses(last)
        parts = [run for run in earlier if _losses(run) == losses[: len(run.logged_steps)]]
        last.files += [run.files[0] for run in parts]
        if parts and home_name != ".":
            last.name = home_name
        joined |= {id(run) for run in parts}
    evidence.runs = [run for run in evidence.runs if id(run) not in joined]


def _losses(run: ReportedRun) -> list[tuple[int, float | None]]:
    return [(logged.step, logged.loss) for logged in run.logged_steps]


def _make_names_unique(runs: list[ReportedRun]) -> None:
    """Rename runs in place: a second run "exp1" goes by its file, "exp1/b.log", a third of it by "exp1/b.log (2)"."""
    taken: set[str] = set()
    for run in runs:
        file = run.files[0]
        candidates = chain((run.name, file), (f"{file} ({k})" for k in count(2)))
        run.name = next(name for name in candidates if name not in taken)
        taken.add(run.name)


def _join_tables(tables: list[ReportedTable]) -> list[ReportedTable]:
    """Return the tables, those of one row with the same headings (runs/a.json, runs/b.json) joined to one."""
    result: list[ReportedTable] = []
    single_rows: dict[tuple[str, str], list[ReportedTable]] = defaultdict(list)  # by folder and form
    common_names = _names_in_several_folders(tables)
    for table in tables:
        if table.form in ("JSON", "CSV") and len(table.rows) == 1:
            path = Path(table.file)
            # One name in several folders: there is a folder for each run, and their parent has them all.
            home = path.parent.parent if path.name in common_names else path.parent
            single_rows[(str(home), table.form)].append(table)
        else:
            result.append(table)

    for (folder, _), pieces in single_rows.items():
        left = pieces
        while left:
            same = [piece for piece in left if _have_same_headings(left[0], piece)]
            left = [piece for piece in left if piece not in same]
            result.append(same[0] if len(same) == 1 else _joined_table(same, folder))
    return result


def _joined_table(pieces: list[ReportedTable], folder: str) -> ReportedTable:
    """Return one table with the rows of all `pieces`, which are files below a folder: "runs/*.json"."""
    rows = [row for piece in pieces for row in piece.rows]
    for row in rows:
        row.label = row.label or row.file
    columns = list({column.heading: column for piece in pieces for column in piece.columns}.values())
    name = f"{folder}/*{Path(pieces[0].file).suffix}"
    return ReportedTable(name, 1, f"{pieces[0].form}, one file a row", columns, rows)


def _names_in_several_folders(tables: list[ReportedTable]) -> set[str]:
    """Return the names that files in several folders have: {"results.json"}."""
    folders_of: dict[str, set[str]] = defaultdict(set)
    for path in (Path(table.file) for table in tables):
        folders_of[path.name].add(str(path.parent))
    return {name for name, folders in folders_of.items() if len(folders) > 1}


def _have_same_headings(first: ReportedTable, second: ReportedTable) -> bool:
    """Whether most of the understood headings of two tables are the same."""
    a, b = ({column.heading for column in table.columns if column.kind} for table in (first, second))
    return len(a & b) >= LEAST_COMMON_SHARE * max(len(a | b), 1)
