"""Why a run has no numbers: from what ranks reported, from how they ended, from what the launcher saw."""

import json
import re
import signal
import time
from pathlib import Path

from scaleproof.ground.records.metrics import Failed
from scaleproof.ground.records.run_sections import Failure
from scaleproof.measure.launch.supervise import CommandOutcome
from scaleproof.measure.machine.allocation import find_scheduler_failure
from scaleproof.measure.trainer.request import Request

TAIL = 40  # lines of the log that a failure keeps
# torchrun's own summary: a block for each rank that failed by itself. And its prefix of every rank's lines.
ENDED = re.compile(r"^\s*rank\s*:\s*(\d+)\b.*\n\s*exitcode\s*:\s*(-?\d+)", re.MULTILINE)
RANK_PREFIX = "[default"


def make_failed_metrics(request: Request, why: Failure) -> Failed:
    """Return the metrics of a run that failed for the reason `why`."""
    return Failed(
        status="not_applicable" if why.failure_class == "not_applicable" else "failed",
        failure=why,
        total_wall_time_s=time.time() - request.started,
        **request.known(),
    )


def explain_failure(request: Request, attempt: Path, outcome: CommandOutcome) -> Failure:
    """Return class and cause of a failed attempt, from whatever is known that explains most.

    That is the scheduler's word, the ranks' reports in the folder `attempt`, and the exit codes that torchrun lists.
    """
    if outcome.timed_out:
        return _explain_timeout(request, outcome)
    job_class, job_reason = find_scheduler_failure(outcome.tail) or (None, "")
    if job_class == "node_fail":  # ranks that lost their peers have reported a crash
        return _make_failure(job_class, job_reason, None, outcome)
    reports = [json.loads(path.read_text()) for path in attempt.glob("failure.*.json")]
    reports.sort(key=lambda report: report["time"])
    # When one rank is gone the others crash in their collectives: whatever is not a mere crash is the cause.
    for report in reports:
        if report["class"] != "crash":
            return _make_failure(report["class"], report["reason"], report["rank"], outcome)
    ended = [(int(rank), int(code)) for rank, code in ENDED.findall("\n".join(outcome.tail))]
    killed_rank, number = _find_killed_rank(ended)
    if job_class:
        return _make_failure(job_class, job_reason, killed_rank if number == signal.SIGKILL else None, outcome)
    if killed_rank is not None and number == signal.SIGKILL and outcome.memory_kills:
        why = f"the kernel killed rank {killed_rank}: the machine's memory ran out"
        return _make_failure("host_oom", why, killed_rank, outcome)
    if killed_rank is not None:
        why = f"rank {killed_rank} was ended by {signal.Signals(number).name}"
        return _make_failure("crash", why, killed_rank, outcome)
    if reports:
        first = reports[0]
        return _make_failure(first["class"], first["reason"], first["rank"], outcome)
    if ended:
        rank, code = ended[-1]  # torchrun's root cause
        return _make_failure("crash", f"rank {rank} ended with exit code {code}", rank, outcome)
    return _make_failure("crash", f"the ranks ended with exit code {outcome.exit_code}", None, outcome)


def _find_killed_rank(ended: list[tuple[int, int]]) -> tuple[int | None, int]:
    """Return the rank that a signal ended first, and the signal's number; (None, 0) where no signal ended one.

    `ended`: rank and exit code (negative: a signal) as torchrun lists them: its root cause last, and before it the
    ranks that it has itself ended with SIGTERM.
    """
    for rank, code in reversed(ended):
        if code < 0 and code != -signal.SIGTERM:
            return rank, -code
    if ended:
        rank, code = ended[-1]
        if code < 0:
            return rank, -code
    return None, 0


def _explain_timeout(request: Request, outcome: CommandOutcome) -> Failure:
    """Return the failure of a run at its time limit: too slow, or hung, where steps stopped coming."""
    minutes = f"{request.time_limit / 60:.3g} minutes"
    began = "" if outcome.steps else "; no step had begun"
    if not outcome.hung:
        return _make_failure("timeout", f"stopped after the time limit of {minutes}{began}", None, outcome)
    who = "" if outcome.behind is None else f"; rank {outcome.behind} was behind the others"
    return _make_failure(
        "hang", f"no step ended any more, stopped after the time limit of {minutes}{who}", outcome.behind, outcome
    )


def _make_failure(kind: str, reason: str, rank: int | None, outcome: CommandOutcome) -> Failure:
    """Return a failure of class `kind`, with the last lines that `rank`, the one to blame, has printed.

    If it printed none, or is not known (None), these are lines of all ranks; without any, of the whole log.
    """
    of_ranks = [line for line in outcome.tail if line.startswith(RANK_PREFIX)]
    of_rank = [line for line in of_ranks if line.startswith(f"{RANK_PREFIX}{rank}]")]
    lines = of_rank or of_ranks or outcome.tail
    return Failure(failure_class=kind, reason=reason, rank=rank, log_tail=lines[-TAIL:])
