"""Micro-batches for one rank, read ahead beside a GPU, and a note of every sample that was taken."""

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from scaleproof.ground.campaign.batch import Batch
from scaleproof.measure.corpus.reader import SamplePlan, TokenFile
from scaleproof.measure.machine import accelerator


class Batches:
    """Hands out this rank's share of each step and remembers what it handed out."""

    def __init__(self, file: TokenFile, plan: SamplePlan, batch: Batch, shares: range, device: torch.device) -> None:
        """`shares`: the devices that this rank feeds, counted over all ranks: one, all under DataParallel."""
        self.file = file
        self.plan = plan
        self.batch = batch
        self.shares = shares
        self.device = device
        self.taken: dict[int, list[np.ndarray]] = {}  # step -> sample ids of each micro-batch
        self.tokens: dict[int, int] = {}  # step -> tokens that are work: no padding
        # Beside a GPU a thread reads the next micro-batch while this one is computed; a CPU has no core to spare.
        self._reader: ThreadPoolExecutor | None = None
        self._ahead: dict[tuple[int, int], Future] = {}
        if accelerator.is_accelerator(device):
            self.read_ahead()

    def read_ahead(self) -> None:
        """From now on, read one micro-batch ahead, in a thread of its own."""
        # A thread begins on the first device, which may be another rank's.
        self._reader = ThreadPoolExecutor(1, "reader", accelerator.use, (self.device,))

    def take(self, step: int, micro: int) -> Tensor:
        """Samples of micro-batch `micro` of step `step`, both counted from 0, on the device.

        int64 of shape (micro x devices of this rank, seq_len + 1).
        """
        ahead = self._ahead.pop((step, micro), None)
        ids, tokens = ahead.result() if ahead else self._read(step, micro)
        if self._reader:
            following = (step, micro + 1) if micro + 1 < self.batch.accumulation else (step + 1, 0)
            self._ahead = {following: self._reader.submit(self._read, *following)}
        self.taken.setdefault(step, []).append(ids)
        self.tokens[step] = self.tokens.get(step, 0) + self.file.count(ids)
        return tokens.to(self.device, non_blocking=True)

    def read(self, step: int, micro: int) -> Tensor:
        """The samples of a micro-batch as `take` hands them out, of which no note is made."""
        return self._read(step, micro)[1].to(self.device)

    def _read(self, step: int, micro: int) -> tuple[np.ndarray, Tensor]:
        """Sample ids and tokens of a micro-batch; tokens are pinned for a GPU, so that copying is asynchronous."""
        ids = np.concatenate([self.plan.share(step, self.batch, device)[micro] for device in self.shares])
        tokens = torch.from_numpy(self.file.read(ids))
        return ids, tokens.pin_memory() if accelerator.is_accelerator(self.device) else tokens
