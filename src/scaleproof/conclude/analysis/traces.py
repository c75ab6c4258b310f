"""What the traces of a campaign say, beside the timed runs of the same cells: traces.json."""

from pathlib import Path
from statistics import geometric_mean
from typing import Any

from scaleproof.conclude.checks.traces import timed_ms
from scaleproof.ground.confidence import one_against
from scaleproof.ground.records.profile_schema import Profile, mean
from scaleproof.ground.records.run import Run, measured

SCHEMA_VERSION = "1.2"
PARTS = (
    "wall_ms",
    "compute_ms",
    "communication_ms",
    "exposed_ms",
    "overlapped_ms",
    "wait_ms",
    "exposed_wait_ms",
    "idle_ms",
)


def traces_report(campaign: str, profiles: dict[Path, Profile], runs: list[Run]) -> dict[str, Any]:
    """One entry a traced cell, in the order given; `profiles` by the file that each was read from."""
    return {
        "schema_version": SCHEMA_VERSION,
        "campaign": campaign,
        "traces": [_entry(path, profile, runs) for path, profile in profiles.items()],
    }


def _entry(path: Path, profile: Profile, runs: list[Run]) -> dict[str, Any]:
    return {
        "cell": profile.cell,
        "strategy": profile.strategy,
        "world_size": profile.world_size,
        "n_devices": profile.n_devices,
        "status": profile.status,
        "reason": profile.reason,
        "tool": profile.tool,
        "tool_reason": profile.tool_reason,
        "device": profile.device,
        "steps": profile.steps,
        "ranks": profile.ranks,
        **{name: mean(profile, name) for name in PARTS},
        "per_rank": _per_rank(profile),
        "phases_ms": _phases(profile),
        "classes_ms": profile.classes_ms,
        "collectives": {name: c.model_dump() for name, c in profile.collectives.items()},
        "kernels_top": [k.model_dump() for k in profile.kernels_top],
        "slowest": profile.slowest.model_dump() if profile.slowest else None,
        "classified_share": profile.coverage.classified_share if profile.coverage else None,
        "unknown": profile.unknown,
        "overhead": _overhead(profile, runs),
        "file": "/".join(path.parts[-3:]),
    }


def _overhead(profile: Profile, runs: list[Run]) -> dict[str, Any] | None:
    """Step time under the profiler over that of the timed runs of the cell; null where either is missing."""
    others = timed_ms(profile, measured(runs))
    if not others or not profile.step_time_ms:
        return None
    overhead = one_against(sum(profile.step_time_ms) / len(profile.step_time_ms), others)
    return {
        "value": overhead.value,
        "low": overhead.low,
        "high": overhead.high,
        "n": overhead.n,
        "timed_step_ms": geometric_mean(others),
    }


def _per_rank(profile: Profile) -> list[dict[str, Any]]:
    """Means over the steps of each rank; null where one of them is unknown."""
    means = []
    for rank in profile.ranks:
        own = profile.model_copy(update={"per_step": [row for row in profile.per_step if row.rank == rank]})
        means.append({"rank": rank} | {name: mean(own, name) for name in PARTS})
    return means


def _phases(profile: Profile) -> dict[str, float]:
    """Mean of each phase on the host over steps and ranks."""
    names = dict.fromkeys(name for row in profile.per_step for name in row.ranges_ms)
    return {
        name: sum(row.ranges_ms.get(name, 0.0) for row in profile.per_step) / len(profile.per_step) for name in names
    }
