"""Profiles, traces and logs of monitors beside runs, files that could not be read, and runs that failed."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scaleproof.auditor.checks.context import AuditContext, listed, near, of_evidence
from scaleproof.auditor.checks.published_claims import SHARES_CONTRADICT
from scaleproof.auditor.checks.training import UPDATES_SKIPPED
from scaleproof.auditor.read.reported import BROKEN, OperatorTable, ReportedRun
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import FILE_UNREADABLE, Code, Flag
from scaleproof.ground.nsys_stats import KERNELS, KernelSums, kernel_sums, read_stats_output
from scaleproof.ground.number_format import percent

TIMES_OWN = 1.5  # inclusive over own time of a profile


@of_evidence.check(
    Code(
        "inclusive-times-summed",
        "note",
        what="Inclusive times hold the time of nested operators; their sum counts it several times. `note` where "
        "nobody has published the sum.",
        detected="The sum of inclusive device times exceeds that of own times by half; `invalid` where a claim equals "
        "it.",
        seen="GPT-2 on L4: 125 s published, 21.8 s of device time.",
        repair="Add the column of own times.",
    ),
    Code(
        "profiles-of-different-length",
        "suspect",
        what="Sums over profiles of different numbers of steps are not comparable.",
        detected="ProfilerStep counts differ between profiles.",
        seen="GPT-2 on L4: 15 and 10 steps.",
        repair="Divide by the profiled steps.",
    ),
)
def profiles_are_read_right(context: AuditContext) -> Iterator[Flag]:
    """Inclusive times, which count nested operators repeatedly, are not added up; profiles have one length."""
    for table in context.evidence.operator_tables:
        if table.self_s and table.inclusive_s > TIMES_OWN * table.self_s:
            yield _inclusive_times(context, table)
    steps = {table.name: table.steps for table in context.evidence.operator_tables if table.steps}
    if len(set(steps.values())) > 1:
        lengths = Counter(steps.values())
        evidence = listed(f"{plural(lengths[n], 'profile')} of {plural(n, 'step')}" for n in sorted(lengths))
        yield Flag(f"{evidence}; divide each sum by its steps", list(steps), "profiles-of-different-length")


def _inclusive_times(context: AuditContext, table: OperatorTable) -> Flag:
    """The finding on a profile's inclusive times: `invalid`, with the right sum, where a claim is their sum."""
    claims = [
        claim
        for claim in context.claims("total_time")
        if claim.values["of"] in table.name and near(claim.values["value"], table.inclusive_s, 0.02)
    ]
    evidence = (
        f"the inclusive times add up to {table.inclusive_s:,.1f} s, the operators' own to {table.self_s:,.1f} s "
        f"({table.inclusive_s / table.self_s:.1f} times)"
    )
    if not claims:
        return Flag(evidence, [table], "inclusive-times-summed")
    evidence += f"; {claims[0].source} states {claims[0].values['value']:,.1f} s"
    correction = Correction(
        value=round(table.self_s, 1), unit="s", derivation="device time, the sum of the column of own times"
    )
    return Flag(evidence, [table], "inclusive-times-summed", severity="invalid", corrected=correction)


@of_evidence.finds("pollers-overlap", "suspect")
def one_poller(context: AuditContext) -> Iterator[Flag]:
    """Pollers of earlier runs still write into this file and load this run.

    Detected: Samples of one device whose time goes backwards.
    Seen: ZeRO stages and precisions on one H100: the wrapper was killed, its nvidia-smi lived on.
    Repair: Stop the process that polls, not its wrapper; one file for each run.
    """
    for log in context.evidence.gpu_logs:
        # Two, or one in a hundred, may have another cause.
        if log.backwards > max(2, 0.01 * log.samples):
            yield Flag(
                f"{log.samples:,} samples of {plural(log.devices, 'device')}; time goes backwards "
                f"{plural(log.backwards, 'time')}",
                [log],
            )


@of_evidence.check(FILE_UNREADABLE)
def files_were_read(context: AuditContext) -> Iterator[Flag]:
    """Files that could not be read are named."""
    for unread in context.evidence.unread:
        if unread.kind in BROKEN:
            yield Flag(unread.reason, [unread])


@of_evidence.finds("run-failed", "note")
def runs_have_numbers(context: AuditContext) -> Iterator[Flag]:
    """A run without numbers.

    Detected: Its status says so.
    Repair: See its reason; keep it as a row of the table.
    """
    failed = [run for run in context.runs if run.details.get("status") == "failed"]
    if failed:
        yield Flag(f"failed: {listed(run.name for run in failed)}", failed)


FURTHER_REPORTS = "more"  # in the name of a text of nsys stats that is about other tables, or a part of the kernels'
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
            if FURTHER_REPORTS in path.name:
                continue
            try:
                lines = read_stats_output(path).get(KERNELS, [])
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
