"""A download over HTTP that can be trusted: a file that is whole and checked, or none."""

from pathlib import Path
from typing import Any

from scaleproof.ground.errors import UserError
from scaleproof.ground.files import sha256_of
from scaleproof.measure.corpus.store import (
    alone,
    changed_since_first_use,
    first_sha256,
    intact_record,
    keep,
    say,
    sibling_path,
)
from scaleproof.measure.corpus.transfer import Interrupted, Refused, RemoteFile, RetryPolicy, public_url, transfer


def download(remote_file: RemoteFile, target: Path, policy: RetryPolicy = RetryPolicy()) -> dict[str, Any]:  # noqa: B008  (frozen)
    """Have `target`: as it is where it is intact, else from the first address that gives it.

    Returns what is written to `target`.json as well: size, sha256, and what the checksum was compared with: `table`
    or `first use` (nothing was known; later runs compare with it). Two processes may ask for the same file at once.
    Raises UserError where no address gave it, or where the disk is too small; a part never has its name.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with alone(target):
        if record := intact_record(target, remote_file.size, remote_file.sha256):
            return record
        reasons = []
        for url in remote_file.urls:
            try:
                return _from(url, remote_file, target, policy)
            except Refused as refusal:
                reasons.append(f"  {public_url(url)}: {refusal}")
                say(target, refusal)
        raise UserError(f"{target.name} could not be downloaded:\n" + "\n".join(reasons))


def _from(url: str, remote_file: RemoteFile, target: Path, policy: RetryPolicy) -> dict[str, Any]:
    """The file from one address, in as many transfers as that takes. Raises Refused where it is not to be had there."""
    part = sibling_path(target, ".part")
    failures, wrong = 0, None
    while True:
        before = _size(part)
        try:
            transfer(url, remote_file, target, policy)
            sha256 = sha256_of(part)
            expected = remote_file.sha256 or first_sha256(target) or sha256
            if sha256 == expected:
                checked = "table" if remote_file.sha256 else "first use"
                record = keep(part, target, {"sha256": sha256, "checked": checked, "source": public_url(url)})
                sibling_path(target, ".part.json").unlink(missing_ok=True)
                return record
            part.unlink()
            if sha256 == wrong:  # a broken line does not break a file twice in the same way
                way_out = changed_since_first_use(target, expected)
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
            say(target, f"{interruption}; next try in {pause:g} s")
            policy.wait(pause)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
