"""A umask that keeps new files from those who make them."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(("mask", "told"), [("777", True), ("022", False), ("077", False)])
def test_a_umask_that_leaves_the_owner_nothing_is_one_line(tmp_path, mask, told):
    (tmp_path / "s.csv").write_text("gpus,tokens_per_s\n1,100\n2,190\n4,370\n")
    command = f"umask {mask}; exec {sys.executable} -m scaleproof audit s.csv --html page.html"
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    line = "scaleproof: umask 777 keeps files from their owner, too; 077 is used instead\n"
    assert done.stderr == (line if told else "")
    assert (tmp_path / "page.html").stat().st_mode & 0o777 == (0o644 if mask == "022" else 0o600)
