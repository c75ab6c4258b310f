"""`scaleproof cluster check`: everything that a campaign needs of a cluster, tried before a campaign does."""

import contextlib
import json
import re
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scaleproof.driver.site import Site
from scaleproof.driver.slurm_test_only import QueueRequest, describe_request, in_its_words, queue_requests, refusal
from scaleproof.driver.snakemake_profile import SnakemakeProfile
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.number_format import integer
from scaleproof.ground.verdict import Verdict, judged
from scaleproof.measure.machine import slurm

WAIT = 120  # seconds until compute nodes must have been given, and have answered


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
    config = slurm.config()
    if not config:
        raise UserError("no Slurm here: `scontrol show config` says nothing; run this on a login node of the cluster")
    partition, account = defaults.get("slurm_partition", ""), defaults.get("slurm_account", "")
    checks = [judged(True, f"Slurm {config.get('SLURM_VERSION')}, cluster {config.get('ClusterName')}")]
    requests = queue_requests(loaded, profile) if loaded else []
    # The profile takes devices away, or no job of the campaign asks for any.
    without_devices = defaults.get("gres") == "" or (
        bool(requests) and not any(request.job.gres or "gpus" in request.job.options for request in requests)
    )
    partition_checks, count = _partition(partition, not without_devices)
    checks += partition_checks
    usable = partition_checks[0].ok
    checks += [_named(name, rules) for name, rules in profile.partitions.items() if name != partition]
    checks += _bookkeeping(profile.settings, config, account)
    if usable and requests:
        checks += _jobs(requests, profile)
        checks += _too_long(requests, profile) + _too_short(requests)
        checks.append(_queue(requests, profile.settings, slurm.submit_limit(account)))
    if usable:
        has_devices = partition_checks[1].ok
        devices = not without_devices and has_devices
        gpu = gpu_options(site, defaults.get("gres", "")) if devices else []
        checks += _nodes(partition, account, min(2, count), results, gpu)
    return checks


def gpu_options(site: Site, gres: str) -> list[str]:
    """What asks for one GPU, of the type that the profile names: some sites refuse `gpu:1`."""
    written = re.fullmatch(r"gpu:([^:]+):\d+", gres)
    return [f"--gres=gpu:{written[1]}:1"] if written else site.gpu_request(1)


def _sinfo() -> tuple[list[list[str]], str]:
    """Rows of partition, up or down, nodes, longest time and devices; and the names of all partitions."""
    rows = slurm.rows("sinfo", columns=("%R", "%a", "%D", "%l", "%G"))
    return rows, ", ".join(dict.fromkeys(row[0] for row in rows))


def _named(partition: str, rules: list[str]) -> Verdict:
    """Return whether a partition exists that set-resources of the profile names. `rules`: those whose jobs go there."""
    rows, names = _sinfo()
    who = " and ".join(rules)
    if any(name == partition for name, *_ in rows):
        return judged(True, f"partition {partition}, for {who}")
    fix = f"write one of these under set-resources in profiles/slurm/profile.v9+.yaml: {names}"
    return judged(False, f'partition "{partition}" of the profile, for {who}, does not exist', fix)


def _jobs(requests: Sequence[QueueRequest], profile: SnakemakeProfile) -> list[Verdict]:
    """Return a verdict on each request of a campaign: would Slurm take it?"""
    checks = []
    for request in requests:
        reason = refusal(request, profile)
        verdict = "Slurm takes" if reason is None else "Slurm refuses"
        text = f"{verdict} {request.who}: {describe_request(request.job)}" + (f": {reason}" if reason else "")
        fix = (
            "change geometry or resources in the campaign (docs/cluster.md says what follows from them), or the "
            "partition; a site that gives no whole nodes needs `config: {exclusive: false}` in the profile, one with "
            "typed GPUs `config: {gpu_type: h100}`, one without gres `config: {gpu_option: gpus-per-node}`"
        )
        checks.append(judged(reason is None, text, fix))
    return checks


def _too_long(requests: Sequence[QueueRequest], profile: SnakemakeProfile) -> list[Verdict]:
    """Return a bad verdict on each job that asks for more time than its partition gives.

    Where a cluster does not enforce that limit at submission, the job would wait forever.
    """
    limits = {name: slurm.minutes(longest) for name, _up, _nodes, longest, _devices in _sinfo()[0]}
    checks = []
    for request in requests:
        partition = profile.resources(request.rule).get("slurm_partition", "")
        limit, minutes = limits.get(partition, float("inf")), request.job.runtime
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
    own = [row for row in rows if row[0] == name]
    if not own:
        fix = f"write one of these in profiles/slurm/profile.v9+.yaml: {names}"
        return [judged(False, f'partition "{name}" of the profile does not exist', fix)], 0
    count = sum(int(nodes) for _, _, nodes, _, _ in own)
    up = any(state == "up" for _, state, _, _, _ in own)
    gres = sorted({kinds for _, _, _, _, kinds in own})
    devices = any("gpu" in kinds for kinds in gres)
    longest = own[0][3]
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
    accounts = bool(slurm.run_command("sacct", "--allocations", "--jobs=1"))  # a heading at least
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


def _nodes(partition: str, account: str, count: int, results: Path, gpu: Sequence[str]) -> list[Verdict]:
    """Start a short job on `count` compute nodes, and return verdicts on what they say.

    That is the shared folder `results`, Python, torch, its use of a GPU, the network between them. `gpu`: the options
    that ask for one GPU; none where trainings ask for none.
    """
    results.mkdir(parents=True, exist_ok=True)
    token = results / f".cluster-check-{uuid.uuid4().hex[:8]}"
    token.write_text(token.name)
    command = ["srun", f"--partition={partition}"]
    if account:
        command.append(f"--account={account}")
    command += [f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--time=5", f"--immediate={WAIT}"]
    command += [*gpu, sys.executable]
    program = ["-m", "scaleproof.driver.compute_node", str(token)]
    try:
        done = subprocess.run([*command, *program], capture_output=True, text=True, timeout=2 * WAIT)
        output, errors = done.stdout, done.stderr.strip()
        written = {path.name.rsplit(".", 1)[-1] for path in results.glob(f"{token.name}.*")}
    except subprocess.TimeoutExpired:
        output = ""
        errors = f"no answer within {2 * WAIT} s"
        written = set()
    finally:
        for path in results.glob(f"{token.name}*"):
            path.unlink()
    answers = _answers(output)
    if len(answers) < count:
        words = in_its_words(errors) or "they said nothing"
        fix = "try the same by hand, and see that this folder and this Python are on a shared file system: "
        number = f"{len(answers)} of {count} nodes answered" if answers else "no answer from compute nodes"
        others = [judged(False, f"{number}: {words}", fix + " ".join(command))]
    else:
        others = _network(answers)
    return [check for answer in answers for check in _node_checks(answer, written, results, bool(gpu))] + others


def _answers(output: str) -> list[dict[str, Any]]:
    """What each node said of itself; a site's own greeting may be among it, in braces as well."""
    answers = []
    for line in re.findall(r"^\{.*\}$", output, re.MULTILINE):
        with contextlib.suppress(ValueError):
            answers.append(json.loads(line))
    return [answer for answer in answers if "host" in answer]


def _node_checks(node: dict[str, Any], written: set[str], results: Path, devices: bool = False) -> list[Verdict]:
    """Return verdicts on one compute node.

    `node`: what it said of itself. `written`: the hosts whose test file arrived in `results`. `devices`: whether
    trainings ask for GPUs.
    """
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    shared = node["reads"] and node["host"] in written
    host, torch = node["host"], node["torch"] or "cannot be imported: " + node["error"]
    one = f"the login node has {here}: use one environment"
    checks = [
        judged(
            shared, f"{host}: {results}/ is shared and can be written", "put the repository on a shared file system"
        ),
        judged(node["python"] == here, f"{host}: Python {node['python']}", one),
        judged(bool(node["torch"]), f"{host}: torch {torch}", "install the environment where compute nodes see it"),
    ]
    return [*checks, _device(node)] if devices and node["torch"] else checks


def _device(node: dict[str, Any]) -> Verdict:
    """Return whether torch can use the GPU that the job asked for on `node`."""
    problem = node["device_problem"]
    if not node["devices"] and problem is None:
        fix = "torch has no CUDA there, or the driver does not answer (nvidia-smi): see docs/gpu.md"
        return judged(False, f"{node['host']}: no GPU is visible, although one was asked for", fix)
    evidence = f"torch uses {node['devices'][0]}" if problem is None else problem
    return judged(problem is None, f"{node['host']}: {evidence}", "docs/gpu.md says which torch fits which device")


def _network(answers: list[dict[str, Any]]) -> list[Verdict]:
    """Return whether the nodes reach each other by name. `answers`: what each said of itself."""
    if len(answers) < 2:
        return [judged(True, "one node: no network between nodes to look at")]
    checks = []
    for node in answers:
        fix = (
            f"{node['host']} has no route to the others by name: ask the site, or set GLOO_SOCKET_IFNAME and "
            "NCCL_SOCKET_IFNAME"
        )
        checks.append(
            judged(bool(node["interface"]), f"{node['host']}: reaches the other node by {node['interface']}", fix)
        )
    return checks
