"""Dialects of logs as data: patterns of lines in which `{name}` stands for a figure or a word.

A dialect says how the line of a step looks, and which lines say something about the run. Any other line may be the
command that started the ranks.
"""

import re
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any, ClassVar, NamedTuple

from scaleproof.auditor.read.logged_steps import LoggedStep
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.run_fields import FIELDS, OF_FILE, figure, not_finite

ARGUMENTS = {word: name for name, entry in FIELDS.items() for word in entry.words}
NUMBER = r"([-+]?(?:[0-9](?:[0-9.,]*[0-9])?(?:[eE][-+]?[0-9]+)?|nan|NaN|inf|Inf|-inf))"
STEP = r"(\d{1,12})"  # more digits are no step
A100_BF16 = 312e12  # FLOP/s, the peak that programs take for any device
LAUNCH = re.compile(r"(?:torchrun|torch\.distributed\.(?:run|launch)|deepspeed|accelerate launch|mpirun|srun)\b.*")
PROCESSES_PER_NODE = re.compile(r"--(?:nproc[_-]per[_-]node|num[_-]gpus|num[_-]processes)[ =](\d{1,5})\b")
# A bar of training: "Epoch 1: 30%|###  | 30/100 [00:10<00:23, 2.98it/s]". Others have other words in front.
BAR = re.compile(
    r"\W*(?:(?:train|epoch|step|iter|batch)[^|<]{0,200})?(?:\d+%\|[^|]*\|)? *(?P<at>\d{1,12})/(?!1 )(?P<of>\d{1,12}) "
    r"\[\d[\d:]*<[^\]]*?(?<![\d.])(?P<rate>\d{1,5}(?:\.\d+)?) ?"  # a download makes millions
    r"(?:(?P<steps>it|step|batch|iter)/s|s/(?:it|step|batch|iter))\b",
    re.IGNORECASE,
)
NODES = re.compile(r"--(?:nnodes|num[_-]nodes|num[_-]machines)[ =](\d{1,5})\b")


def whole_number(text: str | None) -> int | None:
    """Return a whole number of 0 or more: "1,024." -> 1024. None for other texts."""
    value = figure(text.strip(",.")) if text else None
    return int(value) if value is not None and value == int(value) and value >= 0 else None


def share(text: str | None) -> float | None:
    """Return a percentage as a fraction: "47.8" -> 0.478. None for -100 %, which programs print before they know."""
    value = figure(text) if text else None
    return None if value is None or value < 0 else value / 100


def seconds_of(milliseconds: str | None) -> float | None:
    """Return seconds from a text of milliseconds: "989.4" -> 0.9894. None for other texts, and for 0 and less."""
    value = figure(milliseconds) if milliseconds else None
    return value / 1e3 if value and value > 0 else None


ReaderOfText = Callable[[str], Any]
NAME_IN_BRACES = re.compile(r"\{([a-z]\w*)\}")


class Name(NamedTuple):
    """What a name stands for: the field of a step or of a run, how its text is read, and how it looks."""

    field: str
    read: ReaderOfText = figure
    pattern: str = NUMBER


def _times(factor: float) -> ReaderOfText:
    """Return a reader that multiplies figures by `factor`. It returns None for 0 and for texts without a figure."""
    return lambda text: (figure(text) or 0.0) * factor or None


def _count(text: str) -> int | None:
    return whole_number(text) or None


def _devices_of_mesh(sizes: str) -> int | None:
    """Return the number of devices in a mesh, the product of its sizes: "2, 4" -> 8. None for 0."""
    limited_sizes = (min(int(size), 10**6) for size in sizes.split(",")[:5] if size.strip())  # a line may be damaged
    return prod(limited_sizes) or None


def _number_of_paths(paths: str) -> int | None:
    """Return the number of devices in TensorFlow's list of them: "['/gpu:0', '/gpu:1']" -> 2. None for others."""
    return paths.count("/gpu:") or paths.count("/cpu:") or None


OF_STEPS = {
    "step": Name("step", int, STEP),
    "loss": Name("loss"),
    "ms": Name("seconds", seconds_of),
    "s": Name("seconds", lambda text: max(figure(text) or 0.0, 0.0) or None),
    "tokens_per_s": Name("tokens_per_s"),
    "samples_per_s": Name("samples_per_s"),
    "tflops": Name("flops_per_s", _times(1e12)),
    "mfu": Name("mfu", share),
}
OF_RUNS = {
    "world_size": Name("world_size", _count, STEP),
    "mesh": Name("world_size", _devices_of_mesh, r"([\d, ]+)"),
    "micro_batch": Name("micro_batch", _count),
    "global_batch": Name("global_batch", _count),
    "seq_len": Name("seq_len", _count),
    "accumulation": Name("accumulation", _count),
    "tokens_per_step": Name("tokens_per_step", whole_number),
    "total_steps": Name("total_steps", whole_number),
    "dataset_samples": Name("dataset_samples", _count),
    "parameters": Name("parameters"),
    "parameters_m": Name("parameters", _times(1e6)),
    "parameters_b": Name("parameters", _times(1e9)),
    "precision": Name("precision", str, r"(\w+)"),
    "device": Name("device", str, "(.+?)"),
    "paths_of_devices": Name("world_size", _number_of_paths, "(.*)"),
    "model": Name("model", str, r"(\S+)"),
    "dataset": Name("dataset", str, r"(\S.*?)"),
    "peak_flops": Name("peak_flops"),
    "fallback_peak": Name("peak_flops", {"A100": A100_BF16}.get, "(A100)"),
    "memory_gib": Name("memory_reported_bytes", _times(2**30)),
    "memory_gb": Name("memory_reported_bytes", _times(1e9)),
    "val_loss": Name("best_val_loss"),
}


class Line:
    """A pattern with names. All its groups are names."""

    def __init__(self, pattern: str) -> None:
        self.names: list[str] = NAME_IN_BRACES.findall(pattern)
        self._search = re.compile(NAME_IN_BRACES.sub(lambda m: (OF_STEPS | OF_RUNS)[m[1]].pattern, pattern)).search

    def texts_in(self, line: str) -> tuple[str | None, ...] | None:
        """Return the texts of its names in a line, in their order. None where it is no such line."""
        m = self._search(line)
        return m.groups() if m else None

    def read(self, line: str) -> dict[str, str] | None:
        """Return the text of each name in a line: {"step": "12", "loss": "2.3"}. None where it is no such line."""
        texts = self.texts_in(line)
        if texts is None:
            return None
        return {name: text for name, text in zip(self.names, texts, strict=True) if text is not None}


def _get(run: ReportedRun, field: str) -> Any:
    """Return a field of a run or, where runs have no such field, one of its details."""
    return getattr(run, field) if hasattr(run, field) else run.details.get(field)


def _set(run: ReportedRun, field: str, value: Any) -> None:
    """Set a field of a run or, where runs have no such field, one of its details."""
    if hasattr(run, field):
        setattr(run, field, value)
    else:
        run.details[field] = value


class LogReader:
    """Reads the lines of one program. A subclass says how they look (`mark`), which of them matter, what they mean."""

    mark: ClassVar[str]  # a pattern that only this program's logs have
    looked_at: ClassVar[str]  # a pattern of the lines that `feed` is given
    format: ClassVar[str]
    others: ClassVar[tuple[Line, ...]] = ()  # lines that say something about the run
    rate_scope: ClassVar[str | None] = None
    one_line_is_enough = False  # one line of a quoted log says how fast the run was
    peak_flops: ClassVar[float | None] = None  # the program divides by it, whatever the device

    def __init__(self, name: str) -> None:
        self.name = name
        self.runs = [self._new()]
        self._bars_count_to = ""  # "1000" of "10/1000"
        self._bar_at = 0  # step of the last bar with a loss
        self._steps_of_epochs = 0  # whose bars are over: those of the next epoch count anew
        self.lost_in_bars: list[int] = []  # steps of bars behind the last finite loss
        self._fields_of_next_run: dict[str, Any] = {}  # stated behind the last step of this run

    @property
    def run(self) -> ReportedRun:
        return self.runs[-1]

    def _new(self) -> ReportedRun:
        """Return a run without figures, with what holds for all runs of the program."""
        run = ReportedRun(self.name, self.format)
        run.rate_scope = self.rate_scope
        run.peak_flops = self.peak_flops
        return run

    def feed(self, number: int, line: str) -> None:
        """Read a line, the `number`-th of its file, that matches `looked_at`."""
        raise NotImplementedError

    def say(self, field: str, value: Any) -> None:
        """Set a field that a line states: of this run or, once it has results, of the next run in the file, if any."""
        if value is None:
            return
        if self.run.logged_steps or self.run.timed_spans:
            self._fields_of_next_run[field] = value
        else:
            _set(self.run, field, value)

    def take_setting(self, line: str) -> bool:
        """Take what a line of `others` says about the run. Return whether it is such a line."""
        for other in self.others:
            texts = other.read(line)
            if texts is not None:
                for name, text in texts.items():
                    self._set_field(name, text, self.say)
                return True
        return False

    def _set_field(self, name: str, text: str, assign: Callable[[str, Any], None]) -> None:
        """Set the field that a name stands for, by `assign`; but of losses the least counts, of memory the most."""
        field, read, _ = OF_RUNS[name]
        run, value = self.run, read(text)
        if field == "best_val_loss":
            run.see_val_loss(value)
        elif field == "memory_reported_bytes":
            run.see_memory(value)
        else:
            assign(field, value)

    def argument(self, name: str, value: str) -> None:
        """Take an argument that the program printed, by its name and its value as printed: "seq_length", "1024"."""
        count = whole_number(value)
        if name in ARGUMENTS and count:
            self.say(ARGUMENTS[name], count)
        elif name in ("use_pytorch_profiler", "profile") and value == "True":
            self.run.debug_settings[f"--{name.replace('_', '-')}"] = "on"
        elif name in ("bf16", "fp16") and value == "True":
            self.say("precision", name)

    def bar(self, line: str) -> bool:
        """Take the rate of a bar of training: the first, and others that count as far. Return whether it is any bar."""
        m = self._bar_in(line)
        if m and m["of"] == self._bars_count_to and (rate := float(m["rate"])):
            self.run.steps_per_s.append(rate if m["steps"] else 1 / rate)
        return m is not None

    def step_of_bar(self, line: str) -> int | None:
        """Return the step of a line by its bar of training: 30 of "50%|##  | 30/60 [...". None for other lines."""
        m = self._bar_in(line)
        return int(m["at"]) if m and m["of"] == self._bars_count_to else None

    def take_loss_of_bar(self, line: str, loss: str) -> None:
        """Note whether the loss in a bar of training is a number. `loss`: its text."""
        at = self.step_of_bar(line)
        if at is None:
            return
        if at < self._bar_at:
            self._steps_of_epochs += int(self._bars_count_to)
        self._bar_at = at
        if not_finite(loss):
            self.lost_in_bars.append(self._steps_of_epochs + at)
        else:
            self.lost_in_bars.clear()

    def _bar_in(self, line: str) -> re.Match[str] | None:
        """Return the match of BAR in a line. The first bar says how far those of training count."""
        m = BAR.match(line) if "<" in line else None
        self._bars_count_to = self._bars_count_to or (m["of"] if m else "")
        return m

    def launch(self, line: str) -> None:
        """Take the world size of a command line that starts ranks."""
        command = LAUNCH.search(line)
        processes_per_node = PROCESSES_PER_NODE.search(command[0]) if command else None
        if command and processes_per_node:
            nodes = NODES.search(command[0])  # "--nnodes 2 --nproc_per_node 8": 16
            self.say("world_size", int(processes_per_node[1]) * (int(nodes[1]) if nodes else 1))

    def step(self, step: LoggedStep, loss: str | None = None) -> None:
        """Add a step. A number not above the first step begins another run. `loss` is its text: "nan" is counted."""
        numbers = self.run.logged_steps.step_numbers
        if len(numbers) > 1 and step.step <= numbers[0] and step.step < numbers[-1]:
            self._restart()
        if loss is not None and step.loss is None and loss.lower().lstrip("+-") in ("nan", "inf"):
            self.run.nan_steps.append(step.step)
        self.run.logged_steps.append(step)

    def _restart(self) -> None:
        """Begin another run, with the settings of its file and what lines have stated since the last step."""
        stated = {field: _get(self.run, field) for field in (*OF_FILE, "tokens_per_step")} | self._fields_of_next_run
        self._fields_of_next_run = {}
        self.runs.append(self._new())
        for field, value in stated.items():
            self.say(field, value)

    def finish(self) -> list[ReportedRun]:
        """Return the runs of the file, numbered where there are several: "train.log#1", "train.log#2"."""
        # Stated behind the last step, and no run followed: they are of this run.
        for field, value in self._fields_of_next_run.items():
            if _get(self.run, field) is None:
                _set(self.run, field, value)
        for k, run in enumerate(self.runs):
            if len(self.runs) > 1:
                run.name = f"{self.name}#{k + 1}"
        return self.runs


class Dialect(LogReader):
    """One program's lines. Its steps are added many at once: of a long log that takes half the time."""

    of_step: ClassVar[Line]
    at_once: ClassVar[int] = 10_000  # lines

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._waiting: list[tuple[int, tuple[str | None, ...]]] = []  # number of a step's line, texts of its names

    def feed(self, number: int, line: str) -> None:
        """Read one line: of a step, of something about the run, or else perhaps a command."""
        texts_of_step = self.of_step.texts_in(line)
        if texts_of_step is not None:
            self._waiting.append((number, texts_of_step))
            if len(self._waiting) >= self.at_once:
                self._add_steps()
            return
        self._add_steps()
        if not self.take_setting(line):
            self.launch(line)

    def finish(self) -> list[ReportedRun]:
        """Return the runs of the file, as LogReader does."""
        self._add_steps()
        return super().finish()

    def _add_steps(self) -> None:
        """Add the steps that wait: at once where no run begins among them, and a line says nothing but its step."""
        lines = [line for line, _ in self._waiting]
        texts = [texts for _, texts in self._waiting]
        self._waiting = []
        if len(lines) > 1 and self._add_columns(
            lines, dict(zip(self.of_step.names, zip(*texts, strict=True), strict=True))
        ):
            return
        for line, of_line in zip(lines, texts, strict=True):
            named = zip(self.of_step.names, of_line, strict=True)
            self._add_step({name: text for name, text in named if text is not None}, line)

    def _add_columns(self, lines: list[int], columns: dict[str, tuple[str | None, ...]]) -> bool:
        """Add steps by columns of their texts. Return False, with nothing done, where they must be added one by one."""
        series = self.run.logged_steps
        numbers = [int(text or 0) for text in columns.pop("step")]
        first, *later = [*series.step_numbers[:1], *numbers]
        if not columns.keys() <= OF_STEPS.keys() or min(later) <= first:
            return False
        figures = {
            OF_STEPS[name].field: [OF_STEPS[name].read(text) if text else None for text in texts]
            for name, texts in columns.items()
        }
        if None in figures.get("loss", ()):  # "nan" is counted
            return False
        series.extend(numbers, lines, figures)
        return True

    def _add_step(self, texts: dict[str, str], number: int) -> None:
        """Add the step of a line, and what else this line says about the run. `texts`: name in the line -> its text."""
        step = LoggedStep(0, line=number)
        of_run: list[str] = []
        for name, text in texts.items():
            if of_step := OF_STEPS.get(name):
                setattr(step, of_step[0], of_step[1](text))  # its field and reader; by name that takes twice the time
            else:
                of_run.append(name)
        self.step(step, texts.get("loss"))
        for name in of_run:  # `say` would set the fields of the next run: this one has a step
            self._set_field(name, texts[name], partial(_set, self.run))
