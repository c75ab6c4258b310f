"""One attempt to run the ranks of a cell: its folder, its request, and its processes, here or in an allocation."""

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from scaleproof.ground.cores import available_cores
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import disk_filled_up, full_disk_text
from scaleproof.measure.launch import allocated, local
from scaleproof.measure.launch.supervise import CommandOutcome, Heartbeat, run_supervised
from scaleproof.measure.machine.allocation import Allocation, signal_steps
from scaleproof.measure.machine.gpus import cuda_devices
from scaleproof.measure.trainer.request import PlannedRun, Request

REQUEST = "request.json"  # in the attempt's folder


def begin_attempt(out: Path, name: str, replaced: Iterable[str]) -> Path:
    """Make a new folder in `out` for the attempt `name`, and return its path.

    Folders of earlier attempts, which then cannot publish any more, and the files `replaced` are removed from `out`.
    """
    out.mkdir(parents=True, exist_ok=True)
    for stale_path in (*out.glob(".attempt-*"), *(out / file for file in replaced)):
        if stale_path.is_dir():
            shutil.rmtree(stale_path, ignore_errors=True)
        else:
            stale_path.unlink(missing_ok=True)
    attempt = out / f".attempt-{name}"
    attempt.mkdir()
    return attempt


def write_request(
    plan: PlannedRun, *, attempt: Path, run_id: str, nodes: Allocation | None, provenance: dict[str, Any]
) -> Request:
    """Write the request of a run into the folder `attempt`, for the ranks, and return it.

    `nodes`: the allocation, None on one machine. `provenance`: code, machine and command line, as in the metrics.
    """
    request = Request.for_cell(
        plan.cell,
        plan.tokens,
        attempt,
        campaign=plan.campaign,
        repeat=plan.repeat,
        run_id=run_id,
        time_limit=plan.time_limit,
        hosts=list(nodes.hosts[: plan.cell.execution.geometry.nodes]) if nodes else [],
        provenance=provenance,
        gpus=len(cuda_devices()),
        witness_steps=plan.witness_steps,
    )
    request.write(attempt / REQUEST)
    return request


def run_ranks(
    request: Request,
    log: Path,
    program: str,
    nodes: Allocation | None,
    steps: int,
    warmup_steps: int = 0,
    under: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
    forked: bool = False,
) -> CommandOutcome:
    """Run the module `program` on every rank, supervise it, and return how it ended.

    `log`: the file that takes all output. `nodes`: the allocation, None on this machine. `steps`: how many steps the
    program makes, for a progress bar; the first `warmup_steps` are untimed. `under`: a command (a profiler) that starts
    each node's launcher. `variables`: further variables of the ranks' environment. `forked`: ranks of this machine are
    forked by the fork server. Raises Interrupted if the launcher was told to stop, UserError if the disk is full.
    """
    cell = request.cell
    path = Path(request.out) / REQUEST
    heartbeat = Heartbeat(cell.processes_per_node, steps, warmup_steps)

    remote = None
    try:
        if nodes:
            words = allocated.srun_command(cell, path, nodes, allocated.find_free_port(nodes.job), program)
            launcher_place = words.index(sys.executable)  # where the command begins that srun starts on each node
            command = [*words[:launcher_place], *under, *words[launcher_place:]]
            environment = allocated.rank_environment(cell, heartbeat.path, nodes.cores_per_node, request.gpus)
            remote = partial(signal_steps, nodes.job)
        else:
            make_command = local.forked_command if forked else local.torchrun_command
            command = [*under, *make_command(cell, path, program)]
            environment = local.rank_environment(cell, heartbeat.path, available_cores(), request.gpus)
        environment |= dict(variables or {})
        outcome = run_supervised(command, environment, log, request.time_limit, heartbeat, remote)
    finally:
        heartbeat.close()

    if outcome.exit_code and disk_filled_up(outcome.tail, log.parent):  # no failure of the cell
        raise UserError(full_disk_text(log.parent))
    return outcome
