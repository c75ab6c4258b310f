"""What stands in a file of results: of regular files alone, JSON without NaN, CSV files with whole rows."""

import codecs
import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scaleproof.ground.errors import UserError
from scaleproof.ground.files import read_regular
from scaleproof.ground.json_faults import fault_of_heading

OTHER_NAMES = (".gz", ".bz2", ".xz", ".zst", ".zip", "~", ".bak", ".orig", ".old", ".txt")  # behind a file's own name
REPORT = "scaling_report.json"
# What reading a damaged file, or reckoning with what stands in it, raises.
DAMAGES = (
    *(ValueError, KeyError, TypeError, IndexError, AttributeError),
    *(ArithmeticError, RecursionError, csv.Error, UserError),
)


def as_written(data: bytes) -> bytes:
    """Return a text as this program wrote it: without the byte order mark and the line ends that git and editors set.

    That they changed it is reported by the check of the manifest.
    """
    text = data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n")
    return text + b"\n" * bool(text and not text.endswith(b"\n"))


def missing_text(path: Path) -> str:
    """Return that a file is missing, and which file beside it is it under another name: packed, or a backup."""
    names = (f"{path.name}{suffix}" for suffix in OTHER_NAMES)
    other_name = next((name for name in names if path.with_name(name).is_file()), "")
    return f"is missing; {other_name} is there" if other_name else "is missing"


def text_of(path: Path) -> str:
    """Return the text of a regular file, which is in UTF-8. Raises ValueError where it is empty."""
    text = as_written(read_regular(path)).decode()
    if not text.strip():
        raise ValueError("it is empty")
    return text


def json_of(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file. Else raises one of DAMAGES, with the name of the file in `__notes__`."""
    try:
        content = parse_json(read_regular(path))
        if not isinstance(content, dict):
            kind = "null" if content is None else f"a {type(content).__name__}"
            raise ValueError(f"{kind} is in it, not an object")
    except DAMAGES as error:
        error.add_note(_name_in_results(path))
        raise
    return content


def _name_in_results(path: Path) -> str:
    """Return the name of a file in the folder of results: "tables/weak.csv", "compare/NAME/pairs.json", "runs.csv"."""
    folder = path.parent
    depth = 2 if folder.name == "tables" else 3 if folder.parent.name in ("compare", "traces") else 1
    return "/".join(path.parts[-depth:])


def entries_of(path: Path, key: str) -> list[dict[str, Any]]:
    """Return the entries under a key of a JSON file of results; none where a campaign does not have the file."""
    return list(json_of(path)[key]) if path.is_file() else []


def points_of(report: Mapping[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return (series, point) of each size of each series in scaling_report.json."""
    return [(series, point) for series in report["series"] for point in series["runs"].values()]


def schema_of(content: dict[str, Any]) -> tuple[int, ...]:
    """Return the version of the schema of a file of results."""
    return tuple(map(int, content["schema_version"].split(".")))


def parse_json(data: bytes) -> Any:
    """Return the content of JSON. Raises ValueError also for NaN and Infinity, which Python would take."""
    words: list[str] = []

    def note(word: str) -> float:
        words.append(word)
        return math.nan

    content = json.loads(data, parse_constant=note)
    if words:
        raise ValueError(
            f"{next(_places_of_nan(content), 'a key that is given twice')} is {words[0]}, which is no number of JSON"
        )
    return content


def _places_of_nan(content: Any, place: str = "") -> Iterator[str]:
    """Yield the places of NaN in the content of JSON: "window.loss", "ranks[1].step_s"."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _places_of_nan(value, f"{place}.{key}".lstrip("."))
    elif isinstance(content, list):
        for index, value in enumerate(content):
            yield from _places_of_nan(value, f"{place}[{index}]")
    elif isinstance(content, float) and math.isnan(content):
        yield place or "all of it"


class _Row(dict[str, str]):
    """A row of a table; the error on a column that it does not have carries the name of the file, as of json_of."""

    file = ""

    def __missing__(self, column: str) -> str:
        error = KeyError(column)
        error.add_note(self.file)
        raise error


def csv_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file as heading -> text, maybe empty.

    Raises one of DAMAGES, with the name of the file in `__notes__`, where a row is cut off.
    """
    name = _name_in_results(path)
    rows: list[dict[str, str]] = []
    try:
        text = text_of(path)
        lines = csv.DictReader(io.StringIO(text, newline=""))
        if len(lines.fieldnames or ()) < 2:
            raise ValueError(fault_of_heading(text))
        for values in lines:
            if None in values or None in values.values():  # so DictReader marks too many, or too few, values
                raise ValueError(f"{path.name}, line {lines.line_num}: not as many values as names; cut off?")
            if [*values] == [*values.values()]:
                raise ValueError("the names of its columns stand in it twice")
            row = _Row(values)
            row.file = name
            rows.append(row)
    except DAMAGES as error:
        error.add_note(name)
        raise
    return rows
