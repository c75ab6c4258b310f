"""The documents of one file, one after the other, whatever its form; memory does not grow with the file."""

import csv
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from scaleproof.ground.campaign.text_encoding import conversion
from scaleproof.ground.errors import did_you_mean, shortened
from scaleproof.ground.file_kinds import damage_of
from scaleproof.ground.json_faults import fault_of_json

ROWS_AT_ONCE = 100  # of a Parquet file in memory
LARGEST_DOCUMENT = 10**9  # characters
# Added behind the last line; as a row it has two fields. Its quote closes one that is open.
END_LINE = '\x1eend,of file"'
LINE_END = re.compile("\r\n|\r|\n")


class NotADocument(Exception):
    """Raised where a file cannot be read in the form that it should have; the message says why."""


Document = tuple[str, str | None]  # text and label
Row = tuple[str, Sequence[object]]  # place in the file ("line 3"), and the values of the fields


def documents_of_file(
    path: Path, form: str, fields: list[str], document: str, labelled: bool = False, columns: Sequence[str] = ()
) -> Iterator[Document]:
    """Yield text and label of each document of a file, empty documents too. Raises NotADocument.

    `form`: text, jsonl, parquet or csv. `document`: what a document of a text is (file, paragraph, line). In other
    forms each row is a document: its `fields` together, the last of which is the label if `labelled`. `columns`: names
    for a csv whose first line has none.
    """
    try:
        if form == "text":
            yield from ((text, None) for text in _text_documents(path, document))
            return
        for where, values in _read_rows(path, form, fields, columns):
            yield document_of(where, dict(zip(fields, values, strict=True)), labelled)
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        cure = conversion(path, error.object)
        raise NotADocument(f"cannot be read as {form}: it is not UTF-8 (byte 0x{byte:02x}): {cure}") from error
    except (pa.ArrowException, OSError, EOFError) as error:
        raise NotADocument(damage_of(path, f"cannot be read as {form}: {error}")) from error


def _read_rows(path: Path, form: str, fields: list[str], columns: Sequence[str]) -> Iterator[Row]:
    """Yield place, and values of `fields`, of each row of a csv, jsonl or parquet file (`form`)."""
    if form == "csv":
        return _csv_values(path, fields, columns)
    if form == "jsonl":
        return _jsonl_values(path, fields)
    return _parquet_values(path, fields)


def document_of(where: str, row: dict[str, object], labelled: bool) -> Document:
    """Return the document in a row: its texts joined by blanks, and its label, None if it is not `labelled`.

    `where` names the row in messages. `row`: field -> value; the label is the last, and taken out. Raises NotADocument.
    """
    label = None
    if labelled:
        field, value = row.popitem()
        label = str(value).strip()
        if not isinstance(value, str | int) or not label:
            value_text = shortened(repr(value))
            raise NotADocument(
                f'{where}: label "{field}" of a document is {value_text}; a number or a word is expected'
            )
    texts: list[str] = []
    for field, text in row.items():
        if not isinstance(text, str | None):
            raise NotADocument(f'{where}: field "{field}" is not text but {type(text).__name__}')
        if text:
            texts.append(text)

    return " ".join(texts), label


def _open_text(path: Path, errors: str, newline: str | None = None) -> io.TextIOWrapper:
    """Open the file as UTF-8, unpacked if it ends in .gz, .bz2 or .zst. `errors`, `newline`: as in `open`."""
    stream = pa.input_stream(path, compression="detect")
    return io.TextIOWrapper(stream, encoding="utf-8-sig", errors=errors, newline=newline)


def unpacked_start(path: Path) -> bytes:
    """Return the first 64 KiB of a file that ends in .gz, .bz2 or .zst, unpacked. Raises NotADocument."""
    try:
        with pa.input_stream(path, compression="detect") as stream:
            return bytes(stream.read(1 << 16))
    except (pa.ArrowException, OSError, EOFError) as error:
        raise NotADocument(damage_of(path, f"cannot be unpacked: {error}")) from error


def _text_documents(path: Path, document: str) -> Iterator[str]:
    """Yield the documents of a text file, each of which is a `document`: the file, a line, or a paragraph.

    Raises NotADocument where the file is too long for one document.
    """
    with _open_text(path, "replace") as lines:
        if document == "file":
            text = lines.read(LARGEST_DOCUMENT + 1)
            if len(text) > LARGEST_DOCUMENT:
                raise NotADocument("is too long for one document; set `document: paragraph` or `document: line`")
            yield text
        elif document == "line":
            yield from (line.rstrip("\n") for line in lines)
        else:
            yield from _paragraphs(lines)


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Yield each paragraph: lines between blank lines. The last paragraph may be empty."""
    paragraph: list[str] = []
    for line in lines:
        if line.strip():
            paragraph.append(line)
        elif paragraph:
            yield "".join(paragraph)
            paragraph = []
    yield "".join(paragraph)


def _csv_values(path: Path, fields: list[str], columns: Sequence[str]) -> Iterator[Row]:
    """Yield place and values of each row. `columns`: their names if the first row has none. Raises NotADocument."""
    csv.field_size_limit(LARGEST_DOCUMENT)  # by default 131,072 characters, which many documents exceed
    with _open_text(path, "strict", newline="") as lines:
        rows = _csv_rows(lines)
        _, first_row = ("", columns) if columns else next(rows, ("", []))  # the names; [] for an empty file
        if not first_row:
            raise NotADocument("cannot be read as csv: it is empty; the first line has the names of its columns")
        names = list(first_row)
        _check_fields("line 1", fields, names)
        places = [names.index(field) for field in fields]
        for where, row in rows:
            if len(row) != len(names):
                fault = f"the row in {where} has {len(row)} fields, not {len(names)}"
                if columns and where == "line 1":
                    fault = f"it has {len(row)} columns, and `columns` names {len(names)}: name all of them"
                raise NotADocument(f"cannot be read as csv: {fault}")
            yield where, [row[place] for place in places]


def _csv_rows(lines: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield place ("line 3") and fields of each row that is not blank. Raises NotADocument.

    To the csv module a quote that is never closed is text up to the end of the file. Therefore END_LINE is appended to
    the file: it is read as a row of its own, or as the end of such a text, which is then an error.
    """
    # Strict: else text behind a quoted field is joined to it.
    rows = csv.reader(itertools.chain(lines, [END_LINE]), strict=True)
    end_row = END_LINE.split(",")
    first_line = 1  # where the row begins
    try:
        for row in rows:
            # The text of an unclosed quote is the row's last field, and ends with END_LINE. The quote stands as many
            # lines below the row's first line as the fields before it have line ends.
            if row and row[-1].endswith(END_LINE[:-1]):
                quote_line = first_line + sum(len(LINE_END.findall(field)) for field in row[:-1])
                raise NotADocument(
                    f"cannot be read as csv: line {quote_line}: a quote is opened there and never closed"
                )
            last_line = rows.line_num
            if row and row != end_row:  # neither blank nor the line that was appended
                where = f"line {last_line}" if first_line == last_line else f"lines {first_line} to {last_line}"
                yield where, row
            first_line = last_line + 1
    except csv.Error as error:
        # Of a strict reader that is the fault; others are a field of a gigabyte, and a lone carriage return.
        reason = "text stands behind a closing quote" if "expected after" in str(error) else str(error)
        raise NotADocument(
            f"cannot be read as csv: line {first_line}, or a quote that is opened there: {reason}"
        ) from None


def _jsonl_values(path: Path, fields: list[str]) -> Iterator[Row]:
    """Yield place and values of `fields` of each line, a JSON object. Blank lines are skipped. Raises NotADocument."""
    with _open_text(path, "strict") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.rstrip())
            except RecursionError:
                raise NotADocument(f"cannot be read as jsonl: line {number}: nested too deeply") from None
            except ValueError as error:
                fault = fault_of_json(line.rstrip(), str(error)).removeprefix("line 1, ")
                raise NotADocument(f"cannot be read as jsonl: line {number}, {fault}") from None
            if not isinstance(row, dict):
                raise NotADocument(f"cannot be read as jsonl: line {number} is no object")
            _check_fields(f"line {number}", fields, list(row))
            yield f"line {number}", [row[field] for field in fields]


def _parquet_values(path: Path, fields: list[str]) -> Iterator[Row]:
    """Yield place ("row 1") and values of each row. Raises NotADocument where a field is missing."""
    with pq.ParquetFile(path) as file:
        _check_fields("the schema", fields, file.schema_arrow.names)
        number = 0
        for batch in file.iter_batches(batch_size=ROWS_AT_ONCE, columns=fields, use_threads=False):
            columns = [batch.column(field).to_pylist() for field in fields]
            for values in zip(*columns, strict=True):
                number += 1
                yield f"row {number}", values


def _check_fields(where: str, fields: list[str], names: list[str]) -> None:
    """Raise NotADocument where one of `fields` is not among the `names` at `where`, or there twice."""
    for field in fields:
        if names.count(field) > 1:
            raise NotADocument(f'{where}: has "{field}" {names.count(field)} times; rename the others')
        if field in names:
            continue
        listed_names = shortened(", ".join(names), 300) or "none"
        is_surely_text = field == "text" or len(fields) == 1  # else it may be the label, which is one of `fields`
        key = "field" if is_surely_text else "field or label"
        raise NotADocument(
            f'{where}: has no field "{field}" (key: {key}).{did_you_mean(field, names)} Fields there: {listed_names}'
        )
