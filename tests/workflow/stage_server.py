"""`scalebench stage NAME` in processes forked from one that has imported their libraries, for short stages.

Drawing a chart of a tiny campaign takes a fifth of the time that importing libraries takes. Nothing of scalebench is
imported before the fork: each stage reads the code of its own checkout. What measures, and every other command, is run
by the `scalebench` of the environment.
"""

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

LIBRARIES = [
    *("numpy", "pandas", "scipy.optimize", "scipy.special", "scipy.stats", "matplotlib.figure", "matplotlib.ticker"),
    *("matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "jinja2", "pydantic", "ruamel.yaml"),
    *("tabulate", "psutil", "yaml", "torch", "transformers.models.gpt2.modeling_gpt2"),
]
SHORT = [
    *("collect", "findings", "look", "analyse", "waterfall", "table", "chart", "loss_chart", "report", "comparison"),
    *("trace_report", "trace_chart", "forecast_report", "reference"),
]
# The command that stands before the environment's on PATH; it imports next to nothing.
COMMAND = """#!{python} -IS
import json, os, socket, sys
words = sys.argv[1:]
if words[:1] != ["stage"] or words[1] not in {short}:
    os.execv({scalebench!r}, [{scalebench!r}, *words])
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [b"."], [0, 1, 2])
    server.sendall(json.dumps([words, os.getcwd(), dict(os.environ)]).encode())
    server.shutdown(socket.SHUT_WR)
    code = server.recv(1)
sys.exit(code[0] if code else 1)
"""


class StageServer:
    """The process that forks stages; `folder` holds the command that asks it, `scalebench`."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        address = str(folder / "socket")
        scalebench = str(Path(sys.executable).parent / "scalebench")
        command = folder / "scalebench"
        command.write_text(COMMAND.format(python=sys.executable, short=SHORT, scalebench=scalebench, address=address))
        command.chmod(0o755)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen()
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(listener.fileno())],
            env=environment | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            pass_fds=[listener.fileno()],
        )
        listener.close()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


def _run(connection: socket.socket) -> None:
    """In the child: become the stage that is asked for. Never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, descriptors, *_ = socket.recv_fds(connection, 1, 3)
    words, folder, environment = json.loads(connection.makefile("rb").read())
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:1] = environment["PYTHONPATH"].split(os.pathsep)
    sys.argv = ["scalebench", *words]
    code = 1
    try:
        from scalebench.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    connection.sendall(bytes([code]))
    os._exit(code)


def serve(listener: socket.socket) -> None:
    for library in LIBRARIES:
        importlib.import_module(library)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _run(connection)
        connection.close()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
