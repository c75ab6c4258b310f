"""How fast each number of devices was, by what somebody published: the scaling series of any tables."""

import math
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from scaleproof.auditor.read.discover import gather
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.reported import Evidence
from scaleproof.auditor.read.reported_tables import SIZES, ReportedRow, ReportedTable
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.files import content_fault
from scaleproof.ground.records.grouping import lists_by_key

Rates = dict[int, list[float]]  # devices -> rates of one device, one for each time that the size was measured
KINDS_OF_RATES = ("tokens_per_s", "samples_per_s", "rate", "steps_per_s")
# Two rows that differ in one of these are not one configuration at two sizes.
SETTINGS = ("parameters", "seq_len", "zero_stage", "tensor_parallel", "pipeline_parallel")
# These may grow or shrink with the devices, so they tell series apart only where a size stands in a table twice.
BATCHES = ("micro_batch", "batch", "global_batch", "accumulation")
NO_NAME = ("run", "status", "device", "devices")  # kinds of words that may name the size of a row
# "4 GPUs", "2 nodes", "single-GPU", "2x8", "8x " of "8x A100", " x8" of "A100 x8" in the name of a row.
NAMED_SIZE = re.compile(
    r"\b(?:(?:\d+|single|one|multi)[- ]?(?:gpu|device|chip|node|rank|card|worker|process)\w*|\d+x\d+)\b|"
    r"\b\d+ ?[x×] ?(?=(?-i:[A-Z]))|(?: |(?<=\d))[x×] ?\d+\b",
    re.I,
)


class SizedRow(NamedTuple):
    """A row of a table with its number of devices and the rate of one of them."""

    row: ReportedRow
    devices: int
    rate: float


def rates_by_size(path: Path, devices_per_node: int) -> dict[str, Rates]:
    """Return the series in the tables of a file, by name: {"ddp": {1: [100.0], 2: [97.0]}}, per device.

    Rates are as printed, or a global batch over the time of a step. Rows of a table that differ in nothing but
    devices are a series; of several tables the heading is in its name. `devices_per_node`: for rows that say nodes
    alone. Raises UserError where no table has devices and rates.
    """
    evidence = gather([path])
    every = [(table, name, rows) for table in evidence.tables for name, rows in _series_of(table, devices_per_node)]
    titles = _titles(list({table.name: table for table, *_ in every}.values()))
    by_name = lists_by_key((f"{titles[table.name]} {name}".strip(), row) for table, name, rows in every for row in rows)
    series = {name: lists_by_key(rows) for name, rows in by_name.items()}
    if not series and (fault := content_fault(path)):
        raise UserError(f"{path}{fault}")
    if not series:
        raise _no_series(path, evidence, devices_per_node)
    return series


def _titles(tables: list[ReportedTable]) -> dict[str, str]:
    """Return for each table of a file what tells it from the others: headings that not all have, else its place."""
    if len(tables) == 1:
        return {tables[0].name: ""}
    paths = [list(filter(None, [*table.section, table.caption])) for table in tables]
    titles = [" / ".join(part for part in path if not all(part in other for other in paths)) for path in paths]
    return {
        table.name: title if title and titles.count(title) == 1 else f"{title} {table.name}".strip()
        for table, title in zip(tables, titles, strict=True)
    }


def _no_series(path: Path, evidence: Evidence, devices_per_node: int) -> UserError:
    """Return the error that no table of a file has devices and rates, with the headings that it has.

    Where a table has both headings, its first row is named, and why it was not read.
    """
    for table in evidence.tables:
        kinds = {column.kind for column in table.columns}
        if table.rows and not kinds.isdisjoint(SIZES) and not kinds.isdisjoint(KINDS_OF_RATES):
            row = table.rows[0]
            return UserError(f"{row.place}: {_row_problem(row, devices_per_node)}, nor has any other row both of them")
    details = "; ".join(", ".join(column.heading for column in table.columns) for table in evidence.tables)
    if not details and evidence.unread:
        details = evidence.unread[0].reason
    rates = "rates above 0 (tokens/s, samples/s, or the time of a step beside a global batch)"
    fault = f"{path} has no table with a column of devices (devices, GPUs, nodes) and one of {rates}"
    return UserError(f"{fault}: {details}" if details else fault)


def unread_rows_text(path: Path, devices_per_node: int) -> str:
    """Return how many rows of a file `rates_by_size` leaves out, and why the first; "" where all were read."""
    rows = [(row, _row_problem(row, devices_per_node)) for table in gather([path]).tables for row in table.rows]
    unread = [(row, problem) for row, problem in rows if problem]
    if not unread:
        return ""
    row, problem = unread[0]
    return f"{plural(len(unread), 'row')} of {len(rows)} not read; the first, {row.place}: {problem}"


def _row_problem(row: ReportedRow, devices_per_node: int) -> str:
    """Return why no rate is read from a row. Returns "" where a rate is read."""
    if not row.measured:
        return f"says {' and '.join(sorted(row.remarks))}"
    devices = _devices_of(row, devices_per_node)
    if not devices:
        return f"has no number of devices{_unread_cell(row, SIZES)}"
    return "" if _rate_of_device(row, devices) else f"has no rate above 0{_unread_cell(row, KINDS_OF_RATES)}"


def _unread_cell(row: ReportedRow, kinds: Collection[str]) -> str:
    """Return the cell that is no number below a heading of one of these kinds, ' (GPUs: "two")'; "" without one."""
    unread = row.not_understood.items()
    return next((f' ({heading}: "{cell}")' for heading, cell in unread if column_of(heading).kind in kinds), "")


def _devices_of(row: ReportedRow, devices_per_node: int) -> int:
    return row.devices or round((row.value("nodes") or 0) * devices_per_node)


def _series_of(table: ReportedTable, devices_per_node: int) -> Iterator[tuple[str, list[tuple[int, float]]]]:
    """Yield name and (devices, rate of one device) of each series of a table: ("ddp", [(1, 100.0), (2, 97.0)])."""
    varied_settings = [kind for kind in SETTINGS if len({row.value(kind) for row in table.rows}) > 1]
    has_several_machines = len({_machine(row) for row in table.rows}) > 1
    groups: dict[str, list[SizedRow]] = {}
    for row in table.rows:
        devices = _devices_of(row, devices_per_node)
        rate = _rate_of_device(row, devices) if row.measured and devices else None
        if rate:
            name = _name_without_size(row, varied_settings, _machine(row) if has_several_machines else "")
            groups.setdefault(name, []).append(SizedRow(row, devices, rate))

    for name, rows in groups.items():
        headings = _distinguishing_headings(rows, table.not_understood)
        words = ([name, *(_setting_text(sized.row, heading) for heading in headings)] for sized in rows)
        rates = ((sized.devices, sized.rate) for sized in rows)
        yield from lists_by_key(zip((" ".join(texts).strip() for texts in words), rates, strict=True)).items()


def _machine(row: ReportedRow) -> str:
    """Return the device or the cluster of a row at any size: "A100" of "8x A100"."""
    return NAMED_SIZE.sub(" ", row.words.get("device", "")).strip(" ,")


def _name_without_size(row: ReportedRow, varied_settings: list[str], machine: str) -> str:
    """Return the name of a row at any size: "ddp" of "DDP, 4 GPUs". The other arguments differ between rows."""
    words = [word for kind, word in row.words.items() if kind not in NO_NAME]
    words += [machine] * (machine != "")
    if len(set(words)) == 1:  # a command is task, strategy and model
        words = words[:1]
    label = NAMED_SIZE.sub(" ", row.words.get("run", "" if words else row.label))  # beside words it would repeat them
    if status := row.words.get("status"):  # "ok" and "crashed" are no names
        label = label.replace(status, " ")
    if not re.search("[A-Za-z]", label):  # only a number is left, as of a job
        label = ""
    settings = [f"{kind} {row.value(kind):g}" for kind in varied_settings if row.value(kind) is not None]
    return " ".join(" ".join([*words, label, *settings]).strip(" ,;:()-").split())


def _distinguishing_headings(rows: list[SizedRow], not_understood: list[str]) -> list[str]:
    """Return the headings of batches and unknown columns that tell rows of one size apart: ["micro_batch"]."""

    def count_repeated(headings: list[str]) -> int:
        """Return how many rows have the devices and settings of another row."""
        sizes = {(sized.devices, *(_setting_text(sized.row, heading) for heading in headings)) for sized in rows}
        return len(rows) - len(sizes)

    distinguishing: list[str] = []
    for heading in (*BATCHES, *not_understood):
        if count_repeated([*distinguishing, heading]) < count_repeated(distinguishing):
            distinguishing.append(heading)
    return distinguishing


def _setting_text(row: ReportedRow, heading: str) -> str:
    """Return what a cell adds to the name of its row's series: "micro-batch 32"; "" without such a cell."""
    if heading in BATCHES:
        value = row.value(heading)
        return "" if value is None else f"{heading.replace('_', '-')} {value:g}"
    return row.texts.get(heading, "")


def _rate_of_device(row: ReportedRow, devices: int) -> float | None:
    """Return the work a second of one device: 97 of "388 img/s" on 4. None where it is not said, or not positive."""
    for kind in KINDS_OF_RATES:
        total = row.figure(kind)
        if total is None:
            continue
        rates_of_device = [quantity.value for quantity in row.all_of(kind) if quantity.per_device]
        rate = rates_of_device[0] if rates_of_device else total.value / devices
        return rate if 0 < rate < math.inf else None
    batch, seconds = row.value("global_batch"), row.value("step_time_s")
    return batch / seconds / devices if batch and seconds else None
