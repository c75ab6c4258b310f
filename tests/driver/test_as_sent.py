"""What a job in a queue was planned for, whatever becomes of its campaign's file."""

import shutil

import pytest
from workflow_texts import TINY

from scaleproof.driver.as_sent import COPIES, VARIABLE, CampaignsAsSent
from scaleproof.ground.campaign import loaded
from scaleproof.ground.errors import UserError


@pytest.fixture
def edit(tmp_path, monkeypatch):
    """Write the campaign's file; afterwards, nobody in this process remembers it."""
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "config/corpora.yaml").write_text("prose: {source: text, files: [prose.txt], document: line}\n")
    monkeypatch.chdir(tmp_path)
    forget = (loaded.load_named, loaded._corpus_table)

    def write(text: str) -> None:
        (tmp_path / "config/campaigns/tiny.yaml").write_text(text)
        for cached in forget:
            cached.cache_clear()

    yield write
    for cached in forget:
        cached.cache_clear()


def steps(campaigns: CampaignsAsSent) -> int:
    return campaigns.load_named("tiny").cell("ddp-n1x1").work.steps


def test_a_job_has_the_campaign_as_it_was_sent(edit):
    edit(TINY)
    environment = {}
    driver = CampaignsAsSent(plans=True, environment=environment)
    assert steps(driver) == 4
    driver.send()
    edit(TINY.replace("steps: 4", "steps: 5"))
    job = CampaignsAsSent(plans=False, environment=environment)
    assert steps(job) == 4
    assert str(job.load_named("tiny").path) == "config/campaigns/tiny.yaml", "the file that the job compares with"
    assert steps(CampaignsAsSent(plans=True, environment=dict(environment))) == 5, "the next snakemake plans anew"


def test_two_that_were_sent_are_kept_apart(edit):
    sent = []
    for text in (TINY, TINY.replace("steps: 4", "steps: 5")):
        edit(text)
        environment = {}
        driver = CampaignsAsSent(plans=True, environment=environment)
        driver.load_named("tiny")
        driver.send()
        sent.append(environment)
    assert [steps(CampaignsAsSent(plans=False, environment=one)) for one in sent] == [4, 5]


def test_what_was_not_sent_is_read_from_its_file(edit):
    edit(TINY)
    assert steps(CampaignsAsSent(plans=False, environment={})) == 4


def test_an_edit_between_plan_and_jobs_is_noticed(edit):
    edit(TINY)
    driver = CampaignsAsSent(plans=True, environment={})
    driver.load_named("tiny")
    edit(TINY.replace("steps: 4", "steps: 5"))
    with pytest.raises(UserError, match=r"tiny.yaml was changed while the workflow was planned"):
        driver.send()


def test_a_copy_that_is_gone_is_named(edit):
    edit(TINY)
    environment = {}
    driver = CampaignsAsSent(plans=True, environment=environment)
    driver.load_named("tiny")
    driver.send()
    shutil.rmtree(COPIES)
    with pytest.raises(UserError, match=environment[VARIABLE].partition("=")[2]):
        steps(CampaignsAsSent(plans=False, environment=environment))
