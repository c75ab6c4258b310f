"""Trials of a memory frontier (the largest micro-batch that fits): short runs of a cell, each in fresh processes."""

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

from scaleproof.conclude.forecast.frontier import FrontierResult, Trial, fastest, search
from scaleproof.conclude.forecast.frontier_program import RESULT, SETTINGS
from scaleproof.conclude.forecast.memory import held_of
from scaleproof.ground.campaign.batch import candidates
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.errors import UserError
from scaleproof.ground.facts.memory import state_bytes
from scaleproof.ground.files import write_json
from scaleproof.measure.corpus.reader import open_split
from scaleproof.measure.launch import local
from scaleproof.measure.launch.attempt import begin_attempt, run_ranks, write_request
from scaleproof.measure.launch.device_lock import device_lock, devices_of
from scaleproof.measure.launch.failure import failure
from scaleproof.measure.machine.allocation import allocation
from scaleproof.measure.machine.applicable import unsupported_reason
from scaleproof.measure.machine.gpus import Gpu, cuda_devices
from scaleproof.measure.model.inventory import inventory_of
from scaleproof.measure.trainer.request import PlannedRun

PROGRAM = "scaleproof.conclude.forecast.frontier_program"
OUT_OF_MEMORY = ("oom", "host_oom")
TRIAL_STEPS, TIMED_STEPS = 3, 10
MOST_ACCUMULATED = 2  # micro-batches of a step, where memory alone is asked for
LOG = "frontier.log"


class TrialFailed(UserError):
    """A trial ended by another fault than memory."""


class NoTrial(UserError):
    """The cell runs here at no micro-batch: its own run will fail too, and say why."""


def with_micro_batch(cell: Cell, micro_batch: int, whole_step: bool) -> Cell:
    """The cell at another micro-batch: accumulation as it is, the global batch follows.

    Where the campaign leaves the micro-batch to trials (`searched`), its global batch stays and accumulation follows:
    of the `whole_step`, for its speed, or of two micro-batches of it, which is enough for its memory.
    """
    batch = cell.batch
    accumulation = batch.accumulation
    if cell.searched:
        samples_of_device = batch.global_ // batch.n_devices
        accumulation = samples_of_device // micro_batch
        if not whole_step:
            accumulation = min(MOST_ACCUMULATED, accumulation)
    work = {"micro_batch": micro_batch, "accumulation": accumulation, "global_batch": "derive"}
    return Cell(cell.slug, cell.workload, cell.work.model_copy(update=work), cell.execution)


def micro_batches(cell: Cell, samples: int) -> list[int]:
    """The micro-batches to try: those that the campaign's batch allows; all that a corpus of `samples` allows if none.

    The campaign's batch allows some where it leaves the micro-batch to trials.
    """
    if cell.searched:
        return candidates(cell.work, cell.batch.n_devices)
    return sizes_to_try(samples // (cell.batch.n_devices * cell.batch.accumulation))


def sizes_to_try(most: int) -> list[int]:
    """Micro-batches up to `most`: each up to 32, then in steps of a sixteenth or less of the size."""
    sizes, size = [], 1
    while size <= most:
        sizes.append(size)
        size += max(1, 2 ** (size.bit_length() - 5))
    return sizes


def limit_of(cell: Cell, gpus: list[Gpu], given: float | None) -> float:
    """Bytes of a device that a trial may use: as `given`, else those of the smallest GPU.

    Raises UserError on a CPU without a given limit: all memory of a machine is no device's.
    """
    if given is not None:
        return given
    known = [gpu.memory for gpu in gpus if gpu.memory]
    if cell.execution.device == "cpu" or not known:
        raise UserError(
            "a CPU device has no memory of its own; give what a process may use: --limit 4GB, or frontier.limit_gb"
        )
    return float(min(known))


def expected_bytes(cell: Cell) -> tuple[float, float]:
    """Bytes of a device by formula: of its state, and of one sample. Only where a search begins follows from it.

    Activations of a block are 34 bytes a token and feature in low precision, twice that in fp32 (Korthikanti et al.
    2022, section 4, without the attention matrix); logits are there four times, in fp32, with their gradients.
    """
    held = held_of(cell)
    state = state_bytes(held.strategy, held.precision, held.parameters, cell.sharing_devices)
    tokens = cell.workload.seq_len
    blocks = inventory_of(cell).attention_width * tokens * 34 * held.width / 2
    logits = 4 * 4 * tokens * held.vocabulary  # four times, of four bytes
    return state, blocks + logits


def find_frontier(
    cell: Cell, campaign: str, tokens: Path, out: Path, limit: float | None, time_limit: float, compare_speed: bool
) -> FrontierResult:
    """Search the largest micro-batch of `cell`; with `compare_speed` also the fastest. `limit` in bytes a device.

    Waits while a run uses the same devices. Raises NoTrial where the cell cannot run here, TrialFailed where a trial
    fails for another reason than memory although the smallest micro-batch runs: it says nothing of what fits.
    """
    gpus, nodes = cuda_devices(), allocation()
    reason = unsupported_reason(cell, gpus, len(nodes.hosts) if nodes else 1)
    if reason:
        raise NoTrial(f"{cell.slug} cannot run here: {reason}")
    nbytes = limit_of(cell, gpus, limit)
    on_cpu = cell.execution.device == "cpu" or not gpus
    samples = open_split(tokens, "train", cell.workload).samples

    def run(micro_batch: int, steps: int) -> Trial:
        cell_of_trial = with_micro_batch(cell, micro_batch, whole_step=steps == TIMED_STEPS)
        settings = {"limit_bytes": int(nbytes) if on_cpu else None, "steps": steps}
        result = _trial(cell_of_trial, campaign, tokens, out, settings, time_limit)
        # On a GPU that is shared it may have run, but not within the limit that was given.
        if result is None or result["nbytes"] > nbytes:
            return Trial(micro_batch, None)
        tokens_per_step = cell_of_trial.batch.global_ * cell_of_trial.workload.seq_len
        rate = tokens_per_step / result["seconds"]
        base = min(result["base"], result["nbytes"])
        return Trial(micro_batch, result["nbytes"], rate, int(result["retries"]), base)

    allowed = micro_batches(cell, samples)
    state, per_sample = expected_bytes(cell)
    start = int(max(nbytes - state, 0) / per_sample / 4)  # a search begins best near a quarter of the answer
    with device_lock(devices_of(cell, gpus), f"the frontier of {campaign} {cell.slug}"):
        try:
            answer = search(lambda size: run(size, TRIAL_STEPS), nbytes, allowed, start)
            return fastest(lambda size: run(size, TIMED_STEPS), answer, allowed) if compare_speed else answer
        except TrialFailed:
            try:  # does the smallest run at all?
                run(allowed[0], TRIAL_STEPS)
            except TrialFailed as broken:
                raise NoTrial(str(broken)) from None
            raise


def _trial(
    cell: Cell, campaign: str, tokens: Path, out: Path, settings: dict[str, Any], time_limit: float
) -> dict[str, float] | None:
    """What rank 0 of one trial wrote (`frontier_program`): bytes, retries, seconds; None where it ran out of memory.

    Raises TrialFailed where it ended by another fault.
    """
    run_id = uuid.uuid4().hex[:8]
    attempt = begin_attempt(out, run_id, ())
    nodes = allocation()
    try:
        write_json(attempt / SETTINGS, settings)
        request = write_request(
            PlannedRun(cell, campaign, tokens, time_limit),
            attempt=attempt,
            run_id=run_id,
            nodes=nodes,
            provenance={},
        )
        forked = local.may_fork(cell, len(cuda_devices()))
        outcome = run_ranks(request, out / LOG, PROGRAM, nodes, steps=settings["steps"], forked=forked)
        if (attempt / RESULT).exists():
            return dict(json.loads((attempt / RESULT).read_text()))
        failed = failure(request, attempt, outcome)
    finally:
        shutil.rmtree(attempt, ignore_errors=True)
    if failed.failure_class in OUT_OF_MEMORY:
        return None
    raise TrialFailed(
        f"the trial of {cell.slug} at micro-batch {cell.batch.micro} failed ({failed.failure_class}: {failed.reason}); "
        f"see {out / LOG}"
    )
