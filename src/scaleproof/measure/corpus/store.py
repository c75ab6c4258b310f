"""The folder of downloads: a file that is whole, checked and described, or none; one process at a time."""

import fcntl
import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scaleproof.ground.errors import UserError
from scaleproof.ground.files import sha256_of, write_json

SHA256 = re.compile(r"[0-9a-f]{64}")


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """Hold the lock of `target`: a second process waits, and then finds the file."""
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def intact_record(target: Path, known_size: int | None, known_sha256: str | None) -> dict[str, Any] | None:
    """The description of a file that is there, intact and the right one; otherwise None, and the file is removed."""
    if not target.is_file():
        return None
    size, sha256 = target.stat().st_size, sha256_of(target)
    record = read_json(sibling_path(target, ".json"))
    expected = known_sha256 or record.get("sha256", sha256)
    if sha256 == expected and known_size in (None, size):
        if record.get("sha256") == sha256 and (record.get("checked") != "first use" or not known_sha256):
            return record
        # A file that somebody put there by hand is as good as a download.
        checked = "table" if known_sha256 else "first use"
        record |= {"size": size, "sha256": sha256, "checked": checked}
        write_json(sibling_path(target, ".json"), record)
        return record
    say(
        target, f"damaged, or another version (sha256 {sha256[:12]}..., expected {expected[:12]}...); downloading again"
    )
    target.unlink()
    return None


def first_sha256(target: Path) -> str | None:
    """The sha256 of the first download of this file, where the file itself has gone since."""
    return read_json(sibling_path(target, ".json")).get("sha256")


def keep(part: Path, target: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Give a checked part its name and its description, which is returned with the size."""
    record = {"size": part.stat().st_size, **record}
    with part.open("rb") as file:
        os.fsync(file.fileno())
    write_json(sibling_path(target, ".json"), record)  # first: a description without a file is harmless
    part.replace(target)
    return record


def room_for(target: Path, total: int | None, have: int) -> None:
    """Raises UserError where the rest of a file of `total` bytes does not fit on the disk."""
    free = shutil.disk_usage(target.parent).free
    if total is not None and total - have > free:
        raise UserError(
            f"{target.name} needs {total - have:,} bytes more, and the disk of {target.parent} has {free:,} free; "
            f"make room, or let {target.parent} be a link to a larger disk"
        )


def disk_full(part: Path) -> UserError:
    return UserError(
        f"the disk of {part.parent} is full; {part.stat().st_size:,} "
        "bytes are kept, and the next run goes on from there"
    )


def changed_since_first_use(target: Path, expected: str) -> str:
    """What to do about another file than the first download brought; empty where something else was expected."""
    return f" as at first; delete {target.name}.json to take the new one" if expected == first_sha256(target) else ""


def sibling_path(target: Path, ending: str) -> Path:
    return target.with_name(target.name + ending)


def read_json(path: Path) -> dict[str, Any]:
    """What a note holds; nothing where there is none, or half of one."""
    try:
        note = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def say(target: Path, what: object) -> None:
    print(f"{target.name}: {what}", file=sys.stderr, flush=True)
