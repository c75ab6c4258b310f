"""What each finding about our own runs was hit by: planted faults on real ranks, and tests in which it fires.

`python tests/finding_hits.py` prints the table, fewest hits first. A finding that nothing hits is a check that nobody
has seen fail: it gets a test, or goes (tests/architecture/test_finding_hits.py).
"""

import ast
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent
sys.path.insert(0, str(TESTS))


@dataclass(frozen=True)
class Hits:
    """`faults`: planted on real ranks that the finding names; `companions`: those that others may name as well."""

    code: str
    severity: str
    faults: int
    companions: int
    tests: int  # files of tests that name the code


def hits() -> list[Hits]:
    """The hits of every finding about our own runs, fewest first."""
    from faults import planted
    from faults import test_faults as registered  # noqa: F401

    from scaleproof.conclude.checks.all_checks import CODES

    named = Counter(code for fault in planted.FAULTS for code in set(fault.codes))
    beside = Counter(code for fault in planted.FAULTS if len(set(fault.codes)) > 1 for code in set(fault.codes))
    files: Counter[str] = Counter()
    for path in TESTS.rglob("test_*.py"):
        files.update(set(CODES) & _texts(path))
    rows = [Hits(name, code.severity, named[name], beside[name], files[name]) for name, code in CODES.items()]
    return sorted(rows, key=lambda row: (row.faults + row.tests, row.code))


def _texts(path: Path) -> set[str]:
    """The words of all texts in a file."""
    texts = [node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)]
    return {word for text in texts if isinstance(text, str) for word in text.split()}


if __name__ == "__main__":
    print(f"{'finding':34} {'severity':9} {'faults':>7} {'with others':>12} {'tests':>6}")
    for row in hits():
        print(f"{row.code:34} {row.severity:9} {row.faults:7} {row.companions:12} {row.tests:6}")
