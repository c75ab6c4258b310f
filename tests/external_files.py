"""Sound results in the formats of other people's programs, with random figures that agree with each other."""

import json
import random
from pathlib import Path
from typing import Any

from scaleproof.ground.files import write_atomic

DEVICES = {"NVIDIA A100-SXM4-80GB": 312e12, "NVIDIA H100 PCIe": 756e12, "Tesla V100-SXM2-16GB": 125e12}


def metrics(world: int, chance: random.Random, **change: Any) -> dict[str, Any]:
    """A sound training_metrics.json 2.0; `change` sets fields of training_config."""
    shared = random.Random(change.pop("family", 0))
    micro, accumulation, seq_len = shared.choice([1, 2, 4]), 16 // world, shared.choice([128, 512, 1024])
    # An odd number of accumulated micro-steps, or none, so that sampled step times can see an update.
    accumulation = 1 if shared.random() < 0.5 else accumulation
    micro *= 16 // world // accumulation
    samples = 16 * shared.randint(6000, 9000)
    steps = samples // micro // world
    tokens = micro * world * seq_len * steps
    rate = 3e4 * world ** shared.uniform(0.75, 1.0) * chance.uniform(0.99, 1.01)
    seconds = tokens / rate
    mean = seconds / steps * chance.uniform(0.98, 1.0)
    config = {
        "model_name": "gpt2",
        "model_size": "n_layer=12, n_head=12, n_embd=768",
        "seq_len": seq_len,
        "epochs": 1,
        "micro_batch_size_per_gpu": micro,
        "grad_accum_steps": accumulation,
        "global_batch_size": micro * accumulation * world,
        "precision": "bf16",
        "deepspeed_enabled": True,
        "zero_stage": shared.choice([0, 1, 2, 3]),
        "dataset_name": "train",
        "dataset_subset_sizes": {"train": samples, "val": 100},
    }
    val = chance.uniform(2, 8)
    return {
        "schema_version": "2.0",
        "run_id": f"r{chance.random()}",
        "git_commit": "a" * 40,
        "command_line": "train.py",
        "env": {"torch_version": "2.9.1"},
        "host": {},
        "hardware": {"gpu_name": "Tesla V100-SXM2-16GB", "world_size": world},
        "training_config": config | change,
        "deepspeed_config": {"sha256": str(accumulation) * 8, "selected": {"wall_clock_breakdown": False}},
        "epochs": [
            {
                "epoch_idx": 1,
                "epoch_wall_time_sec": seconds,
                "micro_steps": steps,
                "steps": steps,
                "optimizer_steps": -(-steps // accumulation),
                "tokens_processed_global": tokens,
                "tokens_per_sec_global": rate,
                "train_loss_avg_global": val,
                "val_loss_avg_global": val,
                "step_time_mean_sec": mean,
                "step_time_p50_sec": mean * 0.99,
                "step_time_p95_sec": mean * 1.1,
            }
        ],
        "summary": {"total_wall_time_sec": seconds + 20, "best_val_loss": val, "mean_tokens_per_sec_global": rate},
    }


def write_metrics(folder: Path, chance: random.Random) -> None:
    """One to four sizes, each one to three times."""
    family = chance.random()
    for world in chance.sample([1, 2, 4, 8], chance.randint(1, 4)):
        for repeat in range(chance.randint(1, 3)):
            text = json.dumps(metrics(world, chance, family=family))
            write_atomic(folder / f"{world}gpu/run_{repeat}/training_metrics.json", text)


def write_steps(folder: Path, chance: random.Random) -> None:
    """A step log with noise and slow steps, some of them with a period (checkpoints)."""
    base, spread, slow = chance.uniform(0.02, 2), chance.uniform(0, 0.2), chance.choice([0, 5, 10, 50])
    rows = ["timestamp,global_step,step_time_s,loss,tokens_per_sec,gpu_max_mem_mb"]
    for step in range(1, chance.randint(30, 300)):
        seconds = base * chance.lognormvariate(0, spread) * (3 if slow and step % slow == 0 else 1)
        rows.append(f"{step},{step},{seconds:.6f},{9 / step**0.1:.4f},{4096 / seconds:.2f},8000")
    write_atomic(folder / "bs32_sl128_1gpu/step_log.csv", "\n".join(rows) + "\n")


def write_epochs(folder: Path, chance: random.Random) -> None:
    """Epoch logs of one device and several that share the data: a shorter epoch, a loss that falls no faster."""
    n, t = chance.choice([2, 4, 8]), chance.uniform(5, 500)
    for world, seconds, slower in ((1, t, 1.0), (n, t / n**0.8, chance.uniform(1.0, 1.3))):
        rows = ["epoch,train_loss,train_time,val_loss,val_acc"]
        for epoch in range(1, 15):
            loss = 0.5 / epoch**0.6 * slower * chance.uniform(0.95, 1.05)
            rows.append(f"{epoch},{loss:.4f},{seconds * chance.uniform(0.97, 1.03):.3f},{loss * 1.1:.4f},0.9")
        write_atomic(folder / f"{world}gpu/metrics.csv", "\n".join(rows) + "\n")


def write_nanogpt(folder: Path, chance: random.Random) -> None:
    ms, text = chance.uniform(50, 900), ["tokens per iteration will be: 491,520", "number of parameters: 123.59M"]
    text.append("step 0: train loss 10.9879, val loss 10.9861")
    for i in range(0, 600, 10):
        mfu = -100 if i < 50 else 100 * chance.uniform(0.3, 0.6)
        text.append(
            f"iter {i}: loss {10 / (1 + i / 300):.4f}, time {ms * chance.uniform(0.98, 1.1):.2f}ms, mfu {mfu:.2f}%"
        )
    write_atomic(folder / "nanogpt.txt", "\n".join(text))


def write_llmc(folder: Path, chance: random.Random) -> None:
    n, ms, device = chance.choice([1, 8]), chance.uniform(100, 400), chance.choice(list(DEVICES))
    text = [
        f"| {k:<21} | {v:<50} |"
        for k, v in {
            "device": device,
            "micro batch size B": 64,
            "sequence length T": 1024,
            "total batch size": 524288,
            "num_processes": n,
            "num_parameters": 124475904,
        }.items()
    ]
    text.append("val loss 11.009138")
    for i in range(1, 60):
        now = ms * chance.uniform(0.99, 1.01)
        text.append(
            f"step {i:4d}/19560 | loss {11 - i / 30:.6f} (+nanz)| norm 15.3 (+nanz)| lr 6.00e-06 | {now:.2f} ms | "
            f"{chance.uniform(30, 60):.1f}% bf16 MFU | {524288 / ms * 1e3:.0f} tok/s"
        )
    write_atomic(folder / "main.log", "\n".join(text))


def write_torchtitan(folder: Path, chance: random.Random) -> None:
    n, device = chance.choice([2, 8, 64]), chance.choice(["NVIDIA A100-SXM4-80GB", "NVIDIA H100 PCIe"])
    mark = "[rank0]:[titan] 2026-01-01 00:00:00,000 - root - INFO - "
    text = [
        f"{mark}CUDA capacity: {device} with 79.11GiB memory",
        f"{mark}Peak FLOPS used for computing MFU: {DEVICES[device]:.3e}",
        f"{mark}Building 1-D device mesh with ['dp_shard'], [{n}]",
        f"{mark}Training starts at step 1, with local batch size 8, global batch size {8 * n}, "
        "sequence length 8192, total steps 1000",
    ]
    for i in range(10, 200, 10):
        tps = 6000 * chance.uniform(0.97, 1.03)
        text.append(
            f"{mark}\x1b[31mstep: {i:2}  \x1b[32mloss: {8 - i / 100:7.4f}  "
            f"\x1b[33mmemory: 40.12GiB(50.5%)  \x1b[34mtps: {tps:,.0f}  "
            f"\x1b[36mtflops: {tps / 160 / 100 * DEVICES[device] / 1e12:.2f}  \x1b[35mmfu: {tps / 160:.2f}%\x1b[39m"
        )
    write_atomic(folder / "titan.log", "\n".join(text))


def write_megatron(folder: Path, chance: random.Random) -> None:
    n, ms = chance.choice([8, 16]), chance.uniform(200, 3000)
    text = [f"  world_size {'.' * 30} {n}", f"  micro_batch_size {'.' * 25} 4", f"  seq_length {'.' * 30} 1024"]
    for i in range(100, 2000, 100):
        text.append(
            f" [2026-01-01 00:00:00] iteration {i:8d}/  500000 | consumed samples: {i * 256:12d} | "
            f"elapsed time per iteration (ms): {ms * chance.uniform(0.98, 1.02):.1f} | "
            f"throughput per GPU (TFLOP/s/GPU): 150.2 | learning rate: 1.000000E-04 | global batch size:   256 | "
            f"lm loss: {9 - i / 1000:.6E} | loss scale: 1.0 | "
            f"grad norm: 1.234 | number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
    write_atomic(folder / "out_8.txt", "\n".join(text))


def write_trainer_state(folder: Path, chance: random.Random) -> None:
    steps, seconds = chance.randint(50, 5000), chance.uniform(50, 5000)
    history = [{"epoch": i / 10, "loss": 9 - i / 100, "learning_rate": 1e-4, "step": i} for i in range(10, steps, 10)]
    history.append(
        {
            "epoch": 1.0,
            "step": steps,
            "train_loss": 5.0,
            "train_runtime": round(seconds, 4),
            "total_flos": 1e15,
            "train_samples_per_second": round(steps * 32 / seconds, 3),
            "train_steps_per_second": round(steps / seconds, 3),
        }
    )
    state = {
        "global_step": steps,
        "max_steps": steps,
        "num_train_epochs": 1,
        "train_batch_size": 32,
        "log_history": history,
    }
    write_atomic(folder / "trainer_state.json", json.dumps(state))


def write_gpus(folder: Path, chance: random.Random) -> None:
    head = "timestamp, index, utilization.gpu [%], memory.used [MiB], memory.total [MiB]"
    rows = [head, head]
    for i in range(100):
        stamp = f"2026/01/01 10:{i // 60:02d}:{i % 60:02d}.{chance.randint(0, 400):03d}"
        rows += [f"{stamp}, {d}, {chance.randint(0, 100)} %, 7582 MiB, 95830 MiB" for d in range(2)]
    write_atomic(folder / "gpu_log.csv", "\n".join(rows))


def write_blocks(folder: Path, chance: random.Random) -> None:
    """A text log in blocks whose times are those of the interval, and whose ranks have losses of their own."""
    n, seconds = chance.choice([1, 2, 4]), chance.uniform(0.5, 3)
    text, elapsed = [f"num_gpus: {n}", "micro_batch_size: 8"], 0.0
    for step in range(15, 100, 15):
        interval = seconds * chance.uniform(0.97, 1.03)
        elapsed += 15 * interval
        text.append(
            f" {step}%|# | {step}/100 [{int(elapsed) // 60:02d}:{int(elapsed) % 60:02d}<01:00, {interval:.2f}s/it]"
        )
        for _ in range(n):
            text += [
                f"Step {step}: loss {chance.uniform(3, 4)!r}",
                f"elapsed_time_per_iteration: {interval:.4f} s",
                f"Throughput (TFLOPS) at step {step}: {7 / interval:.3f}",
            ]
    write_atomic(folder / "train.out", "\n".join(text))


WRITERS = (
    write_metrics,
    write_steps,
    write_epochs,
    write_nanogpt,
    write_llmc,
    write_torchtitan,
    write_megatron,
    write_trainer_state,
    write_gpus,
    write_blocks,
)
