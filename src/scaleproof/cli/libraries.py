"""What to say where a library cannot be imported: which one, why, and what helps; whether torch serves."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb
from types import ModuleType, TracebackType

from scaleproof.ground.errors import UserError, shortened

PACKAGE = __name__.partition(".")[0]
# Name of a module -> name of the package that brings it, where the names differ.
PACKAGES = {
    "yaml": "PyYAML",
    "ruamel": "ruamel.yaml",
    "PIL": "pillow",
    "pynvml": "nvidia-ml-py",
    "dateutil": "python-dateutil",
    "mlflow": "mlflow-skinny",
}
# What ranks import from other projects: not read from the code that starts them, of which this command is no part.
OF_RANKS = {"torch", "transformers", "numpy", "pydantic", "psutil", "pynvml"}
NAME = re.compile(r"[\w.-]+")  # the name of a package, with which a requirement begins
EXTRA = re.compile(r"extra == [\"'](\w+)[\"']")
IN_CLONE = "make setup"
WITHOUT_MEMORY = ("failed to map segment", "cannot allocate memory", "Cannot allocate memory")  # of a dynamic library


def check_torch() -> None:
    """Raise ImportError where torch is missing, or older than required. It is not imported, which takes seconds."""
    if find_spec("torch") is None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")
    with suppress(metadata.PackageNotFoundError):
        version, required = metadata.version("torch"), " ".join(metadata.requires("scaleproof") or [])
        oldest, release = re.search(r"\btorch\b[^;]*>=(\d+)\.(\d+)", required), re.match(r"(\d+)\.(\d+)", version)
        if oldest and release and tuple(map(int, release.groups())) < tuple(map(int, oldest.groups())):
            raise ImportError(f"version {version} is too old", name="torch")


def import_torch() -> None:
    """Raise ImportError where torch cannot be imported, in a process of its own: it takes seconds, and memory."""
    tried = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, text=True, errors="replace")
    if tried.returncode > 0 and (lines := tried.stderr.strip().splitlines()):
        raise ImportError(lines[-1].removeprefix("ImportError: "), name="torch")


def check_this_folder() -> None:
    """Raise UserError where a file of this folder is imported by ranks (`python -m`) in place of a module."""
    here = Path.cwd()
    files = {file.stem: file for file in here.glob("*.py")} | {
        file.parent.name: file.parent for file in here.glob("*/__init__.py")
    }
    modules = OF_RANKS | (sys.stdlib_module_names & sys.modules.keys())
    names = sorted(files.keys() & modules)
    if not names or os.environ.get("PYTHONSAFEPATH"):
        return
    code = "import sys; print(*sys.modules)"  # what Python imports before it looks into this folder
    at_start = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()
    for name in names:
        if name not in at_start:
            raise UserError(f"{files[name]} is imported by all ranks in place of the module {name}: rename it")


def unusable_library(error: BaseException) -> str | None:
    """Describe a library that cannot be imported, with its cure. Returns None where `error` is another error."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, Exception) and _library_at_fault(cause):  # pandas reports numpy; numpy's error has the reason
        return unusable_library(cause)
    name = _library_at_fault(error)
    if name is None:
        return None
    lines = [line for line in str(error).splitlines() if line.strip()]
    reason = shortened(lines[0].strip() if lines else "no reason given", 200)
    if any(words in str(error) for words in WITHOUT_MEMORY):
        return f"{name} cannot be imported: the memory is used up that this process may have (ulimit -v; {reason})"
    quoted = re.findall(r"'([^']+)'", reason)
    refused = [f"{key}={value}" for key, value in os.environ.items() if any(_ends_with(value, end) for end in quoted)]
    if isinstance(error, ValueError) and refused:
        return f"{name} does not take {refused[0]} of the environment ({reason}). Unset it, or correct it"
    is_absent = isinstance(error, ModuleNotFoundError)
    if is_absent:  # maybe from this Python alone
        reason += f"; this Python is {sys.executable}"
    advice = _how_to_install(name, is_absent)
    if (file := _file_imported(error)) and "-packages" not in file:  # not of site-packages, nor of dist-packages
        reason += f"; it is {file}, maybe another file of that name"
        advice = "Rename it then, or take its folder out of PYTHONPATH"
    return f"{name} cannot be imported ({type(error).__name__}: {reason}). {advice}"


def _ends_with(value: str, end: str) -> bool:
    """Return whether a variable's value is, or has as the port of an address, what a library quotes."""
    return value == end or value.endswith(f":{end}")


def _file_imported(error: BaseException) -> str | None:
    """Return the file that was imported as a library, but lacks what a library of that name has."""
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        return error.obj.__file__
    return error.path if isinstance(error, ImportError) else None


def _library_at_fault(error: BaseException) -> str | None:
    """Return the library whose import failed, under its name in imports. Returns None for any other error."""
    if isinstance(error, ImportError) and error.name:  # the name of the missing module
        missing = error.name.partition(".")[0]
        return None if missing == PACKAGE else missing
    if not isinstance(error, Exception):
        return None
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):  # a file that is called as a library
        name = error.obj.__name__.partition(".")[0]
        return None if name in {PACKAGE, *sys.stdlib_module_names} else name
    # Any other error that came up while a library was imported: the innermost library is at fault.
    if isinstance(error, SyntaxError):
        libraries = [_library_of_file(Path(error.filename or ""))]
    else:
        libraries = list(_libraries_being_imported(error.__traceback__))
    return next((name for name in reversed(libraries) if name not in {PACKAGE, *sys.stdlib_module_names}), None)


def _libraries_being_imported(trace: TracebackType | None) -> Iterator[str]:
    """Yield the libraries whose modules were being imported, outermost first.

    Their frames are top-level code of a module, and come in the traceback after the last frame of our own.
    """
    frames = [frame for frame, _ in walk_tb(trace)]
    names = [str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame in frames]
    last_own = max((index for index, name in enumerate(names) if name == PACKAGE), default=-1)
    for name, frame in list(zip(names, frames, strict=True))[last_own + 1 :]:
        if frame.f_code.co_name == "<module>" and name != "__main__":
            yield name


def _library_of_file(path: Path) -> str:
    """Return the library of a file, by its path below a folder of `sys.path`. Any other file counts as ours."""
    below_folders = [path.relative_to(folder) for folder in sys.path if folder and path.is_relative_to(folder)]
    if not below_folders:
        return PACKAGE
    nearest = min(below_folders, key=lambda below: len(below.parts))  # site-packages lies in a folder of sys.path
    return nearest.parts[0].partition(".")[0]


def _how_to_install(name: str, is_absent: bool) -> str:
    """Return the advice to install the library `name`. `is_absent`: the library is not there, rather than broken.

    A library that we do not require may be anybody's package: the advice then is to install all libraries.
    """
    from scaleproof.cli.export import TRACKERS

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
    if is_absent and extra and extra[1] in TRACKERS:  # IN_CLONE would not help: it installs no tracker
        return f'Install it: pip install "{requirement.strip()}"'
    if is_absent and extra:
        return f"Install it: pip install '{PACKAGE}[{extra[1]}]'; in a clone of the repository: {IN_CLONE}"
    return f'Install it: pip install --force-reinstall "{requirement.strip()}"; or all libraries: {IN_CLONE}'


def _canonical(name: str) -> str:
    """Normalise the name of a package by PEP 503: small letters, a hyphen for each separator."""
    return re.sub(r"[-_.]+", "-", name).lower()
