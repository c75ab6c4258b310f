"""Writes the files of a published benchmark from its figures in auditor/case_studies/, as its own programs would.

Figures are the published ones; what was not published and is needed to fill a file (single steps around a published
mean, losses) is made up, and named in the YAML file. The same data give the same bytes.
"""

import json
import random
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import yaml

from scaleproof.ground.files import write_atomic

FIGURES = Path(__file__).parent / "auditor/case_studies"  # a YAML file for each benchmark
# Of the step logs.
STEPS_PER_EPOCH = 63
PRINT_EVERY = 10
EPOCHS = 3
TOKENS = 32 * 128
# Of the text logs: steps at which they have a block, and the distance between those.
LOGGED = (15, 30)
WINDOW = 15
BATCH = 8  # samples that the loader of the text logs feeds


def write_case_study(source: Path, folder: Path) -> None:
    """All files of one benchmark, and beside them `claims.yaml`: what was claimed about them."""
    data = yaml.safe_load(source.read_bytes())
    for kind, writer in WRITERS.items():
        for name, figures in data.get(kind, {}).items():
            writer(folder, name, figures, data)
    claims = {"scaleproof_claims": "1.0", "title": data["title"], **data["claims"]}
    write_atomic(folder / "claims.yaml", yaml.safe_dump(claims, sort_keys=False, allow_unicode=True))


def metrics(folder: Path, name: str, m: dict[str, Any], data: dict[str, Any]) -> None:
    """training_metrics.json 2.0 with its completion marker; the launcher's record and a capture, if there were any."""
    batch = m["micro"] * m["accumulation"] * m["world"]
    tokens = m["micro"] * m["world"] * m["seq_len"] * m["micro_steps"]
    mean, middle, high = m["step"]
    config = {
        "model_name": "gpt2",
        "model_size": "n_layer=12, n_head=12, n_embd=768",
        "seq_len": m["seq_len"],
        "epochs": 1,
        "micro_batch_size_per_gpu": m["micro"],
        "grad_accum_steps": m["accumulation"],
        "global_batch_size": batch,
        "lr": 1e-4,
        "optimizer": "AdamW",
        "precision": m["precision"],
        "deepspeed_enabled": m["deepspeed"],
        "zero_stage": 1,
        "dataset_name": "train_small",
        "dataset_subset_sizes": {"train": m["samples"], "val": 5738},
    }
    if m["deepspeed"] is None:
        del config["deepspeed_enabled"]
    epoch = {
        "epoch_idx": 1,
        "epoch_wall_time_sec": tokens / m["rate"],
        "steps": m["micro_steps"],
        "micro_steps": m["micro_steps"],
        "optimizer_steps": -(-m["micro_steps"] // m["accumulation"]),
        "tokens_processed_global": tokens,
        "tokens_per_sec_global": m["rate"],
        "train_loss_avg_global": 7.1,
        "val_loss_avg_global": m.get("val_loss", 6.3),
        "step_time_mean_sec": mean,
        "step_time_p50_sec": middle,
        "step_time_p95_sec": high,
        "dataload_time_mean_sec": 0.0004,
    }
    record = {
        "schema_version": "2.0",
        "run_id": "20260108T000000Z-00000000",
        "timestamp_utc": "2026-01-08T00:00:00Z",
        "git_commit": m["commit"],
        "command_line": m.get("command", "src/gpt2.py"),
        "env": {},
        "host": {"hostname": "node", "os": "Linux"},
        "hardware": {"gpu_name": m["gpu"], "gpu_count_visible": min(m["world"], 4), "world_size": m["world"]},
        "training_config": config,
        "deepspeed_config": {
            "path": "src/deepspeed_config.json",
            "sha256": m.get("config", "c84d6437"),
            "selected": {"fp16_enabled": True, "wall_clock_breakdown": True, "zero_stage": 1},
        },
        "epochs": [epoch],
        "summary": {
            "total_wall_time_sec": m["wall"],
            "best_val_loss": m.get("val_loss", 6.3),
            "mean_tokens_per_sec_global": m["rate"],
        },
    }
    if "hosts" in m:
        record["scheduler"] = {"type": "slurm", "nodelist": m["hosts"]}
    _json(folder / name / "training_metrics.json", record)
    mark = (
        f"[Rank 0] RUN_COMPLETE checkpoint_path=out world_size={m['world']} tokens_per_sec={m['rate']} "
        f"total_wall_time_sec={m['wall']} timestamp_utc=2026-01-08T01:00:00Z\n"
    )
    write_atomic(folder / name / "RUN_COMPLETE.txt", mark)
    if "environment" in m:
        launcher = {
            "checkpoint_path": "out",
            "rank0_host": "node",
            "world_size": m["world"],
            "nccl_env": m["environment"],
        }
        _json(folder / name / "launcher_metadata.json", launcher)
    if m.get("traced"):
        write_atomic(folder / name / "profiles/nsys_stats_node.txt", "\n ** NVTX Range Summary (nvtx_sum):\n\n")


def report(folder: Path, name: str, rows: dict[str, list[float]], data: dict[str, Any]) -> None:
    """scaling_report.json: a standard deviation of 0.0 for each single run."""
    runs = {
        n: {
            "metrics_paths": [f"{n}gpu/training_metrics.json"],
            "mean_tokens_per_sec_global": rate,
            "stdev_tokens_per_sec_global": 0.0,
            "speedup_vs_1gpu": speedup,
            "scaling_efficiency": efficiency,
        }
        for n, (rate, speedup, efficiency) in rows.items()
    }
    _json(folder / name, {"status": "ok", "protocol": {"seq_len": 512}, "runs": runs})


def legacy(folder: Path, name: str, figures: list[list[float] | None], data: dict[str, Any]) -> None:
    """The per-epoch JSON; [first, others] are 30 epochs."""
    times, rates, losses, val = figures
    chance = random.Random(name)
    if times is not None and len(times) == 2:
        times = [times[0], *(round(times[1] * chance.uniform(0.99, 1.01), 4) for _ in range(29))]
    record = {
        "train_time_per_epoch": times,
        "train_throughput": rates or [],
        "train_loss_per_epoch": losses or [],
        "val_loss_per_epoch": val or [],
    }
    _json(folder / name, record)


def steps(folder: Path, name: str, figures: list[float], data: dict[str, Any]) -> None:
    """step_log.csv of three runs, timed by a clock that starts again every tenth step and at each epoch."""
    rate, spread, _, memory = figures
    for repeat, apart in enumerate((-spread, 0, spread), start=1):
        # Of steps 21 to 63 of an epoch, the median one is five steps after a restart.
        base = TOKENS / (rate + apart) / 5
        rows = ["timestamp,global_step,step_time_s,loss,tokens_per_sec,gpu_max_mem_mb"]
        stamp = 1_760_000_000.0
        for _ in range(EPOCHS):
            for step in range(1, STEPS_PER_EPOCH + 1):
                seconds = base * ((step - 1) % PRINT_EVERY + 1)
                stamp += base
                rows.append(f"{stamp:.3f},{step},{seconds:.6f},{10.8 - step / 100:.4f},{TOKENS / seconds:.2f},{memory}")
        write_atomic(folder / name / f"run{repeat}" / "step_log.csv", "\n".join(rows) + "\n")


def epochs(folder: Path, name: str, figures: list[Any], data: dict[str, Any]) -> None:
    """metrics.csv, one row an epoch; of two runs in one file, rows in turn."""
    mean, spread, second_loss, ranges = figures
    chance = random.Random(name)
    made = []
    for first, last in ranges:
        # Times of all epochs but the first, moved and stretched to the published mean and standard deviation.
        raw = [chance.gauss(0, 1) for _ in range(last - first)]
        centre, width = fmean(raw), stdev(raw)
        times = [mean * 1.004, *(mean + (r - centre) / width * spread for r in raw)]
        made.append([(e, t, second_loss * (2 / e) ** 0.8) for e, t in zip(range(first, last + 1), times, strict=True)])
    rows = ["epoch,train_loss,train_time,val_loss,val_acc"]
    for i in range(max(map(len, made))):
        for run in made:
            if i < len(run):
                epoch, seconds, loss = run[i]
                rows.append(f"{epoch},{loss:.4f},{seconds:.4f},{loss * 1.1:.4f},{0.9 - loss / 10:.4f}")
    write_atomic(folder / name, "\n".join(rows) + "\n")


def logs(folder: Path, name: str, figures: list[Any], data: dict[str, Any]) -> None:
    """A text log: arguments, blocks of every rank at two steps, GPUtil's table, tqdm's bar."""
    strategy, n, seconds, flops, torch_mb, used_mb, bar = figures
    zero = strategy.startswith("zero")
    lines = [f"framework: {strategy}", f"num_gpus: {n}", f"micro_batch_size: {BATCH}"]
    if zero:
        lines += [
            f"[INFO] [config.py:1003:print]   train_micro_batch_size_per_gpu = {BATCH // n}",
            f"[INFO] [config.py:1003:print]   zero_config .... {{'stage': {strategy[-1]}, "
            "'offload_optimizer': {'device': 'cpu', 'pin_memory': True}}",
        ]
    elapsed = 0.0
    for i, step in enumerate(LOGGED):
        elapsed += seconds[i] * step  # the interval's time was divided by all steps
        if bar:
            whole = round(elapsed)
            clock = f"{whole // 60:02d}:{whole % 60:02d}<00:20, {seconds[i] * step / WINDOW:5.2f}s/it"
            lines.append(f"{step * 100 // 31:3d}%|###   | {step}/31 [{clock}]")
        made_up = 3.1 + 0.01 * n if zero else 3.2
        loss = data["losses"][strategy] if i == 1 and not (zero and n == 1) else made_up
        for _ in range(1 if strategy == "dp" else n):
            lines += [
                f"Step {step}: loss {loss!r}",
                f"elapsed_time_per_iteration: {seconds[i]:.4f} s",
                f"Throughput (TFLOPS) at step {step}: {flops[i]}",
                f"Torch reports memory usage: {torch_mb} MB",
            ]
        lines += [
            "| ID | Name | GPU util. || Memory total | Memory used |",
            *(f"|  {d} | NVIDIA L4 | 100% || 23034MB | {used_mb}MB |" for d in range(n)),
        ]
    write_atomic(folder / "logs" / f"{name}.out", "\n".join(lines) + "\n")


def profiles(folder: Path, name: str, figures: list[float], data: dict[str, Any]) -> None:
    """A table of operators; one row stands for all."""
    inclusive, own, count = figures
    columns = [
        "Name",
        "Device Time Total (ms)",
        "CPU Time Total (ms)",
        "Self Device Time Total (ms)",
        "Self CPU Time Total (ms)",
        "Calls",
    ]
    rows = [
        ["ProfilerStep*", inclusive * 0.2, 0, 0, 0, count],
        ["autograd::engine::evaluate_function", inclusive * 0.5, 0, 0, 0, 100],
        ["aten::mm", inclusive * 0.3, 0, own, 0, 1000],
    ]
    text = [",".join(f'"{c}"' for c in columns), *(",".join(map(str, row)) for row in rows)]
    write_atomic(folder / "profiles" / f"{name}.csv", "\n".join(text) + "\n")


def _json(path: Path, record: dict[str, Any]) -> None:
    write_atomic(path, json.dumps(record, indent=2) + "\n")


Writer = Callable[[Path, str, Any, dict[str, Any]], None]
WRITERS: dict[str, Writer] = {
    "metrics": metrics,
    "report": report,
    "legacy": legacy,
    "steps": steps,
    "epochs": epochs,
    "logs": logs,
    "profiles": profiles,
}
