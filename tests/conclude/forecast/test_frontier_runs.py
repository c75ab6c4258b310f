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


def test_a_search_for_gpus_where_none_is_says_so_in_its_run(stage, tmp_path, monkeypatch):
    monkeypatch.setattr("scaleproof.measure.machine.gpus.cuda_devices", list)
    text = CAMPAIGN.replace("device: cpu", "device: cuda").replace("frontier: {limit_gb: 4}\n", "")
    (tmp_path / "trials.yaml").write_text(text)
    assert stage(lambda micro: False) == (1, [])
    reason = json.loads((tmp_path / "frontier/frontier.json").read_text())["reason"]
    assert reason == "ddp-n1x1 is for GPUs, and none is visible here; make its trials where the GPUs are"


def test_a_limit_below_any_process_says_what_one_takes(monkeypatch, tmp_path, tokens, capsys):
    (tmp_path / "trials.yaml").write_text(
        CAMPAIGN.replace("micro_batch: largest", "micro_batch: 32").replace("64, s", "derive, s")
    )

    def trial(cell, campaign, tokens, out, settings, time_limit):
        return None if settings["limit_bytes"] == 1e6 else {"nbytes": 430e6, "base": 0, "seconds": 1.0, "retries": 0}

    monkeypatch.setattr(frontier, "_trial_figures", trial)
    (tmp_path / "results/corpora/python-docs").mkdir(parents=True)
    (tmp_path / "results/corpora/python-docs/bpe-512").symlink_to(tokens)
    words = [
        "frontier",
        str(tmp_path / "trials.yaml"),
        "ddp-n1x1",
        "--limit",
        "1MB",
        "--results",
        str(tmp_path / "results"),
    ]
    args = parser().parse_args(words)
    args.run(args)
    assert "not even the smallest micro-batch fits into 1 MB: with it a process takes 430 MB" in capsys.readouterr().out
