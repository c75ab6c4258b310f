"""The trainers of others, watched by their callbacks or by the two lines: transformers, Lightning, Accelerate.

Each is imported where it is used, since that takes seconds.
"""

import math

import pytest
import torch
from torch.utils.data import DataLoader

import scaleproof
from scaleproof.conclude.checks.watched import WatchedRun, of_watched
from scaleproof.ground.records.watched import read_watched
from tests.measure.watch.test_watch import ROWS, STEPS, TOKENS, Tiny, batches

LEARNING_RATE = 0.1
UPDATES = STEPS // 2  # each of two batches


class TakesWords(Tiny):
    """Tiny as the Trainer calls a model: by the names of its inputs, for a dictionary with the loss."""

    def forward(self, input_ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": super().forward(input_ids)}


def train_by_transformers(folder, learning_rate=LEARNING_RATE):
    import transformers

    rows = [{"input_ids": row} for batch in batches() for row in batch]
    arguments = transformers.TrainingArguments(
        output_dir=str(folder / "out"),
        use_cpu=True,
        num_train_epochs=1,
        per_device_train_batch_size=ROWS,
        gradient_accumulation_steps=2,
        learning_rate=learning_rate,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
    )
    callbacks = [scaleproof.watch_callback(folder)]
    transformers.Trainer(TakesWords(), arguments, train_dataset=rows, callbacks=callbacks).train()


def train_by_lightning(folder, learning_rate=LEARNING_RATE):
    from lightning import pytorch as lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network = Tiny()

        def training_step(self, batch):
            return self.network(batch)

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=learning_rate)

    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    callbacks = [scaleproof.watch_callback(folder, "lightning")]
    trainer = lightning.Trainer(max_epochs=1, accumulate_grad_batches=2, callbacks=callbacks, **quiet)
    trainer.fit(Module(), DataLoader(batches(), batch_size=None))


def train_by_accelerate(folder, learning_rate=LEARNING_RATE):
    import accelerate

    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    network = Tiny()
    optimizer = torch.optim.SGD(network.parameters(), lr=learning_rate)
    model, optimizer, loader = accelerator.prepare(network, optimizer, DataLoader(batches(), batch_size=None))
    for batch in scaleproof.watch(loader, model, optimizer, folder):
        with accelerator.accumulate(model):
            accelerator.backward(model(batch))
            optimizer.step()
            optimizer.zero_grad()


each_trainer = pytest.mark.parametrize("train", [train_by_transformers, train_by_lightning, train_by_accelerate])


@each_trainer
def test_a_sound_training_is_recorded_and_not_accused(train, tmp_path):
    torch.manual_seed(1)
    train(tmp_path)
    (rank,) = read_watched(tmp_path)
    assert rank.tokens == [2 * ROWS * TOKENS] * UPDATES
    assert all(look.gradient_norm > 0 and look.update_norm > 0 for look in rank.looks)
    assert rank.losses[0] == pytest.approx(math.log(50), rel=0.2)
    assert rank.probed.products == "float32"
    assert of_watched.findings([WatchedRun("a", [rank])]) == []


@each_trainer
def test_a_training_that_updates_nothing_is_named(train, tmp_path):
    train(tmp_path, learning_rate=0.0)
    findings = of_watched.findings([WatchedRun("a", read_watched(tmp_path))])
    assert [finding.code for finding in findings] == ["weights-not-updated"]
