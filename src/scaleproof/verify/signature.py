"""manifest.json signed with the author's own SSH key: https://man.openbsd.org/ssh-keygen.1#Y

A signature says who stands behind the files, and that they are the signed ones; not that a measurement took place.
"""

import re
import subprocess
from pathlib import Path

from scaleproof.ground.errors import UserError
from scaleproof.ground.records.run import MANIFEST
from scaleproof.verify.raw import Difference

SIGNATURE = f"{MANIFEST}.sig"
NAMESPACE = "scaleproof"  # a signature for something else is none of a manifest
LIMIT_S = 60  # a key with a passphrase asks for it


def sign(folder: Path, key: Path) -> None:
    """Sign the manifest in `folder` with the SSH key in the file `key`. Raises UserError where that fails."""
    (folder / SIGNATURE).unlink(missing_ok=True)
    done = _ssh_keygen(["-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(folder / MANIFEST)])
    if done.returncode:
        raise UserError(f"{key} (option --sign): ssh-keygen does not sign with it: {done.stderr.strip()[:300]}")


def fingerprint_of(key: Path) -> str:
    """Return the fingerprint of an SSH key, as "SHA256:...". Raises UserError where the file is not an SSH key."""
    done = _ssh_keygen(["-l", "-f", str(key)])
    match = re.search(r"SHA256:\S+", done.stdout)
    if done.returncode or not match:
        fault = done.stderr.strip()[:300].rstrip(".")
        raise UserError(f"{key} (option --sign) is no SSH key: {fault}; make one: ssh-keygen -t ed25519")
    return match[0]


def signer_of(folder: Path) -> tuple[str, list[Difference]]:
    """Return the fingerprint of the key that signed the manifest in `folder`, "" for none, and its faults."""
    if not (folder / SIGNATURE).exists():
        return "", []
    options = ["-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(folder / SIGNATURE)]
    done = _ssh_keygen(options, (folder / MANIFEST).read_bytes())
    match = re.search(r"SHA256:\S+", done.stdout)
    if done.returncode or not match:
        return "", [Difference(SIGNATURE, "", f"is no signature of {MANIFEST}: {done.stderr.strip()[:200]}")]
    return match[0], []


def _ssh_keygen(options: list[str], given: bytes = b"") -> "subprocess.CompletedProcess[str]":
    """Run ssh-keygen; `given`: its standard input. Raises UserError where it is not installed, or does not end."""
    try:
        done = subprocess.run(["ssh-keygen", *options], input=given, capture_output=True, timeout=LIMIT_S, check=False)
    except FileNotFoundError:
        raise UserError("ssh-keygen is not installed; signatures are made and checked by OpenSSH") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"ssh-keygen did not end within {LIMIT_S} s; does the key need a passphrase?") from None
    out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)
