"""The measured loop against a bare loop: the same wrapped model, optimizer and token file, in one process, in turn.

Whatever the timed window adds (clock, notes of samples, losses kept, the plan) shows here. The model is the demo's,
whose steps are short: on a larger one the same overhead is a smaller part.
"""

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before torch is imported

import numpy as np
import torch
from side_by_side import in_turn, keep_pages, ratios, show
from torch.nn.utils import clip_grad_norm_

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.loaded import load_named
from scaleproof.measure.corpus.reader import SamplePlan, TokenFile
from scaleproof.measure.model.build import build_model
from scaleproof.measure.strategy import Strategy, strategy_class
from scaleproof.measure.trainer.batches import Batches
from scaleproof.measure.trainer.fed_tokens import FedTokens
from scaleproof.measure.trainer.session import Session
from scaleproof.measure.trainer.timed_loop import StepTimer, run_steps
from scaleproof.measure.trainer.updates import UpdateLog

STEPS = 2
ROUNDS = 300
WANTED = 1.01  # few steps a side and many rounds: the machine drifts


def main() -> int:
    keep_pages()
    cell = load_named("demo").cell("ddp-n1x1")
    with tempfile.TemporaryDirectory() as folder:
        return compare(cell, write_tokens(Path(folder), cell))


def write_tokens(folder: Path, cell: Cell) -> Path:
    """Random tokens: the time of a step does not depend on which they are."""
    import json

    tokens = np.random.default_rng(0).integers(0, 2048, 1_000_000).astype("<u2")
    tokens.tofile(folder / "train.bin")
    split = {"file": "train.bin", "bytes": tokens.nbytes, "tokens": len(tokens)}
    (folder / "tokens.json").write_text(json.dumps({"dtype": "uint16", "vocab_size": 2048, "train": split}))
    return folder


def compare(cell: Cell, folder: Path) -> int:
    # Not where this file is imported: accelerate, in trainers.py, would take them for a process group to join.
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    session = Session(cell, timeout_s=60)
    strategy = strategy_class("ddp")(cell, build_model(cell), session.device)
    measured = measured_side(strategy, cell, folder, session, STEPS)

    module, optimizer = strategy.module, strategy.optimizer
    flat, length = np.memmap(folder / "train.bin", dtype="<u2", mode="r"), cell.workload.seq_len
    random = np.random.default_rng(1)

    def bare() -> float:
        began = time.perf_counter()
        for _ in range(STEPS):
            starts = random.integers(0, len(flat) - length - 1, cell.batch.global_)
            tokens = torch.from_numpy(np.stack([flat[s : s + length + 1] for s in starts]).astype(np.int64))
            module(tokens).backward()
            clip_grad_norm_(module.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return time.perf_counter() - began

    measured(), bare()  # warm-up
    seconds = in_turn({"measured": measured, "bare": bare}, ROUNDS)
    median = show("measured / bare", ratios(seconds["measured"], seconds["bare"]))
    return 0 if median <= WANTED else 1


def measured_side(strategy: Strategy, cell: Cell, folder: Path, session: Session, steps: int) -> Callable[[], float]:
    """A side that makes `steps` steps in the trainer's own loop, and returns their seconds."""
    file = TokenFile(folder, "train", cell.workload.seq_len)
    plan = SamplePlan(file.n_samples, cell.batch.global_, 1)
    batches = Batches(file, plan, cell.batch, session.shares, session.device)
    fed = FedTokens(cell.batch.micro * len(session.shares), cell.workload.seq_len + 1, session.device)
    done = 0

    def side() -> float:
        nonlocal done
        with fed.record(strategy.module), UpdateLog().record(strategy.optimizer):
            began = time.perf_counter()
            run_steps(strategy, batches, done, steps, StepTimer(session.device))
            done += steps
            return time.perf_counter() - began

    return side


def free_port() -> int:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # as a rank ends: see Session.leave
