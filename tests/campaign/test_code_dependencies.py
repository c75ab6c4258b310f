"""The code of a stage is one small file, which changes when the code does."""

import os
from pathlib import Path

import pytest

from scalebench.campaign import code_dependencies
from scalebench.campaign.code_dependencies import closure, code_hash, sources


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code_dependencies._known_hashes.cache_clear()


def hash_of(tmp_path: Path, text: str) -> str:
    path = tmp_path / "module.py"
    path.write_text(text)
    return code_hash(path)


def test_comments_docstrings_and_layout_are_no_code(tmp_path):
    code = 'def double(x):\n    """Twice x."""\n    return 2 * x\n'
    same = 'def double( x ):\n    """Two times x."""\n    # a comment\n\n    return 2*x\n'
    assert hash_of(tmp_path, code) == hash_of(tmp_path, same)


@pytest.mark.parametrize("other", ["def double(x):\n    return 3 * x\n", 'def double(x):\n    return "2 * x"\n', ""])
def test_other_code_is_other_code(tmp_path, other):
    assert hash_of(tmp_path, 'def double(x):\n    """Twice x."""\n    return 2 * x\n') != hash_of(tmp_path, other)


def test_templates_count_byte_by_byte(tmp_path):
    path = tmp_path / "page.html.j2"
    path.write_text("<p>")
    before = code_hash(path)
    path.write_text("<p> ")
    assert code_hash(path) != before


def test_the_summary_is_written_once_with_the_time_of_the_newest_source():
    summary = Path(sources("errors.py"))
    newest = max(os.stat(path).st_mtime for path in closure("errors.py"))
    assert summary.stat().st_mtime == pytest.approx(newest)
    before = summary.stat().st_ino
    assert Path(sources("errors.py")) == summary
    assert summary.stat().st_ino == before


def test_a_damaged_cache_is_only_slower(tmp_path):
    cache = Path(".snakemake/scalebench/hashes.json")
    cache.parent.mkdir(parents=True)
    cache.write_text("{")
    assert len(hash_of(tmp_path, "x = 1\n")) == 64
