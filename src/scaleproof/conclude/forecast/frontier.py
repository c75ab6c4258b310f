"""The largest micro-batch by search: two short trials, a line, the answer and the failure above it.

At most four trials. Every trial is in fresh processes; every failure is a row.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import psutil

from scaleproof.conclude.checks.memory import NEAR_FULL
from scaleproof.conclude.forecast.frontier_program import RESULT, SETTINGS
from scaleproof.conclude.forecast.launch import Program, launch
from scaleproof.conclude.forecast.memory import memory_inputs
from scaleproof.ground.campaign.batch import candidate_micro_batches
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.errors import UserError
from scaleproof.ground.facts.memory import state_bytes
from scaleproof.ground.records.run_sections import Failure
from scaleproof.measure.corpus.reader import open_split
from scaleproof.measure.launch import local
from scaleproof.measure.launch.device_lock import devices_of, hold_devices
from scaleproof.measure.machine.allocation import current_allocation
from scaleproof.measure.machine.applicable import unsupported_reason
from scaleproof.measure.machine.gpus import Gpu, cuda_devices
from scaleproof.measure.model.inventory import inventory_of
from scaleproof.measure.trainer.request import PlannedRun

MOST_TRIALS = 4
NEAR_END = 0.85  # of where the first line meets the limit: far enough for a good second line, and likely to fit


Certificate = Literal["ran out of memory", "a larger one ran out of memory", "largest allowed", "none"]


@dataclass(frozen=True)
class Trial:
    """One short run at a micro-batch. `nbytes`: peak of a device; None where it ran out of memory.

    `base`: bytes of it that do not grow with the micro-batch, as far as the run could tell.
    """

    micro_batch: int
    nbytes: float | None
    tokens_per_s: float | None = None
    retries: int = 0
    base: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether it did not run out of memory."""
        return self.nbytes is not None


@dataclass(frozen=True)
class FrontierResult:
    """What the search found. `largest` is None where not even the smallest micro-batch fits.

    `fastest`: of the micro-batches whose throughput was compared; None where that was not asked for. `certificate`: how
    certain it is that no larger one fits. `failed`: the smallest that ran out of memory. `needed`: bytes that the
    smallest micro-batch takes where the limit is below them, on a CPU.
    """

    limit: float
    trials: tuple[Trial, ...]
    largest: int | None
    fastest: int | None
    certificate: Certificate
    near_full: bool
    failed: int | None = None
    needed: float | None = None


def search_largest(run: Callable[[int], Trial], limit: float, allowed: list[int], start: int = 2) -> FrontierResult:
    """Search the largest micro-batch that fits into `limit` bytes of a device, which is always one that was run.

    `run`: makes one trial at a micro-batch; `allowed`: micro-batches that the work divides into; `start`: where to
    begin, best near a quarter of the answer. Where the next trial goes: `_next_trial`.
    """
    sizes = sorted(allowed)
    trials: dict[int, Trial] = {}
    size: int | None = _largest_up_to(sizes, max(start, 2))
    while size is not None and len(trials) < MOST_TRIALS:
        trials[size] = run(size)
        size = _next_trial(sizes, trials, limit)
    return _search_result(trials, sizes, limit)


def add_fastest(run: Callable[[int], Trial], answer: FrontierResult, allowed: list[int]) -> FrontierResult:
    """Return `answer` with its `fastest`: of the largest micro-batch, its half and its quarter, by tokens/s.

    The largest is often not the fastest, as a nearly full allocator retries. `run`: makes a trial that is long enough
    to time. Where no micro-batch fits the answer stays as it is.
    """
    if answer.largest is None:
        return answer
    sizes = sorted(allowed)
    sizes_compared = sorted({_largest_up_to(sizes, answer.largest / part) for part in (4, 2, 1)})
    timed = [run(size) for size in sizes_compared]
    rates = {trial.micro_batch: trial.tokens_per_s for trial in timed if trial.fits and trial.tokens_per_s is not None}
    best = max(rates, key=lambda micro_batch: rates[micro_batch], default=None)
    return replace(answer, trials=(*answer.trials, *timed), fastest=best)


def _largest_up_to(sizes: list[int], limit: float) -> int:
    """Return the largest size up to `limit`; the smallest of all where none is so small."""
    return max((size for size in sizes if size <= limit), default=sizes[0])


def _next_trial(sizes: list[int], trials: dict[int, Trial], limit: float) -> int | None:
    """Return the micro-batch of the next trial; None where the largest is certain.

    Bytes are taken to be a line over micro-batch, and the next trial is where it meets the limit, as long as that is
    between the largest micro-batch that fits and the smallest that failed. `sizes`: all allowed micro-batches,
    ascending; `trials`: made so far, by micro-batch; `limit`: bytes of a device.
    """
    smallest_failed = min((size for size, trial in trials.items() if not trial.fits), default=math.inf)
    fitting = sorted((size, trial.nbytes) for size, trial in trials.items() if trial.nbytes is not None)
    largest = max((size for size, _ in fitting), default=0)
    between = [size for size in sizes if largest < size < smallest_failed]
    if not between:
        return None
    if not fitting:  # the last trial is the smallest of all: that it fails is the answer
        end = smallest_failed / 4 if len(trials) < MOST_TRIALS - 1 else 0.0
    elif len(fitting) > 1:
        end = _crossing(fitting[-2], fitting[-1], limit)  # by the two largest
    elif smallest_failed < math.inf:  # one that fits, one that failed: half of the way
        end = (largest + smallest_failed) / 2
    else:  # the line from what does not grow with the micro-batch through the only peak, and not too near to its end
        end = NEAR_END * _crossing((0, trials[largest].base), fitting[0], limit)
    return _largest_up_to(between, end)


def _crossing(one: tuple[int, float], other: tuple[int, float], limit: float) -> float:
    """Return the micro-batch at which the line through two trials meets `limit`; else twice the larger one."""
    (small, low), (large, high) = one, other
    slope = (high - low) / (large - small)
    return large + (limit - high) / slope if slope > 0 else 2.0 * large


def _search_result(trials: dict[int, Trial], sizes: list[int], limit: float) -> FrontierResult:
    """Return the result of a search from its `trials`, by micro-batch. `sizes`: all that were allowed, ascending."""
    best = max((trial for trial in trials.values() if trial.fits), key=lambda trial: trial.micro_batch, default=None)
    failed = min((size for size, trial in trials.items() if not trial.fits), default=None)
    above = [size for size in sizes if best is None or size > best.micro_batch]
    certificate: Certificate
    if not above:
        certificate = "largest allowed"
    elif failed is None:
        certificate = "none"
    elif failed == above[0]:
        certificate = "ran out of memory"
    else:
        certificate = "a larger one ran out of memory"
    return FrontierResult(
        limit,
        tuple(trials.values()),
        largest=best.micro_batch if best else None,
        fastest=None,  # `add_fastest` finds it
        certificate=certificate,
        near_full=best is not None and (best.retries > 0 or (best.nbytes or 0.0) > NEAR_FULL * limit),
        failed=failed,
    )


PROGRAM = Program("scaleproof.conclude.forecast.frontier_program", SETTINGS, RESULT)
OUT_OF_MEMORY = ("oom", "host_oom")
TRIAL_STEPS, TIMED_STEPS = 3, 10  # of a trial: to see its memory, to time its steps as well
MOST_ACCUMULATED = 2  # micro-batches of a step, where memory alone is asked for
LOG = "frontier.log"


class TrialFailed(UserError):
    """A trial ended by another fault than memory."""


class NoTrial(UserError):
    """The cell runs here at no micro-batch: its own run will fail too, and say why."""


def change_micro_batch(cell: Cell, micro_batch: int, whole_step: bool) -> Cell:
    """Return the cell with another micro-batch, its accumulation unchanged, so that the global batch changes with it.

    Where trials are to find the micro-batch (`searched`) the global batch stays, and accumulation changes: that of the
    `whole_step`, to time it; else at most MOST_ACCUMULATED micro-batches, which is enough to see the memory.
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
    """Return the micro-batches to try: all that a corpus of `samples` allows.

    Where trials are to find the cell's micro-batch (`searched`), all into which its global batch can be divided.
    """
    if cell.searched:
        return candidate_micro_batches(cell.work, cell.batch.n_devices)
    return sizes_to_try(samples // (cell.batch.n_devices * cell.batch.accumulation))


def sizes_to_try(most: int) -> list[int]:
    """Return micro-batches up to `most`: each up to 32, then in steps of a sixteenth or less of the size."""
    sizes, size = [], 1
    while size <= most:
        sizes.append(size)
        size += max(1, 2 ** (size.bit_length() - 5))
    return sizes


def limit_of(cell: Cell, gpus: list[Gpu], given: float | None) -> float:
    """Return the bytes of a device that a trial may use: as `given`, else the memory of the smallest GPU.

    Raises UserError on a CPU without a given limit, because no device has all memory of a machine.
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
    """Return the bytes of a device by formula: of its state, and of one sample. They only decide where a search begins.

    Activations of a block are 34 bytes a token and feature in low precision, twice that in fp32 (Korthikanti et al.
    2022, section 4, without the attention matrix); logits are there four times, in fp32, with their gradients.
    """
    held = memory_inputs(cell)
    state = state_bytes(held.strategy, held.precision, held.parameters, cell.sharing_devices)
    tokens = cell.workload.seq_len
    blocks = inventory_of(cell).attention_width * tokens * 34 * held.width / 2  # width: bytes of a weight, 2 or 4
    logits = 4 * 4 * tokens * held.vocabulary  # four times, of four bytes
    return state, blocks + logits


def find_frontier(
    cell: Cell, campaign: str, tokens: Path, out: Path, limit: float | None, time_limit: float, compare_speed: bool
) -> FrontierResult:
    """Search the largest micro-batch of `cell`; with `compare_speed` also the fastest. `limit` in bytes a device.

    Waits while a run uses the same devices. Raises NoTrial where the cell cannot run here, TrialFailed where a trial
    fails for another reason than memory although the smallest micro-batch runs: it says nothing of what fits.
    """
    gpus, nodes = cuda_devices(), current_allocation()
    if reason := unsupported_reason(cell, gpus, len(nodes.hosts) if nodes else 1):
        raise NoTrial(f"{cell.slug} cannot run here: {reason}")
    nbytes = limit_of(cell, gpus, limit)
    on_cpu = cell.execution.device == "cpu" or not gpus
    samples = open_split(tokens, "train", cell.workload).n_samples

    def make_trial(micro_batch: int, steps: int, nbytes: float = nbytes) -> Trial:
        cell_of_trial = change_micro_batch(cell, micro_batch, whole_step=steps == TIMED_STEPS)
        settings = {"limit_bytes": int(nbytes) if on_cpu else None, "steps": steps}
        result = _trial_figures(cell_of_trial, campaign, tokens, out, settings, time_limit)
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
    with hold_devices(devices_of(cell, gpus), f"the frontier of {campaign} {cell.slug}"):
        try:
            answer = search_largest(lambda size: make_trial(size, TRIAL_STEPS), nbytes, allowed, start)
            free = psutil.virtual_memory().available / 2 / cell.world_size  # of which the machine does not fall
            if on_cpu and answer.largest is None and free > nbytes:
                answer = replace(answer, needed=make_trial(allowed[0], TRIAL_STEPS, free).nbytes)
            return add_fastest(lambda size: make_trial(size, TIMED_STEPS), answer, allowed) if compare_speed else answer
        except TrialFailed:
            try:  # does the smallest run at all?
                make_trial(allowed[0], TRIAL_STEPS)
            except TrialFailed as broken:
                raise NoTrial(str(broken)) from None
            raise


def _trial_figures(
    cell: Cell, campaign: str, tokens: Path, out: Path, settings: dict[str, Any], time_limit: float
) -> dict[str, float] | None:
    """Return what rank 0 of one trial wrote (`frontier_program`): bytes, retries, seconds; None where memory ran out.

    Raises TrialFailed where the trial ended by another fault.
    """
    plan = PlannedRun(cell, campaign, tokens, time_limit)
    forked = local.may_fork(cell, len(cuda_devices()))
    result = launch(PROGRAM, plan, out / LOG, settings, current_allocation(), settings["steps"], forked)
    if not isinstance(result, Failure):
        return result
    if result.failure_class in OUT_OF_MEMORY:
        return None
    raise TrialFailed(
        f"the trial of {cell.slug} at micro-batch {cell.batch.micro} failed ({result.failure_class}: {result.reason}); "
        f"see {out / LOG}"
    )
