"""Keras: `78/78 [======] - 122s 2s/step - loss: 0.29 - val_loss: 0.28` at the end of each epoch, in its three forms."""

import re

from scaleproof.auditor.read.fields import figure
from scaleproof.auditor.read.logs.base import NUMBER as N
from scaleproof.auditor.read.logs.base import LogReader, least
from scaleproof.auditor.read.reported import TimedSpan

LEAST_SECONDS = 10  # whole seconds are printed: of fewer the last digit is worth more than 5 %


class Keras(LogReader):
    """`model.fit`: epochs in whole seconds. Of ranks that print to one file the first line of an epoch counts."""

    mark = r"\d/\d+ (?:\[=+\] - |━+ |- )\d+s[ /].*?loss: "
    looked_at = r"Epoch \d|\d/\d+ (?:\[|━|-)|nproc|horovodrun|mpirun|srun"
    format = "Keras log"

    _begin = re.compile(r"^\s*Epoch (\d{1,6})(?:/\d+)?\s*$")
    _end = re.compile(r"(\d{1,9})/(\d{1,9}) (?:\[=+\] - |━+ |- )(\d{1,7})s[ /]")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._epoch: int | None = None

    def feed(self, number: int, line: str) -> None:
        """Read one line: the begin or the end of an epoch, or perhaps a command."""
        if m := self._begin.match(line):
            self._epoch = int(m[1])
        elif "ETA:" not in line and (m := self._end.search(line)) and m[1] == m[2] and self._epoch is not None:
            self._end_of(self._epoch, float(m[3]), line[m.end() :])
        else:
            self.launch(line)

    def _end_of(self, epoch: int, seconds: float, figures: str) -> None:
        """Add an epoch, or its validation where another line of it follows; `figures` is the rest of the line."""
        spans = self.run.timed_spans
        if spans and spans[-1].index is not None and epoch <= spans[-1].index:
            if epoch == spans[-1].index:
                self._validated(spans[-1], figures)
                return
            if epoch != spans[0].index:
                return  # another rank's, late
            self._restart()
            spans = self.run.timed_spans
        loss = re.search(rf"(?<!\w)loss: {N}", figures)
        span = TimedSpan(epoch, seconds if seconds >= LEAST_SECONDS else None)
        span.train_loss = figure(loss[1]) if loss else None
        if loss and span.train_loss is None:
            self.run.nan_steps.append(epoch)
        spans.append(span)
        self._validated(span, figures)

    def _validated(self, span: TimedSpan, figures: str) -> None:
        if (m := re.search(rf"val_loss: {N}", figures)) and span.val_loss is None:
            span.val_loss = figure(m[1])
            self.run.best_val_loss = least(self.run.best_val_loss, span.val_loss)
