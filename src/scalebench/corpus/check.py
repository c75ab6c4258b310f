"""Opening the files of a corpus before anything runs: what `campaign validate` and `corpus check` do."""

from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from scalebench.campaign.corpora import Corpus, absent_field, check_local, local_files
from scalebench.corpus.forms import Unreadable, read
from scalebench.errors import UserError, shortened

MOST_OPENED = 100  # files of a corpus; a thousand of them are of one make
ROWS = 200  # that are read of each


def check_corpus(name: str, corpus: Corpus) -> None:
    """Raises UserError where a local file cannot be what the table says: by its first rows or its schema."""
    check_local(name, corpus)
    if corpus.form not in ("parquet", "csv", "jsonl"):
        return
    faults = _parquet_fault if corpus.form == "parquet" else _first_rows_fault
    for path in map(Path, local_files(name, corpus)[:MOST_OPENED]):
        if fault := faults(path, corpus):
            raise UserError(f"config/corpora.yaml: {name}.files: {path} {fault}")


def _first_rows_fault(path: Path, corpus: Corpus) -> str | None:
    rows = read(path, corpus.form or "", corpus.fields, corpus.document, bool(corpus.label), corpus.columns)
    try:
        for _ in islice(rows, ROWS):
            pass
    except Unreadable as error:
        return str(error)
    return None


def _parquet_fault(path: Path, corpus: Corpus) -> str | None:
    try:
        return absent_field(pq.read_schema(path).names, corpus)
    except (pa.ArrowException, OSError) as error:
        return f"cannot be read as parquet: {shortened(str(error).splitlines()[0], 200)}"
