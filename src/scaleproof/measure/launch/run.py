"""One run from request to published result, whatever happens in between."""

import json
import shutil
import sys
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from scaleproof.ground.errors import UserError
from scaleproof.ground.files import now_utc, scrub, sha256_of, write_atomic, write_json
from scaleproof.ground.records.census import SecondClock
from scaleproof.ground.records.metrics import Failed, Measured, Printed, Timed, parse_metrics
from scaleproof.ground.records.printed_log import PrintedLog, ReadLog
from scaleproof.ground.records.run import BENCHMARK, COMPLETE, LAUNCHER, LOG, METRICS, METRICS_SEAL, STEPS
from scaleproof.ground.records.run_sections import Failure
from scaleproof.ground.records.steps import COLUMNS
from scaleproof.measure.command.program import absent_program
from scaleproof.measure.corpus.reader import SamplePlan, open_split
from scaleproof.measure.launch import allocated, local
from scaleproof.measure.launch.allocated import NODE
from scaleproof.measure.launch.attempt import begin_attempt, run_ranks, write_request
from scaleproof.measure.launch.command import attempt_command
from scaleproof.measure.launch.device_lock import devices_of, hold_devices
from scaleproof.measure.launch.failure import explain_failure, make_failed_metrics
from scaleproof.measure.launch.supervise import CommandOutcome, Interrupted, pause_for_devices
from scaleproof.measure.machine.allocation import (
    JOB_OVER,
    TIME_OVER,
    Allocation,
    ask_how_job_ended,
    ask_why_run_was_ended,
    current_allocation,
)
from scaleproof.measure.machine.applicable import unsupported_reason
from scaleproof.measure.machine.gpus import cuda_devices, torch_has_cuda
from scaleproof.measure.machine.network import loopback_problem
from scaleproof.measure.machine.provenance import provenance_fields, variables_to_record
from scaleproof.measure.trainer.request import PlannedRun, Request

LOST_CLASSES = ("node_fail", "wrong_world")  # failures of the allocation: the cell's nodes or devices are not there


def no_reader(log: Path, name: str) -> PrintedLog | None:
    """Read no log: runs of the trainer print no figures."""
    return None


def run_cell(plan: PlannedRun, out: Path, program: str = local.PROGRAM, read: ReadLog = no_reader) -> Timed | Failed:
    """Make a run, publish it in the folder `out`, failed or not, and return its metrics.

    `program`: the module that each rank runs. `read`: the function that reads the log of a command. Waits while another
    run uses the same devices of this machine. Raises UserError where the tokens do not suffice, Interrupted where the
    run was stopped.
    """
    cell = plan.cell
    if cell.command is None:  # raises UserError where the tokens do not suffice
        SamplePlan(open_split(plan.tokens, "train", cell.workload).n_samples, cell.batch.global_, cell.work.seed)
    owner = f"{plan.campaign} {cell.slug}/rep{plan.repeat}"
    with hold_devices(devices_of(cell, cuda_devices()), owner, pause=pause_for_devices):
        return _run_on_own_devices(plan, out, program, read)


def _run_on_own_devices(plan: PlannedRun, out: Path, program: str, read: ReadLog) -> Timed | Failed:
    """Do the work of `run_cell`, with the devices already locked.

    The attempt writes into a folder of its own, whose content is moved into `out` at the end: a run is there as a whole
    or not at all, and an abandoned attempt cannot overwrite a later one.
    """
    started = datetime.now(UTC)
    run_id = f"{started:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:8]}"
    nodes = current_allocation()
    attempt = begin_attempt(out, run_id, (METRICS, STEPS, LAUNCHER, COMPLETE, LOG, BENCHMARK))
    origin = provenance_fields(" ".join(["scaleproof", *sys.argv[1:]]), nodes.known_at_start if nodes else None)
    request = write_request(
        plan,
        attempt=attempt,
        run_id=run_id,
        nodes=nodes,
        provenance={"timestamp_utc": f"{started:%Y-%m-%dT%H:%M:%SZ}"} | origin,
    )

    try:
        metrics, outcome = _make_attempt(request, attempt, out / LOG, program, nodes, read)
        if nodes and outcome:
            metrics = _explain_crash(metrics, nodes, outcome.tail)
        _publish_run(request, metrics, outcome, attempt, out)
    except Interrupted as interruption:
        # What ranks printed when they were told to end explains nothing; this line does.
        with (out / LOG).open("a") as log:
            print(f"scaleproof: {interruption}; nothing of this run was published", file=log)
        raise
    finally:
        shutil.rmtree(attempt, ignore_errors=True)

    return metrics


def run_one_of_several(plan: PlannedRun, out: Path, read: ReadLog = no_reader) -> Timed | Failed:
    """Do as `run_cell`, in a job in which further runs follow on the same nodes.

    Raises Interrupted, after which Snakemake submits the job again: where a node was lost, after publishing the run;
    and where the job's own time was over, without publishing it, since that is no failure of the run.
    """
    metrics = run_cell(plan, out, read=read)
    if metrics.failure and metrics.failure.reason in (TIME_OVER, JOB_OVER):
        (out / METRICS).unlink(missing_ok=True)
        raise Interrupted(f"{metrics.failure.reason}; this run and those that follow are left to the next job", 1)
    if metrics.failure and metrics.failure.failure_class in LOST_CLASSES:
        raise Interrupted(f"{metrics.failure.reason}; the runs that follow would not be on the same nodes", 1)
    return metrics


def _explain_crash(metrics: Timed | Failed, nodes: Allocation, log: Sequence[str]) -> Timed | Failed:
    """Return `metrics`, with a crash replaced by a timeout if Slurm ended the ranks shortly before the job's limit.

    `log`: the last lines of output. Raises Interrupted where Slurm has ended the job, which the ranks notice first.
    """
    if not isinstance(metrics, Failed) or metrics.failure.failure_class != "crash":
        return metrics
    reason = ask_why_run_was_ended(nodes.job, log)
    if reason is None:
        return metrics
    if reason != TIME_OVER:
        raise Interrupted(f"the scheduler has ended the job ({reason})", 1)
    timeout = metrics.failure.model_copy(update={"failure_class": "timeout", "reason": TIME_OVER})
    return metrics.model_copy(update={"failure": timeout})


def _make_attempt(
    request: Request, attempt: Path, log: Path, program: str, nodes: Allocation | None, read: ReadLog
) -> tuple[Timed | Failed, CommandOutcome | None]:
    """Make the requested run in the folder `attempt`, and return its metrics, and how it ended (None: not started)."""
    cell = request.cell
    gpus = cuda_devices()
    if nodes and (shortage := allocated.describe_shortage(cell, nodes, len(gpus) if torch_has_cuda() else None)):
        return make_failed_metrics(request, Failure(failure_class="wrong_world", reason=shortage)), None
    reason = unsupported_reason(cell, gpus, len(nodes.hosts) if nodes else 1)
    reason = reason or (absent_program(cell.words) if cell.command is not None else None)
    if reason:
        return make_failed_metrics(request, Failure(failure_class="not_applicable", reason=scrub(reason))), None

    if cell.command is not None:
        return attempt_command(request, attempt, log, nodes, read)
    problem = loopback_problem() if cell.world_size > 1 and not nodes else None
    if problem:
        raise UserError(f"{cell.world_size} ranks cannot meet: {problem}")
    outcome = run_ranks(
        request,
        log,
        program,
        nodes,
        steps=cell.work.warmup_steps + cell.work.steps,
        warmup_steps=cell.work.warmup_steps,
        forked=local.may_fork(cell, len(gpus)),
    )
    # A rank that fails after the metrics are written fails as it shuts down, which does not touch the measurement.
    if (attempt / METRICS).exists():
        return parse_metrics((attempt / METRICS).read_bytes()), outcome
    return make_failed_metrics(request, explain_failure(request, attempt, outcome)), outcome


def _publish_run(
    request: Request, metrics: Timed | Failed, outcome: CommandOutcome | None, attempt: Path, out: Path
) -> None:
    """Complete the metrics, and move the content of `attempt` into `out`: the metrics last, so that a run is whole."""
    if not (attempt / STEPS).exists():
        (attempt / STEPS).write_text(",".join(COLUMNS) + "\n")
    files = {STEPS: sha256_of(attempt / STEPS)}
    if isinstance(metrics, Printed):  # its figures were read from the log
        files[LOG] = sha256_of(out / LOG)
    metrics = metrics.model_copy(update={"files": files} | _fields_after_run(metrics, attempt))
    if isinstance(metrics, Measured) and outcome:
        clock = SecondClock(ranks_s=outcome.ranks_s, window_s=outcome.window_s, resolution_s=outcome.resolution_s)
        metrics = metrics.model_copy(update={"second_clock": clock})
    write_json(attempt / METRICS, metrics.model_dump(mode="json", by_alias=True))

    # The launcher's file holds the sha256 of the metrics, so that an edit of them by hand shows.
    seal = {METRICS_SEAL: sha256_of(attempt / METRICS)}
    write_json(attempt / LAUNCHER, _launcher_metadata(request, metrics, outcome, out) | seal)
    (out / LOG).touch()  # a run that was not started has none
    if metrics.window:
        rate, seconds = metrics.window.tokens_per_s, metrics.total_wall_time_s
        place = f"checkpoint_path={scrub(str(out))} world_size={request.cell.world_size}"
        figures = f"tokens_per_sec={rate:.2f} total_wall_time_sec={seconds:.2f} timestamp_utc={now_utc()}"
        write_atomic(attempt / COMPLETE, f"[Rank 0] RUN_COMPLETE {place} {figures}\n")

    for name in (STEPS, LAUNCHER, COMPLETE, METRICS):
        if (attempt / name).exists():
            (attempt / name).replace(out / name)


def _fields_after_run(metrics: Timed | Failed, attempt: Path) -> dict:
    """Return the fields `scheduler`, with how the job ended, and `hardware`, with each node's record."""
    scheduler = metrics.scheduler
    if scheduler and "job_id" in scheduler:
        scheduler = scheduler | ask_how_job_ended(scheduler["job_id"])

    prefix, suffix = NODE.split("{host}")
    nodes = {}
    for path in sorted(attempt.glob(NODE.format(host="*"))):  # each node's launcher has written a file
        host = path.name.removeprefix(prefix).removesuffix(suffix)
        nodes[host] = json.loads(path.read_text())
    hardware = metrics.hardware | {"nodes": nodes} if nodes else metrics.hardware
    return {"scheduler": scheduler, "hardware": hardware}


def _launcher_metadata(request: Request, metrics: Timed | Failed, outcome: CommandOutcome | None, out: Path) -> dict:
    """Return the content of launcher_metadata.json: what started the ranks, and how they ended."""
    variables = variables_to_record()
    launcher = "srun torchrun" if "nodes" in metrics.hardware else "torchrun"  # launchers by srun leave node records
    if request.cell.command is not None:
        launcher = "command"
    return {
        "checkpoint_path": scrub(str(out)),
        "rank0_host": metrics.host["hostname"],
        "world_size": request.cell.world_size,
        "git_commit": metrics.git_commit,
        "slurm": metrics.scheduler or {},
        "env": {name: value for name, value in variables.items() if "NCCL" not in name},
        "nccl_env": {name: value for name, value in variables.items() if "NCCL" in name},
        "launcher": launcher,
        "exit_code": outcome.exit_code if outcome else None,
        "timed_out": outcome.timed_out if outcome else None,
    }
