"""Logs of random figures with one planted fault each, for `auditor.py`: what the log itself can prove."""

import json
import random
import re
from collections.abc import Callable
from pathlib import Path

from external_files import metrics, write_blocks, write_epochs, write_llmc, write_megatron, write_nanogpt
from generated_tables import Planted

Writer = Callable[[Path, random.Random], None]


def _changed(writer: Writer, folder: Path, chance: random.Random, pattern: str, text: str) -> None:
    """Write a sound log, then replace a pattern in one of its lines that have it."""
    writer(folder, chance)
    (path,) = (p for p in folder.rglob("*") if p.is_file())
    lines = path.read_text().splitlines()
    chosen = chance.choice([k for k, line in enumerate(lines) if re.search(pattern, line)])
    lines[chosen] = re.sub(pattern, text, lines[chosen], count=1)
    path.write_text("\n".join(lines) + "\n")


def loss_is_nan(folder: Path, chance: random.Random) -> Planted:
    writer, pattern = chance.choice([(write_nanogpt, r"(?<=: loss )[\d.]+"), (write_llmc, r"(?<=\| loss )[\d.]+")])
    _changed(writer, folder, chance, pattern, chance.choice(["nan", "inf"]))
    return Planted("not-finite", None)


def iterations_are_nan(folder: Path, chance: random.Random) -> Planted:
    _changed(write_megatron, folder, chance, r"nan iterations:   0", "nan iterations:   1")
    return Planted("not-finite", None)


def mfu_above_one(folder: Path, chance: random.Random) -> Planted:
    write_llmc(folder, chance)
    path = folder / "main.log"
    path.write_text(re.sub(r"[\d.]+% bf16 MFU", f"{chance.uniform(101, 180):.1f}% bf16 MFU", path.read_text()))
    return Planted("mfu-impossible", None)


def cumulative_time(folder: Path, chance: random.Random) -> Planted:
    """The time of an interval is divided by all steps so far."""
    each, every = chance.uniform(0.1, 3.0), chance.choice([5, 10, 20])
    text = ["micro_batch_size: 8", "num_gpus: 1"]
    last = chance.randint(5, 12)
    for k in range(1, last + 1):
        seconds = each / k * chance.uniform(0.998, 1.002)
        text += [f"Step {every * k}: loss {4 - k / 20:.4f}", f"elapsed_time_per_iteration: {seconds:.4f} s"]
    (folder / "train.out").write_text("\n".join(text) + "\n")
    return Planted("interval-over-cumulative", None, each)


def reset_every_few_steps(folder: Path, chance: random.Random) -> Planted:
    """A timer that is started every few steps: its readings are a sawtooth."""
    each, period = chance.uniform(0.05, 2.0), chance.randint(4, 10)
    work = 1024 * chance.choice([4, 8, 32])
    rows = ["global_step,step_time_s,tokens_per_sec"]
    for k in range(chance.randint(80, 200)):
        seconds = each * (k % period + 1) * chance.uniform(0.997, 1.003)
        rows.append(f"{k},{seconds:.5f},{work / seconds:.2f}")
    (folder / "step_log.csv").write_text("\n".join(rows) + "\n")
    return Planted("sawtooth-timer", None, work / each)


def same_loss_on_all_ranks(folder: Path, chance: random.Random) -> Planted:
    ranks = chance.choice([2, 4])
    text = [f"num_gpus: {ranks}", "micro_batch_size: 8"]
    for k in range(1, chance.randint(2, 6)):
        loss = chance.uniform(2, 5)
        text += [f"Step {10 * k}: loss {loss!r}", f"elapsed_time_per_iteration: {chance.uniform(1, 1.1):.4f} s"] * ranks
    (folder / "train.out").write_text("\n".join(text) + "\n")
    return Planted("identical-losses", None)


def two_runs_in_turn(folder: Path, chance: random.Random) -> Planted:
    write_epochs(folder, chance)
    path = chance.choice(sorted(folder.rglob("metrics.csv")))
    head, *rows = path.read_text().splitlines()
    count = chance.randint(4, len(rows))
    again = [",".join((cells := row.split(","))[:1] + [f"{float(v) * 1.07:.4f}" for v in cells[1:]]) for row in rows]
    path.write_text("\n".join([head, *rows, *again[:count]]) + "\n")
    return Planted("runs-interleaved", None)


def offload_unsaid(folder: Path, chance: random.Random) -> Planted:
    write_blocks(folder, chance)
    path = folder / "train.out"
    path.write_text("zero_config: {'stage': 2, 'offload_optimizer': {'device': 'cpu'}}\n" + path.read_text())
    return Planted("offload-undisclosed", None)


def _metrics(folder: Path, chance: random.Random, code: str, change: Callable[[dict, dict], float | None]) -> Planted:
    world = chance.choice([2, 4, 8])
    data = metrics(world, chance, family=chance.random())
    figure = change(data, data["epochs"][0])
    (folder / "training_metrics.json").write_text(json.dumps(data))
    return Planted(code, None, figure)


def rate_of_a_rank(folder: Path, chance: random.Random) -> Planted:
    def change(data: dict, epoch: dict) -> float:
        true = epoch["tokens_per_sec_global"]
        epoch["tokens_per_sec_global"] = true / data["hardware"]["world_size"]
        return true

    return _metrics(folder, chance, "rate-of-one-rank", change)


def rate_of_ranks_squared(folder: Path, chance: random.Random) -> Planted:
    def change(data: dict, epoch: dict) -> float:
        true = epoch["tokens_per_sec_global"]
        epoch["tokens_per_sec_global"] = true * data["hardware"]["world_size"]
        return true

    return _metrics(folder, chance, "rate-multiplied", change)


def all_data_on_each_rank(folder: Path, chance: random.Random) -> Planted:
    def change(data: dict, epoch: dict) -> None:
        data["training_config"]["dataset_subset_sizes"]["train"] //= data["hardware"]["world_size"]

    return _metrics(folder, chance, "each-rank-trained-on-everything", change)


def validation_never_ran(folder: Path, chance: random.Random) -> Planted:
    return _metrics(folder, chance, "validation-zero", lambda data, epoch: epoch.update(val_loss_avg_global=0.0))


LOG_FAULTS: dict[str, Callable[[Path, random.Random], Planted]] = {
    "log: a loss that is no number": loss_is_nan,
    "log: NaN iterations counted": iterations_are_nan,
    "log: MFU above 100 %": mfu_above_one,
    "log: interval over cumulative steps": cumulative_time,
    "log: timer reset every few steps": reset_every_few_steps,
    "log: one loss on all ranks": same_loss_on_all_ranks,
    "log: two runs in one file": two_runs_in_turn,
    "log: optimizer on the CPU unsaid": offload_unsaid,
    "log: rate of one rank called total": rate_of_a_rank,
    "log: total rate multiplied by the ranks": rate_of_ranks_squared,
    "log: all data on each rank": all_data_on_each_rank,
    "log: validation that never ran": validation_never_ran,
}
