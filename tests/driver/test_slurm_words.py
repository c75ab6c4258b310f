"""What Slurm says of jobs that did not end well, said once on the console."""

import pytest

from scaleproof.driver import slurm_words
from scaleproof.driver.slurm_words import SlurmsWords


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (("FAILED", "n1", "NonZeroExitCode", "1:0"), "FAILED on n1, NonZeroExitCode, exit code 1"),
        (("FAILED", "", "JobLaunchFailure", "0:1"), "FAILED, JobLaunchFailure, signal 1"),
        (("TIMEOUT", "n[1-2]", "TimeLimit", "0:0"), "TIMEOUT on n[1-2], TimeLimit, limit 00:01:00"),
        (("CANCELLED", "n1", "None", "0:0"), "CANCELLED on n1"),
        (("OUT_OF_MEMORY", "n1", "OutOfMemory", "0:125"), "OUT_OF_MEMORY on n1, OutOfMemory, signal 125"),
    ],
)
def test_the_words(monkeypatch, capsys, facts, words):
    said = dict(zip(("JobState", "NodeList", "Reason", "ExitCode"), facts, strict=True)) | {"TimeLimit": "00:01:00"}
    monkeypatch.setattr(slurm_words, "describe", lambda job, patience: said)
    listener = SlurmsWords()
    for _ in range(2):
        listener.hear({"25_2": facts[0], "26": "RUNNING"})
    assert capsys.readouterr().err == f"Slurm says of job 25_2: {words}\n"


def test_nothing_is_said_of_jobs_that_end_well_or_that_slurm_has_forgotten(monkeypatch, capsys):
    monkeypatch.setattr(slurm_words, "describe", lambda job, patience: {})
    SlurmsWords().hear({"1": "COMPLETED", "2": "PENDING", "3": "UNKNOWN", "4": "FAILED"})
    assert capsys.readouterr().err == ""
