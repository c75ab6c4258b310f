"""Logs of Megatron-LM, and of GPT-NeoX, NeMo and nanotron, which print lines of its kind."""

import re
from collections import Counter

from scaleproof.auditor.read.logged_steps import LoggedStep
from scaleproof.auditor.read.logs.dialect import NUMBER as N
from scaleproof.auditor.read.logs.dialect import STEP, Line, LogReader, seconds_of, whole_number
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.run_fields import figure

# The loss scale that is printed where DeepSpeed does not tell it. The norm beside it is printed as 0, unknown, too.
UNKNOWN_LOSS_SCALE = -1.0
SETTLING_STEPS = 50  # after so many a loss scaler that starts at 2**32 has found its scale


SamplesOfLine = tuple[int, int, int]  # step, consumed samples, global batch; 0 where a line does not say it


class Megatron(LogReader):
    """NVIDIA/Megatron-LM: ` iteration  100/ 5000 | consumed samples: ... | elapsed time per iteration (ms): ... |`.

    A rate is not printed: it is global batch x sequence length / time. `number of skipped iterations` counts those
    since the line before.
    """

    mark = r"iteration +\d+/ *\d+ \|.*elapsed time per iteration \((?:ms|s)\): "
    looked_at = r"elapsed time per iteration|\.{3,} |max allocated|world size|nproc"
    format = "Megatron-LM log"
    others = (Line("using world size: {world_size}"),)

    _step = re.compile(rf"iteration +{STEP}/ *\d+ \|.*?elapsed time per iteration \((ms|s)\): *{N}")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._is_settled = False  # the loss scaler has found its scale: no iteration was skipped since the line before
        self._last_samples: list[SamplesOfLine] = []  # of the last lines, three at most

    def feed(self, number: int, line: str) -> None:
        """Read one line: of a step, an argument, the memory, or perhaps a command."""
        if m := self._step.search(line):
            step, unit, time = m.groups()
            seconds = seconds_of(time) if unit == "ms" else figure(time)
            self._add_step(LoggedStep(int(step), seconds if seconds and seconds > 0 else None, line=number), line)
        elif m := re.search(r"^(?:\[[^\]]*\]:? *)*(?:\d+: )? *(\w+) \.{3,} *(\S+)", line):
            self.argument(m[1], m[2])
        elif m := re.search(rf"max allocated: *{N}", line):
            self.run.see_memory((figure(m[1]) or 0.0) * 2**20)
        elif not self.take_setting(line):
            self.launch(line)

    def _add_step(self, step: LoggedStep, line: str) -> None:
        """Add a step with the figures between the bars of its line: "| lm loss: 2.3 | grad norm: 1.1 |"."""
        texts = _texts_between_bars(line)
        loss = texts.get("lm loss") or texts.get("reduced train loss") or texts.get("loss")
        step.loss = figure(loss)
        tflops_text = texts.get("throughput per GPU (TFLOP/s/GPU)") or texts.get("TFLOPs")
        tflops_text = tflops_text or texts.get("approx flops per GPU") or texts.get("model tflops per gpu") or ""
        step.flops_per_s = (figure(re.sub(r"(?i)tflops?", "", tflops_text)) or 0.0) * 1e12 or None
        step.samples_per_s = figure(texts.get("samples/sec") or texts.get("samples per second"))
        of_all = figure(texts.get("tokens per sec"))
        step.tokens_per_s = of_all or figure(texts.get("tokens per gpu per second (tgs)")) or None
        self.step(step, loss)

        run = self.run  # only now: `self.step` begins another run where the steps start again
        if figure(texts.get("loss scale")) != UNKNOWN_LOSS_SCALE:
            run.see_gradient_norm(figure(texts.get("grad norm")))
        batch = whole_number(texts.get("global batch size"))
        self._count_samples(step.step, whole_number(texts.get("consumed samples")), batch)
        run.global_batch = batch or run.global_batch
        if step.tokens_per_s:
            run.rate_scope = "global" if of_all else "rank"
        self._count_skipped(whole_number(texts.get("number of skipped iterations")) or 0)
        nan_count = whole_number(texts.get("number of nan iterations"))  # since the line before, without their numbers
        if nan_count:
            own = run.nan_steps[-1:] == [step.step]  # of its loss, which `self.step` has counted
            run.nan_steps += [step.step] * (min(nan_count, 10_000) - own)

    def _count_samples(self, step: int, consumed: int | None, batch: int | None) -> None:
        """Count the samples of a step since the line before, (samples, batch) -> lines: {(1024.0, 2048): 12}.

        Of a line beside two others that agree with the batch and with each other, the samples are wrong.
        """
        lines = self._last_samples = [*self._last_samples[-2:], (step, consumed or 0, batch or 0)]
        last = lines[-2] if len(lines) > 1 else (step, 0, 0)
        if last[1] and consumed and batch and step > last[0]:
            growth = (consumed - last[1]) / (step - last[0])
            counts = self.run.details.setdefault("samples_of_steps", Counter())
            if len(counts) < 2:  # two contradict each other
                counts[growth, batch] += 1
        if len(lines) == 3 and (expected := _other_samples(*lines)):
            self.run.details.setdefault("odd_samples", []).append((*lines[1], expected))

    def _count_skipped(self, count: int) -> None:
        """Count skipped iterations, except the first ones, in which the loss scaler looks for its scale."""
        run = self.run
        if len(run.logged_steps) == 1:  # a run has begun
            self._is_settled = False
        if self._is_settled:
            run.skipped_steps = (run.skipped_steps or 0) + count
        numbers = run.logged_steps.step_numbers
        is_late = len(numbers) >= 2 and numbers[-1] > SETTLING_STEPS
        self._is_settled = self._is_settled or count == 0 or is_late
        if self._is_settled and run.skipped_steps is None:
            run.skipped_steps = 0  # from here on they are counted

    def finish(self) -> list[ReportedRun]:
        """Return the runs, with the tokens of a step: the program prints batch and length apart."""
        for run in self.runs:
            if run.global_batch and run.seq_len:
                run.details["tokens_per_step"] = run.global_batch * run.seq_len
        return super().finish()


def _other_samples(before: SamplesOfLine, line: SamplesOfLine, after: SamplesOfLine) -> int | None:
    """Return the samples of a line by those around it, which differ by a batch a step; None where it has them."""
    if not before[0] < line[0] < after[0] or len({before[2], line[2], after[2]}) > 1 or 0 in (*before, *line, *after):
        return None
    of_line, of_after = (before[1] + line[2] * (step - before[0]) for step in (line[0], after[0]))
    return of_line if of_after == after[1] and of_line != line[1] else None


def _texts_between_bars(line: str) -> dict[str, str]:
    """Return name -> text of the parts of a line: {"grad norm": "1.1"} of "| grad norm: 1.1 |"."""
    texts: dict[str, str] = {}
    for part in line.split("|"):
        name, _, text = part.rpartition(":")
        texts[name.strip().replace("_", " ")] = text.strip()
    return texts


class GptNeoX(Megatron):
    """EleutherAI/gpt-neox: the same line behind `samples/sec: 1.702 |`, with `approx flops per GPU` and `lm_loss`."""

    mark = r"samples/sec: [0-9.]+ \| iteration +\d+/"
    format = "GPT-NeoX log"


class NeMo(Megatron):
    """NVIDIA/NeMo: `Training epoch 0, iteration 1/249 | ... | global_step: 1 | ... | train_step_timing in s: 2.505`."""

    mark = r"iteration \d+/\d+ \| .*train_step_timing in s: "
    looked_at = r"train_step_timing in s|nproc"
    format = "NeMo log"

    _step = re.compile(rf"iteration {STEP}/\d+ \|.*?train_step_timing in (s): *{N}")


class Nanotron(Megatron):
    """huggingface/nanotron: the same between bars, `elapsed_time_per_iteration_ms: 4.71K | tokens_per_sec: 43.2K`."""

    mark = r"iteration: \d+ / \d+ \| consumed_tokens: "
    looked_at = r"elapsed_time_per_iteration_ms|nproc"
    format = "nanotron log"

    _step = re.compile(rf"iteration: {STEP} / \d+ \|.*?elapsed_time_per_iteration_(ms): *{N}")
    _magnitude = re.compile(r"(?<=\d)[KMBT](?= |$)")

    def feed(self, number: int, line: str) -> None:
        """Read one line, whose figures have at most three digits: "4.71K"."""
        super().feed(number, self._magnitude.sub(lambda m: f"e{3 * ' KMBT'.index(m[0])}", line))
