"""Which program a command starts: its files, their state in git, the versions that its interpreter has."""

import itertools
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from scaleproof.ground.campaign.command import existing_files
from scaleproof.ground.errors import did_you_mean, nearest_path, shortened
from scaleproof.ground.files import scrub, sha256_of
from scaleproof.ground.records.run_sections import Program
from scaleproof.measure.machine.provenance import OF_PROGRAMS, read_git_state, versions_of

LAUNCHERS = ("python", "torchrun", "accelerate", "deepspeed")  # of Python scripts
SHELLS = ("bash", "sh", "dash", "zsh")  # a script of theirs may be on PATH as well
HAS_MODULE = "import importlib.util as u, sys; sys.exit(0 if u.find_spec(sys.argv[1]) else 4)"
WITHOUT_SCRIPT = ("-c", "-m", "--module", "--no-python", "--no_python")  # options: no file is started
SHELL_WORDS = ("cd", "source", ".", "export")
SHELL_SIGNS = set("|&;<>")
# A question to the program's own interpreter, which may be another one than ours.
VERSIONS_PROGRAM = (
    "import importlib.metadata as m, json, sys\n"
    "have = {d.metadata['Name'] for d in m.distributions()}\n"
    "print(json.dumps({'python': sys.version.split()[0]} | {p: m.version(p) for p in sys.argv[1:] if p in have}))\n"
)


def describe_program(words: Sequence[str]) -> Program:
    """Describe the command `words` before it starts in the current folder."""
    return Program(
        command=scrub(shlex.join(words)),
        files=files_of_command(words),
        **read_git_state(),
        versions=_program_versions(words),
    )


def files_of_command(words: Sequence[str], sha256: Callable[[Path], str] = sha256_of) -> dict[str, str]:
    """Return the sha256 of each file that a command names: its name, without private paths -> sha256."""
    return {scrub(word): sha256(Path(word)) for word in existing_files(words)}


def absent_program(words: Sequence[str]) -> str | None:
    """Return which file a command lacks: program, interpreter of that, or Python script. Returns None if all exist."""
    program = words[0]
    path = shutil.which(program)
    if path is None:
        return f"{program}: there is no such program here{missing_program_hint(program).rstrip('.')}"
    if fault := _interpreter_fault(path):
        return f"{program} {fault}"
    script = _script_of(words)
    if script.endswith(".ipynb"):
        return f"{script} is a notebook, which python does not run"
    if script and "{" not in script and not Path(script).exists() and not shutil.which(script):
        hint = nearest_path(Path(script))  # " Did you mean ...?", or a list of what is there, which is left out
        return f"{script}: there is no such file in {Path.cwd()}{f' ({hint[1:]})' if 'Did you mean' in hint else ''}"
    if Path(program).name.startswith("python") and "-m" in words[1:2] and "{" not in "".join(words):
        return _absent_module(program, "".join(words[2:3]))
    return None


def _interpreter_fault(program: str) -> str:
    """Return why the system cannot start a script by the interpreter that its first line names. "" where it can."""
    line = _shebang(program)
    if line.endswith("\r"):
        return f"ends its lines as Windows does, and so cannot be started: sed -i 's/\\r$//' {program}"
    words = line.split()
    if not words:
        return ""
    name = words[1] if Path(words[0]).name == "env" and len(words) > 1 else words[0]
    is_here = name.startswith("-") or shutil.which(name) is not None  # an option of env
    return "" if is_here else f"names an interpreter in its first line that is not here: {shortened(name)}"


def _shebang(program: str) -> str:
    """Return the first line of a script behind its "#!", without the newline. "" for a program without such a line."""
    try:
        with open(program, "rb") as file:
            first_line = file.readline(4096)
    except OSError:  # a program that may be started and not read
        return ""
    return first_line[2:].decode("utf-8", "replace").removesuffix("\n") if first_line.startswith(b"#!") else ""


def _absent_module(python: str, module: str) -> str | None:
    """Return that `python -m module` has no such module, nor the package that it would be in; None where it has."""
    package = module.partition(".")[0]
    trial = subprocess.run([python, "-c", HAS_MODULE, package], capture_output=True)
    hint = did_you_mean(package, [path.stem for path in Path().glob("*.py")])
    return f"{module}: {python} has no such module.{hint}" if trial.returncode == 4 else None


def _script_of(words: Sequence[str]) -> str:
    """Return the script that a command starts: "train.py" of torchrun --nproc_per_node=2 train.py. "" if unsure."""
    name = Path(words[0]).name
    if not name.startswith(LAUNCHERS) and name not in SHELLS:
        return ""
    if name.startswith(("python", *SHELLS)) and len(words) > 1 and not words[1].startswith("-"):
        return words[1]
    for before, word in itertools.pairwise(words):
        if word in WITHOUT_SCRIPT:
            return ""
        if word.endswith((".py", ".ipynb")):
            may_be_value = before.startswith("--") and "=" not in before
            return "" if may_be_value else word
    return ""


def missing_program_hint(program: str) -> str:
    """Return a hint at a first word that is no program: what it is, or the nearest program."""
    if "=" in program.partition(" ")[0] and not SHELL_SIGNS & set(program):
        return f"; to set a variable: env {program} ..."
    if os.path.isfile(program):
        interpreter = {".sh": "bash", ".py": "python"}.get(Path(program).suffix, "")
        start = f"{interpreter} {program}" if interpreter else "the program that reads it comes first"
        return f"; the file may not be executed: {start}, or chmod +x"
    if program in SHELL_WORDS or SHELL_SIGNS & set(program):
        arguments = "" if " " in program else " ..."
        return f"; no shell reads the command: bash -c '{program}{arguments}'"
    if program.startswith("~"):
        return f"; only a shell replaces ~: {os.path.expanduser(program)}"
    if os.path.isdir(program):
        return "; it is a folder"
    if " " in program:
        return f"; without quotes: -- {program}"
    if "/" in program:
        return ""
    on_path = {file.name for folder in os.get_exec_path() for file in Path(folder).glob("*")}
    return f".{did_you_mean(program, on_path)}"


def interpreter_of(words: Sequence[str]) -> Path | None:
    """Return the path of the Python that a command runs, None where it runs none.

    It is the command's first word, or is named in the first line of the script that this word names.
    """
    program = shutil.which(words[0])
    if program is None:
        return None
    if Path(program).name.startswith("python"):
        return Path(program)

    shebang_words = _shebang(program).split()
    if not shebang_words:
        return None
    interpreter = Path(shebang_words[0])
    if interpreter.name == "env":  # #!/usr/bin/env python3
        interpreter = Path(shutil.which(shebang_words[-1]) or "")
    return interpreter if "python" in interpreter.name else None


def _program_versions(words: Sequence[str]) -> dict[str, str]:
    """Return the versions of the program's Python and packages: name -> version. Returns {} where it has no Python."""
    interpreter = interpreter_of(words)
    if interpreter is None:
        return {}
    # In a virtual environment the resolved path is that of the base interpreter, which has other packages.
    is_virtual = sys.prefix != sys.base_prefix
    if not is_virtual and interpreter.resolve() == Path(sys.executable).resolve():
        return {"python": platform.python_version()} | versions_of(OF_PROGRAMS)
    command = [str(interpreter), "-c", VERSIONS_PROGRAM, *OF_PROGRAMS]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        versions: dict[str, str] = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return versions
