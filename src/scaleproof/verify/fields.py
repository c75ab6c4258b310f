"""Fields that files of results leave out, and entries that stand in them twice."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scaleproof.ground.records.claims import ClaimsReport
from scaleproof.ground.records.comparison_report import ComparisonReport
from scaleproof.ground.records.result_file import ResultPart
from scaleproof.ground.records.scaling_report import ScalingReport
from scaleproof.ground.records.traces_report import TracesReport
from scaleproof.ground.records.waterfall_report import WaterfallReport
from scaleproof.verify.contents import REPORT, csv_of, json_of, schema_of
from scaleproof.verify.raw import Difference

NAMES = ("id", "cell", "text", "rank")  # of an entry in a list: no other entry has the same
MODELS: dict[str, type[ResultPart]] = {
    REPORT: ScalingReport,
    "comparison.json": ComparisonReport,
    "waterfall.json": WaterfallReport,
    "traces.json": TracesReport,
    "claims.json": ClaimsReport,
}
SAME_FIELDS = {REPORT: "5.2", "comparison.json": "1.2"}  # an earlier schema with all fields of today's
TABLES = ("scaling", "strong", "weak", "comparison")
KEYS_OF_ROWS = ("cell", "repeat", "step", "name")  # of a row in a CSV file


def check_left_out(folder: Path) -> Iterator[Difference]:
    """Yield each field that a file of results with today's schema (or none) lacks, and a schema later than today's."""
    for file, model in MODELS.items():
        if not (folder / file).exists():
            continue
        content = json_of(folder / file)
        today = model.model_fields["schema_version"].default
        if content and schema_of(content) > schema_of({"schema_version": today}):
            problem = f"is {content['schema_version']}, and {today} is the latest known"
            yield Difference(file, "schema_version", problem)
        if content and content.get("schema_version") in (None, today, SAME_FIELDS.get(file)):
            complete = model.model_validate(content).model_dump(mode="json")
            yield from (Difference(file, path, "is not there") for path in _paths_left_out(content, complete))


def _paths_left_out(content: Any, complete: Any, parent: str = "") -> Iterator[str]:
    """Yield the key path of each field that JSON leaves out. `complete`: the same JSON with all of its fields."""
    if isinstance(complete, dict):
        yield from (f"{parent}{name}" for name in complete.keys() - content.keys())
        for key in filter(content.__contains__, complete):
            yield from _paths_left_out(content[key], complete[key], f"{parent}{key}, ")
    elif isinstance(complete, list):
        for index, part in enumerate(complete):
            yield from _paths_left_out(content[index], part, f"{parent}{index}, ")


def check_repeated(folder: Path) -> Iterator[Difference]:
    """Yield entries that stand twice in a file of results: by NAMES in JSON, by KEYS_OF_ROWS in CSV files."""
    for file in MODELS:
        names = _names_stated_twice(json_of(folder / file)) if (folder / file).exists() else ()
        yield from (Difference(file, name, "stands there twice") for name in names)
    for file in ("runs.csv", "cells.csv", "losses.csv", *(f"tables/{name}.csv" for name in TABLES)):
        rows = csv_of(folder / file) if (folder / file).exists() else []
        keys = [" ".join(row[name] for name in KEYS_OF_ROWS if name in row) for row in rows]
        yield from (Difference(file, key, "stands there twice") for key, n in Counter(keys).items() if key and n > 1)


def _names_stated_twice(content: object) -> Iterator[str]:
    """Yield the names that two entries of one list have, wherever the list stands in a JSON content."""
    if isinstance(content, list):
        for key in NAMES:
            names = [str(entry[key]) for entry in content if isinstance(entry, dict) and key in entry]
            yield from (name for name, n in Counter(names).items() if n > 1)
    if isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from _names_stated_twice(part)
