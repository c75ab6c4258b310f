"""Tokens that enter a model in the window: the trainer's chain is that of the written rule, however work is cut."""

import numpy as np
import pytest
import torch
from torch import nn

from scaleproof.measure.reference import samples
from scaleproof.measure.trainer.fed_tokens import FedTokens

GLOBAL, SEED, STEPS = 8, 3, range(4, 10)


@pytest.fixture
def corpus(tokens) -> samples.SplitSamples:
    return samples.SplitSamples(tokens, "train", 32, labelled=False)


def rows_of(corpus: samples.SplitSamples, step: int) -> torch.Tensor:
    return torch.from_numpy(corpus.rows(samples.step_ids(corpus.count, GLOBAL, SEED, step)))


def chain(corpus: samples.SplitSamples, ranks: int, accumulation: int, change=lambda step, rows: rows) -> str:
    """The chain of all ranks together, of which each trains its part of every step in some micro-batches."""
    total = 0
    for rank in range(ranks):
        module = nn.Identity()
        with FedTokens(GLOBAL // ranks // accumulation, 33, torch.device("cpu")).record(module) as fed:
            for step in STEPS:
                for part in rows_of(corpus, step).chunk(ranks * accumulation)[rank::ranks]:
                    module(change(step, part))
        module(rows_of(corpus, 0))  # nobody looks any more
        total += int(fed.chained_checksum(STEPS.start, accumulation), 16)
    return f"{total % 2**64:016x}"


@pytest.mark.parametrize(("ranks", "accumulation"), [(1, 1), (2, 1), (1, 4), (2, 2)])
def test_the_chain_is_that_of_the_rule(corpus, ranks, accumulation):
    assert chain(corpus, ranks, accumulation) == samples.chained_checksum(corpus, GLOBAL, SEED, STEPS)


def one_token(step, rows):
    rows = rows.clone()
    rows[0, 5] += step == 7
    return rows


@pytest.mark.parametrize("where", ["again", "half", "order", "token", "twice", "padding"])
def test_other_tokens_change_it(corpus, where):
    changes = {
        "again": lambda step, rows: rows_of(corpus, 6)[: len(rows)] if step > 6 else rows,
        "half": lambda step, rows: rows[:, :17] if step > 6 else rows,
        "order": lambda step, rows: rows_of(corpus, {6: 7, 7: 6}.get(step, step)),
        "token": one_token,
        "twice": lambda step, rows: rows[: len(rows) // 2].repeat(2, 1) if step == 9 else rows,
        "padding": lambda step, rows: rows.clamp(max=100),
    }
    assert chain(corpus, 1, 1, changes[where]) != samples.chained_checksum(corpus, GLOBAL, SEED, STEPS)


def test_absent_tokens_are_part_of_a_row():
    rows = torch.tensor([[5, 6, -1, -1, 2], [5, 6, 7, -1, 2]])
    module = nn.Identity()
    with FedTokens(2, 5, torch.device("cpu")).record(module) as fed:
        module(rows)
    powers = np.cumprod(np.full(5, samples.MULTIPLIER, dtype=np.uint64), dtype=np.uint64)
    hashes = (rows.numpy().view(np.uint64) * powers).sum(axis=1, dtype=np.uint64) ** 2
    assert fed.chained_checksum(0, 1) == f"{int(hashes.sum(dtype=np.uint64)):016x}"
