"""Programs on TensorFlow: `tf_cnn_benchmarks`, Horovod's benchmarks, which print the same lines, and Keras.

Keras prints `78/78 [======] - 122s 2s/step - loss: 0.29 - val_loss: 0.28` at the end of each epoch, in three forms.
"""

import re

from scaleproof.auditor.read.fields import figure
from scaleproof.auditor.read.logged_steps import LoggedStep
from scaleproof.auditor.read.logs.base import NUMBER as N
from scaleproof.auditor.read.logs.base import STEP, LogReader, least, whole
from scaleproof.auditor.read.reported import TimedSpan


class TfCnnBenchmarks(LogReader):
    """`10  images/sec: 307.5 +/- 0.4 (jitter = 1.2)  8.2`: the mean rate of all devices over all steps so far.

    The result is `total images/sec: 307.54`, of the steps after the warm-up. On synthetic data losses mean nothing,
    and often are NaN: they are left out.
    """

    mark = r"images/sec: [\d.]+ \+/- [\d.]+ \(jitter = "
    looked_at = r"images/sec|^(?:Model|Dataset|Mode|Batch size|Num batches|Devices|Variables|Optimizer): |per device"
    format = "tf_cnn_benchmarks log"
    rate_scope = "global"

    _step = re.compile(rf"^{STEP}\s+images/sec: {N} \+/- {N} \(jitter = {N}\)(?:\s+{N})?")

    def feed(self, number: int, line: str) -> None:
        """Read one line: of a step, of the result, or of a setting."""
        if m := self._step.search(line):
            loss = None if "synthetic" in (self.run.dataset or "") else m[5]
            step = LoggedStep(int(m[1]), None, figure(loss), line=number)
            step.samples_per_s = figure(m[2])
            self.step(step, loss)
        elif m := re.match(rf"total images/sec: {N}", line):
            span = TimedSpan(samples_per_s=figure(m[1]), optimizer_steps=self.run.details.get("total_steps"))
            self.run.timed_spans = [span]
        else:
            self._setting(line)

    def _setting(self, line: str) -> None:
        """Take a setting of the run (`Model: resnet50`); other lines are passed over."""
        name, _, value = line.partition(":")
        text = value.strip()
        if name == "Model":
            self.say("model", text)
        elif name == "Dataset":
            self.say("dataset", text)
        elif name == "Devices":
            self.say("world_size", text.count("/gpu:") or text.count("/cpu:") or None)
        elif name == "Batch size":
            self.say("global_batch", whole(text.split()[0]) if text.endswith("global") else None)
        elif name == "Num batches":
            self.run.details["total_steps"] = whole(text)
        elif m := re.match(r"\s+(\d{1,6}) per device", line):
            self.say("micro_batch", int(m[1]))


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
