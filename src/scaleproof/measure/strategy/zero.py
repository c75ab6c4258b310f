"""DeepSpeed ZeRO, stages 0 to 3, optionally with the optimizer on the CPU; its configuration is made from the cell."""

import os
from typing import Any

import torch
from torch import Tensor, nn

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.strategies import LOW, STAGES, is_offloaded, without_offload
from scaleproof.measure.strategy.base import (
    INITIAL_SCALE_POWER,
    Strategy,
    compile_options,
    learning_rate,
    make_optimizer,
    set_learning_rate,
    set_matmul_precision,
)

BUCKET = 500_000_000  # DeepSpeed's default of both bucket sizes, in elements


class Zero(Strategy):
    """DeepSpeed's ZeRO. Stage 0 replicates all; 1 shards the optimizer's state, 2 also gradients, 3 also parameters."""

    def prepare(self, model: nn.Module) -> None:
        """Make DeepSpeed's engine around the model and torch's AdamW."""
        deepspeed = _import_deepspeed(self.device)
        set_matmul_precision(self.cell.execution.precision)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        self.config = make_config(self.cell, parameters)
        optimizer = make_optimizer(model.to(self.device), self.cell)
        self.engine, *_ = deepspeed.initialize(
            model=model, optimizer=optimizer, config=self.config, dist_init_required=False
        )
        if self.cell.execution.precision == "fp16" and self.config["zero_optimization"]["stage"] == 0:
            # DeepSpeed's own loss scaler would begin with torch's default; all strategies begin with the same scale.
            scaler = torch.amp.GradScaler(self.device.type, init_scale=2.0**INITIAL_SCALE_POWER)
            self.engine.torch_autocast_z0_gradscaler = scaler
        options = compile_options(self.cell)
        if options is not None:
            self.engine.compile(compile_kwargs=options)
        self.module = self.engine
        self.optimizer = optimizer

    def micro_step(self, tokens: Tensor, boundary: bool) -> Tensor:
        """Make forward and backward pass of a micro-batch, the step's last if `boundary`, and return its loss.

        DeepSpeed's `step` is due after each micro-batch. After the last one it updates the weights, and is left to
        `update`; after the others it only counts.
        """
        loss = self.engine(tokens)
        # The engine divides by the accumulation and knows from its own count of micro-batches when to reduce: in
        # stages 0 and 1 at the boundary, in stages 2 and 3 after each, since no device keeps whole gradients.
        self.engine.backward(loss)
        if not boundary:
            self.engine.step()  # counts the micro-batch; no weight changes
        return loss.detach()

    def update(self, step: int) -> None:
        """Set the learning rate of step `step`, and update the weights after its last micro-batch."""
        set_learning_rate(self.engine.optimizer, learning_rate(self.cell.work, step))
        self.engine.step()  # counts the last micro-batch, clips, updates, and zeroes the gradients

    def engine_config(self) -> dict[str, Any]:
        """Return the configuration given to the engine, with the ZeRO settings that the engine made of it."""
        # Private: `engine.config` is what the engine was given, without the settings that it has chosen itself.
        zero_settings = self.engine._config.zero_config.model_dump(mode="json")
        overlap = getattr(self.engine.optimizer, "overlap_comm", None)  # the optimizer that runs may have this setting
        if overlap is not None:
            zero_settings["overlap_comm"] = bool(overlap)
        timers = {"wall_clock_breakdown": self.engine.wall_clock_breakdown()}  # a variable may have put them on
        return self.config | timers | {"zero_optimization": zero_settings}


def make_config(cell: Cell, parameters: int) -> dict[str, Any]:
    """Return DeepSpeed's configuration of a cell whose model has `parameters` parameters.

    The engine's timers are off: on a GPU they synchronise twice in every micro-step, which no other strategy does.
    """
    execution, batch = cell.execution, cell.batch
    stage = STAGES[without_offload(execution.strategy)]
    # Buffers have a bucket's size: a bucket need not be larger than the model.
    bucket_elements = BUCKET if execution.bucket_elements == "auto" else execution.bucket_elements
    bucket_elements = min(bucket_elements, parameters)
    if stage in (1, 2):
        bucket_elements += bucket_elements % 2  # these stages refuse odd sizes

    zero: dict = {"stage": stage}
    if stage:
        zero |= {"reduce_bucket_size": bucket_elements, "allgather_bucket_size": bucket_elements}
    if stage and execution.overlap_comm != "auto":
        zero["overlap_comm"] = execution.overlap_comm
    if is_offloaded(execution.strategy):
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": torch.cuda.is_available()}
    return {
        "train_batch_size": batch.global_,
        "train_micro_batch_size_per_gpu": batch.micro,
        "gradient_accumulation_steps": batch.accumulation,
        "gradient_clipping": cell.work.optimizer.max_grad_norm,
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,  # torch's AdamW, the same as everywhere else
        "zero_force_ds_cpu_optimizer": False,
        "wall_clock_breakdown": False,
        "timers": {"throughput": {"enabled": False, "synchronized": False}},
        "steps_per_print": 10**9,
        **_precision_options(execution.precision, stage),
    }


def _precision_options(precision: str, stage: int) -> dict[str, Any]:
    """Return the keys of DeepSpeed's configuration for a precision (fp32, tf32, bf16, fp16) and a stage of ZeRO."""
    if precision not in LOW:
        return {}
    if stage == 0:
        # DeepSpeed's own bf16 keeps no fp32 master weights at stage 0; autocast does.
        return {"torch_autocast": {"enabled": True, "dtype": LOW[precision]}}
    if precision == "bf16":
        # The look for overflows reads the gradients' norm on the host in every update; bf16 has the range of fp32.
        return {"bf16": {"enabled": True, "check_grad_overflow": False}}
    return {"fp16": {"enabled": True, "initial_scale_power": INITIAL_SCALE_POWER}}


def _import_deepspeed(device: torch.device) -> Any:
    """Import DeepSpeed, with warnings alone, and on a CPU without the extension that it would compile with g++."""
    import logging

    if device.type == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    import deepspeed

    logging.getLogger("DeepSpeed").setLevel(logging.WARNING)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # the extension
    # Without NVTX domains ranges go through torch, as before DeepSpeed's pull request 7988. With domains the package
    # nvtx makes them, where it is installed, by a function that its versions before 0.2.15 lack.
    deepspeed.accelerator.get_accelerator().supports_nvtx_domain = False
    return deepspeed
