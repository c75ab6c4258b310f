"""CSV files: step logs, per-epoch metrics, nvidia-smi's log, a profiler's table of operators."""

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime

from scalebench.importers.fields import figure, not_finite
from scalebench.importers.reported import GpuLog, LoggedStep, OperatorTable, ReportedRun, TimedSpan

SECOND, MILLISECOND, MICROSECOND = 1.0, 1e-3, 1e-6
UNITS = {"(s)": SECOND, "(ms)": MILLISECOND, "(us)": MICROSECOND, "(μs)": MICROSECOND}
NAMES = {
    "step": ("global_step", "step", "iteration", "iter"),
    "seconds": ("step_time_s", "step_time", "iter_time_s"),
    "loss": ("loss", "train_loss"),
    "rate": ("tokens_per_sec", "tokens_per_second", "tok_per_sec"),
    "epoch": ("epoch",),
    "epoch_seconds": ("train_time", "epoch_time", "epoch_time_s", "train_time_s"),
    "val_loss": ("val_loss", "eval_loss"),
}
OWN = {"phase", "rank", "data_wait_s"}  # the raw series of our own runs: their folder is what can be audited
SELF_TIME = ("self device time total", "self cuda time total")
GROUPS = ("rank", "local_rank", "split", "phase", "fold", "seed", "run", "run_id")


def kind_of(header: str) -> str | None:
    """What a CSV file with this first line is: steps, epochs, gpus, operators; None for anything else."""
    columns = _columns(header)
    if len(columns) < 2 or set(columns) >= OWN:
        return None
    if any(c.startswith("utilization.gpu") for c in columns) and "index" in columns:
        return "gpus"
    if "name" in columns and any(c.startswith(("self device time total", "self cuda time total")) for c in columns):
        return "operators"
    if _place(columns, "epoch_seconds") is not None and _place(columns, "epoch") is not None:
        return "epochs"
    if _place(columns, "step") is not None and (
        _place(columns, "seconds") is not None or _place(columns, "rate") is not None
    ):
        return "steps"
    return None


def _columns(header: str) -> list[str]:
    return [c.strip().lower() for c in next(csv.reader([header]), [])]


def _place(columns: list[str], what: str) -> int | None:
    return next((columns.index(n) for n in NAMES[what] if n in columns), None)


def _records(lines: Iterable[str], columns: list[str]) -> Iterator[list[str]]:
    """Rows; where one row stands for each rank (split, fold, ...), those of the first row's."""
    place, kept = next((i for i, c in enumerate(columns) if c in GROUPS), None), None
    for record in csv.reader(line.replace("\0", "") for line in lines):
        if place is not None and place < len(record):
            kept = record[place] if kept is None else kept
            if record[place] != kept:
                continue
        yield record


def _figures(record: list[str], places: dict[str, int | None]) -> dict[str, float | None]:
    return {w: None if p is None or p >= len(record) else figure(record[p]) for w, p in places.items()}


def read_steps(name: str, header: str, lines: Iterator[str]) -> ReportedRun:
    """One row a step: what was logged, in the order of the file."""
    columns, claim = _columns(header), ReportedRun(name, "step log (CSV)")
    places = {what: _place(columns, what) for what in ("step", "seconds", "loss", "rate", "epoch")}
    memory = next((i for i, c in enumerate(columns) if "mem_mb" in c), None)
    broken, backward, lost = 0, 0, 0
    for record in _records(lines, columns):
        got = _figures(record, places)
        backward += got["seconds"] is not None and got["seconds"] <= 0
        place = places["loss"] if got["loss"] is None else None
        lost += place is not None and place < len(record) and not_finite(record[place])
        if got["step"] is None or (got["seconds"] is None and got["rate"] is None):
            broken += bool(record)
            continue
        seconds, rate = (v if v is None or v > 0 else None for v in (got["seconds"], got["rate"]))
        epoch = None if got["epoch"] is None else int(got["epoch"])
        claim.logged_steps.append(LoggedStep(int(got["step"]), seconds, got["loss"], rate, epoch))
        if memory is not None and memory < len(record) and (used := figure(record[memory])):
            claim.memory_reported_bytes = max(claim.memory_reported_bytes or 0, used * 2**20)
    if backward:
        claim.problems.append(f"{backward:,} step times are 0 or less")
    if lost:
        claim.problems.append(f"{lost:,} losses are not finite")
    if broken:
        claim.problems.append(f"{broken:,} lines are no rows of numbers")
    return claim


def read_epochs(name: str, header: str, lines: Iterator[str]) -> ReportedRun:
    """One row an epoch, in the order of the file."""
    columns, claim = _columns(header), ReportedRun(name, "epoch log (CSV)")
    places = {w: _place(columns, w) for w in ("epoch", "epoch_seconds", "loss", "val_loss")}
    broken = 0
    for record in _records(lines, columns):
        got = _figures(record, places)
        if got["epoch"] is None or not got["epoch_seconds"] or got["epoch_seconds"] <= 0:
            broken += bool(record)
            continue
        claim.timed_spans.append(
            TimedSpan(int(got["epoch"]), got["epoch_seconds"], train_loss=got["loss"], val_loss=got["val_loss"])
        )
    if broken:
        claim.problems.append(f"{broken:,} lines are no rows of numbers")
    return claim


def read_gpus(name: str, header: str, lines: Iterator[str]) -> GpuLog:
    """nvidia-smi's samples; the header may be there twice, and the file written by several pollers at once."""
    columns = _columns(header)
    utilization = next(i for i, c in enumerate(columns) if c.startswith("utilization.gpu"))
    index, stamp = columns.index("index"), columns.index("timestamp") if "timestamp" in columns else None
    last: dict[float, float] = {}
    devices, backwards = Counter(), 0
    for record in _records(lines, columns):
        if len(record) <= max(utilization, index):
            continue
        device, used = figure(record[index]), figure(record[utilization].replace("%", ""))
        if device is None or used is None:
            continue
        devices[device] += 1
        at = _seconds(record[stamp]) if stamp is not None and stamp < len(record) else None
        if at is not None:
            backwards += at < last.get(device, at)
            last[device] = at
    return GpuLog(name, devices.total(), len(devices), backwards)


def _seconds(stamp: str) -> float | None:
    for form in ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S"):
        try:
            return datetime.strptime(stamp.strip(), form).timestamp()
        except (ValueError, OverflowError, OSError):
            continue
    return None


def read_operators(name: str, header: str, lines: Iterator[str]) -> OperatorTable:
    """Sums of the inclusive and of the own device times of a torch.profiler table."""
    columns = _columns(header)
    total, total_unit = _time_column(columns, "device time total", "cuda time total")
    own, own_unit = _time_column(columns, *SELF_TIME)
    calls = columns.index("calls") if "calls" in columns else None
    name_at, sums, steps = columns.index("name"), [0.0, 0.0], None
    for record in _records(lines, columns):
        if len(record) < len(columns):
            continue
        values = [figure(record[total]) if total is not None else None, figure(record[own])]
        if record[name_at].lower().startswith("profilerstep"):
            count = figure(record[calls]) if calls is not None else None
            steps = int(count) if count else None
        sums = [s + max(v or 0.0, 0.0) * u for s, v, u in zip(sums, values, (total_unit, own_unit), strict=True)]
    if not all(map(math.isfinite, sums)):
        sums = [0.0, 0.0]
    return OperatorTable(name, sums[0], sums[1], steps)


def _time_column(columns: list[str], *names: str) -> tuple[int | None, float]:
    for i, column in enumerate(columns):
        if any(column.startswith(n) for n in names):
            return i, next((u for text, u in UNITS.items() if text in column), MICROSECOND)
    return None, MICROSECOND
