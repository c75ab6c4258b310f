"""A campaign in small: the same cells, with tiny shapes."""

import pytest

from scaleproof.ground.campaign.campaign_paths import CAMPAIGNS
from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign, Resources
from scaleproof.ground.campaign.rehearsal import is_rehearsal, make_rehearsal
from scaleproof.ground.campaign.yaml_loader import load_campaign


def rehearsal(text: dict, without_gpu: bool = False) -> Campaign:
    return make_rehearsal(Campaign.model_validate({"title": "x"} | text), without_gpu)


@pytest.mark.parametrize("name", ["demo", "ag_news_ddp", "any_gpu", "cpu_matrix", "l4_dp_ddp_zero", "v100_fixed_work"])
def test_each_cell_has_its_strategy_and_geometry(repository, name):
    campaign, _ = load_campaign(repository / CAMPAIGNS / f"{name}.yaml")
    small = make_rehearsal(campaign, without_gpu=False)
    for old, new in zip(expand_cells(campaign), expand_cells(small), strict=True):
        kept = ("strategy", "geometry", "precision", "compile", "device")
        assert [getattr(old.execution, key) for key in kept] == [getattr(new.execution, key) for key in kept]
        assert old.batch == new.batch
        assert (new.work.steps, new.work.warmup_steps) == (3, 3)
        assert new.workload.model.width == 32
    assert (small.repeats, small.question, small.forecast.hold_out) == (1, None, [])
    assert [c.pairs for c in small.compare] == [2] * len(campaign.compare)


def test_models_and_lengths_that_differ_still_do():
    axes = {"model": ["gpt2-small", "gpt2-xl"], "seq_len": [512, 1024], "bucket_elements": ["auto", 10**8, 10**9]}
    small = rehearsal({"vary": axes, "exclude": [{"model": "gpt2-xl", "seq_len": 512}]})
    assert len({cell.slug for cell in expand_cells(small)}) == 9
    assert {cell.workload.model.layers for cell in expand_cells(small)} == {3, 4}
    assert max(cell.workload.seq_len for cell in expand_cells(small)) <= 48
    assert "auto" in small.vary.bucket_elements


def test_an_encoder_stays_one_and_a_model_of_transformers_stays_itself():
    classifier = {"task": "classification", "model": "encoder-large", "corpus": "ag-news"}
    assert rehearsal({"workload": classifier}).workload.model.d_model == 32
    hub = {"hub": "someone/model", "revision": "0" * 40}
    assert rehearsal({"workload": {"model": hub}}).workload.model.hub == "someone/model"


def test_traced_cells_are_traced_under_their_new_names():
    small = rehearsal({"vary": {"model": ["gpt2-small", "gpt2-xl"]}, "trace": {"cells": ["ddp-gpt2-xl-n1x1"]}})
    assert small.trace.cells == [expand_cells(small)[1].slug]


def test_a_command_is_told_enough_steps_for_three_lines():
    command = "train.py --steps {steps} --mode {mode}"
    text = {"workload": {"command": command}, "vary": {"mode": ["a", "b"]}, "work": {"steps": [50, 150]}}
    assert {cell.execution.geometry.n_devices for cell in expand_cells(rehearsal(text))} == {1}
    assert [cell.work.steps for cell in expand_cells(rehearsal(text))] == [30, 30]
    assert [cell.work.fewer_steps for cell in expand_cells(rehearsal(text))] == [None, None]


def test_without_a_gpu_all_is_on_the_cpu():
    assert rehearsal({"execution": {"device": "cuda"}}, without_gpu=True).execution.device == "cpu"
    assert rehearsal({"execution": {"device": "cuda"}}).execution.device == "cuda"


def test_a_search_on_the_cpu_has_a_limit():
    text = {"work": {"micro_batch": "largest"}}
    assert [rehearsal(text, without_gpu=on_cpu).frontier.limit_gb for on_cpu in (True, False)] == [4, None]
    assert rehearsal(text | {"frontier": {"limit_gb": 2}}, without_gpu=True).frontier.limit_gb == 2


def test_its_results_are_known_by_their_name():
    assert is_rehearsal("rehearsal-demo")
    assert not is_rehearsal("demo")


def test_every_key_of_resources_was_looked_at():
    """A new key may make a rehearsal as long as its campaign: drop it in `make_rehearsal`, or add it here."""
    kept = {"time_limit", "cpus_per_device", "same_allocation", "minutes_per_job", "exclusive", "memory_per_device"}
    assert set(Resources.model_fields) == kept | {"witness"}
