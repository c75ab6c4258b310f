"""Encoding one row group of documents: the work of a tokenising process, which therefore imports little."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from scalebench.corpus import tokenizer

_load_once = lru_cache(maxsize=1)(tokenizer.load)  # one encoder a process


def groups(path: Path) -> int:
    """Number of row groups."""
    return pq.ParquetFile(path).num_row_groups


def read_group(path: Path, index: int) -> list[str]:
    """The documents of one row group."""
    return pq.ParquetFile(path).read_row_group(index).column("text").to_pylist()


def read(path: Path) -> Iterator[str]:
    """All documents, one after the other."""
    for index in range(groups(path)):
        yield from read_group(path, index)


def encode_group(store: Path, tokenizer_file: Path, dtype: np.dtype, index: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of one row group, each document ended by end-of-text, and the documents' lengths with that token."""
    encoding = _load_once(tokenizer_file)
    end = np.array([encoding.n_vocab - 1], dtype=dtype)
    pieces, lengths = [], []
    for text in read_group(store, index):
        # disallowed_special=() : a literal "<|endoftext|>" in a document is text, not the end of it
        ids = encoding.encode_to_numpy(text, disallowed_special=()).astype(dtype)
        pieces += [ids, end]
        lengths.append(len(ids) + 1)
    return np.concatenate(pieces), np.array(lengths)
