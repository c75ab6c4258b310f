"""A profile (a trace of some steps of one cell) in sentences. What it does not support is unknown, or left out."""

from scaleproof.ground.errors import plural
from scaleproof.ground.records.profile_schema import Profile, mean_of_field

LITTLE = 0.02  # of a step: less waiting than this names nobody
OFTEN = 0.8  # of the steps: a rank that is last more rarely is last by chance


def trace_sentences(profile: Profile) -> list[str]:
    """Return the sentences on one profile."""
    if profile.status != "ok":
        return [f"There is no trace: {profile.reason}."]
    return [
        _capture_sentence(profile),
        *_step_sentences(profile),
        *_collective_sentences(profile),
        *_waiting_sentence(profile),
        *_totals_sentences(profile),
        *(f"{what.capitalize().replace('_', ' ')}: unknown, because {why}." for what, why in profile.unknown.items()),
    ]


def _capture_sentence(profile: Profile) -> str:
    """Return a sentence on what was traced, and with which tool."""
    what = f"{profile.cell}, " if profile.cell else ""
    steps = f"{profile.steps} steps" if profile.steps else "an unknown number of steps"
    ranks = f" on {plural(len(profile.ranks), 'rank')}" if profile.ranks else ""
    why = f" ({profile.tool_reason})" if profile.tool_reason else ""
    return f"{what}{steps}{ranks}, traced with {profile.tool}{why}."


def _step_sentences(profile: Profile) -> list[str]:
    """Return the sentences on the parts of a step, means over steps and ranks; none where they are not known."""
    wall, compute, exposed = (mean_of_field(profile, name) for name in ("wall_ms", "compute_ms", "exposed_ms"))
    if wall is None or compute is None or exposed is None:
        return []
    communication, idle = mean_of_field(profile, "communication_ms"), mean_of_field(profile, "idle_ms")
    waiting = mean_of_field(profile, "exposed_wait_ms")
    waiting_text = f" ({_ms_text(waiting)} of it waiting for the last rank)" if waiting else ""
    parts = f"computing {_ms_text(compute)}, exposed communication {_ms_text(exposed)}{waiting_text}"
    step = f"A step of {_ms_text(wall)}: {parts}, idle {_ms_text(idle)}."
    if communication is None:
        return [step]
    if communication == 0:
        return [step, "There is no communication."]
    share = f"{100 * exposed / communication:.0f} %"
    return [step, f"Communication takes {_ms_text(communication)}, of which {share} is exposed: no computing hides it."]


def _collective_sentences(profile: Profile) -> list[str]:
    """Return a sentence on each kind of collective: calls and time of a step, and its bandwidth."""
    lines = []
    for name, collective in profile.collectives.items():
        text = f"{name}: {collective.calls:g} calls a step, {_ms_text(collective.total_ms)}"
        if collective.wait_ms is not None:
            waiting = _ms_text(collective.wait_ms)
            text += f" ({_ms_text(collective.transfer_ms)} transfer, {waiting} waiting for the last rank)"
        if collective.bus_gb_per_s:
            text += f"; bus bandwidth {collective.bus_gb_per_s:.3g} GB/s"
        lines.append(f"{text}.")
    return lines


def _waiting_sentence(profile: Profile) -> list[str]:
    """Return a sentence on the rank that others wait for; empty unless it comes last often and costs much."""
    slowest, wall_ms = profile.slowest, mean_of_field(profile, "wall_ms")
    if not slowest or not wall_ms:
        return []
    costs_much, comes_last_often = slowest.caused_ms >= LITTLE * wall_ms, slowest.steps_last >= OFTEN * slowest.of_steps
    if not (costs_much and comes_last_often):
        return []
    return [
        f"Rank {slowest.rank} comes last in {slowest.steps_last} of {slowest.of_steps} steps; "
        f"the others wait for it, {_ms_text(slowest.caused_ms)} a step on average."
    ]


def _totals_sentences(profile: Profile) -> list[str]:
    """Return sentences on a profile that has sums alone, no steps: of text reports, and of traces without steps."""
    if profile.steps and profile.per_step:
        return []
    lines = []
    if profile.communication_share is not None and profile.kernel_time_ms is not None:
        seconds = profile.kernel_time_ms / 1e3
        lines.append(f"{100 * profile.communication_share:.2f} % of {seconds:,.3f} s of kernel time is communication.")
    lines += [
        f"{name}: {calls:.2f} calls per optimizer step and rank." for name, calls in profile.calls_per_step.items()
    ]
    if profile.executed_steps is not None and profile.steps:
        executed = f"{profile.executed_steps:,.0f} of {profile.steps:,}"
        lines.append(f"{executed} optimizer steps were executed (all-gathers per rank).")
    return lines


def _ms_text(value: float | None) -> str:
    """Return milliseconds as text, to three digits or whole; "unknown" for None."""
    if value is None:
        return "unknown"
    return f"{value:.3g} ms" if value < 1000 else f"{value:,.0f} ms"
