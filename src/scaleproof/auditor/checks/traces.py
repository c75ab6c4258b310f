"""Traces beside other people's runs: how much of the kernel time is communication, how many updates were made."""

import json
from collections.abc import Iterator
from pathlib import Path

from scaleproof.auditor.checks.context import AuditContext, of_evidence
from scaleproof.auditor.checks.execution import UPDATES_SKIPPED
from scaleproof.auditor.checks.published_claims import SHARES_CONTRADICT
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.ground.errors import UserError
from scaleproof.ground.findings.registry import Code, Flag
from scaleproof.ground.nsys_stats import KERNELS, KernelSums, kernel_sums, read_text
from scaleproof.ground.number_format import percent

BOTTLENECK = 0.2  # share of all-reduce above which the summary's own program calls it one
NEARLY_ALL = 0.98  # updates of steps that an all-gather for each update would give


@of_evidence.check(
    Code(
        "communication-in-trace",
        "note",
        what="How much of the time of all GPU kernels is in collectives, from the trace beside the run. Shares of "
        "nested ranges on the host say something else.",
        detected="The kernel table of a text that nsys stats wrote, in the folder of a run.",
        seen="GPT-2 on two nodes of V100: 85.6 % before and 87.9 % after a change that was published as 40.8 to 16.8 "
        "%.",
        repair="Quote this share, or seconds per step; keep throughput from a run without the profiler.",
    ),
    SHARES_CONTRADICT,
    UPDATES_SKIPPED,
)
def traces_agree(context: AuditContext) -> Iterator[Flag]:
    """The kernel table of a trace agrees with the summary and the metrics of the one run that it lies beside."""
    for folder in sorted(set(context.evidence.traced_folders)):
        runs = [run for run in context.runs if run.details.get("folder") in (folder, str(Path(folder).parent))]
        if len(runs) != 1:
            continue
        for path in sorted(Path(folder).glob("nsys_stats*.txt")):
            if "more" in path.name:
                continue
            try:
                lines = read_text(path).get(KERNELS, [])
            except UserError:
                continue
            yield from _trace(runs[0], kernel_sums(lines), Path(folder))


def _trace(run: ReportedRun, kernels: KernelSums, folder: Path) -> Iterator[Flag]:
    """Findings on the kernels of a run's trace; `folder` is where the trace and its summary lie."""
    share = kernels.communication_share
    if not share:
        return
    evidence = (
        f"collectives are {percent(share, 1)} of the time of all GPU kernels ({kernels.communication_ns / 1e9:,.1f} of "
        f"{kernels.total_ns / 1e9:,.1f} s in the trace)"
    )
    yield Flag(evidence, [run], "communication-in-trace")
    if _calls_it_none(folder) and share > BOTTLENECK:
        yield Flag(
            f"its profile_summary.json says that all-reduce is no bottleneck; {evidence}", [run], SHARES_CONTRADICT.name
        )
    yield from _updates(run, kernels)


def _calls_it_none(folder: Path) -> bool:
    """Whether the folder has a profile_summary.json that says that all-reduce is no bottleneck."""
    try:
        summary = json.loads((folder / "profile_summary.json").read_text())
        return summary["likely_bottleneck"]["allreduce_gradients_over_20pct"] is False
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _updates(run: ReportedRun, kernels: KernelSums) -> Iterator[Flag]:
    """A finding where a trace shows fewer updates than the run states.

    With ZeRO-1 and ZeRO-2 each update gathers the parameters once on each rank; a skipped one does not. How many ranks
    were traced is unknown: it is the only number that makes nearly all updates of the stated steps.
    """
    stated = sum(span.optimizer_steps or 0 for span in run.timed_spans)
    gathers = sum(count for name, count in kernels.calls_by_kernel.items() if "AllGather" in name)
    if run.zero_stage not in (1, 2) or not stated or not run.world_size:
        return
    sizes = range(1, run.world_size + 1)
    traced = [n for n in sizes if NEARLY_ALL * stated <= gathers / n <= stated]
    traced = traced or [n for n in sizes if 0.9 * stated <= gathers / n <= stated]
    if len(traced) == 1 and gathers % traced[0] == 0 and gathers // traced[0] < stated:
        updates = gathers // traced[0]
        gathered = f"{updates:,} all-gathers on each of {traced[0]} traced ranks, one for each update"
        yield Flag(f"{gathered}; {stated:,} steps are stated", [run], UPDATES_SKIPPED.name)
