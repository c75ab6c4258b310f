"""Which program a command starts: its files, their state in git, the versions that its interpreter has."""

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from scaleproof.ground.campaign.command import existing_files
from scaleproof.ground.files import scrub, sha256_of
from scaleproof.ground.records.run_sections import Program
from scaleproof.measure.machine.provenance import OF_PROGRAMS, read_git_state, versions_of

# Asked of the program's own interpreter, which may be another one than ours.
ASK = (
    "import importlib.metadata as m, json, sys\n"
    "have = {d.metadata['Name'] for d in m.distributions()}\n"
    "print(json.dumps({'python': sys.version.split()[0]} | {p: m.version(p) for p in sys.argv[1:] if p in have}))\n"
)


def describe_program(words: Sequence[str]) -> Program:
    """Return what is known of a command, by its `words`, before it is started in the present folder."""
    return Program(
        command=scrub(" ".join(words)),
        files=files_of_command(words),
        **read_git_state(),
        versions=_program_versions(words),
    )


def files_of_command(words: Sequence[str], sha256: Callable[[Path], str] = sha256_of) -> dict[str, str]:
    """Return the sha256 of each file that a command names, by its name without places of this machine."""
    return {scrub(word): sha256(Path(word)) for word in existing_files(words)}


def absent_program(words: Sequence[str]) -> str | None:
    """Return why a command cannot be started here: its program or Python script does not exist. None if it can."""
    if shutil.which(words[0]) is None:
        return f"{words[0]}: there is no such program here"
    script = next(iter(words[1:]), "")
    if Path(words[0]).name.startswith("python") and script.endswith(".py") and not Path(script).is_file():
        return f"{script}: there is no such file in {Path.cwd()}"
    return None


def interpreter_of(words: Sequence[str]) -> Path | None:
    """Return the Python that a command runs: its first word, or that of the script it starts; None for others."""
    program = shutil.which(words[0])
    if program is None:
        return None
    if Path(program).name.startswith("python"):
        return Path(program)
    with Path(program).open("rb") as file:
        first = file.readline(4096)
    if not first.startswith(b"#!"):
        return None
    line = first[2:].decode("utf-8", "replace").split()
    if not line:
        return None
    interpreter = Path(line[0])
    if interpreter.name == "env":  # #!/usr/bin/env python3
        interpreter = Path(shutil.which(line[-1]) or "")
    return interpreter if "python" in interpreter.name else None


def _program_versions(words: Sequence[str]) -> dict[str, str]:
    """Return the versions of Python and of packages that the program may use; {} where it runs no Python."""
    interpreter = interpreter_of(words)
    if interpreter is None:
        return {}
    # In a virtual environment the resolved path is that of the base interpreter, which has other packages.
    if interpreter.resolve() == Path(sys.executable).resolve() and sys.prefix == sys.base_prefix:
        return {"python": platform.python_version()} | versions_of(OF_PROGRAMS)
    try:
        done = subprocess.run(
            [str(interpreter), "-c", ASK, *OF_PROGRAMS], capture_output=True, text=True, timeout=60, check=True
        )
        versions: dict[str, str] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return versions
