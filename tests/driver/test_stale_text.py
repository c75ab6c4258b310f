"""What `scaleproof stale` says of files that the report was not made from."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from scaleproof.driver.stale_text import _file_texts

COMPARISON = "Restore compare/ab, or make again: "
PAIRS = "snakemake --cores 2 --forcerun results/demo/compare/ab/pairs.json -- results/demo/report.html"
CAPTURE = "snakemake --cores 2 --forcerun results/demo/traces/c/capture.json -- results/demo/report.html"


@pytest.mark.parametrize(
    ("file", "cures"),
    [
        (
            "compare/ab/pair3/b/steps.csv",
            [f"{COMPARISON}rm -r results/demo/compare/ab/pair3 && "],
        ),
        ("compare/ab/pair4/b/steps.csv", [COMPARISON]),  # the whole pair is gone
        ("traces/c/benchmark.tsv", ["Restore traces/c/benchmark.tsv, or make again: "]),  # which no rule makes alone
        ("cells.csv", []),
    ],
)
def test_what_was_measured_beside_the_runs_has_the_cure_that_verify_prints(tmp_path, monkeypatch, file, cures):
    monkeypatch.chdir(tmp_path)
    Path("results/demo/compare/ab/pair3/a").mkdir(parents=True)
    files = SimpleNamespace(tokens=[], newer=[], changed=[file], unplanned=[])
    lines = _file_texts(SimpleNamespace(loaded=SimpleNamespace(name="demo"), results=Path("results"), files=files))
    _, verify, *advice = lines
    assert verify.endswith("scaleproof verify results/demo")
    command = PAIRS if file.startswith("compare") else CAPTURE
    assert advice == [f"  {cure}{command}" for cure in cures]
