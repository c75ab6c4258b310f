"""The replay: a cell's losses computed once more, in strict fp32 on one device, to hold runs against (the reference).

It has a process of its own: whatever kills that, a reference is written that says so.
"""

import os
import threading
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from scaleproof.ground.campaign.cells import Cell
from scaleproof.measure.launch.device_lock import devices_of, hold_devices
from scaleproof.measure.machine.gpus import cuda_devices
from scaleproof.measure.reference.planned import LIMIT_S, PlannedSteps
from scaleproof.measure.reference.schema import Reference

SPARE_S = 60.0  # a replay that is so much later than it planned hangs


def replay_cell(cell: Cell, campaign: str, tokens: Path, time_limit: float = LIMIT_S) -> Reference:
    """Replay the workload of `cell`, and return its reference.

    It has no losses where the replay is killed or hangs. `time_limit`: of a run, seconds. Waits while a run uses the
    same devices of this machine. Raises UserError where a token file is missing or not the one that its tokens.json
    describes.
    """
    with hold_devices(devices_of(cell, cuda_devices()), f"the reference of {campaign} {cell.slug}"):
        began = time.perf_counter()
        plan = PlannedSteps(cell.config, tokens)
        reference = plan.reference()
        fields = _replay_in_process(plan, min(time_limit, LIMIT_S))
        return reference.model_copy(update=fields | {"seconds": time.perf_counter() - began})


def _replay_in_process(plan: PlannedSteps, limit_s: float) -> dict[str, Any]:
    """Return the fields of the reference that a replay of `plan` computed.

    After `limit_s` seconds, or where it ended early, they say why. The replay is a child process that ends with this
    one.
    """
    context = get_context("fork")
    result, results = context.Pipe(duplex=False)
    parent, alive = context.Pipe(duplex=False)  # nothing is sent: `alive` is closed when this process ends
    process = context.Process(target=_send_replay, args=(plan, limit_s, results, parent, alive))
    process.start()
    results.close()

    try:
        if not result.poll(limit_s + SPARE_S):
            return {"shortened": f"it had not ended after {limit_s + SPARE_S:,.0f} s"}
        return dict(result.recv())
    except EOFError:
        process.join()
        killed = process.exitcode is not None and process.exitcode < 0
        how = f"it was ended by signal {-(process.exitcode or 0)}" if killed else "it ended without a word"
        return {"shortened": f"{how}, as where memory runs out" if process.exitcode == -9 else how}
    finally:
        process.kill()
        process.join()
        alive.close()


def _send_replay(
    plan: PlannedSteps, limit_s: float, results: Connection, parent: Connection, alive: Connection
) -> None:
    """Replay `plan` and send the result, as the child process. It ends with its parent, when `parent` closes."""
    alive.close()  # this process' copy, which would keep `parent` open
    threading.Thread(target=_end_after_parent, args=(parent,), daemon=True).start()
    # Threads that wait sleep: where other programs run beside them, spinning makes a replay five times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when torch is imported
    from scaleproof.measure.reference.replay import replay_fields

    results.send(replay_fields(plan, limit_s))


def _end_after_parent(parent: Connection) -> None:
    """Wait until the parent process has ended, and then end this one."""
    parent.poll(None)  # the other end is closed when that process ends, however it does
    os._exit(1)
