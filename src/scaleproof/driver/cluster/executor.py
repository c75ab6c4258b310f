"""The executor behind `executor: scaleproof`: each job of Snakemake goes to a scheduler, several may be one array.

Written on Snakemake's public interface for executors. In a job runs one Snakemake, which runs the rule's command.
"""

import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import ApiError, WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase
from snakemake_interface_executor_plugins.utils import format_cli_arg

from scaleproof.driver.cluster.arrays import batch_script, group_into_arrays
from scaleproof.driver.cluster.bad_nodes import BadNodes
from scaleproof.driver.cluster.environment import job_environment, withheld
from scaleproof.driver.cluster.ledger import Ledger, outputs_text
from scaleproof.driver.cluster.queue import Queue, faults_of_commands
from scaleproof.driver.cluster.scheduler import OVER, JobState, Refused, Scheduler, Submission
from scaleproof.driver.cluster.slurm import JOB_PREFIX, Slurm
from scaleproof.ground.files import write_atomic
from scaleproof.ground.snakemake_command import RESULTS

LOGS = RESULTS / "job-logs"
SILENT = 3  # questions for states in turn without an answer, before it is said; a single one passes


def _option(default: str | int, text: str) -> Any:
    """Declare an option of `snakemake`. `text`: its help."""
    return field(default=default, metadata={"help": text})


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Options of `snakemake`, each with --scaleproof- before its name."""

    array_jobs: str = _option("", "Rules whose jobs become job arrays where they ask for the same: RULE,RULE or all")
    exclude_nodes: str = _option("", "Nodes that no job may get: NODE,NODE")
    variables: str = _option("", "Further environment variables for jobs: NAME,PREFIX_*")
    give_up_after: int = _option(120, "Minutes after which a job is cancelled that waits for what cannot end by itself")
    same_failures: int = _option(5, "Different jobs that end alike, none well between them, before all stops; 0: never")
    submit: str = _option("", "For a queue that is no Slurm: the command that takes a script")
    status: str = _option("", "The command that prints the states of such jobs")
    cancel: str = _option("", "The command that ends such jobs")


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_envvar_declarations_to_cmd=False,  # the scheduler hands them on
    auto_deploy_default_storage_provider=False,
)


class Executor(RemoteExecutor):
    """Submits jobs, reports how they end, and cancels them."""

    def __init__(self, *arguments: Any) -> None:
        """Begin without jobs. `arguments`: those that Snakemake gives to every executor."""
        # Set before super().__init__, which begins to ask for jobs before it calls __post_init__.
        self._held: list[Sequence[Any]] = []  # jobs that the scheduler will take later
        self._stopped = ""  # the reason why no more jobs are sent; "" while jobs are sent
        super().__init__(*arguments)

    def __post_init__(self) -> None:
        """Set up scheduler, ledger and memory of bad nodes.

        Raises ApiError, which Snakemake prints without a place in our code, where there is no scheduler, or where jobs
        of an earlier Snakemake could still start, or publish, beside this one's.
        """
        settings = self.workflow.executor_settings
        variables = _split_names(settings.variables)
        self._settings = settings
        self._array_rules = _split_names(settings.array_jobs)
        self._scheduler = _make_scheduler(settings, variables)
        if reason := self._scheduler.why_absent():
            advice = "start snakemake on a login node of the cluster, or without --profile for this machine"
            raise ApiError(f"nothing was submitted: there is no {self._scheduler.name} here ({reason}); {advice}")
        self._ledger = Ledger(RESULTS)
        self._bad_nodes = BadNodes(self._scheduler, _split_names(settings.exclude_nodes), RESULTS)
        self._first_refused: dict[str, float] = {}  # outputs of a refused job -> time, by the monotonic clock
        self._stuck_since: dict[str, float] = {}  # job whose reason to wait cannot end by itself -> time
        self._not_again: dict[str, str] = {}  # outputs of a job -> reason why the job is not sent once more
        self._ends: list[tuple[str, str]] = []  # (kind of end, outputs) of the jobs that failed since a job ended well
        self._unanswered = 0  # questions for states, since one was answered
        self._logged_keys: set[str] = set()  # keys of messages that are not repeated
        if left := jobs_left(self._scheduler, self._ledger, Path.cwd()):
            command = f"{self._scheduler.cancel_command} {' '.join(left)}"
            fault = "jobs of an earlier snakemake in this folder are still queued or running"
            advice = f"wait for them, or end them with `{command}`, and start again: what is finished is kept"
            raise ApiError(f"nothing was submitted: {fault}; {advice}")
        if names := withheld(variables):
            self.logger.info(f"not sent to compute nodes (docs/cluster.md): {', '.join(names)}")

    def run_jobs(self, jobs: list[Any]) -> None:
        """Submit jobs that are ready."""
        for group in group_into_arrays(jobs, self._array_rules):
            for job in group:
                self.run_job_pre(job)
            self._send(group)

    def run_job(self, job: Any) -> None:
        self._send([job])

    def _send(self, jobs: Sequence[Any]) -> None:
        """Submit `jobs` of equal resources together, hold them back while the scheduler takes no more, or fail them."""
        if self._stopped:
            self._report_unsent(jobs, self._stopped)
        # A retry by Snakemake of what would fail again. It is the only one of `jobs`: no array has retries.
        elif outputs_text(jobs[0]) in self._not_again:
            for job in jobs:
                self.workflow.scheduler.error_callback(job)
        elif self._held:
            self._held.append(jobs)
        else:
            self._submit(jobs)

    def _submit(self, jobs: Sequence[Any]) -> None:
        """Submit `jobs`, several as an array. Refused jobs are held back if the refusal may pass, else they fail."""
        submission = self._make_submission(jobs)
        try:
            number = self._scheduler.submit(submission)
        except Refused as refused:
            if self._may_pass(jobs, refused):
                self._log_once(f"{self._scheduler.name} takes no more jobs now, others wait here: {refused.words}")
                half = len(jobs) // 2 if refused.too_many else 0  # an array above the limit is sent as two
                self._held += [part for part in (jobs[:half], jobs[half:]) if part]
            else:
                reason = f"{self._scheduler.name} refuses it: {refused.words}"
                self._not_again |= dict.fromkeys(map(outputs_text, jobs), reason)
                self._ends += [(refused.words, outputs_text(job)) for job in jobs]
                self._report_unsent(jobs, reason)
                self._stop_where_all_end_alike()
            return

        is_array = len(jobs) > 1
        tasks = f", {len(jobs)} tasks" if is_array else ""
        self.logger.info(f"{self._scheduler.name} job {number}: {submission.name}{tasks}")
        for task, job in enumerate(jobs, 1):
            identity = f"{number}_{task}" if is_array else number
            self._ledger.note_submitted(identity, job)
            self._bad_nodes.note_submitted(identity, job)
            log = LOGS.absolute() / f"{submission.name}-{identity}.log"
            self.report_job_submission(SubmittedJobInfo(job, external_jobid=identity, aux={"log": log}))
        if self._stopped:  # the other thread has stopped all meanwhile
            self.cancel_jobs([])

    def get_job_args(self, job: Any) -> str:
        """Return the arguments of a job's Snakemake, which waits for no folder: its script may be sent later."""
        wait = format_cli_arg("--wait-for-files", list(job.get_wait_for_files()))
        return f"{super(RemoteExecutor, self).get_job_args(job)} {wait}"

    def _make_submission(self, jobs: Sequence[Any]) -> Submission:
        """Return the submission of `jobs`, and write its script into the logs, where people can read it."""
        first, is_array = jobs[0], len(jobs) > 1
        full_name = JOB_PREFIX + "-".join([first.name, *map(str, getattr(first, "wildcards", ()))])
        file = LOGS.absolute() / f"{full_name}{'-array' if is_array else ''}.sh"
        LOGS.mkdir(parents=True, exist_ok=True)
        write_atomic(file, batch_script([self.format_job_exec(job) for job in jobs]))
        name = JOB_PREFIX + first.name if is_array else full_name
        submission = Submission(
            name=name,
            script=file,
            log=LOGS.absolute() / f"{name}-{'%A_%a' if is_array else '%j'}.log",  # Slurm puts in ARRAY_TASK, or JOB
            folder=Path(self.workflow.workdir_init),
            resources={"tasks": 1, "cpus_per_task": first.threads} | dict(first.resources.items()),
            tasks=len(jobs),
        )
        return replace(submission, excluded=self._bad_nodes.excluded_for(first, submission))

    def _may_pass(self, jobs: Sequence[Any], refused: Refused) -> bool:
        """Return whether to try refused jobs again: the cause may pass, and has not lasted for too long."""
        if not refused.passing:
            return False
        since = self._first_refused.setdefault(outputs_text(jobs[0]), time.monotonic())
        own_jobs_may_make_room = bool(self._ledger.open)
        return own_jobs_may_make_room or not self._is_too_long_ago(since)

    def _is_too_long_ago(self, since: float) -> bool:
        """Return whether `give_up_after` has passed since a time of the monotonic clock."""
        return time.monotonic() - since >= 60 * self._settings.give_up_after

    def _report_unsent(self, jobs: Sequence[Any], reason: str) -> None:
        """Tell Snakemake that `jobs` have failed, because they are not sent."""
        for job in jobs:
            self.report_job_error(SubmittedJobInfo(job), msg=f"{reason}. ")

    async def check_active_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report the jobs that have ended, and yield the others; all of them if the scheduler does not answer.

        Any error becomes a WorkflowError, and no more jobs are sent: otherwise Snakemake would wait forever for this
        generator.
        """
        try:
            async for info in self._running_jobs(active_jobs):
                yield info
        except WorkflowError:
            raise
        except Exception as error:
            fault = f"a look at the jobs failed ({type(error).__name__}: {error})"
            self._stopped = f"stopped: {fault}. Those that were sent go on; the next call knows them"
            raise WorkflowError(self._stopped) from error

    async def _running_jobs(self, active_jobs: list[SubmittedJobInfo]) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Send the jobs that were held back, report the jobs that have ended, and yield the others."""
        held, self._held = self._held, []
        for jobs in held:
            self._send(jobs)  # once the scheduler refuses one submission, the next ones are held at once
        if not active_jobs:  # no states to ask for
            return

        async with self.status_rate_limiter:
            answer = self._scheduler.states({info.external_jobid for info in active_jobs})
        self._say_silence(answer is not None)
        states = answer or {}
        self._cancel_stuck_jobs(states)
        failures = {}  # job -> message
        for info in active_jobs:
            state = states.get(info.external_jobid)
            if state and state.phase in ("failed", "cancelled"):
                failures[info.external_jobid] = self._note_failure(info, state)
        # Nodes are judged before Snakemake sends a failed job once more, perhaps to the same node.
        self._bad_nodes.judge()

        for info in active_jobs:
            number, log = info.external_jobid, info.aux["log"]
            state = states.get(number)
            if number in failures:
                self.report_job_error(info, msg=failures[number], aux_logs=[str(log)])
            elif state and state.phase in OVER:
                self._ledger.note_ended(number, state.name)
                if state.phase == "done":
                    self._ends.clear()  # a job ended well: the failures before it do not count any more
                    log.unlink(missing_ok=True)
                self.report_job_success(info)  # Snakemake sees whether its files are there
            else:
                yield info
        self._stop_where_all_end_alike()

    def _say_silence(self, has_answered: bool) -> None:
        """Log, once for each time of silence, that the scheduler does not answer and that its jobs are waited for."""
        self._unanswered = 0 if has_answered else self._unanswered + 1
        if self._unanswered == SILENT:
            reason = self._scheduler.why_silent()
            fault = f"{self._scheduler.name} did not answer {SILENT} times in turn{reason and f' ({reason})'}"
            self.logger.warning(f"{fault}; its jobs are still waited for, and it is asked again")

    def _note_failure(self, info: SubmittedJobInfo, state: JobState) -> str:
        """Note the end of a job that did not end well, and return a message on it in the scheduler's words."""
        number, outputs = info.external_jobid, outputs_text(info.job)
        end = self._scheduler.end_of(number, state, info.aux["log"])
        self._bad_nodes.note_failed(number, state.name, end)
        # A job that was cancelled here has its reason already.
        words = self._not_again.get(outputs) or f"{self._scheduler.name} says of job {number}: {end.words}"
        if end.by_hand and outputs not in self._not_again:
            words += "; it was cancelled, and this snakemake does not send it again"
        if end.by_hand or end.advice:  # the same request would end in the same way
            self._not_again[outputs] = words
        if end.kind:
            self._ends.append((end.kind, outputs))
        self._ledger.note_ended(number, state.name, end.words)
        return f"{words}. {end.advice}"

    def _cancel_stuck_jobs(self, states: dict[str, JobState]) -> None:
        """Log why jobs do not start, each reason once, and cancel jobs that wait too long.

        A job waits too long for a reason that cannot end by itself. Its state in `states` becomes cancelled.
        """
        for job, state in states.items():
            if state.phase == "waiting" and state.reason:
                self._log_once(f"{self._scheduler.name} does not start job {job}: {state.reason}", state.reason)
            since = self._stuck_since.setdefault(job, time.monotonic()) if state.for_ever else None
            if since is not None and self._is_too_long_ago(since):
                words = f"{self._scheduler.name} did not start job {job} in {self._settings.give_up_after} minutes"
                self._not_again[self._ledger.outputs_of(job)] = f"{words}: {state.reason}; it was cancelled"
                self._scheduler.cancel([job])
                states[job] = replace(state, name="CANCELLED", phase="cancelled")

    def _stop_where_all_end_alike(self) -> None:
        """Cancel all and raise WorkflowError once `same_failures` different jobs in turn have ended alike."""
        limit = self._settings.same_failures
        kind = self._ends[-1][0] if self._ends else ""
        alike = {outputs for _, outputs in takewhile(lambda end: end[0] == kind, reversed(self._ends))}
        if limit and len(alike) >= limit:
            fault = f"{limit} jobs in turn have ended alike ({kind}), and none well. Their logs are in {LOGS}/"
            advice = "what is finished is kept; --scaleproof-same-failures changes this number"
            self._stopped = f"stopped: {fault}, {advice}"
            self.cancel_jobs([])
            raise WorkflowError(self._stopped)

    def _log_once(self, text: str, key: str = "") -> None:
        """Log a message, unless a message with the same key was logged before. `key`: "" for the text itself."""
        if (key or text) not in self._logged_keys:
            self._logged_keys.add(key or text)
            self.logger.info(text)

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """End `active_jobs` and all others that have not ended: Snakemake lists none while it asks for states."""
        self._held.clear()
        if numbers := sorted({*self._ledger.open, *(info.external_jobid for info in active_jobs)}):
            self._scheduler.cancel(numbers)
            for number in numbers:
                self._ledger.note_ended(number, "CANCELLED", "snakemake was stopped")


def jobs_left(scheduler: Scheduler, ledger: Ledger, folder: Path) -> list[str]:
    """Return the jobs of an earlier Snakemake in `folder` that have not ended. The ledger gets the ends of the others.

    Raises ApiError where the scheduler does not answer.
    """
    earlier = set(ledger.open)
    states = scheduler.states(earlier) if earlier else {}
    if states is None:
        jobs = ", ".join(sorted(earlier))
        fault = f"{scheduler.name} does not answer, and an earlier snakemake has sent jobs from this folder: {jobs}"
        raise ApiError(f"nothing was submitted: {fault}; start again when it does")
    for job, state in states.items():
        if state.phase in OVER:
            ledger.note_ended(job, state.name)
    left = {job.partition("_")[0] for job in ledger.open}  # the number of an array stands for its tasks
    return sorted({*left, *scheduler.left_in(folder)})


def _make_scheduler(settings: ExecutorSettings, variables: set[str]) -> Scheduler:
    """Return the scheduler of the settings. Raises ApiError where one of a queue's three commands is not there."""
    environment = partial(job_environment, variables)
    commands = {name: getattr(settings, name) for name in ("submit", "status", "cancel")}
    missing = [f"scaleproof-{name}" for name, command in commands.items() if not command]
    if len(missing) == len(commands):
        return Slurm(environment)
    if missing:
        options = "scaleproof-submit, scaleproof-status and scaleproof-cancel"
        raise ApiError(f"the profile has no {' and no '.join(missing)}; a queue needs three commands: {options}")
    if faults := faults_of_commands({f"scaleproof-{name}": command for name, command in commands.items()}):
        raise ApiError("; ".join(faults))
    return Queue(settings.submit, settings.status, settings.cancel, environment)


def _split_names(text: str) -> set[str]:
    return set(text.replace(",", " ").split())
