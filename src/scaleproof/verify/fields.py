"""Fields that files of results leave out, and entries that stand in them twice."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
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
TABLES = (
    *("runs.csv", "cells.csv", "losses.csv"),
    *("tables/scaling.csv", "tables/strong.csv", "tables/weak.csv", "tables/comparison.csv"),
)
KEYS_OF_ROWS = ("cell", "repeat", "step", "name")  # of a row in a CSV file


def check_left_out(folder: Path) -> Iterator[Difference]:
    """Yield each field that a file of results with today's schema lacks, and a schema later than today's."""
    for file, model in MODELS.items():
        content = json_of(folder / file) if (folder / file).exists() else {}
        if not content:
            continue
        today = model.model_fields["schema_version"].default
        if schema_of(content) > schema_of({"schema_version": today}):
            problem = f"is {content['schema_version']}, and {today} is the latest known"
            yield Difference(file, "schema_version", problem)
        if content["schema_version"] in (today, SAME_FIELDS.get(file)):
            complete = model.model_validate(content).model_dump(mode="json")
            for path in _paths_left_out(content, complete):
                yield Difference(file, path, "is not there")


def _paths_left_out(content: Any, complete: Any, parent: str = "") -> Iterator[str]:
    """Yield the key path of each field that JSON leaves out. `complete`: the same JSON with all of its fields."""
    if isinstance(complete, dict):
        for name, complete_part in complete.items():
            if name in content:
                yield from _paths_left_out(content[name], complete_part, f"{parent}{name}, ")
            else:
                yield f"{parent}{name}"
    elif isinstance(complete, list):
        for index, complete_part in enumerate(complete):
            yield from _paths_left_out(content[index], complete_part, f"{parent}{index}, ")


def check_repeated(folder: Path) -> Iterator[Difference]:
    """Yield entries that stand twice in a file of results: by NAMES in JSON, by KEYS_OF_ROWS in CSV files."""
    names_in: dict[str, list[str]] = {}  # file -> names that stand twice in it
    for file in MODELS:
        if (folder / file).exists():
            names_in[file] = list(_names_stated_twice(json_of(folder / file)))
    for file in TABLES:
        if (folder / file).exists():
            names_in[file] = _repeated([_name_of_row(row) for row in csv_of(folder / file)])
    for file, names in names_in.items():
        yield from (Difference(file, name, "stands there twice") for name in names)


def _name_of_row(row: Mapping[str, str]) -> str:
    """Return what tells a row of a CSV file from all others, as "ddp-n1x2 3" of a cell and a repeat."""
    return " ".join(row[key] for key in KEYS_OF_ROWS if key in row)


def _repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once; the empty name does not count."""
    return [name for name, count in Counter(filter(None, names)).items() if count > 1]


def _names_stated_twice(content: object) -> Iterator[str]:
    """Yield the names that two entries of one list have, wherever the list stands in a JSON content."""
    if isinstance(content, dict):
        for part in content.values():
            yield from _names_stated_twice(part)
    elif isinstance(content, list):
        objects = [entry for entry in content if isinstance(entry, dict)]
        for key in NAMES:
            yield from _repeated(str(entry[key]) for entry in objects if key in entry)
        for entry in content:
            yield from _names_stated_twice(entry)
