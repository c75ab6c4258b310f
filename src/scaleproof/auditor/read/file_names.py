"""What reports call the files that are read: a path that the reader of a report can open."""

import os
from collections.abc import Sequence
from pathlib import Path

from scaleproof.auditor.read.attach import GENERIC
from scaleproof.auditor.read.text_files import printable

PIPED = "standard-input"  # name of the file, in a temporary folder, that has the text of standard input


def name_of_root(root: Path, several: bool) -> str:
    """Return the name of a path that is audited: its last part; with `several` of them the path as it was given."""
    return printable(str(root) if several and root.name != PIPED else root.name or root.resolve().name)


def name_of(root: Path, several: bool, path: Path) -> str:
    """Return the name of a file: its path below `root`; with `several` roots its path as it was given."""
    if root.is_dir():
        return printable(str(path if several or path == root else path.relative_to(root)))
    if several:
        return name_of_root(root, several)
    folder = root.absolute().parent.name
    needs_folder = path.name in GENERIC and folder  # "a/results.json"
    return printable(f"{folder}/{path.name}" if needs_folder else path.name)


def name_in_archive(archive: str, folder: Path, member: Path) -> str:
    """Return the name of a file of an archive that was unpacked into `folder`: "a.zip!/b/c.md"."""
    return f"{archive}!/{printable(str(member.relative_to(folder)))}"


def shared_folder(roots: Sequence[Path]) -> str:
    """Return what the names of all files begin with, "logs/" for logs/a.log and logs/b; "" for one root.

    It is called after the whole project, such as "1_vs_8_gpus", and says nothing of a single run.
    """
    if len(roots) < 2 or len({root.is_absolute() for root in roots}) > 1:
        return ""
    folder = os.path.commonpath([root.parent for root in roots])
    return folder and f"{folder.rstrip('/')}/"
