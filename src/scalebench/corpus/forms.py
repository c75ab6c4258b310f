"""The documents of one file, one after the other, whatever its form; memory does not grow with the file."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 100  # of a Parquet file in memory
LARGEST = 10**9  # bytes of a file that is one document


class Unreadable(Exception):
    """The file is not what it was said to be; says why."""


Document = tuple[str, str | None]  # text and label


def read(
    path: Path, form: str, fields: list[str], document: str, labelled: bool = False, columns: Sequence[str] = ()
) -> Iterator[Document]:
    """Documents of a `text`, `jsonl`, `parquet` or `csv` file, those without text among them, and their labels.

    `fields` hold the document of a row, the last of them its label where it is `labelled`; `columns` are the names of a csv
    file without any. `document` says what one is in a text (file, paragraph, line). Text that is not UTF-8
    gets U+FFFD in its place. Files that end in .gz, .bz2 or .zst are unpacked. Raises Unreadable.
    """
    try:
        if form == "text":
            yield from ((text, None) for text in _text(path, document))
        else:
            rows = (
                _csv(path, fields, columns)
                if form == "csv"
                else {"jsonl": _jsonl, "parquet": _parquet}[form](path, fields)
            )
            for row in rows:
                yield _document(dict(zip(fields, row, strict=True)), labelled)
    except (pa.ArrowException, csv.Error, OSError, EOFError, UnicodeDecodeError) as error:
        raise Unreadable(f"cannot be read as {form}: {error}") from error


def _document(row: dict[str, object], labelled: bool) -> Document:
    """The texts of a row, joined, and its label as text."""
    label = None
    if labelled:
        field, value = row.popitem()
        if not isinstance(value, str | int) or (isinstance(value, str) and not value.strip()):
            raise Unreadable(f'label "{field}" of a document is {value!r}; a number or a word is expected')
        label = str(value).strip()
    for field, text in row.items():
        if not isinstance(text, str | None):
            raise Unreadable(f'field "{field}" is not text but {type(text).__name__}')
    return " ".join(text for text in row.values() if text), label


def _lines(path: Path, errors: str, newline: str | None = None) -> io.TextIOWrapper:
    stream = pa.input_stream(path, compression="detect")
    return io.TextIOWrapper(stream, encoding="utf-8", errors=errors, newline=newline)


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


def _csv(path: Path, fields: list[str], columns: Sequence[str]) -> Iterator[list[str]]:
    with _lines(path, "strict", newline="") as lines:
        rows = csv.reader(lines)
        names = [name.removeprefix("\ufeff") for name in columns or next(rows, [])]
        _has(fields, names)
        places = [names.index(field) for field in fields]
        for row in rows:
            if row and len(row) != len(names):
                raise Unreadable(f"cannot be read as csv: line {rows.line_num} has {len(row)} fields, not {len(names)}")
            if row:
                yield [row[place] for place in places]


def _jsonl(path: Path, fields: list[str]) -> Iterator[list[object]]:
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
            _has(fields, list(row))
            yield [row[field] for field in fields]


def _parquet(path: Path, fields: list[str]) -> Iterator[tuple[object, ...]]:
    with pq.ParquetFile(path) as file:
        _has(fields, file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=ROWS, columns=fields, use_threads=False):
            yield from zip(*(batch.column(field).to_pylist() for field in fields), strict=True)


def _has(fields: list[str], names: list[str]) -> None:
    for field in fields:
        if field not in names:
            raise Unreadable(f'has no field "{field}" (key: field); fields there: {", ".join(names)}')
