"""The list of faults in docs/reliability.md, written from the tests: `python tests/fault_matrix.py`.

Each entry is a test that carries `@pytest.mark.fault("what goes wrong", "what happens")`; `pytest -m fault` runs them.
"""

import ast
import textwrap
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs/reliability.md"
BEGIN, END = "<!-- faults: written by tests/fault_matrix.py -->", "<!-- end of faults -->"
CLUSTER = ("slurm", "cluster_check", "queues")  # in the name of a test's file


@dataclass(frozen=True)
class Row:
    """A fault, what happens, and the test that shows it."""

    fault: str
    outcome: str
    test: str
    cluster: bool


def rows() -> list[Row]:
    """All marked tests, in the order of their files."""
    marked = []
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                marked += [_row(path, node.name, mark) for mark in node.decorator_list if _is_fault(mark)]
    return marked


def _is_fault(mark: ast.expr) -> bool:
    return isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.fault"


def _row(path: Path, name: str, mark: ast.expr) -> Row:
    assert isinstance(mark, ast.Call)
    fault, outcome = (ast.literal_eval(argument) for argument in mark.args)
    named = any(ast.literal_eval(keyword.value) for keyword in mark.keywords if keyword.arg == "cluster")
    file = path.relative_to(TESTS.parent).as_posix()
    return Row(fault, outcome, f"{file}::{name}", named or any(word in file for word in CLUSTER))


def listed(chosen: list[Row]) -> str:
    """Rows as a Markdown list."""
    return "\n".join(f"{_wrapped(f'- **{row.fault}**: {row.outcome}')}\n  `{row.test}`" for row in chosen)


def _wrapped(entry: str) -> str:
    return textwrap.fill(entry, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def section() -> str:
    """The part of the page between the two marks."""
    every = rows()
    local, cluster = ([row for row in every if row.cluster is where] for where in (False, True))
    return (
        f"{BEGIN}\n### On one machine ({len(local)})\n\n{listed(local)}\n\n### On a cluster ({len(cluster)})\n\n"
        f"{listed(cluster)}\n{END}"
    )


def with_section(text: str) -> str:
    """The page with the list of today."""
    before, rest = text.split(BEGIN)
    return before + section() + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(with_section(PAGE.read_text()))
