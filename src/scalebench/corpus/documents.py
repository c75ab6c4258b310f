"""Documents of a corpus: gathered from the interpreter or from local files, stored as one Parquet file."""

import ast
import hashlib
import json
import platform
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from scalebench.campaign.corpora import Corpus, local_files
from scalebench.errors import UserError

GROUP_BYTES = 1_000_000  # text in one row group: what a tokenising process takes at a time
_SKIP = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "__pycache__"}


def fetch(name: str, corpus: Corpus, out: Path) -> dict:
    """Gather the documents of `corpus` into `out`/documents.parquet and describe them in `out`/corpus.json.

    Empty documents are dropped and counted. Returns the description: counts, bytes of UTF-8, sha256 over the
    documents (each ended by a zero byte), source, revision and licence. Raises UserError where nothing is left.
    """
    out.mkdir(parents=True, exist_ok=True)
    partial = out / "documents.parquet.part"
    digest, counts = hashlib.sha256(), {"documents": 0, "bytes": 0, "empty_documents": 0, "replaced_characters": 0}
    group: list[str] = []
    size = 0
    schema = pa.schema([("text", pa.large_string())])
    with pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        for text in _documents(name, corpus):
            if not text.strip():
                counts["empty_documents"] += 1
                continue
            data = text.encode()
            digest.update(data + b"\0")
            counts["documents"] += 1
            counts["bytes"] += len(data)
            if corpus.source == "text":  # the others hold what they hold
                counts["replaced_characters"] += text.count("\N{REPLACEMENT CHARACTER}")
            group.append(text)
            size += len(data)
            if size >= GROUP_BYTES:
                writer.write_table(pa.table({"text": group}, schema=schema))
                group, size = [], 0
        if group:
            writer.write_table(pa.table({"text": group}, schema=schema))
    if not counts["documents"]:
        partial.unlink()
        raise UserError(f'config/corpora.yaml: corpus "{name}" is empty: {_where(corpus)} holds no text')
    description = {
        "corpus": name,
        "source": corpus.source,
        "revision": f"python-{platform.python_version()}" if corpus.source == "python-docs" else None,
        "licence": corpus.licence,
        "validation_fraction": corpus.validation_fraction,
        **counts,
        "sha256": digest.hexdigest(),
    }
    partial.replace(out / "documents.parquet")
    (out / "corpus.json").write_text(json.dumps(description, indent=2) + "\n")
    return description


def _documents(name: str, corpus: Corpus) -> Iterator[str]:
    return python_docs() if corpus.source == "python-docs" else _local(name, corpus)


def python_docs() -> Iterator[str]:
    """The language reference's topics, then the docstrings of each module of the standard library, in order of path."""
    from pydoc_data.topics import topics

    yield from (topics[name] for name in sorted(topics))
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        if _SKIP.isdisjoint(path.relative_to(library).parts):
            yield _docstrings(path)


def _docstrings(path: Path) -> str:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # templates and deliberately broken files
        return ""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, owners))
    return "\n\n".join(text for text in found if text)


def _where(corpus: Corpus) -> str:
    return ", ".join(corpus.files) or corpus.source


def _local(name: str, corpus: Corpus) -> Iterator[str]:
    import datasets  # imported late: a second that only local corpora need

    files = local_files(name, corpus)
    options = {}
    if corpus.source == "text":
        # Bytes that are not UTF-8 become U+FFFD; `fetch` counts them.
        options = {
            "sample_by": {"file": "document"}.get(corpus.document, corpus.document),
            "encoding_errors": "replace",
        }
    builder = {"text": "text", "jsonl": "json", "parquet": "parquet"}[corpus.source]
    field = "text" if corpus.source == "text" else corpus.field
    try:
        rows = datasets.load_dataset(builder, data_files={"train": files}, split="train", streaming=True, **options)
        for row in rows:
            if field not in row:
                raise UserError(
                    f'config/corpora.yaml: {name}.field: "{field}" is not in {files[0]}; fields there: {", ".join(row)}'
                )
            if not isinstance(row[field], str | None):
                raise UserError(
                    f'config/corpora.yaml: {name}.field: "{field}" is not text but {type(row[field]).__name__}'
                )
            yield row[field] or ""
    except UserError:
        raise
    except Exception as error:  # the readers behind `datasets` raise their own kinds; the cause is what helps
        cause = error.__cause__ or error
        raise UserError(f'corpus "{name}": {_where(corpus)} cannot be read as {corpus.source}: {cause}') from error
