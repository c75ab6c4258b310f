"""What the generators of bad inputs share: a case, where things are, documents with one thing wrong, misspelt names."""

import copy
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from random import Random
from typing import Any

from scaleproof.ground.errors import edit_distance

REPOSITORY = Path(__file__).parents[1]


class Special(Enum):
    """What stands where a file is expected."""

    PIPE = auto()
    FOLDER = auto()
    CIRCLE = auto()  # a link to itself
    NOWHERE = auto()  # a link to what is not there
    GONE = auto()


@dataclass
class Case:
    """One bad input. `must`: each of these words, or one of a tuple of them, is in an answer with a code of `judged`.

    `shell`: the case is a process of its own, started by this line, in which `{}` stands for the command; `site`: its
    sitecustomize.py.
    """

    words: list[str]
    must: list[Any] = field(default_factory=list)
    files: dict[str, bytes | Special] = field(default_factory=dict)
    codes: tuple[int, ...] = (2,)
    note: str = ""
    judged: tuple[int, ...] = (2,)
    shell: str = ""
    site: str = ""


MINE = "config/campaigns/mine.yaml"
DEMO = "config/campaigns/demo.yaml"
RESULTS = "results/demo"
RUN = f"{RESULTS}/runs/ddp-n1x2/rep1"
OTHER = f"{RESULTS}/runs/zero2-n1x2/rep1"
TRACE = f"{RESULTS}/traces/ddp-n1x2"
TYPO = "abcdefghijklmnopqrstuvwxyz"
STRANGE = [
    None,
    True,
    [],
    {},
    "",
    [1],
    {"a": 1},
    "x" * 400,
    "none",
    -1,
    1e400,
    float("nan"),
    10**40,
    "\x1b[31m",
    "a\nb",
]
NUMBERS = ["abc", 0, -1, 1.5, 10**15, "1,5", "ten", "3 x", None, True, [2], {"a": 1}, "", 1e400]
NO_JSON = [b"", b"{", b"[]", b"null", b"3", b'"x"', b"\xff\xfe\x00", b"[" * 50_000, b"{}", b"<html></html>", bytes(99)]


def leaves(document: Any, place: tuple = ()) -> list[tuple]:
    """All places of a document."""
    inside = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    return [place] * bool(place) + [p for key, value in inside for p in leaves(value, (*place, key))]


def put(document: Any, place: tuple, value: Any, name: str | None = None) -> Any:
    """A copy with `value` at a place, under another `name` if one is given."""
    made = copy.deepcopy(document)
    node = made
    for step in place[:-1]:
        node = node[step]
    if name is None:
        node[place[-1]] = value
    else:
        node[name] = node.pop(place[-1], value)
    return made


def misspelt(random: Random, name: str, others: list[str]) -> str:
    """The name with one or two edits, nearer to it than to every other name."""
    for _ in range(100):
        word = name
        for _ in range(random.choice([1, 1, 2]) if len(name) >= 6 else 1):
            at = random.randrange(len(word))
            kind = random.randrange(5)
            swapped = word[:at] + word[at + 1 : at + 2] + word[at : at + 1] + word[at + 2 :]
            word = (
                word[:at] + word[at + 1 :],
                word[:at] + random.choice(TYPO) + word[at:],
                word[:at] + random.choice(TYPO) + word[at + 1 :],
                swapped,
                word.replace("_", "-").title() if random.random() < 0.3 else swapped,
            )[kind]
        far = all(edit_distance(word.casefold(), other.casefold()) > 2 for other in others if other != name)
        if word.strip("-_. ") and word not in (name, *others) and far and word[0] not in "-#&*!|>%@`'\"":
            return word
    return name + "x"
