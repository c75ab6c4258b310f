"""The runs of a campaign that failed or are left: how many, why, and what to type; said when Snakemake ends."""

from collections.abc import Collection, Iterator
from pathlib import Path

from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import plural, shortened
from scaleproof.ground.records.grouping import lists_by_key
from scaleproof.ground.records.lost_results import lost_files, lost_text, records_of_runs
from scaleproof.ground.records.run import (
    LOG,
    METRICS,
    DamagedMetrics,
    has_record,
    keep_command,
    read_run,
    retry_command,
)
from scaleproof.ground.records.run_sections import Failure
from scaleproof.ground.records.unreadable import UNREADABLE
from scaleproof.ground.snakemake_command import results_option

MOST_NAMES = 3  # of runs with one reason
# Snakemake's exit code if everything was built, but runs failed: they are rows of the report. 1 is Snakemake's own.
EXIT_CODE = 3


def failed_runs_text(loaded: LoadedCampaign, results: Path) -> str | None:
    """Return how many runs failed, why, and the command that repeats them; None if no run failed.

    A cell that cannot run on this machine has not failed.
    """
    failures = list(_failures(loaded, results))
    reasons = lists_by_key(  # -> folders of its runs
        (shortened(f"{failure.failure_class}: {failure.reason}", 300), folder) for folder, failure in failures
    )
    if not reasons:
        return None
    failed, total = sum(map(len, reasons.values())), len(loaded.cells) * loaded.repeats(results)
    lines = [f"{failed} of {plural(total, 'run')} of {loaded.name} failed (rows of the report):"]
    for reason, folders in reasons.items():
        names = ", ".join(f"{folder.parent.name}/{folder.name}" for folder in folders[:MOST_NAMES])
        more = f" and {len(folders) - MOST_NAMES} more" if len(folders) > MOST_NAMES else ""
        log = f" (log: {folders[0] / LOG})" if (folders[0] / LOG).is_file() else ""
        lines.append(f"  {names}{more}: {reason}{log}")
    classes = " ".join(sorted({failure.failure_class for _, failure in failures}))
    lines.append(f"What repairs them: scaleproof explain {classes}")
    lines.append(f"Then repeat them with: {retry_command(loaded.path, (), results)}")
    return "\n".join(lines)


def ended_early_text(
    loaded: LoadedCampaign, results: Path, planned: Collection[Path], unfinished: Collection[Path]
) -> str | None:
    """Return how many runs are left of a campaign whose Snakemake was stopped or has failed, and what to type.

    Returns None where no run is left. `planned`: all files that Snakemake was to make. `unfinished`: those of them
    whose jobs it has not seen end; it makes them again even if they exist. The same command goes on with them. Missing
    runs outside of `planned` come first, and need another command: Snakemake does not look for them, because the
    results that were made from them are still there.
    """
    # METRICS of each run -> the file that Snakemake knows of its job: the same file, or the record of a job of several.
    output_of_run = {folder / METRICS: folder / METRICS for folder in loaded.runs(results)}
    output_of_run |= {folder / METRICS: record for folder, record in records_of_runs(loaded, results).items()}
    missing_runs = [path for path in lost_files(loaded, results, drawn=()) if path in output_of_run]
    if unplanned := [run for run in missing_runs if output_of_run[run] not in planned]:
        return f"{lost_text(unplanned)}; what to type: scaleproof stale {loaded.path}{results_option(results)}"
    # A job of several runs keeps those that exist: only the others are left to be made.
    of_unfinished = ((run, output) for run, output in output_of_run.items() if output in unfinished)
    left = [run for run, output in of_unfinished if run == output or not run.is_file()]
    if not left:
        return None
    total = plural(len(output_of_run), "run")
    text = f"{len(left)} of {total} of {loaded.name} left; the same command goes on with them"
    if measured := sum(run.is_file() for run in left):  # its job had not ended, or its configuration changed
        keep = keep_command(loaded.path, results)
        verb = "is" if measured == 1 else "are"
        text += f", and measures {measured} again that {verb} there, unless you first type: {keep}"
    return text


def _failures(loaded: LoadedCampaign, results: Path) -> Iterator[tuple[Path, Failure]]:
    """Yield folder and failure of each run that failed, or whose record is damaged."""
    for folder in loaded.runs(results):
        if not has_record(folder):
            continue
        try:
            metrics = read_run(folder).metrics
        except DamagedMetrics as error:
            yield folder, Failure(failure_class=UNREADABLE, reason=str(error))
            continue
        if metrics.status == "failed":
            yield folder, metrics.failure
