"""The control: a bare loop over one rank's share of each step. How long a step takes without the trainer.

It imports nothing of corpus, model, strategy or trainer, exchanges nothing, and watches nothing.
"""

import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.nn.utils import clip_grad_norm_

from scaleproof.measure.reference.network import build_network
from scaleproof.measure.reference.samples import SplitSamples, step_ids
from scaleproof.measure.reference.training import (
    BYTES_OF_PARAMETER,
    bytes_of_row,
    free_bytes,
    is_out_of_memory,
    make_adamw,
)

UNTIMED = 2  # steps before the timed ones
LOW = {"fp32": None, "tf32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def has_control(config: dict[str, Any]) -> bool:
    """Return whether a bare loop can repeat what a rank does in the cell with the effective configuration `config`."""
    execution = config["execution"]
    # The loop's own network has none of these.
    if execution["compile"] or execution["activation_checkpointing"] or execution["loss"] != "plain":
        return False
    if execution["attention"] in ("flash", "cudnn"):  # the mask of transformers excludes these kernels
        return False
    # One process of dp drives all devices; with -offload the update runs on the CPU.
    return execution["strategy"] != "dp" and not execution["strategy"].endswith("-offload")


def time_bare_loop(
    config: dict[str, Any], tokens: Path, device: torch.device, steps: int, ranks_here: int = 1
) -> dict[str, float] | None:
    """Time `steps` steps of a bare loop on one device, and return the fields of a BareLoop.

    `tokens`: folder of the corpus. `ranks_here`: how many processes of this machine do so at the same time. Returns
    None where memory does not suffice.
    """
    try:
        return _time_loop(config, tokens, device, steps, ranks_here)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        return None


def _time_loop(
    config: dict[str, Any], tokens: Path, device: torch.device, steps: int, ranks_here: int
) -> dict[str, float] | None:
    """Do as `time_bare_loop`: return None where memory cannot suffice, but raise the error where it then runs out."""
    workload, work = config["workload"], config["work"]
    execution = config["execution"]
    train = SplitSamples(tokens, "train", workload["seq_len"], workload["task"] == "classification")
    model = build_network(workload, work["seed"], train.classes, execution["attention"])
    parameters = sum(parameter.numel() for parameter in model.parameters())
    bytes_needed = BYTES_OF_PARAMETER * parameters + work["micro_batch"] * bytes_of_row(workload)
    ranks_sharing = ranks_here if device.type == "cpu" else 1  # each rank has a GPU of its own
    if free_bytes(device) / ranks_sharing < bytes_needed:
        return None

    model.to(device)
    optimizer = make_adamw(model, work["optimizer"], fused=execution["fused_optimizer"])
    low = LOW[execution["precision"]]
    torch.set_float32_matmul_precision("high" if execution["precision"] == "tf32" else "highest")
    wall_s: list[float] = []  # the seconds of each step
    cpu_s: list[float] = []
    for step in range(UNTIMED + steps):
        _wait_for_device(device)
        began, began_cpu = time.perf_counter(), time.process_time()
        ids = step_ids(train.count, work["global_batch"], work["seed"], step)  # of which a rank's share is used
        for micro in range(work["accumulation"]):
            rows = train.rows(ids[micro * work["micro_batch"] : (micro + 1) * work["micro_batch"]])
            with torch.autocast(device.type, low) if low else nullcontext():
                loss = model(torch.from_numpy(rows).to(device)).mean()
            (loss / work["accumulation"]).backward()
        if work["optimizer"]["max_grad_norm"]:
            clip_grad_norm_(model.parameters(), work["optimizer"]["max_grad_norm"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        _wait_for_device(device)
        wall_s.append(time.perf_counter() - began)
        cpu_s.append(time.process_time() - began_cpu)
    return {"steps": steps, "step_s": median(wall_s[UNTIMED:]), "cpu_s": median(cpu_s[UNTIMED:])}


def _wait_for_device(device: torch.device) -> None:
    """Wait until `device`, if it is a GPU, has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
