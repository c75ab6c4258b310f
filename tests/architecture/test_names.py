"""Names of local variables are nouns, and assignments are one thing at a time."""

import ast
from collections import Counter
from pathlib import Path

import pytest

# Verbs and participles from which a reader cannot guess what a variable holds.
NO_NOUNS = {"found", "said", "told", "shown", "wanted", "mine", "theirs", "kept", "asked"}
MOST_TARGETS = 2


def files(repository: Path) -> list[Path]:
    return sorted([*repository.glob("src/**/*.py"), *repository.glob("benchmarks/*.py")])


def bad_names(tree: ast.Module) -> int:
    """Bindings of names that are no nouns."""
    stores = sum(isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id in NO_NOUNS for n in ast.walk(tree))
    return stores + sum(isinstance(n, ast.arg) and n.arg in NO_NOUNS for n in ast.walk(tree))


def parallel_assignments(tree: ast.Module) -> int:
    """Assignments of more than two values to more than two targets in one statement."""
    tuples = [n for n in ast.walk(tree) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Tuple)]
    return sum(isinstance(t, ast.Tuple) and len(t.elts) > MOST_TARGETS for n in tuples for t in n.targets)


CHECKS = {"names": bad_names, "parallel assignments": parallel_assignments}


def counts(repository: Path) -> dict[str, dict[str, int]]:
    """Check -> file -> how many."""
    result: dict[str, Counter] = {name: Counter() for name in CHECKS}
    for path in files(repository):
        tree = ast.parse(path.read_text())
        for name, count in CHECKS.items():
            if number := count(tree):
                result[name][str(path.relative_to(repository))] = number
    return {name: dict(counter) for name, counter in result.items()}


@pytest.mark.parametrize("check", CHECKS)
def test_no_file_breaks_the_rule(repository, check):
    numbers = counts(repository)[check]
    assert not numbers, f"{check}: {numbers}; names that are no nouns: {', '.join(sorted(NO_NOUNS))}"


def test_the_checks_count():
    tree = ast.parse("found = 1\na, b = 1, 2\na, b, c = 1, 2, 3\na, b, c = f()\ndef f(said): return said")
    assert bad_names(tree) == 2
    assert parallel_assignments(tree) == 1
