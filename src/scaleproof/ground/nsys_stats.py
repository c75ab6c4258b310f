"""Texts of `nsys stats`: tables or CSV, report names of 2022.4 (`gpukernsum`) and of 2025 (`cuda_gpu_kern_sum`).

Numbers may be grouped in any way (the locale's: 27,65,96,75,62,725), names may be cut with an ellipsis and hold commas
and single spaces, and a report without data says so in a line of its own.
"""

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from scaleproof.ground.errors import UserError
from scaleproof.ground.facts.kernel_classes import LEAST_CLASSIFIED, UNCLASSIFIED, class_of, collective_of
from scaleproof.ground.number_format import percent

TITLE = re.compile(r"^ \*\* (?P<title>.+?) \((?P<report>\w+)\):\s*$")
CSV_HEAD = re.compile(r"^(?:\"?Time \(%\)|\"?Total \(MB\))", re.IGNORECASE)
# Report of 2022.4 -> its name since 2023.
NEWER_NAMES = {
    "nvtxsum": "nvtx_sum",
    "nvtxppsum": "nvtx_pushpop_sum",
    "osrtsum": "osrt_sum",
    "cudaapisum": "cuda_api_sum",
    "gpukernsum": "cuda_gpu_kern_sum",
    "gpumemtimesum": "cuda_gpu_mem_time_sum",
    "gpumemsizesum": "cuda_gpu_mem_size_sum",
}
COUNTS = ("Instances", "Num Calls", "Count")
NAMES = ("Range", "Name", "Operation")
KERNELS = "cuda_gpu_kern_sum"
RANGES = "nvtx_sum"
OSRT = "osrt_sum"


@dataclass(frozen=True, slots=True)
class ReportLine:
    """One line of a report, and its text."""

    name: str
    count: int
    total_ns: int
    percent: float | None
    raw: str


@dataclass(frozen=True, slots=True)
class KernelSums:
    """What a report of kernels adds up to. `unknown` says why nothing can be said about communication."""

    total_ns: int
    classified_share: float | None  # share of the time in kernels of a known class; None without any kernel
    unclassified_top: list[str]  # names of the largest kernels of no known class
    communication_ns: int
    calls_by_kernel: dict[str, int]  # of collectives
    calls: dict[str, int]  # by collective
    unknown: str | None

    @property
    def communication_share(self) -> float | None:
        """Which share of the time of all kernels communicates. It is None where that is unknown."""
        return self.communication_ns / self.total_ns if self.total_ns and self.unknown is None else None


def read_stats_output(path: Path) -> dict[str, list[ReportLine]]:
    """Return the reports in saved output of `nsys stats`: report name -> its lines. Old names become today's.

    Raises UserError where the file holds no report, or a report that is cut off.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a text of nsys stats: not UTF-8 (byte {error.start})") from None
    reports: dict[str, list[ReportLine]] = {}
    title = ""  # of the next table
    index = 0
    while index < len(lines):
        line = lines[index]
        if m := TITLE.match(line):
            title = NEWER_NAMES.get(m["report"], m["report"])
        if m or not ("Time (%)" in line or "Total (MB)" in line):  # the header of a table
            index += 1
            continue
        block = list(takewhile(str.strip, lines[index:]))  # a table ends with an empty line
        is_csv = CSV_HEAD.match(line.strip()) and "," in line
        rows = _read_csv_table(path, block, index) if is_csv else _read_column_table(path, block, index)
        reports.setdefault(title or _guess_report(line), []).extend(rows)
        title = ""
        index += len(block)
    if not reports:
        raise _no_report(path, lines)
    return reports


def _no_report(path: Path, lines: list[str]) -> UserError:
    """Return the error that a file holds no report, with the reason that nsys gives, if any."""
    skipped = next((line.strip() for line in lines if "SKIPPED" in line or "no data" in line), None)
    reason = f"every report is empty ({skipped[:160]})" if skipped else "it has no table of nsys stats"
    remedy = f"make it again: nsys stats --report {KERNELS},{RANGES},{OSRT} REPORT.nsys-rep"
    return UserError(f"{path}: {reason}; {remedy}")


def _read_column_table(path: Path, block: list[str], start: int) -> list[ReportLine]:
    """Return the lines of a table in columns. `start`: index of its header in the file.

    The dashes below the header say where columns are: cells may be empty or hold several spaces (GridXYZ of 2022.4).
    Raises UserError where the dashes are missing, or where a line is cut off.
    """
    dashes = block[1] if len(block) > 1 and set(block[1].strip()) == {"-", " "} else ""
    spans = [match.span() for match in re.finditer("-+", dashes)]
    if not spans:
        raise UserError(
            f"{path}, line {start + 2}: a line of dashes is expected under the header; was the text cut off or changed?"
        )
    last_begin, _ = spans[-1]
    spans[-1] = (last_begin, sys.maxsize)  # the name goes to the end of its line

    def cells(line: str) -> list[str]:
        """Return the text of `line` in each of the columns."""
        return [line[begin:end].strip() for begin, end in spans]

    rows = []
    for index, line in enumerate(block[2:], start=start + 2):
        if len(line) <= last_begin:
            raise UserError(f"{path}, line {index + 1}: the line ends before its last column; was the text cut off?")
        rows.append(_parse_line(path, index, cells(block[0]), cells(line), line))
    return rows


def _read_csv_table(path: Path, block: list[str], start: int) -> list[ReportLine]:
    """Return the lines of a table in CSV. `start`: index of its header in the file. Raises UserError for a cut line."""
    heads, *rows = csv.reader(io.StringIO("\n".join(block)))
    lines = []
    for index, cells in enumerate(rows, start=start + 1):
        if len(cells) != len(heads):
            columns = f"{len(cells)} columns where the header has {len(heads)}"
            raise UserError(f"{path}, line {index + 1}: {columns}; was it cut off?")
        lines.append(_parse_line(path, index, heads, cells, ",".join(cells)))
    return lines


def _parse_line(path: Path, index: int, heads: list[str], cells: list[str], raw: str) -> ReportLine:
    """Return the line of a report whose `cells` stand under `heads`. `index`: its place in the file; `raw`: its text.

    Time and count are 0 where the report has no such column. Raises UserError where text stands for a number.
    """
    values = dict(zip((head.strip() for head in heads), (cell.strip() for cell in cells), strict=True))
    try:
        total = next((_parse_number(values[head]) for head in values if head.startswith("Total Time")), 0)
        count = next((_parse_number(values[head]) for head in COUNTS if head in values), 0)
        percent = _parse_number(values["Time (%)"]) if "Time (%)" in values else None
    except ValueError as error:
        raise UserError(f"{path}, line {index + 1}: {error}") from None
    name = next((values[head] for head in reversed(values) if head in NAMES), cells[-1])  # the last such column
    return ReportLine(name.removeprefix(":"), int(count), int(total), percent, raw)


def _parse_number(text: str) -> float:
    """Return the number in `text`, with any grouping of its digits. Raises ValueError for other text."""
    return float(re.sub(r"[,\s\u00a0\u202f']", "", text))


def _guess_report(head: str) -> str:
    """Return the name of the report that a table without a title belongs to, by the columns in its header `head`."""
    if "Style" in head:  # of an NVTX range
        return RANGES
    if "Instances" in head:  # of a kernel
        return KERNELS
    if "Num Calls" in head:  # of a function of the operating system
        return OSRT
    return "cuda_gpu_mem_time_sum"


def largest_lines(lines: Iterable[ReportLine], number: int) -> list[ReportLine]:
    """Return the `number` lines that took most of the time. Equal lines keep their order."""
    return sorted(lines, key=lambda line: -line.total_ns)[:number]


def sum_kernels(lines: list[ReportLine], ranks: int | None = None) -> KernelSums:
    """Add up times and calls of all lines of one or more reports of kernels. `ranks`: how many ran, if known."""
    total_ns = sum(line.total_ns for line in lines)
    unclassified = [line for line in lines if class_of(line.name) == UNCLASSIFIED]
    classified_share = 1 - sum(line.total_ns for line in unclassified) / total_ns if total_ns else None
    unclassified_top = [line.name for line in largest_lines(unclassified, 3)]

    communication_ns = 0
    calls_by_kernel, calls_by_collective = Counter[str](), Counter[str]()
    for line in lines:
        collective = collective_of(line.name)
        if collective is not None:
            communication_ns += line.total_ns
            calls_by_kernel[line.name] += line.count
            calls_by_collective[collective] += line.count

    unknown = None
    if classified_share is not None and classified_share < LEAST_CLASSIFIED:
        share_text, names = percent(1 - classified_share, 1), ", ".join(unclassified_top)
        unknown = f"{share_text} of the kernel time is in kernels of no known class ({names})"
    elif not calls_by_kernel and ranks != 1:
        unknown = "no kernel of a collective was found; their names may not be known"
    return KernelSums(
        total_ns=total_ns,
        classified_share=classified_share,
        unclassified_top=unclassified_top,
        communication_ns=communication_ns,
        calls_by_kernel=dict(sorted(calls_by_kernel.items())),
        calls=dict(sorted(calls_by_collective.items())) if unknown is None else {},
        unknown=unknown,
    )
