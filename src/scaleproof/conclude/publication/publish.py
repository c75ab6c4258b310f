"""`scaleproof publish`: a verified campaign as a folder that can be cited and checked by anybody.

It is made under another name beside its place (`part`), and renamed only when it is complete and verifies.
"""

import glob
import hashlib
import json
import os
import re
import shutil
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scaleproof.conclude.publication.crate import LICENCES, MEDIA, crate_metadata
from scaleproof.conclude.publication.gate import verify_and_audit
from scaleproof.conclude.publication.made_again import compare_with_rewritten
from scaleproof.conclude.report.page import with_signature
from scaleproof.ground.campaign.rehearsal import is_rehearsal
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.files import read_record, write_atomic, write_json
from scaleproof.ground.findings.finding import read_findings
from scaleproof.ground.findings.forecast_report import read_forecast
from scaleproof.ground.number_format import fixed, megabytes
from scaleproof.ground.records.claims import CLAIMS, ClaimsReport
from scaleproof.ground.records.host_names import Pseudonyms, hosts_of
from scaleproof.ground.records.run import MANIFEST
from scaleproof.ground.records.scaling_report import read_scaling_report
from scaleproof.verify.campaign import folder_of, verify
from scaleproof.verify.campaign_file import campaign_beside, check_campaign_file
from scaleproof.verify.manifest import CAMPAIGN, CRATE, WORKFLOW, demands_in, write_manifest
from scaleproof.verify.raw import RawRun, read_runs
from scaleproof.verify.reports import forecast_seal
from scaleproof.verify.signature import SIGNATURE, fingerprint_of, sign
from scaleproof.verify.stated import ENVIRONMENT, environment_of

MOST_BYTES = 8_000_000
# Suffixes that are published: figures, series, tables, charts, pages. PNG files and raw profiles can be made again.
SUFFIXES = tuple(suffix for suffix in MEDIA if suffix not in (".yaml", ".log"))
TEXT = tuple(suffix for suffix in MEDIA if suffix != ".pdf")


@dataclass(frozen=True)
class Publication:
    """The request for a publication.

    `authors`: at least one name. `licence`: a key of LICENCES. `notes`: what a reader must know, such as the
    interconnect. `anonymous`: whether names of hosts are replaced. `key`: the SSH key that signs the manifest, if any.
    """

    authors: tuple[str, ...]
    licence: str = "CC-BY-4.0"
    notes: str = ""
    anonymous: bool = False
    key: Path | None = None


def _check_place(folder: Path, root: Path) -> None:
    """Raise UserError where a campaign's `folder` cannot be published in `root`, whatever its files say."""
    if is_rehearsal(folder.name):
        raise UserError(f"{folder} is a rehearsal: its rates mean nothing, and are not published")
    if (folder / CRATE).exists():
        raise UserError(f"{folder} is published already: cite it as it is")
    if root.resolve().is_relative_to(folder.resolve()):
        raise UserError(f"{root} (option --out) is in the results that are packed; give a folder outside {folder}")


def _check_verified(folder: Path) -> None:
    """Raise UserError where the results of a campaign do not verify."""
    differences, _, _ = verify_and_audit(folder)
    if differences:
        raise UserError(f"{folder} does not verify: {differences[0]}; see all: scaleproof verify {folder}")


def publish(results: Path, root: Path, request: Publication, version: str) -> Path:
    """Write the folder `root`/<campaign>_<device>_<date> and return it.

    `results`: the folder of a campaign's results, or a file in it. `version`: the version of scaleproof. Raises
    UserError where the campaign does not verify, has no numbers, or is published there already.
    """
    if os.path.isfile(notes := request.notes):
        raise UserError(f'--notes: "{notes}" is a file; for its content write --notes "$(cat {notes})"')
    folder = folder_of(results)
    _check_place(folder, root)
    all_runs, faults = read_runs(folder)
    if not faults:  # in a moment, before all is verified; of damaged runs that says more
        _check_campaign(folder, all_runs)
    _check_verified(folder)
    runs = [run for run in all_runs if run.ok]
    if not runs:
        raise UserError(f"{folder} has no run with numbers; there is nothing to publish")
    out = root / f"{folder.name}_{_device_name(runs)}_{runs[0].metrics['timestamp_utc'][:10]}"
    _check_absent(out)

    prefix = f".{out.name}.{socket.gethostname()}-"
    part = root / f"{prefix}{os.getpid()}.part"  # renamed to `out` when it is complete
    for left in root.glob(f"{glob.escape(prefix)}*.part"):
        if not _runs_elsewhere(left.name.removeprefix(prefix).removesuffix(".part")):
            shutil.rmtree(left, ignore_errors=True)  # of a call that was killed
    made = [place for place in (root, *root.parents) if not place.exists()]
    try:
        _copy_files(folder, part, all_runs)
        _copy_workflow(folder.resolve(), part)
        if request.anonymous:
            _anonymise(part, runs)
        if request.key:
            page = part / "report.html"
            write_atomic(page, with_signature(page.read_text("utf-8"), fingerprint_of(request.key), SIGNATURE))
        _describe_and_seal(part, folder, request, version)
        _check_copy(part)
        _check_absent(out)  # another call may have made it meanwhile
        part.rename(out)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):  # not empty: it has the publication
            for place in made:
                place.rmdir()
    return out


def _runs_elsewhere(process: str) -> bool:
    """Return whether another process of this number runs on this machine."""
    try:
        os.kill(int(process), 0)
    except (ValueError, ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        pass
    return int(process) != os.getpid()


def _check_absent(out: Path) -> None:
    """Raise UserError where the folder of a publication is there."""
    if out.exists():
        raise UserError(f"{out} exists; for another of one day give another folder (--out {out.parent}2), or remove it")


def _describe_and_seal(part: Path, folder: Path, request: Publication, version: str) -> None:
    """Write descriptions, manifest, signature and crate, in this order, to `part`. `folder`: the original results."""
    all_runs, _ = read_runs(part)
    runs = [run for run in all_runs if run.ok]
    # The title of the report may be older than a change of the campaign.
    title = (campaign_beside(part) or read_scaling_report(part / "scaling_report.json")).title
    write_json(part / ENVIRONMENT, environment_of(runs))
    write_atomic(part / "LICENSE", f"{request.licence}\n{LICENCES[request.licence]}\n")
    write_atomic(part / "README.md", _readme(folder.name, title, _headline(part), runs, request, version))
    write_atomic(part / "CITATION.cff", _citation(title, runs, request, version))
    write_manifest(part, version, demands_in(folder))
    if request.key:
        sign(part, request.key)
    write_json(part / CRATE, crate_metadata(part, title, runs, request.authors, request.licence, version))


def _check_campaign(folder: Path, runs: list[RawRun]) -> None:
    """Raise UserError where the campaign file, which would be packed, is not the one of the runs."""
    path = _campaign_of(folder.resolve())
    if not path.is_file():
        if _is_project(folder.resolve().parent.parent):
            cure = "Put it back"
            campaigns = {str(run.metrics["campaign"]) for run in runs}
            if len(campaigns) == 1 and folder.name not in campaigns:  # the folder was copied or renamed
                own = folder.with_name(*campaigns)
                cure = f"These are runs of the campaign {own.name}: publish {own}, or rename {folder} to it"
            raise UserError(f"{path} is missing: it is packed with the results of its campaign. {cure}")
        return  # these results lie outside of their project
    if differences := list(check_campaign_file(path, folder, runs)):
        edits = "; ".join(f"{one.where} {one.problem}" if one.where else one.problem for one in differences[:3])
        raise UserError(
            f"{path} is not the campaign of these runs any more: {edits}. Put the file back as it was, or run it again"
        )


def _check_copy(part: Path) -> None:
    """Raise UserError where the copy in the folder `part` does not verify, or is larger than MOST_BYTES."""
    differences, _, _ = verify(part)  # recomputed independently; next, page and tables are written again and compared
    differences += compare_with_rewritten(part).differences
    if differences:
        raise UserError(f"the published copy does not verify: {differences[0]}")
    size = sum(path.stat().st_size for path in part.rglob("*") if path.is_file())
    if size > MOST_BYTES:
        raise UserError(
            f"{megabytes(size)} to publish, at most {fixed(MOST_BYTES / 1e6, 0)} MB; publish fewer cells or runs"
        )


def _copy_files(folder: Path, out: Path, runs: list[RawRun]) -> None:
    """Copy to `out` the manifest's files of SUFFIXES, report.pdf, and the logs that give figures of `runs`."""
    listed = json.loads((folder / MANIFEST).read_bytes())["files"]
    names = {name for name in (*listed, "report.pdf") if name.endswith(SUFFIXES)}
    for run in runs:
        folder_of_run = Path(run.path).parent.as_posix()
        names |= {f"{folder_of_run}/{name}" for name in run.metrics.get("files", {})}
    _copy({name: folder / name for name in sorted(names)}, out)


def _copy(origins: Mapping[str, Path], out: Path) -> None:
    """Copy files to their names below `out`. `origins`: name -> file; a missing file is left out."""
    for name, origin in origins.items():
        if origin.is_file():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(origin, out / name)


def _campaign_of(folder: Path) -> Path:
    """Return the path of the campaign file of results in `folder`, if they lie in their project; it need not exist."""
    return folder.parent.parent / "config/campaigns" / f"{folder.name}.yaml"


def _is_project(folder: Path) -> bool:
    return (folder / "Snakefile").is_file()


def _copy_workflow(folder: Path, out: Path) -> None:
    """Copy the workflow and the campaign file to `out`, where `folder` is results/<campaign> in their project."""
    project = folder.parent.parent
    if not _is_project(project):
        return
    origins = {CAMPAIGN: _campaign_of(folder), WORKFLOW: project / "Snakefile"}  # name in `out` -> file
    included = [project / "workflow/Snakefile", *(project / "workflow/rules").glob("*.smk")]
    _copy(origins | {str(file.relative_to(project)): file for file in included}, out)


def _device_name(runs: list[RawRun]) -> str:
    """Return the device of the runs for a folder's name, "nvidia-h200": the GPU's model, else the processor's.

    Returns "command" for a command that was not watched, whose device is unknown.
    """
    name = _device_of(runs[0])
    if name == "cpu":
        name = f"cpu-{runs[0].metrics['hardware']['cpu_model']}"
    without_marks = re.sub(r"\((?:r|tm)\)", "", name.lower())
    return re.sub(r"[^a-z0-9]+", "-", without_marks).strip("-")[:40]


def _device_of(run: RawRun) -> str:
    """Return the name of a run's first device; "command" where a command was started and not watched."""
    ranks = run.metrics["ranks"] or run.metrics.get("watched")
    return str(ranks[0]["device_name"]) if ranks else "command"


def _anonymise(out: Path, runs: list[RawRun]) -> None:
    """Replace hosts' names in all texts in `out`, then hashes and seals; remove report.pdf, which names the machine."""
    hosts = {name for run in runs for name in hosts_of(run.metrics["host"], run.metrics["ranks"])}
    if (out / "findings.json").is_file():
        hosts |= read_findings(out / "findings.json").hosts_left_out
    if (out / "forecast.json").is_file():
        hosts |= read_forecast(out / "forecast.json").hosts
    edits = _edit_texts(out, Pseudonyms(hosts).in_text)
    (out / "report.pdf").unlink(missing_ok=True)
    _replace_hashes(out, {_sha256(before): _sha256(after) for before, after in edits})
    forecasts = [json.loads(path.read_bytes()) for path in out.glob("forecasts/*.json")]
    # A seal is a hash of a forecast's content, which has changed by now.
    _replace_hashes(out, {forecast["sha256"]: forecast_seal(forecast) for forecast in forecasts})


def _replace_hashes(out: Path, hashes: dict[str, str]) -> None:
    """Replace `hashes`, old -> new, in all texts in `out`, in full and by their first twelve digits."""
    if not hashes:
        return
    replacements = hashes | {old[:12]: new[:12] for old, new in hashes.items()}
    pattern = re.compile("|".join(replacements))  # full hashes come first, as they begin with their twelve digits
    _edit_texts(out, lambda text: pattern.sub(lambda match: replacements[match[0]], text))


def _edit_texts(out: Path, edit: Callable[[str], str]) -> list[tuple[str, str]]:
    """Apply `edit` to the text files in `out`, and return (text before, text after) of each that it changes."""
    edits = []
    for path in sorted(out.rglob("*")):
        before = path.read_text(encoding="utf-8") if path.suffix in TEXT else ""
        after = edit(before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            edits.append((before, after))
    return edits


def _sha256(text: str) -> str:
    """Return the sha256 of a text file with this content."""
    return hashlib.sha256(text.encode()).hexdigest()


def _headline(out: Path) -> str:
    """Return the verdict of the results in `out`, and how many findings they have; "" where no file states claims."""
    if not (out / CLAIMS).is_file():
        return ""
    claims = read_record(out / CLAIMS, ClaimsReport.model_validate_json)
    verdict = next((sentence.text for sentence in claims.sentences if sentence.topic == "verdict"), "No answer")
    severities: Counter[str] = Counter(finding.severity for finding in read_findings(out / "findings.json").findings)
    nouns = {"invalid": "invalid finding", "suspect": "suspect finding", "note": "note"}
    counts = [plural(severities[severity], noun) for severity, noun in nouns.items() if severities[severity]]
    return f"**{verdict}.** Checks found: {', '.join(counts) or 'nothing'}.\n\n"


def _readme(campaign: str, title: str, headline: str, runs: list[RawRun], request: Publication, version: str) -> str:
    """Return README.md of a publication: the facts that a reader asks for first, and how to check them."""
    metrics = runs[0].metrics
    training, hardware = metrics["training_config"], metrics["hardware"]
    if training:  # runs of the trainer; else of commands
        torch_version = metrics["env"]["torch_version"]
        work = {
            "Model": f"{training['model_name']} ({training['model_size']})",
            "Strategies": ", ".join(sorted({run.metrics["training_config"]["strategy"] for run in runs})),
            "Sequence length, global batch": f"{training['seq_len']}, {training['global_batch_size']}",
        }
    else:
        torch_version = metrics["program"]["versions"].get("torch", "none")
        work = {"Cells": ", ".join(sorted({run.cell for run in runs})), "First command": metrics["program"]["command"]}
    device = _device_of(runs[0])
    devices = "devices not recorded" if device == "command" else device
    facts = {
        "Entity": ", ".join(request.authors),
        "Date of measurement": metrics["timestamp_utc"][:10],
        "Hardware": f"{devices}; {hardware['cpu_model']}, {hardware['cpu_allowed']} CPUs",
        **work,
        "Runs with numbers": str(len(runs)),
        "torch, scaleproof, commit": f"{torch_version}, {version}, {metrics['git_commit'][:12]}",
        "Notes (interconnect, what is special)": request.notes or "none",
    }
    rows = "\n".join(f"| {name} | {value.replace('|', '/')} |" for name, value in facts.items())
    return (
        f"# {title}\n\n{headline}Results of the campaign `{campaign}`: start with `report.html`.\n\n"
        f"| | |\n|---|---|\n{rows}\n\n"
        "Each figure can be recomputed from `runs/` with `scaleproof verify` and this folder. The configuration of "
        "every run is in its `training_metrics.json`, versions in `environment.json`.\n"
    )


def _citation(title: str, runs: list[RawRun], request: Publication, version: str) -> str:
    """Return CITATION.cff of a publication. https://citation-file-format.github.io"""
    authors = "\n".join(f"  - name: {json.dumps(name)}" for name in request.authors)
    return (
        "cff-version: 1.2.0\nmessage: Please cite these results as below.\ntype: dataset\n"
        f"title: {json.dumps(title)}\nauthors:\n{authors}\n"
        f"date-released: {runs[0].metrics['timestamp_utc'][:10]}\nlicense: {request.licence}\n"
        f'version: "{version}"\n'
    )
