"""Two runs never use the same devices of a machine at the same time, whatever started them: they wait in order."""

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
from scaleproof.ground.errors import plural
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
            _wait_for_lock(file, folder, device, pause)
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


def _wait_for_lock(file: IO[str], folder: Path, device: str, pause: Callable[[float], None]) -> None:
    """Lock `file` once the lock of `device` is free and all who came before had it. Print who holds it, and how many.

    `folder`: of the lock files. `pause` waits for some seconds.
    """
    announced = ""
    with _place_in_queue(folder, device) as place:
        while True:
            before = _count_before(place)
            with suppress(BlockingIOError):
                if not before:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
            others = f"; {plural(before, 'other')} came before" if before else ""
            holder = f"{_lock_holder(file)}, which uses {device}{others}"
            if holder != announced:
                print(f"scaleproof: waiting for {holder}", file=sys.stderr, flush=True)
                announced = holder
            pause(PAUSE_S)


@contextmanager
def _place_in_queue(folder: Path, device: str) -> Iterator[Path]:
    """Yield a file, locked during the block, whose name has the time of arrival: a place in the queue for `device`."""
    place = folder / f"{device}.{time.monotonic_ns():020}-{os.getpid()}.place"
    unready = place.with_suffix(".new")
    try:
        with _open_lock(unready) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            unready.rename(place)  # under its name it is locked from the beginning: else it would count as left behind
            yield place
    finally:
        place.unlink(missing_ok=True)


def _count_before(place: Path) -> int:
    """Return how many processes are before `place`; files of ended ones, which lock nothing, are removed."""
    before = 0
    for other in place.parent.glob(f"{place.name.split('.')[0]}.*.place"):
        if other.name >= place.name:
            continue
        with suppress(OSError), other.open() as file:  # it is gone meanwhile, or another user's
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                before += 1
            else:
                other.unlink()
    return before


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
