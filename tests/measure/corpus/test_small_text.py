"""What a small text of one's own cannot support, a tokenizer or a step, is refused before anything runs."""

import json

import pytest
from command_line import Done, scaleproof

from scaleproof.ground.campaign.corpora import Corpus
from scaleproof.ground.errors import UserError
from scaleproof.measure.corpus import check
from scaleproof.measure.corpus.check import check_corpus, size_of_text, small_text

CAMPAIGN = (
    "title: x\nworkload: {{model: gpt2-tiny, corpus: mine, tokenizer: {}, seq_len: 16}}\nwork: {{global_batch: 2}}\n"
)


@pytest.fixture
def validate(tmp_path):
    """Validates a campaign over a text with this tokenizer; gives what was answered."""
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "config/corpora.yaml").write_text("mine: {source: text, files: [text.txt], document: line}\n")

    def with_tokenizer(text: str, tokenizer: str) -> Done:
        (tmp_path / "text.txt").write_text(f"{text}\n{text}")
        path = tmp_path / "config/campaigns/mine.yaml"
        path.write_text(CAMPAIGN.format(tokenizer))
        return scaleproof("campaign", "validate", path, cwd=tmp_path)

    return with_tokenizer


def test_a_tokenizer_that_is_too_large_for_a_small_text_is_refused(validate, tmp_path):
    text = "the quick brown fox jumps over the lazy dog. " * 40
    refused = validate(text, "bpe-2048")
    assert refused.returncode == 2
    assert "mine.yaml, line 2: workload.tokenizer bpe-2048: the corpus supports at most bpe-" in refused.stderr
    checked = scaleproof("corpus", "check", "mine", cwd=tmp_path)
    assert "mine: valid; a small text, on which tokenizers up to bpe-" in checked.stdout
    assert "valid" in validate(text, "bpe-260").stdout
    assert "valid" in validate(text, "bytes").stdout


def test_a_monotonous_text_of_a_megabyte_is_refused_too(validate, tmp_path):
    assert "bpe-2048: the corpus supports at most bpe-259 " in validate("ab " * 200_000, "bpe-2048").stderr
    checked = scaleproof("corpus", "check", "mine", cwd=tmp_path)
    assert "mine: valid; a small text, on which tokenizers up to bpe-259 can be trained" in checked.stdout


def test_a_text_that_takes_long_to_learn_from_is_left_to_the_workflow(validate):
    assert "valid" in validate("ab " * 1_000_000, "bpe-2048").stdout
    assert "valid" in validate("ab" * 2_000, "bpe-2048").stdout


def test_a_text_with_fewer_samples_than_a_step_takes_is_refused(validate, tmp_path):
    """By its bytes at first, by its tokens once they are there."""
    assert "valid" in validate("x" * 32, "bytes").stdout  # a document of 32 bytes and an end; the other is held out
    too_few = "mine.yaml, line 2: cell ddp-n1x1: the corpus has {} training samples of this seq_len, fewer than"
    assert too_few.format("at most 1") in validate("x" * 31, "bytes").stderr
    assert too_few.format("at most 1") in validate("x" * 31, "bpe-2048").stderr  # no tokenizer helps
    tokens = tmp_path / "results/corpora/mine/bytes"
    tokens.mkdir(parents=True)
    train = {"file": "train.bin", "bytes": 64, "tokens": 32}
    (tokens / "tokens.json").write_text(json.dumps({"vocab_size": 257, "dtype": "uint16", "train": train}))
    assert too_few.format(1) in validate("x" * 32, "bytes").stderr
    train["tokens"] = 33
    (tokens / "tokens.json").write_text(json.dumps({"vocab_size": 257, "dtype": "uint16", "train": train}))
    assert "valid" in validate("x" * 12, "bytes").stdout


def test_a_text_of_one_document_is_refused(validate, tmp_path):
    validate("x" * 31, "bytes")
    (tmp_path / "text.txt").write_text("x" * 64)
    checked = scaleproof("corpus", "check", "mine", cwd=tmp_path)
    assert "mine.files: text.txt has one document, which cannot be split" in checked.stderr


def test_a_fraction_that_leaves_nothing_to_train_with_is_refused(tmp_path):
    (tmp_path / "text.txt").write_text("a line\n" * 60)
    lines = Corpus(source="text", files=[str(tmp_path / "text.txt")], document="line", validation_fraction=0.9)
    documents, _ = small_text("mine", lines)
    assert size_of_text(documents, lines.validation_fraction) == {"documents": 6, "tokens": 6 * 7}
    with pytest.raises(UserError, match=r"text.txt: validation_fraction 0.9999 of 60 documents leaves none to train"):
        small_text("mine", lines.model_copy(update={"validation_fraction": 0.9999}))
    (tmp_path / "text.txt").write_text("a line\n")
    with pytest.raises(UserError, match=r"split into train and validation$"):
        small_text("mine", lines)


def test_a_byte_order_mark_is_no_text_and_empty_documents_are_counted(tmp_path):
    (tmp_path / "bom.txt").write_bytes("\ufefffirst\n\nsecond\n".encode())
    documents, empty = small_text(
        "mine", Corpus(source="text", files=[str(tmp_path / "bom.txt")], document="paragraph")
    )
    assert (documents[0].strip(), empty) == ("first", 0)

    rows = ['{"text": "first"}', '{"text": null}', '{"text": "second"}', '{"text": null}']
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    documents, empty = small_text("mine", Corpus(source="jsonl", files=[str(tmp_path / "a.jsonl")]))
    assert (documents, empty) == (["first", "second"], 2)


def test_a_text_of_blanks_is_named(tmp_path):
    files = [str(tmp_path / name) for name in ("a.txt", "b.txt", "c.txt")]
    for file, text in zip(files, ("first", " \n", "second"), strict=True):
        (tmp_path / file).write_text(text)
    assert check_corpus("mine", Corpus(source="text", files=files)) == [
        f"{files[1]}: nothing but blanks; it is left out"
    ]
    with pytest.raises(UserError, match=r"mine.files: nothing but blanks in .*b\.txt"):
        check_corpus("mine", Corpus(source="text", files=files[1:2]))
    with pytest.raises(UserError, match=r"of which \S*b\.txt has no text, has one document, which cannot be split"):
        small_text("mine", Corpus(source="text", files=files[:2]))
    assert small_text("mine", Corpus(source="text", files=files)) == (["first", "second"], 1)


@pytest.mark.parametrize("document", ["line", "paragraph"])
@pytest.mark.parametrize(
    ("text", "is_one"),
    [(" \nword\n \t\n" * 3, False), ("word " * 9, True), ("\n\n\u00a0\nword\n \n", True), ("a\n \nb", False)],
)
def test_one_document_is_refused_at_any_size(tmp_path, monkeypatch, document, text, is_one):
    monkeypatch.setattr(check, "SMALL_TEXT", 3)
    monkeypatch.setattr(check, "PART", 7)
    (tmp_path / "a.txt").write_text(text)
    corpus = Corpus(source="text", files=[str(tmp_path / "a.txt")], document=document)
    if is_one:
        with pytest.raises(
            UserError, match=r"a.txt has one document, which cannot be split into train and validation$"
        ):
            small_text("mine", corpus)
    else:
        assert small_text("mine", corpus) is None


def test_a_text_of_blanks_of_any_kind_is_empty(tmp_path):
    (tmp_path / "a.txt").write_text(" \t\n\u00a0\n")
    with pytest.raises(UserError, match=r"mine.files: nothing but blanks in .*a\.txt"):
        check_corpus("mine", Corpus(source="text", files=[str(tmp_path / "a.txt")]))
