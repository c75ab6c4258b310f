"""One line for the Trainer of Lightning: `Trainer(..., callbacks=[watch_callback(of="lightning")])`."""

from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from scaleproof.measure.watch.watcher import Watcher


class LightningWatch(Callback):
    """Watches a training of Lightning as `scaleproof.watch` watches a loop.

    Lightning makes forward and backward pass inside of the optimizer's step, and need not call the module's `forward`:
    therefore inputs, losses and gradients are those that its own callbacks are given.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        """Set the folder of the records. By default it is $SCALEPROOF_WATCH, else scaleproof-watch."""
        self._folder = folder

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Make a watcher of the module and its first optimizer, and start it."""
        batches = trainer.num_training_batches  # infinite for a stream
        self._watcher = Watcher(pl_module, trainer.optimizers[0], self._folder, batches)
        self._watcher.start(by_hooks=False)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, *_: Any) -> None:
        """Note the batch, which enters the model."""
        self._watcher.record_inputs((batch,))

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        """Note the loss, multiplied by the number of accumulated batches, by which Lightning has divided it."""
        self._watcher.see_loss(loss * trainer.accumulate_grad_batches)

    def on_before_optimizer_step(self, *_: Any) -> None:
        """Take the norm of the gradients."""
        self._watcher.note_gradients()

    def on_train_end(self, *_: Any) -> None:
        """Write the record of this rank."""
        self._watcher.finish()
