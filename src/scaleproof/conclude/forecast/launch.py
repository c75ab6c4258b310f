"""One launch of a program of this room: the ranks of a cell in fresh processes, which leave a file of results."""

import json
import shutil
import uuid
from pathlib import Path
from types import ModuleType
from typing import Any

from scaleproof.ground.files import write_json
from scaleproof.ground.records.run_sections import Failure
from scaleproof.measure.launch.attempt import begin_attempt, run_ranks, write_request
from scaleproof.measure.launch.failure import explain_failure
from scaleproof.measure.machine.allocation import Allocation
from scaleproof.measure.trainer.request import PlannedRun


def launch(
    program: ModuleType,
    plan: PlannedRun,
    log: Path,
    settings: dict[str, Any],
    nodes: Allocation | None,
    steps: int = 0,
    forked: bool = False,
) -> dict[str, Any] | Failure:
    """Run `program` on the ranks of a cell, and return what rank 0 wrote, or why it wrote nothing.

    It reads the file SETTINGS in the launch's folder; rank 0 writes RESULT. `log`: takes all output; the launch's
    folder is beside it, and is removed. `nodes`, `steps`, `forked`: as in `run_ranks`.
    """
    run_id = uuid.uuid4().hex[:8]
    attempt = begin_attempt(log.parent, run_id, ())
    try:
        write_json(attempt / program.SETTINGS, settings)
        request = write_request(plan, attempt=attempt, run_id=run_id, nodes=nodes, provenance={})
        outcome = run_ranks(request, log, program.__name__, nodes, steps=steps, forked=forked)
        if (attempt / program.RESULT).exists():
            return dict(json.loads((attempt / program.RESULT).read_text()))
        return explain_failure(request, attempt, outcome)
    finally:
        shutil.rmtree(attempt, ignore_errors=True)
