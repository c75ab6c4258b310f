"""Writes envs/<stage>.yaml: what a stage needs of pyproject.toml, at the versions of envs/requirements.lock.

`make envs` runs it in the environment that the lock describes, since what a package brings along stands in its
metadata. A conda channel gives Python, pip and setuptools; everything else comes from pip, so that the very same files
are installed as by `make demo`. The package itself is installed by the script beside each file, without what it would
bring along.
"""

import sys
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ENVS = Path(__file__).parent
CONDA = {"python": "3.11.7", "pip": "24.0", "setuptools": "80.9.0"}
READING = ["pydantic", "PyYAML", "ruamel.yaml", "tqdm"]  # campaigns, and progress
# Stage -> dependencies of pyproject.toml.
# tests/envs/test_generated.py compares them with what the stage's code imports.
STAGES = {
    "driver": [*READING, "snakemake*", "pygments", "tabulate", "psutil", "nvidia-ml-py"],
    "data": [*READING, "datasets", "requests", "urllib3", "pyarrow", "tokenizers", "tiktoken", "numpy"],
    "train": [
        *(*READING, "torch", "transformers", "deepspeed", "numpy", "scipy", "pandas", "tabulate"),
        *("psutil", "nvidia-ml-py"),
        *("pyarrow", "matplotlib"),  # forecasts count the tensors of a model, and draw
    ],
    "report": [
        *(*READING, "pyarrow", "adbc*", "numpy", "scipy", "pandas", "tabulate", "matplotlib", "jinja2"),
        *("openpyxl", "typst", "psutil"),
    ],
}
STAGES["trace"] = [*STAGES["train"], "nvtx"]  # a training under a profiler; Nsight Systems comes with the machine
PLATFORM = {
    "python_version": "3.11",
    "python_full_version": CONDA["python"],
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "os_name": "posix",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
}
HEADER = (
    "# The {stage} stage: written by `make envs` from pyproject.toml and envs/requirements.lock "
    "(docs/environments.md).\n"
)
DEPLOY = """#!/bin/sh
# Written by `make envs`. Snakemake runs it in the new environment: the package of this checkout, editable, so that
# an edit of src/ is what runs, without its dependencies. The Snakefile says where the checkout is.
set -eu
python -m pip install --no-deps --no-build-isolation --editable \\
    "${SCALEPROOF_ROOT:?the Snakefile sets it to the folder of the repository}"
"""


def pinned(lock: str) -> dict[str, str]:
    """Canonical name -> `name==version` of every package of the lock; SystemExit on a version that is not exact."""
    pins: dict[str, str] = {}
    for line in lock.splitlines():
        if not line or line[0] in "# ":  # a checksum stands on a line of its own
            continue
        package = Requirement(line.rstrip("\\ "))
        versions = list(package.specifier)
        if len(versions) != 1 or versions[0].operator != "==" or versions[0].version.endswith("*"):
            sys.exit(f'"{line}" is not an exact version; run: make lock')
        pins[canonicalize_name(package.name)] = f"{package.name}=={versions[0].version}"
    return pins


def required(project: dict[str, Any]) -> Mapping[str, Requirement]:
    """Canonical name -> requirement of all that the package needs, with every extra that its users may want."""
    extras = project.get("optional-dependencies", {})
    all_extras = Requirement(extras.get("all", [project["name"]])[0]).extras
    lines = [*project["dependencies"], *(line for extra in sorted(all_extras) for line in extras[extra])]
    return {canonicalize_name(package.name): package for package in map(Requirement, lines)}


def brought_along(names: list[str]) -> set[str]:
    """Canonical names of the packages and of all that they need, by the metadata of what is installed."""
    seen: set[tuple[str, str]] = set()
    waiting = [(canonicalize_name(name), "") for name in names]
    while waiting:
        name, extra = one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        try:
            lines = requires(name) or []
        except PackageNotFoundError:
            continue  # whoever asks misses it, if it stands in the lock
        for wanted in map(Requirement, lines):
            if wanted.marker is None or wanted.marker.evaluate(PLATFORM | {"extra": extra}):
                waiting += [(canonicalize_name(wanted.name), each) for each in ("", *wanted.extras)]
    return {name for name, _ in seen}


def files(root: Path) -> dict[str, str]:
    """Name -> text of every file to write for the repository `root`. SystemExit where the sources disagree."""
    direct = required(tomllib.loads((root / "pyproject.toml").read_text())["project"])
    locked = pinned((root / "envs/requirements.lock").read_text())
    for name, package in direct.items():
        pin = locked.get(name, "nothing")
        if not package.specifier.contains(pin.rpartition("==")[2]):
            sys.exit(f"pyproject.toml asks for {package}, the lock has {pin}; run: make lock")
    texts = {}
    for stage, patterns in STAGES.items():
        chosen = [name for pattern in patterns for name in direct if fnmatch(name, canonicalize_name(pattern))]
        # What the lock does not have is left to pip: CUDA libraries, whose exact versions stand in torch's metadata.
        pins = sorted(locked[name] for name in (brought_along(chosen) & set(locked)) - set(CONDA))
        conda = "".join(f"  - {name}={version}\n" for name, version in CONDA.items())
        pip = "".join(f"    - {pin}\n" for pin in sorted(pins, key=str.lower))
        texts[f"{stage}.yaml"] = (
            f"{HEADER.format(stage=stage)}channels:\n  - conda-forge\n  - nodefaults\n"
            f"dependencies:\n{conda}  - pip:\n{pip}"
        )
        texts[f"{stage}.post-deploy.sh"] = DEPLOY
    return texts


if __name__ == "__main__":
    for name, text in files(ENVS.parent).items():
        (ENVS / name).write_text(text)
