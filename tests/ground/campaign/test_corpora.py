"""Files of one's own: what cannot be a corpus is named by `campaign validate`, before anything runs."""

import bz2
import gzip
import os
from contextlib import nullcontext

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import scaleproof

from scaleproof.ground.campaign.corpora import Corpus, local_files
from scaleproof.ground.campaign.yaml_loader import load_corpora
from scaleproof.ground.errors import UserError
from scaleproof.measure.corpus import check
from scaleproof.measure.corpus.check import check_corpus, small_text


@pytest.mark.parametrize(
    ("source", "content", "message"),
    [
        ("text", b"", "is empty .0 bytes."),
        ("jsonl", b"", "is empty .0 bytes."),
        ("parquet", b"", "is empty .0 bytes."),
        ("text", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is a picture, not text; a corpus is text"),
        ("text", b"no kind\0\0", "is no text file in UTF-8: it holds zero bytes"),
        ("text", "two bytes a letter".encode("utf-16"), "is no text file in UTF-8"),
        ("jsonl", b"text,label\n1,2\n", "cannot be read as jsonl"),
        ("jsonl", b'["a", "list"]\n["x"]\n', "is a JSON list"),
        ("jsonl", b'{"body": "x"}\n{"body": "y"}\n', 'has in line 1 no field "text" .key: field.. Fields there: body'),
        ("parquet", b"text\nno parquet\n", "is not parquet: it begins with .text"),
        ("parquet", b"PAR1 but no more", "is cut off: it ends without PAR1; copy or write it again"),
        ("parquet", b"PAR1" + bytes(100) + b"PAR1", "is damaged: its parts do not fit together"),
        ("parquet", gzip.compress(b"PAR1"), "is packed; unpack it: Parquet is read as it is"),
        ("parquet", b"ARROW1" + bytes(9), "is Arrow, not parquet; save its rows as Parquet or as JSON lines"),
        ("jsonl", b"PAR1" + bytes(9), "is Parquet, not jsonl; write parquet in place of jsonl"),
        ("text", b"\xfd7zXZ" + bytes(9), "is xz data, not text; unpack it"),
        ("parquet", b"version https://git-lfs.github.com/spec/v1\noid x\n", "is a pointer of Git LFS"),
        ("text", b"%PDF-1.7\n", "is a PDF, not text; save its text"),
        ("text", b"{\\rtf1\\ansi one\n", "is RTF, not text; save its text"),
        ("csv", b'{"text": "x"}\n', "holds JSON; write jsonl in place of csv"),
        ("csv", b"3,some text that\n4,more\n", 'has no field "text" .key: field.. Fields there: 3, some text that'),
        ("csv", b"id,txt\n1,x\n", 'Did you mean "txt"'),
        (
            "text",
            b"PK\x03\x04 and more",
            "is a zip archive or an Office document, not text; unpack it, or save",
        ),
    ],
)
def test_files_that_cannot_be_a_corpus(tmp_path, source, content, message):
    (tmp_path / "mine").write_bytes(content)
    with pytest.raises(UserError, match=f"config/corpora.yaml: mine.files: .*{message}"):
        check_corpus("mine", Corpus(source=source, files=[str(tmp_path / "mine")]))


LINES = b"".join(b'{"text": "%d %d"}\n' % (k, k * k) for k in range(3000))
PACKED_BY = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": lambda data: pa.compress(data, "zstd", asbytes=True)}


@pytest.mark.parametrize("suffix", PACKED_BY)
def test_packed_files_that_are_damaged(tmp_path, suffix):
    data = PACKED_BY[suffix](LINES)
    half = len(data) // 2
    other = ".gz" if suffix == ".zst" else ".zst"
    faults = {
        data[:half]: f"is cut off: its packed data do not come to their end; .*-t .*{suffix}",
        data[:half] + b"\xff" * 99 + data[half + 99 :]: "is damaged|cannot be read",  # zstd without a checksum
        PACKED_BY[suffix](PACKED_BY[".gz"](LINES)): ", unpacked, is gzip data, not jsonl; unpack it",
        PACKED_BY[suffix](b"no objects\nat all"): ", unpacked, cannot be read as jsonl",
        PACKED_BY[other](LINES): f"does not begin like a {suffix} file but like a {other} file; rename it to",
    }
    path = tmp_path / f"mine.jsonl{suffix}"
    corpus = Corpus(source="jsonl", files=[str(path)])
    for content, message in faults.items():
        path.write_bytes(content)
        with pytest.raises(UserError, match=message):
            _read_all(corpus)
    path.write_bytes(data)
    _read_all(corpus)


@pytest.mark.parametrize("document", ["file", "paragraph"])
def test_one_large_file_is_one_document_unless_its_paragraphs_are(tmp_path, monkeypatch, document):
    monkeypatch.setattr("scaleproof.measure.corpus.check.SMALL_TEXT", 10)
    path = tmp_path / "large.txt"
    path.write_text("one\n\ntwo\n\nthree\n")
    corpus = Corpus(source="text", files=[str(path)], document=document)
    if document == "file":
        with pytest.raises(UserError, match="has one document"):
            small_text("mine", corpus)
    else:
        assert small_text("mine", corpus) is None


def _read_all(corpus: Corpus) -> None:
    """Read the corpus as `corpus check` does."""
    check_corpus("mine", corpus)
    small_text("mine", corpus)


@pytest.mark.parametrize(
    ("source", "content"),
    [
        ("text", b"good"),
        ("text", b"ORC, PARty and Object are words"),
        ("text", b"\xff\xfe is replaced later"),
        ("jsonl", b'\n\n{"text": "x"}\n'),
        ("csv", b"\nid,text\n1,x\n"),
        ("jsonl", b'{"text": "a line longer than what is looked at' + b"x" * 70_000 + b'"}'),
    ],
)
def test_files_that_may_be_one(tmp_path, source, content):
    (tmp_path / "mine").write_bytes(content)
    (tmp_path / "empty").write_bytes(b"" if source == "text" else content)
    check_corpus("mine", Corpus(source=source, files=[str(tmp_path / "*")]))


def test_packed_files_are_named_so(tmp_path):
    (tmp_path / "mine.txt").write_bytes(gzip.compress(b"packed"))
    corpus = Corpus(source="text", files=[str(tmp_path / "mine.*")])
    with pytest.raises(UserError, match=r"mine.txt is packed; rename it to mine.txt.gz"):
        check_corpus("mine", corpus)
    (tmp_path / "mine.txt").rename(tmp_path / "mine.txt.gz")
    check_corpus("mine", corpus)
    (tmp_path / "mine.txt.gz").write_bytes(b"not packed")
    with pytest.raises(UserError, match=r"does not begin like a .gz file"):
        check_corpus("mine", corpus)


@pytest.mark.parametrize(
    ("source", "files", "message"),
    [
        ("text", ["$NOWHERE/x.txt"], r"begins with \$, which only a shell replaces"),
        ("text", ["~nobody-of-that-name/x.txt"], "begins with ~, which only a shell replaces; write the path itself"),
        ("text", ["https://example.org/x.txt"], "is an address; local files stand here"),
        ("csv", ["{a,b}.csv"], "matches no file; only a shell replaces {...}: write each name, or a pattern with *"),
        ("csv", ["README.md\\x"], "matches no file; folders are separated by /, not by backslashes: write README.md/x"),
        ("text", ["docss/*.md"], r"matches no file. In docs: "),
    ],
)
def test_paths_of_another_world(source, files, message):
    with pytest.raises(UserError, match=message):
        check_corpus("mine", Corpus(source=source, files=files))


@pytest.mark.parametrize(
    ("source", "content", "fine"),
    [
        ("csv", b"id,text\n1,\n2, \n", b"id,text\n1,\n2,x\n"),
        ("csv", b"id,text\n", b"id,text\n1,x\n"),
        ("jsonl", b'{"text": null}\n', b'{"text": null}\n{"text": "x"}\n'),
    ],
)
def test_rows_without_any_text(tmp_path, source, content, fine):
    corpus = Corpus(source=source, files=[str(tmp_path / "mine")])
    (tmp_path / "mine").write_bytes(content)
    with pytest.raises(UserError, match=r'no row of .*mine has text in "text"'):
        check_corpus("mine", corpus)
    (tmp_path / "mine").write_bytes(fine)
    check_corpus("mine", corpus)


def test_numbers_in_a_parquet_file_are_no_text(tmp_path):
    pq.write_table(pa.table({"text": [1, 2]}), tmp_path / "mine.parquet")
    corpus = Corpus(source="parquet", files=[str(tmp_path / "mine.parquet")])
    with pytest.raises(UserError, match=r'has no text in the field "text" .key: field., but int64'):
        check_corpus("mine", corpus)
    pq.write_table(pa.table({"text": pa.array(["x"]).dictionary_encode()}), tmp_path / "mine.parquet")
    check_corpus("mine", corpus)


def test_the_fields_of_a_parquet_file_are_looked_at(tmp_path):
    pq.write_table(pa.table({"body": ["x"]}), tmp_path / "mine.parquet")
    corpus = Corpus(source="parquet", files=[str(tmp_path / "*.parquet")])
    with pytest.raises(UserError, match=r'has no field "text".*Fields there: body'):
        check_corpus("mine", corpus)
    check_corpus("mine", corpus.model_copy(update={"field": "body"}))


@pytest.mark.parametrize(
    ("name", "content", "keys", "message"),
    [
        ("a.tar.gz", gzip.compress(b"x"), {"source": "text"}, "is an archive; unpack it"),
        ("a.jsonl", b'{"text": "x"}\n{"text": "y"}\n', {"source": "text"}, "holds JSON; write jsonl in place of text"),
        ("a.csv", b"text,y\nx,1\nz,2\n", {"source": "csv", "columns": ["text", "y"]}, "leave `columns` out"),
    ],
)
def test_what_a_file_begins_with(tmp_path, name, content, keys, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        check_corpus("mine", Corpus(files=[str(tmp_path / name)], **keys))


def test_a_range_counts_up():
    keys = {"source": "http", "urls": ["https://x.org/y"], "revision": "v1", "format": "text"}
    with pytest.raises(ValueError, match=r"{9..1} ends before it begins; write {1..9}"):
        Corpus(files=["a-{9..1}.txt"], **keys)
    assert Corpus(files=["a-{1..1}.txt"], **keys).remote_files == ["a-1.txt"]


@pytest.mark.parametrize(
    ("budget", "documents"), [("1,5 documents", None), ("15,00 documents", None), ("1,500 documents", 1500)]
)
def test_commas_of_a_budget_part_thousands(budget, documents):
    keys = {"source": "text", "files": ["x"], "budget": budget}
    if documents:
        assert Corpus(**keys).limits == (None, documents)
    else:
        with pytest.raises(ValueError, match="budget"):
            Corpus(**keys)


def odd_files(folder):
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "pipe")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder", "is a folder; write"),
        ("loop", "is a link that leads back to itself"),
        ("dangling", "is a link to nowhere, which leads nowhere"),
        ("pipe", "is not a regular file"),
        ("gone", "matches no file"),
    ],
)
def test_what_is_no_file_is_named(tmp_path, name, message):
    odd_files(tmp_path)
    with pytest.raises(UserError, match=message):
        check_corpus("mine", Corpus(source="text", files=[str(tmp_path / name)]))


@pytest.mark.parametrize(
    ("name", "message"),
    [("dangling", "dangling, which is a link to nowhere, which leads nowhere"), ("pipe", "pipe, which is not a reg")],
)
def test_a_pattern_leaves_no_lost_file_out(tmp_path, name, message):
    odd_files(tmp_path)
    (tmp_path / f"{name}.txt").write_text("text")
    with pytest.raises(UserError, match=rf"\*\" matches .*{message}"):
        local_files("mine", Corpus(source="text", files=[str(tmp_path / f"{name}*")]))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("folder", "folder is a folder; a file is expected"),
        ("loop", "loop is a link that leads back to itself"),
        ("pipe", "pipe is a pipe, not a regular file"),
        ("gone", "gone: no such file or folder. In "),
    ],
)
def test_a_table_that_is_no_file_is_named(tmp_path, name, message):
    odd_files(tmp_path)
    with pytest.raises(UserError, match=message):
        load_corpora(tmp_path / name)


def test_a_folder_without_campaigns_is_told_apart_from_a_table_that_is_gone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="gone: no such file; scaleproof works in the folder of the Snakefile"):
        load_corpora(tmp_path / "gone")


def test_a_search_of_the_whole_machine_is_refused():
    with pytest.raises(UserError, match="would search all of /"):
        check_corpus("mine", Corpus(source="text", files=["/**/*.txt"]))


def test_a_range_of_too_many_files_is_refused():
    with pytest.raises(ValueError, match="100,000,000 files"):
        Corpus(source="http", urls=["http://x/"], revision="v1", format="text", files=["{0..99999999}.txt"])


def test_validate_says_it(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/corpora.yaml").write_text("mine: {source: text, files: [notes.txt]}\n")
    (tmp_path / "notes.txt").touch()
    (tmp_path / "mine.yaml").write_text("title: x\nworkload: {corpus: mine}\n")
    done = scaleproof("campaign", "validate", "mine.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "scaleproof: config/corpora.yaml: mine.files: notes.txt is empty (0 bytes)\n"


def test_a_small_text_is_read_and_counted_once_for_all_cells(tmp_path, monkeypatch):
    (tmp_path / "config").mkdir()
    (tmp_path / "mine.txt").write_text("a sentence of some words\n" * 900)
    (tmp_path / "config/corpora.yaml").write_text("mine: {source: text, files: [mine.txt], document: line}\n")
    vary = "vary: {geometry: [1x1, 1x2], precision: [fp32, bf16]}\n"
    (tmp_path / "many.yaml").write_text(f"title: x\n{vary}workload: {{corpus: mine, tokenizer: bytes, seq_len: 16}}\n")
    counted = []
    for name in ("small_text", "size_of_text", "size_of_tokens"):
        was = getattr(check, name)
        monkeypatch.setattr(check, name, lambda *words, was=was, name=name: counted.append(name) or was(*words))
    assert "valid; 4 cells" in scaleproof("campaign", "validate", "many.yaml", cwd=tmp_path).stdout
    assert sorted(counted) == ["size_of_text", "size_of_tokens", "small_text"]


@pytest.mark.parametrize(
    ("url", "is_address"),
    [("https://x:port/y", False), ("https://x:99999/y", False), ("https:///y", False), ("http://x:8080/y", True)],
)
def test_an_address_has_a_host_and_a_possible_port(url, is_address):
    with nullcontext() if is_address else pytest.raises(ValueError, match="is no address; allowed: http://NAME/"):
        Corpus(source="http", urls=[url], revision="v1", files=["a"], format="text")


LETTERS = "schön größer Übung café naïve " * 40


@pytest.mark.parametrize(
    ("data", "remark"),
    [
        (LETTERS.encode("latin-1"), "% of it is not UTF-8: iconv -f LATIN1 -t UTF-8 "),
        ((LETTERS + "“quoted”").encode("cp1252"), "% of it is not UTF-8: iconv -f CP1252 -t UTF-8 "),
        (("これは日本語の文章です。" * 40).encode("shift-jis"), "% of it is not UTF-8: save it as UTF-8"),
        (b"<!DOCTYPE html>\n<p>" + LETTERS.encode(), ": a page (HTML), whose tags are a part of the text"),
        (LETTERS.encode() + b"\xe4", "0.1 % of it is not UTF-8: single bytes of a text in UTF-8 are damaged"),
    ],
)
def test_a_text_of_another_encoding_is_named_with_its_cure(tmp_path, data, remark):
    (tmp_path / "sound.txt").write_text(LETTERS)
    (tmp_path / "a.txt").write_bytes(data)
    (line,) = check_corpus("mine", Corpus(source="text", files=[str(tmp_path / "*.txt")]))
    assert line.startswith(f"{tmp_path}/a.txt: ")
    assert remark in line


def test_utf_16_is_refused_with_its_cure(tmp_path):
    (tmp_path / "a.txt").write_bytes(LETTERS.encode("utf-16"))
    with pytest.raises(UserError, match=r"iconv -f UTF-16 -t UTF-8 \S+a\.txt"):
        check_corpus("mine", Corpus(source="text", files=[str(tmp_path / "a.txt")]))


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_rows_of_another_encoding_are_refused_with_their_cure(tmp_path, form):
    rows = {"jsonl": '{"text": "größer"}\n', "csv": "text\ngrößer\n"}
    (tmp_path / "a").write_bytes(rows[form].encode("latin-1"))
    with pytest.raises(UserError, match=r"it is not UTF-8 \(byte 0xf6.*\): iconv -f LATIN1 -t UTF-8 \S+/a "):
        check_corpus("mine", Corpus(source=form, files=[str(tmp_path / "a")]))


def test_a_token_of_the_hub_stands_in_no_file(tmp_path):
    file = tmp_path / "corpora.yaml"
    file.write_text("mine: {source: hub, repository: a/b, revision: main, token: hf_x}\n")
    _, faults = load_corpora(file)
    assert "line 1: unknown key mine.token. The hub's token is the variable HF_TOKEN" in faults["mine"]


def test_a_faulty_row_is_no_fault_of_its_neighbours(tmp_path):
    file = tmp_path / "corpora.yaml"
    file.write_text("mine: {source: text, files: [a.txt]}\nMine: {source: text, files: [a]}\nhalf:\n  source: tex\n")
    rows, faults = load_corpora(file)
    assert list(rows) == ["mine"]
    assert 'line 2: "Mine" cannot be a name' in faults["Mine"]
    assert "line 4: half.source" in faults["half"]


def test_a_file_in_place_of_a_row_of_corpora(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/corpora.yaml").write_text("mine: notes/a.txt\n")
    done = scaleproof("corpus", "check", "mine", cwd=tmp_path)
    assert "Write {source: text, files: [notes/a.txt]}." in done.stderr


def test_sound_data_passes(tmp_path):
    """One class alone is not: nothing could be told apart."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config/corpora.yaml").write_text("mine: {source: csv, files: [d.csv], field: body, label: k}\n")
    (tmp_path / "d.csv").write_text("k,body\n" + "1,a\n2,a\n" * 150)
    answer = scaleproof("corpus", "check", "mine", cwd=tmp_path).stdout
    assert answer == "mine: valid; a small text, on which tokenizers up to bpe-257 can be trained\n"
    (tmp_path / "d.csv").write_text("k,body\n" + "1,a\n" * 300)
    assert "has 1 class (key: label)" in scaleproof("corpus", "check", "mine", cwd=tmp_path).stderr


def test_a_folder_in_place_of_files_is_answered_with_its_files(tmp_path):
    (tmp_path / "config").mkdir()
    for given, meant in (("data/", "[data/*]"), ("data/a.txt", "[data/a.txt]")):
        (tmp_path / "config/corpora.yaml").write_text(f"mine: {{source: text, files: {given}}}\n")
        assert f"Write {meant}." in scaleproof("corpus", "check", "mine", cwd=tmp_path).stderr
