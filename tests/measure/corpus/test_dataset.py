"""A data set of the hub through `datasets`, from a stand-in of the hub: streamed, recorded, checked, named."""

import io
import json
import os
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from webserver import Server, status

from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.corpora import Corpus
from scaleproof.ground.campaign.hub_names import lines_of_hub_name

COMMIT = "c" * 40
ROWS = 30
ROW = """
news:
  source: dataset
  load: [owner/news, default, train]
  revision: main
  label: label
  budget: 12 documents
"""
FILE = "data/train-00000-of-00001.parquet"


@pytest.fixture
def hub(server) -> Server:
    """A stand-in of the hub with one data set: what `datasets` asks of it, and nothing else."""
    table = pa.table({"text": [f"text of row {n}" for n in range(ROWS)], "label": [n % 2 for n in range(ROWS)]})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    info = {"id": "owner/news", "sha": COMMIT, "siblings": [{"rfilename": FILE}], "private": False, "gated": False}
    for revision in ("main", COMMIT):
        server.files[f"/api/datasets/owner/news/revision/{revision}"] = json.dumps(info).encode()
    file = {"type": "file", "path": FILE, "size": len(buffer.getvalue()), "oid": "a" * 40}
    folder = {"type": "directory", "path": "data", "size": 0, "oid": "b" * 40}
    server.files[f"/api/datasets/owner/news/tree/{COMMIT}"] = json.dumps([folder, file]).encode()
    server.files[f"/api/datasets/owner/news/tree/{COMMIT}/data"] = json.dumps([file]).encode()
    server.files[f"/datasets/owner/news/resolve/{COMMIT}/{FILE}"] = buffer.getvalue()
    for name in ("README.md", "news.py", ".huggingface.yaml", "dataset_infos.json"):
        absent = status(404, X_Error_Code="EntryNotFound")
        server.faults[f"/datasets/owner/news/resolve/{COMMIT}/{name}"] = [absent] * 9
    return server


@pytest.fixture
def scaleproof(hub, tmp_path):
    """Run a command in a folder with one row in config/corpora.yaml; returns its exit code and what it printed."""

    def run(*words: str, row: str = ROW) -> tuple[int, str]:
        (tmp_path / "config").mkdir(exist_ok=True)
        (tmp_path / "config/corpora.yaml").write_text(row)
        environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "hf")}
        command = [sys.executable, "-m", "scaleproof", *words]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    return run


def test_rows_are_streamed_up_to_the_budget_and_the_commit_is_recorded(scaleproof, tmp_path):
    code, text = scaleproof("stage", "corpus_fetch", "news", "--out", "made")
    assert code == 0, text
    table = pq.read_table(tmp_path / "made/documents.parquet")
    assert table["text"].to_pylist() == [f"text of row {n}" for n in range(12)]
    assert table["label"].to_pylist() == [str(n % 2) for n in range(12)]
    description = json.loads((tmp_path / "made/corpus.json").read_text())
    assert description["files"] == [{"dataset": ["owner/news", "default", "train"], "commit": COMMIT}]
    assert description["classes"] == ["0", "1"]


def test_check_asks_the_hub(scaleproof, hub):
    code, text = scaleproof("corpus", "check", "news")
    assert code == 0
    assert text == (
        f"news: valid; owner/news at {COMMIT[:12]}: the first 20 rows have text; main is now {COMMIT}: "
        "write it as `revision`\n"
    )
    asked = {path for path, _ in hub.seen}
    assert all("owner/news" in path for path in asked), "nothing else is asked or sent"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("owner/news", "owner/nothing", "no such data set or revision (HTTP 404)"),
        ("train]", "test]", "Bad split: test"),
        ("label: label", "label: class", 'row 1 has no field "class" (key: label)'),
    ],
)
def test_what_the_hub_does_not_have_is_one_message(scaleproof, old, new, message):
    code, text = scaleproof("corpus", "check", "news", row=ROW.replace(old, new))
    assert code == 2
    assert message in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"load": ["owner/news", "default"]}, "`load` has three entries"),
        ({"files": ["a.parquet"]}, "has no use for `files`"),
        ({"urls": ["http://a.b"]}, "has no use for `urls`"),
        ({"revision": None}, "needs `revision`"),
    ],
)
def test_a_row_that_cannot_be(keys, message):
    row = {"source": "dataset", "load": ["owner/news", "default", "train"], "revision": "main"} | keys
    with pytest.raises(ValueError, match=message):
        Corpus.model_validate(row)


def test_a_name_of_the_hub_is_answered_with_the_lines_to_write():
    with pytest.raises(ValueError, match="looks like a data set of the Hugging Face hub") as error:
        Campaign.model_validate({"title": "x", "workload": {"corpus": "Salesforce/wikitext"}})
    assert "  wikitext:\n    source: dataset\n    load: [Salesforce/wikitext, default, train]" in str(error.value)
    assert "of a document; for classification also label: FIELD" in str(error.value)
    with pytest.raises(ValueError, match="and in the campaign corpus: wikitext"):
        Campaign.model_validate({"title": "x", "vary": {"corpus": ["Salesforce/wikitext"]}})


@pytest.mark.parametrize(
    ("name", "is_of_hub"),
    [
        ("https://huggingface.co/datasets/Salesforce/wikitext", True),
        ("https://huggingface.co/datasets/Salesforce/wikitext/", True),
        ("https://data.example.org/a.jsonl", False),
    ],
)
def test_the_address_of_a_data_set_is_its_name(name, is_of_hub):
    assert ("load: [Salesforce/wikitext, default, train]" in (lines_of_hub_name(name) or "")) == is_of_hub


def test_files_of_the_hub_are_asked_for_without_their_content(scaleproof):
    keys = {"source": "hub", "repository": "owner/news", "revision": COMMIT, "format": "parquet", "files": [FILE]}
    row = json.dumps({"news": keys})  # JSON is YAML
    code, text = scaleproof("corpus", "check", "news", row=row)
    assert (code, text) == (0, f"news: valid; the hub has 1 file of owner/news at {COMMIT}\n")
    code, text = scaleproof("corpus", "check", "news", row=row.replace("train", "test"))
    assert code == 2
    assert "no such file there" in text
