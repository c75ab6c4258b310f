"""Dialects of logs as data: patterns of lines in which `{name}` stands for a figure or a word.

A dialect says how the line of a step looks, and which lines say something about the run. Any other line may be the
command that started the ranks.
"""

import re
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from scaleproof.auditor.read.logged_steps import LoggedStep
from scaleproof.auditor.read.logs.base import NUMBER, STEP, LogReader, least, seconds_of, share, whole_number
from scaleproof.auditor.read.run_fields import figure

ReaderOfText = Callable[[str], Any]
NAME_IN_BRACES = re.compile(r"\{([a-z_]+)\}")


class Name(NamedTuple):
    """What a name stands for: the field of a step or of a run, how its text is read, and how it looks."""

    field: str
    read: ReaderOfText = figure
    pattern: str = NUMBER


def _times(factor: float) -> ReaderOfText:
    return lambda text: (figure(text) or 0.0) * factor or None


def _count(text: str) -> int | None:
    return whole_number(text) or None


def _devices_of_mesh(sizes: str) -> int | None:
    """Return the number of devices in a mesh, the product of its sizes: "2, 4" -> 8. None for 0."""
    devices = 1
    for size in sizes.split(",")[:5]:
        devices *= min(int(size), 10**6) if size.strip() else 1
    return devices or None


OF_STEPS = {
    "step": Name("step", int, STEP),
    "loss": Name("loss"),
    "ms": Name("seconds", seconds_of),
    "s": Name("seconds", lambda text: max(figure(text) or 0.0, 0.0) or None),
    "tokens_per_s": Name("tokens_per_s"),
    "tflops": Name("flops_per_s", _times(1e12)),
    "mfu": Name("mfu", share),
}
OF_RUNS = {
    "world_size": Name("world_size", _count, STEP),
    "mesh": Name("world_size", _devices_of_mesh, r"([\d, ]+)"),
    "micro_batch": Name("micro_batch", _count),
    "global_batch": Name("global_batch", _count),
    "seq_len": Name("seq_len", _count),
    "tokens_per_step": Name("tokens_per_step", whole_number),
    "parameters": Name("parameters"),
    "parameters_m": Name("parameters", _times(1e6)),
    "parameters_b": Name("parameters", _times(1e9)),
    "precision": Name("precision", str, r"(\w+)"),
    "device": Name("device", str, "(.+?)"),
    "peak_flops": Name("peak_flops"),
    "memory_gib": Name("memory_reported_bytes", _times(2**30)),
    "val_loss": Name("best_val_loss"),
}


class Line:
    """A pattern with names. All its groups are names."""

    def __init__(self, pattern: str) -> None:
        self._names = NAME_IN_BRACES.findall(pattern)
        self._search = re.compile(NAME_IN_BRACES.sub(lambda m: (OF_STEPS | OF_RUNS)[m[1]].pattern, pattern)).search

    def read(self, line: str) -> dict[str, str] | None:
        """Return the text of each name in a line: {"step": "12", "loss": "2.3"}. None where it is no such line."""
        if (m := self._search(line)) is None:
            return None
        return {name: text for name, text in zip(self._names, m.groups(), strict=True) if text is not None}


class Dialect(LogReader):
    """One program's lines."""

    of_step: ClassVar[Line]
    others: ClassVar[tuple[Line, ...]] = ()

    def feed(self, number: int, line: str) -> None:
        """Read one line: of a step, one that says something about the run, or else perhaps a command."""
        if (texts := self.of_step.read(line)) is not None:
            self._add_step(texts, number)
            return
        for other in self.others:
            texts = other.read(line)
            if texts is None:
                continue
            for name, text in texts.items():
                self._set_field(name, text, self.say)
            return
        self.launch(line)

    def _add_step(self, texts: dict[str, str], number: int) -> None:
        """Add the step of a line, and what else this line says about the run. `texts`: of the names in the line."""
        step = LoggedStep(int(texts["step"]), line=number)
        of_run = [name for name in texts if name in OF_RUNS]
        for name in texts.keys() - of_run:
            setattr(step, OF_STEPS[name].field, OF_STEPS[name].read(texts[name]))
        self.step(step, texts.get("loss"))
        for name in of_run:  # of this run: `say` would take it for the next one's, now that there is a step
            self._set_field(name, texts[name], lambda field, value: setattr(self.run, field, value))

    def _set_field(self, name: str, text: str, assign: Callable[[str, Any], None]) -> None:
        """Set the field of the run that a name stands for: the least loss, the most memory, or the value.

        `assign` sets a value: of this run, or of the next one (`say`).
        """
        field, read, _ = OF_RUNS[name]
        run, value = self.run, read(text)
        if field == "best_val_loss":
            run.best_val_loss = least(run.best_val_loss, value)
        elif field == "memory_reported_bytes":
            run.memory_reported_bytes = max(run.memory_reported_bytes or 0.0, value or 0.0) or None
        elif field == "tokens_per_step":  # not a field of a run
            run.details[field] = value
        else:
            assign(field, value)
