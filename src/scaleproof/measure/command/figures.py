"""From what a program printed to the rows of steps.csv: which of its steps count, and how much work each is."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

import numpy as np

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.command import Patterns
from scaleproof.ground.errors import plural
from scaleproof.ground.number_format import integer
from scaleproof.ground.records.evidence import WorkUnit
from scaleproof.ground.records.printed_log import PrintedLog, PrintedSpan, PrintedStep, ReadLog
from scaleproof.ground.records.steps import ROW
from scaleproof.ground.records.watched import WatchedRank
from scaleproof.measure.command.progress import Progress, progress

NUMBER_ENDS = ",."  # of a figure at the end of a sentence
LEAST_S = 0.5  # a shorter window says little by the launcher's clock
READER = "scaleproof.watch"


class NoFigures(Exception):
    """Why a run that ended well has no figures: one sentence, with the keys of the campaign that would help."""


@dataclass(frozen=True)
class TimedWork:
    """The figures of a run, as they were read from its `log`."""

    log: PrintedLog
    unit: WorkUnit  # of the work in the column `tokens`
    rows: np.ndarray  # of steps.csv, of dtype ROW
    window: list[PrintedStep]  # the steps that are counted; none where something was timed as a whole
    per_step: float | None  # work of a step in `unit`; None where steps differ, or there are none
    counts_to: int | None = None  # the number up to which the program counts the steps that the launcher timed
    losses_lost: int = 0  # lines, up to the last one, whose loss is NaN or infinite


def read_figures(
    log: Path, cell: Cell, read: ReadLog, arrivals: Sequence[float] = (), was_ended: bool = False
) -> TimedWork:
    """The figures of a run of `cell` whose output is in the file `log`. Raises NoFigures.

    `read`: reads logs of known programs; patterns of the campaign are applied here. `arrivals`: when the launcher
    received each line. They time the steps of a program that counts them and prints nothing else that is understood.
    `was_ended`: by the launcher, before it was done.
    """
    if not log.stat().st_size:
        raise NoFigures(f"it printed nothing{'; give it longer (of ab: --seconds)' if was_ended else ''}")
    printed = _printed(log, cell, read)
    if printed is None:
        counted = None
        if cell.workload.figures == "auto":
            counted = progress(log.read_text("utf-8", "replace").split("\n"), arrivals)
        if counted is None:
            raise NoFigures(_unread(cell))
        return _of_progress(counted, cell)
    devices = cell.execution.geometry.n_devices
    if printed.world_size not in (None, devices):
        raise NoFigures(
            f"its log says {plural(printed.world_size, 'rank')}, and the geometry is {cell.execution.geometry}; use "
            "{devices} in workload.command"
        )
    if printed.runs > 1:
        raise NoFigures(f"its log has {printed.runs} runs, each with steps of its own; one command must train once")
    steps = [step for step in printed.steps if step.seconds or step.tokens_per_s or step.samples_per_s]
    if steps:
        return _of_steps(printed, steps, cell)
    if printed.spans:
        return _of_spans(printed, cell, was_ended)
    raise NoFigures(_unread(cell))


def _printed(log: Path, cell: Cell, read: ReadLog) -> PrintedLog | None:
    """What the file `log` says, by the campaign's patterns or by `read`; None where nothing is understood."""
    figures = cell.workload.figures
    printed = by_patterns(log, figures) if isinstance(figures, Patterns) else read(log, figures)
    if printed is None or not (printed.steps or printed.spans):
        return None
    is_misread = printed.guessed and printed.runs > 1  # numbers of lines, or of epochs, were taken for steps
    return None if is_misread else printed


def _unread(cell: Cell) -> str:
    """The message where no figure was understood."""
    what = "the patterns of workload.figures match no line of its log"
    if not isinstance(cell.workload.figures, Patterns):
        what = "no figure in its log is understood: neither the time of a step nor a rate"
    return (
        f"{what}. Give patterns (workload.figures: {{step_ms: 'time ([\\d.]+)ms'}}; of ab: --pattern step_ms='time "
        "([\\d.]+)ms'), or time whole runs (figures: whole, with work.steps: [50, 150]; of ab: --steps 50 150), with "
        "{steps} in the command"
    )


def by_patterns(log: Path, patterns: Patterns) -> PrintedLog:
    """The steps of a log, as `patterns` match: one for each line with a time or a rate.

    Losses may stand on lines of their own: each step has the last one up to its line.
    """
    search = {name: re.compile(text).search for name, text in patterns.model_dump(exclude_none=True).items()}
    steps: list[PrintedStep] = []
    loss: float | None = None
    for number, line in enumerate(log.read_text("utf-8", "replace").split("\n"), start=1):
        figures = {name: _figure(match[1]) for name, find in search.items() if (match := find(line))}
        loss = figures.get("loss", loss)
        milliseconds, seconds = figures.get("step_ms"), figures.get("step_s")
        step = PrintedStep(
            step=int(figures.get("step") or len(steps)),
            line=number,
            seconds=milliseconds / 1e3 if milliseconds else seconds,
            tokens_per_s=figures.get("tokens_per_s"),
            samples_per_s=figures.get("samples_per_s"),
            loss=loss,
        )
        if step.seconds or step.tokens_per_s or step.samples_per_s:
            steps.append(step)
    return PrintedLog("patterns", steps=steps)


def _figure(text: str) -> float | None:
    """A number as it is printed, with commas between thousands; None where `text` is no number."""
    try:
        return float(text.strip().rstrip(NUMBER_ENDS).replace(",", ""))
    except ValueError:
        return None


def _of_steps(printed: PrintedLog, steps: Sequence[PrintedStep], cell: Cell) -> TimedWork:
    """The figures of a log that has lines about steps; `steps`: those with a time or a rate. Raises NoFigures."""
    unit, per_step = _work_of_a_step(printed, steps, cell)
    devices = _devices_of_a_rate(printed, steps, cell, per_step)
    timed = [replace(step, seconds=_seconds(step, unit, per_step, devices)) for step in steps]
    first = steps[0].step
    warmup_lines = sum(step.step - first < cell.work.warmup_steps for step in timed)
    window = timed[warmup_lines:]
    if not window:
        raise NoFigures(
            f"its {plural(len(steps), 'line')} of steps {first} to {steps[-1].step} are all within the first "
            f"{cell.work.warmup_steps} steps, which are warm-up; let it train longer, or lower work.warmup_steps "
            "(of ab: --warmup-steps)"
        )
    rows = []
    for number, step in enumerate(timed):
        phase = "warmup" if number < warmup_lines else "window"
        amount = _amount(step, unit, per_step, devices)
        rows.append((phase, number, 0, step.seconds, 0.0, _loss(step.loss), 1, amount))  # of rank 0; no wait is known
    return TimedWork(printed, unit, np.array(rows, ROW), window, per_step, losses_lost=lost([s.loss for s in timed]))


def lost(losses: Sequence[float | None]) -> int:
    """The number of losses, from the last one back, that are NaN or infinite. None: of a line that has none."""
    seen = [loss for loss in losses if loss is not None]
    return sum(1 for _ in takewhile(lambda loss: not math.isfinite(loss), reversed(seen)))


def _work_of_a_step(printed: PrintedLog, steps: Sequence[PrintedStep], cell: Cell) -> tuple[WorkUnit, float | None]:
    """The unit of work, and how much of it a step is: None where only rate and time of a step tell.

    As the campaign says, else as the log says, tokens before samples. Raises NoFigures where nothing says it.
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
    has = "the time of each step" if all(step.seconds for step in steps) else "a rate without the time of a step"
    raise NoFigures(
        f"its log has {has}, but not how much work a step is: give workload.per_step, e.g. {{tokens: 8192}}, "
        '{samples: "{micro_batch} * {devices}"}, or {steps: 1} to compare steps/s (of ab: --per-step 8192, --metric '
        "steps/s)"
    )


def _devices_of_a_rate(printed: PrintedLog, steps: Sequence[PrintedStep], cell: Cell, per_step: float | None) -> int:
    """The number by which a printed rate is multiplied to be that of all devices: 1, or the number of devices.

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


def _rate(step: PrintedStep, unit: WorkUnit) -> float | None:
    """The printed rate of a step: tokens/s where `unit` is tokens, else samples/s; None where it was not printed."""
    return step.tokens_per_s if unit == "tokens" else step.samples_per_s


def _seconds(step: PrintedStep, unit: WorkUnit, per_step: float | None, devices: int) -> float:
    """Seconds of a step: as printed, else its work `per_step` over its rate times `devices`. Raises NoFigures."""
    if step.seconds:
        return step.seconds
    rate = _rate(step, unit)
    if not rate or per_step is None:
        raise NoFigures(f"the line of step {step.step} has no time and no rate in {unit}/s; give other patterns")
    return per_step / (rate * devices)


def _amount(step: PrintedStep, unit: WorkUnit, per_step: float | None, devices: int) -> int:
    """The work of a step in `unit`, 1 or more: `per_step` where that is known, else rate x `devices` x seconds."""
    if per_step is not None:
        return max(1, round(per_step))
    return max(1, round((_rate(step, unit) or 0.0) * devices * (step.seconds or 0.0)))


def _loss(value: float | None) -> float:
    """A loss as steps.csv has it: NaN where none was printed, or none that is a number."""
    return value if value is not None and math.isfinite(value) else math.nan


def _of_progress(counted: Progress, cell: Cell) -> TimedWork:
    """The figures of a program whose count was timed by the launcher. Raises NoFigures."""
    unit, each = _work_of_a_count(counted, cell)
    done = np.cumsum(counted.amounts)
    is_warmup = done <= cell.work.warmup_steps if done[-1] > cell.work.warmup_steps else np.zeros(len(done), bool)
    is_warmup[0] |= len(done) > 2  # between the first two lines may be an epoch, or a hundred samples
    rows = [
        ("warmup" if early else "window", place, 0, seconds, 0.0, _loss(loss), 1, amount * each)
        for place, (amount, seconds, loss, early) in enumerate(
            zip(counted.amounts, counted.seconds, counted.losses, is_warmup, strict=True)
        )
    ]
    window_s = float(np.sum(counted.seconds, where=~is_warmup))
    if window_s < LEAST_S:
        raise NoFigures(
            f"its log prints no time and no rate, and its lines about {counted.unit} came within {window_s:.2g} s, too "
            "short for the launcher's clock; let it train longer"
        )
    given = float(each) if cell.workload.per_step else None
    log = PrintedLog("progress")
    return TimedWork(log, unit, np.array(rows, ROW), [], given, counted.counts_to, lost(counted.losses))


def _work_of_a_count(counted: Progress, cell: Cell) -> tuple[WorkUnit, int]:
    """The unit of a rate, and how much of it each thing is that lines count. Raises NoFigures.

    As counted, unless the campaign says what a step is, and steps or batches are counted.
    """
    given, amount = cell.workload.per_step, cell.per_step or 1
    if given is None or given.unit in ("steps", counted.unit):
        return counted.unit, 1
    if counted.unit in ("steps", "batches") or amount == 1:
        return given.unit, amount
    to = f" to {integer(counted.counts_to)}" if counted.counts_to else ""
    what = f"{counted.unit}{to}" if counted.unit != "items" else f"something{to} without saying what"
    raise NoFigures(
        f"its log prints no time and no rate, and its lines count {what}: workload.per_step, {given.unit}: {amount} "
        f"for a step, does not say how much each of these is. Give per_step {{{given.unit}: 1}} if it is 1, else "
        "{steps: 1} where A and B count alike (of ab: --per-step 1, --metric steps/s)"
    )


def _of_spans(printed: PrintedLog, cell: Cell, was_ended: bool) -> TimedWork:
    """The figures of a log that has times or rates of epochs, or of its whole training, each a row of the window.

    Programs that may be ended make different numbers of epochs: the first one, which is slower, is then left out.
    Raises NoFigures where none has a time, or their work is not known.
    """
    spans = [span for span in printed.spans if span.seconds]
    if not spans:
        raise NoFigures("its log has rates of epochs without their times; " + _unread(cell))
    if was_ended and len(spans) == 1:
        raise NoFigures("its log has the time of its first epoch alone; let it train longer")
    if cell.work.seconds is not None:
        spans = spans[1:] or spans
    unit = _unit_of_spans(spans, cell)
    devices = cell.execution.geometry.n_devices if (cell.workload.rate_of or printed.rate_of) == "device" else 1
    rows = [
        ("window", place, 0, span.seconds, 0.0, _loss(span.loss), 1, _span_amount(span, unit, devices, cell))
        for place, span in enumerate(spans)
    ]
    return TimedWork(printed, unit, np.array(rows, ROW), [], None)


def _unit_of_spans(spans: Sequence[PrintedSpan], cell: Cell) -> WorkUnit:
    """The unit of work of `spans`: tokens, samples, that of the campaign's steps, or epochs. Raises NoFigures."""
    if all(span.tokens or span.tokens_per_s for span in spans):
        return "tokens"
    if all(span.samples_per_s for span in spans):
        return "samples"
    given = cell.workload.per_step
    if given and all(span.steps for span in spans):
        return given.unit
    if all(span.epoch is not None for span in spans) and (given is None or given.unit == "steps"):
        return "epochs"
    raise NoFigures(
        "its log has times of whole epochs, and not how many steps they have; give no workload.per_step and compare "
        "epochs/s, or print a rate, or time whole runs (figures: whole)"
    )


def _span_amount(span: PrintedSpan, unit: WorkUnit, devices: int, cell: Cell) -> int:
    """The work of a span in `unit`: as printed, else its rate times `devices` and its time, else that of its steps."""
    rate = span.tokens_per_s if unit == "tokens" else span.samples_per_s
    if unit == "epochs":
        return 1
    if span.tokens and unit == "tokens":
        return span.tokens
    if rate:
        return max(1, round(rate * devices * (span.seconds or 0.0)))
    return max(1, (span.steps or 1) * (cell.per_step or 1))


def watched_figures(ranks: Sequence[WatchedRank], cell: Cell) -> TimedWork:
    """The figures of a run of `cell` that was watched, for each step and rank.

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
    if steps <= warmup:
        raise NoFigures(f"{plural(steps, 'step')} were watched, and work.warmup_steps leaves out {warmup} of them")
    rows = np.array([row for rank in ranks for row in _rows(rank, warmup)], ROW)
    has_tokens = all(sum(rank.tokens) for rank in ranks)
    if not has_tokens:  # the column then holds the work in samples
        rows["tokens"] = rows["samples"]
    window = rows[rows["phase"] == "window"]
    log = PrintedLog(READER, world_size=ranks[0].world_size)
    per_step = float(window["tokens"].sum()) / (steps - warmup)
    unit: WorkUnit = "tokens" if has_tokens else "samples"
    losses_lost = lost(ranks[0].losses or [])
    return TimedWork(log, unit, np.sort(rows, order=["step", "rank"]), [], per_step, losses_lost=losses_lost)


def _rows(rank: WatchedRank, warmup: int) -> list[tuple[str, int, int, float, float, float, int, int]]:
    """The steps of a rank as rows of steps.csv; waiting for data is not known, a loss only where it was seen."""
    losses = rank.losses or [math.nan] * len(rank.step_s)
    series = zip(rank.step_s, losses, rank.samples, rank.tokens, strict=True)
    return [
        ("warmup" if step < warmup else "window", step, rank.rank, seconds, 0.0, loss, samples, tokens)
        for step, (seconds, loss, samples, tokens) in enumerate(series)
    ]
