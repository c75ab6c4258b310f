"""Job arrays: equal jobs together, and each task runs its own command."""

import base64
import json
import zlib
from types import SimpleNamespace

import pytest

from scaleproof.driver import slurm_arrays


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


def test_jobs_that_ask_for_the_same_go_together():
    arrays, single = slurm_arrays.grouped(JOBS, ["train"], largest=3)
    assert [[j.name for j in array] for array in arrays] == [["a0", "a1", "a2"], ["a3", "a4"], ["b0", "b1"]]
    assert [j.name for j in single] == ["p", "c"]


def test_what_has_failed_goes_alone():
    """Each must not get the node on which it failed, and the tasks of an array get the same nodes."""
    again = [job("train", f"again{n}", attempt=2, nodes=1, gres="gpu:1", tmpdir="/tmp") for n in range(2)]
    arrays, single = slurm_arrays.grouped([*JOBS[:2], *again], ["train"], largest=3)
    assert [[j.name for j in array] for array in arrays] == [["a0", "a1"]]
    assert single == again


def test_no_rule_chosen_no_arrays():
    assert slurm_arrays.grouped(JOBS, [], largest=3) == ([], JOBS)


def test_the_plugin_submits_at_once_what_is_ready():
    submitted = []

    class Executor:
        array_jobs = {"train"}  # noqa: RUF012
        max_array_size = 1000

        def run_jobs(self, jobs):
            assert self.array_jobs == set(), "its own way of waiting for a full array"
            submitted.extend(j.name for j in jobs)

        def _submit_array_jobs(self, jobs):
            submitted.append([j.name for j in jobs])

    slurm_arrays.Arrays(Executor)
    executor = Executor()
    executor.run_jobs(JOBS[4:])
    assert submitted == ["a4", "c", "p", ["b0", "b1"]] or submitted == ["p", "a4", "c", ["b0", "b1"]]
    assert executor.array_jobs == {"train"}


def payload(**calls: str) -> str:
    packed = {task.lstrip("t"): zlib.compress(call.encode()).hex() for task, call in calls.items()}
    return base64.b64encode(json.dumps(packed).encode()).decode()


ARGUMENTS = ["snakemake", "--executor", "slurm-jobstep", f"--slurm-jobstep-array-execs={payload(t2='two', t3='three')}"]


@pytest.mark.parametrize(
    ("environment", "call"),
    [
        ({"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_MIN": "1"}, "three"),
        ({"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_MIN": "1"}, "two"),
        ({"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_MIN": "1"}, None),  # its command is the one that runs already
        ({}, None),
    ],
)
def test_a_task_becomes_its_own_job(environment, call):
    assert slurm_arrays.task_call(ARGUMENTS, environment) == call
    two_words = [*ARGUMENTS[:3], *ARGUMENTS[3].split("=", 1)]
    assert slurm_arrays.task_call(two_words, environment) == call


def test_a_job_within_a_task_stays_what_it_is():
    environment = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_MIN": "1"}
    assert slurm_arrays.task_call(["snakemake", "--cores", "2"], environment) is None


def test_the_plugin_is_the_one_that_this_was_written_for():
    """Pinned exactly; another version must not go unnoticed."""
    import inspect

    import snakemake_executor_plugin_slurm as plugin
    from snakemake_executor_plugin_slurm_jobstep import Executor

    assert "--slurm-jobstep-array-execs=" in inspect.getsource(plugin.Executor.run_array_jobs)
    assert "self.run_array_jobs, jobs" in inspect.getsource(plugin.Executor._submit_array_jobs)
    assert 'if "mpi" in job.resources.keys()' in inspect.getsource(Executor.run_job)
