"""What a house, and a room of it, shows to others: the modules in its `__all__`. All others are private to it."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import scaleproof

PACKAGE = Path(scaleproof.__file__).parent
ROOT = PACKAGE.parents[1]
INSIDE = [path for path in PACKAGE.rglob("*.py") if "workflow_files" not in path.parts]
# The workflow and the entry points of pyproject.toml use modules as another house would.
OUTSIDE = [ROOT / "workflow/Snakefile", *(ROOT / "workflow").rglob("*.smk"), *(ROOT / "src").glob("snakemake_*/*.py")]
PACKAGES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).parts[:-1]) for path in INSIDE if path.name == "__init__.py"
)


def module(path: Path) -> str:
    """The dotted name of a file, of a package that of its folder; "" for what is none of ours."""
    if path not in INSIDE:
        return ""
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(path) for path in INSIDE}


def uses() -> Iterator[tuple[str, str]]:
    """Who imports, and the module that it imports, by dotted names."""
    for path in INSIDE:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                yield from ((module(path), name if name in MODULES else node.module) for name in names)
            elif isinstance(node, ast.Import):
                yield from ((module(path), alias.name) for alias in node.names)
    for path in OUTSIDE:
        yield from (
            ("", name) for name in re.findall(r"^from (scaleproof[.\w]*) import", path.read_text(), re.MULTILINE)
        )
    for entry in re.findall(r'"(scaleproof[.\w]+):\w+"', (ROOT / "pyproject.toml").read_text()):
        yield "", entry


def shown() -> dict[str, set[str]]:
    """Package -> its modules and packages that are imported from outside of it."""
    names: dict[str, set[str]] = defaultdict(set)
    for user, used in uses():
        parts = used.split(".")
        for depth in range(2, len(parts)):
            package = ".".join(parts[:depth])
            if user != package and not user.startswith(f"{package}."):
                names[package].add(parts[depth])
    return names


SHOWN = shown()


def public(package: str) -> list[str] | None:
    """`__all__` of a package, without importing it; None where it has none."""
    path = PACKAGE.parent.joinpath(*package.split("."), "__init__.py")
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return None


@pytest.mark.parametrize("package", [name for name in PACKAGES if name != "scaleproof"])
def test_a_package_shows_what_others_import_and_no_more(package):
    listed = public(package)
    assert listed is not None, f"{package} has no __all__"
    modules = [name for name in listed if f"{package}.{name}" in MODULES]
    assert modules == sorted(modules)
    assert set(modules) == SHOWN.get(package, set())
