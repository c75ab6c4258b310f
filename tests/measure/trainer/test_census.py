"""What the census computes by itself: checksums of weights, nodes of graphs."""

import pytest
import torch
from torch import nn

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.measure.model.build import build_model
from scaleproof.measure.strategy.native import Single
from scaleproof.measure.trainer.census import autograd_nodes_made, compiled_parts, weights_checksum


def test_a_checksum_of_weights_is_that_of_their_bits():
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8))
    first = weights_checksum(model.parameters())
    assert first == weights_checksum(model.parameters())
    with torch.no_grad():
        model[0].weight[3, 4] = torch.nextafter(model[0].weight[3, 4], torch.tensor(9.0))
    assert weights_checksum(model.parameters()) != first
    assert weights_checksum(model.bfloat16().parameters()) is not None
    model[0].weight.ds_numel = 64
    assert weights_checksum(model.parameters()) is None, "a rank of zero3 has a part of it"


def test_nodes_of_a_graph_are_counted_by_thread():
    leaf = torch.ones(3, requires_grad=True)
    first = autograd_nodes_made()
    (leaf * 2).exp().sum().backward()
    with torch.no_grad():
        leaf * 2
    assert autograd_nodes_made() - first - 1 == 3


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        (False, ""),
        (True, "OptimizedModule"),
        ("loss", "LossHead"),
        ("max-autotune", "OptimizedModule with max_autotune"),
        ("reduce-overhead", "OptimizedModule with triton.cudagraphs"),
    ],
)
def test_what_is_compiled_is_read_back(value, parts):
    data = {
        "title": "x",
        "workload": {
            "model": {"layers": 1, "width": 32, "heads": 2, "context": 32},
            "tokenizer": "bpe-512",
            "seq_len": 32,
        },
        "execution": {"strategy": "single", "compile": value, "device": "cpu"},
    }
    (cell,) = expand_cells(Campaign.model_validate(data))
    assert compiled_parts(Single(cell, build_model(cell), torch.device("cpu")).module) == parts
