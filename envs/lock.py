"""Writes envs/requirements.lock: every package of the environment, exactly, with the checksums of its files.

`make lock` runs it, after a change of pyproject.toml. What is in the lock stays as it is where it fits; words given are
handed to `uv pip compile`: `make lock LOCK=--upgrade`, `make lock LOCK="--upgrade-package torch"`.

torch has many builds of one version, for CPUs and for each CUDA, from several indexes: which one is installed is for
the machine to say, so torch stands there without checksums, and what builds for GPUs bring along is left out.
"""

import os
import re
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from pathlib import Path

ENVS = Path(__file__).parent
LOCK = ENVS / "requirements.lock"
HEADER = "# Every package of the environment, exactly, with the checksums of its files; written by `make lock`.\n"
COMPILE = (
    "pip compile pyproject.toml --extra all --extra test --universal --python-version 3.11 "
    "--generate-hashes --no-annotate --no-header --quiet"
)
OF_BUILDS = ("triton", "nvidia-*", "cuda-*")  # what torch brings along for GPUs
OURS = ("nvidia-ml-py",)
EVERYWHERE = " ; python_full_version < '3.13' and (sys_platform == 'darwin' or sys_platform == 'linux')"
# Without what pip is set up with: a mirror may have the files of one platform alone, and checksums that suit no other.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")} | {
    "PIP_CONFIG_FILE": os.devnull
}


def compiled(options: list[str]) -> str:
    """What uv resolves, starting from the lock as it is."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "requirements.txt"
        out.write_text(LOCK.read_text() if LOCK.exists() else "")
        words = [str(ENVS / "uv"), *COMPILE.split(), *options, "--output-file", str(out)]
        subprocess.run(words, cwd=ENVS.parent, env=ENVIRONMENT, check=True)
        return out.read_text()


def of_any_build(text: str) -> str:
    """A resolution without what belongs to one build of torch."""
    entries = []
    for entry in re.split(r"\n(?=\S)", text.strip()):
        name, _, version = entry.partition("==")
        if name == "torch":
            entries.append(f"torch=={re.split(r'[^0-9.]', version)[0]}")
        elif name in OURS or not any(fnmatch(name, pattern) for pattern in OF_BUILDS):
            entries.append(entry.replace(EVERYWHERE, ""))
    return "".join(f"{entry}\n" for entry in dict.fromkeys(entries))


if __name__ == "__main__":
    LOCK.write_text(HEADER + of_any_build(compiled(sys.argv[1:])))
