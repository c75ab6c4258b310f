"""The type checker has nothing to say about the package (`mypy`, configured in pyproject.toml)."""

import subprocess
import sys


def test_mypy_reports_nothing(repository):
    cache = repository / ".mypy_cache"  # shared with calls by hand: a second one takes a second
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=repository)
    assert done.returncode == 0, done.stdout
