"""Micro-batches for one rank, and a note of every sample that was taken."""

import numpy as np
import torch
from torch import Tensor

from scalebench.campaign.batch import Batch
from scalebench.corpus.plan import SamplePlan
from scalebench.corpus.reader import TokenFile


class Batches:
    """Hands out this rank's share of each step and remembers what it handed out."""

    def __init__(self, file: TokenFile, plan: SamplePlan, batch: Batch, shares: range, device: torch.device) -> None:
        """`shares`: the devices that this rank feeds, counted over the world; one, but all of them under nn.DataParallel."""
        self.file, self.plan, self.batch, self.shares, self.device = file, plan, batch, shares, device
        self.taken: dict[int, list[np.ndarray]] = {}  # step -> sample ids of each micro-batch
        self.tokens: dict[
            int, int
        ] = {}  # step -> tokens that are work: predicted, or of a document without its padding

    def take(self, step: int, micro: int) -> Tensor:
        """Samples of one micro-batch on the device, int64 of shape (micro x devices of this rank, seq_len + 1)."""
        ids = np.concatenate([self.plan.share(step, self.batch, device)[micro] for device in self.shares])
        tokens = torch.from_numpy(self.file.read(ids))
        self.taken.setdefault(step, []).append(ids)
        self.tokens[step] = self.tokens.get(step, 0) + self.file.count(ids)
        if self.device.type == "cuda":
            return tokens.pin_memory().to(self.device, non_blocking=True)
        return tokens
