"""The table of corpora in `config/corpora.yaml`: where each named corpus comes from, and what is known of its files."""

import csv
import json
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, RootModel, StringConstraints, model_validator

from scalebench.campaign.field import Section, key
from scalebench.errors import UserError, nearest

LOCAL = ("text", "jsonl", "parquet", "csv")
PINNED = re.compile(r"[0-9a-f]{40}")
BUDGET = r"^([1-9][0-9,]*) (kB|MB|GB|documents)$"
UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9}
# Keys that some sources need; others have no use for them.
NEEDED = {
    "python-docs": (),
    **dict.fromkeys(LOCAL, ("files",)),
    "hub": ("repository", "revision", "files", "format"),
    "http": ("urls", "revision", "files", "format"),
}
ONLY_REMOTE = ("repository", "urls", "revision", "format", "gated", "known", "download_size")
FileName = Annotated[str, StringConstraints(pattern=r"^[^\s]+$")]


class Known(Section):
    """What is known of a file before it is downloaded."""

    size: int | None = key(None, "Its length. A server that offers another one is refused.", "bytes", ge=1)
    sha256: str | None = key(
        None,
        "Its checksum. Where it is not known here: what the hub states, else the first download decides.",
        "none",
        pattern=r"^[0-9a-f]{64}$",
    )


class Corpus(Section):
    """Where the documents of one corpus come from."""

    source: Literal["python-docs", "text", "jsonl", "parquet", "csv", "hub", "http"] = Field(
        description="python-docs: the documentation inside the running interpreter. text, jsonl, parquet, csv: local `files`. "
        "hub: files of a dataset repository of the Hugging Face hub (or of HF_ENDPOINT). http: files of a web server.",
        json_schema_extra={"unit": "none"},
    )
    files: list[FileName] = key(
        [],
        "Local files, or patterns such as notes/*.txt, relative to the repository. For hub and http: names there, in the order "
        "in which they are read; {00..79} stands for a range of numbers.",
        "none",
    )
    repository: str | None = key(None, "For hub: owner/name of the dataset.", "none", pattern=r"^[\w.-]+/[\w.-]+$")
    urls: list[str] = key([], "For http: folders that have the files; those after the first are mirrors.", "none")
    revision: str | None = key(
        None,
        "For hub: the commit (40 hexadecimal digits), so that the files never change. For http: a name of the version. "
        "It is part of the paths of downloads and tokens.",
        "none",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
    )
    format: Literal["text", "jsonl", "parquet", "csv"] | None = key(
        None, "For hub and http: what the files are; .gz and .zst are unpacked.", "none"
    )
    gated: bool = key(False, "Its terms must be accepted on the hub; the token is taken from HF_TOKEN.", "none")
    known: dict[str, Known] = key({}, "What is known of some of the `files`.", "none")
    download_size: int | None = key(None, "All files together, for `campaign show`; not checked.", "bytes", ge=1)
    budget: str | None = key(
        None,
        "Documents from the start, whole ones, that fit into so much text (UTF-8) or are so many: `100 MB`, `50,000 documents`. "
        "The same on every machine. Only files that are needed for it are downloaded.",
        "none",
        pattern=BUDGET,
        examples=["100 MB", "50,000 documents"],
    )
    field: str | Annotated[list[str], Field(min_length=1)] = key(
        "text",
        "The field of a jsonl, parquet or csv row that holds the document; of several, such as [title, description], the texts are "
        "joined by a space.",
        "none",
    )
    label: str | None = key(
        None, "The field that holds the class of a document: makes the corpus one for `task: classification`.", "none"
    )
    columns: list[str] = key(
        [],
        "For csv: the names of the columns, where the file does not begin with them.",
        "none",
        examples=[["label", "title", "description"]],
    )
    document: Literal["file", "paragraph", "line"] = key(
        "file", "For text: what one document is. Train and validation are split by document.", "none"
    )
    licence: str = key("unknown", "Licence of the text; carried into every result that uses it.", "none")
    validation_fraction: float = key(0.05, "Part of the documents held out for validation.", "none", gt=0, lt=1)

    @model_validator(mode="after")
    def _keys_fit_the_source(self) -> "Corpus":
        needed = NEEDED[self.source]
        missing = [name for name in needed if not getattr(self, name)]
        if missing == ["files"] and self.source in LOCAL:
            raise ValueError(f"source {self.source} needs `files`, a list of paths or patterns such as [notes/*.txt]")
        if missing:
            raise ValueError(f"source {self.source} needs {', '.join(f'`{name}`' for name in missing)}")
        other = {"hub": "urls", "http": "repository"}
        useless = [other[self.source]] if self.source in other else ONLY_REMOTE
        useless = [name for name in useless if name in self.model_fields_set]
        if useless:
            raise ValueError(f"source {self.source} has no use for `{useless[0]}`")
        if self.label and self.form in (None, "text"):
            raise ValueError("`label` needs rows with fields: jsonl, parquet or csv")
        if self.columns and self.form != "csv":
            raise ValueError("`columns` is for csv: other rows name their fields themselves")
        if self.columns and (missing := [name for name in self.fields if name not in self.columns]):
            raise ValueError(f'"{missing[0]}" (field, label) is none of `columns`: {", ".join(self.columns)}')
        if self.gated and self.source != "hub":
            raise ValueError("`gated` is for source hub: tokens are sent nowhere else")
        for url in self.urls:
            if not re.match(r"https?://[^/]", url):
                raise ValueError(f'urls: "{url}" is no address; allowed: http://... or https://...')
        if self.remote:
            for name in self.remote_files:
                if name.startswith("/") or ".." in name.split("/"):
                    raise ValueError(f'files: "{name}" must be a name below the repository or the `urls`')
            for name in self.known:
                if name not in self.remote_files:
                    raise ValueError(f'known: "{name}" is none of `files`.{nearest(name, self.remote_files)}')
        return self

    @property
    def remote(self) -> bool:
        return self.source in ("hub", "http")

    @property
    def form(self) -> str | None:
        """What the files are; None for python-docs."""
        return self.format if self.remote else self.source if self.source in LOCAL else None

    @property
    def fields(self) -> list[str]:
        """The fields that are read of a row: those of the text, then the label where there is one."""
        texts = [self.field] if isinstance(self.field, str) else self.field
        return [*texts, self.label] if self.label else texts

    @property
    def remote_files(self) -> list[str]:
        """The files' names with ranges written out."""
        return [name for pattern in self.files for name in _spelt(pattern)]

    @property
    def pinned(self) -> bool:
        """Whether the revision says for ever which files are meant."""
        return self.source != "hub" or PINNED.fullmatch(self.revision) is not None

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """The budget: bytes of text, and documents; None is no limit."""
        if self.budget is None:
            return None, None
        number, unit = re.match(BUDGET, self.budget).groups()
        count = int(number.replace(",", ""))
        return (None, count) if unit == "documents" else (count * UNITS[unit], None)

    @property
    def size(self) -> int | None:
        """Bytes to download at most; None where it is not known."""
        sizes = [self.known[name].size if name in self.known else None for name in self.remote_files]
        return self.download_size if None in sizes else sum(sizes)


CorpusName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]


class CorpusTable(RootModel[dict[CorpusName, Corpus]]):
    """Corpora by name; campaigns refer to the names."""


def folder_of(name: str, corpus: Corpus) -> str:
    """The folder of a corpus below results/corpora: another revision or budget is another folder."""
    parts = [corpus.revision[:12]] if corpus.revision else []
    if corpus.budget:
        parts.append(corpus.budget.replace(",", "").replace(" ", ""))
    return f"{name}@{'-'.join(parts)}" if parts else name


def local_files(name: str, corpus: Corpus) -> list[str]:
    """The local files that a corpus names, in order of path; none for the others. Raises UserError where a pattern matches none."""
    if corpus.source not in LOCAL:
        return []
    found: list[Path] = []
    for pattern in corpus.files:
        path = Path(pattern)
        matches = sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor))))
        if not matches:
            raise UserError(f'config/corpora.yaml: {name}.files: "{pattern}" matches no file')
        found += [m for m in matches if m.is_file()]
    return [str(p) for p in dict.fromkeys(found)]


def check_local(name: str, corpus: Corpus) -> None:
    """Raises UserError where local files cannot be what the table says, as far as their first bytes tell."""
    paths = [Path(p) for p in local_files(name, corpus)]
    if paths and not any(p.stat().st_size for p in paths):
        raise UserError(f"config/corpora.yaml: {name}.files: {_listed(paths)} is empty (0 bytes)")
    for path in paths:
        with path.open("rb") as file:
            reason = _odd(file.read(1 << 16), corpus)
        if reason:
            raise UserError(f"config/corpora.yaml: {name}.files: {path} {reason}")


def _odd(start: bytes, corpus: Corpus) -> str | None:
    if corpus.form == "parquet":
        return None if start.startswith(b"PAR1") else "cannot be read as parquet: it does not begin like one"
    if start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):  # gzip, zstd: unpacked when it is read
        return None
    if b"\0" in start:
        return f"is no {corpus.form} file in UTF-8: it holds zero bytes (an archive, a picture, or UTF-16?)"
    line, *rest = start.lstrip().split(b"\n", 1)
    if corpus.form == "csv" and not corpus.columns and line:
        return _absent(next(csv.reader([line.decode("utf-8-sig", "replace")])), corpus)
    if corpus.form != "jsonl" or not line or not rest:
        return None
    try:
        row = json.loads(line)
    except ValueError as error:
        return f"cannot be read as jsonl: {error}"
    if not isinstance(row, dict):
        return 'cannot be read as jsonl: a line must be an object such as {"text": ...}'
    return _absent(list(row), corpus)


def _absent(there: list[str], corpus: Corpus) -> str | None:
    """What is wrong with the fields of a file; None where all that are wanted are there."""
    for name in corpus.fields:
        if name not in there:
            what = "label" if name == corpus.label else "field"
            more = "; for a csv without names in its first line give `columns`" if corpus.form == "csv" else ""
            return f'has no field "{name}" (key: {what}); fields there: {", ".join(there)}{more}'
    return None


def _listed(paths: list[Path]) -> str:
    return ", ".join(map(str, paths[:3])) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def _spelt(pattern: str) -> list[str]:
    """A name with its range of numbers, `part-{00..79}`, written out."""
    found = re.search(r"\{(\d+)\.\.(\d+)\}", pattern)
    if not found:
        return [pattern]
    first, last = found.groups()
    numbers = [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
    return [name for n in numbers for name in _spelt(pattern[: found.start()] + n + pattern[found.end() :])]
