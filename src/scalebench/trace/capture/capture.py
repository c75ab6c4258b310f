"""One traced run of a cell: separate from the timed ones, short, and published as a whole or not at all."""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from scalebench.campaign.cells import Cell
from scalebench.campaign.config import Tracing
from scalebench.corpus.plan import SamplePlan
from scalebench.corpus.reader import TokenFile
from scalebench.files import scrub, sha256_of, write_json
from scalebench.launch import local, slurm_command
from scalebench.launch.failure import failure
from scalebench.launch.heartbeat import Heartbeat
from scalebench.launch.supervise import Remote, run_watched
from scalebench.machine.applicable import reason_against
from scalebench.machine.gpus import cuda_devices
from scalebench.machine.provenance import provenance
from scalebench.machine.slurm import allocation, signal_steps
from scalebench.record.run import CAPTURE
from scalebench.trace.capture.capture_schema import NSYS, PROFILER, RAW, SEEN, SETTINGS, Captured
from scalebench.trainer.request import Request, sections_of

LOG = "capture.log"
PROGRAM = "scalebench.trace.capture.rank_program"
# What NCCL writes about its set-up; %h and %p are its own placeholders for host and process.
NCCL_LOG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,GRAPH,NET"}
ANSWERS = {"nvidia_topo.txt": ["nvidia-smi", "topo", "-m"], "ibstat.txt": ["ibstat"]}


def choose(asked: str, gpu: bool) -> tuple[str, str | None]:
    """The tool, and why it is not the one that might be expected."""
    if asked == "auto" and not gpu:
        return PROFILER, "on a CPU nsys sees neither operators nor gloo's collectives; torch's profiler sees both"
    if asked in ("auto", NSYS) and not shutil.which("nsys"):
        return PROFILER, "nsys is not installed here (not found on PATH), so torch's profiler was used instead"
    return (NSYS, None) if asked in ("auto", NSYS) else (PROFILER, None)


def capture(cell: Cell, campaign: str, tokens: Path, out: Path, asked: Tracing, limit: float) -> Captured:
    """Trace `asked.steps` steps of `cell` after its warm-up and publish the trace in `out`. `limit` in seconds.

    A capture that fails is published too, with its reason. Raises UserError where the tokens do not suffice and
    Interrupted where it was stopped.
    """
    started = datetime.now(UTC)
    SamplePlan(TokenFile(tokens, "train", cell.workload.seq_len).samples, cell.batch.global_, cell.work.seed)
    gpus, nodes = cuda_devices(), allocation()
    gpu = cell.execution.device != "cpu" and bool(gpus)
    tool, why = choose(asked.tool, gpu)
    attempt = _begin(out, uuid.uuid4().hex[:8])
    request = Request(
        campaign=campaign,
        slug=cell.slug,
        repeat=1,
        sections=sections_of(cell),
        tokens=str(tokens),
        out=str(attempt),
        run_id=attempt.name.removeprefix(".attempt-"),
        started=time.time(),
        time_limit=limit,
        hosts=list(nodes.hosts[: cell.execution.geometry.nodes]) if nodes else [],
        provenance=provenance(" ".join(["scalebench", *sys.argv[1:]])),
    )
    request.write(attempt / "request.json")
    write_json(attempt / SETTINGS, {"tool": tool, "steps": asked.steps, "nodes": asked.nodes, "gpu": gpu})
    try:
        reason = reason_against(cell, gpus, len(nodes.hosts) if nodes else 1)
        status = "not_applicable" if reason else "ok"
        if not reason:
            reason = _run(
                request, attempt, out / LOG, tool, nodes, _proof(attempt / RAW) if asked.proof and gpu else {}
            )
            status = "failed" if reason else "ok"
        seen = json.loads((attempt / SEEN).read_text()) if status == "ok" else {}
        found = Captured(
            status=status,
            reason=reason,
            timestamp_utc=f"{started:%Y-%m-%dT%H:%M:%SZ}",
            campaign=campaign,
            cell=cell.slug,
            fingerprint=cell.fingerprint,
            strategy=cell.execution.strategy,
            tool=tool,
            tool_version=_version() if tool == NSYS else request.provenance["env"]["torch_version"],
            tool_reason=why,
            nodes=asked.nodes,
            world_size=cell.world_size,
            steps=asked.steps,
            step_time_s=seen.get("step_time_s", []),
            collectives=seen.get("collectives"),
            ranks=seen.get("ranks", []),
            env=request.provenance["env"],
            training_config=request.known()["training_config"].model_dump(mode="json"),
            scheduler=request.provenance["scheduler"],
            code_sha256=request.provenance["code_sha256"],
            total_wall_time_sec=time.time() - request.started,
            files={p.name: sha256_of(p) for p in sorted((attempt / RAW).iterdir())},
        )
        (attempt / RAW).replace(out / RAW)
        write_json(out / CAPTURE, found.model_dump(mode="json"))
    finally:
        shutil.rmtree(attempt, ignore_errors=True)
    return found


def _begin(out: Path, name: str) -> Path:
    """A fresh folder for this attempt; what earlier ones left is removed."""
    out.mkdir(parents=True, exist_ok=True)
    for left in (*out.glob(".attempt-*"), out / RAW):
        shutil.rmtree(left, ignore_errors=True)
    for name_of_file in (CAPTURE, LOG):
        (out / name_of_file).unlink(missing_ok=True)
    attempt = out / f".attempt-{name}"
    (attempt / RAW).mkdir(parents=True)
    return attempt


def _proof(folder: Path) -> dict[str, str]:
    """Ask the first node about its wires, where it has the programs; returns the variables that let NCCL write about them."""
    for name, command in ANSWERS.items():
        if shutil.which(command[0]):
            with (folder / name).open("w") as file, contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, timeout=60)
    return NCCL_LOG | {
        "NCCL_DEBUG_FILE": str(folder.resolve() / "nccl.%h.%p.log"),
        "NCCL_TOPO_DUMP_FILE": str(folder.resolve() / "nccl_topo.xml"),
    }


def _run(request: Request, attempt: Path, log: Path, tool: str, nodes: Any, variables: dict[str, str]) -> str | None:
    """Start the ranks; returns why there is no trace, or None."""
    cell, path = request.cell, attempt / "request.json"
    heartbeat = Heartbeat(cell.processes_per_node, cell.work.warmup_steps)
    under = [sys.executable, "-m", "scalebench.trace.capture.nsys_node", str(path)] if tool == NSYS else []
    try:
        if nodes:
            line = slurm_command.command(cell, path, nodes, slurm_command.free_port(nodes.job), PROGRAM)
            launcher = line.index(sys.executable)  # what srun starts on each node
            command = [*line[:launcher], *under, *line[launcher:]]
            env, remote = slurm_command.environment(cell, heartbeat.path), Remote(partial(signal_steps, nodes.job))
        else:
            command = [*under, *local.command(cell, path, PROGRAM)]
            env, remote = local.environment(cell, heartbeat.path), None
        outcome = run_watched(command, env | variables, log, request.time_limit, heartbeat, remote)
    finally:
        heartbeat.close()
    if (attempt / SEEN).exists() and any((attempt / RAW).iterdir()):
        return None
    if (attempt / SEEN).exists():
        return next((scrub(line) for line in reversed(outcome.tail) if "nsys" in line), "the profiler left no trace")
    why = failure(request, attempt, outcome)
    return f"{why.failure_class}: {why.reason}"


def _version() -> str | None:
    try:
        said = subprocess.run(["nsys", "--version"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\d+\.\d+[\d.]*", said)
    return found[0] if found else None
