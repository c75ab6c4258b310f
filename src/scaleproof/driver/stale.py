"""What is to be made again before anything runs: by an upgrade or an edited campaign, and what is missing."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from scaleproof.conclude.report.chart_catalog import charts_of, tables_of
from scaleproof.driver.keep import measured_beside, measured_otherwise, names_of_runs
from scaleproof.driver.snakemake_view import Seen, ask_snakemake
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.corpora import local_files
from scaleproof.ground.campaign.loaded import LoadedCampaign, tokens_dir
from scaleproof.ground.code_dependencies import MEASURING, code_sha256
from scaleproof.ground.configurations import changed_keys
from scaleproof.ground.errors import UserError, shortened
from scaleproof.ground.files import sha256_of
from scaleproof.ground.json_faults import NEWER
from scaleproof.ground.records.kept_code import is_same_code
from scaleproof.ground.records.lost_results import lost_files, records_of_runs
from scaleproof.ground.records.metrics import Failed, Timed
from scaleproof.ground.records.run import METRICS, STEPS, read_run
from scaleproof.ground.records.token_hashes import check_token_files
from scaleproof.measure.launch.shared_job import changed_files
from scaleproof.verify.manifest import LATER_FILES, LATER_RUN, LINE_ENDS, MANIFEST, check_manifest
from scaleproof.verify.raw import PLACES, Difference

DAMAGED = "its files are damaged"
NEWER_RECORD = "their records are of a newer version"  # may be sound: neither stale nor damaged
ENDS = "git or an editor changed its line ends (set core.autocrlf to false, and clone again)"
CONFIGURATION = "its configuration changed"
CODE = "code that takes part in a run changed"
CUT_OFF = "snakemake ended before their jobs were done, and holds them for incomplete"
UNRECORDED = "snakemake has no record of it, as of one that was copied from another folder"
INPUT = "an input of it changed, or its job was cut off"
PROGRAM = "a file of its command changed"


@dataclass(frozen=True)
class _StaleRun:
    """A finished run that is to be measured again."""

    folder: Path
    cell: Cell
    reason: str
    metrics: Timed | Failed | None = None  # None where its files are damaged, or those of another run
    seen: Seen | None = None  # Snakemake's view of the file that the run's job makes; None where it has none

    @property
    def has_other_keys(self) -> bool:
        return self.reason.startswith(CONFIGURATION)

    @property
    def device_hours(self) -> float:
        seconds = self.metrics.total_wall_time_s if self.metrics else None
        return (seconds or 0.0) * self.cell.execution.geometry.n_devices / 3600


@dataclass(frozen=True)
class _Files:
    """What is there and is not of the results."""

    unnamed: dict[str, str]  # cell that has runs and is none of the campaign -> its cell with that fingerprint, or ""
    unplanned: list[Path]  # runs of the other cells that the campaign does not plan, as after fewer repeats
    changed: list[str]  # files that the report was not made from, relative to the campaign's folder
    texts: list[str]  # local files of its corpora that are not there, without which Snakemake starts nothing
    tokens: list[str]  # faults of token files
    newer: list[str]  # runs whose records a newer version of scaleproof has written, as CELL or CELL/rep1


@dataclass(frozen=True)
class StaleRuns:
    """The finished runs of one campaign that are to be measured again, or kept."""

    loaded: LoadedCampaign
    results: Path
    planned: int
    runs: list[_StaleRun]
    beside: dict[Path, str]  # file -> its rule: traces, comparisons, ... that would be measured again
    otherwise: list[Path]  # of these, those of another configuration: Snakemake, which may not see that, is forced
    lost: list[Path]  # files from which results were made, and which are missing now
    view: Mapping[Path, Seen]  # file -> how Snakemake sees it
    unmade: int  # planned runs that were never made
    begun: int  # of these, those whose attempt has begun
    cause: str  # why Snakemake would make an input of what was measured again
    files: _Files

    @property
    def cells(self) -> list[str]:
        """The cells whose runs cannot be kept, because they have another configuration."""
        return list(dict.fromkeys(run.cell.slug for run in self.runs if run.has_other_keys))

    @property
    def has_edited_program(self) -> bool:
        """Whether runs cannot be kept because a file of their command is not as it was."""
        return any(run.reason.startswith(PROGRAM) for run in self.runs)

    @property
    def damaged(self) -> list[str]:
        """The runs of other cells that cannot be kept: CELL where all its runs are, else CELL/repK."""
        damaged = [run.folder for run in self.runs if run.metrics is None and run.cell.slug not in self.cells]
        return names_of_runs(damaged)

    @property
    def unrecorded(self) -> list[str]:
        """The rules of the files of which Snakemake has no record: it makes these only when forced."""
        files = [self.view[path] for path in self.beside if path not in self.otherwise]
        seen = [*(run.seen for run in self.runs if run.seen), *files]
        return list(dict.fromkeys(file.rule for file in seen if not file.recorded))

    @property
    def failed(self) -> list[str]:
        """The stale runs that had failed: CELL where all its runs had, else CELL/repK."""
        return names_of_runs(run.folder for run in self.runs if isinstance(run.metrics, Failed))

    @property
    def has_faults(self) -> bool:
        """Whether something would be measured again, or is lost or changed."""
        files = self.files
        return any((self.runs, self.beside, self.lost, files.changed, files.texts, files.tokens))

    @property
    def keepable(self) -> bool:
        """Whether `scaleproof keep` takes the runs that are there."""
        return not (self.cells or self.damaged or self.has_edited_program)


def stale_runs(path: Path, results: Path) -> StaleRuns:
    """Compare a campaign's finished runs with its file `path`, with today's code, and with Snakemake's plan.

    Runs that were never made are not stale. Raises UserError where the campaign is not valid.
    """
    loaded = LoadedCampaign(path, results)
    planned = loaded.planned(results)
    all_lost = lost_files(loaded, results, {*tables_of(loaded), *charts_of(loaded)})
    lost = [path for path in all_lost if not _is_begun(path.parent)]
    incomplete = {path.parent for path in lost}  # these runs are made again for their lost files, and not kept
    whole = [(folder, cell) for folder, cell, _ in planned if folder not in incomplete]
    finished = [(folder, cell) for folder, cell in whole if _is_finished(folder)]
    # File -> how Snakemake sees it; {} where it was not asked, or does not answer.
    view = (ask_snakemake([results / loaded.name / "report.html"]) if finished or lost else None) or {}

    records, code = records_of_runs(loaded, results), code_sha256(*MEASURING)
    beside = measured_beside(loaded, results)
    of_campaign = results / loaded.name
    cause = _cause(view, of_campaign, {*beside, *records.values(), *(folder / METRICS for folder, _ in finished)})
    differences = check_manifest(of_campaign) if (of_campaign / MANIFEST).exists() else []
    named_there = [of_campaign / one.file for one in differences]  # by the manifest, and derived from runs
    lost += [path for path in named_there if path in view and path not in {*lost, *beside} and not path.exists()]
    files_with_other_ends = {of_campaign / one.file for one in differences if LINE_ENDS in one.problem}
    sha256 = cache(sha256_of)  # the runs of a command have its files in common
    runs = []
    for folder, cell in finished:
        output = records.get(folder, folder / METRICS)
        if run := _judge_run(folder, cell, code, view.get(output), sha256):
            has_other_ends = not files_with_other_ends.isdisjoint((folder / METRICS, folder / STEPS))
            better_reason = {INPUT: cause, DAMAGED: ENDS if has_other_ends else DAMAGED}
            runs.append(replace(run, reason=better_reason.get(run.reason, run.reason)))
    # Meanwhile a campaign under way has begun further runs, whose files go first: they only look damaged.
    finished = [(folder, cell) for folder, cell in finished if _is_finished(folder)]
    runs = [run for run in runs if _is_finished(run.folder)]
    newer = [run.folder for run in runs if run.reason == NEWER_RECORD]
    runs = [run for run in runs if run.reason != NEWER_RECORD]
    if any(run.has_other_keys for run in runs):  # then traces, pairs, ... are of other keys, too
        beside = measured_beside(loaded, results, fitting=False)
    # Snakemake may call a missing file up to date, and still makes it on the way to the runs: it counts as pending.
    pending = {
        path: rule for path, rule in beside.items() if path in view and (view[path].pending or not path.is_file())
    }
    otherwise = measured_otherwise(loaded, results)
    pending = otherwise | pending
    # A run that was made and has lost its files is not finished; the folders of its lost files say that it was made.
    made = {folder for folder, _ in finished} | incomplete
    unmade = {folder for folder, *_ in planned} - made
    begun = sum(map(_is_begun, unmade))
    unnamed = _unnamed_cells(loaded, results)
    places = {folder for folder, *_ in planned}
    others = [run for run in sorted(of_campaign.glob(PLACES)) if run not in places]
    unplanned = [run for run in others if not (unmade and run.parent.name in unnamed)]
    # Of which something else is told.
    named = [*unmade, *incomplete, *lost, *newer, *(run.folder for run in runs)]
    changed = _changed_files(of_campaign, differences, named)
    tokens = _faults_of_tokens(loaded, results)
    of_files = _Files(unnamed, unplanned, changed, _missing_texts(loaded), tokens, names_of_runs(newer))
    return StaleRuns(
        *(loaded, results, len(planned), runs, pending, list(otherwise)),
        *(lost, view, len(unmade), begun, cause, of_files),
    )


def _cause(view: Mapping[Path, Seen], folder: Path, measured: Collection[Path]) -> str:
    """Return what Snakemake says is out of date of all that it measures from, or that it has measured; else INPUT.

    `folder`: that of a campaign, whose other files are derived. `measured`: what was measured.
    """
    files = [path for path in view if path in measured or not path.is_relative_to(folder)]
    causes = {path: view[path].cause for path in files if view[path].cause}
    texts = [f"{path} is out of date ({cause})" for path, cause in causes.items()]
    return shortened("; ".join(texts), 200) if texts else INPUT


def _changed_files(folder: Path, differences: Iterable[Difference], named: Iterable[Path]) -> list[str]:
    """Return the files that differ from the manifest in `folder`, but for what came later, and those in `named`.

    `named`: files and folders.
    """
    names = tuple(f"{path.relative_to(folder).as_posix()}/" for path in named)
    files = dict.fromkeys(one.file for one in differences if one.problem not in (LATER_FILES, LATER_RUN))
    return [file for file in files if not f"{file}/".startswith(names)]


def _missing_texts(loaded: LoadedCampaign) -> list[str]:
    """Return which local files of the campaign's corpora are not there, in the words of `keep` and of Snakemake."""
    faults = []
    for name, corpus in loaded.corpora.items():
        try:
            local_files(name, corpus)
        except UserError as error:
            faults.append(str(error))
    return faults


def _faults_of_tokens(loaded: LoadedCampaign, results: Path) -> list[str]:
    """Return the faults of the campaign's token files that are there."""
    faults = []
    for folder in dict.fromkeys(tokens_dir(results, cell) for cell in loaded.cells if cell.command is None):
        try:
            check_token_files(folder)
        except UserError as error:
            faults.append(str(error))
    return faults


def _is_begun(run: Path) -> bool:
    """Return whether an attempt has begun in the folder of a run and not ended: it runs, or was killed.

    The files of an earlier run are gone by then, and those of this one come when it ends (measure/launch/attempt.py).
    """
    return any(run.glob(".attempt-*"))


def _is_finished(run: Path) -> bool:
    """Return whether a run has ended and is there: neither begun again, nor removed to be begun."""
    return (run / METRICS).is_file() and not _is_begun(run)


def _unnamed_cells(loaded: LoadedCampaign, results: Path) -> dict[str, str]:
    """Return the cells that have runs and are none of the campaign -> its cell with their fingerprint, else ""."""
    names = {cell.fingerprint: cell.slug for cell in loaded.cells}
    unnamed: dict[str, str] = {}
    for record in sorted((results / loaded.name / "runs").glob(f"*/*/{METRICS}")):
        slug = record.parents[1].name
        if slug not in unnamed and slug not in names.values():
            try:
                fingerprint = read_run(record.parent).metrics.fingerprint
            except UserError:  # a damaged record
                fingerprint = ""
            unnamed[slug] = names.get(fingerprint, "")
    return unnamed


def _judge_run(
    folder: Path, cell: Cell, current_code: str, seen: Seen | None, sha256: Callable[[Path], str]
) -> _StaleRun | None:
    """Return a finished run with the reason to measure it again, None without a reason.

    `current_code`: the sha256 of today's code of a run. `seen`: Snakemake's view of the run's file, None where it has
    none. `sha256`: the function that hashes a file.
    """
    try:
        metrics = _sound_metrics(folder)
    except UserError as error:
        return _StaleRun(folder, cell, NEWER_RECORD if NEWER in str(error) else DAMAGED)
    if metrics.cell != cell.slug:
        return _StaleRun(folder, cell, f"the folder {cell.slug} has the files of {metrics.cell}")
    if (name := f"{metrics.cell}/rep{metrics.repeat}") != f"{cell.slug}/{folder.name}":
        return _StaleRun(folder, cell, f"its files are those of {name}")
    reason = _reason_to_measure_again(metrics, cell, folder / METRICS, current_code, seen, sha256)
    return _StaleRun(folder, cell, reason, metrics, seen) if reason else None


def _sound_metrics(folder: Path) -> Timed | Failed:
    """Return the metrics of a run. Raises UserError where they, or the steps.csv that belongs to them, are damaged."""
    run = read_run(folder)
    if run.ok and (folder / STEPS).is_file():  # a missing file counts as lost, not as damaged
        run.steps_file()
    return run.metrics


def _reason_to_measure_again(
    metrics: Timed | Failed,
    cell: Cell,
    record: Path,
    current_code: str,
    seen: Seen | None,
    sha256: Callable[[Path], str],
) -> str | None:
    """Return the reason why a run would be measured again. Returns None where it would not be.

    `record`: the file of its metrics. `seen`: as in _StaleRun. The others: see `_judge_run`.
    """
    if metrics.fingerprint != cell.fingerprint:  # whatever `seen` says: a --touch makes such runs look up to date
        keys = changed_keys(metrics.config, cell.config)
        return f"{CONFIGURATION}: {keys}" if keys else CONFIGURATION
    if seen and not seen.pending:
        return None
    if not is_same_code(metrics.code_sha256, current_code, record.parent):
        return CODE
    # A shared job leaves any run of the same code and program as it is; so does this, where Snakemake has no view.
    takes_any = seen is None or seen.rule.endswith("shared_job")
    # A failed run has no hashes: its files are judged by their age, and copied files look newer.
    if (takes_any or not isinstance(metrics, Failed)) and (edited := changed_files(metrics, cell, record, sha256)):
        return f"{PROGRAM}: {', '.join(edited)}"
    if seen is None or takes_any:  # the first is part of the second; mypy needs it
        return None
    if seen.cut_off:
        return CUT_OFF
    return INPUT if seen.recorded else UNRECORDED
