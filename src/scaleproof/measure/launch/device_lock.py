"""Two runs never use the same devices of a machine at the same time, whatever started them: the second one waits."""

import fcntl
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from scaleproof.ground.campaign.cells import Cell
from scaleproof.measure.machine.allocation import shared_nodes_job
from scaleproof.measure.machine.gpus import Gpu

PAUSE_S = 0.5  # between two tries


def devices_of(cell: Cell, gpus: Sequence[Gpu]) -> list[str]:
    """Return the names of this machine's devices that a run of `cell` uses: its GPUs, or this process' cores."""
    on_gpu = cell.execution.device != "cpu"
    return device_names(gpus[: cell.execution.geometry.devices_per_node] if on_gpu else [])


def device_names(gpus: Sequence[Gpu]) -> list[str]:
    """Return the names by which devices are locked: the sorted UUIDs of `gpus`, or, without GPUs, own cores ("core-3").

    A run on a CPU locks all of its process' cores, because a program on one of them slows the others. In a job
    on nodes that other jobs may use, "job-17" is locked in place of its cores.
    """
    if gpus:
        return sorted({gpu.uuid for gpu in gpus})
    job = shared_nodes_job()
    if job:  # the scheduler gave it cores of its own; which, is unknown here, as not every site binds processes to them
        return [f"job-{job}"]
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    return [f"core-{core}" for core in sorted(cores)]


@contextmanager
def hold_devices(
    devices: Sequence[str], owner: str, folder: Path | None = None, pause: Callable[[float], None] = time.sleep
) -> Iterator[None]:
    """Hold the lock of each of `devices` (sorted names) during the block. Locks end with the process, however it ends.

    `owner`: who holds them, for the message of a waiting run. `folder`: of the lock files, shared by all users of the
    machine. `pause`: waits for some seconds between two tries.
    """
    folder = folder or Path(tempfile.gettempdir()) / "scaleproof-locks"
    folder.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):  # the first user's folder is everybody's
        folder.chmod(0o1777)
    with ExitStack() as held:
        for device in devices:
            file = held.enter_context(_open_lock(folder / f"{device}.lock"))
            _wait_for_lock(file, device, pause)
            file.seek(0)
            file.truncate()
            json.dump({"run": owner, "pid": os.getpid(), "folder": _folder_name(Path.cwd())}, file)
            file.flush()
        yield


def _open_lock(path: Path) -> IO[str]:
    """Open a lock file for reading and writing. A new file is readable and writable for all users."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    with suppress(OSError):
        os.fchmod(descriptor, 0o666)
    return os.fdopen(descriptor, "r+", encoding="utf-8")


def _wait_for_lock(file: IO[str], device: str, pause: Callable[[float], None]) -> None:
    """Lock `file` once the lock of `device` is free, and print who holds it. `pause` waits for some seconds."""
    announced = ""
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            holder = _lock_holder(file)
            if holder != announced:
                print(f"scaleproof: waiting for {holder}, which uses {device}", file=sys.stderr, flush=True)
                announced = holder
            pause(PAUSE_S)


def _folder_name(folder: Path) -> str:
    """Return the name of a folder without that of the user: "~/project"."""
    home = Path.home()
    return f"~/{folder.relative_to(home)}" if folder.is_relative_to(home) else str(folder)


def _lock_holder(file: IO[str]) -> str:
    """Return who holds a lock, as its file says: the owner, its process number and its folder."""
    file.seek(0)
    try:
        content = json.loads(file.read())
        return f"{content['run']} (process {content['pid']}, in {content['folder']})"
    except (ValueError, KeyError, TypeError):  # it is just being written
        return "another run"
