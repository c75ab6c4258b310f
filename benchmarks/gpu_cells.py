"""The campaigns of `make gpu-check`: what runs on a GPU, stage by stage, and the tiny models that stand in on a CPU."""

from typing import Any

VOCABULARY = {"bpe-2048": 2048, "bpe-512": 512}
TOKENS = {"bpe-2048": 20_000_000, "bpe-512": 20_000}  # random ones, of the corpus that stands for any other
RUNS = "gpu_check_runs"
DEVICES = "gpu_check_devices"
SPEED = "gpu_check_speed"


def campaign(name: str, devices: int, low: str, deepspeed: bool) -> dict[str, Any]:
    """The campaign called `name`. `devices`: how many there are; `low`: the precision for speed, bf16 or fp16.

    Without `deepspeed` its strategies are left out.
    """
    if name == SPEED:
        data = {"work": {"steps": 12, "warmup_steps": 5}, "cells": speed_cells()}
    elif name == DEVICES:
        cells = [{"strategy": each} for each in ("ddp", "fsdp", "zero2", "zero3", "dp")]
        data = {"work": {"micro_batch": 8, "steps": 30, "warmup_steps": 12}, "cells": cells}
    else:
        data = {"work": {"micro_batch": 8, "steps": 30, "warmup_steps": 8}, "cells": run_cells()}
    cells = [cell for cell in data["cells"] if deepspeed or not cell["strategy"].startswith("zero")]
    if low == "fp16":  # a device without bf16 and, if it is a V100, without torch.compile
        cells = [cell for cell in cells if cell.get("precision") != "fp16"]
    return {
        "title": f"{name}: does scaleproof measure right on this GPU, and how fast is it?",
        "workload": {"model": "gpt2-small", "seq_len": 512, "tokenizer": "bpe-2048", "vocab_size": 50304},
        "work": {"global_batch": "derive"} | data["work"],
        "execution": {
            "device": "cuda",
            "precision": low,
            "geometry": f"1x{devices if name == DEVICES else 1}",
        },
        **listed(cells),
        "trace": {"steps": 3},
        "repeats": 1,
    }


def listed(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """The keys of a campaign that make these cells and no other."""
    return {"vary": {key: [value] for key, value in cells[0].items()}, "cells": cells[1:]}


def run_cells() -> list[dict[str, Any]]:
    """One of each kind that can go wrong in its own way."""
    return [
        {"strategy": "single"},
        {"strategy": "ddp"},
        {"strategy": "zero3"},
        {"strategy": "zero2-offload"},
        {"strategy": "zero1", "precision": "fp16"},
        {"strategy": "fsdp", "precision": "fp16"},
        {"strategy": "fsdp"},
        {"strategy": "zero2"},
        {"strategy": "ddp", "precision": "fp32"},
        {"strategy": "single", "compile": True},
    ]


def speed_cells() -> list[dict[str, Any]]:
    """GPT-2 small on one device: 32 x 1,024 before other shapes, compiled before eager."""
    sizes = {"seq_len": 1024, "accumulation": 4, "strategy": "single"}
    compiled = [
        sizes | {"compile": True, "micro_batch": micro, "loss": loss}
        for micro in (32, 64)
        for loss in ("plain", "fused")
    ]
    eager = [sizes | {"compile": False, "micro_batch": 32, "loss": loss} for loss in ("plain", "fused")]
    short = {"strategy": "single", "seq_len": 128, "micro_batch": 32, "accumulation": 16, "loss": "plain"}
    return [*compiled, *eager, short | {"compile": True}, short | {"compile": False}]


def stand_in(name: str) -> dict[str, Any]:
    """The same on a CPU: one or two tiny cells."""
    geometry = "1x2" if name == DEVICES else "1x1"
    losses = [{"loss": "plain"}, {"loss": "fused"}] if name == SPEED else [{"loss": "fused"}]
    return {
        "title": f"{name} on a CPU: do its stages work?",
        "workload": {
            "model": {"layers": 1, "width": 32, "heads": 2, "context": 64},
            "seq_len": 32,
            "tokenizer": "bpe-512",
        },
        "work": {
            "micro_batch": 2,
            "global_batch": "derive",
            "steps": 4,
            "warmup_steps": 3,
            "validation_samples": 4,
        },
        "execution": {"device": "cpu", "geometry": geometry, "strategy": "ddp", "start": "forked"},
        **listed(losses),
        "trace": {"steps": 2},
        "repeats": 1,
    }
