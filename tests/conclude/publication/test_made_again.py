"""Sentences that are written again: the same where nobody changed them; each changed, added or left out is named."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from verify.test_any_answer import any_campaign, finished

from scaleproof.conclude.publication.made_again import other_code, other_sentences

Content = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished campaign."""
    root = tmp_path_factory.mktemp("campaign")
    finished(root, **any_campaign(3))
    return root


def edited(content: Content, **changes: Any) -> Content:
    first, *others = content["sentences"]
    return content | {"sentences": [first | changes, *others]}


EDITS: dict[str, tuple[Callable[[Content], Content], str]] = {
    "a word": (lambda c: edited(c, text=f"{c['sentences'][0]['text']}, surely"), "is not what its files give"),
    "a claim": (lambda c: edited(c, claims=["rate/ddp-n1x1"]), "is not what its files give"),
    "a sentence more": (
        lambda c: c | {"sentences": [*c["sentences"], {"topic": "next", "text": "Rest.", "claims": []}]},
        'next: "Rest.": is not what its files give',
    ),
    "a sentence less": (lambda c: c | {"sentences": c["sentences"][:-1]}, "is left out"),
    "no code": (lambda c: c | {"code_sha256": None}, "code_sha256: is missing"),
}


def test_sentences_are_those_that_the_files_give(folder: Path) -> None:
    assert other_code(folder) == ""
    assert list(other_sentences(folder)) == []


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_sentence_is_named(folder: Path, name: str) -> None:
    edit, named = EDITS[name]
    claims = folder / "claims.json"
    text = claims.read_text()
    claims.write_text(json.dumps(edit(json.loads(text))))
    differences = list(map(str, other_sentences(folder)))
    claims.write_text(text)
    assert any(named in difference for difference in differences), differences


def test_those_of_other_code_are_not_written_again(folder: Path) -> None:
    claims = folder / "claims.json"
    text = claims.read_text()
    content = edited(json.loads(text), text="Nobody wins")
    claims.write_text(json.dumps(content | {"code_sha256": "0" * 64}))
    assert list(other_sentences(folder)) == []
    assert other_code(folder).startswith("claims.json is of code 000000000000, this version has ")
    claims.write_text(text)
