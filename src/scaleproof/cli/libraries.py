"""What to say where a library cannot be imported: which one, why, and what helps."""

import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from traceback import walk_tb
from types import TracebackType

from scaleproof.ground.errors import shortened

PACKAGE = __name__.partition(".")[0]
# The module that is imported -> the package that brings it, where their names differ.
PACKAGES = {
    "yaml": "PyYAML",
    "ruamel": "ruamel.yaml",
    "PIL": "pillow",
    "pynvml": "nvidia-ml-py",
    "dateutil": "python-dateutil",
    "mlflow": "mlflow-skinny",
}
NAME = re.compile(r"[\w.-]+")  # of a package, as a requirement begins
EXTRA = re.compile(r"extra == [\"'](\w+)[\"']")
IN_CLONE = "make setup"


def unusable_library(error: BaseException) -> str | None:
    """Return one line on a library that cannot be imported, and its cure; None where `error` is another error."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, Exception) and _library_at_fault(cause):  # pandas says that it lacks numpy: numpy says why
        return unusable_library(cause)
    name = _library_at_fault(error)
    if name is None:
        return None
    lines = [line for line in str(error).splitlines() if line.strip()]
    why = shortened(lines[0].strip() if lines else "no reason given", 200)
    absent = isinstance(error, ModuleNotFoundError)
    return f"{name} cannot be imported ({type(error).__name__}: {why}). {_how_to_install(name, absent)}"


def _library_at_fault(error: BaseException) -> str | None:
    """Return the library whose import failed, by the name that is imported; None for any other error."""
    if isinstance(error, ImportError) and error.name:  # it names the module that is missing
        missing = error.name.partition(".")[0]
        return None if missing == PACKAGE else missing
    if not isinstance(error, Exception):
        return None
    # Any other error that came up while a library was imported: the innermost library is at fault.
    if isinstance(error, SyntaxError):
        libraries = [_library_of_file(Path(error.filename or ""))]
    else:
        libraries = list(_libraries_being_imported(error.__traceback__))
    return next((name for name in reversed(libraries) if name not in {PACKAGE, *sys.stdlib_module_names}), None)


def _libraries_being_imported(trace: TracebackType | None) -> Iterator[str]:
    """Yield the libraries whose modules were being imported: code of a module, below the last function of our own."""
    frames = [frame for frame, _ in walk_tb(trace)]
    names = [str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame in frames]
    last_own = max((place for place, name in enumerate(names) if name == PACKAGE), default=-1)
    for name, frame in list(zip(names, frames, strict=True))[last_own + 1 :]:
        if frame.f_code.co_name == "<module>" and name != "__main__":
            yield name


def _library_of_file(path: Path) -> str:
    """Return the library that a file belongs to, by its place below `sys.path`; for any other file, our package."""
    below = [path.relative_to(place).parts[0] for place in sys.path if place and path.is_relative_to(place)]
    return min(below, key=len, default=PACKAGE).partition(".")[0]


def _how_to_install(name: str, absent: bool) -> str:
    """Return what installs the library `name`. `absent`: it is not there, rather than broken.

    A name that we do not ask for may be anybody's package: all libraries are installed then.
    """
    from scaleproof.cli.export import LOOK

    package = _canonical(PACKAGES.get(name, name))
    try:
        required = metadata.requires(PACKAGE) or []
    except metadata.PackageNotFoundError:
        required = []
    lines = [line for line in required if _canonical(NAME.match(line)[0]) == package]  # type: ignore[index]
    if not lines:
        return f"Install all libraries again: {IN_CLONE}"
    requirement, _, marker = lines[0].partition(";")
    extra = EXTRA.search(marker)
    if absent and extra and extra[1] in LOOK:  # the environment of a clone has no tracker
        return f'Install it: pip install "{requirement.strip()}"'
    if absent and extra:
        return f"Install it: pip install '{PACKAGE}[{extra[1]}]'; in a clone of the repository: {IN_CLONE}"
    return f'Install it: pip install --force-reinstall "{requirement.strip()}"; or all libraries: {IN_CLONE}'


def _canonical(name: str) -> str:
    """Return the name of a package as PEP 503 compares it: in small letters, with a hyphen for each separator."""
    return re.sub(r"[-_.]+", "-", name).lower()
