"""Runs with known truth, made without training: complete run folders whose figures agree with each other."""

import itertools
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scaleproof import __version__
from scaleproof.ground.campaign.cells import Cell, expand_cells
from scaleproof.ground.campaign.config import Campaign, shape_of
from scaleproof.ground.facts.counts import count_gpt2, inventory_of_shape
from scaleproof.ground.facts.memory import state_bytes
from scaleproof.ground.facts.traffic import KINDS, step_traffic
from scaleproof.ground.files import sha256_of, write_json
from scaleproof.ground.records.metrics import VERSION, Failed, Measured
from scaleproof.ground.records.run import METRICS, STEPS, Run, read_run
from scaleproof.ground.records.run_sections import (
    Energy,
    Failure,
    Memory,
    Model,
    Startup,
    TokenLedger,
    TrainingConfig,
    Validation,
    Window,
)
from scaleproof.ground.records.steps import COLUMNS, ROW, window_steps, write_steps
from scaleproof.measure.corpus.reader import SamplePlan, digest_of_ids, held_out_ids
from scaleproof.measure.trainer.metrics import utilization_of_device

SAMPLES = 5000
FIRST_START = datetime(2026, 1, 1, tzinfo=UTC)
EVENT_S = 5e-7  # between two times that CUDA events tell apart (CUDA runtime API, cudaEventElapsedTime)
TICKS = itertools.count()
TURNS = itertools.count()  # runs are made one after the other, a minute each


def campaign(**keys: Any) -> Campaign:
    """A small campaign; `keys` replace top-level keys."""
    data = {
        "title": "Does it scale?",
        "work": {"global_batch": 16, "steps": 30, "warmup_steps": 5},
        "vary": {"geometry": ["1x1", "1x2"]},
    }
    return Campaign.model_validate(data | keys)


def cells(**keys: Any) -> list[Cell]:
    return expand_cells(campaign(**keys))


def write_run(
    root: Path, cell: Cell, repeat: int = 1, step_time: float = 0.1, seed: int = 0, spread: float = 0.02
) -> Run:
    """A sound run of `cell` in `root`/<cell>/rep<repeat>.

    Its steps are `step_time` seconds long with a relative `spread`.
    """
    folder = root / cell.slug / f"rep{repeat}"
    folder.mkdir(parents=True)
    frame = steps_frame(cell, step_time, np.random.default_rng([seed, repeat, cell.batch.n_devices]), spread)
    write_steps(as_rows(frame), folder / STEPS)
    write_json(folder / METRICS, metrics_of(cell, repeat, frame, folder).model_dump(mode="json", by_alias=True))
    return read_run(folder)


def write_failure(
    root: Path, cell: Cell, repeat: int = 1, kind: str = "oom", reason: str = "CUDA out of memory"
) -> Run:
    folder = root / cell.slug / f"rep{repeat}"
    folder.mkdir(parents=True)
    failure = Failure(failure_class=kind, reason=reason, rank=1, log_tail=["last line of the log"])
    metrics = Failed(failure=failure, **known(cell, repeat))
    (folder / STEPS).write_text("phase,step,rank,step_time_s,data_wait_s,loss,samples,tokens\n")
    write_json(folder / METRICS, metrics.model_dump(mode="json", by_alias=True))
    return read_run(folder)


def rewrite(run: Run, change_metrics: Any = None, change_steps: Any = None) -> Run:
    """The run with its files changed.

    `change_metrics` edits the JSON data in place, `change_steps` returns a new frame.
    """
    data = run.metrics.model_dump(mode="json", by_alias=True)
    if change_steps:
        write_steps(as_rows(change_steps(pd.DataFrame(run.steps))), run.folder / STEPS)
        data["files"][STEPS] = sha256_of(run.folder / STEPS)
    if change_metrics:
        change_metrics(data)
    write_json(run.folder / METRICS, data)
    return read_run(run.folder)


def steps_frame(cell: Cell, step_time: float, random: np.random.Generator, spread: float) -> pd.DataFrame:
    work, batch = cell.work, cell.batch
    rows = []
    for step in range(work.warmup_steps + work.steps):
        # No two runs are equal; the last digits of steps.csv tell them apart, whatever tests ran before.
        seconds = step_time * random.lognormal(0, spread) * (1 + 1e-9 * (next(TICKS) % 97))
        if cell.execution.device == "cuda":
            seconds = round(seconds * (1 + 1e-5 * (next(TICKS) % 97)) / EVENT_S) * EVENT_S
        loss = 7.0 - 0.02 * step
        for rank in range(batch.n_devices):
            own = 0.01 * (
                rank - (batch.n_devices - 1) / 2
            )  # ranks see other samples, their mean is the same at every size
            share = batch.micro * batch.accumulation
            phase = "warmup" if step < work.warmup_steps else "window"
            rows.append([phase, step, rank, seconds, seconds / 500, loss + own, share, share * cell.workload.seq_len])
    names = ["phase", "step", "rank", "step_time_s", "data_wait_s", "loss", "samples", "tokens"]
    return pd.DataFrame(rows, columns=names)


def as_rows(frame: pd.DataFrame) -> np.ndarray:
    return frame[list(COLUMNS)].to_records(index=False).astype(ROW)


def known(cell: Cell, repeat: int) -> dict[str, Any]:
    """The part of the metrics that does not depend on measuring."""
    batch, turn = cell.batch, next(TURNS)
    return {
        "run_id": f"20260101T000000Z-{turn:08x}",
        "timestamp_utc": f"{FIRST_START + timedelta(seconds=60 * turn):%Y-%m-%dT%H:%M:%SZ}",
        "campaign": "synthetic",
        "cell": cell.slug,
        "repeat": repeat,
        "fingerprint": cell.fingerprint,
        "config": cell.config,
        "git_commit": "0" * 40,
        "git_dirty": False,
        "code_sha256": "c" * 64,
        "command_line": "scaleproof train",
        "env": {f"{p}_version": "1" for p in ("python", "torch", "transformers", "deepspeed")} | {VERSION: __version__},
        "host": {"hostname": "node", "os": "Linux", "cpu_busy_before": 0.01},
        "hardware": {"cpu_model": "CPU", "cpu_count": 8, "cpu_allowed": 8, "memory_bytes": 2**34},
        "data": {
            "corpus": "python-docs",
            "revision": "python-3",
            "licence": "PSF-2.0",
            "tokenizer": "bpe-2048",
            "vocab_size": 2048,
            "corpus_sha256": "d" * 64,
            "replaced_characters": 0,
            "train_sha256": "e" * 64,
        },
        "training_config": TrainingConfig(
            model_name="gpt2-tiny",
            model_size="n_layer=2, n_head=4, n_embd=128",
            seq_len=cell.workload.seq_len,
            micro_batch=batch.micro,
            accumulation=batch.accumulation,
            global_batch=batch.global_,
            lr=1e-3,
            optimizer="adamw",
            precision=cell.execution.precision,
            strategy=cell.execution.strategy,
            deepspeed_enabled="zero" in cell.execution.strategy,
            zero_stage=None,
            dataset_name="python-docs",
            dataset_subset_sizes={"train": SAMPLES, "val": 100},
        ),
    }


def collectives_of(cell: Cell, parameters: int, of_blocks: int) -> dict[str, dict[str, Any]]:
    """As many bytes of each kind as the strategy moves at least; every cell has an allreduce."""
    execution, accumulation = cell.execution, cell.batch.accumulation
    moved = step_traffic(execution.strategy, execution.precision, accumulation, parameters, of_blocks)
    return {
        KINDS[kind][0]: {"calls": 2, "bytes": round(least), "dtypes": ["float32"]}
        for kind, (least, _) in moved.items()
        if least or kind == "reduced"
    }


def metrics_of(cell: Cell, repeat: int, frame: pd.DataFrame, folder: Path) -> Measured:
    work, batch, seq_len = cell.work, cell.batch, cell.workload.seq_len
    by_step = window_steps(as_rows(frame))
    times, losses = by_step["step_time_s"], by_step["loss"]
    shape = shape_of(cell.workload.model)
    counts = count_gpt2(shape, cell.vocab_size, seq_len)
    parameters = counts.parameters
    execution = cell.execution
    predicted = state_bytes(execution.strategy, execution.precision, parameters, batch.n_devices)
    wall, tokens, n = float(times.sum()), int(by_step["tokens"].sum()), len(times)
    plan = SamplePlan(SAMPLES, batch.global_, work.seed)
    planned = digest_of_ids([plan.step(s) for s in range(work.warmup_steps, work.warmup_steps + work.steps)])
    return Measured(
        **known(cell, repeat),
        model=Model(
            parameters=parameters,
            matmul_parameters=counts.matmul_parameters,
            flops_per_token=counts.flops_per_token,
            flops_per_token_causal=counts.flops_per_token_causal,
        ),
        ledger=TokenLedger(
            samples_consumed=batch.global_ * work.steps,
            samples_planned=batch.global_ * work.steps,
            tokens_consumed=tokens,
            tokens_planned=batch.global_ * work.steps * seq_len,
            consumed_sha256=planned,
            planned_sha256=planned,
            samples_shared=0,
            samples_by_rank=[batch.micro * batch.accumulation * work.steps] * batch.n_devices,
        ),
        window=Window(
            wall_time_s=wall,
            optimizer_steps=n,
            skipped_optimizer_steps=0,
            micro_steps=n * batch.accumulation,
            tokens=tokens,
            tokens_per_s=tokens / wall,
            tokens_per_s_per_device=tokens / wall / batch.n_devices,
            step_time_n=n,
            step_time_mean_s=wall / n,
            step_time_p50_s=float(np.median(times)),
            step_time_p95_s=float(np.quantile(times, 0.95)),
            step_time_p99_s=None,
            step_time_min_s=float(times.min()),
            step_time_max_s=float(times.max()),
            data_wait_mean_s=float(by_step["data_wait_s"].mean()),
            train_loss_mean=float(losses.mean()),
            train_loss_first=float(losses[0]),
            train_loss_last=float(losses[-1]),
            clock="monotonic",
        ),
        utilization=utilization_of_device(
            cell, count_gpt2(shape, cell.vocab_size, seq_len), tokens / wall / batch.n_devices, "cpu"
        ),
        validation=Validation(
            samples=work.validation_samples,
            samples_sha256=digest_of_ids([held_out_ids(100, work.validation_samples)]),
            targets=work.validation_samples * seq_len,
            loss=6.4,
            perplexity=math.exp(6.4),
            accuracy=None,
            wall_time_s=0.2,
        ),
        energy=Energy(joules=None, joules_per_token=None, withheld="no device with an energy counter"),
        startup=Startup(launch_s=1, setup_s=2, warmup_s=1, first_step_s=0.5),
        memory=Memory(
            max_cuda_allocated_bytes=None,
            max_cuda_reserved_bytes=None,
            cuda_alloc_retries=None,
            state_bytes=math.ceil(predicted),
            state_bytes_predicted=predicted,
            max_rss_bytes=700_000_000,
        ),
        collectives=collectives_of(cell, parameters, sum(inventory_of_shape(shape, cell.vocab_size).blocks)),
        dtypes={"products": "float32", "float32_matmul": "highest"},
        ranks=[
            {"rank": r, "host": "node", "devices": ["cpu"], "device_name": "cpu", "cores": [r], "cpu_load": 0.9}
            for r in range(batch.n_devices)
        ],
        total_wall_time_s=wall + 4.25,
        files={STEPS: sha256_of(folder / STEPS)},
    )
