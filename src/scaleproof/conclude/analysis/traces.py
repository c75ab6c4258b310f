"""What the traces of a campaign say, beside the timed runs of the same cells: traces.json."""

from pathlib import Path
from statistics import geometric_mean

from scaleproof.conclude.checks.traces import mean_steps_ms
from scaleproof.ground.confidence import ratio_to_mean
from scaleproof.ground.records.profile_schema import Profile, mean_of_field
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.run import Run, measured_runs
from scaleproof.ground.records.traces_report import CellTrace, RankParts, TraceOverhead, TracesReport

PARTS = (
    *("wall_ms", "compute_ms", "communication_ms", "exposed_ms", "overlapped_ms"),
    *("wait_ms", "exposed_wait_ms", "idle_ms"),
)

# Fields that an entry has from its profile, as they are.
OF_PROFILE = (
    *("strategy", "world_size", "n_devices", "status", "reason", "tool", "tool_reason", "device", "steps", "ranks"),
    *("classes_ms", "collectives", "kernels_top", "slowest", "unknown"),
)


def traces_report(campaign: str, profiles: dict[Path, Profile], runs: list[Run]) -> TracesReport:
    """Return an entry for each traced cell, in the order of `profiles`: file -> the profile that was read from it."""
    traces = [_trace_entry(path, profile, runs) for path, profile in profiles.items()]
    return TracesReport(campaign=campaign, traces=traces)


def _trace_entry(path: Path, profile: Profile, runs: list[Run]) -> CellTrace:
    """Return a traced cell: its profile, at `path`, with means and its overhead. `runs`: all runs of the campaign."""
    return CellTrace(
        **{name: getattr(profile, name) for name in OF_PROFILE},
        cell=profile.cell or "",
        **{name: mean_of_field(profile, name) for name in PARTS},
        per_rank=_rank_means(profile),
        phases_ms=_phase_means(profile),
        classified_share=profile.coverage.classified_share if profile.coverage else None,
        overhead=_profiler_overhead(profile, runs),
        file="/".join(path.parts[-3:]),  # relative to the campaign's folder
    )


def _profiler_overhead(profile: Profile, runs: list[Run]) -> TraceOverhead | None:
    """Return the step time under the profiler over that of the cell's timed `runs`; None where either is missing."""
    timed_steps_ms = mean_steps_ms(profile, measured_runs(runs))  # a mean for each run of the cell
    if not timed_steps_ms or not profile.step_time_ms:
        return None
    profiled_step_ms = sum(profile.step_time_ms) / len(profile.step_time_ms)
    overhead = Estimated.of(ratio_to_mean(profiled_step_ms, timed_steps_ms))
    return TraceOverhead(**overhead.model_dump(), timed_step_ms=geometric_mean(timed_steps_ms))


def _rank_means(profile: Profile) -> list[RankParts]:
    """Return the parts of a step of each rank in ms, means over its steps; a part that a step lacks is None."""
    rank_parts = []
    for rank in profile.ranks:
        steps_of_rank = [step for step in profile.per_step if step.rank == rank]
        profile_of_rank = profile.model_copy(update={"per_step": steps_of_rank})
        rank_parts.append(RankParts(rank=rank, **{name: mean_of_field(profile_of_rank, name) for name in PARTS}))
    return rank_parts


def _phase_means(profile: Profile) -> dict[str, float]:
    """Return phase of a step (forward, backward, ...) -> its mean milliseconds on the host, over steps and ranks."""
    sums_ms: dict[str, float] = {}
    for step in profile.per_step:
        for phase, ms in step.ranges_ms.items():
            sums_ms[phase] = sums_ms.get(phase, 0.0) + ms
    return {phase: sum_ms / len(profile.per_step) for phase, sum_ms in sums_ms.items()}
