"""Runs of experiment trackers: TensorBoard's event files, and MLflow's file store, a folder a run, a file a metric."""

import re
from pathlib import Path

from scaleproof.auditor.read.attach import Reading, add_run
from scaleproof.auditor.read.csv_logs import RUN_KINDS, describe_run
from scaleproof.auditor.read.headings import column_of
from scaleproof.auditor.read.reported import ReportedRun, Unread
from scaleproof.auditor.read.text_files import TextFile, UnreadableFile
from scaleproof.auditor.read.tracker_series import SeriesReader, scalars

# A metric of MLflow's file store: "mlruns/0/1a2b/metrics/train/loss", a line a value.
VALUE = re.compile(r"\d{10,16} (?P<value>\S+) (?P<step>\d{1,12})")


def read_metric(reading: Reading, file: TextFile) -> bool:
    """Take a metric of a run in MLflow's file store. Return whether the file is one."""
    place = _place_in_store(file.path)
    if place is None:
        return False
    folder, key = place
    name = file.name.removesuffix(f"/metrics/{key}")
    series, _ = reading.stores.setdefault(folder, (SeriesReader(name, "MLflow file store"), file.path))
    for number, line in enumerate(file.lines(), start=1):
        if m := VALUE.fullmatch(line):
            series.add(int(m["step"]), key, m["value"], number)
        else:
            reason = "the line is no time, value and step; the others were read"
            reading.evidence.unread.append(Unread(f"{file.name}:{number}", reason))
    return True


def add_runs(reading: Reading) -> None:
    """Add the runs of MLflow's file stores, now that all their metrics are read."""
    for folder, (series, path) in reading.stores.items():
        if run := series.finish():
            _take_parameters(run, folder)
            add_run(reading, run, path)


def _place_in_store(path: Path) -> tuple[Path, str] | None:
    """Return the folder of the run that a file of MLflow's store is a metric of, and the metric. Else None."""
    metrics = next((folder for folder in path.parents if folder.name == "metrics"), None)
    if metrics is None:
        return None
    if not (metrics.parent / "meta.yaml").is_file():  # of a run that was killed, or copied in part
        with path.open(encoding="utf-8", errors="replace") as file:
            if not VALUE.fullmatch(file.readline(100).rstrip()):
                return None
    return metrics.parent, path.relative_to(metrics).as_posix()


def _take_parameters(run: ReportedRun, folder: Path) -> None:
    """Take what the parameters of a run in MLflow's store say of it, a small file each: devices, strategy, ..."""
    for path in sorted((folder / "params").glob("*")):
        kind = column_of(path.name).kind
        if kind in RUN_KINDS and kind != "batch" and path.is_file() and path.stat().st_size < 200:
            describe_run(run, kind, path.read_text(encoding="utf-8", errors="replace").strip())


def read_event_file(reading: Reading, path: Path, name: str) -> bool:
    """Add the run of a TensorBoard event file. Raises UnreadableFile where the file has none."""
    series = SeriesReader(name, "TensorBoard event file")
    faults: list[str] = []
    for step, tag, value in scalars(path, faults):
        series.add(step, tag, value)
    reading.evidence.unread += [Unread(name, fault, "limit") for fault in faults]
    if (run := series.finish()) is None:
        if faults:  # which are the reason
            return True
        raise UnreadableFile("it has no scalar of a loss, a rate or a time in three steps or more", "not a result")
    add_run(reading, run, path)
    return True
