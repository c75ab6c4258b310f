"""Exports of Nsight Systems (`nsys export --type sqlite`), of 2022.4 to 2025.

Exports have no indexes, so nothing is joined in SQL: columns are read in pieces and joined as sorted arrays. Tables and
columns exist only where there is data and differ between versions; what is not there is not asked for.
"""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import adbc_driver_sqlite.dbapi as arrow
import numpy as np
import pandas as pd
import pyarrow as pa

from scaleproof.ground.errors import UserError
from scaleproof.measure.trace.events import HOST, RANGES, WORK, Trace, TraceSource, make_table

BATCH_ROWS = 65_536
KERNEL, MEMCPY, MEMSET, GRAPH = (f"CUPTI_ACTIVITY_KIND_{n}" for n in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"))
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
WORK_COLUMNS = ("globalPid", "deviceId", "streamId", "correlationId", "start", "end")
COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}  # ENUM_CUDA_MEMCPY_OPER
PUSH_POP, START_END = 59, 60  # ENUM_NSYS_EVENT_TYPE
OWN_RANK = re.compile(r"rank (\d+)")  # name of the range that our own program opens once, to say which rank it is
LOST = re.compile(r"\b(?:drop|lost|lose|overflow|incomplete|not all|not collected|missing)", re.IGNORECASE)
PROCESS_BITS = ~np.int64(0xFFFFFF)  # the bits of a globalTid that name the process


class Export:
    """An SQLite export of nsys, opened read-only and without locks: it may be on a network file system.

    `columns`: table -> names of its columns. Raises UserError where the file is no export.
    """

    def __init__(self, path: Path) -> None:
        """Open the file at `path` and read which tables it has."""
        self.path = path
        self.address = f"file:{quote(path.resolve().as_posix())}?mode=ro&immutable=1"
        if not path.stat().st_size:
            raise UserError(f"{path}: not an export of Nsight Systems: it is empty; export it again")
        try:
            self.database = sqlite3.connect(self.address, uri=True)
            tables = [name for (name,) in self.database.execute("SELECT name FROM sqlite_master WHERE type='table'")]
            infos = {table: self.database.execute(f'PRAGMA table_info("{table}")') for table in tables}
            self.columns = {table: [name for _, name, *_ in info] for table, info in infos.items()}
        except sqlite3.Error as error:
            raise self.broken(error) from None
        if "StringIds" not in tables:
            raise UserError(f"{path}: an SQLite file, but not an export of Nsight Systems: it has no table StringIds")

    def broken(self, error: Exception) -> UserError:
        """Return the error to raise after SQLite's `error`: the file cannot be read."""
        return UserError(f"{self.path}: not a whole export of Nsight Systems ({error}); export it again")

    def has(self, table: str, *columns: str) -> bool:
        """Return whether the file has this table with all of these columns."""
        return table in self.columns and all(name in self.columns[table] for name in columns)

    def read_integers(self, table: str, *columns: str, where: str = "") -> list[np.ndarray]:
        """Return `columns` of a table as int64 arrays, -1 for NULL and for a missing column. `where`: an SQL clause."""
        terms = [f"IFNULL({name}, -1)" if name in self.columns[table] else "-1" for name in columns]
        query = f'SELECT {", ".join(terms)} FROM "{table}" {where}'
        # Columns are gathered by Arrow's driver: Python's own makes an object of each of thirty million numbers.
        with closing(arrow.connect(self.address)) as connection, closing(connection.cursor()) as rows:
            rows.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
            try:
                rows.execute(query)
                fetched = rows.fetch_arrow_table()
            except (arrow.Error, OSError, pa.ArrowInvalid) as error:
                raise self.broken(error) from None
        return [np.asarray(fetched[place].to_numpy(), dtype=np.int64) for place in range(len(columns))]

    def texts_of_ids(self, ids: np.ndarray) -> dict[int, str]:
        """Return string id -> text for `ids`."""
        texts = dict(self.database.execute("SELECT id, value FROM StringIds"))
        return {int(number): texts.get(int(number), f"string {number}") for number in ids}

    @property
    def version(self) -> str:
        """The tool that wrote the export, with its version if the file has it."""
        if not self.has("EXPORT_META_DATA", "name", "value"):
            return "nsys"
        facts = dict(self.database.execute("SELECT name, value FROM EXPORT_META_DATA"))
        return f"nsys {facts.get('EXPORT_PRODUCT_VERSION', '')}".strip()


def read_sqlite(path: Path, first_rank: int = 0) -> Trace:
    """Return the trace in one node's export. Raises UserError where the file is no export, or is broken.

    `first_rank`: the lowest rank in this file, for processes that do not say their ranks and are numbered by device.
    """
    export = Export(path)
    try:
        with closing(export.database):
            return _read_export(export, first_rank)
    except sqlite3.Error as error:
        raise export.broken(error) from None


def _read_export(export: Export, first_rank: int) -> Trace:
    """Return the trace of an open export: work and ranges of processes that are ranks (see `read_sqlite`)."""
    work = _read_work(export)
    ranges = _read_ranges(export)
    ranks, are_stated = _ranks_of_processes(work, ranges, first_rank)
    work["rank"] = _rank_column(work.pop("process").to_numpy(), ranks)
    ranges["rank"] = _rank_column(ranges.pop("process").to_numpy(), ranks)
    # Ranges that only say a rank ("rank 3") are left out: they are no part of the program.
    states_rank = ranges["name"].astype(str).str.fullmatch(OWN_RANK.pattern).to_numpy(bool)
    ranges = ranges[(ranges["rank"] >= 0) & ~states_rank]
    diagnostics = _read_diagnostics(export)

    return Trace(
        work=make_table(WORK, work[work["rank"] >= 0]),
        ranges=make_table(RANGES, ranges),
        host=_sum_system_calls(export, ranks if are_stated else None, ranges),
        source=TraceSource(
            tool=export.version,
            files=[export.path.name],
            device="gpu" if len(work) else "none",
            dropped=sum(_count_lost_events(text) for text in diagnostics),
            diagnostics=diagnostics,
            ranks_from="the trace" if are_stated else "the order of processes by device",
        ),
    )


class _WorkOfTable(NamedTuple):
    """The work in one table: `columns` in the order of WORK_COLUMNS, and for each row the place of its name."""

    columns: list[np.ndarray]
    names: list[str]  # some may be equal
    name_places: np.ndarray  # for each row, the place of its name in `names`


def _read_work(export: Export) -> pd.DataFrame:
    """Return a row for each kernel, copy and graph: process, device, stream, name, launched, start, end."""
    tables = [_read_table_of_work(export, table) for table in (KERNEL, MEMCPY, MEMSET, GRAPH)]
    tables_with_rows = [table for table in tables if table is not None]
    if not tables_with_rows:
        return _empty_table("process", "device", "stream", "launched", "start", "end")

    names: list[str] = []  # of all tables
    name_places: list[np.ndarray] = []
    for table in tables_with_rows:
        name_places.append(table.name_places + len(names))
        names += table.names
    columns_of_tables = zip(*(table.columns for table in tables_with_rows), strict=True)
    process, device, stream, correlation, start, end = (np.concatenate(columns) for columns in columns_of_tables)
    return pd.DataFrame(
        {
            "process": process,
            "device": device,
            "stream": stream,
            "start": start,
            "end": end,
            "name": _categories(names, np.concatenate(name_places)),
            "launched": _launch_times(export, process, correlation, start),
        }
    )


def _read_table_of_work(export: Export, table: str) -> _WorkOfTable | None:
    """Return the work in a table. Returns None where the table is missing or empty."""
    if not export.has(table, "start", "end"):
        return None
    *columns, name_ids = export.read_integers(table, *WORK_COLUMNS, _name_column(export, table))
    if not len(name_ids):
        return None
    name_places, ids = pd.factorize(name_ids, sort=True)  # unlike np.unique it does not sort all of them
    return _WorkOfTable(columns, _names_of_work(export, table, ids), name_places)


def _name_column(export: Export, table: str) -> str:
    """Return the column that says the names of a table's rows, "" where all rows have one name."""
    if table == MEMCPY:
        return "copyKind"
    if table != KERNEL:
        return ""
    return "demangledName" if export.has(KERNEL, "demangledName") else "shortName"


def _names_of_work(export: Export, table: str, ids: np.ndarray) -> list[str]:
    """Return the names of a table's work by `ids`, which are string ids of kernels, or kinds of copies."""
    if table == KERNEL:
        return list(export.texts_of_ids(ids).values())
    if table == MEMCPY:
        return [f"[CUDA memcpy {COPIES.get(int(kind), 'other')}]" for kind in ids]
    # A graph is of unknown kernels, so that it is unclassified.
    return ["[CUDA memset]" if table == MEMSET else "[CUDA graph]"] * len(ids)


def _categories(texts: list[str], places: np.ndarray) -> pd.Categorical:
    """Return the texts at `places` in `texts` as categories, one for equal texts."""
    code_of_text = {text: code for code, text in enumerate(dict.fromkeys(texts))}
    codes = np.array([code_of_text[text] for text in texts])
    return pd.Categorical.from_codes(codes[places], list(code_of_text))


def _empty_table(*columns: str) -> pd.DataFrame:
    """Return a table without rows: integer `columns`, and a column `name`."""
    return pd.DataFrame({column: [] for column in columns}, dtype=np.int64).assign(name=pd.Categorical([]))


def _launch_times(export: Export, process: np.ndarray, correlation: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return when the host launched each kernel, or, where that is unknown, when it started."""
    if not export.has(RUNTIME, "start", "globalTid", "correlationId"):
        return start
    called_at, thread, call_correlation = export.read_integers(RUNTIME, "start", "globalTid", "correlationId")
    if not len(called_at):
        return start
    # A call and its kernel have the same correlation number, which is unique in their process. Both become one key: the
    # number of the process, counted from 0, from bit 40 on, and the correlation (32 bits) below it.
    _, process_numbers = np.unique(np.concatenate([process, thread & PROCESS_BITS]), return_inverse=True)
    kernel_keys = (process_numbers[: len(process)] << 40) | correlation
    call_keys = (process_numbers[len(process) :] << 40) | call_correlation
    order = np.argsort(call_keys, kind="stable")
    call_keys = call_keys[order]
    place = np.minimum(np.searchsorted(call_keys, kernel_keys), len(call_keys) - 1)
    return np.where(call_keys[place] == kernel_keys, called_at[order][place], start)


def _read_ranges(export: Export) -> pd.DataFrame:
    """Return a row for each NVTX range: process, thread, name, start, end."""
    empty = _empty_table("process", "thread", "start", "end")
    if not export.has("NVTX_EVENTS", "start", "end", "globalTid"):
        return empty
    where = f"WHERE eventType IN ({PUSH_POP}, {START_END}) AND end IS NOT NULL"
    # Each table of SQLite has this column, though no schema lists it; `read_integers` reads listed columns alone.
    export.columns["NVTX_EVENTS"] += ["rowid"]
    columns = ("start", "end", "globalTid", "textId", "rowid")
    start, end, thread, text_id, row = export.read_integers("NVTX_EVENTS", *columns, where=where)
    if not len(start):
        return empty
    names = _names_of_ranges(export, where, row, text_id)
    return pd.DataFrame({"process": thread & PROCESS_BITS, "thread": thread, "name": names, "start": start, "end": end})


def _names_of_ranges(export: Export, where: str, row: np.ndarray, text_id: np.ndarray) -> pd.Categorical:
    """Return the name of each range: the text in its row, else the file's string with its `text_id`."""
    texts = export.texts_of_ids(np.unique(text_id[text_id >= 0]))
    own_texts: dict[int, str] = {}  # row -> text
    if export.has("NVTX_EVENTS", "text"):
        own_texts = dict(export.database.execute(f"SELECT rowid, text FROM NVTX_EVENTS {where} AND text IS NOT NULL"))
    if own_texts:
        names = [
            own_texts.get(int(row_id)) or texts.get(int(number), "unnamed")
            for row_id, number in zip(row, text_id, strict=True)
        ]
        return pd.Categorical([name.removeprefix(":") for name in names])
    # There may be a million rows: a text is made for each distinct id, not for each row.
    ids, places = np.unique(text_id, return_inverse=True)
    return _categories([texts.get(int(number), "unnamed").removeprefix(":") for number in ids], places)


def _ranks_of_processes(work: pd.DataFrame, ranges: pd.DataFrame, first: int) -> tuple[dict[int, int], bool]:
    """Return process -> rank, and whether ranges of our own program state the ranks ("rank 3").

    If they do not, processes are numbered from `first` on, in the order of their devices.
    """
    own_ranks = {}
    for process, name in ranges[["process", "name"]].drop_duplicates().itertuples(index=False):
        if match := OWN_RANK.fullmatch(str(name)):
            own_ranks[int(process)] = int(match[1])
    if own_ranks:
        return own_ranks, True

    processes = sorted(ranges["process"].unique().tolist())
    if len(work):
        processes = work.groupby("process")["device"].min().sort_values().index.tolist()
    return {int(process): rank for rank, process in enumerate(processes, start=first)}, False


def _rank_column(processes: np.ndarray, ranks: dict[int, int]) -> np.ndarray:
    """Return the rank of each of `processes`; -1: it is no rank, but a launcher. `ranks`: process -> rank."""
    distinct, inverse = np.unique(processes, return_inverse=True)
    if not len(distinct):
        return processes
    return np.array([ranks.get(int(process), -1) for process in distinct], np.int64)[inverse]


def _sum_system_calls(export: Export, ranks: dict[int, int] | None, ranges: pd.DataFrame) -> pd.DataFrame:
    """Return number and total time (ns) of system calls by name.

    `ranks`: process -> rank of our own program, whose calls count from its first step to its last one; None for other
    traces, all calls of which count.
    """
    if not export.has("OSRT_API", "start", "end", "globalTid", "nameId"):
        return make_table(HOST)
    where = ""
    steps = ranges[ranges["name"] == "step"]
    if ranks is not None and len(steps):
        processes = ", ".join(str(process) for process in ranks)
        first_start, last_end = steps["start"].min(), steps["end"].max()
        where = f"WHERE start >= {first_start} AND end <= {last_end} AND globalTid & {PROCESS_BITS} IN ({processes})"
    query = f"SELECT nameId, COUNT(*), SUM(end - start) FROM OSRT_API {where} GROUP BY nameId"
    totals = export.database.execute(query).fetchall()
    if not totals:
        return make_table(HOST)

    texts = export.texts_of_ids(np.array([name_id for name_id, _, _ in totals], np.int64))
    rows = [("osrt", texts[name_id], calls, total_ns) for name_id, calls, total_ns in totals]
    return make_table(HOST, pd.DataFrame(rows, columns=list(HOST)))


def _read_diagnostics(export: Export) -> list[str]:
    """Return the messages of nsys about errors and lost events."""
    if not export.has("DIAGNOSTIC_EVENT", "text"):
        return []
    messages = [str(text) for (text,) in export.database.execute("SELECT DISTINCT text FROM DIAGNOSTIC_EVENT") if text]
    return [text[:200] for text in messages if LOST.search(text) or re.search(r"error|fail|warn", text, re.IGNORECASE)]


def _count_lost_events(text: str) -> int:
    """Return how many events are lost by a message: 1 where it gives no number, 0 where it is about no loss."""
    if not LOST.search(text):
        return 0
    number = re.search(r"\d[\d,]*", text)
    return max(1, int(number[0].replace(",", ""))) if number else 1
