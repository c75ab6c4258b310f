"""Cells that leave their micro-batch to trials: before the search, after it, and what cannot be searched."""

import json

import pytest

from scaleproof.cli import main
from scaleproof.conclude.forecast.frontier import FrontierResult, NoTrial, Trial
from scaleproof.driver.planned_work import planned_work
from scaleproof.ground.campaign.batch import candidate_micro_batches
from scaleproof.ground.campaign.cells import arms_of, expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.loaded import LoadedCampaign, frontier_file
from scaleproof.ground.errors import UserError

TEXT = """title: t
work: {global_batch: 24, micro_batch: largest}
vary: {geometry: [1x1, 1x2]}
frontier: {limit_gb: 2}
"""


@pytest.fixture
def path(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(repository)
    path = tmp_path / "big.yaml"
    path.write_text(TEXT)
    return path


def answer(loaded: LoadedCampaign, results, slug: str, **more) -> None:
    cell = loaded.cell(slug)
    file = frontier_file(results, loaded.name, slug)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"micro_batch": 6, "planned_fingerprint": cell.planned_fingerprint} | more))


def test_a_search_on_the_cpu_needs_a_limit(path):
    path.write_text(f"{TEXT}execution: {{device: cpu}}\n")
    assert LoadedCampaign(path).cells[0].is_open
    path.write_text(path.read_text().replace("limit_gb: 2", ""))
    with pytest.raises(UserError, match=r"line 2: frontier.limit_gb is missing: the micro-batch of ddp-n1x1 is search"):
        LoadedCampaign(path)
    path.write_text(path.read_text().replace("device: cpu", "device: auto"))
    assert LoadedCampaign(path).cells[0].is_open, "where there are GPUs, theirs is the limit"


def test_what_the_workflow_plans_by_is_the_same_before_and_after(path, tmp_path):
    before = LoadedCampaign(path, tmp_path)
    answer(before, tmp_path, "ddp-n1x2")
    after = LoadedCampaign(path, tmp_path)
    (one, two), (still_open, found) = before.cells, after.cells
    assert one.is_open
    assert two.is_open
    assert still_open == one
    assert not found.is_open
    assert str(found.batch) == "24 = 6 x 2 x 2"
    assert (found.slug, found.planned_fingerprint, found.planned_batch) == (
        two.slug,
        two.planned_fingerprint,
        two.planned_batch,
    )
    assert found.fingerprint != two.fingerprint
    (plain,) = expand_cells(
        Campaign.model_validate(
            {
                "title": "t",
                "work": {"global_batch": 24, "micro_batch": 6},
                "cells": [{"geometry": "1x2"}],
                "vary": {"geometry": ["1x1"]},
                "exclude": [{"geometry": "1x1"}],
            }
        )
    )
    assert found.fingerprint == plain.fingerprint, "the run is that of a campaign which gives the number"
    assert plain.planned_fingerprint == plain.fingerprint


def test_an_answer_of_another_configuration_is_no_answer(path, tmp_path):
    loaded = LoadedCampaign(path, tmp_path)
    answer(loaded, tmp_path, "ddp-n1x2", planned_fingerprint="other")
    assert LoadedCampaign(path, tmp_path).cell("ddp-n1x2").is_open
    frontier_file(tmp_path, "big", "ddp-n1x2").write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        LoadedCampaign(path, tmp_path)


def test_only_micro_batches_that_divide_the_work_are_candidates(path, tmp_path):
    one, two = LoadedCampaign(path, tmp_path).cells
    assert candidate_micro_batches(one.work, 1) == [1, 2, 3, 4, 6, 8, 12, 24]
    assert candidate_micro_batches(two.work, 2) == [1, 2, 3, 4, 6, 12]


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ({"global_batch": "derive", "micro_batch": "largest"}, "needs a number for work.global_batch"),
        ({"global_batch": 8, "micro_batch": "fastest", "accumulation": 2}, "accumulation"),
        ({"global_batch": 8, "micro_batch": "biggest"}, "micro_batch"),
    ],
)
def test_what_cannot_be_searched_is_refused(work, message):
    with pytest.raises((UserError, ValueError), match=message):
        expand_cells(Campaign.model_validate({"title": "t", "work": work}))


def test_pairs_and_jobs_of_all_cells_need_a_number(path):
    compared = {"name": "fused", "b": {"fused_optimizer": False}}
    campaign = Campaign.model_validate(
        {"title": "t", "work": {"global_batch": 8, "micro_batch": "largest"}, "compare": [compared]}
    )
    with pytest.raises(UserError, match="needs numbers for micro_batch"):
        arms_of(campaign, campaign.compare[0])
    path.write_text(TEXT + "resources: {same_allocation: true}\n")
    with pytest.raises(UserError, match="in one job"):
        LoadedCampaign(path)


def test_searches_are_part_of_what_runs(path, tmp_path):
    plan = planned_work(LoadedCampaign(path, tmp_path), tmp_path)
    assert plan.searched == 2
    assert "2 searches for a micro-batch" in plan.text


def stage(path, out, monkeypatch, find) -> dict:
    monkeypatch.setattr("scaleproof.conclude.forecast.frontier.find_frontier", find)
    words = ["frontier", str(path), "ddp-n1x2", "--tokens", str(out.parent), "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["scaleproof", "stage", *words])
    main()
    return json.loads(out.read_text())


def test_the_stage_writes_what_the_runs_take(path, tmp_path, monkeypatch):
    out = frontier_file(tmp_path, "big", "ddp-n1x2")
    out.parent.mkdir(parents=True)
    made = FrontierResult(2e9, (Trial(4, 1e9, 10.0), Trial(6, 1.5e9, 9.0)), 6, 4, "ran out of memory", False, 12)
    assert stage(path, out, monkeypatch, lambda *_: made)["micro_batch"] == 6
    assert str(LoadedCampaign(path, tmp_path).cell("ddp-n1x2").batch) == "24 = 6 x 2 x 2"
    path.write_text(TEXT.replace("largest", "fastest"))
    assert stage(path, out, monkeypatch, lambda *_: made)["micro_batch"] == 4
    nothing = FrontierResult(2e9, (Trial(1, None),), None, None, "ran out of memory", False, 1)
    assert stage(path, out, monkeypatch, lambda *_: nothing)["micro_batch"] == 1


def test_a_cell_that_cannot_run_here_ends_in_its_own_row(path, tmp_path, monkeypatch):
    def refused(*_):
        raise NoTrial("ddp-n1x2 cannot run here: two nodes are needed")

    out = frontier_file(tmp_path, "big", "ddp-n1x2")
    out.parent.mkdir(parents=True)
    written = stage(path, out, monkeypatch, refused)
    assert written["micro_batch"] == 1
    assert "cannot run here" in written["reason"]
