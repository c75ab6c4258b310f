"""How fast this machine starts a run and trains: measured in seconds when an estimate first needs it, and kept.

Processor time is measured, and not the clock, but on GPUs: what else runs here meanwhile does not count.
"""

import json
import math
import os
import platform
import re
import resource
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scaleproof.ground.campaign.strategies import LOW
from scaleproof.ground.cores import available_cores
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import write_json
from scaleproof.ground.json_faults import read_part

VARIABLE = "SCALEPROOF_CACHE"  # a folder; empty: nothing is measured or kept
PROBE_S = 2.0  # seconds that a probe trains, after a step that does not count
LONGEST = {"cpu": 1024, "cuda": 8192}  # tokens of a sample in a probe: with more a step outlasts MOST_S
SAMPLES = 4  # samples in a training step of a probe
MOST_S = 30  # a probe that takes longer is given up, and the probes after it
# Speeds of a small node of a few cores, for machines that cannot be measured. FLOP/s are fp32, of one core.
USUAL = {"start": 7.0, "engine": 2.0, "train": 3e10}
ANSWER = re.compile(r"^speed ([\d.e+]+)$", re.MULTILINE)


@dataclass(frozen=True)
class Layer:
    """A transformer layer that a speed is measured with: its size, precision, and device."""

    device: str  # cpu or cuda
    precision: str
    width: int
    seq_len: int


@dataclass(frozen=True)
class MachineSpeed:
    """Speeds of this machine, measured when first needed and kept in the file `path`. Without `path`: USUAL speeds."""

    path: Path | None = None
    probes: bool = True  # whether what is not kept yet is measured
    guessed: set[str] = field(default_factory=set)  # names of speeds for which the usual one was returned

    def start_s(self, engine: str = "") -> float:
        """Return the seconds that a run of one fresh rank takes outside of its steps, imports of `engine` included."""
        launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
        start = self._speed("start", [*launcher, "--nproc-per-node=1", "-m", __name__, "start"])
        return start + (self._speed("engine", [sys.executable, "-m", __name__, "engine"]) if engine else 0.0)

    def flops(self, layer: Layer) -> float:
        """Return the FLOP/s at which a GPU, or one core, trains such a layer: forward, backward and update."""
        # Of the nearest power of 2: a campaign may have a thousand lengths, whose speeds hardly differ.
        seq_len = min(1 << round(math.log2(layer.seq_len)), LONGEST[layer.device])
        words = json.dumps(asdict(replace(layer, seq_len=seq_len)))
        return self._speed(f"train {words}", [sys.executable, "-m", __name__, "train", words])

    @property
    def measured(self) -> bool:
        """Whether all speeds that were returned were measured on this machine."""
        return bool(self._kept_speeds) and not self.guessed

    def _speed(self, name: str, line: list[str]) -> float:
        """Return the speed called `name` (seconds, or FLOP/s), which the command `line` measures once.

        Where nothing may be measured or kept, and after a failed measurement, it is the speed in USUAL, whose key is
        the first word of `name`.
        """
        if name in self._kept_speeds:
            return self._kept_speeds[name]
        first_word = name.partition(" ")[0]
        may_measure = self.probes and not self.guessed  # after one failed measurement no other is tried
        if self.path and may_measure and _can_be_written(self.path.parent):
            print(f"scaleproof: measuring how fast this machine is, once ({first_word})", file=sys.stderr, flush=True)
            speed = _measure_by(line)
            if speed is not None:
                self._kept_speeds[name] = speed
                write_json(self.path, self._kept_speeds)
                return speed
        self.guessed.add(name)
        return USUAL[first_word]

    @cached_property
    def _kept_speeds(self) -> dict[str, float]:
        """The speeds in the file: name -> value; {} where it is missing or damaged. Thousands of cells look there."""
        speeds: dict[str, float] | None = read_part(self.path, dict) if self.path else None
        return speeds or {}


def _can_be_written(folder: Path) -> bool:
    """Make `folder`, and return whether files can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def this_machine(probes: bool = True) -> MachineSpeed:
    """Return the speeds of this machine with the installed torch and Python.

    They are kept in the folder that VARIABLE names. They are the USUAL ones where that is empty, or torch is missing.
    `probes`: whether speeds that are not kept yet are measured. Raises UserError where VARIABLE can be no folder.
    """
    folder = os.environ.get(VARIABLE, str(Path.home() / ".cache" / "scaleproof"))
    if folder and VARIABLE in os.environ and not Path(folder).is_dir() and not _can_be_written(Path(folder)):
        allowed = "allowed: a folder that is there or can be made, or nothing, with which no speeds are measured"
        raise UserError(f"{VARIABLE} is {folder}, which is no folder and cannot be made one; {allowed}")
    if not folder or find_spec("torch") is None:
        return MachineSpeed()
    versions = f"{platform.python_version()}-{metadata.version('torch')}"
    return MachineSpeed(Path(folder) / f"speed-{platform.node()}-{available_cores()}-{versions}.json", probes)


def _measure_by(line: list[str]) -> float | None:
    """Return the speed that the command `line` prints, else its CPU seconds; None where it fails."""
    before = _cpu_s_of_children()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(line, capture_output=True, text=True, errors="replace", timeout=MOST_S, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return None
    answer = ANSWER.search(done.stdout)
    return float(answer[1]) if answer else _cpu_s_of_children() - before


def _cpu_s_of_children() -> float:
    """Return the CPU seconds so far of this process' children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _time_imports_s(engine: bool) -> float:
    """Return the CPU seconds to import a rank's libraries; with `engine`, those of DeepSpeed, imported after them."""
    from scaleproof.measure.launch.local import DEEPSPEED, LIBRARIES

    seconds = 0.0
    for libraries in (LIBRARIES, DEEPSPEED) if engine else (LIBRARIES,):
        began = time.process_time()
        for name in libraries:
            import_module(name)
        seconds = time.process_time() - began
    return seconds


def _measure_flops(layer: Layer) -> float:
    """Return the FLOP/s of training `layer` for PROBE_S seconds: 6 a weight and token, attention as in PaLM, app. B."""
    import torch

    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high" if layer.precision == "tf32" else "highest")
    low: torch.dtype | None = getattr(torch, LOW.get(layer.precision, ""), None)  # None: fp32 and tf32
    device = torch.device(layer.device)
    width = layer.width
    network: Any = torch.nn.TransformerEncoderLayer(
        width, max(1, width // 64), 4 * width, dropout=0.0, batch_first=True, norm_first=True, device=device
    )
    optimizer = torch.optim.AdamW(network.parameters())
    batch = torch.randn(SAMPLES, layer.seq_len, width, device=device)

    def step() -> None:
        """Make one training step, and wait until the device has ended it."""
        with torch.autocast(layer.device, low, enabled=low is not None):
            loss = network(batch).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if layer.device == "cuda":
            torch.cuda.synchronize()

    clock = time.perf_counter if layer.device == "cuda" else time.process_time
    step()  # the first step also loads what it needs
    steps = 0
    began = clock()
    while clock() - began < PROBE_S:
        step()
        steps += 1
    flops_per_token = 6 * 12 * width**2 + 12 * width * layer.seq_len  # a layer has 12 width^2 weights
    return flops_per_token * SAMPLES * layer.seq_len * steps / (clock() - began)


def _measure_flops_undisturbed(layer: Layer) -> float:
    """Return `_measure_flops` of `layer`. On a GPU that a run uses, end this program: it would disturb the run."""
    if layer.device == "cpu":
        return _measure_flops(layer)
    from scaleproof.measure.launch.device_lock import device_names, hold_devices
    from scaleproof.measure.machine.gpus import cuda_devices

    def give_up(_: float) -> None:  # called in place of waiting for the lock
        raise SystemExit("a run uses the GPU")

    with hold_devices(device_names(cuda_devices()[:1]), "a look at this machine's speed", pause=give_up):
        return _measure_flops(layer)


if __name__ == "__main__":
    question, *words = sys.argv[1:]
    if question == "train":
        print(f"speed {_measure_flops_undisturbed(Layer(**json.loads(words[0]))):.4g}")
    elif question == "engine":
        print(f"speed {_time_imports_s(engine=True):.4g}")
    else:
        _time_imports_s(engine=False)
