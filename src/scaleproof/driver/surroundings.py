"""What the commands of rules find around them, however Snakemake was started."""

import os
import shutil
import sys
from pathlib import Path

from scaleproof.ground.code_dependencies import PACKAGE


def find_package() -> None:
    """Set SCALEPROOF_ROOT, the checkout, for envs/*.post-deploy.sh and envs/apptainer.def; add `scaleproof` to PATH.

    PATH lacks it where .venv/bin/snakemake was called without activating its environment.
    """
    os.environ["SCALEPROOF_ROOT"] = str(PACKAGE.parents[1].resolve())
    if not shutil.which("scaleproof"):
        os.environ["PATH"] = f"{os.environ['PATH']}{os.pathsep}{Path(sys.executable).parent}"
