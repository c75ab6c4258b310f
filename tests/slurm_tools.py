"""A real two-node Slurm on this machine, and a copy of the repository from which campaigns are sent to it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from patience import HANGS
from workflow_texts import TINY

SCRIPT = Path(__file__).parent / "driver/slurm/cluster"
NEEDED = ("slurmctld", "slurmd", "sbatch", "munged", "nsenter", "unshare", "ip")


def reason_against_a_cluster() -> str | None:
    """Why no cluster can be started here; None where one can."""
    missing = [name for name in NEEDED if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None]
    if missing:
        return f"{', '.join(missing)} not installed (tests/install-system-packages installs them as root)"
    if os.geteuid() != 0:
        return "namespaces for nodes need root"
    if subprocess.run(
        ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "true"], capture_output=True
    ).returncode:
        return "this machine does not let root make namespaces"
    return None


class Cluster:
    """Slurm's login node, in a folder of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self._script("start", *options)

    def _script(self, verb: str, *arguments: str) -> None:
        done = subprocess.run([SCRIPT, verb, self.folder, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-5000:]

    def command(self, *words: str) -> list[str]:
        """The words that run a command on the login node; the limit is inside, where signals reach everything."""
        return [str(SCRIPT), "run", str(self.folder), "timeout", "--kill-after=5", str(HANGS), *words]

    def run(self, *words: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess:
        """Run a command on the login node and wait for it."""
        return subprocess.run(
            self.command(*words), cwd=cwd, env=environment() | variables, capture_output=True, text=True
        )

    def crash(self, node: str) -> None:
        self._script("crash", node)

    def boot(self, node: str) -> None:
        self._script("boot", node)

    def hide(self, node: str, folder: Path) -> None:
        """The folder is empty on that node, as if its file system were not mounted."""
        self._script("hide", node, str(folder))

    def show(self, node: str, folder: Path) -> None:
        self._script("show", node, str(folder))

    def stop(self) -> None:
        self._script("stop")


def environment() -> dict[str, str]:
    """With this Python's commands first, as in an activated environment."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin:/sbin"}


class Checkout:
    """A copy of the repository, whose campaigns run on the cluster."""

    def __init__(self, root: Path, cluster: Cluster, repository: Path, sentences: list[str]) -> None:
        self.root, self.cluster = root, cluster
        for name in ("src", "workflow", "config", "profiles", "envs"):
            shutil.copytree(repository / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        shutil.copy(repository / "Snakefile", root)
        (root / "slurm").symlink_to("profiles/slurm")
        (root / "prose.txt").write_text("\n".join(sentences))
        with (root / "config/corpora.yaml").open("a") as table:
            table.write("\nprose: {source: text, files: [prose.txt], document: line}\n")

    def campaign(self, name: str, text: str = TINY) -> Path:
        path = self.root / f"config/campaigns/{name}.yaml"
        path.write_text(text)
        return path

    def command(self, *words: str) -> list[str]:
        return self.cluster.command("env", f"PYTHONPATH={self.root / 'src'}", *words)

    def run(self, *words: str) -> subprocess.CompletedProcess:
        return self.cluster.run("env", f"PYTHONPATH={self.root / 'src'}", *words, cwd=self.root)

    def snakemake(self, *words: str) -> subprocess.CompletedProcess:
        return self.run("snakemake", "--profile", "slurm", *words)
