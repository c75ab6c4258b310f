"""CUDA devices that are not there: programs of ours run on them as on GPUs, with values.

A tensor of such a device lies in the host's memory and is computed by the kernels of the CPU (`device.cpp`). Everything
above kernels is CUDA's: dispatch, autograd, autocast, choice of attention, c10d's collectives (carried out by gloo),
what is allocated, and which operations make the host wait. What a GPU alone can show: kernels, streams that run beside
each other, speed.
"""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("device.cpp")
PROGRAM = Path(__file__).with_name("ranks.py")
LIBRARY = "FAKE_CUDA"  # variable: the library that `build` has made


def build(folder: Path) -> Path:
    """The device as a library in `folder`, for the torch that is installed here; made once. It needs g++."""
    spec = importlib.util.find_spec("torch")
    assert spec
    assert spec.origin
    torch = Path(spec.origin).parent
    made_of = SOURCE.read_bytes() + (torch / "version.py").read_bytes()
    library = folder / f"device-{hashlib.sha256(made_of).hexdigest()[:16]}.so"
    if library.exists():
        return library
    headers = [f"-I{torch}/include", f"-I{torch}/include/torch/csrc/api/include"]
    links = [f"-L{torch}/lib", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{torch}/lib"]
    partial = library.with_suffix(f".{os.getpid()}")
    command = ["g++", "-O1", "-shared", "-fPIC", "-std=c++20", "-w", *headers, str(SOURCE), *links, "-o", str(partial)]
    subprocess.run(command, check=True)
    partial.rename(library)
    return library


class Machine:
    """A machine with 8 such devices: one process that has loaded torch, from which ranks are forked."""

    def __init__(self, library: Path, folder: Path) -> None:
        here = [str(SOURCE.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {
            LIBRARY: str(library),
            "PYTHONPATH": os.pathsep.join(here),
            "DS_ACCELERATOR": "cuda",
            "OMP_NUM_THREADS": "1",
            "TMPDIR": str(folder),
        }
        self.folder, self.jobs = folder, 0
        self.seen: dict[str, list[Any]] = {}  # jobs that were watched -> what their ranks have returned
        self.log = (folder / "machine.log").open("w")
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )

    def run(self, program: str, world: int = 1, watched: list[str] | None = None, **arguments: Any) -> list[Any]:
        """What each rank of a program of ranks.py returns. Raises AssertionError with its log where one fails.

        `watched`: files; each rank returns which of their lines have run instead. What it would have returned is kept:
        a job that was watched is not made again.
        """
        name = json.dumps([program, world, arguments], sort_keys=True)
        if not watched and name in self.seen:
            return self.seen[name]
        self.jobs += 1
        folder = self.folder / f"job{self.jobs}"
        folder.mkdir()
        job = {"program": program, "world": world, "folder": str(folder), "arguments": arguments, "watched": watched}
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, (self.folder / "machine.log").read_text()[-4000:]
        failed = json.loads(answer)
        assert failed is None, (folder / f"rank{failed}.log").read_text()[-8000:]
        answers = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(world)]
        if not watched:
            return [answer["result"] for answer in answers]
        self.seen[name] = [answer["result"] for answer in answers]
        return [answer["lines"] for answer in answers]

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()
        self.log.close()
