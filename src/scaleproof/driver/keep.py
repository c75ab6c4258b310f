"""Finished runs that Snakemake would measure again although nothing of their configuration has changed.

It has no record of runs that were copied from another folder, or that a job made after it was killed, and holds runs of
older code for out of date.
"""

import hashlib
import json
from collections.abc import Collection
from pathlib import Path

from scaleproof.driver import snakemake_view
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.corpora import local_files
from scaleproof.ground.campaign.loaded import LoadedCampaign, tokens_dir
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.records.run import CAPTURE, LAUNCHER, METRICS, METRICS_SEAL, Run, measure_again, read_planned
from scaleproof.ground.snakemake_command import options_for, results_option
from scaleproof.measure.launch.shared_job import finished_run

TOKENS = "tokens.json"


def keep(loaded: LoadedCampaign, results: Path) -> list[Path]:
    """Let Snakemake take the finished runs of a campaign, its traces and pairs, as they are; returns the runs' folders.

    Raises UserError where one is not a run of this campaign on these tokens, as it was written.
    """
    runs = [(folder, cell, k) for folder, cell, k in loaded.planned(results) if (folder / METRICS).is_file()]
    if not runs:
        raise UserError(f"{results / loaded.name}: no finished run of {loaded.path} is there; there is nothing to keep")
    changed: dict[str, str] = {}  # cell -> what is wrong with one of its runs
    records = []
    for folder, cell, repeat in runs:
        try:
            run = read_planned(folder, cell.slug, repeat, cell.fingerprint)
            records.append((run, cell))
            _check_seal(run)
        except UserError as error:
            changed.setdefault(cell.slug, str(error))
    _refuse(loaded, results, changed)
    _check_tokens(loaded, results, records)
    snakemake_view.record(_measured_files(loaded, results))
    return [folder for folder, *_ in runs]


def _check_seal(run: Run) -> None:
    """Check that the files of a run are those that were written together. Raises UserError where one is not."""
    launcher = run.folder / LAUNCHER
    try:
        seal = json.loads(launcher.read_bytes()).get(METRICS_SEAL)
    except (OSError, ValueError, AttributeError):
        raise UserError(f"{launcher} is missing or damaged") from None
    if seal and hashlib.sha256((run.folder / METRICS).read_bytes()).hexdigest() != seal:
        raise UserError(f"{run.folder / METRICS} was changed after the run: {LAUNCHER} has another sha256 of it")
    if run.ok:
        run.steps_file()


def _check_tokens(loaded: LoadedCampaign, results: Path, records: Collection[tuple[Run, Cell]]) -> None:
    """Check that the runs of `records` were made with the tokens that the campaign has now.

    Tokens that are missing, or are of local files, are made first. Raises UserError where a run has others.
    """
    records = [(run, cell) for run, cell in records if cell.command is None]
    folders = {tokens_dir(results, cell): cell for _, cell in records}
    corpora = {folder: cell.workload.corpus for folder, cell in folders.items()}
    local = {folder for folder, name in corpora.items() if local_files(name, loaded.corpora[name])}
    absent = {folder for folder in folders if not (folder / TOKENS).is_file()}
    if local | absent:  # texts of one's own may have changed; downloaded ones have their revision in their name
        snakemake_view.build(sorted(folder / TOKENS for folder in local | absent))
    changed: dict[str, str] = {}
    for run, cell in records:
        tokens = json.loads((tokens_dir(results, cell) / TOKENS).read_bytes())
        present = [tokens[part]["sha256"] for part in ("train", "val")]
        data = run.metrics.data
        if not run.ok or not data:
            continue
        if [data.get(f"{part}_sha256") for part in ("train", "val")] != present:
            changed.setdefault(cell.slug, f"{run.folder / METRICS} is of other tokens than {tokens_dir(results, cell)}")
    _refuse(loaded, results, changed)


def _refuse(loaded: LoadedCampaign, results: Path, changed: dict[str, str]) -> None:
    """Raise UserError where runs cannot be kept. `changed`: cell -> what is wrong with one of its runs."""
    if changed:
        raise UserError(
            f"nothing was kept: {next(iter(changed.values()))}. Of {plural(len(changed), 'cell')} runs cannot be kept; "
            f"measure them again, then keep the others: {measure_again(loaded.path, changed, results)}"
        )


def _measured_files(loaded: LoadedCampaign, results: Path) -> list[Path]:
    """Return the measured files that are there: of runs or of jobs that hold several, of traces, pairs and sweeps."""
    folder = results / loaded.name
    runs = loaded.records(results) if loaded.shared_jobs else [run / METRICS for run in loaded.runs(results)]
    traces = [folder / "traces" / cell.slug / CAPTURE for cell in loaded.traced]
    pairs = [folder / "compare" / name / "pairs.json" for name in loaded.comparisons]
    sweeps = [folder / "sweep" / group / "sweep.json" for group in loaded.communicating_groups]
    return [path for path in (*runs, *traces, *pairs, *sweeps) if path.is_file()]


def unrecorded_text(loaded: LoadedCampaign, results: Path, outputs: Collection[Path]) -> str | None:
    """Return what to say before Snakemake makes `outputs` again, of which it has no record; None where that is right.

    Runs that cannot stand in this campaign are made again without a word.
    """
    records = loaded.records(results)
    lost = []
    for folder, cell, repeat in loaded.planned(results):
        if folder / METRICS in outputs and _stands(folder, cell, repeat):
            lost.append(folder)
    for record, job in records.items():
        if record not in outputs:
            continue
        for cell, repeat in job.runs:
            folder = results / loaded.name / "runs" / cell.slug / f"rep{repeat}"
            if _stands(folder, cell, repeat) and finished_run(folder, cell) is None:  # else it is not measured again
                lost.append(folder)
    if not lost:
        return None
    rule = "shared_job" if loaded.shared_jobs else "train"
    return (
        f"snakemake has no record of {plural(len(lost), 'finished run')} of {loaded.name} ({lost[0]}"
        f"{', ...' if len(lost) > 1 else ''}) and would measure {'them' if len(lost) > 1 else 'it'} again: copied "
        "from another folder, or made by jobs of a snakemake that was killed?\n"
        f"{choices_text(loaded, results, rule)}"
    )


def choices_text(loaded: LoadedCampaign, results: Path, rule: str | None = None) -> str:
    """Return two lines with the commands of which people choose one: keep the runs, or measure them again.

    `rule`: of runs that Snakemake makes again only when forced to.
    """
    report = results / loaded.name / "report.html"
    forced = f"--forcerun {rule} -- " if rule else ""
    return (
        f"  to keep them: scaleproof keep {loaded.path}{results_option(results)}\n"
        f"  to measure them again: snakemake {options_for(report)} {forced}{report}"
    )


def _stands(folder: Path, cell: Cell, repeat: int) -> bool:
    """Return whether the run in `folder` has numbers, and is of the configuration of `cell`."""
    try:
        return read_planned(folder, cell.slug, repeat, cell.fingerprint).ok
    except UserError:
        return False
