"""Writing results: whole files or none, and nothing private in them."""

import hashlib
import json
import os
import sys
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
    places = {str(Path.cwd()): ".", sys.prefix: "<env>", sys.base_prefix: "<python>", str(Path.home()): "~"}
    for place in sorted(places, key=len, reverse=True):
        if len(place) > 1:
            text = text.replace(place, places[place])
    return text
