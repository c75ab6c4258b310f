"""Snakemake, started by a command of ours."""

import base64
from pathlib import Path
from types import SimpleNamespace

import pytest

from scaleproof.driver import snakemake_view
from scaleproof.ground.errors import UserError


def test_a_missing_snakemake_is_a_missing_library(monkeypatch):
    monkeypatch.setattr(snakemake_view, "find_spec", lambda _: None)
    with pytest.raises(ModuleNotFoundError, match="snakemake"):
        snakemake_view.make_files([Path("results/demo/report.html")])
    monkeypatch.setattr(snakemake_view, "_has_snakefile", lambda: True)
    with pytest.raises(ModuleNotFoundError, match="snakemake"):  # not: nothing is known, so that all is measured again
        snakemake_view.ask_snakemake([Path("results/demo/report.html")])


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
    failed.stderr = "Traceback:\n  open(path)\nOSError: [Errno 30] Read-only file system: '/x/.snakemake'\n"
    with pytest.raises(OSError, match=r"\[Errno 30\] Read-only file system: '/x/.snakemake'"):
        snakemake_view.run_snakemake(mine, [])
    failed.stderr = "Traceback:\n  raise ImportError('no pulp')\nImportError: no pulp\n"
    with pytest.raises(ImportError, match=r"^no pulp$"):
        snakemake_view.run_snakemake(mine, [])
    failed.stderr = "/x/python: Error while finding it (ModuleNotFoundError: No module named 'pulp')\n"
    with pytest.raises(ImportError, match=r"^No module named 'pulp'$"):
        snakemake_view.run_snakemake(mine, [])
    failed.stderr = "ProtectedOutputException in rule pairs ...:\n    output: p\n    affected files:\n        p.json\n"
    with pytest.raises(UserError, match=r"p.json is closed to changes: its folder is read-only, or its disk is$"):
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


def test_a_file_whose_job_was_cut_off_is_pending(tmp_path, monkeypatch):
    """As real marks of Snakemake 9.27 are: the name in base64, long ones in folders of parts."""
    monkeypatch.chdir(tmp_path)
    Path("Snakefile").touch()
    long = "results/" + "long/" * 50 + "steps.csv"
    names = ["results/cut.csv", long, "results/done.csv", "results/gone.csv"]
    for name in names[:3]:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    for name in ("results/cut.csv", long, "results/gone.csv"):
        mark = base64.urlsafe_b64encode(name.encode()).decode()
        parts = [mark[i : i + 254] for i in range(0, len(mark), 254)]
        place = Path(".snakemake/incomplete", *(f"@{part}" for part in parts[:-1]), parts[-1])
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    (Path(".snakemake/incomplete") / "migration_underway").touch()
    rows = "".join(f"{name}\t-\ttrain\t-\tok\tno update\n" for name in names)
    summary = SimpleNamespace(returncode=0, stdout=f"{snakemake_view.HEADING}\n{rows}")
    monkeypatch.setattr(snakemake_view, "_snakemake", lambda *_: summary)
    view = snakemake_view.ask_snakemake([Path("results/cut.csv")])
    assert [path for path, seen in view.items() if seen.pending and seen.cut_off] == [Path(names[0]), Path(long)]
    assert not view[Path("results/done.csv")].pending
