"""Set-up that several rooms' tests share."""

import gc
import os
import random
import shutil
import signal
from pathlib import Path

import ag_news_like
import pytest

REPOSITORY = Path(__file__).parents[1]
os.environ["SCALEPROOF_CACHE"] = ""  # no command of a test measures how fast this machine is
os.environ.setdefault("OMP_NUM_THREADS", "1")  # two halves run side by side: threads that wait for others spin
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a script; what tests start is interrupted
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What thousands of tests are made of is there to the end: nobody looks through it, here or in a forked process."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """A few hundred documents of made-up prose, the same in every session."""
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(600)]
    weights = [1 / (i + 1) for i in range(len(words))]
    return [" ".join(chance.choices(words, weights, k=chance.randint(20, 200))) + "." for _ in range(300)]


@pytest.fixture(scope="session")
def tokens(tmp_path_factory: pytest.TempPathFactory, sentences: list[str]) -> Path:
    """A tokenised corpus: the folder of train.bin, val.bin and tokens.json."""
    from scaleproof.ground.campaign.corpora import Corpus
    from scaleproof.measure.corpus import documents, tokenise, tokenizer

    root = tmp_path_factory.mktemp("corpora")
    (root / "prose.txt").write_text("\n".join(sentences))
    corpus = Corpus(source="text", files=[str(root / "prose.txt")], document="line")
    documents.gather_documents("prose", corpus, root)
    folder = root / "bpe-512"
    folder.mkdir()
    tokenizer.train_tokenizer("bpe-512", iter(sentences), folder / "tokenizer.json")
    tokenise.tokenise_corpus(root, folder / "tokenizer.json", folder)
    return folder


@pytest.fixture(scope="session")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tokenised corpus with labels, in the form of AG News: the folder of its files."""
    from scaleproof.ground.campaign.corpora import Corpus
    from scaleproof.measure.corpus import documents, encode, tokenise, tokenizer

    root = tmp_path_factory.mktemp("labelled")
    ag_news_like.write_csv(root / "news.csv", ag_news_like.rows())
    keys = {"columns": ["label", "title", "description"], "field": ["title", "description"], "label": "label"}
    corpus = Corpus(source="csv", files=[str(root / "news.csv")], validation_fraction=0.25, **keys)
    documents.gather_documents("news", corpus, root)
    folder = root / "bpe-512"
    folder.mkdir()
    tokenizer.train_tokenizer("bpe-512", encode.read_documents(root / "documents.parquet"), folder / "tokenizer.json")
    tokenise.tokenise_corpus(root, folder / "tokenizer.json", folder)
    return folder


@pytest.fixture(scope="session")
def chromium() -> str:
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if not path:
        pytest.skip("chromium is not installed (tests/install-system-packages installs it as root)")
    return path
