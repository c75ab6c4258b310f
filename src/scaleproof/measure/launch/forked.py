"""Ranks forked from a server, in torchrun's place.

`python -m scaleproof.measure.launch.forked REQUEST PROGRAM RANKS LIBRARIES PREFIX`, libraries as a JSON list of groups.

Imports nothing but the standard library: what a run waits for is the server, once.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

HEADER = struct.Struct("!q")
START_LIMIT_S = 120.0  # for the server's imports
SERVER = "scaleproof.measure.launch.fork_server"
READY = b"ready"  # the answer of a server that has imported more libraries
LONGEST_FOLDER = 80  # bytes: the path of a socket in it may have 103
LONGEST = 2000  # bytes of such an answer


@dataclass(frozen=True)
class ForkRequest:
    """What a client asks the fork server for."""

    program: str  # a module that `python -m` can run
    request: str  # its only argument
    ranks: int
    prefix: str  # stands before each line of output; ${rank} is replaced
    directory: str
    environment: dict[str, str]


def socket_path(libraries: list[list[str]]) -> Path:
    """Return the path of the server's socket, one per user, interpreter, libraries, folder and import variables."""
    relevant = {name: value for name, value in os.environ.items() if name.startswith(("TORCH", "DS_", "HF_", "PYTHON"))}
    identity = json.dumps([sys.executable, libraries, sorted(relevant.items()), os.getcwd()])
    name = f"scaleproof-{os.getuid()}"
    folder = Path(tempfile.gettempdir()) / name
    if len(os.fsencode(folder)) > LONGEST_FOLDER:
        folder = Path("/tmp") / name
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    return folder / f"fork-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def connect(libraries: list[list[str]]) -> socket.socket:
    """Return a connection to a server that has imported `libraries` (groups of modules), started if none runs.

    A server with several groups is a copy of the server with all groups but the last. Raises TimeoutError or OSError if
    no server starts.
    """
    path = socket_path(libraries)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs must not start two servers
        if connection := _connect_running(path):
            return connection
        if len(libraries) > 1:
            return _start_from_smaller_server(path, libraries)
        return _start_server(path, libraries[0])


def _start_from_smaller_server(path: Path, libraries: list[list[str]]) -> socket.socket:
    """Have a server with all `libraries` forked from that of all groups but the last, and connect to it.

    Raises OSError where the new server ends instead.
    """
    *groups_before, last_group = libraries
    request = ForkRequest(
        program=SERVER,
        request=json.dumps([str(path), last_group]),
        ranks=0,
        prefix="",
        directory=os.getcwd(),
        environment={},
    )

    with connect(groups_before) as server:
        server.settimeout(START_LIMIT_S)
        send(server, request)
        answer = server.recv(LONGEST)

    connection = _connect_running(path) if answer == READY else None
    if connection is None:
        raise OSError(f"the fork server ended: {answer.decode(errors='replace')}")
    return connection


def _start_server(path: Path, libraries: list[str]) -> socket.socket:
    """Start a server that imports `libraries`, and return a connection to it. Raises OSError where it ends instead."""
    server = subprocess.Popen(
        [sys.executable, "-m", SERVER, str(path), json.dumps(libraries)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        close_fds=True,
    )
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        if connection := _connect_running(path):
            return connection
        if server.poll() is not None:
            message = server.stderr.read().decode(errors="replace") if server.stderr else ""
            raise OSError(f"the fork server ended: {message[-2000:]}")
        time.sleep(0.05)
    raise TimeoutError(f"the fork server was not ready after {START_LIMIT_S:g} s")


def _connect_running(path: Path) -> socket.socket | None:
    """Return a connection to the server at the socket `path`. Returns None where no server listens."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    return connection


def send(connection: socket.socket, request: ForkRequest) -> None:
    """Send a request, and the descriptor of this process' standard output."""
    data = json.dumps(asdict(request)).encode()
    socket.send_fds(connection, [HEADER.pack(len(data))], [1])
    connection.sendall(data)


def receive(connection: socket.socket) -> tuple[ForkRequest, int]:
    """Return a client's request, and the descriptor for its output. Raises EOFError where the client is gone."""
    header, descriptors, *_ = socket.recv_fds(connection, HEADER.size, 1)
    if len(header) < HEADER.size:
        raise EOFError("the client is gone")
    (size,) = HEADER.unpack(header)
    data = b""
    while len(data) < size:
        received = connection.recv(size - len(data))
        if not received:
            raise EOFError("the client is gone")
        data += received
    return ForkRequest(**json.loads(data)), descriptors[0]


def main() -> int:
    """Have the server fork the ranks of the command line, and return their exit code, 1 if the server sends none."""
    request, program, ranks, libraries, prefix = sys.argv[1:]
    fork_request = ForkRequest(
        program=program,
        request=request,
        ranks=int(ranks),
        prefix=prefix,
        directory=os.getcwd(),
        environment=dict(os.environ),
    )
    with connect(json.loads(libraries)) as connection:
        send(connection, fork_request)
        (supervisor,) = HEADER.unpack(connection.recv(HEADER.size))  # the process that leads the ranks' group

        def forward(number: int, frame: object) -> None:
            """Pass a signal on to the ranks and their supervisor."""
            with contextlib.suppress(ProcessLookupError):
                os.killpg(supervisor, number)

        # Only the launcher's question for stacks is passed on. Any other end closes the connection, which ends ranks.
        signal.signal(signal.SIGUSR1, forward)
        answer = connection.recv(HEADER.size)
    return HEADER.unpack(answer)[0] if len(answer) == HEADER.size else 1


if __name__ == "__main__":
    sys.exit(main())
