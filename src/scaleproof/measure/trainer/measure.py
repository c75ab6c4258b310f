"""One run on one rank: set up, warm up, probe, time the window, validate, count the work, write the metrics."""

import gc
import os
import resource
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil
import torch
import torch.distributed as dist
from torch import nn

from scaleproof.ground.files import write_json
from scaleproof.ground.records.census import ProbedStep
from scaleproof.ground.records.metrics import Measured
from scaleproof.ground.records.run import METRICS
from scaleproof.measure.corpus.reader import SamplePlan, TokenFile, open_split
from scaleproof.measure.machine import accelerator
from scaleproof.measure.model.build import build_model
from scaleproof.measure.strategy import Strategy, strategy_class
from scaleproof.measure.trainer.batches import Batches
from scaleproof.measure.trainer.beside import foreign_hooks
from scaleproof.measure.trainer.census import (
    TokenChecksum,
    autograd_nodes_made,
    census_of_rank,
    collectives_made,
    record_of_probed_step,
    share_exact_in_bf16,
)
from scaleproof.measure.trainer.fed_tokens import FedTokens, TokensInside
from scaleproof.measure.trainer.first_losses import score_unwrapped_model
from scaleproof.measure.trainer.host_load import HostLoad
from scaleproof.measure.trainer.metrics import RankRecord, TimedWindow, summarise_run
from scaleproof.measure.trainer.monitor import Monitor
from scaleproof.measure.trainer.probe import Probe
from scaleproof.measure.trainer.request import Request, open_heartbeat
from scaleproof.measure.trainer.session import Session
from scaleproof.measure.trainer.timed_loop import Series, StepTimer, run_steps
from scaleproof.measure.trainer.updates import UpdateLog, active_modes
from scaleproof.measure.trainer.validation import Scored, score_held_out, score_mean_loss

TIGHT = 0.4  # share of a device's memory: a compiled program that takes more may not fit uncompiled
STEPS_AFTER_PROBE = 1  # unprobed warm-up steps between the probed step and the window


@dataclass(frozen=True)
class Ready:
    """A run that is set up on this rank. `steps(first, count)` makes and times `count` steps from step `first` on."""

    tokens: TokenFile
    plan: SamplePlan
    model: nn.Module  # the model as it was built, inside of what the strategy wraps around it
    compiled: bool
    strategy: Strategy
    batches: Batches
    parameters: int  # number of elements of the model's parameters
    steps: Callable[[int, int], Series]
    first_losses: list[float]  # losses of the model as it was built; empty where no sample was scored

    @property
    def entrance(self) -> nn.Module:
        """The innermost module that every micro-batch enters unchanged and that may have hooks."""
        return self.strategy.module if self.inside is None else self.model

    @property
    def inside(self) -> nn.Module | None:
        """The model, for hooks on its parts; None where hooks would be compiled, or run in replicas' threads."""
        return None if self.compiled or self.strategy.cell.execution.strategy == "dp" else self.model


def set_up(session: Session, request: Request, score_first: bool = False, with_heartbeat: bool = True) -> Ready:
    """Make model, strategy and data of the request's cell, without making a step.

    `score_first`: score some samples by the model before it is wrapped. `with_heartbeat`: steps mark their progress in
    the file that the launcher reads. Garbage is collected from here on; it was not while libraries were imported.
    """
    cell, work = request.cell, request.cell.work
    tokens = open_split(Path(request.tokens), "train", cell.workload)
    plan = SamplePlan(tokens.n_samples, cell.batch.global_, work.seed)
    model = build_model(cell, len(request.description.get("classes", [])))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    first_losses = score_unwrapped_model(model, plan, tokens, session.device) if score_first else []
    strategy = strategy_class(cell.execution.strategy)(cell, model, session.device)
    batches = Batches(tokens, plan, cell.batch, session.shares, session.device)
    mark = open_heartbeat(session.local_rank) if with_heartbeat else None
    gc.enable()

    def steps(first: int, count: int) -> Series:
        """Make `count` steps from step `first` on, and time them."""
        return run_steps(strategy, batches, first, count, StepTimer(session.device), mark)

    return Ready(
        tokens=tokens,
        plan=plan,
        model=model,
        compiled=bool(cell.execution.compile),
        strategy=strategy,
        batches=batches,
        parameters=parameters,
        steps=steps,
        first_losses=first_losses,
    )


class ProbedRun(NamedTuple):
    """A step that was made under a probe: its time, the probe, and the record of what it counted."""

    series: Series
    probe: Probe
    record: ProbedStep


class WarmUp(NamedTuple):
    """The warm-up. `series`: times of the first step, of those up to the probed step, of that step, of those after."""

    series: list[Series]
    probe: Probe
    probed: ProbedStep
    collectives: int  # collectives that the last step has begun


def warm_up(ready: Ready, count: int) -> WarmUp:
    """Make `count` warm-up steps (3 or more), the last but one under a probe: the step before the window has none."""
    probed_step = count - STEPS_AFTER_PROBE - 1
    series = [ready.steps(0, 1)]
    if probed_step > 1:  # steps between the first one and the probed one
        series.append(ready.steps(1, probed_step - 1))
    probed_series, probe, record = make_probed_step(ready, probed_step)
    # The probed step of a compiled cell ran uncompiled: torch gives back the memory that this step alone has needed.
    accelerator.release_memory(ready.strategy.device)
    collectives_before = collectives_made()
    series += [probed_series, ready.steps(probed_step + 1, STEPS_AFTER_PROBE)]
    collectives = (collectives_made() - collectives_before) // STEPS_AFTER_PROBE
    return WarmUp(series=series, probe=probe, probed=record, collectives=collectives)


def make_probed_step(ready: Ready, step: int, measure_state: bool = True) -> ProbedRun:
    """Make step `step` under a probe. `measure_state`: also measure the state in memory."""
    checksum = None if ready.compiled else TokenChecksum()  # its hook would have a compiled model compiled again
    saves_on_host = must_keep_on_host(ready)
    saving = torch.autograd.graph.save_on_cpu() if saves_on_host else nullcontext()
    first_node = autograd_nodes_made()
    feeding = checksum.record(ready.entrance) if checksum else nullcontext()
    with Probe(ready.strategy, measure_state) as probe, feeding, TokensInside(ready.inside) as inside, saving:
        series = _make_step_as_written(ready, step)
    nodes = autograd_nodes_made() - first_node - 1  # less the node that counting makes

    record = record_of_probed_step(
        step,
        probe,
        ready.strategy,
        checksum=checksum,
        nodes=nodes,
        tokens_inside=inside.tokens,
        saved_on_host=saves_on_host,
    )
    return ProbedRun(series, probe, record)


def is_tight(device: torch.device) -> bool:
    """Return whether a compiled program takes over TIGHT of the memory of `device`.

    Uncompiled it may take twice as much, and not fit. Returns False on a CPU, where it always fits.
    """
    if not accelerator.is_accelerator(device):
        return False
    device_bytes = torch.cuda.get_device_properties(device).total_memory  # torch.accelerator has no name for it yet
    return torch.accelerator.max_memory_allocated(device) > TIGHT * device_bytes


def must_keep_on_host(ready: Ready) -> bool:
    """Return whether a probed step must keep its activations in the host's memory, since it runs uncompiled.

    Each rank decides for itself, since operators and collectives are the same either way. The host must have as much
    room for each rank as a device has.
    """
    device = ready.strategy.device
    if not ready.compiled or not is_tight(device):
        return False
    ranks_here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    host_bytes = psutil.virtual_memory().available / ranks_here
    return host_bytes > torch.cuda.get_device_properties(device).total_memory


def _make_step_as_written(ready: Ready, step: int) -> Series:
    """Make step `step` under a probe, in which compiled code runs uncompiled.

    Where memory runs out, the error of a compiled cell says that this step takes more than the timed steps.
    """
    hint = ""
    if ready.compiled:
        hint = "; it runs as written, and takes more memory than compiled: `loss: fused` or a smaller micro_batch helps"
    try:
        return ready.steps(step, 1)
    except torch.OutOfMemoryError as error:
        raise torch.OutOfMemoryError(f"in the probed step of the warm-up{hint}. {error}") from error


def time_window(session: Session, request: Request, ready: Ready) -> TimedWindow:
    """Make the steps of the window, with nothing beside them that costs time, and return what was seen of them."""
    cell = request.cell
    work = cell.work
    device = session.device
    updates_before = ready.strategy.executed_updates()
    # NVML takes up to 100 ms to start, differently on each rank: the first would wait for the last within the window.
    monitor = Monitor(device, session.uuids)
    accelerator.reset_peaks(device)
    print_on_rank_0(session, f"window: {work.steps} steps; nothing is printed until they are done")
    fed = FedTokens(cell.batch.micro * len(session.shares), cell.workload.seq_len + 1, device)
    inside = TokensInside(ready.inside)
    update_log = UpdateLog(work.warmup_steps)
    dist.barrier()  # all ranks are here: the warm-up is over
    first_node = autograd_nodes_made()
    warmed_up_at = time.time()
    with monitor:
        dist.barrier()  # all monitors have started
        logging = update_log.record(ready.strategy.optimizer)
        with HostLoad(session.cores) as host_load, fed.record(ready.entrance), inside, logging:
            collectives_before = collectives_made()
            series = ready.steps(work.warmup_steps, work.steps)
            collectives = collectives_made() - collectives_before

    modes = active_modes()
    nodes = autograd_nodes_made() - first_node - 1  # less the node that counting makes
    print_on_rank_0(session, f"window: {series.wall:.2f} s")
    hooks = foreign_hooks(ready.strategy.module)
    bytes_per_unit = 1 if sys.platform == "darwin" else 1024  # the unit of `ru_maxrss`
    return TimedWindow(
        series=series,
        warmed_up_at=warmed_up_at,
        max_rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * bytes_per_unit,
        cuda_memory=accelerator.memory_peaks(device),
        updates=ready.strategy.executed_updates() - updates_before,
        machine_readings=monitor.result() | host_load.result(),
        census={
            "modes_in_window": modes,
            "nodes_in_window": nodes,
            "collectives_in_window": collectives,
            "coarse": share_exact_in_bf16(ready.strategy),
            "slowed_by": [*sorted(update_log.slowed_by), *(f"the hook {name}" for name in hooks)],
            "tokens_in_window": fed.chained_checksum(work.warmup_steps, cell.batch.accumulation),
            "tokens_inside_window": inside.tokens,
            "updates_in_window": update_log.summary(work.warmup_steps, work.steps),
        },
    )


@dataclass(frozen=True)
class Closing:
    """What was seen after the window: the validation of all ranks, and one more probed step."""

    scored: list[Scored]
    epoch_s: float  # when all ranks had validated
    monotonic_s: float  # the same moment by the monotonic clock
    probed: ProbedStep | None = None
    both_losses: list[float] | None = None  # losses of the probed step: as scored, as trained on; None: not finite


def look_after_window(session: Session, request: Request, run: Ready) -> Closing:
    """Score held-out samples, and make one more step under a probe.

    The step's samples are scored first: both losses should be equal. No step is made where memory ran out, nor of a
    compiled cell, which uncompiled may take more memory than it had.
    """
    cell, work = request.cell, request.cell.work
    held_out = open_split(Path(request.tokens), "val", cell.workload)
    own_scores = score_held_out(
        run.strategy, held_out, work.validation_samples, cell.batch, session.shares, session.device, run.entrance
    )
    scored = session.gather(own_scores)
    epoch_s = time.time()
    monotonic_s = time.monotonic()
    if run.compiled or any(rank.out_of_memory for rank in scored):
        return Closing(scored=scored, epoch_s=epoch_s, monotonic_s=monotonic_s)

    step = work.warmup_steps + work.steps
    batches = (run.batches.read_unnoted(step, micro) for micro in range(cell.batch.accumulation))
    scored_loss = score_mean_loss(run.strategy, batches)
    run.strategy.module.train()
    series, _, probed = make_probed_step(run, step, measure_state=False)
    losses = [scored_loss, float(series.loss[0])]
    return Closing(
        scored=scored,
        epoch_s=epoch_s,
        monotonic_s=monotonic_s,
        probed=probed,
        both_losses=losses if np.isfinite(losses).all() else None,
    )


class MadeRun(NamedTuple):
    """A complete run: its metrics, on rank 0 alone, and the seconds of the probed step and of a timed step."""

    metrics: Measured | None
    probed_s: float
    step_s: float


def measure_in(session: Session, request: Request, began: float) -> MadeRun:
    """Make the requested run, whose metrics rank 0 writes. `began`: when this program started (epoch seconds)."""
    cell, work = request.cell, request.cell.work
    run = set_up(session, request, score_first=True)
    ready = time.time()
    print_on_rank_0(session, f"warm-up: {work.warmup_steps} steps of {cell.batch} samples")
    warmup = warm_up(run, work.warmup_steps)
    probe = warmup.probe
    window = time_window(session, request, run)
    closing = look_after_window(session, request, run)

    own_record = RankRecord(
        warmup=warmup.series,
        window=window,
        taken=run.batches.taken,
        tokens=run.batches.tokens,
        place=session.place | window.machine_readings,
        state_bytes=probe.state_bytes,
        collectives=probe.collectives(),
        dtypes=probe.dtypes() | run.strategy.dtypes() | {"float32_matmul": torch.get_float32_matmul_precision()},
        engine_config=run.strategy.engine_config(),
        parameters=run.parameters,
        ready=ready,
        census=census_of_rank(
            run.strategy,
            run.model,
            before=warmup.probed,
            after=closing.probed,
            scored_and_trained=closing.both_losses,
            collectives_of_step=warmup.collectives,
            first_losses=run.first_losses,
            **window.census,
        ),
        closing=closing.epoch_s,
        closing_monotonic=closing.monotonic_s,
    )
    ranks = session.gather(own_record)
    metrics = _write_metrics(session, request, run, ranks, closing.scored, began) if session.rank == 0 else None
    *_, probed_series, _ = warmup.series  # the last series is of the step after the probed one
    return MadeRun(metrics=metrics, probed_s=probed_series.wall, step_s=window.series.wall / work.steps)


def _write_metrics(
    session: Session, request: Request, run: Ready, ranks: list[RankRecord], scored: list[Scored], began: float
) -> Measured:
    """Write the run's metrics and steps.csv from the records of all ranks, and return the metrics."""
    if any(rank.out_of_memory for rank in scored):
        print_on_rank_0(
            session, "validation: a device ran out of memory, so there is none; the window is not touched by that"
        )
    metrics = summarise_run(request, run.plan, run.tokens, ranks, began, scored)
    write_json(Path(request.out) / METRICS, metrics.model_dump(mode="json", by_alias=True))
    print_on_rank_0(session, f"{metrics.window.tokens_per_s:,.0f} tokens/s")
    return metrics


def print_on_rank_0(session: Session, text: str) -> None:
    """Print a line on rank 0. Must not be called inside the window."""
    if session.rank == 0:
        print(text, flush=True)
