"""Two lines in a plain training loop."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from scaleproof.ground.errors import UserError
from scaleproof.measure.watch.watcher import Watcher

Batch = TypeVar("Batch")


class Watched(Generic[Batch]):
    """The batches of a loader, while the loop that takes them is watched."""

    def __init__(
        self, batches: Iterable[Batch], model: nn.Module, optimizer: Optimizer, folder: str | Path | None
    ) -> None:
        """Begin to watch `model` and `optimizer`. `folder`: of the records. Raises UserError for wrong types."""
        is_iterable = any(hasattr(batches, name) for name in ("__iter__", "__next__", "__getitem__"))
        is_optimizer = hasattr(optimizer, "step") and not isinstance(optimizer, LRScheduler)  # which has a step(), too
        if not is_iterable or not isinstance(model, nn.Module) or not is_optimizer:
            types = ", ".join(type(argument).__name__ for argument in (batches, model, optimizer))
            raise UserError(f"watch takes batches, a model (a module of torch) and its optimizer, not {types}")
        self._batches = batches
        self._new_watcher = partial(Watcher, model, optimizer, folder, batches)
        self._watcher = self._new_watcher()
        self._iterator: Iterator[Batch] | None = None  # of a loop that takes the batches by next()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the loader, such as `dataset` or `sampler`."""
        if name.startswith("_"):  # while this object is copied, `_batches` is not there yet
            raise AttributeError(name)
        return getattr(self._batches, name)

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self._batches)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Batch]:
        """Yield each batch as it is; at the end, write the record in place of the last epoch's."""
        self._watcher = self._new_watcher()
        self._watcher.start()
        try:
            yield from self._batches
        finally:
            self._watcher.finish()

    def __next__(self) -> Batch:
        """Return the next batch, for a loop around an iterator or a generator."""
        self._iterator = self._iterator or iter(self)
        return next(self._iterator)

    def see_loss(self, loss: Tensor) -> None:
        """Note the loss of a forward pass, where the model does not return it: before or after the update."""
        self._watcher.see_loss(loss)
