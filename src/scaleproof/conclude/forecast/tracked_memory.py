"""Memory of cells as torch's trackers count it (`tracked_program`), in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scaleproof.conclude.forecast.memory import ZERO_BUCKET, buffer_bytes
from scaleproof.conclude.forecast.settings import held_of
from scaleproof.conclude.forecast.tracked_program import SHARDED_AFTERWARDS
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.errors import UserError
from scaleproof.measure.trainer.request import Request

PROGRAM = "scaleproof.conclude.forecast.tracked_program"
TIME_LIMIT_S = 600


@dataclass(frozen=True)
class Tracked:
    """Bytes of one rank's tensors: at the peak of a step, and just before its update; None with a `reason`.

    What lies outside of tensors is not in it: the context, NCCL, unused parts of the allocator's blocks.
    """

    peak: float | None
    state: float | None
    reason: str | None = None


def sharded(counted: Mapping[str, int], stage: int, devices: int, reduced: bool) -> float:
    """Bytes of a rank of DeepSpeed's ZeRO in fp32, from what the trackers count on one device that holds everything.

    All stages update a copy of their part of the weights (`single_partition_of_fp32_groups`). `reduced`: whether the
    gradients have been reduced, of which then a rank of any stage holds its part; before, stage 1 holds them whole.
    DeepSpeed's buckets, and what it gathers, are not in it.
    """
    weights = counted["Parameter"]
    gradients = counted["Gradient"]
    optimizer = counted["Optstate"]
    others = counted["Total"] - weights - gradients - optimizer
    own_weights = (weights / devices if stage == 3 else weights) + weights / devices
    own_gradients = gradients / devices if stage > 1 or reduced else gradients
    return others + own_weights + own_gradients + optimizer / devices


def tracked_memory(cells: Sequence[Cell]) -> list[Tracked]:
    """The memory of each cell by torch's trackers, in another process: ten seconds, and some for each cell.

    Raises UserError where it cannot start. Counted on a fake CPU: kernels of a GPU may keep other activations.
    """
    empty = Path()
    requests = [
        asdict(Request.of(cell, empty, empty, campaign="", run_id="", time_limit=TIME_LIMIT_S, provenance={}))
        for cell in cells
    ]
    done = subprocess.run(
        [sys.executable, "-m", PROGRAM],
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    if done.returncode:
        *_, last_line = ["no message", *done.stderr.strip().splitlines()]
        raise UserError(f"torch's trackers could not be started: {last_line}")
    answers = json.loads(done.stdout[done.stdout.index("[{") :])  # libraries may print before the list of answers
    return [_of_cell(cell, answer) for cell, answer in zip(cells, answers, strict=True)]


def _of_cell(cell: Cell, answer: dict[str, Any]) -> Tracked:
    """The memory of a cell from the `answer` of `tracked_program`, with what ZeRO shards shared out.

    Buckets of ZeRO, which no tracker sees, are those of the formula at the peak. Before the update stages 1 and 2 have
    freed them; stage 3 has its reduce bucket, and small parameters gathered.
    """
    if "reason" in answer:
        return Tracked(None, None, answer["reason"])
    peak, state = answer["peak"], answer["state"]
    if cell.execution.strategy not in SHARDED_AFTERWARDS:
        return Tracked(peak["Total"], state["Total"])
    stage = int(cell.execution.strategy.removeprefix("zero"))
    devices = cell.batch.n_devices
    held = held_of(cell)
    buckets = buffer_bytes(held, max(devices, 2))  # DeepSpeed has them on one device as well
    left_before_update = 0.0
    if stage == 3:
        gathered = float(answer["small"]) if devices > 1 else 0.0
        left_before_update = gathered + held.width * min(held.bucket_elements or ZERO_BUCKET, held.parameters)
    return Tracked(
        sharded(peak, stage, devices, reduced=False) + buckets,
        sharded(state, stage, devices, reduced=True) + left_before_update,
    )
