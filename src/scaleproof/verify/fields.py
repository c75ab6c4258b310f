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

NAMES = ("id", "cell", "text", "rank")  # of an entry in a list, which no other one there has
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
        stated = json_of(folder / file) if (folder / file).exists() else {}
        today = model.model_fields["schema_version"].default
        if stated and schema_of(stated) > schema_of({"schema_version": today}):
            problem = f"is {stated['schema_version']}, and {today} is the latest known"
            yield Difference(file, "schema_version", problem)
        if stated and stated.get("schema_version") in (None, today, SAME_FIELDS.get(file)):
            whole = model.model_validate(stated).model_dump(mode="json")
            yield from (Difference(file, name, "is not there") for name in _places_left_out(stated, whole))


def _places_left_out(stated: Any, whole: Any, at: str = "") -> Iterator[str]:
    """Yield the key path of each field that JSON leaves out. `whole`: the same JSON with all of its fields."""
    if isinstance(whole, dict):
        yield from (f"{at}{name}" for name in whole.keys() - stated.keys())
        for key in filter(stated.__contains__, whole):
            yield from _places_left_out(stated[key], whole[key], f"{at}{key}, ")
    elif isinstance(whole, list):
        for place, part in enumerate(whole):
            yield from _places_left_out(stated[place], part, f"{at}{place}, ")


def check_repeated(folder: Path) -> Iterator[Difference]:
    """Yield entries of files of results that stand there twice: by NAMES, and rows of CSV files by KEYS_OF_ROWS."""
    for file in MODELS:
        names = _names_stated_twice(json_of(folder / file)) if (folder / file).exists() else ()
        yield from (Difference(file, name, "stands there twice") for name in names)
    for file in ("runs.csv", "cells.csv", "losses.csv", *(f"tables/{name}.csv" for name in TABLES)):
        rows = csv_of(folder / file) if (folder / file).exists() else []
        keys = [" ".join(row[name] for name in KEYS_OF_ROWS if name in row) for row in rows]
        yield from (Difference(file, key, "stands there twice") for key, n in Counter(keys).items() if key and n > 1)


def _names_stated_twice(content: object) -> Iterator[str]:
    """Yield the names that two entries of one list have, wherever it stands in a JSON content."""
    if isinstance(content, list):
        for key in NAMES:
            names = [str(entry[key]) for entry in content if isinstance(entry, dict) and key in entry]
            yield from (name for name, n in Counter(names).items() if n > 1)
    if isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from _names_stated_twice(part)
