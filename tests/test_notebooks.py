"""Notebooks of the documentation show what they print."""

import json

import pytest
from notebooks import NOTEBOOKS, REPOSITORY, run
from synthetic import cells, write_run


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


@pytest.mark.parametrize(("number", "line"), [(1, "ddp-n1x1/rep1"), (2, "ddp-n1x2 / ddp-n1x1: ")])
def test_results_in_pandas_takes_any_campaign(tmp_path, number, line):
    for cell in cells()[:number]:
        for k in (1, 2, 3):
            write_run(tmp_path / "mine/runs", cell, k, 0.1 / cell.batch.n_devices)
    text = (REPOSITORY / "docs/notebooks/results-in-pandas.ipynb").read_text()
    demo = r"next(Path(\"results/published\").glob(\"demo_*\"))"
    assert demo in text
    changed = tmp_path / "changed.ipynb"
    changed.write_text(text.replace(demo, rf"Path(\"{tmp_path}/mine\")"))
    (tmp_path / "place").mkdir()
    assert line in json.dumps(run(changed, tmp_path / "place"))
