"""The second reading of a corpus: silent about sound token files, and not about the faults that a replay cannot see."""

import ast
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from scaleproof.ground.campaign.corpora import Corpus
from scaleproof.ground.errors import UserError
from scaleproof.measure.reference import corpus_reader
from scaleproof.measure.reference.corpus_reader import read_corpus
from scaleproof.measure.reference.schema import CorpusReading


@pytest.fixture
def copy(tokens: Path, tmp_path: Path) -> Path:
    """A copy of the corpus of prose: the folder of its token files."""
    return Path(shutil.copytree(tokens.parent, tmp_path / "corpus")) / tokens.name


def reread(folder: Path) -> CorpusReading:
    """The second reading of a corpus of `conftest.py`, whose source is where it was."""
    described = json.loads((folder.parent / "corpus.json").read_text())
    keys = {"columns": ["label", "title", "description"], "field": ["title", "description"], "label": "label"}
    keys = {"document": "line"} if described["source"] == "text" else keys
    named = Corpus(source=described["source"], files=[record["file"] for record in described["files"]], **keys)
    return read_corpus(folder, named, folder.parent)


def ids(folder: Path, split: str) -> np.ndarray:
    return np.fromfile(folder / f"{split}.bin", dtype="<u2")


def write(folder: Path, split: str, values: np.ndarray) -> None:
    values.astype("<u2").tofile(folder / f"{split}.bin")


def end_of_text(folder: Path) -> int:
    return int(json.loads((folder / "tokens.json").read_text())["end_of_text"])


def test_a_sound_corpus_has_no_difference(tokens):
    reading = reread(tokens)
    assert reading.differences == []
    assert (reading.compared, reading.unread) == (300, None)
    assert reading.read == 47, "32 of the training split, and all of the validation"
    assert reading.entropy_bits > 4


def test_so_has_one_with_labels(labelled):
    assert reread(labelled).differences == []


def test_a_long_document_is_compared_up_to_a_cut(tokens, monkeypatch):
    monkeypatch.setattr(corpus_reader, "LONGEST", 60)
    monkeypatch.setattr(corpus_reader, "UNSURE", 8)
    assert reread(tokens).differences == []


def validation_of_training_text(folder: Path) -> None:
    write(folder, "val", ids(folder, "train")[: len(ids(folder, "val"))])


def no_end_of_text(folder: Path) -> None:
    train = ids(folder, "train")
    write(folder, "train", train[train != end_of_text(folder)])


def a_tenth_ten_times(folder: Path) -> None:
    train = ids(folder, "train")
    write(folder, "train", np.tile(train[: len(train) // 10], 10))


def one_token_only(folder: Path) -> None:
    train = ids(folder, "train")
    write(folder, "train", np.where(train == end_of_text(folder), train, 7))


def ids_modulo_64(folder: Path) -> None:
    train = ids(folder, "train")
    write(folder, "train", np.where(train == end_of_text(folder), train, train % 64))


def a_larger_table(folder: Path) -> None:
    path = folder / "tokens.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"vocab_size": 1024}))


def an_id_beyond_the_table(folder: Path) -> None:
    train = ids(folder, "train")
    train[3] = 600
    write(folder, "train", train)


FAULTS = {
    validation_of_training_text: r"of val\.bin, has .* they differ from token|val\.bin has .* ends of text",
    no_end_of_text: r"train\.bin has 0 ends of text, the corpus has 285 documents for it",
    a_tenth_ten_times: r"of train\.bin, has .* they differ from token",
    one_token_only: r"of train\.bin, has .* they differ from token 0 on",
    ids_modulo_64: r"of train\.bin, has .* they differ from token",
    a_larger_table: r"tokens\.json describes a table of 1,024 entries, the tokenizer has 512",
    an_id_beyond_the_table: r"train\.bin has the id 600, the tokenizer's last is 511",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_what_the_replay_cannot_see_is_a_difference(copy: Path, fault: Callable[[Path], None]):
    fault(copy)
    differences = " / ".join(reread(copy).differences)
    assert re.search(FAULTS[fault], differences), differences


def test_texts_that_are_there_twice_are_counted(copy):
    long = np.concatenate([np.arange(100) % 90, [end_of_text(copy)]])
    write(copy, "train", np.concatenate([long, long, long, long]))
    write(copy, "val", long)
    reading = reread(copy)
    assert reading.repeated_documents == pytest.approx(0.75)
    assert reading.validation_in_training == 1


def test_a_missing_file_is_named(copy):
    (copy.parent / "documents.parquet").unlink()
    with pytest.raises(UserError, match=r"documents\.parquet"):
        reread(copy)


def test_the_second_reader_shares_no_code_with_the_first():
    tree = ast.parse(Path(corpus_reader.__file__).read_text())
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [module for module in modules if module.startswith("scaleproof.measure.corpus")]
