"""The code of a stage is one hash, which changes when the code does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scaleproof.ground import code_dependencies
from scaleproof.ground.code_dependencies import HASHES, code_hash, code_sha256


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


def test_hashes_are_kept_for_the_next_process(tmp_path, monkeypatch):
    """Where Snakemake works; nothing is written where somebody calls one command by hand."""
    first = code_sha256("ground/errors.py")
    assert not HASHES.exists()
    HASHES.parents[1].mkdir()
    code_dependencies._known_hashes.cache_clear()
    assert code_sha256("ground/errors.py") == first
    monkeypatch.setattr(code_dependencies.ast, "parse", None)  # nothing is parsed again
    code_dependencies._known_hashes.cache_clear()
    assert code_sha256("ground/errors.py") == first


def test_a_damaged_cache_is_only_slower(tmp_path):
    cache = Path(".snakemake/scaleproof/hashes.json")
    cache.parent.mkdir(parents=True)
    cache.write_text("{")
    assert len(hash_of(tmp_path, "x = 1\n")) == 64


TYPED = """from typing import TYPE_CHECKING

if TYPE_CHECKING:  # slow
    from scaleproof.ground.cores import available_cores

    from scaleproof.ground.progress import Progress
else:
    from scaleproof.ground.errors import UserError

from scaleproof.ground.files import write_json
"""


def test_what_only_type_checkers_read_is_no_code_of_a_stage(tmp_path):
    path = tmp_path / "typed.py"
    path.write_text(TYPED)
    assert {file.name for file in code_dependencies._imported_files(path)} == {"errors.py", "files.py"}


def test_sources_are_read_where_the_locale_knows_no_utf_8(tmp_path):
    """Some batch nodes have the locale C, and Python no UTF-8 mode there by somebody's setting."""
    plain = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    path = tmp_path / "module.py"
    path.write_text("# ± 5 %\nfrom scaleproof.ground.files import write_json\n", encoding="utf-8")
    code = (
        "import sys; from pathlib import Path; from scaleproof.ground.code_dependencies import _imported_files; "
        "print(*_imported_files(Path(sys.argv[1])))"
    )
    done = subprocess.run([sys.executable, "-c", code, path], env=plain, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("ground/files.py")
