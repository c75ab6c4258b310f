"""Local files of a corpus: what is wrong with their first bytes, and with the names of their fields."""

import csv
import json
from pathlib import Path

from scaleproof.ground.campaign.corpora import Corpus, local_files
from scaleproof.ground.campaign.text_encoding import PACKED, conversion
from scaleproof.ground.errors import UserError, did_you_mean, shortened
from scaleproof.ground.file_kinds import UTF_16, kind_of
from scaleproof.ground.json_faults import fault_of_json
from scaleproof.ground.pointers import pointer_fault

# Group of a kind of file that no corpus is made of -> what to do with it.
CURES = {
    "archive": "unpack it, or save its text",
    "packed": "unpack it",
    "table": "save its rows as Parquet or as JSON lines",
    "document": "save its text",
    "picture": "a corpus is text",
}


def check_local(name: str, corpus: Corpus) -> None:
    """Raise UserError where local files are empty, or do not begin like files of the corpus' format."""
    paths = [Path(path) for path in local_files(name, corpus)]
    if paths and not any(path.stat().st_size for path in paths):
        names = ", ".join(map(str, paths[:3])) + f" and {len(paths) - 3} more" * (len(paths) > 3)
        raise UserError(f"config/corpora.yaml: {name}.files: {names} is empty (0 bytes)")
    for path in paths:
        with path.open("rb") as file:
            start = file.read(1 << 16)
        fault = _fault_of_suffix(path, start, corpus)
        if fault is None and path.suffix not in PACKED:
            fault = fault_of_start(path, start, corpus)
        if fault:
            raise UserError(f"config/corpora.yaml: {name}.files: {path} {fault}")


def _fault_of_suffix(path: Path, start: bytes, corpus: Corpus) -> str | None:
    """Describe a file that is packed otherwise than its suffix says, by its first bytes. Returns None for others."""
    if {".tar", ".tgz"} & {*path.suffixes}:
        return "is an archive; unpack it"
    packing = next((suffix for suffix, magic in PACKED.items() if start.startswith(magic)), None)
    if corpus.form == "parquet" and (packing or path.suffix in PACKED):
        return "is packed; unpack it: Parquet is read as it is"
    if packing and path.suffix not in PACKED:
        return f"is packed; rename it to {path.name}{packing}, and it will be unpacked"
    if packing != path.suffix and path.suffix in PACKED:
        cure = f"rename it to {path.with_suffix(packing or '').name}" if packing or not kind_of(start) else "unpack it"
        return f"does not begin like a {path.suffix} file{f' but like a {packing} file' if packing else ''}; {cure}"
    return None


def fault_of_start(path: Path, start: bytes, corpus: Corpus) -> str | None:
    """Describe what in the first bytes `start` of a file, unpacked, is not of the corpus' format. None if all is."""
    if pointer := pointer_fault(start):
        return f"is {pointer}"
    kind = kind_of(start)
    if kind and (kind.name, corpus.form) != ("Parquet", "parquet"):
        unpacked = "unpack it, and " * (path.suffix in PACKED)
        cure = f"{unpacked}write parquet in place of {corpus.form}" if kind.name == "Parquet" else CURES[kind.group]
        return f"is {kind.name}, not {corpus.form}; {cure}"
    if corpus.form == "parquet":
        beginning = (
            "bytes that are no text" if b"\0" in start else f'"{shortened(start[:40].decode(errors="replace"), 20)}"'
        )
        return None if start.startswith(b"PAR1") else f"is not parquet: it begins with {beginning}"
    if b"\0" in start:
        cure = f": {conversion(path, start)}" if start.startswith(UTF_16) else " (an archive, a picture, or UTF-16?)"
        return f"is no {corpus.form} file in UTF-8: it holds zero bytes{cure}"
    if corpus.form == "jsonl" and start.lstrip().startswith(b"["):
        return 'is a JSON list; jsonl has an object such as {"text": ...} on each line'
    if start.lstrip().startswith(b"{") and (corpus.form == "csv" or (corpus.form, path.suffix) == ("text", ".jsonl")):
        return f"holds JSON; write jsonl in place of {corpus.form}"

    line, newline, _ = start.lstrip().partition(b"\n")
    if corpus.form == "csv" and line:
        names = next(csv.reader([line.decode("utf-8-sig", "replace")]))
        if names == corpus.columns:
            return "begins with the names of its columns; leave `columns` out"
        return None if corpus.columns else absent_field_text(names, corpus)
    if corpus.form == "jsonl" and line and newline:  # without a newline the line may go on beyond `start`
        return _jsonl_fault(path, line, corpus)
    return None


def _jsonl_fault(path: Path, line: bytes, corpus: Corpus) -> str | None:
    """Describe what is wrong with the first line of a jsonl file. Returns None for a good line."""
    try:
        row = json.loads(line)
    except UnicodeDecodeError as error:
        byte = f"0x{line[error.start]:02x} in line 1"
        return f"cannot be read as jsonl: it is not UTF-8 (byte {byte}): {conversion(path, line)}"
    except (ValueError, RecursionError) as error:
        return f"cannot be read as jsonl, whose lines are objects: {fault_of_json(line, str(error))}"
    if not isinstance(row, dict):
        return 'cannot be read as jsonl: line 1 must be an object such as {"text": ...}'
    return absent_field_text(list(row), corpus, " in line 1")


def absent_field_text(names: list[str], corpus: Corpus, place: str = "") -> str | None:
    """Describe which field of the corpus is not among the `names` of a file's fields. Returns None if each is there.

    `place`: where in the file, as each line of JSON Lines has its own fields.
    """
    absent = next((field for field in corpus.fields if field not in names), None)
    if absent is None:
        return None
    if corpus.form == "csv" and len(names) == 1:
        for separator in ";\t|":
            if separator in names[0]:
                rewritten = f"pandas.read_csv(FILE, sep={separator!r}).to_csv(NEW, index=False)"
                return f"has columns separated by {separator!r}; csv is read with commas: {rewritten} writes them"
    key_of_table = "label" if absent == corpus.label else "field"
    hint = "; for a csv without names in its first line give `columns`" if corpus.form == "csv" else ""
    words = [name for name in names if name.count(" ") < 2]  # not the text of a document, in a csv without names
    fields = f"{did_you_mean(absent, words)} Fields there: {shortened(', '.join(names), 300) or 'none'}"
    return f'has{place} no field "{absent}" (key: {key_of_table}).{fields}{hint}'
