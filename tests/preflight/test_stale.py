"""What would be measured again is said before it is: how many runs, why, how many device hours."""

from pathlib import Path

import pytest
from synthetic import rewrite, write_run

from scalebench.campaign.code_dependencies import MEASURING, code_sha256
from scalebench.campaign.loaded import LoadedCampaign
from scalebench.preflight.stale import stale_runs, stale_text

TEXT = """title: sizes
workload: {model: gpt2-tiny, corpus: python-docs, tokenizer: bpe-2048, seq_len: 128}
work: {global_batch: 8, steps: 25}
vary: {geometry: [1x1, 1x2]}
repeats: 2
"""


@pytest.fixture
def measured(tmp_path, repository, monkeypatch) -> tuple[Path, Path]:
    """A campaign file, and the folder of its results, measured by the code of today in 36 s a run."""
    monkeypatch.chdir(repository)
    path, results = tmp_path / "sizes.yaml", tmp_path / "results"
    path.write_text(TEXT)
    for folder, cell, repeat in LoadedCampaign(path).planned(results):
        run = write_run(folder.parents[1], cell, repeat)
        rewrite(run, lambda data: data.update(code_sha256=code_sha256(*MEASURING), total_wall_time_sec=36.0))
    return path, results


def test_nothing_is_stale_after_the_runs(measured):
    answer = stale_runs(*measured)
    assert (answer.runs, answer.planned) == (0, 4)
    assert stale_text(answer) == "sizes: no finished run would be measured again"


def test_runs_of_other_code_and_another_configuration(measured):
    path, results = measured
    path.write_text(TEXT.replace("steps: 25", "steps: 26"))
    changed = stale_runs(path, results)
    assert changed.reasons == {"its configuration changed": 4}
    assert changed.device_hours == pytest.approx((2 * 36 + 2 * 2 * 36) / 3600)

    path.write_text(TEXT)
    from scalebench.record.run import read_run

    run = read_run(results / "sizes/runs/ddp-n1x2/rep1")
    rewrite(run, lambda data: data.update(code_sha256="0" * 64))
    answer = stale_runs(path, results)
    assert answer.reasons == {"code that takes part in a run changed": 1}
    assert "1 of 4 runs would be measured again (0.02 device hours)" in stale_text(answer)
    assert "snakemake --touch results/sizes/report.html" in stale_text(answer)


def test_an_added_cell_is_not_stale(measured):
    path, results = measured
    path.write_text(TEXT.replace("[1x1, 1x2]", "[1x1, 1x2, 1x4]"))
    assert stale_runs(path, results).runs == 0
