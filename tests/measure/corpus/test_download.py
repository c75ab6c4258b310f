"""A download over a real, misbehaving server: the whole file or a clear message, and never a part under its name."""

import hashlib
import json
import random
import re
import subprocess
import threading
import time
from dataclasses import replace
from email.utils import formatdate

import pytest
import requests
from webserver import chunked, cut, serving, silent, status, trickle

from scaleproof.ground.errors import UserError
from scaleproof.measure.corpus import store
from scaleproof.measure.corpus.transfer import RemoteFile, RetryPolicy, download

CONTENT = random.Random(3).randbytes(300_000)
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "store" / "data.bin"


@pytest.fixture
def url(server):
    server.files["/data.bin"] = CONTENT
    return f"{server.url}/data.bin"


def refused(target, message, remote_file, policy):
    with pytest.raises(UserError, match=message):
        download(remote_file, target, policy)
    assert not target.exists(), "no half file under the name of a whole one"


def test_a_file_is_whole_checked_and_described(server, url, target, policy):
    record = download(RemoteFile((url,), len(CONTENT), SHA), target, policy)
    assert target.read_bytes() == CONTENT
    assert record == {"size": len(CONTENT), "sha256": SHA, "checked": "table", "source": url}
    assert json.loads((target.parent / "data.bin.json").read_text()) == record
    assert sorted(p.name for p in target.parent.iterdir()) == [".data.bin.lock", "data.bin", "data.bin.json"]


def test_an_intact_file_is_not_asked_for_again(server, url, target, policy):
    first = download(RemoteFile((url,)), target, policy)
    assert first["checked"] == "first use"
    server.seen.clear()
    assert download(RemoteFile((url,)), target, policy) == first
    assert download(RemoteFile((url,), sha256=SHA), target, policy)["checked"] == "table"
    assert server.seen == []


def test_a_damaged_file_is_fetched_again(server, url, target, policy, capsys):
    download(RemoteFile((url,)), target, policy)
    target.write_bytes(CONTENT[:-1] + b"x")
    download(RemoteFile((url,)), target, policy)
    assert target.read_bytes() == CONTENT
    assert "damaged" in capsys.readouterr().err


def test_another_file_than_at_first_use_is_not_taken(server, url, target, policy):
    download(RemoteFile((url,)), target, policy)
    target.unlink()
    server.files["/data.bin"] = CONTENT[::-1]
    refused(target, f"expected {SHA} as at first; delete data.bin.json to take the new one", RemoteFile((url,)), policy)
    (target.parent / "data.bin.json").unlink()
    assert download(RemoteFile((url,)), target, policy)["sha256"] == hashlib.sha256(CONTENT[::-1]).hexdigest()


def test_a_file_that_was_copied_there_by_hand_is_taken(server, url, target, policy):
    target.parent.mkdir()
    target.write_bytes(CONTENT)
    assert download(RemoteFile((url,), sha256=SHA), target, policy)["checked"] == "table"
    assert server.seen == []


@pytest.mark.parametrize("after", [1, 100_000, 299_999])
def test_a_cut_transfer_goes_on_where_it_ended(server, url, target, policy, waits, after):
    server.faults["/data.bin"] = [cut(after)]
    download(RemoteFile((url,)), target, policy)
    assert target.read_bytes() == CONTENT
    assert server.asked("/data.bin") == [None, f"bytes={after}-"]
    assert waits == [1.0]


def test_the_next_process_goes_on_where_this_one_was_ended(server, url, target, policy):
    server.faults["/data.bin"] = [cut(50_000), *[status(500)] * 3]
    refused(target, r"HTTP 500; given up after 3 tries", RemoteFile((url,)), policy)
    server.seen.clear()
    download(RemoteFile((url,)), target, policy)
    assert server.asked("/data.bin") == ["bytes=50000-"]
    assert target.read_bytes() == CONTENT


def test_a_part_that_is_complete_needs_no_byte_more(server, url, target, policy):
    server.faults["/data.bin"] = [cut(50_000), *[status(500)] * 3]
    refused(target, "500", RemoteFile((url,)), policy)
    with (target.parent / "data.bin.part").open("ab") as part:
        part.write(CONTENT[50_000:])
    download(RemoteFile((url,), sha256=SHA), target, policy)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("honest", [True, False], ids=["If-Range", "without If-Range"])
@pytest.mark.fault("the file on the server changes between two parts", "fetched from the beginning")
def test_a_file_that_changed_meanwhile_is_not_glued_to_the_old_part(server, url, target, policy, honest):
    other = bytes(reversed(CONTENT))

    def change(handler, _):
        server.files["/data.bin"] = other
        if not honest:  # a server that sends the rest of the new file, though it was asked for the rest of the old one
            del handler.headers["If-Range"]
        handler.whole(other)

    server.faults["/data.bin"] = [cut(50_000), change]
    download(RemoteFile((url,)), target, policy)
    assert target.read_bytes() == other


def test_a_server_that_cannot_resume(server, url, target, policy):
    server.ranges = False
    server.faults["/data.bin"] = [cut(100_000)]
    download(RemoteFile((url,)), target, policy)
    assert target.read_bytes() == CONTENT


@pytest.mark.fault("a server always cuts at the same place", "ends with one message")
def test_a_server_that_always_cuts_at_the_same_place_ends(server, url, target, policy, waits):
    server.ranges = False
    server.faults["/data.bin"] = [cut(100_000)] * 99
    refused(target, r"cut after 100,000 of 300,000 bytes; given up after 3 tries", RemoteFile((url,)), policy)
    assert waits == [1.0, 1.0, 2.0]


@pytest.mark.parametrize("end", [True, False])
def test_a_file_of_unknown_length(server, url, target, policy, end):
    server.faults["/data.bin"] = [chunked(CONTENT, end=end)]
    download(RemoteFile((url,)), target, policy)
    assert target.read_bytes() == CONTENT
    assert len(server.seen) == (1 if end else 2), "one without the mark of its end is not whole"


def test_backoff_then_success(server, url, target, policy, waits):
    server.faults["/data.bin"] = [status(503), status(500)]
    download(RemoteFile((url,)), target, policy)
    assert waits == [1.0, 2.0]


def test_retry_after_is_obeyed(server, url, target, policy, waits):
    date = formatdate(time.time() + 40, usegmt=True)
    server.faults["/data.bin"] = [status(429, Retry_After="7"), status(503, Retry_After=date)]
    download(RemoteFile((url,)), target, policy)
    assert waits[0] == 7
    assert 30 < waits[1] <= 40


@pytest.mark.parametrize("text", ["soon", "-5", "", "99999 Feb 31"])
def test_a_retry_after_that_says_nothing(server, url, target, policy, waits, text):
    server.faults["/data.bin"] = [status(429, Retry_After=text)]
    download(RemoteFile((url,)), target, policy)
    assert waits == [1.0]


PAGE = b"<!DOCTYPE html><html><body>Please log in</body></html>"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (status(403), "access denied .HTTP 403"),
        (status(404), "no such file there .HTTP 404"),
        (status(410), "no such file there"),
        (status(418), "HTTP 418"),
        (status(429, Retry_After="3600"), "HTTP 429, and the server asks to wait 3,600 s"),
        (status(200, PAGE, Content_Type="text/html; charset=utf-8"), "a web page instead of data"),
        (status(200, b"\n" + PAGE), "a web page instead of data"),
        (status(200, b"xx", Content_Encoding="gzip"), "packs the file"),
        (status(200), "an empty file"),
    ],
)
def test_answers_that_are_no_file(server, url, target, policy, waits, fault, message):
    server.faults["/data.bin"] = [fault] * 9
    refused(target, f"data.bin could not be downloaded:\n  {re.escape(url)}: .*{message}", RemoteFile((url,)), policy)
    assert waits == [], "waiting would not help"


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_answers_that_stay_bad(server, url, target, policy, code):
    server.faults["/data.bin"] = [status(code)] * 9
    refused(target, f"HTTP {code}; given up after 3 tries", RemoteFile((url,)), policy)


def test_a_redirect_that_goes_in_a_circle(server, target, policy):
    server.redirects |= {"/a": ("/b", {}), "/b": ("/a", {})}
    refused(target, "redirects in a circle", RemoteFile((f"{server.url}/a",)), policy)


def test_nobody_listens(target, policy):
    with serving() as gone:
        pass
    refused(target, "the connection failed .*given up after 3 tries", RemoteFile((f"{gone.url}/x",)), policy)


@pytest.mark.parametrize(
    ("error", "words"), [("ConnectTimeout", "no connection in 30 s"), ("ReadTimeout", "nothing came for 30 s")]
)
def test_a_timeout_is_told_with_its_own_limit(target, policy, monkeypatch, error, words):
    def time_out(*_, **__):
        raise getattr(requests, error)

    monkeypatch.setattr("requests.get", time_out)
    refused(target, words, RemoteFile(("http://x/y",)), policy)


def test_an_address_that_is_none(target, policy):
    refused(target, "not an address of a web server", RemoteFile(("ftp://x/y",)), policy)


@pytest.mark.fault("a server falls silent", "asked again; then one message")
def test_a_server_that_falls_silent(server, url, target, policy):
    server.faults["/data.bin"] = [silent(1.0)]
    download(RemoteFile((url,)), target, replace(policy, stall=0.3))
    assert server.asked("/data.bin") == [None, "bytes=10-"]
    assert target.read_bytes() == CONTENT


def test_a_server_that_trickles(server, url, target, policy, capsys):
    server.faults["/data.bin"] = [trickle(100, 0.02)]
    download(RemoteFile((url,)), target, replace(policy, stall=0.3))
    assert target.read_bytes() == CONTENT
    assert "too slow" in capsys.readouterr().err


def test_another_size_than_expected_is_not_even_begun(server, url, target, policy):
    refused(target, "300,000 bytes are offered, 299,999 were expected", RemoteFile((url,), size=299_999), policy)


def test_a_wrong_checksum(server, url, target, policy):
    refused(
        target, f"the file there has sha256 {SHA}, expected {'0' * 64}", RemoteFile((url,), sha256="0" * 64), policy
    )
    assert len(server.seen) == 2, "once more from the start, then no more"


@pytest.mark.fault("one bit is lost in a download", "noticed by its checksum")
def test_one_bit_lost_on_the_way(server, url, target, policy):
    server.faults["/data.bin"] = [status(200, b"\x00" + CONTENT[1:])]
    download(RemoteFile((url,), sha256=SHA), target, policy)
    assert target.read_bytes() == CONTENT


def test_a_mirror_is_asked_where_the_first_fails(server, url, target, policy, capsys):
    record = download(RemoteFile((f"{server.url}/gone", url), sha256=SHA), target, policy)
    assert record["source"] == url
    assert "HTTP 404" in capsys.readouterr().err


def test_the_message_names_every_address(server, target, policy):
    remote_file = RemoteFile((f"{server.url}/a?sig=SECRET", f"http://me:SECRET@127.0.0.1:{server.server_port}/b"))
    with pytest.raises(UserError) as error:
        download(remote_file, target, policy)
    assert "/a: no such file" in str(error.value)
    assert "/b: no such file" in str(error.value)
    assert "SECRET" not in str(error.value)


@pytest.mark.fault("the disk is too small for a download", "said before")
def test_a_disk_that_is_too_small_is_seen_before(server, url, target, policy, monkeypatch):
    monkeypatch.setattr(store.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    refused(target, r"needs 300,000 bytes more.*has 1,000 free", RemoteFile((url,)), policy)


@pytest.mark.fault("the disk fills up during a download", "named; nothing has the file's name")
def test_a_disk_that_fills_up(server, url, tmp_path, policy):
    """A real file system of 128 KiB, where mounting is allowed; else the error that it gives."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        server.faults["/data.bin"] = [chunked(CONTENT)]  # no length, so that only the writing can notice
        refused(disk / "data.bin", r"the disk of .* is full; \d", RemoteFile((url,)), policy)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_folder_that_cannot_be_written_is_not_called_full(server, url, target, policy):
    (target.parent / "data.bin.part").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        download(RemoteFile((url,)), target, policy)


@pytest.mark.fault("two processes fetch one file", "it is fetched once")
def test_two_processes_fetch_a_file_once(server, url, target, policy):
    records = []
    threads = [
        threading.Thread(target=lambda: records.append(download(RemoteFile((url,)), target, policy))) for _ in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert records[0] == records[1]
    assert len(server.seen) == 1


@pytest.mark.fault("a download is killed", "continued where it ended")
def test_a_killed_download_is_continued(server, url, target, policy, killed):
    """kill -9 while bytes come in."""
    server.faults["/data.bin"] = [silent(5.0)]
    code = (
        "import pathlib; from scaleproof.measure.corpus.transfer import *; "
        f"download(RemoteFile(({url!r},)), pathlib.Path({str(target)!r}))"
    )
    killed(code, target)
    download(RemoteFile((url,)), target, policy)
    assert target.read_bytes() == CONTENT
    assert server.asked("/data.bin")[-1] == "bytes=10-"


def test_no_password_is_sent(server, url, target, policy, monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password FROM-NETRC\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    download(RemoteFile((url,)), target, policy)
    assert [headers for _, headers in server.seen if "Authorization" in headers] == []


def test_the_log_has_a_line_each_tenth(server, url, target, policy, capsys):
    server.faults["/data.bin"] = [cut(150_000)]
    download(RemoteFile((url,)), target, policy)
    lines = [line for line in capsys.readouterr().err.splitlines() if "of 300,000 bytes" in line]
    assert 2 <= len(lines) <= 11
    assert lines[-1] == "data.bin: 300,000 of 300,000 bytes"


def test_patience_has_an_end_by_default():
    assert RetryPolicy().tries * RetryPolicy().longest_wait < 3600
