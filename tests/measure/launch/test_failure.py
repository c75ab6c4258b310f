"""Classes and causes of failed runs, from what ranks reported and how they ended."""

import json
from types import SimpleNamespace

import pytest

from scaleproof.measure.launch.failure import explain_failure
from scaleproof.measure.launch.supervise import CommandOutcome
from scaleproof.measure.trainer.__main__ import failure_class

REQUEST = SimpleNamespace(time_limit=600.0)
SUMMARY = """[default0]:a line of rank 0
[default1]:the last words of rank 1
trainer FAILED
Root Cause (first observed failure):
[0]:
  time      : 2026-01-01_00:00:00
  host      : node
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 4711)
""".splitlines()


def ended(code: int = 1, **outcome) -> CommandOutcome:
    return CommandOutcome(
        **{"exit_code": 1, "timed_out": False, "tail": [line.format(code=code) for line in SUMMARY]} | outcome
    )


def test_the_first_rank_to_fail_is_the_cause(tmp_path):
    reports = [
        {"class": "crash", "reason": "RuntimeError: connection closed by peer", "rank": 0, "time": 1.0},
        {"class": "oom", "reason": "OutOfMemoryError: 2 GiB", "rank": 1, "time": 2.0},
        {"class": "crash", "reason": "RuntimeError: later", "rank": 2, "time": 3.0},
    ]
    for report in reports:
        (tmp_path / f"failure.{report['rank']}.json").write_text(json.dumps(report))
    found = explain_failure(REQUEST, tmp_path, ended())
    assert (found.failure_class, found.rank) == ("oom", 1)
    assert found.log_tail == ["[default1]:the last words of rank 1"]


def test_the_rank_that_slurm_killed_for_its_memory_is_named(tmp_path):
    outcome = ended(-9)
    found = explain_failure(REQUEST, tmp_path, ended(tail=[*outcome.tail, "srun: error: n2: task 1: Out Of Memory"]))
    assert (found.failure_class, found.rank) == ("host_oom", 1)
    assert found.reason.startswith("Slurm killed the run on n2")


@pytest.mark.parametrize(
    ("outcome", "kind", "reason"),
    [
        (ended(-9), "crash", "rank 1 was ended by SIGKILL"),
        (ended(-9, memory_kills=1), "host_oom", "memory ran out"),
        (ended(-11, memory_kills=1), "crash", "rank 1 was ended by SIGSEGV"),
        (ended(-15), "crash", "rank 1 was ended by SIGTERM"),
        (ended(3), "crash", "rank 1 ended with exit code 3"),
        (ended(tail=[], exit_code=7), "crash", "exit code 7"),
        (ended(tail=[], exit_code=-9), "crash", "the ranks ended with signal SIGKILL"),
        (ended(tail=["ValueError: DEBUG must be OFF", ""]), "crash", "exit code 1: ValueError: DEBUG must be OFF"),
        (ended(timed_out=True), "timeout", "time limit of 10 minutes"),
        (ended(timed_out=True, hung=True, behind=1), "hang", "rank 1 was behind the others"),
    ],
)
def test_how_it_ended(tmp_path, outcome, kind, reason):
    found = explain_failure(REQUEST, tmp_path, outcome)
    assert found.failure_class == kind
    assert reason in found.reason


def error(name: str, text: str) -> Exception:
    return type(name, (RuntimeError,), {})(text)


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (error("OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB"), "oom"),
        (error("AcceleratorError", "CUDA error: out of memory"), "oom"),
        (error("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), "oom"),
        (error("AcceleratorError", "CUDA error: an illegal memory access was encountered"), "crash"),
        (error("RuntimeError", "NCCL error: unhandled system error"), "crash"),
        (
            error("RuntimeError", "[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"),
            "host_oom",
        ),
        (MemoryError(), "host_oom"),
        (error("NotFinite", "the loss of step 3 on rank 0 is nan"), "nan"),
        (ValueError("anything"), "crash"),
    ],
)
def test_classes_of_exceptions(raised, kind):
    assert failure_class(raised) == kind
