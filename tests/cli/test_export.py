"""The published demo for other programs: gauges of Prometheus, and Parquet."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from command_line import scaleproof

from scaleproof import to_frame
from scaleproof.conclude.report.read_results import read_inputs
from scaleproof.conclude.report.trackers import prometheus

LINE = re.compile(r'scaleproof_[a-z0-9_]+\{campaign="[^"\\]*",cell="[^"\\]*"\} [-+0-9.e]+')


@pytest.fixture
def demo(repository):
    return next((repository / "results/published").glob("demo_*"))


def test_every_gauge_has_help_a_type_and_the_figures_of_cells_csv(demo, tmp_path):
    out = tmp_path / "demo.prom"
    assert scaleproof("export", "prometheus", demo, out, cwd=tmp_path).returncode == 0
    text = out.read_text()
    assert text.endswith("\n")
    lines = text.splitlines()
    samples = [line for line in lines if not line.startswith("#")]
    assert all(LINE.fullmatch(line) for line in samples)
    names = [line.split("{")[0] for line in samples]
    assert {line.split()[2] for line in lines if line.startswith("# HELP")} == set(names)
    assert [line.split()[2] for line in lines if line.startswith("# TYPE")] == list(dict.fromkeys(names))
    cells = read_inputs(demo)[1].set_index("cell")
    for name in ("tokens_per_s", "tokens_per_s_low", "step_time_p50_s"):
        expected = cells.loc["ddp-n1x2", name]
        assert f'scaleproof_{name}{{campaign="demo",cell="ddp-n1x2"}} {float(expected)!r}' in samples


def test_rates_of_a_command_are_named_by_what_its_log_counts():
    cells = pd.DataFrame({"cell": ["a"], "tokens_per_s": [2.0], "samples_per_s": [None]})
    help_line, _, sample = prometheus("x", cells, "samples").splitlines()
    assert sample == 'scaleproof_samples_per_s{campaign="x",cell="a"} 2.0'
    assert help_line.startswith("# HELP scaleproof_samples_per_s all samples over all time ")
    assert help_line.endswith(" (samples/s)")


def test_what_was_not_measured_has_no_gauge():
    cells = pd.DataFrame(
        {"cell": ['a"b', "c"], "tokens_per_s": [2.0, None], "mfu": [None, None], "strategy": ["ddp"] * 2}
    )
    samples = [line for line in prometheus("x", cells).splitlines() if not line.startswith("#")]
    assert samples == [r'scaleproof_tokens_per_s{campaign="x",cell="a\"b"} 2.0']


def test_parquet_is_the_frame_of_all_runs(demo, tmp_path):
    to_frame(demo).to_parquet(tmp_path / "demo.parquet")
    frame = pd.read_parquet(tmp_path / "demo.parquet")
    assert set(frame["comparison"].dropna()) == {"accumulation"}
    assert frame["comparison"].isna().sum() == 36
    assert set(frame["unit"]) == {"tokens"}


def test_another_ending_is_refused(demo, tmp_path):
    done = scaleproof("export", "prometheus", demo, "demo.txt", cwd=tmp_path)
    assert done.returncode == 2
    assert "demo.txt must end in .prom" in done.stderr


def test_a_path_that_is_no_results_is_led_to_them(tmp_path):
    (tmp_path / "results/demo/runs").mkdir(parents=True)
    done = scaleproof("export", "prometheus", "config/campaigns/demo.yaml", "x.prom", cwd=tmp_path)
    assert done.returncode == 2
    assert 'Did you mean "results/demo"?' in done.stderr


def test_cells_that_were_edited_after_the_report_are_no_gauges(demo, tmp_path):
    edited = tmp_path / "results/demo"
    shutil.copytree(demo, edited)
    assert scaleproof("export", "prometheus", edited, "x.prom", cwd=tmp_path).returncode == 0
    cells = edited / "cells.csv"
    cells.write_text(cells.read_text().replace(",ddp,", ",fsdp,"))
    done = scaleproof("export", "prometheus", edited, "y.prom", cwd=tmp_path)
    assert (done.returncode, (tmp_path / "y.prom").exists()) == (2, False)
    assert "cells.csv is damaged (it was changed after the report was written); " in done.stderr


def of_a_newer_version(folder: Path) -> None:
    path = folder / "runs/ddp-n1x2/rep1/training_metrics.json"
    path.write_text(re.sub(r'(?<="schema_version": ")[\d.]+', "9.9", path.read_text()))


def measured_since(folder: Path) -> None:
    """A run is another one as a whole."""
    for name in ("RUN_COMPLETE.txt", "launcher_metadata.json", "steps.csv", "training_metrics.json"):
        shutil.copyfile(folder / "runs/ddp-n1x2/rep2" / name, folder / "runs/ddp-n1x2/rep1" / name)


@pytest.mark.parametrize(
    ("spoil", "cure"),
    [
        (
            lambda folder: (folder / "cells.csv").write_bytes(b""),
            r"What is derived is made again by: snakemake .* --forcerun",
        ),
        (lambda folder: (folder / "runs/ddp-n1x2/rep1/steps.csv").unlink(), r"Restore the files of runs$"),
        (lambda folder: (folder / "manifest.json").unlink(), r"What is derived is made again by: "),
        (
            lambda folder: shutil.copytree(folder / "runs/ddp-n1x2/rep1", folder / "runs/ddp-n1x2/rep1.bak"),
            r"Move out of \S+/results/demo/runs what is no run: ddp-n1x2/rep1\.bak$",
        ),
        (
            lambda folder: shutil.copytree(folder / "runs/ddp-n1x2/rep1", folder / "runs/ddp-n1x2/rep99"),
            r"Move out of \S+/results/demo/runs what is no run: ddp-n1x2/rep99$",
        ),
        (of_a_newer_version, r"Update scaleproof, and verify again$"),
        (measured_since, r"Restore the files of runs; if they were measured since the report: snakemake .*--forcerun"),
    ],
)
def test_a_failed_verification_ends_with_what_makes_the_files_again(demo, tmp_path, spoil, cure):
    """A publication says instead that it is not edited."""
    folder = tmp_path / "results/demo"
    shutil.copytree(demo, folder)
    spoil(folder)
    as_published = scaleproof("verify", folder, cwd=tmp_path)
    (folder / "campaign.yaml").unlink()
    as_results = scaleproof("verify", folder, cwd=tmp_path)
    assert (as_published.returncode, as_results.returncode) == (1, 1)
    assert re.search(cure, as_results.stdout, re.MULTILINE)
    assert not re.search(cure, as_published.stdout, re.MULTILINE)
