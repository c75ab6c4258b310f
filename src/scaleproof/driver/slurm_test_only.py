"""Would Slurm take the jobs of a campaign? Asked with `sbatch --test-only`, which submits nothing."""

import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scaleproof.driver.job_minutes import too_short
from scaleproof.driver.slurm_request import Job, job, job_of_replay, job_together, sbatch_options
from scaleproof.driver.snakemake_profile import SnakemakeProfile
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import plural
from scaleproof.measure.reference.schema import workload_name

NUMBERS = ("mem_mb", "runtime", "cpus_per_task")  # by which a profile replaces what a rule asks for
ANSWER_S = 60.0  # a busy controller takes seconds


@dataclass(frozen=True)
class QueueRequest:
    """Equal jobs that a campaign would submit."""

    rule: str
    job: Job  # as it is sent: the campaign's request with what the profile changes
    names: tuple[str, ...]  # of what they run
    jobs: int
    too_short: str | None = None  # what is wrong with the time that the profile gives to it

    @property
    def node_hours(self) -> float:
        """At most: all nodes for all of the time asked for."""
        return self.jobs * self.job.nodes * self.job.runtime / 60

    @property
    def who(self) -> str:
        """The first name, and how many more."""
        return self.names[0] if len(self.names) == 1 else f"{self.names[0]} and {len(self.names) - 1} more"


def queue_requests(loaded: LoadedCampaign, profile: SnakemakeProfile) -> list[QueueRequest]:
    """Return each different request among the jobs of a campaign that measure, with the number of its jobs."""
    grouped: dict[tuple[str, Job], list[tuple[str, int]]] = {}
    for rule, request, name, jobs in requests(loaded):
        sent = as_sent(profile.site.applied(request), profile.replaced(rule))
        grouped.setdefault((rule, sent), []).append((name, jobs))
    result = []
    for (rule, sent), entries in grouped.items():
        names = tuple(name for name, _ in entries)
        total = sum(jobs for _, jobs in entries)
        result.append(QueueRequest(rule, sent, names, total, too_short(rule, sent.runtime, loaded.campaign.resources)))
    return result


def refusal(request: QueueRequest, profile: SnakemakeProfile) -> str | None:
    """Why Slurm refuses a request; None where it would take it."""
    return why_refused(command(request.job, profile.resources(request.rule)))


def requests(loaded: LoadedCampaign) -> Iterator[tuple[str, Job, str, int]]:
    """Yield the rule, the request, a name and the number of the jobs that measure."""
    resources, repeats = loaded.campaign.resources, loaded.campaign.most_repeats
    for shared in loaded.shared_jobs.values():
        runs = [cell for cell, _ in shared.runs]
        yield "shared_job", job_together(runs, resources), f"the {plural(len(runs), 'run')} of job {shared.name}", 1
    for cell in () if loaded.shared_jobs else loaded.cells:
        yield "train", job(cell, resources), cell.slug, repeats
    for name, (comparison, a, b) in loaded.comparisons.items():
        pairs = comparison.pairs + comparison.null_pairs
        yield "pairs", job_together([a, b] * pairs, resources), f"the {pairs} pairs of {name}", 1
    for cell in loaded.traced:
        yield "trace_capture", job(cell, resources), f"the trace of {cell.slug}", 1
    for cell in loaded.cells:
        if cell.searched:
            yield "frontier", job(cell, resources), f"the micro-batch of {cell.slug}", 1
    # A workload is replayed once, by its cell with the fewest devices, which comes last.
    largest_first = sorted(loaded.cells, key=lambda cell: cell.execution.geometry.n_devices, reverse=True)
    for name, cell in {workload_name(cell.config): cell for cell in largest_first}.items():
        yield "reference", job_of_replay(cell, resources), f"the reference of {name}", 1


def as_sent(request: Job, replaced: dict[str, str]) -> Job:
    """Return a request with what the profile puts in its place. `replaced`: name -> value, of set-resources."""
    numbers = {name: int(replaced[name]) for name in NUMBERS if replaced.get(name, "").isdigit()}
    return replace(
        request,
        gres=replaced.get("gres", request.gres),
        mem_mb=numbers.get("mem_mb", request.mem_mb),
        runtime=numbers.get("runtime", request.runtime),
        cpus_per_task=numbers.get("cpus_per_task", request.cpus_per_task),
    )


def command(request: Job, resources: dict[str, str]) -> list[str]:
    """The question to sbatch: as the job is submitted, with what the profile says of its rule."""
    return ["sbatch", "--test-only", *sbatch_options(resources | request.resources), "--wrap=true"]


def describe_request(request: Job) -> str:
    """A request in words."""
    nodes = f"{request.nodes} node{'' if request.nodes == 1 else 's'}"
    each = [f"{request.cpus_per_task} cores", f"{request.mem_mb} MB", *([request.gres] if request.gres else [])]
    return f"{nodes} with {', '.join(each)} for {request.runtime} minutes"


def why_refused(line: Sequence[str]) -> str | None:
    """Return Slurm's reason against the job of an sbatch line with --test-only; None where it would take it."""
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=ANSWER_S)
    except subprocess.TimeoutExpired:
        return f"Slurm does not answer within {ANSWER_S:g} s"
    if done.returncode == 0:
        return None
    return in_its_words(done.stderr) or f"exit code {done.returncode}"


def in_its_words(text: str) -> str:
    """All that sbatch or srun says, on one line: the site's own words often come first, and a general one last."""
    prefix = re.compile(r"^(?:(?:sbatch|srun|allocation failure|error): )+")
    lines = [prefix.sub("", line.strip()) for line in text.splitlines()]
    return "; ".join(dict.fromkeys(filter(None, lines)))
