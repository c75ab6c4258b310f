"""Snakemake must hear of the end of its jobs, and must not send secrets along."""

from types import SimpleNamespace

import pytest

from scalebench.errors import UserError
from scalebench.launch import polling


@pytest.mark.parametrize(
    ("command", "interval", "age", "accounts", "sacct", "reason"),
    [
        ("sacct", 40, 300, True, True, None),
        ("squeue", 40, 2, True, True, None),  # the plugin falls back to sacct, which answers
        ("squeue", 30, 300, False, True, None),
        ("squeue", 101, 300, False, True, "to 100 or less"),
        ("squeue", 40, None, False, True, "unknown"),
        ("sacct", 40, 300, False, True, "wait for its jobs for ever; write `slurm-status-command: squeue`"),
        (None, 40, 300, False, True, "write `slurm-status-command: squeue`"),
        (None, 40, 300, False, False, None),
    ],
)
def test_when_snakemake_would_wait_for_ever(command, interval, age, accounts, sacct, reason):
    found = polling.reason_against(command, interval, age, accounts, sacct)
    assert found == reason if reason is None else reason in found


def test_the_guard_stops_before_anything_is_submitted(monkeypatch):
    monkeypatch.setattr(polling, "accounting", lambda: False)
    monkeypatch.setattr(polling, "has_sacct", lambda: True)
    monkeypatch.setattr(polling, "config", lambda: {"MinJobAge": "300 sec"})
    settings = SimpleNamespace(status_command="sacct", init_seconds_before_status_checks=40)
    with pytest.raises(UserError, match="nothing was submitted"):
        polling.guard(settings)
    polling.guard(SimpleNamespace(status_command="squeue", init_seconds_before_status_checks=40))


def test_the_guard_leaves_other_executors_alone(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    polling.guard(None)
    polling.guard(SimpleNamespace(pass_command_as_script=False))
    assert polling.os.environ["HF_TOKEN"] == "secret"


def test_what_looks_like_a_secret_is_not_sent():
    kept = {"PATH": "x", "NCCL_DEBUG": "INFO", "TOKENIZERS_PARALLELISM": "false", "KEYBOARD": "us", "SLURM_CONF": "y"}
    secret = dict.fromkeys(
        ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "PGPASSWORD", "github_pat", "SSH_AUTH_SOCK"), "s"
    )
    environment = kept | secret
    assert polling.withhold(environment) == sorted(secret)
    assert environment == kept
