"""Does a step take longer than training explains? Its control: a bare loop on the same devices, right after the run."""

from collections.abc import Iterator

from scaleproof.conclude.checks.execution import moved_bytes
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.registry import Code, Flag, of_run
from scaleproof.ground.number_format import fixed, integer, megabytes
from scaleproof.ground.records.run import MeasuredRun

SHARE, LEAST_S = 0.25, 0.001  # of the bare loop's step, and seconds, that nobody has to explain
BYTE_S = 2e-9  # of communication between processes on one machine, each way
WAITED = 0.05  # of the window: ranks that wait longer for a core say nothing of the step
COLLECTED = 0.5  # full collections of garbage a step; sound windows have one in dozens of steps
PAGE = 4096  # bytes a step
STEPS = 4  # that make a habit


@of_run.check(
    Code(
        "step-unexplained",
        "suspect",
        what="Something beside training takes time in each step: the rate is that of the program around it as well.",
        detected="Full collections of garbage and bytes written to files in the window: one in two steps, a page in "
        "each. On CPUs under single and ddp, the shortest step of the window against a bare loop that shares no code "
        "with the trainer (docs/audit.md): 25 % + 1 ms, and 2 ns for each byte that is exchanged; not where ranks "
        "waited for their cores.",
        seen="gc.collect() in the step; loggers that write to disk; polling loops; debugging that was left on.",
        repair="Take it out of the step, or say that it belongs to what is compared. A trace shows what it is.",
    )
)
def steps_are_explained(run: MeasuredRun) -> Iterator[Flag]:
    """Flag a run whose steps do more, or take longer, than a bare loop and the exchange of gradients explain."""
    steps = run.metrics.window.step_time_n
    for rank in run.metrics.ranks if steps >= STEPS else ():
        collections, written = rank.get("full_collections") or 0, rank.get("bytes_written") or 0
        if collections >= COLLECTED * steps:
            yield Flag(
                f"rank {rank['rank']} collected all garbage {plural(collections, 'time')} in the {steps} steps of the "
                f"window{_beside_the_bare_loop(run)}"
            )
            return
        if written >= PAGE * steps:
            yield Flag(
                f"rank {rank['rank']} wrote {megabytes(written)} to files in the {steps} steps of the window"
                f"{_beside_the_bare_loop(run)}"
            )
            return
    explained, least = explained_step_s(run), float(run.step_times.min())
    if explained is not None and least > explained:
        yield Flag(
            f"the shortest step of the window took {fixed(least * 1e3, 1)} ms; a bare loop and the exchange of "
            f"{integer(_exchanged(run))} bytes explain {fixed(explained * 1e3, 1)} ms, so that "
            f"{fixed((least - explained) * 1e3, 1)} ms or more of each step are something else"
        )


def _beside_the_bare_loop(run: MeasuredRun) -> str:
    """Return the end of the evidence that has the time of a step and of the bare loop; "" without a control."""
    bare = _bare_s(run)
    if bare is None:
        return ""
    return f": a step took {fixed(run.median_step_s * 1e3, 1)} ms, in a bare loop {fixed(bare * 1e3, 1)} ms"


def explained_step_s(run: MeasuredRun) -> float | None:
    """Return the longest time of a step, in seconds, that its control explains; None where there is nothing to say.

    What sharding costs beside its traffic has no formula, and beside a GPU nobody has looked.
    """
    ranks, bare = run.metrics.ranks, _bare_s(run)
    if bare is None or run.metrics.training_config.strategy not in ("single", "ddp"):
        return None
    wall = run.metrics.window.wall_time_s
    waited = any((rank.get("run_delay_s") or 0.0) > WAITED * wall for rank in ranks)
    if waited or any(rank["device_name"] != "cpu" for rank in ranks):
        return None
    return (1 + SHARE) * bare + LEAST_S + 2 * BYTE_S * _exchanged(run)


def _bare_s(run: MeasuredRun) -> float | None:
    """Return the seconds of a step in the bare loops of all ranks, the longest; None where there are none."""
    controls = [census.control for census in run.metrics.census or []]
    times = [control.step_s for control in controls if control]
    return max(times) if times and len(times) == len(controls) else None


def _exchanged(run: MeasuredRun) -> int:
    """Bytes that the ranks exchange in a step."""
    return sum(moved_bytes(run).values()) if run.n_devices > 1 else 0
