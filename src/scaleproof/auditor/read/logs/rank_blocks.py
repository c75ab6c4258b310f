"""Steps in blocks of lines, of every rank or of one, and the batches of epochs: readers that count steps themselves."""

import re
from math import prod

from scaleproof.auditor.read.logged_steps import LoggedStep, StepSeries
from scaleproof.auditor.read.logs.dialect import NUMBER as N
from scaleproof.auditor.read.logs.dialect import STEP, Line, LogReader
from scaleproof.auditor.read.reported import ReportedRun, positive
from scaleproof.auditor.read.run_fields import figure

MIB = 2.0**20
# The events of a line: several may stand in it, in any order.
EVENT = re.compile(
    rf"Step (?P<step>{STEP}): loss:? (?P<loss>{N})|elapsed_time_per_iteration:? (?P<seconds>{N}) ?s"
    rf"|Throughput (?:\(TFLOPS\) at step (?P<step_of_rate>{STEP})|average on \d+): (?P<tflops>{N})"
    rf"|Torch reports memory usage: (?P<mib>{N}) ?MB"
    rf"|(?P<bar>\w*):? *\d+%\|[^|]*\| *(?P<step_of_bar>{STEP})/\d+ "
    rf"\[(?:(?P<h>\d{{1,6}}):)?(?P<min>\d{{1,2}}):(?P<s>\d{{2}})<[^,\]]*, *(?P<speed>{N})(?P<unit>it/s|s/it)\]"
)
NO_TRAINING = re.compile(r"(?i)valid|eval|test|load|map|token|download")  # how bars of something else are called
OVERFLOW = re.compile(
    rf"OVERFLOW!(?: Rank (?P<rank>\d+))?.*?kipping step\."
    rf"(?: Attempted loss scale: (?P<attempted>{N}), reducing to (?P<reduced>{N}))?"
)
ENGINE_BATCH = re.compile(r"(?<![a-z_])train_micro_batch_size_per_gpu[\"' ]*[:.= ]+ *(\d{1,12})\b(?!\.\d)")
OFFLOAD_DEVICE = re.compile(r"device['\"]?[=: ]+<?['\"]?(?:OffloadDeviceEnum\.)?(\w+)")
ZERO_STAGE = re.compile(r"(?:zero_(?:optimization_)?stage|[\"']stage[\"']|zero_config \.+ stage)[\"' ]*[:.= ]+(\d)")


class RankBlocks(LogReader):
    """`Step N: loss x`, `elapsed_time_per_iteration: x s`, rate, memory, GPUtil's table, tqdm's bar, of all ranks."""

    mark = r"elapsed_time_per_iteration:? [\d.]"
    looked_at = (
        r"Step \d|elapsed_time|Throughput|Torch reports|it/s\]|s/it\]|^\||zero|stage|offload_optimizer|OVERFLOW|"
        r"micro.batch|global.batch|seq.length|num.gpus|world.size|framework|profile|Profiler|Validation loss|nproc"
    )
    format = "text log in blocks"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._steps: dict[int, LoggedStep] = {}
        self._last_step: LoggedStep | None = None
        self._unplaced_seconds = 0.0  # a time that stands before any step's number
        self._columns: list[str] = []  # of GPUtil's table
        self._bar: dict[int, tuple[float, float]] = {}  # step -> seconds since the start, seconds a step
        self._loss_scale: float | None = None  # after its last reduction
        self._is_settling = True  # the loss scaler still looks for its scale

    def feed(self, number: int, line: str) -> None:
        """Read one line: all of its events in their order, and the settings that it states."""
        events = list(EVENT.finditer(line))
        for event in events:
            self._take_event(event, number)
        if line.startswith("|"):
            self._device_table(line)
        elif not events and (m := re.match(r" *(?:\[[^\]]*\] *)*(?:--)?([\w-]+)(?: \.{3,} |: |=)(\S+)$", line)):
            name, value = m[1].replace("-", "_"), m[2]
            if name == "framework":
                self.run.strategy = value.lower()
            elif name != "train_micro_batch_size_per_gpu":  # the engine states it: see `_engine_setting`
                self.argument(name, value)
        self._engine_setting(line)
        self._other_line(line)

    def _take_event(self, event: re.Match[str], number: int) -> None:
        if event["step"]:
            self._last_step = self._step_of(int(event["step"]), number)
            self._take_loss(self._last_step, event["loss"])
        elif event["seconds"]:
            self._take_time(figure(event["seconds"]) or 0.0)
        elif event["tflops"]:
            self._take_rate(event["step_of_rate"], figure(event["tflops"]), number)
        elif event["mib"]:
            self.run.see_memory((figure(event["mib"]) or 0.0) * MIB)
        elif not NO_TRAINING.match(event["bar"]):
            self._take_bar(event)

    def _step_of(self, step: int, number: int) -> LoggedStep:
        """Return the step of this number; where it is new, it is put on line `number`."""
        return self._steps.setdefault(step, LoggedStep(step, line=number))

    def _take_loss(self, logged: LoggedStep, printed_loss: str) -> None:
        """Note the loss that a rank printed for a step. The first one counts as the loss of the step."""
        loss = figure(printed_loss)
        if loss is not None:
            self.run.rank_losses.setdefault(logged.step, []).append(loss)
            logged.loss = logged.loss if logged.loss is not None else loss
        elif printed_loss.lower() in ("nan", "inf") and logged.step not in self.run.nan_steps:
            self.run.nan_steps.append(logged.step)

    def _take_time(self, seconds: float) -> None:
        """Note the time of the last step on its slowest rank."""
        if self._last_step is None:
            self._unplaced_seconds = max(self._unplaced_seconds, seconds)
        else:
            self._last_step.seconds = max(self._last_step.seconds or 0.0, seconds) or None

    def _take_rate(self, step: str | None, tflops: float | None, number: int) -> None:
        """Note the FLOP/s of a step on its slowest rank. Where `step` is None, it is the step that was printed last.

        `number`: of the line. A step that has no time yet takes the time that was printed before any step.
        """
        logged = self._last_step
        if step:
            logged = self._step_of(int(step), number)
            logged.seconds = logged.seconds or self._unplaced_seconds or None
            self._unplaced_seconds = 0.0
        if logged is not None and tflops and tflops > 0:
            logged.flops_per_s = min(logged.flops_per_s or 1e30, tflops * 1e12)  # 1e30: none so far

    def _take_bar(self, bar: re.Match[str]) -> None:
        """Note the seconds of a step, and since the start (0:06), by tqdm's bar: "3/9 [00:06<00:12, 2.0s/it]"."""
        seconds_per_step = figure(bar["speed"])
        if seconds_per_step and bar["unit"] == "it/s":
            seconds_per_step = 1 / seconds_per_step
        if seconds_per_step and seconds_per_step > 0:
            elapsed_s = int(bar["h"] or 0) * 3600 + int(bar["min"]) * 60 + int(bar["s"])
            self._bar.setdefault(int(bar["step_of_bar"]), (float(elapsed_s), seconds_per_step))

    def _device_table(self, line: str) -> None:
        """Take memory and name of a device from GPUtil's table, e.g. "| 0 | A100 | 30000MB |" below its headings."""
        cells = [cell.strip() for cell in line.split("|") if cell.strip()]
        if any(cell.lower().startswith(("memory used", "used memory")) for cell in cells):
            self._columns = [cell.lower() for cell in cells]
        elif self._columns and len(cells) == len(self._columns) and cells[0].isdigit():
            row = dict(zip(self._columns, cells, strict=True))
            text = next(cell for name, cell in row.items() if name.startswith(("memory used", "used memory")))
            used_mib = figure(text.removesuffix("MB")) or 0.0
            self.run.memory_used_bytes = max(self.run.memory_used_bytes or 0.0, used_mib * MIB) or None
            self.run.device = row.get("name", self.run.device)

    def _engine_setting(self, line: str) -> None:
        """Take what a line states of DeepSpeed's settings ("zero_optimization_stage: 2"), and skipped updates."""
        run = self.run
        if m := ENGINE_BATCH.search(line):
            run.engine_batch = int(m[1])
        if "offload_optimizer" in line and (m := OFFLOAD_DEVICE.search(line)) and m[1] != "none":
            run.offload = m[1]
        if m := ZERO_STAGE.search(line):
            run.zero_stage = int(m[1])
        if (m := OVERFLOW.search(line)) and m["rank"] in (None, "0"):  # all ranks print it, and one is counted
            self._count_skipped(figure(m["attempted"]), figure(m["reduced"]))

    def _count_skipped(self, attempted_scale: float | None, reduced_scale: float | None) -> None:
        """Count a skipped update, unless the loss scaler still looks for its scale.

        It looks from the first step on, as long as it attempts the scale to which it reduced the scale before.
        """
        is_first = self._loss_scale is None and not self._steps  # no update was skipped or made before
        is_halving = attempted_scale is not None and (is_first or attempted_scale == self._loss_scale)
        if not (self._is_settling and is_halving):
            self._is_settling = False
            self.run.skipped_steps = (self.run.skipped_steps or 0) + 1
        self._loss_scale = reduced_scale

    def _other_line(self, line: str) -> None:
        """Take a profiler, a validation loss, or a command from a line."""
        if re.search(r"(?i)profiler initialized|stopping profiler", line):
            self.run.debug_settings["torch.profiler"] = "on"
        elif m := re.search(rf"Validation loss: {N}", line):
            self.run.see_val_loss(figure(m[1]))
        elif "nproc" in line:
            self.launch(line)

    def finish(self) -> list[ReportedRun]:
        """Return the run: its steps and its bar in order, engine and strategy by DeepSpeed's settings."""
        run = self.run
        run.logged_steps = StepSeries(self._steps[step] for step in sorted(self._steps))
        run.progress_bar = [(step, *seconds) for step, seconds in sorted(self._bar.items())]
        run.engine = "DeepSpeed" if run.zero_stage is not None or run.engine_batch else run.engine
        if run.zero_stage is not None:
            run.strategy = f"zero{run.zero_stage}"
        return super().finish()


class Composer(LogReader):
    """mosaicml/composer and allenai/OLMo: a line for each figure below `[batch=1/100]:`, `[step=1/100,epoch=0]`.

    ` Train throughput/tokens_per_sec: 98306.0`, `    throughput/device/tokens_per_second=9,231`: over the last steps.
    Without lines of steps, a key that comes again begins the next.
    """

    mark = r"\[batch=\d+/\d+\]:|(?m:\[step=\d+/\d+(?:,epoch=|\]$)|^\s*(?:Train )?throughput/(?:device/)?\w+_per_sec: )"
    looked_at = r"\[(?:batch|step)=|: |/.*=|composer"
    format = "Composer log"
    others = (
        Line("trainer/device_train_microbatch_size: {micro_batch}"),
        Line("memory/peak_reserved_mem: {memory_gb}"),
    )

    _figure = re.compile(rf"(?<!\S)((?:throughput|loss/train|train|time|trainer)/[\w/]+)(?:: |=){N}")
    _loss = ("loss/train/total", "train/CrossEntropyLoss")
    _rates = (("throughput/tokens_per_sec", "global"), ("throughput/device/tokens_per_second", "rank"))

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._step: int | None = None  # by the heading of the block
        self._texts: dict[str, str] = {}  # of the block so far
        self._line = 0  # where the block begins
        self._sizes: dict[str, int] = {}  # num_nodes, num_gpus_per_node

    def feed(self, number: int, line: str) -> None:
        """Read one line: the heading of a block, figures of it, a setting, or a command."""
        if m := re.search(rf"\[(?:batch|step)={STEP}/\d+[\],]", line):
            self._add_block(number)
            self._step = int(m[1])
        for key, text in [] if "Eval " in line else self._figure.findall(line):
            if key in self._texts:
                self._add_block(number)
            self._texts[key] = text
        if m := re.search(rf"\b(num_nodes|num_gpus_per_node): {STEP}", line):
            self._sizes[m[1]] = int(m[2])
            self.say("world_size", prod(self._sizes.values()) if len(self._sizes) > 1 else None)
        elif not self.take_setting(line):
            self.launch(line)

    def _add_block(self, number: int) -> None:
        """Add the step of the block that ends above line `number`, if it has figures."""
        texts = self._texts
        step = self._step if self._step is not None else len(self.run.logged_steps)
        logged = LoggedStep(step, line=self._line)
        self._texts = {}
        self._line = number
        if not texts:
            return
        loss = next((texts[key] for key in self._loss if key in texts), None)
        logged.loss = figure(loss)
        logged.samples_per_s = figure(texts.get("throughput/samples_per_sec")) or None
        logged.mfu = figure(texts.get("throughput/device/mfu")) or None
        rates = [(figure(texts[key]) or None, scope) for key, scope in self._rates if key in texts]
        logged.tokens_per_s, scope = rates[0] if rates else (None, self.run.rate_scope)
        self.step(logged, loss)
        self.run.rate_scope = scope

    def finish(self) -> list[ReportedRun]:
        """Return the runs of the file, with its last block."""
        self._add_block(0)
        return super().finish()


class Batches(LogReader):
    """Loops over the batches of an epoch, as those of timm, OpenCLIP, mmengine and PyTorch's ImageNet example.

    timm and OpenCLIP print the rate of all ranks that follows from the time beside it: `Time: 0.312s, 3282.05/s (...)`.
    Of MXNet's Speedometer, `Epoch[0] Batch [20]\tSpeed: 520.85 samples/sec`, a rate stands in place of the time.
    `Epoch: [0][  10/5005] Time  0.312 ( 0.320) Data 0.010 ( 0.012) Loss 6.9e+00`: of a batch, the last or the mean of
    some. Of ranks that print to one file the first line of a batch counts.
    """

    mark = (
        r"(?:Epoch(?:\((?:train)\))?:? +\[\d+\]|Train(?: Epoch)?: +\d+) ?\[ *\d+/\d+[^\]]*\]"
        r".*?(?:\b[Tt]ime:?|Batch \(t\):) +[\d.]+s?[ ,(]|Epoch\[\d+\] Batch \[[\d-]+\]\s+Speed: [\d.]+ samples/sec"
    )
    looked_at = r"Epoch|Train|nproc|torchrun|srun|mpirun"
    format = "log of batches"

    _batch = re.compile(
        rf"(?:Epoch(?:\(train\))?:? +\[(\d+)\]|Train(?: Epoch)?: +(\d+)) ?\[ *{STEP}/\d+[^\]]*\]"
        rf".*?(?:(?<!data_)\b[Tt]ime:?|Batch \(t\):) +{N}s?[ ,(](?: +{N}/s\b)?"
        rf"|Epoch\[(\d+)\] Batch \[(?:\d+-)?{STEP}\]\s+Speed: {N} samples/sec"
    )

    def feed(self, number: int, line: str) -> None:
        """Read one line: of a batch, or perhaps a command."""
        m = self._batch.search(line)
        if m is None:
            self.launch(line)
            return
        loss = re.search(rf"\b[Ll]oss:? +{N}", line)
        logged = LoggedStep(int(m[3] or m[7]), positive(figure(m[4])), line=number)
        logged.samples_per_s = positive(figure(m[5] or m[8]))
        logged.epoch = int(m[1] or m[2] or m[6])
        logged.loss = figure(loss[1]) if loss else None
        steps = self.run.logged_steps
        last = steps[-1] if len(steps) else None
        if last is not None and (last.epoch, last.step) == (logged.epoch, logged.step):
            return
        if last is not None and last.epoch is not None and logged.epoch < last.epoch:
            self._restart()
        if loss and logged.loss is None:
            self.run.nan_steps.append(logged.step)
        self.run.logged_steps.append(logged)
