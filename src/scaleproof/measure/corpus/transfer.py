"""A download over HTTP that can be trusted: a file that is whole and checked, or a part that a later one continues."""

import contextlib
import email.utils
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from io import RawIOBase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import requests
import urllib3

from scaleproof.ground.files import DISK_FULL, HTML_PAGE, write_json
from scaleproof.ground.progress import show_bytes
from scaleproof.measure.corpus.store import (
    Denied,
    check_room,
    check_size,
    full_disk_error,
    keep_checked,
    keep_or_fetch,
    print_about_file,
    read_json,
    sibling_path,
    size_on_disk,
)

CHUNK = 1 << 20  # bytes at most in memory
RETRIED_CODES = {408, 425, 429, 500, 502, 503, 504}  # the server may answer otherwise in a minute
WEB_PAGE = "a web page instead of data (a login page, or a proxy in between?)"


@dataclass(frozen=True)
class RetryPolicy:
    """How often a transfer is tried, and how long is waited. Times are in seconds."""

    tries: int = 6  # tries in a row that bring no new byte
    first_wait: float = 1.0  # doubled after each such try
    longest_wait: float = 300.0  # also the longest that a server may ask for
    connect: float = 30.0
    stall: float = 60.0  # without a byte, or with fewer than `least` a second
    least: int = 1000
    wait: Callable[[float], None] = time.sleep

    def pause(self, failures: int) -> float:
        """Return the seconds to wait after `failures` tries in a row that brought no new byte."""
        return min(self.first_wait * 2 ** max(0, failures - 1), self.longest_wait)


@dataclass(frozen=True)
class RemoteFile:
    """A file to download: its addresses, and what is known of it."""

    urls: tuple[str, ...]  # the first, and others that are tried where it fails
    size: int | None = None
    sha256: str | None = None


class BrokenOff(Exception):
    """Raised where another try may get the file; `wait`: seconds that the server asked for."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


def lost_connection(error: Exception, url: str) -> str:
    """Return that the connection to `url` failed, with the kind of `error`, and the host of the proxy on the way."""
    # Its name alone is told: the error's text holds an address, which may have a signature.
    return f"the connection{_way_to(url)} failed ({type(error).__name__})"


def _way_to(url: str) -> str:
    """Return " by https_proxy (HOST)" where the environment names a proxy for `url`, else ""."""
    address, proxies = urlsplit(url), getproxies()
    name = next((name for name in (address.scheme, "all") if proxies.get(name)), None)
    if name is None or proxy_bypass(address.netloc):
        return ""
    host = urlsplit(with_scheme(proxies[name])).hostname  # and no password
    return f" by {name}_proxy ({host or 'which is no address'})"


def with_scheme(proxy: str) -> str:
    return proxy if "://" in proxy else f"http://{proxy}"


def continue_download(url: str, remote_file: RemoteFile, target: Path, policy: RetryPolicy) -> None:
    """Append to `target`.part the bytes that it lacks, by one request.

    Raises Denied, or BrokenOff, after which the next try goes on where this one ended. That try starts anew if `url`
    has another file now, or if more bytes came than the file has. Raises UserError where the disk is full.
    """
    part = sibling_path(target, ".part")
    note_file = sibling_path(target, ".part.json")
    note = read_json(note_file) if part.exists() else {}  # url and etag of the file of which `part` is the beginning
    can_continue = note.get("url") == public_url(url) and bool(note.get("etag"))
    bytes_here = part.stat().st_size if can_continue else 0
    headers = {"Accept-Encoding": "identity", "User-Agent": "scaleproof"}
    if bytes_here:
        headers |= {"Range": f"bytes={bytes_here}-", "If-Range": note["etag"]}

    timeouts = (policy.connect, policy.stall)
    with (
        _connection_errors(policy, url),
        requests.get(url, headers=headers, auth=_add_no_password, stream=True, timeout=timeouts) as answer,
    ):
        if answer.status_code == 416 and _total_bytes(answer) == bytes_here:
            return  # the last transfer brought everything, and was killed before it could say so
        if bytes_here and not _continues_file(answer, bytes_here, note["etag"]):
            note_file.unlink()  # the next try starts from the first byte
            raise BrokenOff("the file there is another one than before")
        total = _accepted_length(answer, remote_file)
        first_byte = bytes_here if answer.status_code == 206 else 0  # else the server sends the whole file
        check_room(target, total, first_byte)
        write_json(note_file, {"url": public_url(url), "etag": _version_tag(answer)})
        _append_answer(answer, part, total, first_byte, policy, target.name)

    if total is not None and part.stat().st_size > total:
        part.unlink()
        raise BrokenOff(f"more than the {total:,} bytes of the file came")


@contextlib.contextmanager
def _connection_errors(policy: RetryPolicy, url: str) -> Iterator[None]:
    """Replace the libraries' errors in the `with` block by Denied or BrokenOff, with a reason in words."""
    try:
        yield
    except requests.TooManyRedirects:
        raise Denied("the server redirects in a circle") from None
    except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema):
        raise Denied("not an address of a web server") from None
    except requests.exceptions.SSLError:
        raise Denied("the server's certificate is not valid here") from None
    except requests.ConnectTimeout:
        raise BrokenOff(f"no connection{_way_to(url)} in {policy.connect:g} s") from None
    except (requests.Timeout, urllib3.exceptions.TimeoutError):
        raise BrokenOff(f"nothing came for {policy.stall:g} s") from None
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise BrokenOff(lost_connection(error, url)) from None


def _continues_file(answer: requests.Response, bytes_here: int, etag: str) -> bool:
    """Return False where the answer shows another file than before; True for its rest, a whole file, or an error.

    `bytes_here`: how many bytes were received before; `etag`: the version that they are of. It is compared here as
    well, since servers may not know If-Range.
    """
    if answer.status_code == 416:  # the file has fewer bytes than were received
        return False
    if answer.status_code != 206:  # the whole file, or an error, which is reported later
        return True
    is_same_version = _version_tag(answer) in (None, etag)
    return is_same_version and answer.headers.get("Content-Range", "").startswith(f"bytes {bytes_here}-")


def _accepted_length(answer: requests.Response, remote_file: RemoteFile) -> int | None:
    """Return how many bytes the file has; None where that is unknown.

    Raises Denied where the answer is not the file, BrokenOff where it is an error that may pass.
    """
    code = answer.status_code
    if code in (401, 403):
        raise Denied(f"access denied (HTTP {code})")
    if code in (404, 410):
        raise Denied(f"no such file there (HTTP {code})")
    if code in RETRIED_CODES:
        raise BrokenOff(f"HTTP {code}", _wait_asked_for(answer))
    if code not in (200, 206):
        raise Denied(f"HTTP {code}")
    if answer.headers.get("Content-Type", "").startswith("text/html"):
        raise Denied(WEB_PAGE)

    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise Denied("the server packs the file although asked not to")
    total = _total_bytes(answer)
    if total is None:
        total = remote_file.size
    check_size(total, remote_file.size)
    if total == 0:
        raise Denied("an empty file")
    return total


def _append_answer(
    answer: requests.Response, part: Path, total: int | None, first_byte: int, policy: RetryPolicy, label: str
) -> None:
    """Append the answer's bytes to `part`, which is `first_byte` bytes long.

    `total`: bytes of the whole file, if known. `label`: the file's name beside the progress. Raises BrokenOff where the
    connection is cut or too slow, Denied where a web page comes.
    """
    # Unbuffered: what a full disk did not take must not be tried again by close().
    with (
        part.open("ab" if first_byte else "wb", buffering=0) as file,
        show_bytes(total, label, first_byte) as show_progress,
    ):
        # The rate is checked over intervals of `policy.stall` seconds.
        interval_start = time.monotonic()
        interval_bytes = 0
        while data := _next_bytes(answer, file, total):
            if not file.tell() and HTML_PAGE.match(data.decode("utf-8", "replace")):  # first bytes
                raise Denied(WEB_PAGE)
            _write_all(file, data, part)
            show_progress(len(data))
            interval_bytes += len(data)
            passed_s = time.monotonic() - interval_start
            if passed_s >= policy.stall:
                if interval_bytes < policy.least * passed_s:
                    raise BrokenOff(f"too slow: {interval_bytes / passed_s:,.0f} bytes/s")
                interval_start = time.monotonic()
                interval_bytes = 0


def _next_bytes(answer: requests.Response, file: RawIOBase, total: int | None) -> bytes:
    """Return the next bytes of the answer, b"" at the end of the file.

    `file`: the part, with what came so far; `total`: bytes of the whole file, if known. Raises BrokenOff where the
    connection was cut.
    """
    # An error of the protocol means a cut connection, as does an end before the last byte.
    with contextlib.suppress(urllib3.exceptions.ProtocolError):
        data = answer.raw.read1(CHUNK)
        if data or total in (None, file.tell()):
            return data
    total_text = "unknown" if total is None else f"{total:,}"
    raise BrokenOff(f"cut after {file.tell():,} of {total_text} bytes")


def _write_all(file: RawIOBase, data: bytes, part: Path) -> None:
    """Write all of `data` to `file`, the open `part`. Raises UserError where the disk is full."""
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise full_disk_error(part) from None


def _total_bytes(answer: requests.Response) -> int | None:
    """Return the bytes of the whole file, by the answer's headers. Returns None where they do not say."""
    if ranged := re.search(r"/(\d+)$", answer.headers.get("Content-Range", "")):
        return int(ranged[1])
    length = answer.headers.get("Content-Length", "")
    return int(length) if length.isdigit() and answer.status_code == 200 else None


def _version_tag(answer: requests.Response) -> str | None:
    """Return a text that identifies this version of the file: a strong ETag, else the date of its last change."""
    etag = answer.headers.get("ETag")
    return etag if etag and not etag.startswith("W/") else answer.headers.get("Last-Modified")


def _wait_asked_for(answer: requests.Response) -> float | None:
    """Return the seconds that the server asks to wait. Returns None where it does not ask."""
    text = answer.headers.get("Retry-After", "")
    if text.isdigit():
        return float(text)
    with contextlib.suppress(ValueError):  # neither seconds nor a date
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    return None


def _add_no_password(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Return the request as it is, as an `auth` of requests, which would else send passwords of ~/.netrc."""
    return request


def public_url(url: str) -> str:
    """Return an address without user, password and query, none of which may be printed."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def download(remote_file: RemoteFile, target: Path, policy: RetryPolicy = RetryPolicy()) -> dict[str, Any]:
    """Download `remote_file` as `target` from the first address that gives it, unless it is there.

    Returns its record (see `keep_or_fetch`). Raises UserError where no address gives the file.
    """
    offers = {public_url(url): partial(_download_from, url, remote_file, target, policy) for url in remote_file.urls}
    return keep_or_fetch(target, remote_file.size, remote_file.sha256, offers)


def _download_from(url: str, remote_file: RemoteFile, target: Path, policy: RetryPolicy) -> dict[str, Any]:
    """Download `remote_file` from one address to `target`, in as many transfers as needed, and return its record.

    Raises Denied after `policy.tries` tries in a row without a new byte, or where the server asks for too long a wait.
    """
    part = sibling_path(target, ".part")
    fruitless_tries = 0  # in a row, without a new byte
    while True:
        bytes_before = size_on_disk(part)
        try:
            continue_download(url, remote_file, target, policy)
            record = keep_checked(part, target, remote_file.sha256, hub_sha256=None, source=public_url(url))
            sibling_path(target, ".part.json").unlink(missing_ok=True)
            return record
        except BrokenOff as interruption:
            fruitless_tries = 0 if size_on_disk(part) > bytes_before else fruitless_tries + 1
            if fruitless_tries >= policy.tries:
                raise Denied(f"{interruption}; given up after {fruitless_tries} tries without a new byte") from None
            pause = interruption.wait  # what the server asked for
            if pause is None:
                pause = policy.pause(fruitless_tries)
            if pause > policy.longest_wait:
                raise Denied(f"{interruption}, and the server asks to wait {pause:,.0f} s") from None
            print_about_file(target, f"{interruption}; next try in {pause:g} s")
            policy.wait(pause)
