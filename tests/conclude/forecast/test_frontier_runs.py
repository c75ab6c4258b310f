"""Trials of a memory frontier that fail by another fault than memory: never an answer about memory."""

import json

import pytest

from scaleproof.cli.commands import parser
from scaleproof.conclude.forecast import frontier
from scaleproof.conclude.forecast.frontier import TrialFailed

CAMPAIGN = """\
title: trials
workload: {model: {layers: 1, width: 64, heads: 2, context: 64}, seq_len: 32, tokenizer: bpe-512}
work: {micro_batch: largest, global_batch: 64, steps: 2}
execution: {device: cpu, strategy: ddp}
frontier: {limit_gb: 4}
"""


@pytest.fixture
def stage(monkeypatch, tmp_path, tokens):
    """`scaleproof stage frontier` with trials that fail where `fails` says so; the micro-batch, and all that ran."""
    (tmp_path / "trials.yaml").write_text(CAMPAIGN)
    out = tmp_path / "frontier/frontier.json"

    def run(fails):
        tried = []

        def trial(cell, *_):
            tried.append(cell.batch.micro)
            if fails(cell.batch.micro):
                raise TrialFailed("the trial failed (node_fail: a node was lost)")
            return {"nbytes": 1e6 * cell.batch.micro, "base": 1e5, "seconds": 1.0, "retries": 0}

        monkeypatch.setattr(frontier, "_trial_figures", trial)
        words = ["stage", "frontier", str(tmp_path / "trials.yaml"), "ddp-n1x1", "--tokens", str(tokens)]
        args = parser().parse_args([*words, "--out", str(out)])
        args.run(args)
        return json.loads(out.read_text())["micro_batch"], tried

    return run


def test_a_trial_that_fails_by_chance_is_no_answer(stage, tmp_path):
    """The smallest micro-batch would be measured for good, under the name of the largest."""
    with pytest.raises(TrialFailed, match="a node was lost"):
        stage(lambda micro: micro > 1)
    assert not (tmp_path / "frontier/frontier.json").exists()


def test_a_cell_that_runs_at_no_micro_batch_says_so_in_its_run(stage, tmp_path):
    micro_batch, tried = stage(lambda micro: True)
    assert (micro_batch, tried[-1]) == (1, 1)
    assert "a node was lost" in json.loads((tmp_path / "frontier/frontier.json").read_text())["reason"]


def test_trials_that_work_are_an_answer(stage):
    assert stage(lambda micro: False)[0] == 64
