"""Files of one's own: what cannot be a corpus is named by `campaign validate`, before anything runs."""

import gzip
import subprocess
import sys

import pytest

from scalebench.campaign.corpora import Corpus, check_local
from scalebench.errors import UserError


@pytest.mark.parametrize(
    ("source", "content", "message"),
    [
        ("text", b"", "is empty .0 bytes."),
        ("jsonl", b"", "is empty .0 bytes."),
        ("parquet", b"", "is empty .0 bytes."),
        ("text", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is no text file in UTF-8: it holds zero bytes"),
        ("text", "two bytes a letter".encode("utf-16"), "is no text file in UTF-8"),
        ("jsonl", b"text,label\n1,2\n", "cannot be read as jsonl"),
        ("jsonl", b'["a", "list"]\n["x"]\n', "a line must be an object"),
        ("jsonl", b'{"body": "x"}\n{"body": "y"}\n', 'has no field "text" .key: field.. Fields there: body'),
        ("parquet", b"text\nno parquet\n", "cannot be read as parquet"),
    ],
)
def test_files_that_cannot_be_a_corpus(tmp_path, source, content, message):
    (tmp_path / "mine").write_bytes(content)
    with pytest.raises(UserError, match=f"config/corpora.yaml: mine.files: .*{message}"):
        check_local("mine", Corpus(source=source, files=[str(tmp_path / "mine")]))


@pytest.mark.parametrize(
    ("source", "content"),
    [
        ("text", b"good"),
        ("text", b"\xff\xfe is replaced later"),
        ("text", gzip.compress(b"packed")),
        ("jsonl", b'\n\n{"text": "x"}\n'),
        ("jsonl", b'{"text": "a line longer than what is looked at' + b"x" * 70_000),
        ("parquet", b"PAR1..."),
    ],
)
def test_files_that_may_be_one(tmp_path, source, content):
    (tmp_path / "mine").write_bytes(content)
    (tmp_path / "empty").write_bytes(b"" if source == "text" else content)
    check_local("mine", Corpus(source=source, files=[str(tmp_path / "*")]))


def test_validate_says_it(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/corpora.yaml").write_text("mine: {source: text, files: [notes.txt]}\n")
    (tmp_path / "notes.txt").touch()
    (tmp_path / "mine.yaml").write_text("title: x\nworkload: {corpus: mine}\n")
    command = [sys.executable, "-m", "scalebench", "campaign", "validate", "mine.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "scalebench: config/corpora.yaml: mine.files: notes.txt is empty (0 bytes)\n"
