"""Whether the documents of a corpus are still those that were gathered, before anything is made of them."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from scaleproof.ground.errors import damaged_file, shortened
from scaleproof.ground.records.corpus_files import read_corpus_record
from scaleproof.measure.corpus.encode import open_documents
from scaleproof.measure.corpus.labels import COLUMN as LABEL


def read_unchanged(corpus_dir: Path) -> Iterator[str]:
    """Yield the text of each document of `corpus_dir`/documents.parquet.

    Raises UserError after the last one, where they are not those that corpus.json describes: their sha256 is made as it
    was when they were gathered, of each text, and of its class, with a zero byte after it.
    """
    path = corpus_dir / "documents.parquet"
    digest = hashlib.sha256()
    with open_documents(path) as file:
        for index in range(file.num_row_groups):  # one row group at a time is in memory
            try:
                rows = file.read_row_group(index, use_threads=False)
            except (pa.ArrowException, OSError) as error:
                raise damaged_file(path, shortened(str(error), 200)) from None
            columns = [rows[name].to_pylist() for name in ("text", LABEL) if name in rows.column_names]
            for document in zip(*columns, strict=True):
                digest.update(b"".join(str(value).encode() + b"\0" for value in document))
                yield document[0]
    if digest.hexdigest() != read_corpus_record(corpus_dir)["sha256"]:
        raise damaged_file(path, "its documents are not those that corpus.json beside it describes")


def check_unchanged(corpus_dir: Path) -> None:
    """Raise UserError where documents.parquet in `corpus_dir` does not hold the documents of its corpus.json."""
    for _ in read_unchanged(corpus_dir):
        pass  # what differs is said after the last one
