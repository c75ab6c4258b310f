"""Blocks that every rank prints, mixed with a progress bar: figures of several ranks may share a line."""

import re
from collections.abc import Callable

from scaleproof.auditor.read.logged_steps import LoggedStep, StepSeries
from scaleproof.auditor.read.logs.base import NUMBER as N
from scaleproof.auditor.read.logs.base import STEP, LogReader, least, whole
from scaleproof.auditor.read.logs.megatron import ARGUMENTS
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.run_fields import figure

CLOCK = r"(?:(\d{1,6}):)?(\d{1,2}):(\d{2})"
MIB = 2.0**20
# The events of a line, in their order.
EVENTS = re.compile(
    rf"(?P<step>Step {STEP}: loss:? {N})"
    rf"|(?P<elapsed>elapsed_time_per_iteration:? {N} ?s)"
    rf"|(?P<rate_at>Throughput \(TFLOPS\) at step {STEP}: {N})"
    rf"|(?P<rate>Throughput average on \d+: {N})"
    rf"|(?P<memory>Torch reports memory usage: {N} ?MB)"
    rf"|(?P<bar>(\w*):? *\d+%\|[^|]*\| *{STEP}/\d+ \[{CLOCK}<[^,\]]*, *{N}(it/s|s/it)\])"
)
OVERFLOW = re.compile(rf"OVERFLOW!(?: Rank (\d+))?.*?kipping step\.(?: Attempted loss scale: {N}, reducing to {N})?")


class RankBlocks(LogReader):
    """`Step N: loss x`, `elapsed_time_per_iteration: x s`, rate, memory, GPUtil's table, tqdm's bar, of all ranks."""

    mark = r"elapsed_time_per_iteration"
    looked_at = (
        r"Step \d|elapsed_time|Throughput|Torch reports|it/s\]|s/it\]|^\||zero|stage|offload_optimizer|"
        r"OVERFLOW|micro.batch|global.batch|"
        r"seq.length|num.gpus|world.size|framework|profile|Profiler|Validation loss|CUDA time total|nproc"
    )
    format = "text log in blocks"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._steps: dict[int, LoggedStep] = {}
        self._last: LoggedStep | None = None
        self._unplaced = 0.0  # a time that stands before any step's number
        self._columns: list[str] = []
        self._bar: dict[int, tuple[float, float]] = {}
        self._scale: float | None = None  # that a loss scaler was last reduced to
        self._settling = True
        self._readers: dict[str, Callable[[re.Match[str], int], None]] = {
            "step": self._on_step,
            "elapsed": self._on_elapsed,
            "rate": self._on_rate,
            "rate_at": self._on_rate,
            "memory": self._on_memory,
            "bar": self._on_bar,
        }

    def feed(self, number: int, line: str) -> None:
        """Read one line: all of its events in their order, and the settings that it states."""
        events = False
        for m in EVENTS.finditer(line):
            events = True
            assert m.lastgroup is not None
            self._readers[_kind(m)](m, number)
        if line.startswith("|"):
            self._device_table(line)
        elif not events and (named := re.match(r" *(?:\[[^\]]*\] *)*(?:--)?([\w-]+)(?: \.{3,} |: |=)(\S+)$", line)):
            self._argument(named[1].replace("-", "_"), named[2])
        self._engine(line)
        self._other(line)

    # Figures

    def _at(self, step: int, number: int) -> LoggedStep:
        if step not in self._steps:
            self._steps[step] = LoggedStep(step, line=number)
        return self._steps[step]

    def _on_step(self, m: re.Match[str], number: int) -> None:
        """Note the loss that a rank printed for a step; the first one is that of the run."""
        text = re.search(rf"Step {STEP}: loss:? {N}", m["step"])
        assert text is not None
        logged = self._at(int(text[1]), number)
        self._last = logged
        loss = figure(text[2])
        if loss is not None:
            self.run.rank_losses.setdefault(logged.step, []).append(loss)
            logged.loss = logged.loss if logged.loss is not None else loss
        elif text[2].lower() in ("nan", "inf") and logged.step not in self.run.nan_steps:
            self.run.nan_steps.append(logged.step)

    def _on_elapsed(self, m: re.Match[str], number: int) -> None:
        """Note the time of the last step, that of the slowest rank."""
        seconds = _last_figure(m["elapsed"].removesuffix("s"))
        if self._last is None:
            self._unplaced = max(self._unplaced, seconds or 0.0)
        else:
            self._last.seconds = max(self._last.seconds or 0.0, seconds or 0.0) or None

    def _on_rate(self, m: re.Match[str], number: int) -> None:
        """Note FLOP/s of a step, those of the slowest rank.

        `at step 15` names its step; `average on 15`, the number of steps, belongs to the last printed step.
        """
        text = m[0]
        logged = self._last
        if at := re.search(rf"at step {STEP}", text):
            logged = self._at(int(at[1]), number)
            logged.seconds = logged.seconds or self._unplaced or None
            self._unplaced = 0.0
        flops = _last_figure(text)
        if logged is not None and flops and flops > 0:
            logged.flops_per_s = min(logged.flops_per_s or 1e30, flops * 1e12)

    def _on_memory(self, m: re.Match[str], number: int) -> None:
        used = _last_figure(m["memory"].removesuffix("MB"))
        self.run.memory_reported_bytes = max(self.run.memory_reported_bytes or 0.0, (used or 0.0) * MIB) or None

    def _on_bar(self, m: re.Match[str], number: int) -> None:
        """Note the seconds of a step, and those so far, by tqdm's bar; bars of anything but training are passed
        over.
        """
        bar = re.search(rf"(\w*):? *\d+%\|[^|]*\| *{STEP}/\d+ \[{CLOCK}<[^,\]]*, *{N}(it/s|s/it)\]", m["bar"])
        if bar is None or re.match(r"(?i)valid|eval|test|load|map|token|download", bar[1]):
            return
        _, step, hours, minutes, seconds, printed, unit = bar.groups()
        pace = figure(printed)
        if pace and unit == "it/s":
            pace = 1 / pace
        if pace and pace > 0:
            elapsed = int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds)
            self._bar.setdefault(int(step), (float(elapsed), pace))

    def _device_table(self, line: str) -> None:
        """Take memory and name of a device from a line of GPUtil's table, whose columns have two sets of names."""
        cells = [cell.strip() for cell in line.split("|") if cell.strip()]
        if any(c.lower().startswith(("memory used", "used memory")) for c in cells):
            self._columns = [c.lower() for c in cells]
        elif self._columns and len(cells) == len(self._columns) and cells[0].isdigit():
            row = dict(zip(self._columns, cells, strict=True))
            text = next(v for k, v in row.items() if k.startswith(("memory used", "used memory")))
            used = figure(text.removesuffix("MB"))
            self.run.memory_used_bytes = max(self.run.memory_used_bytes or 0.0, (used or 0.0) * MIB) or None
            self.run.device = row.get("name", self.run.device)

    # Settings

    def _argument(self, name: str, value: str) -> None:
        """Take an argument that the program printed, by its name and its value as printed."""
        count = whole(value)
        if name in ARGUMENTS and count and name != "train_micro_batch_size_per_gpu":
            setattr(self.run, ARGUMENTS[name], count)
        if name in ("use_pytorch_profiler", "profile") and value == "True":
            self.run.debug_settings[f"--{name.replace('_', '-')}"] = "on"
        if name == "framework":
            self.run.strategy = value.lower()

    def _engine(self, line: str) -> None:
        """Take what a line states of DeepSpeed's settings, and skipped updates."""
        run = self.run
        if m := re.search(r"(?<![a-z_])train_micro_batch_size_per_gpu[\"' ]*[:.= ]+ *(\d{1,12})\b(?!\.\d)", line):
            run.engine_batch = int(m[1])
        if "offload_optimizer" in line:
            m = re.search(r"device['\"]?[=: ]+<?['\"]?(?:OffloadDeviceEnum\.)?(\w+)", line)
            if m and m[1] != "none":
                run.offload = m[1]
        if m := re.search(
            r"(?:zero_optimization_stage|zero_stage|[\"']stage[\"']|zero_config \.+ stage)[\"' ]*[:.= ]+(\d)", line
        ):
            run.zero_stage = int(m[1])
        if m := OVERFLOW.search(line):
            self._overflow(m)

    def _overflow(self, m: re.Match[str]) -> None:
        """Count an update that rank 0 skipped. Halvings from the first scale on are the scaler settling: counted
        apart.
        """
        if m[1] not in (None, "0"):
            return
        attempted = figure(m[2]) if m[2] else None
        reduced = figure(m[3]) if m[3] else None
        is_first = self._scale is None and not self._steps
        if self._settling and attempted is not None and (is_first or attempted == self._scale):
            self.run.details["skipped_while_settling"] = self.run.details.get("skipped_while_settling", 0) + 1
        else:
            self._settling = False
            self.run.skipped_steps = (self.run.skipped_steps or 0) + 1
        self._scale = reduced

    def _other(self, line: str) -> None:
        """Take what else a line states: a profiler, a validation loss, device time, or a command."""
        if re.search(r"(?i)profiler initialized|stopping profiler", line):
            self.run.debug_settings["torch.profiler"] = "on"
        elif m := re.search(rf"Validation loss: {N}", line):
            self.run.best_val_loss = least(self.run.best_val_loss, figure(m[1]))
        elif m := re.search(rf"Self (?:CUDA|Device) time total: {N}(ms|us|s)", line):
            self.run.details["self_device_time_s"] = (figure(m[1]) or 0.0) * {"s": 1.0, "ms": 1e-3, "us": 1e-6}[m[2]]
        elif "nproc" in line:
            self.launch(line)

    def finish(self) -> list[ReportedRun]:
        """Return the run, its steps in order."""
        run = self.run
        run.logged_steps = StepSeries(self._steps[s] for s in sorted(self._steps))
        run.progress_bar = [(step, elapsed, pace) for step, (elapsed, pace) in sorted(self._bar.items())]
        run.engine = "DeepSpeed" if run.zero_stage is not None or run.engine_batch else run.engine
        if run.zero_stage is not None:
            run.strategy = f"zero{run.zero_stage}"
        return super().finish()


def _kind(m: re.Match[str]) -> str:
    return next(kind for kind in ("step", "elapsed", "rate_at", "rate", "memory", "bar") if m[kind] is not None)


def _last_figure(text: str) -> float | None:
    return figure(text.split()[-1])
