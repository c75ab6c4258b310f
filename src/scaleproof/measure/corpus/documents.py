"""Documents of a corpus: gathered from the interpreter, local files or downloads, stored as one Parquet file."""

import ast
import hashlib
import platform
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scaleproof.ground.campaign.corpora import Corpus, local_files
from scaleproof.ground.campaign.local_corpus import check_local
from scaleproof.ground.code_dependencies import documented_nodes
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import sha256_of, sha256_of_library, whole_file, write_json
from scaleproof.measure.corpus import forms
from scaleproof.measure.corpus.labels import COLUMN as LABEL
from scaleproof.measure.corpus.labels import order_classes
from scaleproof.measure.corpus.remote import Remote

SURROGATE_HALF = re.compile("[\ud800-\udfff]")
GROUP_BYTES = 1_000_000  # text in one row group: what a tokenising process takes at a time
_SKIP = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "__pycache__"}


def gather_documents(name: str, corpus: Corpus, out: Path, remote: Remote = Remote()) -> dict[str, Any]:  # noqa: B008  (frozen)
    """Write the documents of `corpus` to `out`/documents.parquet, and their description to `out`/corpus.json.

    Returns the description. Raises UserError where no document is left, or a file is not as the corpus table says.
    """
    check_local(name, corpus)
    out.mkdir(parents=True, exist_ok=True)
    sources: list[dict[str, Any]] = []  # appended by `_read_documents` as it reads
    with whole_file(out / "documents.parquet") as partial, _DocumentWriter(partial, corpus) as store:
        for text, label in _read_documents(name, corpus, remote, sources):
            if not store.add(text, label):
                break  # the budget has no room for this document, or for another one
        if not store.documents:
            budget = f" within its budget of {corpus.budget}" if corpus.budget else ""
            source = ", ".join(corpus.files or corpus.load) or corpus.source
            raise UserError(f'config/corpora.yaml: corpus "{name}" is empty: {source} holds no text{budget}')

    description = {
        "corpus": name,
        "source": corpus.source,
        "revision": f"python-{platform.python_version()}" if corpus.source == "python-docs" else corpus.revision,
        "budget": corpus.budget,
        "licence": corpus.licence,
        "validation_fraction": corpus.validation_fraction,
        "documents": store.documents,
        "bytes": store.bytes,
        "empty_documents": store.empty,
        "replaced_characters": store.replaced,
        "sha256": store.digest.hexdigest(),
        **({"classes": order_classes(name, store.classes, store.documents)} if corpus.label else {}),
        **({"library": sha256_of_library()} if corpus.source == "python-docs" else {}),
        "files": sources,
    }
    write_json(out / "corpus.json", description)
    return description


class _DocumentWriter:
    """Writes documents to a Parquet file, a row group for each GROUP_BYTES of text.

    It counts documents and their UTF-8 bytes, and keeps the set of their classes and one sha256 of all, with a zero
    byte after each. Empty documents are dropped, and halves of surrogate pairs become U+FFFD: both are counted.
    """

    def __init__(self, path: Path, corpus: Corpus) -> None:
        """Open the file at `path` for writing. `corpus` says the budget, and whether documents have a class."""
        self.documents = self.bytes = self.empty = self.replaced = 0
        self.classes: set[str] = set()
        self.digest = hashlib.sha256()
        self._most_bytes, self._most_documents = corpus.limits
        # In a text file each U+FFFD stands for a byte that was not UTF-8; in other forms its author wrote it.
        self._counts_replacements = corpus.form == "text"
        self._group: dict[str, list[str]] = {"text": [], LABEL: []} if corpus.label else {"text": []}
        self._group_bytes = 0
        self._schema = pa.schema([(column, pa.large_string()) for column in self._group])
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")

    def __enter__(self) -> "_DocumentWriter":
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self._write_group()
        self._writer.close()

    def add(self, text: str, label: str | None) -> bool:
        """Store a document, unless it is empty or exceeds the budget.

        Returns whether the budget leaves room for more. `label`: its class, None for a corpus without classes.
        """
        if not text.strip():
            self.empty += 1
            return True
        text, halves = _replace_lone_surrogates(text)
        encoded = text.encode()
        if self._most_bytes and self.bytes + len(encoded) > self._most_bytes:
            return False

        self.replaced += halves
        if self._counts_replacements:
            self.replaced += text.count("\N{REPLACEMENT CHARACTER}")
        self.documents += 1
        self.bytes += len(encoded)
        self.digest.update(encoded + b"\0")
        self._group["text"].append(text)
        self._group_bytes += len(encoded)
        if label is not None:
            self.digest.update(label.encode() + b"\0")
            self._group[LABEL].append(label)
            self.classes.add(label)
        if self._group_bytes >= GROUP_BYTES:
            self._write_group()
        return self.documents != self._most_documents  # always True where that is None

    def _write_group(self) -> None:
        """Write the documents since the last row group as the next row group."""
        if self._group["text"]:
            self._writer.write_table(pa.table(self._group, schema=self._schema))
        self._group = {column: [] for column in self._group}
        self._group_bytes = 0


def _read_documents(
    name: str, corpus: Corpus, remote: Remote, sources: list[dict[str, Any]]
) -> Iterator[tuple[str, str | None]]:
    """Yield text and label of each document of the corpus `name`, in order. Without classes the label is None.

    Each remote file is downloaded when its turn comes. A description of each file that was read, or the commit of a
    data set, is appended to `sources`.
    """
    if corpus.source == "python-docs":
        yield from ((text, None) for text in python_docs())
    for local in local_files(name, corpus):
        path = Path(local)
        sources.append({"file": local, "size": path.stat().st_size, "sha256": sha256_of(path)})
        yield from _read_file(name, corpus, path, local)
    if corpus.source == "dataset":
        dataset = remote.dataset(name, corpus)
        commit = dataset.commit()
        sources.append({"dataset": corpus.load, "commit": commit})
        yield from dataset.documents(commit)
    if corpus.remote:
        for file in corpus.remote_files:
            path, record = remote.download(corpus, file)
            sources.append({"file": file, **record})
            yield from _read_file(name, corpus, path, file)


def _read_file(name: str, corpus: Corpus, path: Path, display_name: str) -> Iterator[tuple[str, str | None]]:
    """Yield text and label of each document of a file, which messages call `display_name`. Raises UserError."""
    form = corpus.form or "text"
    has_labels = corpus.label is not None
    try:
        yield from forms.documents_of_file(path, form, corpus.fields, corpus.document, has_labels, corpus.columns)
    except forms.NotADocument as reason:
        raise UserError(f'config/corpora.yaml: corpus "{name}": {display_name} {reason}') from reason


def _replace_lone_surrogates(text: str) -> tuple[str, int]:
    """Return the text with U+FFFD for each lone surrogate, and their number. JSON can hold them, UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return SURROGATE_HALF.subn("\N{REPLACEMENT CHARACTER}", text)
    return text, 0


def python_docs() -> Iterator[str]:
    """Yield the topics of the language reference, then the docstrings of each standard library file, by path."""
    from pydoc_data.topics import topics

    yield from (topics[name] for name in sorted(topics))
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if _SKIP.isdisjoint(path.relative_to(library).parts):
            yield _docstrings_of_file(path)


def _docstrings_of_file(path: Path) -> str:
    """Return all docstrings of a Python file, a blank line between them. Returns "" where the file does not parse."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # templates and deliberately broken files
        return ""
    docstrings = map(ast.get_docstring, documented_nodes(tree))
    return "\n\n".join(text for text in docstrings if text)
