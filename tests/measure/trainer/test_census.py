"""What the census computes by itself: checksums of weights, nodes of graphs."""

import torch
from torch import nn

from scaleproof.measure.trainer.census import graph_nodes, weights_checksum


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
    first = graph_nodes()
    (leaf * 2).exp().sum().backward()
    with torch.no_grad():
        leaf * 2
    assert graph_nodes() - first - 1 == 3
