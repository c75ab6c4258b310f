"""Before Snakemake submits: will it hear that a job has ended, are there jobs of an earlier one, are secrets sent?"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from scaleproof.driver.slurm_arrays import Arrays
from scaleproof.driver.slurm_bad_nodes import BadNodes
from scaleproof.driver.slurm_words import SlurmsWords
from scaleproof.ground.errors import UserError
from scaleproof.measure.machine.slurm import config, rows

NO_MEMORY = "OUT_OF_MEMORY"
REMEDY = (
    "it took more memory than it had asked for. Raise resources.memory_per_device in the campaign, or for a job that "
    "makes tokens `set-resources: {corpus_tokenise: {mem_mb: ...}}` in the profile"
)
LOOKS = 3  # the plugin trusts squeue if the cluster remembers jobs for this many intervals
SECRET = re.compile(
    r"TOKEN(?!IZERS)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE|_KEY$|_PAT$|^SSH_|^XAUTHORITY$"
)


def guard(settings: Any) -> None:
    """What must hold before the first job is submitted; `settings` are those of Snakemake's executor.

    Takes what looks like a secret out of this process' environment, all of which would go along with every job: with
    sbatch --export=ALL, and with most commands that cluster-generic may be given. Cloud executors sign their requests
    with such variables, and send none that is not named. Raises UserError where Snakemake would wait forever, as the
    plugin does without a word when sacct has nothing to say, and where jobs of an earlier Snakemake in this folder
    could still start, or publish, behind the back of this one's.
    """
    slurm = hasattr(settings, "status_command")  # else another executor than the Slurm plugin's, or a job of it
    if slurm or hasattr(settings, "submit_cmd"):
        withheld = withhold(os.environ)
        if withheld:
            print(f"not sent to compute nodes, nor given to this workflow's local steps: {', '.join(withheld)}")
    if not slurm:
        return
    interval = settings.init_seconds_before_status_checks
    reason = status_check_problem(settings.status_command, interval, min_job_age(), accounting(), has_sacct())
    if reason:
        raise UserError(f"nothing was submitted: {reason}")
    left = left_in_queue(Path.cwd())
    if left:
        one = len(left) == 1
        raise UserError(
            f"nothing was submitted: {'a job' if one else f'{len(left)} jobs'} of an earlier snakemake in this folder "
            f"{'is' if one else 'are'} still queued or running; wait for {'it' if one else 'them'}, or end "
            f"{'it' if one else 'them'} with `scancel {' '.join(left)}`, and start again: what is finished is kept"
        )
    import snakemake_executor_plugin_slurm as plugin

    bad_nodes, words = BadNodes(), SlurmsWords()

    def hear(states: States) -> None:
        words.hear(states)
        bad_nodes.hear(states)

    plugin.query_job_status = Listener(plugin.query_job_status, settings.requeue, hear)
    plugin.get_submit_command = bad_nodes.submit(plugin.get_submit_command, plugin.set_gres_string)
    plugin.Executor.report_job_submission = bad_nodes.submitted(plugin.Executor.report_job_submission)
    if getattr(settings, "array_jobs", None):
        Arrays(plugin.Executor)


States = dict[str, str]  # job id -> Slurm's state


class Listener:
    """The plugin's question after the states of its jobs, asked so that it hears of the end of each.

    With the answers as they are, version 2.8.0 waits forever in three cases. When a look at the queue fails, because
    the
    controller restarts, it drops all jobs: here it gets the states last heard. A preempted job it leaves to Slurm,
    which does not bring it back without --requeue: here it was cancelled, and is sent once more. A job that the
    cluster has
    forgotten meanwhile is never heard of again: here it is UNKNOWN, of which the plugin goes and sees whether its
    files are there.
    """

    def __init__(
        self,
        question: Callable[..., Awaitable[tuple[States | None, float | None]]],
        requeue: bool,
        hear: Callable[[States], None] = lambda states: None,
    ) -> None:
        self.question = question
        self.requeue = requeue
        self.hear = hear  # is given all states, whenever there are new ones
        self.heard = States()

    async def __call__(self, command: str, logger: Any) -> tuple[States, float | None]:
        states, seconds = await self.question(command, logger)
        if states is None:
            return dict(self.heard), 0.0
        for job in [job for job, state in states.items() if state == NO_MEMORY and self.heard.get(job) != state]:
            print(f"job {job} was ended by Slurm: {REMEDY}", file=sys.stderr)
        forgotten = dict.fromkeys(self.heard.keys() - states.keys(), "UNKNOWN")
        lost = {} if self.requeue else {job: "CANCELLED" for job, state in states.items() if state == "PREEMPTED"}
        self.heard |= states | forgotten | lost
        self.hear(states)
        return dict(self.heard), seconds


def left_in_queue(folder: Path) -> list[str]:
    """The ids of this user's jobs that a Snakemake in `folder` has submitted and that have not ended."""
    queue, here = rows("squeue", "--me", columns=("%A", "%Z", "%k")), folder.resolve()
    return [job for job, where, what in queue if what.startswith("rule_") and Path(where).resolve() == here]


def status_check_problem(
    command: str | None, interval: int, age: int | None, accounts: bool, sacct: bool
) -> str | None:
    """Why Snakemake would not hear of the end of its jobs; None where it would.

    `command`: sacct or squeue, None for the plugin's own choice; `interval`: its seconds between looks; `age`: the
    cluster's
    MinJobAge; `accounts`: whether sacct answers; `sacct`: whether it is installed, in which case the plugin prefers it.
    """
    if accounts:
        return None
    remembered = age is not None and age >= LOOKS * interval
    if command == "squeue" and remembered:
        return None
    setting = "slurm-init-seconds-before-status-checks"
    if command == "squeue":
        fits = "unknown" if age is None else f"{age} s"
        fix = f"set {setting} to {max(1, (age or 0) // LOOKS)} or less in profiles/slurm/profile.v9+.yaml"
        return (
            f"the cluster forgets a job {fits} after its end (MinJobAge), Snakemake looks every {interval} s and wants "
            f"{LOOKS * interval} s; {fix}"
        )
    if not sacct:
        return None  # the plugin then takes squeue
    return (
        'this cluster keeps no accounts (sacct: "Slurm accounting storage is disabled"), so Snakemake would wait for '
        "its "
        "jobs forever; write `slurm-status-command: squeue` in profiles/slurm/profile.v9+.yaml"
    )


def min_job_age() -> int | None:
    """Seconds for which the cluster remembers a job that has ended."""
    match = re.match(r"\d+", config().get("MinJobAge", ""))
    return int(match[0]) if match else None


def has_sacct() -> bool:
    return shutil.which("sacct") is not None


def accounting() -> bool:
    """Whether sacct answers."""
    try:
        return subprocess.run(["sacct", "-n", "-X", "-j", "1"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def withhold(environment: MutableMapping[str, str]) -> list[str]:
    """Remove the variables whose names look like secrets; returns the names."""
    names = sorted(name for name in environment if SECRET.search(name.upper()))
    for name in names:
        del environment[name]
    return names
