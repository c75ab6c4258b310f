"""Lines of steps that no reader knows, whose times have a unit: "it 7 dt 36 ms", "step 7 | 36 ms/step"."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from scaleproof.ground.records.printed_log import PrintedLog, PrintedStep
from scaleproof.measure.command.progress import FEWEST

NUMBER = r"(\d[\d,]*(?:\.\d+)?)"
STEP = re.compile(r"\b(?<!/)(?:step|iter|iteration|it|batch)\b[ #:=\[]{1,3}(\d+)", re.IGNORECASE)
LOSS = re.compile(r"\bloss[ :=]{1,3}(\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf)\b", re.IGNORECASE)
TIME = re.compile(
    rf"\b(?P<key>(?:dt|time|took)[ :=]{{1,3}})?(?<![\d.,]){NUMBER} ?(ms|s)\b(?(key)|/(?:step|iter|iteration|it)\b)",
    re.IGNORECASE,
)
SAME_WORK = 1.1  # amounts of work that are this many times apart may be one, rounded
SHARE_OF_CLOCK = (0.3, 1.1)  # least and most that printed times add up to, as a part of the time between their lines


def read_lines_with_units(lines: Sequence[str], arrivals: Sequence[float]) -> PrintedLog | None:
    """Return the log of lines with the number of a step and its time, or None where these are no times of single steps.

    A printed "time" may run from the start, or be the time of several steps. It is a step's if every step has a line,
    some times are shorter than the time before, and their sum is what the clock saw. `arrivals`: when the launcher
    received each line.
    """
    steps = list(_find_steps(lines))
    if len(steps) < FEWEST or not _are_times_of_steps(steps, arrivals):
        return None
    return PrintedLog("units", steps=steps)


def with_times_beside_rates(printed: PrintedLog, lines: Sequence[str]) -> PrintedLog:
    """Return a log of rates with the times that its lines print beside them, where all are of one amount of work.

    Rate x time is that amount; of a time that runs from the start it would grow.
    """
    seconds = {step.line: step.seconds for step in _find_steps(lines)}
    steps = [replace(step, seconds=step.seconds or seconds.get(step.line)) for step in printed.steps]
    works = [(step.seconds or 0.0) * (step.tokens_per_s or step.samples_per_s or 0.0) for step in steps]
    is_one_work = len(works) >= FEWEST and 0 < max(works) <= SAME_WORK * min(works)
    return replace(printed, steps=steps) if is_one_work else printed


def _find_steps(lines: Sequence[str]) -> Iterator[PrintedStep]:
    """Yield a step for each line that has the number of a step and a time."""
    for number, line in enumerate(lines, start=1):
        step, time = STEP.search(line), TIME.search(line)
        if not step or not time:
            continue
        loss = LOSS.search(line)
        seconds_per_unit = 1e-3 if time[3].lower() == "ms" else 1.0
        yield PrintedStep(
            step=int(step[1]),
            line=number,
            seconds=float(time[2].replace(",", "")) * seconds_per_unit,
            loss=float(loss[1]) if loss else None,
        )


def _are_times_of_steps(steps: Sequence[PrintedStep], arrivals: Sequence[float]) -> bool:
    """Return whether the times are of single steps, by the rule of `read_lines_with_units`."""
    numbers = [step.step for step in steps]
    times = [step.seconds or 0.0 for step in steps]
    first_line, last_line = steps[0].line or 1, steps[-1].line or 1
    has_line_of_every_step = all(after == before + 1 for before, after in pairwise(numbers))
    runs_from_start = times == sorted(times)
    if not has_line_of_every_step or runs_from_start or last_line > len(arrivals):
        return False
    clock_s = arrivals[last_line - 1] - arrivals[first_line - 1]  # the time of all steps but the first
    low, high = SHARE_OF_CLOCK
    return low * clock_s <= sum(times[1:]) <= high * clock_s
