"""Targets that name a run or a trace: only what the campaign plans is made."""

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import UserError, did_you_mean
from scaleproof.ground.snakemake_command import RESULTS


def cell_of_run(loaded: LoadedCampaign, slug: str, repeat: int) -> Cell:
    """Return the cell of a run that is a job of its own. Raises UserError where the campaign plans no such run."""
    cell = loaded.cell(slug)
    if loaded.shared_jobs:
        raise UserError(
            f"runs of {loaded.path} are made several in a job (resources); ask for all of them, "
            f"results/{loaded.name}/runs.csv, or for one job: {next(iter(loaded.records(RESULTS, 1)))}"
        )
    if repeat > loaded.campaign.most_repeats:
        raise UserError(f"{loaded.path} plans repeats 1 to {loaded.campaign.most_repeats} (key: repeats)")
    return cell


def cell_of_trace(loaded: LoadedCampaign, slug: str) -> Cell:
    """Return the cell of a trace. Raises UserError where the campaign does not trace it."""
    cell = loaded.cell(slug)
    if cell not in loaded.traced:
        traced = [one.slug for one in loaded.traced]
        raise UserError(
            f"{loaded.path} does not trace {slug} (key: trace.cells).{did_you_mean(slug, traced)} "
            f"Traced: {', '.join(traced) or 'none'}"
        )
    return cell
