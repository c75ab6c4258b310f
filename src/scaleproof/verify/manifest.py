"""manifest.json: the sha256 of every file of a finished campaign, so that a changed or missing one is noticed."""

import hashlib
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.repeats import RepeatUntil
from scaleproof.ground.errors import describe_first_fault, shortened
from scaleproof.ground.files import MOST_BYTES, sha256_of, write_json
from scaleproof.ground.json_faults import UNREADABLE, newer_version
from scaleproof.ground.number_format import integer
from scaleproof.ground.records.result_file import ResultPart
from scaleproof.ground.records.run import MANIFEST
from scaleproof.ground.snakemake_command import snakemake_command
from scaleproof.verify.contents import DAMAGES, REPORT, as_written, json_of, missing_text, schema_of
from scaleproof.verify.raw import Difference

SEAL = "manifest_sha256"  # its last key
SCHEMA_VERSION = "1.1"
DEMANDS_FROM = (5, 3)  # schema of the report from which on its manifest has the demands
LINE_ENDS = "only ends of lines or a byte order mark, as git and editors change them"
OTHER_ENDS = "set core.autocrlf to false and clone again, or convert these files with dos2unix"
LATER_RUN = "a run that the report does not have"
LATER_FILE = "a file that the report does not have: move it away"
LATER_FILES = "files that the report does not have: move them away, and verify again"
CHANGED = "changed since the report was written"
FOLDERS = ("runs", "compare", "traces", "reference", "forecasts", "tables", "charts", "workflow")
DRAWN = ("tables", "charts")  # of FOLDERS, those from which nothing but the page is made
OF_PARTS = ("comparison.json", "traces.json")  # that only some campaigns have
# Files that are always made -> the files that they are made from: without a manifest, these say that one is missing.
MADE_FROM = {
    **dict.fromkeys((REPORT, "findings.json"), "runs/*/rep*/training_metrics.json"),
    "comparison.json": "compare/*/pairs.json",
    "traces.json": "traces/*/profile_summary.json",
}
CAMPAIGN, WORKFLOW = "campaign.yaml", "Snakefile"  # of a publication, with the folder workflow
CRATE = "ro-crate-metadata.json"  # of a publication: it describes the manifest, too, and so is not in it
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


class Manifest(TypedDict):
    """manifest.json: the sha256 of each file by its name, and of all other keys (`manifest_sha256`)."""

    schema_version: str
    scaleproof: str  # the version that made the report
    files: dict[str, str]
    demands: NotRequired[Demands]
    manifest_sha256: str


def demands_in(folder: Path) -> Demands | None:
    """Return what a campaign asks, as the manifest of its results says; None where the manifest does not say it."""
    try:
        return Demands.model_validate(json_of(folder / MANIFEST)["demands"])
    except (OSError, *DAMAGES):  # check_manifest says so
        return None


def write_manifest(folder: Path, version: str, demands: Demands | None, left_out: Collection[str] = ()) -> None:
    """Write manifest.json into the folder of a campaign.

    `version`: the version of scaleproof that made the report. `demands`: None for results that are older than demands
    in manifests. `left_out`: folders that the report is not made from, of an earlier state of the campaign.
    """
    unlisted = tuple(f"{name}/" for name in left_out)
    files = {name: sha256_of(folder / name) for name in _files(folder) if not name.startswith(unlisted)}
    manifest = {"schema_version": SCHEMA_VERSION, "scaleproof": version, "files": files}
    if demands:
        manifest["demands"] = demands.model_dump(mode="json")
    write_json(folder / MANIFEST, manifest | {SEAL: _seal(manifest)})


def check_manifest(folder: Path) -> list[Difference]:
    """Return which files changed or vanished since the report was written, and which came later.

    Of those that came later: runs, OF_PARTS, and files in DRAWN.
    """
    try:
        manifest = json_of(folder / MANIFEST)
        listed = manifest["files"]
    except FileNotFoundError:
        problem = "is missing"
        if not (folder / CAMPAIGN).exists():  # no rule makes that of a publication
            problem += f"; the report writes it: {snakemake_command(folder / MANIFEST)}"
        others = [name for name, made_from in MADE_FROM.items() if _is_missing(folder, name, made_from)]
        return [Difference(MANIFEST, "", problem)] + [Difference(name, "", "is missing") for name in others]
    except DAMAGES as error:
        return [Difference(MANIFEST, "", f"{UNREADABLE}: {describe_first_fault(error)}")]
    if not isinstance(listed, dict):
        allowed = "a mapping of the name of each file to its sha256"
        return [Difference(MANIFEST, "files", f"cannot be {shortened(json.dumps(listed))}; allowed: {allowed}")]
    if manifest.get("schema_version") != SCHEMA_VERSION:
        version = f"{manifest.get('schema_version')!r}"
        newer = newer_version("schema_version", version, f"'{SCHEMA_VERSION}'")
        problem = newer or (f"{version} is not known" if "schema_version" in manifest else "is missing")
        return [Difference(MANIFEST, "schema_version", problem)]

    differences = _faults_of_demands(folder, manifest)
    is_edited = manifest.pop(SEAL, None) != _seal(manifest)  # the seal is over all other keys
    if is_edited:
        differences.append(Difference(MANIFEST, SEAL, CHANGED))
    changed = f"{CHANGED}, or {MANIFEST} was" if is_edited else CHANGED
    faults = [_fault_of_file(folder, name, sha256, changed) for name, sha256 in listed.items()]
    intact = [fault for fault in faults if fault is None or LINE_ENDS in fault.problem]
    if len(intact) < len(listed) // 10:  # it was copied from other results
        intact_count = f"{integer(len(intact))} of the {integer(len(listed))} files that it lists"
        return [Difference(MANIFEST, "", f"is of other or earlier results: {intact_count} are here as it has them")]
    differences += filter(None, faults)

    records = filter(Path.is_file, folder.glob("runs/*/rep*/training_metrics.json"))
    unlisted_runs = sorted({path.relative_to(folder).as_posix() for path in records} - listed.keys())
    missing_files = {one.file: listed[one.file] for one in differences if not one.where}  # name -> stated sha256
    renamed_folders = _renamed_folders(folder, unlisted_runs, missing_files)
    in_old_folder = tuple(f"{old}/" for old in renamed_folders.values())
    in_new_folder = tuple(f"{new}/" for new in renamed_folders)
    differences = [one for one in differences if not one.file.startswith(in_old_folder)]
    differences += [
        Difference(new, "", f"was renamed since the report was written: it was {old}", former_name=old)
        for new, old in renamed_folders.items()
    ]
    later_runs = [name for name in unlisted_runs if not name.startswith(in_new_folder)]
    differences += [Difference(name, "", LATER_RUN) for name in later_runs]
    later_files = [] if is_edited else [name for name in _files(folder, OF_PARTS, DRAWN) if name not in listed]
    if not set(OF_PARTS).isdisjoint(later_files):
        return [*differences, Difference(", ".join(later_files), "", LATER_FILES)]
    return differences + [Difference(name, "", LATER_FILE) for name in later_files]


def each_once(differences: list[Difference]) -> list[Difference]:
    """Return the differences without those that say of a file again what another one says better."""
    # A steps.csv with another hash differs from its metrics, too: that difference stays, the manifest's is dropped.
    hashes = [one for one in differences if one.where == "sha256"]
    explained = {one.file for one in hashes if not one.problem.startswith(CHANGED)}
    repeated = {one for one in hashes if one.file in explained and one.problem.startswith(CHANGED)}
    # Of a file that cannot be read the first check says why. What a check looks for in vain follows from other faults.
    unreadable = [one for one in differences if one.problem.startswith(UNREADABLE)]
    first_of_file = {one.file: one for one in reversed(unreadable)}
    faulted = {one.file for one in differences if one.where and one not in hashes}
    in_vain = {one for one in unreadable if one.file in faulted and one.problem.startswith(f"{UNREADABLE}: it has no ")}
    repeated |= ({*unreadable} - {*first_of_file.values()}) | in_vain
    return [one for one in dict.fromkeys(differences) if one not in repeated]


def _fault_of_file(folder: Path, name: str, expected_sha256: str, changed: str) -> Difference | None:
    """Return that a listed file is missing, or has another hash than the manifest states; None where it is right.

    `changed`: what to say of another hash.
    """
    file = folder / name
    if not file.is_file():
        is_log = file.suffix == ".log"  # publications have none either: no figure is from a log
        return None if is_log and not file.exists() else Difference(name, "", missing_text(file))
    size = file.stat().st_size
    if size > MOST_BYTES:  # too large to be read
        return Difference(name, "", f"has {integer(size)} bytes: {CHANGED}")
    sha256 = sha256_of(file)
    if sha256 == expected_sha256:
        return None
    text = as_written(file.read_bytes()).rstrip(b"\n")
    if expected_sha256 in (hashlib.sha256(text + b"\n" * ends).hexdigest() for ends in range(3)):  # a page has two
        return Difference(name, "sha256", f"{CHANGED} ({LINE_ENDS})")
    if sum(map(str.__eq__, str(expected_sha256), sha256)) > len(sha256) // 2:  # no other content has such a hash
        return Difference(MANIFEST, name, "the sha256 was edited")
    return Difference(name, "sha256", f"{changed} ({str(expected_sha256)[:12]} then, {sha256[:12]} now)")


def _is_missing(folder: Path, name: str, made_from: str) -> bool:
    """Return whether a file is not there, and a file that matches the pattern `made_from` is."""
    return not (folder / name).exists() and any(folder.glob(made_from))


def _faults_of_demands(folder: Path, manifest: dict[str, Any]) -> list[Difference]:
    """Return that `demands` in a manifest are missing or not valid; [] for results older than demands."""
    try:
        are_due = "demands" in manifest or schema_of(json_of(folder / REPORT)) >= DEMANDS_FROM
    except (OSError, *DAMAGES):  # the check of the report says so
        return []
    if are_due and demands_in(folder) is None:
        return [Difference(MANIFEST, "demands", "do not say what the campaign asks")]
    return []


def _renamed_folders(folder: Path, unlisted_runs: list[str], missing_files: dict[str, str]) -> dict[str, str]:
    """Return new name -> old name of each renamed folder: an unlisted run has the hash of a missing file.

    `missing_files`: name -> sha256.
    """
    old_names = {sha256: name for name, sha256 in missing_files.items()}
    renamed = {}
    for new_name in unlisted_runs:
        if old_name := old_names.get(sha256_of(folder / new_name)):
            new_folder, old_folder = Path(new_name), Path(old_name)
            while new_folder.name and new_folder.name == old_folder.name:  # up to the part of the path that differs
                new_folder = new_folder.parent
                old_folder = old_folder.parent
            renamed[str(new_folder)] = str(old_folder)
    return renamed


def _files(folder: Path, single: tuple[str, ...] = FILES, tops: tuple[str, ...] = FOLDERS) -> list[str]:
    """Return the names of the files that the report is made from, and its own: `single`, and all below `tops`.

    Hidden files are left out. So are folders `raw`: results have summaries of raw profiles. Names are strings, as
    making Paths takes longer than reading the files of a run.
    """
    names = [*single]
    for top in tops:
        for path, folders, files in os.walk(folder / top):
            folders[:] = [name for name in folders if name[0] != "." and name != "raw"]  # os.walk goes on with these
            names += [f"{os.path.relpath(path, folder)}/{name}" for name in files if name[0] != "."]
    existing = [name for name in names if os.path.isfile(os.path.join(folder, name))]
    return sorted(existing, key=lambda name: name.split("/"))


def _seal(manifest: dict[str, Any]) -> str:
    """Return one sha256 over all of a manifest, in its order: an entry that was taken out is noticed."""
    return hashlib.sha256(json.dumps(manifest).encode()).hexdigest()
