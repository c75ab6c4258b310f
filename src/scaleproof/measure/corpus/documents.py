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

from scaleproof.ground.campaign.corpora import Corpus, check_local, local_files
from scaleproof.ground.code_dependencies import documented_nodes
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import sha256_of, sha256_of_library, whole_file, write_json
from scaleproof.measure.corpus import forms
from scaleproof.measure.corpus.labels import COLUMN as LABEL
from scaleproof.measure.corpus.labels import classes_in_order
from scaleproof.measure.corpus.remote import Remote

SURROGATE_HALF = re.compile("[\ud800-\udfff]")
GROUP_BYTES = 1_000_000  # text in one row group: what a tokenising process takes at a time
_SKIP = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "__pycache__"}


def gather_documents(name: str, corpus: Corpus, out: Path, remote: Remote = Remote()) -> dict[str, Any]:  # noqa: B008  (frozen)
    """Write the documents of `corpus` to `out`/documents.parquet, and their description to `out`/corpus.json.

    Empty documents are dropped, halves of surrogate pairs become U+FFFD; both are counted.
    Returns the description: counts, UTF-8 bytes, sha256 over the documents (a zero byte after each), source, revision,
    licence, and the files read. Raises UserError where no document is left, or a file is not as the corpus table says.
    """
    check_local(name, corpus)
    out.mkdir(parents=True, exist_ok=True)
    digest, counts = hashlib.sha256(), {"documents": 0, "bytes": 0, "empty_documents": 0, "replaced_characters": 0}
    sources: list[dict[str, Any]] = []
    most_bytes, most_documents = corpus.limits
    # The columns of the row group that is being filled; it is written when it has GROUP_BYTES.
    group: dict[str, list[str]] = {"text": [], LABEL: []} if corpus.label else {"text": []}
    group_bytes = 0
    schema = pa.schema([(column, pa.large_string()) for column in group])
    classes: set[str] = set()
    with (
        whole_file(out / "documents.parquet") as partial,
        pq.ParquetWriter(partial, schema, compression="zstd") as writer,
    ):
        for text, label in _documents(name, corpus, remote, sources):
            if not text.strip():
                counts["empty_documents"] += 1
                continue
            text, halves = _replace_lone_surrogates(text)
            counts["replaced_characters"] += halves
            data = text.encode()
            if most_bytes and counts["bytes"] + len(data) > most_bytes:
                break
            digest.update(data + b"\0")
            counts["documents"] += 1
            counts["bytes"] += len(data)
            if corpus.form == "text":  # reading put them there; in other forms they are the corpus' own
                counts["replaced_characters"] += text.count("\N{REPLACEMENT CHARACTER}")
            group["text"].append(text)
            group_bytes += len(data)
            if label is not None:
                digest.update(label.encode() + b"\0")
                group[LABEL].append(label)
                classes.add(label)
            if group_bytes >= GROUP_BYTES:
                writer.write_table(pa.table(group, schema=schema))
                group, group_bytes = {column: [] for column in group}, 0
            if counts["documents"] == most_documents:  # before the next file is read
                break
        if group["text"]:
            writer.write_table(pa.table(group, schema=schema))
        if not counts["documents"]:
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
        **counts,
        "sha256": digest.hexdigest(),
        **({"classes": classes_in_order(name, classes)} if corpus.label else {}),
        **({"library": sha256_of_library()} if corpus.source == "python-docs" else {}),
        "files": sources,
    }
    write_json(out / "corpus.json", description)
    return description


def _documents(
    name: str, corpus: Corpus, remote: Remote, sources: list[dict[str, Any]]
) -> Iterator[tuple[str, str | None]]:
    """Yield text and label of each document of the corpus `name`, in order; the label is None where it has none.

    Each remote file is read when it is its turn. A description of each file is appended to `sources`; of a data set
    its commit.
    """
    if corpus.source == "python-docs":
        yield from ((text, None) for text in python_docs())
    for local in local_files(name, corpus):
        path = Path(local)
        sources.append({"file": local, "size": path.stat().st_size, "sha256": sha256_of(path)})
        yield from _documents_in_file(name, corpus, path, local)
    if corpus.source == "dataset":
        dataset = remote.dataset(name, corpus)
        commit = dataset.commit()
        sources.append({"dataset": corpus.load, "commit": commit})
        yield from dataset.documents(commit)
    if corpus.remote:
        for file in corpus.remote_files:
            path, record = remote.download(corpus, file)
            sources.append({"file": file, **record})
            yield from _documents_in_file(name, corpus, path, file)


def _documents_in_file(name: str, corpus: Corpus, path: Path, display_name: str) -> Iterator[tuple[str, str | None]]:
    """Yield text and label of each document of one file. `display_name`: the file's, in messages. Raises UserError."""
    form, labelled = corpus.form or "text", corpus.label is not None
    try:
        yield from forms.documents_of_file(path, form, corpus.fields, corpus.document, labelled, corpus.columns)
    except forms.NotADocument as reason:
        raise UserError(f'config/corpora.yaml: corpus "{name}": {display_name} {reason}') from reason


def _replace_lone_surrogates(text: str) -> tuple[str, int]:
    """The text with U+FFFD for each half of a surrogate pair (JSON can spell one, UTF-8 cannot), and their number."""
    try:
        text.encode()
        return text, 0
    except UnicodeEncodeError:
        halves = sum("\ud800" <= character <= "\udfff" for character in text)
        return SURROGATE_HALF.sub("\N{REPLACEMENT CHARACTER}", text), halves


def python_docs() -> Iterator[str]:
    """Yield the language reference's topics, then the docstrings of each standard library module, in order of path."""
    from pydoc_data.topics import topics

    yield from (topics[name] for name in sorted(topics))
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if _SKIP.isdisjoint(path.relative_to(library).parts):
            yield _docstrings(path)


def _docstrings(path: Path) -> str:
    """All docstrings of a Python file, a blank line between them; empty where it does not parse."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # templates and deliberately broken files
        return ""
    docstrings = map(ast.get_docstring, documented_nodes(tree))
    return "\n\n".join(text for text in docstrings if text)
