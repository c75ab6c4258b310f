"""Snakemake must hear of the end of its jobs, and must not send secrets along."""

import asyncio
from types import SimpleNamespace

import pytest

from scaleproof.driver import slurm_plugin_guard
from scaleproof.ground.errors import UserError
from scaleproof.measure.machine import slurm


@pytest.mark.parametrize(
    ("command", "interval", "age", "accounts", "sacct", "reason"),
    [
        ("sacct", 40, 300, True, True, None),
        ("squeue", 40, 2, True, True, None),  # the plugin falls back to sacct, which answers
        ("squeue", 30, 300, False, True, None),
        ("squeue", 101, 300, False, True, "to 100 or less"),
        ("squeue", 40, None, False, True, "unknown"),
        ("sacct", 40, 300, False, True, "wait for its jobs forever; write `slurm-status-command: squeue`"),
        (None, 40, 300, False, True, "write `slurm-status-command: squeue`"),
        (None, 40, 300, False, False, None),
    ],
)
def test_when_snakemake_would_wait_for_ever(command, interval, age, accounts, sacct, reason):
    found = slurm_plugin_guard.status_check_problem(command, interval, age, accounts, sacct)
    assert found == reason if reason is None else reason in found


def test_the_guard_stops_before_anything_is_submitted(monkeypatch):
    monkeypatch.setattr(slurm_plugin_guard, "accounting", lambda: False)
    monkeypatch.setattr(slurm_plugin_guard, "has_sacct", lambda: True)
    monkeypatch.setattr(slurm_plugin_guard, "config", lambda: {"MinJobAge": "300 sec"})
    settings = SimpleNamespace(status_command="sacct", init_seconds_before_status_checks=40, requeue=False)
    with pytest.raises(UserError, match="nothing was submitted"):
        slurm_plugin_guard.guard(settings)
    settings.status_command = "squeue"
    slurm_plugin_guard.guard(settings)


@pytest.fixture(autouse=True)
def plugin(monkeypatch):
    """The plugin's question after its jobs, put back after each test."""
    import snakemake_executor_plugin_slurm as plugin

    monkeypatch.setattr(plugin, "query_job_status", plugin.query_job_status)
    monkeypatch.setattr(plugin, "get_submit_command", plugin.get_submit_command)
    for method in ("run_jobs", "report_job_submission"):
        monkeypatch.setattr(plugin.Executor, method, getattr(plugin.Executor, method))
    return plugin


def heard(answers: list, requeue: bool = False) -> list[dict[str, str]]:
    """What Snakemake hears of these answers of the queue, one after the other."""

    async def question(command, logger):
        answer = answers.pop(0)
        return (None, None) if answer is None else (answer, 0.1)

    async def all_of_them():
        listener = slurm_plugin_guard.Listener(question, requeue)
        return [(await listener("squeue", None))[0] for _ in range(len(answers))]

    return asyncio.run(all_of_them())


def test_jobs_are_not_forgotten_while_the_controller_is_away():
    running, ended = {"7": "RUNNING"}, {"7": "COMPLETED"}
    assert heard([None, running, None, ended]) == [{}, running, running, ended]


@pytest.mark.fault("a job is preempted and Slurm does not requeue it", "it is sent again")
def test_a_preempted_job_is_sent_again_unless_slurm_does():
    assert heard([{"7": "PREEMPTED"}]) == [{"7": "CANCELLED"}]
    assert heard([{"7": "PREEMPTED"}], requeue=True) == [{"7": "PREEMPTED"}]


def test_a_job_without_memory_for_its_launcher(capsys):
    ended = {"7": "OUT_OF_MEMORY", "8": "FAILED"}
    assert heard([{"7": "RUNNING"}, ended, ended])[-1] == ended
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("job 7 was ended by Slurm: it took more memory than it had asked for.")
    assert "Raise resources.memory_per_device" in line


@pytest.mark.fault("the cluster forgets a job before anybody looked", "its files decide")
def test_the_end_of_a_job_that_the_cluster_has_forgotten_is_heard_of():
    assert heard([{"7": "RUNNING", "8": "RUNNING"}, None, {"8": "RUNNING"}])[-1] == {"7": "UNKNOWN", "8": "RUNNING"}


def test_the_plugin_asks_through_us(plugin, monkeypatch):
    """Pinned exactly; a version that asks in another way must not go unnoticed."""
    import inspect

    assert "query_job_status(\n                    status_command, self.logger" in inspect.getsource(plugin.Executor)
    assert 'status == "UNKNOWN"' in inspect.getsource(plugin.Executor)
    monkeypatch.setattr(slurm_plugin_guard, "status_check_problem", lambda *arguments: None)
    slurm_plugin_guard.guard(
        SimpleNamespace(status_command="squeue", init_seconds_before_status_checks=40, requeue=False)
    )
    assert isinstance(plugin.query_job_status, slurm_plugin_guard.Listener)


def test_jobs_of_an_earlier_snakemake_here_are_ended_first(monkeypatch, tmp_path):
    """They would start, or publish, behind the back of this one's."""
    queue = f"12|{tmp_path}|rule_train_wildcards_x\n13|/elsewhere|rule_train\n14|{tmp_path}|a job of the user's own"
    monkeypatch.setattr(slurm, "run_command", lambda *command: queue)
    monkeypatch.setattr(slurm_plugin_guard, "status_check_problem", lambda *arguments: None)
    monkeypatch.chdir(tmp_path)
    assert slurm_plugin_guard.left_in_queue(tmp_path) == ["12"]
    with pytest.raises(UserError, match=r"a job of an earlier snakemake in this folder is still .* `scancel 12`"):
        slurm_plugin_guard.guard(
            SimpleNamespace(status_command="squeue", init_seconds_before_status_checks=40, requeue=False)
        )


def test_the_guard_leaves_other_executors_alone(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    slurm_plugin_guard.guard(None)
    slurm_plugin_guard.guard(SimpleNamespace(pass_command_as_script=False))
    assert slurm_plugin_guard.os.environ["HF_TOKEN"] == "secret"


def test_a_submit_command_gets_no_secrets_either(monkeypatch):
    """The command of cluster-generic inherits the environment, and many schedulers send all of it."""
    monkeypatch.setenv("HF_TOKEN", "secret")
    slurm_plugin_guard.guard(SimpleNamespace(submit_cmd="qsub"))
    assert "HF_TOKEN" not in slurm_plugin_guard.os.environ


@pytest.mark.fault("secrets in the environment of the login node", "not sent along")
def test_what_looks_like_a_secret_is_not_sent():
    kept = {"PATH": "x", "NCCL_DEBUG": "INFO", "TOKENIZERS_PARALLELISM": "false", "KEYBOARD": "us", "SLURM_CONF": "y"}
    secret = dict.fromkeys(
        ("HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "PGPASSWORD", "github_pat", "SSH_AUTH_SOCK"), "s"
    )
    environment = kept | secret
    assert slurm_plugin_guard.withhold(environment) == sorted(secret)
    assert environment == kept
