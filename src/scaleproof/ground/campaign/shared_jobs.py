"""Which runs of a campaign share a job: those of `resources.same_allocation` and of `resources.minutes_per_job`.

Repeats stay blocks: a job holds whole rounds (a repeat of each of its cells), or a part of one round, and none reaches
over a look at the results.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import Campaign, Resources
from scaleproof.ground.errors import UserError, plural

SPARE_MINUTES = 2  # the launcher's own time limit comes first, so that a run that is too slow ends as a row
KEY = ("resources", "minutes_per_job")


@dataclass(frozen=True)
class SharedJob:
    """Runs that are made one after the other in one job."""

    name: str
    rounds: tuple[tuple[int, tuple[Cell, ...]], ...]  # (number of the repeat, its cells in the order of their runs)
    same_nodes: bool  # whether the runs of a round must share their nodes, so that a round is made as a whole

    @property
    def runs(self) -> list[tuple[Cell, int]]:
        return [(cell, repeat) for repeat, cells in self.rounds for cell in cells]

    @property
    def cells(self) -> list[Cell]:
        """The cells of this job, each once, in the order of their names."""
        return sorted({cell.slug: cell for cell, _ in self.runs}.values(), key=lambda cell: cell.slug)

    @property
    def planned_fingerprint(self) -> str:
        """One hash over the plans of its cells: thousands of them would not fit into a command."""
        return hashlib.sha256(" ".join(cell.planned_fingerprint for cell in self.cells).encode()).hexdigest()[:16]


def run_minutes(resources: Resources) -> int:
    return int(resources.time_limit) + SPARE_MINUTES


def may_share_jobs(campaign: Campaign) -> bool:
    """Return whether a job of the campaign may hold several runs."""
    return campaign.resources.same_allocation or campaign.resources.minutes_per_job is not None


def sharing_key(resources: Resources) -> str:
    """Return the key of `resources` by which jobs hold several runs."""
    return "same_allocation" if resources.same_allocation else "minutes_per_job"


def check_search(campaign: Campaign, cells: Sequence[Cell], on_cpu: bool) -> None:
    """Check that cells which need trials have jobs of their own, and `on_cpu` a limit. Raises UserError."""
    searched = [cell.slug for cell in cells if cell.searched]
    if searched and may_share_jobs(campaign):
        key = sharing_key(campaign.resources)
        fault = f"with resources.{key} several cells run in one job, and none after trials; give a number"
        raise UserError(f"work.micro_batch of {searched[0]}: {fault}", ("resources", key))
    if searched and on_cpu and campaign.frontier.limit_gb is None:
        fault = f"frontier.limit_gb is missing: the micro-batch of {searched[0]} is searched on a CPU, which has"
        advice = "no memory of its own; write frontier: {limit_gb: 4} or what one process may use"
        raise UserError(f"{fault} {advice}", ("work", "micro_batch"))


def plan_shared_jobs(campaign: Campaign, in_order: Callable[[int], Sequence[Cell]]) -> list[SharedJob]:
    """Plan the jobs of a campaign that hold several runs each, for all of its repeats.

    `in_order(repeat)`: the cells in the order of that repeat. Raises UserError where a job has no time for its runs.
    """
    same_nodes, cells = campaign.resources.same_allocation, in_order(1)
    groups: dict[str, set[str]] = {}  # beginning of a job's name -> slugs of the cells of such jobs
    for cell in sorted(cells, key=lambda cell: str(cell.execution.geometry)):
        # A job has one geometry, so that a run on one device does not hold the nodes of the largest run.
        prefix = "" if same_nodes else f"{cell.execution.geometry}-"
        groups.setdefault(prefix, set()).add(cell.slug)

    jobs: list[SharedJob] = []
    for prefix, slugs in groups.items():
        together = len(slugs) if same_nodes else 1  # runs that must be in one job: all cells of a repeat, or one run
        room = _runs_per_job(campaign.resources, together)
        for first, last in _repeats_between_decisions(campaign):
            jobs += _group_jobs(prefix, slugs, range(first, last + 1), room, in_order, same_nodes)
    return jobs


def _runs_per_job(resources: Resources, together: int) -> int:
    """Count the runs for which a job has room, by their time limits.

    `together`: runs that must share a job; without minutes_per_job, a job holds just these. Raises UserError where a
    job has no room for them.
    """
    if resources.minutes_per_job is None:
        return together
    minutes_per_run = run_minutes(resources)
    runs_per_job = int(resources.minutes_per_job // minutes_per_run)
    if runs_per_job < together:
        runs = f"a repeat of all {plural(together, 'cell')} (same_allocation)" if together > 1 else "one run"
        time = f"{together * minutes_per_run}: time_limit and 2 minutes more for each run"
        fault = f"is {resources.minutes_per_job:g}, but {runs} may take {time}"
        raise UserError(f"resources.minutes_per_job {fault}; lower time_limit or raise minutes_per_job", KEY)
    return runs_per_job


def _repeats_between_decisions(campaign: Campaign) -> Iterator[tuple[int, int]]:
    """Yield (first, last) repeat of each stretch between two looks at the results: (1, 3), (4, 4), (5, 5), (6, 7)."""
    rule = campaign.repeat_until
    first = 1
    for last in rule.looks() if rule else [campaign.most_repeats]:
        yield first, last
        first = last + 1


def _group_jobs(
    prefix: str, slugs: set[str], repeats: range, room: int, in_order: Callable[[int], Sequence[Cell]], same_nodes: bool
) -> Iterator[SharedJob]:
    """Yield the jobs for these repeats of a group of cells. `room`: number of runs that fit into one job.

    A job has as many whole rounds as fit into it. Where no round fits, a job has a part of a round.
    """
    rounds = {repeat: tuple(cell for cell in in_order(repeat) if cell.slug in slugs) for repeat in repeats}
    rounds_per_job = room // len(slugs)

    if rounds_per_job:
        for start in range(0, len(repeats), rounds_per_job):
            of_job = repeats[start : start + rounds_per_job]
            whole_rounds = tuple((repeat, rounds[repeat]) for repeat in of_job)
            yield SharedJob(f"{prefix}rep{of_job[0]}-{of_job[-1]}", whole_rounds, same_nodes)
        return

    n_parts = -(-len(slugs) // room)  # rounded up
    for repeat, cells in rounds.items():
        for part in range(n_parts):  # of equal size, to within one run
            of_part = cells[part * len(cells) // n_parts : (part + 1) * len(cells) // n_parts]
            yield SharedJob(f"{prefix}rep{repeat}-part{part + 1}", ((repeat, of_part),), same_nodes)
