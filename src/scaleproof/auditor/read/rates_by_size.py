"""How fast each number of devices was, by what somebody published: the scaling series of any tables."""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.reported_tables import ReportedRow, ReportedTable
from scaleproof.ground.errors import UserError

Rates = dict[int, list[float]]  # devices -> rates of one device; several where the size was measured several times
RATES = ("tokens_per_s", "samples_per_s", "rate", "steps_per_s")
# Of two rows that differ in one of these, none is the other at another size.
SETTINGS = ("parameters", "seq_len", "zero_stage", "tensor_parallel", "pipeline_parallel")
# These may grow or shrink with the devices, so they tell series apart only where a size stands in a table twice.
BATCHES = ("micro_batch", "batch", "global_batch", "accumulation")
NO_NAME = ("run", "status", "device", "devices")  # words of a row that may name its size
# "4 GPUs", "2 nodes", "single-GPU", "2x8" in the name of a row.
SIZE = re.compile(
    r"\b(?:(?:\d+|single|one|multi)[- ]?(?:gpu|device|chip|node|rank|card|worker|process)\w*|\d+x\d+)\b", re.I
)


class SizedRow(NamedTuple):
    """A row of a table with its number of devices and the rate of one of them."""

    row: ReportedRow
    devices: int
    rate: float


def rates_by_size(path: Path, devices_per_node: int) -> dict[str, Rates]:
    """The series in the tables of a file, by their names: rates of one device on each number of devices.

    Rates are as printed, or a global batch over the time of a step. Rows that only their devices tell apart are a
    series. `devices_per_node`: for rows that say nodes alone. Raises UserError where no table has both.
    """
    evidence = gather([path])
    series: dict[str, Rates] = {}
    for table in evidence.tables:
        for name, rows in _series_of(table, devices_per_node):
            of_sizes = series.setdefault(name, {})
            for devices, rate in rows:
                of_sizes.setdefault(devices, []).append(rate)
    if not series:
        headings = "; ".join(", ".join(column.heading for column in table.columns) for table in evidence.tables)
        why = f": {headings}" if headings else "".join(f": {unread.reason}" for unread in evidence.unread[:1])
        raise UserError(
            f"{path} has no table with a column of devices (devices, GPUs, nodes) and one of rates (tokens/s, "
            f"samples/s, or the time of a step beside a global batch){why}"
        )
    return series


def _series_of(table: ReportedTable, devices_per_node: int) -> Iterator[tuple[str, list[tuple[int, float]]]]:
    """Yield the name of each series of a table with its (devices, rate of one device), row by row."""
    varied = [kind for kind in SETTINGS if len({row.value(kind) for row in table.rows}) > 1]
    groups: dict[str, list[SizedRow]] = {}
    for row in table.rows:
        nodes = row.value("nodes")
        devices = row.devices or (round(nodes * devices_per_node) if nodes else 0)
        rate = _rate_of_device(row, devices) if row.measured and devices else None
        if rate:
            groups.setdefault(_name(row, varied), []).append(SizedRow(row, devices, rate))
    for name, rows in groups.items():
        apart = _telling_apart(rows, table.not_understood)
        split: dict[str, list[tuple[int, float]]] = {}
        for sized in rows:
            own_name = " ".join([name, *(_setting(sized.row, heading) for heading in apart)]).strip()
            split.setdefault(own_name, []).append((sized.devices, sized.rate))
        yield from split.items()


def _name(row: ReportedRow, varied: list[str]) -> str:
    """What a row is of, without its size. `varied`: the settings that are not the same in all rows."""
    words = [word for kind, word in row.words.items() if kind not in NO_NAME]
    label = SIZE.sub(" ", row.words.get("run", "" if words else row.label))
    if not re.search("[A-Za-z]", label):  # the number of a job
        label = ""
    settings = [f"{kind} {row.value(kind):g}" for kind in varied if row.value(kind) is not None]
    return " ".join(" ".join([*words, label, *settings]).strip(" ,;:()-").split())


def _telling_apart(rows: list[SizedRow], not_understood: list[str]) -> list[str]:
    """The batches and unknown columns by which rows with equal devices differ, as few as that takes."""
    apart: list[str] = []

    def repeated() -> int:
        """How many rows have the devices and settings of another one."""
        return len(rows) - len({(sized.devices, *(_setting(sized.row, name) for name in apart)) for sized in rows})

    for heading in (*BATCHES, *not_understood):
        before = repeated()
        apart.append(heading)
        if not before or repeated() == before:
            apart.pop()
    return apart


def _setting(row: ReportedRow, heading: str) -> str:
    """A batch as "micro_batch 32", or the text of an unknown column; empty where the row has none."""
    if heading in BATCHES:
        value = row.value(heading)
        return "" if value is None else f"{heading.replace('_', '-')} {value:g}"
    return row.texts.get(heading, "")


def _rate_of_device(row: ReportedRow, devices: int) -> float | None:
    """Work a second of one device; None where the row does not say it, or where it is no positive number."""
    for kind in RATES:
        of_one = next((quantity for quantity in row.all_of(kind) if quantity.per_device), None)
        of_all = row.figure(kind)
        if of_all:
            rate = of_one.value if of_one else of_all.value / devices
            return rate if 0 < rate < math.inf else None
    batch, seconds = row.value("global_batch"), row.value("step_time_s")
    return batch / seconds / devices if batch and seconds else None
