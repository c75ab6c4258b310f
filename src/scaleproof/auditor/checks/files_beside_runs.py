"""Profiles, traces and logs of monitors beside runs, files that could not be read, and runs that failed."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scaleproof.auditor.checks.context import AuditContext, listed, near, of_evidence
from scaleproof.auditor.checks.published_claims import SHARES_CONTRADICT
from scaleproof.auditor.checks.training import UPDATES_SKIPPED
from scaleproof.auditor.read.reported import KINDS_OF_LOST_RESULTS, OperatorTable, ReportedRun
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.findings.finding import Correction
from scaleproof.ground.findings.registry import FILE_UNREADABLE, Code, Flag
from scaleproof.ground.nsys_stats import KERNELS, KernelSums, read_stats_output, sum_kernels
from scaleproof.ground.number_format import percent

INCLUSIVE_TO_OWN_RATIO = 1.5  # inclusive over own time of a profile


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
    """Flag sums of inclusive times, which count nested operators repeatedly, and profiles of several lengths."""
    for table in context.evidence.operator_tables:
        if table.self_s and table.inclusive_s > INCLUSIVE_TO_OWN_RATIO * table.self_s:
            yield _inclusive_times_summed(context, table)
    steps = {table.name: table.steps for table in context.evidence.operator_tables if table.steps}
    if len(set(steps.values())) > 1:
        lengths = Counter(steps.values())
        counts = sorted(lengths.items())
        evidence = listed(f"{plural(profiles, 'profile')} of {plural(length, 'step')}" for length, profiles in counts)
        yield Flag(f"{evidence}; divide each sum by its steps", list(steps), "profiles-of-different-length")


def _inclusive_times_summed(context: AuditContext, table: OperatorTable) -> Flag:
    """Flag a profile's inclusive times, 125 s beside 21.8 s of own times; `invalid` where somebody claims their sum."""
    of_table = (claim for claim in context.claims("total_time") if claim.values["of"] in table.name)
    claims = [claim for claim in of_table if near(claim.values["value"], table.inclusive_s, 0.02)]
    evidence = f"the inclusive times add up to {table.inclusive_s:,.1f} s, the operators' own to {table.self_s:,.1f} s "
    evidence += f"({table.inclusive_s / table.self_s:.1f} times)"
    if not claims:
        return Flag(evidence, [table], "inclusive-times-summed")
    evidence += f"; {claims[0].source} states {claims[0].values['value']:,.1f} s"
    derivation = "device time, the sum of the column of own times"
    correction = Correction(value=round(table.self_s, 1), unit="s", derivation=derivation)
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
            samples = f"{log.samples:,} samples of {plural(log.devices, 'device')}"
            yield Flag(f"{samples}; time goes backwards {plural(log.backwards, 'time')}", [log])


@of_evidence.check(FILE_UNREADABLE)
def files_were_read(context: AuditContext) -> Iterator[Flag]:
    """Flag files that could not be read."""
    for unread in context.evidence.unread:
        if unread.kind in KINDS_OF_LOST_RESULTS:
            yield Flag(unread.reason, [unread])


@of_evidence.finds("run-failed", "note")
def runs_have_numbers(context: AuditContext) -> Iterator[Flag]:
    """A run without numbers.

    Detected: Its status says so.
    Repair: See its reason; keep it as a row of the table.
    """
    if failed := [run for run in context.runs if run.details.get("status") == "failed"]:
        yield Flag(f"failed: {listed(run.name for run in failed)}", failed)


NAME_OF_PARTIAL_STATS = "more"  # in the name of a text of other tables of nsys stats, or of a part of the kernels'
BOTTLENECK_SHARE = 0.2  # share of all-reduce above which the summary's own program calls it one
SHARES_OF_UPDATES = (0.98, 0.9)  # least updates over steps; the second, where the first fits no number of ranks


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
    """Flag what the kernel table of each trace says, and what it contradicts of the summary and run beside it."""
    for folder in sorted(set(context.evidence.traced_folders)):
        runs = [run for run in context.runs if run.details.get("folder") in (folder, str(Path(folder).parent))]
        if len(runs) != 1:
            continue  # nobody knows whose trace it is
        for path in sorted(Path(folder).glob("nsys_stats*.txt")):
            if NAME_OF_PARTIAL_STATS not in path.name:
                yield from _flags_of_trace(runs[0], path)


def _flags_of_trace(run: ReportedRun, path: Path) -> Iterator[Flag]:
    """Yield the share of collectives in a trace as a note; flag a summary that denies it, and missing updates."""
    try:
        lines = read_stats_output(path).get(KERNELS, [])
    except UserError:
        return  # the file is no output of nsys stats
    kernels = sum_kernels(lines)
    share = kernels.communication_share
    if not share:
        return

    seconds = f"{kernels.communication_ns / 1e9:,.1f} of {kernels.total_ns / 1e9:,.1f} s in the trace"
    evidence = f"collectives are {percent(share, 1)} of the time of all GPU kernels ({seconds})"
    yield Flag(evidence, [run], "communication-in-trace")
    if share > BOTTLENECK_SHARE and _denies_bottleneck(path.parent):
        denial = "its profile_summary.json says that all-reduce is no bottleneck"
        yield Flag(f"{denial}; {evidence}", [run], SHARES_CONTRADICT.name)
    yield from _missing_updates(run, kernels)


def _denies_bottleneck(folder: Path) -> bool:
    """Whether the folder has a profile_summary.json that says that all-reduce is no bottleneck."""
    try:
        summary = json.loads((folder / "profile_summary.json").read_text())
        return summary["likely_bottleneck"]["allreduce_gradients_over_20pct"] is False
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _missing_updates(run: ReportedRun, kernels: KernelSums) -> Iterator[Flag]:
    """Flag a trace with fewer updates than the run states: 196 all-gathers on 2 ranks are 98 updates of 100 steps.

    With ZeRO-1 and ZeRO-2 each update gathers the parameters once on each rank; a skipped one does not. The file does
    not say how many ranks were traced: it is taken to be the one number for which nearly all updates were made.
    """
    steps = sum(span.optimizer_steps or 0 for span in run.timed_spans)
    gathers = sum(count for name, count in kernels.calls_by_kernel.items() if "AllGather" in name)
    if run.zero_stage not in (1, 2) or not steps or not run.world_size:
        return

    # Numbers of traced ranks with about as many all-gathers a rank as steps; the stricter share is tried first.
    for least_share in SHARES_OF_UPDATES:
        fits = [ranks for ranks in range(1, run.world_size + 1) if least_share * steps <= gathers / ranks <= steps]
        if fits:
            break
    if len(fits) != 1:
        return  # nobody knows how many ranks were traced
    updates, rest = divmod(gathers, fits[0])
    if rest == 0 and updates < steps:
        gathered = f"{updates:,} all-gathers on each of {fits[0]} traced ranks, one for each update"
        yield Flag(f"{gathered}; {steps:,} steps are stated", [run], UPDATES_SKIPPED.name)
