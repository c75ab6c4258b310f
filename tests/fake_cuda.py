"""A GPU that is not there: CUDA tensors without memory, on which real programs make real steps.

Shapes, dtypes, autograd, autocast and the choice of operators are those of CUDA; values do not exist. A program that
reads one raises DataDependentOutputException, or, under `Waits`, is counted and given 1 or False. Nothing of this can
be undone, so that what uses it runs in a process of its own: `run`.
"""

import ctypes
import importlib.util
import os
import subprocess
import sys
import traceback
from collections import Counter
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

SOURCE = Path(__file__).with_suffix(".cpp")
DEVICE = "FAKE_CUDA"  # variable: the library that `build` has made
if DEVICE in os.environ:
    ctypes.CDLL(os.environ[DEVICE])  # torch asks once whether there is CUDA

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

H200 = SimpleNamespace(
    name="NVIDIA H200", uuid="1", major=9, minor=0, total_memory=141 * 10**9, multi_processor_count=132
)
ANSWERS = {torch.bool: False} | dict.fromkeys((torch.float32, torch.float64, torch.bfloat16, torch.float16), 1.0)


def build(folder: Path) -> Path:
    """The device as a library in `folder`, for the torch that is installed here. It needs g++."""
    found = importlib.util.find_spec("torch")
    assert found
    assert found.origin
    parts, library = Path(found.origin).parent, folder / "fake_cuda.so"
    paths = [f"-I{parts}/include", f"-L{parts}/lib", f"-Wl,-rpath,{parts}/lib"]
    command = ["g++", "-O1", "-shared", "-fPIC", "-std=c++20", *paths, str(SOURCE), "-lc10", "-ltorch_cpu"]
    subprocess.run([*command, "-o", str(library)], check=True)
    return library


def run(program: Path, library: Path, *arguments: str) -> None:
    """Run a program that calls `play`. Raises AssertionError with its last words where it fails."""
    here = [str(SOURCE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {DEVICE: str(library), "PYTHONPATH": os.pathsep.join(here), "DS_ACCELERATOR": "cuda"}
    command = [sys.executable, str(program), *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout[-12000:]


def play(devices: int = 1) -> None:
    """From now on this process has CUDA devices, whose driver is never asked."""
    stream = Stream()
    answers = {
        "_lazy_init": None,
        "is_available": True,
        "device_count": devices,
        "current_device": 0,
        "set_device": None,
        "get_device_properties": H200,
        "get_device_capability": (H200.major, H200.minor),
        "is_bf16_supported": True,
        "current_stream": stream,
        "default_stream": stream,
        "stream": nullcontext(),
        "empty_cache": None,
        "memory_stats": {},
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "max_memory_reserved": 0,
        "reset_peak_memory_stats": None,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, always(answer))
    torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop = always(0), always(0)
    torch.cuda.synchronize = partial(Waits.note, "synchronize")
    torch.cuda.Event = torch.Event = Event
    torch.cuda.Stream = Stream
    torch.cuda.FloatTensor = partial(torch.tensor, dtype=torch.float32, device="cuda")
    torch.Tensor.record_stream = always(None)
    FakeTensorMode.avoid_device_init = True  # torch's own way to make tensors of a device that it cannot start


def always(answer: Any) -> Any:
    """A function of its own that gives the same answer whatever it is asked: torch's compiler tells them apart."""
    return lambda *arguments, **options: answer


def moved(module: nn.Module, device: Any = "cuda") -> nn.Module:
    """A module of fake tensors on the device, where torch's own `to` cannot bring them; tied parameters stay tied."""
    made: dict[Any, Any] = {}
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None and parameter.device.type != "cuda":
                made.setdefault(parameter, nn.Parameter(torch.empty_like(parameter, device=device)))
                part._parameters[name] = made[parameter]
        for name, buffer in part._buffers.items():
            part._buffers[name] = torch.empty_like(buffer, device=device)
    return module


class Waits(TorchDispatchMode):
    """Counts where the host waits for the device: reads of a value, copies to the host, streams and events."""

    seen: ClassVar[Counter[str]] = Counter()  # one: streams and events, of any thread, note here as well

    def __enter__(self) -> "Waits":
        Waits.seen.clear()
        return super().__enter__()

    @classmethod
    def note(cls, what: str, *ignored: Any) -> None:
        frames = [f for f in traceback.extract_stack() if "/torch/" not in f.filename and f.filename != __file__]
        place = frames[-1].filename.partition("site-packages/")[2] or Path(frames[-1].filename).name
        cls.seen[f"{what} {place}:{frames[-1].lineno}"] += 1

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        options = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        if name == "_local_scalar_dense" and args[0].device.type == "cuda":
            self.note("read")
        try:
            result = func(*args, **options)
        except DataDependentOutputException:
            if name != "_local_scalar_dense":
                raise
            return ANSWERS.get(args[0].dtype, 1)
        source = {"_to_copy": 0, "copy_": 1}.get(name)
        if source is not None and args[source].device.type == "cuda" and result.device.type == "cpu":
            self.note("copy to the host")
        return result


class Event:
    """Everything that it follows is done."""

    def __init__(self, **options: Any) -> None:
        pass

    def record(self, stream: Any = None) -> None:
        pass

    wait = record

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        Waits.note("synchronize")

    def elapsed_time(self, later: "Event") -> float:
        return 1.0


class Stream:
    """The only stream of the device."""

    device_index = stream_id = cuda_stream = 0

    def __init__(self, *place: Any, **options: Any) -> None:
        pass

    def wait_event(self, event: Event) -> None:
        pass

    wait_stream = wait_event

    def record_event(self, event: Event | None = None) -> Event:
        return event or Event()

    def synchronize(self) -> None:
        Waits.note("synchronize")

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *failure: object) -> None:
        pass
