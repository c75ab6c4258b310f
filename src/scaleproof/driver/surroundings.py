"""What the commands of rules find around them, however Snakemake was started."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from scaleproof.ground.campaign.campaign_paths import CAMPAIGNS
from scaleproof.ground.campaign.yaml_loader import read_yaml
from scaleproof.ground.code_dependencies import PACKAGE
from scaleproof.ground.errors import UserError, path_fault, printable
from scaleproof.ground.snakemake_command import RESULTS

Result = TypeVar("Result")
LINE_END = "\n"
OPTION = re.compile("--?[a-zA-Z]")


def or_exit(function: Callable[..., Result], *arguments: Any) -> Result:
    """Return `function(*arguments)`. Wrong input ends Snakemake with the message alone and exit code 2."""
    try:
        return function(*arguments)
    except UserError as error:
        print(f"\n{printable(str(error), besides=LINE_END)}\n", file=sys.stderr)
        raise SystemExit(2) from None


def find_package() -> None:
    """Set SCALEPROOF_ROOT, the checkout, for envs/*.post-deploy.sh and envs/apptainer.def; add `scaleproof` to PATH.

    PATH lacks it where .venv/bin/snakemake was called without activating its environment.
    """
    os.environ["SCALEPROOF_ROOT"] = str(PACKAGE.parents[1].resolve())
    if not shutil.which("scaleproof"):
        os.environ["PATH"] = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{Path(sys.executable).parent}"


def has_config(path: Path) -> bool:
    """Return whether the YAML file `path` has keys for Snakemake, which refuses a file without any. Raises UserError.

    The error says what is wrong with the file, and where.
    """
    content = read_yaml(path)[0] if path.is_file() else None
    if content is not None and not isinstance(content, dict):
        raise UserError(f"{path}: a mapping is expected, with lines such as 'anonymous: true'")
    return content is not None


def check_config_name(config: Mapping[str, Any]) -> None:
    """Raise UserError where Snakemake's `config` is empty because its file has another name than the one we read."""
    named = Path("config/config.yml")
    if not config and named.is_file() and not named.with_suffix(".yaml").exists():
        raise UserError(f"{named} is not read: rename it to {named.with_suffix('.yaml')}")


def check_start(cores: int | None) -> None:
    """Raise UserError where Snakemake would wait for ever (0 `cores`), or could not work in this folder."""
    if cores == 0:
        raise UserError("--cores 0, or --jobs 0, starts nothing; give the number of cores, as in --cores 2")
    if set("{}") & set(str(Path.cwd())):
        raise UserError(
            f"{Path.cwd()}: Snakemake takes braces in the name of a folder for a variable: rename the folder"
        )
    if os.path.lexists(RESULTS) and not RESULTS.is_dir():
        raise UserError(f"{RESULTS}{path_fault(RESULTS) or ' is a file; a folder is expected'}")
    for results in (RESULTS / file.stem for file in CAMPAIGNS.glob("*.yaml")):
        if results.is_file():
            raise UserError(f"{results} is a file, where the folder of a campaign's results is made: move it")


def check_order(words: Sequence[str]) -> None:
    """Raise UserError for an option behind `--` in the `words` of a command line, where Snakemake reads targets."""
    targets = words[words.index("--") + 1 :] if "--" in words else []
    for word in targets:
        if OPTION.match(word):
            raise UserError(f"{word} stands behind --, where only targets may stand: write all options before --")
