"""FSDP2 within a node and replicated across nodes, and without freeing blocks: on 2 x 2 real ranks."""

import pytest
from synthetic import rewrite

from scaleproof.conclude.checks.all_checks import audit
from scaleproof.conclude.checks.execution import moved_bytes, traffic_is_the_strategys
from scaleproof.conclude.checks.updates import gradient_norm
from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.records.run import MeasuredRun, Run
from scaleproof.ground.records.steps import loss_series

CELLS = [
    {"strategy": "hsdp"},
    {"strategy": "hsdp", "fsdp_reshard": False},
    {"strategy": "fsdp"},
    {"strategy": "fsdp", "fsdp_reshard": False},
]


@pytest.fixture(scope="module")
def runs(measure_all) -> dict[str, Run]:
    campaign = {
        "title": "hybrid",
        "workload": {
            "model": {"layers": 2, "width": 64, "heads": 2, "context": 64},
            "seq_len": 32,
            "tokenizer": "bpe-512",
        },
        "work": {"global_batch": 8, "steps": 5, "warmup_steps": 4},
        "execution": {"geometry": "2x2", "device": "cpu"},
        "vary": {"strategy": ["ddp"], "accumulation": [2], "fsdp_reshard": [True]},
        "cells": [cell | {"accumulation": 2} for cell in CELLS],
    }
    return measure_all(4, expand_cells(Campaign.model_validate(campaign)), program="program_two_nodes")


def of(runs: dict[str, Run], strategy: str, reshards: bool = True) -> Run:
    (run,) = [
        run
        for run in runs.values()
        if run.metrics.training_config.strategy == strategy
        and run.metrics.config["execution"].get("fsdp_reshard", True) == reshards
    ]
    return run


def test_losses_and_norms_are_those_of_ddp(runs):
    reference = of(runs, "ddp")
    for run in runs.values():
        assert list(loss_series(run.steps)) == pytest.approx(list(loss_series(reference.steps)), rel=1e-6)
        assert gradient_norm(run, 0, "before") == pytest.approx(gradient_norm(reference, 0, "before"), rel=1e-5)


def test_the_audit_finds_nothing_invalid(runs):
    invalid = [f for f in audit("hybrid", list(runs.values())).findings if f.severity == "invalid"]
    assert [(f.code, f.runs, f.evidence) for f in invalid] == []


def test_bytes_by_kind(runs):
    """In units of all parameters, of a step with two micro-batches; a node's replicas reduce half of them each."""
    expected = {
        ("hsdp", True): {"reduced": 0.5, "gathered": 3.46, "scattered": 1},
        ("hsdp", False): {"reduced": 0.5, "gathered": 2, "scattered": 1},
        ("fsdp", True): {"reduced": 0, "gathered": 3.46, "scattered": 1},
        ("fsdp", False): {"reduced": 0, "gathered": 2, "scattered": 1},
    }
    for (strategy, reshards), kinds in expected.items():
        run = of(runs, strategy, reshards)
        unit = 4 * run.metrics.model.parameters
        assert {kind: moved_bytes(run)[kind] / unit for kind in kinds} == pytest.approx(kinds, abs=0.02), strategy


def test_state_is_shared_within_a_node(runs):
    one_copy, two_copies = of(runs, "fsdp").metrics.memory, of(runs, "hsdp").metrics.memory
    assert two_copies.state_bytes_predicted == 2 * one_copy.state_bytes_predicted
    assert two_copies.state_bytes > 1.3 * one_copy.state_bytes


def test_settings_are_read_back(runs):
    settings = {name: of(runs, name).metrics.engine_config["fsdp"] for name in ("hsdp", "fsdp")}
    assert [settings[name]["replicas"] for name in ("hsdp", "fsdp")] == [2, 1]


@pytest.mark.parametrize(("strategy", "other"), [("hsdp", "fsdp"), ("fsdp", "hsdp")])
def test_the_traffic_of_one_is_not_that_of_the_other(runs, strategy, other):
    run = of(runs, strategy)
    named = run.metrics.training_config.model_copy(update={"strategy": other})
    pretended = MeasuredRun(run.folder, run.metrics.model_copy(update={"training_config": named}))
    assert traffic_is_the_strategys(pretended)


def test_replicas_that_were_not_made_are_found(runs):
    run = of(runs, "hsdp")
    changed = rewrite(run, lambda d: d["engine_config"]["fsdp"].update(replicas=1))
    (finding,) = [f for f in audit("hybrid", [changed]).findings if f.code == "settings-differ"]
    assert "fsdp has 1 replicas, by the configuration 2" in finding.evidence
    rewrite(changed, lambda d: d["engine_config"]["fsdp"].update(replicas=2))
