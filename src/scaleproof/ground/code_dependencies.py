"""Which source files take part in a stage: the stage is run again when their code changes, and only then.

A rule has one hash over its code as a parameter, without comments and docstrings: editing a comment re-runs nothing.
"""

import ast
import contextlib
import hashlib
import json
import re
import sys
from collections import deque
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path

from scaleproof.ground.files import write_atomic
from scaleproof.ground.json_faults import read_part

PACKAGE = Path(__file__).parents[1]
HASHES = Path(".snakemake/scaleproof/hashes.json")  # of files whose code was hashed here before
# An import of the package, in any function, found by its looks: each job of a cluster asks, and parsing takes 0.3 s.
IMPORT = re.compile(
    r"^[ \t]*(?:from (scaleproof(?:\.\w+)*) import (\([^)]*\)|[^#\n]+)|import (scaleproof(?:\.\w+)*))", re.MULTILINE
)
# What only type checkers read: an edit there changes nothing that runs.
UNREAD = re.compile(r"^([ \t]*)if (?:typing\.)?TYPE_CHECKING:.*\n(?:(?:\1[ \t]+\S.*|[ \t]*)\n)*", re.MULTILINE)
# The programs of a timed run.
MEASURING = (
    "measure/launch/run.py",
    "measure/launch/torchrun.py",
    "measure/launch/fork_server.py",
    "measure/trainer/__main__.py",
)


def import_closure(*entries: str) -> list[str]:
    """Return the paths of some files of the package ("conclude/report/page.py") and of all modules that they import.

    Imports count in any function. Paths are sorted, and relative to the working folder where they are below it.
    """
    seen: set[Path] = set()
    waiting = [PACKAGE / entry for entry in entries]
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += _imported_files(path)
    root = Path.cwd()
    return sorted(str(path.relative_to(root) if path.is_relative_to(root) else path) for path in seen)


@lru_cache
def _imported_files(path: Path) -> frozenset[Path]:
    """Return the package's files that a file imports when it runs, `__init__.py` of packages among them."""
    if path.suffix != ".py":
        return frozenset()
    names = set()
    # `from from_module import listed` or `import plain_module`; the parts of the other form are empty. A listed name
    # may be a module or not: `_files_of` is empty for other names.
    for from_module, listed, plain_module in IMPORT.findall(UNREAD.sub("", path.read_text(encoding="utf-8"))):
        names |= {from_module or plain_module, *(f"{from_module}.{name}" for name in re.findall(r"\w+", listed))}
    return frozenset(file for name in names for file in _files_of(name))


@cache
def _files_of(name: str) -> list[Path]:
    """Return the files of a module or package ("scaleproof.conclude.report.page"), [] for a name inside a module."""
    base = PACKAGE.joinpath(*name.split(".")[1:])
    return [path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()]


def code_sha256(*entries: str) -> str:
    """Return one hash over the code of some files and of all that they import; equal code at two commits has one."""
    n_known = len(_known_hashes())
    hashes = "".join(code_hash(Path(path)) for path in import_closure(*entries))
    if len(_known_hashes()) > n_known and HASHES.parents[1].is_dir():  # new hashes, where Snakemake has a folder
        with contextlib.suppress(OSError):  # only saves time: each later job reads the Snakefile, and asks for hashes
            write_atomic(HASHES, json.dumps(_known_hashes()))
    return hashlib.sha256(hashes.encode()).hexdigest()


def code_hash(path: Path) -> str:
    """Return the sha256 of a file; of Python code, of its syntax tree without comments and docstrings."""
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if path.suffix != ".py":
        return digest
    known, key = _known_hashes(), f"{sys.version_info.minor}:{digest}"
    if key not in known:
        known[key] = hashlib.sha256(ast.dump(_without_docstrings(ast.parse(data))).encode()).hexdigest()
    return known[key]


@lru_cache
def _known_hashes() -> dict[str, str]:
    """Return the hashes in HASHES, to which `code_hash` adds: "Python version:sha256 of a file" -> hash of its code."""
    known: dict[str, str] | None = read_part(HASHES, dict)
    return known or {}


def documented_nodes(tree: ast.Module) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield what may have a docstring in a tree, in the order of `ast.walk`; expressions are not looked into."""
    waiting: deque[ast.AST] = deque([tree])
    while waiting:
        node = waiting.popleft()
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node
        blocks = (ast.stmt, ast.ExceptHandler, ast.match_case)  # what may hold statements
        waiting += [child for child in ast.iter_child_nodes(node) if isinstance(child, blocks)]


def _without_docstrings(tree: ast.Module) -> ast.Module:
    """Remove the docstrings of a tree, and return it. Those of checks (`.finds`) stay, because results quote them."""
    for node in documented_nodes(tree):
        is_page = any(".finds(" in ast.unparse(decorator) for decorator in getattr(node, "decorator_list", ()))
        if not is_page and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return tree
