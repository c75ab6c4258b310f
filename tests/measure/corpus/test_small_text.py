"""A tokenizer that a small text of one's own cannot support is refused before anything runs."""

from argparse import Namespace

import pytest

from scaleproof.cli.prepare import campaign_validate, corpus_check
from scaleproof.ground.errors import UserError

CAMPAIGN = (
    "title: x\nworkload: {{model: gpt2-tiny, corpus: mine, tokenizer: {}, seq_len: 16}}\nwork: {{global_batch: 2}}\n"
)


@pytest.fixture
def validate(tmp_path, monkeypatch, capsys):
    """Validates a campaign over a text with this tokenizer; gives what is printed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "config/corpora.yaml").write_text("mine: {source: text, files: [text.txt]}\n")

    def with_tokenizer(text: str, tokenizer: str) -> str:
        (tmp_path / "text.txt").write_text(text)
        path = tmp_path / "config/campaigns/mine.yaml"
        path.write_text(CAMPAIGN.format(tokenizer))
        campaign_validate(Namespace(campaign=path, results=tmp_path / "results"))
        return capsys.readouterr().out

    return with_tokenizer


def test_a_tokenizer_that_is_too_large_for_a_small_text_is_refused(validate, capsys):
    text = "the quick brown fox jumps over the lazy dog. " * 40
    with pytest.raises(UserError, match=r"mine\.yaml: workload\.tokenizer bpe-2048: the corpus supports at most bpe-"):
        validate(text, "bpe-2048")
    corpus_check(Namespace(corpus="mine"))
    assert "mine: valid; a small text, on which tokenizers up to bpe-" in capsys.readouterr().out
    assert "valid" in validate(text, "bpe-260")
    assert "valid" in validate(text, "bytes")


def test_a_text_that_takes_long_to_learn_from_is_left_to_the_workflow(validate):
    assert "valid" in validate("ab " * 200_000, "bpe-2048")
    assert "valid" in validate("ab" * 2_000, "bpe-2048")
