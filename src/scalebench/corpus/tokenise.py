"""Documents to flat token files: train.bin, val.bin and tokens.json."""

import hashlib
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from scalebench.corpus import encode, tokenizer
from scalebench.errors import UserError
from scalebench.progress import progress

SPLITS = ("train", "val")
ALONE = 8  # row groups; up to so many are not worth starting processes for


def tokenise(corpus_dir: Path, tokenizer_file: Path, out: Path, processes: int | None = None) -> dict:
    """Encode `corpus_dir`/documents.parquet into `out`/{train,val}.bin and describe them in `out`/tokens.json.

    Files are flat little-endian token ids, uint16 up to 65,536 entries and uint32 above; each document is followed by
    end-of-text. Text that spells a special token is encoded as ordinary text. The bytes depend only on the documents
    and the tokenizer, not on the number of processes. Returns the description. Raises UserError on a corpus of one
    document, which cannot be split.
    """
    source = json.loads((corpus_dir / "corpus.json").read_text())
    encoding = tokenizer.load(tokenizer_file)
    dtype = np.dtype("<u2" if encoding.n_vocab <= 1 << 16 else "<u4")
    held_out = _held_out(source)
    store = corpus_dir / "documents.parquet"
    groups = encode.groups(store)
    written = {split: _Writer(out / f"{split}.bin") for split in SPLITS}
    first = 0
    for tokens, lengths in progress(
        _encoded(store, tokenizer_file, dtype, groups, processes), groups, "tokenise", "groups"
    ):
        held = held_out[first : first + len(lengths)]
        in_val = np.repeat(held, lengths)
        written["train"].add(tokens[~in_val], int((~held).sum()))
        written["val"].add(tokens[in_val], int(held.sum()))
        first += len(lengths)
    description = {
        "corpus": source["corpus"],
        "source": source["source"],
        "revision": source["revision"],
        "licence": source["licence"],
        "corpus_sha256": source["sha256"],
        "replaced_characters": source["replaced_characters"],
        "tokenizer": encoding.name,
        "tokenizer_sha256": hashlib.sha256(tokenizer_file.read_bytes()).hexdigest(),
        "vocab_size": encoding.n_vocab,
        "end_of_text": encoding.n_vocab - 1,
        "dtype": dtype.name,
        **{split: written[split].close(dtype) for split in SPLITS},
    }
    description["bytes_per_token"] = round(source["bytes"] / sum(description[s]["tokens"] for s in SPLITS), 4)
    (out / "tokens.json").write_text(json.dumps(description, indent=2) + "\n")
    return description


def _held_out(source: dict) -> np.ndarray:
    """True for the documents of the validation split: a fixed pseudo-random choice that depends on their number alone."""
    n = source["documents"]
    if n < 2:
        raise UserError(
            f'config/corpora.yaml: corpus "{source["corpus"]}" has one document, which cannot be split into train and '
            "validation; for a text file set `document: paragraph` or `document: line`"
        )
    held = np.zeros(n, dtype=bool)
    count = max(1, round(source["validation_fraction"] * n))
    held[np.random.RandomState(0).permutation(n)[:count]] = True  # RandomState: numpy never changes its stream
    return held


def _encoded(
    store: Path, tokenizer_file: Path, dtype: np.dtype, groups: int, processes: int | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Tokens and document lengths of each row group, in order."""
    workers = min(processes or len(os.sched_getaffinity(0)), groups)
    work = partial(encode.encode_group, store, tokenizer_file, dtype)
    if workers < 2 or groups <= ALONE:
        yield from map(work, range(groups))
        return
    # fork, where it is safe, spares each process its imports: a tenth of the time that 50 MB take
    with multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn").Pool(workers) as pool:
        yield from pool.imap(work, range(groups))


class _Writer:
    """A token file in the making: written beside its name, counted and hashed, renamed when whole."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path, self.part = path, path.with_suffix(".bin.part")
        self.file = self.part.open("wb")
        self.digest, self.documents = hashlib.sha256(), 0

    def add(self, tokens: np.ndarray, documents: int) -> None:
        data = tokens.tobytes()
        self.file.write(data)
        self.digest.update(data)
        self.documents += documents

    def close(self, dtype: np.dtype) -> dict:
        size = self.file.tell()
        self.file.close()
        self.part.replace(self.path)
        return {
            "file": self.path.name,
            "documents": self.documents,
            "tokens": size // dtype.itemsize,
            "bytes": size,
            "sha256": self.digest.hexdigest(),
        }
