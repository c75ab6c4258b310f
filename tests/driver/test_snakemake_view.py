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
    monkeypatch.setattr(snakemake_view, "_snakemake", lambda *_, **__: failed)
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


SLEEPING = """
import signal, sys, time
if "--unlock" in sys.argv:
    open("unlocked", "w")
else:
    signal.signal(signal.SIGINT, signal.SIG_IGN if "deaf" in sys.argv else signal.default_int_handler)
    time.sleep(60)
"""


@pytest.mark.parametrize("name", ["hears", "deaf"])
def test_what_takes_too_long_is_ended_and_leaves_no_lock(tmp_path, monkeypatch, name):
    (tmp_path / "snakemake.py").write_text(SLEEPING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(snakemake_view, "GRACE_S", 0.5)
    with pytest.raises(snakemake_view.OutOfTime):
        snakemake_view.run_snakemake(Path("mine.yaml"), [Path(name)], limit_s=2.0)
    assert "workflow_file()" in Path("Snakefile").read_text(), "what results advise works in this folder, too"
    assert Path("unlocked").exists() == (name == "deaf"), "only one that is killed leaves its lock"
