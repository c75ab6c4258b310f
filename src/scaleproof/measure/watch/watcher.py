"""What is seen of a training loop through hooks on its model and its optimizer.

Nothing waits for a GPU before the last step is done: norms, checksums and losses stay where they are made.
"""

import atexit
import os
import platform
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from scaleproof.ground.cores import cores_of_this_process
from scaleproof.ground.errors import UserError, describe_first_fault
from scaleproof.ground.records.watched import FOLDER, VARIABLE, UpdateNorms, WatchedRank
from scaleproof.measure.machine import accelerator
from scaleproof.measure.machine.provenance import OF_PROGRAMS, versions_of
from scaleproof.measure.strategy.base import dtype_names, local_shard
from scaleproof.measure.trainer.census import elements_of, weights_checksum
from scaleproof.measure.trainer.probe import OperationCounter
from scaleproof.measure.trainer.timed_loop import StepTimer
from scaleproof.measure.watch.kept_values import Kept, mean_losses, nested_values, norm_of_all, to_keep

PROBED_STEP = 1  # counted from 0: the first has what is only done once
LOOKS_UP_TO, LOOK_EVERY = 3, 100  # steps whose norms are taken: the first ones, then one of so many
WATCHED_ELEMENTS = 1_000_000  # of parameters whose change is measured
CHECKED_ELEMENTS = 1 << 16  # of an input that its checksum is made of
TRACED_ELEMENTS = 1 << 12  # of a parameter that is looked at in each step

LAYERS = (nn.Linear, nn.modules.conv._ConvNd)


@dataclass
class Step:
    """What entered the model, and left it, from one update to the next."""

    samples: int = 0
    tokens: int = 0
    batches: list[Kept] = field(default_factory=list)  # checksums of the inputs
    losses: list[Kept] = field(default_factory=list)
    backward: set[int] = field(default_factory=set)  # forward passes, by number, whose output has got a gradient


class Watcher:
    """The record of one rank, from `start` to `finish`. The optimizer's own hook ends a step."""

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, folder: str | Path | None = None, loader: object = None
    ) -> None:
        """Begin to watch, with no step made. `loader`: what the batches come from, or their number.

        `folder`: where the file of this rank is written; None: that of SCALEPROOF_WATCH, else scaleproof-watch.
        """
        self.model = model
        self.loader_batches = _batches_of_loader(loader)
        self.optimizer: Optimizer = getattr(optimizer, "optimizer", optimizer)  # inside of accelerate's wrapper
        self.folder = Path(folder or os.environ.get(VARIABLE) or FOLDER)
        self.device = next(model.parameters()).device
        self.timer = StepTimer(self.device)
        self.made: list[Step] = []
        self.now = Step()  # the one that is being made
        self.norms: list[tuple[int, Tensor, Tensor, Tensor]] = []  # step; norms of gradients, of update, of weights
        self.forwards = 0  # in training
        self.evaluated: set[int] = set()  # steps in which a gradient came back from a model in evaluation mode
        self.layer_dtypes: Counter[torch.dtype] = Counter()  # of what the largest layer returns
        self.float32_products: set[str] = set()
        self._traced: list[Tensor] = []  # parameters
        self.traces: list[Kept] = []  # their checksums: of all at the start, and of one after each step
        self.counter: OperationCounter | None = None
        self.probing = ExitStack()  # holds the counter while its step is made
        self.before: list[Tensor] = []  # copies of the watched parameters before an update
        # Parameters with a gradient that the optimizer does not have: where it is largest, and the weight there.
        self.left_out: list[tuple[Tensor, Tensor, Tensor]] = []
        self._followed: Tensor | None = None  # a parameter of whose gradient the next four are
        self._kept: Tensor | None = None  # a copy of it, made after the update before
        self._is_left: bool | Tensor = False  # whether it is there still, as a backward pass comes to add to it
        self._left: list[bool | Tensor] = []  # the same, of each backward pass since the update before
        self.carried: list[bool | Tensor] = []  # the same, of those between the first updates
        self._weights: dict[tuple[int, torch.device], Tensor] = {}  # length, place -> 1 to length, for a checksum
        self._hooks: list[Any] = []
        self._hooks_of_gradient: list[Any] = []  # in place until the first updates are done

    def start(self, by_hooks: bool = True) -> None:
        """Hook model and optimizer, and start the clock.

        `by_hooks`: False where a framework calls `record_inputs`, `see_loss` and `note_gradients` itself. Raises
        UserError where the folder of the records cannot be made.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:  # now, and not after the training
            raise UserError(f"the records cannot go to the folder {describe_first_fault(error)}") from None
        accelerator.reset_peaks(self.device)
        self._hooks = [self.optimizer.register_step_post_hook(self._note_update)]
        layers = [
            module for module in self.model.modules() if isinstance(module, LAYERS) and not is_lazy(module.weight)
        ]
        if layers and not _is_compiled(self.model):
            largest = max(layers, key=lambda layer: layer.weight.numel())
            self._hooks.append(largest.register_forward_hook(self._after_layer))
        if by_hooks:
            forward: Callable[..., Any] = self._note_inputs
            self._hooks += [
                self.model.register_forward_pre_hook(forward, with_kwargs=True),
                self.model.register_forward_hook(self._note_loss),
                self.optimizer.register_step_pre_hook(self.note_gradients),
            ]
        trained = [parameter for parameter in self._parameters() if parameter.requires_grad]
        self._traced = [p for p in trained if type(local_shard(p).detach()) is Tensor and not p.is_complex()]
        self._trace(self._traced)
        if self._traced and not _is_compiled(self.model):
            few = [p for p in self._traced if p.numel() <= CHECKED_ELEMENTS]
            followed = max(few, key=Tensor.numel) if few else min(self._traced, key=Tensor.numel)
            self._followed = followed
            self._hooks_of_gradient = [
                followed.register_hook(self._before_gradient),
                followed.register_post_accumulate_grad_hook(self._after_gradient),
            ]
        atexit.register(self.finish)  # of a program that is ended, whose framework calls nothing then
        self.timer.start()

    @property
    def steps(self) -> int:
        """Optimizer steps that are done."""
        return len(self.made)

    def see_loss(self, loss: Tensor) -> None:
        """Note the loss of a forward pass, where the model does not return it."""
        self.now.losses.append(loss.detach())

    def _note_inputs(self, module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Count a forward pass in training, and note what enters the model: torch's hook before it."""
        if module.training and torch.is_grad_enabled():
            self.forwards += 1
            if torch._C._current_graph_task_id() != -1:  # made in a backward pass, by a checkpoint around the model
                self.now.backward.add(self.forwards)
            self.record_inputs((*arguments, *named.values()))

    def record_inputs(self, arguments: tuple[Any, ...]) -> None:
        """Note samples and tokens of the first tensor in `arguments`, or nested there, and a checksum of all."""
        inputs = [value for value in (*arguments, *nested_values(arguments)) if isinstance(value, Tensor)]
        if not inputs:
            return
        first = inputs[0].detach()
        self.now.samples += len(first) if first.dim() else 1
        if not first.is_floating_point():
            self.now.tokens += first.numel()
        dense = [local_shard(value) for value in inputs if value.layout == torch.strided and not value.is_complex()]
        checksums = [place * self._checksum(value).to(self.device) for place, value in enumerate(dense, start=1)]
        if checksums:
            self.now.batches.append(torch.stack(checksums).sum())

    def _checksum(self, values: Tensor) -> Tensor:
        """Return a weighted sum of `values`, made on their device, that another order or another element changes."""
        flat = values.flatten()[:CHECKED_ELEMENTS]
        kind = (len(flat), flat.device)
        if kind not in self._weights:
            self._weights[kind] = torch.arange(1, len(flat) + 1, device=flat.device)
        # Of floating-point numbers the bits, as integers; the weights are of 64 bits, and so is the product.
        integers = flat.float().view(torch.int32) if flat.is_floating_point() else flat.long()
        return (integers * self._weights[kind]).sum()

    def _note_loss(self, module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        """Watch for a gradient of the output; in training, note the loss: its `loss`, or a single number in it."""
        if not torch.is_grad_enabled():
            return
        seen, number = (self.now.backward, self.forwards) if module.training else (self.evaluated, self.steps)
        for value in (output, *nested_values((output,))):
            if isinstance(value, Tensor) and value.requires_grad:
                value.register_hook(lambda _: seen.add(number))
        if not module.training:
            return
        named = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
        # (loss, logits), or (logits, loss). One element in a dimension may be the model's output for one sample.
        returned = output if isinstance(output, tuple | list) else [output]
        numbers = [value for value in returned if isinstance(value, Tensor) and value.dim() == 0]
        loss = named if isinstance(named, Tensor) and named.numel() == 1 else next(iter(numbers), None)
        if loss is not None and loss.is_floating_point():
            self.see_loss(loss.detach().reshape(()))

    def _gradient(self) -> Tensor | None:
        """Return the gradient of the followed parameter, of a large one its beginning; None where it has none."""
        gradient = None if self._followed is None else self._followed.grad
        return None if gradient is None else local_shard(gradient).flatten()[:CHECKED_ELEMENTS]

    @torch.no_grad()
    def _before_gradient(self, _: Tensor) -> None:
        """Look whether the gradient of the update before is still there (in the first pass after it: unchanged)."""
        gradient, before = self._gradient(), self._kept
        self._is_left = (
            gradient is not None
            and before is not None
            and (gradient.any() if self._left else gradient.any() & (gradient == before).all())
        )

    def _after_gradient(self, _: Tensor) -> None:
        """Note that a backward pass has added to the gradient; autograd.grad, which adds nothing, never gets here."""
        self._left.append(self._is_left)

    @torch.no_grad()
    def _keep_gradient(self) -> None:
        """Copy the gradient after an update, and keep what the backward passes since the update before have found."""
        gradient = self._gradient()
        self.carried += self._left if self._kept is not None else []
        self._left = []
        if self.steps < LOOKS_UP_TO:
            self._kept = None if gradient is None else gradient.clone()
        else:
            for hook in self._hooks_of_gradient:
                hook.remove()

    def _after_layer(self, layer: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        """Count the dtype of what a layer returns in training: torch's hook after its forward pass."""
        if layer.training and torch.is_grad_enabled() and isinstance(output, Tensor):
            self.layer_dtypes[output.dtype] += 1

    def _trace(self, parameters: list[Tensor]) -> None:
        """Keep a checksum of the first elements of each of `parameters`, which shows whether updates change them."""
        parts = [local_shard(parameter).flatten()[:TRACED_ELEMENTS] for parameter in parameters]
        if parts:
            first, *others = [self._checksum(part).to(self.device) for part in parts]
            self.traces += to_keep([sum(others, start=first)])

    def _looks_now(self) -> bool:
        """Return whether norms are taken in the step that is being made."""
        return self.steps < LOOKS_UP_TO or self.steps % LOOK_EVERY == 0

    def note_gradients(self, *_: Any) -> None:
        """Before an update whose norms are taken, take that of the gradients and copy the watched parameters."""
        if self._looks_now():
            self._look_at_gradients()

    @torch.no_grad()
    def _look_at_gradients(self) -> None:
        """Take the norm of the gradients, copy the watched parameters, and note gradients that no update will use."""
        gradients = [local_shard(parameter.grad) for parameter in self._parameters() if parameter.grad is not None]
        # Of an optimizer that calls a closure, gradients are made later.
        are_made = gradients and self.now.batches
        self._gradient_norm = norm_of_all(gradients, self.device) if are_made else torch.tensor(torch.nan)
        if not self.steps:
            self._note_left_out()
        self.before = [parameter.clone() for parameter in self._watched_parameters()]

    def _note_left_out(self) -> None:
        """Note parameters that have a gradient and are not the optimizer's: nothing, or another one, updates them."""
        updated = set(map(id, self._parameters()))
        for parameter in self.model.parameters():
            if parameter.grad is None or id(parameter) in updated or parameter.grad.layout != torch.strided:
                continue
            sizes = local_shard(parameter.grad).flatten().abs()
            if sizes.numel():
                at = sizes.argmax()
                self.left_out.append((parameter, torch.stack([at, sizes[at] != 0]), _element(parameter, at)))

    def _note_update(self, *_: Any) -> None:
        """After an update, note its size, end the step, and begin the next one."""
        if self._looks_now():
            self._look_at_update()
        if self.steps <= LOOKS_UP_TO:
            self._keep_gradient()
        self.probing.close()
        self.timer.mark()
        turn = self.steps % max(len(self._traced), 1)
        self._trace(self._traced[turn : turn + 1])
        self.float32_products.add(torch.get_float32_matmul_precision())
        self.now.losses, self.now.batches = to_keep(self.now.losses), to_keep(self.now.batches)
        self.made.append(self.now)
        self.now = Step()
        if self.steps == PROBED_STEP and not _is_compiled(self.model):
            self.counter = self.probing.enter_context(OperationCounter())

    @torch.no_grad()
    def _look_at_update(self) -> None:
        """Take the norms of the update and of the weights before it."""
        changes = [new - old for new, old in zip(self._watched_parameters(), self.before, strict=True)]
        norms = norm_of_all(changes, self.device), norm_of_all(self.before, self.device)
        self.norms.append((self.steps, self._gradient_norm, *norms))
        self.before = []

    def _parameters(self) -> list[Tensor]:
        """Return the parameters that the optimizer updates."""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def _watched_parameters(self) -> list[Tensor]:
        """Return this rank's parts of the smallest trained parameters: of WATCHED_ELEMENTS elements, or one."""
        parts = sorted((local_shard(p) for p in self._parameters() if p.requires_grad), key=Tensor.numel)
        few = sum(elements <= WATCHED_ELEMENTS for elements in accumulate(map(Tensor.numel, parts)))
        return parts[: max(few, 1)]

    def finish(self) -> WatchedRank:
        """Take the hooks away, stop the clock, write the file of this rank, and return what it holds."""
        atexit.unregister(self.finish)
        self.probing.close()
        for hook in (*self._hooks, *self._hooks_of_gradient):
            hook.remove()
        record = self._describe_rank(*self.timer.stop())
        (self.folder / f"watched.{record.rank}.json").write_text(record.model_dump_json(indent=1) + "\n")
        return record

    def _describe_rank(self, step_s: np.ndarray, wall_s: float) -> WatchedRank:
        """Return the record of this rank. `step_s`: seconds of each step; `wall_s`: of all, by the host's clock."""
        # FSDP of torch 1 keeps parts of flattened parameters in place of the model's own, under private names.
        flat = [m._flat_param for m in self.model.modules() if isinstance(m, FullyShardedDataParallel)]
        parameters: list[nn.Parameter] = [p for p in flat if p is not None] or list(self.model.parameters())
        cuda = self.device.type == "cuda"
        memory = accelerator.memory_peaks(self.device)
        return WatchedRank(
            rank=dist.get_rank() if dist.is_initialized() else int(os.environ.get("RANK", 0)),
            world_size=dist.get_world_size() if dist.is_initialized() else int(os.environ.get("WORLD_SIZE", 1)),
            host=socket.gethostname(),
            device_name=torch.cuda.get_device_name(self.device) if cuda else self.device.type,
            clock="cuda_events" if cuda else "monotonic",
            step_s=[float(seconds) for seconds in step_s],
            samples=[step.samples for step in self.made],
            tokens=[step.tokens for step in self.made],
            loader_batches=self.loader_batches,
            batches=[[int(value) for value in step.batches] for step in self.made],
            losses=mean_losses([step.losses for step in self.made]),
            looks=[
                UpdateNorms(step=step, gradient_norm=gradient, update_norm=update, weight_norm=weight)
                for step, gradient, update, weight in ((step, *map(float, norms)) for step, *norms in self.norms)
            ],
            probed=self.counter.record(PROBED_STEP) if self.counter and self.steps > PROBED_STEP else None,
            parameters=sum(map(elements_of, parameters)),
            trainable=sum(elements_of(parameter) for parameter in parameters if parameter.requires_grad),
            weights=None if flat else weights_checksum(parameters),
            parameter_dtypes=dtype_names(parameter.dtype for parameter in parameters),
            memory_bytes=memory["allocated"] if memory else None,
            threads=torch.get_num_threads(),
            cores=cores_of_this_process(),
            wall_s=wall_s,
            versions={"python": platform.python_version()} | versions_of(("scaleproof", *OF_PROGRAMS)),
            float32_products="+".join(sorted(self.float32_products)) or None,
            # None is seen where the loss is not the model's output.
            backward=[len(step.backward) for step in self.made] if any(step.backward for step in self.made) else None,
            layer_dtypes={dtype_names([dtype]): count for dtype, count in self.layer_dtypes.items()},
            forwards=self.forwards,
            evaluated=len(self.evaluated),
            traces=[int(trace) for trace in self.traces],
            carried=bool(self.carried) and all(map(bool, self.carried)),
            left_out=sum(
                elements_of(parameter)
                for parameter, (at, has_gradient), was in self.left_out
                if has_gradient and local_shard(parameter).numel() > at and _element(parameter, at) == was
            ),
        )


def _batches_of_loader(loader: object) -> int | None:
    """Return the number of batches that a loader says it has; None where it does not say, or is a stream."""
    try:
        length = loader if isinstance(loader, int | float) else len(loader)  # type: ignore[arg-type]
        return int(length)
    except (TypeError, OverflowError, NotImplementedError):
        return None


def _element(parameter: Tensor, at: Tensor) -> Tensor:
    """Return a copy of the element `at` (its place in the flat tensor) of this rank's part of a parameter."""
    return local_shard(parameter).detach().flatten()[at].clone()


def _is_compiled(model: nn.Module) -> bool:
    """Return whether some module was compiled: a dispatch mode, as the probe is one, would have it compiled again."""
    # Private names: torch.compile marks modules by these alone.
    return any(hasattr(module, "_orig_mod") or module._compiled_call_impl for module in model.modules())
