"""Samples of flat token files, windows of a text or documents with their labels; and which of them make which step."""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from scaleproof.ground.campaign.batch import Batch
from scaleproof.ground.campaign.config import Workload
from scaleproof.ground.errors import UserError, missing_file
from scaleproof.ground.records.corpus_files import DescribedSplit, read_tokens

NO_TOKEN = -1  # stands in the place of padding
LABELS = "labels"  # key of a split in tokens.json, and ending of its file's name


class TokenFile:
    """One split of a tokenised corpus, memory-mapped, cut into samples of seq_len predicted tokens."""

    def __init__(self, directory: Path, split: str, seq_len: int) -> None:
        """Open `directory`/{split}.bin as tokens.json describes it. Raises UserError where the two disagree."""
        self.description: dict[str, Any] = dict(read_tokens(directory))
        self.tokens = _map_file(directory, self.description[split], self.description["dtype"])
        self.seq_len = seq_len
        self.n_samples = max(0, (len(self.tokens) - 1) // seq_len)  # each sample also needs the token after it
        self._window = np.arange(seq_len + 1)

    def read(self, ids: np.ndarray) -> np.ndarray:
        """Return the tokens of samples, int64 of shape (len(ids), seq_len + 1); the last one begins the next sample."""
        return self.tokens[ids[:, None] * self.seq_len + self._window].astype(np.int64)

    def count(self, ids: np.ndarray) -> int:
        """Return how many tokens of these samples are predicted: all."""
        return len(ids) * self.seq_len


class LabelledFile(TokenFile):
    """One split of a corpus with labels: a sample is a document, cut or padded to seq_len tokens, and its class."""

    def __init__(self, directory: Path, split: str, seq_len: int) -> None:
        """Open the split's tokens and labels, and find its documents. Raises UserError where labels do not fit."""
        super().__init__(directory, split, seq_len)
        split_description = self.description[split]
        if LABELS not in split_description:
            raise UserError(
                f'corpus "{self.description["corpus"]}" has no labels; for classification name their field in '
                "config/corpora.yaml (key: label), and tokenise it again"
            )

        self.labels = _map_file(directory, split_description[LABELS], "<u2")
        # Each document ends with a token that no text is encoded to and that is not part of the sample; the next
        # document starts right behind it.
        ends = np.flatnonzero(self.tokens == self.description["end_of_text"])
        self.starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
        self.lengths = np.minimum(ends - self.starts, seq_len)
        self.n_samples = len(ends)
        if len(self.labels) != self.n_samples:
            raise UserError(
                f"{directory}: {self.n_samples:,} documents and {len(self.labels):,} labels; tokenise the corpus again"
            )

    @property
    def classes(self) -> int:
        """How many classes the documents have."""
        return len(self.description["classes"])

    def read(self, ids: np.ndarray) -> np.ndarray:
        """Return tokens, padding (NO_TOKEN), and label last, int64 of shape (len(ids), seq_len + 1)."""
        places = np.arange(self.seq_len)
        is_token = places < self.lengths[ids][:, None]  # (len(ids), seq_len); False: padding
        samples = np.full((len(ids), self.seq_len + 1), NO_TOKEN, dtype=np.int64)
        # The places of the samples in the file, (len(ids), seq_len), without those behind a document's end.
        samples[:, :-1][is_token] = self.tokens[(self.starts[ids][:, None] + places)[is_token]]
        samples[:, -1] = self.labels[ids]
        return samples

    def count(self, ids: np.ndarray) -> int:
        """Return how many tokens of these samples are trained on: all but padding."""
        return int(self.lengths[ids].sum())


def open_split(directory: Path, split: str, workload: Workload) -> TokenFile:
    """Open a split (train, val) of the corpus in `directory` as samples of the workload's task. Raises UserError."""
    file_class = LabelledFile if workload.task == "classification" else TokenFile
    return file_class(directory, split, workload.seq_len)


def samples_in(entry: DescribedSplit | Mapping[str, int], workload: Workload) -> int:
    """Return how many samples a split gives to the workload's task. `entry`: the split's entry in tokens.json."""
    if workload.task == "classification":
        return entry["documents"]
    return max(0, (entry["tokens"] - 1) // workload.seq_len)  # no token predicts the first one


def check_samples(samples: int, global_batch: int, at_most: str = "") -> None:
    """Raise UserError where `samples` are fewer than a step takes. `at_most`: "at most " where they are a limit."""
    if samples < global_batch:
        raise UserError(
            f"the corpus has {at_most}{samples} training samples of this seq_len, fewer than one global batch of "
            f"{global_batch}; take a larger corpus, a smaller work.global_batch or a shorter workload.seq_len",
            ("workload", "corpus"),
        )


def _map_file(directory: Path, entry: dict[str, Any], dtype: str) -> np.ndarray:
    """Memory-map the file that an `entry` of tokens.json describes. Raises UserError where it is missing."""
    path = directory / entry["file"]
    if not path.exists():
        raise missing_file(path)
    return np.memmap(path, dtype=dtype, mode="r")


class SamplePlan:
    """Which samples each step trains on: the same order for every strategy and world size.

    The corpus has `samples` samples. Each epoch is a permutation of them, and all epochs are one endless sequence. Step
    s takes its positions s x G to (s + 1) x G - 1, with G = global batch.
    """

    def __init__(self, samples: int, global_batch: int, seed: int) -> None:
        """Plan steps of `global_batch` of the `samples` samples. Raises UserError where there are too few for one."""
        check_samples(samples, global_batch)
        self.samples = samples
        self.global_batch = global_batch
        # Epoch -> its permutation; a step may reach into a second epoch. RandomState, not Generator: numpy promises
        # never to change its stream, so a seed means the same order for ever.
        self._epoch = lru_cache(maxsize=2)(lambda epoch: np.random.RandomState((seed, epoch)).permutation(samples))

    def step(self, step: int) -> np.ndarray:
        """Return the sample ids of one optimizer step, int64 of shape (global_batch,)."""
        positions = np.arange(step * self.global_batch, (step + 1) * self.global_batch)
        epochs, places = np.divmod(positions, self.samples)  # a step may reach into the next epoch
        return np.concatenate([self._epoch(int(epoch))[places[epochs == epoch]] for epoch in np.unique(epochs)])

    def ids_of_rank(self, step: int, batch: Batch, rank: int) -> np.ndarray:
        """Return the sample ids of one rank in one step, of shape (accumulation, micro).

        A step's ids are dealt out micro-batch by micro-batch, and within a micro-batch rank by rank.
        """
        return self.step(step).reshape(batch.accumulation, batch.n_devices, batch.micro)[:, rank]


def held_out_ids(samples: int, at_most: int) -> np.ndarray:
    """Return the sample ids of the validation: `at_most` of the split's `samples`, evenly spread, or all."""
    count = min(samples, at_most)
    return np.arange(count) * samples // max(count, 1)


def digest_of_ids(steps: list[np.ndarray]) -> str:
    """Return the sha256 of the sample ids of `steps`, whatever their order within a step."""
    total = hashlib.sha256()
    for ids in steps:
        total.update(np.sort(np.asarray(ids, dtype="<i8").ravel()).tobytes() + b"|")
    return total.hexdigest()
