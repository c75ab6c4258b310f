"""The one exception that means "the input is wrong": it is printed as it stands and the exit code is 2."""

import difflib
import re
from collections.abc import Iterable
from pathlib import Path


class UserError(Exception):
    """Something that the person at the keyboard can fix.

    The message says what is wrong, where (file and key), what is allowed, and the nearest valid name.
    `key` names the place in a configuration file, if there is one; whoever knows the file adds its line.
    """

    def __init__(self, message: str, key: tuple = ()) -> None:
        super().__init__(message)
        self.key = key


# What users write -> what it is called here, both without case and punctuation. Several meanings: the first that is
# allowed.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "gpu": ("cuda",),
    "gpus": ("cuda", "geometry"),
    "nvidia": ("cuda",),
    "nccl": ("cuda",),
    "gloo": ("cpu",),
    "float32": ("fp32",),
    "float": ("fp32",),
    "single": ("single", "fp32"),
    "full": ("fp32",),
    "tensorfloat32": ("tf32",),
    "bfloat16": ("bf16",),
    "bfloat": ("bf16",),
    "float16": ("fp16",),
    "half": ("fp16",),
    "amp": ("fp16",),
    "mixed": ("bf16",),
    "distributeddataparallel": ("ddp",),
    "dataparallel": ("dp",),
    "fsdp2": ("fsdp",),
    "fullysharded": ("fsdp",),
    "fullyshardeddataparallel": ("fsdp",),
    "fullyshard": ("fsdp",),
    "deepspeed": ("zero2",),
    "zero": ("zero2",),
    "stage0": ("zero0",),
    "stage1": ("zero1",),
    "stage2": ("zero2",),
    "stage3": ("zero3",),
    "none": ("single",),
    "gpt2": ("gpt2", "gpt2-small"),
    "gpt2base": ("gpt2-small",),
    "bert": ("encoder-small",),
    "lm": ("language-modelling",),
    "languagemodeling": ("language-modelling",),
    "classify": ("classification",),
    "flash": ("sdpa",),
    "flashattention": ("sdpa",),
    "lr": ("learning_rate",),
    "batch": ("global_batch",),
    "batchsize": ("global_batch", "micro_batch"),
    "microbatchsize": ("micro_batch",),
    "gradientaccumulation": ("accumulation",),
    "gradientaccumulationsteps": ("accumulation",),
    "gradaccum": ("accumulation",),
    "iterations": ("steps",),
    "iters": ("steps",),
    "maxsteps": ("steps",),
    "warmup": ("warmup_steps",),
    "blocksize": ("seq_len",),
    "sequencelength": ("seq_len",),
    "contextlength": ("seq_len", "context"),
    "dtype": ("precision",),
    "backend": ("device",),
    "nodes": ("nodes", "geometry"),
    "worldsize": ("geometry",),
    "devices": ("geometry",),
    "ngpus": ("geometry",),
    "dataset": ("corpus",),
    "data": ("corpus",),
    "nlayer": ("layers",),
    "numlayers": ("layers",),
    "nhead": ("heads",),
    "numheads": ("heads",),
    "nembd": ("width",),
    "hiddensize": ("width", "d_model"),
    "dmodel": ("width",),
    "runs": ("repeats",),
    "seeds": ("repeats", "seed"),
    "name": ("title",),
    "jpg": ("png",),
    "json": ("jsonl",),
    "txt": ("text",),
    "huggingface": ("hub",),
    "url": ("urls",),
    "file": ("files",),
}
CUTOFF = 0.6  # of difflib's ratio: below, the nearest name is no help


def nearest(name: object, allowed: Iterable[str]) -> str:
    """`Did you mean "x"?` with a leading space, or nothing if no allowed name resembles `name`.

    Case and punctuation do not count, and synonyms of the field are known.
    """
    close = nearest_name(name, allowed)
    return f' Did you mean "{close}"?' if close is not None else ""


def nearest_name(name: object, allowed: Iterable[str]) -> str | None:
    """The allowed name that `name` resembles most; None if it resembles none, or is one already."""
    by_letters = {_letters(choice): choice for choice in reversed([str(a) for a in allowed])}
    letters = _letters(str(name)[:200])
    if str(name) in by_letters.values():
        return None
    if letters in by_letters:
        return by_letters[letters]
    for meaning in SYNONYMS.get(letters, ()):
        if _letters(meaning) in by_letters:
            return by_letters[_letters(meaning)]
    close = difflib.get_close_matches(letters, by_letters, n=1, cutoff=CUTOFF)
    return by_letters[close[0]] if close else None


def _letters(text: str) -> str:
    """A name without case and punctuation."""
    return re.sub(r"[\W_]+", "", text.casefold()) or text


def shortened(value: object, limit: int = 80) -> str:
    """A value in a message: printable, and not longer than `limit` characters."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in str(value)[:1000])
    return text if len(text) <= limit else f"{text[:limit]}..."


def missing(path: Path) -> UserError:
    """A file that the workflow writes is not there."""
    return UserError(f"{path}: no such file; build it with: snakemake --cores 2 {path}")


def damaged(path: Path, why: str) -> UserError:
    """A file that the workflow writes is not what it was."""
    return UserError(f"{path} is damaged ({why}); rebuild it with: rm {path} && snakemake --cores 2 {path}")


def plural(number: int, noun: str, several: str | None = None) -> str:
    """`1 run`, `2 runs`, `1,000 runs`; `several` where an s does not make the plural."""
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"
