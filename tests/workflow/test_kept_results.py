"""Finished runs that Snakemake would measure again: it says so, and its advice works. The real Snakemake decides."""

import os
import re
import shutil
import subprocess

import pytest

REPORT = "results/tiny/report.html"
CAMPAIGN = "config/campaigns/tiny.yaml"
FINISHED = "results/tiny/runs/ddp-n1x1/rep1/training_metrics.json"


@pytest.fixture
def clone(built, make_copy):
    """Another clone of the repository, cloned after the results were made that were copied into it."""
    other = make_copy()
    shutil.copytree(built.root / "results", other.root / "results")
    for path in (other.root / "src").rglob("*.py"):
        os.utime(path)
    return other


@pytest.fixture
def twin(built, make_copy):
    """The folder with all that Snakemake remembers, to be spoiled."""
    other = make_copy()
    for name in ("results", ".snakemake"):
        shutil.copytree(built.root / name, other.root / name)
    return other


def command_after(words: str, text: str) -> str:
    """The command that a message tells people to type."""
    return re.search(rf"{words}: (.+)", text)[1]


def typed(copy, line: str) -> subprocess.CompletedProcess:
    """What happens if it is typed."""
    return copy.command("bash", "-c", f"set -e; PATH={copy.programs.commands}:$PATH; {line}")


@pytest.mark.fault(
    "results are copied into another clone", "nothing is measured again before somebody chooses; the runs can be kept"
)
def test_copied_results_are_kept(built, clone):
    before = (clone.root / FINISHED).read_bytes()
    planned = clone.snakemake("--dry-run", REPORT)
    assert "without -n nothing would be started: snakemake has no record of 2 finished runs" in planned.stderr
    stopped = clone.snakemake(REPORT)
    assert stopped.returncode == 2
    assert "nothing was started: snakemake has no record of 2 finished runs, 1 reference of tiny" in stopped.stderr
    shutil.rmtree(clone.root / "results/corpora")  # a forced job whose inputs are made as well
    assert "nothing would be" not in clone.dry(*command_after("to measure them again", stopped.stderr).split()[3:])
    shutil.copytree(built.root / "results/corpora", clone.root / "results/corpora")

    stale = clone.command("scaleproof", "stale", CAMPAIGN)
    assert stale.returncode == 1
    assert "2 of 2 runs would be measured again" in stale.stdout
    assert "2 because snakemake has no record of it" in stale.stdout
    assert clone.dry(*command_after("to measure them again", stale.stdout).split()[3:]).count("Train tiny") == 2
    shutil.rmtree(clone.root / "results/corpora")  # copied without the tokens: these are made, and are the same
    kept = typed(clone, command_after("to keep them", stale.stdout))
    assert kept.returncode == 0, kept.stderr
    assert "2 runs of tiny kept" in kept.stdout

    assert clone.command("scaleproof", "stale", CAMPAIGN).stdout == "tiny: no finished run would be measured again\n"
    assert not {"train", "corpus_tokenise"} & set(clone.planned(REPORT))
    assert "Train tiny" not in clone.build(REPORT)
    assert (clone.root / FINISHED).read_bytes() == before
    assert clone.planned(REPORT) == {}
    path = clone.root / CAMPAIGN
    path.write_text(path.read_text().replace("steps: 4", "steps: 5"))
    assert clone.planned(REPORT)["train"] == 2  # Snakemake knows what it has kept


@pytest.mark.fault(
    "snakemake is killed after an edit, and its jobs publish", "nothing is measured again before somebody chooses"
)
def test_what_jobs_of_a_killed_snakemake_have_made_is_kept(twin):
    """Snakemake's record is of the runs before the edit; those of after it are there, and right."""
    path = twin.root / CAMPAIGN
    path.write_text(path.read_text().replace("steps: 4", "steps: 5"))
    shutil.copytree(twin.root / ".snakemake", twin.root / "before")
    twin.build("results/tiny/runs.csv")
    shutil.rmtree(twin.root / ".snakemake")
    (twin.root / "before").rename(twin.root / ".snakemake")

    stopped = twin.snakemake(REPORT)
    assert stopped.returncode == 2
    assert "nothing was started: snakemake has no record of 2 finished runs of tiny" in stopped.stderr
    kept = typed(twin, command_after("to keep them", stopped.stderr))
    assert kept.returncode == 0, kept.stderr
    assert "train" not in twin.planned(REPORT)
    path.write_text(path.read_text().replace("steps: 5", "steps: 6"))
    assert twin.planned(REPORT)["train"] == 2


@pytest.mark.fault("a cell is added to results copied with their times", "the command without which it is never made")
def test_a_cell_added_to_copied_results_is_told(built, make_copy):
    """Without records Snakemake goes by times, by which nothing is to be done."""
    copy = make_copy()
    shutil.copytree(built.root / "results", copy.root / "results")
    for path in (copy.root / "prose.txt", *(copy.root / "results").rglob("*")):
        os.utime(path, (0, 0))  # whatever other tests have made again since
    assert "scaleproof: " not in copy.dry(REPORT)

    path = copy.root / CAMPAIGN
    path.write_text(path.read_text().replace("repeats: 1", "repeats: 2"))
    dry = copy.dry(REPORT)
    assert "Nothing to be done" in dry
    line = next(line for line in dry.splitlines() if line.startswith("scaleproof: "))
    assert line.startswith("scaleproof: 2 runs of tiny missing (results/tiny/runs/ddp-n1x1/rep2), and snakemake has no")
    kept = typed(copy, command_after("Where it plans none of them", line))
    dry = copy.dry(*command_after("to make the missing runs", kept.stdout).split()[3:])
    assert dry.count("Train tiny") == 2
    assert "scaleproof: " not in dry


def test_after_a_changed_key_the_advice_ends_in_a_report(twin):
    """Whatever was typed before: --touch makes Snakemake take runs of another configuration for those of this one."""
    path = twin.root / CAMPAIGN
    path.write_text(path.read_text().replace("steps: 4", "steps: 6"))
    stale = twin.command("scaleproof", "stale", CAMPAIGN)
    assert "2 because its configuration changed: " in stale.stdout
    advice = command_after("to measure them again", stale.stdout)
    assert advice == (f"scaleproof retry {CAMPAIGN} --cell ddp-n1x1 --cell ddp-n1x2 && snakemake --cores 2 {REPORT}")
    assert "--touch" not in stale.stdout
    assert "scaleproof keep" not in stale.stdout
    refused = twin.command("scaleproof", "keep", CAMPAIGN)
    assert refused.returncode == 2
    assert "a run of another configuration" in refused.stderr

    twin.build("--touch", REPORT)
    assert twin.planned(REPORT) == {}
    assert twin.command("scaleproof", "stale", CAMPAIGN).stdout == stale.stdout
    failed = twin.command("scaleproof", "stage", "report", CAMPAIGN)
    assert failed.returncode == 2
    assert command_after("Measure it again", failed.stderr).startswith("scaleproof retry")

    done = typed(twin, advice)
    assert done.returncode == 0, done.stderr
    assert twin.planned(REPORT) == {}
    assert twin.command("scaleproof", "stale", CAMPAIGN).returncode == 0
