"""Programs that print one line a step: nanoGPT, modded-nanogpt, nanochat, llm.c, torchtitan, MaxText."""

import re
from itertools import pairwise

from scaleproof.auditor.read.fields import figure
from scaleproof.auditor.read.logged_steps import LoggedStep
from scaleproof.auditor.read.logs.base import NUMBER as N
from scaleproof.auditor.read.logs.base import STEP, LogReader, least, seconds_of, share, whole
from scaleproof.auditor.read.reported import ReportedRun

A100_BF16 = 312e12


class NanoGPT(LogReader):
    """karpathy/nanoGPT: the iteration's time covers all micro-steps; MFU is of an A100's bf16 peak, whatever the
    device.

    Every eval_interval iterations the evaluation and the checkpoint are inside the time of the iteration that is
    printed next.
    """

    mark = r"iter \d+: loss (?:[0-9.]+|nan|inf), time [0-9.]+ms"
    looked_at = r"iter |step |tokens per iteration|number of parameters|world_size|saving checkpoint|nproc|compiling"
    format = "nanoGPT log"

    usual = re.compile(
        r"iter (\d{1,12}): loss (\d{1,9}\.\d{1,9}), time (\d{1,12}\.\d{1,9})ms(?:, mfu (-?\d{1,9}\.\d{1,9})%)?\n"
    )
    opening = "iter "
    columns = (("loss", 1.0), ("seconds", 1e3), ("mfu", 1e2))
    _step = re.compile(rf"iter {STEP}: loss {N}, time {N}ms(?:, mfu {N}%)?")
    _evaluation = re.compile(rf"step {STEP}: train loss {N}, val loss {N}")

    def _new(self) -> ReportedRun:
        run = super()._new()
        run.peak_flops = A100_BF16
        return run

    def feed(self, number: int, line: str) -> None:
        if m := self._step.search(line):
            step = LoggedStep(int(m[1]), seconds_of(m[3]), figure(m[2]), mfu=share(m[4]), line=number)
            self.step(step, m[2])
        elif m := self._evaluation.search(line):
            self.run.best_val_loss = least(self.run.best_val_loss, figure(m[3]))
            self.mark_inside("evaluation")
        elif "saving checkpoint" in line:
            self.mark_inside("checkpoint")
        elif "compiling the model" in line:
            self.mark_inside("compilation")
        elif m := re.search(rf"tokens per iteration will be: {N}", line):
            self.run.details["tokens_per_step"] = whole(m[1])
        elif m := re.search(rf"number of parameters: {N}M", line):
            self.say("parameters", (figure(m[1]) or 0) * 1e6 or None)
        elif m := re.search(r"world_size[ =:]+(\d{1,12})", line):
            self.say("world_size", int(m[1]) or None)
        else:
            self.launch(line)

    def finish(self) -> list[ReportedRun]:
        for run in self.runs:
            run.details.setdefault("tokens_per_step", None)
        return super().finish()


class ModdedNanoGPT(LogReader):
    """KellerJordan/modded-nanogpt: a clock since the start (stopped during validation) and its average; a step's
    time is the difference.
    """

    mark = r"step:\d+/\d+ (?:val_loss:\S+ )?train_time:[\d.]+m?s step_avg:"
    looked_at = r"step:\d|nproc"
    format = "modded-nanogpt log"

    _step = re.compile(
        rf"step:{STEP}/(\d+) (?:val_loss:{N} )?train_(?:loss:{N} train_)?time:([\d.]+)(m?)s step_avg:{N}ms"
    )

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._validated: list[LoggedStep] = []  # lines of validation, with the clock in place of a time

    def feed(self, number: int, line: str) -> None:
        m = self._step.search(line)
        if m is None:
            self.launch(line)
            return
        run = self.run
        clock = (figure(m[5]) or 0.0) / (1e3 if m[6] else 1.0)
        if m[3] is not None:
            run.best_val_loss = least(run.best_val_loss, figure(m[3]))
            run.details["total_s"] = clock
            self._validated.append(LoggedStep(int(m[1]), clock, line=number))
            return
        before = run.details.get("clock")
        seconds = None
        if before is not None and int(m[1]) > before[0] and clock > before[1]:
            seconds = (clock - before[1]) / (int(m[1]) - before[0])
        self.step(LoggedStep(int(m[1]), seconds, figure(m[4]) if m[4] else None, line=number), m[4])
        self.run.details |= {
            "clock": (int(m[1]), clock),
            "step_average_s": seconds_of(m[7]),
            "total_s": clock,
            "total_steps": int(m[2]),
        }

    def finish(self) -> list[ReportedRun]:
        """The runs; where only validation was printed, the mean times of the steps between its lines."""
        if not any(run.logged_steps for run in self.runs):
            for before, here in pairwise(self._validated):
                steps = here.step - before.step
                elapsed = (here.seconds or 0.0) - (before.seconds or 0.0)
                if steps > 0 and elapsed > 0:
                    self.step(LoggedStep(here.step, elapsed / steps, line=here.line))
        return super().finish()


class NanoChat(LogReader):
    """karpathy/nanochat: `step 00004/21400 (0.02%) | loss: 8.89 | lrm: 1.00 | dt: 989.44ms | tok/sec: 529,882 | mfu:
    74.13 | ...`.
    """

    mark = r"step \d+/\d+ \([0-9.]+%\) \| loss: \S+ \|.* dt: [0-9.]+ms"
    looked_at = r"step |Step |Number of parameters|world|nproc|Validation|batch size"
    format = "nanochat log"
    rate_scope = "global"

    _step = re.compile(
        rf"step {STEP}/\d+ \([0-9.]+%\) \| loss: {N} \|.*?dt: {N}ms(?: \| tok/sec: {N})?(?:.*?mfu: {N})?"
    )

    def feed(self, number: int, line: str) -> None:
        if m := self._step.search(line):
            step = LoggedStep(int(m[1]), seconds_of(m[3]), figure(m[2]), figure(m[4]), mfu=share(m[5]), line=number)
            self.step(step, m[2])
        elif m := re.search(rf"Number of parameters: {N}", line):
            self.say("parameters", figure(m[1]))
        elif m := re.search(rf"Total batch size {N}", line):
            self.run.details["tokens_per_step"] = whole(m[1])
        elif re.search(r"Validation (?:bpb|loss)", line):
            self.mark_inside("evaluation")
        else:
            self.launch(line)


class LlmC(LogReader):
    """karpathy/llm.c: `step 10/100 | loss 9.5 (+nanz)| ... | 135.1 ms | 47.8% bf16 MFU | 3880000 tok/s`."""

    mark = r"step +\d+/\d+ \|.*?tok/s"
    looked_at = r"step |^\| |val loss|nproc|mpirun"
    format = "llm.c log"
    rate_scope = "global"

    _step = re.compile(rf"step +{STEP}/\d+ \|.*?loss {N}.*?\| {N} ms \| (?:{N}% (\w+) MFU|n/a MFU) \| {N} tok/s")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._settings: dict[str, str] = {}

    def feed(self, number: int, line: str) -> None:
        if m := self._step.search(line):
            self._apply()
            self.step(
                LoggedStep(int(m[1]), seconds_of(m[3]), figure(m[2]), figure(m[6]), mfu=share(m[4]), line=number), m[2]
            )
            self.run.precision = m[5] or self.run.precision
        elif m := re.match(r"\| ([\w ()/]+?) +\| (.+?) +\|$", line):
            self._settings[m[1].strip()] = m[2].strip()
        elif m := re.match(rf"val loss {N}", line):
            self.run.best_val_loss = least(self.run.best_val_loss, figure(m[1]))

    def _apply(self) -> None:
        if not self._settings:
            return
        settings, self._settings = self._settings, {}
        self.say("device", settings.get("device"))
        self.say("micro_batch", whole(settings.get("micro batch size B")))
        self.say("seq_len", whole(settings.get("sequence length T")))
        self.say("world_size", whole(settings.get("num_processes")) or None)
        self.say("parameters", figure(settings.get("num_parameters")))
        self.run.details["tokens_per_step"] = whole(settings.get("total batch size"))

    def finish(self) -> list[ReportedRun]:
        self._apply()
        return super().finish()


class TorchTitan(LogReader):
    """pytorch/torchtitan: tps (wps until 2024) is of one device; tflops / mfu is the peak that the program divided
    by.
    """

    mark = r"step: +\d+ +loss: +(?:[0-9.]+|nan|inf).*?(?:tps|wps): "
    looked_at = r"step: |Peak FLOPS|Peak flops|capacity: |batch size|mesh|Dumping|checkpoint|nproc|ompiling"
    format = "torchtitan log"
    rate_scope = "rank"

    _step = re.compile(
        rf"step: +{STEP} +loss: +{N}(?:.*?memory: +{N}GiB)?.*?(?:tps|wps): +{N}(?:.*?tflops: +{N})?(?:.*?mfu: +{N}%)?"
    )

    def feed(self, number: int, line: str) -> None:
        if m := self._step.search(line):
            flops, memory = figure(m[5]), figure(m[3])
            step = LoggedStep(int(m[1]), None, figure(m[2]), figure(m[4]), mfu=share(m[6]), line=number)
            step.flops_per_s = flops * 1e12 if flops else None
            self.step(step, m[2])
            run = self.run
            run.memory_reported_bytes = max(run.memory_reported_bytes or 0.0, (memory or 0.0) * 2**30) or None
            if step.mfu and step.flops_per_s:
                run.details["implied_peak_flops"] = step.flops_per_s / step.mfu
        elif m := re.search(r"Peak flops undefined for: (.+?),? fallback to (\w+)", line):
            self.run.details["peak_fallback"] = f"{m[1]} -> {m[2]}"
            self.run.peak_flops = A100_BF16 if m[2] == "A100" else None
        elif m := re.search(rf"Peak FLOPS used for computing MFU: {N}", line):
            self.say("peak_flops", figure(m[1]))
        elif m := re.search(r"(?:CUDA|GPU|HIP) capacity: (.+?) with ", line):
            self.say("device", m[1])
        elif m := re.search(rf"local batch size:? {N}, global batch size:? {N}.*?sequence length:? {N}", line):
            self.say("micro_batch", whole(m[1]) or None)
            self.say("global_batch", whole(m[2]) or None)
            self.say("seq_len", whole(m[3]) or None)
        elif m := re.search(r"device mesh with \[[^\]]*\], \[([\d, ]+)\]", line):
            self._mesh(m[1])
        elif re.search(r"(?i)dumping (?:profiler )?traces", line):
            self.mark_inside("profiler")
        elif re.search(r"(?i)sav(?:ing|ed) (?:the |a )?(?:full )?checkpoint", line):
            self.mark_inside("checkpoint")
        else:
            self.launch(line)

    def _mesh(self, sizes: str) -> None:
        product = 1
        for size in sizes.split(",")[:5]:
            product *= min(int(size), 10**6) if size.strip() else 1
        self.say("world_size", product or None)


class MaxText(LogReader):
    """google/maxtext: `completed step: 15107, seconds: 2.167, TFLOP/s: 36.722, loss: 2.191`; later versions say
    "/device".
    """

    mark = r"completed step: \d+, seconds: "
    looked_at = r"completed step|eval|checkpoint|number parameters"
    format = "MaxText log"
    rate_scope = "rank"

    _step = re.compile(
        rf"completed step: {STEP}, seconds: {N}(?:, TFLOP/s(?:/device)?: {N})?(?:, Tokens/s/device: {N})?"
        rf".*?(?:loss: {N})?$"
    )

    def feed(self, number: int, line: str) -> None:
        if m := self._step.search(line.strip()):
            flops = figure(m[3]) if m[3] else None
            seconds = figure(m[2])
            step = LoggedStep(
                int(m[1]),
                seconds if seconds and seconds > 0 else None,
                figure(m[5]) if m[5] else None,
                figure(m[4]) if m[4] else None,
                line=number,
            )
            step.flops_per_s = flops * 1e12 if flops else None
            self.step(step, m[5])
        elif m := re.search(rf"number parameters: {N} billion", line):
            self.say("parameters", (figure(m[1]) or 0) * 1e9 or None)
        elif "eval metrics after step" in line:
            self.mark_inside("evaluation")
        elif re.search(r"saved a checkpoint at step", line):
            self.mark_inside("checkpoint")
