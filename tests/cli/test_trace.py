"""A trace that was not taken: the command says so by its exit code, the stage leaves it to the campaign's report."""

import json

import pytest
from command_line import scaleproof

from scaleproof.cli.commands import parser
from scaleproof.ground.errors import UserError

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
        try:
            args = parser().parse_args([*command, *words[command[-1].removeprefix("trace_")]])
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


def test_no_trace_is_begun_that_would_load_another_torch(called, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torch.py").touch()
    with pytest.raises(UserError, match=r"torch.py is imported by all ranks in place of the module torch: rename it"):
        called("trace", "capture")
    assert not (tmp_path / "out").exists()


def test_the_stages_publish_that_there_is_none(called, tmp_path):
    assert called("stage", "trace_capture") == 0
    assert called("stage", "trace_summary") == 0
    assert (tmp_path / "out/profile_summary.json").is_file()


@pytest.mark.parametrize(("file", "code"), [("training_metrics.json", 2), ("capture.json", 1), ("capture.log", 1)])
def test_a_trace_replaces_a_trace_alone(called, tmp_path, capsys, file, code):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / file).write_text("{}")
    assert called("trace", "capture") == code
    assert ("is not empty; give a new folder" in capsys.readouterr().err) == (code == 2)


def test_a_trace_is_not_compared_with_itself(tmp_path):
    events = [
        {
            "ph": "X",
            "cat": "user_annotation",
            "name": f"ProfilerStep#{k}",
            "pid": 0,
            "tid": 1,
            "ts": 1000 * k,
            "dur": 900,
        }
        for k in range(4)
    ]
    events += [
        {
            "ph": "X",
            "cat": "kernel",
            "name": "gemm",
            "pid": 0,
            "tid": 7,
            "ts": 1000 * k + 50,
            "dur": 600,
            "args": {"device": 0, "stream": 7},
        }
        for k in range(4)
    ]
    for name in ("a.json", "copy.json"):
        (tmp_path / name).write_text(json.dumps({"traceEvents": events, "distributedInfo": {"rank": 0}}))
    done = scaleproof("trace", "diff", "a.json", "copy.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "a.json and copy.json are the same trace, or copies of it; compare two" in done.stderr


def test_a_capture_below_a_folder_is_named(tmp_path):
    cell = tmp_path / "results/demo/traces/ddp-n1x2"
    cell.mkdir(parents=True)
    (cell / "capture.json").touch()
    (tmp_path / "results/demo/cells.json").write_text('{"cells": []}')
    for words in (("summary", "results/demo"), ("diff", "results/demo", "x"), ("diff", "results", "x")):
        assert 'Did you mean "results/demo/traces/ddp-n1x2"?' in scaleproof("trace", *words, cwd=tmp_path).stderr
    (cell / "timeline.csv").write_text("step,rank\n")
    done = scaleproof("trace", "summary", cell / "timeline.csv", cwd=tmp_path)
    assert "timeline.csv is a part of a capture; give its folder, " in done.stderr


def test_a_trace_that_cannot_be_taken_leaves_no_log_in_the_results(repository, tmp_path):
    words = ("trace", "capture", "config/campaigns/demo.yaml", "ddp-n1x2", "--tokens", tmp_path / "nowhere")
    out = ("--out", tmp_path / "out")
    done = scaleproof(*words, *out, cwd=repository)
    assert done.returncode == 2
    assert "tokens.json: no such file; --tokens is a folder such as results/corpora/python-docs/" in done.stderr
    assert not (tmp_path / "out").exists()


def test_options_of_a_profilers_files_are_not_dropped(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "capture.json").write_text("{}")
    done = scaleproof("trace", "diff", "a", "b", "--steps", "3", "--ranks", "2", cwd=tmp_path)
    assert done.returncode == 2
    assert "--ranks, --steps: for a profiler's files alone; a and b are captures" in done.stderr
    done = scaleproof("trace", "summary", "a", "--steps", "3", cwd=tmp_path)
    assert "--steps: for a profiler's files alone; a is a capture, which says them itself" in done.stderr
