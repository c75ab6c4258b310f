"""`--results` with the path of a folder that Snakemake names otherwise, or that is not its own."""

import argparse
from pathlib import Path

import pytest
from command_line import scaleproof

from scaleproof.cli.values import results_folder


def test_an_absolute_path_below_the_working_folder_is_as_snakemake_names_it(tmp_path, monkeypatch):
    (tmp_path / "here/results").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    assert results_folder(str(tmp_path / "here/results")) == Path("results")
    assert results_folder(str(tmp_path)) == tmp_path
    with pytest.raises(argparse.ArgumentTypeError):
        results_folder(str(tmp_path / "here/other"))


def test_runs_of_another_clone_are_kept_there(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "here").mkdir()
    done = scaleproof("keep", "tiny.yaml", "--results", "../results", cwd=tmp_path / "here")
    assert done.returncode == 2
    reason = "snakemake makes results below its own folder; first: cd .."
    assert done.stderr == f"scaleproof: --results ../results: {reason}\n"
