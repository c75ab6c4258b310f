"""What texts of `nsys stats` give of a profile."""

from pathlib import Path
from typing import Any

from scaleproof.ground.facts.kernel_classes import LEAST_CLASSIFIED, class_of
from scaleproof.ground.nsys_stats import (
    KERNELS,
    OSRT,
    RANGES,
    ReportLine,
    largest_lines,
    read_stats_output,
    sum_kernels,
)
from scaleproof.ground.records.profile_schema import Kernel, TraceCoverage
from scaleproof.measure.trace.breakdown import TOP
from scaleproof.measure.trace.ranges import Entry, find_bottleneck, summary_entry


def summarise_text(paths: list[Path], ranks: int | None, steps: int | None) -> dict[str, Any]:
    """Return the fields of a Profile that text reports give. `ranks`: how many processes; `steps`: steps of each."""
    reports = {path: read_stats_output(path) for path in dict.fromkeys(paths)}
    ranges, osrt, kernels = (
        [line for report in reports.values() for line in report.get(kind, [])] for kind in (RANGES, OSRT, KERNELS)
    )
    nvtx = _largest_lines("nvtx", ranges)
    fields: dict[str, Any] = {
        "tool": "nsys stats",
        "ranks_from": "nothing: a text names no processes",
        "nvtx_top5": nvtx,
        "osrt_top5": _largest_lines("osrt", osrt),
        "likely_bottleneck": find_bottleneck(nvtx),
        "per_file": {
            path.name: {
                "nvtx_top5": _largest_lines("nvtx", report.get(RANGES, [])),
                "osrt_top5": _largest_lines("osrt", report.get(OSRT, [])),
            }
            for path, report in reports.items()
        },
        "world_size": ranks,
        "unknown": {"exposed": "a text report has sums alone; overlap needs single events (the .sqlite export)"},
    }
    if not kernels:
        fields["unknown"]["communication"] = f"no report {KERNELS}: ranges of the host say nothing about communication"
        return fields
    return fields | _kernel_fields(kernels, ranks, steps, fields["unknown"])


def _kernel_fields(
    lines: list[ReportLine], ranks: int | None, steps: int | None, unknown: dict[str, str]
) -> dict[str, Any]:
    """Return a Profile's fields from kernel reports; `unknown` gets the reason where communication is not known."""
    sums = sum_kernels(lines, ranks)
    if sums.unknown:
        unknown["communication"] = sums.unknown
    divisor = ranks * steps if ranks and steps else None
    gathers = sums.calls.get("all_gather", 0)  # taken for one a step

    return {
        "device": "gpu",
        "steps": steps,
        "coverage": TraceCoverage(
            classified_share=sums.classified_share,
            mark=LEAST_CLASSIFIED,
            unclassified_top=sums.unclassified_top,
            dropped_events=0,
            diagnostics=[],
            missing_ranks=[],
        ),
        "kernel_time_ms": sums.total_ns / 1e6,
        "communication_share": sums.communication_share,
        "calls_by_kernel": sums.calls_by_kernel,
        "calls_per_step": {name: count / divisor for name, count in sums.calls.items()} if divisor else {},
        "executed_steps": gathers / ranks if gathers and ranks else None,
        "kernels_top": [
            Kernel(
                name=line.name,
                kind=class_of(line.name),
                calls=line.count,
                total_ms=line.total_ns / 1e6,
                share=line.total_ns / sums.total_ns,
            )
            for line in largest_lines(lines, TOP)
        ],
    }


def _largest_lines(kind: str, lines: list[ReportLine]) -> list[Entry]:
    """Return the five largest lines of a report as entries of a summary of `kind`."""
    return [summary_entry(kind, line.name, line.percent, line.total_ns, line.raw) for line in largest_lines(lines, 5)]
