"""What Snakemake's own tools say of the workflow, and its campaign for CI."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml


def test_lint_has_nothing_to_say(built):
    done = built.snakemake("--lint")
    assert done.returncode == 0, done.stderr
    assert "Congratulations" in done.stdout + done.stderr


def test_files_are_formatted_by_snakefmt(repository):
    pytest.importorskip("snakefmt")
    words = [sys.executable, "-m", "snakefmt", "--check", "Snakefile", "workflow"]
    done = subprocess.run(words, cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_campaign_for_ci_comes_to_its_report(make_copy, repository):
    copy = make_copy()
    for path in (repository / ".test").rglob("*"):
        if path.is_file() and "results" not in path.parts and ".snakemake" not in path.parts:
            place = copy.root / path.relative_to(repository)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
    copy.build("--directory", ".test", "results/test/report.html")
    assert (copy.root / ".test/results/test/charts/throughput.svg").is_file()


def test_the_catalogue_knows_how_it_is_used(repository):
    entry = yaml.safe_load(Path(repository, ".snakemake-workflow-catalog.yml").read_text())
    assert set(entry["usage"]) >= {"software-stack-deployment", "report"}
    assert Path(repository, "config/README.md").is_file()
    assert Path(repository, "workflow/Snakefile").is_file()
