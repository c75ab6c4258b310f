"""Finished runs that Snakemake would measure again although nothing of their configuration has changed.

It has no record of runs that were copied from another folder, or that a job made after it was killed, and holds runs of
older code for out of date.
"""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from scaleproof.driver import snakemake_view
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.corpora import local_files
from scaleproof.ground.campaign.loaded import LoadedCampaign, tokens_dir
from scaleproof.ground.code_dependencies import MEASURING, code_sha256
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.json_faults import read_part
from scaleproof.ground.records.corpus_files import TOKENS, read_tokens
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.records.kept_code import KEPT, keep_code
from scaleproof.ground.records.lost_results import records_of_runs, runs_of_table
from scaleproof.ground.records.run import (
    CAPTURE,
    LAUNCHER,
    METRICS,
    METRICS_SEAL,
    PAIRS,
    Run,
    has_record,
    keep_command,
    read_planned,
    retry_command,
)
from scaleproof.ground.snakemake_command import derive_again_command, options_for, results_option
from scaleproof.measure.launch.pairs import first_pair
from scaleproof.measure.launch.replayed_cells import cells_by_workload
from scaleproof.measure.launch.shared_job import changed_files, finished_run
from scaleproof.measure.reference.schema import FOLDER

# Rule that measures -> noun for what it makes.
MEASURED = {"train": "finished run", "shared_job": "finished run", "trace_capture": "trace", "pairs": "comparison"}
MEASURED |= {rule: rule for rule in ("reference", "sweep")}


def keep(loaded: LoadedCampaign, results: Path) -> list[Path]:
    """Let Snakemake take a campaign's finished runs, traces and pairs as they are. Returns the runs' folders.

    Raises UserError where a run has another configuration, program or tokens, or its files were changed since.
    """
    runs = [(folder, cell, k) for folder, cell, k in loaded.planned(results) if has_record(folder)]
    if not runs:
        raise UserError(f"{results / loaded.name}: no finished run of {loaded.path} is there; there is nothing to keep")

    changed: dict[Path, str] = {}  # folder of a run -> its fault
    records = []  # each run with its cell
    for folder, cell, repeat in runs:
        try:
            run = read_planned(folder, cell, repeat)
            records.append((run, cell))
            _check_seal(run)
            edited = changed_files(run.metrics, cell, folder / METRICS) if run.ok else []  # a failed run has no hashes
            if edited:
                raise UserError(f"{folder / METRICS} was measured before {', '.join(edited)} changed")
        except UserError as error:
            changed[folder] = str(error).partition("\n")[0]  # its second line says how to keep it
    _raise_if_changed(loaded, results, changed)
    _check_tokens(loaded, results, records)

    # A job of several runs keeps those that are finished: without its record Snakemake lets it make the missing ones.
    for folder, record in records_of_runs(loaded, results).items():
        if not (folder / METRICS).is_file():
            record.unlink(missing_ok=True)

    # The files that Snakemake knows: records of shared jobs, or the metrics of each run.
    outputs = loaded.records(results) if loaded.shared_jobs else [folder / METRICS for folder in loaded.runs(results)]
    files = [path for path in (*outputs, *measured_beside(loaded, results)) if path.is_file()]
    snakemake_view.mark_up_to_date(files)
    codes = {run.metrics.code_sha256 for run, _ in records}
    keep_code(results / loaded.name, code_sha256(*MEASURING), codes)
    _remove_tables_of_other_runs(results / loaded.name, [run for run, _ in records])
    return [folder for folder, *_ in runs]


def _remove_tables_of_other_runs(folder: Path, runs: Collection[Run]) -> None:
    """Remove the tables from which all else is derived, if they are not of `runs`: Snakemake does not see that.

    It goes by the records of jobs, which are the same where runs were taken out and put back.
    """
    if set(runs_of_table(folder)) != {(run.metrics.cell, str(run.metrics.repeat)) for run in runs}:
        for table in (folder / "runs.csv", folder / "findings.json"):
            table.unlink(missing_ok=True)


def _check_seal(run: Run) -> None:
    """Check that the files of a run were written together. Raises UserError where one was not."""
    launcher = run.folder / LAUNCHER
    try:
        seal = json.loads(launcher.read_bytes()).get(METRICS_SEAL)  # the sha256 of the metrics as written
    except (OSError, ValueError, AttributeError):
        raise UserError(f"{launcher} is missing or damaged") from None
    if seal and hashlib.sha256((run.folder / METRICS).read_bytes()).hexdigest() != seal:
        raise UserError(f"{run.folder / METRICS} was changed after the run: {LAUNCHER} has another sha256 of it")
    if run.ok:
        run.steps_file()  # raises UserError where steps.csv belongs to other metrics


def _check_tokens(loaded: LoadedCampaign, results: Path, records: Collection[tuple[Run, Cell]]) -> None:
    """Raise UserError where a run has other tokens than the campaign has now. Commands have no tokens.

    Missing tokens are made first, and tokens of local files, whose text may have changed; downloaded files cannot
    have changed, as the folder's name has their revision.
    """
    trained = [(run, cell, tokens_dir(results, cell)) for run, cell in records if cell.command is None]
    to_make = set()
    for _, cell, folder in trained:
        corpus = cell.workload.corpus
        if local_files(corpus, loaded.corpora[corpus]) or not (folder / TOKENS).is_file():
            to_make.add(folder / TOKENS)
    if to_make:
        print("scaleproof: making the tokens of the runs again, to compare; this may take minutes", file=sys.stderr)
        snakemake_view.make_files(sorted(to_make))

    changed: dict[Path, str] = {}  # folder of a run -> its fault
    for run, _, folder in trained:
        tokens, data = read_tokens(folder), run.metrics.data
        if not run.ok or not data:
            continue  # no figures of this run follow from its tokens
        if any(data.get(f"{split}_sha256") != tokens[split]["sha256"] for split in ("train", "val")):
            changed[run.folder] = f"{run.folder / METRICS} is of other tokens than {folder}"
    _raise_if_changed(loaded, results, changed)


def _raise_if_changed(loaded: LoadedCampaign, results: Path, changed: dict[Path, str]) -> None:
    """Raise UserError if there are `changed` runs: folder of a run -> its fault."""
    if changed:
        names = names_of_runs(changed)
        fault = f"{next(iter(changed.values()))}. {plural(len(changed), 'run')} cannot be kept"
        advice = f"measure them again, then keep the others: {retry_command(loaded.path, names, results)}"
        advice += "; what changed: scaleproof stale" + results_option(results)
        raise UserError(f"nothing was kept: {fault}; {advice}")


def names_of_runs(folders: Iterable[Path]) -> list[str]:
    """Return runs as `scaleproof retry` names them: CELL where all runs of a cell are given, else CELL/repK."""
    names: list[str] = []
    for cell, runs in group_by(folders, lambda run: run.parent).items():
        is_whole = len(runs) == len(list(cell.glob(f"*/{METRICS}")))
        names += [cell.name] if is_whole else [f"{cell.name}/{run.name}" for run in runs]
    return names


def measured_beside(loaded: LoadedCampaign, results: Path, fitting: bool = True) -> dict[Path, str]:
    """Return file -> its rule for what was measured beside the runs, if the file is there.

    `fitting`: whether only files with the campaign's present configuration are returned. Else a file is returned
    if its folder has any .json, even if the file itself is missing.
    """
    folder = results / loaded.name
    rules = {
        path: rule
        for path, rule, records in _records_beside(loaded, folder)
        if not fitting or all(_fingerprint_in(record) == cell.fingerprint for record, cell in records.items())
    }
    rules |= {folder / FOLDER / f"{workload}.json": "reference" for workload in cells_by_workload(loaded.cells)}
    rules |= {folder / "sweep" / group / "sweep.json": "sweep" for group in loaded.communicating_groups}
    # A file's name may say what is trained (references): after a change of keys the campaign plans another name, and
    # the folder still has the old one.
    return {path: rule for path, rule in rules.items() if any(path.parent.glob(path.name if fitting else "*.json"))}


def measured_otherwise(loaded: LoadedCampaign, results: Path) -> dict[Path, str]:
    """Return file -> its rule for traces and comparisons that are there with another configuration than is planned."""
    return {
        path: rule
        for path, rule, records in _records_beside(loaded, results / loaded.name)
        if path.is_file()
        and any(_fingerprint_in(record) not in (None, cell.fingerprint) for record, cell in records.items())
    }


def _records_beside(loaded: LoadedCampaign, folder: Path) -> Iterator[tuple[Path, str, dict[Path, Cell]]]:
    """Yield the file of each trace and comparison of a campaign, its rule, and its records -> what they are to be of.

    All pairs of a comparison have the configuration of the first. `folder`: the results of the campaign.
    """
    for cell in loaded.traced:
        trace = folder / "traces" / cell.slug / CAPTURE
        yield trace, "trace_capture", {trace: cell}
    for name, (comparison, a, b) in loaded.comparisons.items():
        pair = folder / "compare" / name / f"pair{first_pair(comparison)}"
        yield pair.with_name(PAIRS), "pairs", {pair / "a" / METRICS: a, pair / "b" / METRICS: b}


def counted_text(rules: Iterable[str]) -> str:
    """Describe what jobs of these rules have made: "1 trace, 2 references"."""
    return ", ".join(plural(number, MEASURED[rule]) for rule, number in Counter(rules).items())


def _fingerprint_in(record: Path) -> str | None:
    """Return the fingerprint of a run or trace by its file; None where that is missing or damaged."""
    return read_part(record, lambda content: str(content["fingerprint"]))


def unrecorded_text(loaded: LoadedCampaign, results: Path, outputs: Collection[Path]) -> str | None:
    """Warn that Snakemake would measure some of `outputs` again, because it has no record of them.

    The warning names the files, and the commands to keep them or measure them again. Runs that do not fit the campaign
    any more are measured again without a warning. Returns None where there is nothing to warn of.
    """
    files = _sound_files(loaded, results, outputs)
    if not files:
        return None
    first_file = next(iter(files))
    files_text, pronoun = (first_file, "it") if len(files) == 1 else (f"{first_file}, ...", "them")
    return (
        f"snakemake has no record of {counted_text(files.values())} of {loaded.name} ({files_text}) and would measure "
        f"{pronoun} again: copied from another folder, or made by jobs of a snakemake that was killed?\n"
        f"{choices_text(loaded, results, *dict.fromkeys(files.values()))}"
    )


def cut_off_text(loaded: LoadedCampaign, results: Path, outputs: Collection[Path]) -> str | None:
    """Return a sentence on those of `outputs` that are there, though Snakemake ended before it saw their jobs end.

    It measures them again, without a word. Returns None where none of them is of use.
    """
    files = _sound_files(loaded, results, outputs)
    if not files:
        return None
    verb, pronoun = ("is", "it") if len(files) == 1 else ("are", "they")
    return (
        f"{counted_text(files.values())} of {loaded.name} {verb} there, and snakemake was killed before it knew: "
        f"{pronoun} {verb} measured again, unless you first type: {keep_command(loaded.path, results)}"
    )


def _sound_files(loaded: LoadedCampaign, results: Path, outputs: Collection[Path]) -> dict[Path, str]:
    """Return the folders of runs and files among `outputs` that fit the campaign, each with the rule that makes it."""
    records = records_of_runs(loaded, results)  # folder of a run -> file of its shared job; {} where each run is a job
    runs = []
    for folder, cell, repeat in loaded.planned(results):
        is_sound_output = records.get(folder, folder / METRICS) in outputs and _fits_campaign(folder, cell, repeat)
        # A job of several runs leaves a finished run of this configuration, code and program as it is.
        is_kept_by_job = folder in records and finished_run(folder, cell)
        if is_sound_output and not is_kept_by_job:
            runs.append(folder)
    files = dict.fromkeys(runs, "shared_job" if records else "train")  # run or file -> its rule
    files |= {path: rule for path, rule in measured_beside(loaded, results).items() if path in outputs}
    return files


def rest_text(loaded: LoadedCampaign, results: Path) -> str:
    """Describe how the rest of a kept campaign is made: by force where runs are missing, as Snakemake may not notice.

    It goes by times alone where it has no record of what was made of the runs.
    """
    folder = results / loaded.name
    if all((run / METRICS).is_file() for run in loaded.runs(results)):
        text = "snakemake will make the rest of the results from them"
    else:
        text = f"to make the missing runs: {derive_again_command(folder / 'report.html')}"
    older = "\n  they are of older code: a cell with runs of today's is not compared with them"
    return text + older * (folder / KEPT).is_file()


def choices_text(loaded: LoadedCampaign, results: Path, *rules: str) -> str:
    """Return two commands, of which people choose one: to keep the runs, or to measure them again."""
    return f"  to keep them: {keep_command(loaded.path, results)}\n{again_text(loaded, results, *rules)}"


def again_text(loaded: LoadedCampaign, results: Path, *rules: str) -> str:
    """Return the command that measures runs again. `rules`: those whose jobs Snakemake runs only when forced to."""
    report = results / loaded.name / "report.html"
    forced = f"--forcerun {' '.join(rules)} -- " if rules else ""
    return f"  to measure them again: snakemake {options_for(report)} {forced}{report}"


def _fits_campaign(folder: Path, cell: Cell, repeat: int) -> bool:
    """Return whether the run in `folder` has numbers, and is repeat number `repeat` of `cell` as configured now."""
    try:
        return read_planned(folder, cell, repeat).ok
    except UserError:
        return False
