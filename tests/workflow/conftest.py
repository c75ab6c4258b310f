"""A copy of the repository in which the real Snakemake runs, so that tests may edit, touch and break it."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from workflow.forked_programs import MAINS, ask
from workflow_texts import TINY

FORKED = Path(__file__).with_name("forked_programs.py")


class Programs:
    """Snakemake and `scaleproof`, forked from a process that has imported their libraries."""

    def __init__(self, folder: Path) -> None:
        self._socket = str(folder / "socket")
        self.commands = folder / "bin"  # for the jobs of Snakemake, and for shells
        self.commands.mkdir()
        for name in MAINS:
            command = self.commands / name
            command.write_text(f'#!/bin/sh\nexec {sys.executable} -SEs {FORKED} {self._socket} {name} "$@"\n')
            command.chmod(0o755)
        line = [sys.executable, str(FORKED), self._socket]
        self._server = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._server.stdout.readline() == "ready\n"

    def run(self, program: str, *words: str, folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess:
        with open(os.devnull) as nothing, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            files = [file.fileno() for file in (nothing, out, err)]
            code = ask(self._socket, program, [*words], str(folder), environment, files)
            said = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in (out, err)]
        return subprocess.CompletedProcess([program, *words], code, *said)

    def close(self) -> None:
        self._server.stdin.close()
        self._server.wait()


class Copy:
    """A checkout of its own: its files, its Snakemake, its campaigns."""

    def __init__(self, root: Path, repository: Path, sentences: list[str], programs: Programs) -> None:
        self.root = root
        self.programs = programs
        for name in ("src", "workflow", "config", "profiles", "envs"):
            shutil.copytree(repository / name, root / name, ignore=shutil.ignore_patterns("*.egg-info"))
        shutil.copy(repository / "Snakefile", root)
        (root / "prose.txt").write_text("\n".join(sentences))
        with (root / "config/corpora.yaml").open("a") as table:
            table.write("\nprose: {source: text, files: [prose.txt], document: line}\n")
        self.campaign("tiny", TINY)
        path = [str(Path(sys.executable).parent), os.environ["PATH"]]
        self.env = os.environ | {
            "PYTHONPATH": str(root / "src"),
            "PATH": os.pathsep.join(path),
        }

    def campaign(self, name: str, text: str) -> Path:
        path = self.root / f"config/campaigns/{name}.yaml"
        path.write_text(text)
        return path

    def command(self, *arguments: str) -> subprocess.CompletedProcess:
        if arguments[0] == "scaleproof":
            return self.programs.run(*arguments, folder=self.root, environment=self.env)
        return subprocess.run(arguments, cwd=self.root, env=self.env, capture_output=True, text=True)

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess:
        environment = self.env | {"PATH": f"{self.programs.commands}:{self.env['PATH']}"}
        return self.programs.run("snakemake", "--cores", "2", *arguments, folder=self.root, environment=environment)

    def build(self, *targets: str) -> str:
        """Run Snakemake and return what it said."""
        done = self.snakemake(*targets)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stderr

    def planned(self, *targets: str) -> Counter:
        """Jobs by rule that Snakemake would run."""
        said = self.dry(*targets)
        if "Nothing to be done" in said:
            return Counter()
        table = re.search(r"^job +count\n-+ +-+\n(.*?)\n\n", said, re.MULTILINE | re.DOTALL)[1]
        counts = Counter({line.split()[0]: int(line.split()[1]) for line in table.splitlines()})
        return counts - Counter({name: counts[name] for name in ("total", "all", "demo")})

    def dry(self, *targets: str) -> str:
        done = self.snakemake("-n", *targets)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout + done.stderr


@pytest.fixture(scope="package")
def programs(tmp_path_factory):
    programs = Programs(tmp_path_factory.mktemp("programs"))
    yield programs
    programs.close()


@pytest.fixture(scope="package")
def make_copy(tmp_path_factory, sentences, programs):
    def make() -> Copy:
        return Copy(tmp_path_factory.mktemp("copy"), Path(__file__).parents[2], sentences, programs)

    return make


@pytest.fixture(scope="package")
def built(make_copy) -> Copy:
    """A copy whose tiny campaign has been run to its report."""
    copy = make_copy()
    copy.said = copy.build("results/tiny/report.html")
    return copy


@pytest.fixture
def edit(built):
    """Change a file of the copy for one test."""
    saved: dict[Path, bytes] = {}

    def change(name: str, text: str | None = None, append: str = "") -> None:
        path = built.root / name
        saved.setdefault(path, path.read_bytes())
        path.write_text((path.read_text() if text is None else text) + append)

    yield change
    for path, content in saved.items():
        path.write_bytes(content)
