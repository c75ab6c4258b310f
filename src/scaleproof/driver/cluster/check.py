"""`scaleproof cluster check`: everything that a campaign needs of a cluster, tried before a campaign does."""

import re
import shutil
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
from scaleproof.driver.cluster.request import JobRequest
from scaleproof.driver.cluster.trial import try_nodes
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.number_format import integer
from scaleproof.ground.verdict import Verdict, judged
from scaleproof.measure.machine import allocation

TRIAL_MINUTES, TRIAL_MB = 5, 4000  # that the job of a trial asks for


class Nodes(NamedTuple):
    """Equal nodes of a partition, as sinfo has them."""

    partition: str
    state: str  # of the partition: up, or not
    number: str
    longest: str  # time of a job
    devices: str  # gpu:h100:4
    cores: str
    memory_mb: str

    @property
    def minutes(self) -> float:
        """The longest time of a job on these nodes, in minutes; infinity without a limit."""
        return allocation.limit_minutes(self.longest)

    @property
    def gpus(self) -> int:
        """How many GPUs a node has."""
        return gpus_in(self.devices)


def verdict_text(verdict: Verdict) -> str:
    """Return a verdict as the terminal shows it, with what to do where it is bad."""
    return f"OK    {verdict.evidence}" if verdict.ok else f"FAIL  {verdict.evidence}\n      {verdict.advice}"


def check_cluster(folder: Path, results: Path, loaded: LoadedCampaign | None = None) -> list[Verdict]:
    """Try the cluster with the settings of the profile in `folder`; return a verdict on each thing that was tried.

    These are Slurm, partitions, accounting, each job of the campaign `loaded` (if given), and a small job whose nodes
    write into `results`. Raises UserError where there is no Slurm; it lists the jobs that would have been sent.
    """
    profile = SnakemakeProfile(folder)
    site = profile.site  # faults of the profile are told without Slurm, too
    defaults = profile.resources("train")
    requests = queue_requests(loaded, profile) if loaded else []
    config = allocation.ask_slurm_config()
    if not config:
        says_nothing = shutil.which("scontrol") is not None
        why = "`scontrol show config` fails, or says nothing within 20 s" if says_nothing else "there is no `scontrol`"
        raise UserError(
            f"no Slurm here: {why}; run this on a login node of the cluster"
            + "".join(f"\n  {job_text(request, profile)}" for request in requests)
        )
    partition, account = defaults.get("slurm_partition", ""), defaults.get("slurm_account", "")
    checks = [judged(True, f"Slurm {config.get('SLURM_VERSION')}, cluster {config.get('ClusterName')}")]
    profile_takes_devices_away = defaults.get("gres") == ""
    asks_for_devices = not requests or any(request.with_devices for request in requests)
    with_devices = asks_for_devices and not profile_takes_devices_away
    partitions = _nodes_by_partition()
    own = partitions.get(partition, [])
    others = {name: rules for name, rules in profile.partitions.items() if name != partition}
    checks += _judge_training_partition(partition, partitions, with_devices)
    checks += [_judge_named_partition(name, rules, partitions) for name, rules in others.items()]
    checks += _judge_job_records(profile.settings, config, account)
    if not any(nodes.state == "up" for nodes in own):
        return checks
    for request in requests:
        if profile.resources(request.rule).get("slurm_partition", "") in partitions:  # else it was named above
            checks += _judge_job(request, profile, partitions)
    if requests:
        limit = allocation.ask_submit_limit(account, defaults.get("qos", ""), partition)
        checks.append(_judge_number_of_jobs(requests, profile.settings, limit))
    return checks + try_nodes(profile.path.parent, site.resources(_trial_request(own, with_devices)), results)


def _trial_request(partition: list[Nodes], with_devices: bool) -> JobRequest:
    """Return the request of a trial's job: two nodes of a partition if it has them, a GPU on each if it has any."""
    nodes = min(2, sum(int(nodes.number) for nodes in partition))
    devices = int(with_devices and any(nodes.gpus for nodes in partition))
    minutes = int(min(TRIAL_MINUTES, *(nodes.minutes for nodes in partition)))
    return JobRequest(nodes, devices, 1, TRIAL_MB, minutes)


def _nodes_by_partition() -> dict[str, list[Nodes]]:
    """Return partition -> its groups of equal nodes, as sinfo lists them: a column for each field of Nodes."""
    partitions: dict[str, list[Nodes]] = {}
    for row in allocation.ask_for_table("sinfo", "--exact", columns=("%R", "%a", "%D", "%l", "%G", "%c", "%m")):
        nodes = Nodes(*row)
        partitions.setdefault(nodes.partition, []).append(nodes)
    return partitions


def _judge_named_partition(name: str, rules: list[str], partitions: Mapping[str, list[Nodes]]) -> Verdict:
    """Judge whether the partition exists that the profile's set-resources names for `rules`."""
    who = " and ".join(rules)
    if name in partitions:
        return judged(True, f"partition {name}, for {who}")
    fix = f"write one of these under set-resources in profiles/slurm/profile.v9+.yaml: {', '.join(partitions)}"
    return judged(False, f'partition "{name}" of the profile, for {who}, does not exist', fix)


def _judge_job(
    request: QueueRequest, profile: SnakemakeProfile, partitions: Mapping[str, list[Nodes]]
) -> list[Verdict]:
    """Judge a job of a campaign: would Slurm accept it, and is its time within the partition's, and enough for runs?

    The partition's limit is compared here as well: some clusters accept a longer job, which then waits forever.
    """
    name = profile.resources(request.rule).get("slurm_partition", "")
    there = partitions.get(name, [])
    text, reason = f"{request.who}: {describe_request(request.resources)}", ask_why_refused(request, profile)
    if reason is None:
        checks = [judged(True, f"Slurm takes {text}")]
    else:
        reasons = "; ".join([reason, *_excesses_over_nodes(request, there)])
        checks = [judged(False, f"Slurm refuses {text}: {reasons}", cure_for(reason))]
    limit = max((nodes.minutes for nodes in there), default=float("inf"))
    if request.minutes > limit:
        fix = "lower resources.time_limit in the campaign, or choose another partition in the profile"
        if request.rule == "pairs":
            fix = f"its runs are one job: {fix}"
        if request.rule == "shared_job":
            fix = f"its runs are one job: write resources.minutes_per_job, {limit:g} at most, or {fix}"
        text = f"{request.who}: {request.minutes} minutes, partition {name} gives at most {limit:g}"
        checks.append(judged(False, text, fix))
    if request.too_short:
        fix = "no run of this campaign is sent before that"
        checks.append(judged(False, f"{request.who}: {request.too_short}", fix))
    return checks


def _excesses_over_nodes(request: QueueRequest, there: Sequence[Nodes]) -> list[str]:
    """Return, in words, each number of a request that is larger than what the nodes of its partition have."""
    sent = request.resources
    of_a_node = (
        ("cores", int(sent["cpus_per_task"]), [int(nodes.cores) for nodes in there]),
        ("MB", int(sent["mem_mb"]), [int(nodes.memory_mb) for nodes in there]),
        ("GPUs", gpus_in(f"{sent['gres']} {sent['slurm_extra']}"), [nodes.gpus for nodes in there]),
    )
    words = []
    for what, number, numbers in of_a_node:
        if numbers and number > max(numbers):
            words.append(f"no node has {number} {what}: {max(numbers)}")
    count = sum(int(nodes.number) for nodes in there)
    if there and request.nodes > count:
        words.append(f"the partition has {plural(count, 'node')}")
    return words


def gpus_in(text: str) -> int:
    """Return the GPUs in what Slurm writes, or is asked: gpu, gpu:4, gpu:h100:4(S:0-1), --gpus-per-node=h100:4."""
    numbers = re.findall(r"gpu(?:s-per-node)?[:=](?:[^\s:,(]+:)?(\d+)", text)
    return max(map(int, numbers), default=int("gpu" in text))


def _judge_number_of_jobs(requests: Sequence[QueueRequest], settings: dict[str, Any], limit: int | None) -> Verdict:
    """Judge whether the user may have as many jobs in the queue as the profile sends.

    `settings`: of the profile. `limit`: jobs that a user may have in the queue (None: any number).
    """
    total, hours = sum(r.jobs for r in requests), sum(r.node_hours for r in requests)
    by_rule: Counter[str] = Counter()
    for request in requests:
        by_rule[request.rule] += request.jobs
    parts = ", ".join(f"{integer(count)} {rule}" for rule, count in by_rule.items())
    at_once = int(settings.get("jobs") or 1)
    text = f"{plural(total, 'job')} ({parts}), at most {hours:,.3g} node hours; {at_once} in the queue at a time"
    if limit is None or at_once <= limit:
        return judged(True, text)
    return judged(False, f"{text}, but you may have {limit}", f"write `jobs: {limit}` in the profile")


def _judge_training_partition(name: str, partitions: Mapping[str, list[Nodes]], with_devices: bool) -> list[Verdict]:
    """Judge the trainings' partition: is it up, and has it GPUs if trainings ask for them?"""
    names, own = ", ".join(partitions), partitions.get(name)
    if not own:
        fix = f"write one of these in profiles/slurm/profile.v9+.yaml: {names}"
        return [judged(False, f'partition "{name}" of the profile does not exist', fix)]
    count = sum(int(nodes.number) for nodes in own)
    text = f"partition {name}: {count} nodes, at most {own[0].longest}; there are {names}"
    devices = ", ".join(sorted({nodes.devices for nodes in own}))  # in Slurm's words: gpu:h100:4
    has_gpus = any(nodes.gpus for nodes in own)
    return [
        judged(any(nodes.state == "up" for nodes in own), text, "it is down: ask the site"),
        judged(
            has_gpus or not with_devices,
            f"devices of a node: {devices}" if has_gpus else f"partition {name} has no GPUs",
            "to train on CPUs, let the campaign say `execution: {device: cpu}`, or the profile "
            "`config: {gpu_option: none}` (profiles/slurm/README.md); or choose another partition",
        ),
    ]


def _judge_job_records(profile: dict[str, Any], config: dict[str, str], account: str) -> list[Verdict]:
    """Judge whether Snakemake learns how jobs end before Slurm forgets them, and whether `account` is charged at all.

    `profile`: its settings. `config`: Slurm's, from `scontrol show config`. `account`: "" where jobs name none.
    """
    interval = int(profile.get("seconds-between-status-checks", 10))
    accounts = bool(allocation.run_command("sacct", "--allocations", "--jobs=1"))  # a heading at least
    age = int((re.match(r"\d+", config.get("MinJobAge", "")) or "0")[0])
    # A job that ended right after a look must still be there at the next one, which may be late.
    heard = accounts or age >= 2 * interval
    text = "sacct answers" if accounts else "no accounting (sacct does not answer)"
    text += f"; Snakemake looks every {interval} s; MinJobAge {config.get('MinJobAge')}"
    fix = (
        "the cluster may forget how a job ended before Snakemake looks: set seconds-between-status-checks to "
        f"{max(1, age // 2)} or less in profiles/slurm/profile.v9+.yaml"
    )
    checks = [judged(heard, text, fix)]
    if account and not accounts:
        checks.append(judged(False, f"account {account} on a cluster without accounting", "remove slurm_account"))
    return checks
