"""The sample plan: which samples make which step. It knows nothing of ranks until it is asked for a share."""

import hashlib
from functools import lru_cache

import numpy as np

from scaleproof.ground.campaign.batch import Batch
from scaleproof.ground.errors import UserError


class SamplePlan:
    """Order of the samples over all steps, the same for every strategy and world size.

    Sample i is the window of seq_len + 1 tokens that starts at token i x seq_len; there are `samples` of them. Step s
    consumes positions s x G to (s + 1) x G of an endless sequence of permutations, one an epoch, G = global batch.
    """

    def __init__(self, samples: int, global_batch: int, seed: int) -> None:
        if samples < global_batch:
            raise UserError(
                f"the corpus has {samples} training samples of this seq_len, fewer than one global batch of "
                f"{global_batch}; take a larger corpus, a smaller work.global_batch or a shorter workload.seq_len"
            )
        self.samples, self.global_batch = samples, global_batch
        # RandomState, not Generator: numpy promises never to change its stream, so a seed means the same order for
        # ever.
        self._epoch = lru_cache(maxsize=2)(lambda epoch: np.random.RandomState((seed, epoch)).permutation(samples))

    def step(self, step: int) -> np.ndarray:
        """Sample ids of one optimizer step, int64 of shape (global_batch,)."""
        positions = np.arange(step * self.global_batch, (step + 1) * self.global_batch)
        epochs, places = np.divmod(positions, self.samples)  # a step may reach into the next epoch
        return np.concatenate([self._epoch(int(epoch))[places[epochs == epoch]] for epoch in np.unique(epochs)])

    def share(self, step: int, batch: Batch, rank: int) -> np.ndarray:
        """The part of a step that `rank` takes: sample ids of shape (accumulation, micro).

        A step's ids are dealt out micro-batch by micro-batch, in each of them rank by rank.
        """
        return self.step(step).reshape(batch.accumulation, batch.n_devices, batch.micro)[:, rank]


def held_out(samples: int, at_most: int) -> np.ndarray:
    """Sample ids of the validation: at most `at_most` of the `samples` of the split, spread evenly over them; int64."""
    count = min(samples, at_most)
    return np.arange(count) * samples // max(count, 1)


def digest(steps: list[np.ndarray]) -> str:
    """sha256 of the sample ids of each of `steps`. Order within a step does not count: it is the ranks' own affair."""
    total = hashlib.sha256()
    for ids in steps:
        total.update(np.sort(np.asarray(ids, dtype="<i8").ravel()).tobytes() + b"|")
    return total.hexdigest()
