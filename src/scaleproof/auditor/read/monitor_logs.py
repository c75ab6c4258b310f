"""What monitors and profilers leave beside a run: logs of nvidia-smi, tables of operators."""

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import NamedTuple

from scaleproof.auditor.read.csv_logs import records_of
from scaleproof.auditor.read.printed_figures import unit_of
from scaleproof.auditor.read.reported import GpuLog, OperatorTable
from scaleproof.auditor.read.run_fields import figure

MICROSECOND = 1e-6  # the unit of times of torch.profiler, unless a heading has another
DEVICE_HEADINGS = ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")
SELF_TIME = ("self device time total", "self cuda time total")
STAMP = r"\d{4}[/-]\d{2}[/-]\d{2} \d{2}:\d{2}:\d{2}(?:\.\d+)?"
# A line of `nvidia-smi --query-gpu=... --format=csv,noheader`: a time stamp, and at least a percentage or an amount of
# memory.
SAMPLE_WITHOUT_HEADING = re.compile(rf"{STAMP}, .*\d+ (?:%|MiB)")
DMON = re.compile(r"#\s*gpu\s+(?:\S+\s+)*sm\s")
# Ranges that frame kernels: their device time is that of the kernels inside, counted again.
ANNOTATION = re.compile(
    r"profilerstep|dataparallel\.forward|distributeddataparallel|^nccl:|^optimizer\.|^autograd::|^## |"
    r"^gloo:|fullyshardeddataparallel|^fsdp::|^torch::autograd|^enumerate\(|^deepspeed",
    re.I,
)


def is_gpu_log(header: str) -> bool:
    """Whether a line is the first of a log of nvidia-smi: its heading, the heading of `dmon`, or a sample."""
    is_heading = _has_gpu_columns(_columns(header)) or DMON.match(header) is not None
    return is_heading or SAMPLE_WITHOUT_HEADING.match(header) is not None


def is_operator_table(header: str) -> bool:
    """Whether a line is the heading of a profiler's table of operators."""
    columns = _columns(header)
    return "name" in columns and _index_of(columns, *SELF_TIME) is not None


def _columns(header: str) -> list[str]:
    return [heading.strip().lower() for heading in next(csv.reader([header]), [])]


def _has_gpu_columns(columns: list[str]) -> bool:
    return _index_of(columns, "utilization.gpu", "memory.used [") is not None


def _index_of(columns: list[str], *starts: str) -> int | None:
    """Return the index of the first column that starts with one of these. None without any."""
    return next((k for k, column in enumerate(columns) if column.startswith(starts)), None)


def read_gpu_log(name: str, header: str, lines: Iterator[str]) -> GpuLog:
    """Count nvidia-smi's samples, and how often the time of a device goes back: several pollers wrote to one file."""
    columns = _columns(header)
    if _has_gpu_columns(columns):
        stamp_column, device_column = _index_of(columns, "timestamp"), _index_of(columns, *DEVICE_HEADINGS)
    else:  # the first line is a sample; samples of `dmon` have no time
        stamp_column = _first_match(STAMP, columns)
        device_column = _first_match(r"\d{1,2}", columns[:3])
        lines = chain([header], lines)
    if stamp_column is None or device_column is None:
        return GpuLog(name, 0, 0, 0)

    sample_counts: Counter[str] = Counter()  # device -> samples
    last_time_s: dict[str, float] = {}  # device -> time of its sample before
    steps_back = 0
    for record in records_of(lines, ","):
        if max(stamp_column, device_column) >= len(record):
            continue
        device, time_s = record[device_column].strip(), _seconds(record[stamp_column])
        if time_s is None:
            continue  # a heading within the file
        sample_counts[device] += 1
        steps_back += time_s < last_time_s.get(device, time_s)
        last_time_s[device] = time_s
    return GpuLog(name, sample_counts.total(), len(sample_counts), steps_back)


def _first_match(pattern: str, cells: list[str]) -> int | None:
    """Return the index of the first cell that a pattern matches as a whole. None without any."""
    return next((k for k, cell in enumerate(cells) if re.fullmatch(pattern, cell)), None)


def _seconds(stamp: str) -> float | None:
    """Return a time stamp ("2026/11/26 14:30:00.120") in seconds since 1970, as local time. None for other texts."""
    try:
        return datetime.fromisoformat(stamp.strip().replace("/", "-")).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def read_operators(name: str, header: str, lines: Iterator[str]) -> OperatorTable:
    """Return sums of a torch.profiler table: the inclusive device times of all rows, the self times of the kernels.

    Kernels are the rows without CPU time, which the operators that launch them have. Without a column of CPU times the
    self times of all rows but annotations are added up.
    """
    columns = _columns(header)
    cpu_time = _column_of_times(columns, "cpu time total")
    names = _Column(columns.index("name"))
    records = [record for record in records_of(lines, ",") if len(record) >= len(columns)]
    inclusive_s = _column_of_times(columns, "device time total", "cuda time total").total(records)

    operators = [record for record in records if not ANNOTATION.search(names.text(record))]
    kernels = [record for record in operators if cpu_time.position is not None and cpu_time.amount(record) == 0]
    self_time = _column_of_times(columns, *SELF_TIME)
    self_s = self_time.total(kernels) or self_time.total(operators)
    if not (math.isfinite(inclusive_s) and math.isfinite(self_s)):
        inclusive_s = self_s = 0.0

    rows_of_steps = [record for record in records if names.text(record).lower().startswith("profilerstep")]
    of_calls = ("calls",) if "calls" in columns else ("# of calls", "count")
    calls = _Column(next((k for k, column in enumerate(columns) if column in of_calls), None))
    return OperatorTable(name, inclusive_s, self_s, _steps_of(rows_of_steps, calls, cpu_time))


def _steps_of(rows: list[list[str]], calls: "_Column", cpu_time: "_Column") -> int | None:
    """Return the calls of the last ProfilerStep* row with CPU time. Rows without it are of device streams."""
    counted = [row for row in rows if calls.amount(row)]
    if on_cpu := [row for row in counted if cpu_time.amount(row) > 0]:
        return int(calls.amount(on_cpu[-1]))
    return int(calls.amount(counted[0])) if counted else None


class _Column(NamedTuple):
    """A column of a table, perhaps one that a table does not have."""

    position: int | None
    unit: float = 1.0

    def text(self, record: list[str]) -> str:
        return "" if self.position is None else record[self.position].strip()

    def amount(self, record: list[str]) -> float:
        """Return the figure of a row in base units. 0 where the row has none, or the table has no such column."""
        return (figure(self.text(record)) or 0.0) * self.unit

    def total(self, records: list[list[str]]) -> float:
        """Return the sum of the figures of rows, without negative ones."""
        return sum(max(self.amount(record), 0.0) for record in records)


def _column_of_times(columns: list[str], *names: str) -> _Column:
    """Return the first column whose heading begins with one of `names`, and its unit in seconds."""
    k = _index_of(columns, *names)
    m = re.search(r"\((\w+)\)", columns[k]) if k is not None else None
    unit = unit_of(m[1]) if m else None
    return _Column(k, unit.scale if unit is not None else MICROSECOND)
