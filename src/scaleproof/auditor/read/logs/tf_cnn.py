"""tensorflow/benchmarks: `tf_cnn_benchmarks`, and Horovod's benchmarks, which print the same lines."""

import re

from scaleproof.auditor.read.fields import figure
from scaleproof.auditor.read.logged_steps import LoggedStep
from scaleproof.auditor.read.logs.base import NUMBER as N
from scaleproof.auditor.read.logs.base import STEP, LogReader, whole
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
