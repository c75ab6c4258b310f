"""Do the traces hold what they must, and what did the profiler do to what it looked at?"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import fmean, geometric_mean

from scaleproof.ground.campaign.strategies import FSDP
from scaleproof.ground.findings.registry import Code, Flag, Register
from scaleproof.ground.number_format import fixed, integer, percent, significant
from scaleproof.ground.records.profile_schema import Profile
from scaleproof.ground.records.run import MeasuredRun

NEAR = 0.05  # ranges and the trainer's clock may differ by this share of the step; a range takes some 10 us
SLOWED = 1.1  # a step under the profiler that takes so many times as long is worth knowing
DISTORTED = 1.5  # and from here on it is not the same program any more


@dataclass(frozen=True)
class TracedCell:
    """A profile, and the mean step times in ms of the timed runs of the same configuration."""

    profile: Profile
    timed_ms: tuple[float, ...] = ()

    @property
    def cell(self) -> str:
        """The name of the traced cell; "unknown" where the profile does not say it."""
        return self.profile.cell or "unknown"


of_trace: Register[TracedCell] = Register(
    lambda traced: [f"{traced.cell}/trace"], lambda traced: [traced.cell], concerns="trace"
)


def traced_cells(profiles: Iterable[Profile], runs: list[MeasuredRun]) -> list[TracedCell]:
    """Return each profile with the step times of the timed runs of the same configuration."""
    return [TracedCell(profile, tuple(mean_steps_ms(profile, runs))) for profile in profiles]


def mean_steps_ms(profile: Profile, runs: list[MeasuredRun]) -> list[float]:
    """Return the mean step time in ms of each timed run that was configured as the traced run."""
    windows = [run.metrics.window for run in runs if run.metrics.fingerprint == profile.fingerprint]
    return [1e3 * window.wall_time_s / window.step_time_n for window in windows]


@of_trace.finds("trace-missing", "note")
def trace_was_taken(traced: TracedCell) -> Iterator[Flag]:
    """There is no trace of a cell that should have one. Times are not affected.

    Detected: The capture's own record.
    Seen: Profilers that the machine does not allow.
    Repair: capture.log says why; `scaleproof retry` removes the failed trace.
    """
    if traced.profile.status != "ok":
        yield Flag(f"there is no trace: {traced.profile.reason}")


@of_trace.check(
    Code(
        "trace-not-understood",
        "suspect",
        what="Too much device time is in kernels of no known class: they may communicate, so communication is unknown.",
        detected="Share of the device time in classified kernels, against the coverage mark of 95 %.",
        seen="A renamed NCCL kernel made the overlap of a published analysis 0.",
        repair="Add the names to ground/facts/kernel_classes.py.",
    ),
    Code(
        "trace-incomplete",
        "suspect",
        what="The trace lost events, or ranks are not in it.",
        detected="Events that the tool says it has dropped; ranks of the run against those of the trace (a `note`).",
        seen="Traces of one node of two.",
        repair="Trace fewer steps (trace.steps); trace all nodes (trace.nodes: all).",
    ),
)
def trace_is_understood(traced: TracedCell) -> Iterator[Flag]:
    """Flag a trace with much device time in kernels of no known class, with lost events, or without some ranks."""
    profile = traced.profile
    coverage = profile.coverage
    if profile.status != "ok" or coverage is None:
        return

    if coverage.classified_share is not None and coverage.classified_share < coverage.mark:
        unknown = ", ".join(coverage.unclassified_top)
        evidence = f"{percent(1 - coverage.classified_share, 1)} of the device time has no known class: {unknown}"
        yield Flag(evidence, code="trace-not-understood")

    if coverage.dropped_events:
        evidence = f"{profile.tool} lost {integer(coverage.dropped_events)} events: {'; '.join(coverage.diagnostics)}"
        yield Flag(evidence, code="trace-incomplete", advice="Trace fewer steps (trace.steps).")

    if coverage.missing_ranks:
        yield Flag(
            f"ranks {', '.join(map(str, coverage.missing_ranks))} are not in the trace",
            code="trace-incomplete",
            severity="note",
            advice="Who waits for whom is unknown without them; trace again, with trace.nodes: all where nodes are "
            "missing.",
        )


@of_trace.finds("trace-collectives-differ", "suspect")
def collectives_are_in_the_trace(traced: TracedCell) -> Iterator[Flag]:
    """A traced step has more or fewer collectives than a probed step of the same run: communication is missing or
    counted twice.

    Detected: Calls of collectives in the trace against those that the dispatcher counted.
    Seen: Kernels with names that nobody looked for.
    Repair: Do not trust the communication times of this trace.
    """
    profile = traced.profile
    if profile.status != "ok" or not profile.expected_calls or not profile.steps:
        return
    if "communication" in profile.unknown:  # the trace does not tell which kernels communicate
        return
    if profile.world_size == 1 and profile.device == "gpu":
        return  # a collective of one rank in place launches nothing (NCCL, ncclLaunchOneRank); the probe counts it

    # The probe does not see what DTensor reduces below the dispatcher: the norm of FSDP2's sharded gradients, and in
    # fp16 also whether a gradient overflowed.
    unseen_calls = 0
    if profile.strategy in FSDP:
        unseen_calls = 2 if profile.precision == "fp16" else 1
    probed_calls = sum(profile.expected_calls.values())
    traced_calls = sum(collective.calls for collective in profile.collectives.values())
    # Calls in the trace are means over steps and ranks, which may be off by less than half a call.
    if not probed_calls - 0.5 < traced_calls < probed_calls + unseen_calls + 0.5:
        kinds = ", ".join(f"{count} {name}" for name, count in profile.expected_calls.items())
        yield Flag(
            f"{significant(traced_calls, 6)} collectives a step and rank are in the trace, {probed_calls} were counted "
            f"in a probe ({kinds})"
        )


@of_trace.finds("trace-steps-differ", "suspect")
def trace_has_the_steps(traced: TracedCell) -> Iterator[Flag]:
    """The steps in the trace are not those that the trainer timed.

    Detected: Number and length of the `step` ranges against the trainer's clock, 5 %.
    Seen: Captures that end too early.
    Repair: Trace again; a longer warm-up helps where the profiler starts late.
    """
    profile = traced.profile
    if profile.status != "ok" or not profile.per_step or not profile.step_time_ms:
        return
    slowest_ms: dict[int, float] = {}  # step -> time of its slowest rank
    for row in profile.per_step:
        slowest_ms[row.step] = max(slowest_ms.get(row.step, 0.0), row.wall_ms)
    traced_count, timed_count = len(slowest_ms), len(profile.step_time_ms)
    traced_ms, timed_ms = sum(slowest_ms.values()), sum(profile.step_time_ms)
    if traced_count != timed_count or abs(traced_ms - timed_ms) > NEAR * timed_ms:
        yield Flag(
            f"{traced_count} steps of {fixed(traced_ms, 1)} ms are in the trace, the trainer timed {timed_count} of "
            f"{fixed(timed_ms, 1)} ms"
        )


@of_trace.finds("profiler-slows", "suspect", slowed=SLOWED, distorted=DISTORTED)
def profiler_was_light(traced: TracedCell) -> Iterator[Flag]:
    """A profiler made the traced steps longer, so that their milliseconds are not those of a timed step.

    Detected: Step time under the profiler over that of the timed runs of the cell: a `note` above {slowed}, `suspect`
    above {distorted}.
    Seen: One published figure of 19,028 tokens/s was taken with a profiler and NCCL's log on.
    Repair: Trust shares of the step before its times; trace fewer steps.
    """
    profile = traced.profile
    if profile.status != "ok" or not traced.timed_ms or not profile.step_time_ms:
        return
    ratio = fmean(profile.step_time_ms) / geometric_mean(traced.timed_ms)
    if ratio > SLOWED:
        yield Flag(
            f"a step takes {fixed(ratio, 2)} times as long under {profile.tool}",
            severity="suspect" if ratio > DISTORTED else "note",
        )
