"""From what the ranks saw to the metrics of the run."""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.transformers_model import TransformersModel
from scaleproof.ground.facts.counts import Counts, count_parameters_and_flops
from scaleproof.ground.facts.memory import state_bytes
from scaleproof.ground.facts.peaks import peak
from scaleproof.ground.files import sha256_of
from scaleproof.ground.records.census import Census
from scaleproof.ground.records.metrics import Measured
from scaleproof.ground.records.run import STEPS
from scaleproof.ground.records.run_sections import Energy, Memory, Model, Startup, TokenLedger, Utilization, Window
from scaleproof.ground.records.steps import ROW, window_steps, write_steps
from scaleproof.measure.corpus.reader import SamplePlan, TokenFile, digest_of_ids
from scaleproof.measure.model.inventory import inventory_of
from scaleproof.measure.trainer.request import Request
from scaleproof.measure.trainer.timed_loop import Series
from scaleproof.measure.trainer.validation import NotFinite, Scored, summarise_validation


@dataclass(frozen=True)
class TimedWindow:
    """The timed steps on one rank, and what was seen during them."""

    series: Series
    warmed_up_at: float  # epoch seconds: before the window
    updates: int  # updates that AdamW has counted in the window
    machine_readings: dict[str, Any]  # what the host and its devices did meanwhile
    max_rss: int  # bytes
    cuda_memory: dict[str, int] | None
    census: dict[str, Any]  # fields of the rank's census


@dataclass(frozen=True)
class RankRecord:
    """What one rank saw of a whole run."""

    warmup: list[Series]  # the warm-up, in pieces
    window: TimedWindow
    taken: dict[int, list]  # step -> sample ids of each micro-batch
    tokens: dict[int, int]  # step -> tokens that are work
    place: dict[str, Any]
    state_bytes: int
    collectives: dict[str, dict]
    dtypes: dict[str, str]
    engine_config: dict[str, Any] | None
    parameters: int
    ready: float  # epoch seconds: set up, before the warm-up
    census: Census
    closing: float  # epoch seconds: all ranks have validated
    closing_monotonic: float  # the same moment by the monotonic clock


def summarise_run(
    request: Request, plan: SamplePlan, file: TokenFile, ranks: list[RankRecord], began: float, scored: list[Scored]
) -> Measured:
    """Return the metrics of a run from the records of all `ranks`, in their order, and write its steps.csv.

    `file`: the training samples; `began`: when the program of the ranks started (epoch seconds); `scored`: each rank's
    part of the validation. Raises NotFinite where a loss or a gradient is not finite.
    """
    cell = request.cell
    work = cell.work
    steps_file = Path(request.out) / STEPS
    rows = _step_rows(ranks, work.warmup_steps)
    write_steps(rows, steps_file)
    for bad in rows[~np.isfinite(rows["loss"])]:  # the first such row is named
        raise NotFinite(f"the loss of step {bad['step']} on rank {bad['rank']} is {bad['loss']}")
    for number, rank in enumerate(ranks):
        for probed in (rank.census.before, rank.census.after):  # ZeRO skips such steps, and the loss stays finite
            if probed and not math.isfinite(probed.gradient_norm or 0.0):
                raise NotFinite(f"the gradients of step {probed.step} on rank {number} are not finite")
    validation = summarise_validation(scored, cell.workload.task)
    ledger = make_ledger(
        plan,
        work.warmup_steps,
        work.steps,
        file,
        taken=[rank.taken for rank in ranks],
        tokens=[rank.tokens for rank in ranks],
    )
    inventory = inventory_of(cell, len(request.description.get("classes", [])))
    counts = count_parameters_and_flops(inventory, ledger.tokens_consumed / ledger.samples_consumed)
    window = _window_figures(request, ranks, rows, ledger)
    ended = time.time()

    return Measured(
        **request.known(),
        model=Model(
            parameters=ranks[0].parameters,
            matmul_parameters=counts.matmul_parameters,
            flops_per_token=counts.flops_per_token,
            flops_per_token_causal=counts.flops_per_token_causal,
            inventory=inventory if isinstance(cell.workload.model, TransformersModel) else None,
        ),
        ledger=ledger,
        window=window,
        validation=validation,
        utilization=utilization_of_device(cell, counts, window.tokens_per_s_per_device, ranks[0].place["device_name"]),
        energy=_total_energy(ranks, ledger.tokens_consumed),
        startup=_startup(request.started, began, ranks, float(rows[rows["step"] == 0]["step_time_s"].max())),
        memory=_largest_memory(cell, ranks),
        collectives=ranks[0].collectives,
        dtypes=ranks[0].dtypes,
        engine_config=ranks[0].engine_config,
        ranks=[_rank_entry(rank) for rank in ranks],
        total_wall_time_s=ended - request.started,
        closing_s=ended - max(rank.closing for rank in ranks),
        census=[rank.census for rank in ranks],
        files={STEPS: sha256_of(steps_file)},
    )


def _startup(started: float, began: float, ranks: list[RankRecord], first_step_s: float) -> Startup:
    """Return the seconds of each phase before the window. Set-up and warm-up end with the last rank's.

    `started`, `began`: when the launcher and the program of the ranks started (epoch seconds).
    """
    ready = max(rank.ready for rank in ranks)  # when the last rank was set up
    return Startup(
        launch_s=began - started,
        setup_s=ready - began,
        warmup_s=max(rank.window.warmed_up_at for rank in ranks) - ready,
        first_step_s=first_step_s,
        launcher_epoch_s=started,
        program_epoch_s=began,
    )


def _rank_entry(rank: RankRecord) -> dict[str, Any]:
    """Return a rank's entry in the metrics: its place, its load, when its phases ended, and its memory."""
    return rank.place | {
        "ready_epoch_s": rank.ready,
        "warm_epoch_s": rank.window.warmed_up_at,
        "closing_epoch_s": rank.closing,
        "closing_monotonic_s": rank.closing_monotonic,
        "max_rss_bytes": rank.window.max_rss,
        "state_bytes": rank.state_bytes,
        "cuda_memory": rank.window.cuda_memory,
    }


def _step_rows(ranks: list[RankRecord], warmup_steps: int) -> np.ndarray:
    """Return the rows of steps.csv as an array of ROW, sorted by step and rank."""
    tables = []
    for number, rank in enumerate(ranks):
        for series in (*rank.warmup, rank.window.series):
            steps = range(series.first, series.first + len(series.step_time))
            rows = np.empty(len(steps), ROW)
            rows["phase"] = ["warmup" if step < warmup_steps else "window" for step in steps]
            rows["step"] = steps
            rows["rank"] = number
            rows["step_time_s"] = series.step_time
            rows["data_wait_s"] = series.data_wait
            rows["loss"] = series.loss
            rows["samples"] = [sum(len(ids) for ids in rank.taken[step]) for step in steps]
            rows["tokens"] = [rank.tokens[step] for step in steps]
            tables.append(rows)
    return np.sort(np.concatenate(tables), order=["step", "rank"])


def _window_figures(request: Request, ranks: list[RankRecord], rows: np.ndarray, ledger: TokenLedger) -> Window:
    """Return the figures of the window: rates by the slowest rank, times and losses merged over ranks."""
    batch = request.cell.batch
    by_step = window_steps(rows)
    times, losses = by_step["step_time_s"], by_step["loss"]
    steps = len(times)
    wall_s = max(rank.window.series.wall for rank in ranks)
    tokens = ledger.tokens_consumed

    return Window(
        wall_time_s=wall_s,
        optimizer_steps=ranks[0].window.updates,
        skipped_optimizer_steps=steps - ranks[0].window.updates,
        micro_steps=steps * batch.accumulation,
        tokens=tokens,
        tokens_per_s=tokens / wall_s,
        tokens_per_s_per_device=tokens / wall_s / batch.n_devices,
        step_time_n=steps,
        step_time_mean_s=float(times.mean()),
        step_time_p50_s=float(np.median(times)),
        # A percentile needs at least one step beyond it.
        step_time_p95_s=float(np.percentile(times, 95)) if steps >= 20 else None,
        step_time_p99_s=float(np.percentile(times, 99)) if steps >= 100 else None,
        step_time_min_s=float(times.min()),
        step_time_max_s=float(times.max()),
        data_wait_mean_s=float(by_step["data_wait_s"].mean()),
        train_loss_mean=float(losses.mean()),
        train_loss_first=float(losses[0]),
        train_loss_last=float(losses[-1]),
        clock="cuda_events" if ranks[0].window.cuda_memory else "monotonic",
    )


def utilization_of_device(cell: Cell, counts: Counts, tokens_per_sec: float, device_name: str) -> Utilization:
    """Return the shares of its published peak that a device uses at `tokens_per_sec`, None for an unknown peak."""
    device_peak = peak(device_name, cell.execution.precision)

    def share(flops_per_token: float | None) -> float | None:
        """Return the used share of the peak at so many FLOPs per token. Returns None where either is unknown."""
        if not flops_per_token or not device_peak:
            return None
        return flops_per_token * tokens_per_sec / device_peak.flops

    # With full activation checkpointing the forward pass, a third of the arithmetic, is done once more.
    recomputed_flops = counts.flops_per_token * 4 / 3 if cell.execution.activation_checkpointing else None
    return Utilization(
        convention=counts.source,
        flops_per_s_per_device=counts.flops_per_token * tokens_per_sec,
        peak_flops_per_s=device_peak.flops if device_peak else None,
        peak_source=device_peak.source if device_peak else None,
        mfu=share(counts.flops_per_token),
        mfu_causal=share(counts.flops_per_token_causal),
        hfu=share(recomputed_flops),
    )


def _total_energy(ranks: list[RankRecord], tokens: int) -> Energy:
    """Return the energy of all devices, in all and per token; if a device's is unknown, only why (`withheld`)."""
    gpus = [gpu for rank in ranks for gpu in rank.place.get("gpus") or []]
    reason = None
    if not gpus:
        reason = "no device with an energy counter"
    elif any(gpu["energy_counter_j"] is None for gpu in gpus):
        reason = "a device has no energy counter"
    elif any(gpu["energy_j"] is None for gpu in gpus):
        reason = "counter and integral of power disagree"
    if reason:
        return Energy(joules=None, joules_per_token=None, withheld=reason)
    joules = sum(gpu["energy_j"] for gpu in gpus)
    return Energy(joules=joules, joules_per_token=joules / tokens, withheld=None)


def _largest_memory(cell: Cell, ranks: list[RankRecord]) -> Memory:
    """Return the largest memory of any rank, for each kind of memory. CUDA's kinds are None on a CPU."""
    cuda_memories = [rank.window.cuda_memory for rank in ranks if rank.window.cuda_memory]

    def largest(name: str) -> int | None:
        """Return the largest figure `name` of CUDA's allocator on any rank. Returns None on a CPU."""
        return max((memory[name] for memory in cuda_memories), default=None)

    execution = cell.execution
    return Memory(
        max_cuda_allocated_bytes=largest("allocated"),
        max_cuda_reserved_bytes=largest("reserved"),
        cuda_alloc_retries=largest("retries"),
        state_bytes=max(rank.state_bytes for rank in ranks),
        state_bytes_predicted=state_bytes(
            execution.strategy, execution.precision, ranks[0].parameters, cell.sharing_devices
        ),
        max_rss_bytes=max(rank.window.max_rss for rank in ranks),
    )


def make_ledger(
    plan: SamplePlan,
    first: int,
    count: int,
    file: TokenFile,
    taken: Sequence[Mapping[int, list[np.ndarray]]],
    tokens: Sequence[Mapping[int, int]],
) -> TokenLedger:
    """Return the work of all ranks in `count` steps from step `first` on, beside the work that was planned.

    `taken`: for each rank, step -> sample ids of each micro-batch; `tokens`: for each rank, step -> counted tokens. A
    sample that two micro-batches of one step consumed is `shared`.
    """
    steps = range(first, first + count)
    planned_ids = [plan.step(step) for step in steps]
    # For each rank, the ids of each step.
    ids_of_ranks = [[np.concatenate(rank[step]) for step in steps] for rank in taken]
    consumed_ids = [np.concatenate(ids_of_step) for ids_of_step in zip(*ids_of_ranks, strict=True)]
    pairs = zip(consumed_ids, planned_ids, strict=True)

    return TokenLedger(
        samples_consumed=sum(map(len, consumed_ids)),
        samples_planned=sum(map(len, planned_ids)),
        tokens_consumed=sum(rank[step] for rank in tokens for step in steps),
        tokens_planned=sum(file.count(ids) for ids in planned_ids),
        consumed_sha256=digest_of_ids(consumed_ids),
        planned_sha256=digest_of_ids(planned_ids),
        samples_shared=sum(_consumed_too_often(consumed, planned) for consumed, planned in pairs),
        samples_by_rank=[sum(map(len, ids_of_rank)) for ids_of_rank in ids_of_ranks],
    )


def _consumed_too_often(consumed: np.ndarray, planned: np.ndarray) -> int:
    """Return how many samples of a step were consumed more often than planned. Both arrays are of sample ids.

    A plan may have a sample several times, where a tiny corpus repeats within a step. A sample that the plan does not
    have counts from its second time on: its first time is no repetition, and the two digests differ by it already.
    """
    times_planned = Counter(planned.tolist())
    times_consumed = Counter(consumed.tolist())
    return sum(max(0, times - times_planned.get(sample, 1)) for sample, times in times_consumed.items())
