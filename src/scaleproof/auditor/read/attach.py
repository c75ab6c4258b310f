"""What belongs together, once all files are read: facts beside runs, copies, checkpoints, tables in pieces."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from typing import Any

from scaleproof.auditor.read import published_claims
from scaleproof.auditor.read.reported import Evidence, ReportedRun, Unread
from scaleproof.auditor.read.reported_tables import ReportedTable
from scaleproof.auditor.read.run_fields import Fields, complete_from_name, debug_settings_in
from scaleproof.auditor.read.text_files import UnreadableFile, folder_of
from scaleproof.auditor.read.tracker_series import PREFIX, SeriesReader
from scaleproof.ground.errors import did_you_mean
from scaleproof.ground.records.grouping import group_by

# Names that say nothing about a run: it goes by its folder.
GENERIC = {
    *("training_metrics.json", "metrics.csv", "metrics.json", "step_log.csv", "gpu_log.csv"),
    *("trainer_state.json", "train.log", "scaling_report.json", "results.json", "output.log"),
    *("log.txt", "stdout.txt", "summary.json", "wandb-summary.json", "results.csv"),
    *("findings.json", "comparison.json", "waterfall.json", "traces.json"),
}
NO_NUMBERS = ("failed", "not_applicable")


FactsByPart = dict[str, dict[str, Any]]  # part of a run's name -> what is claimed of such runs


@dataclass
class Reading:
    """What one call of `gather` collects along the way."""

    evidence: Evidence
    claims_of_folders: list[tuple[str, str, FactsByPart]] = field(default_factory=list)  # folder, file and its facts
    stores: dict[Path, tuple[SeriesReader, Path]] = field(default_factory=dict)  # of MLflow: folder of a run, a metric
    launchers: dict[str, dict[str, Any]] = field(default_factory=dict)  # folder -> launcher's record
    paths: dict[str, Path] = field(default_factory=dict)  # name -> file, of all that was read
    places: set[Path] = field(default_factory=set)  # resolved paths of the files that were taken
    settings: list[str] = field(default_factory=list)  # files of settings; they are not read


def add_run(reading: Reading, run: ReportedRun, path: Path) -> None:
    """Add a run of a file, named by the file or, where that says nothing ("train.log"), by its folder.

    Raises UnreadableFile where the run has neither a time nor a loss, and is not said to have failed.
    """
    has_figures = run.timed_spans or run.logged_steps or run.rank_losses or run.steps_per_s
    if not has_figures and run.details.get("status") not in NO_NUMBERS:
        problems = "; ".join([f"no timed step or epoch in it, read as {run.format}", *run.problems[:3]])
        raise UnreadableFile(problems)

    file, _, part = run.name.partition("#")  # "train.log", "2" of "train.log#2"
    run.files = [file]
    run.details["folder"] = folder_of(path)
    is_generic = path.name in GENERIC or PREFIX in path.name  # PREFIX: of TensorBoard's event files
    if is_generic and Path(file).parent != Path("."):
        run.name = str(Path(file).parent) + (f"#{part}" if part else "")
    reading.paths[file] = path
    reading.evidence.runs.append(run)


LEAST_COMMON_SHARE = 0.6  # of the headings, in pieces of one table


def settle(reading: Reading, given: dict[str, dict[str, int]]) -> None:
    """Complete every run by claims files, its launcher, `given` and its name, in this order: the first fact counts.

    Then mark copies, give each run a name of its own, and join tables of one row in each file to one table. `given`:
    facts of the command line by a part of a run's or file's name, {"ddp": {"world_size": 4}}. The fact of the longest
    part counts.
    """
    evidence = reading.evidence
    for run in evidence.runs:
        _complete_from_claims(run, reading)
        if launcher := reading.launchers.get(run.details.get("folder", "")):
            _complete_from_launcher(run, launcher)
        facts: dict[str, int] = {}
        for part in sorted(given, key=len):
            facts |= given[part] if part in run.name or part in run.files[0] else {}
        for name, value in facts.items() if len(evidence.runs) == 1 else ():  # else it may be for runs that lack it
            if (stated := getattr(run, name)) not in (None, value):
                reason = f"it says that {name} is {stated}; {value}, as given, was not used"
                evidence.unread.append(Unread(run.files[0], reason))
        published_claims.complete(run, facts)
        complete_from_name(run)
        _mark_traced(run, evidence)

    _note_claims_of_no_run(reading)
    _mark_copies(reading)
    _join_checkpoints(evidence)
    _make_names_unique(evidence.runs)
    evidence.tables = _join_tables(evidence.tables, evidence.named_files)


def _note_claims_of_no_run(reading: Reading) -> None:
    """Note each name below `runs` of a claims file that means no run."""
    names = [*(run.own_name for run in reading.evidence.runs), *reading.evidence.own_runs]
    for home, file, facts_by_part in reading.claims_of_folders:
        folders_meant = {part for run in reading.evidence.runs for part in _folder_names(run, home, reading)}
        for part in facts_by_part:
            if part not in folders_meant and not any(published_claims.is_named(name, part) for name in names):
                hint = f"{did_you_mean(part, [*names, *sorted(folders_meant)])} Runs: {', '.join(names[:5]) or 'none'}"
                reason = f"runs.{part} is in no run's name.{hint}"
                reading.evidence.unread.append(Unread(file, reason, "claims file"))


def _complete_from_claims(run: ReportedRun, reading: Reading) -> None:
    """Complete a run by the facts of claims files in its folder or above: of its name's parts, or of its folder's name.

    A folder's name counts where it is in no run's: `run` in run/claims.yaml means run/run1.log, not run/bench.log.
    """
    for home, file, facts_by_part in reading.claims_of_folders:
        if not Path(run.details["folder"]).is_relative_to(home):
            continue  # the claims file is beside other runs
        for part, facts in facts_by_part.items():
            if published_claims.is_named(run.own_name, part):
                _note_contradictions(run, file, part, facts, reading.evidence)
                published_claims.complete(run, facts)
        folder_names = _folder_names(run, home, reading)
        for part in [part for part in facts_by_part if part in folder_names]:
            below = (other for other in reading.evidence.runs if Path(other.details["folder"]).is_relative_to(home))
            if not any(published_claims.is_named(other.own_name, part) for other in below):
                _note_contradictions(run, file, part, facts_by_part[part], reading.evidence)
                published_claims.complete(run, facts_by_part[part])


def _note_contradictions(run: ReportedRun, file: str, part: str, facts: Mapping[str, Any], evidence: Evidence) -> None:
    """Note each number of a claims file that is not used, as the run itself says another; names are spelt variously."""
    for name, value in facts.items():
        stated = getattr(run, name)
        if isinstance(value, int) and name not in run.claimed and stated not in (None, value):
            reason = f"runs.{part}: {name} is {value}, which is not used: {run.own_name} itself says {stated}"
            evidence.unread.append(Unread(file, reason, "claims file"))


def _folder_names(run: ReportedRun, home: str, reading: Reading) -> set[str]:
    """Return the names of the folders from `home`, that of a claims file, down to the run's. Empty for a run elsewhere.

    A folder that was named to the audit by a link has the link's name, too.
    """
    folder = Path(run.details["folder"])
    folders = [place for place in (folder, *folder.parents) if place.is_relative_to(home)]
    links = (root.name for root in reading.evidence.named_files if root.is_symlink() and root.resolve() in folders)
    return {*(place.name for place in folders), *links}


def _complete_from_launcher(run: ReportedRun, launcher: dict[str, Any]) -> None:
    """Complete a run by what its launcher noted: the environment, the hosts, the world size."""
    record = Fields(launcher, run.problems)
    for variables in (launcher.get("nccl_env"), launcher.get("env")):
        if isinstance(variables, dict):
            run.debug_settings |= debug_settings_in({str(name): value for name, value in variables.items()})
    run.hosts = run.hosts or record.part("slurm").text("nodelist")
    run.details["launcher_world"] = record.count("world_size")


def _mark_traced(run: ReportedRun, evidence: Evidence) -> None:
    """Note that the only run of a folder was profiled: it, or one like `profiles/` below it, has a capture of nsys."""
    folder = run.details["folder"]
    if sum(other.details["folder"] == folder for other in evidence.runs) > 1:
        return
    traced_below = [Path(traced).name for traced in evidence.traced_folders if Path(traced).parent == Path(folder)]
    is_traced_below = any(name.startswith(("profil", "nsys", "trace")) for name in traced_below)
    if is_traced_below or folder in evidence.traced_folders:
        run.debug_settings["nsys"] = "on"


def _mark_copies(reading: Reading) -> None:
    """Set `copy_of` of each run whose file has the same bytes as one that was read before it."""
    by_size = group_by(reading.paths, lambda name: reading.paths[name].stat().st_size)
    may_be_equal = [names for size, names in by_size.items() if size and len(names) > 1]  # only these are hashed

    original_of: dict[str, str] = {}  # file -> the first file with its bytes
    first_with: dict[str, str] = {}  # digest -> file
    for name in chain.from_iterable(may_be_equal):
        with reading.paths[name].open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        first = first_with.setdefault(digest, name)
        if first != name:
            original_of[name] = first
    for run in reading.evidence.runs:
        if run.files and run.files[0] in original_of:
            run.copy_of = original_of[run.files[0]]


def _join_checkpoints(evidence: Evidence) -> None:
    """Join states that a trainer saved in `checkpoint-500`, `checkpoint-1000`, ... to the last state, which has all."""
    states: dict[tuple[str, str], list[ReportedRun]] = defaultdict(list)  # by folder and first loss of a run
    for run in evidence.runs:
        if run.format == "HF Trainer state":
            folder = Path(run.files[0]).parent
            home = folder.parent if folder.name.startswith("checkpoint") else folder
            states[(str(home), repr(_losses(run)[:1]))].append(run)

    ids_of_joined_runs: set[int] = set()
    for (home_name, _), runs in states.items():
        *earlier_states, last_state = sorted(runs, key=lambda run: (len(run.logged_steps), bool(run.timed_spans)))
        losses = _losses(last_state)
        parts = [run for run in earlier_states if _losses(run) == losses[: len(run.logged_steps)]]
        last_state.files += [run.files[0] for run in parts]  # their losses are the beginning of its losses
        if parts and home_name != ".":
            last_state.name = home_name
        ids_of_joined_runs |= {id(run) for run in parts}
    evidence.runs = [run for run in evidence.runs if id(run) not in ids_of_joined_runs]


def _losses(run: ReportedRun) -> list[tuple[int, float | None]]:
    return [(logged.step, logged.loss) for logged in run.logged_steps]


def _make_names_unique(runs: list[ReportedRun]) -> None:
    """Rename runs in place: a second run "exp1" goes by its file, "exp1/b.log", a third of it by "exp1/b.log (2)"."""
    names_so_far: set[str] = set()
    for run in runs:
        file = run.files[0]
        candidates = chain((run.name, file), (f"{file} ({k})" for k in count(2)))
        run.name = next(name for name in candidates if name not in names_so_far)
        names_so_far.add(run.name)


def _join_tables(tables: list[ReportedTable], named_files: set[Path]) -> list[ReportedTable]:
    """Return the tables. Tables of one row with the same headings (runs/a.json, runs/b.json) become one table.

    `named_files`: files that were given to the audit side by side belong together in whatever folders they lie.
    """
    result: list[ReportedTable] = []
    tables_of_one_row: dict[tuple[str, str], list[ReportedTable]] = defaultdict(list)  # by folder and form
    common_names = _names_in_several_folders(tables)
    for table in tables:
        if table.form not in ("JSON", "CSV") or len(table.rows) != 1:
            result.append(table)
            continue
        path = Path(table.file)
        # One name in several folders: there is a folder for each run, and their parent has them all.
        home = path.parent.parent if path.name in common_names else path.parent
        home = Path() if path in named_files else home
        tables_of_one_row[(str(home), table.form)].append(table)

    for (folder, _), pieces in tables_of_one_row.items():
        remaining = pieces
        while remaining:
            first, *others = remaining
            same = [first, *(piece for piece in others if _have_same_headings(first, piece))]
            remaining = [piece for piece in others if not _have_same_headings(first, piece)]
            result.append(first if len(same) == 1 else _joined_table(same, folder))
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
    headings_of_first = {column.heading for column in first.columns if column.kind}
    headings_of_second = {column.heading for column in second.columns if column.kind}
    common, all_headings = headings_of_first & headings_of_second, headings_of_first | headings_of_second
    return len(common) >= LEAST_COMMON_SHARE * max(len(all_headings), 1)
