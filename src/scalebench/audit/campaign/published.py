"""Everything that is published, computed again from what it was computed from, by code of its own."""

import math
from collections.abc import Iterator

import numpy as np

from scalebench.audit.campaign.census import parameters_of
from scalebench.audit.registry import Code, Flag, of_run
from scalebench.model.memory import state_bytes
from scalebench.record.run import MeasuredRun

SAME = 1e-6  # relative; 1,702 figures of sound runs agree within it


@of_run.check(
    Code(
        "figure-not-reproduced",
        "invalid",
        what="A published figure is not what its inputs give: it was computed wrongly, or changed.",
        detected="Rates, step statistics, losses, ledger, memory, utilization, energy and batch, each "
        "computed again from "
        "steps.csv, the configuration and the other fields, within 1e-6.",
        seen="Tables retyped by hand; a percentile of the wrong series.",
        repair="Quote none of the figures of this run until it is known which of them is right.",
    )
)
def figures_are_reproduced(run: MeasuredRun) -> Iterator[Flag]:
    """Each figure is what its inputs give."""
    wrong = [
        f"{name} is {recorded:.9g}, computed again {computed:.9g}"
        for name, recorded, computed in figures(run)
        if not same(recorded, computed)
    ]
    if wrong:
        evidence = "; ".join(wrong[:4]) + (f"; and {len(wrong) - 4} more" if len(wrong) > 4 else "")
        yield Flag(evidence)


def same(recorded: float | None, computed: float | None) -> bool:
    """Whether both are one figure, or both are missing."""
    if recorded is None or computed is None:
        return recorded is computed
    return abs(recorded - computed) <= SAME * max(abs(computed), 1e-12)


def figures(run: MeasuredRun) -> Iterator[tuple[str, float | None, float | None]]:
    """Name, recorded value and value computed again of everything that can be."""
    yield from _of_window(run)
    yield from _of_work(run)
    yield from _of_configuration(run)
    yield from _of_devices(run)


def _of_window(run: MeasuredRun) -> Iterator[tuple[str, float | None, float | None]]:
    window, rows = run.metrics.window, run.steps
    rows = rows[rows["phase"] == "window"]
    steps = sorted(set(rows["step"].tolist()))
    n = len(steps)
    by_step = {step: rows[rows["step"] == step] for step in steps} if n <= 2000 else None
    if by_step is not None:
        times = np.array([part["step_time_s"].max() for part in by_step.values()])
        waits = np.array([part["data_wait_s"].max() for part in by_step.values()])
        losses = np.array([np.average(part["loss"], weights=part["samples"]) for part in by_step.values()])
        ordered = np.sort(times)
        yield "window.step_time_mean_s", window.step_time_mean_s, times.sum() / n
        yield "window.step_time_min_s", window.step_time_min_s, ordered[0]
        yield "window.step_time_max_s", window.step_time_max_s, ordered[-1]
        yield "window.step_time_p50_s", window.step_time_p50_s, _quantile(ordered, 0.50)
        yield "window.step_time_p95_s", window.step_time_p95_s, _quantile(ordered, 0.95) if n >= 20 else None
        yield "window.step_time_p99_s", window.step_time_p99_s, _quantile(ordered, 0.99) if n >= 100 else None
        yield "window.data_wait_mean_s", window.data_wait_mean_s, waits.sum() / n
        yield "window.train_loss_mean", window.train_loss_mean, losses.sum() / n
        yield "window.train_loss_first", window.train_loss_first, losses[0]
        yield "window.train_loss_last", window.train_loss_last, losses[-1]
    tokens = int(rows["tokens"].sum())
    yield "window.step_time_n", window.step_time_n, n
    yield "window.tokens", window.tokens, tokens
    yield "window.tokens_per_s", window.tokens_per_s, tokens / window.wall_time_s
    yield "window.tokens_per_s_per_device", window.tokens_per_s_per_device, tokens / window.wall_time_s / run.n_devices
    yield "optimizer_steps + skipped", window.optimizer_steps + window.skipped_optimizer_steps, n
    yield "window.micro_steps", window.micro_steps, n * run.metrics.training_config.accumulation


def _quantile(ordered: np.ndarray, share: float) -> float:
    """Linear interpolation between the two nearest ranks, as numpy's default and R's type 7."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (place - low) * (ordered[high] - ordered[low]))


def _of_work(run: MeasuredRun) -> Iterator[tuple[str, float | None, float | None]]:
    ledger, rows = run.metrics.ledger, run.steps
    rows = rows[rows["phase"] == "window"]
    work = run.metrics.config["work"]
    yield "ledger.samples_consumed", ledger.samples_consumed, int(rows["samples"].sum())
    yield "ledger.samples_planned", ledger.samples_planned, work["global_batch"] * work["steps"]
    yield "ledger.tokens_consumed", ledger.tokens_consumed, int(rows["tokens"].sum())
    if run.metrics.config["workload"]["task"] != "classification":
        planned = work["global_batch"] * work["steps"] * run.metrics.config["workload"]["seq_len"]
        yield "ledger.tokens_planned", ledger.tokens_planned, planned
    for rank, samples in enumerate(ledger.samples_by_rank):
        own = int(rows["samples"][rows["rank"] == rank].sum())
        yield f"ledger.samples_by_rank[{rank}]", samples, own


def _of_configuration(run: MeasuredRun) -> Iterator[tuple[str, float | None, float | None]]:
    training, config = run.metrics.training_config, run.metrics.config
    work = config["work"]
    yield "training_config.seq_len", training.seq_len, config["workload"]["seq_len"]
    yield "training_config.micro_batch", training.micro_batch, work["micro_batch"]
    yield "training_config.accumulation", training.accumulation, work["accumulation"]
    yield "training_config.global_batch", training.global_batch, work["global_batch"]
    yield "training_config.lr", training.lr, work["optimizer"]["learning_rate"]
    validation = run.metrics.validation
    if validation and validation.perplexity is not None:
        yield "validation.perplexity", validation.perplexity, math.exp(validation.loss)
    if validation and config["workload"]["task"] != "classification":
        yield "validation.targets", validation.targets, validation.samples * config["workload"]["seq_len"]


def _of_devices(run: MeasuredRun) -> Iterator[tuple[str, float | None, float | None]]:
    metrics = run.metrics
    training, use = metrics.training_config, metrics.utilization
    per_device = metrics.window.tokens / metrics.window.wall_time_s / run.n_devices
    predicted = state_bytes(training.strategy, training.precision, parameters_of(run), run.n_devices)
    yield "memory.state_bytes_predicted", metrics.memory.state_bytes_predicted, predicted
    yield "utilization.flops_per_s_per_device", use.flops_per_s_per_device, metrics.model.flops_per_token * per_device
    if use.peak_flops_per_s:
        yield "utilization.mfu", use.mfu, metrics.model.flops_per_token * per_device / use.peak_flops_per_s
    joules = [gpu.get("energy_j") for rank in metrics.ranks for gpu in rank.get("gpus") or []]
    if metrics.energy.joules is not None:
        yield "energy.joules", metrics.energy.joules, sum(j for j in joules if j is not None)
        yield "energy.joules_per_token", metrics.energy.joules_per_token, metrics.energy.joules / metrics.window.tokens
