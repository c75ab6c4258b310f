"""Opening the files of a corpus before anything runs: what `campaign validate` and `corpus check` do."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from scalebench.campaign.corpora import Corpus, absent_field, check_local, local_files
from scalebench.errors import UserError, shortened


def check_corpus(name: str, corpus: Corpus) -> None:
    """Raises UserError where a local file cannot be what the table says: by its first bytes or its schema."""
    check_local(name, corpus)
    if corpus.form != "parquet":
        return
    for path in map(Path, local_files(name, corpus)):
        if fault := _parquet_fault(path, corpus):
            raise UserError(f"config/corpora.yaml: {name}.files: {path} {fault}")


def _parquet_fault(path: Path, corpus: Corpus) -> str | None:
    try:
        return absent_field(pq.read_schema(path).names, corpus)
    except (pa.ArrowException, OSError) as error:
        return f"cannot be read as parquet: {shortened(str(error).splitlines()[0], 200)}"
