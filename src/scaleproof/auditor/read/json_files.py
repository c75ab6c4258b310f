"""JSON files: those of known programs, else results in any JSON that is understood."""

import json
import re
from pathlib import Path
from typing import Any

from scaleproof.auditor.read import metrics_json, text_files
from scaleproof.auditor.read.fields import Fields, figure
from scaleproof.auditor.read.json_results import results_of
from scaleproof.auditor.read.logs.json_lines import read_trainer_state
from scaleproof.auditor.read.reading import Reading, add_run
from scaleproof.auditor.read.reported import ReportedRun, SpeedupReport
from scaleproof.auditor.read.text_files import UnreadableFile
from scaleproof.auditor.read.tracker_series import SeriesReader, read_history, tag_of

# Of JSON that is ours to read, cut off or not.
MARKS = re.compile(r'"(training_config|train_time_per_epoch|log_history|nccl_env|tokens_per_sec\w*)":')
TRACE = re.compile(r'"traceEvents"\s*:|execution_trace\|thread|"deviceProperties"\s*:|"ph"\s*:\s*"[XBEM]"')
ENGINE = ("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size")


def read_json(
    reading: Reading, path: Path, name: str, encoding: str, opening: str, text: str | None, named: bool
) -> bool:
    """Read a file that begins like JSON; return whether it was read as such. `opening` is its beginning, `text` all of
    it (None: to be read); `named`: its name says that it is a result. Raises UnreadableFile.
    """
    if TRACE.search(opening[:20_000]):
        reading.evidence.traces.append(name)
        return True
    if text is None:
        text = text_files.whole(path, encoding)
    if (lines := _json_lines(text)) is not None:
        if run := read_history(name, lines):
            add_run(reading, run, path)
            return True
        return _generic(reading, lines, name, text)
    try:
        data, problem = text_files.parse_json(text)
    except ValueError as error:
        if named or MARKS.search(opening):
            raise UnreadableFile(f"it is cut off or no JSON: {str(error)[:100]}") from None
        return False
    if problem and not MARKS.search(opening):
        if named:
            raise UnreadableFile(problem.replace("; what stands before was read", ""))
        return False
    if isinstance(data, dict) and _known(reading, path, name, data, problem):
        return True
    if isinstance(data, list) and (run := _tensorboard(data, name)):
        add_run(reading, run, path)
        return True
    return _generic(reading, data, name, text)


def _json_lines(text: str) -> list[Any] | None:
    """Return the values of a file with one JSON object a line (broken lines left out); None for anything else."""
    rows = [line for line in text.splitlines() if line.strip()]
    if len(rows) < 2 or not all(r.lstrip().startswith("{") and r.rstrip().endswith("}") for r in rows[:5]):
        return None
    values = []
    for row in rows:
        try:
            values.append(json.loads(row))
        except ValueError:
            if not values:
                return None
    return values


def _known(reading: Reading, path: Path, name: str, data: dict[str, Any], problem: str) -> bool:
    """Read a file of a known program; return whether it is one. `problem` says where the JSON is cut off, or is ""."""
    evidence = reading.evidence
    run: ReportedRun | None = None
    if metrics_json.is_metrics(data):
        if problem:
            raise UnreadableFile(problem.replace("; what stands before was read", ""))
        run = metrics_json.read_metrics(name, data)
    elif metrics_json.is_legacy(data):
        run = metrics_json.read_legacy(name, data)
    elif "log_history" in data and ("global_step" in data or problem):
        run = read_trainer_state(name, data)
        if not (run.logged_steps or run.timed_spans) and not problem:
            evidence.ignored.append(name)  # a state that was saved before the first log
            return True
    elif "rank0_host" in data or "nccl_env" in data:
        reading.launchers[str(path.parent)] = data
        return True
    elif isinstance(data.get("status"), str) and ("protocol" in data or "mismatches" in data) and "series" not in data:
        evidence.scaling_reports.append(_scaling_report(name, data))
        return True
    elif "nvtx_top5" in data:
        evidence.traces.append(name)
        evidence.traced_folders.append(str(path.parent))
        return True
    elif any(key in data for key in ENGINE):
        reading.configurations.append((path, name, json.dumps(data)))
        return True
    if run is None:
        return False
    if problem:
        run.problems.append(problem)
    add_run(reading, run, path)
    return True


def _generic(reading: Reading, data: Any, name: str, text: str) -> bool:
    """Add the table of results that any JSON has; return whether it has one."""
    table = results_of(data, name, text)
    if table is None:
        return False
    reading.evidence.tables.append(table)
    return True


def _tensorboard(data: list[Any], name: str) -> ReportedRun | None:
    """Return the run of a scalar that TensorBoard saved as JSON: [[wall time, step, value], ...]; its tag is in the
    name of the file. None for other lists.
    """
    rows = [r for r in data if isinstance(r, list) and len(r) == 3 and all(isinstance(v, int | float) for v in r)]
    if not rows or len(rows) < len(data) or not rows[0][0] > 1e9:  # seconds since 1970
        return None
    series = SeriesReader(name, "TensorBoard export")
    for _, step, value in rows:
        series.add(int(step), tag_of(name), value)
    return series.finish()


def _scaling_report(name: str, data: dict[str, Any]) -> SpeedupReport:
    """Return the speed-ups that a scaling report states, by the number of devices."""
    top = Fields(data, [])
    rows = {}
    for key, entry in data["runs"].items() if isinstance(data.get("runs"), dict) else ():
        devices = figure(str(key))
        if devices and devices == int(devices):
            row = Fields(entry, [])
            rows[int(devices)] = {
                "rate": row.positive("mean_tokens_per_sec_global"),
                "spread": row.number("stdev_tokens_per_sec_global"),
                "runs": len(row.values("metrics_paths")),
                "speedup": row.positive("speedup_vs_1gpu"),
                "efficiency": row.positive("scaling_efficiency"),
            }
    mismatches = [str(m.get("field")) for m in top.values("mismatches") if isinstance(m, dict)]
    return SpeedupReport(name, str(data["status"])[:40], rows, mismatches)
