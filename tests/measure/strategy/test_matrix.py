"""All strategies on 1, 2 and 4 real ranks: same work, traffic of their formulas, state of the memory model."""

import pytest
import torch
from synthetic import rewrite

from scaleproof.conclude.checks.all_checks import audit
from scaleproof.conclude.checks.comparability import TOLERANCE
from scaleproof.conclude.checks.execution import moved_bytes, precision_is_what_ran, traffic_is_the_strategys
from scaleproof.ground.records.run import MeasuredRun, Run
from scaleproof.ground.records.steps import loss_series

SLUGS = {1: 7, 2: 38, 4: 6}


@pytest.fixture(scope="session")
def runs(worlds) -> list[Run]:
    return [run for world in worlds.values() for run in world.values()]


def of(worlds, world: int, strategy: str, precision: str = "fp32", accumulation: int = 1) -> Run:
    return worlds[world][f"{strategy}-{precision}-n1x{world}-ga{accumulation}"]


def test_all_were_measured(worlds):
    assert {world: len(found) for world, found in worlds.items()} == SLUGS
    assert all(run.ok for found in worlds.values() for run in found.values())


def test_every_strategy_consumed_the_same_samples(runs):
    assert len({run.metrics.ledger.consumed_sha256 for run in runs}) == 1
    assert all(run.metrics.ledger.equal and run.metrics.ledger.samples_shared == 0 for run in runs)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_strategy_and_world_size_makes_the_same_losses(runs, precision):
    alike = [run for run in runs if run.metrics.training_config.precision == precision]
    reference = loss_series(alike[0].steps)
    assert len(reference) == 9
    assert len(alike) >= 12
    for run in alike:
        difference = (abs(loss_series(run.steps) - reference) / reference).max()
        assert difference <= TOLERANCE[precision] / 10, run.name  # the tolerance leaves room for longer runs


def test_precisions_agree_within_that_of_the_lower(worlds):
    reference = loss_series(of(worlds, 2, "ddp").steps)
    for strategy in ("ddp", "fsdp", "zero0", "zero1", "zero2", "zero3"):
        difference = abs(loss_series(of(worlds, 2, strategy, "bf16").steps) - reference) / reference
        assert 0 < difference.max() <= TOLERANCE["bf16"] / 10, "bf16 is not fp32, and close to it"


def test_the_audit_finds_nothing_invalid(runs):
    found = [f for f in audit("matrix", runs).findings if f.severity == "invalid"]
    assert [(f.code, f.runs, f.evidence) for f in found] == []


@pytest.mark.parametrize("world", [2, 4])
def test_each_strategy_moves_what_its_formula_says(worlds, world):
    """In units of P parameters of 4 bytes, per optimizer step of two micro-batches."""
    expected = {
        "ddp": {"reduced": 1, "gathered": 0, "scattered": 0},
        "fsdp": {
            "reduced": 0,
            "gathered": 3.46,  # a micro-batch gathers the blocks, 73 % of this model, twice and the rest once
            "scattered": 1,
        },
        "zero0": {"reduced": 1, "gathered": 0, "scattered": 0},
        "zero1": {"reduced": 1, "gathered": 1, "scattered": 0},
        "zero2": {"reduced": 2, "gathered": 1, "scattered": 0},  # reduces in every micro-batch
        "zero3": {"reduced": 0, "gathered": 1, "scattered": 2},  # all that was gathered stays until the update
    }
    for strategy, kinds in expected.items():
        run = of(worlds, world, strategy, accumulation=2)
        unit = 4 * run.metrics.model.parameters
        for kind, times in kinds.items():
            loose = 0.6 if (strategy, kind) == ("zero3", "gathered") else 0.02
            assert moved_bytes(run)[kind] / unit == pytest.approx(times, abs=loose), (strategy, kind)


def test_low_precision_travels_where_the_strategy_says_so(worlds):
    assert of(worlds, 2, "ddp", "bf16").metrics.dtypes["reduced"] == "float32"
    assert of(worlds, 2, "zero1", "bf16").metrics.dtypes["reduced"] == "bfloat16"
    assert of(worlds, 2, "fsdp", "bf16").metrics.collectives["allgather_base"]["dtypes"] == ["bfloat16"]
    assert of(worlds, 2, "fsdp", "bf16").metrics.dtypes["reduced"] == "float32"


def test_weights_and_state_have_the_dtypes_of_their_strategy(worlds):
    for strategy in ("ddp", "fsdp", "zero0"):
        dtypes = of(worlds, 2, strategy, "bf16").metrics.dtypes
        assert (dtypes["parameters"], dtypes["products"], dtypes["optimizer_state"]) == (
            "float32",
            "bfloat16",
            "float32",
        )
    for strategy in ("zero1", "zero2", "zero3"):
        dtypes = of(worlds, 2, strategy, "bf16").metrics.dtypes
        assert (dtypes["parameters"], dtypes["products"], dtypes["optimizer_state"]) == (
            "bfloat16",
            "bfloat16",
            "float32",
        )


def test_an_update_is_made_in_each_step(runs):
    assert all(run.metrics.window.optimizer_steps == 5 for run in runs)
    assert all(run.metrics.window.skipped_optimizer_steps == 0 for run in runs)


def test_the_engines_configuration_is_that_of_the_cell(worlds):
    run = of(worlds, 2, "zero2", "bf16", 2)
    config = run.metrics.engine_config
    assert config["train_batch_size"] == 8
    assert config["train_micro_batch_size_per_gpu"] == 2
    assert config["gradient_accumulation_steps"] == 2
    assert config["zero_optimization"]["stage"] == 2
    assert config["bf16"]["enabled"]
    assert config["gradient_clipping"] == 1.0
    assert not config["wall_clock_breakdown"]
    assert config["timers"]["throughput"] == {"enabled": False, "synchronized": False}
    assert of(worlds, 2, "ddp").metrics.engine_config == {
        "ddp": {"find_unused_parameters": False, "gradient_as_bucket_view": True, "broadcast_buffers": False}
    }
    assert of(worlds, 1, "single").metrics.engine_config is None
    offloading = of(worlds, 2, "zero2-offload").metrics.engine_config["zero_optimization"]["offload_optimizer"]
    assert offloading["device"] == "cpu"
    assert offloading["pin_memory"] is torch.cuda.is_available()


def test_settings_that_reorder_communication_are_read_back(worlds):
    """From torch and DeepSpeed themselves, not from what was asked of them."""
    two = worlds[2]
    (prefetching,) = [run for slug, run in two.items() if "prefetch2" in slug]
    assert prefetching.metrics.engine_config == {"fsdp": {"forward_prefetch": 1, "replicas": 1}}, (
        "of two blocks the first has one next"
    )
    assert of(worlds, 2, "fsdp").metrics.engine_config == {"fsdp": {"forward_prefetch": 0, "replicas": 1}}
    (overlapping,) = [run for slug, run in two.items() if "zero2" in slug and "overlap" in slug]
    assert overlapping.metrics.engine_config["zero_optimization"]["overlap_comm"] is True
    assert of(worlds, 2, "zero2").metrics.engine_config["zero_optimization"]["overlap_comm"] is False
    assert of(worlds, 2, "zero3").metrics.engine_config["zero_optimization"]["overlap_comm"] is True


def test_a_silent_fp32_run_is_found(worlds):
    run = of(worlds, 2, "ddp")
    named = rewrite(run, lambda d: d["training_config"].update(precision="bf16"))
    finding = precision_is_what_ran(named)[0]
    assert finding.code == "precision-differs"
    assert "bf16 was asked for; matrix products ran in float32" in finding.evidence
    rewrite(named, lambda d: d["training_config"].update(precision="fp32"))


def test_traffic_of_another_strategy_is_found(worlds):
    """What the formula of one strategy allows, that of another one does not: the check can tell them apart."""
    for world in (2, 4):
        for strategy, other in (
            ("ddp", "fsdp"),
            ("fsdp", "ddp"),
            ("zero2", "zero1"),
            ("zero1", "ddp"),
            ("zero3", "zero2"),
        ):
            run = of(worlds, world, strategy, accumulation=2)
            pretended = run.metrics.model_copy(
                update={"training_config": run.metrics.training_config.model_copy(update={"strategy": other})}
            )
            assert traffic_is_the_strategys(MeasuredRun(run.folder, pretended)), (strategy, other)
