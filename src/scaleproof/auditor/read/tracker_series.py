"""Scalars along a run, as experiment trackers write them: TensorBoard, Weights & Biases, Lightning's CSVLogger.

A tracker's names are the user's own ("train/loss", "perf/tokens_per_sec"): the last part of a name is read like the
heading of a table. Figures of validation, of a whole epoch, or not understood are left out. Clocks of trackers
("_runtime", "wall time") are times of writing: no step time is derived from them; an `elapsed_time` is one of training.
"""

import csv
import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scaleproof.auditor.read.csv_logs import RUN_KINDS, describe_run, records_of
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.logged_steps import LoggedStep, StepSeries
from scaleproof.auditor.read.printed_figures import duration
from scaleproof.auditor.read.reported import ReportedRun
from scaleproof.auditor.read.run_fields import figure, is_number, not_finite
from scaleproof.auditor.read.text_files import UnreadableFile
from scaleproof.ground.errors import plural

STEP_KEYS = (
    *("_step", "global_step", "trainer/global_step", "train/global_step", "step", "iter", "iteration", "Step"),
    *("current_steps", "global_step/max_steps"),  # of LLaMA-Factory; of ms-swift, "5/100"
)
CLOCKS = ("_runtime", "_timestamp")
LEAST_STEPS = 3  # steps that make a series
LEAST_SECONDS = 20  # of a clock of whole seconds, so that its rounding is 5 % at most
STEP_OF = re.compile(r"(\d{1,12})/\d+")
MOST_STEPS = 1_000_000
OF_EVALUATION = re.compile(r"(?i)(?:^|[/_. ])(?:val|valid|validation|eval|evaluation|test|dev)(?:$|[/_. ])")
OF_AN_EPOCH = re.compile(r"(?i)_epoch$")
OF_ONE_DEVICE = re.compile(r"(?i)(?:^|/)(?:device|gpu|rank)(?:/|$)")
KINDS_OF_SCALARS = {"step_time_s", "gradient_norm", "loss", "val_loss", "mfu"}
KINDS_OF_SCALARS |= {"steps_per_s", "tokens_per_s", "samples_per_s"}
TAG = re.compile(r"(?i)[-_.]tag[-_](?P<tag>.+?)(?: \(\d+\))?\.(?:csv|json)$")
COLUMNS_OF_TENSORBOARD = ("wall time", "step", "value")  # in the CSV file of a scalar


@dataclass(frozen=True)
class Scalar:
    """What the figures under a name in a tracker are: value x scale is in the base unit."""

    kind: str
    scale: float = 1.0
    per_device: bool = False


def scalar_of(key: str) -> Scalar | None:
    """Return what the figures under a name are: "train/loss" is a loss. None where it is not understood."""
    parts = [part for part in key.strip().split("/") if part]
    if not parts or OF_AN_EPOCH.search(key):
        return None
    names = [parts[-1].removesuffix("_step")]  # "train/loss"
    if len(parts) == 2:
        names.append(parts[0])  # "loss/train"
    names.append(key)  # "throughput/device/tokens_per_sec"

    column = next((column for column in map(column_of, names) if column.kind in KINDS_OF_SCALARS), None)
    if column is None or column.kind is None or column.statistic not in (None, "mean"):
        return None
    if OF_EVALUATION.search(key):
        return Scalar("val_loss") if column.kind in ("loss", "val_loss") else None
    is_per_device = column.per_device or OF_ONE_DEVICE.search(key) is not None
    return Scalar(column.kind, column.scale, is_per_device)


class SeriesReader:
    """Collects scalars by step into one run."""

    def __init__(self, name: str, form: str) -> None:
        self.run = ReportedRun(name, form)
        self._steps: dict[int, LoggedStep] = {}
        self._scalars: dict[str, Scalar | None] = {}
        self._not_finite: set[int] = set()
        self._has_rates_of_all = False  # a rate of all devices was taken

    def add(self, step: int, key: str, value: Any, line: int | None = None) -> None:
        """Take a value as the tracker wrote it: 12, "train/loss", "2.31". Unknown keys are passed over."""
        if key not in self._scalars:
            self._scalars[key] = scalar_of(key)
        scalar = self._scalars[key]
        if scalar is None or step < 0 or len(self._steps) >= MOST_STEPS:
            return

        text = str(value)
        number = figure(text)
        if number is None:
            if scalar.kind == "loss" and not_finite(text):
                self._not_finite.add(step)
                self._step_of(step, line)
        elif scalar.kind == "val_loss":
            self.run.see_val_loss(number * scalar.scale)
        else:
            self._set(self._step_of(step, line), scalar, number * scalar.scale)

    def _step_of(self, step: int, line: int | None) -> LoggedStep:
        return self._steps.setdefault(step, LoggedStep(step, line=line))

    def _set(self, logged: LoggedStep, scalar: Scalar, number: float) -> None:
        """Put a figure, in its base unit, into the step `logged`. Of several losses, times or rates the first counts.

        Times and rates of 0 or less are passed over, and samples/s of one device. Norms of gradients belong to the run.
        """
        if scalar.kind == "loss":
            logged.loss = number if logged.loss is None else logged.loss
            return
        if scalar.kind == "gradient_norm":
            self.run.see_gradient_norm(number)
            return
        if number <= 0:
            return
        if scalar.kind == "steps_per_s":
            self.run.steps_per_s.append(number)
        elif scalar.kind == "step_time_s":
            logged.seconds = logged.seconds or number
        elif scalar.kind == "mfu":
            logged.mfu = number
        elif scalar.kind == "samples_per_s" and not scalar.per_device:
            logged.samples_per_s = logged.samples_per_s or number
        elif scalar.kind == "tokens_per_s":
            self._set_tokens_per_s(logged, number, scalar.per_device)

    def _set_tokens_per_s(self, logged: LoggedStep, number: float, is_per_device: bool) -> None:
        """Put a rate into its step. Of rates of one device and rates of all devices, the first kind counts."""
        is_other_kind = self.run.rate_scope not in (None, "rank" if is_per_device else "global")
        if is_other_kind or (is_per_device and self._has_rates_of_all):
            return
        if is_per_device:
            self.run.rate_scope = "rank"
        else:
            self._has_rates_of_all = True
        logged.tokens_per_s = logged.tokens_per_s or number

    def finish(self) -> ReportedRun | None:
        """Return the run. None where it has too few steps to be one."""
        if len(self._steps) < LEAST_STEPS:
            return None
        self.run.logged_steps = StepSeries(self._steps[step] for step in sorted(self._steps))
        self.run.logged_steps.read_mfu_as_share()
        self.run.nan_steps = sorted(self._not_finite)
        return self.run


def read_json_steps(name: str, rows: list[Any], has_lines: bool = True) -> ReportedRun | None:
    """Return the run of rows {"_step": 1, "loss": 2.3}, of three losses, or rates, and rising steps. None for others.

    `has_lines`: whether each row is a line of its file.
    """
    records = [row for row in rows if isinstance(row, dict)]
    if len(records) < len(rows) or len(records) < LEAST_STEPS:
        return None
    # The name under which nearly all rows have their step.
    step_key = next((key for key in STEP_KEYS if sum(key in row for row in records) >= 0.9 * len(records)), None)
    # Rows of different configurations differ in devices, strategy, global batch, ...
    if step_key is None or any(len({str(row.get(key)) for row in records}) > 1 for key in _settings_of(records)):
        return None

    is_of_wandb = any(clock in records[0] for clock in CLOCKS)
    reader = SeriesReader(name, "W&B history" if is_of_wandb else "step log (JSON)")
    clock: list[tuple[int, float]] = []  # steps and the seconds since the start
    last_step = -1
    for line, record in enumerate(records, start=1):
        step = record.get(step_key, last_step)  # a row without a number belongs to the step before
        if isinstance(step, str) and (m := STEP_OF.fullmatch(step)):
            step = int(m[1])
        if isinstance(step, float) and not math.isfinite(step):
            reader.run.problems.append(f"{'line' if has_lines else 'row'} {line}: its {step_key} is {step}")
            continue
        if not is_number(step) or step < last_step:
            return None  # it starts again, or counts something else
        last_step = int(step)
        if elapsed := duration(str(record.get("elapsed_time"))):
            clock.append((last_step, elapsed.value))
        for key, value in record.items():
            if key != step_key and (isinstance(value, str) or is_number(value)):  # a text may be "2.31" or "NaN"
                reader.add(last_step, str(key), value, line if has_lines else None)
    run = reader.finish()
    if run is None:
        return None
    losses = len(run.logged_steps.values("loss")) + len(run.nan_steps)
    if max(losses, *(len(run.logged_steps.values(rate)) for rate in ("tokens_per_s", "samples_per_s"))) < LEAST_STEPS:
        return None
    if clock and not run.steps_per_s and (seconds := clock[-1][1] - clock[0][1]) >= LEAST_SECONDS:
        run.steps_per_s = [(clock[-1][0] - clock[0][0]) / seconds]
    for key, kind in _settings_of(records).items():  # equal in all rows: devices, strategy, ...
        describe_run(run, kind, str(records[0][key]))
    return run


def whole_step(step: float, row: int) -> int:
    """Return the step of a row. Raises UnreadableFile for Infinity and NaN."""
    if isinstance(step, float) and not math.isfinite(step):
        raise UnreadableFile(f"the step of row {row} is {step}, not a number of a step")
    return int(step)


def _settings_of(records: list[dict[str, Any]]) -> dict[str, str]:
    """Return which keys of a log's rows state a setting of the run: key -> its kind, "num_gpus" -> "devices".

    Only keys of the first row count. "batch" is left out: it may be the number of a batch.
    """
    kinds = {key: column_of(str(key)).kind for key in records[0]}
    return {key: kind for key, kind in kinds.items() if kind in RUN_KINDS and kind != "batch"}


def tag_of(name: str) -> str:
    """Return the tag in the name of a TensorBoard file, "train/loss" of "x-tag-train_loss.csv", else "loss" or ""."""
    if m := TAG.search(name):
        return m["tag"].replace("_", "/", 1)
    return "loss" if "loss" in name.lower() else ""


def is_tracker_csv(header: str) -> bool:
    """Whether a CSV file with this heading is Lightning's `metrics.csv`, W&B's export, or a scalar of TensorBoard."""
    names = next(csv.reader([header]), [])
    if _is_of_tensorboard(names) or _is_of_wandb(names):
        return True
    ends, starts = ("_step", "_epoch"), ("train/", "throughput/")  # of names that Lightning gives
    has_lightning_name = any(name.endswith(ends) or name.startswith(starts) for name in names)
    return "_step" in names or ("step" in names and "epoch" in names and has_lightning_name)


def _is_of_tensorboard(names: list[str]) -> bool:
    return tuple(map(str.lower, names)) == COLUMNS_OF_TENSORBOARD


def _is_of_wandb(names: list[str]) -> bool:
    return any(name.endswith("__MIN") for name in names)


def read_tracker_csv(name: str, header: str, lines: Iterable[str], first_line: int = 2) -> list[ReportedRun]:
    """Return the runs of a tracker's CSV file: one for each run of an export of W&B, else one or none."""
    names = next(csv.reader([header]), [])
    if _is_of_wandb(names):
        return _wandb_export(name, names, lines, first_line)
    tag = tag_of(name) if _is_of_tensorboard(names) else None  # a file of TensorBoard has one scalar, named by the file
    of_rows = "W&B history" if "_step" in names else "Lightning CSVLogger"
    reader = SeriesReader(name, of_rows if tag is None else "TensorBoard export")
    for line, row in _rows(names, lines, first_line):
        step = figure(row.get("step") or row.get("Step") or row.get("_step"))
        if step is None:
            continue
        values: Mapping[str, str | None] = row if tag is None else {tag: row.get("Value") or row.get("value")}
        for key, value in values.items():
            if value and key not in ("step", "epoch"):
                reader.add(int(step), key, value, line)
    run = reader.finish()
    return [run] if run else []


def _wandb_export(name: str, names: list[str], lines: Iterable[str], first_line: int) -> list[ReportedRun]:
    """Return the runs of a chart of W&B: columns "Step", "run1 - loss", "run1 - loss__MIN", "run1 - loss__MAX", ..."""
    if not names[0].lower().endswith("step"):
        return []  # the chart is over a clock or another figure, not over steps
    readers: dict[str, SeriesReader] = {}
    headings = [heading for heading in names[1:] if " - " in heading and not heading.endswith(("__MIN", "__MAX"))]
    for line, row in _rows(names, lines, first_line):
        step = figure(row.get(names[0]))
        if step is None:
            continue
        for heading in headings:
            run_name, key = heading.rsplit(" - ", 1)
            if not row.get(heading) or key in CLOCKS:
                continue
            reader = readers.setdefault(run_name, SeriesReader(f"{name}#{run_name}"[:200], "W&B export"))
            reader.add(int(step), key, row[heading], line)
    runs = [reader.finish() for reader in readers.values()]
    return [run for run in runs if run is not None]


def _rows(names: list[str], lines: Iterable[str], first_line: int) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield (line, name -> cell) for each row of a CSV file below its heading."""
    for number, record in enumerate(records_of(lines, ","), start=first_line):
        yield number, dict(zip(names, record, strict=False))


# TensorBoard's event files are read without `tensorboard`, which would bring a web server: a file is a sequence of
# TFRecords (length, its checksum, data, its checksum), each a protocol buffer `Event` of which three fields are needed
# (tensorflow/core/util/event.proto). Checksums are not verified.
PREFIX = "events.out.tfevents."
MARK = b"brain.Event:"  # what the first record of every event file states
MOST_RECORD_BYTES = 1 << 20  # with scalars; pictures and histograms are larger, and left out
HEADER_BYTES, CHECKSUM_BYTES = 12, 4
VARINT, EIGHT_BYTES = 0, 1  # wire types
BYTES, FOUR_BYTES = 2, 5
FLOAT, DOUBLE = 1, 2  # DataType of a tensor

Value = int | float | bytes


def scalars(path: Path, faults: list[str]) -> Iterator[tuple[int, str, float]]:
    """Yield (step, tag, value) of each scalar of a file. What is wrong with its records is noted in `faults`."""
    size = path.stat().st_size
    damaged = []  # the byte at which each record without sense begins
    with path.open("rb") as file:
        while header := file.read(HEADER_BYTES):
            start = file.tell() - len(header)
            length = struct.unpack_from("<Q", header)[0] if len(header) == HEADER_BYTES else size
            if start + HEADER_BYTES + length + CHECKSUM_BYTES > size:
                faults.append(f"its record at byte {start:,} is cut off, or damaged; what stands before was read")
                break
            record = file.read(length) if length <= MOST_RECORD_BYTES else b""
            file.seek(start + HEADER_BYTES + length + CHECKSUM_BYTES)
            try:
                yield from _scalars_of_event(record)
            except (ValueError, IndexError, struct.error):
                damaged.append(start)
    if damaged:
        faults.append(f"{plural(len(damaged), 'record')} damaged, the first at byte {damaged[0]:,}; others were read")


def _scalars_of_event(record: bytes) -> Iterator[tuple[int, str, float]]:
    """Yield (step, tag, value) of each scalar of one `Event`: (12, "loss", 2.31). Its field 2 is step, 5 a summary."""
    step = 0
    summaries: list[bytes] = []
    for number, wire_type, value in _fields(record):
        if (number, wire_type) == (2, VARINT) and isinstance(value, int):
            step = value
        elif (number, wire_type) == (5, BYTES) and isinstance(value, bytes):
            summaries.append(value)

    for summary in summaries:
        for number, _, value in _fields(summary):
            tag_and_value = _tag_and_value(value) if number == 1 and isinstance(value, bytes) else None
            if tag_and_value is not None:
                yield step, *tag_and_value


def _tag_and_value(data: bytes) -> tuple[str, float] | None:
    """Return tag and value of a scalar: `simple_value` (field 2), or a tensor of one number (8). Else None."""
    tag, scalar = "", None
    for number, wire_type, value in _fields(data):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            tag = value.decode("utf-8", "replace")
        elif (number, wire_type) == (2, FOUR_BYTES):
            (scalar,) = struct.unpack("<f", value)
        elif (number, wire_type) == (8, BYTES):
            scalar = _number_in_tensor(value)
    return (tag, scalar) if tag and scalar is not None else None


def _number_in_tensor(data: bytes) -> float | None:
    """Return the number of a tensor that has one, as raw content or in its list of floats or doubles. Else None."""
    dtype = 0
    values: list[bytes] = []
    for number, _, value in _fields(data):
        if number == 1:
            dtype = value if isinstance(value, int) else 0
        elif number in (4, 5, 6) and isinstance(value, bytes):  # content, floats, doubles
            values.append(value)
    layout = {FLOAT: "<f", DOUBLE: "<d"}.get(dtype)
    if layout is None or len(values) != 1 or len(values[0]) != struct.calcsize(layout):
        return None
    (scalar,) = struct.unpack(layout, values[0])
    return float(scalar)


def _fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """Yield (number, wire type, value) of the fields of a protocol buffer. Only varints become numbers."""
    start = 0
    while start < len(data):
        key, start = _varint(data, start)
        number, wire_type = key >> 3, key & 7
        if wire_type == VARINT:
            value, start = _varint(data, start)
            yield number, wire_type, value
            continue
        if wire_type == BYTES:
            length, start = _varint(data, start)
        elif wire_type in (EIGHT_BYTES, FOUR_BYTES):
            length = 8 if wire_type == EIGHT_BYTES else 4
        else:
            raise ValueError(f"wire type {wire_type}")
        if start + length > len(data):
            raise ValueError("cut off")
        yield number, wire_type, data[start : start + length]
        start += length


def _varint(data: bytes, start: int) -> tuple[int, int]:
    """Return the number at `start`, 7 bits a byte, lowest first, and the place behind: b"\\x96\\x01" -> 150, 2."""
    value = shift = 0
    while True:
        byte = data[start]
        value |= (byte & 0x7F) << shift
        start += 1
        if byte < 0x80:
            return value, start
        shift += 7
        if shift > 63:
            raise ValueError("no varint")
