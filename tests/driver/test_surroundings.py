"""What is refused before Snakemake looks for anything to do."""

import pytest

from scaleproof.driver.surroundings import check_start
from scaleproof.ground.errors import UserError


def test_no_core_and_a_file_in_place_of_results_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "config/campaigns/mine.yaml").touch()
    (tmp_path / "results/mine").mkdir(parents=True)
    for cores in (None, 1, 64):
        check_start(cores)
    with pytest.raises(UserError, match="--cores 0 starts nothing"):
        check_start(0)
    (tmp_path / "results/mine").rmdir()
    (tmp_path / "results/mine").touch()
    with pytest.raises(UserError, match="results/mine is a file"):
        check_start(1)
