"""Parameter and FLOP counts: against the published figures and against the network itself."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign, shape_of
from scaleproof.ground.campaign.model_shapes import SHAPES
from scaleproof.ground.facts.counts import count_gpt2
from scaleproof.measure.model.build import build_model


def test_gpt2_small_as_published():
    counts = count_gpt2(SHAPES["gpt2-small"], 50257, 1024)
    assert counts.parameters == 124_439_808
    assert counts.matmul_parameters == 123_532_032
    assert counts.flops_per_token == pytest.approx(855e6, rel=2e-3)
    assert counts.flops_per_token_causal == pytest.approx(798.5e6, rel=2e-3)
    assert count_gpt2(SHAPES["gpt2-small"], 50257, 512).flops_per_token == pytest.approx(798.5e6, rel=2e-3)


@pytest.mark.parametrize("name", ["gpt2-medium", "gpt2-large", "gpt2-xl"])
def test_the_family_as_published(name):
    published = {"gpt2-medium": 354_823_168, "gpt2-large": 774_030_080, "gpt2-xl": 1_557_611_200}
    assert count_gpt2(SHAPES[name], 50257, 1024).parameters == published[name]


FREE = {"layers": 3, "width": 96, "heads": 3, "context": 64}


def built(seed: int = 1, **workload):
    data = {"title": "x", "workload": {"seq_len": 32, **workload}, "work": {"seed": seed}}
    cell = expand_cells(Campaign.model_validate(data))[0]
    return cell, build_model(cell)


@pytest.mark.parametrize(
    "workload", [{}, {"model": FREE}, {"model": FREE, "vocab_size": 2112}, {"model": FREE, "tokenizer": "bpe-300"}]
)
def test_the_built_model_has_the_counted_parameters(workload):
    cell, model = built(**workload)
    counts = count_gpt2(shape_of(cell.workload.model), cell.vocab_size, 32)
    assert sum(p.numel() for p in model.parameters()) == counts.parameters


def test_flops_against_the_profiler_of_torch():
    """torch counts 2 FLOPs a multiply-add in every matrix product of a step; ours is the same sum by formula."""
    cell, model = built(model=FREE)
    # The fused attention of the CPU is not among the operations that torch counts; its plain form is.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(torch.randint(2048, (4, 33))).backward()
    expected = count_gpt2(shape_of(cell.workload.model), 2048, 32).flops_per_token * 4 * 32
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.02)


def test_weights_depend_on_the_seed_alone():
    one, same, other = (built(seed, model=FREE)[1].state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(one[k], same[k]) for k in one)
    assert any(not torch.equal(one[k], other[k]) for k in one)
