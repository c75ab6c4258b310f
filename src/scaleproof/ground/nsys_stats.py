"""Texts of `nsys stats`: tables or CSV, report names of 2022.4 (`gpukernsum`) and of 2025 (`cuda_gpu_kern_sum`).

Numbers may be grouped in any way (the locale's: 27,65,96,75,62,725), names may be cut with an ellipsis and hold commas
and single spaces, and a report without data says so in a line of its own.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scaleproof.ground.errors import UserError
from scaleproof.ground.facts.kernel_classes import LEAST_CLASSIFIED, UNCLASSIFIED, class_of, collective_of
from scaleproof.ground.number_format import percent

TITLE = re.compile(r"^ \*\* (?P<title>.+?) \((?P<report>\w+)\):\s*$")
CSV_HEAD = re.compile(r"^(?:\"?Time \(%\)|\"?Total \(MB\))", re.IGNORECASE)
# Report of 2022.4 -> its name since 2023.
OLD = {
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
    classified_share: float | None
    unclassified_top: list[str]
    communication_ns: int
    calls_by_kernel: dict[str, int]  # of collectives
    calls: dict[str, int]  # by collective
    unknown: str | None

    @property
    def communication_share(self) -> float | None:
        """Of the time of all kernels; None where it is unknown."""
        return self.communication_ns / self.total_ns if self.total_ns and self.unknown is None else None


def read_text(path: Path) -> dict[str, list[ReportLine]]:
    """Report (by its newer name) -> its lines. Raises UserError where the file holds no report."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a text of nsys stats: not UTF-8 (byte {error.start})") from None
    reports: dict[str, list[ReportLine]] = {}
    report, at = None, 0
    while at < len(lines):
        title = TITLE.match(lines[at])
        if title:
            report = OLD.get(title["report"], title["report"])
        elif "Time (%)" in lines[at] or "Total (MB)" in lines[at]:
            block = _block(lines, at)
            is_csv = CSV_HEAD.match(lines[at].strip()) and "," in lines[at]
            rows = _csv_rows(path, block, at) if is_csv else _rows(path, block, at)
            reports.setdefault(report or _guess(lines[at]), []).extend(rows)
            at += len(block) - 1
            report = None
        at += 1
    if not reports:
        skipped = next((line.strip() for line in lines if "SKIPPED" in line or "no data" in line), None)
        reason = f"every report is empty ({skipped[:160]})" if skipped else "it has no table of nsys stats"
        raise UserError(
            f"{path}: {reason}; make it again: nsys stats --report {KERNELS},{RANGES},{OSRT} REPORT.nsys-rep"
        )
    return reports


def _block(lines: list[str], start: int) -> list[str]:
    end = start
    while end < len(lines) and lines[end].strip():
        end += 1
    return lines[start:end]


def _rows(path: Path, block: list[str], at: int) -> list[ReportLine]:
    """A table in columns, which the dashes measure: cells may be empty or hold several spaces (GridXYZ of 2022.4)."""
    dashes = block[1] if len(block) > 1 and set(block[1].strip()) == {"-", " "} else ""
    places = [match.span() for match in re.finditer("-+", dashes)]
    if not places:
        raise UserError(
            f"{path}, line {at + 2}: a line of dashes is expected under the header; was the text cut off or changed?"
        )
    ends = [end for _, end in places[:-1]] + [None]  # the name goes to the end of its line

    def cells(line: str) -> list[str]:
        return [line[start:end].strip() for (start, _), end in zip(places, ends, strict=True)]

    rows = []
    for offset, line in enumerate(block[2:], start=2):
        if len(line) <= places[-1][0]:
            raise UserError(
                f"{path}, line {at + offset + 1}: the line ends before its last column; was the text cut off?"
            )
        rows.append(_row(path, at + offset, cells(block[0]), cells(line), line))
    return rows


def _csv_rows(path: Path, block: list[str], at: int) -> list[ReportLine]:
    heads, *rows = csv.reader(io.StringIO("\n".join(block)))
    made = []
    for offset, cells in enumerate(rows, start=1):
        if len(cells) != len(heads):
            raise UserError(
                f"{path}, line {at + offset + 1}: {len(cells)} columns where the header has {len(heads)}; "
                "was it cut off?"
            )
        made.append(_row(path, at + offset, heads, cells, ",".join(cells)))
    return made


def _row(path: Path, at: int, heads: list[str], cells: list[str], raw: str) -> ReportLine:
    values = dict(zip((h.strip() for h in heads), (c.strip() for c in cells), strict=True))
    try:
        total = next((_number(values[h]) for h in values if h.startswith("Total Time")), 0)
        count = next((_number(values[h]) for h in COUNTS if h in values), 0)
        percent = _number(values["Time (%)"]) if "Time (%)" in values else None
    except ValueError as error:
        raise UserError(f"{path}, line {at + 1}: {error}") from None
    name = next((values[h] for h in reversed(values) if h in NAMES), cells[-1])
    return ReportLine(name.removeprefix(":"), int(count), int(total), percent, raw)


def _number(text: str) -> float:
    """A number with any grouping of its digits."""
    return float(re.sub(r"[,\s\u00a0\u202f']", "", text))


def _guess(head: str) -> str:
    """The report of a CSV without a title, by its columns."""
    if "Style" in head:
        return RANGES
    return KERNELS if "Instances" in head else OSRT if "Num Calls" in head else "cuda_gpu_mem_time_sum"


def largest(lines: Iterable[ReportLine], number: int) -> list[ReportLine]:
    """The lines that took most of the time, the first of equal ones first."""
    return sorted(lines, key=lambda line: -line.total_ns)[:number]


def kernel_sums(lines: list[ReportLine], ranks: int | None = None) -> KernelSums:
    """What the lines of one or more reports of kernels add up to."""
    total = sum(line.total_ns for line in lines)
    unclassified = [line for line in lines if class_of(line.name) == UNCLASSIFIED]
    share = 1 - sum(line.total_ns for line in unclassified) / total if total else None
    top = [line.name for line in largest(unclassified, 3)]
    of_collectives = [(line, collective) for line in lines if (collective := collective_of(line.name))]
    unknown = None
    if share is not None and share < LEAST_CLASSIFIED:
        unknown = f"{percent(1 - share, 1)} of the kernel time is in kernels of no known class ({', '.join(top)})"
    elif not of_collectives and (ranks or 2) > 1:
        unknown = "no kernel of a collective was found; their names may not be known"
    by_kernel, by_collective = Counter[str](), Counter[str]()
    for line, collective in of_collectives:
        by_kernel[line.name] += line.count
        by_collective[collective] += line.count
    return KernelSums(
        total,
        share,
        top,
        sum(line.total_ns for line, _ in of_collectives),
        dict(sorted(by_kernel.items())),
        dict(sorted(by_collective.items())) if unknown is None else {},
        unknown,
    )
