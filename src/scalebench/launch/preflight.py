"""`scalebench cluster check`: everything that a campaign needs of a cluster, tried before a campaign does."""

import json
import re
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scalebench.errors import UserError
from scalebench.launch import polling, slurm
from scalebench.launch.slurm import ask

WAIT = 120  # seconds until compute nodes must have been given, and have answered


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    ok: bool
    found: str
    fix: str = ""

    def __str__(self) -> str:
        return f"OK    {self.found}" if self.ok else f"MEND  {self.found}\n      {self.fix}"


def profile_settings(folder: Path) -> dict[str, Any]:
    """The keys of a profile. Raises UserError where there is none."""
    for path in (folder / "profile.v9+.yaml", folder / "config.v9+.yaml", folder / "config.yaml"):
        if path.is_file():
            return yaml.safe_load(path.read_text()) or {}
    raise UserError(
        f"there is no profile in {folder}: profile.v9+.yaml is missing there; the repository's is profiles/slurm"
    )


def check(folder: Path, results: Path) -> list[Check]:
    """Look at the cluster with the settings of the profile in `folder`. Raises UserError where there is no Slurm."""
    profile, config = profile_settings(folder), slurm.config()
    if not config:
        raise UserError("no Slurm here: `scontrol show config` says nothing; run this on a login node of the cluster")
    defaults = profile.get("default-resources") or {}
    if isinstance(defaults, list):  # as on the command line
        defaults = dict(entry.split("=", 1) for entry in defaults)
    partition = str(defaults.get("slurm_partition", "")).strip("'\"")
    account = str(defaults.get("slurm_account", "")).strip("'\"")
    checks = [Check(True, f"Slurm {config.get('SLURM_VERSION')}, cluster {config.get('ClusterName')}")]
    found, count = _partition(partition)
    checks += found
    checks += _bookkeeping(profile, config, account)
    if found[0].ok:
        checks += _nodes(partition, account, min(2, count), results)
    return checks


def _partition(wanted: str) -> tuple[list[Check], int]:
    """The profile's partition and its devices, and how many nodes it has."""
    rows = [row.split("|") for row in ask("sinfo", "--noheader", "--format", "%R|%a|%D|%l|%G").splitlines()]
    names = ", ".join(dict.fromkeys(row[0] for row in rows))
    own = [row for row in rows if row[0] == wanted]
    if not own:
        fix = f"write one of these in profiles/slurm/profile.v9+.yaml: {names}"
        return [Check(False, f'partition "{wanted}" of the profile does not exist', fix)], 0
    count, gres = sum(int(row[2]) for row in own), sorted({row[4] for row in own})
    up, devices = any(row[1] == "up" for row in own), any("gpu" in g for g in gres)
    return [
        Check(
            up, f"partition {wanted}: {count} nodes, at most {own[0][3]}; there are {names}", "it is down: ask the site"
        ),
        Check(
            devices,
            f"devices of a node: {', '.join(gres)}" if devices else f"partition {wanted} has no GPUs",
            "write `set-resources: {train: {gres: \"''\"}}` into the profile to train on CPUs, or choose another partition",
        ),
    ], count


def _bookkeeping(profile: dict[str, Any], config: dict[str, str], account: str) -> list[Check]:
    """Does Snakemake hear of the end of jobs, and is the account one that counts?"""
    interval = int(profile.get("slurm-init-seconds-before-status-checks", 40))
    command = profile.get("slurm-status-command")
    accounts, age = polling.accounting(), polling.min_job_age()
    reason = polling.reason_against(command, interval, age, accounts, polling.has_sacct())
    kept = "sacct answers" if accounts else "no accounting (sacct does not answer)"
    said = (
        f"{kept}; looks every {interval} s by {command or 'the plugin’s choice'}; MinJobAge {config.get('MinJobAge')}"
    )
    checks = [Check(reason is None, said, reason or "")]
    if account and not accounts:
        checks.append(Check(False, f"account {account} on a cluster without accounting", "remove slurm_account"))
    return checks


def _nodes(partition: str, account: str, count: int, results: Path) -> list[Check]:
    """What compute nodes say: the shared folder, Python, torch, the network between them."""
    results.mkdir(parents=True, exist_ok=True)
    token = results / f".cluster-check-{uuid.uuid4().hex[:8]}"
    token.write_text(token.name)
    command = [
        *("srun", f"--partition={partition}", *([f"--account={account}"] if account else [])),
        *(f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", "--time=5", f"--immediate={WAIT}"),
        *(sys.executable, "-m", "scalebench.launch.compute_node", str(token)),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * WAIT)
        said, wrong = done.stdout, done.stderr.strip()
        written = {path.name.rsplit(".", 1)[-1] for path in results.glob(f"{token.name}.*")}
    except subprocess.TimeoutExpired:
        said, wrong, written = "", f"no answer within {2 * WAIT} s", set()
    finally:
        for path in results.glob(f"{token.name}*"):
            path.unlink()
    answers = [json.loads(line) for line in re.findall(r"^\{.*\}$", said, re.MULTILINE)]
    if not answers:
        last = wrong.splitlines()[-1] if wrong else "they said nothing"
        fix = "try the same by hand, and see that this folder and this Python are on a shared file system: " + " ".join(
            command[:-3]
        )
        return [Check(False, f"no answer from compute nodes: {last}", fix)]
    return [check for answer in answers for check in _of(answer, written, results)] + _network(answers)


def _of(node: dict[str, Any], written: set[str], results: Path) -> list[Check]:
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    shared = node["reads"] and node["host"] in written
    return [
        Check(shared, f"{node['host']}: {results}/ is shared and can be written", "put the repository on a shared file system"),
        Check(node["python"] == here, f"{node['host']}: Python {node['python']}", f"the login node has {here}: use one environment"),
        Check(bool(node["torch"]), f"{node['host']}: torch {node['torch'] or 'cannot be imported: ' + node['error']}",
              "install the environment where compute nodes see it"),
    ]  # fmt: skip


def _network(answers: list[dict[str, Any]]) -> list[Check]:
    if len(answers) < 2:
        return [Check(True, "one node: no network between nodes to look at")]
    checks = []
    for node in answers:
        fix = f"{node['host']} does not know the way to the others by name: ask the site, or set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME"
        checks.append(
            Check(bool(node["interface"]), f"{node['host']}: reaches the other node by {node['interface']}", fix)
        )
    return checks
