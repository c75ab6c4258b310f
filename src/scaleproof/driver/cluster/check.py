"""`scaleproof cluster check`: everything that a campaign needs of a cluster, tried before a campaign does."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from scaleproof.driver.cluster.profile import SnakemakeProfile
from scaleproof.driver.cluster.questions import QueueRequest, cure, describe_request, queue_requests, refusal
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


def line(verdict: Verdict) -> str:
    """A verdict for the terminal."""
    return f"OK    {verdict.evidence}" if verdict.ok else f"FAIL  {verdict.evidence}\n      {verdict.advice}"


def check(folder: Path, results: Path, loaded: LoadedCampaign | None = None) -> list[Verdict]:
    """Try the cluster with the settings of the profile in `folder`, and return a verdict on each thing that was tried.

    `results`: a folder that compute nodes are to write into. `loaded`: a campaign; Slurm is asked about its jobs, too.
    Raises UserError where there is no Slurm.
    """
    profile = SnakemakeProfile(folder)
    site, defaults = profile.site, profile.resources("train")  # faults of the profile are told without Slurm, too
    config = allocation.config()
    if not config:
        raise UserError("no Slurm here: `scontrol show config` says nothing; run this on a login node of the cluster")
    partition, account = defaults.get("slurm_partition", ""), defaults.get("slurm_account", "")
    checks = [judged(True, f"Slurm {config.get('SLURM_VERSION')}, cluster {config.get('ClusterName')}")]
    requests = queue_requests(loaded, profile) if loaded else []
    # The profile takes devices away, or no job of the campaign asks for any.
    without_devices = defaults.get("gres") == "" or (
        bool(requests) and not any(request.with_devices for request in requests)
    )
    partition_checks, count = _partition(partition, not without_devices)
    checks += partition_checks
    usable = partition_checks[0].ok
    checks += [_named(name, rules) for name, rules in profile.partitions.items() if name != partition]
    checks += _bookkeeping(profile.settings, config, account)
    if usable and requests:
        checks += _jobs(requests, profile)
        checks += _too_long(requests, profile) + _too_short(requests)
        limit = allocation.submit_limit(account, defaults.get("qos", ""), partition)
        checks.append(_queue(requests, profile.settings, limit))
    if usable:
        devices = 0 if without_devices or not partition_checks[1].ok else 1
        longest = min(allocation.minutes(nodes.longest) for nodes in _sinfo()[0] if nodes.partition == partition)
        small = JobRequest(min(2, count), devices, 1, TRIAL_MB, int(min(TRIAL_MINUTES, longest)))
        checks += try_nodes(profile.path.parent, site.resources(small), results)
    return checks


def _sinfo() -> tuple[list[Nodes], str]:
    """The nodes of all partitions, and the names of these."""
    columns = ("%R", "%a", "%D", "%l", "%G", "%c", "%m")
    rows = [Nodes(*row) for row in allocation.rows("sinfo", "--exact", columns=columns)]
    return rows, ", ".join(dict.fromkeys(row.partition for row in rows))


def _named(partition: str, rules: list[str]) -> Verdict:
    """Return whether a partition exists that set-resources of the profile names. `rules`: those whose jobs go there."""
    rows, names = _sinfo()
    who = " and ".join(rules)
    if any(nodes.partition == partition for nodes in rows):
        return judged(True, f"partition {partition}, for {who}")
    fix = f"write one of these under set-resources in profiles/slurm/profile.v9+.yaml: {names}"
    return judged(False, f'partition "{partition}" of the profile, for {who}, does not exist', fix)


def _jobs(requests: Sequence[QueueRequest], profile: SnakemakeProfile) -> list[Verdict]:
    """Return a verdict on each request of a campaign: would Slurm take it?"""
    checks = []
    for request in requests:
        reason = refusal(request, profile)
        text = f"{request.who}: {describe_request(request.resources)}"
        if reason is None:
            checks.append(judged(True, f"Slurm takes {text}"))
            continue
        partition = profile.resources(request.rule).get("slurm_partition", "")
        reasons = "; ".join([reason, *_larger_than_nodes(request, partition)])
        checks.append(judged(False, f"Slurm refuses {text}: {reasons}", cure(reason)))
    return checks


def _larger_than_nodes(request: QueueRequest, partition: str) -> list[str]:
    """Return, in words, each number of a request that is larger than what the partition has."""
    rows = [nodes for nodes in _sinfo()[0] if nodes.partition == partition]
    sent = request.resources
    of_a_node = (
        ("cores", int(sent["cpus_per_task"]), [int(nodes.cores) for nodes in rows]),
        ("MB", int(sent["mem_mb"]), [int(nodes.memory_mb) for nodes in rows]),
        ("GPUs", gpus_in(f"{sent['gres']} {sent['slurm_extra']}"), [gpus_in(nodes.devices) for nodes in rows]),
    )
    words = []
    for what, number, there in of_a_node:
        if there and number > max(there):
            words.append(f"no node has {number} {what}: {max(there)}")
    count = sum(int(nodes.number) for nodes in rows)
    if rows and request.nodes > count:
        words.append(f"the partition has {plural(count, 'node')}")
    return words


def gpus_in(text: str) -> int:
    """The number of GPUs in what Slurm writes, or is asked: gpu:4, gpu:h100:4(S:0-1), --gpus-per-node=h100:4."""
    return max((int(number) for number in re.findall(r"gpu(?:s-per-node)?[:=](?:[^\s:,(]+:)?(\d+)", text)), default=0)


def _too_long(requests: Sequence[QueueRequest], profile: SnakemakeProfile) -> list[Verdict]:
    """Return a bad verdict on each job that asks for more time than its partition gives.

    Where a cluster does not enforce that limit at submission, the job would wait forever.
    """
    limits = {nodes.partition: allocation.minutes(nodes.longest) for nodes in _sinfo()[0]}
    checks = []
    for request in requests:
        partition = profile.resources(request.rule).get("slurm_partition", "")
        limit, minutes = limits.get(partition, float("inf")), request.minutes
        if minutes > limit:
            fix = "lower resources.time_limit in the campaign, or choose another partition in the profile"
            if request.rule == "pairs":
                fix = f"its runs are one job: {fix}"
            if request.rule == "shared_job":
                fix = f"its runs are one job: write resources.minutes_per_job, {limit:g} at most, or {fix}"
            text = f"{request.who}: {minutes} minutes, partition {partition} gives at most {limit:g}"
            checks.append(judged(False, text, fix))
    return checks


def _too_short(requests: Sequence[QueueRequest]) -> list[Verdict]:
    """Jobs that get less time than their runs may take."""
    fix = "no run of this campaign is sent before that"
    return [judged(False, f"{request.who}: {request.too_short}", fix) for request in requests if request.too_short]


def _queue(requests: Sequence[QueueRequest], settings: dict[str, Any], limit: int | None) -> Verdict:
    """Return a verdict on the number of jobs that the campaign will send.

    `settings`: of the profile. `limit`: how many jobs a user may have in the queue; None: any number.
    """
    total, hours = sum(r.jobs for r in requests), sum(r.node_hours for r in requests)
    by_rule: dict[str, int] = {}
    for request in requests:
        by_rule[request.rule] = by_rule.get(request.rule, 0) + request.jobs
    parts = ", ".join(f"{integer(count)} {rule}" for rule, count in by_rule.items())
    at_once = int(settings.get("jobs") or 1)
    text = f"{plural(total, 'job')} ({parts}), at most {hours:,.3g} node hours; {at_once} in the queue at a time"
    if limit is None or at_once <= limit:
        return judged(True, text)
    return judged(False, f"{text}, but you may have {limit}", f"write `jobs: {limit}` in the profile")


def _partition(name: str, with_devices: bool) -> tuple[list[Verdict], int]:
    """Return verdicts on the trainings' partition `name`, and how many nodes it has.

    The first verdict is whether it can be used; where it exists, the second is on its devices. `with_devices`: whether
    trainings ask for any.
    """
    rows, names = _sinfo()
    own = [nodes for nodes in rows if nodes.partition == name]
    if not own:
        fix = f"write one of these in profiles/slurm/profile.v9+.yaml: {names}"
        return [judged(False, f'partition "{name}" of the profile does not exist', fix)], 0
    count = sum(int(nodes.number) for nodes in own)
    up = any(nodes.state == "up" for nodes in own)
    gres = sorted({nodes.devices for nodes in own})
    devices = any("gpu" in kinds for kinds in gres)
    longest = own[0].longest
    return [
        judged(
            up, f"partition {name}: {count} nodes, at most {longest}; there are {names}", "it is down: ask the site"
        ),
        judged(
            devices or not with_devices,
            f"devices of a node: {', '.join(gres)}" if devices else f"partition {name} has no GPUs",
            "to train on CPUs, let the campaign say `execution: {device: cpu}`, or the profile "
            "`config: {gpu_option: none}` (profiles/slurm/README.md); or choose another partition",
        ),
    ], count


def _bookkeeping(profile: dict[str, Any], config: dict[str, str], account: str) -> list[Verdict]:
    """Return verdicts on whether Snakemake hears of the end of jobs, and whether the account is one that counts.

    `profile`: its settings. `config`: of Slurm, as scontrol shows it. `account`: that jobs are charged to; "": none.
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
