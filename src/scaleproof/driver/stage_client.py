"""The `scaleproof` of a workflow: `python -IS stage_client.py SOCKET SCALEPROOF STAGES WORDS ...`.

A stage among STAGES is made by the stage server behind SOCKET; every other command, and a stage that the server did not
make, by the program SCALEPROOF. Imports next to nothing: starting is all that it costs.
"""

import json
import os
import signal
import socket
import struct
import sys

HEADER = struct.Struct("!q")


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the stage gets it, too, and says so
    address, scaleproof, stages, *words = sys.argv[1:]
    if len(words) > 1 and words[0] == "stage" and words[1] in stages.split(","):
        code = ask(address, words)
        if code is not None:
            sys.exit(code)
    os.execv(scaleproof, [scaleproof, *words])


def ask(address: str, words: list[str]) -> int | None:
    """The exit code of the stage; None where there is no server, or its process was killed."""
    request = json.dumps([words, os.getcwd(), dict(os.environ)]).encode()
    with socket.socket(socket.AF_UNIX) as server:
        try:
            server.connect(address)
            socket.send_fds(server, [HEADER.pack(len(request))], [0, 1, 2])
            server.sendall(request)
            answer = server.recv(1)
        except OSError:
            return None
    return answer[0] if answer else None


if __name__ == "__main__":
    main()
