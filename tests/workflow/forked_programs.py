"""Snakemake and `scaleproof`, forked from a process that has imported their libraries: half of a job is importing.

Libraries alone are imported before the fork: each process reads the code of scaleproof in its own folder. A request
comes by a socket, together with the files that are to be standard input, output and error; the answer is the exit code.

    forked_programs.py SOCKET                  answers, until its standard input ends
    forked_programs.py SOCKET PROGRAM WORDS... asks for `PROGRAM WORDS...`, as if it were that program
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import traceback

HEADER = struct.Struct("!q")  # the length of a request; an exit code
MAINS = {"snakemake": "snakemake.cli", "scaleproof": "scaleproof.cli"}  # modules whose main() they are
LIBRARIES = (
    *("snakemake.cli", "snakemake.workflow", "snakemake.shell", "snakemake.executors.local"),
    *("pydantic", "ruamel.yaml", "yaml", "jinja2", "pandas", "scipy.special", "tabulate", "psutil", "pyarrow.parquet"),
    *("tokenizers", "torch", "matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg"),
)


def ask(address: str, program: str, words: list[str], folder: str, variables: dict[str, str], files: list[int]) -> int:
    """Have `program *words` run in `folder` with standard input, output and error `files`: its exit code.

    The code is minus the number of the signal that ended it, where one has.
    """
    request = {"program": program, "words": words, "folder": folder, "variables": variables}
    text = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [HEADER.pack(len(text))], files)
        connection.sendall(text)
        return HEADER.unpack(connection.recv(HEADER.size))[0]


def serve(address: str) -> None:
    """Answer requests, each in a process of its own, until standard input ends."""
    for name in LIBRARIES:
        importlib.import_module(name)
    gc.freeze()  # what is here stays as it is in every child: no page of it is written to
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([sys.stdin, listener], [], [])[0]:
            connection, _ = listener.accept()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if os.fork() == 0:
                listener.close()
                _answer(connection)
            connection.close()


def _answer(connection: socket.socket) -> None:
    """In a child: run what is asked for and say how it ended. Never returns."""
    header, files, *_ = socket.recv_fds(connection, HEADER.size, 3)
    with connection.makefile("rb") as stream:
        request = json.loads(stream.read(HEADER.unpack(header)[0]))
    child = os.fork()
    if child == 0:
        connection.close()
        _become(request, files)
    ended = os.pidfd_open(child)
    if ended not in select.select([connection, ended], [], [])[0]:  # whoever asked is gone
        os.kill(child, signal.SIGTERM)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(HEADER.pack(code))
    os._exit(0)


def _become(request: dict, files: list[int]) -> None:
    """In a child: become the program of the request. Never returns."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["variables"])
    sys.path[:1] = request["variables"]["PYTHONPATH"].split(os.pathsep)
    # Snakemake imports its plugins, and with our executor the code of the repository: here that of the folder counts.
    for name in [name for name in sys.modules if name.partition(".")[0] == "scaleproof"]:
        del sys.modules[name]
    sys.argv = [os.path.join(os.path.dirname(sys.executable), request["program"]), *request["words"]]
    code = 1
    try:
        code = importlib.import_module(MAINS[request["program"]]).main() or 0
    except SystemExit as end:
        code = end.code or 0
    except BaseException:
        traceback.print_exc()
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # to take down what is imported would cost a fifth of a second


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(sys.argv[1])
    else:
        code = ask(*sys.argv[1:3], sys.argv[3:], os.getcwd(), dict(os.environ), [0, 1, 2])
        sys.exit(code if code >= 0 else 128 - code)
