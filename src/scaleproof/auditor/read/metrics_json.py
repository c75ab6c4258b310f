"""`training_metrics.json` 2.0 in all its variants, 3.0 of incomplete runs, and the per-epoch JSON before them."""

from typing import Any

from scaleproof.auditor.read.fields import Fields
from scaleproof.auditor.read.reported import ReportedRun, TimedSpan
from scaleproof.auditor.read.run_fields import debug_settings_of

LEGACY = ("train_time_per_epoch", "train_throughput")
# The program of the 2.0 files times every 50th micro-step after the fifth; its command line may say otherwise.
SAMPLED_EVERY, SAMPLED_FROM = 50, 5


def is_metrics(data: dict[str, Any]) -> bool:
    return str(data.get("schema_version", "")).startswith(("2", "3")) and "training_config" in data


def is_legacy(data: dict[str, Any]) -> bool:
    return any(key in data for key in LEGACY)


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
