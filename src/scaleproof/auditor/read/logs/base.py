"""What all readers of logs share: figures in lines, restarts, losses that are no numbers."""

import re
from typing import Any, ClassVar

from scaleproof.auditor.read.logged_steps import LoggedStep
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.run_fields import OF_FILE, figure

NUMBER = r"([-+]?(?:[0-9](?:[0-9.,]*[0-9])?(?:[eE][-+]?[0-9]+)?|nan|NaN|inf|Inf|-inf))"
STEP = r"(\d{1,12})"  # more digits are no step
LAUNCH = re.compile(r"(?:torchrun|torch\.distributed\.(?:run|launch)|deepspeed|accelerate launch|mpirun|srun)\b.*")
PROCESSES_PER_NODE = re.compile(r"--(?:nproc[_-]per[_-]node|num[_-]gpus|num[_-]processes)[ =](\d{1,5})\b")
# A bar of training: "Epoch 1: 30%|###  | 30/100 [00:10<00:23, 2.98it/s]". Others have other words in front.
BAR = re.compile(
    r"\W*(?:(?:train|epoch|step|iter|batch)[^|<]{0,200})?(?:\d+%\|[^|]*\|)? *\d+/(?P<of>\d+) "
    r"\[\d[\d:]*<[^\]]*?(?P<rate>\d+(?:\.\d+)?) ?(?:(?P<steps>it|step|batch|iter)/s|s/(?:it|step|batch|iter))\b",
    re.IGNORECASE,
)
NODES = re.compile(r"--(?:nnodes|num[_-]nodes|num[_-]machines)[ =](\d{1,5})\b")


def whole_number(text: str | None) -> int | None:
    """Return a whole number of 0 or more: "1,024." -> 1024. None for other texts."""
    value = figure(text.strip(",.")) if text else None
    return int(value) if value is not None and value == int(value) and value >= 0 else None


def least(a: float | None, b: float | None) -> float | None:
    """Return the smaller of two figures, of which either may be unknown."""
    return min((value for value in (a, b) if value is not None), default=None)


def share(text: str | None) -> float | None:
    """Return a percentage as a fraction: "47.8" -> 0.478. None for the -100 % that programs print before they know."""
    value = figure(text) if text else None
    return None if value is None or value < 0 else value / 100


def seconds_of(milliseconds: str | None) -> float | None:
    """Return seconds above 0 from a text of milliseconds: "989.4" -> 0.9894."""
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

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs = [self._new()]
        self._bars_count_to = ""  # "1000" of "10/1000"
        self._pending: dict[str, Any] = {}  # what stands before the first step of the next run, if there is one

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
        """Set a field that a line states: of this run, or behind its steps of the next one in the file, if any."""
        if value is None:
            return
        if self.run.logged_steps:
            self._pending[field] = value
        else:
            setattr(self.run, field, value)

    def bar(self, line: str) -> bool:
        """Take the rate of a progress bar of training. Return whether the line is one.

        Bars that count to another number than the first one are of evaluation, where nothing says what they are of.
        """
        m = BAR.match(line) if "<" in line else None
        self._bars_count_to = self._bars_count_to or (m["of"] if m else "")
        if m and m["of"] == self._bars_count_to and (rate := float(m["rate"])):
            self.run.steps_per_s.append(rate if m["steps"] else 1 / rate)
        return m is not None

    def launch(self, line: str) -> None:
        """Take the world size of a command line that starts ranks."""
        if (command := LAUNCH.search(line)) and (per_node := PROCESSES_PER_NODE.search(command[0])):
            nodes = NODES.search(command[0])  # "--nnodes 2 --nproc_per_node 8": 16
            self.say("world_size", int(per_node[1]) * (int(nodes[1]) if nodes else 1))

    def step(self, step: LoggedStep, loss: str | None = None) -> None:
        """Add a step; a number not above the first one begins another run. `loss` is its text: "nan" is counted."""
        numbers = self.run.logged_steps.step_numbers
        if len(numbers) > 1 and step.step <= numbers[0] and step.step < numbers[-1]:
            self._restart()
        if loss is not None and step.loss is None and loss.lower().lstrip("+-") in ("nan", "inf"):
            self.run.nan_steps.append(step.step)
        self.run.logged_steps.append(step)

    def _restart(self) -> None:
        """Begin another run, with the settings of its file and what lines have stated since the last step."""
        before = self.run
        self.runs.append(self._new())
        for field in OF_FILE:
            setattr(self.run, field, getattr(before, field))
        if "tokens_per_step" in before.details:
            self.run.details["tokens_per_step"] = before.details["tokens_per_step"]
        for field, value in self._pending.items():
            setattr(self.run, field, value)
        self._pending = {}

    def finish(self) -> list[ReportedRun]:
        """Return the runs of the file, numbered where there are several: "train.log#1", "train.log#2"."""
        for field, value in self._pending.items():
            if getattr(self.run, field) is None:
                setattr(self.run, field, value)
        for k, run in enumerate(self.runs):
            if len(self.runs) > 1:
                run.name = f"{self.name}#{k + 1}"
            if run.nan_steps:
                run.details["nan_steps"] = len(run.nan_steps)
        return self.runs
