"""Snakemake, started by a command of ours."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from scaleproof.driver import snakemake_view
from scaleproof.ground.errors import UserError


def test_a_stage_that_fails_has_its_own_words(tmp_path, monkeypatch):
    log = tmp_path / "fetch.log"
    log.write_text("thrown while requesting\nscaleproof: a.zst could not be downloaded:\n  the connection failed\n")
    where = f"Error in rule corpus_fetch:\n    log: {log} (check log file(s) for error details)\n    shell: ..."
    failed = SimpleNamespace(returncode=1, stdout="Using profile\n", stderr=f"    log: {tmp_path}\n{where}\n")
    monkeypatch.setattr(snakemake_view, "_snakemake", lambda *_: failed)
    mine = Path("config/campaigns/mine.yaml")
    with pytest.raises(UserError) as error:
        snakemake_view.run_snakemake(mine, [])
    assert str(error.value) == f"{mine}: a.zst could not be downloaded:\n  the connection failed\n  (log: {log})"
    failed.stderr = "MissingInputException"
    with pytest.raises(UserError, match=r"exit code 1:\nUsing profile\nMissingInputException$"):
        snakemake_view.run_snakemake(mine, [])
    failed.stderr = "LockException:\nError: Directory cannot be locked. ..."
    with pytest.raises(UserError, match=r"was killed: then type snakemake -s \S+/Snakefile --unlock$"):
        snakemake_view.run_snakemake(mine, [])
