"""JSON of results of no known schema: one record, lists, records by name, columns of values, nested or flat."""

import re
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from scaleproof.auditor.read.grids import Grid
from scaleproof.auditor.read.headings import NOT_FIGURES, column_of
from scaleproof.auditor.read.printed_figures import RESULTS
from scaleproof.auditor.read.reported_tables import LARGEST, ReportedTable
from scaleproof.auditor.read.run_fields import is_number
from scaleproof.auditor.read.typed_tables import read_table

MOST_LEVELS = 8
MOST_RECORDS = 5_000
MOST_PARTS = 20_000  # mappings and lists; a file with more is a graph, a trace or a catalogue
WEAK_RESULTS = {"time_s", "latency_s", "memory_bytes", "memory_share", "bandwidth_bytes_per_s"}
WEAK_RESULTS |= {"change", "utilization", "rate"}
STRONG_RESULTS = RESULTS - WEAK_RESULTS  # nothing but a measurement has figures of these kinds
DURATION = re.compile(r"(?i)(?:(?:avg|mean|total|max|min)[_ ])?duration(?:[_ ]?\(?(?:s|secs?|seconds|ms|h|min)\)?)?")
# Keys of the parts of one result, and of what it was measured on or with.
OF_RANKS = re.compile(r"(?i)(?:^|_)(?:ranks?\d*|workers|per_(?:gpu|device|process|worker))$")
OF_SETTINGS = re.compile(r"(?i)meta(?:data)?|config|settings|env(?:ironment)?|system(?:_info)?|hardware|gpus?|gpu_info")
# Kinds of columns that say which row is which.
OF_ROWS = {"devices", "processes", "nodes", "strategy", "run", "batch", "global_batch", "precision", "model"}
TRACKER_CLOCK = re.compile(r"(?:.*\.)?_(?:runtime|timestamp)|_wandb\.runtime")  # of W&B, times of writing
KEY = re.compile(r'"([^"\n]{1,120})"\s*:')
# A file with more keys, more records with names, or more sets of keys is a catalogue of something else.
MOST_KEYS = 400
MOST_NAMED = 200
MOST_KEY_SETS = 24
MOST_ROWS_OF_LISTS = 40  # longer lists are series along a run


@dataclass(slots=True)
class JsonRecord:
    """One result: its name, its scalars by key, and where it stands ("runs[2].ddp")."""

    name: str
    values: dict[str, Any] = field(default_factory=dict)
    path: str = ""


def results_of(data: Any, file: str, text: str) -> ReportedTable | None:
    """Return the results in a JSON value, such as [{"gpus": 1, "img_s": 100}, ...]. None where none are certain.

    At least one figure must be of a kind that nothing but a measurement has (a step time, a rate, a speed-up), or two
    figures of the weaker kinds. `text` is the file, to find the lines of records.
    """
    if parts_left(data, MOST_PARTS) <= 0 or len(set(KEY.findall(text))) > MOST_KEYS:
        return None
    # The outermost value has no name, no path, and nothing to inherit.
    records = _records(data, "", "", {}, 0)[:MOST_RECORDS]
    if not records or sum(bool(record.name) for record in records) > MOST_NAMED:
        return None
    if isinstance(data, dict) and len({frozenset(record.values) for record in records}) > MOST_KEY_SETS:
        return None

    all_keys = dict.fromkeys(key for record in records for key in record.values)
    keys = [key for key in all_keys if not TRACKER_CLOCK.fullmatch(key)][:MOST_KEYS]
    table = read_table(_grid_of(records, keys), file)
    if table is None:
        return None
    _set_places(table, records, _lines_of_records(records, keys, text))
    # A lone "duration" may be of anything: of a word that was spoken, of a ride, of rain.
    figures = (figure for row in table.rows for figure in row.figures if not DURATION.fullmatch(figure.heading))
    kinds = {figure.kind for figure in figures}
    return table if kinds & STRONG_RESULTS or len(kinds & WEAK_RESULTS) >= 2 else None


def _grid_of(records: list[JsonRecord], keys: list[str]) -> Grid:
    """Return records as a grid with a column for each key. In place of lines it has indices of records."""
    rows = []
    have_names = any(record.name for record in records)
    for number, record in enumerate(records):
        cells = [_cell_text(record.values.get(key)) for key in keys]
        rows.append((number, [record.name, *cells] if have_names else cells))
    return Grid("JSON", 1, ["run", *keys] if have_names else keys, rows)


def _set_places(table: ReportedTable, records: list[JsonRecord], lines: list[int]) -> None:
    """Replace the indices of records in a table by lines of the file. Where records share lines, add their paths."""
    has_own_lines = len(set(lines)) == len(lines)
    for row in table.rows:
        record_number = row.line
        row.line = lines[record_number]
        row.part = "" if has_own_lines else records[record_number].path
    if table.grid is not None:
        table.grid.rows = [(lines[record_number], cells) for record_number, cells in table.grid.rows]


def parts_left(data: Any, left: int) -> int:
    """Return `left` less the mappings and lists inside a value. Counting ends at 0, so that huge files take no time."""
    if not isinstance(data, dict | list):
        return left
    for entry in data.values() if isinstance(data, dict) else data:
        if left <= 0:
            return left
        if isinstance(entry, dict | list):
            left = parts_left(entry, left - 1)
    return left


def _records(data: Any, name: str, path: str, inherited: dict[str, Any], level: int) -> list[JsonRecord]:
    """Return the results in a value that is called `name` and stands at `path`, `level` levels deep.

    `inherited`: the scalars of the mappings around it, which hold for its results, too. A list has results only if all
    its entries are mappings.
    """
    if level > MOST_LEVELS:
        return []
    if isinstance(data, dict):
        return _records_of_columns(data, path) or _records_of_mapping(data, name, path, inherited, level)
    entries = data if isinstance(data, list) and all(isinstance(entry, dict) for entry in data) else []
    records = (_records(entry, "", f"{path}[{k}]", inherited, level + 1) for k, entry in enumerate(entries))
    return [record for of_entry in records for record in of_entry]


def _has_strong_result(data: Any) -> bool:
    """Whether a part of a file has a figure at its top, or one level below, that nothing but a measurement has."""
    parts = [data] if isinstance(data, dict) else [part for part in data if isinstance(part, dict)]
    parts += [below for part in parts for below in part.values() if isinstance(below, dict)]
    return any(column_of(name).kind in STRONG_RESULTS for part in parts for name in _scalars(part))


def _records_of_mapping(
    data: dict[str, Any], name: str, path: str, inherited: dict[str, Any], level: int
) -> list[JsonRecord]:
    """Return the results below a mapping. Where there are none, the mapping itself may be a result.

    The scalars of the mapping, and of parts that are no results ({"config": {"gpus": 4}, ...}), hold for all below it.
    """
    children = {str(key): value for key, value in data.items() if isinstance(value, dict | list) and value}
    own_scalars = _scalars(data)
    shared = {**inherited, **own_scalars, **_scalars_of_parts(children)}
    for part in [child for key, child in children.items() if OF_SETTINGS.fullmatch(key)]:
        # The settings and names of {"meta": {"model": {"name": "gpt2"}}}; the memory of a device is no result.
        scalars = _scalars_below(part)
        shared |= {name: value for name, value in scalars.items() if column_of(name).kind not in (None, *RESULTS)}
    is_record = _is_record(own_scalars)
    records_below: list[JsonRecord] = []
    for key, child in children.items():
        if (is_record and OF_RANKS.search(key)) or (OF_SETTINGS.fullmatch(key) and not _has_strong_result(child)):
            continue  # the figures of each rank are part of this result, those of a device are no result
        if isinstance(child, list) or _is_record(child) or not _is_leaf(child):  # the others are in `shared`
            name_below = key if isinstance(child, dict) else ""  # entries of a list have names of their own
            records_below += _records(child, name_below, _path_below(path, key), shared, level + 1)
    if records_below:
        return records_below

    # A part without a figure of its own is not a result, although the figures around it hold for it, too.
    own_values = {key: value for key, value in shared.items() if key not in inherited or key in own_scalars}
    return [JsonRecord(name, shared, path)] if _has_result(own_values) else []


def _scalars_of_parts(children: dict[str, Any]) -> dict[str, Any]:
    """Return the scalars of parts that are no results: 390 as "throughput mean" of {"throughput": {"mean": 390}}."""
    scalars: dict[str, Any] = {}
    for key, part in children.items():
        if isinstance(part, dict) and _is_leaf(part) and not _is_record(part):
            for name, value in _scalars(part).items():
                is_telling = column_of(name).kind is not None  # "img_s" is; "mean" needs the name of its part
                scalars[name if is_telling else f"{key} {name}"] = value
    return scalars


def _scalars(data: dict[str, Any]) -> dict[str, Any]:
    """Return the texts and numbers of a mapping. Flags are none."""
    return {str(key): value for key, value in data.items() if isinstance(value, str) or is_number(value)}


def _scalars_below(data: Any) -> dict[str, Any]:
    """Return the scalars of a mapping and, one level deeper, of its mappings. {} for a list."""
    if not isinstance(data, dict):
        return {}
    below = [_scalars(part) for part in data.values() if isinstance(part, dict)]
    return {**_scalars(data), **{key: value for part in below for key, value in part.items()}}


def _path_below(path: str, key: str) -> str:
    """Return the path of an entry, as programs write it: `runs[2].ddp`, `runs['2 GPUs']`."""
    is_word = re.fullmatch(r"[A-Za-z_][\w-]*", key)
    return f"{path}.{key}".lstrip(".") if is_word else f"{path}[{key!r}]"


def _is_leaf(data: dict[str, Any]) -> bool:
    """Whether a mapping has no mappings in it, nor lists of them."""
    lists = [value for value in data.values() if isinstance(value, list)]
    return not any(isinstance(value, dict) for values in (data.values(), *lists) for value in values)


def _is_record(data: Any) -> bool:
    """Whether a mapping is a result, with two known figures, one of them a result: {"gpus": 8, "img_s": 690}."""
    if not isinstance(data, dict):
        return False
    kinds = [column_of(str(key)).kind for key, value in data.items() if is_number(value)]
    figures = [kind for kind in kinds if kind and kind not in NOT_FIGURES]
    return len(figures) >= 2 and any(kind in RESULTS for kind in figures)


def _has_result(values: dict[str, Any]) -> bool:
    """Whether a key names a result, and its value is a number or a short text that begins with a number."""
    for key, value in values.items():
        is_figure = isinstance(value, int | float) or (len(value) < 40 and re.match(r"[~<>]?\d", value))
        if is_figure and column_of(key).kind in RESULTS:
            return True
    return False


def _records_of_columns(data: dict[str, Any], path: str) -> list[JsonRecord]:
    """Return a record for each row of equally long columns, {"gpus": [1, 8], "img_s": [100, 690]}. Else []."""
    columns: dict[str, list[Any]] = {}
    for key, values in data.items():
        if isinstance(values, list) and values and not any(isinstance(value, dict | list) for value in values):
            columns[str(key)] = values
    lengths = set(map(len, columns.values()))
    if len(columns) < 2 or len(lengths) != 1 or not 2 <= min(lengths) <= MOST_ROWS_OF_LISTS:
        return []
    kinds = {column_of(key).kind for key in columns}
    if not kinds & RESULTS or not kinds & OF_ROWS:
        return []

    scalars = _scalars(data)
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    return [JsonRecord("", {**scalars, **row}, f"{path}[{k}]") for k, row in enumerate(rows)]


def _cell_text(value: Any) -> str:
    """Return a value as the text of a cell: "" for null and figures beyond any measurement."""
    if value is None or (isinstance(value, float) and not abs(value) < LARGEST):  # "not <": also for NaN
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)[:300]


def _lines_of_records(records: list[JsonRecord], keys: list[str], text: str) -> list[int]:
    """Return the line of each record by a key that the text has once for each record. Without such a key it is 1."""
    for key in keys:
        if not all(key in record.values for record in records):
            continue
        places = [m.start() for m in re.finditer(re.escape(f'"{key}"'), text)]
        if len(places) == len(records):
            lines_between = [text.count("\n", before, place) for before, place in pairwise((0, *places))]
            return list(accumulate(lines_between, initial=1))[1:]
    return [1] * len(records)
