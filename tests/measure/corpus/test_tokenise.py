"""Tokens: the right ones, in the right order, the same bytes each time."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scaleproof.ground.campaign.corpora import Corpus
from scaleproof.ground.errors import UserError
from scaleproof.measure.corpus import documents, encode, tokenise, tokenizer
from scaleproof.measure.corpus.unchanged import check_unchanged, read_unchanged


@pytest.fixture
def build(tmp_path):
    def run(texts, name="bpe-300", folder="t", groups=None, **options):
        root = tmp_path / folder
        root.mkdir(exist_ok=True)
        (root / "in.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
        documents.gather_documents("mine", Corpus(source="jsonl", files=[str(root / "in.jsonl")], **options), root)
        out = root / name
        out.mkdir(exist_ok=True)
        tokenizer.train_tokenizer(name, iter(texts), out / "tokenizer.json")
        return out, tokenise.tokenise_corpus(root, out / "tokenizer.json", out, processes=groups)

    return run


def decode(out, split):
    """Documents of a split as text, found by their end-of-text."""
    description = json.loads((out / "tokens.json").read_text())
    ids = np.fromfile(out / f"{split}.bin", dtype=description["dtype"])
    encoding = tokenizer.load_encoder(out / "tokenizer.json")
    ends = np.flatnonzero(ids == description["end_of_text"])
    assert ends[-1] == len(ids) - 1, "the last document is ended too"
    return [encoding.decode(part[:-1].tolist()) for part in np.split(ids, ends[:-1] + 1)]


def test_every_document_comes_back_in_order_in_one_split(build, sentences):
    out, found = build(sentences, validation_fraction=0.1)
    train, val = decode(out, "train"), decode(out, "val")
    assert len(val) == 30
    assert found["val"]["documents"] == 30
    assert [t for t in sentences if t in set(train)] == train
    assert [t for t in sentences if t in set(val)] == val
    assert len(train) + len(val) == len(sentences)


def test_two_builds_give_the_same_bytes_with_any_number_of_processes(build, sentences, monkeypatch):
    monkeypatch.setattr(documents, "GROUP_BYTES", 5_000)  # several groups, so that processes are started
    one, first = build(sentences, folder="a", groups=1)
    two, second = build(sentences, folder="b", groups=2)
    assert len(encode.count_documents_by_group(two.parent / "documents.parquet")) > tokenise.FEW_GROUPS
    for name in ("train.bin", "val.bin", "tokenizer.json", "tokens.json"):
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
    assert first == second


def test_a_literal_special_token_is_text(build, sentences):
    odd = "before <|endoftext|> after"
    out, found = build([odd, *sentences])
    assert odd in decode(out, "train") + decode(out, "val")
    ids = np.concatenate([np.fromfile(out / f"{s}.bin", dtype="<u2") for s in ("train", "val")])
    assert (ids == found["end_of_text"]).sum() == len(sentences) + 1


@pytest.mark.parametrize(
    "text", ["ünï — 漢字 🙂", "tabs\tand\r\nlines\n\n\n", "0123456789 ''s", "\x00 zero", " lead trail "]
)
def test_any_text_round_trips(build, sentences, text):
    out, _ = build([text, *sentences])
    assert text in decode(out, "train") + decode(out, "val")


def test_segmentation_is_that_of_the_trained_merges(build, sentences):
    """tiktoken, running the merges, cuts text as the library that learnt them does."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    out, _ = build(sentences)
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    options = {"vocab_size": 299, "initial_alphabet": alphabet, "min_frequency": 2, "show_progress": False}
    learner.train_from_iterator(sentences, trainers.BpeTrainer(**options))
    ours = tokenizer.load_encoder(out / "tokenizer.json")
    for text in sentences[:40]:
        assert len(ours.encode_ordinary(text)) == len(learner.encode(text).ids)


def test_vocabulary_and_dtype(build, sentences):
    out, found = build(sentences, name="bpe-300")
    assert found["vocab_size"] == 300
    assert found["end_of_text"] == 299
    assert found["dtype"] == "uint16"
    assert found["train"]["bytes"] == 2 * found["train"]["tokens"] == (out / "train.bin").stat().st_size


def test_documents_that_are_cut_off_or_gone_are_named_with_the_way_out(build, sentences, tmp_path):
    folder = tmp_path / "results/corpora/t"
    folder.parent.mkdir(parents=True)
    out, _ = build(sentences, folder="results/corpora/t")
    store = folder / "documents.parquet"
    for data in (b"", store.read_bytes()[:-20]):
        store.write_bytes(data)
        with pytest.raises(UserError, match=r"documents\.parquet is damaged .* rebuild it with: rm "):
            tokenise.tokenise_corpus(folder, out / "tokenizer.json", out)
        with pytest.raises(UserError, match=r"documents\.parquet is damaged"):
            list(encode.read_documents(store))
    store.unlink()
    with pytest.raises(UserError, match=r"documents\.parquet: no such file; build it with"):
        list(encode.read_documents(store))


def test_above_65536_entries_tokens_are_uint32(tmp_path, sentences):
    """No test corpus supports 65,537 merges, so the tokenizer is made by hand; the rest is the real path."""
    (tmp_path / "in.txt").write_text("\n".join(sentences))
    documents.gather_documents(
        "mine", Corpus(source="text", files=[str(tmp_path / "in.txt")], document="line"), tmp_path
    )
    pairs = [bytes([a, b]) for a in range(256) for b in range(256)]
    tokens = [bytes([b]) for b in range(256)] + pairs
    data = {
        "name": "bpe-65793",
        "pattern": tokenizer.PATTERN,
        "end_of_text": len(tokens),
        "tokens": [t.hex() for t in tokens],
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(data))
    found = tokenise.tokenise_corpus(tmp_path, tmp_path / "tokenizer.json", tmp_path)
    assert found["dtype"] == "uint32"
    assert decode(tmp_path, "train")[0] in sentences


def test_a_vocabulary_that_the_corpus_does_not_support(build, sentences):
    with pytest.raises(UserError, match=r"supports at most bpe-\d+.*allowed: bpe-257 to bpe-\d+"):
        build(sentences[:3], name="bpe-30000")


def test_the_largest_supported_vocabulary_works(build, sentences):
    with pytest.raises(UserError) as error:
        build(sentences[:3], name="bpe-30000")
    most = str(error.value).split("at most ")[1].split(" ")[0]
    assert build(sentences[:3], name=most)[1]["vocab_size"] == int(most.removeprefix("bpe-"))


def test_one_document_cannot_be_split(build, sentences):
    with pytest.raises(UserError, match=r"one document.*document: paragraph"):
        build([" ".join(sentences)], folder="one")


def test_two_documents_can(build, sentences):
    _, found = build([" ".join(sentences[:100]), " ".join(sentences[100:])], folder="two")
    assert found["train"]["documents"] == found["val"]["documents"] == 1


@pytest.mark.parametrize("label", [None, "kind"])
def test_documents_that_were_changed_after_they_were_gathered_are_refused(tmp_path, label):
    rows = [{"text": f"document {number}", "kind": str(number % 2)} for number in range(40)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = Corpus(source="jsonl", files=[str(tmp_path / "in.jsonl")], label=label)
    documents.gather_documents("mine", corpus, tmp_path)
    check_unchanged(tmp_path)  # nothing to say

    path = tmp_path / "documents.parquet"
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(1, 1), table.slice(1)]), path)  # the second in place of the first
    with pytest.raises(UserError, match=r"documents\.parquet is damaged \(its documents are not those that corpus\.js"):
        check_unchanged(tmp_path)
    with pytest.raises(UserError, match="its documents are not those"):
        tokenizer.train_tokenizer("bpe-260", read_unchanged(tmp_path), tmp_path / "tokenizer.json")
    assert not (tmp_path / "tokenizer.json").exists()
