"""Micro-batches for one rank, read ahead beside a GPU, and a note of every sample that was taken."""

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from scaleproof.ground.campaign.batch import Batch
from scaleproof.measure.corpus.reader import SamplePlan, TokenFile
from scaleproof.measure.machine import accelerator


class Batches:
    """Hands out this rank's micro-batches of each step, and records their sample ids."""

    def __init__(self, file: TokenFile, plan: SamplePlan, batch: Batch, shares: range, device: torch.device) -> None:
        """Begin with nothing taken. `shares`: numbers of the devices that this rank feeds (DataParallel: all)."""
        self.file = file
        self.plan = plan
        self.batch = batch
        self.shares = shares
        self.device = device
        self.taken: dict[int, list[np.ndarray]] = {}  # step -> sample ids of each micro-batch
        self.tokens: dict[int, int] = {}  # step -> tokens that are work: no padding
        # Beside a GPU a thread reads the next micro-batch while the GPU computes; a CPU has no core to spare.
        self._reader: ThreadPoolExecutor | None = None
        self._ahead: dict[tuple[int, int], Future] = {}  # (step, micro) of the next micro-batch -> what is being read
        if accelerator.is_accelerator(device):
            self.read_ahead()

    def read_ahead(self) -> None:
        """Read each next micro-batch ahead, in another thread, from now on."""
        # A thread begins on the first device, which may be another rank's.
        self._reader = ThreadPoolExecutor(1, "reader", accelerator.use_device, (self.device,))

    def take(self, step: int, micro: int) -> Tensor:
        """Return the samples of micro-batch `micro` of step `step`, both from 0, on the device, and record their ids.

        They are int64 of shape (micro x devices of this rank, seq_len + 1).
        """
        ahead = self._ahead.pop((step, micro), None)
        ids, tokens = ahead.result() if ahead else self._read_micro_batch(step, micro)
        if self._reader:
            following = (step, micro + 1) if micro + 1 < self.batch.accumulation else (step + 1, 0)
            self._ahead = {following: self._reader.submit(self._read_micro_batch, *following)}
        self.taken.setdefault(step, []).append(ids)
        self.tokens[step] = self.tokens.get(step, 0) + self.file.count(ids)
        return tokens.to(self.device, non_blocking=True)

    def read_unnoted(self, step: int, micro: int) -> Tensor:
        """Return the samples that `take` would return, without recording them."""
        return self._read_micro_batch(step, micro)[1].to(self.device)

    def _read_micro_batch(self, step: int, micro: int) -> tuple[np.ndarray, Tensor]:
        """Return sample ids and tokens of a micro-batch. For a GPU tokens are pinned, so that copies need no wait."""
        ids = np.concatenate([self.plan.ids_of_rank(step, self.batch, device)[micro] for device in self.shares])
        tokens = torch.from_numpy(self.file.read(ids))
        return ids, tokens.pin_memory() if accelerator.is_accelerator(self.device) else tokens
