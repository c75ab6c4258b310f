"""One line for the Trainer of transformers: `Trainer(..., callbacks=[WatchCallback()])`."""

from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from scaleproof.measure.watch.watcher import Watcher


class WatchCallback(TrainerCallback):
    """Watches a training of transformers' Trainer as `scaleproof.watch` watches a loop."""

    def __init__(self, folder: str | Path | None = None) -> None:
        """Set the folder of the records. By default it is $SCALEPROOF_WATCH, else scaleproof-watch."""
        self._folder = folder

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any
    ) -> None:
        """Start to watch the model and the optimizer that the Trainer has prepared."""
        self._watcher = Watcher(parts["model"], parts["optimizer"], self._folder, parts.get("train_dataloader"))
        self._watcher.start()

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **parts: Any) -> None:
        """Write the record of this rank."""
        self._watcher.finish()
