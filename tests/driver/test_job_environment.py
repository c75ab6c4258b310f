"""Secrets of the login node do not travel."""

from types import SimpleNamespace

import pytest

from scaleproof.driver import job_environment

PLAIN = {"PATH": "x", "NCCL_DEBUG": "INFO", "TOKENIZERS_PARALLELISM": "false", "KEYBOARD": "us", "SLURM_CONF": "y"}
SECRET = dict.fromkeys(
    ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "PGPASSWORD", "github_pat", "SSH_AUTH_SOCK"), "s"
)


@pytest.fixture
def variables(monkeypatch):
    variables = PLAIN | SECRET
    monkeypatch.setattr(job_environment, "os", SimpleNamespace(environ=variables))
    return variables


@pytest.mark.fault("secrets in the environment of the login node", "not sent along")
def test_what_looks_like_a_secret_is_not_sent(variables):
    assert job_environment.secrets(variables) == sorted(SECRET)
    assert job_environment.job_environment() == PLAIN
    assert variables == PLAIN | SECRET, "local steps have them"


def test_nothing_of_a_job_around_this_process_is_sent(variables):
    variables |= {"SLURM_ARRAY_TASK_ID": "3", "SNAKEMAKE_PROFILE": "slurm"}
    assert job_environment.job_environment() == PLAIN


def test_a_submit_command_gets_no_secrets_either(variables, capsys):
    """The command of cluster-generic inherits the environment, and many schedulers send all of it."""
    job_environment.withhold_secrets(SimpleNamespace(submit_cmd="qsub"))
    assert variables == PLAIN
    assert ", ".join(sorted(SECRET)) in capsys.readouterr().out


def test_other_executors_are_left_alone(variables):
    for settings in (None, SimpleNamespace(pass_command_as_script=False)):
        job_environment.withhold_secrets(settings)
    assert variables == PLAIN | SECRET
