"""What `scaleproof.watch` costs: a training with it, without it, and without it once more (A/A).

    python benchmarks/watch.py [plain | accelerate | transformers | lightning] [ROUNDS]

plain and accelerate: a loop with the two lines; transformers and lightning: a trainer with the callback. One process,
the sides in turn; compared is the median step of each training, which no burst of another program moves. The first
steps, in which the watch looks at norms and counts operations, are left out on all sides: they are in no rate.
"""

import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import torch
from side_by_side import in_turn, ratios, show
from torch import Tensor, nn
from torch.utils.data import DataLoader

import scaleproof
from scaleproof.ground.campaign.loaded import load_named
from scaleproof.measure.model.build import build_model

STEPS, FIRST = 25, 5
BATCH = 8
WANTED = 1.01

MODEL = build_model(load_named("demo").cell("ddp-n1x1"))
ROWS = torch.randint(0, 2048, (STEPS * BATCH, 129))


class TakesWords(nn.Module):
    """The model as the Trainer calls it: by the names of its inputs, for a dictionary with the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.model = MODEL

    def forward(self, input_ids: Tensor) -> dict[str, Tensor]:
        return {"loss": self.model(input_ids)}


def adamw() -> torch.optim.Optimizer:
    return torch.optim.AdamW(MODEL.parameters(), lr=1e-4)


def train_plain(folder: Path | None) -> list[float]:
    """Train with a loop of two lines; return when each step ended, in seconds. `folder`: of the watch, if any."""
    return _ends_of_loop(DataLoader(ROWS, BATCH), MODEL, adamw(), folder)


def train_by_accelerate(folder: Path | None) -> list[float]:
    """As `train_plain`, behind `accelerator.prepare`."""
    from accelerate import Accelerator

    model, optimizer, loader = Accelerator(cpu=True).prepare(MODEL, adamw(), DataLoader(ROWS, BATCH))
    return _ends_of_loop(loader, model, optimizer, folder)


def _ends_of_loop(loader: Iterable[Tensor], model: nn.Module, optimizer: Any, folder: Path | None) -> list[float]:
    ends = []
    for batch in scaleproof.watch(loader, model, optimizer, folder) if folder else loader:
        model(batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        ends.append(perf_counter())
    return ends


def train_by_transformers(folder: Path | None) -> list[float]:
    """Train with the Trainer of transformers; return when each step ended, in seconds."""
    import transformers

    ends = []

    class Clock(transformers.TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            ends.append(perf_counter())

    with tempfile.TemporaryDirectory() as out:
        arguments = transformers.TrainingArguments(
            output_dir=out,
            use_cpu=True,
            num_train_epochs=1,
            per_device_train_batch_size=BATCH,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        watch = [scaleproof.watch_callback(folder)] if folder else []
        rows = [{"input_ids": row} for row in ROWS]
        trainer = transformers.Trainer(TakesWords(), arguments, train_dataset=rows, callbacks=[Clock(), *watch])
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    return ends


def train_by_lightning(folder: Path | None) -> list[float]:
    """Train with the Trainer of Lightning; return when each step ended, in seconds."""
    from lightning import pytorch as lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    ends = []

    class Clock(lightning.Callback):
        def on_train_batch_end(self, *_: Any, **__: Any) -> None:
            ends.append(perf_counter())

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = MODEL

        def training_step(self, batch: Tensor) -> Tensor:
            return self.model(batch)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return adamw()

    watch = [scaleproof.watch_callback(folder, "lightning")] if folder else []
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", callbacks=[Clock(), *watch], **quiet)
    trainer.fit(Module(), DataLoader(ROWS, BATCH))
    return ends


TRAINERS = {
    "plain": train_plain,
    "accelerate": train_by_accelerate,
    "transformers": train_by_transformers,
    "lightning": train_by_lightning,
}


def main() -> int:
    warnings.simplefilter("ignore")
    train = TRAINERS[sys.argv[1] if len(sys.argv) > 1 else "plain"]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 60

    def seconds(folder: Path | None = None) -> float:
        """Seconds of the median step after the first ones; what is written after the last step is in no rate either."""
        return median(end - start for start, end in pairwise(train(folder)[FIRST - 1 :]))

    with tempfile.TemporaryDirectory() as folder:
        sides = {"bare": seconds, "watched": lambda: seconds(Path(folder)), "bare again": seconds}
        watched = in_turn(sides, rounds)
    show("A/A: bare over bare", ratios(watched["bare again"], watched["bare"]))
    cost = show("watched over bare", ratios(watched["watched"], watched["bare"]))
    return int(cost > WANTED)


if __name__ == "__main__":
    sys.exit(main())
