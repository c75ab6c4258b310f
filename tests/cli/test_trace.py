"""A trace that was not taken: the command says so by its exit code, the stage leaves it to the campaign's report."""

import pytest

from scaleproof.cli.commands import parser

CAMPAIGN = """\
title: no trace
workload: {model: {layers: 1, width: 64, heads: 2, context: 64}, seq_len: 32, tokenizer: bpe-512}
work: {micro_batch: 2, global_batch: derive, steps: 2}
execution: {device: cuda, strategy: ddp}
"""


@pytest.fixture
def called(monkeypatch, tmp_path, tokens):
    """Call a command on a machine without GPUs; its exit code."""
    monkeypatch.setattr("scaleproof.measure.trace.capture.capture.cuda_devices", list)
    (tmp_path / "nogpu.yaml").write_text(CAMPAIGN)
    place = ["--out", str(tmp_path / "out")]
    words = {"capture": [str(tmp_path / "nogpu.yaml"), "ddp-n1x1", "--tokens", str(tokens), *place]}
    words |= {"summary": [str(tmp_path / "out")]}

    def call(*command):
        args = parser().parse_args([*command, *words[command[-1].removeprefix("trace_")]])
        try:
            args.run(args)
        except SystemExit as ended:
            return ended.code
        return 0

    return call


def test_the_commands_fail_where_there_is_no_trace(called, capsys):
    assert called("trace", "capture") == 1
    assert "ddp-n1x1: not_applicable: " in capsys.readouterr().err
    assert called("trace", "summary") == 1
    assert "There is no trace: " in capsys.readouterr().out


def test_the_stages_publish_that_there_is_none(called, tmp_path):
    assert called("stage", "trace_capture") == 0
    assert called("stage", "trace_summary") == 0
    assert (tmp_path / "out/profile_summary.json").is_file()
