"""A small made-up corpus in the form of AG News: a class of four, a title, a description.

Each class has words of its own.
"""

import csv
import random
from pathlib import Path

CLASSES = 4


def rows(count: int = 400) -> list[tuple[int, str, str]]:
    """Class (1 to 4), title and description of made-up news of 5 to 60 words, the same at every call."""
    chance = random.Random(11)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 7))) for _ in range(240)]
    found = []
    for i in range(count):
        kind = i % CLASSES
        own = words[60 * kind : 60 * (kind + 1)]
        text = chance.choices(own + words[::4], k=chance.randint(5, 60))
        found.append((kind + 1, " ".join(text[:4]).capitalize(), " ".join(text[4:]) + ', "so" said.'))
    return found


def write_csv(path: Path, found: list[tuple[int, str, str]]) -> None:
    """As AG News is published: no header, every field in quotes, classes from 1."""
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows(found)
