"""What monitors and profilers leave beside a run: logs of nvidia-smi, tables of operators."""

import csv
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain

from scaleproof.auditor.read.reported import GpuLog, OperatorTable
from scaleproof.auditor.read.run_fields import figure

SECOND = 1.0
MILLISECOND = 1e-3
MICROSECOND = 1e-6
UNITS = {"(s)": SECOND, "(ms)": MILLISECOND, "(us)": MICROSECOND, "(μs)": MICROSECOND}
SELF_TIME = ("self device time total", "self cuda time total")
STAMP = r"\d{4}[/-]\d{2}[/-]\d{2} \d{2}:\d{2}:\d{2}(?:\.\d+)?"
# A line of `nvidia-smi --query-gpu=... --format=csv,noheader`: a time stamp, and at least a percentage or an amount of
# memory.
HEADERLESS = re.compile(rf"{STAMP}, .*\d+ (?:%|MiB)")
DMON = re.compile(r"#\s*gpu\s+(?:\S+\s+)*sm\s")
# Ranges that frame kernels: their device time is that of the kernels inside, counted again.
ANNOTATION = re.compile(
    r"profilerstep|dataparallel\.forward|distributeddataparallel|^nccl:|^optimizer\.|^autograd::|^## |"
    r"^gloo:|fullyshardeddataparallel|^fsdp::|^torch::autograd|^enumerate\(|^deepspeed",
    re.I,
)


def is_gpu_log(header: str) -> bool:
    """Whether a line is the first of a log of nvidia-smi: its heading, a sample without one, or that of `dmon`."""
    columns = _columns(header)
    return any(c.startswith(("utilization.gpu", "memory.used [")) for c in columns) or bool(
        HEADERLESS.match(header) or DMON.match(header)
    )


def is_operator_table(header: str) -> bool:
    """Whether a line is the heading of a profiler's table of operators."""
    columns = _columns(header)
    return "name" in columns and any(c.startswith(SELF_TIME) for c in columns)


def _columns(header: str) -> list[str]:
    return [c.strip().lower() for c in next(csv.reader([header]), [])]


def read_gpu_log(name: str, header: str, lines: Iterator[str]) -> GpuLog:
    """Count nvidia-smi's samples, with any number of headings; several pollers may have written to one file."""
    if DMON.match(header):
        return _read_dmon(name, header, lines)
    columns = _columns(header)
    if not any(c.startswith(("utilization.gpu", "memory.used [")) for c in columns):
        columns = _guessed_columns(next(csv.reader([header])))
        lines = chain([header], lines)
    utilization = next((i for i, c in enumerate(columns) if c.startswith("utilization.gpu")), None)
    memory = next((i for i, c in enumerate(columns) if c.startswith("memory.used")), None)
    index = next(
        (columns.index(n) for n in ("index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id") if n in columns), None
    )
    stamp = columns.index("timestamp") if "timestamp" in columns else None
    samples = DeviceSamples()
    for record in csv.reader(line.replace("\0", "") for line in lines):
        if _cell(record, utilization) is None and _cell(record, memory) is None:
            continue
        device = record[index].strip() if index is not None and index < len(record) else "0"
        at = _seconds(record[stamp]) if stamp is not None and stamp < len(record) else None
        samples.add(device, at if index is not None else None)
    return samples.log(name)


def _guessed_columns(record: list[str]) -> list[str]:
    """Return the names of the columns of a log without a heading, by the units of its first sample."""
    columns = []
    for cell in (c.strip() for c in record):
        if re.fullmatch(STAMP, cell):
            columns.append("timestamp")
        elif cell.endswith("%"):
            columns.append("utilization.memory" if "utilization.gpu" in columns else "utilization.gpu")
        elif cell.endswith("MiB"):
            columns.append("memory.total" if "memory.used" in columns else "memory.used")
        elif re.fullmatch(r"\d{1,2}", cell) and "index" not in columns and len(columns) < 3:
            columns.append("index")
        else:
            columns.append("")
    return columns


def _cell(record: list[str], place: int | None) -> float | None:
    if place is None or place >= len(record):
        return None
    return figure(record[place].replace("%", "").replace("MiB", "").strip())


class DeviceSamples:
    """Counts samples, device by device."""

    def __init__(self) -> None:
        self._devices: Counter[str] = Counter()
        self._last: dict[str, float] = {}
        self._backwards = 0

    def add(self, device: str, at: float | None) -> None:
        """Count one sample. `at`: its time in seconds, where samples name their devices and have one."""
        self._devices[device] += 1
        if at is not None:
            self._backwards += at < self._last.get(device, at)
            self._last[device] = at

    def log(self, name: str) -> GpuLog:
        return GpuLog(name, self._devices.total(), len(self._devices), self._backwards)


def _read_dmon(name: str, header: str, lines: Iterable[str]) -> GpuLog:
    """Count samples of `nvidia-smi dmon`: columns under "# gpu pwr ... sm mem", a heading every screen."""
    columns = header.lstrip("# ").split()
    rows = [line.split() for line in lines if not line.lstrip().startswith("#")]
    devices = Counter(row[columns.index("gpu")] for row in rows if len(row) == len(columns))
    return GpuLog(name, devices.total(), len(devices), 0)


def _seconds(stamp: str) -> float | None:
    """Return a time stamp in seconds since 1970, read as local time; None for what is none."""
    try:
        return datetime.fromisoformat(stamp.strip().replace("/", "-")).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def read_operators(name: str, header: str, lines: Iterator[str]) -> OperatorTable:
    """Return sums of a torch.profiler table: the inclusive device times, and the own device times of the kernels.

    A kernel's row has no CPU time. Where the table has a CPU column, rows with CPU time (operators that launched
    kernels) and annotations are left out of the own time; without one, the column of own times is added up less the
    annotations. The number of profiled steps is that of the ProfilerStep* row with CPU time: each device stream adds a
    row of its own.
    """
    columns = _columns(header)
    total, total_unit = _time_column(columns, "device time total", "cuda time total")
    own, own_unit = _time_column(columns, *SELF_TIME)
    cpu, _ = _time_column(columns, "cpu time total")
    calls = next((i for i, c in enumerate(columns) if c in ("# of calls", "count")), None)
    if "calls" in columns:
        calls = columns.index("calls")
    name_at = columns.index("name")
    inclusive = 0.0
    kernels = 0.0
    by_operator = 0.0
    steps: int | None = None
    has_kernels = False
    for record in csv.reader(line.replace("\0", "") for line in lines):
        if len(record) < len(columns):
            continue
        operator = record[name_at].strip()
        inclusive += max(_amount(record, total), 0.0) * total_unit
        on_cpu = _amount(record, cpu) if cpu is not None else 0.0
        if operator.lower().startswith("profilerstep"):
            count = figure(record[calls]) if calls is not None else None
            if count and (steps is None or on_cpu > 0):
                steps = int(count)
            continue
        if ANNOTATION.search(operator):
            continue
        self_s = max(_amount(record, own), 0.0) * own_unit
        if cpu is not None and on_cpu == 0:
            kernels += self_s
            has_kernels |= self_s > 0
        by_operator += self_s
    own_s = kernels if has_kernels else by_operator
    if not (math.isfinite(inclusive) and math.isfinite(own_s)):
        inclusive = own_s = 0.0
    return OperatorTable(name, inclusive, own_s, steps)


def _amount(record: list[str], place: int | None) -> float:
    return (figure(record[place]) or 0.0) if place is not None else 0.0


def _time_column(columns: list[str], *names: str) -> tuple[int | None, float]:
    """Return the first column with one of these names (None without any), and its unit in seconds."""
    for i, column in enumerate(columns):
        if column.startswith(names):
            return i, next((seconds for unit, seconds in UNITS.items() if unit in column), MICROSECOND)
    return None, MICROSECOND
