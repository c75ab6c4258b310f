"""What is refused before Snakemake looks for anything to do."""

import pytest

from scaleproof.driver.surroundings import check_start
from scaleproof.ground.errors import UserError


def test_no_core_and_a_file_in_place_of_results_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "config/campaigns/mine.yaml").touch()
    (tmp_path / "results/mine").mkdir(parents=True)
    sound = ["snakemake", "--profile", "mine", "2", "results/mine/report.html", "results/other", "all", "mine.txt"]
    for cores in (None, 1, 64):
        check_start(cores, sound)
    with pytest.raises(UserError, match="--cores 0 starts nothing"):
        check_start(0, sound)
    for target in ("results/mine", "results/mine/", "mine", "config/campaigns/mine.yaml", "results/Mine/cells.csv"):
        with pytest.raises(UserError, match=r'Did you mean "results/mine/report.html"\?'):
            check_start(2, ["snakemake", "--cores", "2", target])
    (tmp_path / "results/mine").rmdir()
    (tmp_path / "results/mine").touch()
    with pytest.raises(UserError, match="results/mine is a file"):
        check_start(1, sound)
