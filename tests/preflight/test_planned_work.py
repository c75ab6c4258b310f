"""What `campaign validate` counts, and how long it says that it takes."""

from pathlib import Path

import pytest

from scalebench.campaign.loaded import LoadedCampaign
from scalebench.preflight.planned_work import duration, planned_work

TEXT = """title: x
work: {global_batch: 8}
vary: {geometry: [1x1, 1x2]}
compare: [{name: fused, b: {fused_optimizer: false}, pairs: 4, null_pairs: 2}]
trace: {cells: [ddp-n1x2]}
repeats: 4
"""


@pytest.fixture
def loaded(tmp_path, repository, monkeypatch) -> LoadedCampaign:
    monkeypatch.chdir(repository)
    (tmp_path / "mine.yaml").write_text(TEXT)
    return LoadedCampaign(tmp_path / "mine.yaml")


def test_everything_that_runs_is_counted(loaded, tmp_path):
    plan = planned_work(loaded, tmp_path)
    assert (plan.timed, plan.compared, plan.traced, plan.replayed) == (8, 12, 1, 1)
    assert "8 timed runs, 12 runs in A/B pairs, 1 trace and 1 reference: about" in plan.text
    assert plan.seconds > 19 * 10


def test_finished_runs_are_a_better_estimate(loaded, tmp_path, monkeypatch):
    monkeypatch.setattr("scalebench.preflight.planned_work._finished_s", lambda *_: [100.0, 100.0, 100.0])
    plan = planned_work(loaded, Path("nowhere"))
    assert plan.seconds == pytest.approx(21 * 100, rel=0.02)
    assert "estimated from 3 finished runs" in plan.text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 second"),
        (40, "40 seconds"),
        (500, "8 minutes"),
        (9000, "2.5 hours"),
        (72000, "20 hours"),
        (3e5, "3.5 days"),
    ],
)
def test_durations_as_people_say_them(seconds, text):
    assert duration(seconds) == text
