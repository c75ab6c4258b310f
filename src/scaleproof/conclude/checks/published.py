"""Everything that is published, computed again from what it was computed from, by code of its own."""

import math
from collections.abc import Iterator
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
from scaleproof.ground.records.run import MeasuredRun

SAME = 1e-6  # relative; 1,702 figures of sound runs agree within it
RECOMPUTED = 4 / 3  # FLOPs with full activation checkpointing over those without: the forward pass is made twice
Figures = Iterator[tuple[str, float | None, float | None]]  # name, recorded value, value computed again
MOST_QUOTED = 4  # figures in the evidence of a flag


@of_run.finds("figure-not-reproduced", "invalid")
def figures_are_reproduced(run: MeasuredRun) -> Iterator[Flag]:
    """A published figure is not what its inputs give: it was computed wrongly, or changed.

    Detected: Rates, step statistics, losses, ledger, start-up, memory, model, utilization, load, energy and batch, each
    computed again from steps.csv, the configuration and the records of the ranks, within 1e-6.
    Seen: Tables retyped by hand; a percentile of the wrong series.
    Repair: Quote none of the figures of this run until it is known which of them is right.
    """
    wrong = [
        f"{name} is {_nine_digits(recorded)}, computed again {_nine_digits(computed)}"
        for name, recorded, computed in recomputed_figures(run)
        if not is_same_figure(recorded, computed)
    ]
    wrong += [f"{name} is {stated}, by {source} {actual}" for name, stated, source, actual in _setting_pairs(run)]
    whole, window = run.metrics.total_wall_time_s, run.metrics.window.wall_time_s
    if whole is not None and not whole >= window:
        wrong.insert(0, f"the whole run took {_nine_digits(whole)} s, less than its window of {_nine_digits(window)} s")
    if wrong:
        evidence = "; ".join(wrong[:MOST_QUOTED])
        if len(wrong) > MOST_QUOTED:
            evidence += f"; and {len(wrong) - MOST_QUOTED} more"
        yield Flag(evidence)


def _nine_digits(figure: float | None) -> str:
    """Return a figure with 9 digits; "null", as the record has it, for one that is missing."""
    return "null" if figure is None else significant(figure, 9)


def is_same_figure(recorded: float | None, computed: float | None) -> bool:
    """Return whether two figures are equal within rounding, or both are missing."""
    if recorded is None or computed is None:
        return recorded is computed
    return abs(recorded - computed) <= SAME * max(abs(computed), 1e-12)


def recomputed_figures(run: MeasuredRun) -> Figures:
    """Yield (name, recorded value, recomputed value) of every figure of a run that can be computed again."""
    sections = (
        *(_window_figures, _work_figures, _configuration_figures, _validation_figures, _model_figures),
        *(_device_figures, _rank_figures, _census_figures, _startup_figures),
    )
    return chain.from_iterable(figures_of(run) for figures_of in sections)


def _setting_pairs(run: MeasuredRun) -> Iterator[tuple[str, Any, str, Any]]:
    """Yield (name, value, other place, value there) of each setting that a record states differently in two places.

    The other place is the configuration, or the census of rank 0: what this rank did and was set to.
    """
    metrics = run.metrics
    training, config = metrics.training_config, metrics.config
    execution, work = config["execution"], config["work"]
    tokenizer = config["workload"]["tokenizer"]
    pairs: list[tuple[str, Any, str, Any]] = [
        ("training_config.strategy", training.strategy, "config", execution["strategy"]),
        ("training_config.precision", training.precision, "config", execution["precision"]),
        ("training_config.optimizer", training.optimizer, "config", work["optimizer"]["name"]),
        ("training_config.deepspeed_enabled", training.deepspeed_enabled, "config", "zero" in execution["strategy"]),
        ("data.tokenizer", metrics.data.get("tokenizer", tokenizer), "config", tokenizer),
    ]
    if metrics.census:
        probed = metrics.census[0].before
        for name in ("products", "gradients", "reduced"):
            pairs.append((f"dtypes.{name}", metrics.dtypes.get(name), "census", getattr(probed, name)))
    if is_deepspeed(execution["strategy"]) and metrics.engine_config:
        engine = metrics.engine_config  # DeepSpeed's
        expected = {
            "train_batch_size": work["global_batch"],
            "train_micro_batch_size_per_gpu": work["micro_batch"],
            "gradient_accumulation_steps": work["accumulation"],
            "gradient_clipping": work["optimizer"]["max_grad_norm"],
        }
        for name, value in expected.items():
            pairs.append((f"engine_config.{name}", engine.get(name), "config", value))
        stage = engine.get("zero_optimization", {}).get("stage")
        pairs.append(("engine_config.zero_optimization.stage", stage, "config", zero_stage(execution["strategy"])))
    yield from ((name, here, place, there) for name, here, place, there in pairs if here != there)


def _window_figures(run: MeasuredRun) -> Figures:
    """Yield the window's rates and step statistics, computed again from steps.csv."""
    window, accumulation = run.metrics.window, run.metrics.training_config.accumulation
    for name, computed in vars(run.recomputed).items():  # name of a field of the window -> its figure from steps.csv
        yield f"window.{name}", getattr(window, name), computed
    steps, per_device = run.recomputed.step_time_n, run.recomputed.tokens_per_s / run.n_devices
    yield "window.tokens_per_s_per_device", window.tokens_per_s_per_device, per_device
    yield "optimizer_steps + skipped", window.optimizer_steps + window.skipped_optimizer_steps, steps
    yield "window.micro_steps", window.micro_steps, steps * accumulation


def _work_figures(run: MeasuredRun) -> Figures:
    """Yield the ledger's samples and tokens, computed again from steps.csv and the configuration."""
    rows = run.steps[run.steps["phase"] == "window"]
    ledger = run.metrics.ledger
    work = run.metrics.config["work"]
    yield "ledger.samples_consumed", ledger.samples_consumed, int(rows["samples"].sum())
    yield "ledger.samples_planned", ledger.samples_planned, work["global_batch"] * work["steps"]
    yield "ledger.tokens_consumed", ledger.tokens_consumed, int(rows["tokens"].sum())
    if not run.is_classifier:
        planned = work["global_batch"] * work["steps"] * run.metrics.config["workload"]["seq_len"]
        yield "ledger.tokens_planned", ledger.tokens_planned, planned
    by_rank = np.bincount(rows["rank"], rows["samples"], minlength=len(ledger.samples_by_rank))
    for rank, samples in enumerate(ledger.samples_by_rank):
        yield f"ledger.samples_by_rank[{rank}]", samples, int(by_rank[rank])


def _configuration_figures(run: MeasuredRun) -> Figures:
    """Yield what a record states of its configuration elsewhere, computed again from the configuration."""
    training, config = run.metrics.training_config, run.metrics.config
    work = config["work"]
    yield "training_config.seq_len", training.seq_len, config["workload"]["seq_len"]
    yield "training_config.micro_batch", training.micro_batch, work["micro_batch"]
    yield "training_config.accumulation", training.accumulation, work["accumulation"]
    yield "training_config.global_batch", training.global_batch, work["global_batch"]
    yield "training_config.lr", training.lr, work["optimizer"]["learning_rate"]
    sizes = training.dataset_subset_sizes
    if run.metrics.ledger.equal:  # as planned: no sample twice
        yield "ledger.samples_shared", run.metrics.ledger.samples_shared, 0
    if training.zero_stage is not None:
        yield "training_config.zero_stage", training.zero_stage, zero_stage(config["execution"]["strategy"])
    validation = run.metrics.validation
    if validation:
        yield "validation.samples", validation.samples, min(sizes["val"], work["validation_samples"])


def _validation_figures(run: MeasuredRun) -> Figures:
    """Yield the validation's perplexity, accuracy, loss and targets, computed again from loss and sums over ranks."""
    validation = run.metrics.validation
    if validation is None:
        return
    if validation.perplexity is not None:
        yield "validation.perplexity", validation.perplexity, math.exp(validation.loss)
    if validation.accuracy is not None:  # how many were correct is not recorded, but it is a whole number
        yield ("validation.accuracy", validation.accuracy, _whole_share(validation.accuracy, validation.targets))
    if validation.rank_losses is not None:
        yield "validation.loss", validation.loss, math.fsum(validation.rank_losses) / validation.targets
    per_sample = 1 if run.is_classifier else run.metrics.config["workload"]["seq_len"]
    yield "validation.targets", validation.targets, validation.samples * per_sample


def _whole_share(share: float, total: float) -> float:
    """Return the share nearest to `share` that a whole number can have of `total`, such as 3/7 for 0.43 of 7."""
    return round(share * total) / total


def _model_figures(run: MeasuredRun) -> Figures:
    """Yield the model's parameters and FLOPs, computed again by the formulas."""
    model, counts = run.metrics.model, counts_of_run(run)
    yield "model.matmul_parameters", model.matmul_parameters, counts.matmul_parameters
    yield "model.flops_per_token", model.flops_per_token, counts.flops_per_token
    yield "model.flops_per_token_causal", model.flops_per_token_causal, counts.flops_per_token_causal


def _device_figures(run: MeasuredRun) -> Figures:
    """Yield memory by its formula, utilization from rate and FLOPs, and energy from the ranks' own records."""
    metrics = run.metrics
    training, use = metrics.training_config, metrics.utilization
    rate = metrics.window.tokens / metrics.window.wall_time_s / run.n_devices  # tokens/s of a device
    devices = sharing_devices(training.strategy, *run.geometry)  # among which a replica's state is divided
    predicted = state_bytes(training.strategy, training.precision, inventory_of_run(run).parameters, devices)
    yield "memory.state_bytes_predicted", metrics.memory.state_bytes_predicted, predicted
    yield "utilization.flops_per_s_per_device", use.flops_per_s_per_device, metrics.model.flops_per_token * rate
    known = peak(metrics.ranks[0]["device_name"], training.precision)
    if known and use.peak_source == known.source:  # else another version had another table of peaks
        yield "utilization.peak_flops_per_s", use.peak_flops_per_s, known.flops
    if use.peak_flops_per_s:
        mfu = metrics.model.flops_per_token * rate / use.peak_flops_per_s
        causal_flops = metrics.model.flops_per_token_causal
        mfu_causal = causal_flops * rate / use.peak_flops_per_s if causal_flops else None
        checkpointing = metrics.config["execution"]["activation_checkpointing"]
        yield "utilization.mfu", use.mfu, mfu
        yield "utilization.mfu_causal", use.mfu_causal, mfu_causal
        yield "utilization.hfu", use.hfu, mfu * RECOMPUTED if checkpointing else None
    joules = [gpu.get("energy_j") for rank in metrics.ranks for gpu in rank.get("gpus") or []]
    if metrics.energy.joules is not None:
        yield "energy.joules", metrics.energy.joules, sum(energy for energy in joules if energy is not None)
        yield "energy.joules_per_token", metrics.energy.joules_per_token, metrics.energy.joules / metrics.window.tokens


def _rank_figures(run: MeasuredRun) -> Figures:
    """Yield load, memory and devices in the summary, computed again from the ranks' own records."""
    memory, ranks = run.metrics.memory, run.metrics.ranks
    for number, rank in enumerate(ranks):
        length = window_length(rank)
        # Records without ready_epoch_s are older and took the load over another time than the window.
        if rank.get("cpu_s") is not None and "ready_epoch_s" in rank and length is not None:
            yield f"ranks.{number}.cpu_load", rank["cpu_load"], rank["cpu_s"] / length
        for gpu in rank.get("gpus") or []:
            load = gpu.get("utilization_mean")
            if load is not None:  # a mean of samples in whole percents, as NVML gives them
                yield f"ranks.{number}.gpus.utilization_mean", load, _whole_share(load, 100 * gpu["samples"])
            if gpu.get("energy_j") is not None:
                yield f"ranks.{number}.gpus.energy_j", gpu["energy_j"], gpu["energy_counter_j"]
        yield f"ranks.{number}.rank", rank["rank"], number
    if any("max_rss_bytes" not in rank for rank in ranks):  # files from before these fields
        return
    yield "memory.max_rss_bytes", memory.max_rss_bytes, max(rank["max_rss_bytes"] for rank in ranks)
    yield "memory.state_bytes", memory.state_bytes, max(rank["state_bytes"] for rank in ranks)
    cuda = [rank["cuda_memory"] for rank in ranks if rank["cuda_memory"]]
    for name, recorded in (
        ("allocated", memory.max_cuda_allocated_bytes),
        ("reserved", memory.max_cuda_reserved_bytes),
        ("retries", memory.cuda_alloc_retries),
    ):
        yield f"memory: {name}", recorded, max(of_rank[name] for of_rank in cuda) if cuda else None


def _census_figures(run: MeasuredRun) -> Figures:
    """Yield the places of the probed steps by the configuration, and what both a rank's record and its census state."""
    censuses, work = run.metrics.census or [], run.metrics.config["work"]
    for number, census in enumerate(censuses):
        yield f"census.{number}.before.step", census.before.step, work["warmup_steps"] - 2  # the last step but one
        if census.after:
            yield f"census.{number}.after.step", census.after.step, work["warmup_steps"] + work["steps"]
        if "threads" in run.metrics.ranks[number]:
            yield f"ranks.{number}.threads", run.metrics.ranks[number]["threads"], census.threads
    if not censuses:
        return
    for name, entry in run.metrics.collectives.items():
        counted = censuses[0].before.collectives.get(name, {})
        yield f"collectives.{name}.calls", entry["calls"], counted.get("calls")
        yield f"collectives.{name}.bytes", entry["bytes"], counted.get("bytes")


def _startup_figures(run: MeasuredRun) -> Figures:
    """Yield the times outside the window, computed again from the times of day at which they began and ended."""
    startup, ranks = run.metrics.startup, run.metrics.ranks
    began, program = startup.launcher_epoch_s, startup.program_epoch_s
    if began is None or program is None or any("ready_epoch_s" not in rank for rank in ranks):
        return
    ready = max(rank["ready_epoch_s"] for rank in ranks)  # the end of the set-up
    warm = max(rank["warm_epoch_s"] for rank in ranks)  # the end of the warm-up
    yield "startup.launch_s", startup.launch_s, program - began
    yield "startup.setup_s", startup.setup_s, ready - program
    yield "startup.warmup_s", startup.warmup_s, warm - ready
    first_times = run.steps["step_time_s"][run.steps["step"] == run.steps["step"].min()]  # of all ranks
    yield "startup.first_step_s", startup.first_step_s, float(first_times.max())
    if all("closing_epoch_s" in rank for rank in ranks):
        closing = max(rank["closing_epoch_s"] for rank in ranks)
        closing_s = run.metrics.closing_s
        before_closing = None if closing_s is None else run.metrics.total_wall_time_s - closing_s
        yield "total_wall_time_sec less closing_s", before_closing, closing - began
    else:  # older records give the time of each rank
        yield "closing_s", run.metrics.closing_s, max((rank["closing_s"] for rank in ranks), default=None)
