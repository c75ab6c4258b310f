"""The source of a corpus, read a second time: are the documents that were gathered those that the campaign names?

Imports nothing of `measure/corpus`, which gathered them. What is on this machine is read, nothing is downloaded.

**Rule.** The documents of a corpus are the rows, paragraphs, lines or texts of its files in their order, those without
a letter left out, up to the budget. A file that changed since says nothing about what was gathered from it.
"""

import ast
import csv
import io
import itertools
import json
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

from scaleproof.ground.campaign.corpora import Corpus, Known, local_files
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import sha256_of, sha256_of_library
from scaleproof.ground.number_format import integer

MOST_BYTES = 1 << 26  # of text that are read again
NOT_LIBRARY = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "__pycache__"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

Document = tuple[str, str | None]  # text and label


class Unread(Exception):
    """Raised where the source cannot be read again, or is not what it was; the message says why."""


class OtherSource(Exception):
    """Raised where the documents were made from other files than the table of corpora names; the message says which."""


class SourceComparison(NamedTuple):
    """What a comparison of documents with their source has found."""

    documents_compared: int
    reason_unread: str  # why not all documents were compared; "": all were
    differences: list[str]  # a sentence each


def read_source(corpus_record: dict[str, Any], store: Path, corpus: Corpus, downloads: Path) -> SourceComparison:
    """Compare the documents of a corpus with its source, as far as the source can be read here.

    `corpus_record`: the content of corpus.json. `store`: documents.parquet beside it. `corpus`: as the campaign
    describes it. `downloads`: the folder of downloaded files.
    """
    budget_bytes, budget_documents = corpus.limits
    gathered_documents = _read_gathered(store)
    n = 0  # documents that were compared
    n_bytes = 0  # their bytes
    try:
        for document in _read_source_documents(corpus_record, corpus, downloads):
            text, _ = document
            n_bytes += len(text.encode())
            is_over_budget = budget_bytes and n_bytes > budget_bytes
            if n == budget_documents or is_over_budget:
                break  # the gathering ended here as well
            if n_bytes > MOST_BYTES:
                return SourceComparison(n, f"of so much text its first {integer(MOST_BYTES)} bytes are read", [])
            gathered = next(gathered_documents, None)
            if gathered is None:
                difference = f"{integer(n)} documents were gathered, and their source has more"
                return SourceComparison(n, "", [difference])
            if gathered != document:
                difference = f"document {integer(n)} is not the one in its source, which begins {text[:60]!r}"
                return SourceComparison(n, "", [difference])
            n += 1
    except OtherSource as reason:
        return SourceComparison(n, "", [str(reason)])
    except (Unread, UserError, pa.ArrowException, ValueError, TypeError, LookupError, csv.Error, OSError) as reason:
        return SourceComparison(n, " ".join(str(reason).split()), [])

    if next(gathered_documents, None) is None:
        return SourceComparison(n, "", [])
    return SourceComparison(n, "", [f"the source gives {integer(n)} documents, and more were gathered"])


def _read_gathered(store: Path) -> Iterator[Document]:
    """Yield text and label of each document that was gathered."""
    with pq.ParquetFile(store) as file:
        for batch in file.iter_batches(use_threads=False):
            columns = batch.to_pydict()
            yield from zip(columns["text"], columns.get("label", itertools.repeat(None)), strict=False)


def _read_source_documents(corpus_record: dict[str, Any], corpus: Corpus, downloads: Path) -> Iterator[Document]:
    """Yield text and label of each document of the source that is not blank. Raises Unread or OtherSource."""
    if corpus.source == "dataset":
        raise Unread("it is streamed from the hub, which is not asked twice")
    if corpus.source == "python-docs":
        if corpus_record.get("library") != sha256_of_library():
            raise Unread(f"it was gathered from another library, of {corpus_record['revision']}")
        documents: Iterator[Document] = ((text, None) for text in _read_library_texts())
    else:
        paths = _find_files(corpus_record, corpus, downloads)
        documents = itertools.chain.from_iterable(_read_file(path, corpus) for path in paths)
    for text, label in documents:
        if text.strip():
            yield re.sub("[\ud800-\udfff]", "\ufffd", text), label


def _find_files(corpus_record: dict[str, Any], corpus: Corpus, downloads: Path) -> Iterator[Path]:
    """Yield each checked file of the source. Raises Unread (gone or changed) or OtherSource (another sha256)."""
    record_of_file = {record.get("file"): record for record in corpus_record["files"]}
    if not record_of_file:
        raise Unread("its files were not recorded when it was gathered")
    for name in corpus.remote_files if corpus.remote else local_files(corpus_record["corpus"], corpus):
        path = _download_folder(corpus, downloads) / name if corpus.remote else Path(name)
        is_named = corpus.remote or name in corpus.files  # else only a pattern matches it: it may be a newer file
        if name not in record_of_file and not is_named:
            raise Unread(f"{name} was not there when it was gathered")
        if not path.is_file():
            raise Unread(f"{name} is not here any more")

        table_sha256 = corpus.known.get(name, Known()).sha256
        recorded_sha256 = record_of_file.get(name, {}).get("sha256")
        if table_sha256 and recorded_sha256 and table_sha256 != recorded_sha256:
            raise OtherSource(
                f"{name} had sha256 {recorded_sha256[:12]}..., not {table_sha256[:12]}..., when it was gathered"
            )
        if name in record_of_file and sha256_of(path) != recorded_sha256:
            raise Unread(f"{name} has changed since")
        yield path


def _download_folder(corpus: Corpus, downloads: Path) -> Path:
    """Return the folder in which downloaded files of a corpus are."""
    version = corpus.revision or "none"
    if corpus.source == "hub":
        return downloads / "hub" / str(corpus.repository) / version
    address = urlsplit(corpus.urls[0])
    return downloads / f"{address.hostname}/{address.path.strip('/')}" / version


def _read_file(path: Path, corpus: Corpus) -> Iterator[Document]:
    """Yield text and label (None without labels) of each document of a file, blank documents too."""
    if corpus.form == "text":
        yield from ((text, None) for text in _read_texts(path, corpus.document))
        return
    for row in _read_rows(path, corpus):
        values = [row[name] for name in corpus.fields]  # texts, then the label if there is one
        label = str(values.pop()).strip() if corpus.label else None
        yield " ".join(text for text in values if text), label


def _read_texts(path: Path, document: str) -> Iterator[str]:
    """Yield the documents of a text file: the file, its lines or paragraphs. Raises Unread after MOST_BYTES."""
    with pa.input_stream(path, compression="detect") as stream:
        data = stream.read(MOST_BYTES + 1)
    text = re.sub("\r\n?", "\n", data.decode(errors="replace"))
    if document == "file":
        documents = [text]
    elif document == "line":
        documents = text.split("\n")
    else:
        # Paragraphs: lines with text, up to a blank line, with their line ends.
        *lines, last_line = text.split("\n")
        whole_lines = [*(f"{line}\n" for line in lines), last_line]
        groups = itertools.groupby(whole_lines, key=lambda line: bool(line.strip()))
        documents = ["".join(group) for has_text, group in groups if has_text]
    if len(data) <= MOST_BYTES:
        yield from documents
        return

    yield from documents[:-1]  # the last document is cut off
    raise Unread(f"of {path} the first {integer(MOST_BYTES)} bytes are read")


def _read_rows(path: Path, corpus: Corpus) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet, JSON Lines or CSV file as field -> value."""
    if corpus.form == "parquet":
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=corpus.fields, use_threads=False):
                yield from batch.to_pylist()
        return
    with io.TextIOWrapper(pa.input_stream(path, compression="detect"), encoding="utf-8", newline="") as lines:
        if corpus.form == "csv":
            csv.field_size_limit(MOST_BYTES)
            lines_without_mark = itertools.chain([next(lines, "").removeprefix("\ufeff")], lines)
            yield from csv.DictReader(lines_without_mark, fieldnames=corpus.columns or None)
        else:
            yield from (json.loads(line) for line in lines if line.strip())


def _read_library_texts() -> Iterator[str]:
    """Yield the topics of the language reference, then the docstrings of each file of the standard library."""
    from pydoc_data.topics import topics

    yield from (text for _, text in sorted(topics.items()))
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        if not NOT_LIBRARY.isdisjoint(path.relative_to(root).parts):
            continue
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        texts = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, DOCUMENTED)]
        yield "\n\n".join(filter(None, texts))
