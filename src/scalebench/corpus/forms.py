"""The documents of one file, one after the other, whatever its form; memory does not grow with the file."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 100  # of a Parquet file in memory
LARGEST = 10**9  # bytes of a file that is one document


class Unreadable(Exception):
    """The file is not what it was said to be; says why."""


def read(path: Path, form: str, field: str, document: str) -> Iterator[str]:
    """Documents of a `text`, `jsonl` or `parquet` file, those without text among them.

    `field` holds the document of a row; `document` says what one is in a text (file, paragraph, line). Text that is not UTF-8
    gets U+FFFD in its place. Files that end in .gz, .bz2 or .zst are unpacked. Raises Unreadable.
    """
    try:
        if form == "text":
            yield from _text(path, document)
        else:
            for row in (_jsonl if form == "jsonl" else _parquet)(path, field):
                if not isinstance(row, str | None):
                    raise Unreadable(f'field "{field}" is not text but {type(row).__name__}')
                yield row or ""
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        raise Unreadable(f"cannot be read as {form}: {error}") from error


def _lines(path: Path, errors: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(pa.input_stream(path, compression="detect"), encoding="utf-8", errors=errors)


def _text(path: Path, document: str) -> Iterator[str]:
    with _lines(path, "replace") as lines:
        if document == "file":
            text = lines.read(LARGEST + 1)
            if len(text) > LARGEST:
                raise Unreadable("is too long for one document; set `document: paragraph` or `document: line`")
            yield text
        elif document == "line":
            yield from (line.rstrip("\n") for line in lines)
        else:
            paragraph: list[str] = []
            for line in lines:
                if line.strip():
                    paragraph.append(line)
                elif paragraph:
                    yield "".join(paragraph)
                    paragraph = []
            yield "".join(paragraph)


def _jsonl(path: Path, field: str) -> Iterator[object]:
    with _lines(path, "strict") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise Unreadable(f"cannot be read as jsonl: line {number}: {error}") from None
            if not isinstance(row, dict):
                raise Unreadable(f"cannot be read as jsonl: line {number} is no object")
            _has(field, list(row))
            yield row[field]


def _parquet(path: Path, field: str) -> Iterator[object]:
    with pq.ParquetFile(path) as file:
        _has(field, file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=ROWS, columns=[field], use_threads=False):
            yield from batch.column(0).to_pylist()


def _has(field: str, names: list[str]) -> None:
    if field not in names:
        raise Unreadable(f'has no field "{field}" (key: field); fields there: {", ".join(names)}')
