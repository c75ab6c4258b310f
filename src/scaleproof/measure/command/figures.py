"""From what a program printed to the rows of steps.csv: which of its steps count, and how much work each is."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from pathlib import Path

import numpy as np

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.command import Patterns
from scaleproof.ground.errors import plural, shortened
from scaleproof.ground.number_format import integer
from scaleproof.ground.records.evidence import WorkUnit
from scaleproof.ground.records.printed_log import PrintedLog, PrintedSpan, PrintedStep, ReadLog
from scaleproof.ground.records.steps import ROW
from scaleproof.ground.records.watched import NEVER_STEPPED, WatchedRank
from scaleproof.measure.command.lines_with_units import read_lines_with_units
from scaleproof.measure.command.progress import FEWEST, Count, Progress, find_progress, progress_between

NUMBER_ENDS = ",."  # of a figure at the end of a sentence
LEAST_S = 0.5  # a shorter window says little by the launcher's clock
FEW_LINES = 100  # who has printed so many says no more in a longer run
LONGER = "let it train longer"  # in messages on programs that were ended too early


class NoFigures(Exception):
    """Raised where a run that ended well has no figures; says why, and which keys of the campaign would help."""


@dataclass(frozen=True)
class TimedWork:
    """The figures of a run, as they were read from its `log`."""

    log: PrintedLog
    unit: WorkUnit  # of the work in the column `tokens`
    rows: np.ndarray  # of steps.csv, of dtype ROW
    window: list[PrintedStep]  # its printed steps; none where they were counted, watched, or timed as a whole
    per_step: float | None  # work of a step in `unit`; None where steps differ, or there are none
    counts_to: int | None = None  # the number up to which the program counts the steps that the launcher timed
    losses_lost: int = 0  # lines, up to the last one, whose loss is NaN or infinite


def read_figures(
    log: Path, cell: Cell, read: ReadLog, arrivals: Sequence[float] = (), was_ended: bool = False
) -> TimedWork:
    """Return the figures of a run of `cell` whose output is in the file `log`. Raises NoFigures.

    `read`: reads logs of known programs. `arrivals`: when the launcher received each line, which times the steps of a
    program that only counts them. `was_ended`: by the launcher, before the program was done.
    """
    if not log.stat().st_size:
        raise NoFigures(f"it printed nothing{f'; {LONGER} (of ab: --seconds)' if was_ended else ''}")
    figures = cell.workload.figures
    lines = log.read_text("utf-8", "replace").split("\n")
    printed = read_by_patterns(lines, figures) if isinstance(figures, Patterns) else _read_log(log, figures, read)
    if figures == "auto" and not _steps_with_time(printed) and not printed.spans:
        printed = read_lines_with_units(lines, arrivals) or printed
    steps = _steps_with_time(printed)
    if not steps and not printed.spans:
        return _figures_by_arrivals(printed, lines, arrivals, cell, was_ended)
    devices = cell.execution.geometry.n_devices
    if printed.world_size not in (None, devices):
        raise NoFigures(
            f"its log says {plural(printed.world_size, 'rank')}, and the geometry is {cell.execution.geometry}; use "
            "{devices} in workload.command"
        )
    if printed.runs > 1:
        raise NoFigures(f"its log has {printed.runs} runs, each with steps of its own; one command must train once")
    return _figures_of_steps(printed, steps, cell) if steps else _figures_of_spans(printed, cell, was_ended)


def _figures_by_arrivals(
    printed: PrintedLog, lines: Sequence[str], arrivals: Sequence[float], cell: Cell, was_ended: bool
) -> TimedWork:
    """Return the figures of a log without a time or a rate: its steps, timed by the launcher. Raises NoFigures."""
    is_auto = cell.workload.figures == "auto"
    counted = find_progress(lines, arrivals) if is_auto else _progress_of_steps(printed.steps, arrivals)
    seen = [line.strip() for line in lines if line.strip()]
    if counted:
        return _figures_of_progress(counted, cell, seen[-1])
    few = f"; {LONGER}: it had printed {plural(len(seen), 'line')}" if was_ended and len(seen) < FEW_LINES else ""
    raise NoFigures(_no_figures_text(cell, seen[-1] if seen else "") + few)


def _steps_with_time(printed: PrintedLog) -> list[PrintedStep]:
    """Return the steps of a log that have a time or a rate."""
    return [step for step in printed.steps if step.seconds or step.tokens_per_s or step.samples_per_s]


def _progress_of_steps(steps: Sequence[PrintedStep], arrivals: Sequence[float]) -> Progress | None:
    """Return the progress of `steps` that have a number alone, timed by `arrivals`; None for fewer than three."""
    seen = [(step.line - 1, step) for step in steps if step.line and step.line <= len(arrivals)]  # line 1: place 0
    if len({step.step for _, step in seen}) < FEWEST:
        return None
    counts = [(place, Count(step.step, None, "steps")) for place, step in seen]
    return progress_between(counts, {place: step.loss for place, step in seen}, arrivals)


def step_rows(
    seconds: Sequence[float],
    amounts: Sequence[int],
    losses: Sequence[float | None],
    warmup: Sequence[bool] | None = None,
) -> np.ndarray:
    """Return the rows of steps.csv of one process. `warmup`: for each step, whether it belongs to the warm-up.

    Waiting for data is unknown, and stands as 0. A loss that was not printed, or is infinite, is NaN.
    """
    finite = [math.nan if loss is None or not math.isfinite(loss) else loss for loss in losses]
    rows = zip(seconds, amounts, finite, warmup or [False] * len(seconds), strict=True)
    return np.array(
        [
            ("warmup" if early else "window", step, 0, time, 0.0, loss, 1, amount)
            for step, (time, amount, loss, early) in enumerate(rows)
        ],
        ROW,
    )


def _read_log(log: Path, reader: str, read: ReadLog) -> PrintedLog:
    """Read the file `log` by `reader`; a log without steps where no line is understood."""
    printed = read(log, reader)
    is_misread = printed and printed.guessed and printed.runs > 1  # numbers of lines, or of epochs, taken for steps
    return PrintedLog(reader) if printed is None or is_misread else printed


def _no_figures_text(cell: Cell, last: str = "") -> str:
    """Return the message that no figure was understood, and what to do. `last`: the last line of the log."""
    what = "the patterns of workload.figures match no line of its log"
    if not isinstance(cell.workload.figures, Patterns):
        what = "no figure in its log is understood: no time of a step, no rate, and no count"
    ending = f" (its last line: {shortened(last, 80)})" if last else ""
    return (
        f"{what}{ending}. Give patterns (workload.figures: {{step: 'it (\\d+)'}}; of ab: --pattern step='it (\\d+)', "
        "or of step_ms, tokens_per_s, ...), or time whole runs (figures: whole, with work.steps: [50, 150]; of ab: "
        "--steps 50 150), with {steps} in the command"
    )


def read_by_patterns(lines: Sequence[str], patterns: Patterns) -> PrintedLog:
    """Return a log with a step for each of `lines` in which `patterns` find a time, a rate or a step.

    Losses may stand on lines of their own: each step has the last one up to its line.
    """
    search = {name: re.compile(text).search for name, text in patterns.model_dump(exclude_none=True).items()}
    steps: list[PrintedStep] = []
    loss: float | None = None
    for number, line in enumerate(lines, start=1):
        figures = {name: _printed_number(match[1]) for name, find in search.items() if (match := find(line))}
        loss = figures.get("loss", loss)
        milliseconds, seconds = figures.get("step_ms"), figures.get("step_s")
        step = PrintedStep(
            step=int(figures.get("step") or len(steps)),  # without a number the lines are counted
            line=number,
            seconds=milliseconds / 1e3 if milliseconds else seconds,
            tokens_per_s=figures.get("tokens_per_s"),
            samples_per_s=figures.get("samples_per_s"),
            loss=loss,
        )
        if step.seconds or step.tokens_per_s or step.samples_per_s or "step" in figures:
            steps.append(step)
    return PrintedLog("patterns", steps=steps)


def _printed_number(text: str) -> float | None:
    """Return a printed number, with any commas between thousands; None where `text` is no number."""
    try:
        return float(text.strip().rstrip(NUMBER_ENDS).replace(",", ""))
    except ValueError:
        return None


def _figures_of_steps(printed: PrintedLog, steps: Sequence[PrintedStep], cell: Cell) -> TimedWork:
    """Return the figures of a log with lines about steps. Raises NoFigures.

    `steps`: those with a time or a rate. A step without a time has that of its work by its rate.
    """
    unit, per_step = _work_per_step(printed, steps, cell)
    factor = _rate_factor(printed, steps, cell, per_step)
    timed: list[PrintedStep] = []
    amounts: list[int] = []
    for step in steps:
        printed_rate = step.tokens_per_s if unit == "tokens" else step.samples_per_s
        rate = factor * (printed_rate or 0.0)  # of all devices; 0: unknown
        seconds = step.seconds or (per_step / rate if rate and per_step else None)
        if seconds is None:
            raise NoFigures(f"the line of step {step.step} has no time and no rate in {unit}/s; give other patterns")
        timed.append(replace(step, seconds=seconds))
        amounts.append(max(1, round(rate * seconds if per_step is None else per_step)))
    first, warmup_steps = steps[0].step, cell.work.warmup_steps
    warmup = [step.step - first < warmup_steps for step in timed]
    window = timed[sum(warmup) :]  # the warm-up comes first
    if not window:
        raise NoFigures(
            f"its {plural(len(steps), 'line')} of steps {first} to {steps[-1].step} are all within the first "
            f"{warmup_steps} steps, which are warm-up; {LONGER}, or lower work.warmup_steps (of ab: --warmup-steps)"
        )
    losses = [step.loss for step in timed]
    rows = step_rows([step.seconds or 0.0 for step in timed], amounts, losses, warmup)
    return TimedWork(printed, unit, rows, window, per_step, losses_lost=count_lost_at_end(losses))


def count_lost_at_end(losses: Sequence[float | None]) -> int:
    """Return how many losses at the end are NaN or infinite, with no finite one after them; None is no loss."""
    seen = [loss for loss in losses if loss is not None]
    return sum(1 for _ in takewhile(lambda loss: not math.isfinite(loss), reversed(seen)))


def _work_per_step(printed: PrintedLog, steps: Sequence[PrintedStep], cell: Cell) -> tuple[WorkUnit, float | None]:
    """Return the unit of work, and how much of it a step is: None where steps differ, each with a time and a rate.

    Both are what the campaign says, else what the log says; of a log with tokens and samples, tokens. Raises NoFigures
    where neither says it.
    """
    given = cell.workload.per_step
    if given:
        return given.unit, float(cell.per_step or 1)
    if printed.tokens_per_step:
        return "tokens", printed.tokens_per_step
    if all(step.seconds and step.tokens_per_s for step in steps):
        return "tokens", None
    if printed.samples_per_step:
        return "samples", float(printed.samples_per_step)
    if all(step.seconds and step.samples_per_s for step in steps):
        return "samples", None
    last = steps[-1]
    seen = {"s a step": last.seconds, "tokens/s": last.tokens_per_s, "samples/s": last.samples_per_s, "loss": last.loss}
    has = ", ".join(f"{value:.4g} {name}" for name, value in seen.items() if value is not None)
    what = f"its log has figures of {plural(len(steps), 'step')} (the last: {has}), but not how much work a step is"
    rate = "tokens" if last.tokens_per_s else "samples" if last.samples_per_s else ""
    if rate and not last.seconds:  # a rate alone: its steps have no time that could be counted
        metric = " --metric samples/s" if rate == "samples" else ""
        raise NoFigures(
            f"{what}, which gives its time: give workload.per_step, e.g. {{{rate}: 8192}} (of ab:{metric} --per-step "
            f"with A's {rate} of a step and B's)"
        )
    raise NoFigures(
        f"{what}: give "
        'workload.per_step, e.g. {tokens: 8192}, {samples: "{micro_batch} * {devices}"}, or {steps: 1} to compare '
        "steps/s (of ab: --metric steps/s if a step of A is as much work as one of B, else --per-step with A's tokens "
        "and B's)"
    )


def _rate_factor(printed: PrintedLog, steps: Sequence[PrintedStep], cell: Cell, per_step: float | None) -> int:
    """Return what a printed rate must be multiplied with for that of all devices: 1, or the number of devices.

    Raises NoFigures where the log has a rate and nothing says whose it is.
    """
    devices = cell.execution.geometry.n_devices
    rate_of = cell.workload.rate_of or printed.rate_of  # "all" or "device"
    no_rate_needed = per_step and all(step.seconds for step in steps)
    if devices == 1 or rate_of == "all" or no_rate_needed:
        return 1
    if rate_of is None:
        raise NoFigures(
            f"its log has a rate, and not whether it is that of one device or of all {devices}: give workload.rate_of "
            "(all, device)"
        )
    return devices


def _figures_of_progress(counted: Progress, cell: Cell, last: str) -> TimedWork:
    """Return the figures of a program whose count the launcher timed. `last`: the log's last line. Raises NoFigures."""
    unit, amount_of_one = _work_per_count(counted, cell)
    done, warmup_steps = np.cumsum(counted.amounts), cell.work.warmup_steps
    is_warmup = (done <= warmup_steps) & (done[-1] > warmup_steps)  # none, where all would be
    is_warmup[0] |= len(done) > 2  # however much it is: what is counted may be epochs, or samples
    window_s = float(np.sum(counted.seconds, where=~is_warmup))
    if window_s < LEAST_S:
        raise NoFigures(
            f"no time and no rate in its log is understood (its last line: {shortened(last, 80)}), and its lines about "
            f"{counted.unit} came within {window_s:.2g} s, too short for the launcher's clock. Give patterns (of ab: "
            f"--pattern step_ms='time ([0-9.]+) ms'), or {LONGER}"
        )
    amounts = [amount * amount_of_one for amount in counted.amounts]
    rows = step_rows(counted.seconds, amounts, counted.losses, is_warmup.tolist())
    per_step = float(amount_of_one) if cell.workload.per_step else None
    lost = count_lost_at_end(counted.losses)
    return TimedWork(PrintedLog("progress"), unit, rows, [], per_step, counted.counts_to, losses_lost=lost)


def _work_per_count(counted: Progress, cell: Cell) -> tuple[WorkUnit, int]:
    """Return the unit of a rate, and how much work each counted thing is. Raises NoFigures if that is not known.

    The unit is what was counted, unless the campaign says how much work a step is, and steps are counted: by their
    word, or because the number does not rise by multiples of that work, and so cannot count the work itself.
    """
    given, amount = cell.workload.per_step, cell.per_step or 1
    if given is None or given.unit in ("steps", counted.unit):
        return counted.unit, 1
    if counted.unit in ("steps", "batches") or amount == 1 or int(np.median(counted.amounts)) % amount:
        return given.unit, amount
    to = f" to {integer(counted.counts_to)}" if counted.counts_to else ""
    what = f"{counted.unit}{to}" if counted.unit != "items" else f"something{to} without saying what"
    raise NoFigures(
        f"its log prints no time and no rate, and its lines count {what}: workload.per_step, {given.unit}: {amount} "
        f"for a step, does not say how much each of these is. Give per_step {{{given.unit}: 1}} if it is 1, else "
        "{steps: 1} where A and B count alike (of ab: --per-step 1, --metric steps/s)"
    )


def _figures_of_spans(printed: PrintedLog, cell: Cell, was_ended: bool) -> TimedWork:
    """Return the figures of a log with times of epochs, or of a whole training; each is a row of the window.

    Raises NoFigures where none has a time, or their work is not known.
    """
    spans = [span for span in printed.spans if span.seconds]
    if not spans:
        raise NoFigures("its log has rates of epochs without their times; " + _no_figures_text(cell))
    if was_ended and len(spans) == 1:
        raise NoFigures(f"its log has the time of its first epoch alone; {LONGER}")
    if (
        cell.work.seconds is not None
    ):  # runs then differ in their epochs: the first, a slower one, would weigh more in some
        spans = spans[1:] or spans
    unit, amounts = _work_of_spans(spans, cell, printed.rate_of)
    rows = step_rows([span.seconds or 0.0 for span in spans], amounts, [span.loss for span in spans])
    return TimedWork(printed, unit, rows, [], None)


def _work_of_spans(spans: Sequence[PrintedSpan], cell: Cell, rate_of: str | None) -> tuple[WorkUnit, list[int]]:
    """Return the unit of work and how much each of `spans` is: as printed, by the campaign's steps, or one epoch.

    `rate_of`: whose rate the program is known to print. Raises NoFigures.
    """
    is_of_device = (cell.workload.rate_of or rate_of) == "device"
    factor = cell.execution.geometry.n_devices if is_of_device else 1
    seconds = [
        factor * (span.seconds or 0.0) for span in spans
    ]  # in which a printed rate gives the work of all devices
    printed: dict[WorkUnit, list[float]] = {
        "tokens": [span.tokens or (span.tokens_per_s or 0.0) * time for span, time in zip(spans, seconds, strict=True)],
        "samples": [(span.samples_per_s or 0.0) * time for span, time in zip(spans, seconds, strict=True)],
    }
    for unit, amounts in printed.items():
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


def figures_of_watched_run(ranks: Sequence[WatchedRank], cell: Cell) -> TimedWork:
    """Return the figures of a run of `cell` that was watched: a row for each step and rank.

    Raises NoFigures where ranks are missing, or no step is left after the warm-up.
    """
    devices = cell.execution.geometry.n_devices
    if len(ranks) != devices:
        raise NoFigures(
            f"{plural(len(ranks), 'rank')} left a record of scaleproof.watch, and the geometry is "
            f"{cell.execution.geometry}; use {{devices}} in workload.command"
        )
    warmup = cell.work.warmup_steps
    steps = min(len(rank.step_s) for rank in ranks)
    forwards = max(rank.forwards or 0 for rank in ranks)
    if not steps and forwards:
        raise NoFigures(
            f"scaleproof.watch saw {forwards} forward passes in training, and no step of the optimizer: {NEVER_STEPPED}"
        )
    if steps <= warmup:
        raise NoFigures(
            f"scaleproof.watch saw {plural(steps, 'step')}, and {warmup} are warm-up; {LONGER}, or lower "
            "work.warmup_steps (of ab: --warmup-steps)"
        )
    has_tokens = all(sum(rank.tokens) for rank in ranks)
    table = _rows_of_watched(ranks, steps, warmup, has_tokens)
    per_step = float(table["tokens"][table["phase"] == "window"].sum()) / (steps - warmup)
    log = PrintedLog("scaleproof.watch", world_size=ranks[0].world_size)
    lost = count_lost_at_end(ranks[0].losses or [])
    return TimedWork(log, "tokens" if has_tokens else "samples", table, [], per_step, losses_lost=lost)


def _rows_of_watched(ranks: Sequence[WatchedRank], steps: int, warmup: int, has_tokens: bool) -> np.ndarray:
    """Return the rows of steps.csv of watched `ranks`. `has_tokens`: their work is tokens; else samples.

    Waiting for data is not known, a loss only where it was seen. Only `steps` rows count: a rank that was ended may
    have made more.
    """
    rows = []
    for rank in ranks:
        losses = rank.losses or [math.nan] * len(rank.step_s)
        works = rank.tokens if has_tokens else rank.samples
        series = islice(zip(rank.step_s, losses, rank.samples, works, strict=False), steps)
        for step, (seconds, loss, samples, work) in enumerate(series):
            phase = "warmup" if step < warmup else "window"
            rows.append((phase, step, rank.rank, seconds, 0.0, loss, samples, work))
    return np.sort(np.array(rows, ROW), order=["step", "rank"])
