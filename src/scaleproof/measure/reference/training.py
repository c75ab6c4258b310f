"""The training steps of the replay, in strict fp32 on one device: losses, norms, validation, and memory.

The update is AdamW of `torch.optim` with decoupled weight decay on tensors of two
or more dimensions and none on the others, after the gradients' total 2-norm has
been clipped; the loss of a step is the mean over the samples of the global batch.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import torch
from torch import Tensor, nn

from scaleproof.measure.reference.network import configuration_of
from scaleproof.measure.reference.samples import SplitSamples, step_ids

ROWS_AT_ONCE = 8  # most rows that go through a model together, whatever the cell's micro-batch
BYTES_OF_PARAMETER = 24  # weight, gradient, two moments, what the update needs meanwhile, and the weight at the start
GoesOn = Callable[[int], bool]  # whether a step follows after so many steps
CGROUP = Path("/proc/self/cgroup")
CGROUPS = Path("/sys/fs/cgroup")


class CutShort(Exception):
    """Raised where a replay ends early, because time or memory does not suffice; the message says which."""


@dataclass(frozen=True)
class Rounding:
    """How a replay differs from another one in rounding alone.

    `order`: 0 for the rows of each step in the order of the rule, else the seed of another order. `factor` multiplies
    the loss, and is divided out of the gradients: if it is no power of two, each product of the backward pass is
    rounded otherwise, so that steps of one row differ too.
    """

    order: int = 0
    factor: float = 1.0


ROWS_AS_WRITTEN = Rounding()
OTHER_ORDERS = (Rounding(1, 3.0), Rounding(2, 5.0))


@dataclass
class TrainedSteps:
    """The steps of one replay so far. `rows`: how many rows go through the model at once, as memory allows."""

    rows: int
    losses: list[float] = field(default_factory=list)
    gradient_norms: list[float] = field(default_factory=list)
    validation_loss: float | None = None

    def fields(self) -> dict[str, Any]:
        """Return the steps as fields of a Reference or a Repetition."""
        return {"losses": self.losses, "gradient_norms": self.gradient_norms, "validation_loss": self.validation_loss}


def make_steps(
    model: nn.Module,
    train: SplitSamples,
    work: dict[str, Any],
    made: TrainedSteps,
    rounding: Rounding,
    goes_on: GoesOn,
    deadline: float,
) -> None:
    """Train `model` from step 0 on while `goes_on(number of steps)`, and append each step to `made`.

    `work`: the section of the effective configuration. Raises CutShort at `deadline` (of `time.monotonic`), where not
    even one row fits into memory, and where a loss or a norm is no finite number.
    """
    optimizer = make_adamw(model, work["optimizer"])
    while goes_on(step := len(made.losses)):
        ids = step_ids(train.count, work["global_batch"], work["seed"], step)
        if rounding.order:
            ids = np.random.RandomState((rounding.order, step)).permutation(ids)
        rows = torch.from_numpy(train.rows(ids)).to(next(model.parameters()).device)
        loss = _gradients_in_memory(model, rows, made, rounding.factor, deadline)
        norm = clip_gradients(model.parameters(), work["optimizer"]["max_grad_norm"])
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise CutShort(f"in step {step} the loss is {loss:.4g} and the norm of the gradients {norm:.4g}")
        made.losses.append(loss)
        made.gradient_norms.append(norm)
        for group in optimizer.param_groups:  # by the written rule, without torch's schedulers
            group["lr"] = rate_of_step(work, step)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def _gradients_in_memory(model: nn.Module, rows: Tensor, made: TrainedSteps, factor: float, deadline: float) -> float:
    """Do as `add_gradients`, again with half as many rows at once (`made.rows`) where memory runs out.

    Raises CutShort where one row does not fit, or at `deadline`.
    """
    while True:
        try:
            return add_gradients(model, rows, made.rows, factor, deadline)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        if made.rows == 1:
            raise CutShort("memory does not suffice for one row")
        made.rows //= 2
        model.zero_grad(set_to_none=True)
        if rows.is_cuda:
            torch.cuda.empty_cache()


def add_gradients(
    model: nn.Module, rows: Tensor, at_once: int, factor: float = 1.0, deadline: float = math.inf
) -> float:
    """Add the gradients of the rows' mean loss to the parameters, and return that loss.

    `at_once`: rows that go through the model together. `factor`: as in a Rounding. Raises CutShort at `deadline`.
    """
    total_loss = 0.0
    for some_rows in rows.split(at_once):
        if time.monotonic() > deadline:
            raise CutShort("its time was over within a step")
        losses = model(some_rows)
        (losses.sum() * (factor / len(rows))).backward()
        total_loss += float(losses.detach().double().sum())
    if factor != 1:  # it has changed the rounding, and is divided out
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.div_(factor)
    return total_loss / len(rows)


def mean_loss(model: nn.Module, samples: SplitSamples, ids: np.ndarray, at_once: int, deadline: float) -> float:
    """Return the mean loss over the samples with these `ids`, `at_once` at a time. Raises CutShort at `deadline`."""
    model.eval()
    device = next(model.parameters()).device
    total_loss = 0.0
    with torch.no_grad():
        for first in range(0, len(ids), at_once):
            if time.monotonic() > deadline:
                raise CutShort(f"its time was over after {first:,} of the {len(ids):,} validation samples")
            rows = torch.from_numpy(samples.rows(ids[first : first + at_once])).to(device)
            total_loss += float(model(rows).double().sum())
    return total_loss / len(ids)


def make_adamw(model: nn.Module, options: dict[str, Any], fused: bool = False) -> torch.optim.AdamW:
    """Return AdamW with weight decay on tensors of two or more dimensions.

    `options`: the section `optimizer` of the configuration. The training loop sets the learning rate of each step.
    """
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    others = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": options["weight_decay"]}, {"params": others, "weight_decay": 0.0}],
        lr=options["learning_rate"],
        betas=tuple(options["betas"]),
        eps=options["eps"],
        fused=fused or None,  # None: torch chooses
    )


def clip_gradients(parameters: Iterable[Tensor], limit: float) -> float:
    """Scale all gradients to a total 2-norm of at most `limit` (0: no limit), and return the norm before that."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = math.sqrt(sum(float(gradient.pow(2).sum()) for gradient in gradients))
    if limit:
        for gradient in gradients:
            gradient.mul_(min(1.0, limit / (norm + 1e-6)))
    return norm


def rate_of_step(work: dict[str, Any], step: int) -> float:
    """Return the learning rate of a step, counted from 0 over warm-up and window.

    It rises linearly over `ramp_steps` (step k has (k + 1) / ramp_steps of the peak). Then it is constant, or falls as
    a line or half a cosine to `final_fraction` of the peak at the end of the run.
    """
    peak = work["optimizer"]["learning_rate"]
    schedule = work["schedule"]
    ramp_steps = schedule["ramp_steps"]
    if step < ramp_steps:
        return peak * (step + 1) / ramp_steps
    if schedule["name"] == "constant":
        return peak
    total_steps = work["warmup_steps"] + work["steps"]
    progress = min(1.0, (step - ramp_steps) / max(1, total_steps - ramp_steps))
    remaining = {"linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}[schedule["name"]]
    final_fraction = schedule["final_fraction"]
    return peak * (final_fraction + (1 - final_fraction) * remaining)


def rows_that_fit(workload: dict[str, Any], parameters: int, device: torch.device) -> int:
    """Return how many rows, 0 to ROWS_AT_ONCE, fit into free memory for forward and backward pass."""
    bytes_left = free_bytes(device) - BYTES_OF_PARAMETER * parameters
    return int(max(0, min(ROWS_AT_ONCE, bytes_left / bytes_of_row(workload))))


def bytes_of_row(workload: dict[str, Any]) -> int:
    """Return the bytes that a row keeps for its backward pass, in fp32 with plain attention.

    Each place of a row keeps 50 vectors of the model's width and 3 rows of each head's attention matrix in every layer;
    in a language model also 5 copies of the logits. Runs took 0.55 to 1.0 of that.
    """
    places = workload["seq_len"]
    layers, width, heads = _layers_width_heads(workload["model_shape"])
    logits = 0 if workload.get("task") == "classification" else 5 * workload["vocab_size"]
    numbers_of_place = logits + layers * (50 * width + 3 * heads * places)
    return int(4 * places * numbers_of_place)


def _layers_width_heads(shape: dict[str, Any]) -> tuple[int, int, int]:
    """Return layers, width and heads of a model, zeros for unknown ones of a model that a Python function makes."""
    if "function" in shape:
        return 0, 0, 0
    if "d_model" in shape:
        return shape["layers"], shape["d_model"], shape["heads"]
    config = configuration_of(shape)
    hidden_layer = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
    # The 50 vectors of `bytes_of_row` are those of a block whose hidden layer is 4 widths; a larger one keeps more.
    return config.num_hidden_layers, round(max(config.hidden_size, hidden_layer / 4)), config.num_attention_heads


def free_bytes(device: torch.device) -> int:
    """Return the bytes that this process may still take on `device`, on a CPU within limits of control groups."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return int(min([psutil.virtual_memory().available, *_left_by_control_groups()]))


def _left_by_control_groups() -> Iterator[int]:
    """Yield the bytes that each control group (version 2) of this process leaves, the innermost first."""
    with suppress(OSError, ValueError, StopIteration):
        line = next(line for line in CGROUP.read_text().splitlines() if line.startswith("0::"))  # the line of version 2
        own_group = CGROUPS / line.removeprefix("0::").strip().lstrip("/")
        for group in (own_group, *own_group.parents):
            with suppress(OSError, ValueError, KeyError):  # ValueError: "max", no limit; OSError: the root has no file
                limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
                statistics = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
                cached = int(statistics["active_file"]) + int(statistics["inactive_file"])  # the kernel can free them
                yield limit - used + cached


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error` says that memory ran out, of a device or of the host."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)
