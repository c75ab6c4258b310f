"""JSON files: those of known programs (`training_metrics.json`), else results in any JSON that is understood."""

import json
import re
from pathlib import Path
from typing import Any

from scaleproof.auditor.read import text_files
from scaleproof.auditor.read.json_results import results_of
from scaleproof.auditor.read.logs.json_lines import read_trainer_state
from scaleproof.auditor.read.reading import Reading, add_run
from scaleproof.auditor.read.reported import ReportedRun, SpeedupReport, TimedSpan, Unread
from scaleproof.auditor.read.run_fields import Fields, debug_settings_of, figure
from scaleproof.auditor.read.text_files import UnreadableFile
from scaleproof.auditor.read.tracker_series import SeriesReader, read_history, tag_of

MOST_BROKEN = 5  # lines of one file that are named
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
        text = text_files.full_text(path, encoding)
    if (lines := _json_lines(text, name, reading.evidence.unread)) is not None:
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


def _json_lines(text: str, name: str, unread: list[Unread]) -> list[Any] | None:
    """Return the values of a file with one JSON object a line; None for anything else. Broken lines go to `unread`."""
    values: list[Any] = []
    broken: list[int] = []
    rows = [(number, row) for number, row in enumerate(text.splitlines(), start=1) if row.strip()]
    for number, row in rows if len(rows) > 1 else ():
        try:
            values.append(json.loads(row))
        except (ValueError, RecursionError):
            broken.append(number)
            if len(broken) > len(values) + 1:
                return None
    if len(values) < 2 or len(values) <= len(broken) or not all(isinstance(value, dict) for value in values):
        return None
    for number in broken[:MOST_BROKEN]:
        unread.append(Unread(f"{name}:{number}", "the line is no JSON; the others were read"))
    return values


def _known(reading: Reading, path: Path, name: str, data: dict[str, Any], problem: str) -> bool:
    """Read a file of a known program; return whether it is one. `problem` says where the JSON is cut off, or is ""."""
    evidence = reading.evidence
    run: ReportedRun | None = None
    if str(data.get("schema_version", "")).startswith(("2", "3")) and "training_config" in data:
        if problem:
            raise UnreadableFile(problem.replace("; what stands before was read", ""))
        run = read_metrics(name, data)
    elif any(key in data for key in LEGACY):
        run = read_legacy(name, data)
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
        return False  # its rates and speed-ups are a table, as those of any JSON
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
                "spread": row.number("stdev_tokens_per_sec_global"),
                "runs": len(row.values("metrics_paths")),
            }
    mismatches = [str(m.get("field")) for m in top.values("mismatches") if isinstance(m, dict)]
    return SpeedupReport(name, str(data["status"])[:40], rows, mismatches)


LEGACY = ("train_time_per_epoch", "train_throughput")
# The program of the 2.0 files times every 50th micro-step after the fifth; its command line may say otherwise.
SAMPLED_EVERY, SAMPLED_FROM = 50, 5


def read_metrics(name: str, data: dict[str, Any]) -> ReportedRun:
    """Return the run of a file of schema 2.0, or of 3.0, whose window stands where 2.0 has epochs."""
    claim = ReportedRun(name, f"metrics JSON {data['schema_version']}")
    top = Fields(data, claim.problems)
    config = top.part("training_config")
    hardware = top.part("hardware")
    engine = top.part("deepspeed_config")
    claim.run_id = top.text("run_id")
    claim.commit = known(top.text("git_commit"))
    ranks = top.values("ranks")
    claim.world_size = (
        hardware.count("world_size") or sum(len(r.get("devices", [])) for r in ranks if isinstance(r, dict)) or None
    )
    claim.device = known(hardware.text("gpu_name")) or _device_of(ranks)
    claim.micro_batch = config.count("micro_batch_size_per_gpu")
    claim.accumulation = config.count("grad_accum_steps")
    claim.global_batch = config.count("global_batch_size")
    claim.seq_len = config.count("seq_len")
    claim.epochs = config.count("epochs")
    claim.model = " ".join(filter(None, (config.text("model_name"), config.text("model_size")))) or None
    claim.dataset = config.text("dataset_name")
    claim.dataset_samples = config.part("dataset_subset_sizes").count("train")
    claim.strategy = config.text("strategy")
    claim.zero_stage = config.count("zero_stage", 0)
    selected = engine.part("selected")
    precision = config.text("precision")
    claim.precision = precision
    deepspeed = config.flag("deepspeed_enabled")
    if deepspeed is None:
        if claim.format.endswith("2.0"):
            claim.details["missing"] = ["training_config.deepspeed_enabled"]
        deepspeed = "deepspeed" in (precision or "") or None
    claim.engine = {True: "DeepSpeed", False: "torch", None: None}[deepspeed]
    if claim.engine == "torch":
        claim.zero_stage = None
    claim.config_sha256 = engine.text("sha256") if claim.engine == "DeepSpeed" else None
    if claim.engine == "DeepSpeed" and selected.flag("wall_clock_breakdown"):
        claim.debug_settings["wall_clock_breakdown"] = "true"
    command = top.text("command_line") or ""
    claim.details["command"] = command
    claim.debug_settings |= debug_settings_of(command.split())
    claim.hosts = top.part("scheduler").text("nodelist")
    if isinstance(environment := data.get("env"), dict):
        claim.versions = {
            name: version
            for name, version in environment.items()
            if name.endswith("_version") and isinstance(version, str) and known(version)
        }
    claim.best_val_loss = top.part("summary").number("best_val_loss")
    claim.rate_scope = "global"
    if "window" in data and data["window"] is not None:
        claim.timed_spans = [_window(top.part("window"), "wall_time_sec", None)]
    else:
        claim.timed_spans = [_window(e, "epoch_wall_time_sec", i + 1) for i, e in enumerate(top.parts("epochs"))]
        claim.sampled_every = _option(command, "--timing_sample_every") or SAMPLED_EVERY
        claim.sampled_from = _option(command, "--timing_warmup_steps") or SAMPLED_FROM
    claim.details["wall"] = top.part("summary").positive("total_wall_time_sec")
    claim.details["mean_rate"] = top.part("summary").positive("mean_tokens_per_sec_global")
    claim.details["status"] = top.text("status")
    return claim


def _window(part: Fields, seconds: str, index: int | None) -> TimedSpan:
    """Return one timed span; `seconds` is the key of its time, `index` its number where the file has none."""
    return TimedSpan(
        index=part.count("epoch_idx", 0) or index,
        seconds=part.positive(seconds),
        tokens=part.count("tokens_processed_global"),
        tokens_per_s=part.positive("tokens_per_sec_global"),
        micro_steps=part.count("micro_steps") or part.count("steps"),
        optimizer_steps=part.count("optimizer_steps", 0),
        step_mean_s=part.positive("step_time_mean_sec"),
        step_p50_s=part.positive("step_time_p50_sec"),
        step_p95_s=part.positive("step_time_p95_sec"),
        train_loss=part.number("train_loss_avg_global"),
        val_loss=part.number("val_loss_avg_global"),
    )


def read_legacy(name: str, data: dict[str, Any]) -> ReportedRun:
    """Return the run of lists with an entry an epoch: no world size, batch or tokens; a rate of one rank or of all."""
    claim = ReportedRun(name, "per-epoch JSON")
    top = Fields(data, claim.problems)
    times, rates = top.numbers("train_time_per_epoch"), top.numbers("train_throughput")
    losses, val_losses = top.numbers("train_loss_per_epoch"), top.numbers("val_loss_per_epoch")
    for i in range(max(len(times), len(rates))):
        seconds, rate, loss, val_loss = (
            values[i] if i < len(values) else None for values in (times, rates, losses, val_losses)
        )
        span = TimedSpan(i + 1, train_loss=loss, val_loss=val_loss)
        span.seconds = seconds if seconds is None or seconds > 0 else None
        span.tokens_per_s = rate if rate is None or rate > 0 else None
        claim.timed_spans.append(span)
    return claim


def known(value: str | None) -> str | None:
    return None if value is None or value.lower() in ("", "unknown", "none", "n/a") else value


def _device_of(ranks: list[Any]) -> str | None:
    names = {str(r.get("device_name")) for r in ranks if isinstance(r, dict) and r.get("device_name")}
    return names.pop() if len(names) == 1 else None


def _option(command: str, name: str) -> int | None:
    """Return the whole number above 0 that a command line gives to an option; None without one."""
    words = command.replace("=", " ").split()
    try:
        value = int(words[words.index(name) + 1])
    except (ValueError, IndexError):
        return None
    return value if value > 0 else None
