"""Tables held against records and reports: settings, numbers of runs, environments, comparisons, parts of a step.

Files of a publication that its manifest does not have are held against its crate.

A report is a JSON file of results, which is checked by itself; its tables, as CSV, Markdown and LaTeX, must repeat it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scaleproof.ground.columns import COLUMNS
from scaleproof.ground.configurations import dotted_items
from scaleproof.ground.records.metrics import current_names
from scaleproof.ground.records.run import MANIFEST
from scaleproof.verify.contents import json_of
from scaleproof.verify.manifest import CRATE
from scaleproof.verify.raw import Difference, RawRun, folder_before
from scaleproof.verify.recompute import by_cell
from scaleproof.verify.tables import is_figure

ENVIRONMENT = "environment.json"
# Column of runs.csv that no other table has -> where the metrics have it.
OF_RUN = {
    "skipped_steps": ("window", "skipped_optimizer_steps"),
    "first_step_s": ("startup", "first_step_sec"),
    "max_cuda_mem_reserved_bytes": ("memory", "max_cuda_mem_reserved_bytes_global"),
}


def settings_of(run: RawRun) -> dict[str, object]:
    """Return column -> value of the configuration of a run, with its nodes, devices and evidence level."""
    by_key = dict(dotted_items(run.metrics["config"]))
    settings = {column.name: by_key[column.setting] for column in COLUMNS.values() if column.setting in by_key}
    if settings.get("vocab_size") == "derive":  # tables have the number that was derived: not compared here
        del settings["vocab_size"]
    evidence = run.metrics.get("evidence", "built")
    return settings | {"nodes": run.nodes, "devices": run.devices, "evidence": evidence}


def check_settings(file: str, rows: Sequence[Mapping[str, str]], runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield where a table states other settings, times, commits or numbers of runs than the records of its runs."""
    cells = by_cell(list(runs))
    for row in rows:
        runs_of_cell = cells.get(row["cell"], [])
        runs_of_row = [run for run in runs_of_cell if row.get("repeat") in (None, str(run.metrics["repeat"]))]
        if not runs_of_row:  # another check says so
            continue
        expected = settings_of(runs_of_row[0])
        if "repeat" in row:
            expected |= _expected_of_run(row, runs_of_row[0])
        else:
            expected["runs"] = len(runs_of_row)
        for name, value in expected.items():
            if name in row and not _is_text_of(row[name], value):
                problem = f"is {row[name] or 'empty'}, its runs have {value}"
                yield Difference(file, f"{row['cell']}, {name}", problem)


def _expected_of_run(row: Mapping[str, str], run: RawRun) -> dict[str, object]:
    """Return the expected fields of a row in a table of runs, apart from settings and figures."""
    expected = {name: run.metrics[name] for name in ("timestamp_utc", "git_commit", "fingerprint", "status")}
    failure = run.metrics.get("failure") or {}
    expected |= {"failure": failure.get("class"), "reason": failure.get("reason")}
    # Results may have been moved: the folder before runs/ is taken as stated.
    expected["metrics"] = f"{folder_before(row['metrics'], run.path)}{run.path}"
    return expected | {name: (run.metrics.get(section) or {}).get(key) for name, (section, key) in OF_RUN.items()}


def check_environment(folder: Path, runs: Sequence[RawRun]) -> Iterator[Difference]:
    """Yield where fields of environment.json, of a publication, are not those of its runs, or are missing."""
    stated: dict[str, Any] = {}
    versions: dict[str, Any] = {}  # name of a package -> its version; an older file may have another name for it
    for name, value in json_of(folder / ENVIRONMENT).items():
        if name.startswith("env."):
            versions[name.removeprefix("env.")] = value
        else:
            stated[name] = value
    stated |= {f"env.{name}": value for name, value in current_names(versions).items()}

    expected = environment_of([run for run in runs if run.ok])
    for name in sorted(stated.keys() | expected.keys()):
        if stated.get(name) != expected.get(name):
            problem = f"is {str(stated.get(name))[:80]}, the runs have {str(expected.get(name))[:80]}"
            yield Difference(ENVIRONMENT, name, problem)


def check_crate(folder: Path) -> Iterator[Difference]:
    """Yield the files of a publication that its crate alone lists (LICENSE, report.pdf) and that are not as it says."""
    in_manifest = json_of(folder / MANIFEST)["files"]
    for entity in json_of(folder / CRATE)["@graph"]:
        name, file = entity["@id"], folder / entity["@id"]
        # Not a file, or a file with a check of its own.
        if "contentSize" not in entity or name in in_manifest or name == ENVIRONMENT:
            continue
        if Path(name).is_absolute() or ".." in Path(name).parts:
            yield Difference(CRATE, name, "is not in this folder")
            continue
        if not file.is_file():
            yield Difference(name, "", "is missing")
        elif str(file.stat().st_size) != entity["contentSize"]:
            problem = f"changed since it was published: {file.stat().st_size} bytes, {entity['contentSize']} then"
            yield Difference(name, "", problem)


def environment_of(runs: Sequence[RawRun]) -> dict[str, Any]:
    """Return "section.key" -> value of the environment of runs, or a list of values where runs differ."""
    environment: dict[str, Any] = {}
    for section in ("env", "host", "hardware"):
        for key in runs[0].metrics[section]:
            value_by_text: dict[str, Any] = {}  # a value may be a list, which a set cannot hold
            for run in runs:
                value = run.metrics[section].get(key)
                value_by_text[json.dumps(value, sort_keys=True)] = value
            environment[f"{section}.{key}"] = _one_or_all(list(value_by_text.values()))
    return environment | {"git_commit": _one_or_all(sorted({run.metrics["git_commit"] for run in runs}))}


def _one_or_all(values: list[Any]) -> Any:
    """Return the only value, or the list of several values."""
    return values[0] if len(values) == 1 else values


def _is_text_of(text: str, value: object) -> bool:
    """Return whether the text of a CSV field is `value`; an empty field is None, or an empty text."""
    if value is None or value == "":
        return not text
    if isinstance(value, int | float) and not isinstance(value, bool):
        return is_figure(text, value)
    return text == str(value)
