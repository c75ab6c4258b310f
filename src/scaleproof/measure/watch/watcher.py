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
from functools import reduce
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
from scaleproof.ground.errors import UserError, describe_first_fault, shortened
from scaleproof.ground.records.watched import FOLDER, VARIABLE, UpdateNorms, WatchedRank
from scaleproof.measure.machine import accelerator
from scaleproof.measure.machine.provenance import OF_PROGRAMS, versions_of
from scaleproof.measure.strategy.base import dtype_names, local_shard
from scaleproof.measure.trainer.census import elements_of, weights_checksum
from scaleproof.measure.trainer.probe import OperationCounter
from scaleproof.measure.trainer.timed_loop import StepTimer
from scaleproof.measure.watch.gradients import LeftOut, UnclearedGradient, left_out_parameters
from scaleproof.measure.watch.kept_values import Kept, copied, mean_losses, nested_values, norm_of_all, to_keep

PROBED_STEP = 1  # counted from 0: step 0 also does what is done only once
LOOKS_UP_TO = 3  # norms are taken in so many steps at the start ...
LOOK_EVERY = 100  # ... and then in one step of so many
WATCHED_ELEMENTS = 1_000_000  # parameters whose change is measured
CHECKED_ELEMENTS = 1 << 16  # first elements of an input that its checksum is made of
TRACED_ELEMENTS = 1 << 12  # first elements of a parameter that its checksum is made of

LAYERS = (nn.Linear, nn.modules.conv._ConvNd)


@dataclass
class Step:
    """What entered the model, and left it, from one update to the next."""

    forwards: int = 0  # passes in training
    samples: int = 0
    tokens: int = 0
    batches: list[Kept] = field(default_factory=list)  # checksums of the inputs
    losses: list[Kept] = field(default_factory=list)
    backward: set[int] = field(default_factory=set)  # forward passes, by number, whose output has got a gradient


class Watcher:
    """Observes the training of one rank from `start` to `finish`. A hook of the optimizer ends each step."""

    def __init__(
        self, model: nn.Module, optimizer: Optimizer, folder: str | Path | None = None, loader: object = None
    ) -> None:
        """Prepare to watch, with no step made.

        `loader`: what the batches come from, or their number. `folder`: where the file of this rank is written, by
        default $SCALEPROOF_WATCH, else scaleproof-watch.
        """
        self.model = model
        self.loader_batches = _batches_of_loader(loader)
        self.optimizer: Optimizer = getattr(optimizer, "optimizer", optimizer)  # inside of accelerate's wrapper
        self.folder = Path(folder or os.environ.get(VARIABLE) or FOLDER)
        self.device = next(model.parameters()).device
        self.timer = StepTimer(self.device)
        self.made: list[Step] = []
        self.now = Step()  # the step that is being made
        self.norms: list[tuple[int, Tensor, Tensor, Tensor]] = []  # step; norms of gradients, of update, of weights
        self.forwards = 0  # forward passes in training
        self.evaluated: set[int] = set()  # steps in which a gradient came back from a model in evaluation mode
        self.layer_dtypes: Counter[torch.dtype] = Counter()  # dtypes of what the largest layer returns
        self.float32_products: set[str] = set()
        self._traced: list[Tensor] = []  # the trained parameters whose bits can be summed up
        self.traces: list[Kept] = []  # checksums: at the start of all of them, after each step of one, in turn
        self.counter: OperationCounter | None = None
        self.probing = ExitStack()  # holds the counter while its step is made
        self.before: list[Tensor] = []  # copies of the watched parameters before an update
        self.left_out: list[LeftOut] = []
        self.uncleared: UnclearedGradient | None = None  # followed over the first updates; None: of a compiled model
        # (length, device) of a tensor -> what its checksum needs: the numbers 1 to length, and memory for the products.
        self._weighted: dict[tuple[int, torch.device], tuple[Tensor, Tensor]] = {}
        self._hooks: list[Any] = []

    def start(self, by_hooks: bool = True) -> None:
        """Hook model and optimizer, and start the clock.

        `by_hooks`: False where a framework calls `record_inputs`, `see_loss` and `note_gradients` itself. Raises
        UserError where the folder of the records cannot be made.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:  # reported now, and not after the training
            raise UserError(f"the records cannot go to the folder {describe_first_fault(error)}") from None
        if self.device.type == "cpu":
            self.before = copied(self._watched_parameters())  # before the training takes memory
        accelerator.reset_peaks(self.device)
        self._hooks = [self.optimizer.register_step_post_hook(self._note_update)]
        self._hook_largest_layer()
        if by_hooks:
            forward: Callable[..., Any] = self._note_inputs  # mypy knows no hooks that take keyword arguments
            self._hooks += [
                self.model.register_forward_pre_hook(forward, with_kwargs=True),
                self.model.register_forward_hook(self._note_loss),
                self.optimizer.register_step_pre_hook(self.note_gradients),
            ]
        trained = [parameter for parameter in self._parameters() if parameter.requires_grad]
        self._traced = [p for p in trained if type(local_shard(p).detach()) is Tensor and not p.is_complex()]
        self._note_checksum(self._traced)
        if self._traced and not _is_compiled(self.model):
            self.uncleared = UnclearedGradient(self._traced)
        atexit.register(self.finish)  # a program that ends early may never call `finish`
        self.timer.start()

    def _hook_largest_layer(self) -> None:
        """Have the dtypes of the largest layer's output counted, unless the model is compiled."""
        layers = [layer for layer in self.model.modules() if isinstance(layer, LAYERS) and not is_lazy(layer.weight)]
        if layers and not _is_compiled(self.model):
            largest = max(layers, key=lambda layer: layer.weight.numel())
            self._hooks.append(largest.register_forward_hook(self._after_layer))

    @property
    def steps(self) -> int:
        """Optimizer steps that are done."""
        return len(self.made)

    def see_loss(self, loss: Tensor) -> None:
        """Note the loss of a forward pass, where the model does not return it.

        It may come after the update: then no pass was made since, and the step before lacks the loss of one.
        """
        if self.made and not self.now.forwards and len(self.made[-1].losses) < self.made[-1].forwards:
            self.made[-1].losses += to_keep([loss.detach()])
        else:
            self.now.losses.append(loss.detach())

    def _note_inputs(self, module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Count a forward pass in training, and note its inputs: torch's hook before it."""
        if module.training and torch.is_grad_enabled():
            self.forwards += 1
            self.now.forwards += 1
            if torch._C._current_graph_task_id() != -1:  # a checkpoint around the model calls it in a backward pass
                self.now.backward.add(self.forwards)
            self.record_inputs((*arguments, *named.values()))

    def record_inputs(self, arguments: tuple[Any, ...]) -> None:
        """Note a batch: samples and tokens of its first tensor, and one checksum of all its tensors.

        `arguments`: tensors, or dicts and sequences of tensors.
        """
        inputs = [value for value in (*arguments, *nested_values(arguments)) if isinstance(value, Tensor)]
        if not inputs:
            return
        first = inputs[0].detach()
        self.now.samples += len(first) if first.dim() else 1
        if not first.is_floating_point():
            self.now.tokens += first.numel()
        dense = [local_shard(value) for value in inputs if value.layout == torch.strided and not value.is_complex()]
        # Weighted with their place, so that tensors in another order have another checksum.
        checksums = [place * self._checksum(value).to(self.device) for place, value in enumerate(dense, start=1)]
        if checksums:
            self.now.batches += to_keep([reduce(torch.add, checksums)])

    def _checksum(self, values: Tensor) -> Tensor:
        """Return the sum of place x element over `values`, on their device. It depends on the order of elements."""
        flat = values.flatten()[:CHECKED_ELEMENTS]
        key = (len(flat), flat.device)
        if key not in self._weighted:  # kept, so that no step makes them again
            places = torch.arange(1, len(flat) + 1, device=flat.device)
            self._weighted[key] = places, torch.empty_like(places)
        places, products = self._weighted[key]
        if flat.device.type != "cpu":  # on a device another stream may still use the products of the last call
            products = torch.empty_like(places)
        # A floating-point tensor is summed by its bits, read as integers.
        integers = flat.float().view(torch.int32) if flat.is_floating_point() else flat
        return products.copy_(integers).mul_(places).sum()

    def _note_loss(self, module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        """Note the loss of a forward pass in training, and have a gradient of its output noted when it comes."""
        if not torch.is_grad_enabled():
            return
        # When a gradient comes, the number of this pass is added to `now.backward`; in evaluation mode, in which none
        # should come, the number of the step is added to `evaluated`.
        numbers, number = (self.now.backward, self.forwards) if module.training else (self.evaluated, self.steps)
        for value in (output, *nested_values((output,))):
            if isinstance(value, Tensor) and value.requires_grad:
                value.register_hook(lambda _: numbers.add(number))
        loss = _loss_in(output) if module.training else None
        if loss is not None and loss.is_floating_point():
            self.see_loss(loss.reshape(()))

    def _after_layer(self, layer: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        """Count the dtype of a layer's output in training: torch's hook after its forward pass."""
        if layer.training and torch.is_grad_enabled() and isinstance(output, Tensor):
            self.layer_dtypes[output.dtype] += 1

    def _note_checksum(self, parameters: list[Tensor]) -> None:
        """Keep one checksum of the first elements of all `parameters`. It is the same on ranks with equal replicas."""
        parts = [local_shard(parameter).flatten()[:TRACED_ELEMENTS] for parameter in parameters]
        if parts:
            self.traces += to_keep([reduce(torch.add, (self._checksum(part).to(self.device) for part in parts))])

    def _looks_now(self) -> bool:
        """Return whether norms are taken in the step that is being made."""
        return self.steps < LOOKS_UP_TO or self.steps % LOOK_EVERY == 0

    def note_gradients(self, *_: Any) -> None:
        """Look at the gradients before an update whose norms are taken."""
        if self._looks_now():
            self._look_at_gradients()

    @torch.no_grad()
    def _look_at_gradients(self) -> None:
        """Take the norm of the gradients, and copy the watched parameters. In step 0, find unused gradients."""
        gradients = [local_shard(parameter.grad) for parameter in self._parameters() if parameter.grad is not None]
        # Without a forward pass in this step the optimizer calls a closure that makes the gradients later.
        are_complete = gradients and self.now.batches
        self._gradient_norm = norm_of_all(gradients, self.device) if are_complete else torch.tensor(torch.nan)
        if not self.steps:
            self.left_out = left_out_parameters(self.model, self._parameters())
        self.before = copied(self._watched_parameters(), self.before)

    def _note_update(self, *_: Any) -> None:
        """End a step after its update, and begin the next one: torch's hook after `optimizer.step`."""
        if self._looks_now():
            self._look_at_update()
        self._follow_uncleared_gradients()
        self.probing.close()
        self.timer.mark()
        if self._traced:
            turn = self.steps % len(self._traced)  # the parameter whose turn it is
            self._note_checksum([self._traced[turn]])
        self.float32_products.add(torch.get_float32_matmul_precision())
        self.now.losses = to_keep(self.now.losses)

        self.made.append(self.now)  # from here on `self.steps` counts this step too
        self.now = Step()
        if self.steps == PROBED_STEP and not _is_compiled(self.model):
            self.counter = self.probing.enter_context(OperationCounter())

    def _follow_uncleared_gradients(self) -> None:
        """Have the first updates looked at for gradients that the program never clears."""
        if self.uncleared and self.steps <= LOOKS_UP_TO:
            self.uncleared.note_update()
            if self.steps == LOOKS_UP_TO:
                self.uncleared.stop()

    @torch.no_grad()
    def _look_at_update(self) -> None:
        """Take the norms of the update and of the weights before it."""
        # `note_gradients` has made the copies, and the norm of the gradients, before the update.
        of_weights = norm_of_all(self.before, self.device)
        # In place: the copies of the weights before the update become the changes (with the opposite sign).
        changes = [old.sub_(new) for new, old in zip(self._watched_parameters(), self.before, strict=True)]
        self.norms.append((self.steps, self._gradient_norm, norm_of_all(changes, self.device), of_weights))
        if self.device.type != "cpu":  # the copies would count to the training's peak of memory
            self.before = []

    def _parameters(self) -> list[Tensor]:
        """Return the parameters that the optimizer updates."""
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def _watched_parameters(self) -> list[Tensor]:
        """Return this rank's shards of the smallest trained parameters: WATCHED_ELEMENTS in all, or one shard."""
        shards = sorted((local_shard(p) for p in self._parameters() if p.requires_grad), key=Tensor.numel)
        total_elements = accumulate(map(Tensor.numel, shards))
        count = sum(elements <= WATCHED_ELEMENTS for elements in total_elements)
        return shards[: max(count, 1)]

    def finish(self) -> WatchedRank:
        """Remove the hooks, stop the clock, and write and return the record of this rank."""
        atexit.unregister(self.finish)
        self.probing.close()
        for hook in self._hooks:
            hook.remove()
        if self.uncleared:
            self.uncleared.stop()
        record = self._describe_rank(*self.timer.stop())
        (self.folder / f"watched.{record.rank}.json").write_text(record.model_dump_json(indent=1) + "\n")
        return record

    def _describe_rank(self, step_s: np.ndarray, wall_s: float) -> WatchedRank:
        """Return the record of this rank. `step_s`: seconds of each step; `wall_s`: of all, by the host's clock."""
        rank, world_size = _rank_and_world_size()
        is_cuda = self.device.type == "cuda"
        memory = accelerator.memory_peaks(self.device)
        looks = [
            UpdateNorms(step=step, gradient_norm=float(gradient), update_norm=float(update), weight_norm=float(weight))
            for step, gradient, update, weight in self.norms
        ]

        return WatchedRank(
            rank=rank,
            world_size=world_size,
            host=socket.gethostname(),
            device_name=torch.cuda.get_device_name(self.device) if is_cuda else self.device.type,
            clock="cuda_events" if is_cuda else "monotonic",
            step_s=[float(seconds) for seconds in step_s],
            samples=[step.samples for step in self.made],
            tokens=[step.tokens for step in self.made],
            loader_batches=self.loader_batches,
            batches=[[int(value) for value in step.batches] for step in self.made],
            losses=mean_losses([step.losses for step in self.made]),
            looks=looks,
            probed=self.counter.record(PROBED_STEP) if self.counter and self.steps > PROBED_STEP else None,
            **self._parameter_fields(),
            memory_bytes=memory["allocated"] if memory else None,
            threads=torch.get_num_threads(),
            cores=cores_of_this_process(),
            wall_s=wall_s,
            versions={"python": platform.python_version()} | versions_of(("scaleproof", *OF_PROGRAMS)),
            float32_products="+".join(sorted(self.float32_products)) or None,
            backward=self._backward_counts(),
            layer_dtypes={dtype_names([dtype]): count for dtype, count in self.layer_dtypes.items()},
            forwards=self.forwards,
            evaluated=len(self.evaluated),
            traces=[int(trace) for trace in self.traces],
            carried=self.uncleared is not None and self.uncleared.was_never_cleared(),
            left_out=sum(elements_of(left.parameter) for left in self.left_out if left.never_changed()),
        )

    def _parameter_fields(self) -> dict[str, Any]:
        """Return the fields of a WatchedRank about the model's parameters."""
        # FSDP of torch 1 keeps parts of flattened parameters in place of the model's own, under private names: one for
        # each wrapped module, None for a module all of whose parameters are wrapped further inside. Of a part there is
        # no checksum of all weights.
        flat = [m._flat_param for m in self.model.modules() if isinstance(m, FullyShardedDataParallel)]
        parameters: list[nn.Parameter] = [p for p in flat if p is not None] or list(self.model.parameters())
        return {
            "parameters": sum(map(elements_of, parameters)),
            "trainable": sum(elements_of(parameter) for parameter in parameters if parameter.requires_grad),
            "weights": None if flat else weights_checksum(parameters),
            "parameter_dtypes": dtype_names(parameter.dtype for parameter in parameters),
        }

    def _backward_counts(self) -> list[int] | None:
        """Return for each step how many of its forward passes got a gradient.

        Returns None where no pass did in any step, as in a loop whose loss is not made of what the model returns.
        """
        counts = [len(step.backward) for step in self.made]
        return counts if any(counts) else None


def _rank_and_world_size() -> tuple[int, int]:
    """Return rank and world size by torch.distributed, else by the variables that torchrun sets."""
    if dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    rank = os.environ.get("RANK", "0")
    world_size = os.environ.get("WORLD_SIZE", "1")
    if not (rank.isdecimal() and world_size.isdecimal()):
        fault = f"RANK={shortened(rank)} and WORLD_SIZE={shortened(world_size)} are no whole numbers"
        raise UserError(f"{fault}; torchrun sets both, a program without ranks needs neither: unset RANK WORLD_SIZE")
    return int(rank), int(world_size)


def _loss_in(output: Any) -> Tensor | None:
    """Return the loss in a model's output: its `loss`, else its first tensor without dimensions, else None.

    A tensor of shape (1,) counts only if it is called `loss`: else it may be the output for a single sample.
    """
    named = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    if isinstance(named, Tensor) and named.numel() == 1:
        return named
    returned = output if isinstance(output, tuple | list) else [output]  # (loss, logits), or (logits, loss)
    return next((value for value in returned if isinstance(value, Tensor) and value.dim() == 0), None)


def _batches_of_loader(loader: object) -> int | None:
    """Return the number of batches of a loader, or `loader` itself if it is a number. Returns None for a stream."""
    try:
        length = loader if isinstance(loader, int | float) else len(loader)  # type: ignore[arg-type]
        return int(length)
    except (TypeError, OverflowError, NotImplementedError):
        return None


def _is_compiled(model: nn.Module) -> bool:
    """Return whether some module is compiled: a dispatch mode, such as our probe, would have it compiled again."""
    # Private names: torch.compile marks modules by these alone.
    return any(hasattr(module, "_orig_mod") or module._compiled_call_impl for module in model.modules())
