"""Our trainer against a minimal hand-written loop and against `transformers.Trainer`: the same model, shapes and precision.

One device, one process, sides in turn. On a GPU: GPT-2 124M in bf16, compiled, sdpa, fused AdamW, padded vocabulary, at the
shapes of `config/campaigns/h100_zero_precision.yaml`. On a CPU the demo's model stands in, which shows that the sides work.
Needs the extra packages of `pip install '.[bench]'`.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
os.environ |= {"WANDB_DISABLED": "true", "TOKENIZERS_PARALLELISM": "false"}

import numpy as np
import torch
from loop import free_port, measured_side, write_tokens
from side_by_side import in_turn, ratios, show
from torch.nn.utils import clip_grad_norm_
from transformers import Trainer, TrainingArguments

from scalebench.campaign.cells import Cell, expand
from scalebench.campaign.config import Campaign, shape_of
from scalebench.model.build import build
from scalebench.model.counts import count
from scalebench.strategy import strategy_class
from scalebench.strategy.optimizer import make_optimizer
from scalebench.trainer.metrics import utilization
from scalebench.trainer.session import Session

CUDA = torch.cuda.is_available()
ROUNDS, STEPS, WARM = (5, 20, 5) if CUDA else (40, 8, 2)  # a step of a CPU takes 40 ms, and varies by a tenth
# samples of a micro-batch, micro-batches of a step, tokens of a sample
SHAPES = [(32, 1, 128), (32, 16, 1024)] if CUDA else [(8, 1, 128), (4, 2, 128)]


def cell_of(micro: int, accumulation: int, seq_len: int) -> Cell:
    data = {
        "title": "trainers",
        "workload": {
            "model": "gpt2-small" if CUDA else "gpt2-tiny",
            "seq_len": seq_len,
            "vocab_size": 50304 if CUDA else 2048,
        },
        "work": {"micro_batch": micro, "accumulation": accumulation, "global_batch": "derive"},
        "execution": {"strategy": "single", "precision": "bf16" if CUDA else "fp32", "compile": CUDA},
    }
    return expand(Campaign.model_validate(data))[0]


def compare(cell: Cell, folder: Path, session: Session) -> float:
    """Seconds of STEPS optimizer steps on each side; returns our time over that of the faster of the others."""
    device, batch, length = session.device, cell.batch, cell.workload.seq_len
    sides = {
        "scalebench": measured_side(strategy_class("single")(cell, build(cell), device), cell, folder, session, STEPS),
        "minimal": minimal(cell, device),
        "Trainer": trainers(cell, folder),
    }
    for side in sides.values():
        side()  # warm-up and compilation
    seconds = in_turn(sides, ROUNDS)
    tokens = STEPS * batch.global_ * length
    counts = count(shape_of(cell.workload.model), cell.vocab_size, length)
    name = torch.cuda.get_device_name(device) if CUDA else "cpu"
    for side, values in seconds.items():
        rate = tokens / sorted(values)[len(values) // 2]
        mfu = utilization(cell, counts, rate, name).mfu
        print(f"{side}: {rate:,.0f} tokens/s{'' if mfu is None else f', MFU {mfu:.1%}'}")
    best = min(("minimal", "Trainer"), key=lambda side: sorted(seconds[side])[ROUNDS // 2])
    return show(f"{batch} samples of {length}: scalebench / {best}", ratios(seconds["scalebench"], seconds[best]))


def minimal(cell: Cell, device: torch.device) -> Callable[[], float]:
    """What a person writes by hand: tokens already on the device, no accounting of any kind."""
    model = build(cell).to(device)
    optimizer = make_optimizer(model, cell)
    module = torch.compile(model) if CUDA else model
    batch = cell.batch
    tokens = torch.randint(0, 2048, (batch.micro, cell.workload.seq_len + 1), device=device)

    def side() -> float:
        began = time.perf_counter()
        for _ in range(STEPS):
            for _ in range(batch.accumulation):
                with torch.autocast(device.type, torch.bfloat16, enabled=CUDA):
                    loss = module(tokens) / batch.accumulation
                loss.backward()
            clip_grad_norm_(module.parameters(), 1.0)
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

    def __getitem__(self, i: int) -> dict:
        ids = torch.from_numpy(self.flat[i * self.length : (i + 1) * self.length].astype(np.int64))
        return {"input_ids": ids, "labels": ids}


def trainers(cell: Cell, folder: Path) -> Callable[[], float]:
    batch = cell.batch
    options = TrainingArguments(
        output_dir=str(folder / "trainer"),
        per_device_train_batch_size=batch.micro,
        gradient_accumulation_steps=batch.accumulation,
        max_steps=STEPS,
        bf16=CUDA,
        torch_compile=CUDA,
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
    trainer = Trainer(build(cell).gpt2, options, train_dataset=Samples(folder, cell.workload.seq_len))

    def side() -> float:
        # Its own report: it starts anew with each call, and its figure leaves that start out.
        return trainer.train().metrics["train_runtime"]

    return side


def main() -> int:
    os.environ["MASTER_PORT"] = str(free_port())
    session = Session(cell_of(*SHAPES[0]), timeout_s=600)
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for shape in SHAPES:
            cell = cell_of(*shape)
            worst = max(worst, compare(cell, write_tokens(Path(folder), cell), session))
    return 0 if worst <= 1.0 + 0.01 else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # as a rank ends: see Session.leave
