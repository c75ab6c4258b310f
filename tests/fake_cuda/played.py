"""torch.cuda and NCCL of devices that are not there: `play` puts them in their places, for good.

What torch's own modules ask their C++ half is answered there (memory, the current device, the debug mode of waits);
streams and events, of which there is one that is always done, are played whole.
"""

import ctypes
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

from fake_cuda import LIBRARY
from fake_cuda.nvml import CAPABILITY, MEGAHERTZ, MEMORY, NAME, Nvml, uuid

library = ctypes.CDLL(os.environ[LIBRARY])  # before torch, which asks once whether there is CUDA
library.allocated.restype = library.peak.restype = library.used_devices.restype = ctypes.c_int64
library.set_limit.argtypes = (ctypes.c_int, ctypes.c_int64)
library.resize.argtypes = (ctypes.c_void_p, ctypes.c_int64)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import Tensor  # noqa: E402

# What torch says when the mode is switched on (torch/csrc/cuda/Module.cpp).
NOTICE = "Synchronization debug mode is a prototype feature and does not yet detect all synchronizing operations"
MODES = {"default": 0, "warn": 1, "error": 2}
elsewhere = 0  # devices of the nodes before this one


def play(devices: int) -> None:
    """From now on this process has `devices` H200s."""
    library.set_devices(devices)
    warnings.filterwarnings("ignore", message=".*Can't initialize NVML.*")
    _play_driver()
    _play_memory()
    _play_streams()
    _play_synchronize()
    _play_copies_between_devices()
    _play_nccl()
    sys.modules["pynvml"] = Nvml(devices)
    answers = {
        "_lazy_init": None,
        "is_available": True,
        "device_count": devices,
        "is_bf16_supported": True,
        "get_device_name": NAME,
        "get_device_capability": CAPABILITY,
        "get_arch_list": ["sm_80", "sm_90"],
        "manual_seed": None,
        "manual_seed_all": None,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, always(answer))
    torch.cuda.get_device_properties = properties
    torch.cuda.nccl.version = always((2, 28, 9))
    torch.cuda.get_rng_state = lambda device=None: torch.get_rng_state()
    torch.cuda.set_rng_state = lambda state, device=None: torch.set_rng_state(state)
    torch.cuda._initialized = True
    torch.version.cuda = "13.0"


def always(answer: Any) -> Callable[..., Any]:
    """A function of its own that gives the same answer whatever it is asked: torch's compiler tells them apart."""
    return lambda *arguments, **options: answer


def number_of(device: Any = None) -> int:
    """The number of a device that is given as torch allows: a number, a name, a torch.device, none for the current."""
    if isinstance(device, int):
        return device
    index = None if device is None else torch.device(device).index
    return library.get_device() if index is None else index


def properties(device: Any = None) -> SimpleNamespace:
    return SimpleNamespace(
        name=NAME,
        uuid=uuid(elsewhere + number_of(device)),
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        total_memory=MEMORY,
        multi_processor_count=132,
    )


def _play_driver() -> None:
    def exchange(number: int) -> int:
        before = library.get_device()
        if number >= 0:
            library.set_device(number)
        return before

    def set_sync_debug_mode(mode: int | str) -> None:
        number = MODES.get(mode, mode)
        if number:
            warnings.warn(NOTICE, UserWarning, stacklevel=2)
        library.set_sync_mode(number)

    torch._C._cuda_getDevice = lambda: library.get_device()
    torch._C._cuda_setDevice = lambda number: library.set_device(number)
    torch.cuda._exchange_device = torch.cuda._maybe_exchange_device = exchange
    torch.cuda.set_sync_debug_mode = set_sync_debug_mode
    torch.cuda._sleep = lambda cycles: time.sleep(cycles / (MEGAHERTZ * 1e6))
    torch.cuda.synchronize = always(None)
    cudart = SimpleNamespace(cudaProfilerStart=always(0), cudaProfilerStop=always(0))
    torch.cuda.cudart = always(cudart)


def _play_memory() -> None:
    resize = torch.UntypedStorage.resize_

    def resize_(storage: torch.UntypedStorage, nbytes: int) -> torch.UntypedStorage:
        if storage.device.type != "cuda":
            return resize(storage, nbytes)
        library.resize(storage._cdata, nbytes)
        return storage

    def stats(device: Any) -> dict[str, Any]:
        number = number_of(device)
        sizes = {"all": {"current": library.allocated(number), "peak": library.peak(number)}}
        return {"allocated_bytes": sizes, "reserved_bytes": sizes, "num_alloc_retries": 0}

    torch.UntypedStorage.resize_ = resize_
    torch._C._cuda_memoryStats = lambda device: stats(device)
    torch.cuda.empty_cache = torch.cuda.reset_peak_memory_stats = always(None)
    torch.cuda.mem_get_info = lambda device=None: (MEMORY - library.allocated(number_of(device)), MEMORY)


class Event:
    """A mark in the only stream, where everything before it is done."""

    def __init__(self, *place: Any, **options: Any) -> None:
        self.time = 0.0

    def record(self, stream: Any = None) -> None:
        self.time = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, later: "Event") -> float:
        """Milliseconds."""
        return (later.time - self.time) * 1e3


class Stream:
    """The only stream of the devices."""

    device_index = stream_id = cuda_stream = 0

    def __init__(self, *place: Any, **options: Any) -> None:
        self.device = torch.device("cuda", library.get_device())

    def wait_event(self, event: Event) -> None:
        pass

    wait_stream = wait_event

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record()
        return event

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        library.host_waits()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *failure: object) -> None:
        pass


def _play_synchronize() -> None:
    """A wait for the whole device is a warning of Python as well: torch's binding passes none on."""
    synchronize = torch.accelerator.synchronize

    def noted(device: Any = None) -> None:
        if library.warns_of_waits():
            warnings.warn("called a synchronizing CUDA operation", UserWarning, stacklevel=2)
        synchronize(device)

    torch.accelerator.synchronize = noted


def _play_streams() -> None:
    stream = Stream()
    torch.cuda.current_stream, torch.cuda.default_stream = always(stream), always(stream)
    torch.cuda.stream = always(nullcontext())
    torch.cuda.Event = Event
    torch.cuda.Stream = Stream
    torch.cuda.FloatTensor = lambda values: torch.tensor(
        values, dtype=torch.float32, device="cuda"
    )  # DeepSpeed's norms
    torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop = always(0), always(0)
    torch.Tensor.record_stream = always(None)


def _play_copies_between_devices() -> None:
    """What DataParallel asks of torch's C++ half."""

    def scatter(tensor: Tensor, devices: Sequence[int], sizes: Any, dim: int, streams: Any) -> list[Tensor]:
        parts = tensor.chunk(len(devices), dim)
        return [part.to(torch.device("cuda", each)) for part, each in zip(parts, devices, strict=True)]

    def gather(tensors: Sequence[Tensor], dim: int, device: int | None) -> Tensor:
        return torch.cat([tensor.to(torch.device("cuda", device or 0)) for tensor in tensors], dim)

    def broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[int], nbytes: int) -> list[list[Tensor]]:
        return [[tensor.to(torch.device("cuda", each), copy=each > 0) for tensor in tensors] for each in devices]

    def reduce_add(tensors: Sequence[Tensor], device: int | None = None) -> Tensor:
        return sum(tensor.to(torch.device("cuda", device or 0)) for tensor in tensors)

    torch._C._scatter, torch._C._gather, torch._C._broadcast_coalesced = scatter, gather, broadcast_coalesced
    torch.nn.parallel.comm.reduce_add = reduce_add


def _play_nccl() -> None:
    """gloo under the name of NCCL: c10d's operators arrive at the device, which hands their tensors' memory over."""
    join = dist.init_process_group

    def init_process_group(backend: str | None = None, *, device_id: Any = None, **options: Any) -> None:
        join("cpu:gloo,cuda:gloo" if backend == "nccl" else backend, **options)

    leave = dist.destroy_process_group

    def destroy_process_group(group: Any = None) -> None:
        library.use_device()  # NCCL frees what it has on the thread's device
        leave(group)

    dist.init_process_group, dist.destroy_process_group = init_process_group, destroy_process_group
    dist.get_backend = always("nccl")
    dist.is_nccl_available = always(True)
