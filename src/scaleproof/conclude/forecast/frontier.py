"""The largest micro-batch by search: two short trials, a line, the answer and the failure above it.

At most four trials. Every trial is in fresh processes; every failure is a row.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import psutil

from scaleproof.conclude.checks.memory import NEAR_FULL
from scaleproof.conclude.forecast import frontier_program
from scaleproof.conclude.forecast.launch import launch
from scaleproof.conclude.forecast.memory import FP32_BYTES, memory_inputs
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
# The second trial is at this part of the micro-batch at which the first line meets the limit: large enough for a good
# second line, and likely to fit.
NEAR_END = 0.85


Certificate = Literal["ran out of memory", "a larger one ran out of memory", "largest allowed", "none"]


@dataclass(frozen=True)
class Trial:
    """One short run at a micro-batch. `nbytes`: peak of a device; None where it ran out of memory.

    `base`: the part of these bytes that does not grow with the micro-batch, as far as the run could tell.
    """

    micro_batch: int
    nbytes: float | None
    tokens_per_s: float | None = None
    retries: int = 0
    base: float = 0.0

    @property
    def fits(self) -> bool:
        return self.nbytes is not None


@dataclass(frozen=True)
class FrontierResult:
    """The result of a search. `largest`: None where not even the smallest micro-batch fits.

    `fastest`: the fastest micro-batch of those compared; None where speed was not compared. `certificate`: why no
    larger one fits. `failed`: the smallest that ran out of memory. `needed`: bytes that the smallest micro-batch takes
    where the limit is below them, on a CPU.
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
    """Search the largest micro-batch that fits into `limit` bytes of a device. A trial ran at the one that is returned.

    `run`: makes one trial at a micro-batch. `allowed`: micro-batches into which the work divides. `start`: where to
    begin, best near a quarter of the answer. `_next_trial` decides where the next trial goes.
    """
    sizes = sorted(allowed)
    trials: dict[int, Trial] = {}
    size: int | None = _largest_up_to(sizes, max(start, 2))
    while size is not None and len(trials) < MOST_TRIALS:
        trials[size] = run(size)
        size = _next_trial(sizes, trials, limit)
    return _search_result(trials, sizes, limit)


def add_fastest(run: Callable[[int], Trial], answer: FrontierResult, allowed: list[int]) -> FrontierResult:
    """Return `answer` with the fastest among the largest micro-batch, its half and its quarter, by tokens/s.

    The largest is often not the fastest, as a nearly full allocator retries. Where no micro-batch fits, the answer
    stays as it is. `run`: makes a trial that is long enough to time.
    """
    if answer.largest is None:
        return answer
    sizes = sorted(allowed)
    compared_sizes = sorted({_largest_up_to(sizes, answer.largest / part) for part in (4, 2, 1)})
    # New trials, because those of the search are too short to time.
    timed_trials = [run(size) for size in compared_sizes]
    # Micro-batch -> tokens/s.
    rates = {trial.micro_batch: trial.tokens_per_s for trial in timed_trials if trial.fits and trial.tokens_per_s}
    fastest = max(rates, key=rates.__getitem__, default=None)
    return replace(answer, trials=(*answer.trials, *timed_trials), fastest=fastest)


def _largest_up_to(sizes: list[int], limit: float) -> int:
    """Return the largest size up to `limit`; the smallest size where all are larger."""
    return max((size for size in sizes if size <= limit), default=sizes[0])


def _next_trial(sizes: list[int], trials: dict[int, Trial], limit: float) -> int | None:
    """Return the micro-batch of the next trial; None where the largest is certain.

    Bytes are taken to be a line over micro-batch, and the next trial is where it meets the limit, as long as that is
    between the largest micro-batch that fits and the smallest that failed. `sizes`: all allowed micro-batches,
    ascending. `trials`: micro-batch -> trial, so far. `limit`: bytes of a device.
    """
    smallest_failed = min((size for size, trial in trials.items() if not trial.fits), default=math.inf)
    peaks = sorted((size, trial.nbytes) for size, trial in trials.items() if trial.nbytes is not None)
    largest_fitting = max((size for size, _ in peaks), default=0)
    untried_sizes = [size for size in sizes if largest_fitting < size < smallest_failed]
    if not untried_sizes:
        return None

    if not peaks:  # nothing fits yet; the last trial (target 0) is at the smallest size, whose failure is the answer
        is_last = len(trials) >= MOST_TRIALS - 1
        target = 0.0 if is_last else smallest_failed / 4
    elif len(peaks) > 1:  # a line through the two largest that fit
        target = _crossing(peaks[-2], peaks[-1], limit)
    elif smallest_failed < math.inf:  # one size fits, another failed
        target = (largest_fitting + smallest_failed) / 2
    else:  # one peak: a line through it and the bytes at micro-batch 0 (`base`); stay below its crossing, to fit
        target = NEAR_END * _crossing((0, trials[largest_fitting].base), peaks[0], limit)
    return _largest_up_to(untried_sizes, target)


def _crossing(one: tuple[int, float], other: tuple[int, float], limit: float) -> float:
    """Return where the line through two (micro-batch, bytes) meets `limit`: twice the larger, if it does not rise."""
    (small, low), (large, high) = one, other
    slope = (high - low) / (large - small)
    return large + (limit - high) / slope if slope > 0 else 2.0 * large


def _search_result(trials: dict[int, Trial], sizes: list[int], limit: float) -> FrontierResult:
    """Return the result of a search from its `trials`, by micro-batch. `sizes`: all allowed ones, ascending."""
    fitting = [trial for trial in trials.values() if trial.fits]
    best = max(fitting, key=lambda trial: trial.micro_batch, default=None)
    failed = min((size for size, trial in trials.items() if not trial.fits), default=None)
    larger_sizes = [size for size in sizes if best is None or size > best.micro_batch]
    certificate: Certificate
    if not larger_sizes:  # the certificate says why no larger one fits
        certificate = "largest allowed"
    elif failed is None:
        certificate = "none"
    elif failed == larger_sizes[0]:
        certificate = "ran out of memory"
    else:
        certificate = "a larger one ran out of memory"
    is_near_full = best is not None and (best.retries > 0 or (best.nbytes or 0.0) > NEAR_FULL * limit)
    return FrontierResult(
        limit=limit,
        trials=tuple(trials.values()),
        largest=best.micro_batch if best else None,
        fastest=None,  # `add_fastest` finds it
        certificate=certificate,
        near_full=is_near_full,
        failed=failed,
    )


OUT_OF_MEMORY = ("oom", "host_oom")
TRIAL_STEPS, TIMED_STEPS = 3, 10  # of a trial: to see its memory, to time its steps as well
MOST_ACCUMULATED = 2  # micro-batches of a step, where memory alone is asked for
LOG = "frontier.log"


class TrialFailed(UserError):
    """A trial ended by another fault than memory."""


class NoTrial(UserError):
    """The cell runs here at no micro-batch: its own run will fail too, and say why."""


def change_micro_batch(cell: Cell, micro_batch: int, whole_step: bool) -> Cell:
    """Return the cell of a trial: with another micro-batch and its own accumulation, so that the global batch changes.

    In a cell whose micro-batch trials are to find (`searched`) the global batch is fixed, and accumulation follows.
    `whole_step`: let a step of such a cell make all of its micro-batches, as is needed to time it; else it makes
    MOST_ACCUMULATED at most, of a smaller global batch, which is enough to see the memory.
    """
    batch = cell.batch
    accumulation = batch.accumulation
    if cell.searched:
        samples_of_device = batch.global_ // batch.n_devices  # every candidate of `micro_batches` divides it
        accumulation = samples_of_device // micro_batch
        if not whole_step:
            accumulation = min(MOST_ACCUMULATED, accumulation)
    work = {"micro_batch": micro_batch, "accumulation": accumulation, "global_batch": "derive"}
    return Cell(cell.slug, cell.workload, cell.work.model_copy(update=work), cell.execution)


def micro_batches(cell: Cell, samples: int) -> list[int]:
    """Return the micro-batches to try: all that a corpus of `samples` allows.

    Where trials are to find the cell's micro-batch (`searched`), they are all that divide its global batch.
    """
    if cell.searched:
        return candidate_micro_batches(cell.work, cell.batch.n_devices)
    return sizes_to_try(samples // (cell.batch.n_devices * cell.batch.accumulation))


def sizes_to_try(most: int) -> list[int]:
    """Return micro-batches up to `most`: each up to 32, then in steps of a sixteenth or less of the size."""
    sizes, size = [], 1
    while size <= most:
        sizes.append(size)
        size += max(1, 2 ** (size.bit_length() - 5))  # by 2 from 32 on, by 4 from 64 on, ...
    return sizes


def limit_of(cell: Cell, gpus: list[Gpu], given: float | None) -> float:
    """Return the bytes of a device that a trial may use: as `given`, else the memory of the smallest GPU.

    Raises UserError on a CPU without a given limit, because no device has all memory of a machine, and for a command;
    NoTrial for a cell of GPUs where none is visible.
    """
    if cell.command is not None:
        raise UserError(
            f"{cell.slug} is a cell of a command, whose batch no trial can choose; trials are of our trainer"
        )
    if given is not None:
        return given
    capacities = [gpu.memory for gpu in gpus if gpu.memory]
    if cell.execution.device == "cuda" and not capacities:
        raise NoTrial(f"{cell.slug} is for GPUs, and none is visible here; make its trials where the GPUs are")
    if cell.execution.device == "cpu" or not capacities:
        raise UserError(
            "a CPU device has no memory of its own; give what a process may use: --limit 4GB, or frontier.limit_gb"
        )
    return float(min(capacities))


def expected_bytes(cell: Cell) -> tuple[float, float]:
    """Return the bytes of a device by formula: for its state, and for one sample. They say where a search starts.

    Activations of a block are 34 bytes a token and feature in low precision, twice as much in fp32 (Korthikanti et al.
    2022, section 4, without the attention matrix). Logits are there four times, in fp32, with their gradients.
    """
    inputs = memory_inputs(cell)
    state = state_bytes(inputs.strategy, inputs.precision, inputs.parameters, cell.sharing_devices)
    tokens = cell.workload.seq_len
    width_over_low_precision = inputs.width / 2  # bytes of an element: 2 in low precision
    # `attention_width`: features, summed over blocks.
    blocks = inventory_of(cell).attention_width * tokens * 34 * width_over_low_precision
    logits = 4 * FP32_BYTES * tokens * inputs.vocabulary
    return state, blocks + logits


def find_frontier(
    cell: Cell, campaign: str, tokens: Path, out: Path, limit: float | None, time_limit: float, compare_speed: bool
) -> FrontierResult:
    """Search the largest micro-batch of `cell`; with `compare_speed` also the fastest. `limit` in bytes a device.

    Waits while a run uses the same devices. Raises NoTrial where the cell cannot run here. Raises TrialFailed where a
    trial fails for another reason than memory although the smallest micro-batch runs: that does not say what fits.
    `tokens`: folder of the corpus. `out`: folder of the log. `time_limit`: seconds of a trial.
    """
    gpus, nodes = cuda_devices(), current_allocation()
    if reason := unsupported_reason(cell, gpus, len(nodes.hosts) if nodes else 1):
        raise NoTrial(f"{cell.slug} cannot run here: {reason}")
    limit_bytes = limit_of(cell, gpus, limit)
    is_on_cpu = cell.execution.device == "cpu" or not gpus

    def make_trial(micro_batch: int, steps: int, limit_bytes: float = limit_bytes) -> Trial:  # TIMED_STEPS: timed, too
        is_timed = steps == TIMED_STEPS
        cell_of_trial = change_micro_batch(cell, micro_batch, whole_step=is_timed)
        settings = {"limit_bytes": int(limit_bytes) if is_on_cpu else None, "steps": steps}
        result = _trial_figures(cell_of_trial, campaign, tokens, out, settings, time_limit)
        # On a shared GPU it may have run, but not within the limit.
        if result is None or result["nbytes"] > limit_bytes:
            return Trial(micro_batch, None)
        tokens_per_step = cell_of_trial.batch.global_ * cell_of_trial.workload.seq_len
        return Trial(
            micro_batch=micro_batch,
            nbytes=result["nbytes"],
            tokens_per_s=tokens_per_step / result["seconds"],
            retries=int(result["retries"]),
            base=min(result["base"], result["nbytes"]),
        )

    samples = open_split(tokens, "train", cell.workload).n_samples
    allowed = micro_batches(cell, samples)
    state_bytes_expected, bytes_per_sample = expected_bytes(cell)
    start = int(max(limit_bytes - state_bytes_expected, 0) / bytes_per_sample / 4)  # a quarter of the answer
    with hold_devices(devices_of(cell, gpus), f"the frontier of {campaign} {cell.slug}"):
        try:
            answer = search_largest(partial(make_trial, steps=TRIAL_STEPS), limit_bytes, allowed, start)
            free_bytes = psutil.virtual_memory().available / 2 / cell.world_size  # half of all, shared by the ranks
            # Nothing fits into the limit: how much would be needed?
            if is_on_cpu and answer.largest is None and free_bytes > limit_bytes:
                answer = replace(answer, needed=make_trial(allowed[0], TRIAL_STEPS, free_bytes).nbytes)
            if compare_speed:
                answer = add_fastest(partial(make_trial, steps=TIMED_STEPS), answer, allowed)
            return answer
        except TrialFailed:
            try:  # does the smallest micro-batch run at all?
                make_trial(allowed[0], TRIAL_STEPS)
            except TrialFailed as failure:
                raise NoTrial(str(failure)) from None
            raise


def _trial_figures(
    cell: Cell, campaign: str, tokens: Path, out: Path, settings: dict[str, Any], time_limit: float
) -> dict[str, float] | None:
    """Return what rank 0 of one trial wrote, name -> figure: base, nbytes, retries, seconds (of a step).

    Returns None where memory ran out. Raises TrialFailed where the trial ended by another fault.
    """
    plan = PlannedRun(cell, campaign, tokens, time_limit)
    result = launch(
        frontier_program,
        plan,
        log=out / LOG,
        settings=settings,
        nodes=current_allocation(),
        steps=settings["steps"],
        forked=local.may_fork(cell, len(cuda_devices())),
    )
    if not isinstance(result, Failure):
        return result
    if result.failure_class in OUT_OF_MEMORY:
        return None
    raise TrialFailed(
        f"the trial of {cell.slug} at micro-batch {cell.batch.micro} failed ({result.failure_class}: {result.reason}); "
        f"see {out / LOG}"
    )
