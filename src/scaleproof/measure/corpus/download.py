"""A download over HTTP that can be trusted: a file that is whole and checked, or none."""

from functools import partial
from pathlib import Path
from typing import Any

from scaleproof.measure.corpus.store import Denied, have, keep_checked, say, sibling_path
from scaleproof.measure.corpus.transfer import BrokenOff, RemoteFile, RetryPolicy, public_url, transfer


def download(remote_file: RemoteFile, target: Path, policy: RetryPolicy = RetryPolicy()) -> dict[str, Any]:  # noqa: B008  (frozen)
    """Have the file as `target` from the first address that gives it; returns its record (`have`). Raises UserError."""
    offers = {public_url(url): partial(_from, url, remote_file, target, policy) for url in remote_file.urls}
    return have(target, remote_file.size, remote_file.sha256, offers)


def _from(url: str, remote_file: RemoteFile, target: Path, policy: RetryPolicy) -> dict[str, Any]:
    """Have the file from one address, in as many transfers as that takes; returns its record. Raises Denied."""
    part = sibling_path(target, ".part")
    failures = 0  # in a row that brought no new byte
    while True:
        before = _size(part)
        try:
            transfer(url, remote_file, target, policy)
            record = keep_checked(part, target, remote_file.sha256, None, source=public_url(url))
            sibling_path(target, ".part.json").unlink(missing_ok=True)
            return record
        except BrokenOff as interruption:
            failures = 0 if _size(part) > before else failures + 1
            if failures >= policy.tries:
                raise Denied(f"{interruption}; given up after {failures} tries without a new byte") from None
            pause = interruption.wait  # what the server asked for
            if pause is None:
                pause = policy.pause(failures)
            if pause > policy.longest_wait:
                raise Denied(f"{interruption}, and the server asks to wait {pause:,.0f} s") from None
            say(target, f"{interruption}; next try in {pause:g} s")
            policy.wait(pause)


def _size(path: Path) -> int:
    """Bytes of a file; 0 where there is none."""
    return path.stat().st_size if path.exists() else 0
