"""A whole run on one rank, as the launcher asks for it: the timed steps, and, of a first repeat, a second look.

The second look is the witness: steps of the cell once more from the same state, untimed, every one of them under a
probe. What begins with the window, or hides from the two probed steps of a run, makes the timed steps others than
these. The control comes after it: a bare loop over the same samples, which shows what the trainer itself costs.
"""

import gc
import time
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any

import torch.distributed as dist

from scaleproof.ground.files import write_json
from scaleproof.ground.records.census import BareLoop, ProbedStep, WitnessedSteps
from scaleproof.ground.records.run import METRICS
from scaleproof.measure.machine import accelerator
from scaleproof.measure.reference.control import has_control, time_bare_loop
from scaleproof.measure.trainer.beside import time_other_functions
from scaleproof.measure.trainer.measure import Ready, is_tight, make_probed_step, measure_in, print_on_rank_0, set_up
from scaleproof.measure.trainer.request import Request
from scaleproof.measure.trainer.session import Session
from scaleproof.measure.trainer.updates import UpdateLog

CONTROL_S = 1.0  # seconds that the control should take if its steps take as long as timed ones
FEWEST_CONTROL_STEPS, MOST_CONTROL_STEPS = 3, 10
PLAIN_STEPS = 5  # steps after those of the witness, with nobody looking
WITNESS_SHARE = 0.5  # the witness may take this part of the time until a run's limit
# Fields of a probed step that say what ran. Gradients' dtypes are no such field: FSDP2 may or may not have cast a shard
# when the hook looks at it.
FIELDS = ("linear_flops", "batched_flops", "attention", "updates", "collectives", "products", "nodes", "tokens_inside")


def make_run(request: Request, began: float) -> Session:
    """Make the run of `request`, whose metrics rank 0 writes, and return the session, whose `leave` the caller calls.

    `began`: when this program started (epoch seconds).
    """
    session = Session(request.cell, timeout_s=request.time_limit, hosts=request.hosts, gpus=request.gpus)
    # The metrics are there before the second look begins: where it fails, the run is kept without it.
    metrics, probed_s, step_s = measure_in(session, request, began)
    if request.witness_steps:
        fields_of_ranks = session.gather(measure_witness_and_control(session, request, probed_s, step_s))
        if metrics and metrics.census:  # rank 0 alone has metrics
            pairs = zip(metrics.census, fields_of_ranks, strict=True)
            census = [of_rank.model_copy(update=fields) for of_rank, fields in pairs]
            write_json(
                Path(request.out) / METRICS,
                metrics.model_copy(update={"census": census}).model_dump(mode="json", by_alias=True),
            )
    return session


def measure_witness_and_control(session: Session, request: Request, probed_s: float, step_s: float) -> dict[str, Any]:
    """Make the witnessed steps and the bare loop: the fields `witness` and `control` of this rank's census.

    Every rank must take part, and hold no other model any more: there would be two in memory. `probed_s`, `step_s`:
    seconds of a probed step, and of a step of the window.
    """
    gc.collect()
    accelerator.release_memory(session.device)
    steps = count_steps_to_witness(session, request, probed_s)
    print_on_rank_0(session, f"witness: {steps} steps once more, each of them looked at")
    fields: dict[str, Any] = {}
    if steps:
        fields["witness"] = make_witnessed_steps(session, request, steps)
        gc.collect()
        accelerator.release_memory(session.device)
    if has_control(request.cell.config):
        dist.barrier()
        n_steps = max(FEWEST_CONTROL_STEPS, min(MOST_CONTROL_STEPS, int(CONTROL_S / step_s)))
        timed = time_bare_loop(request.cell.config, Path(request.tokens), session.device, n_steps, session.local_world)
        fields["control"] = BareLoop.model_validate(timed) if timed else None  # None: memory did not suffice
    return fields


def count_steps_to_witness(session: Session, request: Request, probed_s: float) -> int:
    """Return how many steps to witness, the same on every rank: as many as requested, or as the time limit allows.

    `probed_s`: seconds of a probed step. Returns 0 where a compiled cell, which a probe runs uncompiled, may not fit.
    """
    left_s = request.time_limit - (time.time() - request.started)
    affordable_steps = int(WITNESS_SHARE * left_s / probed_s)
    if request.cell.execution.compile and is_tight(session.device):
        affordable_steps = 0
    return max(0, min(request.witness_steps, *session.gather(affordable_steps)))


def make_witnessed_steps(session: Session, request: Request, steps: int) -> WitnessedSteps:
    """Set the cell up anew, make its first `steps` steps, each under a probe, and return their record.

    Further steps, without a probe, tell what the probe costs and what runs beside training.
    """
    began = time.monotonic()
    run = set_up(session, request, with_heartbeat=False)
    losses: list[float] = []
    probed_steps: list[ProbedStep] = []
    update_log = UpdateLog()
    with update_log.record(run.strategy.optimizer):
        for number in range(steps):
            series, _, probed = make_probed_step(run, number, measure_state=False)
            losses.append(float(series.loss[0]))  # the only step of the series
            probed_steps.append(probed)

    # From here on `steps` is the number of the next step, which is made again and again.
    plain_s: list[float] = []
    if not accelerator.is_accelerator(session.device):  # beside a GPU the host's thread may only wait for it
        plain_s = [_time_step_s(run, steps) for _ in range(PLAIN_STEPS)]
    beside = {} if run.compiled else time_other_functions(run.model, lambda: run.steps(steps, 1))
    return WitnessedSteps(
        seconds=time.monotonic() - began,
        losses=losses,
        gradient_norms=[step.gradient_norm for step in probed_steps],
        scaled_by=[step.scaled_by for step in probed_steps],
        moments=update_log.moments,
        kinds=_differing_steps(probed_steps),
        beside=beside,
        plain_s=median(plain_s) if plain_s else None,
    )


def _differing_steps(probed_steps: list[ProbedStep]) -> list[ProbedStep]:
    """Return the first step, and each step that differs in FIELDS from the step before it."""
    fields = attrgetter(*FIELDS)
    return probed_steps[:1] + [step for before, step in pairwise(probed_steps) if fields(before) != fields(step)]


def _time_step_s(run: Ready, step: int) -> float:
    """Return the CPU seconds of this thread for step `step`, made without a probe."""
    began = time.thread_time()
    run.steps(step, 1)
    return time.thread_time() - began
