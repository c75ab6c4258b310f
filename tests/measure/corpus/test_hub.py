"""A file of the hub, from a stand-in of it: pinned, resumed, checked, gated, mirrored, offline."""

import hashlib
import json
import random
import subprocess
from contextlib import nullcontext

import huggingface_hub
import pytest
from huggingface_hub.utils import _http
from webserver import chunked, cut, on_hub, silent, status

from scaleproof.ground.errors import UserError
from scaleproof.measure.corpus import hub, store
from scaleproof.measure.corpus.hub import HubFile, download_from_hub, hub_api
from scaleproof.measure.corpus.transfer import RemoteFile, RetryPolicy, download, lost_connection

CONTENT = random.Random(3).randbytes(300_000)
SHA = hashlib.sha256(CONTENT).hexdigest()
STORE = f"/store/{SHA}"
COMMIT = "c" * 40
PATH = f"/datasets/some/thing/resolve/{COMMIT}/data.bin"


@pytest.fixture(autouse=True)
def library(tmp_path, monkeypatch):
    """The library as on a machine that has never used it, without its pauses."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 10_000)
    monkeypatch.setattr(_http.time, "sleep", lambda _: None)


@pytest.fixture
def target(tmp_path):
    return tmp_path / "store" / "data.bin"


@pytest.fixture
def file(server):
    on_hub(server, "some/thing", COMMIT, "data.bin", CONTENT)
    return HubFile("some/thing", COMMIT, "data.bin", server.url)


def changed(file, **fields):
    return HubFile(**(vars(file) | fields))


def refused(target, message, file):
    with pytest.raises(UserError, match=message) as error:
        download_from_hub(file, target)
    assert not target.exists(), "no half file under the name of a whole one"
    assert "s3cret" not in str(error.value)
    return str(error.value)


def test_a_file_is_whole_checked_and_described(server, file, target):
    record = download_from_hub(file, target)
    assert target.read_bytes() == CONTENT
    assert record == {
        "size": len(CONTENT),
        "sha256": SHA,
        "checked": "hub",
        "source": server.url + PATH,
        "commit": COMMIT,
    }
    assert json.loads((target.parent / "data.bin.json").read_text()) == record
    assert sorted(p.name for p in target.parent.iterdir()) == [".data.bin.lock", "data.bin", "data.bin.json"]
    assert [path for path, _ in server.seen] == [PATH, STORE], "nothing else is asked or sent"
    callers = {headers["User-Agent"] for _, headers in server.seen}
    assert all(caller.startswith("scaleproof/") and "torch" not in caller for caller in callers)
    server.seen.clear()
    assert download_from_hub(file, target) == record
    assert server.seen == [], "an intact file is not asked for again"


def test_a_cut_transfer_goes_on_where_it_ended(server, file, target, caplog, capfd):
    server.faults[STORE] = [cut(100_000)]
    download_from_hub(file, target)
    assert target.read_bytes() == CONTENT
    assert server.asked(STORE).pop(0) is None
    assert server.asked(STORE)[-1] == "bytes=100000-"
    log = caplog.text + "".join(capfd.readouterr())
    assert "Trying to resume" in log
    assert "s3cret" not in log, "the library writes whole addresses"


def test_the_next_process_goes_on_where_this_one_was_ended(server, file, target):
    server.faults[STORE] = [cut(50_000), status(500)]
    refused(target, "HTTP 500", file)
    server.seen.clear()
    download_from_hub(file, target)
    assert server.asked(STORE) == ["bytes=50000-"]
    assert target.read_bytes() == CONTENT


def test_a_killed_download_is_continued(server, file, target, killed):
    server.faults[STORE] = [silent(5.0)]
    code = (
        "import pathlib, huggingface_hub; from scaleproof.measure.corpus.hub import *; "
        "huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE = 10; "
        f"file = HubFile('some/thing', {COMMIT!r}, 'data.bin', {server.url!r}); "
        f"download_from_hub(file, pathlib.Path({str(target)!r}))"
    )
    killed(code, target)
    download_from_hub(file, target)
    assert target.read_bytes() == CONTENT
    assert server.asked(STORE)[-1] == "bytes=10-"


def test_a_file_that_changed_meanwhile_is_not_glued_to_the_old_part(server, file, target):
    """A branch, not a commit: the hub's statement names another file the next time."""
    branch = changed(file, revision="main")
    on_hub(server, "some/thing", "main", "data.bin", CONTENT)
    server.faults[STORE] = [cut(50_000), status(500)]
    refused(target, "HTTP 500", branch)
    on_hub(server, "some/thing", "main", "data.bin", CONTENT[::-1])
    download_from_hub(branch, target)
    assert target.read_bytes() == CONTENT[::-1]


def test_a_store_that_cannot_resume(server, file, target):
    server.ranges = False
    server.faults[STORE] = [cut(100_000)]
    download_from_hub(file, target)
    assert target.read_bytes() == CONTENT


def test_one_bit_lost_on_the_way(server, file, target, capsys):
    server.faults[STORE] = [status(200, b"\x00" + CONTENT[1:])]
    download_from_hub(file, target)
    assert target.read_bytes() == CONTENT
    assert "once more from the start" in capsys.readouterr().err


def test_the_bytes_are_not_what_the_hub_states(server, file, target):
    on_hub(server, "some/thing", COMMIT, "data.bin", CONTENT, X_Linked_Etag=f'"{"1" * 64}"')
    refused(target, f"the file there has sha256 {SHA}, expected {'1' * 64}", file)
    assert len(server.asked(STORE)) == 2, "once more from the start, then no more"


def test_the_hub_states_another_file_than_the_table(server, file, target):
    refused(target, r"the hub has sha256 \w{12}..., expected 000000000000", changed(file, sha256="0" * 64))
    refused(target, "300,000 bytes are offered, 299,999 were expected", changed(file, size=299_999))
    assert server.asked(STORE) == [], "not even begun"


def test_a_page_in_place_of_the_bytes(server, file, target):
    page = b"<!DOCTYPE html><html><body>Please log in</body></html>"
    server.faults[STORE] = [status(200, page, Content_Type="text/html")] * 2
    refused(target, "54 bytes came, 300,000 were stated", file)


def test_a_small_file_of_the_repository_itself(server, target):
    """The hub sends these itself, and states no sha256: the first download decides."""
    server.files[PATH] = CONTENT
    file = HubFile("some/thing", COMMIT, "data.bin", server.url)
    assert download_from_hub(file, target)["checked"] == "first use"
    target.unlink()
    server.files[PATH] = CONTENT[::-1]
    refused(target, "as at first; delete data.bin.json to take the new one", file)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (status(404, X_Error_Code="EntryNotFound"), "no such file there .HTTP 404"),
        (status(404, X_Error_Code="RevisionNotFound"), f"has no revision {COMMIT}"),
        (status(403), "access denied .HTTP 403.; is it gated"),
        (status(418), "HTTP 418"),
    ],
)
def test_answers_that_are_no_file(server, target, answer, message):
    server.faults[PATH] = [answer] * 9
    refused(target, message, HubFile("some/thing", COMMIT, "data.bin", server.url))
    assert len(server.seen) == 1, "waiting would not help"


def test_a_hub_that_is_busy_is_asked_again(server, target):
    server.files[PATH] = CONTENT
    server.faults[PATH] = [status(503), status(429, Retry_After="7"), status(500)]
    download_from_hub(HubFile("some/thing", COMMIT, "data.bin", server.url), target)
    assert target.read_bytes() == CONTENT


def test_nobody_listens(server, file, target):
    text = refused(target, "the connection failed", changed(file, endpoint="http://127.0.0.1:9"))
    assert f"Without a network, put the file at {target}" in text
    assert "HTTPS_PROXY names a proxy" in text


@pytest.mark.parametrize(
    ("proxy", "is_address"),
    [
        ("http://proxy:abc", False),
        ("::::", False),
        ("ftp://localhost:1", False),
        ("proxy:3128", True),
        ("http://user:word@[::1]:8080/", True),
    ],
)
def test_the_hub_is_asked_by_a_proxy_that_is_an_address(monkeypatch, proxy, is_address):
    monkeypatch.setenv("https_proxy", proxy)
    with nullcontext() if is_address else pytest.raises(UserError, match=r"https_proxy is .*allowed in https_proxy"):
        hub_api("https://example.invalid", None)


def test_a_socks_proxy_needs_its_library(monkeypatch):
    monkeypatch.setenv("all_proxy", "socks5://localhost:1")
    monkeypatch.setattr(hub, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="all_proxy names a SOCKS proxy, which needs a library: pip install socksio"):
        hub_api("https://example.invalid", None)
    monkeypatch.setattr(hub, "find_spec", lambda name: name)
    hub_api("https://example.invalid", None)


def test_a_lost_connection_names_the_proxy_without_its_password(monkeypatch, tmp_path):
    for name in ("https_proxy", "HTTPS_PROXY", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    direct = "the connection failed (OSError)"
    assert lost_connection(OSError(), "https://hub.invalid") == direct
    monkeypatch.setenv("https_proxy", "user:word@foo:3128")
    monkeypatch.setenv("no_proxy", "mirror.invalid")
    by_proxy = "the connection by https_proxy (foo) failed (OSError)"
    urls = ("https://hub.invalid", "https://mirror.invalid", "http://hub.invalid")
    assert [lost_connection(OSError(), url) for url in urls] == [by_proxy, direct, direct]
    monkeypatch.setenv("https_proxy", ":::")
    assert "by https_proxy (which is no address) failed" in lost_connection(OSError(), urls[0])
    monkeypatch.setenv("https_proxy", "http://user:word@localhost:1")
    with pytest.raises(UserError, match=r"the connection by https_proxy \(localhost\) failed \(ProxyError\)"):
        download(RemoteFile(("https://hub.invalid/f",)), tmp_path / "f", RetryPolicy(tries=1))


def test_a_proxy_that_is_no_address(file, target, monkeypatch):
    monkeypatch.setenv("https_proxy", "nonsense://")
    refused(target, "nonsense.*allowed in https_proxy", changed(file, endpoint="https://example.invalid"))


@pytest.mark.parametrize(
    ("token", "advice"), [(None, "export HF_TOKEN"), ("hf_secret", "owner of the token")], ids=["without", "with"]
)
def test_a_gated_file(server, target, token, advice):
    server.faults[PATH] = [status(401, X_Error_Code="GatedRepo")]
    file = HubFile("some/thing", COMMIT, "data.bin", server.url, token=token, gated=True)
    text = refused(target, rf"HTTP 401.*{advice}", file)
    assert f"{server.url}/datasets/some/thing" in text
    assert "hf_secret" not in text + repr(file)


def test_a_token_goes_to_the_hub_and_to_no_other(server, file, target, monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine localhost login me password FROM-NETRC\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    download_from_hub(changed(file, token="hf_x", gated=True), target)
    sent = {path: headers.get("Authorization") for path, headers in server.seen}
    assert sent == {PATH: "Bearer hf_x", STORE: None}


def test_a_stored_token_is_not_sent_for_a_corpus_that_is_free(server, file, target, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_stored")
    download_from_hub(file, target)
    assert "hf_stored" not in str(server.seen)


def test_the_library_s_cache_is_taken_where_there_is_no_network(server, file, target, tmp_path, monkeypatch):
    """Another program has the file, on this cluster whose nodes reach nothing."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    refused(target, "HF_HUB_OFFLINE is set", file)
    repository = tmp_path / "cache/datasets--some--thing"
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "blobs" / SHA).write_bytes(CONTENT)
    (snapshot / "data.bin").symlink_to(repository / "blobs" / SHA)
    record = download_from_hub(file, target)
    assert (record["checked"], record["sha256"]) == ("hub", SHA)
    assert target.read_bytes() == CONTENT
    assert server.seen == []


def test_a_damaged_file_of_the_cache_is_not_taken(server, file, target, tmp_path):
    repository = tmp_path / "cache/datasets--some--thing"
    snapshot = repository / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (repository / "blobs").mkdir()
    (repository / "blobs" / SHA).write_bytes(CONTENT[:-1])
    (snapshot / "data.bin").symlink_to(repository / "blobs" / SHA)
    download_from_hub(file, target)
    assert target.read_bytes() == CONTENT
    assert server.asked(STORE) == [None]


def test_a_disk_that_is_too_small_is_seen_before(server, file, target, monkeypatch):
    monkeypatch.setattr(store.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    refused(target, r"needs 300,000 bytes more.*has 1,000 free", file)


def test_a_disk_that_fills_up(server, file, tmp_path):
    """A real file system of 128 KiB, where mounting is allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        del server.redirects[PATH][1]["X-Linked-Size"]  # no length, so that only the writing can notice
        server.faults[STORE] = [chunked(CONTENT)]
        refused(disk / "data.bin", r"the disk of .* is full; \d", file)
    finally:
        subprocess.run(["umount", disk], check=True)
