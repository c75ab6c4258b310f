"""Where the time of a step goes: the longest kernels of compiled GPT-2 small, its rate with each kernel of attention.

On a CPU a tiny model stands in, and its operators are listed.
"""

import time
from contextlib import nullcontext

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from scaleproof.ground.campaign.cells import Cell, expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.measure.launch.device_lock import devices_of, hold_devices
from scaleproof.measure.machine.gpus import cuda_devices
from scaleproof.measure.model.build import build_model
from scaleproof.measure.strategy.native import Single

CUDA = torch.cuda.is_available()
DEVICE = torch.device("cuda", 0) if CUDA else torch.device("cpu")
BACKENDS = {
    "as torch chooses": None,
    "cuDNN": SDPBackend.CUDNN_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
}
WARM, STEPS = (4, 8) if CUDA else (1, 2)


def cell_of() -> Cell:
    tiny = {"layers": 1, "width": 32, "heads": 2, "context": 64}
    workload = {"model": "gpt2-small", "seq_len": 1024, "vocab_size": 50304} if CUDA else {"model": tiny, "seq_len": 32}
    low = "bf16" if CUDA and torch.cuda.get_device_capability() >= (8, 0) else "fp16" if CUDA else "fp32"
    execution = {"strategy": "single", "precision": low, "compile": low == "bf16", "loss": "plain"}
    work = {"micro_batch": 32 if CUDA else 2, "accumulation": 2, "global_batch": "derive"}
    return expand_cells(
        Campaign.model_validate({"title": "kernels", "workload": workload, "work": work, "execution": execution})
    )[0]


def seconds_of(cell: Cell, strategy: Single, tokens: torch.Tensor) -> float:
    """Seconds of STEPS steps after a warm-up."""
    for step in range(WARM):
        one_step(cell, strategy, tokens, step)
    wait()
    began = time.perf_counter()
    for step in range(STEPS):
        one_step(cell, strategy, tokens, WARM + step)
    wait()
    return time.perf_counter() - began


def wait() -> None:
    if CUDA:
        torch.cuda.synchronize()


def one_step(cell: Cell, strategy: Single, tokens: torch.Tensor, step: int) -> None:
    accumulation = cell.batch.accumulation
    for micro in range(accumulation):
        strategy.micro_step(tokens, micro == accumulation - 1)
    strategy.update(step)


def main() -> None:
    cell = cell_of()
    with hold_devices(devices_of(cell, cuda_devices()), "the kernels of gpu-check"):
        look_at(cell)


def look_at(cell: Cell) -> None:
    """Time and list what a step of `cell` runs."""
    tokens = torch.randint(0, cell.vocab_size, (cell.batch.micro, cell.workload.seq_len + 1), device=DEVICE)
    for name, backend in BACKENDS.items():
        torch._dynamo.reset()
        strategy = Single(cell, build_model(cell), DEVICE)
        try:
            with sdpa_kernel([backend]) if backend else nullcontext():
                seconds = seconds_of(cell, strategy, tokens)
        except RuntimeError as error:
            if backend is None:
                raise
            print(f"attention {name}: not measured: {' '.join(str(error).split())[:200]}", flush=True)
            continue
        rate = STEPS * cell.batch.global_ * cell.workload.seq_len / seconds
        print(f"attention {name}: {rate:,.0f} tokens/s", flush=True)
        if backend is None:
            kind = ProfilerActivity.CUDA if CUDA else ProfilerActivity.CPU
            with profile(activities=[kind]) as profiler:
                one_step(cell, strategy, tokens, WARM + STEPS)
                wait()
            order = f"self_{kind.name.lower()}_time_total"
            print(profiler.key_averages().table(sort_by=order, row_limit=25, max_name_column_width=90), flush=True)


if __name__ == "__main__":
    main()
