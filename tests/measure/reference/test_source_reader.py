"""The source of a corpus, read again: whatever its form, nothing differs from what was gathered; of another it does."""

import ast
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scaleproof.ground.campaign.corpora import Corpus
from scaleproof.measure.corpus import documents
from scaleproof.measure.reference import source_reader
from scaleproof.measure.reference.source_reader import read_source

TEXT = "One, two.\n\nThree\nand four.\r\n \nFive \ufffd six.\n\n\nSeven"
ROWS = [{"text": f"Row {number}, {'x' * number}", "title": "A" if number % 3 else "", "kind": number % 2}
        for number in range(20)]  # fmt: skip


def written(folder: Path) -> dict[str, dict[str, Any]]:
    """Rows of the table of corpora, by name, whose files are in `folder`."""
    (folder / "a.txt").write_bytes(TEXT.encode() + b"\xff\n")
    (folder / "b.txt").write_text("Another file\nwith lines\n")
    with gzip.open(folder / "rows.jsonl.gz", "wt") as file:
        file.write(
            "\n".join(json.dumps(row) for row in [*ROWS, {"text": "\ud800 half", "title": "", "kind": 0}, ROWS[0]])
        )
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "rows.parquet")
    (folder / "rows.csv").write_text("\ufefftext,kind\n" + "".join(f'"a ""{n}"",\nb",{n % 2}\n\n' for n in range(9)))
    (folder / "bare.csv").write_text("1,one\n2,two\n")
    names, texts = [str(folder / "a.txt"), str(folder / "b.txt")], str(folder / "*.txt")
    labelled = {"field": ["title", "text"], "label": "kind"}
    return {
        **{form: {"source": "text", "files": names, "document": form} for form in ("file", "line", "paragraph")},
        "pattern": {"source": "text", "files": [texts], "document": "line"},
        "jsonl": {"source": "jsonl", "files": [str(folder / "rows.jsonl.gz")]},
        "parquet": {"source": "parquet", "files": [str(folder / "rows.parquet")], **labelled},
        "csv": {"source": "csv", "files": [str(folder / "rows.csv")], "label": "kind"},
        "bare": {"source": "csv", "files": [str(folder / "bare.csv")], "columns": ["n", "text"]},
        "documents": {"source": "text", "files": names, "document": "line", "budget": "3 documents"},
        "bytes": {"source": "jsonl", "files": [str(folder / "rows.jsonl.gz")], "budget": "1 kB"},
    }


def reading(folder: Path, row: dict[str, Any], later: dict[str, Any] | None = None) -> tuple[int, str, list[str]]:
    """Gather a corpus, and read its source again, as `later` or the same row names it."""
    described = documents.gather_documents("some", Corpus(**row), folder / "corpus")
    return read_source(described, folder / "corpus/documents.parquet", Corpus(**(later or row)), folder)


def test_documents_are_those_of_their_source(tmp_path: Path) -> None:
    for name, row in written(tmp_path).items():
        compared, unread, differences = reading(tmp_path, row)
        assert (unread, differences) == ("", []), name
        assert compared == json.loads((tmp_path / "corpus/corpus.json").read_text())["documents"] > 1


def test_those_of_the_interpreter_are_too(tmp_path: Path) -> None:
    row = {"source": "python-docs", "budget": "900 kB"}
    compared, unread, differences = reading(tmp_path, row)
    assert (unread, differences) == ("", [])
    assert compared > 100  # topics, and docstrings


def test_those_of_another_build_of_the_interpreter_are_not_accused(tmp_path: Path) -> None:
    """Two builds of one version differ in a few docstrings."""
    row = {"source": "python-docs", "budget": "20 kB"}
    described = documents.gather_documents("some", Corpus(**row), tmp_path)
    store = tmp_path / "documents.parquet"
    changed = pq.read_table(store).to_pylist()
    changed[1]["text"] = "Of this interpreter alone."
    pq.write_table(pa.Table.from_pylist(changed), store)
    (difference,) = read_source(described, store, Corpus(**row), tmp_path)[2]
    assert difference.startswith("document 1 is not the one in its source")
    for library in ({"library": "0" * 64}, {"library": None}):
        reason = f"it was gathered from another library, of {described['revision']}"
        assert read_source(described | library, store, Corpus(**row), tmp_path) == (0, reason, [])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"document": "paragraph"}, "is not the one in its source, which begins 'One, two."),
        ({"budget": "2 documents"}, "the source gives 2 documents, and more were gathered"),
        ({"files": ["b.txt", "a.txt"]}, "which begins 'Another file'"),
    ],
)
def test_documents_of_another_source_are_named(tmp_path: Path, change: dict[str, Any], named: str) -> None:
    row = written(tmp_path)["line"]
    if "files" in change:
        change = {"files": [str(tmp_path / name) for name in change["files"]]}
    (difference,) = reading(tmp_path, row, row | change)[2]
    assert named in difference


def test_a_file_that_was_not_gathered_is_named(tmp_path: Path) -> None:
    row = written(tmp_path)["line"]
    assert reading(tmp_path, row | {"files": row["files"][:1]}, row)[2] == [
        "5 documents were gathered, and their source has more"
    ]


def test_rows_by_another_field_are_named(tmp_path: Path) -> None:
    row = written(tmp_path)["parquet"]
    assert reading(tmp_path, row, row | {"field": "text"})[2]
    text = row | {"field": "text"}
    assert reading(tmp_path, text, text | {"label": "title"})[2]


def test_what_changed_since_is_said_and_not_accused(tmp_path: Path) -> None:
    row = written(tmp_path)["pattern"]
    described = documents.gather_documents("some", Corpus(**row), tmp_path / "corpus")
    store = tmp_path / "corpus/documents.parquet"
    (tmp_path / "c.txt").write_text("Later")
    assert read_source(described, store, Corpus(**row), tmp_path)[1:] == (
        f"{tmp_path}/c.txt was not there when it was gathered",
        [],
    )
    (tmp_path / "b.txt").write_text("Edited")
    assert read_source(described, store, Corpus(**row), tmp_path) == (5, f"{tmp_path}/b.txt has changed since", [])
    (tmp_path / "a.txt").unlink()
    row["files"] = [str(tmp_path / "a.txt")]
    assert "matches no file" in read_source(described, store, Corpus(**row), tmp_path)[1]
    assert read_source({**described, "files": []}, store, Corpus(**row), tmp_path)[2] == []


def test_a_download_is_read_where_it_is_kept_and_a_recorded_hash_is_that_of_the_table(tmp_path: Path) -> None:
    files = written(tmp_path)
    described = documents.gather_documents("some", Corpus(**files["jsonl"]), tmp_path / "corpus")
    store = tmp_path / "corpus/documents.parquet"
    described["files"][0]["file"] = "rows.jsonl.gz"
    row = {"source": "hub", "repository": "a/b", "revision": "main", "files": ["rows.jsonl.gz"], "format": "jsonl"}
    place = tmp_path / "downloads/hub/a/b/main"
    assert (
        read_source(described, store, Corpus(**row), tmp_path / "downloads")[1] == "rows.jsonl.gz is not here any more"
    )
    place.mkdir(parents=True)
    (tmp_path / "rows.jsonl.gz").rename(place / "rows.jsonl.gz")
    assert read_source(described, store, Corpus(**row), tmp_path / "downloads") == (described["documents"], "", [])
    known = row | {"known": {"rows.jsonl.gz": {"sha256": "0" * 64}}}
    (difference,) = read_source(described, store, Corpus(**known), tmp_path / "downloads")[2]
    assert difference.startswith("rows.jsonl.gz had sha256 ")


def test_long_texts_are_compared_up_to_a_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = written(tmp_path)
    monkeypatch.setattr(source_reader, "MOST_BYTES", 30)
    for name in ("line", "paragraph", "jsonl", "file"):
        compared, unread, differences = reading(tmp_path, files[name])
        assert ("bytes are read" in unread, differences) == (True, []), name
        assert compared < 5


def test_a_stream_of_the_hub_is_not_asked_for_twice(tmp_path: Path) -> None:
    row = written(tmp_path)["line"]
    stream = {"source": "dataset", "load": ["a/b", "default", "train"], "revision": "main"}
    assert reading(tmp_path, row, stream) == (0, "it is streamed from the hub, which is not asked twice", [])


def test_it_shares_no_code_with_what_gathers() -> None:
    tree = ast.parse(Path(source_reader.__file__).read_text())
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [module for module in modules if module.startswith("scaleproof.measure.corpus")]
