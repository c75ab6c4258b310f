"""Two lines in somebody's loop: what is recorded, and which faults planted into the loop it shows."""

import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import scaleproof
from scaleproof.cli.commands import run as run_command
from scaleproof.conclude.checks.watched import WatchedRun, of_watched
from scaleproof.conclude.checks.watched_work import reasons_not_comparable
from scaleproof.ground.errors import UserError
from scaleproof.ground.losses import compare_losses
from scaleproof.ground.records.watched import read_watched

STEPS, ROWS, TOKENS = 8, 4, 16


class Tiny(nn.Module):
    """Tokens in, loss out."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 8, dtype=dtype)
        self.head = nn.Linear(8, 50, dtype=dtype)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.table(tokens[:, :-1]))
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


def batches(seed: int = 0, steps: int = STEPS) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(50, (ROWS, TOKENS), generator=generator) for _ in range(steps)]


def test_left_over_variables_of_a_launcher_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "abc")
    with pytest.raises(UserError, match="RANK=3 and WORLD_SIZE=abc are no whole numbers; torchrun sets both"):
        trained(tmp_path)


def test_a_folder_that_cannot_be_is_refused_before_the_training(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file: file exists"):
        trained(tmp_path / "file")


def test_a_schedule_is_no_optimizer(tmp_path):
    network = Tiny()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    schedule: Any = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    with pytest.raises(UserError, match=r"takes batches, a model .* and its optimizer, not list, Tiny, StepLR"):
        scaleproof.watch(batches(), network, schedule, tmp_path)
    assert scaleproof.watch(batches(), network, optimizer, tmp_path)


def trained(folder: Path, loader=None, learning_rate: float = 0.1, accumulation: int = 1, model=None) -> WatchedRun:
    torch.manual_seed(1)
    network = model or Tiny()
    optimizer = torch.optim.AdamW(network.parameters(), lr=learning_rate, weight_decay=0.0)
    for number, batch in enumerate(scaleproof.watch(loader or batches(), network, optimizer, folder), start=1):
        network(batch).backward()
        if number % accumulation == 0:
            optimizer.step()
            optimizer.zero_grad()
    return WatchedRun(folder.name, read_watched(folder))


def codes(run: WatchedRun) -> list[str]:
    return [finding.code for finding in of_watched.findings([run])]


def changed(run: WatchedRun, rank: int, **fields) -> WatchedRun:
    ranks = [r.model_copy(update=fields) if r.rank == rank else r for r in run.ranks]
    return WatchedRun(run.name, ranks)


def test_a_sound_loop(tmp_path):
    run = trained(tmp_path / "a")
    (rank,) = run.ranks
    assert codes(run) == []
    assert rank.samples == [ROWS] * STEPS
    assert rank.tokens == [ROWS * TOKENS] * STEPS
    assert len(rank.step_s) == len(rank.losses) == STEPS
    assert rank.losses[-1] < rank.losses[0]
    assert rank.wall_s >= sum(rank.step_s)
    assert [look.step for look in rank.looks] == [0, 1, 2]
    assert all(look.gradient_norm > 0 and look.update_norm > 0 for look in rank.looks)
    assert rank.parameters == rank.trainable == 50 * 8 + 50 * 8 + 50
    assert (rank.probed.products, rank.parameter_dtypes) == ("float32", "float32")
    # Forward, and both gradients of one linear layer: its weights and its inputs.
    assert rank.probed.linear_flops == 3 * 2 * ROWS * (TOKENS - 1) * 8 * 50
    assert run.tokens_per_s > 0


def test_losses_of_a_run_are_means_over_its_ranks(tmp_path):
    run = trained(tmp_path / "a")
    (rank,) = run.ranks
    two = WatchedRun("two", [rank, rank.model_copy(update={"rank": 1, "losses": [loss + 1 for loss in rank.losses]})])
    assert two.losses == pytest.approx({step: loss + 0.5 for step, loss in run.losses.items()})
    assert compare_losses("a", "a", [run.losses], [run.losses]) == (
        False,
        "Losses agree in 8 equal steps: at most 0 % apart.",
    )
    assert WatchedRun("none", [rank.model_copy(update={"losses": None})]).losses == {}


def test_losses_are_those_of_the_loop_unwatched(tmp_path):
    (rank,) = trained(tmp_path / "a").ranks
    torch.manual_seed(1)
    network = Tiny()
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.1, weight_decay=0.0)
    losses = []
    for batch in batches():
        loss = network(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert rank.losses == losses, "watching changes no arithmetic"


def test_a_step_is_an_update_however_many_batches_it_takes(tmp_path):
    (rank,) = trained(tmp_path / "a", accumulation=2).ranks
    assert rank.tokens == [2 * ROWS * TOKENS] * (STEPS // 2)
    assert all(len(step) == 2 for step in rank.batches)


def test_a_loop_that_is_left_leaves_its_record(tmp_path):
    network = Tiny()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for number, batch in enumerate(scaleproof.watch(batches(), network, optimizer, tmp_path)):
        network(batch).backward()
        optimizer.step()
        if number == 3:
            break
    assert len(read_watched(tmp_path)[0].step_s) == 4
    assert not network._forward_pre_hooks, "no hook stays"


def test_a_loader_that_is_wrapped_once_serves_all_epochs(tmp_path):
    network = Tiny()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    loader = scaleproof.watch(torch.utils.data.DataLoader(batches(), batch_size=None), network, optimizer, tmp_path)
    for _ in range(2):
        for batch in loader:
            network(batch).backward()
            optimizer.step()
    (rank,) = read_watched(tmp_path)
    assert len(rank.step_s) == len(rank.losses) == len(rank.samples) == len(loader) == STEPS
    assert len(loader.dataset) == STEPS, "a loop may ask for what its loader has"


def test_what_evaluation_takes_in_is_no_work(tmp_path):
    network = Tiny()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for batch in scaleproof.watch(batches(), network, optimizer, tmp_path):
        network(batch).backward()
        optimizer.step()
        network.eval()
        with torch.no_grad():
            network(batch)
        network.train()
    assert read_watched(tmp_path)[0].tokens == [ROWS * TOKENS] * STEPS


@pytest.mark.parametrize("after_update", [False, True])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_loss_that_the_model_does_not_return(tmp_path, after_update, accumulation):
    network = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    losses = []
    watched = scaleproof.watch([torch.ones(2, 8)] * 4, network, optimizer, tmp_path)
    for number, batch in enumerate(watched, start=1):
        loss = network(batch).square().mean()
        losses.append(loss.item())
        if not after_update:
            watched.see_loss(loss)
        loss.backward()
        if number % accumulation == 0:
            optimizer.step()
        if after_update:
            watched.see_loss(loss)
    (rank,) = read_watched(tmp_path)
    of_steps = [losses[start : start + accumulation] for start in range(0, 4, accumulation)]
    assert rank.losses == [sum(step) / accumulation for step in of_steps]
    assert not any(rank.tokens), "numbers are no tokens"
    assert WatchedRun("a", [rank.model_copy(update={"samples": [2] * 4, "step_s": [1.0] * 4})]).samples_per_s == 2


def test_a_loss_of_a_pass_that_nobody_sees_is_of_its_own_step(tmp_path):
    network = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    watched = scaleproof.watch([torch.ones(2, 8)] * 2, network, optimizer, tmp_path)
    losses = []
    for batch in watched:
        loss = network.forward(batch).square().mean()  # calls no hook
        losses.append(loss.item())
        watched.see_loss(loss)
        loss.backward()
        optimizer.step()
    assert read_watched(tmp_path)[0].losses == losses


def test_updates_of_nothing_are_found(tmp_path):
    assert codes(trained(tmp_path / "a", learning_rate=0.0)) == ["weights-not-updated"]
    assert codes(changed(trained(tmp_path / "b"), 0, trainable=0)) == ["weights-not-updated"]


def test_gradients_of_nothing_are_found(tmp_path):
    network = Tiny()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for batch in scaleproof.watch(batches(), network, optimizer, tmp_path):
        (network(batch) * 0).backward()
        optimizer.step()
    (finding,) = of_watched.findings([WatchedRun("a", read_watched(tmp_path))])
    assert finding.code == "weights-not-updated"
    assert "the largest norm of the gradients was 0" in finding.evidence


def test_a_repeated_batch_is_found(tmp_path):
    assert codes(trained(tmp_path / "a", [batches()[0]] * STEPS)) == ["batch-repeated"]
    twice = [batch for batch in batches() for _ in range(2)]
    assert codes(trained(tmp_path / "b", twice)) == [], "two looks at a batch are nothing odd"
    assert codes(trained(tmp_path / "c", batches()[:2] * 4)) == ["batch-repeated"], "two batches are no data set"
    assert codes(trained(tmp_path / "d", batches() * 2)) == [], "a second epoch is nothing odd"
    constant = torch.ones(2)  # beside inputs that change
    assert codes(trained(tmp_path / "e", [(constant, batch) for batch in batches()], model=Pair())) == []


class Pair(Tiny):
    """As Tiny, with an input that means nothing before the tokens."""

    def forward(self, pair) -> torch.Tensor:
        return super().forward(pair[1])


@pytest.mark.parametrize(
    ("number", "in_loader", "found"),
    [
        (2, None, ["few-batches"]),  # a stream of an honest loop, or not: nobody knows
        (2, 2, ["few-batches"]),  # a data set of two batches, gone through four times by a trainer
        (2, 100, ["batch-repeated"]),
        (4, 100, []),
        (1, 1, ["few-batches"]),
        (1, None, ["batch-repeated"]),
    ],
)
def test_few_batches_are_held_against_the_length_of_their_loader(tmp_path, number, in_loader, found):
    """A loader that says that it has no more is an honest loop over a small data set."""
    repeated = batches()[:number] * (STEPS // number)
    run = changed(trained(tmp_path / "a", repeated), 0, loader_batches=in_loader)
    assert codes(run) == found


def test_a_stream_says_no_length(tmp_path):
    assert trained(tmp_path / "a", iter(batches())).ranks[0].loader_batches is None
    assert trained(tmp_path / "b").ranks[0].loader_batches == STEPS


def test_a_training_that_diverges_leaves_a_record_that_says_so(tmp_path):
    model = Tiny()
    with torch.no_grad():
        model.table.weight[0, 0] = math.nan
    run = trained(tmp_path / "a", model=model)
    assert math.isnan(run.ranks[0].losses[-1])
    assert math.isnan(run.ranks[0].looks[0].weight_norm)
    assert codes(run) == ["weights-not-updated"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"weights": "f" * 16}, "ranks-train-apart"),
        ({"step_s": [0.1] * 3, "wall_s": 0.3}, "steps-differ-between-ranks"),
        ({}, "ranks-share-batches"),
    ],
)
def test_what_ranks_do_apart_or_alike(tmp_path, fields, code):
    first = trained(tmp_path / "a").ranks[0]
    exchanged = first.probed.model_copy(update={"collectives": {"allreduce_": 4 * first.parameters}})
    first = first.model_copy(update={"world_size": 2, "probed": exchanged})
    other = trained(tmp_path / "b", batches(seed=1)).ranks[0]
    shared = {"weights": first.weights, "traces": first.traces}
    second = other.model_copy(update={"rank": 1, "world_size": 2, "probed": exchanged} | shared)
    assert codes(WatchedRun("sound", [first, second])) == []
    alike = first if code == "ranks-share-batches" else second
    assert codes(WatchedRun("odd", [first, alike.model_copy(update={"rank": 1} | fields)])) == [code]


def test_replicas_that_exchange_nothing_are_found(tmp_path):
    """Weights that were made equal at the end do not hide it."""
    first = trained(tmp_path / "a").ranks[0].model_copy(update={"world_size": 2})
    second = (
        trained(tmp_path / "b", batches(seed=1))
        .ranks[0]
        .model_copy(update={"rank": 1, "world_size": 2, "weights": first.weights})
    )
    assert codes(WatchedRun("apart", [first, second])) == ["gradients-not-exchanged"]


@pytest.mark.parametrize("fields", [{"parameters": 99}, {"weights": None}], ids=["pipeline", "sharded"])
def test_parts_of_a_model_are_not_taken_for_replicas(tmp_path, fields):
    first = trained(tmp_path / "a").ranks[0]
    exchanged = first.probed.model_copy(update={"collectives": {"send": 4}})
    first = first.model_copy(update={"world_size": 2, "probed": exchanged})
    other = trained(tmp_path / "b", batches(seed=1)).ranks[0]
    second = other.model_copy(update={"rank": 1, "world_size": 2, "probed": exchanged} | fields)
    assert codes(WatchedRun("parts", [first, second])) == []


def test_ranks_of_one_sample_are_not_taken_for_replicas(tmp_path):
    """Tensor parallel: the same batches and parts of the weights."""
    first = trained(tmp_path / "a").ranks[0].model_copy(update={"world_size": 2})
    second = first.model_copy(update={"rank": 1, "weights": "f" * 16})
    assert codes(WatchedRun("parts", [first, second])) == ["ranks-share-batches"]


def test_a_rank_without_a_record_is_found(tmp_path):
    assert codes(changed(trained(tmp_path / "a"), 0, world_size=2)) == ["steps-differ-between-ranks"]


def test_steps_that_take_more_than_passed(tmp_path):
    run = trained(tmp_path / "a")
    assert codes(changed(run, 0, wall_s=sum(run.ranks[0].step_s) / 2)) == ["watched-clocks-differ"]


def test_work_that_differs_is_named(tmp_path):
    a, same = trained(tmp_path / "a"), trained(tmp_path / "b")
    assert reasons_not_comparable(a, same) == []
    less = trained(tmp_path / "fewer", [batch[:2] for batch in batches()])
    assert reasons_not_comparable(a, less) == [
        "samples in a step: 4 in a, 2 in fewer",
        "tokens in a step: 64 in a, 32 in fewer",
    ]
    low = trained(tmp_path / "low", model=Tiny(torch.bfloat16))
    assert reasons_not_comparable(a, low) == [
        "dtypes of weights: float32 in a, bfloat16 in low",
        "dtypes of matrix products: float32 in a, bfloat16 in low",
    ]
    assert reasons_not_comparable(a, trained(tmp_path / "short", batches(steps=4))) == [
        "optimizer steps: 8 in a, 4 in short"
    ]


CHEATS = {
    "none": "",
    "fewer steps": "not comparable: optimizer steps: 8 in honest, 4 in cheat",
    "smaller batches": "not comparable: samples in a step: 4 in honest, 2 in cheat",
    "repeated batch": "suspect: batch-repeated: cheat: on rank 0 the same batch entered the model in 8 steps in a row",
    "another precision": "not comparable: dtypes of matrix products: float32 in honest, bfloat16 in cheat",
    "frozen weights": "not comparable: trained parameters: 850 in honest, 450 in cheat",
    "no update": "invalid: weights-not-updated: cheat",
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_planted_cheat_is_named_by_the_command(tmp_path, monkeypatch, capsys, cheat):
    """Ways to be faster than an honest run that no printed figure shows."""
    model = Tiny()
    if cheat == "frozen weights":
        model.table.requires_grad_(False)
    loaders = {
        "fewer steps": batches(steps=4),
        "smaller batches": [batch[:2] for batch in batches()],
        "repeated batch": [batches()[0]] * STEPS,
    }
    trained(tmp_path / "honest")
    with torch.autocast("cpu", torch.bfloat16, enabled=cheat == "another precision"):
        trained(tmp_path / "cheat", loaders.get(cheat), 0.0 if cheat == "no update" else 0.1, model=model)
    monkeypatch.setattr(sys, "argv", ["scaleproof", "watched", str(tmp_path / "honest"), str(tmp_path / "cheat")])
    code = 0
    try:
        run_command()
    except SystemExit as end:
        code = end.code
    text = capsys.readouterr().out
    assert CHEATS[cheat] in text
    assert " equal steps" in text, "losses are compared, whatever differs"
    assert code == (0 if cheat == "none" else 1), text
    assert ("not comparable" in text or "invalid" in text or "suspect" in text) == (cheat != "none")


def test_a_damaged_record_is_one_message(tmp_path):
    with pytest.raises(UserError, match=r"no watched\.\*\.json"):
        read_watched(tmp_path)
    (tmp_path / "watched.0.json").write_text("{}")
    with pytest.raises(UserError, match=r"is not a record of scaleproof\.watch"):
        read_watched(tmp_path)
