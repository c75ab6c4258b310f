"""RO-Crate metadata of a publication: Workflow Run Crate 0.5, one CreateAction per run and one for the whole.

Without the workflow's files it is a Process Run Crate, which has the runs alone. https://www.researchobject.org/workflow-run-crate
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from rocrate.model.contextentity import ContextEntity
from rocrate.rocrate import ROCrate

from scaleproof.verify.manifest import CAMPAIGN, WORKFLOW
from scaleproof.verify.raw import RawRun

PROCESS_RUN = ("https://w3id.org/ro/wfrun/process/0.5", "Process Run Crate", "0.5")
WORKFLOW_RUN = (
    PROCESS_RUN,
    ("https://w3id.org/ro/wfrun/workflow/0.5", "Workflow Run Crate", "0.5"),
    ("https://w3id.org/workflowhub/workflow-ro-crate/1.0", "Workflow RO-Crate", "1.0"),
)
DONE = "http://schema.org/CompletedActionStatus"
FIRST_AUTHOR = "#author1"
MEDIA = {
    ".json": "application/json",
    ".csv": "text/csv",
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".md": "text/markdown",
    ".tex": "application/x-tex",
    ".txt": "text/plain",
    ".log": "text/plain",
    ".yaml": "application/yaml",
}
LICENCES = {
    "CC-BY-4.0": "https://creativecommons.org/licenses/by/4.0/",
    "CC0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/",
}


def crate_metadata(
    folder: Path, title: str, runs: list[RawRun], authors: tuple[str, ...], licence: str, version: str
) -> dict[str, Any]:
    """Return the content of ro-crate-metadata.json for the files that are in `folder`.

    `runs`: the runs with numbers. `licence`: a key of LICENCES. `version`: the version of scaleproof.
    """
    crate = ROCrate(version="1.1")
    root = crate.root_dataset
    crate.name = title
    crate.description = f"Measured training throughput of {len(runs)} runs, with the checks made on them."
    crate.datePublished = _run_start(runs[0])
    crate.license = _add_entity(crate, LICENCES[licence], {"@type": "CreativeWork", "name": licence})
    root["author"] = [  # an author need not be a person
        _add_entity(crate, f"#author{number}", {"@type": "Organization", "name": name})
        for number, name in enumerate(authors, 1)
    ]

    software = {
        "@type": "SoftwareApplication",
        "name": "scaleproof",
        "softwareVersion": version,
        "description": "Trains, measures and checks; its commit is in each run's metrics.",
    }
    instrument = _add_entity(crate, "#scaleproof", software)
    files: dict[str, Any] = {}  # name -> its entity in the crate
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            files[name] = _add_file(crate, path, name)
    profiles = WORKFLOW_RUN if WORKFLOW in files else (PROCESS_RUN,)
    root["conformsTo"] = [
        _add_entity(crate, address, {"@type": ["CreativeWork", "Profile"], "name": name, "version": profile_version})
        for address, name, profile_version in profiles
    ]

    actions = [_add_entity(crate, f"#{run.name}", _run_action(run, instrument, files)) for run in runs]
    if WORKFLOW in files:
        actions.append(_add_entity(crate, "#campaign", _workflow_action(title, runs, files)))
    root["mentions"] = actions
    return dict(crate.metadata.generate())


def _add_entity(crate: ROCrate, name: str, properties: dict[str, Any]) -> ContextEntity:
    """Add an entity that is no file, such as an author, to a crate, and return it. `name`: an address, or #name."""
    return crate.add(ContextEntity(crate, name, properties))


def _add_file(crate: ROCrate, path: Path, name: str) -> Any:
    """Add the file at `path` to a crate as `name` and return its entity; the workflow is the crate's main entity."""
    properties = {
        "name": path.name,
        "encodingFormat": MEDIA.get(path.suffix, "text/plain"),
        "contentSize": str(path.stat().st_size),
    }
    if name != WORKFLOW:
        return crate.add_file(str(path), name, properties=properties)
    properties["name"] = "scaleproof"
    return crate.add_workflow(str(path), name, main=True, lang="snakemake", properties=properties)


def _run_action(run: RawRun, instrument: Any, files: dict[str, Any]) -> dict[str, Any]:
    """Return the action that made a run's files. `instrument`: the software. `files`: name -> entity of the crate."""
    run_folder, _, _ = run.path.rpartition("/")
    return {
        "@type": "CreateAction",
        "name": f"Run {run.name}",
        "description": f"Trains and measures the cell {run.cell} once.",
        "instrument": instrument,
        "startTime": _run_start(run),
        "endTime": _run_end(run),
        "actionStatus": DONE,
        "agent": {"@id": FIRST_AUTHOR},
        "result": [entity for name, entity in files.items() if name.startswith(f"{run_folder}/")],
    }


def _workflow_action(title: str, runs: list[RawRun], files: dict[str, Any]) -> dict[str, Any]:
    """Return the action of the whole workflow, from the first start to the last end. `files`: as in `_run_action`."""
    return {
        "@type": "CreateAction",
        "name": "The campaign",
        "description": f"All runs, tables, charts and the report of: {title}",
        "instrument": files[WORKFLOW],
        "object": [files[CAMPAIGN]] if CAMPAIGN in files else [],
        "startTime": min(map(_run_start, runs)),
        "endTime": max(map(_run_end, runs)),
        "actionStatus": DONE,
        "agent": {"@id": FIRST_AUTHOR},
        "result": [entity for name, entity in files.items() if "/" not in name and name != CAMPAIGN],
    }


def _run_start(run: RawRun) -> str:
    return datetime.fromisoformat(run.metrics["timestamp_utc"]).isoformat()


def _run_end(run: RawRun) -> str:
    seconds = run.metrics["total_wall_time_sec"]
    return (datetime.fromisoformat(run.metrics["timestamp_utc"]) + timedelta(seconds=seconds)).isoformat()
