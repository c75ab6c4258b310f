"""Results whose runs are gone are made again, whatever became of their report. The real Snakemake decides."""

import re
import shutil

import pytest

REPORT = "results/tiny/report.html"


@pytest.mark.fault(
    "runs/ is deleted and the job of the report fails", "`scaleproof stale` says how they are made again"
)
def test_runs_are_made_again_after_a_report_that_failed(built):
    """Snakemake removes the outputs of a job before it runs it: the list of what the report was made from is gone."""
    results = built.root / "results/tiny"
    shutil.rmtree(results / "runs")
    for name in ("report.html", "manifest.json"):
        (results / name).unlink()
    stale = built.command("scaleproof", "stale").stdout  # of all campaigns with results
    assert "2 runs (results/tiny/runs/ddp-n1x1/rep1, ...) are no longer complete" in stale
    built.build(*re.search(r"missing again: snakemake --cores 2 (.+)", stale)[1].split())
    assert (results / "runs/ddp-n1x2/rep1/training_metrics.json").is_file()
    assert built.planned(REPORT) == {}
