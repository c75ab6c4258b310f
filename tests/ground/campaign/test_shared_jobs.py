"""Which runs share a job: whole rounds where they fit, parts of one where they do not, and never over a look."""

import re

import pytest

from scaleproof.driver.campaign_preview import preview_campaign
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import UserError

TEXT = """title: sizes
vary: {{geometry: [1x1, 1x2], strategy: [ddp, fsdp]}}
repeats: {repeats}
resources: {{time_limit: 8, {resources}}}
"""  # a run may take 10 minutes of its job


@pytest.fixture
def loaded(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(repository)

    def load(resources: str, repeats: object = 3) -> LoadedCampaign:
        path = tmp_path / "sizes.yaml"
        path.write_text(TEXT.format(repeats=repeats, resources=resources))
        return LoadedCampaign(path)

    return load


def made_by(campaign: LoadedCampaign) -> list[str]:
    return [f"{cell.slug}/rep{k}" for job in campaign.shared_jobs.values() for cell, k in job.runs]


def test_without_the_keys_each_run_is_a_job(loaded):
    assert loaded("exclusive: true").shared_jobs == {}


def test_a_repeat_is_a_job_of_all_cells_in_one_allocation(loaded):
    campaign = loaded("same_allocation: true")
    assert list(campaign.shared_jobs) == ["rep1-1", "rep2-2", "rep3-3"]
    assert {len(job.runs) for job in campaign.shared_jobs.values()} == {4}


@pytest.mark.parametrize(
    ("resources", "names"),
    [
        ("same_allocation: true, minutes_per_job: 89", ["rep1-2", "rep3-3"]),
        ("same_allocation: true, minutes_per_job: 1440", ["rep1-3"]),
        ("minutes_per_job: 60", ["1x1-rep1-3", "1x2-rep1-3"]),
        ("minutes_per_job: 20", [f"1x{n}-rep{k}-{k}" for n in (1, 2) for k in (1, 2, 3)]),
        ("minutes_per_job: 19", [f"1x{n}-rep{k}-part{p}" for n in (1, 2) for k in (1, 2, 3) for p in (1, 2)]),
    ],
)
def test_as_many_rounds_as_fit_by_their_time_limits(loaded, resources, names):
    campaign = loaded(resources)
    assert list(campaign.shared_jobs) == names
    made = made_by(campaign)
    assert len(made) == len(set(made)) == 12
    sizes = [{str(cell.execution.geometry) for cell, _ in job.runs} for job in campaign.shared_jobs.values()]
    assert all(len(size) == 1 for size in sizes) is ("same_allocation" not in resources)


def test_the_preview_counts_the_jobs(loaded):
    assert "\nOn a cluster 2 jobs of 4 to 8 runs." in preview_campaign(
        loaded("same_allocation: true, minutes_per_job: 89")
    )
    assert "jobs of" not in preview_campaign(loaded("exclusive: true"))


def test_rounds_stay_blocks_in_the_order_in_which_single_runs_start(loaded):
    campaign = loaded("same_allocation: true, minutes_per_job: 1440")
    (job,) = campaign.shared_jobs.values()
    assert [k for _, k in job.runs] == [1] * 4 + [2] * 4 + [3] * 4
    single = sorted(job.runs, key=lambda run: -campaign.priority(run[0].slug, run[1]))
    assert job.runs == single


def test_no_job_reaches_over_a_look(loaded, tmp_path):
    campaign = loaded("same_allocation: true, minutes_per_job: 90", "{resolve: 3 %, at_least: 3, at_most: 12}")
    looks = campaign.campaign.repeat_until.looks()
    assert looks == [3, 4, 5, 7, 9, 12]
    names = ["rep1-2", "rep3-3", "rep4-4", "rep5-5", "rep6-7", "rep8-9", "rep10-11", "rep12-12"]
    assert list(campaign.shared_jobs) == names
    for look in looks:
        jobs = campaign.records(tmp_path, look).values()
        assert sorted(k for job in jobs for k, _ in job.rounds) == list(range(1, look + 1))


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ("minutes_per_job: 9", "minutes_per_job is 9, but one run may take 10: time_limit and 2 minutes more"),
        ("same_allocation: true, minutes_per_job: 39", "a repeat of all 4 cells (same_allocation) may take 40"),
    ],
)
def test_too_little_time_for_a_job_is_refused_with_the_line(loaded, resources, message):
    with pytest.raises(UserError, match=r"sizes.yaml, line 4: .*" + re.escape(message)):
        loaded(resources)


def test_a_job_that_is_not_there_is_answered_with_the_nearest(loaded):
    with pytest.raises(UserError, match=r'no job "rep1-4".*Did you mean "rep1-3"'):
        loaded("same_allocation: true, minutes_per_job: 1440").shared_job("rep1-4")
