"""Our trainer against three others: the same shapes, precision and optimizer on one device.

- plain GPT: a model as people write it by hand (plain_gpt.py) in a loop as people write it
- minimal loop: our model in the same loop, which shows what our loop costs
- `transformers.Trainer` with transformers' own GPT-2, where accelerate is installed (`pip install '.[bench]'`); its
  steps are timed from inside, after its warm-up, so that compiling is not among them

On a GPU: GPT-2 124M in bf16, compiled, at the shapes of config/campaigns/h100_*.yaml; it ends within ten minutes. On a
CPU the demo's model stands in, which shows that the sides work.
"""

import argparse
import importlib.util
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ |= {"WANDB_DISABLED": "true", "TOKENIZERS_PARALLELISM": "false"}

import numpy as np
import torch
from loop import measured_side, write_tokens
from plain_gpt import PlainGPT
from side_by_side import in_turn, ratios, show
from torch import nn
from torch.nn.utils import clip_grad_norm_

from scaleproof.ground.campaign.cells import Cell, expand_cells
from scaleproof.ground.campaign.config import Campaign, shape_of
from scaleproof.ground.facts.counts import count_gpt2
from scaleproof.measure.launch.device_lock import devices_of, hold_devices
from scaleproof.measure.machine.gpus import cuda_devices
from scaleproof.measure.model.build import build_model
from scaleproof.measure.strategy import strategy_class
from scaleproof.measure.strategy.base import make_optimizer
from scaleproof.measure.trainer.metrics import utilization_of_device

CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda", 0) if CUDA else torch.device("cpu")
BUDGET_S = 540.0  # after this no further shape or side is begun
TOLERANCE = 0.01  # by which ours may be slower than the fastest other
# samples of a micro-batch, micro-batches of a step, tokens of a sample
# The one that is compared most comes first: time may not suffice for both.
SHAPES = [(32, 16, 1024), (32, 1, 128)] if CUDA else [(4, 2, 128), (8, 1, 128)]
STEPS = 4 if CUDA else 8  # of a round
WARM = 3  # steps of the Trainer that are not timed


def cell_of(micro: int, accumulation: int, seq_len: int, loss: str = "fused") -> Cell:
    """Our side of a shape."""
    data = {
        "title": "trainers",
        "workload": {
            "model": "gpt2-small" if CUDA else "gpt2-tiny",
            "seq_len": seq_len,
            "vocab_size": 50304 if CUDA else 2048,
        },
        "work": {"micro_batch": micro, "accumulation": accumulation, "global_batch": "derive"},
        "execution": {"strategy": "single", "precision": "bf16" if CUDA else "fp32", "compile": CUDA, "loss": loss},
    }
    return expand_cells(Campaign.model_validate(data))[0]


def compare(cell: Cell, folder: Path, rounds: int, deadline: float) -> float | None:
    """Seconds of STEPS optimizer steps on each side; our time over that of the fastest other, None without any."""
    session: Any = SimpleNamespace(shares=range(1), device=DEVICE)
    ours = strategy_class("single")(cell, build_model(cell), DEVICE)
    shape = shape_of(cell.workload.model)
    sides: dict[str, Callable[[], float]] = {"scaleproof": measured_side(ours, cell, folder, session, STEPS)}
    makers: dict[str, Callable[[], nn.Module]] = {
        "plain GPT": lambda: PlainGPT(shape, cell.vocab_size),
        "minimal loop": lambda: build_model(cell),
    }
    sides |= {name: by_hand(make, cell) for name, make in makers.items()}
    for name in list(sides):
        if time.monotonic() > deadline:
            print(f"{name}: left out, the time is over")
            del sides[name]
        else:
            sides[name]()  # warm-up and compilation
    if "scaleproof" not in sides:
        return None
    seconds = in_turn(sides, rounds)
    if importlib.util.find_spec("accelerate") is None:
        print("Trainer: left out, accelerate is not installed (pip install '.[bench]')")
    elif time.monotonic() < deadline:
        seconds["Trainer"] = trainer_seconds(cell, folder, rounds)
    report(cell, seconds)
    others = {name: values for name, values in seconds.items() if name != "scaleproof"}
    if not others:
        return None
    best = min(others, key=lambda name: statistics.median(others[name]))
    return show(f"{cell.batch} samples: scaleproof / {best}", ratios(seconds["scaleproof"], seconds[best]))


def report(cell: Cell, seconds: dict[str, list[float]]) -> None:
    """Tokens per second and MFU of each side, by the median of its rounds."""
    tokens = STEPS * cell.batch.global_ * cell.workload.seq_len
    counts = count_gpt2(shape_of(cell.workload.model), cell.vocab_size, cell.workload.seq_len)
    name = torch.cuda.get_device_name(DEVICE) if CUDA else "cpu"
    for side, values in seconds.items():
        rate = tokens / statistics.median(values)
        mfu = utilization_of_device(cell, counts, rate, name).mfu
        print(f"{side}: {rate:,.0f} tokens/s{'' if mfu is None else f', MFU {mfu:.1%}'}")


def by_hand(make: Callable[[], nn.Module], cell: Cell) -> Callable[[], float]:
    """A loop as people write it: tokens already on the device, no accounting of any kind."""
    model = make().to(DEVICE)
    optimizer = make_optimizer(model, cell)
    module = torch.compile(model) if cell.execution.compile else model
    batch = cell.batch
    tokens = torch.randint(0, 2048, (batch.micro, cell.workload.seq_len + 1), device=DEVICE)

    def side() -> float:
        began = time.perf_counter()
        for _ in range(STEPS):
            for _ in range(batch.accumulation):
                with torch.autocast(DEVICE.type, torch.bfloat16, enabled=CUDA):
                    loss = module(tokens) / batch.accumulation
                loss.backward()
            clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        if CUDA:
            torch.cuda.synchronize()
        return time.perf_counter() - began

    return side


class Samples(torch.utils.data.Dataset):
    """The token file as the Trainer takes it."""

    def __init__(self, folder: Path, length: int) -> None:
        self.flat, self.length = np.memmap(folder / "train.bin", dtype="<u2", mode="r"), length

    def __len__(self) -> int:
        return (len(self.flat) - 1) // self.length

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        ids = torch.from_numpy(self.flat[i * self.length : (i + 1) * self.length].astype(np.int64))
        return {"input_ids": ids, "labels": ids}


def trainer_seconds(cell: Cell, folder: Path, rounds: int) -> list[float]:
    """Seconds of STEPS steps of the Trainer, `rounds` times, in one training whose first steps are not timed.

    No variable of a process group is set here, so that accelerate does not wrap the model in DDP.
    """
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

    marks: list[float] = []

    class Marks(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step >= WARM and (state.global_step - WARM) % STEPS == 0:
                if CUDA:
                    torch.cuda.synchronize()
                marks.append(time.perf_counter())

    options = TrainingArguments(
        output_dir=str(folder / "trainer"),
        per_device_train_batch_size=cell.batch.micro,
        gradient_accumulation_steps=cell.batch.accumulation,
        max_steps=WARM + rounds * STEPS,
        bf16=CUDA,
        torch_compile=cell.execution.compile,
        optim="adamw_torch_fused",
        max_grad_norm=1.0,
        weight_decay=0.1,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=not CUDA,
        dataloader_pin_memory=CUDA,
        remove_unused_columns=False,
    )
    shape: Any = shape_of(cell.workload.model)
    config = GPT2Config(
        vocab_size=cell.vocab_size,
        n_positions=shape.context,
        n_embd=shape.width,
        n_layer=shape.layers,
        n_head=shape.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    data = Samples(folder, cell.workload.seq_len)
    trainer = Trainer(GPT2LMHeadModel(config), options, train_dataset=data, callbacks=[Marks()])
    trainer.train()
    if torch.distributed.is_initialized():
        raise RuntimeError("accelerate has joined a process group: its side would be DDP, not one device")
    return [b - a for a, b in pairwise(marks)]


def main() -> int:
    """Compare at every shape; 1 where ours is slower than another by more than TOLERANCE, or nothing was compared."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3 if CUDA else 40, help="of every side (default: %(default)s)")
    parser.add_argument("--budget", type=float, default=BUDGET_S, help="seconds (default: %(default)s)")
    args = parser.parse_args()
    ratios_seen: list[float] = []
    lock = hold_devices(devices_of(cell_of(*SHAPES[0]), cuda_devices()), "benchmarks/trainers.py")
    with tempfile.TemporaryDirectory() as folder, lock:
        deadline = time.monotonic() + args.budget
        for shape in SHAPES:
            cell = cell_of(*shape)
            ratio = compare(cell, write_tokens(Path(folder), cell), args.rounds, deadline)
            ratios_seen += [ratio] if ratio is not None else []
    if not ratios_seen:
        print("nothing was compared: the time was over before")
        return 1
    slowest = max(ratios_seen)
    print(f"scaleproof takes at most {slowest:.3f} of the fastest other's time; {1 + TOLERANCE} is wanted")
    return 0 if slowest <= 1.0 + TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
