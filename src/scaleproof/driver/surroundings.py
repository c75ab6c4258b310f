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
    campaigns = [file.stem for file in CAMPAIGNS.glob("*.yaml")]
    for before, word in pairwise(words):
        place = Path(word)
        is_result = place.parts[:1] == RESULTS.parts and len(place.parts) > 1
        name = place.parts[1] if is_result else place.stem
        is_whole = place in (RESULTS / name, CAMPAIGNS / f"{name}.yaml") or (word == name and before[:1] != "-")
        if name.lower() in campaigns and (is_whole or (is_result and name != name.lower())):
            raise UserError(f'{word} is no file that is made. Did you mean "{RESULTS / name.lower()}/report.html"?')
    for name in campaigns:
        if (RESULTS / name).is_file():
            raise UserError(f"{RESULTS / name} is a file, where the folder of a campaign's results is made: move it")
