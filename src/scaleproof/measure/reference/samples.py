"""The samples of each step, read from the token file by the written rule below and by nothing else.

**Samples of a text.** With T = seq_len, sample i is the T + 1 tokens from token i x T on: T inputs and, one further
on, T targets. There are n = (tokens - 1) // T of them.

**Samples of labelled documents.** Document i ends with the end-of-text token; its sample is its tokens without that
one, cut to T, and its label. There are as many samples as documents.

**Order.** Epoch e is `numpy.random.RandomState((seed, e)).permutation(n)`. All epochs, one after the other, are one
endless sequence; with G = global batch, step s takes its positions s x G to (s + 1) x G - 1. Warm-up steps count.

**Validation.** Of the m samples of the validation split, v = min(m, validation_samples) are scored: the samples
k x m // v for k = 0 .. v - 1.

**Checksum of tokens.** Each sample is a row of little-endian int64: of a text its T + 1 tokens; of a document its T
tokens, -1 in the place of those that it lacks, then the label. The checksum of some samples is the sum modulo 2^64 of
the first eight bytes (little-endian) of each row's sha256, written as 16 hexadecimal digits; the order of the samples
does not count.

**Chain of tokens.** The hash of a row is the square of the sum, over its places j = 1, 2, ..., of the token times
0x9E3779B97F4A7C15^j; that of a step is the sum of its rows' hashes. The chain of some steps is the sum of (s + 1) times
the hash of step s; all modulo 2^64, written as 16 hexadecimal digits.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from scaleproof.ground.errors import UserError, missing_file
from scaleproof.ground.files import sha256_of
from scaleproof.ground.records.corpus_files import read_tokens

ABSENT = -1  # stands where a document has no token
MODULUS = 2**64
MULTIPLIER = 0x9E3779B97F4A7C15


class SplitSamples:
    """One split of a tokenised corpus as samples: rows of int64, by the rule above."""

    def __init__(self, folder: Path, split: str, seq_len: int, labelled: bool) -> None:
        """Read `split` of the corpus in `folder`. Raises UserError where a file is not as tokens.json describes it."""
        description: dict[str, Any] = dict(read_tokens(folder))
        entry = description[split]
        self.sha256 = entry["sha256"]
        self.classes = len(description.get("classes", []))
        self.seq_len = seq_len
        self.tokens = np.memmap(_checked_path(folder / entry["file"], entry), dtype=description["dtype"], mode="r")
        self.labels: np.ndarray | None = None
        if labelled:
            labels = entry["labels"]
            self.labels = np.fromfile(_checked_path(folder / labels["file"], labels), dtype="<u2")
            self.ends = np.flatnonzero(self.tokens == description["end_of_text"])
        self.count = len(self.ends) if labelled else (len(self.tokens) - 1) // seq_len

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """Return the samples with these ids: int64 of shape (len(ids), seq_len + 1)."""
        return np.stack([self._row(int(number)) for number in ids])

    def _row(self, number: int) -> np.ndarray:
        """Return the sample with this number: int64 of shape (seq_len + 1,)."""
        if self.labels is None:
            return self.tokens[number * self.seq_len : (number + 1) * self.seq_len + 1].astype("<i8")
        start = int(self.ends[number - 1]) + 1 if number else 0
        document = self.tokens[start : int(self.ends[number])][: self.seq_len]
        row = np.full(self.seq_len + 1, ABSENT, dtype="<i8")
        row[: len(document)] = document
        row[-1] = self.labels[number]
        return row


def step_ids(samples: int, global_batch: int, seed: int, step: int) -> np.ndarray:
    """Return the sample ids of one optimizer step, int64 of shape (global_batch,). `samples`: of the corpus."""
    ids = []
    for position in range(step * global_batch, (step + 1) * global_batch):
        epoch, place = divmod(position, samples)
        ids.append(_epoch_order(samples, seed, epoch)[place])
    return np.array(ids, dtype=np.int64)


def validation_ids(samples: int, count: int) -> np.ndarray:
    """Return the ids of the samples that the validation scores: `count` of `samples`, evenly spread, or all."""
    scored = min(samples, count)
    return np.array([number * samples // scored for number in range(scored)], dtype=np.int64)


def checksum(rows: np.ndarray) -> str:
    """Return the checksum of the tokens in `rows`, whatever the order of rows (rule: docstring of this file)."""
    total = 0
    for row in rows:
        total += int.from_bytes(hashlib.sha256(row.astype("<i8").tobytes()).digest()[:8], "little")
    return f"{total % MODULUS:016x}"


def chained_checksum(samples: SplitSamples, global_batch: int, seed: int, steps: range) -> str:
    """Return the chain of the tokens of `steps`, which depends on their order (rule: docstring of this file)."""
    powers = np.cumprod(np.full(samples.seq_len + 1, MULTIPLIER, dtype=np.uint64), dtype=np.uint64)
    total = 0
    for step in steps:
        rows = samples.rows(step_ids(samples.count, global_batch, seed, step)).astype(np.int64).view(np.uint64)
        hashes = (rows * powers).sum(axis=1, dtype=np.uint64) ** 2
        total += (step + 1) * int(hashes.sum(dtype=np.uint64))
    return f"{total % MODULUS:016x}"


_orders: dict[tuple[int, int, int], np.ndarray] = {}


def _epoch_order(samples: int, seed: int, epoch: int) -> np.ndarray:
    """Return the order of the samples in an epoch: a permutation of their ids."""
    key = (samples, seed, epoch)
    if key not in _orders:
        _orders.clear()  # steps go on in order: one epoch in memory is enough
        _orders[key] = np.random.RandomState((seed, epoch)).permutation(samples)
    return _orders[key]


def _checked_path(path: Path, entry: dict[str, Any]) -> Path:
    """Return `path`. Raises UserError where the file is not as its `entry` in tokens.json describes it."""
    if not path.exists():
        raise missing_file(path)
    if sha256_of(path) != entry["sha256"]:
        raise UserError(f"{path} is not the file that tokens.json describes (its sha256 differs): tokenise it again")
    return path
