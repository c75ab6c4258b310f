"""Each downloaded corpus of the table, for real, from a stand-in of the hub and of a web server."""

import gzip
import hashlib
import io
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from webserver import on_hub, status

from scaleproof.ground.campaign.corpora import Corpus, Known, folder_of
from scaleproof.ground.campaign.yaml_loader import load_corpora
from scaleproof.ground.errors import UserError
from scaleproof.measure.corpus import documents, encode
from scaleproof.measure.corpus.check import ask_hub
from scaleproof.measure.corpus.remote import Remote

TABLE = "config/corpora.yaml"


@pytest.fixture
def table(repository) -> dict[str, Corpus]:
    return load_corpora(repository / TABLE)[0]


@pytest.fixture
def remote(server, tmp_path, policy) -> Remote:
    return Remote(tmp_path / "downloads", server.url, "hf_token", policy)


def file_of(corpus: Corpus, name: str, texts: list[str]) -> bytes:
    """A file of the form that the corpus has, with rows as they are there: other fields beside the text."""
    rows = [{"id": i, "metadata": {"lang": None if i % 2 else ["en"]}, corpus.field: t} for i, t in enumerate(texts)]
    rows = [row | ({corpus.label: i % 4} if corpus.label else {}) for i, row in enumerate(rows)]
    if corpus.format == "parquet":
        out = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), out, row_group_size=7)
        return out.getvalue()
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    if name.endswith(".zst"):
        out = pa.BufferOutputStream()
        with pa.CompressedOutputStream(out, "zstd") as packed:
            packed.write(content)
        return out.getvalue().to_pybytes()
    return gzip.compress(content) if name.endswith(".gz") else content


def offer(server, corpus: Corpus, sentences: list[str], per_file: int = 20) -> Corpus:
    """Put the corpus' files on the server, as the hub or as a web folder. Returns the row for them."""
    for i, name in enumerate(corpus.remote_files):
        content = file_of(corpus, name, sentences[i * per_file : (i + 1) * per_file])
        if corpus.source == "hub":
            on_hub(server, corpus.repository, corpus.revision, name, content)
        else:
            server.files[f"/v1/{name}"] = content
    urls = [f"{server.url}/v1"] if corpus.source == "http" else []
    return corpus.model_copy(update={"known": {}, "urls": urls})


REMOTE = ["webtext", "webtext-50k", "oscar-2301", "openwebtext", "fineweb-edu", "wikitext-103", "ag_news"]


def test_the_table_has_all_of_them(table):
    assert [name for name, corpus in table.items() if corpus.remote] == REMOTE
    assert table["oscar-2301"].gated
    assert len(table["openwebtext"].remote_files) == 80
    assert table["fineweb-edu"].remote_files[-1] == "sample/10BT/013_00000.parquet"
    assert [n for n, c in table.items() if not c.pinned] == ["oscar-2301"], "every other revision is a commit"


@pytest.mark.parametrize("name", REMOTE)
def test_a_corpus_of_the_table(server, remote, table, tmp_path, sentences, name):
    corpus = offer(server, table[name], sentences, per_file=3)
    found = documents.gather_documents(name, corpus, tmp_path / "out", remote)
    expected = sentences[: 3 * len(corpus.remote_files)]
    assert list(encode.read_documents(tmp_path / "out/documents.parquet")) == expected
    assert (found["documents"], found["revision"], found["budget"]) == (len(expected), corpus.revision, corpus.budget)
    assert [f["file"] for f in found["files"]] == corpus.remote_files
    assert {f["checked"] for f in found["files"]} == {"hub" if corpus.source == "hub" else "first use"}
    tokens = [headers.get("Authorization") for path, headers in server.seen if path.startswith("/datasets")]
    assert set(tokens) <= {"Bearer hf_token"} if corpus.gated else not any(tokens)
    written = "".join(p.read_text() for p in tmp_path.rglob("*.json"))
    assert "hf_token" not in written
    assert "s3cret" not in written


def test_files_are_downloaded_once_for_all_corpora(server, remote, table, tmp_path, sentences):
    for name in ("webtext", "webtext-50k", "webtext"):
        documents.gather_documents(name, offer(server, table[name], sentences), tmp_path / name, remote)
    assert len(server.seen) == 1


def test_a_file_that_was_put_there_by_hand_is_not_asked_for(server, remote, table):
    corpus = table["wikitext-103"]
    first, second = corpus.remote_files
    content = b"parquet"
    known = Known(size=len(content), sha256=hashlib.sha256(content).hexdigest())
    corpus = corpus.model_copy(update={"known": {first: known}})
    with pytest.raises(UserError, match="no such file there"):
        ask_hub("wikitext-103", corpus, remote)
    for name in (first, second):
        (place := remote.place_of(corpus, name)).parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    server.seen.clear()
    assert ask_hub("wikitext-103", corpus, remote).startswith(f"{remote.folder} has 2 files of {corpus.repository}")
    assert not server.seen
    remote.place_of(corpus, first).write_bytes(b"PARQUET")  # of its size, and another
    assert remote.missing_files(corpus) == [first]


@pytest.mark.parametrize(
    ("budget", "documents_", "files"),
    [("20 documents", 20, 1), ("21 documents", 21, 2), ("1,000 documents", 160, 8), ("20 kB", None, None)],
)
def test_a_budget_takes_whole_documents_and_no_more_files_than_it_needs(
    server, remote, table, tmp_path, sentences, budget, documents_, files
):
    corpus = table["openwebtext"].model_copy(
        update={"budget": budget, "files": ["plain_text/train-{00000..00007}-of-00080.parquet"]}
    )
    found = documents.gather_documents("owt", offer(server, corpus, sentences), tmp_path / "a", remote)
    again = documents.gather_documents("owt", corpus, tmp_path / "b", remote)
    assert found == again
    if documents_:
        assert (found["documents"], len(found["files"])) == (documents_, files)
    else:
        left = sentences[found["documents"]]
        assert found["bytes"] <= 20_000 < found["bytes"] + len(left)


def test_a_budget_that_no_document_fits(server, remote, table, tmp_path):
    corpus = offer(server, table["webtext"].model_copy(update={"budget": "1 kB"}), ["x" * 2000])
    with pytest.raises(UserError, match="holds no text within its budget of 1 kB"):
        documents.gather_documents("webtext", corpus, tmp_path / "out", remote)


def test_a_budget_holds_for_local_files_too(tmp_path):
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    corpus = Corpus(source="text", files=[str(tmp_path / "a.txt")], document="line", budget="2 documents")
    assert documents.gather_documents("a", corpus, tmp_path / "out")["documents"] == 2


def test_a_checksum_of_the_table_is_held_against_the_file(server, remote, table, tmp_path, sentences):
    name = "wikitext-103-raw-v1/train-00000-of-00002.parquet"
    corpus = offer(server, table["wikitext-103"], sentences)
    wrong = corpus.model_copy(update={"known": {name: Known(sha256="0" * 64)}})
    with pytest.raises(UserError, match=r"the hub has sha256 \w{12}..., expected 000000000000"):
        documents.gather_documents("w", wrong, tmp_path / "out", remote)
    assert not (tmp_path / "out/corpus.json").exists()
    content = next(iter(server.files.values()))
    right = corpus.model_copy(
        update={"known": {name: Known(sha256=hashlib.sha256(content).hexdigest(), size=len(content))}}
    )
    assert documents.gather_documents("w", right, tmp_path / "out", remote)["files"][0]["checked"] == "table"


def test_a_gated_corpus_without_a_token(server, remote, table, tmp_path, sentences):
    corpus = offer(server, table["oscar-2301"], sentences)
    path = f"/datasets/{corpus.repository}/resolve/main/{corpus.remote_files[0]}"
    server.redirects.pop(path)
    server.faults[path] = [status(401)]
    with pytest.raises(UserError, match=r"accept the terms at .*/datasets/oscar-corpus/OSCAR-2301.*export HF_TOKEN"):
        documents.gather_documents(
            "oscar-2301", corpus, tmp_path / "out", Remote(remote.folder, server.url, None, remote.policy)
        )


@pytest.mark.fault("a proxy answers with a page of its own", "refused")
def test_a_page_of_the_proxy_is_not_taken_for_a_corpus(server, remote, table, tmp_path, sentences):
    corpus = offer(server, table["webtext"], sentences)
    server.faults["/v1/webtext.train.jsonl"] = [status(200, b"<html>Sign in to the WiFi</html>")]
    with pytest.raises(UserError, match="a web page instead of data"):
        documents.gather_documents("webtext", corpus, tmp_path / "out", remote)


def test_a_download_that_is_not_what_the_table_says(server, remote, table, tmp_path):
    corpus = table["ag_news"].model_copy(update={"known": {}})
    on_hub(server, corpus.repository, corpus.revision, corpus.files[0], b"not parquet")
    message = r'corpus "ag_news": data/train-00000-of-00001.parquet cannot be read as parquet'
    with pytest.raises(UserError, match=message):
        documents.gather_documents("ag_news", corpus, tmp_path / "out", remote)


def test_the_environment(tmp_path):
    assert Remote.from_environment({}, tmp_path).endpoint == "https://huggingface.co"
    here = Remote.from_environment({"HF_ENDPOINT": "http://mirror/", "HF_TOKEN": "hf_secret"}, tmp_path)
    assert (here.endpoint, here.token) == ("http://mirror/", "hf_secret")
    assert "hf_secret" not in repr(here)
    with pytest.raises(UserError, match='HF_ENDPOINT cannot be "mirror"; allowed: an address'):
        Remote.from_environment({"HF_ENDPOINT": "mirror"}, tmp_path)
    for token in ("hf \N{LATIN SMALL LETTER U WITH DIAERESIS}", "Bearer hf_secret"):
        with pytest.raises(UserError, match="HF_TOKEN is no token; allowed: letters, digits"):
            Remote.from_environment({"HF_TOKEN": token}, tmp_path)
    assert Remote.from_environment({"HF_TOKEN": "hf_secret\r\n"}, tmp_path).token == "hf_secret"


def test_another_revision_or_budget_is_another_folder(table):
    folders = {name: folder_of(name, corpus) for name, corpus in table.items()}
    assert folders["python-docs"] == "python-docs"
    assert folders["webtext-50k"] == "webtext-50k@v1-50000documents"
    assert folders["openwebtext"] == "openwebtext@b4325f019c64-1GB"
    assert len(set(folders.values())) == len(folders)


HUB = {"source": "hub", "repository": "a/b", "revision": "c" * 40, "files": ["x"], "format": "jsonl"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"source": "hub"}, "`revision`, `files`, `format` (one of text, jsonl, parquet, csv)"),
        ({"source": "http", "files": ["x"]}, "needs `urls`, `revision`, `format`"),
        ({"source": "text", "files": ["x"], "revision": "v1"}, "source text has no use for `revision`"),
        (HUB | {"urls": ["http://x"]}, "source hub has no use for `urls`, which is for http"),
        (HUB | {"files": ["../../etc/passwd"]}, "must be a name below"),
        (HUB | {"known": {"y": {"size": 3}}}, '"y" is none of `files`'),
        (HUB | {"budget": "many"}, "budget"),
        (HUB | {"known": {"x": {"sha256": "abc"}}}, "sha256"),
        (
            {"source": "http", "urls": ["http://x"], "revision": "1", "files": ["x"], "format": "text", "gated": True},
            "gated",
        ),
    ],
)
def test_rows_that_make_no_sense(keys, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Corpus.model_validate(keys)
