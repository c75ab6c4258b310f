"""Short stages of a workflow in processes forked from one that has imported their libraries.

`python -P -m scaleproof.driver.stage_server SOCKET_FD EARLY LATE FOLDER`: libraries as JSON lists; it ends with its
standard input, and FOLDER with it.

A chart is drawn in a fifth of the time that importing pandas and matplotlib takes, and a report has two dozen of them.
Nothing is imported before the first stage is asked for, and no stage ends before all is, so that nothing happens beside
a measured run; and nothing of scaleproof before a fork, so that each stage reads the code as it is then. What measures
is never made here.

Where Python may write no bytecode, as in most containers, each stage would compile scaleproof anew, a tenth of the time
of a chart: the server then keeps it in FOLDER.
"""

import _thread
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from scaleproof.driver.stage_client import HEADER

# The folder of the server that stages are asked of, for workflows inside of others.
VARIABLE = "SCALEPROOF_STAGE_SERVER"
# What stages import, and what these libraries import when they are used for the first time: a third of the time of a
# small stage. EARLY: reading and checking runs, the first stages of a campaign.
EARLY = (
    *("numpy", "pandas", "scipy.special", "ruamel.yaml", "yaml", "psutil", "statistics"),
    *("pydantic.type_adapter", "pydantic.root_model", "pydantic.json_schema", "pydantic.plugin._schema_validator"),
    *("pyarrow.pandas_compat", "pyarrow.csv", "pyarrow.vendored.version", "pandas.io.formats.csvs"),
    *("multiprocessing.connection", "multiprocessing.popen_fork", "ruamel.yaml.mergevalue", "encodings.utf_8_sig"),
)
LATE = (
    *("matplotlib.figure", "matplotlib.ticker", "matplotlib.backends.backend_agg"),
    *("matplotlib.backends.backend_svg", "jinja2", "tabulate", "pandas.io.formats.style"),
    "pandas.core.methods.to_dict",
    *("PIL.BmpImagePlugin", "PIL.GifImagePlugin", "PIL.JpegImagePlugin", "PIL.PpmImagePlugin"),
)
STAGES = (
    *("collect", "findings", "look", "analyse", "waterfall", "table", "chart", "loss_chart", "report", "comparison"),
    *("trace_summary", "trace_report", "trace_chart", "forecast_report"),
)


class StageServer:
    """The process that forks stages. `folder` holds a `scaleproof` that asks it, for the front of PATH.

    It ends, and `folder` with it, when the process that started it ends.
    """

    def __init__(
        self, early: Sequence[str] = EARLY, late: Sequence[str] = LATE, stages: Sequence[str] = STAGES
    ) -> None:
        """`early`: libraries that are imported before the first stage; `late`: while it runs.

        Raises OSError where no socket can be made in the folder for temporary files.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="scaleproof-"))
        address = str(self.folder / "socket")
        client = [sys.executable, "-IS", str(Path(__file__).with_name("stage_client.py")), address]
        client += [str(Path(sys.executable).parent / "scaleproof"), ",".join(stages)]
        command = self.folder / "scaleproof"
        with socket.socket(socket.AF_UNIX) as listener:
            try:
                listener.bind(address)
                listener.listen()
                command.write_text(f'#!/bin/sh\nexec {shlex.join(client)} "$@"\n')
                command.chmod(0o755)
            except OSError:
                shutil.rmtree(self.folder, ignore_errors=True)
                raise
            words = [str(listener.fileno()), json.dumps(list(early)), json.dumps(list(late)), str(self.folder)]
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "scaleproof.driver.stage_server", *words],
                # One thread of the libraries for linear algebra: a process with more cannot be forked safely.
                env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                pass_fds=[listener.fileno()],
            )

    def close(self) -> None:
        """End the server."""
        assert self._process.stdin is not None  # a pipe, above
        self._process.stdin.close()
        self._process.wait()


def serve(listener: socket.socket, early: Sequence[str], late: Sequence[str], folder: Path) -> None:
    """Fork a stage for each connection to `listener`, until standard input ends. `folder`: of the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # stages get it themselves; the server ends with the workflow
    imports = _Imports(early, late)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [], 0 if imports.are_due else None)
        with contextlib.suppress(ChildProcessError):  # a stage tells its client how it ended
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if sys.stdin in ready:
            return
        if listener not in ready:
            imports.go_on()
            continue
        imports.begin()
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            if sys.dont_write_bytecode and sys.pycache_prefix is None:
                sys.dont_write_bytecode, sys.pycache_prefix = False, str(folder / "bytecode")
            try:
                _become_stage(connection, imports)
            finally:  # its client is gone, or its folder; a stage must not go on as the server and clean up for it
                os._exit(1)
        connection.close()


class _Imports:
    """The libraries of the server: those of the first stages at once, the others one by one while these run."""

    def __init__(self, early: Sequence[str], late: Sequence[str]) -> None:
        self._early, self._late = list(early), list(late)
        self._begun = False
        self._end, self._pending = os.pipe()  # nobody writes: all is imported when the server has closed its end

    @property
    def are_due(self) -> bool:
        return self._begun and bool(self._late)

    def begin(self) -> None:
        """Import what the first stage needs."""
        if not self._begun:
            self._begun = True
            self._import(self._early)

    def go_on(self) -> None:
        """Import one of the others."""
        self._import([self._late.pop(0)])

    def _import(self, libraries: Sequence[str]) -> None:
        for library in libraries:
            importlib.import_module(library)
        if not self._late:
            os.close(self._pending)
        gc.collect()
        gc.freeze()  # a stage's collector need not look at, and thereby copy, what it shares with the server

    def forked(self) -> None:
        """In a stage: the server alone holds its end of the pipe."""
        if self._late:
            os.close(self._pending)

    def wait(self) -> None:
        """In a stage, until the server has imported all."""
        os.read(self._end, 1)


def _become_stage(connection: socket.socket, imports: _Imports) -> None:
    """In the child: run the command that the client asks for, as a process of its own would. Never returns."""
    imports.forked()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    words, folder, environment = _receive(connection)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for name in [name for name in sys.modules if name.partition(".")[0] == "scaleproof"]:
        del sys.modules[name]  # this file's own package: the caller's checkout may be another one
    sys.path[:0] = [place for place in environment.get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.argv = ["scaleproof", *words]
    over = threading.Event()
    threading.Thread(target=_end_with, args=(connection, over), daemon=True).start()
    code = 1
    try:
        runpy.run_module("scaleproof", run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:  # before the command could say so
        code = 128 + signal.SIGINT
    except BaseException:
        sys.excepthook(*sys.exc_info())
    over.set()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    imports.wait()
    with contextlib.suppress(OSError):  # a client that was killed needs no answer
        connection.sendall(bytes([code]))
    os._exit(code)


def _receive(connection: socket.socket) -> tuple[list[str], str, dict[str, str]]:
    """The words, folder and environment of a request; the client's standard streams become those of this process."""
    header, descriptors, *_ = socket.recv_fds(connection, HEADER.size, 3)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    size, data = HEADER.unpack(header)[0], b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError("the client ended before its request did")
        data += part
    words, folder, environment = json.loads(data)
    return words, folder, environment


def _end_with(connection: socket.socket, over: threading.Event) -> None:
    """Interrupt the stage when its client is gone: a workflow that is stopped ends its clients."""
    with contextlib.suppress(OSError):
        connection.recv(1)  # the client sends nothing more
    if not over.is_set():
        _thread.interrupt_main()


if __name__ == "__main__":
    try:
        serve(
            socket.socket(fileno=int(sys.argv[1])), json.loads(sys.argv[2]), json.loads(sys.argv[3]), Path(sys.argv[4])
        )
    finally:
        shutil.rmtree(sys.argv[4], ignore_errors=True)
