"""A real web server on this machine that misbehaves as told, and remembers what it was asked."""

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class Server(ThreadingHTTPServer):
    """Files by path.

    `faults[path]` is a list of functions, one a request, that answer in its place; None answers well.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[Callable[[Any, bytes], None] | None]] = {}
        self.redirects: dict[str, tuple[str, dict[str, str]]] = {}  # path -> (address, headers of the answer)
        self.seen: list[tuple[str, dict[str, str]]] = []  # path and headers of every request
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.ranges = True

    def asked(self, path: str) -> list[str | None]:
        """The Range of every request for `path`."""
        return [headers.get("Range") for seen, headers in self.seen if seen == path]

    def handle_error(self, *_) -> None:
        """A client that hangs up is no news."""


class _HeadersOnly:
    """A stream that ends with the empty line after the headers."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.open = stream, True

    def write(self, data: bytes) -> None:
        if self.open:
            self.stream.write(data)
        self.open = self.open and not data.endswith(b"\r\n\r\n")

    def flush(self) -> None:
        self.stream.flush()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_) -> None:
        pass

    def do_HEAD(self) -> None:
        """What GET answers, without the body."""
        self.wfile, body = _HeadersOnly(self.wfile), self.wfile
        self.do_GET()
        self.wfile = body

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self.server.seen.append((path, {name.title(): value for name, value in self.headers.items()}))
        faults = self.server.faults.get(path)
        fault = faults.pop(0) if faults else None
        if path in self.server.redirects:
            address, headers = self.server.redirects[path]
            status(302, Location=address, **headers)(self, b"")
        elif fault:
            fault(self, self.server.files.get(path, b""))
        elif path in self.server.files:
            self.whole(self.server.files[path])
        else:
            status(404)(self, b"")

    def whole(self, content: bytes) -> None:
        """The file, or the asked-for rest of it if it is the same one still."""
        etag = f'"{hashlib.md5(content).hexdigest()}"'
        start = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
        same = self.headers.get("If-Range", etag) == etag
        if start and same and self.server.ranges:
            first = int(start[1])
            if first >= len(content):
                status(416, Content_Range=f"bytes */{len(content)}")(self, b"")
                return
            self.head(
                206, len(content) - first, ETag=etag, Content_Range=f"bytes {first}-{len(content) - 1}/{len(content)}"
            )
            self.wfile.write(content[first:])
        else:
            self.head(200, len(content), ETag=etag)
            self.wfile.write(content)

    def head(self, code: int, length: int | None, **headers: str) -> None:
        self.send_response(code)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()


def on_hub(server: Server, repository: str, revision: str, name: str, content: bytes, **stated: str) -> str:
    """Put a large file on a stand-in of the hub, which sends to another host for the bytes.

    Returns the path of its address; `stated` replaces what the hub says of it.
    """
    sha256 = hashlib.sha256(content).hexdigest()
    headers = {"X-Linked-Etag": f'"{sha256}"', "X-Linked-Size": str(len(content)), "X-Repo-Commit": "c" * 40}
    headers |= {key.replace("_", "-"): value for key, value in stated.items()}
    store = server.url.replace("127.0.0.1", "localhost")
    path = f"/datasets/{repository}/resolve/{revision}/{name}"
    server.redirects[path] = (f"{store}/store/{sha256}?X-Signature=s3cret", headers)
    server.files[f"/store/{sha256}"] = content
    return path


def status(code: int, body: bytes = b"", **headers: str) -> Callable:
    def answer(handler: _Handler, _: bytes) -> None:
        handler.head(code, len(body), **headers)
        handler.wfile.write(body)

    return answer


def cut(after: int) -> Callable:
    """Promise the whole file and hang up in the middle of it."""

    def answer(handler: _Handler, content: bytes) -> None:
        handler.head(200, len(content), ETag=f'"{hashlib.md5(content).hexdigest()}"')
        handler.wfile.write(content[:after])
        handler.close_connection = True

    return answer


def chunked(content: bytes, end: bool = True) -> Callable:
    """The file without a length; without the mark of its end, if told so."""

    def answer(handler: _Handler, _: bytes) -> None:
        handler.head(200, None, Transfer_Encoding="chunked")
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(content), content) + (b"0\r\n\r\n" if end else b""))
        handler.close_connection = True

    return answer


def silent(seconds: float) -> Callable:
    """Begin, and then say nothing."""

    def answer(handler: _Handler, content: bytes) -> None:
        handler.head(200, len(content), ETag=f'"{hashlib.md5(content).hexdigest()}"')
        handler.wfile.write(content[:10])
        handler.wfile.flush()
        time.sleep(seconds)
        handler.close_connection = True

    return answer


def trickle(bytes_: int, pause: float) -> Callable:
    """A byte now and then."""

    def answer(handler: _Handler, content: bytes) -> None:
        handler.head(200, len(content), ETag='"slow"')
        for i in range(bytes_):
            handler.wfile.write(content[i : i + 1])
            handler.wfile.flush()
            time.sleep(pause)
        handler.close_connection = True

    return answer


@contextmanager
def serving() -> Iterator[Server]:
    server = Server()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
