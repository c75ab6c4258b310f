"""`scaleproof init`: the folder that it makes is one that Snakemake plans."""

import subprocess
from pathlib import Path

import pytest

from scaleproof.driver.new_project import new_project
from scaleproof.ground.errors import UserError


def test_snakemake_plans_the_demo_in_a_new_project(tmp_path):
    names = new_project(tmp_path / "bench")
    assert {"Snakefile", "config/campaigns/demo.yaml", "profiles/slurm/profile.v9+.yaml"} <= set(names)
    command = ["snakemake", "--cores", "2", "--dry-run"]
    done = subprocess.run(command, cwd=tmp_path / "bench", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Using workflow specific profile profiles/default" in done.stderr
    assert "results/demo/report.html" in done.stdout + done.stderr


def test_the_profile_for_a_cluster_is_found_by_its_name(tmp_path):
    new_project(tmp_path)
    assert (tmp_path / "slurm/profile.v9+.yaml").is_file()


def test_git_ignores_results_but_published_ones(tmp_path):
    new_project(tmp_path)
    assert (tmp_path / ".gitignore").read_text().splitlines() == ["/.snakemake/", "/results/*", "!/results/published/"]


def test_the_workflow_is_included_with_what_it_does_at_start_and_end(tmp_path):
    """Of a module, Snakemake would leave out onstart, onsuccess and onerror."""
    new_project(tmp_path)
    text = (tmp_path / "Snakefile").read_text()
    assert "include: workflow_file()" in text
    assert "module" not in text


def test_a_file_that_is_there_is_not_overwritten(tmp_path):
    (tmp_path / "Snakefile").write_text("mine")
    with pytest.raises(UserError, match="has Snakefile already; nothing was written"):
        new_project(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["Snakefile"]


@pytest.mark.parametrize("place", ["", "demo/"])
def test_no_project_is_made_among_results(tmp_path, place):
    (tmp_path / place / "runs/ddp-n1x2/rep1").mkdir(parents=True)
    with pytest.raises(UserError, match="has the results of a campaign; give a new folder"):
        new_project(tmp_path)
    assert not (tmp_path / "Snakefile").exists()


def test_no_project_is_made_in_the_root_of_the_file_system():
    with pytest.raises(UserError, match="/ is the root of the file system; give a new folder"):
        new_project(Path("/"))


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no /proc")
def test_no_project_is_made_where_the_system_keeps_no_files():
    with pytest.raises(UserError, match="is of the system, which keeps no files there; give another"):
        new_project(Path("/proc/self"))
