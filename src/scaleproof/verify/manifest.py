"""manifest.json: the sha256 of every file of a finished campaign, so that a changed or missing one is noticed."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.errors import describe_first_fault, shortened
from scaleproof.ground.files import MOST_BYTES, sha256_of, write_json
from scaleproof.ground.number_format import integer
from scaleproof.ground.records.result_file import ResultPart
from scaleproof.ground.snakemake_command import snakemake_command
from scaleproof.verify.contents import DAMAGES, REPORT, json_of, schema_of
from scaleproof.verify.raw import Difference

MANIFEST = "manifest.json"
SEAL = "manifest_sha256"  # its last key
SCHEMA_VERSION = "1.1"
DEMANDS_FROM = (5, 3)  # schema of the report from which on its manifest has the demands
RENAMED = "was renamed since the report was written"
FOLDERS = ("runs", "compare", "traces", "reference", "forecasts", "tables", "charts", "workflow")
CAMPAIGN, WORKFLOW = "campaign.yaml", "Snakefile"  # of a publication, with the folder workflow
DESCRIPTIONS = ("README.md", "LICENSE", "CITATION.cff", "environment.json")  # of a publication
FILES = (
    *(CAMPAIGN, WORKFLOW, "runs.csv", "cells.csv", "losses.csv", "findings.json", "claims.json", "report.html"),
    *(REPORT, "comparison.json", "traces.json", "waterfall.json"),
    *("forecast_before.json", "forecast.json"),
    *DESCRIPTIONS,
)


class Demands(ResultPart):
    """What a campaign asks of its results, beside its runs."""

    title: str
    target_loss: float | Literal["derive"]
    margin: float
    question: dict[str, str | float] | None = Field(description="With the full names of its cells.")
    repeats: RepeatUntil | None = Field(description="The rule by which they end.")
    charts: list[str] = Field(description="On its page, in order.")

    @classmethod
    def of(cls, campaign: Campaign, question: dict[str, str | float] | None, charts: list[str]) -> "Demands":
        """Return what the keys of a campaign ask; `question` and `charts` as the fields of these names."""
        keys = {"title": campaign.title, "target_loss": campaign.target_loss, "margin": campaign.margin}
        return cls(**keys, question=question, repeats=campaign.repeat_until, charts=charts)


def demands_in(folder: Path) -> Demands | None:
    """Return what the campaign of results asks, as their manifest says; None for one that does not say it."""
    try:
        return Demands.model_validate(json_of(folder / MANIFEST)["demands"])
    except (OSError, *DAMAGES):  # check_manifest says so
        return None


def write_manifest(folder: Path, version: str, demands: Demands | None) -> None:
    """Write manifest.json of a campaign's folder. `version`: of the scaleproof that made the report.

    `demands`: None where nobody knows them, of results from before manifests had them.
    """
    files = {name: sha256_of(folder / name) for name in _files(folder)}
    manifest = {"schema_version": SCHEMA_VERSION, "scaleproof": version, "files": files}
    if demands:
        manifest["demands"] = demands.model_dump(mode="json")
    write_json(folder / MANIFEST, manifest | {SEAL: _seal(manifest)})


def check_manifest(folder: Path) -> list[Difference]:
    """Return which files changed or vanished since the report was written, and which runs came later."""
    path = folder / MANIFEST
    try:
        manifest = json_of(path)
        listed = manifest["files"]
    except FileNotFoundError:
        problem = f"is missing; the report writes it: {snakemake_command(folder / 'report.html')}"
        return [Difference(MANIFEST, "", problem)]
    except DAMAGES as error:
        return [Difference(MANIFEST, "", f"not readable: {describe_first_fault(error)}")]
    if not isinstance(listed, dict):
        problem = (
            f"cannot be {shortened(json.dumps(listed))}; allowed: a mapping of the name of each file to its sha256"
        )
        return [Difference(MANIFEST, "files", problem)]
    if manifest.get("schema_version") != SCHEMA_VERSION:
        return [Difference(MANIFEST, "schema_version", f"{manifest.get('schema_version')!r} is not known")]
    differences = _faults_of_demands(folder, manifest)
    if manifest.pop(SEAL, None) != _seal(manifest):
        differences.append(Difference(MANIFEST, SEAL, "changed since the report was written"))
    differences += [fault for name, sha256 in listed.items() if (fault := _fault_of_file(folder, name, sha256))]
    runs = {path.relative_to(folder).as_posix() for path in folder.glob("runs/*/rep*/training_metrics.json")}
    unlisted = sorted(runs - listed.keys())
    moved = _moved_folders(folder, unlisted, {d.file: listed[d.file] for d in differences if not d.where})
    differences = [d for d in differences if not d.file.startswith(tuple(f"{old}/" for old in moved.values()))]
    differences += [Difference(new, "", f"{RENAMED}: it was {old}") for new, old in moved.items()]
    others = [name for name in unlisted if not name.startswith(tuple(f"{new}/" for new in moved))]
    return differences + [Difference(name, "", "a run that the report does not have") for name in others]


def _fault_of_file(folder: Path, name: str, expected: str) -> Difference | None:
    """Return that a listed file is missing, or is another than the one with the sha256 `expected`."""
    file, changed = folder / name, "changed since the report was written"
    if not file.is_file():
        return Difference(name, "", "is missing")
    size = file.stat().st_size
    if size > MOST_BYTES:  # too large to be read
        return Difference(name, "", f"has {integer(size)} bytes: {changed}")
    current = sha256_of(file)
    if current == expected:
        return None
    if hashlib.sha256(file.read_bytes().replace(b"\r\n", b"\n")).hexdigest() == expected:
        return Difference(name, "sha256", f"{changed} (only the ends of its lines, as git's autocrlf changes them)")
    return Difference(name, "sha256", f"{changed} ({str(expected)[:12]} then, {current[:12]} now)")


def _faults_of_demands(folder: Path, manifest: dict[str, Any]) -> list[Difference]:
    """Return that a manifest does not say what the campaign asks, unless it is of before manifests did."""
    try:
        are_due = "demands" in manifest or schema_of(json_of(folder / REPORT)) >= DEMANDS_FROM
    except (OSError, *DAMAGES):  # the check of the report says so
        return []
    if are_due and demands_in(folder) is None:
        return [Difference(MANIFEST, "demands", "do not say what the campaign asks")]
    return []


def _moved_folders(folder: Path, unlisted: list[str], missing: dict[str, str]) -> dict[str, str]:
    """Return the folders that were renamed, new name -> old name, by the hashes of `unlisted` runs."""
    names = {sha256: name for name, sha256 in missing.items()}
    moved = {}
    for new in unlisted:
        if old := names.get(sha256_of(folder / new)):
            place = Path(new)
            before = Path(old)
            while place.name == before.name:
                place = place.parent
                before = before.parent
            moved[str(place)] = str(before)
    return moved


def _files(folder: Path) -> list[str]:
    """Return the names of the files that the report is made from, and its own: FILES, and all below FOLDERS.

    Hidden files are left out, and folders `raw`: of raw profiles the results have summaries. Strings and not Paths,
    whose making takes longer than the reading of a run's files.
    """
    paths = []
    for path, folders, files in os.walk(folder):
        inside = os.path.relpath(path, folder)
        parts = () if inside == os.curdir else tuple(inside.split(os.sep))  # empty at the top
        # os.walk goes on with what is left in `folders`.
        folders[:] = [name for name in folders if name in FOLDERS or (parts and name[0] != "." and name != "raw")]
        paths += [(*parts, name) for name in files if name in FILES or (parts and name[0] != ".")]
    return ["/".join(parts) for parts in sorted(paths) if os.path.isfile(os.path.join(folder, *parts))]


def _seal(manifest: dict[str, Any]) -> str:
    """Return one sha256 over all of a manifest, in its order: an entry that was taken out is noticed."""
    return hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
