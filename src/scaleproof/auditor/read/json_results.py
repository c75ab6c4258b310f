"""JSON of results of no known schema: one record, lists, records by name, columns of values, nested or flat."""

import re
from dataclasses import dataclass, field
from typing import Any

from scaleproof.auditor.read.grids import Grid
from scaleproof.auditor.read.headings import NOT_FIGURES, column_of
from scaleproof.auditor.read.reported_tables import ReportedTable
from scaleproof.auditor.read.row_figures import Place
from scaleproof.auditor.read.run_fields import LARGEST
from scaleproof.auditor.read.typed_tables import read_table
from scaleproof.auditor.read.units import RESULTS

DEEPEST, MOST_RECORDS = 8, 5_000
MOST_PARTS = 20_000  # mappings and lists that are looked into; a file with more is a graph, a trace or a catalogue
WEAK = {"time_s", "latency_s", "memory_bytes", "memory_share", "change", "bandwidth_bytes_per_s", "utilization", "rate"}
STRONG = RESULTS - WEAK
OF_RANKS = re.compile(r"(?i)(?:^|_)(?:ranks?\d*|workers|per_(?:gpu|device|process|worker))$")  # parts of one result
# Kinds of columns that say which row is which.
OF_ROWS = {"devices", "processes", "nodes", "strategy", "run", "batch", "global_batch", "precision", "model"}
KEY = re.compile(r'"([^"\n]{1,120})"\s*:')
MOST_KEYS, MOST_NAMED = 400, 200  # of a file; one with more is a catalogue of something else
DIFFERENT = 24  # sets of keys; a file with more is a catalogue of something else
SERIES = 40  # values of a list that are still rows; longer lists are series along a run


@dataclass(slots=True)
class JsonRecord:
    """One result: its name, its scalars by key, and where it stands ("runs[2].ddp")."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    path: str = ""


def results_of(data: Any, file: str, text: str) -> ReportedTable | None:
    """Return the results in a JSON value; None where it has none that are understood beyond doubt.

    At least one figure must be of a kind that nothing but a measurement has (a step time, a rate, a speed-up), or two
    of the weaker kinds. `text` is the file, to find the lines of records.
    """
    if _parts(data, MOST_PARTS) <= 0 or len(set(KEY.findall(text))) > MOST_KEYS:
        return None  # a catalogue: keys that are not names of figures
    records = _records(data, "", {}, 0, "")[:MOST_RECORDS]
    if sum(bool(record.name) for record in records) > MOST_NAMED:
        return None
    if not records or (isinstance(data, dict) and len({frozenset(r.values) for r in records}) > DIFFERENT):
        return None
    keys = list(dict.fromkeys(key for record in records for key in record.values))[:400]
    named = any(record.name for record in records)
    rows = []
    for number, record in enumerate(records):
        cells = [_printed(record.values.get(k)) for k in keys]
        rows.append((number, [record.name, *cells] if named else cells))
    grid = Grid("JSON", 1, ["run", *keys] if named else keys, rows)
    table = read_table(grid, Place(file))
    if table is None:
        return None
    lines = _lines(records, keys, text)
    has_own_lines = len(set(lines)) == len(lines)
    for row in table.rows:
        number = row.line  # of the record
        row.line = lines[number]
        row.part = "" if has_own_lines else records[number].path
    if table.grid is not None:
        table.grid.rows = [(lines[number], cells) for number, cells in table.grid.rows]
    kinds = table.kinds()
    return table if kinds & STRONG or len(kinds & WEAK) >= 2 else None


def _parts(data: Any, left: int) -> int:
    """Return how many of `left` parts remain when those of a value are taken away; 0 or less where it has too many."""
    if not isinstance(data, dict | list):
        return left
    entries = data.values() if isinstance(data, dict) else data
    for entry in entries:
        if left <= 0:
            return left
        if isinstance(entry, dict | list):
            left = _parts(entry, left - 1)
    return left


def _records(data: Any, name: str, inherited: dict[str, Any], depth: int, path: str) -> list[JsonRecord]:
    """Return the results in a value that goes by `name` and stands at `path`, `depth` levels deep. `inherited` are
    scalars around it, which hold for it, too.
    """
    if depth > DEEPEST:
        return []
    if isinstance(data, list):
        parts = [entry for entry in data if isinstance(entry, dict)]
        if not parts or len(parts) < len(data):
            return []
        return [
            record
            for n, entry in enumerate(parts)
            for record in _records(entry, _name_of(entry, name, n), inherited, depth + 1, f"{path}[{n}]")
        ]
    if not isinstance(data, dict):
        return []
    if columns := _columns(data, path):
        return columns
    children = {str(k): v for k, v in data.items() if isinstance(v, dict | list) and v}
    own = _scalars(data)
    below: list[JsonRecord] = []
    shared = {**inherited, **own}
    for key, child in children.items():  # {"config": {"gpus": 4}, ...}: settings hold for what is beside them
        if isinstance(child, dict) and _is_leaf(child) and not _is_record(child):
            shared |= {_joined(key, k): v for k, v in _scalars(child).items()}
    for key, child in children.items():
        if _is_record(own) and OF_RANKS.search(key):
            continue  # what each rank did is part of this result
        if isinstance(child, list) or _is_record(child) or not _is_leaf(child):
            below += _records(child, key if isinstance(child, dict) else "", shared, depth + 1, _below(path, key))
    if below:
        return below
    # A part without a figure of its own is not a result, although the figures around it hold for it, too.
    printed = {k: v for k, v in shared.items() if k not in inherited or k in own}
    return [JsonRecord(name, shared, path)] if _understood(printed) else []


def _scalars(data: dict[str, Any]) -> dict[str, Any]:
    """The texts and numbers of a mapping; flags are none."""
    return {str(k): v for k, v in data.items() if isinstance(v, str | int | float) and not isinstance(v, bool)}


def _below(path: str, key: str) -> str:
    """The path of an entry, as programs write it: `runs[2].ddp`, `runs["2 GPUs"]`."""
    plain = re.fullmatch(r"[A-Za-z_][\w-]*", key)
    return f"{path}.{key}".lstrip(".") if plain else f"{path}[{key!r}]"


def _is_leaf(data: dict[str, Any]) -> bool:
    """Whether a mapping has no mappings in it, nor lists of them."""
    return not any(
        isinstance(v, dict) or (isinstance(v, list) and any(isinstance(e, dict) for e in v)) for v in data.values()
    )


def _is_record(data: Any) -> bool:
    """Whether a mapping is a result of its own, with two figures that are understood, one of them a result."""
    if not isinstance(data, dict):
        return False
    kinds = [column_of(str(k)).kind for k, v in data.items() if isinstance(v, int | float) and not isinstance(v, bool)]
    figures = [k for k in kinds if k and k not in NOT_FIGURES]
    return len(figures) >= 2 and any(k in RESULTS for k in figures)


def _understood(values: dict[str, Any]) -> bool:
    return any(column_of(k).kind in RESULTS for k, v in values.items() if isinstance(v, int | float) or _has_digit(v))


def _has_digit(value: Any) -> bool:
    return isinstance(value, str) and len(value) < 40 and bool(re.match(r"[~<>]?\d", value))


def _columns(data: dict[str, Any], path: str) -> list[JsonRecord]:
    """Return the records of columns of equal length, one of which says which row is which: {"gpus": [1, 2],
    "throughput": [...]}; none where a mapping has no such columns.
    """
    lists = {
        str(k): v
        for k, v in data.items()
        if isinstance(v, list) and v and not any(isinstance(e, dict | list) for e in v)
    }
    lengths = {len(v) for v in lists.values()}
    if len(lists) < 2 or len(lengths) != 1 or not 2 <= (length := lengths.pop()) <= SERIES:
        return []
    kinds = {column_of(k).kind for k in lists}
    if not kinds & RESULTS or not kinds & OF_ROWS:
        return []
    scalars = _scalars(data)
    rows = [{k: values[i] for k, values in lists.items()} for i in range(length)]
    return [JsonRecord("", {**scalars, **row}, f"{path}[{i}]") for i, row in enumerate(rows)]


def _name_of(entry: dict[str, Any], name: str, index: int) -> str:
    """Return how entry `index` of a list called `name` goes; "" where one of its own values is a name."""
    for key in ("name", "run_name", "experiment", "config_name", "label", "id", "run_id", "strategy", "method"):
        if isinstance(entry.get(key), str):
            return ""
    return f"{name}[{index}]" if name else ""


def _joined(parent: str, key: str) -> str:
    """ "throughput" with "mean" below it is "throughput mean"; a key that is understood alone stays alone."""
    return key if column_of(key).kind is not None else f"{parent} {key}"


def _printed(value: Any) -> str:
    """Return a value as the text of a cell: "" for null and figures beyond any measurement."""
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    if isinstance(value, float):
        return repr(value) if abs(value) < LARGEST else ""
    return str(value)[:300]


def _lines(records: list[JsonRecord], keys: list[str], text: str) -> list[int]:
    """Return the line of each record: where a key that all of them have stands for the n-th time; 1 without one."""
    for key in keys:
        if all(key in record.values for record in records) and text.count(f'"{key}"') == len(records):
            start = 0
            line = 1
            lines = []
            for _ in records:
                place = text.index(f'"{key}"', start)
                line += text.count("\n", start, place)
                lines.append(line)
                start = place + 1
            return lines
    return [1] * len(records)
