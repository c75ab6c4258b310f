"""Files that a finished report was made from and that are gone: Snakemake alone looks no further than the report."""

import json
import os
import re
from collections.abc import Collection
from pathlib import Path

from scalebench.campaign.loaded import LoadedCampaign, run_dir
from scalebench.record.run import CAPTURE, LAUNCHER, METRICS, STEPS

MANIFEST = "manifest.json"  # written with the report
RUN_FILE = re.compile(rf"(runs/[^/]+/rep[0-9]+)/(?:{METRICS}|{STEPS}|{LAUNCHER})")
TRACE_FILE = re.compile(rf"traces/([^/]+)/(?:{CAPTURE}|profile_summary\.json|timeline\.csv)")
PAIRS_FILE = re.compile(r"compare/([^/]+)/pairs\.json")
DRAWN = re.compile(r"(?:tables|charts)/([^/]+)\.(?:csv|md|tex|svg|png)")
DERIVED = ("runs.csv", "cells.csv", "losses.csv", "findings.json", "scaling_report.json", "waterfall.json")


def lost_results(loaded: LoadedCampaign, results: Path, drawn: Collection[str]) -> list[Path]:
    """The files of a reported campaign that are missing now and that the campaign still plans.

    `drawn`: its tables and charts. Nothing where no report has been written yet.
    """
    folder = results / loaded.name
    try:
        names = list(json.loads((folder / MANIFEST).read_bytes())["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return []
    planned = {os.path.relpath(path, folder) for path in loaded.runs(results)}
    traced = {cell.slug for cell in loaded.traced}

    def belongs(name: str) -> bool:
        if match := RUN_FILE.fullmatch(name):  # those of shared jobs: records_without_runs
            return match[1] in planned and not loaded.shared_jobs
        if match := TRACE_FILE.fullmatch(name):
            return match[1] in traced
        if match := PAIRS_FILE.fullmatch(name):
            return match[1] in loaded.comparisons
        if match := DRAWN.fullmatch(name):
            return match[1] in drawn
        return name in DERIVED

    return [folder / name for name in names if belongs(name) and not os.path.isfile(folder / name)]


def records_without_runs(loaded: LoadedCampaign, results: Path) -> dict[Path, list[Path]]:
    """The records of jobs of several runs that say more than is there: record -> the files of runs that are missing.

    Snakemake knows the record alone. With it, the job is sent once more, and makes these runs.
    """
    incomplete: dict[Path, list[Path]] = {}
    for record, job in loaded.records(results).items():
        if not os.path.isfile(record):
            continue
        folders = [run_dir(results, loaded.name, cell.slug, repeat) for cell, repeat in job.runs]
        files = [folder / name for folder in folders for name in (METRICS, STEPS, LAUNCHER)]
        missing = [path for path in files if not os.path.isfile(path)]
        if missing:
            incomplete[record] = missing
    return incomplete


def lost_text(lost: Collection[Path]) -> str:
    """What is missing, and what follows from it."""
    runs = sorted({str(path.parent) for path in lost if path.parent.name.startswith("rep")})
    others = [str(path) for path in lost if str(path.parent) not in runs]
    texts = []
    if runs:
        what = f"{runs[0]} is" if len(runs) == 1 else f"{len(runs)} runs ({runs[0]}, ...) are"
        texts.append(f"{what} no longer complete and will be measured again")
    if others:
        what = f"{others[0]} is" if len(others) == 1 else f"{len(others)} files ({others[0]}, ...) are"
        texts.append(f"{what} missing and will be made again")
    return "; ".join(texts)
