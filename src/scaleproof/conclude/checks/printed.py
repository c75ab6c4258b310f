"""Checks of somebody's program: what it printed against what was seen of it from outside."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import prod
from statistics import median
from typing import NamedTuple

import numpy as np

from scaleproof.ground.findings.registry import Code, Flag, of_printed, of_timed
from scaleproof.ground.losses import ALIKE, compare_losses
from scaleproof.ground.number_format import integer, percent, seconds
from scaleproof.ground.records.grouping import group_by, runs_by_cell
from scaleproof.ground.records.metrics import Printed
from scaleproof.ground.records.run import TimedRun

TOO_LONG, TOO_LONG_S = 1.05, 0.2  # printed time may be so many times the launcher's, and these seconds more
COVERED = 0.9  # where printed times cover less than this share of the launcher's, the rest is worth a note
APART = 1.1  # what two cells cover may have this ratio
FEWEST_LOSSES = 10  # in fewer lines a constant loss may be chance
FEWEST_LOST = 3  # fewer losses that are NaN or infinite are no end of a training
FEWEST_DIGITS = 3  # behind the point of a loss: with fewer, small steps are rounded away
LEAST_S = 0.5  # a shorter stretch between lines says little about clocks


@of_printed.check(
    Code(
        "printed-time-too-long",
        "invalid",
        what="A program printed more time than passed: its step times, and the rates made of them, are wrong.",
        detected="Printed times of consecutive steps, added up, against the time between their lines as the launcher "
        f"received them (above {percent(TOO_LONG - 1)} + {TOO_LONG_S:g} s); where that is less than {LEAST_S:g} s, "
        "those of all steps but the first against the time from the program's start to the last of the lines.",
        seen="Step times that add up the ranks; milliseconds printed as seconds.",
        repair="Look at what starts and stops the program's timer. Compare whole runs meanwhile (figures: whole).",
    ),
    Code(
        "printed-time-incomplete",
        "note",
        what="A program's clock stands still for part of its training: what it leaves out (evaluation, data, "
        "checkpoints, kernels that were only queued) is not in the rates that are compared.",
        detected=f"Printed times of consecutive steps, added up, are less than {percent(COVERED)} of the time between "
        "their lines.",
        seen="time.time() around code that queues CUDA kernels; loops that print before they evaluate.",
        repair="Synchronise before reading the clock, or compare whole runs (figures: whole).",
    ),
)
def printed_times_fill_the_clock(run: TimedRun) -> Iterator[Flag]:
    """Flag a run whose printed step times add up to more, or much less, than the time between their lines."""
    window = _window_by_two_clocks(run)
    if window is None:
        return
    where = "between their lines"
    is_short = window.launcher_s < LEAST_S
    last_line_s = run.metrics.reading.last_line_s if isinstance(run.metrics, Printed) else None
    if is_short and last_line_s:  # the lines may have come all at once, but no later than the steps ended
        printed_s = float(run.steps["step_time_s"][1:].sum())  # a timer may be set in the first step only
        window = _ByTwoClocks(printed_s, last_line_s)
        where = "from the program's start to their last line"
    evidence = f"its steps took {seconds(window.printed_s)} as printed, and {seconds(window.launcher_s)} passed {where}"
    if window.printed_s > TOO_LONG * window.launcher_s + TOO_LONG_S:
        yield Flag(evidence, code="printed-time-too-long")
    elif window.printed_s < COVERED * window.launcher_s and not is_short:
        share = percent(window.printed_share)
        yield Flag(f"{evidence}: {share} of it is in the figures", code="printed-time-incomplete")


class _ByTwoClocks(NamedTuple):
    """The seconds from the first of some lines to the last: by the program, and by the launcher."""

    printed_s: float
    launcher_s: float

    @property
    def printed_share(self) -> float:
        """The share of the launcher's time that printed times cover."""
        return self.printed_s / self.launcher_s


def _window_by_two_clocks(run: TimedRun) -> _ByTwoClocks | None:
    """Return the window's length by two clocks; None where the program prints no times, or not every step."""
    metrics = run.metrics
    if not isinstance(metrics, Printed) or not metrics.second_clock or metrics.window.clock != "printed":
        return None
    launcher_s = metrics.second_clock.window_s
    if launcher_s is None:
        return None
    first_step, last_step = metrics.reading.first_step, metrics.reading.last_step
    if first_step is None or last_step is None:
        return None
    times = run.window["step_time_s"]  # one for each printed line
    if last_step - first_step != len(times) - 1:  # not every step is printed
        return None
    printed_s = float(times[1:].sum())  # without the first step, at the end of which the first line is printed
    return _ByTwoClocks(printed_s, launcher_s)


@of_printed.finds(
    "did-not-train", "invalid", fewest_digits=FEWEST_DIGITS, fewest_losses=FEWEST_LOSSES, fewest_lost=FEWEST_LOST
)
def loss_moves(run: TimedRun) -> Iterator[Flag]:
    """The loss does not move at all, or is no number: nothing is trained, so that no speed of training was measured.

    Detected: One and the same loss, with {fewest_digits} digits or more behind the point, in every one of
    {fewest_losses} or more lines of the window, or exactly 0 from the first line on; or NaN or infinity in
    {fewest_lost} lines or more, up to the last one.
    Seen: A publication whose 46,000 tokens/s were of steps with gradients of zero.
    Repair: See that gradients reach the weights and that the optimizer steps; then run the cell again.
    """
    if isinstance(run.metrics, Printed) and run.metrics.reading.losses_lost >= FEWEST_LOST:
        yield Flag(f"the loss is NaN or infinite in the last {run.metrics.reading.losses_lost} lines")
        return
    losses = run.window["loss"]
    if len(losses) < FEWEST_LOSSES or not np.isfinite(losses).all():
        return
    loss = float(losses[0])
    is_constant = np.ptp(losses) == 0
    has_enough_digits = round(loss, FEWEST_DIGITS - 1) != loss  # with one digit less it is another number
    is_zero_throughout = not run.losses.any()  # in the warm-up, too: a model that has learned all prints 0 as well
    if is_constant and (has_enough_digits or is_zero_throughout):
        yield Flag(f"the loss is {loss:.10g} in all of {len(losses)} lines")


@of_timed.finds("clocks-rank-differently", "suspect", apart=APART)
def cells_leave_out_as_much(runs: list[TimedRun]) -> Iterator[Flag]:
    """Two cells leave different parts of their time out of what they print: the one that leaves out more seems faster
    than it is.

    Detected: The median part of the launcher's time that printed times cover, {apart:g} times apart between two cells.
    Seen: A variant that evaluates, or waits for its queued kernels, outside of its own timer.
    Repair: Compare whole runs (figures: whole), or synchronise before the program reads its clock.
    """
    shares_of_runs: dict[str, list[float]] = defaultdict(list)  # cell -> shares of the launcher's time
    for run in runs:
        window = _window_by_two_clocks(run)
        if window and window.launcher_s >= LEAST_S:
            shares_of_runs[run.metrics.cell].append(window.printed_share)
    if len(shares_of_runs) < 2:
        return

    shares = {cell: median(of_runs) for cell, of_runs in shares_of_runs.items()}
    cells = [min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)]
    least_share, most_share = (shares[cell] for cell in cells)
    if most_share > APART * least_share:
        yield Flag(
            f"printed times cover {percent(least_share)} of the time of {cells[0]} and {percent(most_share)} of "
            f"that of {cells[1]}",
            cells=cells,
            about=[run for run in runs if run.metrics.cell in cells],
        )


@of_timed.finds("losses-apart", "note", alike=percent(ALIKE))
def sizes_learn_alike(runs: list[TimedRun]) -> Iterator[Flag]:
    """A program prints other losses on more devices: it may not do the same work there.

    Detected: Losses of equal steps of cells that differ in devices alone, more than {alike} and a printed digit outside
    of the range of their repeats.
    Seen: A learning rate that grows with the processes; ranks that print the losses of their own samples.
    Repair: Print the mean over all ranks, with one seed and one global batch; what differs then is the training.
    """
    for cells, differ, text in losses_of_sizes(runs):
        if differ:
            yield Flag(text.removesuffix("."), cells=cells, about=[run for run in runs if run.metrics.cell in cells])


def losses_of_sizes(runs: Sequence[TimedRun]) -> Iterator[tuple[list[str], bool, str]]:
    """Yield of commands that differ in devices alone: the smallest cell and another, whether losses differ, a sentence.

    Runs of the trainer have checks of their own.
    """

    def identity(run: TimedRun) -> str:
        return repr(run.metrics.config | {"execution": {**run.metrics.config["execution"], "geometry": None}})

    of_commands = sorted((run for run in runs if isinstance(run.metrics, Printed)), key=lambda run: prod(run.geometry))
    for of_sizes in group_by(of_commands, identity).values():
        (base, runs_of_base), *others = runs_by_cell(of_sizes).items()
        for cell, runs_of_cell in others:
            yield [base, cell], *losses_of_cells(base, cell, runs_of_base, runs_of_cell)


def losses_of_cells(a: str, b: str, runs_a: Sequence[TimedRun], runs_b: Sequence[TimedRun]) -> tuple[bool, str]:
    """Return whether the losses that two commands print in equal steps differ, and a sentence on it."""
    works = {run.metrics.reading.per_step for run in (*runs_a, *runs_b) if isinstance(run.metrics, Printed)}
    if len(works) > 1:
        return False, f"Losses were not compared: a step of {a} is other work than one of {b}."
    differ, text = compare_losses(a, b, *(list(map(_losses_by_step, runs)) for runs in (runs_a, runs_b)))
    return differ, text or f"Losses were not compared: the record of {a} or of {b} has none by number of step."


def _losses_by_step(run: TimedRun) -> dict[int, float]:
    """Return the losses of a window by the printed numbers of its steps; {} where these do not rise evenly."""
    reading = run.metrics.reading if isinstance(run.metrics, Printed) else None
    if reading is None or reading.first_step is None or reading.last_step is None:
        return {}
    losses = run.window["loss"]
    steps = np.linspace(reading.first_step, reading.last_step, len(losses))
    if (steps != np.round(steps)).any() or len(set(steps)) < len(steps):
        return {}
    return {int(step): float(loss) for step, loss in zip(steps, losses, strict=True) if np.isfinite(loss)}


@of_timed.finds("counts-differ", "invalid")
def steps_are_counted_alike(runs: list[TimedRun]) -> Iterator[Flag]:
    """Two programs count to different numbers, so that a step of one is not known to be as much work as a step of the
    other: with batches twice as large, half as many are counted.

    Detected: What the lines of programs count to (94 in `step 5/94`), where their steps are timed by the launcher and
    nobody has said how much work one is.
    Seen: A first try with a larger batch, called slower because it made fewer steps a second.
    Repair: Say what a step is: workload.per_step, e.g. {samples: "{micro_batch}"}, or {steps: 1} where steps are equal
    work (of ab: --metric steps/s). Two lines of scaleproof.watch count samples and tokens.
    """
    counts: dict[str, int] = {}  # cell -> what its first run counts to
    for run in runs:
        metrics = run.metrics
        if not isinstance(metrics, Printed) or metrics.unit == "samples":  # a rate in samples needs no step
            continue
        if metrics.reading.counts_to and metrics.reading.per_step is None:
            counts.setdefault(metrics.cell, metrics.reading.counts_to)
    if len(set(counts.values())) > 1:
        evidence = ", ".join(f"{cell} counts to {integer(number)}" for cell, number in counts.items())
        yield Flag(evidence, cells=list(counts), about=[run for run in runs if run.metrics.cell in counts])


@of_printed.finds("start-up-timed", "note")
def start_up_is_left_out(run: TimedRun) -> Iterator[Flag]:
    """A program was timed from start to end, start-up included: a ratio of such times is nearer to 1 than that of the
    training alone.

    Detected: workload.figures: whole without two lengths of run.
    Repair: Give two lengths, work: {steps: [50, 150]}, with {steps} in the command.
    """
    if run.metrics.unit == "runs":  # its rate is in whole runs a second
        yield Flag(f"the whole run of {seconds(run.metrics.window.wall_time_s)} was timed, its start-up with it")
