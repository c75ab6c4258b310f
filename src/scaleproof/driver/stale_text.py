"""What `scaleproof stale` prints: what would be made again, why, and what to type."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from scaleproof.driver.keep import again_text, choices_text, counted_text
from scaleproof.driver.planned_work import copied_from_text
from scaleproof.driver.stale import CODE, CONFIGURATION, UNRECORDED, StaleRuns
from scaleproof.ground.errors import UserError, plural, shortened
from scaleproof.ground.number_format import duration_in_words
from scaleproof.ground.records.lost_results import lost_text, records_without_runs
from scaleproof.ground.records.metrics import Failed
from scaleproof.ground.records.run import beside_again, keep_command, retry_command, undo_text
from scaleproof.ground.records.scaling_report import read_scaling_report
from scaleproof.ground.snakemake_command import derive_again_command, options_for, results_target
from scaleproof.verify.manifest import DRAWN

MOST_NAMED = 6  # jobs that a command names one by one


def stale_text(stale: StaleRuns) -> str:
    begun = f"; {stale.begun} of them being made now, or cut off" if stale.begun else ""
    unmade = f"{stale.loaded.name}: not made yet: {plural(stale.unmade, 'run')}{begun}" if stale.unmade else ""
    unmade += copied_from_text(stale.loaded, stale.results) if unmade else ""
    if unmade and stale.files.unnamed:
        left = f"the runs of {shortened(', '.join(stale.files.unnamed))} are of no cell any more"
        unmade += f"\n  {left}: a key that comes under `vary` renames all cells; under `cells` it makes further ones"
        if renamed := [f"{old} is {new}" for old, new in stale.files.unnamed.items() if new]:
            unmade += f", and these runs stay, which have the same fingerprints ({shortened(', '.join(renamed), 200)})"
    texts = [_measured_again_text(stale), _lost_files_text(stale), *_file_texts(stale), _moved_text(stale), unmade]
    table = stale.view.get(stale.results / stale.loaded.name / "runs.csv")  # that of all runs
    if stale.keepable and table and not table.pending and not table.recorded:
        what_may_come = "would make none of these" if unmade else "may measure them again once their inputs are newer"
        texts.append(
            f"  snakemake has no record of the runs that are there, as of copied ones, and {what_may_come}; "
            f"first: {keep_command(stale.loaded.path, stale.results)}"
        )
    return "\n".join(text for text in texts if text)


def _file_texts(stale: StaleRuns) -> Iterator[str]:
    """Yield what files are there that are damaged, that the report was not made from, or that nothing needs."""
    name, folder = stale.loaded.name, stale.results / stale.loaded.name
    for fault in stale.files.texts:
        yield f"{name}: {fault}\n  snakemake and scaleproof keep start nothing until the text of the corpus is there"
    yield from (f"{name}: {fault}" for fault in stale.files.tokens)
    if newer := stale.files.newer:
        runs = shortened(", ".join(newer), 100)
        yield f"{name}: update scaleproof: a newer version has written the records of {runs}, which are left out"
    if stale.files.changed:
        count = "1 file is" if len(stale.files.changed) == 1 else f"{len(stale.files.changed)} files are"
        yield f"{name}: {count} not what the report was made from ({shortened(', '.join(stale.files.changed), 200)})"
        yield f"  what is wrong, and what to type: scaleproof verify {folder}"
        yield from (f"  {advice}" for advice in beside_again(folder, stale.files.changed))
    if unplanned := stale.files.unplanned:
        names = shortened(", ".join(f"{run.parent.name}/{run.name}" for run in unplanned), 100)
        runs = f"{plural(len(unplanned), 'run')} ({names})"
        yield f"{name}: the campaign does not plan {runs}: move them out of {folder}/runs, or plan them again"


def _moved_text(stale: StaleRuns) -> str:
    """Describe tables that were made where the results were before, with the command that makes them here."""
    folder = stale.results / stale.loaded.name
    report, page, runs = (folder / name for name in ("scaling_report.json", "report.html", "runs.csv"))
    made_in = here = results_target(stale.results)
    with suppress(UserError):  # there is none yet, or it is damaged
        made_in = read_scaling_report(report).results
    if made_in == here:
        return ""
    text = f"{stale.loaded.name}: its tables were made in {made_in}, which they name"
    if runs not in stale.view:  # no rule makes them there
        return text
    return f"{text}\n  to make them here: {derive_again_command(page)}"


def _lost_files_text(stale: StaleRuns) -> str:
    """Describe the lost files behind results, with the command that makes them again. Returns "" without any."""
    if not stale.lost:
        return ""
    text = f"{stale.loaded.name}: {lost_text(stale.lost)}"
    if stale.cells or stale.damaged:  # the command that measures these again makes the lost files as well
        return text
    return f"{text}\n  to make what is missing again: snakemake {' '.join(_words_for_lost_files(stale))}"


def _words_for_lost_files(stale: StaleRuns) -> list[str]:
    """Return Snakemake's options and targets, as few as possible, by which it makes the lost files again.

    A file of each job is a target: on the way to another target, Snakemake does not notice that files are lost.
    """
    folder = stale.results / stale.loaded.name
    report = folder / "report.html"
    records = records_without_runs(stale.loaded, stale.results)  # file of a job -> its lost files; forced, as it exists
    made_by_force = {path for missing_files in records.values() for path in missing_files}
    targets: dict[tuple[str, Path], Path] = {}  # a job, by its rule and folder -> one of its files
    for path in sorted(stale.lost, key=lambda path: path.suffix == ".png"):  # of a chart, the .svg is the target
        if path not in made_by_force:
            rule = stale.view[path].rule if path in stale.view else path.stem  # else it counts as a job of its own
            targets.setdefault((rule, path.parent), path)

    forced, files = [str(record) for record in records], [str(path) for path in targets.values()]
    # Too many to name: the jobs of runs.csv and findings.json are forced, before which Snakemake makes what they read.
    if len(forced) + len(files) > MOST_NAMED:
        rules = dict.fromkeys(stale.view[record].rule for record in records if record in stale.view)
        forced_runs = forced if len(forced) <= MOST_NAMED else [*rules]
        forced, files = [*forced_runs, str(folder / "runs.csv"), str(folder / "findings.json")], []
    if forced or any(path.parent.name not in DRAWN for path in stale.lost):
        files.append(str(report))
    force_options = ["--forcerun", *forced, "--"] if forced else []
    return [options_for(report), *force_options, *dict.fromkeys(files)]


def _measured_again_text(stale: StaleRuns) -> str:
    """Describe how many finished runs would be measured again and why, with the commands to do so or to keep them."""
    beside = counted_text(stale.beside.values())
    if stale.runs:
        reasons = Counter(run.reason for run in stale.runs)
        why = "; ".join(f"{count} because {reason}" for reason, count in reasons.items())
        hours = sum(run.device_hours for run in stale.runs)
        minutes_text = f"{duration_in_words(3600 * hours)} of a device"
        device_time = f"{hours:.3g} device hours" if hours >= 1.5 else minutes_text
        commits = ", ".join(sorted({run.metrics.git_commit[:10] for run in stale.runs if run.metrics}))
        amount = f"{len(stale.runs)} of {stale.planned} runs would be measured again"
        amount += f" ({device_time})" if commits else ""
        with_them = f"; with them {beside}" if beside else ""
        head = f"{amount}: {why}{f'; measured at {commits}' if commits else ''}{with_them}"
    elif beside:
        why = CONFIGURATION if stale.otherwise else UNRECORDED if stale.unrecorded else stale.cause
        head = f"{beside} would be measured again, because {why}"
    else:
        has_finished = not (stale.lost or stale.files.texts) and stale.unmade < stale.planned
        return f"{stale.loaded.name}: no finished run would be measured again" if has_finished else ""

    head = f"{stale.loaded.name}: {head}\n"
    path = stale.loaded.path
    if stale.cells or stale.damaged:  # these runs cannot be kept
        command = retry_command(path, (*stale.cells, *stale.damaged), stale.results, stale.otherwise)
        advice = undo_text(path) if stale.cells else "to keep the old ones: restore their files"
        return f"{head}  to measure them again: {command}\n  {advice}"
    forced = (*stale.unrecorded, *map(str, stale.otherwise))
    if stale.has_edited_program or (stale.otherwise and not stale.runs):
        command = again_text(stale.loaded, stale.results, *forced)
        changed = "the file" if stale.has_edited_program else path
        return f"{head}{command}\n  to keep the old ones: undo the change of {changed}"
    note = ""
    if stale.failed:  # these have no figures to keep
        command = retry_command(path, stale.failed, stale.results)
        if not beside and all(isinstance(run.metrics, Failed) for run in stale.runs):
            return f"{head}  they had failed; to measure them again: {command}"
        note = f"\n  to measure only those again that had failed ({shortened(', '.join(stale.failed), 100)}): {command}"
    if any(run.reason == CODE for run in stale.runs):
        note += "\n  each run keeps the hash of its code; no ratio is formed between runs of different code"
    return head + choices_text(stale.loaded, stale.results, *forced) + note
