"""Why a run has no numbers: from what ranks reported, from how they ended, from what the launcher saw."""

import json
import re
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scaleproof.ground.errors import shortened
from scaleproof.ground.records.metrics import Failed
from scaleproof.ground.records.run_sections import Failure
from scaleproof.measure.launch.supervise import CommandOutcome
from scaleproof.measure.machine.allocation import find_scheduler_failure
from scaleproof.measure.trainer.request import Request

TAIL = 40  # lines of the log that a failure keeps
# torchrun's own summary has a block for each rank that failed by itself.
FAILED_RANK = re.compile(r"^\s*rank\s*:\s*(\d+)\b.*\n\s*exitcode\s*:\s*(-?\d+)", re.MULTILINE)
EXCEPTION = re.compile(r"(?:\[\w+\]:\s*)?([\w.]*(?:Error|Exception)\b(?::.*)?)")
TORCHRUN_ERROR = "ChildFailedError"  # torchrun raises it where one of its ranks has raised an error
RANK_PREFIX = "[default"  # how torchrun begins the lines of each rank


def make_failed_metrics(request: Request, failure: Failure) -> Failed:
    """Return the metrics of a run that failed."""
    return Failed(
        status="not_applicable" if failure.failure_class == "not_applicable" else "failed",
        failure=failure,
        total_wall_time_s=time.time() - request.started,
        **request.known(),
    )


def explain_failure(request: Request, attempt: Path, outcome: CommandOutcome) -> Failure:
    """Return class and cause of a failed attempt, from the source that explains most.

    Sources are the scheduler's messages, the ranks' reports in the folder `attempt`, and exit codes listed by torchrun.
    """
    if outcome.timed_out:
        return _explain_timeout(request, outcome)
    job_class, job_reason = find_scheduler_failure(outcome.tail) or (None, "")  # by lines of the scheduler
    if job_class == "node_fail":  # ranks that lost their peers have reported a crash
        return _make_failure(job_class, job_reason, None, outcome)
    reports = [json.loads(path.read_text()) for path in attempt.glob("failure.*.json")]
    reports.sort(key=lambda report: report["time"])
    # When one rank is gone the others crash in their collectives: a report of another class than crash is the cause.
    for report in reports:
        if report["class"] != "crash":
            return _failure_of_report(report, outcome)

    # All reports are crashes, or there are none: how the ranks ended may say more.
    failed_ranks = [(int(rank), int(code)) for rank, code in FAILED_RANK.findall("\n".join(outcome.tail))]
    killed_rank, signal_number = _find_killed_rank(failed_ranks)
    was_killed = signal_number == signal.SIGKILL
    if job_class:
        return _make_failure(job_class, job_reason, killed_rank if was_killed else None, outcome)
    if killed_rank is not None and was_killed and outcome.memory_kills:
        reason = f"the kernel killed rank {killed_rank}: the machine's memory ran out"
        return _make_failure("host_oom", reason, killed_rank, outcome)
    if killed_rank is not None:
        reason = f"rank {killed_rank} was ended by {signal.Signals(signal_number).name}"
        return _make_failure("crash", reason, killed_rank, outcome)
    if reports:
        return _failure_of_report(reports[0], outcome)
    if failed_ranks:
        rank, code = failed_ranks[-1]  # torchrun's root cause
        reason = f"rank {rank} ended with exit code {code}{last_exception(outcome.tail)}"
        return _make_failure("crash", reason, rank, outcome)
    code = outcome.exit_code
    end = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    reason = f"the ranks ended with {end}{last_exception(outcome.tail)}"
    return _make_failure("crash", reason, rank=None, outcome=outcome)


def last_exception(tail: Sequence[str]) -> str:
    """Return ": " and the last exception in the last lines of a log, but not torchrun's own; "" where there is none."""
    matches = [EXCEPTION.fullmatch(line.strip()) for line in tail if TORCHRUN_ERROR not in line]
    exceptions = [match[1] for match in matches if match]
    return f": {shortened(exceptions[-1], 200)}" if exceptions else ""


def _failure_of_report(report: dict[str, Any], outcome: CommandOutcome) -> Failure:
    """Return the failure that a rank has reported: its class, reason and rank."""
    return _make_failure(report["class"], report["reason"], report["rank"], outcome)


def _find_killed_rank(failed_ranks: list[tuple[int, int]]) -> tuple[int | None, int]:
    """Return the rank that a signal ended first, and the signal's number, or (None, 0) where no signal ended a rank.

    `failed_ranks`: rank and exit code (negative: a signal) as torchrun lists them. Its root cause is the last entry;
    ranks before it were ended with SIGTERM, by torchrun itself.
    """
    for rank, code in reversed(failed_ranks):
        if code < 0 and code != -signal.SIGTERM:
            return rank, -code
    if failed_ranks:
        rank, code = failed_ranks[-1]
        if code < 0:  # SIGTERM, but from elsewhere: torchrun takes this rank for the cause
            return rank, -code
    return None, 0


def _explain_timeout(request: Request, outcome: CommandOutcome) -> Failure:
    """Return the failure of a run at its time limit: a hang if its steps had stopped, else a timeout."""
    limit = f"stopped after the time limit of {request.time_limit / 60:.3g} minutes"
    if not outcome.hung:
        note = "" if outcome.steps else "; no step had begun"
        return _make_failure("timeout", f"{limit}{note}", rank=None, outcome=outcome)
    note = "" if outcome.behind is None else f"; rank {outcome.behind} was behind the others"
    return _make_failure("hang", f"no step ended any more, {limit}{note}", outcome.behind, outcome)


def _make_failure(failure_class: str, reason: str, rank: int | None, outcome: CommandOutcome) -> Failure:
    """Return a failure with the last lines of `rank`, which caused it; without any, of all ranks or the log."""
    lines_of_ranks = [line for line in outcome.tail if line.startswith(RANK_PREFIX)]
    lines_of_rank = [line for line in lines_of_ranks if line.startswith(f"{RANK_PREFIX}{rank}]")]
    lines = lines_of_rank or lines_of_ranks or outcome.tail
    return Failure(failure_class=failure_class, reason=reason, rank=rank, log_tail=lines[-TAIL:])
