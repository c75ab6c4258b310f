"""Memory of cells as torch's trackers count it (`tracked_program`), in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from scalebench.campaign.cells import Cell
from scalebench.errors import UserError
from scalebench.trainer.request import Request

PROGRAM = "scalebench.forecast.tracked_program"
TIME_LIMIT_S = 600


@dataclass(frozen=True)
class Tracked:
    """Bytes of one rank's tensors: at the peak of a step, and between two steps; None with a `reason`.

    What lies outside of tensors is not in it: the context, NCCL, unused parts of the allocator's blocks.
    """

    peak: float | None
    rest: float | None
    reason: str | None = None


def tracked_memory(cells: Sequence[Cell]) -> list[Tracked]:
    """One entry a cell, in about ten seconds for the imports and some for each. Raises UserError where it cannot start.

    Counted on a fake CPU: kernels of a GPU may keep other activations.
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
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"torch's trackers could not be started: {last}")
    answers = json.loads(done.stdout[done.stdout.index("[{") :])
    return [
        Tracked(None, None, answer["reason"])
        if "reason" in answer
        else Tracked(answer["peak"]["Total"], answer["rest"]["Total"])
        for answer in answers
    ]
