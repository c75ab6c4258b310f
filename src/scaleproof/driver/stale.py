"""What is to be made again before anything runs: by an upgrade or an edited campaign, and what is missing."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from scaleproof.conclude.report.chart_catalog import charts_of, tables_of
from scaleproof.driver.keep import choices_text, counted_text, measured_beside
from scaleproof.driver.snakemake_view import Seen, ask_snakemake
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.code_dependencies import MEASURING, code_sha256
from scaleproof.ground.errors import UserError
from scaleproof.ground.records.lost_results import lost_files, lost_text, records_of_runs, records_without_runs
from scaleproof.ground.records.metrics import Failed, Timed
from scaleproof.ground.records.run import METRICS, STEPS, read_run, retry_command
from scaleproof.ground.snakemake_command import options_for

DAMAGED = "its files are damaged"
CONFIGURATION = "its configuration changed"
CODE = "code that takes part in a run changed"
UNRECORDED = "snakemake has no record of it, as of one that was copied from another folder"
INPUT = "an input of it changed"
MOST_NAMED = 6  # jobs that a command names one by one
DRAWN = ("tables", "charts")  # folders of what nothing but the page is made from


@dataclass(frozen=True)
class _StaleRun:
    """A finished run that is to be measured again."""

    folder: Path
    cell: Cell
    reason: str
    metrics: Timed | Failed | None = None  # None where its files are damaged
    file: Seen | None = None  # how Snakemake sees the file of its job


@dataclass(frozen=True)
class StaleRuns:
    """The finished runs of one campaign that are to be measured again, or kept."""

    loaded: LoadedCampaign
    results: Path
    planned: int
    reasons: dict[str, int]  # why -> number of runs
    cells: tuple[str, ...]  # whose runs cannot be kept, as they are of another configuration
    damaged: tuple[str, ...]  # runs of other cells that cannot be kept: CELL/repK
    device_hours: float  # what they took when they were measured
    commits: tuple[str, ...]  # that they were measured at
    beside: tuple[str, ...] = ()  # rules, one for each trace, comparison, ... that would be measured again
    unrecorded: tuple[str, ...] = ()  # rules of what Snakemake has no record of: it makes that only when forced
    lost: tuple[Path, ...] = ()  # what results were made from, and is missing now
    view: Mapping[Path, Seen] | None = None  # of Snakemake

    @property
    def campaign(self) -> str:
        return self.loaded.name

    @property
    def runs(self) -> int:
        return sum(self.reasons.values())


def stale_runs(path: Path, results: Path) -> StaleRuns:
    """Compare a campaign's finished runs with its file `path`, with today's code, and with what Snakemake would do.

    Runs that were never made do not count. Raises UserError where the campaign is not valid.
    """
    loaded = LoadedCampaign(path)
    planned = loaded.planned(results)
    finished = [(folder, cell) for folder, cell, _ in planned if (folder / METRICS).is_file()]
    lost = lost_files(loaded, results, {*tables_of(loaded), *charts_of(loaded)})
    view = ask_snakemake([results / loaded.name / "report.html"]) if finished or lost else None
    seen = view or {}
    records, code = records_of_runs(loaded, results), code_sha256(*MEASURING)
    judged = [
        _judge_run(folder, cell, code, seen.get(records.get(folder, folder / METRICS))) for folder, cell in finished
    ]
    runs = [run for run in judged if run]
    changed = dict.fromkeys(run.cell.slug for run in runs if run.reason == CONFIGURATION)
    damaged = [run for run in runs if run.reason == DAMAGED and run.cell.slug not in changed]
    sound = [(run.metrics, run.cell.execution.geometry.n_devices) for run in runs if run.metrics]
    pending = {path: file for path, file in seen.items() if file.pending}
    beside = {path: rule for path, rule in measured_beside(loaded, results).items() if path in pending}
    unrecorded = [run.file.rule for run in runs if run.file and not run.file.recorded]
    unrecorded += [pending[path].rule for path in beside if not pending[path].recorded]
    return StaleRuns(
        loaded=loaded,
        results=results,
        planned=len(planned),
        reasons=dict(Counter(run.reason for run in runs)),
        cells=tuple(changed),
        damaged=tuple(f"{run.cell.slug}/{run.folder.name}" for run in damaged),
        device_hours=sum((metrics.total_wall_time_s or 0.0) * devices for metrics, devices in sound) / 3600,
        commits=tuple(sorted({metrics.git_commit[:10] for metrics, _ in sound})),
        beside=tuple(beside.values()),
        unrecorded=tuple(dict.fromkeys(unrecorded)),
        lost=tuple(lost),
        view=view,
    )


def _judge_run(folder: Path, cell: Cell, current_code: str, file: Seen | None) -> _StaleRun | None:
    """Return a finished run with the reason to measure it again; None where there is no reason.

    `file`: how Snakemake sees the file of the job; None where that is not known.
    """
    try:
        metrics = _sound_metrics(folder)
    except UserError:
        return _StaleRun(folder, cell, DAMAGED)
    reason = _reason_to_measure_again(metrics, cell.fingerprint, current_code, file)
    return _StaleRun(folder, cell, reason, metrics, file) if reason else None


def _sound_metrics(folder: Path) -> Timed | Failed:
    """Return the metrics of a run. Raises UserError where they, or the steps.csv that belongs to them, are damaged."""
    run = read_run(folder)
    if run.ok and (folder / STEPS).is_file():  # what is missing is told apart from what is damaged
        run.steps_file()
    return run.metrics


def _reason_to_measure_again(
    metrics: Timed | Failed, fingerprint: str, current_code: str, file: Seen | None
) -> str | None:
    """Return why a run would be measured again; None if it would not.

    `file`: how Snakemake sees the file of the job; None where that is not known.
    """
    if metrics.fingerprint != fingerprint:  # Snakemake may hold it for up to date, after a --touch
        return CONFIGURATION
    if file and not file.pending:
        return None
    if metrics.code_sha256 != current_code:
        return CODE
    if file is None or file.rule.endswith("shared_job"):  # such a job takes runs of the same code as they are
        return None
    return INPUT if file.recorded else UNRECORDED


def stale_text(stale: StaleRuns) -> str:
    """Return the answer for one campaign, with what to type."""
    return "\n".join(text for text in (_measured_again_text(stale), _lost_files_text(stale)) if text)


def _lost_files_text(stale: StaleRuns) -> str:
    """Return which files behind results are lost, and the shortest command that makes them again; "" if none is.

    The command names one file of each lost job: on the way to another target, Snakemake does not notice files that are
    lost.
    """
    if not stale.lost:
        return ""
    if stale.cells or stale.damaged:  # the command that measures these again makes all of the rest
        return f"{stale.campaign}: {lost_text(stale.lost)}"
    loaded, view = stale.loaded, stale.view or {}
    folder = stale.results / loaded.name
    report = folder / "report.html"
    records = records_without_runs(loaded, stale.results)  # of jobs that Snakemake holds for done
    of_records = {path for missing in records.values() for path in missing}
    targets: dict[tuple[str, Path], Path] = {}  # rule and folder -> the first file
    for path in sorted(stale.lost, key=lambda path: path.suffix == ".png"):
        if path not in of_records:
            rule = view[path].rule if path in view else path.stem
            targets.setdefault((rule, path.parent), path)
    forced, files = [str(record) for record in records], [str(path) for path in targets.values()]
    if len(forced) + len(files) > MOST_NAMED:
        of_runs = forced if len(forced) <= MOST_NAMED else ["shared_job"]
        forced, files = [*of_runs, str(folder / "runs.csv"), str(folder / "findings.json")], []
    if forced or any(path.parent.name not in DRAWN for path in stale.lost):
        files.append(str(report))
    words = [options_for(report), *(["--forcerun", *forced, "--"] if forced else []), *files]
    return f"{loaded.name}: {lost_text(stale.lost)}\n  to make what is missing again: snakemake {' '.join(words)}"


def _measured_again_text(stale: StaleRuns) -> str:
    """Return how many finished runs would be measured again, why, and what to type for or against it."""
    if not stale.runs and stale.beside:
        why = UNRECORDED if stale.unrecorded else f"{INPUT}, or its code"
        head = f"{stale.campaign}: {counted_text(stale.beside)} would be measured again, because {why}\n"
        return head + choices_text(stale.loaded, stale.results, *stale.unrecorded)
    if not stale.runs:
        return "" if stale.lost else f"{stale.campaign}: no finished run would be measured again"
    why = "; ".join(f"{count} because {reason}" for reason, count in stale.reasons.items())
    commits = ", ".join(stale.commits) or "an unknown commit"
    head = (
        f"{stale.campaign}: {stale.runs} of {stale.planned} runs would be measured again "
        f"({stale.device_hours:.3g} device hours): {why}; measured at {commits}"
        f"{'; with them ' if stale.beside else ''}{counted_text(stale.beside)}\n"
    )
    path = stale.loaded.path
    if stale.cells or stale.damaged:
        again = retry_command(path, (*stale.cells, *stale.damaged), stale.results)
        undo = f"undo the change in {path}, and make it in a copy of the file under another name"
        return f"{head}  to measure them again: {again}" + (f"\n  to keep the old ones: {undo}" if stale.cells else "")
    code = ""
    if CODE in stale.reasons:
        code = "\n  each run keeps the hash of its code; no ratio is formed between runs of different code"
    return head + choices_text(stale.loaded, stale.results, *stale.unrecorded) + code
