"""What a rehearsal leaves behind that Snakemake refuses."""

from pathlib import Path

import pytest

from scaleproof.driver import rehearse
from scaleproof.ground.errors import UserError


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_rehearsal_that_has_not_begun_leaves_no_campaign(tmp_path, monkeypatch, has_begun):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("title: x\nworkload: {command: ls, figures: whole}\n")
    file = Path("config/campaigns/rehearsal-mine.yaml")

    def refuse(campaign, targets, options):
        assert file.is_file()
        if has_begun:
            targets[0].parent.mkdir(parents=True)
        raise UserError("snakemake ended")

    monkeypatch.setattr(rehearse, "run_snakemake", refuse)
    with pytest.raises(UserError, match="snakemake ended"):
        rehearse.run_rehearsal(Path("mine.yaml"), rehearse.HERE, without_gpu=True)
    assert file.exists() == has_begun
