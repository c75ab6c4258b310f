"""Evidence levels: what stands behind a figure, and what each level cannot exclude."""

from collections.abc import Iterable
from typing import Literal

EvidenceLevel = Literal["printed", "watched", "built"]
# Of the work that a rate counts. items: what a program counts without saying what it is.
WorkUnit = Literal["tokens", "samples", "steps", "batches", "epochs", "items", "runs"]
LEVELS: tuple[EvidenceLevel, ...] = ("printed", "watched", "built")  # the weakest first
MEANING: dict[EvidenceLevel, str] = {
    "printed": "the program says so: clocks outside of it, repeats and its own figures agree; a program that trains "
    "less than it says is not excluded",
    "watched": "this project's clock, counts and norms in the program's process: fewer steps, repeated batches and "
    "missing updates are excluded; wrong arithmetic is not",
    "built": "this project's trainer: work is counted, losses are replayed by other code, traffic and memory agree "
    "with formulas; what all of these share, such as the library below them, is not excluded",
}
# What the checks on runs of an evidence level look at.
CHECKED: dict[EvidenceLevel, str] = {
    "printed": "printed times against the launcher's clock, losses, programs and versions, environment, repeats",
    "watched": "counts and norms against what was printed, times, losses, versions, environment, repeats",
    "built": "work against plan, traffic and precision against the strategy, times against rates, losses and "
    "validation against each other, environment, repeats",
}


def lowest_level(levels: Iterable[EvidenceLevel]) -> EvidenceLevel:
    """Return the weakest of some levels: a comparison is worth no more than its weaker side. `built` without any."""
    return min(levels, key=LEVELS.index, default="built")
