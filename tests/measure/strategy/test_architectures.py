"""Ten architectures of transformers on real ranks: every strategy makes the replay's steps, and the formulas hold."""

from pathlib import Path

import pytest

from scaleproof.conclude.checks.all_checks import audit
from scaleproof.conclude.checks.execution import moved_bytes
from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.records.run import Run
from scaleproof.ground.records.steps import loss_series
from scaleproof.measure.reference.replay import replay
from scaleproof.measure.reference.schema import Reference, workload_name

ARCHITECTURES = Path(__file__).parents[1] / "model" / "architectures"
STRATEGIES = ["ddp", "fsdp", "zero1", "zero2", "zero3"]
EVERYWHERE = ["llama", "opt"]  # grouped heads and an untied head; projections around the blocks and a tied one
ONCE = {"gemma": "fsdp", "gpt_neox": "zero3", "phi": "zero2", "falcon": "ddp", "mistral": "zero3", "qwen": "fsdp"}
ENCODERS = {"bert": STRATEGIES, "modernbert": ["fsdp"]}
LONGER = 3e-6  # relative: rounding, over nine steps


def cells(architecture: str, strategies: list[str], encoder: bool = False):
    model = {"config": str(ARCHITECTURES / f"{architecture}.json")}
    task = {"task": "classification", "corpus": "ag_news"} if encoder else {}
    return expand_cells(
        Campaign.model_validate(
            {
                "title": "architectures",
                "workload": {"model": model, "seq_len": 32, "tokenizer": "bpe-512", **task},
                "work": {"global_batch": 8, "steps": 5, "warmup_steps": 4},
                "execution": {"geometry": "1x2", "device": "cpu"},
                "vary": {"model": [model], "strategy": strategies, "accumulation": [2]},
            }
        )
    )


@pytest.fixture(scope="module")
def decoders(measure_all) -> dict[str, Run]:
    every = [cell for name in EVERYWHERE for cell in cells(name, STRATEGIES)]
    return measure_all(2, every + [cell for name, strategy in ONCE.items() for cell in cells(name, [strategy])])


@pytest.fixture(scope="module")
def encoders(measure_all, labelled) -> dict[str, Run]:
    every = [cell for name, strategies in ENCODERS.items() for cell in cells(name, strategies, encoder=True)]
    return measure_all(2, every, folder=labelled)


def check(runs: dict[str, Run], folder: Path) -> None:
    """Losses are the replay's, parameters too, and no check of the audit finds a fault."""
    invalid = [f for f in audit("matrix", list(runs.values())).findings if f.severity == "invalid"]
    assert [(f.code, f.runs, f.evidence) for f in invalid] == []
    references: dict[str, Reference] = {}
    for slug, run in runs.items():
        workload = workload_name(run.metrics.config)
        if workload not in references:
            references[workload] = replay(run.metrics.config, folder)
        reference = references[workload]
        assert list(loss_series(run.steps)) == pytest.approx(reference.losses, rel=LONGER), slug
        assert reference.parameters == run.metrics.model.parameters == run.metrics.model.inventory.parameters


def test_decoders(decoders, tokens):
    assert all(run.ok for run in decoders.values())
    check(decoders, tokens)


def test_encoders(encoders, labelled):
    assert all(run.ok for run in encoders.values())
    check(encoders, labelled)


def test_a_step_moves_the_parameters_of_the_network(decoders):
    """In bytes: what is tied travels once, what is not travels twice."""
    for name, parameters in {"llama": 51_360, "opt": 28_416}.items():
        (run,) = [run for slug, run in decoders.items() if slug.startswith("ddp") and name in slug]
        assert moved_bytes(run)["reduced"] == 4 * parameters
