"""The token files, read a second time: against the documents that they are made of, and these against their source.

The tokens of some documents are made anew by the tokenizer's own library, and looked for where the written rule puts
them. Imports nothing of `measure/corpus`, which wrote the files.

**Rule.** Of n documents, those numbered `numpy.random.RandomState(0).permutation(n)[:v]` are the validation split, with
v = max(1, round(n x validation_fraction)); the others are the training split. A split holds its documents in their
order, each followed by one end-of-text.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import tiktoken

from scaleproof.ground.campaign.corpora import Corpus
from scaleproof.ground.errors import damaged_file, missing_file, shortened
from scaleproof.ground.files import read_record
from scaleproof.ground.number_format import integer
from scaleproof.ground.records.corpus_files import read_corpus_record, read_tokens_record
from scaleproof.measure.reference.schema import CorpusReading
from scaleproof.measure.reference.source_reader import read_source

READ_AGAIN = 32  # documents of each split that are tokenised again
LONGEST = 200_000  # first characters of a document that are tokenised again
N_SPECIAL_TOKENS = 1  # end-of-text
UNSURE = 64  # tokens before a cut that the rest of the text could change
CHUNK = 1 << 24  # tokens in memory at a time
COUNTED_TOKENS = 1 << 26  # tokens at the start of the training split that are counted by entry
OPENING = 64  # first tokens of a document that, with its length, identify it; shorter documents repeat by chance
Tokens = npt.NDArray[np.unsignedinteger[Any]]


def read_corpus(folder: Path, corpus: Corpus, downloads: Path) -> CorpusReading:
    """Read the token files of a corpus a second time, independently of the code that wrote them.

    `folder`: results/corpora/<corpus>/<tokenizer>. `corpus`: as the campaign describes it. `downloads`: the folder of
    its downloaded files. Raises UserError where a file is missing or damaged.
    """
    token_record: dict[str, Any] = dict(read_tokens_record(folder))
    splits = {name: _Split(folder, token_record, name) for name in ("train", "val")}
    corpus_record: dict[str, Any] = dict(read_corpus_record(folder.parent))
    store = _DocumentStore(folder.parent / "documents.parquet", corpus_record["validation_fraction"])
    table = read_record(folder / "tokenizer.json", json.loads)

    differences = [
        *_table_differences(token_record, len(table["tokens"]) + N_SPECIAL_TOKENS, splits),
        *_count_differences(store, splits),
    ]
    encoding = _make_encoding(table)
    documents_read = 0
    for name, split in splits.items():
        for document in store.choose_documents(name, READ_AGAIN):
            documents_read += 1
            differences += _document_differences(split, document, encoding)

    comparison = read_source(corpus_record, store.path, corpus, downloads)
    return CorpusReading(
        documents=store.documents,
        read=documents_read,
        differences=[*comparison.differences, *differences],
        compared=comparison.documents_compared,
        unread=comparison.reason_unread or None,
        **_split_statistics(splits),
    )


class _Split:
    """The tokens of a split, and where its documents end. `largest_id`: the largest token id."""

    def __init__(self, folder: Path, token_record: dict[str, Any], name: str) -> None:
        """Read the split `name` (train, val) of the corpus in `folder`. `token_record`: the content of tokens.json."""
        tokens: Tokens = np.memmap(folder / token_record[name]["file"], dtype=token_record["dtype"], mode="r")
        self.name = name
        self.tokens = tokens
        self.end_of_text = int(token_record["end_of_text"])
        self.largest_id = 0
        ends = []
        for first in range(0, len(tokens), CHUNK):
            chunk = np.asarray(tokens[first : first + CHUNK])
            self.largest_id = max(self.largest_id, int(chunk.max()))
            ends.append(np.flatnonzero(chunk == self.end_of_text) + first)
        self.ends = np.concatenate(ends) if ends else np.empty(0, dtype=np.int64)

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each document begins."""
        return np.concatenate([[0], self.ends[:-1] + 1]).astype(np.int64)[: len(self.ends)]

    def document(self, place: int) -> Tokens:
        """Return the tokens of the document in place `place` of this split, without its end-of-text."""
        return self.tokens[int(self.starts[place]) : int(self.ends[place])]

    @cached_property
    def openings(self) -> npt.NDArray[np.uint64]:
        """A hash of length and first OPENING tokens of each document that has so many tokens.

        It is a polynomial modulo 2^64 with an odd multiplier: different openings hardly ever have the same hash.
        """
        lengths = self.ends - self.starts
        long_enough = lengths >= OPENING
        starts, lengths = self.starts[long_enough], lengths[long_enough]
        powers = np.cumprod(np.full(OPENING, 0x9E3779B97F4A7C15, dtype=np.uint64), dtype=np.uint64)
        documents_at_once = CHUNK // OPENING
        hashes = []
        for first in range(0, len(starts), documents_at_once):
            places = starts[first : first + documents_at_once, None] + np.arange(OPENING)  # (documents, OPENING)
            hashes.append((self.tokens[places].astype(np.uint64) * powers).sum(axis=1, dtype=np.uint64))
        token_hashes = np.concatenate(hashes) if hashes else np.empty(0, dtype=np.uint64)
        return token_hashes * np.uint64(2654435761) + lengths.astype(np.uint64)  # any odd factor would do


@dataclass(frozen=True)
class _Document:
    """A document of the corpus: its number in the corpus, its place in its split, its text."""

    number: int
    place: int
    text: str


@dataclass
class _DocumentStore:
    """The documents of a corpus in its documents.parquet (`path`), found by their numbers."""

    path: Path
    validation_fraction: float

    @cached_property
    def row_groups(self) -> list[int]:
        """How many documents each row group of documents.parquet has. Raises UserError where it is damaged."""
        if not self.path.is_file():
            raise missing_file(self.path)
        try:
            metadata = pq.read_metadata(self.path)
        except pa.ArrowException as error:
            raise damaged_file(self.path, shortened(str(error), 200)) from None
        return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]

    @property
    def documents(self) -> int:
        """How many documents the corpus has."""
        return sum(self.row_groups)

    @cached_property
    def held_out(self) -> npt.NDArray[np.bool_]:
        """A boolean mask of the documents of the validation split."""
        mask = np.zeros(self.documents, dtype=bool)
        count = max(1, round(self.documents * self.validation_fraction))
        mask[np.random.RandomState(0).permutation(self.documents)[:count]] = True
        return mask

    def numbers(self, split: str) -> npt.NDArray[np.int64]:
        """Return the numbers of a split's documents, in order."""
        return np.flatnonzero(self.held_out if split == "val" else ~self.held_out)

    def choose_documents(self, split: str, count: int) -> Iterator[_Document]:
        """Yield `count` documents of a split, chosen at random, or all if there are fewer."""
        numbers = self.numbers(split)
        places = np.sort(np.random.default_rng().permutation(len(numbers))[:count])
        for place in places:
            number = int(numbers[place])
            yield _Document(number=number, place=int(place), text=self._text(number))

    def _text(self, number: int) -> str:
        """Return the text of the document with this number."""
        row = number  # the document's row, counted from the start of the loop's row group
        for group, rows in enumerate(self.row_groups):
            if row < rows:
                with pq.ParquetFile(self.path) as file:
                    texts = file.read_row_group(group, columns=["text"], use_threads=False)["text"]
                    return str(texts[row].as_py())
            row -= rows
        raise IndexError(number)


def _make_encoding(table: dict[str, Any]) -> tiktoken.Encoding:
    """Return the tokenizer that `table`, the content of tokenizer.json, describes."""
    ranks = {bytes.fromhex(entry): rank for rank, entry in enumerate(table["tokens"])}
    return tiktoken.Encoding("second reading", pat_str=table["pattern"], mergeable_ranks=ranks, special_tokens={})


def _table_differences(token_record: dict[str, Any], vocab_size: int, splits: dict[str, _Split]) -> Iterator[str]:
    """Yield a sentence for each difference between tokens.json, the ids in the splits, and the tokenizer.

    `vocab_size`: the number of entries of the tokenizer, end-of-text included. `splits`: name -> split.
    """
    if token_record["vocab_size"] != vocab_size:
        recorded_size = integer(token_record["vocab_size"])
        yield f"tokens.json describes a table of {recorded_size} entries, the tokenizer has {integer(vocab_size)}"
    for name, split in splits.items():
        if split.largest_id >= vocab_size:
            last_id = integer(vocab_size - 1)
            yield f"{name}.bin has the id {integer(split.largest_id)}, the tokenizer's last is {last_id}"


def _count_differences(store: _DocumentStore, splits: dict[str, _Split]) -> Iterator[str]:
    """Yield a sentence for each split whose number of ends of text is not its number of documents."""
    for name, split in splits.items():
        expected = len(store.numbers(name))
        if len(split.ends) != expected:
            ends = integer(len(split.ends))
            yield f"{name}.bin has {ends} ends of text, the corpus has {integer(expected)} documents for it"


def _document_differences(split: _Split, document: _Document, encoding: tiktoken.Encoding) -> Iterator[str]:
    """Yield a sentence if the first LONGEST characters of a document do not encode to its tokens."""
    if document.place >= len(split.ends):  # the split has no such document: `_count_differences` says so
        return
    expected = np.array(encoding.encode_ordinary(document.text[:LONGEST]), dtype=np.int64)
    tokens = split.document(document.place).astype(np.int64)
    if len(document.text) > LONGEST:  # the last tokens before the cut may be others in the whole text: not compared
        expected = expected[:-UNSURE]
        tokens = tokens[: len(expected)]
    common = min(len(tokens), len(expected))
    differing = np.flatnonzero(tokens[:common] != expected[:common])
    if not len(differing) and len(tokens) == len(expected):
        return

    first = int(differing[0]) if len(differing) else common
    yield (
        f"document {integer(document.number)}, number {integer(document.place)} of {split.name}.bin, has "
        f"{integer(len(tokens))} tokens there and {integer(len(expected))} by its tokenizer; "
        f"they differ from token {integer(first)} on"
    )


def _split_statistics(splits: dict[str, _Split]) -> dict[str, Any]:
    """Return the fields of a CorpusReading that depend on tokens alone: their distribution, and repeated documents."""
    train, validation = splits["train"], splits["val"]
    count_of_id = np.bincount(np.asarray(train.tokens[:COUNTED_TOKENS]))
    shares = count_of_id[count_of_id > 0] / max(1, count_of_id.sum())
    share_repeated: float | None = None
    share_in_training: float | None = None
    if len(train.openings):
        share_repeated = 1 - len(np.unique(train.openings)) / len(train.openings)
        if len(validation.openings):
            share_in_training = float(np.isin(validation.openings, train.openings).mean())

    return {
        "distinct_tokens": int((count_of_id > 0).sum()),
        "entropy_bits": float(-(shares * np.log2(shares)).sum()),
        "repeated_documents": share_repeated,
        "validation_in_training": share_in_training,
    }
