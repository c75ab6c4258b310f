"""Byte-level BPE, trained with `tokenizers`, or GPT-2's own; run with `tiktoken`; and plain bytes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import tiktoken

from scaleproof.ground.errors import UserError, shortened
from scaleproof.ground.files import read_record, whole_file

END_OF_TEXT = "<|endoftext|>"
# GPT-2's split of text into pieces, in the possessive form that tiktoken uses for r50k_base (same pieces, less
# backtracking).
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
FEWEST = 257  # entries: the bytes and end-of-text
SAMPLE_CHARACTERS = 100_000_000  # at the start of the corpus; the merges are learnt from them


def train_tokenizer(name: str, documents: Iterator[str], out: Path) -> None:
    """Train the tokenizer `name` ("bpe-<n>", or "bytes") on `documents`, and write it to `out`.

    It has n entries: the bytes (ids 0 to 255), the merges in the order in which they are learnt, and end-of-text;
    "bytes" has no merges. Raises UserError for another name, and where the text supports fewer merges.
    """
    size = FEWEST if name == "bytes" else _entry_count(name)
    tokens = learn_tokens(size, documents)
    if len(tokens) != size - 1:
        raise error_for_small_text(name, len(tokens) + 1)
    _write_tokenizer(name, tokens, out)


def error_for_small_text(name: str, most_entries: int) -> UserError:
    """Return the error to raise where the text is too small for a tokenizer of more than `most_entries` entries."""
    return UserError(
        f"workload.tokenizer {name}: the corpus supports at most bpe-{most_entries} "
        f"(no further pair of tokens occurs twice); allowed: bpe-{FEWEST} to bpe-{most_entries}",
        ("workload", "tokenizer"),
    )


def learn_tokens(size: int, documents: Iterator[str]) -> list[bytes]:
    """Return the tokens of a tokenizer of `size` entries, without end-of-text; fewer where the text is too small."""
    tokens = [bytes([byte]) for byte in range(256)]
    if size == FEWEST:
        return tokens
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=size - 1, initial_alphabet=alphabet, min_frequency=2, show_progress=False)
    learner.train_from_iterator(_first_documents(documents), trainer)
    byte_of = _byte_of_character()  # the library writes bytes as printable characters
    merges = json.loads(learner.to_str())["model"]["merges"]
    tokens += [bytes(byte_of[character] for character in "".join(merge)) for merge in merges]
    return list(dict.fromkeys(tokens))  # two merges may give the same token


def _entry_count(name: str) -> int:
    """Return n for the tokenizer "bpe-<n>". Raises UserError for other names."""
    if name == "gpt2":
        raise UserError("gpt2 is not trained on a corpus: scaleproof stage gpt2_tokenizer writes it")
    match = re.fullmatch(r"bpe-([0-9]{1,18})", name)
    if not match or int(match[1]) < FEWEST:
        raise UserError(
            f'there is no tokenizer "{shortened(name)}" to train; allowed: bytes, bpe-N (N: {FEWEST} or more)'
        )
    return int(match[1])


def write_gpt2_tokenizer(merges: Path, out: Path) -> None:
    """Write GPT-2's own tokenizer to `out`, with GPT-2's ids: its bytes, the merges, end-of-text.

    `merges`: the file vocab.bpe, a line for its version and one for each merge.
    """
    byte_of = _byte_of_character()
    tokens = [bytes([byte]) for byte in byte_of.values()]
    lines = merges.read_text(encoding="utf-8").splitlines()[1:]  # the first is its version
    tokens += [bytes(byte_of[character] for character in line.replace(" ", "")) for line in lines]
    _write_tokenizer("gpt2", tokens, out)


def _write_tokenizer(name: str, tokens: list[bytes], out: Path) -> None:
    """Write a tokenizer to `out`. `tokens`: in the order of their ids, without end-of-text, whose id is the next."""
    table = {"name": name, "pattern": PATTERN, "end_of_text": len(tokens), "tokens": [token.hex() for token in tokens]}
    with whole_file(out) as part:
        part.write_text(json.dumps(table, indent=0) + "\n")


def load_encoder(path: Path) -> tiktoken.Encoding:
    """Return the encoder in the tokenizer file `path`. Raises UserError where it is missing or damaged."""
    return read_record(path, _make_encoder)


def _make_encoder(written: bytes) -> tiktoken.Encoding:
    """Return the encoder that `written`, the content of a tokenizer file, describes."""
    data = json.loads(written)
    return tiktoken.Encoding(
        name=data["name"],
        pat_str=data["pattern"],
        mergeable_ranks={bytes.fromhex(token): number for number, token in enumerate(data["tokens"])},
        special_tokens={END_OF_TEXT: data["end_of_text"]},
        explicit_n_vocab=data["end_of_text"] + 1,
    )


def _first_documents(documents: Iterator[str]) -> Iterator[str]:
    """Yield documents, the last one cut, until they have SAMPLE_CHARACTERS characters in all."""
    characters_left = SAMPLE_CHARACTERS
    for text in documents:
        yield text[:characters_left]
        characters_left -= len(text)
        if characters_left <= 0:
            return


def _byte_of_character() -> dict[str, int]:
    """Return the byte that GPT-2 writes as each printable character: character -> byte, in the order of GPT-2's ids.

    A byte that is printable in Latin-1 stands for itself; the others follow, as the characters from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    renamed = {chr(code): byte for code, byte in enumerate(others, start=0x100)}
    return {chr(byte): byte for byte in printable} | renamed
