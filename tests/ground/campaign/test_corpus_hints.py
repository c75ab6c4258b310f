"""What is to be written where a file, a text or a placeholder stands in place of the name of a corpus."""

import pytest
from ground.campaign.test_value_hints import HEAD, refused


@pytest.mark.parametrize(
    ("corpus", "hint"),
    [
        ("mine.jsonl", ": mine: {source: jsonl, files: [mine.jsonl], field: text}; then corpus: mine."),
        ("data/My_Notes.csv", ": my_notes: {source: csv, files: [data/My_Notes.csv], field: text}; then"),
        ("./part.parquet", ": part: {source: parquet, files: [./part.parquet], field: text}; then corpus: part."),
        ("mine.jsonl.gz", ": mine: {source: jsonl, files: [mine.jsonl.gz], field: text}; then corpus: mine."),
        ("mine.txt", ": mine: {source: text, files: [mine.txt], document: paragraph}; then corpus: mine."),
        (
            "https://x.org/a.csv",
            "{source: http, urls: [https://x.org], revision: v1, format: csv, files: [a.csv], field",
        ),
        ("<your corpus>", "It stands for a value of yours."),
        (
            "the quick brown fox jumps",
            "Text of your own goes into a file, and the file into a row of config/corpora.yaml",
        ),
    ],
)
def test_what_is_of_ones_own_has_a_row(tmp_path, repository, corpus: str, hint: str) -> None:
    assert hint in refused(tmp_path, repository, f"{HEAD}workload: {{corpus: '{corpus}'}}\n")


@pytest.mark.parametrize("corpus", ["python-dox", "my notes"])
def test_a_name_is_no_file(tmp_path, repository, corpus: str) -> None:
    message = refused(tmp_path, repository, f"{HEAD}workload: {{corpus: '{corpus}'}}\n")
    assert not [words for words in ("of your own", "stands for") if words in message]
