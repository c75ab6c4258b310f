"""Two steps of cells on a GPU that is not there.

CAMPAIGN, its first argument, is a file of a campaign whose cells have the same world size; RESULTS, its second, gets of
each cell, by strategy and precision, where the host waited in the second step, the dtypes of what its layers made, and
the names of its parameters.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any
from unittest.mock import patch

import fake_cuda
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.modules.module import register_module_forward_hook
from torch.testing._internal.distributed.fake_pg import FakeStore

from scaleproof.ground.campaign.cells import Cell, expand
from scaleproof.ground.campaign.config import Campaign
from scaleproof.measure.model.build import build
from scaleproof.measure.strategy import Strategy, strategy_class


def main(campaign: Path, results: Path) -> None:
    cells = expand(Campaign.model_validate_json(campaign.read_text()))
    fake_cuda.play(devices=max(cell.execution.geometry.devices_per_node for cell in cells))
    world = cells[0].world_size
    os.environ |= {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
    dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    mesh = init_device_mesh("cuda", (world,))  # it reads its own ranks, which a fake tensor cannot
    found = {}
    for cell in cells:
        with (
            FakeTensorMode(allow_non_fake_inputs=True) as mode,
            patch("scaleproof.measure.strategy.fsdp.init_device_mesh", return_value=mesh),
            # Ranks that are not there agree.
            patch("deepspeed.runtime.zero.partitioned_param_coordinator.assert_ints_same_as_other_ranks"),
            patch.multiple(nn.DataParallel, **copies(mode)),
        ):
            found[f"{cell.execution.strategy} {cell.execution.precision}"] = looked_at(cell)
    results.write_text(json.dumps(found))


def looked_at(cell: Cell) -> dict[str, Any]:
    model = build(cell)
    model.to = partial(fake_cuda.moved, model)
    strategy = strategy_class(cell.execution.strategy)(cell, model, torch.device("cuda", 0))
    made: set[str] = set()

    def note(module: nn.Module, inputs: tuple, output: Any) -> None:
        if type(module).__name__ == "Conv1D":
            made.add(str(output.dtype).removeprefix("torch."))

    hook = register_module_forward_hook(note)
    for number in range(2):
        with fake_cuda.Waits() as waits:
            step(strategy, number)
    hook.remove()
    names = [name for name, _ in strategy.module.named_parameters()]
    return {"waits": dict(waits.seen), "made": sorted(made), "parameters": names}


def step(strategy: Strategy, number: int) -> None:
    cell = strategy.cell
    rows = cell.batch.micro * cell.execution.geometry.devices_per_node // cell.processes_per_node
    for micro in range(strategy.accumulation):
        tokens = torch.randint(0, cell.vocab_size, (rows, cell.workload.seq_len + 1), device=strategy.device)
        strategy.micro_step(tokens, boundary=micro == strategy.accumulation - 1)
    strategy.update(number)


def copies(mode: FakeTensorMode) -> dict[str, Callable]:
    """DataParallel's copies between devices, which a torch without CUDA does not have."""
    turn = Lock()

    def apart(module: nn.Module, tokens: Tensor) -> Tensor:
        with turn, mode:  # a mode is that of one thread
            return module(tokens)

    def scatter(self: nn.DataParallel, inputs: tuple, kwargs: dict, devices: list) -> tuple[list, list]:
        return [(part,) for part in inputs[0].chunk(len(devices))], [{} for _ in devices]

    def replicate(self: nn.DataParallel, module: nn.Module, devices: list) -> list[Callable]:
        return [partial(apart, module) for _ in devices]

    def gather(self: nn.DataParallel, outputs: list[Tensor], device: int) -> Tensor:
        return torch.stack(outputs)

    return {"scatter": scatter, "replicate": replicate, "gather": gather}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
