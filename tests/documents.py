"""The documents of this repository that people write, or that are written from the code for people."""

from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
WRITTEN = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/*.md",
    "*/README.md",
    "profiles/*/README.md",
)


def pages() -> list[Path]:
    """All of them, each once."""
    return sorted({path for pattern in WRITTEN for path in REPOSITORY.glob(pattern)})


def titled(path: Path) -> str:
    """Its path in the repository: what a test is called by."""
    return path.relative_to(REPOSITORY).as_posix()
