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
from workflow.snakemake_server import Server
from workflow_texts import TINY


class Copy:
    """A checkout of its own: its files, its Snakemake, its campaigns."""

    def __init__(self, root: Path, repository: Path, sentences: list[str], server: Server) -> None:
        self.root = root
        self.server = server
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
        return subprocess.run(arguments, cwd=self.root, env=self.env, capture_output=True, text=True)

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess:
        words = ["--cores", "2", *arguments]
        with tempfile.TemporaryDirectory() as scratch:
            return subprocess.CompletedProcess(words, *self.server.run(words, self.root, self.env, Path(scratch)))

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
def server():
    server = Server(dict(os.environ))
    yield server
    server.close()


@pytest.fixture(scope="package")
def make_copy(tmp_path_factory, sentences, server):
    def make() -> Copy:
        return Copy(tmp_path_factory.mktemp("copy"), Path(__file__).parents[2], sentences, server)

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
