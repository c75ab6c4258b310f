"""Documents with labels as samples: cut, padded, counted without the padding."""

import json

import ag_news_like
import numpy as np
import pytest

from scaleproof.ground.campaign.config import Workload
from scaleproof.ground.errors import UserError
from scaleproof.measure.corpus import tokenizer
from scaleproof.measure.corpus.reader import NO_TOKEN, LabelledFile, TokenFile, open_split, samples_in

ROWS = ag_news_like.rows()


@pytest.fixture
def encoding(labelled):
    return tokenizer.load_encoder(labelled / "tokenizer.json")


def test_every_document_is_a_sample_with_its_own_label(labelled, encoding):
    texts = {f"{title} {text}": kind - 1 for kind, title, text in ROWS}
    seen = []
    for split in ("train", "val"):
        file = LabelledFile(labelled, split, seq_len=2000)
        samples = file.read(np.arange(file.n_samples))
        for sample in samples:
            text = encoding.decode([t for t in sample[:-1] if t != NO_TOKEN])
            assert sample[-1] == texts[text]
            seen.append(text)
    assert sorted(seen) == sorted(texts)
    assert len(seen) == len(ROWS)


def test_long_documents_are_cut_and_short_ones_padded(labelled):
    file, whole = (LabelledFile(labelled, "train", seq_len) for seq_len in (24, 2000))
    ids = np.arange(file.n_samples)[::-1]
    samples = file.read(ids)
    assert samples.shape == (len(ids), 25)
    lengths = (samples[:, :-1] != NO_TOKEN).sum(1)
    assert (lengths == np.minimum(whole.lengths[ids], 24)).all()
    assert lengths.min() < 24, "some are padded"
    assert whole.lengths.max() > 24, "some are cut"
    assert file.count(ids) == lengths.sum(), "padding is no work"
    assert file.count(ids[:3]) == lengths[:3].sum()
    assert (samples[:, :24] == whole.read(ids)[:, :24]).all()


def test_the_task_says_what_a_sample_is(labelled):
    classify, model = (Workload(task=task, seq_len=24) for task in ("classification", "language-modelling"))
    description = json.loads((labelled / "tokens.json").read_text())
    assert type(open_split(labelled, "val", model)) is TokenFile
    for workload in (classify, model):
        assert open_split(labelled, "val", workload).n_samples == samples_in(description["val"], workload)
    assert samples_in(description["val"], classify) == 100
    assert open_split(labelled, "train", classify).classes == 4


def test_a_corpus_without_labels_is_refused(tokens):
    with pytest.raises(UserError, match="has no labels"):
        open_split(tokens, "train", Workload(task="classification"))
    assert (tokens / "train.labels").read_bytes() == b""
    assert "classes" not in json.loads((tokens / "tokens.json").read_text())


@pytest.mark.parametrize("damage", ["file", "description"])
def test_labels_of_other_documents_are_refused(labelled, tmp_path, damage):
    for path in labelled.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    labels = (labelled / "train.labels").read_bytes()[:-2]
    (tmp_path / "train.labels").write_bytes(labels)
    if damage == "description":
        description = json.loads((labelled / "tokens.json").read_text())
        description["train"]["labels"]["bytes"] = len(labels)
        (tmp_path / "tokens.json").write_text(json.dumps(description))
    with pytest.raises(UserError, match="tokenise the corpus again"):
        LabelledFile(tmp_path, "train", 24)
