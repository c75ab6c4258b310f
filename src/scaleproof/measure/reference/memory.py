"""How many rows of a workload go through the network at once: as many as free memory allows."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import torch

ROWS_AT_ONCE = 8  # at most, whatever the cell's micro-batch
BYTES_OF_PARAMETER = 24  # weight, gradient, two moments, what the update needs meanwhile, and the weight at the start
CGROUP = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")


def rows_that_fit(workload: dict[str, Any], parameters: int, device: torch.device) -> int:
    """How many rows, at most ROWS_AT_ONCE, fit into free memory for a forward and a backward pass; 0: not one."""
    left = free_bytes(device) - BYTES_OF_PARAMETER * parameters
    return int(max(0, min(ROWS_AT_ONCE, left / bytes_of_row(workload))))


def bytes_of_row(workload: dict[str, Any]) -> int:
    """Bytes that one row keeps for its backward pass, in fp32 with plain attention; runs took 0.55 to 1.0 of that.

    Counted for each of its places: in every layer 50 vectors of the model's width, and 3 matrices of attention in every
    head; of a language model also 5 copies of the logits.
    """
    places = workload["seq_len"]
    layers, width, heads = _layers_width_heads(workload["model_shape"])
    logits = 0 if workload.get("task") == "classification" else 5 * workload["vocab_size"]
    numbers_of_place = logits + layers * (50 * width + 3 * heads * places)
    return int(4 * places * numbers_of_place)


def _layers_width_heads(shape: dict[str, Any]) -> tuple[int, int, int]:
    """Layers, width and heads of a model, as far as activations go; zeros for a Python function, as it is not called.

    A configuration of transformers has these numbers under the names of its family: `AutoConfig` knows them all.
    """
    if "function" in shape:
        return 0, 0, 0
    if "transformers" in shape:
        from transformers import AutoConfig

        keys = dict(shape["transformers"])
        config = AutoConfig.for_model(keys.pop("model_type"), **keys)
        # A block of 50 widths has a hidden layer of 4; wider ones keep more.
        inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
        width = config.hidden_size * max(1.0, inner / (4 * config.hidden_size))
        return config.num_hidden_layers, round(width), config.num_attention_heads
    return shape["layers"], shape.get("width", shape.get("d_model", 0)), shape["heads"]


def free_bytes(device: torch.device) -> int:
    """Bytes that this process may still take on `device`; on a CPU also by the limits of its control groups."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(min([psutil.virtual_memory().available, *_left_in_groups()]))


def _left_in_groups() -> list[int]:
    """Bytes that the memory limit of each control group (version 2) of this process leaves, its own group first."""
    left = []
    with suppress(OSError, ValueError, StopIteration):
        line = next(line for line in CGROUP.read_text().splitlines() if line.startswith("0::"))  # that of version 2
        own = CGROUPS / line.removeprefix("0::").strip().lstrip("/")
        for group in (own, *own.parents):
            with suppress(OSError, ValueError, KeyError):  # no limit is the word max; the root has no such file
                limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
                statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                cached = int(statistics["active_file"]) + int(statistics["inactive_file"])  # given back on demand
                left.append(limit - used + cached)
    return left


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, of a device or of the host."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)
