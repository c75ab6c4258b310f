"""Cheats that begin once a loop is warm, each named by what was watched; and honest loops that look like them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from measure.watch.test_watch import Tiny, batches
from synthetic import cells
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import scaleproof
from scaleproof.conclude.checks.watched import WatchedRun, of_watched
from scaleproof.conclude.checks.watched_work import reasons_not_comparable
from scaleproof.ground.records.watched import read_watched
from scaleproof.measure.command.figures import NoFigures
from scaleproof.measure.command.watched import figures_of_watched_run

WARM = 3  # steps
STEPS = 16
Optimizer = torch.optim.Optimizer


def watched(folder: Path, step: Callable[[int, Tensor, nn.Module, Optimizer], None]) -> WatchedRun:
    torch.manual_seed(1)
    model = Tiny()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, batch in enumerate(scaleproof.watch(batches(steps=STEPS), model, optimizer, folder)):
        step(number, batch, model, optimizer)
    return WatchedRun(folder.name, read_watched(folder))


def honest(number: int, batch: Tensor, model: nn.Module, optimizer: Optimizer) -> None:
    model(batch).backward()
    optimizer.step()
    optimizer.zero_grad()


def without_backward(number, batch, model, optimizer):
    loss = model(batch)
    if number < WARM:
        loss.backward()
    optimizer.step()


def some_micro_steps_dropped(number, batch, model, optimizer):
    loss = model(batch)
    if number < 2 * WARM or number % 2:
        loss.backward()
    if number % 2:
        optimizer.step()
        optimizer.zero_grad()


def without_passes(number, batch, model, optimizer):
    if number < WARM or number % 2:
        model(batch).backward()
    optimizer.step()
    optimizer.zero_grad()


def each_batch_twice(number, batch, model, optimizer):
    honest(number, batches(steps=STEPS)[number // 2], model, optimizer)


def one_batch_again_and_again(number, batch, model, optimizer):
    honest(number, batches(steps=1)[0] if number % 2 else batch, model, optimizer)


def autocast(number, batch, model, optimizer):
    with torch.autocast("cpu", torch.bfloat16, enabled=number >= WARM):
        loss = model(batch)
    loss.backward()
    optimizer.step()


def products_of_less_precision(number, batch, model, optimizer):
    torch.set_float32_matmul_precision("medium" if WARM < number < STEPS - 1 else "highest")
    honest(number, batch, model, optimizer)


@pytest.mark.parametrize(
    ("cheat", "said"),
    [
        (without_backward, "passes-missing: on rank 0 13 of 16 forward passes had no backward pass"),
        (some_micro_steps_dropped, "passes-missing: on rank 0 5 of 16 forward passes had no backward pass"),
        (without_passes, "passes-missing: on rank 0 nothing entered the model before 6 of 16 steps"),
        (each_batch_twice, "steps that have a batch in common: few in honest, many in cheat"),
        (one_batch_again_and_again, "steps that have a batch in common: few in honest, many in cheat"),
        (autocast, "precision-changes: dtypes of matrix products on rank 0: float32, later mostly bfloat16"),
        (autocast, "dtypes of matrix products: float32 in honest, float32, later mostly bfloat16 in cheat"),
        (products_of_less_precision, "precision of fp32 products: highest in honest, highest+medium in cheat"),
    ],
)
def test_a_cheat_that_begins_after_the_warm_up(tmp_path, cheat, said):
    base, run = watched(tmp_path / "honest", honest), watched(tmp_path / "cheat", cheat)
    assert of_watched.findings([base]) == []
    found = [f"{finding.code}: {finding.evidence}" for finding in of_watched.findings([run])]
    assert said in found + reasons_not_comparable(base, run)


def two_steps_without_a_pass(number, batch, model, optimizer):
    if number in (WARM, WARM + 2):
        optimizer.step()
    else:
        honest(number, batch, model, optimizer)


def evaluates(number, batch, model, optimizer):
    honest(number, batch, model, optimizer)
    model.eval()
    with torch.no_grad():
        model(batches(steps=1)[0])
    model.train()


def two_passes_of_one_loss(number, batch, model, optimizer):
    (model(batch) + model(batch)).backward()
    optimizer.step()
    optimizer.zero_grad()


def checkpointed(number, batch, model, optimizer):
    checkpoint(model, batch, use_reentrant=False).backward()
    optimizer.step()
    optimizer.zero_grad()


def gradient_penalty(number, batch, model, optimizer):
    loss = model(batch)
    (gradient,) = torch.autograd.grad(loss, model.head.weight, create_graph=True)
    (loss + gradient.square().sum()).backward()
    optimizer.step()
    optimizer.zero_grad()


def step_left_out(number, batch, model, optimizer):
    model(batch).backward()
    if number != WARM:  # as a scaler does with an infinite gradient
        optimizer.step()
    optimizer.zero_grad()


def all_in_autocast(number, batch, model, optimizer):
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize(
    "step",
    [
        evaluates,
        two_passes_of_one_loss,
        two_steps_without_a_pass,
        checkpointed,
        gradient_penalty,
        step_left_out,
        all_in_autocast,
    ],
)
def test_an_honest_loop_is_not_accused(tmp_path, step):
    assert of_watched.findings([watched(tmp_path / "a", step)]) == []


def test_a_framework_whose_batch_serves_several_steps(tmp_path):
    """It shows batches, and neither forward nor backward passes."""
    run = watched(tmp_path / "a", without_passes)
    (rank,) = run.ranks
    assert of_watched.findings([WatchedRun("a", [rank.model_copy(update={"backward": None})])]) == []


def test_parts_of_an_optimizer_are_not_taken_for_replicas(tmp_path):
    """Ranks that update a part each begin with other parameters."""
    (first,) = watched(tmp_path / "a", honest).ranks
    exchanged = first.probed.model_copy(update={"collectives": {"allreduce_": 4}})
    first = first.model_copy(update={"world_size": 2, "probed": exchanged})
    own = {"rank": 1, "batches": [[number] for number in range(STEPS)]}
    apart = own | {"traces": [first.traces[0], *(trace + 1 for trace in first.traces[1:])]}
    part = own | {"traces": [trace + 1 for trace in first.traces]}
    (finding,) = of_watched.findings([WatchedRun("apart", [first, first.model_copy(update=apart)])])
    assert finding.code == "gradients-not-exchanged"
    assert of_watched.findings([WatchedRun("parts", [first, first.model_copy(update=part)])]) == []


def test_a_loss_that_is_not_made_of_what_the_model_returns(tmp_path):
    """Nobody sees its backward pass, and nothing is said of it."""

    def step(number, batch, model, optimizer):
        with torch.no_grad():
            hidden = model.table(batch)
        model(batch)
        model.head(hidden).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    run = watched(tmp_path / "a", step)
    assert run.ranks[0].backward is None
    assert of_watched.findings([run]) == []


def test_an_optimizer_that_never_steps_is_named(tmp_path):
    network = Tiny()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for batch in scaleproof.watch(batches(), network, optimizer, tmp_path):
        network(batch).backward()
    ranks = read_watched(tmp_path)
    (finding,) = of_watched.findings([WatchedRun("a", ranks)])
    assert finding.code == "weights-not-updated"
    assert "forward passes in training, and the optimizer no step" in finding.evidence
    with pytest.raises(NoFigures, match="no step of the optimizer"):
        figures_of_watched_run(ranks, cells()[0])


@pytest.mark.parametrize("steps", [5, STEPS])
def test_a_model_that_is_left_in_evaluation_mode_is_named(tmp_path, steps):
    def step(number, batch, model, optimizer):
        model.train(number >= steps)
        honest(number, batch, model, optimizer)

    (found,) = of_watched.findings([watched(tmp_path, step)])
    assert found.code == "passes-missing"
    assert f"in training, but in evaluation mode, before {steps} of {STEPS} steps" in found.evidence
