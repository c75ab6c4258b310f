"""A small job, sent as those of a campaign are: by Snakemake, its profile, the executor and sbatch.

Only that meets what real jobs meet: the site's rules for jobs, Snakemake's own cache on a node, the repository there.
"""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scaleproof.driver.cluster.questions import cure_for
from scaleproof.driver.cluster.site import Resources
from scaleproof.ground.verdict import Verdict, judged

WAIT = 180  # seconds until the cluster must have given nodes, and these have answered
LATE = f"they were not given, or had not answered, within {WAIT} s"
CANCEL = 60  # seconds for Snakemake to cancel what it has sent
# The rule has the name of the rule that trains, so that a profile gives both the same resources.
WORKFLOW = """\
rule train:
    output: touch("ended")
    resources: **{resources!r}
    shell: "{command} > answers"
"""
# The executor's words on a job, without what Snakemake adds.
WORDS = re.compile(r"(Slurm (?:says|refuses|does not|takes no).*?)(?:\. For further.*)?$", re.MULTILINE)


def try_nodes(profile: Path, resources: Resources, results: Path) -> list[Verdict]:
    """Send a small job to the cluster, and return verdicts on what each of its nodes reports.

    The verdicts are on the shared folder, Python, torch, torch's use of a GPU, and the network between nodes.
    `profile`: the profile's folder. `resources`: the request of the job. The job's folder is made in `results`, and
    stays if a node does not answer.
    """
    folder = results.absolute() / f".cluster-check-{uuid.uuid4().hex[:8]}"
    folder.mkdir(parents=True)
    token, n_nodes = folder / "token", int(resources["nodes"])
    token.write_text(token.name)  # a node that can read it writes token.HOST beside it
    program = f"{sys.executable} -m scaleproof.driver.cluster.compute_node {token}"
    command = f"srun --nodes={n_nodes} --ntasks={n_nodes} --ntasks-per-node=1 {program}"
    (folder / "Snakefile").write_text(WORKFLOW.format(resources=dict(resources), command=command))
    printed = _run_trial_workflow(folder, profile)
    answers = _read_answers(folder / "answers")
    writers = {path.suffix[1:] for path in folder.glob("token.*")}  # hosts: "n1" from token.n1

    verdicts: list[Verdict] = []
    for node in answers:
        verdicts += _judge_node(node, writers, results, needs_gpu=bool(resources["devices_per_node"]))
    if len(answers) == n_nodes:
        shutil.rmtree(folder)
        return verdicts + _judge_network(answers)
    reason = _reason_for_silence(printed)
    return [*verdicts, _judge_missing_answers(len(answers), n_nodes, reason, results / folder.name)]


def _judge_missing_answers(answers: int, nodes: int, reason: str, folder: Path) -> Verdict:
    """Return the failed verdict on a job that not all nodes have answered. `folder`: its folder, which is kept."""
    number = f"{answers} of {nodes} nodes answered" if answers else "no answer from compute nodes"
    if "Slurm refuses" in reason:  # the executor's words
        advice = cure_for(reason)
    else:
        advice = "see that this folder and this Python are on a shared file system; the job's script and log are in "
        advice += f"{folder}/results/job-logs/, and jobs of a campaign would end in the same way"
    return judged(False, f"{number}: {reason}", advice)


def _run_trial_workflow(folder: Path, profile: Path) -> str:
    """Run the workflow in `folder`, cancel it after WAIT seconds, and return what Snakemake has printed."""
    trial_options = ("--workflow-profile", "none", "--retries", "0", "--seconds-between-status-checks", "2")
    command = [sys.executable, "-m", "snakemake", "--profile", str(profile.resolve()), *trial_options]
    pipe, merged = subprocess.PIPE, subprocess.STDOUT
    process = subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=merged, text=True, errors="replace")
    try:
        return process.communicate(timeout=WAIT)[0]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    try:
        printed = process.communicate(timeout=CANCEL)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        printed = process.communicate()[0]
    return f"{printed}\n{LATE}"


def _reason_for_silence(printed: str) -> str:
    """Return the reason why a job gave no answer: the scheduler's words in Snakemake's output, else its last line."""
    words = WORDS.findall(printed) or [line for line in printed.splitlines() if line.strip()] or ["snakemake failed"]
    return words[-1].rstrip(". ")


def _read_answers(file: Path) -> list[dict[str, Any]]:
    """Read the JSON report of each node in `file`. Other lines, such as a site's greeting, are left out."""
    answers = []
    for line in re.findall(r"^\{.*\}$", file.read_text() if file.is_file() else "", re.MULTILINE):
        with contextlib.suppress(ValueError):
            answers.append(json.loads(line))
    return [answer for answer in answers if "host" in answer]


def _judge_node(node: dict[str, Any], writers: set[str], results: Path, needs_gpu: bool = False) -> list[Verdict]:
    """Return verdicts on one compute node.

    `node`: what it said of itself. `writers`: the hosts whose test file arrived in `results`. `needs_gpu`: whether
    trainings ask for GPUs.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    shared = node["reads"] and node["host"] in writers
    host, torch = node["host"], node["torch"] or "cannot be imported: " + node["error"]
    fix = "put the repository on a shared file system"
    checks = [
        judged(shared, f"{host}: {results}/ is shared and can be written", fix),
        judged(node["python"] == version, f"{host}: Python {node['python']}", f"use that of the login node, {version}"),
        judged(bool(node["torch"]), f"{host}: torch {torch}", "install the environment where compute nodes see it"),
    ]
    return [*checks, _judge_device(node)] if needs_gpu and node["torch"] else checks


def _judge_device(node: dict[str, Any]) -> Verdict:
    """Return a verdict: can torch use the GPU that the job asked for? `node`: the report of a node."""
    problem = node["device_problem"]
    if not node["devices"] and problem is None:
        fix = "torch has no CUDA there, or the driver does not answer (nvidia-smi): see docs/gpu.md"
        return judged(False, f"{node['host']}: no GPU is visible, although one was asked for", fix)
    evidence = f"torch uses {node['devices'][0]}" if problem is None else problem
    return judged(problem is None, f"{node['host']}: {evidence}", "docs/gpu.md says which torch fits which device")


def _judge_network(answers: Sequence[dict[str, Any]]) -> list[Verdict]:
    """Return a verdict for each node: does it reach another node of its job by name? `answers`: the nodes' reports."""
    if len(answers) < 2:
        return [judged(True, "one node: no network between nodes to look at")]
    fix = "it has no route to the others by name: ask the site, or set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME"
    verdicts = []
    for node in answers:
        interface = node["interface"]
        evidence = f"reaches another node by {interface}" if interface else "reaches no other node by name"
        verdicts.append(judged(bool(interface), f"{node['host']}: {evidence}", fix))
    return verdicts
