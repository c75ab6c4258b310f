"""`campaign show`: what will run, before anything runs."""

from pathlib import Path

from scalebench.campaign.dag import Study
from scalebench.report.preview import show


def test_show_lists_cells_batches_tokens_and_processes(repository, monkeypatch, tmp_path):
    monkeypatch.chdir(repository)
    path = Path(tmp_path / "mine.yaml")
    path.write_text("title: Which?\nwork: {global_batch: 16, steps: 10}\nvary: {geometry: [1x1, 1x4]}\nrepeats: 2\n")
    text = show(Study(path))
    line = next(line for line in text.splitlines() if line.startswith("ddp-n1x4"))
    assert line.split() == ["ddp-n1x4", *["16", "=", "4", "x", "1", "x", "4"], "2,048", "10", "10", "20,480", "4"]
    assert text.startswith("Which?")
    assert "2 cells x 2 repeats = 4 runs, 81,920 timed tokens" in text
