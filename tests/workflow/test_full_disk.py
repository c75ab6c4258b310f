"""A disk that is full, at three sizes: too small for the tokens, for a run, for the report.

A real file system each time.

What is said names the target and what to free; no part is left; and with room the next snakemake makes what an
undisturbed one has made.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

REPORT = "results/tiny/report.html"
CORPUS = "results/corpora/prose"
SIZE = "16m"


class Disk:
    """A file system for the results of a copy, which can be filled up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def leave(self, free: int) -> None:
        """Fill it up to `free` bytes."""
        state = os.statvfs(self.folder)
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, state.f_bavail * state.f_frsize - free)

    def make_room(self) -> None:
        self._ballast.unlink()


@pytest.fixture
def disk(make_copy):
    """A copy of the repository whose results are on a small disk."""
    copy = make_copy()
    folder = copy.root / "results"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield copy, Disk(folder)
    subprocess.run(["umount", "-l", folder], check=True)


def refused(copy, target: str, free: int, named: str) -> None:
    """With `free` bytes, `snakemake target` ends with exit code 1, says what the disk was full for, and leaves no part.

    `named`: the beginning of the path that is named.
    """
    small = Disk(copy.root / "results")
    small.leave(free)
    done = copy.snakemake(target)
    small.make_room()
    ended_for_want_of_room(done, rf"{re.escape(named)}\S*")
    left = [path for path in small.folder.rglob("*") if path.name.endswith(".part") or ".attempt-" in path.name]
    assert left == []


def ended_for_want_of_room(done: subprocess.CompletedProcess, named: str) -> None:
    """Exit code 1 and one message; `named`: what the disk was full for, as a regular expression."""
    said = done.stdout + done.stderr
    assert done.returncode == 1, said[-3000:]
    message = rf"{named}: the disk is full\. Make room"
    assert re.search(message, said, re.MULTILINE), said[-3000:]
    assert "Traceback" not in said, said[-3000:]


def losses(root: Path) -> dict[str, list[str]]:
    """The loss of each step of each run, as it is printed."""
    series = sorted(root.glob("results/tiny/runs/*/rep*/steps.csv"))
    return {
        str(path.relative_to(root)): [row.split(",")[5] for row in path.read_text().splitlines()] for path in series
    }


@pytest.mark.long
@pytest.mark.fault(
    "the disk is full: at the tokens, in a run, at the report",
    "each time the target and what to free are said, exit code 1, no part is left; with room the next snakemake "
    "goes on, and the results are those of an undisturbed one",
)
def test_a_disk_that_fills_up_at_three_sizes(disk, built):
    copy, _ = disk
    copy.build(f"{CORPUS}/bpe-512/tokenizer.json")
    refused(copy, REPORT, 16_384, f"{CORPUS}/bpe-512/")
    copy.build(f"{CORPUS}/bpe-512/tokens.json")
    for name in ("train.bin", "val.bin", "tokens.json"):
        made, undisturbed = (checkout.root / CORPUS / "bpe-512" / name for checkout in (copy, built))
        assert made.read_bytes() == undisturbed.read_bytes()

    refused(copy, "results/tiny/runs/ddp-n1x2/rep1/training_metrics.json", 16_384, "results/tiny/runs/ddp-n1x2/rep1")
    assert not (copy.root / "results/tiny/runs/ddp-n1x2/rep1/steps.csv").exists(), "nothing of it was published"
    copy.build(REPORT)
    assert losses(copy.root) == losses(built.root)

    whole = (copy.root / REPORT).read_bytes()
    (copy.root / REPORT).unlink()
    refused(copy, REPORT, 100_000, REPORT)
    copy.build(REPORT)
    assert (copy.root / REPORT).read_bytes() == whole
