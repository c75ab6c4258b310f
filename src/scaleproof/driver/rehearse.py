"""A whole campaign in small, from its file to a page: what `scaleproof rehearse` writes, starts and reads."""

import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from scaleproof.driver.snakemake_view import run_snakemake
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.campaign.rehearsal import PREFIX, make_rehearsal
from scaleproof.ground.campaign.yaml_loader import CAMPAIGNS
from scaleproof.ground.errors import plural
from scaleproof.ground.files import write_atomic
from scaleproof.ground.snakemake_command import RESULTS


def run_rehearsal(path: Path, options: Sequence[str], without_gpu: bool) -> LoadedCampaign:
    """Write the rehearsal (a small version) of the campaign at `path`, run it up to its page, and return it.

    `options`: Snakemake's, on how jobs are sent. `without_gpu`: rehearse on the CPU what asks for GPUs. A run that
    fails is a row of the results. Raises UserError, with Snakemake's last lines, where a stage fails.
    """
    campaign = make_rehearsal(LoadedCampaign(path).campaign, without_gpu).model_dump(mode="json", exclude_defaults=True)
    small = CAMPAIGNS / f"{PREFIX}{path.stem}.yaml"
    write_atomic(small, yaml.safe_dump(campaign, sort_keys=False, allow_unicode=True))
    loaded = LoadedCampaign(small)
    runs = plural(len(loaded.runs(RESULTS)), "run")
    print(f"scaleproof: {runs} in small; logs: {RESULTS / loaded.name}/runs/CELL/rep1/train.log", file=sys.stderr)
    run_snakemake(small, [RESULTS / small.stem / "report.html"], options)
    return loaded
