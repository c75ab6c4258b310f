"""Job arrays: equal jobs together, and each task runs its own command."""

import subprocess
from types import SimpleNamespace

import pytest

from scaleproof.driver.cluster import arrays as slurm_arrays


def job(rule: str, name: str, attempt: int = 1, **resources):
    return SimpleNamespace(
        rule=SimpleNamespace(name=rule), name=name, attempt=attempt, resources=resources, is_group=lambda: False
    )


JOBS = [
    *(job("train", f"a{n}", nodes=1, gres="gpu:1", tmpdir=f"/tmp/{n}") for n in range(5)),
    *(job("train", f"b{n}", nodes=2, gres="gpu:4") for n in range(2)),
    job("train", "c", nodes=4, gres="gpu:4"),
    job("pairs", "p", nodes=1, gres="gpu:1"),
]


def names(groups: list[list]) -> list[str]:
    return [" ".join(job.name for job in group) for group in groups]


def test_jobs_that_ask_for_the_same_go_together(monkeypatch):
    monkeypatch.setattr(slurm_arrays, "LARGEST", 3)
    assert names(slurm_arrays.group_into_arrays(JOBS, ["train"])) == ["a0 a1 a2", "a3 a4", "b0 b1", "c", "p"]


def test_what_has_failed_goes_alone():
    """Each must not get the node on which it failed, and the tasks of an array get the same nodes."""
    again = [job("train", f"again{n}", attempt=2, nodes=1, gres="gpu:1", tmpdir="/tmp") for n in range(2)]
    assert names(slurm_arrays.group_into_arrays([*JOBS[:2], *again], ["all"])) == ["a0 a1", "again0", "again1"]


def test_no_rule_chosen_no_arrays():
    assert slurm_arrays.group_into_arrays(JOBS, []) == [[job] for job in JOBS]


@pytest.mark.parametrize(
    ("commands", "task", "output"),
    [
        (["echo 'one \"and\" only'; echo $SLURM_JOB_ID"], "", 'one "and" only\n7\n'),
        (["echo one", "echo two", "echo three"], "2", "two\n"),
        (["echo one", "exit 3"], "2", ""),
    ],
)
def test_a_script_runs_the_command_of_its_task(commands, task, output):
    environment = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": task}
    done = subprocess.run(
        ["bash"], input=slurm_arrays.batch_script(commands), env=environment, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr, done.returncode) == (output, "", 3 if "exit 3" in commands else 0)


def test_slurm_s_variables_do_not_reach_a_run():
    """srun would take them for options."""
    given = {"SLURM_JOB_ID": "7", "SLURM_CONF": "c", "SLURM_NTASKS": "2", "SRUN_DEBUG": "3"}
    text = slurm_arrays.batch_script(["env"])
    environment = given | {"PATH": "/usr/bin:/bin"}
    done = subprocess.run(["bash"], input=text, env=environment, capture_output=True, text=True)
    variables = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert {name for name in variables if name.startswith("S") and name != "SHLVL"} == {"SLURM_JOB_ID", "SLURM_CONF"}
