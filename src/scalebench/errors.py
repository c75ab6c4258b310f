"""The one exception that means "the input is wrong": it is printed as it stands and the exit code is 2."""

import difflib
from collections.abc import Iterable
from pathlib import Path


class UserError(Exception):
    """Something that the person at the keyboard can mend.

    The message says what is wrong, where (file and key), what is allowed, and the nearest valid name.
    `key` names the place in a configuration file, where there is one; whoever knows the file adds its line.
    """

    def __init__(self, message: str, key: tuple = ()) -> None:
        super().__init__(message)
        self.key = key


MEANT = {"gpu": "cuda"}  # what users write for a name that does not resemble it


def nearest(name: object, allowed: Iterable[str]) -> str:
    """`Did you mean "x"?` with a leading space, or nothing where no allowed name resembles `name`."""
    allowed = list(allowed)
    meant = MEANT.get(str(name))
    close = [meant] if meant in allowed else difflib.get_close_matches(str(name), allowed, n=1, cutoff=0.5)
    return f' Did you mean "{close[0]}"?' if close else ""


def missing(path: Path) -> UserError:
    """A file that the workflow makes is not there."""
    return UserError(f"{path}: no such file; make it with: snakemake --cores 2 {path}")


def damaged(path: Path, why: str) -> UserError:
    """A file that the workflow makes is not what it was."""
    return UserError(f"{path} is damaged ({why}); make it anew: rm {path} && snakemake --cores 2 {path}")


def plural(number: int, noun: str, several: str | None = None) -> str:
    """`1 run`, `2 runs`, `1,000 runs`; `several` where an s does not make the plural."""
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"
