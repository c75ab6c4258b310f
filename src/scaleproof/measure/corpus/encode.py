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
    """Write the shard's token files, and then its description, into `folder`. Returns the number of its row groups.

    `store`: the documents.parquet; `dtype`: of the token ids. End-of-text follows each document. A shard with a
    description is complete. Half a shard is removed: on a full disk it would take the room of the others.
    """
    encoding = _load_once(tokenizer_file)
    end_of_text = np.array([encoding.n_vocab - 1], dtype=dtype)
    first_document = 0  # number in the shard of the row group's first document

    with ExitStack() as stack:
        writers = {split: _TokenWriter(stack, shard.file(folder, split)) for split in SPLITS}
        file = stack.enter_context(open_documents(store))
        for index in shard.groups:  # one row group at a time is in memory
            texts = file.read_row_group(index, use_threads=False).column("text").to_pylist()
            held_out = shard.held_out[first_document : first_document + len(texts)]
            pieces: dict[str, list[np.ndarray]] = {split: [] for split in SPLITS}  # split -> ids of its documents
            for text, is_held_out in zip(texts, held_out, strict=True):
                pieces["val" if is_held_out else "train"] += [_token_ids(encoding, text, dtype), end_of_text]
            for split, writer in writers.items():
                writer.add(pieces[split], documents=len(pieces[split]) // 2)  # two pieces each: ids, end-of-text
            first_document += len(texts)
        description = {split: writer.description for split, writer in writers.items()}

    write_json(shard.file(folder, "json"), description)
    return len(shard.groups)


def _token_ids(encoding: tiktoken.Encoding, text: str, dtype: np.dtype) -> np.ndarray:
    """Return the token ids of a document, without end-of-text."""
    if encoding.n_vocab == tokenizer.FEWEST:  # the bytes and end-of-text: nothing to merge
        return np.frombuffer(text.encode(), dtype=np.uint8).astype(dtype)
    # disallowed_special=(): a literal "<|endoftext|>" in a document is text, not its end.
    return encoding.encode_to_numpy(text, disallowed_special=()).astype(dtype)


class _TokenWriter:
    """Writes the token file `path`, which appears once the `with` block of `stack` has ended."""

    def __init__(self, stack: ExitStack, path: Path) -> None:
        self.file = stack.enter_context(stack.enter_context(whole_file(path)).open("wb"))
        self.digest = hashlib.sha256()
        self.documents = 0

    def add(self, pieces: list[np.ndarray], documents: int) -> None:
        """Append the token ids in `pieces`. `documents`: how many documents they are of."""
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
    """Make this process end when its parent is killed, since it would wait for work for ever.

    Called at the process' start. Ctrl-C, which reaches both, ends it without a message: the parent prints one.
    """
    stops = (signal.SIGINT, signal.SIGTERM)
    for number in stops:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, stops)  # a child inherits what its parent has blocked
    parent = os.getppid()

    def watch() -> None:
        """End this process as soon as its parent has ended."""
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
