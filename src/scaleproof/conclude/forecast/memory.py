"""Peak memory of a device: state, buffers and logits by formula, activations and the rest from measured micro-batches.

Or as torch's trackers count it (`tracked_program`), in a process of its own.

Sources: ZeRO paper (Rajbhandari et al. 2020) for the state; DeepSpeed and FSDP2 defaults for buffers; the anchor is
that of AMD's Primus projection: what formulas miss at measured sizes is carried, what they know is scaled.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from signal import SIGTERM
from statistics import fmean, linear_regression
from tempfile import TemporaryFile
from threading import Timer
from typing import Any, Literal

from scaleproof.conclude.forecast.law import Unsupported
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.strategies import LOW, SHARDING_ZERO, without_offload
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.facts.memory import state_bytes
from scaleproof.ground.progress import show_progress
from scaleproof.measure.model.inventory import inventory_of
from scaleproof.measure.trainer.request import Request

FULL = 0.95  # of a device: from here on the allocator runs out of whole pieces
FULL_FAR = 0.93  # beyond twice the largest measured micro-batch, where predictions fall short of peaks
FAR = 2
OVER = 1.05  # a prediction that is this many times the device does not fit; between both, one trial decides
ZERO_BUCKET = 500_000_000  # elements: DeepSpeed's default
ZERO3_LIVE_ELEMENTS = 1_000_000_000  # parameters that stage 3 keeps gathered (stage3_max_live_parameters)
ZERO3_PREFETCH_ELEMENTS = 50_000_000  # parameters that stage 3 gathers ahead (stage3_prefetch_bucket_size)
FP32_BYTES = 4


@dataclass(frozen=True)
class MemoryInputs:
    """What the known parts follow from. `parameters`, `block`, `root`: number of parameters of the model and its parts.

    The root is the part of the model outside of blocks: embeddings, the last norm, the head.
    """

    strategy: str
    precision: str
    parameters: int
    block: int
    root: int
    vocabulary: int
    seq_len: int
    accumulation: int = 1
    bucket_elements: int | None = None
    reshards: bool = True  # `execution.fsdp_reshard`

    @property
    def width(self) -> int:
        """Bytes of an element in computing and in messages."""
        return 2 if self.precision in LOW else FP32_BYTES


def memory_inputs(cell: Cell) -> MemoryInputs:
    """Return what the memory of a cell's device follows from. The root has embeddings, the last norm, the tied head."""
    inventory = inventory_of(cell)
    execution = cell.execution
    bucket = execution.bucket_elements
    return MemoryInputs(
        strategy=execution.strategy,
        precision=execution.precision,
        parameters=inventory.root + sum(inventory.blocks),
        block=inventory.blocks[0],
        root=inventory.root,
        vocabulary=0 if inventory.is_encoder else cell.vocab_size,
        seq_len=cell.workload.seq_len,
        accumulation=cell.batch.accumulation,
        bucket_elements=None if bucket == "auto" else bucket,  # None: the engine's default
        reshards=execution.fsdp_reshard,
    )


def buffer_bytes(inputs: MemoryInputs, devices: int) -> float:
    """Return the bytes that a strategy holds on each of `devices` devices beside state and activations.

    Raises ValueError for a strategy without a formula.
    """
    if devices < 2 or inputs.strategy in ("single", "dp", "ddp"):  # gradients of ddp are views of its buckets
        return 0.0
    strategy = without_offload(inputs.strategy)
    parameters, width = inputs.parameters, inputs.width

    if strategy == "zero0":  # DeepSpeed without shards has buckets beside the gradients, in fp32
        return float(FP32_BYTES * parameters)
    if strategy == "fsdp":
        gathered = width * (2 * inputs.block + inputs.root)  # a block in use, the next one, and the root
        block_gradients = FP32_BYTES * inputs.block
        # Until the last micro-batch the gradients of all parameters are there.
        all_gradients = FP32_BYTES * parameters if inputs.accumulation > 1 else 0
        return float(gathered + block_gradients + all_gradients)
    if strategy in ("zero1", "zero2"):
        bucket = width * min(inputs.bucket_elements or ZERO_BUCKET, parameters)
        return 2.0 * bucket  # to reduce, and to gather
    if strategy == "zero3":
        gathered = width * min(ZERO3_LIVE_ELEMENTS, parameters)
        gathered_ahead = width * min(ZERO3_PREFETCH_ELEMENTS, parameters)
        return float(gathered + gathered_ahead)
    raise ValueError(f"no formula for the buffers of {strategy}")


def known_bytes(inputs: MemoryInputs, devices: int, micro_batch: int) -> float:
    """Return the bytes of the parts that formulas know, on one of `devices` devices: state, buffers, logits."""
    state = state_bytes(inputs.strategy, inputs.precision, inputs.parameters, devices)
    # Logits are in fp32 for the loss, with a copy in low precision beside them.
    bytes_of_logit = FP32_BYTES + (inputs.width if inputs.width < FP32_BYTES else 0)
    logits = float(bytes_of_logit * micro_batch * inputs.seq_len * inputs.vocabulary)
    return state + buffer_bytes(inputs, devices) + logits


@dataclass(frozen=True)
class Peak:
    """Measured peak bytes of a device at a micro-batch."""

    micro_batch: int
    devices: int
    nbytes: float


@dataclass(frozen=True)
class MemoryModel:
    """The peak of a device: its known parts, plus a line over micro-batch for what `measured` peaks have beyond theirs.

    The line is `base` + `slope` x micro-batch, in bytes.
    """

    inputs: MemoryInputs
    base: float
    slope: float
    measured: tuple[Peak, ...]

    @property
    def largest(self) -> int:
        return max(peak.micro_batch for peak in self.measured)

    def predict(self, micro_batch: int, devices: int) -> float:
        """Return the peak bytes of one of `devices` devices; that number of devices need not have been measured.

        Raises Unsupported for micro-batches below the smallest measured one and above four times the largest. Where one
        micro-batch alone was measured, any other is unsupported.
        """
        sizes = {peak.micro_batch for peak in self.measured}
        if len(sizes) == 1 and micro_batch not in sizes:
            raise Unsupported(
                "memory-one-batch",
                f"memory was measured at micro-batch {self.largest} only",
                "run two micro-batches, neither of them 1",
            )
        if not min(sizes) <= micro_batch <= 4 * self.largest:
            raise Unsupported(
                "micro-batch-outside",
                f"memory was measured at micro-batches {min(sizes)} to {max(sizes)}, not near {micro_batch}",
                f"run micro_batch {micro_batch}",
            )
        # The line gives what the formulas do not know.
        rest_bytes = max(0.0, self.base + self.slope * micro_batch)
        return known_bytes(self.inputs, devices, micro_batch) + rest_bytes


def fit_memory(inputs: MemoryInputs, peaks: Sequence[Peak]) -> MemoryModel:
    """Fit the memory that formulas do not know: a line over micro-batch, by least squares, through measured `peaks`.

    Micro-batch 1 is left out where two others were measured, because its peak is in the update, not in the activations:
    a line through it is 4 % off where a line through 32 and 64 is 0.1 % off. Raises Unsupported for hsdp, and for fsdp
    that keeps blocks gathered.
    """
    if inputs.strategy == "hsdp":
        raise Unsupported("strategy-not-modelled", "what hsdp holds is not known to the formulas", "run the cell")
    if inputs.strategy == "fsdp" and not inputs.reshards:
        reason = "what fsdp holds with fsdp_reshard: false is not known to the formulas"
        raise Unsupported("strategy-not-modelled", reason, "run the cell")

    used_peaks = sorted(peaks, key=lambda peak: peak.micro_batch)
    peaks_beyond_one = [peak for peak in used_peaks if peak.micro_batch > 1]
    if len({peak.micro_batch for peak in peaks_beyond_one}) >= 2:
        used_peaks = peaks_beyond_one
    rest_bytes = [peak.nbytes - known_bytes(inputs, peak.devices, peak.micro_batch) for peak in used_peaks]
    micro_batches = [peak.micro_batch for peak in used_peaks]
    slope, base = 0.0, fmean(rest_bytes)  # one micro-batch gives no line
    if len(set(micro_batches)) > 1:
        slope, base = linear_regression(micro_batches, rest_bytes)
    return MemoryModel(inputs, base, slope, tuple(used_peaks))


Verdict = Literal["fits", "undecided", "does not fit"]


def memory_verdict(predicted: float, capacity: float, far: bool = False) -> Verdict:
    """Return whether a device of `capacity` bytes is enough for the `predicted` bytes, or "undecided".

    An allocator fails before the last byte is used. `far`: predicted for more than FAR times the largest measured
    micro-batch, where predictions are less exact.
    """
    if predicted > OVER * capacity:  # a smaller excess may be an error of the prediction
        return "does not fit"
    full = FULL_FAR if far else FULL
    return "fits" if predicted <= full * capacity else "undecided"


PROGRAM = "scaleproof.conclude.forecast.tracked_program"
TIME_LIMIT_S = 600


@dataclass(frozen=True)
class Tracked:
    """Bytes of one rank's tensors: at the `peak` of a step, and just before its update (`state`).

    Both are None where a `reason` says why. Bytes outside of tensors are not counted: the context, NCCL, unused parts
    of the allocator's blocks.
    """

    peak: float | None
    state: float | None
    reason: str | None = None


def sharded_bytes(counted: Mapping[str, int], stage: int, devices: int, reduced: bool) -> float:
    """Return the bytes of a rank under DeepSpeed's ZeRO in fp32, without buckets and gathered parameters.

    `counted`: bytes by kind, as trackers count them on a single device. `reduced`: whether the gradients have been
    reduced; before that stage 1 holds all of them. All stages also hold a copy of their part of the weights, which they
    update (`single_partition_of_fp32_groups`).
    """
    weights = counted["Parameter"]
    gradients = counted["Gradient"]
    optimizer = counted["Optstate"]
    others = counted["Total"] - weights - gradients - optimizer
    held_weights = weights / devices if stage == 3 else weights
    updated_copy = weights / devices
    # Stages 2 and 3 reduce during the backward pass, stage 1 after it.
    held_gradients = gradients / devices if stage > 1 or reduced else gradients
    return others + held_weights + updated_copy + held_gradients + optimizer / devices


def tracked_memory(cells: Sequence[Cell]) -> list[Tracked]:
    """Return the memory of each cell by torch's trackers, in another process: in ten seconds, and a few more per cell.

    Trackers count on a fake CPU: kernels of a GPU may keep other activations. Raises UserError where the process cannot
    start.
    """
    no_folder = Path()  # neither tokens are read nor results written
    requests = []
    for cell in cells:
        request = Request.for_cell(
            cell, no_folder, no_folder, campaign="", run_id="", time_limit=TIME_LIMIT_S, provenance={}
        )
        requests.append(asdict(request))
    print(f"counting the memory of {plural(len(cells), 'cell')}", file=sys.stderr)
    with TemporaryFile("w+") as given, TemporaryFile("w+", errors="replace") as errors:
        json.dump(requests, given)
        given.seek(0)
        command = [sys.executable, "-m", PROGRAM]
        process = subprocess.Popen(command, stdin=given, stdout=subprocess.PIPE, stderr=errors, text=True)
        limit = Timer(TIME_LIMIT_S, process.terminate)
        limit.start()
        try:
            answers = list(show_progress(_printed_answers(process), len(cells), "memory counted", "cells"))
            process.wait()
        finally:  # of a call that was stopped as well
            limit.cancel()
            process.kill()
        errors.seek(0)
        *_, last_line = ["no message", *errors.read().strip().splitlines()]
    if process.returncode == -SIGTERM:
        slow = f"torch's trackers took more than {TIME_LIMIT_S:g} s for {plural(len(cells), 'cell')}"
        raise UserError(f"{slow}; count fewer cells at once")
    if process.returncode:
        raise UserError(f"torch's trackers could not be started: {last_line}")
    return [_cell_memory(cell, answer) for cell, answer in zip(cells, answers, strict=True)]


def _printed_answers(process: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    """Yield the answers of `tracked_program` as they come, each a line; libraries may print others."""
    with process.stdout or nullcontext(()) as lines:
        yield from (json.loads(line) for line in lines if line.startswith("{"))


def _cell_memory(cell: Cell, answer: dict[str, Any]) -> Tracked:
    """Return the memory of a cell from the `answer` of `tracked_program`, which counts a single device.

    What ZeRO shards is divided among the devices, and what no tracker sees is added by formula. To the peak: the
    buckets, and in stage 3 the gathered parameters. To the state just before the update: nothing in stages 1 and 2,
    which have freed them; in stage 3 its reduce bucket, and the small parameters that it keeps gathered.
    """
    if "reason" in answer:
        return Tracked(None, None, answer["reason"])
    peak, state = answer["peak"], answer["state"]
    if cell.execution.strategy not in SHARDING_ZERO:
        return Tracked(peak["Total"], state["Total"])

    stage = int(cell.execution.strategy.removeprefix("zero"))
    devices = cell.batch.n_devices
    inputs = memory_inputs(cell)
    buffers_at_peak = buffer_bytes(inputs, max(devices, 2))  # DeepSpeed has them on one device as well
    buffers_before_update = 0.0
    if stage == 3:
        gathered = float(answer["small"]) if devices > 1 else 0.0
        reduce_bucket = inputs.width * min(inputs.bucket_elements or ZERO_BUCKET, inputs.parameters)
        buffers_before_update = gathered + reduce_bucket
    return Tracked(
        peak=sharded_bytes(peak, stage, devices, reduced=False) + buffers_at_peak,
        state=sharded_bytes(state, stage, devices, reduced=True) + buffers_before_update,
    )
