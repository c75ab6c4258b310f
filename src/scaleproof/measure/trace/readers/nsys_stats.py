"""Texts of `nsys stats`: tables or CSV, report names of 2022.4 (`gpukernsum`) and of 2025 (`cuda_gpu_kern_sum`).

Numbers may be grouped in any way (the locale's: 27,65,96,75,62,725), names may be cut with an ellipsis and hold commas
and single spaces, and a report without data says so in a line of its own.
"""

import csv
import io
import re
from pathlib import Path
from typing import Any

import pandas as pd

from scaleproof.ground.errors import UserError
from scaleproof.ground.facts.kernel_classes import COMMUNICATION, UNCLASSIFIED, class_of, collective_of
from scaleproof.ground.records.profile_schema import Coverage, Kernel
from scaleproof.measure.trace.breakdown import MARK, TOP
from scaleproof.measure.trace.top_entries import entry, likely_bottleneck

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
COLUMNS = ["percent", "total_ns", "count", "name", "raw"]
KERNELS = "cuda_gpu_kern_sum"
RANGES = "nvtx_sum"
OSRT = "osrt_sum"


def read_text(path: Path) -> dict[str, pd.DataFrame]:
    """Report (by its newer name) -> table with COLUMNS. Raises UserError where the file holds no report."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not a text of nsys stats: not UTF-8 (byte {error.start})") from None
    tables: dict[str, pd.DataFrame] = {}
    report, at = None, 0
    while at < len(lines):
        title = TITLE.match(lines[at])
        if title:
            report = OLD.get(title["report"], title["report"])
        elif "Time (%)" in lines[at] or "Total (MB)" in lines[at]:
            block = _block(lines, at)
            table = (
                _csv_rows(path, block, at)
                if CSV_HEAD.match(lines[at].strip()) and "," in lines[at]
                else _rows(path, block, at)
            )
            name = report or _guess(lines[at])
            tables[name] = pd.concat([tables[name], table]) if name in tables else table
            at += len(block) - 1
            report = None
        at += 1
    if not tables:
        skipped = next((line.strip() for line in lines if "SKIPPED" in line or "no data" in line), None)
        reason = f"every report is empty ({skipped[:160]})" if skipped else "it has no table of nsys stats"
        raise UserError(
            f"{path}: {reason}; make it again: nsys stats --report {KERNELS},{RANGES},{OSRT} REPORT.nsys-rep"
        )
    return tables


def _block(lines: list[str], start: int) -> list[str]:
    end = start
    while end < len(lines) and lines[end].strip():
        end += 1
    return lines[start:end]


def _rows(path: Path, block: list[str], at: int) -> pd.DataFrame:
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
    return pd.DataFrame(rows, columns=COLUMNS)


def _csv_rows(path: Path, block: list[str], at: int) -> pd.DataFrame:
    heads, *rows = csv.reader(io.StringIO("\n".join(block)))
    made = []
    for offset, cells in enumerate(rows, start=1):
        if len(cells) != len(heads):
            raise UserError(
                f"{path}, line {at + offset + 1}: {len(cells)} columns where the header has {len(heads)}; "
                "was it cut off?"
            )
        made.append(_row(path, at + offset, heads, cells, ",".join(cells)))
    return pd.DataFrame(made, columns=COLUMNS)


def _row(path: Path, at: int, heads: list[str], cells: list[str], raw: str) -> list[Any]:
    values = dict(zip((h.strip() for h in heads), (c.strip() for c in cells), strict=True))
    try:
        total = next((_number(values[h]) for h in values if h.startswith("Total Time")), None)
        count = next((_number(values[h]) for h in COUNTS if h in values), None)
        percent = _number(values["Time (%)"]) if "Time (%)" in values else None
    except ValueError as error:
        raise UserError(f"{path}, line {at + 1}: {error}") from None
    name = next((values[h] for h in reversed(values) if h in NAMES), cells[-1])
    return [
        percent,
        None if total is None else int(total),
        None if count is None else int(count),
        name.removeprefix(":"),
        raw,
    ]


def _number(text: str) -> float:
    """A number with any grouping of its digits."""
    return float(re.sub(r"[,\s\u00a0\u202f']", "", text))


def _guess(head: str) -> str:
    """The report of a CSV without a title, by its columns."""
    if "Style" in head:
        return RANGES
    return KERNELS if "Instances" in head else OSRT if "Num Calls" in head else "cuda_gpu_mem_time_sum"


def summarise_text(paths: list[Path], ranks: int | None, steps: int | None) -> dict[str, Any]:
    """What text reports give of a Profile. `ranks`: processes in them; `steps`: the run's optimizer steps."""
    reports = {path: read_text(path) for path in dict.fromkeys(paths)}
    tables = [r[KERNELS] for r in reports.values() if KERNELS in r and len(r[KERNELS])]
    fields: dict[str, Any] = {"tool": "nsys stats", "ranks_from": "nothing: a text names no processes"}
    per_file = {
        p.name: {"nvtx_top5": _top5("nvtx", r.get(RANGES)), "osrt_top5": _top5("osrt", r.get(OSRT))}
        for p, r in reports.items()
    }
    ranges, osrt = ([r[kind] for r in reports.values() if kind in r] for kind in (RANGES, OSRT))
    nvtx = _top5("nvtx", pd.concat(ranges) if ranges else None)
    fields |= {
        "nvtx_top5": nvtx,
        "osrt_top5": _top5("osrt", pd.concat(osrt) if osrt else None),
        "likely_bottleneck": likely_bottleneck(nvtx),
        "per_file": per_file,
        "world_size": ranks,
        "unknown": {"exposed": "a text report has sums alone; overlap needs single events (the .sqlite export)"},
    }
    if not tables:
        fields["unknown"]["communication"] = f"no report {KERNELS}: ranges of the host say nothing about communication"
        return fields
    return fields | _kernels(pd.concat(tables, ignore_index=True), ranks, steps, fields["unknown"])


def _kernels(table: pd.DataFrame, ranks: int | None, steps: int | None, unknown: dict[str, str]) -> dict[str, Any]:
    kinds = table["name"].map(class_of)
    total = int(table["total_ns"].sum())
    lost = table[kinds == UNCLASSIFIED].nlargest(3, "total_ns")
    share = 1 - int(table.loc[kinds == UNCLASSIFIED, "total_ns"].sum()) / total if total else None
    talk = table[kinds == COMMUNICATION].assign(collective=lambda t: t["name"].map(collective_of))
    if share is not None and share < MARK:
        unknown["communication"] = (
            f"{1 - share:.1%} of the kernel time is in kernels of no known class ({', '.join(lost['name'])})"
        )
    elif talk.empty and (ranks or 2) > 1:
        unknown["communication"] = "no kernel of a collective was found; their names may not be known"
    known = "communication" not in unknown
    calls = talk.groupby("collective")["count"].sum() if known else pd.Series(dtype="int64")
    per = ranks * steps if ranks and steps else None
    gathers = int(calls.get("all_gather", 0))
    top = table.nlargest(TOP, "total_ns")
    return {
        "device": "gpu",
        "steps": steps,
        "coverage": Coverage(
            classified_share=share,
            mark=MARK,
            unclassified_top=list(lost["name"]),
            dropped_events=0,
            diagnostics=[],
            missing_ranks=[],
        ),
        "kernel_time_ms": total / 1e6,
        "communication_share": int(talk["total_ns"].sum()) / total if known and total else None,
        "calls_by_kernel": {str(n): int(c) for n, c in talk.groupby("name")["count"].sum().items()},
        "calls_per_step": {str(n): int(c) / per for n, c in calls.items()} if per else {},
        "executed_steps": gathers / ranks if gathers and ranks else None,
        "kernels_top": [
            Kernel(name=name, kind=class_of(name), calls=int(count), total_ms=int(ns) / 1e6, share=int(ns) / total)
            for name, count, ns in top[["name", "count", "total_ns"]].itertuples(index=False, name=None)
        ],
    }


def _top5(kind: str, table: pd.DataFrame | None) -> list[dict[str, Any]]:
    """The five largest lines of a report, with the line itself."""
    if table is None:
        return []
    rows = table.nlargest(5, "total_ns").to_dict("records")
    return [entry(kind, r["name"], r["percent"], int(r["total_ns"]), r["raw"]) for r in rows]
