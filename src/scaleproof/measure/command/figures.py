"""From what a program printed to the rows of steps.csv: which of its steps count, and how much work each is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

import numpy as np

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.command import Patterns
from scaleproof.ground.errors import plural, shortened
from scaleproof.ground.number_format import integer
from scaleproof.ground.records.evidence import WorkUnit
from scaleproof.ground.records.printed_log import PrintedLog, PrintedSpan, PrintedStep, ReadLog
from scaleproof.ground.records.steps import ROW
from scaleproof.measure.command.lines_with_units import read_lines_with_units, with_times_beside_rates
from scaleproof.measure.command.patterns import read_by_patterns
from scaleproof.measure.command.progress import FEWEST, Count, Progress, find_progress, progress_between

LEAST_WINDOW_S = 0.5  # a shorter window says little by the launcher's clock
FEW_LINES = 100  # a program that has printed more says nothing new in a longer run
LONGER = "let it train longer"  # advice in messages on programs that were ended too early
MORE_SECONDS = f"{LONGER} (work.seconds; of ab: --seconds)"
AS_WHOLE = "a program that prints no step is timed as a whole (workload.figures: whole; of ab: --metric time)"


class NoFigures(Exception):
    """Raised where a run that ended well has no figures; says why, and which keys of the campaign would help."""


class UnknownWork(NoFigures):
    """Raised where steps have times or rates, and neither log nor campaign says their work: a longer log may not."""


@dataclass(frozen=True)
class TimedWork:
    """The figures of a run, as they were read from its `log`."""

    log: PrintedLog
    unit: WorkUnit  # the unit of the work in the column `tokens`
    rows: np.ndarray  # the rows of steps.csv, of dtype ROW
    window: list[PrintedStep]  # the window's printed steps; none where steps were counted, watched or timed together
    per_step: float | None  # work of a step in `unit`; None where steps differ, or there are none
    counts_to: int | None = None  # the number up to which the program counts the steps that the launcher timed
    losses_lost: int = 0  # how many losses at the end are NaN or infinite


def read_figures(
    log: Path, cell: Cell, read: ReadLog, arrivals: Sequence[float] = (), was_ended: bool = False
) -> TimedWork:
    """Return the figures of a run of `cell` from its output, the file `log`. Raises NoFigures.

    `read`: the function that reads logs of known programs. `arrivals`: when the launcher received each line, which
    times the steps of a program that only counts them. `was_ended`: the launcher ended the program early.
    """
    if not log.stat().st_size:
        raise NoFigures(f"it printed nothing; {MORE_SECONDS if was_ended else AS_WHOLE}")

    lines = log.read_text("utf-8", "replace").split("\n")
    printed = _read_printed(log, lines, cell, read, arrivals)
    steps = _steps_with_time(printed)
    if not steps and not printed.spans:
        return _figures_by_arrivals(printed, lines, arrivals, cell, was_ended)
    _check_one_run(printed, cell)
    return _figures_of_steps(printed, steps, cell) if steps else _figures_of_spans(printed, cell, was_ended)


def _read_printed(log: Path, lines: Sequence[str], cell: Cell, read: ReadLog, arrivals: Sequence[float]) -> PrintedLog:
    """Return the steps in the file `log`, read by the campaign's patterns, a known reader, or times with units.

    `lines`: the lines of the file; `read`, `arrivals`: as in `read_figures`.
    """
    figures = cell.workload.figures
    if isinstance(figures, Patterns):
        return read_by_patterns(lines, figures)
    printed = _read_log(log, figures, read)
    if figures != "auto":
        return printed
    if _steps_with_time(printed) or printed.spans:
        return with_times_beside_rates(printed, lines)
    return read_lines_with_units(lines, arrivals) or printed


def _check_one_run(printed: PrintedLog, cell: Cell) -> None:
    """Raise NoFigures where a log has several runs, or another number of devices."""
    if printed.world_size not in (None, cell.execution.geometry.n_devices):
        raise NoFigures(
            f"its log says {plural(printed.world_size, 'rank')}, and the geometry is {cell.execution.geometry}; use "
            "{devices} in workload.command"
        )
    if printed.runs > 1:
        raise NoFigures(f"its log has {printed.runs} runs, each with steps of its own; one command must train once")


def _figures_by_arrivals(
    printed: PrintedLog, lines: Sequence[str], arrivals: Sequence[float], cell: Cell, was_ended: bool
) -> TimedWork:
    """Return the figures of a log without times and rates: `arrivals` of lines time its steps. Raises NoFigures."""
    is_auto = cell.workload.figures == "auto"
    progress = find_progress(lines, arrivals) if is_auto else _progress_of_steps(printed.steps, arrivals)
    texts = [line.strip() for line in lines if line.strip()]
    if progress:
        return _figures_of_progress(progress, cell, texts[-1])
    was_cut = was_ended and len(texts) < FEW_LINES
    printed_text = f"it {'had ' * was_cut}printed {plural(len(texts), 'line')}"
    if (was_cut or is_auto) and 0 < len(texts) < FEWEST:  # no pattern times steps by so few lines
        advice = MORE_SECONDS if was_cut else f"steps are read from {FEWEST} lines on; {AS_WHOLE}"
        raise NoFigures(f"{printed_text} (the last: {shortened(texts[-1], 80)}); {advice}")
    raise NoFigures(_no_figures_text(cell, *texts[-1:]) + f"; {LONGER}: {printed_text}" * was_cut)


def _steps_with_time(printed: PrintedLog) -> list[PrintedStep]:
    return [step for step in printed.steps if step.seconds or step.tokens_per_s or step.samples_per_s]


def _progress_of_steps(steps: Sequence[PrintedStep], arrivals: Sequence[float]) -> Progress | None:
    """Return the progress of `steps` that have only a number, timed by `arrivals`. None for fewer than three steps."""
    # (place of its line in the log, from 0; step)
    step_at_place = [(step.line - 1, step) for step in steps if step.line and step.line <= len(arrivals)]
    if len({step.step for _, step in step_at_place}) < FEWEST:
        return None
    counts = [(place, Count(number=step.step, counts_to=None, unit="steps")) for place, step in step_at_place]
    return progress_between(counts, {place: step.loss for place, step in step_at_place}, arrivals)


def step_rows(
    seconds: Sequence[float],
    amounts: Sequence[int],
    losses: Sequence[float | None],
    warmup: Sequence[bool] | None = None,
) -> np.ndarray:
    """Return the rows of steps.csv of one process.

    `seconds`, `amounts`, `losses`: of each step; `warmup`: whether it belongs to the warm-up. The time of waiting for
    data is unknown, and is written as 0. A loss that was not printed, or is infinite, is NaN.
    """
    finite_losses = [loss if loss is not None and math.isfinite(loss) else math.nan for loss in losses]
    phases = ["warmup" if is_warmup else "window" for is_warmup in warmup or [False] * len(seconds)]
    columns = zip(phases, seconds, finite_losses, amounts, strict=True)
    # In the order of ROW: rank 0, no wait for data, 1 sample.
    rows = [(phase, step, 0, time, 0.0, loss, 1, amount) for step, (phase, time, loss, amount) in enumerate(columns)]
    return np.array(rows, ROW)


def _read_log(log: Path, reader: str, read: ReadLog) -> PrintedLog:
    """Return the file `log` as `read` understands it by `reader`; a log without steps if it understands nothing."""
    printed = read(log, reader)
    # A guess with several runs has taken numbers of lines, or of epochs, for steps.
    is_understood = printed is not None and not (printed.guessed and printed.runs > 1)
    return printed if printed is not None and is_understood else PrintedLog(reader)


def _no_figures_text(cell: Cell, last_line: str = "") -> str:
    """Return the message that no figure was understood, and what to do."""
    has_patterns = isinstance(cell.workload.figures, Patterns)
    unread = "no figure in its log is understood: no time of a step, no rate, and no count"
    reason = "the patterns of workload.figures match no line of its log" if has_patterns else unread
    ending = f" (its last line: {shortened(last_line, 80)})" if last_line else ""
    return (
        f"{reason}{ending}. Give patterns (workload.figures: {{step: 'it (\\d+)'}}; of ab: --pattern step='it (\\d+)', "
        "or of step_ms, tokens_per_s, ...), or time whole runs (figures: whole, with work.steps: [50, 150]; of ab: "
        "--steps 50 150), with {steps} in the command"
    )


def _figures_of_steps(printed: PrintedLog, steps: Sequence[PrintedStep], cell: Cell) -> TimedWork:
    """Return the figures of a log whose `steps` have times or rates. Raises NoFigures.

    The time of a step that has only a rate is its work divided by the rate. Where steps differ in work, that of a step
    is its rate times its time.
    """
    unit, per_step = _work_per_step(printed, steps, cell)
    factor = _rate_factor(printed, steps, cell, per_step)  # makes a printed rate the rate of all devices
    timed: list[PrintedStep] = []
    amounts: list[int] = []  # the work of each step, in `unit`
    for step in steps:
        # 0: unknown; none is of steps.
        rate = factor * ({"tokens": step.tokens_per_s, "samples": step.samples_per_s}.get(unit) or 0.0)
        seconds = step.seconds or (per_step / rate if rate and per_step else None)
        if not seconds:
            raise NoFigures(f"the line of step {step.step} has no time and no rate in {unit}/s; {_other_unit(step)}")
        timed.append(replace(step, seconds=seconds))
        work = rate * seconds if per_step is None else per_step
        amounts.append(max(1, round(work)))  # a whole number, and never 0

    n_warmup = _count_warmup(steps, cell.work.warmup_steps)
    _check_resolution(printed, steps[0].step + cell.work.warmup_steps)
    losses = [step.loss for step in timed]
    is_warmup = [place < n_warmup for place in range(len(timed))]
    return TimedWork(
        log=printed,
        unit=unit,
        rows=step_rows([step.seconds or 0.0 for step in timed], amounts, losses, is_warmup),
        window=timed[n_warmup:],
        per_step=per_step,
        losses_lost=count_lost_at_end(losses),
    )


def _other_unit(step: PrintedStep) -> str:
    """Return what to give where a step has no time, and no rate in the unit of the campaign's `per_step`."""
    unit = "tokens" if step.tokens_per_s else "samples" if step.samples_per_s else ""
    return f"its rate is in {unit}/s: give workload.per_step: {{{unit}: ...}}" if unit else "give other patterns"


def _count_warmup(steps: Sequence[PrintedStep], warmup_steps: int) -> int:
    """Return how many of the first `steps` are warm-up (none of a later epoch). Raises NoFigures where all are."""
    first, last = steps[0].step, steps[-1].step
    n_warmup = sum(1 for _ in takewhile(lambda step: step.step - first < warmup_steps, steps))
    if n_warmup == len(steps):
        raise NoFigures(
            f"its {plural(len(steps), 'line')} of steps {first} to {last} are all within the first {warmup_steps} "
            f"steps, which are warm-up; {LONGER}, or lower work.warmup_steps (of ab: --warmup-steps)"
        )
    return n_warmup


def _check_resolution(printed: PrintedLog, first_of_window: int) -> None:
    """Raise NoFigures where a step's time is printed as 0, from step number `first_of_window` on.

    Such a time is rounded down, and cannot be averaged: without the short steps the mean of the others is too long. A
    step with a rate gets its time from the rate.
    """
    for step in printed.steps:  # not those of `_steps_with_time`, which leaves out a time of 0
        if step.seconds == 0 and not (step.tokens_per_s or step.samples_per_s) and step.step >= first_of_window:
            raise NoFigures(f"the time of step {step.step} is printed as 0: print more digits of it, or a rate")


def count_lost_at_end(losses: Sequence[float | None]) -> int:
    """Return how many losses at the end, after the last finite one, are NaN or infinite. None is no loss."""
    printed_losses = [loss for loss in losses if loss is not None]
    return sum(1 for _ in takewhile(lambda loss: not math.isfinite(loss), reversed(printed_losses)))


def _work_per_step(printed: PrintedLog, steps: Sequence[PrintedStep], cell: Cell) -> tuple[WorkUnit, float | None]:
    """Return the unit of work, and the work of a step in that unit, None where steps differ.

    Both are the campaign's, else the log's; in a log with tokens and samples, tokens count. Steps may differ if each
    has a time and a rate. Raises NoFigures where neither campaign nor log says how much work a step is.
    """
    if given := cell.workload.per_step:
        return given.unit, float(cell.per_step or 1)  # the value of `given.amount`, an expression
    if printed.tokens_per_step:
        return "tokens", printed.tokens_per_step
    if all(step.seconds and step.tokens_per_s for step in steps):
        return "tokens", None
    if printed.samples_per_step:
        return "samples", float(printed.samples_per_step)

    if all(step.seconds and step.samples_per_s for step in steps):
        return "samples", None
    last = steps[-1]
    figures = f"its log has figures of {plural(len(steps), 'step')} (the last: {_figures_text(last)})"
    if last.seconds or not (last.tokens_per_s or last.samples_per_s):
        raise UnknownWork(
            f"{figures}, but not how much work a step is: with ab, add --metric steps/s if a step of A is as much "
            "work as one of B, else --per-step with A's tokens and B's (in a campaign file: workload.per_step, e.g. "
            '{tokens: 8192}, {samples: "{micro_batch} * {devices}"}, or {steps: 1} to compare steps/s)'
        )
    rate_unit = "tokens" if last.tokens_per_s else "samples"
    example = '{tokens: "{global_batch} * 1024"}' if last.tokens_per_s else '{samples: "{global_batch}"}'
    metric = "" if last.tokens_per_s else "--metric samples/s "
    raise UnknownWork(  # {steps: 1} is not offered: work in steps gives no time by a rate in tokens or samples
        f"{figures}, but not how much work a step is, which gives its time: with ab, add {metric}--per-step with "
        f"A's {rate_unit} of a step and B's (in a campaign file: workload.per_step, e.g. {example})"
    )


def _figures_text(step: PrintedStep) -> str:
    """Return the printed figures of a step as text: "0.011 s a step, 3.61 loss"."""
    figures = {
        "s a step": step.seconds,
        "tokens/s": step.tokens_per_s,
        "samples/s": step.samples_per_s,
        "loss": step.loss,
    }
    return ", ".join(f"{value:.4g} {name}" for name, value in figures.items() if value is not None)


def _rate_factor(printed: PrintedLog, steps: Sequence[PrintedStep], cell: Cell, per_step: float | None) -> int:
    """Return the factor that makes a printed rate the rate of all devices.

    Raises NoFigures where the log has a rate and nothing says whose it is. `per_step`: the work of a step, if known.
    """
    devices = cell.execution.geometry.n_devices
    rate_of = cell.workload.rate_of or printed.rate_of  # "all" or "device"
    needs_rate = not per_step or not all(step.seconds for step in steps)
    if devices == 1 or rate_of == "all" or not needs_rate:
        return 1
    if rate_of is None:
        raise UnknownWork(
            f"its log has a rate, and not whether it is that of one device or of all {devices}: give workload.rate_of "
            "(all, device)"
        )
    return devices


def _figures_of_progress(progress: Progress, cell: Cell, last_line: str) -> TimedWork:
    """Return the figures of a program that counts aloud, timed by the launcher. Raises NoFigures.

    `last_line`: the last line of its log, for the message.
    """
    unit, work_per_count = _work_per_count(progress, cell)
    total_counts = np.cumsum(progress.amounts)
    warmup_steps = cell.work.warmup_steps
    # By `warmup_steps`, unless that would leave nothing; and always the first of three or more intervals, because
    # counts may be of epochs or samples, to which `warmup_steps` does not apply.
    is_warmup = (total_counts <= warmup_steps) & (total_counts[-1] > warmup_steps)
    is_warmup[0] |= len(total_counts) > 2
    window_s = float(np.sum(progress.seconds, where=~is_warmup))
    if window_s < LEAST_WINDOW_S:
        raise NoFigures(
            f"no time and no rate in its log is understood (its last line: {shortened(last_line, 80)}), and its lines "
            f"about {progress.unit} came within {window_s:.2g} s, too short for the launcher's clock. Give patterns "
            f"(of ab: --pattern step_ms='time ([0-9.]+) ms'), or {LONGER}"
        )

    amounts = [amount * work_per_count for amount in progress.amounts]
    return TimedWork(
        log=PrintedLog("progress"),
        unit=unit,
        rows=step_rows(progress.seconds, amounts, progress.losses, is_warmup.tolist()),
        window=[],
        per_step=float(work_per_count) if cell.workload.per_step else None,
        counts_to=progress.counts_to,
        losses_lost=count_lost_at_end(progress.losses),
    )


def _work_per_count(progress: Progress, cell: Cell) -> tuple[WorkUnit, int]:
    """Return the unit of work, and how much work is one count of a program that counts aloud.

    The unit is what it counts, unless it counts steps and the campaign says how much work a step is. It counts steps if
    its lines say so, or if its number does not rise by multiples of a step's work. Raises NoFigures if neither is sure.
    """
    given = cell.workload.per_step
    amount = cell.per_step or 1
    if given is None or given.unit in ("steps", progress.unit):
        return progress.unit, 1
    # With amount 1 a step and its work are the same count. Else counts of work rise by multiples of `amount`.
    counts_no_work = amount == 1 or int(np.median(progress.amounts)) % amount
    if progress.unit in ("steps", "batches") or counts_no_work:
        return given.unit, amount

    limit = f" to {integer(progress.counts_to)}" if progress.counts_to else ""
    counted_text = f"{progress.unit}{limit}"
    if progress.unit == "items":
        counted_text = f"something{limit} without saying what"
    raise NoFigures(
        f"its log prints no time and no rate, and its lines count {counted_text}: workload.per_step, {given.unit}: "
        f"{amount} for a step, does not say how much each of these is. Give per_step {{{given.unit}: 1}} if it is 1, "
        "else {steps: 1} where A and B count alike (of ab: --per-step 1, --metric steps/s)"
    )


def _figures_of_spans(printed: PrintedLog, cell: Cell, was_ended: bool) -> TimedWork:
    """Return the figures of a log with times of epochs, or of a whole training: each is a row of the window.

    Raises NoFigures where no epoch has a time, or their work is not known. `was_ended`: as in `read_figures`.
    """
    spans = [span for span in printed.spans if span.seconds]
    if not spans:
        raise NoFigures("its log has rates of epochs without their times; " + _no_figures_text(cell))
    if was_ended and len(spans) == 1:
        raise NoFigures(f"its log has the time of its first epoch alone; {LONGER}")
    if cell.work.seconds is not None and len(spans) > 1:
        # Runs then differ in their epochs: the first epoch, a slower one, would weigh more in some.
        spans = spans[1:]
    unit, amounts = _work_of_spans(spans, cell, printed.rate_of)
    rows = step_rows([span.seconds or 0.0 for span in spans], amounts, [span.loss for span in spans])
    return TimedWork(log=printed, unit=unit, rows=rows, window=[], per_step=None)


def _work_of_spans(spans: Sequence[PrintedSpan], cell: Cell, rate_of: str | None) -> tuple[WorkUnit, list[int]]:
    """Return the unit of work, and the amount of work in each of `spans` (epochs). Raises NoFigures.

    It is the printed amount, else the campaign's work of its steps, else one epoch. `rate_of`: whether the program is
    known to print the rate of a "device", or of "all".
    """
    devices = cell.execution.geometry.n_devices if (cell.workload.rate_of or rate_of) == "device" else 1
    printed_amounts: dict[WorkUnit, list[float]] = {"tokens": [], "samples": []}
    for span in spans:
        seconds_of_rate = devices * (span.seconds or 0.0)  # the time by which a printed rate is multiplied
        printed_amounts["tokens"].append(span.tokens or (span.tokens_per_s or 0.0) * seconds_of_rate)
        printed_amounts["samples"].append((span.samples_per_s or 0.0) * seconds_of_rate)
    for unit, amounts in printed_amounts.items():
        if all(amounts):
            return unit, [max(1, round(amount)) for amount in amounts]

    given = cell.workload.per_step
    if given and all(span.steps for span in spans):
        return given.unit, [(span.steps or 1) * (cell.per_step or 1) for span in spans]
    if all(span.epoch is not None for span in spans) and (given is None or given.unit == "steps"):
        return "epochs", [1] * len(spans)
    raise NoFigures(
        "its log has times of whole epochs, and not how many steps they have; give no workload.per_step and compare "
        "epochs/s, or print a rate, or time whole runs (figures: whole)"
    )
