"""GPT-2's own tokenizer, plain bytes, and work that was killed."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from command_line import scaleproof
from patience import HANGS
from webserver import status

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.corpora import Corpus
from scaleproof.ground.errors import UserError
from scaleproof.measure.corpus import documents, encode, remote, tokenise, tokenizer
from scaleproof.measure.corpus.remote import Remote


def cell(**workload):
    return expand_cells(Campaign.model_validate({"title": "x", "workload": workload}))[0]


@pytest.mark.parametrize(
    ("workload", "rows"),
    [
        ({"tokenizer": "gpt2"}, 50257),
        ({"tokenizer": "gpt2", "vocab_multiple": 64}, 50304),
        ({"tokenizer": "gpt2", "vocab_multiple": 128}, 50304),
        ({"tokenizer": "gpt2", "vocab_size": 50304}, 50304),
        ({"tokenizer": "bytes"}, 257),
        ({"tokenizer": "bytes", "vocab_multiple": 64}, 320),
        ({"tokenizer": "bpe-512", "vocab_multiple": 64}, 512),
    ],
)
def test_rows_of_the_token_table(workload, rows):
    made = cell(**workload)
    assert made.vocab_size == made.config["workload"]["vocab_size"] == rows


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ({"tokenizer": "gpt2", "vocab_size": 50000}, "smaller than the 50257 entries of gpt2"),
        ({"tokenizer": "gpt2", "vocab_size": 50258, "vocab_multiple": 64}, "50258 is not a multiple of .* 64"),
    ],
)
def test_a_table_that_does_not_fit(workload, message):
    with pytest.raises(UserError, match=message):
        cell(**workload)


def merges_of(path) -> bytes:
    """A trained tokenizer as GPT-2's is published: a version, then a merge a line in printable stand-ins."""
    stands_for = {byte: char for char, byte in tokenizer._byte_of_character().items()}
    tokens = [bytes.fromhex(t) for t in json.loads(path.read_text())["tokens"]]
    lines = ["#version: 0.2"]
    for token in tokens[256:]:
        left = max(
            (t for t in tokens[: tokens.index(token)] if token.startswith(t) and token[len(t) :] in tokens), key=len
        )
        lines.append("".join(stands_for[b] for b in left) + " " + "".join(stands_for[b] for b in token[len(left) :]))
    return ("\n".join(lines) + "\n").encode()


@pytest.fixture
def published(server, tmp_path, sentences, monkeypatch):
    """A stand-in of GPT-2's vocab.bpe on the web, with its checksum where that of the real one is."""
    tokenizer.train_tokenizer("bpe-400", iter(sentences), tmp_path / "trained.json")
    content = merges_of(tmp_path / "trained.json")
    server.files["/vocab.bpe"] = content
    monkeypatch.setattr(remote, "MERGES", f"{server.url}/vocab.bpe")
    monkeypatch.setattr(remote, "MERGES_SHA256", hashlib.sha256(content).hexdigest())
    return tmp_path / "trained.json"


def test_the_tokenizer_of_gpt2_cuts_as_the_merges_say(server, published, tmp_path, policy, sentences):
    store = Remote(tmp_path / "downloads", "http://127.0.0.1:9", None, policy)
    store_first = Remote(tmp_path / "downloads", policy=policy)
    tokenizer.write_gpt2_tokenizer(store_first.fetch_gpt2_merges(), tmp_path / "gpt2.json")
    assert store.fetch_gpt2_merges() == store_first.fetch_gpt2_merges()
    assert len(server.seen) == 1, "downloaded once"
    ours, trained = tokenizer.load_encoder(tmp_path / "gpt2.json"), tokenizer.load_encoder(published)
    for text in [*sentences[:20], "ünï — 漢字 🙂\r\n\t '' 123"]:
        pieces = [trained.decode_single_token_bytes(i) for i in trained.encode_ordinary(text)]
        assert [ours.decode_single_token_bytes(i) for i in ours.encode_ordinary(text)] == pieces
    # GPT-2's ids begin with the printable characters: "!" is 0, "A" is 32.
    assert ours.encode_ordinary("!") == [0]
    assert ours.encode_ordinary("A") == [32]
    assert ours.name == "gpt2"


def test_ids_are_those_that_tiktoken_reads_from_the_same_file(server, published, tmp_path, monkeypatch):
    """tiktoken also wants the table of ids, which is made here from our tokens: it compares the two."""
    from tiktoken.load import data_gym_to_mergeable_bpe_ranks

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    (tmp_path / "vocab.bpe").write_bytes(server.files["/vocab.bpe"])
    tokenizer.write_gpt2_tokenizer(tmp_path / "vocab.bpe", tmp_path / "gpt2.json")
    tokens = [bytes.fromhex(t) for t in json.loads((tmp_path / "gpt2.json").read_text())["tokens"]]
    stands_for = {byte: char for char, byte in tokenizer._byte_of_character().items()}
    (tmp_path / "encoder.json").write_text(
        json.dumps({"".join(stands_for[b] for b in t): i for i, t in enumerate(tokens)})
    )
    ranks = data_gym_to_mergeable_bpe_ranks(str(tmp_path / "vocab.bpe"), str(tmp_path / "encoder.json"))
    assert ranks == {token: i for i, token in enumerate(tokens)}


def test_another_file_is_not_taken_for_the_one_of_gpt2(server, published, tmp_path, policy):
    server.files["/vocab.bpe"] += b"x y\n"
    with pytest.raises(UserError, match=r"(?s)vocab.bpe could not be downloaded.*sha256"):
        Remote(tmp_path / "downloads", server.url, None, policy).fetch_gpt2_merges()


def test_the_hub_has_it_too(server, published, tmp_path, policy):
    server.faults["/vocab.bpe"] = [status(404)]
    server.files[f"/{remote.MERGES_ON_HUB}"] = server.files["/vocab.bpe"]
    assert Remote(tmp_path / "downloads", server.url, None, policy).fetch_gpt2_merges().exists()


def test_the_checksum_is_the_one_that_tiktoken_pins():
    import inspect

    from tiktoken_ext import openai_public

    source = inspect.getsource(openai_public.gpt2)
    assert remote.MERGES in source
    assert remote.MERGES_SHA256 in source


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bert", 'there is no tokenizer "bert" to train; allowed: bytes, bpe-N (N: 257 or more)'),
        ("bpe-x", 'there is no tokenizer "bpe-x" to train'),
        ("bpe-", 'there is no tokenizer "bpe-" to train'),
        ("bpe-256", 'there is no tokenizer "bpe-256" to train'),
        ("", 'there is no tokenizer "" to train'),
        ("gpt2", "gpt2 is not trained on a corpus: scaleproof stage gpt2_tokenizer writes it"),
    ],
)
def test_a_tokenizer_that_cannot_be_trained_is_refused(tmp_path, name, message):
    done = scaleproof("stage", "corpus_tokenizer", name, tmp_path, "--out", tmp_path / "t.json", cwd=tmp_path)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_bytes(tmp_path):
    texts = ["ünï — 漢字 🙂", "\x00 zero <|endoftext|>", " lead"]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    documents.gather_documents("mine", Corpus(source="jsonl", files=[str(tmp_path / "in.jsonl")]), tmp_path)
    tokenizer.train_tokenizer("bytes", iter(()), tmp_path / "tokenizer.json")
    found = tokenise.tokenise_corpus(tmp_path, tmp_path / "tokenizer.json", tmp_path)
    assert (found["tokenizer"], found["vocab_size"], found["dtype"]) == ("bytes", 257, "uint16")
    ids = [np.fromfile(tmp_path / f"{split}.bin", dtype="<u2") for split in ("train", "val")]
    documents_ = [
        bytes(part[part < 256].astype(np.uint8)).decode()
        for i in ids
        for part in np.split(i, np.flatnonzero(i == 256) + 1)
    ]
    assert sorted(filter(None, documents_)) == sorted(texts)


DOCUMENTS = 1200


@pytest.fixture
def corpus(tmp_path, monkeypatch, sentences):
    """A corpus of some hundred row groups, a second's work, and its tokenizer."""
    monkeypatch.setattr(documents, "GROUP_BYTES", 60_000)
    chance = random.Random(5)
    (tmp_path / "in.txt").write_text("\n".join(" ".join(chance.choices(sentences, k=8)) for _ in range(DOCUMENTS)))
    row = Corpus(source="text", files=[str(tmp_path / "in.txt")], document="line")
    documents.gather_documents("mine", row, tmp_path)
    tokenizer.train_tokenizer("bpe-512", iter(sentences), tmp_path / "tokenizer.json")
    return tmp_path


def result(folder):
    return [(folder / name).read_bytes() for name in ("train.bin", "val.bin", "tokens.json")]


def started(corpus, out):
    """Tokenising in a process of its own, at the moment when some shards are finished."""
    code = (
        "import sys; from pathlib import Path; from scaleproof.measure.corpus.tokenise import tokenise_corpus\n"
        "root, out = map(Path, sys.argv[1:]); tokenise_corpus(root, root / 'tokenizer.json', out, processes=2)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, corpus, out], stderr=subprocess.DEVNULL)
    while len(list(out.glob("shards/*.json"))) < 4:
        assert process.poll() is None, "the work was too little to be killed in the middle"
        time.sleep(0.002)
    return process


@pytest.mark.fault("tokenising is killed", "finished shards are kept; the same bytes")
def test_killed_work_is_continued_and_gives_the_same_bytes(corpus, tmp_path, capsys, monkeypatch):
    assert len(encode.count_documents_by_group(corpus / "documents.parquet")) > 64, "several shards of several groups"
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    tokenise.tokenise_corpus(corpus, corpus / "tokenizer.json", whole, processes=1)
    process = started(corpus, cut)
    children = psutil.Process(process.pid).children()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not (cut / "train.bin").exists()
    assert psutil.wait_procs(children, timeout=HANGS)[1] == [], "nobody is left behind"
    done = sorted(int(p.stem) for p in cut.glob("shards/0*.json"))
    damaged = cut / f"shards/{done[0]:06}.train"
    damaged.write_bytes(b"\0" * damaged.stat().st_size)  # as after a power cut
    made, original = [], encode.encode_shard
    monkeypatch.setattr(encode, "encode_shard", lambda *args: made.append(args[-1].number) or original(*args))
    tokenise.tokenise_corpus(corpus, corpus / "tokenizer.json", cut, processes=1)
    shards = len(
        list(
            tokenise._cut_into_shards(
                encode.count_documents_by_group(corpus / "documents.parquet"), np.zeros(DOCUMENTS, bool)
            )
        )
    )
    assert f"{len(done) - 1} of {shards} shards are there already" in capsys.readouterr().err
    assert made == sorted({*range(shards)} - set(done[1:]))
    assert result(cut) == result(whole)
    assert not (cut / "shards").exists()


def test_shards_of_another_tokenizer_are_not_used(corpus, tmp_path, sentences):
    out = tmp_path / "out"
    process = started(corpus, out)
    process.kill()
    process.wait()
    tokenizer.train_tokenizer("bpe-300", iter(sentences), corpus / "other.json")
    found = tokenise.tokenise_corpus(corpus, corpus / "other.json", out, processes=2)
    assert found["tokenizer"] == "bpe-300"
    tokenise.tokenise_corpus(corpus, corpus / "other.json", tmp_path / "fresh", processes=1)
    assert result(out) == result(tmp_path / "fresh")


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.fault("the system kills a tokenising process", "said, with the way out")
def test_a_process_that_the_system_kills_is_said(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(encode, "encode_shard", die)
    with pytest.raises(UserError, match=r"a tokenising process was killed .*finished shards are kept"):
        tokenise.tokenise_corpus(corpus, corpus / "tokenizer.json", tmp_path / "out", processes=2)
    assert not (tmp_path / "out/train.bin").exists()
