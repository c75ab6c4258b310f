"""tokens.json and corpus.json: what a tokenised corpus, and its documents, are described by."""

from pathlib import Path
from typing import Literal, NotRequired

from pydantic import NonNegativeInt, TypeAdapter, with_config
from typing_extensions import TypedDict  # pydantic's, before Python 3.12

from scaleproof.ground.errors import UserError
from scaleproof.ground.files import read_record
from scaleproof.ground.number_format import integer
from scaleproof.ground.records.open_sections import OPEN
from scaleproof.ground.snakemake_command import snakemake_command

TOKENS, CORPUS = "tokens.json", "corpus.json"


@with_config(OPEN)
class DescribedFile(TypedDict):
    """A file of numbers, in the folder of the description."""

    file: str
    bytes: NonNegativeInt
    sha256: NotRequired[str]


@with_config(OPEN)
class DescribedSplit(DescribedFile):
    """The tokens of a split; each document ends with end-of-text."""

    tokens: NonNegativeInt
    documents: NotRequired[NonNegativeInt]
    labels: NotRequired[DescribedFile]


@with_config(OPEN)
class DescribedTokens(TypedDict):
    """tokens.json."""

    vocab_size: NonNegativeInt
    dtype: Literal["uint16", "uint32"]
    train: DescribedSplit
    val: NotRequired[DescribedSplit]
    end_of_text: NotRequired[NonNegativeInt]
    classes: NotRequired[list[str]]


@with_config(OPEN)
class DescribedCorpus(TypedDict):
    """corpus.json."""

    corpus: str
    documents: NonNegativeInt
    bytes: NonNegativeInt
    sha256: str
    validation_fraction: float
    classes: NotRequired[list[str]]


_OF_TOKENS = TypeAdapter(DescribedTokens)
_OF_CORPUS = TypeAdapter(DescribedCorpus)


def read_tokens_record(folder: Path) -> DescribedTokens:
    """Return what tokens.json in `folder` says. Raises UserError where it is missing or damaged."""
    return read_record(folder / TOKENS, lambda data: _OF_TOKENS.validate_json(data, strict=True))


def read_tokens(folder: Path) -> DescribedTokens:
    """Return what tokens.json in `folder` says. Raises UserError where it, or a file beside it, is damaged."""
    tokens = read_tokens_record(folder)
    splits = [tokens["train"], *([tokens["val"]] if "val" in tokens else [])]
    for file in (*splits, *(split["labels"] for split in splits if "labels" in split)):
        path = folder / file["file"]
        if path.is_file() and path.stat().st_size != file["bytes"]:
            sizes = f"{integer(path.stat().st_size)} bytes, but {TOKENS} says {integer(file['bytes'])}"
            again = f"rm {path} && {snakemake_command(path)}"
            raise UserError(f"{path} has {sizes}: tokenise the corpus again: {again}")
    return tokens


def read_corpus_record(folder: Path) -> DescribedCorpus:
    """Return what corpus.json in `folder` says. Raises UserError where it is missing or damaged."""
    return read_record(folder / CORPUS, lambda data: _OF_CORPUS.validate_json(data, strict=True))
