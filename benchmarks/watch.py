"""What `scaleproof.watch` costs: a training with it, without it, and without it once more (A/A).

    python benchmarks/watch.py [plain | accelerate | transformers | lightning] [ROUNDS] [any-layout]

plain and accelerate: a loop with the two lines; transformers and lightning: a trainer with the callback. Three
processes on one core, a side each, make their steps in turn, so that what slows the machine down slows all sides. A
round's figure of a side is its median step, without the first ones: they are in no rate. A look at norms, later once in
100 steps, is taken from the last of those.

On all sides the allocator keeps its pages (`keep_pages`). With any-layout it does as it is used to, and each process
first takes blocks of random sizes and makes one small step, as a program has done something before. Then many rounds
are needed: the ratio of one varies by 4 %.
"""

import ctypes
import logging
import multiprocessing
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Semaphore
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import torch
from side_by_side import keep_pages, ratios, show
from torch import Tensor, nn
from torch.utils.data import DataLoader

import scaleproof
from scaleproof.ground.campaign.loaded import load_named
from scaleproof.measure.model.build import build_model

LOOK, FIRST = 2, 5  # the step whose look is compared; how many are left out
STEPS = 31  # in all
BATCH = 8
WANTED = 1.01
PATIENCE = 120  # seconds to wait for the others' steps
LOOK_EVERY = 100

SIDES = ("bare", "watched", "bare again")

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


class Turns:
    """A side's place among the sides that make their steps in turn; `seconds`: of its own steps."""

    def __init__(self, own: Semaphore, following: Semaphore) -> None:
        self.own, self.following = own, following
        self.seconds: list[float] = []
        self._wait()

    def _wait(self) -> None:
        if not self.own.acquire(timeout=PATIENCE):
            raise TimeoutError(f"the other sides made no step in {PATIENCE} s")
        self.start = perf_counter()

    def step_ended(self) -> None:
        """Note how long the step took, and begin the next one when the other sides have made theirs."""
        self.seconds.append(perf_counter() - self.start)
        self.following.release()
        if len(self.seconds) < STEPS:
            self._wait()


def train_plain(turns: Turns, folder: Path | None) -> None:
    """Train with a loop of two lines. `folder`: of the watch, if any."""
    _loop(DataLoader(ROWS, BATCH), MODEL, adamw(), turns, folder)


def train_by_accelerate(turns: Turns, folder: Path | None) -> None:
    """As `train_plain`, behind `accelerator.prepare`."""
    from accelerate import Accelerator

    model, optimizer, loader = Accelerator(cpu=True).prepare(MODEL, adamw(), DataLoader(ROWS, BATCH))
    _loop(loader, model, optimizer, turns, folder)


def _loop(loader: Iterable[Tensor], model: nn.Module, optimizer: Any, turns: Turns, folder: Path | None) -> None:
    for batch in scaleproof.watch(loader, model, optimizer, folder) if folder else loader:
        model(batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        turns.step_ended()


def train_by_transformers(turns: Turns, folder: Path | None) -> None:
    """Train with the Trainer of transformers. `folder`: of the watch, if any."""
    import transformers

    class Clock(transformers.TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            turns.step_ended()

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


def train_by_lightning(turns: Turns, folder: Path | None) -> None:
    """Train with the Trainer of Lightning. `folder`: of the watch, if any."""
    from lightning import pytorch as lightning

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Clock(lightning.Callback):
        def on_train_batch_end(self, *_: Any, **__: Any) -> None:
            turns.step_ended()

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


TRAINERS: dict[str, Callable[[Turns, Path | None], None]] = {
    "plain": train_plain,
    "accelerate": train_by_accelerate,
    "transformers": train_by_transformers,
    "lightning": train_by_lightning,
}


def muddle_memory(seed: int) -> None:
    """Take blocks of random sizes for ever, and make a small step."""
    chance, allocator = random.Random(seed), ctypes.CDLL(None)
    for _ in range(300):
        allocator.malloc(chance.choice([24, 100, 1000, 5000, 30_000, 90_000]) + chance.randrange(64))
    MODEL(ROWS[:1]).backward()
    optimizer = adamw()
    optimizer.step()
    optimizer.zero_grad()


def measure_side(
    trainer: str, turns: tuple[Semaphore, Semaphore], folder: Path | None, seed: int | None, results: Any
) -> None:
    """Train in a process of its own, and put the seconds of its steps into `results`. `seed`: of its memory, if any."""
    warnings.simplefilter("ignore")
    if seed is not None:
        muddle_memory(seed)
    place = Turns(*turns)
    TRAINERS[trainer](place, folder)
    results.put(place.seconds)


def one_round(trainer: str, order: tuple[str, ...], seed: int | None) -> dict[str, list[float]]:
    """Return the seconds of each side's steps; `order`: who makes a step after whom; `seed`: as of `measure_side`."""
    context = multiprocessing.get_context("fork")  # the same modules and the same model at the same addresses
    semaphores = [context.Semaphore(int(not place)) for place in range(len(order))]
    queues: list[SimpleQueue[list[float]]] = [context.SimpleQueue() for _ in order]
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for place, side in enumerate(order):
            turns = semaphores[place], semaphores[(place + 1) % len(order)]
            watched = Path(folder) if side == "watched" else None
            processes.append(context.Process(target=measure_side, args=(trainer, turns, watched, seed, queues[place])))
            processes[-1].start()
        for process in processes:
            process.join()
            if process.exitcode:
                sys.exit(f"{trainer}: a training ended with exit code {process.exitcode}")
    return {side: queue.get() for side, queue in zip(order, queues, strict=True)}


def main() -> int:
    trainer = sys.argv[1] if len(sys.argv) > 1 else "plain"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    any_layout = sys.argv[3:] == ["any-layout"]
    if not any_layout:
        keep_pages()
    medians: dict[str, list[float]] = {side: [] for side in SIDES}
    looks: list[float] = []
    for number in range(rounds):
        turn = number % len(SIDES)
        made = one_round(trainer, SIDES[turn:] + SIDES[:turn], number if any_layout else None)
        for side, seconds in made.items():
            medians[side].append(median(seconds[FIRST:]))
        looks.append(made["watched"][LOOK] / made["bare"][LOOK])
        print(f"round {number + 1} of {rounds}: " + ", ".join(f"{side} {medians[side][-1]:.4g} s" for side in SIDES))
    show("A/A: bare over bare", ratios(medians["bare again"], medians["bare"]))
    cost = show("watched over bare", ratios(medians["watched"], medians["bare"]))
    of_looks = show("a step with a look, watched over bare", looks)
    all_steps = cost + (of_looks - cost) / LOOK_EVERY
    print(f"watched over bare, all steps: {all_steps:.3f}")
    return int(all_steps > WANTED)


if __name__ == "__main__":
    sys.exit(main())
