"""Scalars along a run, as experiment trackers write them: TensorBoard, Weights & Biases, Lightning's CSVLogger.

A tracker's names are the user's own ("train/loss", "perf/tokens_per_sec"): the last part of a name is read like the
heading of a table. What is of validation, of a whole epoch, or not understood is left out. Clocks of trackers
("_runtime", "wall time") are times of writing: no step time is derived from them.
"""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scaleproof.auditor.read.csv_layout import RUN_KINDS
from scaleproof.auditor.read.fields import figure, not_finite
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.logged_steps import LoggedStep, StepSeries
from scaleproof.auditor.read.logs.base import least
from scaleproof.auditor.read.reported import ReportedRun

STEP_KEYS = ("_step", "global_step", "trainer/global_step", "train/global_step", "step", "iter", "iteration", "Step")
CLOCKS = ("_runtime", "_timestamp")
LEAST = 3  # steps that make a series
MOST_STEPS = 1_000_000
EVALUATED = re.compile(r"(?i)(?:^|[/_. ])(?:val|valid|validation|eval|evaluation|test|dev)(?:$|[/_. ])")
OF_AN_EPOCH = re.compile(r"(?i)_epoch$")
DEVICE_PART = re.compile(r"(?i)(?:^|/)(?:device|gpu|rank)(?:/|$)")
READ = {"step_time_s", "gradient_norm", "loss", "val_loss", "tokens_per_s", "samples_per_s", "mfu"}
TAG = re.compile(r"(?i)[-_.]tag[-_](?P<tag>.+?)(?: \(\d+\))?\.(?:csv|json)$")
DOWNLOAD = ("wall time", "step", "value")  # columns of a scalar that TensorBoard saved


@dataclass(frozen=True)
class Scalar:
    """What a name in a tracker is: value x scale is in the base unit."""

    kind: str
    scale: float = 1.0
    per_device: bool = False


def scalar_of(key: str) -> Scalar | None:
    """Return what the figures under a name are; None where it is not understood."""
    parts = [part for part in key.strip().split("/") if part]
    if not parts or OF_AN_EPOCH.search(key):
        return None
    names = [parts[-1].removesuffix("_step"), key]
    if len(parts) == 2:
        names.insert(1, parts[0])
    column = next((c for c in map(column_of, names) if c.kind in READ), None)
    if column is None or column.kind is None or column.statistic not in (None, "mean"):
        return None
    if EVALUATED.search(key):
        return Scalar("val_loss") if column.kind in ("loss", "val_loss") else None
    return Scalar(column.kind, column.scale, bool(column.per_device or DEVICE_PART.search(key)))


class SeriesReader:
    """Collects scalars by step into one run."""

    def __init__(self, name: str, form: str) -> None:
        self.run = ReportedRun(name, form)
        self._steps: dict[int, LoggedStep] = {}
        self._scalars: dict[str, Scalar | None] = {}
        self._not_finite: set[int] = set()

    def add(self, step: int, key: str, value: Any, line: int | None = None) -> None:
        """Take a value as the tracker wrote it, a number or its text. Keys that are not understood are passed over."""
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
                self._at(step, line)
            return
        number *= scalar.scale
        if scalar.kind == "val_loss":
            self.run.best_val_loss = least(self.run.best_val_loss, number)
            return
        self._set(self._at(step, line), scalar, number)

    def _at(self, step: int, line: int | None) -> LoggedStep:
        return self._steps.setdefault(step, LoggedStep(step, line=line))

    def _set(self, logged: LoggedStep, scalar: Scalar, number: float) -> None:
        """Put a figure in base units into its step, unless there is one of this kind."""
        if scalar.kind == "loss":
            logged.loss = number if logged.loss is None else logged.loss
        elif scalar.kind == "gradient_norm":
            self.run.see_gradient_norm(number)
        elif number <= 0:
            return
        elif scalar.kind == "step_time_s":
            logged.seconds = logged.seconds or number
        elif scalar.kind == "mfu":
            logged.mfu = number / 100 if number > 1.5 else number  # more is no share: it is in percent
        elif scalar.kind == "samples_per_s" and not scalar.per_device:
            logged.samples_per_s = logged.samples_per_s or number
        elif scalar.kind == "tokens_per_s":
            scope = "rank" if scalar.per_device else "global"
            if self.run.rate_scope in (None, scope):  # rates of one device and of all are not mixed
                self.run.rate_scope = "rank" if scalar.per_device else self.run.rate_scope
                logged.tokens_per_s = logged.tokens_per_s or number

    def finish(self) -> ReportedRun | None:
        """Return the run; None where it has too few steps to be one."""
        if len(self._steps) < LEAST:
            return None
        self.run.logged_steps = StepSeries(self._steps[step] for step in sorted(self._steps))
        self.run.nan_steps = sorted(self._not_finite)
        if self.run.nan_steps:
            self.run.details["nan_steps"] = len(self.run.nan_steps)
        return self.run


def read_history(name: str, rows: list[Any]) -> ReportedRun | None:
    """Return the run of one JSON object for each step, as `wandb.Api().run(...).history()` and most loggers write them.
    None where the rows are no series of steps: a list of results, for example.
    """
    records = [row for row in rows if isinstance(row, dict)]
    if len(records) < len(rows) or len(records) < LEAST:
        return None
    key = next((name for name in STEP_KEYS if sum(name in row for row in records) >= 0.9 * len(records)), None)
    if key is None or _of_different_runs(records):
        return None
    tracked = any(clock in records[0] for clock in CLOCKS)
    reader = SeriesReader(name, "W&B history" if tracked else "step log (JSON lines)")
    latest = -1
    for line, row in enumerate(records, start=1):
        step = row.get(key, latest)  # a row without a number belongs to the step before
        if not _is_number(step) or step < latest:
            return None  # it starts again, or counts something else
        latest = int(step)
        for other, value in row.items():
            if other != key and isinstance(value, int | float | str) and not isinstance(value, bool):
                reader.add(latest, str(other), value, line)
    run = reader.finish()
    return run if run and len(run.logged_steps.values("loss")) >= LEAST else None


def _is_number(step: object) -> bool:
    """Return whether a step is one: neither text, True, NaN nor infinite."""
    return isinstance(step, int | float) and not isinstance(step, bool) and math.isfinite(step)


def _of_different_runs(records: list[dict[str, Any]]) -> bool:
    """Whether rows are of different configurations: they differ in devices, strategy, batch, ..."""
    keys = {key for key in records[0] if column_of(str(key)).kind in RUN_KINDS and column_of(str(key)).kind != "batch"}
    return any(len({str(row.get(key)) for row in records}) > 1 for key in keys)


def tag_of(name: str) -> str:
    """Return the tag of a scalar that TensorBoard saved, from its file's name ("run-NAME-tag-loss_train.csv"); ""
    where it has none.
    """
    match = TAG.search(name)
    if match:
        return match["tag"].replace("_", "/", 1)
    return "loss" if "loss" in name.lower() else ""


def is_tracker_csv(header: str) -> bool:
    """Whether a CSV file with this heading is Lightning's `metrics.csv`, W&B's export, or a scalar of TensorBoard."""
    names = next(csv.reader([header]), [])
    if tuple(n.lower() for n in names) == DOWNLOAD:
        return True
    if any(n.endswith("__MIN") for n in names):
        return True
    own = {n for n in names if n.endswith(("_step", "_epoch")) or n.startswith(("train/", "throughput/"))}
    return "step" in names and "epoch" in names and bool(own)


def read_tracker_csv(name: str, header: str, lines: Iterable[str], first_line: int = 2) -> list[ReportedRun]:
    """Return the runs of a tracker's CSV file: one for each run of an export of W&B, else one or none."""
    names = next(csv.reader([header]), [])
    if any(n.endswith("__MIN") for n in names):
        return list(_wandb_export(name, names, lines, first_line))
    form, tag = "Lightning CSVLogger", None
    if tuple(n.lower() for n in names) == DOWNLOAD:
        form = "TensorBoard export"
        tag = tag_of(name)
    reader = SeriesReader(name, form)
    for number, row in _rows(names, lines, first_line):
        step = figure(row.get("step") or row.get("Step"))
        if step is None:
            continue
        if tag is not None:
            reader.add(int(step), tag, row.get("Value") or row.get("value"), number)
            continue
        for key, value in row.items():
            if key not in ("step", "epoch") and value:
                reader.add(int(step), key, value, number)
    run = reader.finish()
    return [run] if run else []


def _wandb_export(name: str, names: list[str], lines: Iterable[str], first_line: int) -> Iterator[ReportedRun]:
    """Yield the runs of a chart of W&B: "Step", then "RUN - KEY", "RUN - KEY__MIN", "RUN - KEY__MAX" for each run."""
    readers: dict[str, SeriesReader] = {}
    columns = {n: tuple(n.rsplit(" - ", 1)) for n in names[1:] if " - " in n and not n.endswith(("__MIN", "__MAX"))}
    if not names[0].lower().endswith("step"):
        return  # over a clock, or over another figure
    for number, row in _rows(names, lines, first_line):
        step = figure(row.get(names[0]))
        for column, (run_name, key) in columns.items():
            if step is not None and row.get(column) and key not in CLOCKS:
                reader = readers.setdefault(run_name, SeriesReader(f"{name}#{run_name}"[:200], "W&B export"))
                reader.add(int(step), key, row[column], number)
    yield from filter(None, (reader.finish() for reader in readers.values()))


def _rows(names: list[str], lines: Iterable[str], first_line: int) -> Iterator[tuple[int, Mapping[str, str]]]:
    reader = csv.reader(line.replace("\0", "") for line in lines)
    for number, record in enumerate(reader, start=first_line):
        yield number, dict(zip(names, record, strict=False))
