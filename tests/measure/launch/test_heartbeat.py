"""What the launcher sees of its ranks' steps, and how exactly."""

import pytest

from scaleproof.measure.launch import supervise
from scaleproof.measure.trainer.request import PHASES


@pytest.fixture
def clock(monkeypatch):
    """The monotonic clock, set by hand."""
    now = [100.0]
    monkeypatch.setattr(supervise.time, "monotonic", lambda: now[0])
    return now


def test_the_window_is_between_looks_and_as_exact_as_they_are_close(clock):
    watched = supervise.Heartbeat(ranks=2, steps=10, warmup_steps=2)
    for time, steps in ((100.5, 2), (101.0, 5), (103.5, 10)):  # the launcher had no core for two seconds
        clock[0] = time
        watched.marks[:] = steps * PHASES
        watched.note_progress()
    watched.close()
    assert watched.window_s == 3.0
    assert watched.longest_s == 2.5
