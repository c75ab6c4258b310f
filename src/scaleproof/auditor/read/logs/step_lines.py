"""Programs that print one line a step: nanoGPT, nanochat, llm.c, torchtitan, MaxText, TensorFlow, others."""

import re
from itertools import pairwise

from scaleproof.auditor.read.logged_steps import LoggedStep
from scaleproof.auditor.read.logs.dialect import A100_BF16, STEP, Dialect, Line, LogReader
from scaleproof.auditor.read.logs.dialect import NUMBER as N
from scaleproof.auditor.read.reported import ReportedRun, TimedSpan
from scaleproof.auditor.read.run_fields import figure

TOKENS_PER_S = r"[Tt]ok(?:en)?s?/s(?:ec)?"


class NanoGPT(Dialect):
    """karpathy/nanoGPT: a time covers all micro-steps; MFU is of an A100's bf16 peak, whatever the device.

    Every eval_interval iterations the evaluation and the checkpoint are inside the time of the iteration that is
    printed next. Forks add tokens/s, "tok/s 77,510" or "77,510 tok/s", and do not say of how many devices.
    """

    mark = r"iter \d+: loss (?:[0-9.]+|nan|inf), time [0-9.]+ms"
    looked_at = r"iter |step |tokens per iteration|number of parameters|world_size|nproc"
    format = "nanoGPT log"
    peak_flops = A100_BF16

    of_step = Line(
        r"iter {step}: loss {loss}, time {ms}ms(?:, mfu {mfu}%)?"
        rf"(?:.*?(?:\b{TOKENS_PER_S}[:=]? *|(?=\b\d[\d.,]* ?{TOKENS_PER_S}(?!/))){{tokens_per_s}}(?!\w|[.,]\d))?"
    )
    others = (
        Line(r"step \d{1,12}: train loss \S+, val loss {val_loss}"),
        Line("tokens per iteration will be: {tokens_per_step}"),
        Line("number of parameters: {parameters_m}M"),
        Line("world_size[ =:]+{world_size}"),
    )


class ModdedNanoGPT(LogReader):
    """KellerJordan/modded-nanogpt: a clock that stops during validation; a step's time is the difference."""

    mark = r"step:\d+/\d+ (?:val_loss:\S+ )?train_time:[\d.]+m?s step_avg:"
    looked_at = r"step:\d|nproc"
    format = "modded-nanogpt log"

    _step = re.compile(
        rf"step:(?P<step>{STEP})/\d+ (?:val_loss:(?P<val_loss>{N}) )?train_(?:loss:(?P<loss>{N}) train_)?"
        rf"time:(?P<clock>[\d.]+)(?P<milli>m?)s step_avg:{N}ms"
    )

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._validations: list[LoggedStep] = []  # with the clock in place of a time

    def feed(self, number: int, line: str) -> None:
        """Read one line: of a step, whose time is the difference of two clocks, of a validation, or a command."""
        m = self._step.search(line)
        if m is None:
            self.launch(line)
            return
        run = self.run
        step = int(m["step"])
        clock_s = (figure(m["clock"]) or 0.0) / (1e3 if m["milli"] else 1.0)
        if m["val_loss"] is not None:
            run.see_val_loss(figure(m["val_loss"]))
            self._validations.append(LoggedStep(step, clock_s, line=number))
            return

        seconds = None
        if "clock" in run.details:
            last_step, last_clock_s = run.details["clock"]
            if step > last_step and clock_s > last_clock_s:
                seconds = (clock_s - last_clock_s) / (step - last_step)
        self.step(LoggedStep(step, seconds, figure(m["loss"]), line=number), m["loss"])
        self.run.details["clock"] = (step, clock_s)  # not of `run`, which may have ended with this step

    def finish(self) -> list[ReportedRun]:
        """Return the runs. Without lines of steps, each validation is one, with the mean time since the last."""
        if any(run.logged_steps for run in self.runs):
            return super().finish()
        for before, after in pairwise(self._validations):
            steps = after.step - before.step
            elapsed_s = (after.seconds or 0.0) - (before.seconds or 0.0)
            if steps > 0 and elapsed_s > 0:
                self.step(LoggedStep(after.step, elapsed_s / steps, line=after.line))
        return super().finish()


class NanoChat(Dialect):
    """karpathy/nanochat: `step 00004/21400 (0.02%) | loss: 8.89 | lrm: 1.00 | dt: 989.4ms | tok/sec: 529,882 | ...`."""

    mark = r"step \d+/\d+ \([0-9.]+%\) \| loss: \S+ \|.* dt: [0-9.]+ms"
    looked_at = r"step |Step |Number of parameters|world|nproc|batch size"
    format = "nanochat log"
    rate_scope = "global"

    of_step = Line(
        r"step {step}/\d+ \([0-9.]+%\) \| loss: {loss} \|.*?dt: {ms}ms"
        r"(?: \| tok/sec: {tokens_per_s})?(?:.*?mfu: {mfu})?"
    )
    others = (Line("Number of parameters: {parameters}"), Line("Total batch size {tokens_per_step}"))


class LlmC(Dialect):
    """karpathy/llm.c: `step 10/100 | loss 9.5 (+nanz)| ... | 135.1 ms | 47.8% bf16 MFU | 3880000 tok/s`."""

    mark = r"step +\d+/\d+ \|.*? ms \|.*?MFU \| +\S+ tok/s"
    looked_at = r"step |^\| |val loss|nproc|mpirun"
    format = "llm.c log"
    rate_scope = "global"

    of_step = Line(
        r"step +{step}/\d+ \|.*?loss {loss}.*?\| {ms} ms \| (?:{mfu}% {precision} MFU|n/a MFU) \| {tokens_per_s} tok/s"
    )
    others = (
        Line(r"^\| device +\| {device} +\|$"),
        Line(r"^\| micro batch size B +\| {micro_batch} +\|$"),
        Line(r"^\| sequence length T +\| {seq_len} +\|$"),
        Line(r"^\| num_processes +\| {world_size} +\|$"),
        Line(r"^\| num_parameters +\| {parameters}"),
        Line(r"^\| total batch size +\| {tokens_per_step} +\|$"),
        Line("^val loss {val_loss}"),
    )


class TorchTitan(Dialect):
    """pytorch/torchtitan: tps (wps until 2024) is of one device; tflops / mfu is the peak that it divided by."""

    mark = r"step: +\d+ +loss: +(?:[0-9.]+|nan|inf).*?(?:tps|wps): "
    looked_at = r"step: |Peak FLOPS|Peak flops|capacity: |batch size|mesh|nproc"
    format = "torchtitan log"
    rate_scope = "rank"

    of_step = Line(
        r"step: +{step} +loss: +{loss}(?:.*?memory: +{memory_gib}GiB)?.*?(?:tps|wps): +{tokens_per_s}"
        r"(?:.*?tflops: +{tflops})?(?:.*?mfu: +{mfu}%)?"
    )
    others = (
        Line("Peak FLOPS used for computing MFU: {peak_flops}"),
        Line("(?:CUDA|GPU|HIP) capacity: {device} with "),
        Line("local batch size:? {micro_batch}, global batch size:? {global_batch}.*?sequence length:? {seq_len}"),
        Line(r"device mesh with \[[^\]]*\], \[{mesh}\]"),
        Line(r"Peak flops undefined for: .+?,? fallback to {fallback_peak}\b"),  # for a device without a known peak
    )


class MaxText(Dialect):
    """google/maxtext: `completed step: 15107, seconds: 2.167, TFLOP/s: 36.722, loss: 2.191`; later "TFLOP/s/device"."""

    mark = r"completed step: \d+, seconds: "
    looked_at = r"completed step|number parameters"
    format = "MaxText log"
    rate_scope = "rank"
    one_line_is_enough = True

    of_step = Line(
        r"completed step: {step}, seconds: {s}(?:, TFLOP/s(?:/device)?: {tflops})?"
        r"(?:, Tokens/s/device: {tokens_per_s})?.*?(?:loss: {loss})?\s*$"
    )
    others = (Line("number parameters: {parameters_b} billion"),)


class Paddle(Dialect):
    """PaddleNLP and PaddleFleetX. Without `ips_total` nobody says whose rate `ips` is, and it is left out.

    `global step 2, epoch: 0, batch: 1, loss: 11.03, avg_reader_cost: 0.00016 sec, avg_batch_cost: 0.50125 sec,
    speed: 2.00 step/s, ips_total: 16343 tokens/s, ips: 2043 tokens/s`
    """

    mark = r"global step \d+, epoch: \d+, batch: \d+, loss: .*avg_batch_cost: "
    looked_at = r"global step|nproc"
    format = "Paddle log"
    rate_scope = "global"

    of_step = Line(
        r"global step {step}, epoch: \d+, batch: \d+, loss: {loss}, .*?avg_batch_cost: {s} sec"
        r"(?:.*?ips_total: {tokens_per_s} tokens/s)?"
    )


class DeepSpeed(Dialect):
    """DeepSpeed's timer, whose samples are those of all ranks; until 2022 it printed `0/20, Running...`.

    `epoch=0/micro_step=20/global_step=5, RunningAvgSamplesPerSec=25.0, CurrSamplesPerSec=25.7, MemAllocated=...`
    """

    mark = r"RunningAvgSamplesPerSec=[\d.]+, CurrSamplesPerSec="
    looked_at = r"SamplesPerSec=|nproc|deepspeed"
    format = "DeepSpeed timer log"
    rate_scope = "global"

    of_step = Line(
        r"(?:global_step=|\d/){step}, RunningAvgSamplesPerSec=\S+, CurrSamplesPerSec={samples_per_s}"
        r"(?:.*?MaxMemAllocated={memory_gib}GB)?"
    )


class TensorFlowEstimator(Dialect):
    """TensorFlow's estimators: `loss = 15.8, step = 101 (19.3 sec)`, of so many steps, and `global_step/sec: 5.17`."""

    mark = r"global_step/sec: [\d.]"
    looked_at = r"loss = |global_step/sec: "
    format = "TensorFlow estimator log"

    of_step = Line(r"^(?=.*\bstep = {step}\b)(?=.*\bloss = {loss})")

    def feed(self, number: int, line: str) -> None:
        """Read one line: of the steps per second since the line before, or of a step."""
        if m := re.search(rf"global_step/sec: {N}", line):
            self.run.steps_per_s += [rate for rate in [figure(m[1])] if rate]
        else:
            super().feed(number, line)


class TfCnnBenchmarks(Dialect):
    """`10  images/sec: 307.5 +/- 0.4 (jitter = 1.2)  8.2`: the mean rate of all devices over all steps so far.

    The result is `total images/sec: 307.54`, of the steps after the warm-up. On synthetic data losses mean nothing,
    and often are NaN: they are left out.
    """

    mark = r"images/sec: [\d.]+ \+/- [\d.]+ \(jitter = "
    looked_at = r"images/sec|^(?:Model|Dataset|Mode|Batch size|Num batches|Devices|Variables|Optimizer): |per device"
    format = "tf_cnn_benchmarks log"
    rate_scope = "global"
    at_once = 1  # its settings say what losses mean
    of_step = Line(r"^{step}\s+images/sec: {samples_per_s} \+/- \S+ \(jitter = \S+\)(?:\s+{loss})?")
    others = (
        Line(r"^Model: +{model}"),
        Line(r"^Dataset: +{dataset}\s*$"),
        Line(r"^Devices: {paths_of_devices}"),
        Line(r"^Batch size: +{global_batch} global"),
        Line(r"^\s+{micro_batch} per device"),
        Line(r"^Num batches: +{total_steps}"),
    )

    def feed(self, number: int, line: str) -> None:
        """Read one line: of the result, of a step, or of a setting."""
        if m := re.match(rf"total images/sec: {N}", line):
            span = TimedSpan(samples_per_s=figure(m[1]), optimizer_steps=self.run.details.get("total_steps"))
            self.run.timed_spans = [span]
        else:
            super().feed(number, line)

    def _add_step(self, texts: dict[str, str], number: int) -> None:
        if "synthetic" in (self.run.dataset or ""):
            texts.pop("loss", None)
        super()._add_step(texts, number)


LEAST_SECONDS = 10  # whole seconds are printed: of fewer the last digit is worth more than 5 %


class Keras(LogReader):
    """`model.fit`: epochs in whole seconds. Of ranks that print to one file the first line of an epoch counts."""

    mark = r"\d/\d+ (?:\[=+\] - |━+ |- )\d+s[ /].*?loss: "
    looked_at = r"Epoch \d|\d/\d+ (?:\[|━|-)|nproc|horovodrun|mpirun|srun"
    format = "Keras log"

    _first_line_of_epoch = re.compile(r"^\s*Epoch (\d{1,6})(?:/\d+)?\s*$")
    _last_line_of_epoch = re.compile(r"(\d{1,9})/(\d{1,9}) (?:\[=+\] - |━+ |- )(\d{1,7})s[ /]")
    _time_of_step = re.compile(r"^ ?(\d{2,7})(ms|us)/step")  # one digit is worth more than 5 %

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._epoch: int | None = None

    def feed(self, number: int, line: str) -> None:
        """Read one line: the first or the last one of an epoch, or perhaps a command."""
        if m := self._first_line_of_epoch.match(line):
            self._epoch = int(m[1])
            return
        m = self._last_line_of_epoch.search(line)
        if "ETA:" not in line and m and m[1] == m[2] and self._epoch is not None:  # "469/469": it is over
            self._add_epoch(self._epoch, float(m[3]), line[m.end() :])
            if of_step := self._time_of_step.search(line[m.end() :]):
                self.run.steps_per_s.append({"ms": 1e3, "us": 1e6}[of_step[2]] / float(of_step[1]))
        else:
            self.launch(line)

    def _add_epoch(self, epoch: int, seconds: float, figures: str) -> None:
        """Add an epoch and its validation. The first epoch, when it comes again behind others, begins a new run.

        Any other epoch that comes again is another rank's. It may bring the validation loss of the last epoch.
        """
        last_span = self.run.timed_spans[-1] if self.run.timed_spans else None
        if last_span is not None and last_span.index is not None and epoch <= last_span.index:
            if epoch == last_span.index:
                self._set_validation(last_span, figures)
                return
            if epoch != self.run.timed_spans[0].index:
                return
            self._restart()

        span = TimedSpan(epoch, seconds if seconds >= LEAST_SECONDS else None)
        if loss := re.search(rf"(?<!\w)loss: {N}", figures):
            span.train_loss = figure(loss[1])
            if span.train_loss is None:
                self.run.nan_steps.append(epoch)
        self.run.timed_spans.append(span)
        self._set_validation(span, figures)

    def _set_validation(self, span: TimedSpan, figures: str) -> None:
        """Take the validation loss of an epoch from its line, unless the epoch has one."""
        m = re.search(rf"val_loss: {N}", figures)
        if m is not None and span.val_loss is None:
            span.val_loss = figure(m[1])
            self.run.see_val_loss(span.val_loss)
