"""The executor behind `executor: scaleproof-slurm`: each job of Snakemake is an sbatch, several may be one array.

Written on Snakemake's public interface for executors. In a job runs one Snakemake, which runs the rule's command.
"""

import os
import subprocess
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from scaleproof.driver.job_environment import job_environment, secrets
from scaleproof.driver.slurm_arrays import arrays, script
from scaleproof.driver.slurm_bad_nodes import BadNodes
from scaleproof.driver.slurm_request import sbatch_options
from scaleproof.driver.slurm_states import COMPLETED, FAILED, MEMORY, UNKNOWN, JobState, in_words, job_states
from scaleproof.driver.slurm_test_only import in_its_words
from scaleproof.measure.machine.slurm import describe, rows, run_command

LOGS = Path("results/slurm-logs")
NAME = "scaleproof-"  # with which the names of jobs begin


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Options of `snakemake`, each with --scaleproof-slurm- before its name."""

    array_jobs: str = field(
        default="",
        metadata={"help": "Rules whose jobs are submitted as job arrays where they ask for the same: RULE,RULE or all"},
    )
    exclude_nodes: str = field(default="", metadata={"help": "Nodes that no job may get: NODE,NODE"})


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_envvar_declarations_to_cmd=False,  # sbatch hands them on
    auto_deploy_default_storage_provider=False,
)


class Executor(RemoteExecutor):
    """Submits jobs, hears of their ends, and cancels them."""

    def __post_init__(self) -> None:
        """Raises WorkflowError where jobs of an earlier Snakemake could still start, or publish, behind our back."""
        settings = self.workflow.executor_settings
        self._array_rules = _names(settings.array_jobs)
        self._bad_nodes = BadNodes(_names(settings.exclude_nodes))
        self._reasons: set[str] = set()
        if left := left_in_queue(Path.cwd()):
            raise WorkflowError(
                "nothing was submitted: jobs of an earlier snakemake in this folder are still queued or running; wait "
                f"for them, or end them with `scancel {' '.join(left)}`, and start again: what is finished is kept"
            )
        if withheld := secrets(os.environ):
            self.logger.info(f"not sent to compute nodes: {', '.join(withheld)}")

    def run_jobs(self, jobs: list[Any]) -> None:
        """Submit jobs that are ready."""
        for together in arrays(jobs, self._array_rules):
            for job in together:
                self.run_job_pre(job)
            self._submit(together)

    def run_job(self, job: Any) -> None:
        """Submit one job."""
        self._submit([job])

    def _submit(self, jobs: Sequence[Any]) -> None:
        """Submit `jobs`, which ask for the same, by one sbatch: several as an array."""
        first, several = jobs[0], len(jobs) > 1
        name = NAME + (first.name if several else "-".join([first.name, *map(str, getattr(first, "wildcards", ()))]))
        log = Path.cwd() / LOGS / f"{name}-{'%A_%a' if several else '%j'}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        options = sbatch_options({"tasks": 1, "cpus_per_task": first.threads} | dict(first.resources.items()))
        options += [f"--job-name={name}", f"--output={log}", f"--chdir={self.workflow.workdir_init}"]
        options += ["--no-requeue", "--export=ALL", *([f"--array=1-{len(jobs)}"] if several else [])]
        options += self._bad_nodes.exclusion(first, options)
        number, refusal = _sbatch(options, script([self.format_job_exec(job) for job in jobs]))
        if refusal is None:
            self.logger.info(f"Slurm job {number}: {name}" + (f", {len(jobs)} tasks" if several else ""))
        for task, job in enumerate(jobs, 1):
            identity = f"{number}_{task}" if several else number
            if refusal is not None:
                self.report_job_error(SubmittedJobInfo(job), msg=f"Slurm refuses it: {refusal}. ")
                continue
            self._bad_nodes.sent(identity, job)
            job_log = log.with_name(f"{name}-{identity}.log")
            self.report_job_submission(SubmittedJobInfo(job, external_jobid=identity, aux={"log": job_log}))

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report the jobs that have ended, and yield the others: all of them while the controller is away."""
        if not active_jobs:
            return
        async with self.status_rate_limiter:
            states = job_states({info.external_jobid for info in active_jobs})
        ends = {job: state for job, state in (states or {}).items() if state.name in (COMPLETED, UNKNOWN, *FAILED)}
        failures = {job: self._failure(job, state) for job, state in ends.items() if state.name in FAILED}
        # Before Snakemake sends a failed job once more, perhaps to the same node.
        self._bad_nodes.judge()
        self._say_why(states or {})
        for info in active_jobs:
            log = info.aux["log"]
            if info.external_jobid in failures:
                self.report_job_error(info, msg=failures[info.external_jobid], aux_logs=[str(log)])
            elif info.external_jobid in ends:
                if ends[info.external_jobid].name == COMPLETED:
                    log.unlink(missing_ok=True)
                self.report_job_success(info)  # Snakemake sees whether its files are there
            else:
                yield info

    def _failure(self, job: str, state: JobState) -> str:
        """What to say of a job that did not end well, in Slurm's words."""
        facts = describe(job, patience=(0,)) or {"JobState": state.name}
        self._bad_nodes.failed(job, state.name, facts)
        advice = MEMORY if state.name == "OUT_OF_MEMORY" else ""
        return f"Slurm says of job {job}: {in_words(facts)}. {advice}"

    def _say_why(self, states: dict[str, JobState]) -> None:
        """Say each reason for which jobs wait once, where it may never end."""
        for job, state in states.items():
            if state.waits_for and state.waits_for not in self._reasons:
                self._reasons.add(state.waits_for)
                self.logger.info(f"Slurm does not start job {job}: {state.waits_for}")

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """End all jobs."""
        if active_jobs:
            run_command("scancel", *(info.external_jobid for info in active_jobs))


def left_in_queue(folder: Path) -> list[str]:
    """The ids of this user's jobs that a Snakemake in `folder` has submitted and that have not ended."""
    queue, here = rows("squeue", "--me", columns=("%A", "%Z", "%j")), folder.resolve()
    return [job for job, where, name in queue if name.startswith(NAME) and Path(where).resolve() == here]


def _sbatch(options: Sequence[str], text: str) -> tuple[str, str | None]:
    """Submit the batch script `text`; return the number of the new job and None, or "" and why Slurm takes none."""
    command = ["sbatch", "--parsable", *options]
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, env=job_environment())
    except OSError as error:
        return "", str(error)
    number = done.stdout.strip().rpartition("\n")[2].partition(";")[0]  # NUMBER;CLUSTER below what a site may print
    if done.returncode or not number.isdigit():
        return "", in_its_words(done.stderr + done.stdout) or f"sbatch ended with exit code {done.returncode}"
    return number, None


def _names(text: str) -> set[str]:
    """The words of a list with commas."""
    return set(text.replace(",", " ").split())
