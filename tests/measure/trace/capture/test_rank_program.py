"""What surrounds the traced steps on a GPU, with CUDA and the process group played by stand-ins."""

from types import SimpleNamespace

import torch
import torch.distributed as dist

from scaleproof.measure.trace.capture import rank_program


def test_ranges_and_barriers_are_within_what_nsys_records(monkeypatch):
    """The report holds what lies between start and stop; one session records all ranks of a node."""
    events: list[str] = []
    runtime = SimpleNamespace(
        cudaProfilerStart=lambda: events.append("start"), cudaProfilerStop=lambda: events.append("stop")
    )
    monkeypatch.setattr(torch.cuda, "cudart", lambda: runtime)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda device: events.append("synchronize"))
    monkeypatch.setattr(dist, "barrier", lambda: events.append("barrier"))
    session = SimpleNamespace(device=torch.device("cuda", 0), rank=3)
    with rank_program._record_by_nsys(session, events.append, lambda: events.append("pop")):
        events.append("steps")
    expected = ["start", "barrier", "rank 3", "pop", "steps", "synchronize", "barrier", "stop"]
    assert events == expected


def test_a_cpu_rank_has_its_range_and_no_cuda(monkeypatch):
    events: list[str] = []
    session = SimpleNamespace(device=torch.device("cpu"), rank=1)
    with rank_program._record_by_nsys(session, events.append, lambda: events.append("pop")):
        events.append("steps")
    assert events == ["rank 1", "pop", "steps"]
