"""A download that can be trusted: a file that is whole and checked, or none."""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scalebench.corpus.transfer import (
    Interrupted,
    Patience,
    Refused,
    Wanted,
    beside,
    read_json,
    shown,
    transfer,
)
from scalebench.errors import UserError
from scalebench.files import sha256_of, write_json


def download(wanted: Wanted, target: Path, patience: Patience = Patience()) -> dict[str, Any]:  # noqa: B008  (frozen)
    """Have `target`: as it is where it is intact, else from the first address that gives it.

    Returns what is written to `target`.json as well: size, sha256, and what the checksum was compared with: `table`,
    `hub` (what the hub states of the file), or `first use` (nothing was known; later runs compare with it). Two
    processes may ask for the same file at once. Raises UserError where no address gave it, or where the disk is too
    small; a part never has its name.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target):
        if kept := _kept(wanted, target):
            return kept
        reasons = []
        for url in wanted.urls:
            try:
                return _from(url, wanted, target, patience)
            except Refused as refusal:
                reasons.append(f"  {shown(url)}: {refusal}")
                _say(target, refusal)
        raise UserError(f"{target.name} could not be downloaded:\n" + "\n".join(reasons))


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _kept(wanted: Wanted, target: Path) -> dict[str, Any] | None:
    """The description of a file that is there, intact and the wanted one; otherwise None."""
    if not target.is_file():
        return None
    size, sha256, record = target.stat().st_size, sha256_of(target), read_json(beside(target, ".json"))
    expected = wanted.sha256 or record.get("sha256", sha256)
    if sha256 == expected and wanted.size in (None, size):
        if record.get("sha256") == sha256 and (record.get("checked") != "first use" or not wanted.sha256):
            return record
        # A file that somebody put there by hand is as good as a download.
        checked = "table" if wanted.sha256 else "first use"
        record |= {"size": size, "sha256": sha256, "checked": checked}
        write_json(beside(target, ".json"), record)
        return record
    _say(
        target, f"damaged, or another version (sha256 {sha256[:12]}..., expected {expected[:12]}...); downloading again"
    )
    target.unlink()
    return None


def _from(url: str, wanted: Wanted, target: Path, patience: Patience) -> dict[str, Any]:
    """The file from one address, in as many transfers as that takes. Raises Refused where it is not to be had there."""
    part, failures, wrong = beside(target, ".part"), 0, None
    while True:
        before = _size(part)
        try:
            said = transfer(url, wanted, target, patience)
            sha256 = sha256_of(part)
            first = read_json(beside(target, ".json")).get("sha256")
            expected = wanted.sha256 or said.get("sha256") or first or sha256
            if sha256 == expected:
                return _publish(wanted, said, target, sha256, shown(url))
            part.unlink()
            if sha256 == wrong:  # a broken line does not break a file twice in the same way
                way_out = f" as at first; delete {target.name}.json to take the new one" if expected == first else ""
                raise Refused(f"the file there has sha256 {sha256}, expected {expected}{way_out}")
            wrong = sha256
            raise Interrupted("the checksum is wrong; once more from the start")
        except Interrupted as interruption:
            failures = 0 if _size(part) > before else failures + 1
            if failures >= patience.tries:
                raise Refused(f"{interruption}; given up after {failures} tries without a new byte") from None
            pause = min(patience.first_wait * 2 ** max(0, failures - 1), patience.longest_wait)
            pause = pause if interruption.wait is None else interruption.wait
            if pause > patience.longest_wait:
                raise Refused(f"{interruption}, and the server asks to wait {pause:,.0f} s") from None
            _say(target, f"{interruption}; next try in {pause:g} s")
            patience.wait(pause)


def _publish(wanted: Wanted, said: dict[str, Any], target: Path, sha256: str, source: str) -> dict[str, Any]:
    part = beside(target, ".part")
    checked = "table" if wanted.sha256 else "hub" if "sha256" in said else "first use"
    record = {"size": _size(part), "sha256": sha256, "checked": checked, "source": source}
    record |= {"commit": said["commit"]} if "commit" in said else {}
    with part.open("rb") as file:
        os.fsync(file.fileno())
    write_json(beside(target, ".json"), record)  # first: a description without a file is harmless
    part.replace(target)
    beside(target, ".part.json").unlink(missing_ok=True)
    return record


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _say(target: Path, what: object) -> None:
    print(f"{target.name}: {what}", file=sys.stderr, flush=True)
