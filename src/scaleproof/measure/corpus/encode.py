"""Encoding a shard of the documents: the work of a tokenising process, which therefore imports little."""

import hashlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tiktoken

from scaleproof.ground.errors import damaged_file, missing_file, shortened
from scaleproof.ground.files import whole_file, write_json
from scaleproof.measure.corpus import tokenizer

SPLITS = ("train", "val")
_load_once = lru_cache(maxsize=1)(tokenizer.load_encoder)  # one encoder a process


def open_documents(path: Path) -> pq.ParquetFile:
    """Open the documents.parquet of a corpus. Raises UserError where it is missing or cut off."""
    if not path.is_file():
        raise missing_file(path)
    try:
        return pq.ParquetFile(path)
    except pa.ArrowException as error:
        raise damaged_file(path, shortened(str(error), 200)) from None


def count_documents_by_group(path: Path) -> list[int]:
    """Return the number of documents in each row group of a documents.parquet."""
    metadata = open_documents(path).metadata
    return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


def read_documents(path: Path) -> Iterator[str]:
    """Yield the text of each document of a documents.parquet."""
    with open_documents(path) as file:
        for index in range(file.num_row_groups):
            yield from file.read_row_group(index, use_threads=False).column("text").to_pylist()


@dataclass(frozen=True)
class Shard:
    """Some consecutive row groups, and which of their documents are for validation."""

    number: int
    groups: range
    held_out: np.ndarray  # bool, one a document

    def file(self, folder: Path, ending: str) -> Path:
        """Return the shard's file in `folder` with that ending."""
        return folder / f"{self.number:06}.{ending}"


def encode_shard(store: Path, tokenizer_file: Path, dtype: np.dtype, folder: Path, shard: Shard) -> int:
    """Write the shard's token files into `folder`, each document ended by end-of-text, and then its description.

    `store`: the documents.parquet; `dtype`: of the token ids. Returns the number of row groups. The description comes
    last and by rename, so that a shard that has one is whole. Half a shard is removed: on a full disk it would take the
    room of the others.
    """
    encoding = _load_once(tokenizer_file)
    first = 0  # number in the shard of the row group's first document
    end_of_text = np.array([encoding.n_vocab - 1], dtype=dtype)

    with ExitStack() as stack:
        parts = {split: _TokenWriter(stack, shard.file(folder, split)) for split in SPLITS}
        file = stack.enter_context(open_documents(store))
        for index in shard.groups:  # a row group at a time is in memory
            texts = file.read_row_group(index, use_threads=False).column("text").to_pylist()
            held_out = shard.held_out[first : first + len(texts)]
            for split, is_in_split in (("train", ~held_out), ("val", held_out)):
                documents = [text for text, is_in in zip(texts, is_in_split, strict=True) if is_in]
                pieces = [piece for text in documents for piece in (_token_ids(encoding, text, dtype), end_of_text)]
                parts[split].add(pieces, len(documents))
            first += len(texts)
        description = {split: part.description for split, part in parts.items()}

    write_json(shard.file(folder, "json"), description)
    return len(shard.groups)


def _token_ids(encoding: tiktoken.Encoding, text: str, dtype: np.dtype) -> np.ndarray:
    """Return the token ids of a document, without end-of-text."""
    if encoding.n_vocab == tokenizer.FEWEST:  # the bytes and end-of-text: nothing to merge
        return np.frombuffer(text.encode(), dtype=np.uint8).astype(dtype)
    # disallowed_special=() : a literal "<|endoftext|>" in a document is text, not the end of it
    return encoding.encode_to_numpy(text, disallowed_special=()).astype(dtype)


class _TokenWriter:
    """Writes one token file, which gets its name when the block of `stack` ends."""

    def __init__(self, stack: ExitStack, path: Path) -> None:
        self.file = stack.enter_context(stack.enter_context(whole_file(path)).open("wb"))
        self.digest = hashlib.sha256()
        self.documents = 0

    def add(self, pieces: list[np.ndarray], documents: int) -> None:
        """Append the token ids of so many `documents`, in `pieces`: one document may be several of them."""
        if pieces:
            data = np.concatenate(pieces).tobytes()
            self.file.write(data)
            self.digest.update(data)
            self.documents += documents

    @property
    def description(self) -> dict[str, Any]:
        """What has been written so far, as tokens.json describes a split."""
        return {"documents": self.documents, "bytes": self.file.tell(), "sha256": self.digest.hexdigest()}


def end_with_parent() -> None:
    """Have this process end when its parent is killed: it would wait for work for ever.

    Called at its start. Ctrl-C, which reaches both, ends this process without a message: the parent prints one.
    """
    stops = (signal.SIGINT, signal.SIGTERM)
    for number in stops:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)
    parent = os.getppid()

    def watch() -> None:
        """End this process as soon as its parent has ended."""
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
