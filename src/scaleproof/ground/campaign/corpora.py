"""The table of corpora in `config/corpora.yaml`: where each named corpus comes from, and what is known of its files."""

import itertools
import math
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, RootModel, StringConstraints, model_validator

from scaleproof.ground.campaign.field import Section, key
from scaleproof.ground.campaign.text_encoding import PACKED
from scaleproof.ground.errors import UserError, did_you_mean, link_fault, nearest_path, shortened
from scaleproof.ground.number_format import integer

LOCAL = ("text", "jsonl", "parquet", "csv")
PINNED = re.compile(r"[0-9a-f]{40}")
BUDGET = r"^([1-9][0-9]{0,2}(?:,[0-9]{3}){1,4}|[1-9][0-9]{0,14}) (kB|MB|GB|documents)$"
MOST_FILES = 10_000  # of a corpus
HIDDEN = re.compile(r"/\.(?!\./)")  # in a path, before a name that begins with a dot, but not in ".."
RANGE = re.compile(r"\{(\d{1,9})\.\.(\d{1,9})\}")
UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9}
# Keys that some sources need, and other sources do not use.
NEEDED = {
    "python-docs": (),
    **dict.fromkeys(LOCAL, ("files",)),
    "hub": ("repository", "revision", "files", "format"),
    "http": ("urls", "revision", "files", "format"),
    "dataset": ("load", "revision"),
}
# Optional keys -> the sources that use them.
ONLY_FOR = {
    "repository": ("hub",),
    "urls": ("http",),
    "load": ("dataset",),
    "gated": ("hub", "dataset"),
    "revision": ("hub", "http", "dataset"),
    **dict.fromkeys(("format", "known", "download_size"), ("hub", "http")),
    "files": (*LOCAL, "hub", "http"),
}
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


def is_address(text: str, schemes: Collection[str] = ("http", "https")) -> bool:
    """Return whether a text is an address of one of `schemes`, with a host and, if it names a port, a possible one."""
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port that is no number
        return False


class Corpus(Section):
    """Where the documents of one corpus come from."""

    source: Literal["python-docs", "text", "jsonl", "parquet", "csv", "hub", "http", "dataset"] = Field(
        description="python-docs: the documentation inside the running interpreter. "
        "text, jsonl, parquet, csv: local `files`. hub: files of a dataset repository "
        "of the Hugging Face hub (or of HF_ENDPOINT). http: files of a web server. dataset: what "
        "`datasets.load_dataset` makes of a repository of the hub.",
        json_schema_extra={"unit": "none"},
    )
    files: list[FileName] = key(
        [],
        "Local files, or patterns such as notes/*.txt, relative to the repository. For hub and http: names there, in "
        "the order in which they are read; {00..79} stands for a range of numbers.",
        "none",
    )
    load: list[str] = key(
        [],
        "For dataset: owner/name, configuration and split, as `datasets.load_dataset` takes them. It is streamed: no "
        "more is read than `budget` asks for.",
        "none",
        max_length=3,
        examples=[["Salesforce/wikitext", "wikitext-103-raw-v1", "train"]],
    )
    repository: str | None = key(None, "For hub: owner/name of the dataset.", "none", pattern=r"^[\w.-]+/[\w.-]+$")
    urls: list[str] = key([], "For http: folders that have the files; those after the first are mirrors.", "none")
    revision: str | None = key(
        None,
        "For hub and dataset: the commit (40 hexadecimal digits), so that the text never changes; of a branch the "
        "commit is recorded. For http: a name of the version. "
        "It is part of the paths of downloads and tokens.",
        "none",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
    )
    format: Literal["text", "jsonl", "parquet", "csv"] | None = key(
        None, f"For hub and http: what the files are; {', '.join(PACKED)} are unpacked.", "none"
    )
    gated: bool = key(False, "Its terms must be accepted on the hub; the token is taken from HF_TOKEN.", "none")
    known: dict[str, Known] = key({}, "What is known of some of the `files`.", "none")
    download_size: int | None = key(None, "All files together, for `campaign show`; not checked.", "bytes", ge=1)
    budget: str | None = key(
        None,
        "Documents from the start, whole ones, that fit into so much text (UTF-8) or are so many: `100 MB`, `50,000 "
        "documents`. The same on every machine. Only files that are needed for it are downloaded.",
        "none",
        pattern=BUDGET,
        examples=["100 MB", "50,000 documents"],
    )
    field: str | Annotated[list[str], Field(min_length=1)] = key(
        "text",
        "The field of a jsonl, parquet or csv row that holds the document; of several, such as [title, description], "
        "the texts are joined by a space.",
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
    validation_fraction: float = key(0.05, "Part of the documents held out for validation.", "part of them", gt=0, lt=1)

    @model_validator(mode="after")
    def _keys_fit_the_source(self) -> "Corpus":
        """Check that the keys go with the source and with each other. Raises ValueError with the first complaint."""
        for complaints in (self._useless_keys, self._missing_keys, self._wrong_fields, self._wrong_places):
            for complaint in complaints():
                raise ValueError(complaint)
        return self

    def _missing_keys(self) -> Iterator[str]:
        """Yield a complaint about keys that the source needs and that are not given."""
        names = [name for name in NEEDED[self.source] if not getattr(self, name)]
        if names == ["files"] and self.source in LOCAL:
            yield f"source {self.source} needs `files`, a list of paths or patterns such as [notes/*.txt]"
        elif names:
            words = {"format": f"`format` (one of {', '.join(LOCAL)})"}
            yield f"source {self.source} needs {', '.join(words.get(name, f'`{name}`') for name in names)}"

    def _useless_keys(self) -> Iterator[str]:
        """Yield complaints about keys that the source has no use for."""
        for name, sources in ONLY_FOR.items():
            if name in self.model_fields_set and self.source not in sources:
                yield f"source {self.source} has no use for `{name}`, which is for {', '.join(sources)}"
        if self.source == "dataset" and self.load and len(self.load) != 3:
            yield "`load` has three entries: owner/name, configuration (default where there is one only), split"

    def _wrong_fields(self) -> Iterator[str]:
        """Yield complaints about `field`, `label` and `columns`."""
        if "field" in self.model_fields_set and self.form == "text":
            yield "`field` is for rows with fields: jsonl, parquet or csv; of a text, `document` says what one is"
        if "document" in self.model_fields_set and self.form != "text":
            yield "`document` is for text: of jsonl, parquet and csv, and of data sets, each row is one"
        if self.label and (self.form == "text" or self.source == "python-docs"):
            yield "`label` needs rows with fields: jsonl, parquet or csv"
        if self.label in self.fields[:-1]:
            yield f'"{self.label}" is the text (`field`) and its `label`; each needs a field of its own'
        if self.columns and self.form != "csv":
            yield "`columns` is for csv: other rows name their fields themselves"
        for name in self.fields if self.columns else ():
            if name not in self.columns:
                yield f'"{name}" (field, label) is none of `columns`: {", ".join(self.columns)}'

    def _wrong_places(self) -> Iterator[str]:
        """Yield complaints about `urls`, and about names of files that are downloaded."""
        for url in self.urls:
            if not is_address(url):
                yield f'urls: "{shortened(url)}" is no address; allowed: http://NAME/... or https://NAME:PORT/...'
        if not self.remote:
            return
        for first, last in (pair for name in self.files for pair in RANGE.findall(name)):
            if int(first) > int(last):
                yield f"files: {{{first}..{last}}} ends before it begins; write {{{last}..{first}}}"
        sizes = [[max(0, int(last) - int(first) + 1) for first, last in RANGE.findall(name)] for name in self.files]
        amount = sum(map(math.prod, sizes))  # {0..9}-{0..9} are 100 files
        if amount > MOST_FILES:
            yield f"files: these are {integer(amount)} files; at most {integer(MOST_FILES)} are allowed"
            return  # too many to be written out below
        names = set(self.remote_files)
        for name in self.remote_files:
            if name.startswith("/") or ".." in name.split("/"):
                yield f'files: "{shortened(name)}" must be a name below the repository or the `urls`'
        for name in self.known:
            if name not in names:
                yield f'known: "{shortened(name)}" is none of `files`.{did_you_mean(name, self.remote_files)}'

    @property
    def remote(self) -> bool:
        return self.source in ("hub", "http")

    @property
    def form(self) -> str | None:
        """The format of the files, such as "jsonl". It is None for python-docs and dataset, which name no files."""
        if self.remote:
            return self.format
        return self.source if self.source in LOCAL else None

    @property
    def fields(self) -> list[str]:
        """The fields that are read of a row: the fields of the text, then the label, if any."""
        texts = [self.field] if isinstance(self.field, str) else self.field
        return [*texts, self.label] if self.label else texts

    @property
    def remote_files(self) -> list[str]:
        return [name for pattern in self.files for name in _expand_ranges(pattern)]

    @property
    def pinned(self) -> bool:
        """Whether the files that the revision names can never change."""
        return self.source not in ("hub", "dataset") or PINNED.fullmatch(self.revision or "") is not None

    @property
    def limits(self) -> tuple[int | None, int | None]:
        """The budget: bytes of text, and documents; None is no limit."""
        if self.budget is None:
            return None, None
        number, _, unit = self.budget.partition(" ")
        count = int(number.replace(",", ""))
        return (None, count) if unit == "documents" else (count * UNITS[unit], None)

    @property
    def size(self) -> int | None:
        """Bytes to download at most. It is None where it is not known."""
        names = self.remote_files
        sizes = [self.known[name].size for name in names if name in self.known]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(names) else self.download_size


CorpusName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]


class CorpusTable(RootModel[dict[CorpusName, Corpus]]):
    """Corpora by name; campaigns refer to the names."""


def folder_of(name: str, corpus: Corpus) -> str:
    """Return the name of a corpus' folder below results/corpora; another revision or budget is another folder."""
    parts = [corpus.revision[:12]] if corpus.revision else []
    if corpus.budget:
        parts.append(corpus.budget.replace(",", "").replace(" ", ""))
    return f"{name}@{'-'.join(parts)}" if parts else name


def local_files(name: str, corpus: Corpus) -> list[str]:
    """Return the local files of a corpus, pattern by pattern, those of a pattern sorted; [] for sources without any.

    Raises UserError where a pattern matches nothing, or something that is not a file.
    """
    if corpus.source not in LOCAL:
        return []
    files: dict[str, None] = {}
    for pattern in corpus.files:
        where = f'config/corpora.yaml: {name}.files: "{shortened(pattern)}"'
        files |= dict.fromkeys(str(match) for match in _find_files(pattern, where))
        if len(files) > MOST_FILES:
            raise UserError(f"{where} matches more than {integer(MOST_FILES)} files, the limit")
    return list(files)


def _find_files(pattern: str, where: str) -> list[Path]:
    """Find the files that a pattern matches, in order of path. Raises UserError, begun with `where`, for none."""
    path = Path(pattern)
    if pattern.startswith(("~", "$")):
        expanded = os.path.expandvars(os.path.expanduser(pattern))  # an unknown "~user" stays as it is
        advice = "the path itself" if expanded == pattern else expanded
        raise UserError(f"{where} begins with {pattern[0]}, which only a shell replaces; write {advice}")
    if "://" in pattern:
        raise UserError(f"{where} is an address; local files stand here, and `source: http` has `urls`")
    slashed = pattern.replace("\\", "/")
    if slashed != pattern and not os.path.lexists(pattern):
        raise UserError(f"{where} matches no file; folders are separated by /, not by backslashes: write {slashed}")
    if not _has_wildcard(pattern):
        if fault := _fault_of_kind(path):
            hint = "" if os.path.lexists(path) else f".{nearest_path(path)}"
            if "{" in pattern:
                hint = "; only a shell replaces {...}: write each name, or a pattern with *"
            raise UserError(f"{where} {fault}{hint}")
        return [path]

    folder = next((parent for parent in path.parents if not _has_wildcard(str(parent))), Path())  # all are below it
    if "**" in pattern and len(folder.resolve().parts) < 3:  # a folder such as / or /home
        raise UserError(f"{where} would search all of {folder.resolve()}; name a folder further down")
    root, pattern_below = Path(path.anchor or "."), str(path.relative_to(path.anchor))
    matches = sorted(itertools.islice(root.glob(pattern_below), MOST_FILES + 1))
    hidden = [match for match in matches if HIDDEN.search(f"/{match}") and not HIDDEN.search(f"/{pattern_below}")]
    matches = [match for match in matches if match not in {*hidden}]
    files = [match for match in matches if match.is_file()]
    if matches and not files:
        raise UserError(f"{where} matches no file; {matches[0]} {_fault_of_kind(matches[0])}.")
    for match in matches:  # folders are left out
        if not (match.is_file() or match.is_dir()):
            raise UserError(f"{where} matches {match}, which {_fault_of_kind(match)}")
    if files:
        return files
    if hidden:
        raise UserError(f"{where} matches no file but hidden ones, which a pattern leaves out; write {hidden[0]}")
    raise UserError(f"{where} matches no file.{nearest_path(folder / '*')}")


def _has_wildcard(pattern: str) -> bool:
    """Return whether a path is a pattern that several files may match."""
    return any(character in pattern for character in "*?[")


def _fault_of_kind(path: Path) -> str | None:
    """Describe why a path is no regular file, as in "is a folder; write ...". Returns None for a regular file."""
    if path.is_file():
        return None
    if path.is_dir():
        return f"is a folder; write {path}/*.txt or the like"
    if path.is_symlink() and not path.exists():
        return link_fault(path).strip()
    return "is not a regular file" if path.exists() else "matches no file"


def _expand_ranges(pattern: str) -> list[str]:
    """Write out the ranges of numbers in the name of files, such as `part-{00..79}`."""
    match = RANGE.search(pattern)
    if not match:
        return [pattern]
    first, last = match.groups()
    starts = [f"{pattern[: match.start()]}{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
    ends = _expand_ranges(pattern[match.end() :])
    return [start + end for start, end in itertools.product(starts, ends)]
