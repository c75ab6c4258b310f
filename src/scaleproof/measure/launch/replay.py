"""The replay: a cell's losses computed once more, in strict fp32 on one device, to hold runs against (the reference).

It has a process of its own: whatever kills that, a reference is written that says so.
"""

import os
import signal
import threading
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from scaleproof.ground.campaign.cells import Cell
from scaleproof.measure.launch.device_lock import devices_of, hold_devices
from scaleproof.measure.machine.allocation import current_allocation
from scaleproof.measure.machine.applicable import unsupported_reason
from scaleproof.measure.machine.gpus import cuda_devices
from scaleproof.measure.reference.planned import LIMIT_S, PlannedSteps
from scaleproof.measure.reference.schema import Reference, workload_name

SPARE_S = 60.0  # a replay that exceeds its limit by more hangs


def reason_for_none(cells: Sequence[Cell], workload: str) -> str | None:
    """Return why none of the `cells` with this workload can run here, so that nothing need be replayed; else None.

    None, too, in a job of a scheduler: the runs have jobs of their own, perhaps on other nodes.
    """
    sharing = [cell for cell in cells if cell.command is None and workload_name(cell.config) == workload]
    reasons = [unsupported_reason(cell, cuda_devices()) for cell in sharing]
    is_for_none = bool(reasons) and all(reasons) and current_allocation() is None
    return f"none of its cells can run on this machine: {reasons[-1]}" if is_for_none else None


def replay_cell(
    cell: Cell, campaign: str, tokens: Path, time_limit: float = LIMIT_S, why_not: str | None = None
) -> Reference:
    """Replay the workload of `cell`, and return its reference, without losses where the replay is killed or hangs.

    `time_limit`: of a run, in seconds. `why_not`: why nothing is to be replayed, for the reference. Waits while a run
    uses the same devices of this machine. Raises UserError where a token file is missing or not the one that its
    tokens.json describes.
    """
    if why_not:
        return PlannedSteps(cell.config, tokens).reference(why_not)
    with hold_devices(devices_of(cell, cuda_devices()), f"the reference of {campaign} {cell.slug}"):
        began = time.perf_counter()
        plan = PlannedSteps(cell.config, tokens)
        reference = plan.reference()
        fields = _replay_in_process(plan, min(time_limit, LIMIT_S))
        return reference.model_copy(update=fields | {"seconds": time.perf_counter() - began})


def _replay_in_process(plan: PlannedSteps, limit_s: float) -> dict[str, Any]:
    """Replay `plan` in a child process, and return the fields of the reference that it has computed.

    Returns `shortened` alone, the reason, where the child dies, or hangs: after `limit_s` seconds it should end by
    itself, and has SPARE_S more. The child ends with this process.
    """
    context = get_context("fork")
    result, results = context.Pipe(duplex=False)  # the receiving end, the child's sending end
    parent, alive = context.Pipe(duplex=False)  # nothing is sent: `alive` is closed when this process ends
    process = context.Process(target=_send_replay, args=(plan, limit_s, results, parent, alive))
    process.start()
    results.close()  # this process' copy, which would keep `result` from its EOFError when the child dies

    try:
        if not result.poll(limit_s + SPARE_S):
            return {"shortened": f"it had not ended after {limit_s + SPARE_S:,.0f} s"}
        return dict(result.recv())
    except EOFError:
        process.join()
        exit_code = process.exitcode or 0
        reason = f"it was ended by signal {-exit_code}" if exit_code < 0 else "it ended without a word"
        if exit_code == -signal.SIGKILL:
            reason += ", as where memory runs out"
        return {"shortened": reason}
    finally:
        process.kill()
        process.join()
        alive.close()


def _send_replay(
    plan: PlannedSteps, limit_s: float, results: Connection, parent: Connection, alive: Connection
) -> None:
    """Replay `plan`, and send the result: the function of the child process, which ends when `parent` closes."""
    alive.close()  # this process' copy, which would keep `parent` open
    threading.Thread(target=_end_after_parent, args=(parent,), daemon=True).start()
    # Threads that wait sleep: where other programs run beside them, spinning makes a replay five times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is imported
    from scaleproof.measure.reference.replay import replay_fields

    results.send(replay_fields(plan, limit_s))


def _end_after_parent(parent: Connection) -> None:
    """End this process once its parent has ended."""
    parent.poll(None)  # returns when the other end is closed, as it is when the parent ends, however it does
    os._exit(1)
