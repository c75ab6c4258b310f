"""Targets that name a run or a trace: only what the campaign plans is made."""

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import UserError, did_you_mean
from scaleproof.ground.snakemake_command import RESULTS


def cell_of_run(loaded: LoadedCampaign, slug: str, repeat: int) -> Cell:
    """Return the cell `slug`, whose run `repeat` is a job of its own. Raises UserError where none is planned."""
    cell = loaded.cell(slug)
    if loaded.shared_jobs:
        first_job = next(iter(loaded.records(RESULTS, 1)))
        advice = f"ask for all of them, results/{loaded.name}/runs.csv, or for one job: {first_job}"
        raise UserError(f"runs of {loaded.path} are made several in a job (resources); {advice}")
    if repeat > loaded.campaign.most_repeats:
        raise UserError(f"{loaded.path} plans repeats 1 to {loaded.campaign.most_repeats} (key: repeats)")
    return cell


def cell_of_trace(loaded: LoadedCampaign, slug: str) -> Cell:
    """Return the cell `slug`, whose trace is to be made. Raises UserError where the campaign does not trace it."""
    cell = loaded.cell(slug)
    if cell not in loaded.traced:
        traced_slugs = [cell.slug for cell in loaded.traced]
        hint = f"{did_you_mean(slug, traced_slugs)} Traced: {', '.join(traced_slugs) or 'none'}"
        raise UserError(f"{loaded.path} does not trace {slug} (key: trace.cells).{hint}")
    return cell
