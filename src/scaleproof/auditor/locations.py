"""Where a finding stands: file and line, as whoever audits it has them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Location:
    """A file below the working folder, and a line of it from 1; None where a finding is of the whole file."""

    file: Path
    line: int | None


def located(place: str, paths: Sequence[Path]) -> Location:
    """Return where `place` of a finding is, such as "results.md:7".

    An audit names files by what stands below the path that it was given; `paths`: what these were. A place that is no
    file below any of them, such as the name of a run, is taken to be in the first.
    """
    name, _, number = place.rpartition(":")
    line = int(number) if name and number.isdecimal() else None
    name = name if line is not None else place
    for path in paths:
        if path.is_file() and path.name == name:
            return Location(path, line)
        if path.is_dir() and (path / name).exists():
            return Location(path / name, line)
    return Location(paths[0], None)
