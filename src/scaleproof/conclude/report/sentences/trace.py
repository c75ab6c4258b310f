"""A profile (a trace of some steps of one cell) in sentences. What it does not support is unknown, or left out."""

from collections.abc import Iterator

from scaleproof.ground.errors import plural
from scaleproof.ground.records.profile_schema import Profile, mean_of_field

LEAST_WAITING_SHARE = 0.02  # of a step: less waiting than this names nobody
LEAST_SHARE_OF_STEPS = 0.8  # a rank that comes last in fewer steps comes last by chance


def trace_sentences(profile: Profile) -> list[str]:
    if profile.status != "ok":
        return [f"There is no trace: {profile.reason}."]
    return [
        _capture_sentence(profile),
        *_step_sentences(profile),
        *_collective_sentences(profile),
        *_waiting_sentence(profile),
        *_totals_sentences(profile),
        *(f"{name.capitalize().replace('_', ' ')}: unknown, because {why}." for name, why in profile.unknown.items()),
    ]


def _capture_sentence(profile: Profile) -> str:
    """Return a sentence on what was traced, and with which tool."""
    text = f"{profile.steps} steps" if profile.steps else "an unknown number of steps"
    if profile.cell:
        text = f"{profile.cell}, {text}"
    if profile.ranks:
        missing = profile.coverage.missing_ranks if profile.coverage else []
        of_all = f"{len(profile.ranks)} of " if missing else ""
        text += f" on {of_all}{plural(len(profile.ranks) + len(missing), 'rank')}"
    text += f", traced with {profile.tool}"
    if profile.tool_reason:
        text += f" ({profile.tool_reason})"
    return f"{text}."


def _step_sentences(profile: Profile) -> list[str]:
    """Return the sentences on the parts of a step, means over steps and ranks; [] where they are not known."""
    fields = ("wall_ms", "compute_ms", "exposed_ms")
    wall_ms, compute_ms, exposed_ms = (mean_of_field(profile, field) for field in fields)
    if wall_ms is None or compute_ms is None or exposed_ms is None:
        return []

    wait_ms = mean_of_field(profile, "exposed_wait_ms")
    wait_text = f" ({_ms_text(wait_ms)} of it waiting for the last rank)" if wait_ms else ""
    parts = f"computing {_ms_text(compute_ms)}, exposed communication {_ms_text(exposed_ms)}{wait_text}"
    idle_ms = mean_of_field(profile, "idle_ms")
    sentence = f"A step of {_ms_text(wall_ms)}: {parts}, idle {_ms_text(idle_ms)}."

    communication_ms = mean_of_field(profile, "communication_ms")
    if communication_ms is None:
        return [sentence]
    if communication_ms == 0:
        return [sentence, "There is no communication."]
    exposed = f"{100 * exposed_ms / communication_ms:.0f} % is exposed: no computing hides it"
    return [sentence, f"Communication takes {_ms_text(communication_ms)}, of which {exposed}."]


def _collective_sentences(profile: Profile) -> Iterator[str]:
    """Yield a sentence on each kind of collective: calls and time of a step, and its bandwidth."""
    for name, collective in profile.collectives.items():
        text = f"{name}: {collective.calls:g} calls a step, {_ms_text(collective.total_ms)}"
        if collective.wait_ms is not None:
            waiting = _ms_text(collective.wait_ms)
            text += f" ({_ms_text(collective.transfer_ms)} transfer, {waiting} waiting for the last rank)"
        if collective.bus_gb_per_s:
            text += f"; bus bandwidth {collective.bus_gb_per_s:.3g} GB/s"
        yield f"{text}."


def _waiting_sentence(profile: Profile) -> list[str]:
    """Return a sentence on the rank that others wait for; [] unless it comes last often and costs much."""
    slowest, wall_ms = profile.slowest, mean_of_field(profile, "wall_ms")
    if not slowest or not wall_ms:
        return []
    costs_much = slowest.caused_ms >= LEAST_WAITING_SHARE * wall_ms
    comes_last_often = slowest.steps_last >= LEAST_SHARE_OF_STEPS * slowest.of_steps
    if not (costs_much and comes_last_often):
        return []
    return [
        f"Rank {slowest.rank} comes last in {slowest.steps_last} of {slowest.of_steps} steps; "
        f"the others wait for it, {_ms_text(slowest.caused_ms)} a step on average."
    ]


def _totals_sentences(profile: Profile) -> Iterator[str]:
    """Yield sentences on a profile that has sums alone, no steps: a text report, or a trace without steps."""
    if profile.steps and profile.per_step:
        return
    if profile.communication_share is not None and profile.kernel_time_ms is not None:
        percent = f"{100 * profile.communication_share:.2f} %"
        yield f"{percent} of {profile.kernel_time_ms / 1e3:,.3f} s of kernel time is communication."
    for name, calls in profile.calls_per_step.items():
        yield f"{name}: {calls:.2f} calls per optimizer step and rank."
    if profile.executed_steps is not None and profile.steps:
        share = f"{profile.executed_steps:,.0f} of {profile.steps:,}"
        yield f"{share} optimizer steps were executed (all-gathers per rank)."


def _ms_text(value: float | None) -> str:
    """Return milliseconds as text, to three digits or whole; "unknown" for None."""
    if value is None:
        return "unknown"
    return f"{value:.3g} ms" if value < 1000 else f"{value:,.0f} ms"
