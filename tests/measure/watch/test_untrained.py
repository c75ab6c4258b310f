"""Loops that move weights and train nothing, or only a part of them."""

import itertools
import math
from pathlib import Path

import pytest
import torch
from measure.watch.test_watch import Tiny, batches, codes
from torch import nn

import scaleproof
from scaleproof.conclude.checks.watched import WatchedRun, of_watched
from scaleproof.ground.records.watched import read_watched


def looped(folder: Path, trains, step) -> WatchedRun:
    """A loop over `Tiny` by an optimizer of the parameters that `trains` chooses; `step`: what is done with a batch."""
    network = Tiny()
    optimizer = torch.optim.AdamW(trains(network), lr=0.1)
    others = torch.optim.SGD(network.head.parameters(), lr=0.1)
    for batch in scaleproof.watch(batches(), network, optimizer, folder):
        step(network, batch, optimizer, others)
    return WatchedRun(folder.name, read_watched(folder))


def test_gradients_of_zero_are_found_though_weights_decay(tmp_path):
    def step(network, batch, optimizer, others):
        (0 * network(batch)).backward()
        optimizer.step()

    (finding,) = of_watched.findings([looped(tmp_path, nn.Module.parameters, step)])
    assert (finding.code, finding.severity) == ("weights-not-updated", "invalid")
    assert "all gradients were zero" in finding.evidence


def test_gradients_that_a_closure_makes_are_not_taken_for_zero(tmp_path):
    def step(network, batch, optimizer, others):
        def closure():
            optimizer.zero_grad(set_to_none=False)
            network(batch).backward()

        with torch.enable_grad():
            optimizer.zero_grad(set_to_none=False)
            optimizer.step(closure)

    assert codes(looped(tmp_path, nn.Module.parameters, step)) == []


@pytest.mark.parametrize("other_steps", [False, True])
def test_parameters_that_no_optimizer_has_are_found(tmp_path, other_steps):
    """Where another optimizer has them, they change: nothing is wrong."""

    def step(network, batch, optimizer, others):
        network(batch).backward()
        optimizer.step()
        if other_steps:
            others.step()
        network.zero_grad()

    found = of_watched.findings([looped(tmp_path, lambda network: network.table.parameters(), step)])
    evidence = [(finding.severity, finding.evidence) for finding in found]
    words = "on rank 0 450 of 850 trainable parameters got gradients and never changed"
    assert evidence == ([] if other_steps else [("suspect", words)])


@pytest.mark.parametrize("clears", [False, True])
@pytest.mark.parametrize("clips", [False, True])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_gradients_that_nobody_clears_are_found(tmp_path, accumulation, clears, clips):
    passes = itertools.count(1)

    def step(network, batch, optimizer, others):
        network(batch).backward()
        if next(passes) % accumulation:
            return
        if clips:
            nn.utils.clip_grad_norm_(network.parameters(), 0.1)
        optimizer.step()
        if clears:
            optimizer.zero_grad(set_to_none=clips)

    found = codes(looped(tmp_path, nn.Module.parameters, step))
    assert found == ([] if clears else ["gradients-not-cleared"])


@pytest.mark.parametrize("clears", [False, True])
def test_gradients_of_a_model_without_a_small_parameter(tmp_path, clears):
    network = nn.Linear(300, 300, bias=False)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for batch in scaleproof.watch(list(torch.randn(5, 4, 300)), network, optimizer, tmp_path):
        network(batch).square().mean().backward()
        optimizer.step()
        if clears:
            optimizer.zero_grad()
    assert codes(WatchedRun("run", read_watched(tmp_path))) == ([] if clears else ["gradients-not-cleared"])


def test_gradients_that_the_loop_sets_itself_are_not_carried(tmp_path):
    network = nn.Linear(3, 3, bias=False)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for batch in scaleproof.watch(list(torch.randn(5, 4, 3)), network, optimizer, tmp_path):
        (network.weight.grad,) = torch.autograd.grad(network(batch).square().mean(), network.weight)
        optimizer.step()
    assert codes(WatchedRun("run", read_watched(tmp_path))) == []


def test_gradients_that_another_loss_adds_are_cleared_later(tmp_path):
    """As of a discriminator, into which the generator's loss runs between its own steps."""

    def step(network, batch, optimizer, others):
        optimizer.zero_grad()
        network(batch).backward()
        optimizer.step()
        network(batch.flip(0, 1)).backward()

    assert codes(looped(tmp_path, nn.Module.parameters, step)) == []


@pytest.mark.parametrize("lost_from", [4, 100])
def test_losses_that_are_no_numbers_to_the_end_are_found(tmp_path, lost_from):
    """A single one in a lot of steps is no fault: a loss scaler skips it."""
    steps = itertools.count()

    def step(network, batch, optimizer, others):
        at = next(steps)
        loss = network(batch)
        (loss * math.nan if at >= lost_from else loss).backward()
        optimizer.step()
        network.zero_grad()

    run = looped(tmp_path, nn.Module.parameters, step)
    lost = run.ranks[0].losses
    evidence = [finding.evidence for finding in of_watched.findings([run]) if "the loss" in finding.evidence]
    n = len(lost) - lost_from - 1
    assert evidence == (
        [f"on rank 0 the loss was NaN or infinite in the last {n} of {len(lost)} steps"] if n > 0 else []
    )
