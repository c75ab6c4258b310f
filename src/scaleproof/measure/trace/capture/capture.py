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
from pathlib import Path
from typing import Literal

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.unmeasured import Tracing
from scaleproof.ground.files import scrub, sha256_of, write_json
from scaleproof.ground.records.run import CAPTURE, CAPTURE_LOG
from scaleproof.measure.corpus.reader import SamplePlan, open_split
from scaleproof.measure.launch.attempt import REQUEST, begin_attempt, run_ranks, write_request
from scaleproof.measure.launch.device_lock import devices_of, hold_devices
from scaleproof.measure.launch.failure import explain_failure
from scaleproof.measure.launch.local import may_fork
from scaleproof.measure.launch.supervise import pause_for_devices
from scaleproof.measure.machine.allocation import Allocation, current_allocation
from scaleproof.measure.machine.applicable import unsupported_reason
from scaleproof.measure.machine.gpus import cuda_devices
from scaleproof.measure.machine.provenance import provenance_fields
from scaleproof.measure.trace.capture.capture_schema import NSYS, PROFILER, RANK_RESULT, RAW, SETTINGS, Captured
from scaleproof.measure.trainer.request import PlannedRun, Request

PROGRAM = "scaleproof.measure.trace.capture.rank_program"
TRACES = (".sqlite", ".nsys-rep", ".gz")  # suffixes of what the profilers leave
# What NCCL writes about its set-up; %h and %p are its own placeholders for host and process.
NCCL_LOG = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,GRAPH,NET"}
INTERCONNECT_COMMANDS = {"nvidia_topo.txt": ["nvidia-smi", "topo", "-m"], "ibstat.txt": ["ibstat"]}


def choose_tool(requested: str, gpu: bool) -> tuple[str, str | None]:
    """Return the tool to trace with, and the reason if the choice may surprise. `requested`: "auto" or a tool."""
    if requested == "auto" and not gpu:
        return PROFILER, "on a CPU nsys sees neither operators nor gloo's collectives; torch's profiler sees both"
    if requested not in ("auto", NSYS):
        return PROFILER, None
    if not shutil.which("nsys"):
        return PROFILER, "nsys is not installed here (not found on PATH), so torch's profiler was used instead"
    return NSYS, None


def capture_trace(cell: Cell, campaign: str, tokens: Path, out: Path, settings: Tracing, limit: float) -> Captured:
    """Trace some steps of `cell` after its warm-up, publish the trace in the folder `out`, and return its record.

    `limit`: seconds that it may take. A capture that fails is published as well, with its reason. Raises UserError
    where the tokens do not suffice, Interrupted where it was stopped.
    """
    # The plan is not used: it raises UserError where the tokens do not suffice.
    SamplePlan(open_split(tokens, "train", cell.workload).n_samples, cell.batch.global_, cell.work.seed)
    gpus = cuda_devices()
    nodes = current_allocation()
    on_gpu = cell.execution.device != "cpu" and bool(gpus)
    tool, tool_reason = choose_tool(settings.tool, on_gpu)
    reason = unsupported_reason(cell, gpus, len(nodes.hosts) if nodes else 1)
    holder = f"the trace of {campaign} {cell.slug}"
    # An earlier trace stays while this one waits for its devices.
    with contextlib.nullcontext() if reason else hold_devices(devices_of(cell, gpus), holder, pause=pause_for_devices):
        run_id = uuid.uuid4().hex[:8]
        attempt = begin_attempt(out, run_id, (RAW, CAPTURE, CAPTURE_LOG))
        raw = attempt / RAW
        raw.mkdir()
        request = write_request(
            PlannedRun(cell=cell, campaign=campaign, tokens=tokens, time_limit=limit),
            attempt=attempt,
            run_id=run_id,
            nodes=nodes,
            provenance=provenance_fields(
                " ".join(["scaleproof", *sys.argv[1:]]), nodes.known_at_start if nodes else None
            ),
        )
        write_json(attempt / SETTINGS, {"tool": tool, "steps": settings.steps, "nodes": settings.nodes, "gpu": on_gpu})
        try:
            status: Literal["ok", "failed", "not_applicable"] = "not_applicable"  # unless the ranks are started
            if not reason:
                variables = record_interconnect(raw) if settings.interconnect and on_gpu else {}
                reason = _run_traced(request, out / CAPTURE_LOG, tool, nodes, variables)
                status = "failed" if reason else "ok"
            captured = _describe_capture(request, settings, status, reason, tool, tool_reason)
            raw.replace(out / RAW)
            write_json(out / CAPTURE, captured.model_dump(mode="json"))
        finally:
            shutil.rmtree(attempt, ignore_errors=True)

    return captured


def _describe_capture(
    request: Request,
    settings: Tracing,
    status: Literal["ok", "failed", "not_applicable"],
    reason: str | None,
    tool: str,
    tool_reason: str | None,
) -> Captured:
    """Return the record of a trace, from its request and its files. Other arguments are fields of the record."""
    attempt = Path(request.out)
    cell = request.cell
    provenance = request.provenance
    result = json.loads((attempt / RANK_RESULT).read_text()) if status == "ok" else {}
    return Captured(
        status=status,
        reason=reason,
        timestamp_utc=f"{datetime.fromtimestamp(request.started, UTC):%Y-%m-%dT%H:%M:%SZ}",
        campaign=request.campaign,
        cell=cell.slug,
        fingerprint=cell.fingerprint,
        strategy=cell.execution.strategy,
        tool=tool,
        tool_version=_nsys_version() if tool == NSYS else provenance["env"]["torch_version"],
        tool_reason=tool_reason,
        nodes=settings.nodes,
        world_size=cell.world_size,
        steps=settings.steps,
        step_time_s=result.get("step_time_s", []),
        collectives=result.get("collectives"),
        ranks=result.get("ranks", []),
        env=provenance["env"],
        training_config=request.known()["training_config"].model_dump(mode="json"),
        scheduler=provenance["scheduler"],
        code_sha256=provenance["code_sha256"],
        total_wall_time_sec=time.time() - request.started,
        files={path.name: sha256_of(path) for path in sorted((attempt / RAW).iterdir())},
    )


def record_interconnect(folder: Path) -> dict[str, str]:
    """Write what commands say of this node's links into `folder`. Returns variables that make NCCL log there."""
    for name, command in INTERCONNECT_COMMANDS.items():
        if shutil.which(command[0]):
            with (folder / name).open("w") as file, contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, timeout=60)
    return NCCL_LOG | {
        "NCCL_DEBUG_FILE": str(folder.resolve() / "nccl.%h.%p.log"),
        "NCCL_TOPO_DUMP_FILE": str(folder.resolve() / "nccl_topo.xml"),
    }


def _run_traced(
    request: Request, log: Path, tool: str, nodes: Allocation | None, variables: dict[str, str]
) -> str | None:
    """Run the ranks under `tool`, with further `variables`. Returns why there is no trace, None where there is one."""
    attempt = Path(request.out)
    profiler = [sys.executable, "-m", "scaleproof.measure.trace.capture.nsys_node", str(attempt / REQUEST)]
    under = profiler if tool == NSYS else []
    # The traced ranks are forked if those of the cell's timed runs are: both must start alike.
    forked = tool == PROFILER and not nodes and may_fork(request.cell, request.gpus)
    warmup_steps = request.cell.work.warmup_steps
    outcome = run_ranks(
        request, log, PROGRAM, nodes, steps=warmup_steps, under=under, variables=variables, forked=forked
    )

    if not (attempt / RANK_RESULT).exists():
        failure = explain_failure(request, attempt, outcome)
        return f"{failure.failure_class}: {failure.reason}"
    if any(path.suffix in TRACES for path in (attempt / RAW).iterdir()):
        return None
    lines_of_nsys = [line for line in outcome.tail if "nsys" in line]
    return scrub(lines_of_nsys[-1]) if lines_of_nsys else "the profiler left no trace"


def _nsys_version() -> str | None:
    """Return the version of this machine's nsys. Returns None where nsys does not tell it."""
    try:
        text = subprocess.run(["nsys", "--version"], capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r"\d+\.\d+[\d.]*", text)
    return version[0] if version else None
