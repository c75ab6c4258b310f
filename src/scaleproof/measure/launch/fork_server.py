"""A process that imports libraries once and forks the ranks of each run.

`python -m scaleproof.measure.launch.fork_server SOCKET LIBRARIES`, libraries as a JSON list.

Importing torch, transformers and DeepSpeed takes longer than a short run on a CPU. The server imports these libraries
and nothing of scaleproof that a run executes, never creates a tensor, and sleeps while ranks run. Every rank is a
fresh copy of it that reads the code, sets its threads and cores, and joins its process group as a fresh process does.
It takes the place of torchrun on one machine; `scaleproof.measure.launch.forked` is its client. A server with more
libraries is forked from one with fewer.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from scaleproof.measure.launch.forked import HEADER, LONGEST, READY, SERVER, ForkRequest, receive
from scaleproof.measure.trainer import START_VARIABLE

IDLE_LIMIT_S = 60.0  # without a request for so long, the server ends
GRACE_S = 5.0  # between asking ranks to end and ending them


def serve(path: Path, libraries: list[str], on_ready: Callable[[], None] = lambda: None) -> None:
    """Import `libraries`, and answer requests on the Unix socket `path` until none comes for IDLE_LIMIT_S seconds.

    `on_ready`: called once the socket takes connections.
    """
    gc.disable()
    for library in libraries:
        importlib.import_module(library)
    gc.collect()
    gc.freeze()  # so that a rank's collector does not touch, and thereby copy, what it shares with the server
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # supervisors report to their client, not to the server
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path.unlink(missing_ok=True)
    listener.bind(str(path))
    listener.listen()
    listener.settimeout(IDLE_LIMIT_S)
    on_ready()

    while True:
        try:
            client, _ = listener.accept()
        except TimeoutError:
            path.unlink(missing_ok=True)
            return
        if os.fork() == 0:  # the child answers, and then ends
            listener.close()
            os._exit(_supervise_request(client))
        client.close()


def _supervise_request(client: socket.socket) -> int:
    """In a child of the server, fork the ranks that the client asks for, and send and return their exit code.

    Before that the client gets this process' number, to send signals to. If the client asks for SERVER, this child
    becomes another server. Returns 1 if the client is gone before it has asked.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()  # leads a process group with the ranks, to which the client sends signals

    try:
        request, output = receive(client)
    except EOFError:
        return 1

    if request.program == SERVER:
        os.close(output)  # a server that held it open would delay the end of the client's output
        return _become_server_of_more(request, client)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.directory)
    client.sendall(HEADER.pack(os.getpid()))
    exit_code = _run_ranks(request, client)
    with contextlib.suppress(OSError):  # a client that was killed needs no answer
        client.sendall(HEADER.pack(exit_code))
    return exit_code


def _become_server_of_more(request: ForkRequest, client: socket.socket) -> int:
    """Turn this child into a server with more libraries, which sends READY or why it failed. Return its exit code."""
    path, libraries = json.loads(request.request)  # the new server's socket and libraries

    def tell_ready() -> None:
        """Tell the client that the new server takes requests."""
        client.sendall(READY)
        client.close()

    try:
        serve(Path(path), libraries, tell_ready)
    except Exception as error:
        client.sendall(f"{type(error).__name__}: {error}".encode()[:LONGEST])
        return 1
    return 0


def _run_ranks(request: ForkRequest, client: socket.socket) -> int:
    """Fork the ranks and wait: 0 where all ended well, else 1. All end when one fails, or the client is gone."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # 0: any port that is free now
        _, port = probe.getsockname()
    rank_of_process: dict[int, int] = {}
    copiers = []
    for rank in range(request.ranks):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:  # the child
            os.close(reader)
            _become_rank(request, rank, port, writer)  # does not return
        os.close(writer)
        rank_of_process[pid] = rank
        copier = threading.Thread(target=_copy_lines, args=(reader, rank, request.prefix), daemon=True)
        copier.start()
        copiers.append(copier)

    # The whole group gets the signal that asks for stacks; only ranks answer it.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    failures = _wait_for_ranks(rank_of_process, client)
    for copier in copiers:
        copier.join(GRACE_S)
    for rank, code in failures:  # in the form of torchrun's summary, the root cause last
        print(f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code}", flush=True)
    return 1 if failures else 0


def _wait_for_ranks(rank_of_process: dict[int, int], client: socket.socket) -> list[tuple[int, int]]:
    """Wait for all ranks, and return rank and exit code (negative: a signal) of the first that failed, in a list.

    The list is empty where all ended well. All ranks are ended when one fails, or when the client is gone: then the
    first rank that still ran counts as ended by SIGTERM.
    """
    running = dict(rank_of_process)
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            exit_code = os.waitstatus_to_exitcode(status)
            rank = running.pop(pid)
            if exit_code:
                _end_processes(running)
                return [(rank, exit_code)]
        # The client sends nothing more: readable means that it is gone. This looks ten times a second.
        elif select.select([client], [], [], 0.1)[0]:
            _end_processes(running)
            return [(min(running.values()), -signal.SIGTERM)]
    return []


def _end_processes(running: dict[int, int]) -> None:
    """End the processes in `running` (process number -> rank) by SIGTERM, then SIGKILL. Removes each as it ends."""
    for signal_number in (signal.SIGTERM, signal.SIGKILL):
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_number)
        deadline = time.monotonic() + GRACE_S
        while running and time.monotonic() < deadline:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            running.pop(pid, None)
            if not pid:
                time.sleep(0.05)


def _become_rank(request: ForkRequest, rank: int, port: int, output: int) -> None:
    """Run the program as rank `rank`, printing into `output`; ranks meet at `port`. Does not return."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1)
    sys.stderr = os.fdopen(2, "w", buffering=1)
    os.environ.update(
        {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(request.ranks),
            "LOCAL_WORLD_SIZE": str(request.ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            START_VARIABLE: "forked",
        }
    )

    try:
        sys.argv = [request.program, request.request]
        runpy.run_module(request.program, run_name="__main__", alter_sys=True)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)

    os._exit(0)


def _copy_lines(reader: int, rank: int, prefix: str) -> None:
    """Copy a rank's output from the pipe `reader` to standard output, each line behind `prefix` with the rank."""
    with os.fdopen(reader, errors="replace") as lines:
        for line in lines:
            text = line if line.endswith("\n") else f"{line}\n"
            os.write(1, (prefix.replace("${rank}", str(rank)) + text).encode(errors="replace"))


if __name__ == "__main__":
    # Limits of threads are set by each rank; the server itself must not start any.
    os.environ.update({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    serve(Path(sys.argv[1]), json.loads(sys.argv[2]))
