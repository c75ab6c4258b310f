"""A rank's surroundings: its place in the world, its device, its cores, and an orderly end."""

import gc
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from scaleproof.ground.campaign.cells import Cell
from scaleproof.measure.machine import accelerator, amd
from scaleproof.measure.machine.applicable import arch_problem
from scaleproof.measure.machine.gpus import cores_near
from scaleproof.measure.machine.network import short_host
from scaleproof.measure.trainer import START_VARIABLE

SHUTDOWN_LIMIT = 30.0  # seconds that leaving the process group may take


class Session:
    """Rank, world and device of this process, as torchrun set them up."""

    def __init__(self, cell: Cell, timeout_s: float, hosts: Sequence[str] = (), gpus: int = 0) -> None:
        """Bind this process to its device, and join the process group of all ranks.

        `timeout_s`: how long a collective waits for a missing rank before it is an error. `hosts`: the nodes that the
        ranks must be on, where they are known. `gpus`: CUDA devices that the launcher saw. Raises WrongWorld where
        ranks or devices are not those of `cell`, NotApplicable where torch has no kernels for a device.
        """
        self.rank = int(os.environ["RANK"])
        self.world_size = int(os.environ["WORLD_SIZE"])
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.local_world = int(os.environ["LOCAL_WORLD_SIZE"])
        if self.world_size != cell.world_size:
            raise WrongWorld(f"{cell.world_size} ranks were asked for, but {self.world_size} came up")

        self.host = socket.gethostname()
        self.cores: list[int] = []
        self.near_cores: list[int] = []  # beside a GPU: the cores of its NUMA node, shared with other ranks
        self.device = self._bind_device(cell, gpus)
        self.store = next(dist.rendezvous("env://"))[0]  # of (store, rank, world size)
        dist.init_process_group(
            dist.get_default_backend_for_device(self.device),  # nccl or gloo
            store=dist.PrefixStore("ranks", self.store),
            rank=self.rank,
            world_size=self.world_size,
            timeout=timedelta(seconds=timeout_s),
            device_id=self.device if accelerator.is_accelerator(self.device) else None,
        )
        # Before anything is timed: the ranks are where they were asked for, and every device is there once.
        check_world(cell, self.gather(self.place), hosts)

    def _bind_device(self, cell: Cell, gpus: int) -> torch.device:
        """Bind this process to its rank's device, the first of several, and to its cores. Return the device.

        Sets `devices_here` (how many devices this rank drives), and `cores` on a CPU or `near_cores` beside a GPU.

        `gpus`: CUDA devices that the launcher saw. Raises WrongWorld where the device is missing, NotApplicable where
        torch has no kernels for it.
        """
        device = cell.execution.device
        # AMD's devices call themselves cuda, too; without amdsmi the launcher does not know of them, and locks none.
        has_cuda = torch.cuda.is_available() and (torch.version.hip is None or gpus > 0)
        self.devices_here = cell.execution.geometry.devices_per_node // self.local_world  # 1, but under dp all
        if device != "cpu" and gpus and not has_cuda:
            raise WrongWorld(
                f"the launcher saw {gpus} CUDA device{'s' if gpus > 1 else ''}, but torch cannot use any: "
                "the driver may be too old for this torch, or a device is lost (nvidia-smi says more)"
            )
        if device == "cpu" or (device == "auto" and not has_cuda):
            threads = cell.execution.threads_per_device
            self.cores = bind_to_cores(self.local_rank, threads)
            torch.set_num_threads(threads)
            return torch.device("cpu")

        if self.local_rank + self.devices_here > torch.cuda.device_count():
            raise WrongWorld(f"rank {self.rank} is to drive device {self.local_rank}, which torch does not see")
        torch.cuda.set_device(self.local_rank)
        properties = torch.cuda.get_device_properties(self.local_rank)
        problem = arch_problem(properties.name, torch.cuda.get_device_capability(), torch.cuda.get_arch_list())
        if problem:
            raise NotApplicable(problem)
        if self.devices_here == 1:  # no cores are near to all of several devices
            self.near_cores = cores_near(nvml_uuid(properties))
            if self.near_cores:  # none where they are unknown
                os.sched_setaffinity(0, self.near_cores)
        return torch.device("cuda", self.local_rank)

    @property
    def shares(self) -> range:
        """The devices that this rank feeds, counted over the world."""
        return range(self.rank * self.devices_here, (self.rank + 1) * self.devices_here)

    @cached_property
    def _gpu_properties(self) -> list:
        """torch's properties of each of this rank's GPUs, none on a CPU."""
        if not accelerator.is_accelerator(self.device):
            return []
        return [torch.cuda.get_device_properties(self.local_rank + offset) for offset in range(self.devices_here)]

    @property
    def uuids(self) -> list[str]:
        """The UUIDs of this rank's GPUs as NVML writes them. Numbers of devices may differ between NVML and CUDA."""
        return [nvml_uuid(properties) for properties in self._gpu_properties]

    @property
    def place(self) -> dict:
        """Where this rank runs, as fields of the metrics."""
        return {
            "rank": self.rank,
            "host": self.host,
            "devices": self.uuids or ["cpu"],
            "device_name": self._gpu_properties[0].name if self._gpu_properties else "cpu",
            "cores": self.cores,
            "near_cores": self.near_cores,
            "threads": torch.get_num_threads(),
            "backend": dist.get_backend(),
            "start": os.environ.get(START_VARIABLE, "fresh"),
            "interface": os.environ.get("NCCL_SOCKET_IFNAME" if self._gpu_properties else "GLOO_SOCKET_IFNAME"),
        }

    def gather(self, value: object) -> list:
        """Return the `value` of every rank, in order of rank, on all ranks."""
        values: list = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def leave(self) -> None:
        """End this process within SHUTDOWN_LIMIT, even if a rank is gone.

        Rank 0 says through the store that the results are written; there is no barrier. gloo's threads may crash the
        interpreter as it shuts down: therefore the objects of the last collective are collected first, and the process
        ends by os._exit.
        """

        def leave_group() -> None:
            """Leave the process group once rank 0 has written the results."""
            accelerator.use_device(self.device)  # a thread begins on the first one, which may be another rank's
            if self.rank == 0:
                self.store.set("results-written", "yes")
            else:
                self.store.wait(["results-written"], timedelta(seconds=SHUTDOWN_LIMIT))
            dist.destroy_process_group()

        leaving = threading.Thread(target=leave_group, daemon=True)
        leaving.start()
        leaving.join(SHUTDOWN_LIMIT)
        gc.collect()
        time.sleep(0.05)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def nvml_uuid(properties: Any) -> str:
    """Return the UUID of a device, or of a MIG instance, as NVML writes it, from torch's `properties`."""
    uuid = amd.serial_of_uuid(str(properties.uuid)) if torch.version.hip else properties.uuid
    return f"{'MIG' if ' MIG ' in properties.name else 'GPU'}-{uuid}"


def bind_to_cores(local_rank: int, threads: int) -> list[int]:
    """Bind this process to `threads` cores of its own, and return them, or [] on systems without affinities.

    A CPU device is then the same at every world size. Second hardware threads of a core are taken last. If there are
    too few cores, ranks share them.
    """
    if not hasattr(os, "sched_setaffinity"):
        return []
    cores = _one_thread_per_core_first(sorted(os.sched_getaffinity(0)))
    places = range(local_rank * threads, (local_rank + 1) * threads)  # beyond the last core they begin again
    own = sorted({cores[place % len(cores)] for place in places})
    os.sched_setaffinity(0, own)
    return own


def _one_thread_per_core_first(allowed: list[int]) -> list[int]:
    """Sort the `allowed` logical CPUs: the first thread of each core before any second thread."""

    def core_of(cpu: int) -> str:
        """Return a name of the core of a logical CPU: the list of the core's threads, as Linux writes it."""
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        return path.read_text() if path.exists() else str(cpu)

    threads_counted: Counter[str] = Counter()  # core -> how many of its threads the loop has met
    place_in_core: dict[int, int] = {}  # logical CPU -> its place among the threads of its core
    for cpu in allowed:
        core = core_of(cpu)
        place_in_core[cpu] = threads_counted[core]
        threads_counted[core] += 1
    return sorted(allowed, key=lambda cpu: (place_in_core[cpu], cpu))


class WrongWorld(Exception):
    """Raised where ranks, nodes or devices are not those of the cell: figures would be of another geometry."""


class NotApplicable(Exception):
    """Raised where this machine cannot run the cell for a reason that only a rank could find."""


def check_world(cell: Cell, places: Sequence[Mapping[str, Any]], hosts: Sequence[str] = ()) -> None:
    """Raise WrongWorld unless the ranks are on as many nodes as `cell` says, each with devices of its own.

    `places`: `host` and `devices` of each rank. `hosts`: the nodes of the allocation; names are compared up to the
    first dot, where some systems cut them.
    """
    if reason := describe_mismatch(cell.execution.geometry.nodes, cell.processes_per_node, places, hosts):
        raise WrongWorld(reason)


def describe_mismatch(
    nodes: int, per_node: int, places: Sequence[Mapping[str, Any]], hosts: Sequence[str] = ()
) -> str | None:
    """Return how the ranks differ from `per_node` ranks on each of `nodes` nodes, each with its own device.

    Returns None where nothing differs. Arguments: see `check_world`; `hosts` is empty where they are unknown.
    """
    if len(places) != nodes * per_node:
        return f"{nodes * per_node} ranks were asked for, {len(places)} came up"
    ranks_on = Counter(short_host(place["host"]) for place in places)
    if len(ranks_on) != nodes:
        return f"{nodes} nodes were asked for, the ranks are on {len(ranks_on)}: {', '.join(sorted(ranks_on))}"
    if wrong_counts := {host: count for host, count in ranks_on.items() if count != per_node}:
        numbers = ", ".join(f"{count} on {host}" for host, count in sorted(wrong_counts.items()))
        return f"{per_node} ranks per node were asked for; there are {numbers}"

    foreign_hosts = set(ranks_on) - {short_host(host) for host in hosts} if hosts else set()
    if foreign_hosts:
        return f"ranks are on {', '.join(sorted(foreign_hosts))}, the allocation is {', '.join(hosts)}"
    ranks_of_device = Counter(device for place in places for device in place["devices"] if device != "cpu")
    shared = (f"{device} is used by {count} ranks" for device, count in ranks_of_device.items() if count > 1)
    return next(shared, None)
