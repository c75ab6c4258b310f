"""Why a whole run is fast or slow: fresh processes that train the same small model, in blocks of half a second.

    python benchmarks/run_effect.py [--processes 12] [--pairs 12] > tables.md

Prints two tables, in some five minutes of two idle cores. The first has a row for each setting of a
process, all settings in turn: how much processes differ, beyond what blocks of one process do. The second has two
equal arms: one process after the other, as an A/B comparison runs them, and the same two processes in turns of a block.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

BLOCKS = 6  # of each process
STEPS = 12  # of a block
SHAPE = {"layers": 2, "width": 128, "heads": 4, "context": 128}
VOCABULARY, SAMPLES = 2048, 8


class Setting(NamedTuple):
    """How a process is started: what stands before its command, and variables of its environment."""

    before: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}


KEPT = str(1 << 30)  # bytes: freed memory goes back to the system only above that
SETTINGS = {
    "as it is": Setting(),
    "bound to a core": Setting(("taskset", "-c", "0")),
    "no random addresses": Setting(("setarch", "-R")),
    "huge pages": Setting(variables={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}),
    "freed memory is kept": Setting(variables={"MALLOC_MMAP_THRESHOLD_": KEPT, "MALLOC_TRIM_THRESHOLD_": KEPT}),
}


class Worker:
    """A process that trains a block of steps whenever it is told to."""

    def __init__(self, setting: Setting) -> None:
        command = [*setting.before, sys.executable, __file__, "--worker"]
        variables = os.environ | {"OMP_NUM_THREADS": "1"} | setting.variables
        self._process = subprocess.Popen(
            command, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.block()  # the first steps allocate

    def block(self) -> tuple[float, float]:
        """Seconds of a step of a further block, by the wall and of the processor."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        wall, processor = json.loads(self._process.stdout.readline())
        return wall, processor

    def end(self) -> None:
        self._process.communicate()


def work() -> None:
    """The worker: a block for each line that it reads."""
    import time

    import torch
    from plain_gpt import PlainGPT

    from scaleproof.ground.campaign.model_shapes import ModelShape

    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = PlainGPT(ModelShape(**SHAPE), VOCABULARY)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(0, VOCABULARY, (SAMPLES, SHAPE["context"] + 1))
    for _ in sys.stdin:
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(STEPS):
            model(tokens).backward()
            optimizer.step()
            optimizer.zero_grad()
        print(json.dumps([(time.perf_counter() - wall) / STEPS, (time.process_time() - processor) / STEPS]), flush=True)


def settings_table(processes: int) -> None:
    """How blocks and processes of each setting scatter, by both clocks."""
    seconds: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in SETTINGS}
    for _ in range(processes):
        for name, setting in SETTINGS.items():
            worker = Worker(setting)
            seconds[name].append([worker.block() for _ in range(BLOCKS)])
            worker.end()
    print("| setting | step | blocks of a process | processes beyond them | the same, by processor time |")
    print("|---|---|---|---|---|")
    for name, of_setting in seconds.items():
        wall, processor = np.moveaxis(np.log(np.array(of_setting)), 2, 0)
        (block, process), (of_blocks, of_processes) = _parts(wall), _parts(processor)
        step_ms = 1e3 * np.exp(wall.mean())
        print(
            f"| {name} | {step_ms:.1f} ms | {block:.1f} % | {process:.1f} % | {of_blocks:.1f}, {of_processes:.1f} % |",
            flush=True,
        )


def _parts(logs: np.ndarray) -> tuple[float, float]:
    """Standard deviations in %, of `logs` (processes x blocks): of blocks about their process, and of processes."""
    within = float(logs.var(axis=1, ddof=1).mean())
    between = float(logs.mean(axis=1).var(ddof=1)) - within / logs.shape[1]
    return 100 * within**0.5, 100 * max(between, 0.0) ** 0.5


def turns_table(pairs: int) -> None:
    """Ratios of two equal arms by the order in which they run."""
    ratios: dict[str, list[float]] = {"one after the other": [], "in turns of a block": []}
    for pair in range(pairs):
        arms = [Worker(SETTINGS["as it is"]) for _ in range(2)]
        orders = {
            "one after the other": [0] * BLOCKS + [1] * BLOCKS,
            "in turns of a block": [0, 1, 1, 0] * (BLOCKS // 2),
        }
        for name, order in list(orders.items())[:: -1 if pair % 2 else 1]:
            seconds: list[list[float]] = [[], []]
            for arm in order:
                seconds[arm].append(arms[arm].block()[0])
            ratios[name].append(float(np.log(np.mean(seconds[0]) / np.mean(seconds[1]))))
        for arm in arms:
            arm.end()
    print("\n| arms | ratios scatter by | mean ratio | in 4 pairs, half-width |\n|---|---|---|---|")
    for name, logs in ratios.items():
        scatter = float(np.std(logs, ddof=1))
        print(f"| {name} | {100 * scatter:.1f} % | {np.exp(np.mean(logs)):.3f} | {100 * 3.18 * scatter / 2:.1f} % |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=12, help="of each setting")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work()
    else:
        settings_table(arguments.processes)
        turns_table(arguments.pairs)


if __name__ == "__main__":
    main()
