"""Would Slurm take the jobs of a campaign? Asked with `sbatch --test-only`, which submits nothing."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from scaleproof.driver.cluster.profile import SnakemakeProfile
from scaleproof.driver.cluster.queue import submit_line
from scaleproof.driver.cluster.request import (
    JobRequest,
    complaint_on_job_time,
    request_of_replay,
    request_of_run,
    request_of_shared_job,
)
from scaleproof.driver.cluster.scheduler import Refused
from scaleproof.driver.cluster.slurm import sbatch_options, why_refused
from scaleproof.ground.campaign.cells import tokens_of
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import plural
from scaleproof.measure.launch.replayed_cells import cells_by_workload

# What Slurm says against a job -> what to change; "": whatever it says.
CURES = (
    ("account", "write slurm_account in the profile; `sacctmgr show associations user=$USER` lists yours"),
    ("qos", "write qos in the profile; `sacctmgr show associations user=$USER format=account,qos` lists yours"),
    ("feature", "change constraint in the profile; `sinfo -o '%N %f'` lists what nodes have"),
    ("time limit", "lower resources.time_limit in the campaign, or choose another partition in the profile"),
    (
        "generic resource|gres|gpu",
        "a site with typed GPUs needs `config: {gpu_type: h100}` in the profile, one without gres `config: "
        "{gpu_option: gpus-per-node}`, one without GPUs `config: {gpu_option: none}`",
    ),
    ("exclusive|whole node", "a site that gives no whole nodes needs `config: {exclusive: false}` in the profile"),
    (
        "",
        "change geometry or resources in the campaign (docs/cluster.md says what follows from them), or the "
        "partition in the profile",
    ),
)
# As workflow/rules/data.smk asks; the profile gives more cores.
TOKENISING = JobRequest(nodes=1, devices=0, cores=2, memory_mb=4000, minutes=60, exclusive=False)
NUMBERS = ("mem_mb", "runtime", "cpus_per_task")  # by which a profile replaces what a rule asks for


class PlannedJobs(NamedTuple):
    """Equal jobs of one rule, and what the rule asks of the cluster for each of them."""

    rule: str
    request: JobRequest
    name: str  # of what the jobs run, such as "ddp-n1x2" or "the reference of demo"
    number: int = 1


@dataclass(frozen=True)
class QueueRequest:
    """Equal jobs that a campaign would submit."""

    rule: str
    resources: Mapping[str, int | str]  # of each job: the campaign's request, with the values of the profile
    names: tuple[str, ...]  # of what the jobs run
    jobs: int
    fault: str = ""  # what is wrong with the time or the nodes that the profile gives to a job

    @property
    def minutes(self) -> int:
        return int(self.resources["runtime"])

    @property
    def nodes(self) -> int:
        return int(self.resources["nodes"])

    @property
    def node_hours(self) -> float:
        """Node hours of all these jobs, if each uses its nodes as long as it asks for."""
        return self.jobs * self.nodes * self.minutes / 60

    @property
    def with_devices(self) -> bool:
        return bool(self.resources["gres"]) or "gpus" in str(self.resources["slurm_extra"])

    @property
    def who(self) -> str:
        """What the jobs run: the first name, and how many more."""
        return self.names[0] if len(self.names) == 1 else f"{self.names[0]} and {len(self.names) - 1} more"


def queue_requests(loaded: LoadedCampaign, profile: SnakemakeProfile) -> list[QueueRequest]:
    """Group the jobs of a campaign that ask for the same. Returns one request for each group."""
    requests: dict[tuple[object, ...], QueueRequest] = {}  # (rule, each resource as name and value) -> request
    for planned in (*measuring_jobs(loaded), *tokenising_jobs(loaded)):
        rule = planned.rule
        resources = with_profile_values(profile.site.resources(planned.request), profile.replaced(rule))
        fault = complaint_on_job_time(rule, int(resources["runtime"]), loaded.campaign.resources)
        fault = fault or profile.site.missing_nodes(planned.request)

        key = (rule, *resources.items())
        group = requests.get(key, QueueRequest(rule, resources, names=(), jobs=0, fault=fault))
        requests[key] = replace(group, names=(*group.names, planned.name), jobs=group.jobs + planned.number)
    return list(requests.values())


def ask_why_refused(request: QueueRequest, profile: SnakemakeProfile) -> str | None:
    """Ask Slurm why it refuses a request. Returns None where Slurm would take it."""
    return why_refused(question_to_sbatch(request.resources, profile.resources(request.rule)))


def job_text(request: QueueRequest, profile: SnakemakeProfile) -> str:
    """Describe which jobs ask for what: "3 train (ddp-n1x4): sbatch --partition=gpu ..."."""
    resources = {**profile.resources(request.rule), **request.resources}
    submit = profile.settings.get("scaleproof-submit")
    try:
        named = {"name": request.rule, "log": "LOG", **resources}
        command = submit_line(submit, named) if submit else f"sbatch {' '.join(sbatch_options(resources))}"
    except Refused as refused:
        command = refused.words
    fault = f"\n    {request.fault}" if request.fault else ""
    return f"\n  {request.jobs} {request.rule} ({request.who}): {command}{fault}"


def cure_for(reason: str) -> str:
    return next(advice for pattern, advice in CURES if re.search(pattern, reason.lower()))


def tokenising_jobs(loaded: LoadedCampaign) -> Iterator[PlannedJobs]:
    """Yield the jobs that make the tokens of each corpus. Snakemake skips a job whose files are there already."""
    for corpus, tokenizer in dict.fromkeys(tokens_of(cell) for cell in loaded.cells if cell.command is None):
        name = f"the tokens of {corpus} ({tokenizer})"
        if tokenizer != "gpt2":  # the merges of GPT-2 are downloaded where Snakemake runs
            yield PlannedJobs("corpus_tokenizer", TOKENISING, name)
        yield PlannedJobs("corpus_tokenise", TOKENISING, name)


def measuring_jobs(loaded: LoadedCampaign) -> Iterator[PlannedJobs]:
    """Yield the jobs that measure: of each cell its runs, its trace and its trials; pairs; references."""
    resources = loaded.campaign.resources
    for shared in loaded.shared_jobs.values():
        runs = [cell for cell, _ in shared.runs]
        name = f"the {plural(len(runs), 'run')} of job {shared.name}"
        yield PlannedJobs("shared_job", request_of_shared_job(runs, resources), name)
    if not loaded.shared_jobs:
        for cell in loaded.cells:
            yield PlannedJobs("train", request_of_run(cell, resources), cell.slug, loaded.campaign.most_repeats)

    for name, (comparison, a, b) in loaded.comparisons.items():
        pairs = comparison.pairs + comparison.null_pairs
        yield PlannedJobs("pairs", request_of_shared_job([a, b] * pairs, resources), f"the {pairs} pairs of {name}")
    for cell in loaded.traced:
        yield PlannedJobs("trace_capture", request_of_run(cell, resources), f"the trace of {cell.slug}")
    for cell in loaded.cells:
        if cell.searched:
            yield PlannedJobs("frontier", request_of_run(cell, resources), f"the micro-batch of {cell.slug}")
    for name, cell in cells_by_workload(loaded.cells).items():
        yield PlannedJobs("reference", request_of_replay(cell, resources), f"the reference of {name}")


def with_profile_values(resources: Mapping[str, int | str], replaced: Mapping[str, str]) -> dict[str, int | str]:
    """Replace `gres` and the NUMBERS in `resources` by values of the profile. `replaced`: name -> value there."""
    numbers = {name: int(replaced[name]) for name in NUMBERS if replaced.get(name, "").isdigit()}
    gres = {"gres": replaced.get("gres", resources["gres"])} if "gres" in resources else {}  # other queues have none
    return {**resources, **gres, **numbers}


def question_to_sbatch(sent: Mapping[str, int | str], resources: dict[str, str]) -> list[str]:
    """Return the command that asks sbatch about a job with the resources `sent`, beside those of the profile."""
    return ["sbatch", "--test-only", *sbatch_options({**resources, **sent}), "--wrap=true"]


def describe_request(sent: Mapping[str, int | str]) -> str:
    """Describe the resources of a job: "2 nodes with 8 cores, 64000 MB, gpu:4 for 30 minutes"."""
    each = [plural(int(sent["cpus_per_task"]), "core"), f"{sent['mem_mb']} MB", str(sent["gres"])]
    return f"{plural(int(sent['nodes']), 'node')} with {', '.join(filter(None, each))} for {sent['runtime']} minutes"
