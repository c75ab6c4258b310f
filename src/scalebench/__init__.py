"""scalebench: which way of spreading GPT-2-class training over devices pays off, by how much, and how sure are we?

The Python interface: `load_runs`, `audit`, `compare`, `read_trace` (docs/python.md). Each imports what it needs when it
is called, so that `import scalebench` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as of typing, whose import takes as long as a command has until it can be interrupted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import ModuleType

    from scalebench.analysis.compare_runs import Compared
    from scalebench.record.run import Run
    from scalebench.trace.profile_schema import Profile

__version__ = "0.1.0"
__all__ = ["audit", "compare", "load_runs", "read_trace"]


def __getattr__(name: str) -> ModuleType:
    """`audit` is a package that can be called, as a function of that name would be hidden by the package's import."""
    if name == "audit":
        from importlib import import_module

        return import_module("scalebench.audit")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_runs(folder: str | Path) -> list[Run]:
    """All runs of scalebench below `folder` (results/<campaign>, a cell, or one run), failed ones too, sorted by path.

    A run has `metrics`, and `steps`: the raw series of all ranks, read when it is first used. Runs in one allocation
    are listed once, where they were copied to. Raises UserError where there is no run or a file cannot be read.
    """
    from pathlib import Path

    from scalebench.errors import UserError
    from scalebench.record.run import METRICS, read_run

    files = sorted(Path(folder).rglob(METRICS))
    folders = [file.parent for file in files if "together" not in file.relative_to(folder).parts]
    if not folders:
        raise UserError(f"{folder}: no run below; a run is a folder with {METRICS}")
    return [read_run(place) for place in folders]


def compare(a: str | Path, b: str | Path, vary: Sequence[str] = ()) -> list[Compared]:
    """`b` relative to `a`, for each pair of cells: the ratio with its interval, or why they are not comparable.

    `vary`: what is meant to differ, e.g. "strategy". Raises UserError where a side cannot be read.
    """
    from pathlib import Path

    from scalebench.analysis.compare_external import compare_external
    from scalebench.analysis.compare_runs import all_own, compare_results

    first, second = Path(a), Path(b)
    if all_own(first, second):
        return compare_results(first, second, list(vary))[0]
    return [compare_external(first, second, list(vary))]


def read_trace(*paths: str | Path, ranks: int | None = None, steps: int | None = None) -> Profile:
    """Where the time of a step goes: of a summarised capture of scalebench, or of anybody's trace files.

    `ranks`, `steps`: how many the files hold, where they do not say. Raises UserError where a file cannot be read.
    """
    from pathlib import Path

    from scalebench.trace.profile_schema import PROFILE, read_profile
    from scalebench.trace.summarise import summarise_files

    places = [Path(path) for path in paths]
    if len(places) == 1 and (places[0].name == PROFILE or (places[0] / PROFILE).is_file()):
        return read_profile(places[0])
    return summarise_files(places, ranks, steps)
