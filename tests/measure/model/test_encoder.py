"""The encoder with a classifier: padding takes no part, its counts are those of the network."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from scaleproof.ground.campaign.model_shapes import SHAPES, EncoderShape
from scaleproof.ground.facts.counts import count_parameters_and_flops, inventory_of_shape
from scaleproof.measure.model.encoder import Classifier

SHAPE = EncoderShape(d_model=32, heads=2, layers=2, feed_forward=48, context=40)


@pytest.fixture
def model():
    torch.manual_seed(3)
    return Classifier(SHAPE, 300, 4)


@pytest.fixture
def samples():
    """Five documents of 3 to 20 tokens, padded to 20, and their labels."""
    torch.manual_seed(4)
    tokens = torch.randint(300, (5, 20))
    for row, length in enumerate((3, 20, 7, 11, 5)):
        tokens[row, length:] = -1
    return torch.cat([tokens, torch.tensor([[0], [1], [2], [3], [0]])], dim=1)


def test_padding_changes_nothing(model, samples):
    wider = torch.cat([samples[:, :20], torch.full((5, 15), -1), samples[:, 20:]], dim=1)
    assert model(wider).item() == pytest.approx(model(samples).item(), rel=1e-5)
    alone = torch.cat([samples[:1, :3], samples[:1, 20:]], dim=1)
    assert model(alone).item() == pytest.approx(model(samples[:1]).item(), rel=1e-5)


def test_every_real_token_counts(model, samples):
    changed = samples.clone()
    changed[1, 19] = (changed[1, 19] + 1) % 300
    assert model(changed).item() != model(samples).item()


def test_scores_are_those_of_each_sample(model, samples):
    loss = model(samples).item()
    model.eval()
    with torch.no_grad():
        scored = model(samples)
    assert scored.shape == (5, 3)
    assert scored[:, 0].mean().item() == pytest.approx(loss, rel=1e-5)
    assert scored[:, 1].tolist() == [1] * 5
    assert set(scored[:, 2].tolist()) <= {0.0, 1.0}


def test_it_learns(model, samples):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(40):
        optimizer.zero_grad()
        model(samples).backward()
        optimizer.step()
    with torch.no_grad():
        assert model.eval()(samples)[:, 2].tolist() == [1] * 5


def test_checkpointing_changes_no_gradient(model, samples):
    model(samples).backward()
    plain = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model.checkpointing = True
    model(samples).backward()
    for grad, p in zip(plain, model.parameters(), strict=True):
        torch.testing.assert_close(p.grad, grad)


@pytest.mark.parametrize("name", ["encoder-small", "encoder-large"])
def test_the_built_model_has_the_counted_parameters(name):
    shape = SHAPES[name]
    model = Classifier(shape, 2000, 4)
    assert sum(p.numel() for p in model.parameters()) == inventory_of_shape(shape, 2000, 4).parameters
    assert sum(p.numel() for p in model.blocks[0].parameters()) == inventory_of_shape(shape, 2000, 4).blocks[0]


def test_sizes_as_published():
    """ "2M" and "10M" parameters, which with a table of 20,000 rows are 2.9 and 8.4 million."""
    assert inventory_of_shape(SHAPES["encoder-small"], 20_000, 4).parameters == pytest.approx(2.9e6, rel=0.03)
    assert inventory_of_shape(SHAPES["encoder-large"], 20_000, 4).parameters == pytest.approx(8.4e6, rel=0.03)


def test_flops_against_the_profiler_of_torch(model):
    """Without padding, every token of every sample is work: ours is the sum that torch counts."""
    samples = torch.cat([torch.randint(300, (6, 32)), torch.zeros(6, 1, dtype=torch.int64)], dim=1)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(samples).backward()
    expected = count_parameters_and_flops(inventory_of_shape(SHAPE, 300, 4), 32).flops_per_token * 6 * 32
    assert counter.get_total_flops() == pytest.approx(expected, rel=0.02)
