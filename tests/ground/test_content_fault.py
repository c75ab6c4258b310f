"""A file that is something else than its name says, or a log that cannot be a series: named, not only unread."""

import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from scaleproof.auditor.audit import NoResult, audit_paths
from scaleproof.auditor.compare_external import compare_external
from scaleproof.auditor.read.rates_by_size import rates_by_size
from scaleproof.ground.errors import UserError, describe_first_fault, nearest_path
from scaleproof.ground.files import content_fault
from scaleproof.verify.contents import json_of

PAGE = "\n<!DOCTYPE html>\n<html><body><form>Sign in</form></body></html>\n"


class Figure(BaseModel):
    """A model of a file of results."""

    value: float


FLAT = "".join(f"step 0 loss 2.{n} time 12.3 ms\n" for n in range(9))


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("results.csv", PAGE, " is an HTML page"),
        ("page.html", PAGE, ""),
        ("results.csv", f"<!-- saved -->\n<?xml version='1.0'?>{PAGE}", " is an HTML page"),
        ("results.xml", "<?xml version='1.0'?>\n<runs/>", ""),
        ("README.md", "<!-- a badge --><h1 align='center'>Runs</h1>\n<div>none yet</div>\n", ""),
        ("train.log", FLAT, " says step 0 in all of 9 lines"),
        ("train.log", "".join(f"iter {n}: loss 2.3\n" for n in range(9)), ""),
        ("train.log", "step 0 loss 2.3\n" * 2, ""),
        ("train.log", "412 ms/step 19,883 tok/s\n" * 9, ""),  # 19 is of a rate
        ("train.log", "", ""),
    ],
)
def test_what_a_file_is_instead(tmp_path, name, text, fault):
    (tmp_path / name).write_text(text)
    assert content_fault(tmp_path / name).startswith(fault)
    assert bool(content_fault(tmp_path / name)) == bool(fault)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, // one\n "b": 2}', "JSON has no comments"),
        ('[\n {"a": 1},\n]', "the comma before it has nothing behind it"),
        ("{'a': 1}", 'texts of JSON stand in double quotes, "so"'),
        ('{"a": 1,5, "b": 2}', "a decimal comma? Numbers of JSON have a point"),
        ("\0" * 9, "zero bytes, as a crash leaves them"),
        ('{"a": True}', "write true"),
        ('{"a": None}', "write null"),
        (
            '{"a": 1}\n{"a":\n 2}',
            "a second value begins there; JSON lines are objects, each in a line of a .jsonl file",
        ),
        ('<<<<<<< HEAD\n{"a": 1}', "a merge conflict of git?"),
        ("<!DOCTYPE html><html>", "a page (HTML) or XML?"),
        ('\ufeff{"a": 1}', "a byte order mark stands before it"),
        ('NCCL version 2.26\n{"a": 1}', 'the JSON begins in line 2, behind "NCCL version 2.26"'),
        ("NCCL version 2.26\n[12:00] INFO\n", 'there is no value of JSON: "NCCL version 2.26"'),
        ("# size count\n 1024 256\n", "it is text, not JSON"),
        ('# one\n{"a": 1}', "JSON has no comments"),
        ('{"a": }', 'there is no value of JSON: "}"'),
        ('{"a": 1', "it ends there"),
        ('{"a": 1\n "b": 2}', 'a comma or a bracket is missing before "b": 2}'),
        ('{"a" 1}', 'a colon is missing behind a key, before "1}"'),
        ('{"a": "C:\\data"}', r'a backslash in a text is written \\, and this is no escape: "\data"}"'),
        ('{"a": 1}}', 'more stands behind its end: "}"'),
    ],
)
def test_why_a_text_is_no_json(text, reason):
    with pytest.raises(ValueError, match="line") as fault:
        json.loads(text)
    fault_in_words = describe_first_fault(fault.value)
    assert re.fullmatch(rf"no JSON, or cut off \(line \d+, column \d+: {re.escape(reason)}\)", fault_in_words)


@pytest.mark.parametrize(("name", "text"), [("results.csv", PAGE), ("train.log", FLAT)])
def test_every_reader_says_it(tmp_path, monkeypatch, name, text):
    monkeypatch.chdir(tmp_path)
    path = Path(name)
    path.write_text(text)
    said = f"^{name}{content_fault(path)[:20]}"
    with pytest.raises(NoResult, match=said):
        audit_paths([path])
    with pytest.raises(UserError, match=said):
        compare_external(path, path, [])
    with pytest.raises(UserError, match=said):
        rates_by_size(path, 1)


@pytest.mark.parametrize(("text", "name"), [("[1, 2]", "a list"), ("null", "null")])
def test_what_is_in_place_of_an_object_is_named(tmp_path, text, name):
    (tmp_path / "scaling_report.json").write_text(text)
    with pytest.raises(ValueError, match=f"^{name} is in it, not an object"):
        json_of(tmp_path / "scaling_report.json")
    with pytest.raises(ValidationError) as fault:
        Figure.model_validate_json(text)
    assert describe_first_fault(fault.value).startswith(f"{name} is in it, not an object")


@pytest.mark.parametrize(("value", "name"), [("null", "null"), ('"None"', "'None'")])
def test_a_value_of_json_is_called_as_in_json(value, name):
    with pytest.raises(ValidationError) as fault:
        Figure.model_validate_json(f'{{"value": {value}}}')
    assert describe_first_fault(fault.value) == f"value cannot be {name}; allowed: a valid number"


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("src/example/results.csv", ' Did you mean "example/results.csv"?'),
        ("../wt/example/results.csv", ' Did you mean "example/results.csv"?'),
        ("src/example/resluts.csv", " In .: example"),
        ("exmaple/results.csv", ' Did you mean "example/results.csv"?'),
    ],
)
def test_a_path_seen_from_another_folder_is_found(tmp_path, monkeypatch, path, hint):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "example").mkdir()
    (tmp_path / "example/results.csv").touch()
    assert nearest_path(Path(path)) == hint
