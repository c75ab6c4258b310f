"""Runs whose ranks are forked from this process, which has loaded torch already: a run takes about a second."""

import gc
import os
import resource
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import psutil

from scaleproof.ground.campaign.cells import Cell, expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.files import sha256_of, write_json
from scaleproof.ground.records.run import LAUNCHER, METRICS, METRICS_SEAL, Run, read_run
from scaleproof.measure.trainer.request import Request

LIMIT_S = 400
SHAPE = {"layers": 2, "width": 32, "heads": 2, "context": 64}


def cell(execution: dict | None = None, work: dict | None = None, model: dict | None = None) -> Cell:
    """A tiny cell; `model`: what of its shape is otherwise."""
    data = {
        "title": "planted faults",
        "workload": {"model": SHAPE | (model or {}), "seq_len": 32, "tokenizer": "bpe-512"},
        "work": {"global_batch": 8, "steps": 24, "warmup_steps": 4, "validation_samples": 16} | (work or {}),
        "execution": {"device": "cpu"} | (execution or {}),
    }
    return expand_cells(Campaign.model_validate(data))[0]


def load() -> None:
    """Import once what every forked rank needs; nothing of it is run here, so that no thread is lost by forking."""
    os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu"}
    import torch
    import transformers.models.gpt2.modeling_gpt2  # noqa: F401

    import scaleproof.measure.model.wrappers
    import scaleproof.measure.reference.replay
    import scaleproof.measure.trainer.run  # noqa: F401

    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()  # what ranks share is not looked through in each of them


def run(c: Cell, tokens: Path, out: Path, patch: Callable[[], None] = lambda: None, witness_steps: int = 0) -> Run:
    """The run of `c` in `out`, every rank with `patch` applied. Raises RuntimeError where it leaves no metrics."""
    out.mkdir(parents=True)
    request = Request.for_cell(
        c,
        tokens,
        out,
        campaign="faults",
        run_id=f"{out.parent.name}-{time.time_ns()}",
        time_limit=LIMIT_S,
        witness_steps=witness_steps,
        provenance=PROVENANCE | {"timestamp_utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())},
    )
    port = free_port()
    ranks = [fork(lambda r=r: _rank(request, r, c.world_size, port, patch), out / "log") for r in range(c.world_size)]
    wait(ranks)
    if not (out / METRICS).exists():
        raise RuntimeError((out / "log").read_text()[-1500:])
    write_json(out / LAUNCHER, {METRICS_SEAL: sha256_of(out / METRICS)})
    return read_run(out)


class OtherLoad:
    """CPU time of other programs, as this process sees it: it knows nothing of what the ranks record."""

    def __enter__(self) -> "OtherLoad":
        self._before = self._readings()
        return self

    def __exit__(self, *failure: object) -> None:
        passed = [after - before for after, before in zip(self._readings(), self._before, strict=True)]
        seconds, busy, own = passed
        self.share = (busy - own) / (seconds * (os.cpu_count() or 1))

    def _readings(self) -> tuple[float, float, float]:
        """Seconds: the time, those in which somebody used a core or the host took it, those of this process's tree."""
        times = psutil.cpu_times()
        own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        unused = times.idle + getattr(times, "iowait", 0.0) + getattr(times, "guest", 0.0)
        return time.perf_counter(), sum(times) - unused, sum(usage.ru_utime + usage.ru_stime for usage in own)


PROVENANCE = {
    "git_commit": "0" * 40,
    "git_dirty": False,
    "code_sha256": "0" * 64,
    "command_line": "planted faults",
    "env": {},
    "host": {"hostname": "here", "os": "Linux", "cpu_busy_before": 0.0},
    "hardware": {"cpu_model": "CPU", "cpu_count": os.cpu_count(), "cpu_allowed": os.cpu_count(), "memory_bytes": 2**33},
    "scheduler": None,
}


def _rank(request: Request, rank: int, world_size: int, port: int, patch: Callable[[], None]) -> None:
    from scaleproof.measure.trainer.run import make_run

    places = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world_size, "LOCAL_WORLD_SIZE": world_size}
    os.environ |= {name: str(value) for name, value in places.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    patch()
    make_run(request, time.time()).leave()


def fork(child: Callable[[], None], log: Path) -> int:
    """Start `child` in a process of its own, its output in `log`; returns the process id."""
    pid = os.fork()
    if pid:
        return pid
    with log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    try:
        child()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def wait(pids: list[int]) -> None:
    """Wait for all; when one has failed the others, which wait for it, are ended."""
    left, deadline = set(pids), time.monotonic() + LIMIT_S
    while left:
        for pid in list(left):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                left.discard(pid)
                if status:
                    deadline = min(deadline, time.monotonic() + 2)
        if time.monotonic() > deadline:
            for pid in left:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
            return
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def write_reference(c: Cell, tokens: Path, folder: Path, steps: int | None = None) -> None:
    """The reference of a cell, computed in a process of its own; of its first `steps` alone, as of a large model."""
    from scaleproof.measure.reference.schema import workload_name

    path = folder / f"{workload_name(c.config)}.json"
    if path.exists():
        return

    def child() -> None:
        from scaleproof.measure.reference.replay import replay

        reference = replay(c.config, tokens).model_dump(mode="json")
        if steps is not None:
            for series in (reference, *reference["repetitions"]):
                series["validation_loss"] = None
                for name in ("losses", "gradient_norms"):
                    del series[name][steps:]
        write_json(path, reference)

    folder.mkdir(parents=True, exist_ok=True)
    wait([fork(child, folder / "log")])
