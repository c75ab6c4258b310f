"""RO-Crate metadata of a publication: Process Run Crate 0.5, one CreateAction per run."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from rocrate.model.contextentity import ContextEntity
from rocrate.rocrate import ROCrate

from scalebench.verify.raw import RawRun

PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
MEDIA = {
    ".json": "application/json",
    ".csv": "text/csv",
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".pdf": "application/pdf",
    ".md": "text/markdown",
    ".tex": "application/x-tex",
    ".txt": "text/plain",
}


def crate_metadata(
    folder: Path, title: str, runs: list[RawRun], authors: tuple[str, ...], licence: str, version: str
) -> dict[str, Any]:
    """The content of ro-crate-metadata.json for the files that are in `folder`."""
    crate = ROCrate(version="1.1")
    crate.name = title
    crate.description = f"Measured training throughput of {len(runs)} runs, with the checks made on them."
    crate.datePublished = _start(runs[0])
    crate.license = crate.add(ContextEntity(crate, licence, {"@type": "CreativeWork", "name": licence.split("/")[-3]}))
    people = [crate.add(ContextEntity(crate, f"#author{i}", _author(name))) for i, name in enumerate(authors, 1)]
    crate.root_dataset["author"] = people
    profile = {"@type": ["CreativeWork", "Profile"], "name": "Process Run Crate", "version": "0.5"}
    crate.root_dataset["conformsTo"] = crate.add(ContextEntity(crate, PROFILE, profile))
    software = {
        "@type": "SoftwareApplication",
        "name": "scalebench",
        "softwareVersion": version,
        "version": version,
        "description": "Trains, measures and checks; its commit is in each run's metrics.",
    }
    instrument = crate.add(ContextEntity(crate, "#scalebench", software))
    files = {
        path.relative_to(folder).as_posix(): crate.add_file(
            str(path), path.relative_to(folder).as_posix(), properties=_properties(path)
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    actions = [crate.add(ContextEntity(crate, f"#{run.name}", _action(run, instrument, files))) for run in runs]
    crate.root_dataset["mentions"] = actions
    return dict(crate.metadata.generate())


def _author(name: str) -> dict[str, str]:
    return {"@type": "Organization", "name": name}


def _properties(path: Path) -> dict[str, str]:
    return {
        "name": path.name,
        "encodingFormat": MEDIA.get(path.suffix, "text/plain"),
        "contentSize": str(path.stat().st_size),
    }


def _action(run: RawRun, instrument: Any, files: dict[str, Any]) -> dict[str, Any]:
    here = run.path.rsplit("/", 1)[0]
    return {
        "@type": "CreateAction",
        "name": f"Run {run.name}",
        "instrument": instrument,
        "startTime": _start(run),
        "endTime": _end(run),
        "actionStatus": {"@id": "http://schema.org/CompletedActionStatus"},
        "agent": {"@id": "#author1"},
        "result": [entity for name, entity in files.items() if name.startswith(f"{here}/")],
    }


def _start(run: RawRun) -> str:
    return datetime.fromisoformat(run.metrics["timestamp_utc"]).isoformat()


def _end(run: RawRun) -> str:
    seconds = run.metrics["total_wall_time_sec"]
    return (datetime.fromisoformat(run.metrics["timestamp_utc"]) + timedelta(seconds=seconds)).isoformat()
