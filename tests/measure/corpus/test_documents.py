"""Gathering documents: what is odd in real text is handled, what cannot be is said."""

import csv
import json

import ag_news_like
import pytest

from scaleproof.ground.campaign.corpora import Corpus
from scaleproof.ground.errors import UserError
from scaleproof.measure.corpus import documents, encode, forms
from scaleproof.measure.corpus.labels import order_classes


def fetch(folder, **keys):
    return documents.gather_documents("mine", Corpus(**keys), folder / "out"), list(
        encode.read_documents(folder / "out/documents.parquet")
    )


def test_python_docs_needs_no_network_and_is_the_same_twice(tmp_path):
    first = documents.gather_documents("python-docs", Corpus(source="python-docs"), tmp_path / "a")
    second = documents.gather_documents("python-docs", Corpus(source="python-docs"), tmp_path / "b")
    assert first == second
    assert first["documents"] > 300
    assert first["bytes"] > 1_000_000
    assert first["revision"].startswith("python-3.")
    assert json.loads((tmp_path / "a/corpus.json").read_text()) == first


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("file", ["one\ntwo\n\nthree\n", "four"]),
        ("paragraph", ["one\ntwo", "three\n", "four"]),
        ("line", ["one", "two", "three", "four"]),
    ],
)
def test_text(tmp_path, document, expected):
    (tmp_path / "a.txt").write_text("one\ntwo\n\nthree\n")
    (tmp_path / "b.txt").write_text("four")
    (tmp_path / "empty.txt").write_text("")
    _, texts = fetch(tmp_path, source="text", files=[str(tmp_path / "*.txt")], document=document)
    assert [t.strip() for t in texts] == [t.strip() for t in expected]


def test_jsonl_and_parquet_give_the_same_documents(tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"body": ["first <|endoftext|> still first", "", "second — ünïcode"], "id": [1, 2, 3]})
    frame.to_json(tmp_path / "a.jsonl", orient="records", lines=True)
    frame.to_parquet(tmp_path / "a.parquet")
    lines = fetch(tmp_path, source="jsonl", files=[str(tmp_path / "a.jsonl")], field="body")
    rows = fetch(tmp_path, source="parquet", files=[str(tmp_path / "a.parquet")], field="body")
    assert lines[1] == rows[1] == [frame["body"][0], frame["body"][2]]
    assert lines[0]["sha256"] == rows[0]["sha256"]
    assert lines[0]["empty_documents"] == 1


def test_a_byte_order_mark_before_lines_of_json_is_none_of_the_text(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "one"}\n{"text": "two"}\n')
    assert fetch(tmp_path, source="jsonl", files=[str(tmp_path / "a.jsonl")])[1] == ["one", "two"]


@pytest.mark.fault("bytes that are not UTF-8", "replaced and counted")
def test_bytes_that_are_not_utf8_are_replaced_and_counted(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"good \xff\xfe bad")
    found, texts = fetch(tmp_path, source="text", files=[str(tmp_path / "a.txt")])
    assert texts == ["good \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER} bad"]
    assert found["replaced_characters"] == 2


@pytest.mark.parametrize(
    ("name", "content", "keys", "message"),
    [
        ("a.txt", "  \n\n ", {"source": "text"}, "is empty"),
        (
            "a.jsonl",
            '{"txet": "x"}\n',
            {"source": "jsonl"},
            'mine.* has in line 1 no field "text" .key: field.. Did you mean "txet". Fields there: txet',
        ),
        ("a.jsonl", '{"text": "x"}\n{"text": 3}\n', {"source": "jsonl"}, 'line 2: field "text" is not text but int'),
        ("a.jsonl", '{"text": ' + "[" * 100_000 + "\n", {"source": "jsonl"}, "line 1: nested too deeply"),
        ("a.jsonl", "not json\n", {"source": "jsonl"}, "cannot be read as jsonl"),
        (
            "a.jsonl",
            '{"text": "x"}\n{"text": "y\n',
            {"source": "jsonl"},
            r'jsonl: line 2, column 10: a text has no quote at its end: "y',
        ),
        ("a.parquet", "not parquet", {"source": "parquet"}, 'is not parquet: it begins with "not parquet"'),
        ("b.md", "x", {"source": "text"}, "matches no file"),
    ],
)
def test_bad_files(tmp_path, name, content, keys, message):
    (tmp_path / name).write_text(content)
    pattern = tmp_path / name.replace("b.md", "*.txt")
    with pytest.raises(UserError, match=message):
        fetch(tmp_path, files=[str(pattern)], **keys)
    assert not (tmp_path / "out/documents.parquet").exists(), "no half corpus is left behind"


def test_half_of_a_surrogate_pair_is_replaced_and_counted(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "half a pair: \\ud800"}\n{"text": "whole"}\n')
    description, _ = fetch(tmp_path, source="jsonl", files=[str(tmp_path / "a.jsonl")])
    assert description["replaced_characters"] == 1
    assert description["documents"] == 2


def test_nothing_is_counted_of_a_document_beyond_the_budget(tmp_path):
    fits, half_a_pair = "a" * 900, "b" * 200 + "\\ud800"
    (tmp_path / "a.jsonl").write_text(f'{{"text": "{fits}"}}\n{{"text": "{half_a_pair}"}}\n')
    description, texts = fetch(tmp_path, source="jsonl", files=[str(tmp_path / "a.jsonl")], budget="1 kB")
    assert texts == [fits]
    assert description["replaced_characters"] == 0


def test_a_long_document_in_a_csv_is_read(tmp_path):
    (tmp_path / "a.csv").write_text("text\n" + "word " * 50_000 + "\n")
    assert fetch(tmp_path, source="csv", files=[str(tmp_path / "a.csv")])[0]["bytes"] >= 249_999


NEWS = {"field": ["title", "description"], "label": "label"}


def labelled(folder, **keys):
    import pyarrow.parquet as pq

    found, texts = fetch(folder, **keys)
    return found, texts, pq.read_table(folder / "out/documents.parquet")["label"].to_pylist()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('text,y\na,1\n"b\nc",2\nd,3\n"open,4\ne,5\n', 6),
        ('text\na\n"open\nb', 3),
        ('y,text\r\n1,"x\r\ny"\r\n2,"open\r\nz\r\n', 4),
        ('y,text\n1,"a\nb","open\nc\n', 3),
        ('"text\na\n', 1),
        ('text\n"', 2),
    ],
)
def test_a_quote_that_is_never_closed_is_named_with_its_line(tmp_path, text, line):
    (tmp_path / "a.csv").write_bytes(text.encode())
    with pytest.raises(
        UserError, match=rf"a\.csv cannot be read as csv: line {line}: a quote is opened there and never"
    ):
        fetch(tmp_path, source="csv", files=[str(tmp_path / "a.csv")])


def test_text_behind_a_closed_quote_is_no_part_of_the_field(tmp_path):
    """Of a line without its last quote, the next one is the end: two documents would be one."""
    (tmp_path / "a.csv").write_text('y,text\n1,"a"\n2,"b\n3,"c\n')
    with pytest.raises(UserError, match=r"a\.csv cannot be read as csv: line 3, or .*: text stands behind a closing"):
        fetch(tmp_path, source="csv", files=[str(tmp_path / "a.csv")])


def test_quotes_that_are_closed_are_text(tmp_path):
    text = 'y,text\n1,"two\nlines"\n2,"he said ""hi"""\n3,a "word" in it\n4,"the last'
    (tmp_path / "a.csv").write_text(f'{text}"')
    _, texts = fetch(tmp_path, source="csv", files=[str(tmp_path / "a.csv")])
    assert texts == ["two\nlines", 'he said "hi"', 'a "word" in it', "the last"]


def test_a_row_over_several_lines_is_named_with_all_of_them(tmp_path):
    (tmp_path / "a.csv").write_text('text,y\na,1\n"b,2\nc",3,4\n')
    with pytest.raises(UserError, match="the row in lines 3 to 4 has 3 fields, not 2"):
        fetch(tmp_path, source="csv", files=[str(tmp_path / "a.csv")])


def test_a_field_that_has_no_end_within_the_limit_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(forms, "LARGEST_DOCUMENT", 1000)
    (tmp_path / "a.csv").write_text('text\na\n"' + "b\n" * 1000)
    with pytest.raises(UserError, match="line 3, or a quote that is opened there: field larger than field limit"):
        fetch(tmp_path, source="csv", files=[str(tmp_path / "a.csv")])
    csv.field_size_limit(10**9)


def test_an_empty_csv_beside_a_whole_one_is_named(tmp_path):
    (tmp_path / "a.csv").touch()
    (tmp_path / "b.csv").write_text("text\na\n")
    with pytest.raises(UserError, match=r"a\.csv cannot be read as csv: it is empty; the first line has the names"):
        fetch(tmp_path, source="csv", files=[str(tmp_path / "*.csv")])


def test_csv_and_parquet_with_labels_give_the_same_documents(tmp_path):
    """AG News as published (classes from 1, no names of columns) and as a table with names."""
    import pandas as pd

    rows = ag_news_like.rows(40)
    ag_news_like.write_csv(tmp_path / "a.csv", rows)
    frame = pd.DataFrame(rows, columns=["label", "title", "description"])
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "named.csv", index=False)
    columns = {"columns": ["label", "title", "description"]}
    first = labelled(tmp_path, source="csv", files=[str(tmp_path / "a.csv")], **columns, **NEWS)
    assert first[0]["classes"] == ["1", "2", "3", "4"]
    assert first[1] == [f"{title} {text}" for _, title, text in rows]
    assert first[2] == [str(kind) for kind, *_ in rows]
    for source, name in (("parquet", "a.parquet"), ("csv", "named.csv")):
        other = labelled(tmp_path, source=source, files=[str(tmp_path / name)], **NEWS)
        assert other[1:] == first[1:]
        assert other[0]["sha256"] == first[0]["sha256"]


def test_another_label_is_another_corpus(tmp_path):
    sums = set()
    for kinds in ([1, 2], [2, 1]):
        ag_news_like.write_csv(tmp_path / "a.csv", [(kind, "same", "text") for kind in kinds])
        keys = {"columns": ["label", "title", "description"], "files": [str(tmp_path / "a.csv")]}
        sums.add(fetch(tmp_path, source="csv", **keys, **NEWS)[0]["sha256"])
    assert len(sums) == 2


@pytest.mark.parametrize(
    ("names", "classes"), [(["10", "9", "-1"], ["-1", "9", "10"]), (["b", "a", "10"], ["10", "a", "b"])]
)
def test_classes_have_an_order_of_their_own(names, classes):
    assert order_classes("mine", names, 3) == classes


def test_a_label_of_each_document_is_no_class(tmp_path):
    ids = [str(number) for number in range(30)]
    assert len(order_classes("mine", ids, 60)) == 30
    with pytest.raises(UserError, match=r"has 30 classes .key: label.; 2 to 1,000 .* with several of its 59 documents"):
        order_classes("mine", ids, 59)


@pytest.mark.parametrize(
    ("text", "keys", "message"),
    [
        ("label,title,description\n1,a,b\n1,c,d\n", {}, "has 1 class .key: label.; 2 to 1,000 can be told apart"),
        ("label,title,description\n1,a,b\n2,c\n", {}, "line 3 has 2 fields, not 3"),
        (
            "1,a,b,x\n2,c,d,y\n",
            {"columns": ["label", "title", "description"]},
            "it has 4 columns, and `columns` names 3",
        ),
        ("label,title,description\n1,a,b\n ,c,d\n", {}, "label .label. of a document is"),
        ("label,title,title,description\n1,a,b,c\n", {}, "line 1: has .title. 2 times; rename the others"),
        ("1,a,b\n2,c,d\n", {}, "has no field .title. .key: field.. Fields there: 1, a, b; .* give `columns`"),
        ("title,description\na,b\n", {}, "has no field .label. .key: label."),
    ],
)
def test_rows_that_cannot_be_labelled_documents(tmp_path, text, keys, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(UserError, match=message):
        fetch(tmp_path, source="csv", files=[str(tmp_path / "a.csv")], **NEWS, **keys)
