"""What monitors and profilers leave beside a run: logs of nvidia-smi, tables of operators."""

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from itertools import chain

from scaleproof.auditor.read.reported import GpuLog, OperatorTable
from scaleproof.auditor.read.run_fields import figure

MICROSECOND = 1e-6
SECONDS_OF_UNITS = {"(s)": 1.0, "(ms)": 1e-3, "(us)": MICROSECOND, "(μs)": MICROSECOND}
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
    """Whether a line is the first of a log of nvidia-smi: its heading, a sample without one, or that of `dmon`."""
    return _has_gpu_columns(_columns(header)) or bool(SAMPLE_WITHOUT_HEADING.match(header) or DMON.match(header))


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
    """Count nvidia-smi's samples that have a device and a time; several pollers may have written to one file."""
    columns = _columns(header)
    stamp, index = _index_of(columns, "timestamp"), _index_of(columns, *DEVICE_HEADINGS)
    if not _has_gpu_columns(columns):  # the first line is a sample; those of `dmon` have no time
        stamp = next((k for k, cell in enumerate(columns) if re.fullmatch(STAMP, cell)), None)
        index = next((k for k, cell in enumerate(columns[:3]) if re.fullmatch(r"\d{1,2}", cell)), None)
        lines = chain([header], lines)
    devices: Counter[str] = Counter()
    last: dict[str, float] = {}
    backwards = 0
    for record in csv.reader(line.replace("\0", "") for line in lines):
        if stamp is None or index is None or max(stamp, index) >= len(record):
            continue
        device, time_s = record[index].strip(), _seconds(record[stamp])
        if time_s is not None:  # else it is another heading
            devices[device] += 1
            backwards += time_s < last.get(device, time_s)
            last[device] = time_s
    return GpuLog(name, devices.total(), len(devices), backwards)


def _seconds(stamp: str) -> float | None:
    """Return a time stamp ("2026/11/26 14:30:00.120") in seconds since 1970, as local time. None for other texts."""
    try:
        return datetime.fromisoformat(stamp.strip().replace("/", "-")).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def read_operators(name: str, header: str, lines: Iterator[str]) -> OperatorTable:
    """Return sums of a torch.profiler table: the inclusive device times of all rows, and the self times of the kernels.

    Kernels are the rows without CPU time; operators, which launched them, have some. Without a CPU column all rows are
    added up, but never annotations. The steps are those of the ProfilerStep* row with CPU time: each device stream adds
    a row of its own.
    """
    columns = _columns(header)
    total, total_unit = _time_column(columns, "device time total", "cuda time total")
    self_time, self_unit = _time_column(columns, *SELF_TIME)
    cpu, _ = _time_column(columns, "cpu time total")
    count_headings = ("calls",) if "calls" in columns else ("# of calls", "count")
    calls = next((k for k, column in enumerate(columns) if column in count_headings), None)
    operator_column = columns.index("name")

    inclusive_s = kernels_s = operators_s = 0.0
    steps: int | None = None
    for record in csv.reader(line.replace("\0", "") for line in lines):
        if len(record) < len(columns):
            continue
        operator = record[operator_column].strip()
        inclusive_s += max(_amount(record, total), 0.0) * total_unit
        cpu_time = _amount(record, cpu)
        if operator.lower().startswith("profilerstep"):
            count = _amount(record, calls)
            if count and (steps is None or cpu_time > 0):
                steps = int(count)
            continue
        if ANNOTATION.search(operator):
            continue
        self_s = max(_amount(record, self_time), 0.0) * self_unit
        operators_s += self_s
        if cpu is not None and cpu_time == 0:
            kernels_s += self_s

    self_s = kernels_s or operators_s
    if not (math.isfinite(inclusive_s) and math.isfinite(self_s)):
        inclusive_s = self_s = 0.0
    return OperatorTable(name, inclusive_s, self_s, steps)


def _amount(record: list[str], k: int | None) -> float:
    """Return the figure in the k-th cell; 0 where it has none, or there is no such column."""
    return (figure(record[k]) or 0.0) if k is not None else 0.0


def _time_column(columns: list[str], *names: str) -> tuple[int | None, float]:
    """Return the index of the first column with one of these names, None without any, and its unit in seconds."""
    k = _index_of(columns, *names)
    column = columns[k] if k is not None else ""
    return k, next((seconds for unit, seconds in SECONDS_OF_UNITS.items() if unit in column), MICROSECOND)
