"""A look at one step from inside: its collectives and the dtypes that really ran. Never inside the window."""

from collections import defaultdict

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode


class Probe(TorchDispatchMode):
    """Counts the `c10d` operations of a step and notes the dtypes of gradients.

    The dispatcher sees every collective: those of DDP's reducer in C++, of FSDP2 and of DeepSpeed alike.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.calls: dict[str, int] = defaultdict(int)
        self.bytes: dict[str, int] = defaultdict(int)
        self.moved: dict[str, set[str]] = defaultdict(set)
        self.gradients: set[str] = set()

    def __enter__(self) -> "Probe":
        def note(parameter: Tensor) -> None:
            self.gradients.add(_name(parameter.grad.dtype))

        self.hooks = [p.register_post_accumulate_grad_hook(note) for p in self.model.parameters()]
        return super().__enter__()

    def __exit__(self, *failure: object) -> None:
        super().__exit__(*failure)
        for hook in self.hooks:
            hook.remove()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: ANN204  (torch's signature)
        if func.namespace == "c10d":
            tensors = _tensors(args)
            if tensors:
                name = func._schema.name.removeprefix("c10d::").strip("_")
                # An all-reduce lists what it reduces; a gather or scatter has one side of the full size.
                sizes = [t.numel() * t.element_size() for t in tensors]
                self.calls[name] += 1
                self.bytes[name] += sum(sizes) if name.startswith("allreduce") else max(sizes)
                self.moved[name] |= {_name(t.dtype) for t in tensors}
        return func(*args, **(kwargs or {}))

    def collectives(self) -> dict[str, dict]:
        """Per collective and step: calls, logical bytes (full size of what is reduced, gathered or scattered), dtypes."""
        return {
            name: {"calls": self.calls[name], "bytes": self.bytes[name], "dtypes": sorted(self.moved[name])}
            for name in sorted(self.calls)
        }

    def dtypes(self) -> dict[str, str]:
        reduced = set().union(*(self.moved[name] for name in self.moved if "reduce" in name))
        return {"gradients": _join(self.gradients), "reduced": _join(reduced)}


def _tensors(value: object) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [t for v in value for t in _tensors(v)]
    return []


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _join(names: set[str]) -> str:
    return "+".join(sorted(names)) or "none"
