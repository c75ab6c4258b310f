"""A whole campaign of text classification from a CSV file to its report, with real ranks."""

import json

import ag_news_like
import pandas as pd
import pytest

CAMPAIGN = """
title: Does DDP scale on a small classifier?
workload:
  task: classification
  corpus: news
  tokenizer: bpe-512
  seq_len: 48
  model: {d_model: 32, heads: 2, layers: 2, feed_forward: 64, context: 64}
work:
  global_batch: 16
  warmup_steps: 4
  steps: 60
  validation_samples: 50
  optimizer: {learning_rate: 2e-3}
execution: {start: forked}
vary:
  strategy: [ddp, zero1]
  geometry: [1x1, 1x2]
repeats: 1
"""
CORPUS = """
news:
  source: csv
  files: [news.csv]
  columns: [label, title, description]
  field: [title, description]
  label: label
  validation_fraction: 0.25
"""


@pytest.fixture(scope="module")
def classified(make_copy):
    copy = make_copy()
    ag_news_like.write_csv(copy.root / "news.csv", ag_news_like.rows())
    with (copy.root / "config/corpora.yaml").open("a") as table:
        table.write(CORPUS)
    copy.campaign("classes", CAMPAIGN)
    copy.build("results/classes/report.html")
    return copy.root / "results/classes"


def test_every_cell_was_measured_and_did_the_same_work(classified):
    cells = pd.read_csv(classified / "cells.csv").set_index("cell")
    assert sorted(cells.index) == ["ddp-n1x1", "ddp-n1x2", "zero1-n1x1", "zero1-n1x2"]
    assert (cells["n"] == 1).all()
    assert (cells["task"] == "classification").all()
    runs = pd.read_csv(classified / "runs.csv")
    assert runs["tokens"].nunique() == 1
    assert runs["tokens"][0] < 16 * 60 * 48, "padding is not counted"
    per_sample = runs["tokens"] / (16 * 60)
    assert (cells["tokens_per_s"] / cells["samples_per_s"]).tolist() == pytest.approx([per_sample[0]] * 4)


def test_it_learns_the_same_everywhere(classified):
    cells = pd.read_csv(classified / "cells.csv")
    assert cells["accuracy"].min() > 0.7
    assert cells["accuracy"].max() - cells["accuracy"].min() <= 0.04
    assert cells["perplexity"].isna().all()
    assert cells["time_to_loss_s"].notna().all()
    losses = pd.read_csv(classified / "losses.csv")
    assert losses.groupby("cell").size().tolist() == [64] * 4


def test_a_step_of_the_waterfall_is_the_step_that_was_timed(classified):
    cells = pd.read_csv(classified / "cells.csv").set_index("cell")
    entries = json.loads((classified / "waterfall.json").read_text())["cells"]
    assert entries
    for entry in entries:
        row = cells.loc[entry["cell"]]
        mean_ms = 1e3 * row["window_s"] / (row["steps"] / row["n"])
        assert entry["measured_ms"] == pytest.approx(mean_ms, rel=0.5), "tokens of padding are no time"


def test_nothing_invalid_is_found(classified):
    found = json.loads((classified / "findings.json").read_text())["findings"]
    assert [f for f in found if f["severity"] == "invalid"] == []
    assert json.loads((classified / "scaling_report.json").read_text())["status"] == "ok"


def test_the_report_speaks_of_samples_and_accuracy(classified):
    table = (classified / "tables/scaling.md").read_text()
    header = [c.strip() for c in table.splitlines()[0].strip("|").split("|")]
    assert {"samples/s", "accuracy", "val. loss", "tokens/s (95 %)"} <= set(header)
    assert "perplexity" not in header
    assert "task classification" in table
    page = (classified / "report.html").read_text()
    assert "4 classes" in page
    assert (classified / "charts/loss_seconds.svg").stat().st_size > 0
