"""What the trainer asks of a strategy; optimizer, learning rate and arithmetic, which strategies have in common."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import clip_grad_norm_, get_total_norm
from torch.optim import AdamW, Optimizer

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.config import Work
from scaleproof.ground.campaign.strategies import LOW

# The same first loss scale for every strategy; GradScaler's own 2^16 skips the first steps of a GPT-2.
INITIAL_SCALE_POWER = 12
DTYPES: dict[str, torch.dtype] = {name: getattr(torch, dtype) for name, dtype in LOW.items()}


class Strategy(ABC):
    """One way in which ranks share the work of an optimizer step.

    The trainer calls `micro_step` for every micro-batch of a step, with `boundary` for the last, and then `update`.
    """

    module: nn.Module
    optimizer: Optimizer

    def __init__(self, cell: Cell, model: nn.Module, device: torch.device) -> None:
        self.cell = cell
        self.device = device
        self.accumulation = cell.batch.accumulation
        self.prepare(model)

    @abstractmethod
    def prepare(self, model: nn.Module) -> None:
        """Wrap the model and make its optimizer."""

    @abstractmethod
    def micro_step(self, tokens: Tensor, boundary: bool) -> Tensor:
        """Make forward and backward pass of a micro-batch, and return this rank's mean loss, without waiting for it."""

    @abstractmethod
    def update(self, step: int) -> None:
        """Update the weights in step `step`, counted from 0 with warm-up: learning rate, clipping, optimizer."""

    def evaluate(self, tokens: Tensor) -> Tensor:
        """Return the scores of each sample of a micro-batch, without gradients: see `score_samples` in model/loss.py.

        All ranks must take part. The module stays in evaluation mode: nothing is trained after it.
        """
        self.module.eval()
        with torch.no_grad():
            return self.module(tokens)

    def executed_updates(self) -> int:
        """Return how many updates AdamW has counted: all but those that overflowed in fp16. Waits for the device."""
        return max((int(state["step"]) for state in self.optimizer.state.values()), default=0)

    def engine_config(self) -> dict | None:
        """Return the effective configuration of the strategy's engine. Returns None without an engine."""
        return None

    def dtypes(self) -> dict[str, str]:
        """Return the dtypes of "parameters" and "optimizer_state": key -> "float32", or several joined by "+"."""
        state_values = [value for state in self.optimizer.state.values() for value in state.values()]
        moments = [value for value in state_values if isinstance(value, Tensor) and value.dim()]  # no counts of steps
        return {
            "parameters": dtype_names(parameter.dtype for parameter in self.module.parameters()),
            "optimizer_state": dtype_names(moment.dtype for moment in moments),
        }


class Native(Strategy):
    """Strategies that torch itself has: they differ in how the model is wrapped and when ranks synchronise."""

    # Whether the optimizer can take the clipping factor instead of a pass over all gradients. It cannot with DTensors:
    # their norm is itself distributed.
    folds_clipping = True

    def prepare(self, model: nn.Module) -> None:
        """Wrap the model, moved to the device, and make its optimizer."""
        self.precision = Precision(self.cell.execution.precision, self.device)
        self.module = self.wrap(model)
        self.optimizer = make_optimizer(self.module, self.cell)
        # A CUDA graph that makes gradient tensors overwrites them when it runs again; to tensors that are there it
        # adds. Therefore they are made here, and never freed.
        self.keeps_gradients = self.cell.execution.compile == "reduce-overhead"
        if self.keeps_gradients:
            for parameter in self.module.parameters():
                parameter.grad = torch.zeros_like(parameter)

    @abstractmethod
    def wrap(self, model: nn.Module) -> nn.Module:
        """Return the module that the trainer calls, on the device, whose parameters the optimizer updates."""

    def synchronising(self, boundary: bool) -> AbstractContextManager:
        """Return the context of a micro-batch's passes. Ranks exchange gradients if it is the step's last (`boundary`).

        This one does nothing, as on one device there are no other ranks.
        """
        return nullcontext()

    def micro_step(self, tokens: Tensor, boundary: bool) -> Tensor:
        """Make forward and backward pass of a micro-batch in the cell's precision, in fp16 with a scaled loss."""
        with self.synchronising(boundary):
            with self.precision.autocast():
                loss = self.module(tokens).mean()  # nn.DataParallel returns one loss a device
            self.precision.scaler.scale(loss / self.accumulation).backward()
        return loss.detach()

    def evaluate(self, tokens: Tensor) -> Tensor:
        """Do as `Strategy.evaluate`, in the cell's precision."""
        with self.precision.autocast():
            return super().evaluate(tokens)

    def update(self, step: int) -> None:
        """Set the learning rate, clip, update the weights (not after an overflow), and clear the gradients."""
        work = self.cell.work
        scaler = self.precision.scaler
        set_learning_rate(self.optimizer, learning_rate(work, step))
        if work.optimizer.max_grad_norm:
            self._clip(work.optimizer.max_grad_norm)
        scaler.step(self.optimizer)
        scaler.update()
        self.optimizer.zero_grad(set_to_none=not self.keeps_gradients)

    def _clip(self, max_norm: float) -> None:
        """Clip the global norm of the gradients to `max_norm`.

        The fused AdamW can do so within its update: it divides gradients by its `grad_scale` as it reads them, which
        saves a pass over all of them. The result equals torch's own clipping but for the last bit (a division instead
        of a product).
        """
        within_update = self.folds_clipping and self.cell.execution.fused_optimizer
        if self.precision.scaler.is_enabled() or not within_update:
            self.precision.scaler.unscale_(self.optimizer)
            clip_grad_norm_(self.module.parameters(), max_norm)
            return
        norm = get_total_norm([parameter.grad for parameter in self.module.parameters() if parameter.grad is not None])
        factor = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
        vars(self.optimizer)["grad_scale"] = factor.reciprocal()  # the fused step reads this attribute, if it is there


def dtype_names(dtypes: Iterable[torch.dtype]) -> str:
    """Return the names of dtypes as text: "bfloat16+float32"."""
    return "+".join(sorted({str(dtype).removeprefix("torch.") for dtype in dtypes}))


def local_shard(tensor: Tensor) -> Tensor:
    """Return this rank's shard of a tensor, or the whole tensor if it is not sharded, detached."""
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach()


def compile_if_asked(module: nn.Module, cell: Cell) -> nn.Module:
    """Return the module, compiled if the cell says so."""
    options = compile_options(cell)
    return module if options is None else cast(nn.Module, torch.compile(module, **options))


def compile_options(cell: Cell) -> dict[str, Any] | None:
    """Return the arguments of torch.compile for the model or its blocks. None where a cell does not compile these."""
    if cell.execution.compile is True:
        return {}
    # The cell's `compile` -> torch's mode. torch's own max-autotune would use CUDA graphs, as reduce-overhead does.
    modes = {"max-autotune": "max-autotune-no-cudagraphs", "reduce-overhead": "reduce-overhead"}
    mode = modes.get(str(cell.execution.compile))
    return {"mode": mode} if mode else None


def make_optimizer(model: nn.Module, cell: Cell) -> Optimizer:
    """Return AdamW for `model`, with weight decay on matrices, not on biases and norms (as in nanoGPT and llm.c)."""
    work = cell.work
    settings = work.optimizer
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    matrices = [parameter for parameter in trained if parameter.dim() >= 2]
    biases_and_norms = [parameter for parameter in trained if parameter.dim() < 2]

    return AdamW(
        [
            {"params": matrices, "weight_decay": settings.weight_decay},
            {"params": biases_and_norms, "weight_decay": 0.0},
        ],
        lr=learning_rate(work, 0),
        betas=settings.betas,
        eps=settings.eps,
        fused=cell.execution.fused_optimizer,
    )


def learning_rate(work: Work, step: int) -> float:
    """Return the learning rate of step `step`, counted from 0 over warm-up and window.

    It rises linearly to its peak. Then it stays, or falls as a line or a cosine to a fraction of it at the last step.
    """
    peak = work.optimizer.learning_rate
    schedule = work.schedule
    if step < schedule.ramp_steps:
        return peak * (step + 1) / schedule.ramp_steps
    if schedule.name == "constant":
        return peak
    total_steps = work.warmup_steps + work.steps
    progress = min(1.0, (step - schedule.ramp_steps) / max(1, total_steps - schedule.ramp_steps))
    # The remaining part of the fall: from 1 at the peak to 0 at the end.
    remaining = {"linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}[schedule.name]
    return peak * (schedule.final_fraction + (1 - schedule.final_fraction) * remaining)


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """Set the learning rate of all parameter groups."""
    for group in optimizer.param_groups:
        group["lr"] = rate


class Precision:
    """Number formats of a run: fp32 parameters, the format of matrix products, and a loss scaler for fp16."""

    def __init__(self, name: str, device: torch.device, autocast: bool = True) -> None:
        """Set torch's precision to `name`: fp32, tf32, bf16, fp16. `autocast`: False where something else casts."""
        self.low = DTYPES.get(name) if autocast else None
        self.device = device
        set_matmul_precision(name)
        self.scaler = torch.amp.GradScaler(device.type, init_scale=2.0**INITIAL_SCALE_POWER, enabled=name == "fp16")

    def autocast(self) -> AbstractContextManager:
        """Return the context of forward passes: torch's autocast for bf16 and fp16, else an empty one."""
        return torch.autocast(self.device.type, self.low) if self.low else nullcontext()


def set_matmul_precision(name: str) -> None:
    """Allow TF32 in matrix products for the precision tf32, and strict fp32 alone for any other."""
    torch.set_float32_matmul_precision("high" if name == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = name == "tf32"
