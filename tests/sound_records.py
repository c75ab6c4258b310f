"""Complete sound records, as the trainer and the launcher leave them, made without training; random sets of them."""

import json
import math
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sound_gpu_records import CPUS, on_gpus
from synthetic import as_rows, cells, rewrite, write_run

from scaleproof.conclude.checks.census import inventory_of_run, linear_flops
from scaleproof.conclude.checks.updates import learning_rate
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import shape_of
from scaleproof.ground.facts.counts import inventory_of_shape
from scaleproof.ground.facts.traffic import KINDS, step_traffic
from scaleproof.ground.files import sha256_of
from scaleproof.ground.records.run import COMPLETE, LAUNCHER, METRICS, METRICS_SEAL, MeasuredRun
from scaleproof.ground.records.steps import loss_series, window_steps
from scaleproof.measure.reference.schema import FOLDER, Reference, workload_name

BACKWARD = "_scaled_dot_product_flash_attention_for_cpu_backward"
SDPA = {"_scaled_dot_product_flash_attention_for_cpu": 2, BACKWARD: 2}
DTYPES = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
# Relative differences of losses from a replay in fp32: of each step, and at the end of 30. As real runs on a CPU:
# within 1.8e-7 in fp32; in bf16 within 2.3e-4, to one side, with 256 tokens a step. tf32 rounds as fp16, 8 times finer.
ERROR = {"fp32": 1e-7, "tf32": 2e-5, "bf16": 8e-5, "fp16": 8e-5}
DRIFT = {"fp32": 0.0, "tf32": 5e-5, "bf16": 2e-4, "fp16": 2e-4}
NORM_ERROR = {"fp32": 1e-6, "tf32": 1.5e-3, "bf16": 5e-3, "fp16": 5e-3}
GRADIENT_NORM = 2.0  # of a probed step
NOT_DECAYED = 640  # elements of biases and norms
CHAIN, FIRST_LOSSES = f"{5:016x}", [6.9, 7.1]
NODES = 66  # of autograd, in a step
BOOT = 1_700_000_000.0  # epoch seconds of the machine's start
VALIDATION_LOSS = 6.4
Change = Callable[[dict], None]


def census_of(
    run: MeasuredRun, collectives: dict[str, Any] | None = None, chance: np.random.Generator | None = None
) -> list[dict]:
    """A sound census of each rank; `collectives`: those of a step, the run's own where they are not given.

    `chance`: with as much noise as sound runs have.
    """
    collectives = run.metrics.collectives if collectives is None else collectives
    work, execution = run.metrics.config["work"], run.metrics.config["execution"]
    optimizer, products = work["optimizer"], DTYPES[execution["precision"]]
    step_s = run.metrics.window.step_time_mean_s
    parameters, strategy = inventory_of_run(run).parameters, execution["strategy"]
    decayed = parameters - NOT_DECAYED
    norm = GRADIENT_NORM * (1 + NORM_ERROR[execution["precision"]] * float(chance.standard_normal()) if chance else 1)
    clipped = min(1.0, optimizer["max_grad_norm"] / (norm + 1e-6))
    factor = clipped * (1 + 1e-4 * float(chance.standard_normal()) if chance else 1)
    first = [loss * (1 + 3e-7 * float(chance.standard_normal()) if chance else 1) for loss in FIRST_LOSSES]

    def step(number: int) -> dict:
        groups = [
            {
                "kind": "AdamW",
                "learning_rate": optimizer["learning_rate"],
                "weight_decay": decay,
                "betas": optimizer["betas"],
                "eps": optimizer["eps"],
                "elements": elements,
            }
            for decay, elements in ((optimizer["weight_decay"], decayed), (0.0, NOT_DECAYED))
        ]
        return {
            "step": number,
            "linear_flops": int(linear_flops(run)[0]),
            "batched_flops": 0,
            "attention": dict(SDPA),
            "updates": {"_fused_adamw_": 2},
            "collectives": collectives,
            "products": products,
            "gradients": "float32",
            "reduced": "float32",
            "tokens_checksum": "00",
            "groups": groups,
            "nodes": NODES,
            "busy_s": 2 * step_s,
            "idle_s": 0.001 * step_s,
            "gradient_norm": norm / (len(run.metrics.ranks) ** 0.5 if strategy == "fsdp" else 1),
            "scaled_by": None if strategy in ("zero1", "zero2", "zero3") else factor,
        }

    engine = {
        "zero_stage": int(strategy[4]) if strategy.startswith("zero") else None,
        "gradient_clipping": optimizer["max_grad_norm"],
        "micro_batch": work["micro_batch"],
        "accumulation": work["accumulation"],
    }
    return [
        {
            "before": step(work["warmup_steps"] - 2),
            "after": step(work["warmup_steps"] + work["steps"]),
            "parameters": parameters,
            "trainable": parameters,
            "engine": engine if strategy.startswith("zero") else None,
            "threads": 1,
            "cores": rank["cores"],
            "compiled_graphs": 0,
            "modes_in_window": 0,
            "slowed_by": [],
            "nodes_in_window": NODES * work["steps"],
            "collectives_of_step": 3,
            "collectives_in_window": 3 * work["steps"],
            "coarse": 1.5e-5,
            "updates_in_window": _updates(work),
            "tokens_in_window": CHAIN if rank["rank"] == 0 else "0",
            "first_losses": first,
            "env": {},
            "weights": None if strategy in ("fsdp", "zero3") else f"{parameters:016x}",
        }
        for rank in run.metrics.ranks
    ]


def _updates(work: dict) -> dict:
    optimizer = work["optimizer"]
    settings = [[decay, *optimizer["betas"], optimizer["eps"]] for decay in (0.0, optimizer["weight_decay"])]
    return {"calls": work["steps"], "weighted_rate": _weighted_rate(work), "decays": 1, "settings": settings}


def _weighted_rate(work: dict[str, Any]) -> float:
    steps = range(work["warmup_steps"], work["warmup_steps"] + work["steps"])
    return sum((step + 1) * learning_rate(work, step) for step in steps) / len(steps)


def complete(
    run: MeasuredRun,
    chance: np.random.Generator | None = None,
    before: Change = lambda data: None,
    change_steps: Any = None,
) -> MeasuredRun:
    """The run with everything that trainer and launcher record. `chance`: as much noise as a quiet machine has.

    `before` changes its metrics first, `change_steps` its series before that.
    """

    def noise(largest: float) -> float:
        return float(chance.uniform(0, largest)) if chance else largest / 10

    def change(data: dict) -> None:
        before(data)
        wall, ranks = run.metrics.window.wall_time_s, data["ranks"]
        launcher = datetime.fromisoformat(data["timestamp_utc"].replace("Z", "+00:00")).timestamp() + noise(1)
        program = launcher + 0.5 + noise(2)
        first = float(run.steps["step_time_s"][run.steps["step"] == 0].max())
        data["census"] = census_of(run, data["collectives"], chance)
        start = program + 6
        for rank in ranks:
            _add_load(rank, wall, program, start + noise(0.005), noise)
        ready = max(rank["ready_epoch_s"] for rank in ranks)
        warm = max(rank["warm_epoch_s"] for rank in ranks)
        busy = sum(rank["cpu_s"] for rank in ranks) + CPUS * wall * noise(0.05)
        validation = data["validation"]
        for rank in ranks:
            rank |= {"machine_busy_s": busy, "state_bytes": data["memory"]["state_bytes"]}
        losses = [VALIDATION_LOSS * validation["targets"] / len(ranks)] * len(ranks)
        loss = math.fsum(losses) / validation["targets"]
        validation |= {"rank_losses": losses, "loss": loss, "perplexity": math.exp(loss)}
        data["memory"]["max_rss_bytes"] = max(rank["max_rss_bytes"] for rank in ranks)
        data["startup"] = {
            "launcher_epoch_s": launcher,
            "program_epoch_s": program,
            "launch_sec": program - launcher,
            "setup_sec": ready - program,
            "warmup_sec": warm - ready,
            "first_step_sec": first,
        }
        data["dtypes"] |= {name: data["census"][0]["before"][name] for name in ("products", "gradients", "reduced")}
        closing = start + wall + validation["wall_time_sec"] + noise(0.05)
        for rank in ranks:
            rank["closing_epoch_s"] = closing - noise(0.002)
            rank["closing_monotonic_s"] = rank["closing_epoch_s"] - BOOT
        data["closing_s"] = noise(0.3)
        ended = max(rank["closing_epoch_s"] for rank in ranks) + data["closing_s"]
        data["total_wall_time_sec"] = ended - launcher
        data["second_clock"] = {
            "ranks_s": data["total_wall_time_sec"] + noise(0.5),
            "window_s": wall + noise(0.5),
            "resolution_s": 0.5,
        }

    return sealed(run, change, change_steps)


def _add_load(rank: dict, wall: float, program: float, start: float, noise: Callable[[float], float]) -> None:
    """Times of day, load and memory of a rank."""
    used = (1 - noise(0.3)) * wall
    rank |= {
        "threads": 1,
        "rss_bytes": 400_000_000,
        "gpus": None,
        "ready_epoch_s": program + 2 + noise(0.5),
        "warm_epoch_s": start - noise(0.002),
        "max_rss_bytes": int(7e8 + noise(1e8)),
        "cuda_memory": None,
        "window_start_epoch_s": start,
        "window_end_epoch_s": start + wall + noise(0.001),
        "window_start_monotonic_s": start - BOOT,
        "window_end_monotonic_s": start + wall - BOOT,
        "machine_cpus": CPUS,
        "machine_memory_bytes": 2**34,
        "cpu_s": used,
        "involuntary_switches": 20.0,
        "run_delay_s": noise(0.2) * wall,
        "cores_busy_s": round(used + noise(0.05) * wall, 2),
        "machine_steal_s": 0.0,
    }
    rank["cpu_load"] = used / (rank["window_end_monotonic_s"] - rank["window_start_monotonic_s"])


def begin_at(data, moment):
    """Move all times of day of a record so that it begins at `moment` (ISO 8601, UTC)."""
    before, after = (datetime.fromisoformat(text) for text in (data["timestamp_utc"], moment))
    data["timestamp_utc"] = moment
    for part in (data["startup"], *data["ranks"]):
        for name in part:
            if "epoch" in name:
                part[name] += (after - before).total_seconds()


def sealed(run: MeasuredRun, change: Change, change_steps: Any = None) -> MeasuredRun:
    """The run with its metrics changed, sealed again, as by somebody who knows the seal."""
    run = rewrite(run, change, change_steps)
    (run.folder / LAUNCHER).write_text(json.dumps({METRICS_SEAL: sha256_of(run.folder / METRICS)}))
    return run


def write_complete(run: MeasuredRun) -> None:
    """RUN_COMPLETE.txt, as the launcher writes it at the end."""
    metrics = run.metrics
    figures = f"tokens_per_sec={metrics.window.tokens_per_s:.2f} total_wall_time_sec={metrics.total_wall_time_s:.2f}"
    (run.folder / COMPLETE).write_text(f"[Rank 0] RUN_COMPLETE {figures}\n")


def write_reference(run: MeasuredRun, **changes: Any) -> None:
    """The replay of the run's workload, beside the campaign's runs."""
    work = run.metrics.config["work"]
    name = workload_name(run.metrics.config)
    reference = Reference(
        workload=name,
        train_sha256=run.metrics.data["train_sha256"],
        device="cpu",
        torch_version="2",
        parameters=inventory_of_run(run).parameters,
        losses=loss_series(run.steps).tolist(),
        total_steps=work["warmup_steps"] + work["steps"],
        validation_loss=VALIDATION_LOSS,
        validation_checksum=None,
        step_checksums={work["warmup_steps"] - 2: f"{0:016x}"},
        window_chain=CHAIN,
        first_losses=FIRST_LOSSES,
        gradient_norms=[GRADIENT_NORM] * (work["warmup_steps"] + work["steps"] + 1),
        decayed=inventory_of_run(run).parameters - NOT_DECAYED,
        seconds=1.0,
    ).model_copy(update=changes)
    path = run.folder.parents[2] / FOLDER / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(reference.model_dump_json())


def write_unlike_reference(run: MeasuredRun) -> None:
    """A replay of other tokens than the run's: it is there, as stages want it, and nothing is compared with it."""
    write_reference(run, train_sha256="")


def random_set(root: Path, seed: int, gpus: bool = False) -> list[MeasuredRun]:
    """A random campaign of sound runs in `root`: cells, repeats, lengths and noise as quiet machines have them.

    `gpus`: on H100s, in every precision, timed by CUDA events, at their power cap in some campaigns.
    """
    chance = np.random.default_rng(seed)
    strategies = list(chance.choice(["ddp", "fsdp", "zero1", "zero2", "zero3"], chance.integers(1, 3), replace=False))
    geometries = [["1x1", "1x2"], ["1x2"], ["1x2", "1x4"]][chance.integers(3)]
    precisions = list(DTYPES) if gpus else ["fp32", "fp32", "bf16"]
    steps, precision = int(chance.integers(20, 60)), str(chance.choice(precisions))
    campaign = cells(
        work={"global_batch": 16, "micro_batch": int(chance.choice([2, 4])), "steps": steps, "warmup_steps": 5},
        execution={"precision": precision, "device": "cuda" if gpus else "auto"},
        vary={"strategy": [str(name) for name in strategies], "geometry": geometries},
    )
    step_time = max(1.3 / steps, float(chance.lognormal(math.log(0.05), 1)))
    step_time = min(step_time, 12 / steps)
    spread, apart = float(chance.uniform(0.005, 0.08)), float(chance.uniform(0, 0.03))
    runs = []
    for repeat in range(1, int(chance.integers(1, 4)) + 1):
        for cell in campaign:
            seconds = step_time * float(chance.lognormal(0, apart)) * 4 / (3 + cell.batch.n_devices)
            run = write_run(root / "runs", cell, repeat, max(seconds, 1.1 / steps), seed, spread)
            run = complete(run, chance, *_with_noise(cell, chance))
            runs.append(sealed(run, on_gpus(run, chance)) if gpus else run)
            write_complete(runs[-1])
    write_reference(runs[0])
    return runs


def _with_noise(cell: Cell, chance: np.random.Generator) -> tuple[Change, Callable[[pd.DataFrame], pd.DataFrame]]:
    """Traffic and dtypes of the cell's strategy, and losses that differ as far as order of summation explains."""
    execution = cell.execution
    noisy: list[pd.DataFrame] = []

    def change(data: dict) -> None:
        losses = window_steps(as_rows(noisy[0]))["loss"]
        data["window"] |= {
            "train_loss_avg_global": float(losses.mean()),
            "train_loss_first": float(losses[0]),
            "train_loss_last": float(losses[-1]),
        }
        blocks = sum(inventory_of_shape(shape_of(cell.workload.model), cell.vocab_size).blocks)
        batch, parameters = cell.batch, data["model"]["parameters"]
        traffic = step_traffic(execution.strategy, execution.precision, batch.accumulation, parameters, blocks)
        data["collectives"] = {
            KINDS[kind][0]: {"calls": 3, "bytes": int(most), "dtypes": ["float32"]}
            for kind, (_, most) in traffic.items()
            if most and batch.n_devices > 1
        }
        data["dtypes"]["products"] = DTYPES[execution.precision]
        data["dtypes"]["float32_matmul"] = "high" if execution.precision == "tf32" else "highest"
        zero = execution.strategy.startswith("zero")
        stage = int(execution.strategy[4]) if zero else None
        data["engine_config"] = {"fsdp": {"fsdp": {"forward_prefetch": 0}}}.get(execution.strategy)
        if zero:
            data["engine_config"] = {
                "train_batch_size": batch.global_,
                "train_micro_batch_size_per_gpu": batch.micro,
                "gradient_accumulation_steps": batch.accumulation,
                "gradient_clipping": cell.work.optimizer.max_grad_norm,
                "zero_optimization": {"stage": stage},
            }
        data["training_config"] |= {"zero_stage": stage, "deepspeed_enabled": zero}

    def change_steps(frame: pd.DataFrame) -> pd.DataFrame:
        n, most = frame["step"].max() + 1, DRIFT[execution.precision]
        error = ERROR[execution.precision] * chance.standard_normal(n)
        drift = float(chance.uniform(-most, most)) if most else 0.0
        per_step = dict(enumerate(1 + error + drift * np.arange(n) / n))
        noisy.append(frame.assign(loss=frame["loss"] * frame["step"].map(per_step)))
        return noisy[0]

    return change, change_steps
