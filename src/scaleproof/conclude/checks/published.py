"""Everything that is published, computed again from what it was computed from, by code of its own."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from scaleproof.conclude.checks.census import counts_of_run, inventory_of_run
from scaleproof.conclude.checks.clock import window_length
from scaleproof.ground.campaign.cells import sharing_devices
from scaleproof.ground.campaign.strategies import is_deepspeed, zero_stage
from scaleproof.ground.facts.memory import state_bytes
from scaleproof.ground.facts.peaks import peak
from scaleproof.ground.findings.registry import Flag, of_run
from scaleproof.ground.number_format import significant
from scaleproof.ground.records.open_sections import Rank
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.ground.records.run_sections import Memory

SAME = 1e-6  # a relative tolerance, within which 1,702 figures of sound runs agree
# Full activation checkpointing makes the forward pass twice: so many times as many FLOPs are computed.
RECOMPUTED = 4 / 3
Figures = Iterator[tuple[str, float | None, float | None]]  # (name, recorded value, recomputed value)
MOST_QUOTED = 4  # figures in the evidence of a flag


@of_run.finds("figure-not-reproduced", "invalid")
def figures_are_reproduced(run: MeasuredRun) -> Iterator[Flag]:
    """A published figure is not what its inputs give: it was computed wrongly, or changed.

    Detected: Rates, step statistics, losses, ledger, start-up, memory, model, utilization, load, energy and batch, each
    computed again from steps.csv, the configuration and the records of the ranks, within 1e-6.
    Seen: Tables retyped by hand; a percentile of the wrong series.
    Repair: Quote none of the figures of this run until it is known which of them is right.
    """
    problems = []
    run_s = run.metrics.total_wall_time_s
    window_s = run.metrics.window.wall_time_s
    if run_s is not None and not run_s >= window_s:  # flags NaN as well
        problems.append(
            f"the whole run took {_nine_digits(run_s)} s, less than its window of {_nine_digits(window_s)} s"
        )

    for name, recorded, recomputed in recomputed_figures(run):
        if not is_same_figure(recorded, recomputed):
            problems.append(f"{name} is {_nine_digits(recorded)}, computed again {_nine_digits(recomputed)}")
    for name, (value, source, source_value) in _repeated_settings(run).items():
        if value != source_value:
            problems.append(f"{name} is {value}, by {source} {source_value}")

    if problems:
        evidence = "; ".join(problems[:MOST_QUOTED])
        if len(problems) > MOST_QUOTED:
            evidence += f"; and {len(problems) - MOST_QUOTED} more"
        yield Flag(evidence)


def _nine_digits(figure: float | None) -> str:
    """Return a figure with 9 digits; a missing figure is "null", as in the record."""
    return "null" if figure is None else significant(figure, 9)


def is_same_figure(recorded: float | None, recomputed: float | None) -> bool:
    """Return whether two figures are equal within rounding, or both are missing."""
    if recorded is None or recomputed is None:
        return recorded is recomputed  # whether both are None
    return abs(recorded - recomputed) <= SAME * max(abs(recomputed), 1e-12)


def recomputed_figures(run: MeasuredRun) -> Figures:
    """Yield (name, recorded value, recomputed value) of each figure that can be computed again."""
    sections = (
        *(_window_figures, _work_figures, _configuration_figures, _validation_figures, _model_and_device_figures),
        *(_rank_figures, _census_figures, _startup_figures),
    )
    return chain.from_iterable(figures_of(run) for figures_of in sections)


def _repeated_settings(run: MeasuredRun) -> dict[str, tuple[Any, str, Any]]:
    """Return setting -> (its value, "config" or "census" of rank 0, the value there), of those stated twice."""
    metrics, config = run.metrics, run.metrics.config
    training = metrics.training_config
    strategy, precision = config["execution"]["strategy"], config["execution"]["precision"]
    optimizer, tokenizer = config["work"]["optimizer"]["name"], config["workload"]["tokenizer"]
    settings: dict[str, tuple[Any, str, Any]] = {
        "training_config.strategy": (training.strategy, "config", strategy),
        "training_config.precision": (training.precision, "config", precision),
        "training_config.optimizer": (training.optimizer, "config", optimizer),
        "training_config.deepspeed_enabled": (training.deepspeed_enabled, "config", "zero" in strategy),
        "data.tokenizer": (metrics.data.get("tokenizer", tokenizer), "config", tokenizer),
    }
    if metrics.census:
        probed_step = metrics.census[0].before
        for name in ("products", "gradients", "reduced"):
            settings[f"dtypes.{name}"] = (metrics.dtypes.get(name), "census", getattr(probed_step, name))

    if is_deepspeed(strategy) and metrics.engine_config:
        engine, work = metrics.engine_config, config["work"]
        config_values = {
            "train_batch_size": work["global_batch"],
            "train_micro_batch_size_per_gpu": work["micro_batch"],
            "gradient_accumulation_steps": work["accumulation"],
            "gradient_clipping": work["optimizer"]["max_grad_norm"],
        }
        for name, config_value in config_values.items():
            settings[f"engine_config.{name}"] = (engine.get(name), "config", config_value)
        stage = engine.get("zero_optimization", {}).get("stage")
        settings["engine_config.zero_optimization.stage"] = (stage, "config", zero_stage(strategy))
    return settings


def _window_figures(run: MeasuredRun) -> Figures:
    """Yield (name, recorded, recomputed) of the window's rates and step statistics, from steps.csv."""
    window, recomputed = run.metrics.window, run.recomputed
    for name, figure in vars(recomputed).items():  # the fields have the names of the window's
        yield f"window.{name}", getattr(window, name), figure

    tokens_per_s_per_device = recomputed.tokens_per_s / run.n_devices
    yield "window.tokens_per_s_per_device", window.tokens_per_s_per_device, tokens_per_s_per_device

    step_count = recomputed.step_time_n
    micro_step_count = step_count * run.metrics.training_config.accumulation
    yield "optimizer_steps + skipped", window.optimizer_steps + window.skipped_optimizer_steps, step_count
    yield "window.micro_steps", window.micro_steps, micro_step_count


def _work_figures(run: MeasuredRun) -> Figures:
    """Yield (name, recorded, recomputed) of samples and tokens, from steps.csv and the configuration."""
    window_rows = run.steps[run.steps["phase"] == "window"]
    ledger = run.metrics.ledger
    work = run.metrics.config["work"]
    planned_samples = work["global_batch"] * work["steps"]
    yield "ledger.samples_consumed", ledger.samples_consumed, int(window_rows["samples"].sum())
    yield "ledger.samples_planned", ledger.samples_planned, planned_samples
    yield "ledger.tokens_consumed", ledger.tokens_consumed, int(window_rows["tokens"].sum())
    if not run.is_classifier:
        planned_tokens = planned_samples * run.metrics.config["workload"]["seq_len"]
        yield "ledger.tokens_planned", ledger.tokens_planned, planned_tokens

    rank_count = len(ledger.samples_by_rank)
    samples_by_rank = np.bincount(window_rows["rank"], window_rows["samples"], minlength=rank_count)
    for rank, samples in enumerate(ledger.samples_by_rank):
        yield f"ledger.samples_by_rank[{rank}]", samples, int(samples_by_rank[rank])


def _configuration_figures(run: MeasuredRun) -> Figures:
    """Yield (name, recorded, recomputed) of what a record repeats of its configuration."""
    training, config = run.metrics.training_config, run.metrics.config
    work = config["work"]
    yield "training_config.seq_len", training.seq_len, config["workload"]["seq_len"]
    yield "training_config.micro_batch", training.micro_batch, work["micro_batch"]
    yield "training_config.accumulation", training.accumulation, work["accumulation"]
    yield "training_config.global_batch", training.global_batch, work["global_batch"]
    yield "training_config.lr", training.lr, work["optimizer"]["learning_rate"]

    if run.metrics.ledger.equal:  # all was consumed as planned, so that no sample came twice
        yield "ledger.samples_shared", run.metrics.ledger.samples_shared, 0
    if training.zero_stage is not None:
        yield "training_config.zero_stage", training.zero_stage, zero_stage(config["execution"]["strategy"])
    if run.metrics.validation:
        planned_samples = min(training.dataset_subset_sizes["val"], work["validation_samples"])
        yield "validation.samples", run.metrics.validation.samples, planned_samples


def _validation_figures(run: MeasuredRun) -> Figures:
    """Yield (name, recorded, recomputed) of the validation's figures, from its loss and the sums of the ranks."""
    validation = run.metrics.validation
    if validation is None:
        return
    if validation.perplexity is not None:
        yield "validation.perplexity", validation.perplexity, math.exp(validation.loss)
    if validation.accuracy is not None:  # the number of correct targets is not recorded, but it is whole
        yield "validation.accuracy", validation.accuracy, _whole_share(validation.accuracy, validation.targets)
    if validation.rank_losses is not None:
        yield "validation.loss", validation.loss, math.fsum(validation.rank_losses) / validation.targets
    targets_per_sample = 1 if run.is_classifier else run.metrics.config["workload"]["seq_len"]
    yield "validation.targets", validation.targets, validation.samples * targets_per_sample


def _whole_share(share: float, total: float) -> float:
    """Return the share nearest to `share` that a whole number can have of `total`, such as 3/7 for 0.43 of 7."""
    return round(share * total) / total


def _model_and_device_figures(run: MeasuredRun) -> Figures:
    """Yield (name, recorded, recomputed) of parameters, FLOPs and memory by formulas, of energy and utilization."""
    model, counts = run.metrics.model, counts_of_run(run)
    yield "model.matmul_parameters", model.matmul_parameters, counts.matmul_parameters
    yield "model.flops_per_token", model.flops_per_token, counts.flops_per_token
    yield "model.flops_per_token_causal", model.flops_per_token_causal, counts.flops_per_token_causal

    training, memory = run.metrics.training_config, run.metrics.memory
    device_count = sharing_devices(training.strategy, *run.geometry)  # they divide the state of a replica
    predicted_bytes = state_bytes(training.strategy, training.precision, inventory_of_run(run).parameters, device_count)
    yield "memory.state_bytes_predicted", memory.state_bytes_predicted, predicted_bytes

    yield from _utilization_figures(run)

    energy = run.metrics.energy
    if energy.joules is not None:
        joules = [gpu.get("energy_j") for rank in run.metrics.ranks for gpu in rank.get("gpus") or []]
        yield "energy.joules", energy.joules, sum(of_gpu for of_gpu in joules if of_gpu is not None)
        yield "energy.joules_per_token", energy.joules_per_token, energy.joules / run.metrics.window.tokens


def _utilization_figures(run: MeasuredRun) -> Figures:
    """Yield (name, recorded, recomputed) of the utilization, from the rate, the model's FLOPs and the peak."""
    utilization, model = run.metrics.utilization, run.metrics.model
    device_tokens_per_s = run.metrics.window.tokens / run.metrics.window.wall_time_s / run.n_devices
    flops_per_s = model.flops_per_token * device_tokens_per_s
    yield "utilization.flops_per_s_per_device", utilization.flops_per_s_per_device, flops_per_s

    device_peak = peak(run.metrics.ranks[0]["device_name"], run.metrics.training_config.precision)
    # A record with another source was made by a version with another table of peaks.
    if device_peak and utilization.peak_source == device_peak.source:
        yield "utilization.peak_flops_per_s", utilization.peak_flops_per_s, device_peak.flops

    if utilization.peak_flops_per_s:
        mfu = flops_per_s / utilization.peak_flops_per_s
        mfu_causal = None
        if model.flops_per_token_causal:
            mfu_causal = model.flops_per_token_causal * device_tokens_per_s / utilization.peak_flops_per_s
        is_checkpointing = run.metrics.config["execution"]["activation_checkpointing"]
        yield "utilization.mfu", utilization.mfu, mfu
        yield "utilization.mfu_causal", utilization.mfu_causal, mfu_causal
        yield "utilization.hfu", utilization.hfu, mfu * RECOMPUTED if is_checkpointing else None


def _rank_figures(run: MeasuredRun) -> Figures:
    """Yield (name, recorded, recomputed) of load, energy and memory, from the ranks' own records."""
    for index, rank in enumerate(run.metrics.ranks):
        yield from _load_figures(index, rank)
        yield f"ranks.{index}.rank", rank["rank"], index
    yield from _memory_figures(run.metrics.memory, run.metrics.ranks)


def _load_figures(index: int, rank: Rank) -> Figures:
    """Yield (name, recorded, recomputed) of the load and energy of `rank`, which stands at `index` in the record."""
    window_s = window_length(rank)
    if rank.get("cpu_s") is not None and window_s is not None:  # older records have neither
        yield f"ranks.{index}.cpu_load", rank["cpu_load"], rank["cpu_s"] / window_s
    for gpu in rank.get("gpus") or []:
        utilization = gpu.get("utilization_mean")
        if utilization is not None:  # the mean of samples in whole percents, as NVML gives them
            whole_percents = _whole_share(utilization, 100 * gpu["samples"])
            yield f"ranks.{index}.gpus.utilization_mean", utilization, whole_percents
        if gpu.get("energy_j") is not None:
            yield f"ranks.{index}.gpus.energy_j", gpu["energy_j"], gpu["energy_counter_j"]


def _memory_figures(memory: Memory, ranks: Sequence[Rank]) -> Figures:
    """Yield (name, recorded, recomputed) of the summary of memory; nothing where older records of ranks lack it."""
    if any("max_rss_bytes" not in rank for rank in ranks):
        return
    yield "memory.max_rss_bytes", memory.max_rss_bytes, max(rank["max_rss_bytes"] for rank in ranks)
    yield "memory.state_bytes", memory.state_bytes, max(rank["state_bytes"] for rank in ranks)

    cuda_memories = [rank["cuda_memory"] for rank in ranks if rank["cuda_memory"]]
    summary = {
        "allocated": memory.max_cuda_allocated_bytes,
        "reserved": memory.max_cuda_reserved_bytes,
        "retries": memory.cuda_alloc_retries,
    }
    for name, recorded in summary.items():
        yield f"memory: {name}", recorded, max((of_rank[name] for of_rank in cuda_memories), default=None)


def _census_figures(run: MeasuredRun) -> Figures:
    """Yield (name, recorded, recomputed) of probed steps, threads and collectives.

    The configuration says which steps are probed; a rank's record repeats the threads and collectives of its census.
    """
    censuses, ranks = run.metrics.census or [], run.metrics.ranks
    work = run.metrics.config["work"]
    for index, census in enumerate(censuses):
        yield f"census.{index}.before.step", census.before.step, work["warmup_steps"] - 2  # last but one of warm-up
        if census.after:
            yield f"census.{index}.after.step", census.after.step, work["warmup_steps"] + work["steps"]
        if "threads" in ranks[index]:
            yield f"ranks.{index}.threads", ranks[index]["threads"], census.threads
    if censuses:
        for name, recorded in run.metrics.collectives.items():
            counted = censuses[0].before.collectives.get(name, {})
            yield f"collectives.{name}.calls", recorded["calls"], counted.get("calls")
            yield f"collectives.{name}.bytes", recorded["bytes"], counted.get("bytes")


def _startup_figures(run: MeasuredRun) -> Figures:
    """Yield (name, recorded, recomputed) of durations outside the window; none for records without times of day."""
    startup, ranks = run.metrics.startup, run.metrics.ranks
    launch_epoch_s, program_epoch_s = startup.launcher_epoch_s, startup.program_epoch_s
    if launch_epoch_s is None or program_epoch_s is None or any("ready_epoch_s" not in rank for rank in ranks):
        return
    setup_end_epoch_s = max(rank["ready_epoch_s"] for rank in ranks)
    warmup_end_epoch_s = max(rank["warm_epoch_s"] for rank in ranks)
    yield "startup.launch_s", startup.launch_s, program_epoch_s - launch_epoch_s
    yield "startup.setup_s", startup.setup_s, setup_end_epoch_s - program_epoch_s
    yield "startup.warmup_s", startup.warmup_s, warmup_end_epoch_s - setup_end_epoch_s

    is_first_step = run.steps["step"] == run.steps["step"].min()  # true in one row of each rank
    yield "startup.first_step_s", startup.first_step_s, float(run.steps["step_time_s"][is_first_step].max())

    closing_s = run.metrics.closing_s
    before_closing_s = None if closing_s is None else run.metrics.total_wall_time_s - closing_s
    closing_epoch_s = max(rank["closing_epoch_s"] for rank in ranks)
    yield "total_wall_time_sec less closing_s", before_closing_s, closing_epoch_s - launch_epoch_s
