"""What is a loss, whose batches are taken by next(), and what ranks that were ended by the launcher may differ in."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from measure.watch.test_watch import STEPS, Tiny, batches, codes, trained
from torch import nn

import scaleproof
from scaleproof.cli.commands import run
from scaleproof.conclude.checks.watched import WatchedRun
from scaleproof.conclude.checks.watched_work import reasons_not_comparable
from scaleproof.ground.errors import UserError
from scaleproof.ground.records.watched import read_watched


def test_the_output_for_one_sample_is_no_loss(tmp_path):
    """A model that returns one number for each sample, trained on single samples: its loss is made outside of it."""
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in scaleproof.watch([torch.ones(1, 3)] * 3, model, optimizer, tmp_path):
        model(batch).square().sum().backward()
        optimizer.step()
    assert read_watched(tmp_path)[0].losses is None
    assert trained(tmp_path / "b").ranks[0].losses is not None, "one number without a dimension is one"


def test_a_loop_that_takes_its_batches_itself(tmp_path):
    """The data of such a loop are an iterator, and its model returns (logits, loss)."""

    class WithLogits(Tiny):
        def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return self.head(self.table(tokens)), super().forward(tokens)

    network = WithLogits()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    data = scaleproof.watch((batch for batch in batches()), network, optimizer, tmp_path)
    batch = next(data)
    while batch is not None:
        loss = network(batch)[1]
        loss.backward()
        optimizer.step()
        batch = next(data, None)
    (rank,) = read_watched(tmp_path)
    assert rank.losses[-1] == loss.item()
    assert len(rank.losses) == STEPS


def test_folders_of_one_name_are_told_apart_and_other_commands_name_watched(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("w1", "w2"):
        trained(Path(name, "scaleproof-watch"))
    folders = ["w1/scaleproof-watch", "w2/scaleproof-watch"]
    command("watched", *folders)
    assert [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()[:2]] == folders
    command("audit", "w1")
    assert "its checks: scaleproof watched w1/scaleproof-watch" in capsys.readouterr().err
    with pytest.raises(UserError, match="is compared by: scaleproof watched w1/scaleproof-watch OTHER"):
        command("compare", "w1", "w2")


def command(*words: str) -> None:
    """Run `scaleproof` in this process."""
    with patch.object(sys, "argv", ["scaleproof", *words]), suppress(SystemExit):
        run()


def test_ranks_that_were_ended_need_not_end_at_the_same_step(tmp_path):
    run = trained(tmp_path)
    first = run.ranks[0].model_copy(update={"world_size": 2, "batches": []})
    second = first.model_copy(update={"rank": 1, "weights": "0" * 16, "step_s": first.step_s[:-1]})
    ranks = [first, second]
    assert {"steps-differ-between-ranks", "ranks-train-apart"} <= set(codes(WatchedRun("a", ranks)))
    ended = codes(WatchedRun("a", ranks, was_ended=True))
    assert not {"steps-differ-between-ranks", "ranks-train-apart"} & set(ended)
    far = [first, second.model_copy(update={"step_s": first.step_s[:-3]})]
    assert "steps-differ-between-ranks" in codes(WatchedRun("a", far, was_ended=True))


@pytest.mark.parametrize(
    ("a", "b", "different"),
    [
        ([4, 4, 4, 4], [4, 4, 4, 3], []),  # the last batch of an epoch
        ([4, 4, 4, 3], [8, 8, 8, 3], ["samples in a step: 4 in a, 8 in b"]),
        ([4, 4, 4, 4], [5, 7, 3, 9], []),  # nothing is usual
    ],
)
def test_the_amount_of_work_is_that_of_most_steps(tmp_path, a, b, different):
    rank = trained(tmp_path).ranks[0]
    runs = [WatchedRun(name, [rank.model_copy(update={"samples": x})]) for name, x in (("a", a), ("b", b))]
    assert reasons_not_comparable(*runs) == different


INTERRUPTED = """
import torch
from scaleproof.measure.watch.watcher import Watcher
model = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
watcher = Watcher(model, optimizer)
watcher.start()
for step in range(4):
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
raise KeyboardInterrupt
"""


def test_a_program_that_is_ended_leaves_its_record(tmp_path):
    """A Trainer calls none of its callbacks then."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], cwd=tmp_path, capture_output=True, text=True)
    assert "KeyboardInterrupt" in done.stderr
    (rank,) = read_watched(tmp_path / "scaleproof-watch")
    assert len(rank.step_s) == 4
