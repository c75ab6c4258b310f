"""A tokenizer that a small text of one's own cannot support is refused before anything runs."""

import pytest
from command_line import Done, scaleproof

CAMPAIGN = (
    "title: x\nworkload: {{model: gpt2-tiny, corpus: mine, tokenizer: {}, seq_len: 16}}\nwork: {{global_batch: 2}}\n"
)


@pytest.fixture
def validate(tmp_path):
    """Validates a campaign over a text with this tokenizer; gives what was answered."""
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "config/corpora.yaml").write_text("mine: {source: text, files: [text.txt]}\n")

    def with_tokenizer(text: str, tokenizer: str) -> Done:
        (tmp_path / "text.txt").write_text(text)
        path = tmp_path / "config/campaigns/mine.yaml"
        path.write_text(CAMPAIGN.format(tokenizer))
        return scaleproof("campaign", "validate", path, cwd=tmp_path)

    return with_tokenizer


def test_a_tokenizer_that_is_too_large_for_a_small_text_is_refused(validate, tmp_path):
    text = "the quick brown fox jumps over the lazy dog. " * 40
    refused = validate(text, "bpe-2048")
    assert refused.returncode == 2
    assert "mine.yaml: workload.tokenizer bpe-2048: the corpus supports at most bpe-" in refused.stderr
    checked = scaleproof("corpus", "check", "mine", cwd=tmp_path)
    assert "mine: valid; a small text, on which tokenizers up to bpe-" in checked.stdout
    assert "valid" in validate(text, "bpe-260").stdout
    assert "valid" in validate(text, "bytes").stdout


def test_a_text_that_takes_long_to_learn_from_is_left_to_the_workflow(validate):
    assert "valid" in validate("ab " * 200_000, "bpe-2048").stdout
    assert "valid" in validate("ab" * 2_000, "bpe-2048").stdout
