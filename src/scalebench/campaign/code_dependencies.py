"""Which source files take part in a stage: the stage is run again when one of them changes, and only then."""

import hashlib
import re
from functools import lru_cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
# An import of the package, in any function. By its looks: each job of a cluster asks, and parsing takes a third of a
# second.
IMPORT = re.compile(
    r"^[ \t]*(?:from (scalebench(?:\.\w+)*) import (\([^)]*\)|[^#\n]+)|import (scalebench(?:\.\w+)*))", re.MULTILINE
)
# The programs of a timed run.
MEASURING = ("launch/run.py", "launch/torchrun.py", "launch/fork_server.py", "trainer/__main__.py")


def sources(*entries: str) -> list[str]:
    """Files of the package ("report/page.py") and all modules that they import, in any function: inputs of a rule."""
    seen: set[Path] = set()
    waiting = [PACKAGE / entry for entry in entries]
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += _imported(path)
    root = Path.cwd()
    return sorted(str(p.relative_to(root) if p.is_relative_to(root) else p) for p in seen)


@lru_cache
def _imported(path: Path) -> frozenset[Path]:
    """The package's files that a file imports, the packages' own files among them."""
    if path.suffix != ".py":
        return frozenset()
    names = set()
    for module, listed, plain in IMPORT.findall(path.read_text()):
        names |= {module or plain, *(f"{module}.{name}" for name in re.findall(r"\w+", listed))}
    found = set()
    for name in names:
        base = PACKAGE.joinpath(*name.split(".")[1:])
        found |= {p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()}
    return frozenset(found)


def code_sha256(*entries: str) -> str:
    """One hash over `sources`: equal code at different commits is recognised as equal."""
    total = hashlib.sha256()
    for path in sources(*entries):
        total.update(Path(path).read_bytes() + b"\0")
    return total.hexdigest()
