"""`scaleproof init`: a folder of campaigns, measured by the workflow of the package that is installed."""

import errno
import os
from pathlib import Path

from scaleproof.ground.code_dependencies import PACKAGE
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import write_atomic

FILES = PACKAGE / "workflow_files"  # the repository's folders, also in an installed package
COPIED = (
    "config/campaigns/demo.yaml",
    "config/campaign.schema.json",
    "config/config.yaml",
    "config/corpora.yaml",
    "config/corpora.schema.json",
    "profiles/default/profile.yaml",
    "profiles/slurm/profile.v9+.yaml",
    "profiles/slurm/README.md",
)
SNAKEFILE = PACKAGE / "driver/templates/Snakefile"
IGNORED = "/.snakemake/\n/results/*\n!/results/published/\n"
LINK = "slurm"  # so that `snakemake --profile slurm` finds profiles/slurm


def new_project(folder: Path) -> list[str]:
    """Make a project in `folder`, and return the names of its files.

    Raises UserError where the folder is /, has results or one of these files. All of them are removed where one cannot
    be written, because half of a project would be in the way of the next call.
    """
    if folder.resolve() == Path(folder.resolve().anchor):
        raise UserError(f"{folder} is the root of the file system; give a new folder, such as my-benchmarks")
    if any(any(folder.glob(f"{of_campaign}runs/*/rep*")) for of_campaign in ("", "*/")):
        raise UserError(f"{folder} has the results of a campaign; give a new folder, such as my-benchmarks")
    names = sorted({"Snakefile", ".gitignore", *COPIED, LINK})
    if existing_names := [name for name in names if os.path.lexists(folder / name)]:
        raise UserError(f"{folder} has {', '.join(existing_names)} already; nothing was written. Give a new folder.")

    try:
        for name in COPIED:
            write_atomic(folder / name, (FILES / name).read_text(encoding="utf-8"))
        write_atomic(folder / "Snakefile", SNAKEFILE.read_text(encoding="utf-8"))
        write_atomic(folder / ".gitignore", IGNORED)
        (folder / LINK).symlink_to(f"profiles/{LINK}")
    except OSError as error:
        for name in names:
            (folder / name).unlink(missing_ok=True)
        if error.errno == errno.ENOENT:  # as in /proc: the folder is there, but no file can be
            raise UserError(f"{folder.resolve()} is of the system, which keeps no files there; give another") from None
        raise
    return names
