"""Do the traces hold what they must, and what did the profiler do to what it looked at?"""

from statistics import fmean, geometric_mean

from scalebench.audit.finding import Finding, Severity
from scalebench.record.run import Run
from scalebench.trace.profile_schema import Profile

NEAR = 0.05  # of the step: what ranges and the trainer's clock may differ by
SLOWED, TWISTED = (
    1.1,
    1.5,
)  # step time under the profiler over that without: worth knowing; not the same program any more
CHECKS = (
    "trace_was_taken",
    "trace_is_understood",
    "collectives_are_in_the_trace",
    "trace_has_the_steps",
    "profiler_was_light",
)


def audit_traces(profiles: list[Profile], runs: list[Run]) -> list[Finding]:
    """All findings about the traces of a campaign."""
    found = []
    for profile in profiles:
        if profile.status != "ok":
            found.append(
                _about(profile, "trace-missing", "note", f"there is no trace: {profile.reason}", "See capture.log.")
            )
            continue
        found += [*trace_is_understood(profile), *collectives_are_in_the_trace(profile), *trace_has_the_steps(profile)]
        found += profiler_was_light(profile, runs)
    return found


def timed(profile: Profile, runs: list[Run]) -> list[float]:
    """Mean step times in ms of the timed runs of the traced cell, configured as it was."""
    same = [r.metrics for r in runs if r.ok and r.metrics.fingerprint == profile.fingerprint]
    return [1e3 * m.window.wall_time_s / m.window.step_time_n for m in same]


def trace_is_understood(profile: Profile) -> list[Finding]:
    """Kernels are of known classes, no events are lost, all ranks are there."""
    coverage, found = profile.coverage, []
    if coverage.classified_share is not None and coverage.classified_share < coverage.mark:
        evidence = f"{1 - coverage.classified_share:.1%} of the device time has no known class: {', '.join(coverage.unclassified_top)}"
        advice = "Communication is unknown here. Add the names to trace/kernel_classes.py."
        found.append(_about(profile, "trace-not-understood", "suspect", evidence, advice))
    if coverage.dropped_events:
        evidence = f"{profile.tool} lost {coverage.dropped_events:,} events: {'; '.join(coverage.diagnostics)}"
        found.append(_about(profile, "trace-incomplete", "suspect", evidence, "Trace fewer steps (trace.steps)."))
    if coverage.missing_ranks:
        ranks = ", ".join(map(str, coverage.missing_ranks))
        advice = (
            "Who waits for whom is unknown without them; trace again, with trace.nodes: all where nodes are missing."
        )
        found.append(_about(profile, "trace-incomplete", "note", f"ranks {ranks} are not in the trace", advice))
    return found


def collectives_are_in_the_trace(profile: Profile) -> list[Finding]:
    """As many collectives in a traced step as the dispatcher counted in a probed one of the same run."""
    if not profile.expected_calls or "communication" in profile.unknown or not profile.steps:
        return []
    if profile.world_size == 1 and profile.device == "gpu":
        return []  # a collective of one rank in place launches nothing (NCCL, ncclLaunchOneRank), but the probe counts it
    expected = sum(profile.expected_calls.values())
    seen = sum(c.calls for c in profile.collectives.values())
    # DTensor reduces the norm of FSDP2's sharded gradients, and with a loss scale whether one overflowed, below the
    # dispatcher and so unseen by the probe.
    unseen = (2 if profile.precision == "fp16" else 1) if profile.strategy == "fsdp" else 0
    if expected - 0.5 < seen < expected + unseen + 0.5:
        return []
    evidence = (
        f"{seen:g} collectives a step and rank are in the trace, {expected} were counted in a probe "
        f"({', '.join(f'{n} {name}' for name, n in profile.expected_calls.items())})"
    )
    advice = "Some communication is missing or counted twice: its times are not to be trusted."
    return [_about(profile, "trace-collectives-differ", "suspect", evidence, advice)]


def trace_has_the_steps(profile: Profile) -> list[Finding]:
    """The ranges of the traced steps take as long as the trainer's own clock says."""
    if not profile.per_step or not profile.step_time_ms:
        return []
    longest: dict[int, float] = {}
    for row in profile.per_step:
        longest[row.step] = max(longest.get(row.step, 0.0), row.wall_ms)
    seen, clock = sum(longest.values()), sum(profile.step_time_ms)
    if len(longest) == len(profile.step_time_ms) and abs(seen - clock) <= NEAR * clock:
        return []
    evidence = f"{len(longest)} steps of {seen:.1f} ms are in the trace, the trainer timed {len(profile.step_time_ms)} of {clock:.1f} ms"
    return [
        _about(profile, "trace-steps-differ", "suspect", evidence, "The trace does not hold the steps that were made.")
    ]


def profiler_was_light(profile: Profile, runs: list[Run]) -> list[Finding]:
    """Step time under the profiler against that of the timed runs of the cell."""
    others = timed(profile, runs)
    if not others or not profile.step_time_ms:
        return []
    ratio = fmean(profile.step_time_ms) / geometric_mean(others)
    if ratio <= SLOWED:
        return []
    severity: Severity = "suspect" if ratio > TWISTED else "note"
    advice = "Milliseconds of the trace are stretched by so much; believe its shares before its times."
    return [
        _about(
            profile, "profiler-slows", severity, f"a step takes {ratio:.2f} times as long under {profile.tool}", advice
        )
    ]


def _about(profile: Profile, code: str, severity: Severity, evidence: str, advice: str) -> Finding:
    cell = profile.cell or "unknown"
    return Finding(code=code, severity=severity, cells=[cell], runs=[f"{cell}/trace"], evidence=evidence, advice=advice)
