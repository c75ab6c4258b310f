"""Files that results were made from and that are gone, or that nothing asks for any more.

Snakemake looks no further than the next file, and leaves what is of no rule's input.
"""

import csv
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from scaleproof.ground.campaign.loaded import LoadedCampaign, asks_for_more_repeats, look_file, run_dir
from scaleproof.ground.json_faults import read_part
from scaleproof.ground.records.run import CAPTURE, LAUNCHER, MANIFEST, METRICS, STEPS

RUN_FILES = (METRICS, STEPS, LAUNCHER)
RUN_FILE = re.compile(rf"(runs/[^/]+/rep[0-9]+)/(?:{'|'.join(RUN_FILES)})")
TRACE_FILES = (CAPTURE, "profile_summary.json", "timeline.csv")
TRACE_FILE = re.compile(rf"traces/([^/]+)/(?:{'|'.join(TRACE_FILES)})")
PAIRS = "pairs.json"
PAIRS_FILE = re.compile(rf"compare/([^/]+)/{PAIRS}")
DRAWN = re.compile(r"(?:tables|charts)/([^/]+)\.(?:csv|md|tex|svg|png)")
DERIVED = (
    *("runs.csv", "cells.csv", "losses.csv", "findings.json", "scaling_report.json", "claims.json", "waterfall.json"),
    MANIFEST,
)


# Key of a campaign -> what is derived from the pairs or traces that it asks for, as names or patterns.
OF_KEYS = {
    "compare": ("comparison.json", "tables/comparison.*", "charts/comparison.*"),
    "trace": ("traces.json", "charts/trace-*"),
}


def remove_left_over(loaded: LoadedCampaign, results: Path) -> None:
    """Remove the files of OF_KEYS where the campaign has that key no more. The pairs and traces themselves stay."""
    asks_for = {"compare": bool(loaded.comparisons), "trace": bool(loaded.traced)}
    for pattern in (pattern for key, names in OF_KEYS.items() if not asks_for[key] for pattern in names):
        for path in (results / loaded.name).glob(pattern):
            path.unlink()


def unplanned_folders(loaded: LoadedCampaign, results: Path) -> list[str]:
    """Return the folders of runs, pairs and traces that a campaign plans no more, relative to its folder."""
    folder = results / loaded.name
    planned = {os.path.relpath(path, folder) for path in loaded.runs(results)}
    planned |= {f"compare/{name}" for name in loaded.comparisons} | {f"traces/{cell.slug}" for cell in loaded.traced}
    there = [path for pattern in ("runs/*/*/", "compare/*/", "traces/*/") for path in folder.glob(pattern)]
    return sorted({path.relative_to(folder).as_posix() for path in there} - planned)


def lost_files(loaded: LoadedCampaign, results: Path, drawn: Collection[str]) -> list[Path]:
    """Return all files that are missing behind the results of a campaign. `drawn`: names of its tables and charts."""
    of_jobs = [path for missing in records_without_runs(loaded, results).values() for path in missing]
    return [*lost_results(loaded, results, drawn), *_missing_look(loaded, results), *of_jobs]


def _missing_look(loaded: LoadedCampaign, results: Path) -> list[Path]:
    """Return [file] of the last look before the table of runs was made, if that file is missing now; else []."""
    rule = loaded.campaign.repeat_until
    if rule is None or not (results / loaded.name / "runs.csv").is_file():
        return []
    looks = [look_file(results, loaded.name, n) for n in rule.looks()[:-1]]  # the last number decides nothing
    # The first look that does not ask for more repeats, or is missing, was the last one.
    last_look = next((look for look in looks if not asks_for_more_repeats(look)), None)
    return [last_look] if last_look and not last_look.is_file() else []


def lost_results(loaded: LoadedCampaign, results: Path, drawn: Collection[str]) -> list[Path]:
    """Return the files that a campaign's results were made from and that are missing, though it still plans them.

    `drawn`: the names of its tables and charts. Returns [] where nothing has been concluded yet.
    """
    folder = results / loaded.name
    planned_runs = {os.path.relpath(path, folder) for path in loaded.runs(results)}
    traced_cells = {cell.slug for cell in loaded.traced}
    of_parts = {"comparison.json": bool(loaded.comparisons), "traces.json": bool(traced_cells)}

    def is_planned(name: str) -> bool:
        """Return whether the campaign still plans the file, named relative to its folder.

        False for runs of shared jobs, which `records_without_runs` looks for.
        """
        if match := RUN_FILE.fullmatch(name):
            return match[1] in planned_runs and not loaded.shared_jobs
        if match := TRACE_FILE.fullmatch(name):
            return match[1] in traced_cells
        if match := PAIRS_FILE.fullmatch(name):
            return match[1] in loaded.comparisons
        if match := DRAWN.fullmatch(name):
            return match[1] in drawn
        return name in DERIVED or of_parts.get(name, False)

    # Snakemake removes report and manifest before it makes them. If that fails, the tables say what lies behind them.
    names_of_report = [MANIFEST] * (folder / "report.html").is_file() + _listed_names(folder / MANIFEST, "files")
    names = dict.fromkeys([*names_of_report, *_table_inputs(folder)])
    return [folder / name for name in names if is_planned(name) and not os.path.isfile(folder / name)]


def records_of_runs(loaded: LoadedCampaign, results: Path) -> dict[Path, Path]:
    """Return folder of a run -> the record of the job that makes it with others; {} where each run is a job."""
    jobs = loaded.records(results).items()
    return {run_dir(results, loaded.name, cell.slug, k): record for record, job in jobs for cell, k in job.runs}


def records_without_runs(loaded: LoadedCampaign, results: Path) -> dict[Path, list[Path]]:
    """Return the jobs of several runs that lack files: path of the job's record -> the files that are missing.

    Snakemake knows the record alone: where that is removed, the job is sent once more and makes these runs. Where the
    record itself is missing, the job counts if the table of runs has one of its runs; else it has not run yet. Runs
    of a cell that was added after the job do not count: Snakemake sends a job for them anyway.
    """
    missing_by_record: dict[Path, list[Path]] = {}
    runs_in_table = {f"{cell}/rep{repeat}" for cell, repeat in runs_of_table(results / loaded.name)}
    for record, job in loaded.records(results).items():
        runs_of_job = [f"{cell.slug}/rep{repeat}" for cell, repeat in job.runs]
        if not os.path.isfile(record) and runs_in_table.isdisjoint(runs_of_job):
            continue  # the job has not run yet

        # The runs that the record lists; without a record, those in the table of runs; without both, all of the job.
        made_runs = _listed_names(record, "runs") or runs_in_table.intersection(runs_of_job) or runs_of_job
        folders = [results / loaded.name / "runs" / run for run in runs_of_job if run in made_runs]
        files = [folder / name for folder in folders for name in RUN_FILES]
        if missing_files := [path for path in files if not os.path.isfile(path)]:
            missing_by_record[record] = missing_files
    return missing_by_record


def _table_inputs(folder: Path) -> Iterator[str]:
    """Yield the files that tables list: a report that failed leaves them, but no manifest of its inputs."""
    for cell, repeat in runs_of_table(folder):
        yield from (f"runs/{cell}/rep{repeat}/{name}" for name in RUN_FILES)
    for comparison in _listed_names(folder / "comparison.json", "comparisons", "name"):
        yield f"compare/{comparison}/{PAIRS}"
    for cell in _listed_names(folder / "traces.json", "traces", "cell"):
        yield from (f"traces/{cell}/{name}" for name in TRACE_FILES)


def _listed_names(path: Path, key: str, field: str | None = None) -> list[str]:
    """Return the names in the list `key` of a JSON file of ours: its entries, or the value of `field` in each.

    Returns [] where the file is damaged or missing: the stage that needs it says so.
    """
    names = read_part(path, lambda content: [str(entry[field] if field else entry) for entry in content[key]])
    return names or []


def runs_of_table(folder: Path) -> list[tuple[str, str]]:
    """Return cell and repeat of each row of the table of runs; none where it is missing or damaged."""
    try:
        with (folder / "runs.csv").open(encoding="utf-8", newline="") as table:
            return [(row["cell"], row["repeat"]) for row in csv.DictReader(table)]
    except (OSError, ValueError, KeyError, csv.Error):
        return []


def lost_text(lost: Collection[Path]) -> str:
    """Return in words what is missing: "results/demo/runs/ddp-n1x2/rep1 is no longer complete", "3 files are missing".

    Runs and other files are two statements, with a semicolon between them.
    """
    runs = sorted({str(path.parent) for path in lost if path.parent.name.startswith("rep")})
    others = [str(path) for path in lost if str(path.parent) not in runs]
    texts = []
    if runs:
        subject = f"{runs[0]} is" if len(runs) == 1 else f"{len(runs)} runs ({runs[0]}, ...) are"
        texts.append(f"{subject} no longer complete")
    if others:
        subject = f"{others[0]} is" if len(others) == 1 else f"{len(others)} files ({others[0]}, ...) are"
        texts.append(f"{subject} missing")
    return "; ".join(texts)
