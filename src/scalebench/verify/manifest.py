"""manifest.json: the sha256 of every file of a finished campaign, so that a changed or missing one is noticed."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from scalebench.files import write_json
from scalebench.verify.raw import Difference

MANIFEST = "manifest.json"
SCHEMA_VERSION = "1.0"
FOLDERS = ("runs", "compare", "traces", "forecasts", "tables", "charts")
FILES = (
    "runs.csv",
    "cells.csv",
    "losses.csv",
    "findings.json",
    "scaling_report.json",
    "comparison.json",
    "traces.json",
    "waterfall.json",
    "forecast_before.json",
    "forecast.json",
    "report.html",
)


def write_manifest(folder: Path, version: str) -> None:
    """Write manifest.json of a campaign's folder; `version`: of the scalebench that made the report."""
    hashes = {path.relative_to(folder).as_posix(): _sha256(path) for path in _files(folder)}
    write_json(folder / MANIFEST, {"schema_version": SCHEMA_VERSION, "scalebench": version, "files": hashes})


def check_manifest(folder: Path) -> list[Difference]:
    """Files that changed or vanished since the report was written, and runs that came later."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
        listed = dict(manifest["files"])
    except FileNotFoundError:
        return [Difference(MANIFEST, "", f"is missing; the report writes it: snakemake {folder}/report.html")]
    except (ValueError, KeyError, TypeError) as error:
        return [Difference(MANIFEST, "", f"not readable: {error!r}"[:120])]
    if manifest.get("schema_version") != SCHEMA_VERSION:
        return [Difference(MANIFEST, "schema_version", f"{manifest.get('schema_version')!r} is not known")]
    differences = []
    for name, expected in listed.items():
        file = folder / name
        if not file.is_file():
            differences.append(Difference(name, "", "is missing"))
        elif (current := _sha256(file)) != expected:
            problem = f"changed since the report was written ({str(expected)[:12]} then, {current[:12]} now)"
            differences.append(Difference(name, "sha256", problem))
    for name in sorted(p.relative_to(folder).as_posix() for p in folder.glob("runs/*/rep*/training_metrics.json")):
        if name not in listed:
            differences.append(Difference(name, "", "a run that the report does not have"))
    return differences


def _files(folder: Path) -> Iterator[Path]:
    """What the report is made from, and itself. Raw profiles are left out: their summaries are results."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") for part in parts)
        part_of_report = parts[0] in (FOLDERS if len(parts) > 1 else FILES)
        if part_of_report and path.is_file() and not hidden and "raw" not in parts:
            yield path


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
