"""What all readers of logs share: figures in lines, restarts, losses that are no numbers."""

import re
from typing import Any, ClassVar

import numpy as np

from scaleproof.auditor.read.logged_steps import Figures, Inside, LoggedStep, as_arrays
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.run_fields import OF_FILE, figure

NUMBER = r"([-+]?(?:[0-9](?:[0-9.,]*[0-9])?(?:[eE][-+]?[0-9]+)?|nan|NaN|inf|Inf|-inf))"
STEP = r"(\d{1,12})"  # more digits are no step
LAUNCH = re.compile(r"(?:torchrun|torch\.distributed\.(?:run|launch)|deepspeed|accelerate launch|mpirun|srun)\b.*")
PROCESSES = re.compile(r"--(?:nproc[_-]per[_-]node|num[_-]gpus|num[_-]processes)[ =](\d{1,5})\b")
NODES = re.compile(r"--(?:nnodes|num[_-]nodes|num[_-]machines)[ =](\d{1,5})\b")


def whole(text: str | None) -> int | None:
    """A whole number of 0 or more in a text."""
    value = figure(text.strip(",.")) if text else None
    return int(value) if value is not None and value == int(value) and value >= 0 else None


def least(a: float | None, b: float | None) -> float | None:
    """The smaller of two figures, of which either may be unknown."""
    return min((v for v in (a, b) if v is not None), default=None)


def share(text: str | None) -> float | None:
    """A percentage as a fraction; None for the -100 % that programs print before they know."""
    value = figure(text) if text else None
    return None if value is None or value < 0 else value / 100


def seconds_of(milliseconds: str | None) -> float | None:
    """Seconds above 0 from a text of milliseconds."""
    value = figure(milliseconds) if milliseconds else None
    return value / 1e3 if value and value > 0 else None


class LogReader:
    """Reads one program's lines. Subclasses say how they look (`mark`), which of them matter, what they mean."""

    mark: ClassVar[str]  # a pattern that only this program's logs have
    looked_at: ClassVar[str]  # a pattern of the lines that `feed` is given
    format: ClassVar[str]
    rate_scope: ClassVar[str | None] = None
    one_line_is_enough = False  # of a quoted log: it has all that says how fast the run was
    peak_flops: ClassVar[float | None] = None  # that the program divides by, whatever the device
    # Of programs with short lines: the usual line of a step with its end, how it opens, and what its groups behind the
    # number of the step are: a column of `StepSeries`, and what to divide by.  Such lines are read many at a time.
    usual: ClassVar[re.Pattern[str] | None] = None
    opening: ClassVar[str] = ""
    columns: ClassVar[tuple[tuple[str, float], ...]] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs = [self._new()]
        self._pending: dict[str, Any] = {}  # what stands before the first step of the next run, if there is one
        self._inside: list[Inside] = []

    @property
    def run(self) -> ReportedRun:
        return self.runs[-1]

    def _new(self) -> ReportedRun:
        run = ReportedRun(self.name, self.format)
        run.rate_scope = self.rate_scope
        run.peak_flops = self.peak_flops
        return run

    def feed(self, number: int, line: str) -> None:
        raise NotImplementedError

    def say(self, field: str, value: Any) -> None:
        """Set a field that a line tells: of this run, or after its steps of the next one in the file, if there is
        one.
        """
        if value is None:
            return
        if self.run.logged_steps:
            self._pending[field] = value
        else:
            setattr(self.run, field, value)

    def launch(self, line: str) -> None:
        """Take the world size of a command line that starts ranks."""
        if (command := LAUNCH.search(line)) and (each := PROCESSES.search(command[0])):
            nodes = NODES.search(command[0])
            self.say("world_size", int(each[1]) * (int(nodes[1]) if nodes else 1))

    def mark_inside(self, what: Inside) -> None:
        """Note something that the next step's time contains."""
        if what not in self._inside:
            self._inside.append(what)

    def step(self, step: LoggedStep, loss: str | None = None) -> None:
        """Add a step; `loss` is its text. A step number like the first one of the run, or below, begins another run."""
        numbers = self.run.logged_steps.step_numbers
        if len(numbers) > 1 and step.step <= numbers[0] and step.step < numbers[-1]:
            self._restart()
        if loss is not None and step.loss is None and loss.lower().lstrip("+-") in ("nan", "inf"):
            self.run.nan_steps.append(step.step)
        if self._inside:
            step.inside = (*step.inside, *self._inside)
            self._inside = []
        self.run.logged_steps.append(step)

    def feed_usual(self, number: int, text: str) -> bool:
        """Read usual lines, of which the first is line `number` of the file; return whether it was done.

        Nothing is read where they are not all usual, where a figure is none, or where a run may start again.
        """
        assert self.usual is not None
        rows = self.usual.findall(text)
        before = self.run.logged_steps.step_numbers
        if len(rows) != text.count("\n") or not before or self._inside:
            return False
        steps, *texts = zip(*rows, strict=True)
        numbers = list(map(int, steps))
        if min(numbers) <= before[0]:
            return False
        figures: dict[str, Figures] = {}
        for (name, divisor), printed in zip(self.columns, texts, strict=True):
            # A group that is optional may be empty.
            cells = [text or "nan" for text in printed] if "" in printed else printed
            column = np.array(cells, dtype=np.float64) / divisor
            if name != "loss":
                column[(column < 0) | ((column == 0) & (name != "mfu"))] = np.nan
            figures[name] = column
        self.run.logged_steps.extend(numbers, number, as_arrays(figures))
        return True

    def _restart(self) -> None:
        """Begin another run, which has the settings of its file, and what was said since the last step."""
        before = self.run
        self.runs.append(self._new())
        for field in OF_FILE:
            setattr(self.run, field, getattr(before, field))
        self.run.details = {k: v for k, v in before.details.items() if k in ("tokens_per_step",)}
        for field, value in self._pending.items():
            setattr(self.run, field, value)
        self._pending = {}

    def finish(self) -> list[ReportedRun]:
        """Return the runs of the file, numbered where there are several."""
        for field, value in self._pending.items():
            if getattr(self.run, field) is None:
                setattr(self.run, field, value)
        for k, run in enumerate(self.runs):
            if len(self.runs) > 1:
                run.name = f"{self.name}#{k + 1}"
                run.details["restart"] = f"run {k + 1} of {len(self.runs)} in one file: the steps start again"
            if run.nan_steps:
                run.details["nan_steps"] = len(run.nan_steps)
        return self.runs
