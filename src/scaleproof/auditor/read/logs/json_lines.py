"""Logs whose lines hold JSON or a Python dictionary: MLPerf, DLLogger, the console of Hugging Face's Trainer."""

import ast
import json
import re
from typing import Any

from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.logs.dialect import Line, LogReader
from scaleproof.auditor.read.reported import ReportedRun, TimedSpan, span_of, step_of
from scaleproof.auditor.read.run_fields import OF_KIND, Fields, figure, number_of

MLPERF_COUNTS = {
    "global_batch_size": "global_batch",
    "gradient_accumulation_steps": "accumulation",
    "max_sequence_length": "seq_len",
    "train_samples": "dataset_samples",
}


LONGEST_ENTRY = 2000  # characters of a dictionary that was printed over several lines


class ReaderOfEntries(LogReader):
    """A log whose program writes an object of JSON behind its mark: 'DLLL {"key": "seed"}'."""

    def feed(self, number: int, line: str) -> None:
        """Read one line. Ranks write at once: it may have several entries, and parts of one, which is noted."""
        for m in re.finditer(self.mark, line):
            try:
                entry, _ = json.JSONDecoder().raw_decode(line, m.end() - 1)
            except (ValueError, RecursionError):
                self.run.details.setdefault("broken_lines", []).append(number)
                continue
            self.take(number, entry)

    def take(self, number: int, entry: dict[str, Any]) -> None:
        """Take an entry of line `number`."""
        raise NotImplementedError


class MLPerf(ReaderOfEntries):
    """`:::MLLOG {...}` of mlcommons/logging. The result is the time from run_start to run_stop."""

    mark = r":::MLLOG \{"
    looked_at = r":::MLLOG"
    format = "MLPerf log"
    rate_scope = "global"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._start_ms: float | None = None  # of the run that has not stopped yet

    def take(self, number: int, entry: dict[str, Any]) -> None:
        """Take an entry. Stages other than the run ("eval") are parts of it."""
        key, time_ms = entry.get("key"), number_of(entry.get("time_ms"))
        if key == "run_start" and time_ms is not None:
            if self.run.timed_spans:
                self._restart()
            self._start_ms = time_ms
        elif key in ("run_stop", "run_end") and time_ms is not None:
            self._stop(time_ms, entry.get("metadata"))
        elif isinstance(key, str):
            self._take_value(key, entry.get("value"), number)

    def _take_value(self, key: str, value: Any, number: int) -> None:
        """Take what an entry, on line `number`, says of the run: "global_batch_size", 256."""
        if key in MLPERF_COUNTS and isinstance(value, int) and value > 0:
            self.say(MLPERF_COUNTS[key], value)
        elif key == "submission_benchmark":
            self.say("model", str(value))
        elif key == "seed":
            self.say("run_id", str(value))
        elif key == "tracked_stats" and isinstance(value, dict):
            rate = number_of(value.get("throughput"))
            if rate is not None:
                steps = self.run.logged_steps
                steps.append(step_of(len(steps) + 1, None, {"samples_per_s": rate}, number))

    def _stop(self, time_ms: float, metadata: Any) -> None:
        """Note how long the run took until `time_ms`, and its status."""
        start_ms, self._start_ms = self._start_ms, None
        if start_ms is None or time_ms <= start_ms:
            return
        self.run.timed_spans = [TimedSpan(None, (time_ms - start_ms) / 1e3)]
        status = metadata.get("status", "") if isinstance(metadata, dict) else ""
        self.run.details["status"] = str(status) or None


class DLLogger(ReaderOfEntries):
    """NVIDIA/dllogger: `DLLL {"elapsedtime": ..., "type": "LOG", "step": [0, 10], "data": {...}}`."""

    mark = r"DLLL \{"
    looked_at = r"DLLL "
    format = "DLLogger log"
    rate_scope = "global"

    def take(self, number: int, entry: dict[str, Any]) -> None:
        """Take an entry, of parameters or of a step."""
        data = entry.get("data")
        if not isinstance(data, dict):
            return
        if entry.get("type") == "PARAMETER":
            self._parameters(data)
        elif entry.get("type") == "LOG":
            self._store_entry(entry.get("step"), data, number)

    def _parameters(self, data: dict[str, Any]) -> None:
        """Take devices and batches of the run from its parameters: {"world_size": 8, "global_batch_size": 256}."""
        for key, value in data.items():
            kind = column_of(str(key)).kind
            if kind in ("processes", "devices", "global_batch", "micro_batch") and isinstance(value, int) and value > 0:
                self.say(OF_KIND[kind], value)

    def _store_entry(self, step_path: Any, data: dict[str, Any], number: int) -> None:
        """Store the figures of an entry as a step ([epoch, step]) or a timed span ([epoch]). Takes no summary ([])."""
        values = _values_by_kind(data)
        path = [0, step_path] if "step_time_s" in values and not isinstance(step_path, list) else step_path
        numbers = [int(part) for part in path if isinstance(part, int)] if isinstance(path, list) else []
        if len(numbers) >= 2:
            epoch, step_number, *_ = numbers
            loss_text = next((str(value) for key, value in data.items() if str(key).endswith("loss")), None)
            self.step(step_of(step_number, values.get("step_time_s"), values, number, epoch), loss_text)
        elif values and numbers:
            seconds = values.get("epoch_time_s") or values.get("total_time_s")
            self.run.timed_spans.append(span_of(numbers[0], seconds, values))


def _values_by_kind(data: dict[str, Any]) -> dict[str, float | None]:
    """Return the figures of an entry in base units, the first of each kind: {"loss": 2.3} of {"train.loss": "2.3"}."""
    values: dict[str, float | None] = {}
    for key, value in data.items():
        _, _, last_part = str(key).rpartition(".")
        name = last_part.removeprefix("total_")
        column = column_of("images/s" if name == "ips" else name)  # "ips": images per second
        printed = figure(str(value))
        if column.kind and printed is not None:
            values.setdefault(column.kind, printed * column.scale)
    return values


class HuggingFaceConsole(LogReader):
    """transformers.Trainer: `{'loss': 2.3, 'epoch': 0.1}` of steps, and `{'train_runtime': ...}` of the run."""

    mark = r"\{'(?:loss|train_loss|train_runtime|eval_loss)': .*'epoch': |\{[^{}\n]*'train_runtime': |\{'loss': .*\}"
    looked_at = (
        r"\{'|^ '\w+': |Num examples|Instantaneous batch|Total train batch|Gradient Accumulation|Total optimization|"
        r"nproc|Number of trainable|/s\]|s/it|\*\* Running"
    )
    format = "Hugging Face console log"
    others = (
        Line("Num examples = {dataset_samples}"),
        Line("Instantaneous batch size per device = {micro_batch}"),
        Line("Total train batch size .*= {global_batch}"),
        Line("Gradient Accumulation steps = {accumulation}"),
        Line("Total optimization steps = {total_steps}"),
        Line("Number of trainable parameters = {parameters}"),
    )

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._is_evaluating = False  # the counts that follow are of an evaluation
        self._open = ""  # a dictionary over several lines, as far as it was read

    def feed(self, number: int, line: str) -> None:
        """Read one line: a dictionary of figures, a setting, or perhaps a command."""
        if self._open and line.startswith(" '"):
            line = self._open + line
        start, end = line.find("{'"), line.rfind("}") + 1
        self._open = line[start:] if start >= 0 and line.endswith(",") and len(line) < LONGEST_ENTRY else ""
        if start >= 0:  # a progress bar may stand before it
            data = _literal(line[start:end])
            if isinstance(data, dict):
                self.store(data, number, self.step_of_bar(line[:start]) if "loss" in data else None)
        elif m := re.search(r"\*\* Running (\w+)", line):
            self._is_evaluating = m[1].lower() != "training"
        else:
            is_setting = not self._is_evaluating and self.take_setting(line)
            if not is_setting and not self.bar(line):
                self.launch(line)

    def store(self, data: dict[str, Any], number: int | None = None, at: int | None = None) -> None:
        """Store a dictionary, of line `number`, by its keys: the summary of the run, an evaluation, or a step.

        `at`: the step of the bar before it. Where nothing says the step, it is the one after the last.
        """
        values = {str(key): figure(str(value)) for key, value in data.items()}
        run, epoch = self.run, values.get("epoch")
        if values.get("train_runtime"):
            self._store_summary(values)
        elif "eval_loss" in data:
            run.see_val_loss(values.get("eval_loss"))
        elif "loss" in data:
            if run.timed_spans and "step" not in values:  # `run` is over: the loss is of a new one, then `self.run`
                self._restart()
            steps_before = self.run.logged_steps.step_numbers
            step_number = int(values.get("step") or at or (steps_before[-1] + 1 if len(steps_before) else 1))
            figures = {"loss": values.get("loss"), "tokens_per_s": values.get("tokens_per_second")}
            step = step_of(step_number, None, figures, number, None if epoch is None else int(epoch))
            self.step(step, str(data["loss"]))
            self.run.see_gradient_norm(values.get("grad_norm"))

    def _store_summary(self, values: dict[str, float | None]) -> None:
        """Store the summary of the run: {"train_runtime": 61.2, "train_samples_per_second": 980.4, ...}."""
        run, epoch = self.run, values.get("epoch")
        span = TimedSpan(
            seconds=values["train_runtime"],
            samples_per_s=values.get("train_samples_per_second"),
            train_loss=values.get("train_loss"),
            optimizer_steps=run.details.get("total_steps"),
        )
        run.timed_spans = [span]
        run.details |= {"steps_per_second": values.get("train_steps_per_second"), "epoch": epoch}
        if epoch and epoch == int(epoch):
            run.epochs = int(epoch)


def _literal(text: str) -> Any:
    """Return the value of a Python literal, {"loss": "nan"} of "{'loss': nan}".

    Returns None for other texts. As JSON, with other quotes, it is read faster: a log has millions of such lines.
    """
    if '"' not in text and "\\" not in text:
        try:
            return json.loads(text.replace("'", '"'))
        except (ValueError, RecursionError):
            pass
    try:
        return ast.literal_eval(re.sub(r"(-?\b(?:nan|inf)\b)", r"'\1'", text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def read_trainer_state(name: str, data: dict[str, Any]) -> ReportedRun:
    """Return the run of transformers' trainer_state.json, whose entries are the dictionaries of its console."""
    reader = HuggingFaceConsole(name)
    run = reader.run
    run.format = "HF Trainer state"
    state = Fields(data, run.problems)
    run.micro_batch = state.count("train_batch_size")
    run.details["total_steps"] = state.count("global_step")
    for entry in state.values("log_history"):
        if isinstance(entry, dict) and figure(str(entry.get("step"))) is not None:
            reader.store(entry)
    run.epochs = state.count("num_train_epochs")
    reader.finish()
    return run
