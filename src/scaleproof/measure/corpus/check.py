"""Opening the files of a corpus before anything runs: what `campaign validate` and `corpus check` do.

`corpus check` alone asks the hub: a campaign is validated without a network.
"""

import io
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from scaleproof.ground.campaign.corpora import Corpus, local_files
from scaleproof.ground.campaign.local_corpus import absent_field_text, check_local, fault_of_start
from scaleproof.ground.campaign.text_encoding import PACKED, damage_of_text
from scaleproof.ground.errors import UserError, plural, shortened
from scaleproof.ground.file_kinds import damage_of
from scaleproof.ground.files import HTML_PAGE
from scaleproof.ground.records.corpus_files import TOKENS, DescribedSplit, read_tokens
from scaleproof.measure.corpus.documents import gather_documents
from scaleproof.measure.corpus.encode import read_documents
from scaleproof.measure.corpus.forms import NotADocument, documents_of_file, unpacked_start
from scaleproof.measure.corpus.remote import Remote
from scaleproof.measure.corpus.tokenise import check_documents, held_out_of
from scaleproof.measure.corpus.tokenizer import learn_tokens

MOST_OPENED = 100  # files of a corpus that are opened; a thousand files were written by one program
ROWS = 200  # that are read of each file
PART = 1 << 20  # characters of a text that are looked at together
SMALL_TEXT = 5_000_000  # bytes of local files, of which all merges are learnt in about a second
LONGEST_WORD = 1000  # characters; learning takes time that grows with the square of a word's length


def check_corpus(name: str, corpus: Corpus) -> list[str]:
    """Return, in lines, which local texts are not UTF-8, and how to convert them, and which are empty.

    Raises UserError where a local file's first rows, or its schema, are not as config/corpora.yaml says.
    """
    check_local(name, corpus)
    _check_packed(name, corpus)
    if corpus.form == "text":
        texts = [Path(file) for file in local_files(name, corpus)[:MOST_OPENED]]
        if texts and all(_emptiness(path) for path in texts):
            names = shortened(", ".join(map(str, texts)), 200)
            raise UserError(f"config/corpora.yaml: {name}.files: nothing but blanks in {names}")
        readable = [path for path in texts if path.stat().st_size <= SMALL_TEXT and path.suffix not in PACKED]
        notes = {path: damage_of_text(path) or _emptiness(path) or _markup(path) for path in readable}
        return [f"{path}: {note}" for path, note in notes.items() if note]
    if corpus.form not in ("parquet", "csv", "jsonl"):
        return []
    may_hold_text = _parquet_may_hold_text if corpus.form == "parquet" else _rows_may_hold_text
    files = [Path(file) for file in local_files(name, corpus)]
    files_with_text = 0
    for path in files[:MOST_OPENED]:
        try:
            files_with_text += may_hold_text(path, corpus)
        except NotADocument as error:
            raise UserError(f"config/corpora.yaml: {name}.files: {path} {error}") from None
    if files and not files_with_text and len(files) <= MOST_OPENED:  # of more files the unopened ones may have text
        fields = " and ".join(corpus.fields)
        raise UserError(f'config/corpora.yaml: {name}.files: no row of {files[0]} has text in "{fields}" (key: field)')
    return []


def _emptiness(path: Path) -> str:
    return "" if any(_document_starts(path, "file")) else "nothing but blanks; it is left out"


def _markup(path: Path) -> str:
    with path.open("rb") as file:
        is_page = HTML_PAGE.match(file.read(500).decode("utf-8", "replace"))
    return "a page (HTML), whose tags are a part of the text" if is_page else ""


def _document_starts(path: Path, document: str) -> Iterator[bool]:
    """Yield True at each document of a text file that has text, where it begins. `document`: file, paragraph or line.

    Of a line no more than PART is in memory: a file of gigabytes may be one line. Damage of a packed file counts as
    documents: whoever reads all of it will name it.
    """
    is_inside = False
    try:
        with pa.input_stream(path, compression="detect") as stream:
            lines = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace")
            for part in iter(partial(lines.readline, PART), ""):
                has_text = bool(part.strip())
                if has_text and not is_inside:
                    yield True
                ends = part.endswith("\n") and (document == "line" or (document == "paragraph" and not has_text))
                is_inside = (is_inside or has_text) and not ends
    except (pa.ArrowException, OSError, EOFError):
        yield from (True, True)


def _check_packed(name: str, corpus: Corpus) -> None:
    """Raise UserError where a packed local file is damaged, or is not of the corpus' format once it is unpacked."""
    for path in [Path(file) for file in local_files(name, corpus)[:MOST_OPENED] if Path(file).suffix in PACKED]:
        try:
            fault = fault_of_start(path, unpacked_start(path), corpus)
        except NotADocument as error:
            raise UserError(f"config/corpora.yaml: {name}.files: {path} {error}") from None
        if fault:
            raise UserError(f"config/corpora.yaml: {name}.files: {path}, unpacked, {fault}")


def small_text(name: str, corpus: Corpus) -> tuple[list[str], int] | None:
    """Return the documents of a corpus of local files, and how many more are empty, if they are small (SMALL_TEXT).

    Returns None for larger files and other sources. Raises UserError for unreadable files, and for too few documents.
    """
    files = local_files(name, corpus)
    place = f"{name}.files: {shortened(', '.join(files), 200)}"
    if files and corpus.form == "text" and corpus.document == "file":  # however large they are
        check_documents(place, len(files), corpus.validation_fraction, corpus.document)
    if not files:
        return None
    if sum(Path(file).stat().st_size for file in files) > SMALL_TEXT:
        starts = (start for file in files for start in _document_starts(Path(file), corpus.document))
        if corpus.form == "text" and corpus.document != "file" and sum(islice(starts, 2)) < 2:
            check_documents(place, 1, corpus.validation_fraction, corpus.document)
        return None
    with tempfile.TemporaryDirectory() as folder:
        empty = gather_documents(name, corpus, Path(folder))["empty_documents"]
        documents = list(read_documents(Path(folder) / "documents.parquet"))
    blank = [file for file in files if corpus.form == "text" and _emptiness(Path(file))]
    what = f"{place}, of which {shortened(', '.join(blank), 200)} has no text," if blank else place
    check_documents(what, len(documents), corpus.validation_fraction, corpus.document)
    return documents, empty


def most_trainable_entries(documents: list[str], at_most: int = SMALL_TEXT) -> int | None:
    """Return how many entries the largest tokenizer has that `documents` can train, but at most `at_most`.

    Returns None where a word is so long that learning would take minutes.
    """
    if any(len(word) > LONGEST_WORD for text in documents for word in text.split()):
        return None
    return len(learn_tokens(at_most, iter(documents))) + 1  # end-of-text is an entry too


def size_of_text(documents: list[str], fraction: float) -> dict[str, int]:
    """Return an upper limit of "documents" and "tokens" (bytes, and one end-of-text a document) of the training split.

    `fraction`: part of the documents that is held out of it.
    """
    held_out = held_out_of(len(documents), fraction)
    trained = [text for text, is_held_out in zip(documents, held_out, strict=True) if not is_held_out]
    return {"documents": len(trained), "tokens": sum(len(text.encode()) + 1 for text in trained)}


def size_of_tokens(folder: Path) -> DescribedSplit | None:
    """Return the entry of the training split in `folder`/tokens.json. Returns None without that file."""
    if not (folder / TOKENS).is_file():
        return None
    return read_tokens(folder)["train"]


def ask_hub(name: str, corpus: Corpus, remote: Remote) -> str:
    """Ask the hub whether it has a corpus, and return a line to print.

    Returns "" for local files. Of each file that is not downloaded yet, only size and checksum are
    asked for. Raises UserError where the hub does not have what config/corpora.yaml says.
    """
    if corpus.source == "dataset":
        return remote.dataset(name, corpus).check()
    if corpus.source == "http":
        return "its addresses are not asked before the download"
    if corpus.source != "hub":
        return ""
    missing_files = remote.missing_files(corpus)
    for file in missing_files:
        remote.hub_file(corpus, file).check()
    # Place -> how many of the corpus' files it has.
    counts = {"the hub": len(missing_files), f"{remote.folder}": len(corpus.remote_files) - len(missing_files)}
    origin = f"of {corpus.repository} at {corpus.revision}"
    return "; ".join(f"{place} has {plural(count, 'file')} {origin}" for place, count in counts.items() if count)


def _rows_may_hold_text(path: Path, corpus: Corpus) -> bool:
    """Return whether one of the first ROWS rows has text, or more rows follow. Raises NotADocument for a faulty row."""
    rows = documents_of_file(
        path, corpus.form or "", corpus.fields, corpus.document, labelled=bool(corpus.label), columns=corpus.columns
    )
    texts = [text for text, _ in islice(rows, ROWS)]
    return len(texts) == ROWS or any(text.strip() for text in texts)


def _parquet_may_hold_text(path: Path, corpus: Corpus) -> bool:
    """Return whether the file has rows. Raises NotADocument for other files, and where a field is not text."""
    try:
        file = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        problem = f"cannot be read as parquet: {shortened(str(error).splitlines()[0], 200)}"
        raise NotADocument(damage_of(path, problem)) from None
    schema = file.schema.to_arrow_schema()
    if fault := absent_field_text(schema.names, corpus):
        raise NotADocument(fault)
    for name in corpus.fields:
        value_type = schema.field(name).type
        if pa.types.is_dictionary(value_type):
            value_type = value_type.value_type
        is_text = pa.types.is_string(value_type) or pa.types.is_large_string(value_type) or pa.types.is_null(value_type)
        if name != corpus.label and not is_text:
            raise NotADocument(f'has no text in the field "{name}" (key: field), but {value_type}')
    return file.num_rows > 0
