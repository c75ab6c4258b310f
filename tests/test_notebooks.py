"""Notebooks of the documentation show what they print."""

import json

import pytest
from notebooks import NOTEBOOKS, run


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_prints(path, tmp_path):
    assert run(path, tmp_path) == json.loads(path.read_text()), "python tests/notebooks.py writes its outputs again"


def test_there_are_three_and_they_are_short():
    cells = {path.stem: len(json.loads(path.read_text())["cells"]) for path in NOTEBOOKS}
    assert set(cells) == {"audit-a-log", "results-in-pandas", "watch-a-loop"}
    assert max(cells.values()) <= 12


def test_another_output_is_seen(tmp_path):
    notebook = json.loads(NOTEBOOKS[0].read_text())
    first = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    first["source"] = [*first["source"], "\nprint('more')"]
    changed = tmp_path / "changed.ipynb"
    changed.write_text(json.dumps(notebook))
    (tmp_path / "place").mkdir()
    assert run(changed, tmp_path / "place") != notebook
