"""Megatron-LM, Megatron-DeepSpeed and GPT-NeoX: figures between bars, arguments with dots."""

import re

from scaleproof.auditor.read.logged_steps import LoggedStep
from scaleproof.auditor.read.logs.base import NUMBER as N
from scaleproof.auditor.read.logs.base import STEP, LogReader, seconds_of, whole_number
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.run_fields import FIELDS, figure

ARGUMENTS = {word: name for name, entry in FIELDS.items() for word in entry.words}
# A loss scale that DeepSpeed does not tell. The norm beside it is printed as 0, and is not known either.
UNKNOWN_LOSS_SCALE = -1.0
SETTLING_STEPS = 50  # in which a loss scaler that starts at 2**32 has found its scale


class Megatron(LogReader):
    """NVIDIA/Megatron-LM: ` iteration  100/ 5000 | consumed samples: ... | elapsed time per iteration (ms): ... |`.

    A rate is not printed: it is global batch x sequence length / time. `number of skipped iterations` counts those
    since the line before.
    """

    mark = r"iteration +\d+/ *\d+ \|.*elapsed time per iteration \((?:ms|s)\): "
    looked_at = r"elapsed time per iteration|\.{3,} |max allocated|nproc"
    format = "Megatron-LM log"

    _step = re.compile(rf"iteration +{STEP}/ *\d+ \|.*?elapsed time per iteration \((ms|s)\): *{N}")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._settled = False  # a line without skipped iterations was there: the loss scaler has found its scale

    def feed(self, number: int, line: str) -> None:
        """Read one line: of a step, an argument, the memory, or perhaps a command."""
        if m := self._step.search(line):
            seconds = seconds_of(m[3]) if m[2] == "ms" else figure(m[3])
            self._add_step(LoggedStep(int(m[1]), seconds if seconds and seconds > 0 else None, line=number), line)
        elif m := re.search(r"^(?:\[[^\]]*\]:? *)*(?:\d+: )? *(\w+) \.{3,} *(\S+)", line):
            self._argument(m[1], m[2])
        elif m := re.search(rf"max allocated: *{N}", line):
            used = figure(m[1])
            self.run.memory_reported_bytes = max(self.run.memory_reported_bytes or 0.0, (used or 0.0) * 2**20) or None
        else:
            self.launch(line)

    def _add_step(self, step: LoggedStep, line: str) -> None:
        """Add a step with the figures between the bars of its line: "| lm loss: 2.3 | grad norm: 1.1 |"."""
        texts: dict[str, str] = {}
        for part in line.split("|"):
            name, _, text = part.rpartition(":")
            texts[name.strip().replace("_", " ")] = text.strip()
        loss = texts.get("lm loss") or texts.get("loss")
        step.loss = figure(loss)
        tflops = texts.get("throughput per GPU (TFLOP/s/GPU)") or texts.get("TFLOPs")
        tflops = tflops or texts.get("approx flops per GPU") or ""
        step.flops_per_s = (figure(re.sub(r"(?i)tflops?", "", tflops)) or 0.0) * 1e12 or None
        step.samples_per_s = figure(texts.get("samples/sec") or texts.get("samples per second"))
        step.tokens_per_s = figure(texts.get("tokens per gpu per second (tgs)")) or None
        self.step(step, loss)

        run = self.run  # another one than before, where the steps start again
        if figure(texts.get("loss scale")) != UNKNOWN_LOSS_SCALE:
            run.see_gradient_norm(figure(texts.get("grad norm")))
        run.global_batch = whole_number(texts.get("global batch size")) or run.global_batch
        run.rate_scope = "rank" if step.tokens_per_s else run.rate_scope
        self._count_skipped(whole_number(texts.get("number of skipped iterations")) or 0)
        if nan := whole_number(texts.get("number of nan iterations")):
            run.nan_steps += [step.step] * min(nan, 10_000)

    def _count_skipped(self, count: int) -> None:
        """Count skipped iterations, but for those in which the loss scaler looks for its scale."""
        run = self.run
        if len(run.logged_steps) == 1:
            self._settled = False
        if self._settled:
            run.skipped_steps = (run.skipped_steps or 0) + count
        numbers = run.logged_steps.step_numbers
        self._settled |= count == 0 or (len(numbers) >= 2 and numbers[-1] > SETTLING_STEPS)
        if self._settled and run.skipped_steps is None:
            run.skipped_steps = 0

    def _argument(self, name: str, value: str) -> None:
        """Take an argument that the program printed, by its name and its value as printed."""
        count = whole_number(value)
        if name in ARGUMENTS and count:
            self.say(ARGUMENTS[name], count)
        elif name in ("use_pytorch_profiler", "profile") and value == "True":
            self.run.debug_settings[f"--{name.replace('_', '-')}"] = "on"
        elif name in ("bf16", "fp16") and value == "True":
            self.say("precision", name)

    def finish(self) -> list[ReportedRun]:
        for run in self.runs:
            if run.global_batch and run.seq_len:
                run.details["tokens_per_step"] = run.global_batch * run.seq_len
        return super().finish()


class GptNeoX(Megatron):
    """EleutherAI/gpt-neox: the same line behind `samples/sec: 1.702 |`, with `approx flops per GPU` and `lm_loss`."""

    mark = r"samples/sec: [0-9.]+ \| iteration +\d+/"
    format = "GPT-NeoX log"
