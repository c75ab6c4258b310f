"""The folder of downloads: a file that is whole, checked and described, or none; one process at a time.

One policy for all servers: a file that is intact is not fetched again; a part goes on where it ended; a checksum is
that of the table, of the hub, or of the first use; and who will not give the file says why (`Denied`).
"""

import fcntl
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from scaleproof.ground.errors import UserError
from scaleproof.ground.files import sha256_of, write_json
from scaleproof.ground.json_faults import read_part

SHA256 = re.compile(r"[0-9a-f]{64}")
MOST_WRONG = 5  # files in a row with another checksum


class Denied(Exception):
    """Raised where a server will not give the file; the message says why."""


class WrongChecksum(Denied):
    """Raised where another file came than was expected; what came is deleted."""

    def __init__(self, message: str, sha256: str) -> None:
        super().__init__(message)
        self.sha256 = sha256


Fetch = Callable[[], dict[str, Any]]


def keep_or_fetch(
    target: Path, size: int | None, sha256: str | None, offers: Mapping[str, Fetch], advice: str = ""
) -> dict[str, Any]:
    """Return the record of `target`, which is fetched unless it is there and intact.

    The record, also written to `target`.json, has size, sha256, source, and what the sha256 was `checked` with.
    `size`, `sha256`: what config/corpora.yaml says. `offers`: address -> function that fetches the file from there;
    the first one that succeeds counts. `advice`: what else the user can do. Raises UserError where none succeeds.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second process waits, and then finds the file
        if record := _intact_record(target, size, sha256):
            return record
        reasons: list[str] = []  # why each address did not give the file
        for address, fetch in offers.items():
            try:
                return _fetch_checked(fetch, target)
            except Denied as refusal:
                reasons.append(f"  {address}: {refusal}")
                if len(reasons) < len(offers):  # the last reason comes with the error
                    print_about_file(target, refusal)
        raise UserError(f"{target.name} could not be downloaded:\n" + "\n".join(reasons) + advice)


def _fetch_checked(fetch: Fetch, target: Path) -> dict[str, Any]:
    """Call `fetch`, again after a wrong checksum, and return its record.

    Raises WrongChecksum where a wrong checksum comes a second time, or after MOST_WRONG different ones: a bad
    connection would not damage a file twice in the same way, so that the server has another file.
    """
    wrong_checksums: set[str] = set()
    while True:
        try:
            return fetch()
        except WrongChecksum as error:
            if error.sha256 in wrong_checksums or len(wrong_checksums) == MOST_WRONG:
                raise
            wrong_checksums.add(error.sha256)
            print_about_file(target, "the checksum is wrong; once more from the start")


def _intact_record(target: Path, table_size: int | None, table_sha256: str | None) -> dict[str, Any] | None:
    """Return the record of `target` if its sha256 and size are as in the table, or, where that has none, in its record.

    Returns None where there is no such file. A file with other content is removed. A file put there by hand, or with
    a checksum that the table has only now, gets a new record.
    """
    if not target.is_file():
        return None
    size = target.stat().st_size
    sha256 = sha256_of(target)
    record = read_json(sibling_path(target, ".json"))
    expected = table_sha256 or record.get("sha256", sha256)  # without both, the file as it is
    if sha256 != expected or table_size not in (None, size):
        print_about_file(
            target,
            f"damaged, or another version (sha256 {sha256[:12]}..., expected {expected[:12]}...); downloading again",
        )
        target.unlink()
        return None

    is_recorded = record.get("sha256") == sha256  # a file that somebody put there by hand has no record
    is_checked_now = record.get("checked") == "first use" and table_sha256  # the table has got a checksum since
    if not is_recorded or is_checked_now:
        record |= {"size": size, "sha256": sha256, "checked": what_checked_with(table_sha256)}
        write_json(sibling_path(target, ".json"), record)
    return record


def keep_checked(
    part: Path, target: Path, table_sha256: str | None, hub_sha256: str | None, **origin: str | None
) -> dict[str, Any]:
    """Rename the downloaded file `part` to `target` if its sha256 is the expected one, and return its record.

    The expected sha256 is the table's; without it, the hub's; without both, that of the first download. A file with
    another sha256 is removed, and WrongChecksum raised. `origin`: further fields of the record.
    """
    sha256 = sha256_of(part)
    first_sha256 = read_json(sibling_path(target, ".json")).get("sha256")  # the record outlives the file
    expected = table_sha256 or hub_sha256 or first_sha256 or sha256
    if sha256 == expected:
        checked = what_checked_with(table_sha256, hub_sha256)
        return keep_file(part, target, {"sha256": sha256, "checked": checked, **origin})

    part.unlink()
    advice = ""
    if expected == first_sha256:
        advice = f" as at first; delete {target.name}.json to take the new one"
    raise WrongChecksum(f"the file there has sha256 {sha256}, expected {expected}{advice}", sha256)


def what_checked_with(table_sha256: str | None, hub_sha256: str | None = None) -> str:
    """Return what a checksum was compared with: the "table", what the "hub" stated, or nothing ("first use")."""
    if table_sha256:
        return "table"
    return "hub" if hub_sha256 else "first use"


def keep_file(part: Path, target: Path, record: dict[str, Any]) -> dict[str, Any]:
    """Rename the checked file `part` to `target`, and write its record: `record` with the size. Returns the record."""
    record = {"size": part.stat().st_size, **record}
    with part.open("rb") as file:
        os.fsync(file.fileno())
    write_json(sibling_path(target, ".json"), record)  # first: a description without a file is harmless
    part.replace(target)
    return record


def check_room(target: Path, total_bytes: int | None, bytes_here: int) -> None:
    """Raise UserError where the rest of a file does not fit on the disk.

    `total_bytes`: its size, None where it is unknown. `bytes_here`: how many of its bytes are on the disk already.
    """
    if total_bytes is None:
        return
    needed = total_bytes - bytes_here
    free = shutil.disk_usage(target.parent).free
    if needed > free:
        raise UserError(
            f"{target.name} needs {needed:,} bytes more, and the disk of {target.parent} has {free:,} free; "
            f"make room, or let {target.parent} be a link to a larger disk"
        )


def check_size(offered: int | None, expected: int | None) -> None:
    """Raise Denied where a file is offered with another size, in bytes, than is expected. None: not known."""
    if None not in (offered, expected) and offered != expected:
        raise Denied(f"{offered:,} bytes are offered, {expected:,} were expected: another file has taken its place")


def full_disk_error(part: Path) -> UserError:
    """Return the error to raise where the disk is full before the file `part` is complete."""
    return UserError(
        f"the disk of {part.parent} is full; {part.stat().st_size:,} "
        "bytes are kept, and the next run goes on from there"
    )


def sibling_path(target: Path, ending: str) -> Path:
    """Return the path of `target` with `ending` appended to its name."""
    return target.with_name(target.name + ending)


def size_on_disk(path: Path) -> int:
    """Return the bytes of a file, 0 where it does not exist."""
    return path.stat().st_size if path.exists() else 0


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file. Returns {} where the file is missing or damaged."""
    return read_part(path, lambda content: content if isinstance(content, dict) else None) or {}


def print_about_file(target: Path, what: object) -> None:
    """Print a line about a download on stderr, which begins with the file's name."""
    print(f"{target.name}: {what}", file=sys.stderr, flush=True)
