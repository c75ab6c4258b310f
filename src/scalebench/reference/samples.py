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
"""

import hashlib
import json
from pathlib import Path

import numpy as np

from scalebench.errors import UserError

ABSENT = -1  # stands where a document has no token
MODULUS = 2**64


class Samples:
    """One split of a tokenised corpus: rows of int64, by the rule above."""

    def __init__(self, folder: Path, split: str, seq_len: int, labelled: bool) -> None:
        """Read `split` of the corpus in `folder`. Raises UserError where a file is missing or not the one described."""
        description = json.loads((folder / "tokens.json").read_text())
        part = description[split]
        self.sha256 = part["sha256"]
        self.classes = len(description.get("classes", []))
        self.seq_len = seq_len
        self.tokens = np.memmap(_checked(folder / part["file"], part["bytes"]), dtype=description["dtype"], mode="r")
        self.labels: np.ndarray | None = None
        if labelled:
            labels = part["labels"]
            self.labels = np.fromfile(_checked(folder / labels["file"], labels["bytes"]), dtype="<u2")
            self.ends = np.flatnonzero(self.tokens == description["end_of_text"])
        self.count = len(self.ends) if labelled else (len(self.tokens) - 1) // seq_len

    def rows(self, ids: np.ndarray) -> np.ndarray:
        """Int64 of shape (len(ids), seq_len + 1)."""
        return np.stack([self._row(int(i)) for i in ids])

    def _row(self, i: int) -> np.ndarray:
        if self.labels is None:
            return self.tokens[i * self.seq_len : (i + 1) * self.seq_len + 1].astype("<i8")
        start = int(self.ends[i - 1]) + 1 if i else 0
        document = self.tokens[start : int(self.ends[i])][: self.seq_len]
        row = np.full(self.seq_len + 1, ABSENT, dtype="<i8")
        row[: len(document)] = document
        row[-1] = self.labels[i]
        return row


def step_ids(samples: int, global_batch: int, seed: int, step: int) -> np.ndarray:
    """Sample ids of one optimizer step, int64 of shape (global_batch,)."""
    ids = []
    for position in range(step * global_batch, (step + 1) * global_batch):
        epoch, place = divmod(position, samples)
        ids.append(_epoch(samples, seed, epoch)[place])
    return np.array(ids, dtype=np.int64)


def validation_ids(samples: int, count: int) -> np.ndarray:
    """Sample ids of the validation, int64."""
    scored = min(samples, count)
    return np.array([k * samples // scored for k in range(scored)], dtype=np.int64)


def checksum(rows: np.ndarray) -> str:
    """Of the tokens in some rows, whatever their order."""
    total = 0
    for row in rows:
        total += int.from_bytes(hashlib.sha256(row.astype("<i8").tobytes()).digest()[:8], "little")
    return f"{total % MODULUS:016x}"


_orders: dict[tuple[int, int, int], np.ndarray] = {}


def _epoch(samples: int, seed: int, epoch: int) -> np.ndarray:
    key = (samples, seed, epoch)
    if key not in _orders:
        _orders.clear()
        _orders[key] = np.random.RandomState((seed, epoch)).permutation(samples)
    return _orders[key]


def _checked(path: Path, size: int) -> Path:
    actual = path.stat().st_size if path.exists() else 0
    if actual != size:
        raise UserError(f"{path} has {actual:,} bytes, tokens.json describes {size:,}: tokenise the corpus again")
    return path
