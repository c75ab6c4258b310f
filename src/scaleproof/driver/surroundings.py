"""What the commands of rules find around them, however Snakemake was started."""

import os
import shutil
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from scaleproof.ground.campaign.yaml_loader import CAMPAIGNS
from scaleproof.ground.code_dependencies import PACKAGE
from scaleproof.ground.errors import UserError
from scaleproof.ground.snakemake_command import RESULTS


def find_package() -> None:
    """Set SCALEPROOF_ROOT, the checkout, for envs/*.post-deploy.sh and envs/apptainer.def; add `scaleproof` to PATH.

    PATH lacks it where .venv/bin/snakemake was called without activating its environment.
    """
    os.environ["SCALEPROOF_ROOT"] = str(PACKAGE.parents[1].resolve())
    if not shutil.which("scaleproof"):
        os.environ["PATH"] = f"{os.environ['PATH']}{os.pathsep}{Path(sys.executable).parent}"


def check_start(cores: int | None, words: Sequence[str]) -> None:
    """Raise UserError where Snakemake would wait for ever, or say less of a target than is known.

    `words`: of the command line, since Snakemake tells its targets later.
    """
    if cores == 0:
        raise UserError("--cores 0 starts nothing; give the number of cores, as in --cores 2")
    for before, word in pairwise(words):
        results = RESULTS / Path(word).stem
        names = [
            str(results),
            str(CAMPAIGNS / f"{results.name}.yaml"),
            *([results.name] if not before.startswith("-") else []),
        ]
        if word.rstrip("/") in names and (CAMPAIGNS / f"{results.name}.yaml").is_file():
            raise UserError(f'{word} is no file that is made. Did you mean "{results}/report.html"?')
    for campaign in CAMPAIGNS.glob("*.yaml"):
        if (place := RESULTS / campaign.stem).is_file():
            raise UserError(f"{place} is a file, where the folder of a campaign's results is made: move it")
