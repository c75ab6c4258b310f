"""JSON files: those of known programs (`training_metrics.json`), else results in any JSON that is understood."""

import ast
import json
import re
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from scaleproof.auditor.read import text_files
from scaleproof.auditor.read.attach import Reading, add_run
from scaleproof.auditor.read.json_results import MOST_PARTS, parts_left, results_of
from scaleproof.auditor.read.json_text import parse_json
from scaleproof.auditor.read.logs.json_lines import read_trainer_state
from scaleproof.auditor.read.reported import ReportedRun, SpeedupReport, TimedSpan, Unread, positive
from scaleproof.auditor.read.run_fields import Fields, debug_settings_of, figure
from scaleproof.auditor.read.text_files import TextFile, UnreadableFile
from scaleproof.auditor.read.tracker_series import SeriesReader, read_json_steps, tag_of, whole_step
from scaleproof.ground.errors import describe_first_fault, shortened
from scaleproof.ground.json_faults import keys_given_twice

MOST_BROKEN = 5  # lines or keys of one file that are named
KEY_OF_KNOWN_PROGRAM = re.compile(r'"(training_config|train_time_per_epoch|log_history|nccl_env|tokens_per_sec\w*)":')
INFINITE = re.compile(r'"([^"\n]{1,120})"\s*:\s*-?Infinity\b')
TRACE = re.compile(r'"traceEvents"\s*:|execution_trace\|thread|"deviceProperties"\s*:|"ph"\s*:\s*"[XBEM]"')
KEYS_OF_AUDIT = {"readings", "not_recognised", "columns_not_understood"}
KEYS_OF_DEEPSPEED = ("zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size")


def read_json(reading: Reading, file: TextFile) -> bool:
    """Read a file that begins like JSON. Return whether anything was read. Raises UnreadableFile for a broken one."""
    if TRACE.search(file.opening[:20_000]):
        reading.evidence.traces.append(file.name)
        return True
    text = file.opening if file.is_whole else text_files.full_text(file.path, file.encoding)
    if (objects := _json_lines(text, file.name, reading.evidence.unread)) is not None:
        run = read_json_steps(file.name, objects)
        return _add_run_or_table(reading, file, run, objects, text)

    is_of_known_program = KEY_OF_KNOWN_PROGRAM.search(file.opening) is not None
    try:
        data, problem = parse_json(text)
        fault = "" if is_of_known_program else problem  # JSON that is cut off is read only from known programs
    except ValueError as error:
        fault = describe_first_fault(error)[:200]
    if fault:
        is_result = file.is_named or is_of_known_program
        if not is_result and file.path.suffix not in (".json", ".jsonl"):
            return False
        raise UnreadableFile(fault, "damaged" if is_result else "unknown form")

    if isinstance(data, dict) and _read_known_program(reading, file.path, file.name, data, problem):
        return True
    is_list = isinstance(data, list)
    run = _tensorboard_run(data, file.name) or read_json_steps(file.name, data, has_lines=False) if is_list else None
    was_read = _add_run_or_table(reading, file, run, data, text)
    if not was_read and file.is_named and parts_left(data, MOST_PARTS) <= 0:
        raise UnreadableFile(f"it has more than {MOST_PARTS:,} objects and lists; save the results alone", "limit")
    if problem:
        reading.evidence.unread.append(Unread(file.name, f"{problem}; what stands before was read"))
    elif was_read and (keys := keys_given_twice(text)):
        reading.evidence.unread.append(Unread(file.name, f"{', '.join(keys[:5])} given twice; the last was read"))
    elif was_read and (keys := list(dict.fromkeys(INFINITE.findall(text)))):
        reading.evidence.unread.append(Unread(file.name, f"{', '.join(keys[:5])} is Infinity, which was left out"))
    return was_read


def _add_run_or_table(reading: Reading, file: TextFile, run: ReportedRun | None, data: Any, text: str) -> bool:
    """Add a run, or, where there is none, the table of results of a JSON value. Return whether there was either."""
    if run is not None:
        add_run(reading, run, file.path)
        return True
    table = results_of(data, file.name, text)
    if table is not None:
        reading.evidence.tables.append(table)
        words = {heading: cell for row in table.rows for heading, cell in row.not_understood.items()}
        for heading in [heading for heading, cell in words.items() if not any(map(str.isdigit, cell))][:MOST_BROKEN]:
            reason = f'{heading} is "{shortened(words[heading], 40)}", which is no number'
            reading.evidence.unread.append(Unread(file.name, reason, "unknown form"))
    return table is not None


def _json_lines(text: str, name: str, unread: list[Unread]) -> list[Any] | None:
    """Return the values of a file with a JSON object a line. None for other files. Broken lines go to `unread`."""
    rows = [(number, row) for number, row in enumerate(text.splitlines(), start=1) if row.strip()]
    if len(rows) < 2:
        return None
    values: list[Any] = []
    broken: list[int] = []
    for number, row in rows:
        try:
            if not isinstance(value := json.loads(row), dict):
                raise ValueError
            values.append(value)
        except (ValueError, RecursionError):
            broken.append(number)
            if len(broken) > len(values) + 1:  # early, before a large file of another form is read
                return None
    if len(values) < 2 or len(values) <= len(broken):
        return None
    note_broken_lines(name, broken, unread)
    return values


def read_dicts(reading: Reading, file: TextFile) -> bool:
    """Read a text of dicts of Python, one a line, as `print` writes them. Return whether results were in it."""
    if not file.is_whole or not file.opening.lstrip().startswith("{'"):
        return False
    try:
        values = [ast.literal_eval(row.strip()) for row in file.opening.splitlines() if row.strip()]
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return False
    are_dicts = len(values) > 1 and all(isinstance(value, dict) for value in values)
    return are_dicts and _add_run_or_table(reading, file, None, values, file.opening)


def note_broken_lines(name: str, numbers: list[int], unread: list[Unread]) -> None:
    """Note in `unread` that lines of a file have no object, by their numbers."""
    for number in numbers[:MOST_BROKEN]:
        unread.append(Unread(f"{name}:{number}", "the line is no JSON object; the others were read"))


def _read_known_program(reading: Reading, path: Path, name: str, data: dict[str, Any], problem: str) -> bool:
    """Read a file of a known program. Return whether it is one. `problem`: where the JSON is cut off, or ""."""
    evidence = reading.evidence
    if data.keys() >= KEYS_OF_AUDIT or "sarif" in str(data.get("$schema")):
        raise UnreadableFile(text_files.OWN_AUDIT, "not a result")  # it quotes what it accuses
    if run := _run_of_known_program(name, data, problem):
        if problem:
            run.problems.append(f"{path.name}{problem.removeprefix('it')}; what stands before was read")
        add_run(reading, run, path)
    elif "rank0_host" in data or "nccl_env" in data:
        reading.launchers[text_files.folder_of(path)] = data
    elif isinstance(data.get("status"), str) and ("protocol" in data or "mismatches" in data) and "series" not in data:
        evidence.scaling_reports.append(_scaling_report(name, data))
        return False  # its rates and speed-ups are a table, as those of any JSON
    elif "nvtx_top5" in data:
        evidence.traces.append(name)
        evidence.traced_folders.append(text_files.folder_of(path))
    elif not data.keys().isdisjoint(KEYS_OF_DEEPSPEED):
        reading.settings.append(name)
    else:
        return False
    return True


def _run_of_known_program(name: str, data: dict[str, Any], problem: str) -> ReportedRun | None:
    """Return the run of a metrics file, of lists by epoch or of a trainer's state. Returns None for other files."""
    if str(data.get("schema_version", "")).startswith(("2", "3")) and "training_config" in data:
        if problem:
            raise UnreadableFile(problem)
        return read_metrics(name, data)
    if not data.keys().isdisjoint(KEYS_OF_LISTS_BY_EPOCH):
        return read_lists_by_epoch(name, data)
    if "log_history" not in data or not ("global_step" in data or problem):  # a file that is cut off may lack it
        return None
    run = read_trainer_state(name, data)
    if not (run.logged_steps or run.timed_spans or problem):
        raise UnreadableFile("its log_history has no entry with a step", "unknown form")
    return run


def _tensorboard_run(data: list[Any], name: str) -> ReportedRun | None:
    """Return the run of a scalar as TensorBoard's JSON has it, [time, step, value] a row. None for other lists."""
    are_numbers = [isinstance(row, list) and all(isinstance(value, int | float) for value in row) for row in data]
    if not data or not all(are_numbers) or any(len(row) != 3 for row in data) or not data[0][0] > 1e9:
        return None  # a time of writing, in seconds since 1970, comes first
    series = SeriesReader(name, "TensorBoard export")
    for row, (_, step, value) in enumerate(data, start=1):
        series.add(whole_step(step, row), tag_of(name), value)
    return series.finish()


def _scaling_report(name: str, data: dict[str, Any]) -> SpeedupReport:
    """Return the runs of a scaling report by devices ({"runs": {"8": {...}}}), and the fields in which they differ."""
    rows = {}
    runs = data.get("runs")
    for key, entry in (runs if isinstance(runs, dict) else {}).items():
        devices = figure(str(key))
        if not devices or devices != int(devices):
            continue  # no number of devices
        row = Fields(entry, [])
        spread = row.number("stdev_tokens_per_sec_global")
        rows[int(devices)] = {"spread": spread, "runs": len(row.values("metrics_paths"))}
    mismatches = [entry for entry in Fields(data, []).values("mismatches") if isinstance(entry, dict)]
    return SpeedupReport(name, str(data["status"])[:40], rows, [str(entry.get("field")) for entry in mismatches])


KEYS_OF_LISTS_BY_EPOCH = ("train_time_per_epoch", "train_throughput")
# The program of the 2.0 files times every 50th micro-step after the fifth; its command line may say otherwise.
SAMPLED_EVERY, SAMPLED_FROM = 50, 5


def read_metrics(name: str, data: dict[str, Any]) -> ReportedRun:
    """Return the run of a file of schema 2.0, or of 3.0, whose window stands where 2.0 has epochs."""
    run = ReportedRun(name, f"metrics JSON {data['schema_version']}")
    metrics = Fields(data, run.problems)
    config, hardware = metrics.part("training_config"), metrics.part("hardware")
    run.run_id = metrics.text("run_id")
    run.commit = _known_text(metrics.text("git_commit"))
    ranks = [rank for rank in metrics.values("ranks") if isinstance(rank, dict)]
    run.world_size = hardware.count("world_size") or sum(len(rank.get("devices", [])) for rank in ranks) or None
    devices = {str(rank["device_name"]) for rank in ranks if rank.get("device_name")}
    run.device = _known_text(hardware.text("gpu_name")) or (devices.pop() if len(devices) == 1 else None)

    run.micro_batch = config.count("micro_batch_size_per_gpu")
    run.accumulation = config.count("grad_accum_steps")
    run.global_batch = config.count("global_batch_size")
    run.seq_len = config.count("seq_len")
    run.epochs = config.count("epochs")
    run.model = " ".join(filter(None, (config.text("model_name"), config.text("model_size")))) or None
    run.dataset = config.text("dataset_name")
    run.dataset_samples = config.part("dataset_subset_sizes").count("train")
    run.strategy = config.text("strategy")
    run.zero_stage = config.count("zero_stage", 0)
    run.precision = config.text("precision")

    _read_engine(run, config.flag("deepspeed_enabled"), metrics.part("deepspeed_config"))
    _read_start(run, metrics, data.get("env"))
    _read_results(run, metrics, has_window=data.get("window") is not None)
    return run


def _read_engine(run: ReportedRun, has_deepspeed: bool | None, config: Fields) -> None:
    """Take what a file says of its engine. `has_deepspeed`: None where that is unsaid; `config`: DeepSpeed's."""
    if has_deepspeed is None:
        if run.format.endswith("2.0"):
            run.details["missing"] = ["training_config.deepspeed_enabled"]
        has_deepspeed = "deepspeed" in (run.precision or "") or None  # else unknown
    if has_deepspeed:
        run.engine = "DeepSpeed"
        run.config_sha256 = config.text("sha256")
        if config.part("selected").flag("wall_clock_breakdown"):
            run.debug_settings["wall_clock_breakdown"] = "true"
    elif has_deepspeed is False:
        run.engine, run.zero_stage = "torch", None


def _read_start(run: ReportedRun, metrics: Fields, environment: Any) -> None:
    """Take what a file says of how its run was started: command line, hosts, versions of libraries."""
    run.details["command"] = command = metrics.text("command_line") or ""
    run.debug_settings |= debug_settings_of(command.split())
    run.hosts = metrics.part("scheduler").text("nodelist")
    for field, value in environment.items() if isinstance(environment, dict) else ():
        if field.endswith("_version") and isinstance(value, str) and _known_text(value):
            run.versions[field] = value


def _read_results(run: ReportedRun, metrics: Fields, has_window: bool) -> None:
    """Take what came out of a run: the spans that were timed, the loss, what it took in all."""
    summary = metrics.part("summary")
    run.best_val_loss = summary.number("best_val_loss")
    run.rate_scope = "global"
    if has_window:
        run.timed_spans = [_timed_span(metrics.part("window"), "wall_time_sec", None)]
    else:
        epochs = enumerate(metrics.parts("epochs"), start=1)
        run.timed_spans = [_timed_span(epoch, "epoch_wall_time_sec", number) for number, epoch in epochs]
        run.sampled_every = _option(run.details["command"], "--timing_sample_every") or SAMPLED_EVERY
        run.sampled_from = _option(run.details["command"], "--timing_warmup_steps") or SAMPLED_FROM
    run.details["wall"] = summary.positive("total_wall_time_sec")
    run.details["mean_rate"] = summary.positive("mean_tokens_per_sec_global")
    run.details["status"] = metrics.text("status")


def _timed_span(part: Fields, seconds: str, index: int | None) -> TimedSpan:
    """Return the window or an epoch. `seconds`: the key of its time; `index`: its number if the file has none, or 0."""
    epoch_index = part.count("epoch_idx", 0)
    return TimedSpan(
        index=index if epoch_index is None else epoch_index,
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


def read_lists_by_epoch(name: str, data: dict[str, Any]) -> ReportedRun:
    """Return the run of lists with an entry for each epoch: {"train_time_per_epoch": [61.2, 60.9]}."""
    run = ReportedRun(name, "per-epoch JSON")
    lists = Fields(data, run.problems)
    times, rates = lists.numbers("train_time_per_epoch"), lists.numbers("train_throughput")
    losses, val_losses = lists.numbers("train_loss_per_epoch"), lists.numbers("val_loss_per_epoch")
    epochs = max(len(times), len(rates))
    rows = islice(zip_longest(times, rates, losses, val_losses), epochs)
    for index, (seconds, rate, loss, val_loss) in enumerate(rows, start=1):
        span = TimedSpan(index, positive(seconds), tokens_per_s=positive(rate), train_loss=loss, val_loss=val_loss)
        run.timed_spans.append(span)
    return run


def _known_text(value: str | None) -> str | None:
    return None if value is None or value.lower() in ("", "unknown", "none", "n/a") else value


def _option(command: str, name: str) -> int | None:
    """Return the number above 0 of an option: "--timing_warmup_steps 5" -> 5. None without one."""
    m = re.search(rf"(?<!\S){name}[ =]+(\d{{1,9}})(?!\S)", command)
    return int(m[1]) or None if m else None
