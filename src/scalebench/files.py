"""Writing results: whole files or none, and nothing private in them."""

import hashlib
import json
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any


def write_atomic(path: Path, text: str) -> None:
    """Write a text file so that a reader sees the old one or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def write_json(path: Path, data: Any) -> None:
    write_atomic(path, json.dumps(data, indent=2, allow_nan=False) + "\n")


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def scrub(text: str) -> str:
    """Replace the places of this machine: the repository, the Python environment and the home directory."""
    for place, name in _places(os.getcwd(), sys.prefix, sys.base_prefix, str(Path.home())):
        text = text.replace(place, name)
    return text


@lru_cache
def _places(*paths: str) -> list[tuple[str, str]]:
    """The places and what is written for them, the longest first; each as it is called and as it really is.

    A home directory is often a link into a larger file system, where the user's name stands in the path, too.
    """
    names = dict(zip(paths, (".", "<env>", "<python>", "~"), strict=True))
    real = {str(Path(place).resolve()): name for place, name in reversed(names.items())}
    return [(place, name) for place, name in sorted((real | names).items(), key=lambda p: -len(p[0])) if len(place) > 1]
