"""The real Snakemake in processes forked from one that has imported it: half of a dry run is importing.

Only Snakemake itself is imported before the fork: each process reads the code of scaleproof in its own folder.
Each line of standard input is a request (folder, words, environment, files for the output); the answer is a line with
the exit code.
"""

import json
import os
import subprocess
import sys
from pathlib import Path


class Server:
    """A process that runs `snakemake` when asked, one call at a time."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, words: list[str], folder: Path, environment: dict[str, str], scratch: Path) -> tuple[int, str, str]:
        """`snakemake *words` in `folder`: exit code, standard output, standard error."""
        out, err = scratch / "out", scratch / "err"
        request = {"words": words, "folder": str(folder), "env": environment, "out": str(out), "err": str(err)}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        code = int(self._process.stdout.readline())
        return code, out.read_text(), err.read_text()

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def _run(request: dict) -> None:
    """In the child: become the `snakemake` of the request. Never returns."""
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(request[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.path[1:1] = request["env"]["PYTHONPATH"].split(os.pathsep)
    # Snakemake imports its plugins, and with our executor the code of the repository: here that of the folder counts.
    for name in [name for name in sys.modules if name.partition(".")[0] == "scaleproof"]:
        del sys.modules[name]
    sys.argv = [str(Path(sys.executable).parent / "snakemake"), *request["words"]]
    from snakemake.cli import main

    main()


def serve() -> None:
    import snakemake.cli
    import snakemake.workflow  # noqa: F401

    for line in sys.stdin:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _run(json.loads(line))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()
