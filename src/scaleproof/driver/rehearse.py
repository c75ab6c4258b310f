"""A whole campaign in small, from its file to a page: what `scaleproof rehearse` writes, starts and reads."""

import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from scaleproof.driver.cells_here import reason_here
from scaleproof.driver.snakemake_view import HERE, run_snakemake
from scaleproof.ground.campaign.campaign_paths import CAMPAIGNS
from scaleproof.ground.campaign.cells import Cell, expand_cells
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.campaign.rehearsal import PREFIX, make_rehearsal
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.files import write_atomic
from scaleproof.ground.snakemake_command import RESULTS
from scaleproof.measure.machine.gpus import cuda_devices, usable_gpus


def _check_any_runs(path: Path, cells: Sequence[Cell]) -> None:
    """Raise UserError where none of the `cells` of the campaign at `path` can run on this machine."""
    gpus = usable_gpus(cuda_devices)[0]
    reasons = [reason_here(cell, gpus) for cell in cells]
    if all(reasons):
        raise UserError(f"{path}: no cell can run here: {'; '.join(dict.fromkeys(filter(None, reasons)))}")


def run_rehearsal(path: Path, options: Sequence[str], without_gpu: bool) -> LoadedCampaign:
    """Run a small version of the campaign at `path` up to its page, and return the small version.

    `options`: of Snakemake, which say how jobs are sent. `without_gpu`: run on the CPU what asks for GPUs. A run that
    fails is a row of the results. Raises UserError, with Snakemake's last lines, where a stage fails.
    """
    rehearsal = make_rehearsal(LoadedCampaign(path).campaign, without_gpu)
    if options == HERE:
        _check_any_runs(path, expand_cells(rehearsal))
    content = rehearsal.model_dump(mode="json", exclude_defaults=True)
    file = CAMPAIGNS / f"{PREFIX}{path.stem}.yaml"
    write_atomic(file, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))

    loaded = LoadedCampaign(file)
    folder = RESULTS / loaded.name
    runs = plural(len(loaded.runs(RESULTS)), "run")
    print(f"scaleproof: {runs} in small; logs: {folder}/runs/CELL/rep1/train.log", file=sys.stderr)
    try:
        run_snakemake(file, [folder / "report.html"], options)
    except UserError:
        if not folder.is_dir():  # nothing has begun; else the next call goes on from there
            file.unlink()
        raise
    return loaded
