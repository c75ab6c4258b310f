"""Would Slurm take the jobs of a campaign? Asked with `sbatch --test-only`, which submits nothing."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from scaleproof.driver.cluster.profile import SnakemakeProfile
from scaleproof.driver.cluster.request import (
    JobRequest,
    complaint_on_job_time,
    request_of_replay,
    request_of_run,
    request_of_shared_job,
)
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


@dataclass(frozen=True)
class QueueRequest:
    """Equal jobs that a campaign would submit."""

    rule: str
    resources: Mapping[str, int | str]  # as they are sent: the campaign's request with what the profile changes
    names: tuple[str, ...]  # of what they run
    jobs: int
    too_short: str | None = None  # what is wrong with the time that the profile gives to it

    @property
    def minutes(self) -> int:
        """Minutes that each job asks for."""
        return int(self.resources["runtime"])

    @property
    def nodes(self) -> int:
        """How many nodes each job asks for."""
        return int(self.resources["nodes"])

    @property
    def node_hours(self) -> float:
        """Node hours of all these jobs, if each uses its nodes for all of the time that it asks for."""
        return self.jobs * self.nodes * self.minutes / 60

    @property
    def with_devices(self) -> bool:
        """Whether these jobs ask for GPUs."""
        return bool(self.resources["gres"]) or "gpus" in str(self.resources["slurm_extra"])

    @property
    def who(self) -> str:
        """What the jobs run: the first name, and how many more."""
        return self.names[0] if len(self.names) == 1 else f"{self.names[0]} and {len(self.names) - 1} more"


def queue_requests(loaded: LoadedCampaign, profile: SnakemakeProfile) -> list[QueueRequest]:
    """Return each different request among the jobs of a campaign, with the number of its jobs."""
    requests: dict[tuple[object, ...], QueueRequest] = {}  # by rule and resources
    for rule, request, name, jobs in (*measuring_jobs(loaded), *tokenising_jobs(loaded)):
        sent = with_profile_values(profile.site.resources(request), profile.replaced(rule))
        too_short = complaint_on_job_time(rule, int(sent["runtime"]), loaded.campaign.resources)
        same = requests.get((rule, *sent.items()), QueueRequest(rule, sent, (), 0, too_short))
        requests[rule, *sent.items()] = replace(same, names=(*same.names, name), jobs=same.jobs + jobs)
    return list(requests.values())


def ask_why_refused(request: QueueRequest, profile: SnakemakeProfile) -> str | None:
    """Ask Slurm why it refuses a request; None where it would take it."""
    return why_refused(question_to_sbatch(request.resources, profile.resources(request.rule)))


def job_text(request: QueueRequest, profile: SnakemakeProfile) -> str:
    """Return which jobs ask for what: "3 train (ddp-n1x4): sbatch --partition=gpu --nodes=1 ..."."""
    options = sbatch_options({**profile.resources(request.rule), **request.resources})
    return f"{request.jobs} {request.rule} ({request.who}): sbatch {' '.join(options)}"


def cure_for(reason: str) -> str:
    """Return what to change where Slurm refuses a job for this reason."""
    return next(advice for words, advice in CURES if re.search(words, reason.lower()))


def tokenising_jobs(loaded: LoadedCampaign) -> Iterator[tuple[str, JobRequest, str, int]]:
    """Yield, as `measuring_jobs`, each job that makes tokens; those that are there already are not made again."""
    for corpus, tokenizer in dict.fromkeys(tokens_of(cell) for cell in loaded.cells if cell.command is None):
        name = f"the tokens of {corpus} ({tokenizer})"
        if tokenizer != "gpt2":  # whose merges are downloaded where Snakemake runs
            yield "corpus_tokenizer", TOKENISING, name, 1
        yield "corpus_tokenise", TOKENISING, name, 1


def measuring_jobs(loaded: LoadedCampaign) -> Iterator[tuple[str, JobRequest, str, int]]:
    """Yield (rule, request, name, how many) for each kind of job that measures: ("train", ..., "ddp-n1x2", 3)."""
    resources, repeats = loaded.campaign.resources, loaded.campaign.most_repeats
    for shared in loaded.shared_jobs.values():
        runs = [cell for cell, _ in shared.runs]
        name = f"the {plural(len(runs), 'run')} of job {shared.name}"
        yield "shared_job", request_of_shared_job(runs, resources), name, 1
    for cell in () if loaded.shared_jobs else loaded.cells:
        yield "train", request_of_run(cell, resources), cell.slug, repeats
    for name, (comparison, a, b) in loaded.comparisons.items():
        pairs = comparison.pairs + comparison.null_pairs
        yield "pairs", request_of_shared_job([a, b] * pairs, resources), f"the {pairs} pairs of {name}", 1
    for cell in loaded.traced:
        yield "trace_capture", request_of_run(cell, resources), f"the trace of {cell.slug}", 1
    for cell in loaded.cells:
        if cell.searched:
            yield "frontier", request_of_run(cell, resources), f"the micro-batch of {cell.slug}", 1
    for name, cell in cells_by_workload(loaded.cells).items():
        yield "reference", request_of_replay(cell, resources), f"the reference of {name}", 1


def with_profile_values(resources: Mapping[str, int | str], replaced: Mapping[str, str]) -> dict[str, int | str]:
    """Return resources with the values that the profile puts in their place. `replaced`: name -> value."""
    numbers = {name: int(replaced[name]) for name in NUMBERS if replaced.get(name, "").isdigit()}
    return {**resources, "gres": replaced.get("gres", resources["gres"]), **numbers}


def question_to_sbatch(sent: Mapping[str, int | str], resources: dict[str, str]) -> list[str]:
    """Return the question to sbatch: the job as it is sent, with what the profile says of its rule."""
    return ["sbatch", "--test-only", *sbatch_options({**resources, **sent}), "--wrap=true"]


def describe_request(sent: Mapping[str, int | str]) -> str:
    """Return a request in words: "2 nodes with 8 cores, 64000 MB, gpu:4 for 30 minutes"."""
    each = [plural(int(sent["cpus_per_task"]), "core"), f"{sent['mem_mb']} MB", str(sent["gres"])]
    return f"{plural(int(sent['nodes']), 'node')} with {', '.join(filter(None, each))} for {sent['runtime']} minutes"
