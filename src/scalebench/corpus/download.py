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
    Refused,
    RemoteFile,
    RetryPolicy,
    public_url,
    read_json,
    sibling_path,
    transfer,
)
from scalebench.errors import UserError
from scalebench.files import sha256_of, write_json


def download(remote_file: RemoteFile, target: Path, policy: RetryPolicy = RetryPolicy()) -> dict[str, Any]:  # noqa: B008  (frozen)
    """Have `target`: as it is where it is intact, else from the first address that gives it.

    Returns what is written to `target`.json as well: size, sha256, and what the checksum was compared with: `table`,
    `hub` (what the hub states of the file), or `first use` (nothing was known; later runs compare with it). Two
    processes may ask for the same file at once. Raises UserError where no address gave it, or where the disk is too
    small; a part never has its name.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with _alone(target):
        if record := _intact_record(remote_file, target):
            return record
        reasons = []
        for url in remote_file.urls:
            try:
                return _from(url, remote_file, target, policy)
            except Refused as refusal:
                reasons.append(f"  {public_url(url)}: {refusal}")
                _say(target, refusal)
        raise UserError(f"{target.name} could not be downloaded:\n" + "\n".join(reasons))


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _intact_record(remote_file: RemoteFile, target: Path) -> dict[str, Any] | None:
    """The description of a file that is there, intact and the wanted one; otherwise None."""
    if not target.is_file():
        return None
    size, sha256 = target.stat().st_size, sha256_of(target)
    record = read_json(sibling_path(target, ".json"))
    expected = remote_file.sha256 or record.get("sha256", sha256)
    if sha256 == expected and remote_file.size in (None, size):
        if record.get("sha256") == sha256 and (record.get("checked") != "first use" or not remote_file.sha256):
            return record
        # A file that somebody put there by hand is as good as a download.
        checked = "table" if remote_file.sha256 else "first use"
        record |= {"size": size, "sha256": sha256, "checked": checked}
        write_json(sibling_path(target, ".json"), record)
        return record
    _say(
        target, f"damaged, or another version (sha256 {sha256[:12]}..., expected {expected[:12]}...); downloading again"
    )
    target.unlink()
    return None


def _from(url: str, remote_file: RemoteFile, target: Path, policy: RetryPolicy) -> dict[str, Any]:
    """The file from one address, in as many transfers as that takes. Raises Refused where it is not to be had there."""
    part = sibling_path(target, ".part")
    failures, wrong = 0, None
    while True:
        before = _size(part)
        try:
            stated = transfer(url, remote_file, target, policy)
            sha256 = sha256_of(part)
            first = read_json(sibling_path(target, ".json")).get("sha256")
            expected = remote_file.sha256 or stated.get("sha256") or first or sha256
            if sha256 == expected:
                return _publish(remote_file, stated, target, sha256, public_url(url))
            part.unlink()
            if sha256 == wrong:  # a broken line does not break a file twice in the same way
                way_out = f" as at first; delete {target.name}.json to take the new one" if expected == first else ""
                raise Refused(f"the file there has sha256 {sha256}, expected {expected}{way_out}")
            wrong = sha256
            raise Interrupted("the checksum is wrong; once more from the start")
        except Interrupted as interruption:
            failures = 0 if _size(part) > before else failures + 1
            if failures >= policy.tries:
                raise Refused(f"{interruption}; given up after {failures} tries without a new byte") from None
            pause = min(policy.first_wait * 2 ** max(0, failures - 1), policy.longest_wait)
            pause = pause if interruption.wait is None else interruption.wait
            if pause > policy.longest_wait:
                raise Refused(f"{interruption}, and the server asks to wait {pause:,.0f} s") from None
            _say(target, f"{interruption}; next try in {pause:g} s")
            policy.wait(pause)


def _publish(remote_file: RemoteFile, stated: dict[str, Any], target: Path, sha256: str, source: str) -> dict[str, Any]:
    part = sibling_path(target, ".part")
    checked = "table" if remote_file.sha256 else "hub" if "sha256" in stated else "first use"
    record = {"size": _size(part), "sha256": sha256, "checked": checked, "source": source}
    record |= {"commit": stated["commit"]} if "commit" in stated else {}
    with part.open("rb") as file:
        os.fsync(file.fileno())
    write_json(sibling_path(target, ".json"), record)  # first: a description without a file is harmless
    part.replace(target)
    sibling_path(target, ".part.json").unlink(missing_ok=True)
    return record


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _say(target: Path, what: object) -> None:
    print(f"{target.name}: {what}", file=sys.stderr, flush=True)
