"""What `scaleproof.watch` costs: a training with it, without it, and without it once more (A/A).

    python benchmarks/watch.py [plain | accelerate | transformers | lightning] [STEPS]

plain and accelerate: a loop with the two lines; transformers and lightning: a trainer with the callback. One process:
the three trainings take turns, a step each, in a random order, so that whatever else the machine does falls on all.
The first steps, in which the watch looks at norms and counts operations, are left out: they are in no rate.
"""

import logging
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Semaphore, Thread
from time import perf_counter
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import torch
from side_by_side import ratios, show
from torch import Tensor, nn
from torch.utils.data import DataLoader

import scaleproof
from scaleproof.ground.campaign.loaded import load_named
from scaleproof.measure.model.build import build_model

STEPS, FIRST = 400, 5
BATCH = 8
WANTED = 1.01

MODEL = build_model(load_named("demo").cell("ddp-n1x1"))


class Side(Thread):
    """A training that makes a step when it is its turn, and times it."""

    def __init__(self, train: Callable[["Side"], None], steps: int, folder: Path | None = None) -> None:
        """`folder`: of the watch, if there is one."""
        super().__init__(daemon=True)
        self.train, self.steps = train, steps
        self.folder = folder
        self.model = deepcopy(MODEL)
        self.rows = torch.randint(0, 2048, (steps * BATCH, 129))
        self.turn = Semaphore(0)
        self.order: Iterator[Side] = iter(())  # of the turns of all sides
        self.began = 0.0
        self.seconds: list[float] = []  # of each step

    def run(self) -> None:
        self._await_turn()
        self.train(self)
        self._end_turn()

    def end_step(self, *_: Any, **__: Any) -> None:
        """Note the time of a step, and wait for the next turn. What follows the last step is in no time."""
        self.seconds.append(perf_counter() - self.began)
        if len(self.seconds) < self.steps:
            self._end_turn()
            self._await_turn()

    def _await_turn(self) -> None:
        self.turn.acquire()
        self.began = perf_counter()

    def _end_turn(self) -> None:
        for side in islice(self.order, 1):
            side.turn.release()

    def adamw(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.model.parameters(), lr=1e-4)


class TakesWords(nn.Module):
    """The model as the Trainer calls it: by the names of its inputs, for a dictionary with the loss."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor) -> dict[str, Tensor]:
        return {"loss": self.model(input_ids)}


def train_plain(side: Side) -> None:
    """Train with a loop of two lines."""
    _loop(side, DataLoader(side.rows, BATCH), side.model, side.adamw())


def train_by_accelerate(side: Side) -> None:
    """As `train_plain`, behind `accelerator.prepare`."""
    from accelerate import Accelerator

    model, optimizer, loader = Accelerator(cpu=True).prepare(side.model, side.adamw(), DataLoader(side.rows, BATCH))
    _loop(side, loader, model, optimizer)


def _loop(side: Side, loader: Iterable[Tensor], model: nn.Module, optimizer: Any) -> None:
    for batch in scaleproof.watch(loader, model, optimizer, side.folder) if side.folder else loader:
        model(batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        side.end_step()


def train_by_transformers(side: Side) -> None:
    """Train with the Trainer of transformers."""
    import transformers

    class Clock(transformers.TrainerCallback):
        on_step_end = staticmethod(side.end_step)

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
        watch = [scaleproof.watch_callback(side.folder)] if side.folder else []
        rows = [{"input_ids": row} for row in side.rows]
        model = TakesWords(side.model)
        trainer = transformers.Trainer(model, arguments, train_dataset=rows, callbacks=[*watch, Clock()])
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()


def train_by_lightning(side: Side) -> None:
    """Train with the Trainer of Lightning."""
    from lightning import pytorch as lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Clock(lightning.Callback):
        on_train_batch_end = staticmethod(side.end_step)

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = side.model

        def training_step(self, batch: Tensor) -> Tensor:
            return self.model(batch)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return side.adamw()

    watch = [scaleproof.watch_callback(side.folder, "lightning")] if side.folder else []
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", callbacks=[*watch, Clock()], **quiet)
    trainer.fit(Module(), DataLoader(side.rows, BATCH))


TRAINERS = {
    "plain": train_plain,
    "accelerate": train_by_accelerate,
    "transformers": train_by_transformers,
    "lightning": train_by_lightning,
}


def main() -> int:
    warnings.simplefilter("ignore")
    train = TRAINERS[sys.argv[1] if len(sys.argv) > 1 else "plain"]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else STEPS
    new_side = partial(Side, train, count)
    with tempfile.TemporaryDirectory() as folder:
        sides = [new_side(), new_side(Path(folder)), new_side()]
        bare, watched, bare_again = sides
        order = iter([side for _ in range(count) for side in random.sample(sides, len(sides))])
        for side in sides:
            side.order = order
            side.start()
        next(order).turn.release()
        for side in sides:
            side.join()
    steps = {side: side.seconds[FIRST:] for side in sides}
    show("A/A: bare over bare, step by step", ratios(steps[bare_again], steps[bare]))
    cost = show("watched over bare, step by step", ratios(steps[watched], steps[bare]))
    totals = [sum(steps[side]) / sum(steps[bare]) for side in (bare_again, watched)]
    print("all steps together, bare over bare and watched over bare: {:.3f}, {:.3f}".format(*totals))
    return int(cost > WANTED)


if __name__ == "__main__":
    sys.exit(main())
