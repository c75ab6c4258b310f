"""A look at one step from inside: its collectives, the dtypes that ran, the state that is kept. Never in the window."""

import gc
from collections import Counter, defaultdict
from contextlib import nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode  # private by its name; torch's notes on extending it say so
from torch.utils.flop_counter import flop_registry

from scaleproof.ground.records.watched import ProbedOperations
from scaleproof.measure.machine.accelerator import is_accelerator
from scaleproof.measure.strategy import Strategy
from scaleproof.measure.strategy.base import dtype_names
from scaleproof.measure.trainer.host_load import IdleClock
from scaleproof.measure.trainer.updates import UpdateWitness

# Operations in which nearly all of the arithmetic is done; their operands' dtype is the precision that really ran.
# linear: products with weights; batched: of attention without a fused kernel.
PRODUCTS = {"mm": "linear", "addmm": "linear", "linear": "linear", "bmm": "batched", "baddbmm": "batched"}
ATTENTION = "_scaled_dot_product_"  # fused kernels of attention
UPDATES = "_fused_adam"  # fused kernels of the optimizer
MAIN_SHARE = 0.01  # share of the reduced bytes: dtypes with less are not those of gradients


class OperationCounter(TorchDispatchMode):
    """Counts matrix products, fused kernels and collectives in its `with` block, and notes their dtypes.

    The dispatcher sees every collective: those of DDP's reducer in C++, of FSDP2 and of DeepSpeed alike.
    """

    def __init__(self) -> None:
        """Begin with nothing counted."""
        super().__init__()
        self.calls: dict[str, int] = defaultdict(int)  # collective -> its calls
        self.bytes: dict[str, int] = defaultdict(int)  # collective -> the full size of what is exchanged
        self.moved: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))  # bytes by collective and dtype
        self.products: set[str] = set()  # dtypes of their operands
        self.gradients: set[str] = set()  # dtypes; noted by a Probe alone
        self.flops: Counter[str] = Counter()  # FLOPs of linear and batched products
        self.attention: Counter[str] = Counter()  # calls by kernel
        self.updates: Counter[str] = Counter()  # calls by kernel
        self.clock: IdleClock | None = None  # paused in collectives

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: ANN204  (torch's signature)
        """Run the operation `func` of torch, count it, and return its result."""
        if func.namespace == "c10d":
            self._note_collective(func.overloadpacket.__name__, args)
        if "c10d" in func.namespace:  # functional collectives as well
            return self._run_collective(func, args, kwargs or {})
        result = func(*args, **(kwargs or {}))
        if func.namespace == "aten":
            self._note_operation(func, func.overloadpacket.__name__, args, kwargs or {}, result)
        return result

    def _run_collective(self, func: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Run the collective `func`, and return its result. A clock is stopped until the result is there."""
        if self.clock is None:
            return func(*args, **kwargs)
        with self.clock.leave_out():
            result = func(*args, **kwargs)
            parts = result if isinstance(result, tuple) else (result,)  # torch returns a single result as it is
            works: list[Any] = [part for part in parts if isinstance(part, torch.ScriptObject)]
            for work in works:  # torch.classes.c10d.Work
                work.wait()
        return result

    def _note_operation(self, func: Any, name: str, args: tuple, kwargs: dict[str, Any], result: Any) -> None:
        """Count the operation `name` of torch itself (aten), if it is a product or a fused kernel."""
        if name in PRODUCTS:
            self.products |= {dtype_names([tensor.dtype]) for tensor in _tensors_in(args)}
            if func.overloadpacket in flop_registry:
                flops = flop_registry[func.overloadpacket](*args, **kwargs, out_val=result)
                self.flops[PRODUCTS[name]] += int(flops)
        elif name.startswith(ATTENTION):
            self.attention[name] += 1
        elif name.startswith(UPDATES):
            self.updates[name] += 1

    def _note_collective(self, called: str, args: tuple) -> None:
        """Count a call of a collective, which torch calls `called` (allreduce_), and its bytes. Barriers have none."""
        tensors = _tensors_in(args)
        if not tensors:
            return
        name = called.strip("_")
        # An all-reduce lists all that it reduces; the largest argument of a gather or scatter has the full size.
        sizes = [tensor.numel() * tensor.element_size() for tensor in tensors]
        self.calls[name] += 1
        self.bytes[name] += sum(sizes) if name.startswith("allreduce") else _largest_argument_bytes(args)
        for tensor, size in zip(tensors, sizes, strict=True):
            self.moved[name][dtype_names([tensor.dtype])] += size

    def collectives(self) -> dict[str, dict]:
        """Return the counted collectives: name -> calls, logical bytes and dtypes."""
        return {
            name: {"calls": self.calls[name], "bytes": self.bytes[name], "dtypes": sorted(self.moved[name])}
            for name in sorted(self.calls)
        }

    def record(self, step: int) -> ProbedOperations:
        """Return what was counted, as the record of step `step`. Gradients get the dtypes of the reduced tensors."""
        dtypes = self.dtypes()
        bytes_of_collective = {name: self.bytes[name] for name in sorted(self.calls)}
        return ProbedOperations(
            step=step,
            products=dtypes["products"],
            gradients=dtypes["reduced"],
            attention=dict(self.attention),
            linear_flops=self.flops["linear"],
            collectives=bytes_of_collective,
        )

    def dtypes(self) -> dict[str, str]:
        """Return dtypes of "products", "gradients" and "reduced" tensors: key -> "bfloat16+float32", or "none"."""
        reduced_bytes: dict[str, int] = defaultdict(int)  # by dtype
        for name, bytes_of_dtype in self.moved.items():
            if "reduce" in name:
                for dtype, nbytes in bytes_of_dtype.items():
                    reduced_bytes[dtype] += nbytes
        # Flags and norms are reduced too, in dtypes of their own: few bytes.
        least_bytes = MAIN_SHARE * sum(reduced_bytes.values())
        main_dtypes = {dtype for dtype, nbytes in reduced_bytes.items() if nbytes > least_bytes}
        dtypes = {"products": self.products, "gradients": self.gradients, "reduced": main_dtypes}
        return {name: "+".join(sorted(names)) or "none" for name, names in dtypes.items()}


class Probe(OperationCounter):
    """Looks into one step: counts its operations, and notes gradients' dtypes and the state before the update."""

    def __init__(self, strategy: Strategy, measure_state: bool = True) -> None:
        """Begin with nothing counted. `measure_state`: also measure the state's bytes: about a second on a CPU."""
        super().__init__()
        self.strategy = strategy
        self.measure_state = measure_state
        self.state_bytes = 0
        self.witness = UpdateWitness(strategy)
        # On a GPU the host's thread says nothing of the step: it runs ahead, or waits in the driver.
        self.clock = None if is_accelerator(strategy.device) else IdleClock()

    def __enter__(self) -> "Probe":
        """Hook gradients and update, have compiled code run uncompiled, and start the clock."""

        def note(parameter: Tensor) -> None:
            """Note the dtype of a gradient that is complete."""
            if parameter.grad is not None:
                self.gradients.add(dtype_names([parameter.grad.dtype]))

        trained = [leaf for leaf in self.strategy.module.parameters() if leaf.is_leaf and leaf.requires_grad]
        self.hooks = [parameter.register_post_accumulate_grad_hook(note) for parameter in trained]
        # The update is wrapped: just before it parameters, gradients and optimizer state are alive, activations not.
        self.strategy.update = self._update_and_witness  # type: ignore[method-assign]  # for one step, and undone
        # Compiled code runs uncompiled: a dispatch mode would have it compiled again. The operations are the same.
        self.eager = torch.compiler.set_stance("force_eager")
        self.eager.__enter__()
        super().__enter__()
        if self.clock:
            self.clock.start()
        return self

    def __exit__(self, *failure: object) -> None:
        """Undo all that `__enter__` did."""
        if self.clock:
            self.clock.stop()
        super().__exit__(*failure)
        self.eager.__exit__(*failure)
        del self.strategy.update
        for hook in self.hooks:
            hook.remove()

    def _update_and_witness(self, step: int) -> None:
        """Make the strategy's update of step `step`, with measurements of memory and gradients around it."""
        with self.clock.leave_out() if self.clock else nullcontext():
            if self.measure_state:
                self.state_bytes = measure_state_bytes(self.strategy.device)
            self.witness.note_gradients()
            if self.clock and dist.is_initialized():
                # Slower ranks are waited for here: collectives inside of a DTensor's operation, as in FSDP's clipping,
                # are not seen, and waiting in them would count as sleep.
                super().__exit__(None, None, None)  # the barrier is not a collective of the step
                dist.barrier()
                super().__enter__()
        type(self.strategy).update(self.strategy, step)  # the class's method: the object's is replaced by this one
        with self.clock.leave_out() if self.clock else nullcontext():
            self.witness.note_update()


def measure_state_bytes(device: torch.device) -> int:
    """Return the bytes of all floating-point tensors: on a GPU all allocated memory, on a CPU distinct storages."""
    if is_accelerator(device):
        return torch.accelerator.memory_allocated(device)
    gc.collect()
    storages: dict[int, int] = {}
    for candidate in gc.get_objects():
        # type(), not isinstance(): the latter runs code of lazy objects that happen to be alive
        if issubclass(type(candidate), Tensor) and type(candidate) is not DTensor and candidate.is_floating_point():
            storage = candidate.untyped_storage()
            if storage.device.type == "cpu":
                storages[storage.data_ptr()] = storage.nbytes()  # views of one storage count once
    return sum(storages.values())


def _tensors_in(value: object) -> list[Tensor]:
    """Return `value` if it is a tensor, or all tensors in a list or tuple, at any depth."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [tensor for part in value for tensor in _tensors_in(part)]
    return []


def _largest_argument_bytes(args: tuple) -> int:
    """Return the bytes of a collective's largest argument, which may be a list of tensors."""
    return max(sum(tensor.numel() * tensor.element_size() for tensor in _tensors_in(argument)) for argument in args)
