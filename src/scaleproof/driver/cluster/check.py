"""`scaleproof cluster check`: everything that a campaign needs of a cluster, tried before a campaign does."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scaleproof.driver.cluster.profile import SnakemakeProfile
from scaleproof.driver.cluster.questions import (
    QueueRequest,
    ask_why_refused,
    cure_for,
    describe_request,
    job_text,
    queue_requests,
)
from scaleproof.driver.cluster.queue import faults_of_commands
from scaleproof.driver.cluster.request import JobRequest
from scaleproof.driver.cluster.scheduler import NOT_STARTED, run_scheduler_command
from scaleproof.driver.cluster.slurm import join_error_lines
from scaleproof.driver.cluster.trial import try_nodes
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.number_format import integer
from scaleproof.ground.records.grouping import group_by
from scaleproof.ground.verdict import Verdict, judged
from scaleproof.measure.machine import allocation

DEFAULT = Path("profiles/default")  # which Snakemake reads beside the one that is named
OF_SLURM = ("scaleproof", "slurm", "local", None)  # executors; the last two are of other options
COMMANDS_OF_QUEUE = ("scaleproof-submit", "scaleproof-status", "scaleproof-cancel")
TRIAL_MINUTES, TRIAL_MB = 5, 4000  # for which the job of a trial asks
WORDS_S = 2  # by then a Slurm that is not there has said why


class Nodes(NamedTuple):
    """Equal nodes of a partition, in the words of sinfo."""

    partition: str
    state: str  # of the partition: up, or not
    number: str  # of nodes
    longest: str  # time limit of a job
    devices: str  # gpu:h100:4
    cores: str
    memory_mb: str

    @property
    def minutes(self) -> float:
        """The time limit of a job on these nodes, in minutes; infinity without a limit."""
        return allocation.limit_minutes(self.longest)

    @property
    def gpus(self) -> int:
        return gpus_in(self.devices)


def verdict_text(verdict: Verdict) -> str:
    """Return a verdict as the terminal shows it. A bad verdict has advice."""
    return f"OK    {verdict.evidence}" if verdict.ok else f"FAIL  {verdict.evidence}\n      {verdict.advice}"


def check_cluster(folder: Path, results: Path, loaded: LoadedCampaign | None = None) -> list[Verdict]:
    """Try the cluster with the settings of the profile in `folder`. Returns a verdict on each thing that was tried.

    Tried are Slurm, partitions, accounting, each job of the campaign `loaded` (if given), and a small job whose nodes
    write into `results`. Raises UserError where there is no Slurm, with a list of the jobs that would have been sent.
    """
    profile = SnakemakeProfile(folder)
    site = profile.site  # raises UserError for faults of the profile, without Slurm too
    executor = profile.settings.get("executor")
    sends_to_slurm = site.scheduler == "slurm" and executor in OF_SLURM
    is_known = sends_to_slurm or (site.scheduler == "queue" and "scaleproof-submit" in profile.settings)
    requests = queue_requests(loaded, profile) if loaded and is_known else []
    if not sends_to_slurm:
        other = f"executor: {executor}, config: {{scheduler: {site.scheduler}}}"
        jobs = "".join(job_text(request, profile) for request in requests)
        # Programs of the queue may be elsewhere; those that the profile names by a path are files here.
        commands = {name: str(line) for name, line in profile.settings.items() if name in COMMANDS_OF_QUEUE}
        paths = {name: line for name, line in commands.items() if "/" in line.partition(" ")[0]}
        faults = "".join(f"\n  {fault}" for fault in faults_of_commands(paths))
        raise UserError(f"{profile.path} sends no job to Slurm, which is what is checked ({other}){jobs}{faults}")
    defaults = profile.resources("train")
    config = allocation.ask_slurm_config()
    if not config:
        code, _, errors = run_scheduler_command(["scontrol", "show", "config"], os.environ, WORDS_S)
        words = join_error_lines(errors) or (
            f"it ended with exit code {code}" if code else "it printed no NAME = VALUE"
        )
        reason = "there is no `scontrol`" if code == NOT_STARTED else f"`scontrol show config`: {words}"
        jobs = "".join(job_text(request, profile) for request in requests)
        raise UserError(f"no Slurm here: {reason}; run this on a login node of the cluster{jobs}")

    partition, account = defaults.get("slurm_partition", ""), defaults.get("slurm_account", "")
    verdicts = [judged(True, f"Slurm {config.get('SLURM_VERSION')}, cluster {config.get('ClusterName')}")]
    verdicts += _judge_default_profile(profile)
    profile_takes_devices_away = defaults.get("gres") == ""
    asks_for_devices = not requests or any(request.with_devices for request in requests)
    with_devices = asks_for_devices and not profile_takes_devices_away
    partitions = _nodes_by_partition()
    training_nodes = partitions.get(partition, [])
    verdicts += _judge_training_partition(partition, partitions, with_devices)
    others = {name: rules for name, rules in profile.partitions.items() if name != partition}
    verdicts += [_judge_named_partition(name, rules, partitions) for name, rules in others.items()]
    verdicts += _judge_job_records(profile.settings, config, account)
    if not any(nodes.state == "up" for nodes in training_nodes):
        return verdicts  # no job would start: neither those of the campaign nor a trial are judged

    for request in requests:
        # A partition that does not exist has its verdict already.
        if profile.resources(request.rule).get("slurm_partition", "") in partitions:
            verdicts += _judge_job(request, profile, partitions)
    if requests:
        limit = allocation.ask_submit_limit(account, defaults.get("qos", ""), partition)
        verdicts.append(_judge_number_of_jobs(requests, profile.settings, limit))
    trial_resources = site.resources(_trial_request(training_nodes, with_devices))
    return verdicts + try_nodes(profile.path.parent, trial_resources, results)


def _judge_default_profile(profile: SnakemakeProfile) -> list[Verdict]:
    """Judge the keys to which the workflow's own profile, which wins without a word, gives another value."""
    if not DEFAULT.is_dir():
        return []
    default = SnakemakeProfile(DEFAULT)
    return [
        judged(
            False,
            f"{key}: {value} has no effect: {default.path} says {default.settings[key]}, and wins",
            f"change it there, and take it out of {profile.path}",
        )
        for key, value in profile.settings.items()
        if default.settings.get(key, value) != value
    ]


def _trial_request(partition: list[Nodes], with_devices: bool) -> JobRequest:
    """Return a trial job's request: two nodes of `partition` if it has two, and `with_devices` a GPU on each if any."""
    n_nodes = min(2, sum(int(nodes.number) for nodes in partition))
    devices = int(with_devices and any(nodes.gpus for nodes in partition))
    minutes = int(min(TRIAL_MINUTES, *(nodes.minutes for nodes in partition)))
    return JobRequest(n_nodes, devices, cores=1, memory_mb=TRIAL_MB, minutes=minutes)


def _nodes_by_partition() -> dict[str, list[Nodes]]:
    """Return partition -> its groups of equal nodes. sinfo prints a column for each field of Nodes."""
    table = allocation.ask_for_table("sinfo", "--exact", columns=("%R", "%a", "%D", "%l", "%G", "%c", "%m"))
    return group_by([Nodes(*row) for row in table], lambda nodes: nodes.partition)


def _judge_named_partition(name: str, rules: list[str], partitions: Mapping[str, list[Nodes]]) -> Verdict:
    """Judge whether a partition exists that the profile's set-resources names for `rules`."""
    rule_names = " and ".join(rules)
    if name in partitions:
        return judged(True, f"partition {name}, for {rule_names}")
    advice = f"write one of these under set-resources in profiles/slurm/profile.v9+.yaml: {', '.join(partitions)}"
    return judged(False, f'partition "{name}" of the profile, for {rule_names}, does not exist', advice)


def _judge_job(
    request: QueueRequest, profile: SnakemakeProfile, partitions: Mapping[str, list[Nodes]]
) -> list[Verdict]:
    """Judge whether Slurm accepts a campaign's job, the partition allows its time, and that is enough for runs.

    The partition's limit is compared here as well: some clusters accept a longer job, which then waits forever.
    """
    name = profile.resources(request.rule).get("slurm_partition", "")
    partition = partitions.get(name, [])
    job = f"{request.who}: {describe_request(request.resources)}"
    reason = ask_why_refused(request, profile)
    if reason is None:
        verdicts = [judged(True, f"Slurm takes {job}")]
    else:
        reasons = "; ".join([reason, *_excesses_over_nodes(request, partition)])
        verdicts = [judged(False, f"Slurm refuses {job}: {reasons}", cure_for(reason))]

    limit = max((nodes.minutes for nodes in partition), default=float("inf"))
    if request.minutes > limit:
        advice = "lower resources.time_limit in the campaign, or choose another partition in the profile"
        if request.rule == "pairs":
            advice = f"its runs are one job: {advice}"
        if request.rule == "shared_job":
            advice = f"its runs are one job: write resources.minutes_per_job, {limit:g} at most, or {advice}"
        fault = f"{request.who}: {request.minutes} minutes, partition {name} gives at most {limit:g}"
        verdicts.append(judged(False, fault, advice))
    if request.fault:
        advice = "no run of this campaign is sent before that"
        verdicts.append(judged(False, f"{request.who}: {request.fault}", advice))
    return verdicts


def _excesses_over_nodes(request: QueueRequest, partition: Sequence[Nodes]) -> list[str]:
    """Describe each number of a request that exceeds what the nodes of its partition have."""
    if not partition:
        return []
    resources = request.resources
    gpus = gpus_in(f"{resources['gres']} {resources['slurm_extra']}")  # either of the two asks for them
    comparisons = (
        ("cores", int(resources["cpus_per_task"]), max(int(nodes.cores) for nodes in partition)),
        ("MB", int(resources["mem_mb"]), max(int(nodes.memory_mb) for nodes in partition)),
        ("GPUs", gpus, max(nodes.gpus for nodes in partition)),
    )
    excesses = [f"no node has {number} {unit}: {most}" for unit, number, most in comparisons if number > most]
    n_nodes = sum(int(nodes.number) for nodes in partition)
    if request.nodes > n_nodes:
        excesses.append(f"the partition has {plural(n_nodes, 'node')}")
    return excesses


def gpus_in(text: str) -> int:
    """Return the number of GPUs in Slurm's words: gpu, gpu:4, gpu:h100:4(S:0-1), --gpus-per-node=h100:4."""
    numbers = re.findall(r"gpu(?:s-per-node)?[:=](?:[^\s:,(]+:)?(\d+)", text)
    return max(map(int, numbers), default=int("gpu" in text))  # "gpu" without a number is one


def _judge_number_of_jobs(requests: Sequence[QueueRequest], settings: dict[str, Any], limit: int | None) -> Verdict:
    """Judge whether the user may have as many jobs in the queue as the profile sends.

    `settings`: of the profile. `limit`: jobs that a user may have in the queue (None: any number).
    """
    node_hours = sum(request.node_hours for request in requests)
    jobs_by_rule: Counter[str] = Counter()
    for request in requests:
        jobs_by_rule[request.rule] += request.jobs
    rules = ", ".join(f"{integer(count)} {rule}" for rule, count in jobs_by_rule.items())
    jobs = f"{plural(jobs_by_rule.total(), 'job')} ({rules}), at most {node_hours:,.3g} node hours"
    at_once = int(settings.get("jobs") or 1)
    text = f"{jobs}; {at_once} in the queue at a time"
    if limit is None or at_once <= limit:
        return judged(True, text)
    return judged(False, f"{text}, but you may have {limit}", f"write `jobs: {limit}` in the profile")


def _judge_training_partition(name: str, partitions: Mapping[str, list[Nodes]], with_devices: bool) -> list[Verdict]:
    """Judge the trainings' partition `name`: is it up, and has it GPUs if trainings ask for them (`with_devices`)?"""
    names, partition = ", ".join(partitions), partitions.get(name)
    if not partition:
        advice = f"write one of these in profiles/slurm/profile.v9+.yaml: {names}"
        return [judged(False, f'partition "{name}" of the profile does not exist', advice)]
    n_nodes = sum(int(nodes.number) for nodes in partition)
    text = f"partition {name}: {n_nodes} nodes, at most {partition[0].longest}; there are {names}"
    devices = ", ".join(sorted({nodes.devices for nodes in partition}))  # in Slurm's words: gpu:h100:4
    has_gpus = any(nodes.gpus for nodes in partition)
    return [
        judged(any(nodes.state == "up" for nodes in partition), text, "it is down: ask the site"),
        judged(
            has_gpus or not with_devices,
            f"devices of a node: {devices}" if has_gpus else f"partition {name} has no GPUs",
            "to train on CPUs, let the campaign say `execution: {device: cpu}`, or the profile "
            "`config: {gpu_option: none}` (profiles/slurm/README.md); or choose another partition",
        ),
    ]


def _judge_job_records(profile: dict[str, Any], config: dict[str, str], account: str) -> list[Verdict]:
    """Judge whether Snakemake learns how jobs end before Slurm forgets them, and whether Slurm charges `account`.

    `profile`: settings of the profile. `config`: settings of Slurm, from `scontrol show config`. `account`: "" where
    jobs name none.
    """
    interval_s = int(profile.get("seconds-between-status-checks", 10))
    has_accounting = bool(allocation.run_command("sacct", "--allocations", "--jobs=1"))  # prints at least a heading
    shortest_memory = re.match(r"\d+", config.get("MinJobAge", ""))
    memory_s = int(shortest_memory[0]) if shortest_memory else 0
    forgets_none = shortest_memory is not None and not memory_s  # 0 in slurm.conf: no record is ever purged
    # A job that ended right after a look must still be known at the next look, which may be late.
    can_learn_end = has_accounting or forgets_none or memory_s >= 2 * interval_s
    accounting = "sacct answers" if has_accounting else "no accounting (sacct does not answer)"
    text = f"{accounting}; Snakemake looks every {interval_s} s; MinJobAge {config.get('MinJobAge')}"
    setting = f"set seconds-between-status-checks to {max(1, memory_s // 2)} or less in profiles/slurm/profile.v9+.yaml"
    advice = f"the cluster may forget how a job ended before Snakemake looks: {setting}"
    verdicts = [judged(can_learn_end, text, advice)]
    if account and not has_accounting:
        verdicts.append(judged(False, f"account {account} on a cluster without accounting", "remove slurm_account"))
    return verdicts
