"""Complete runs that a test may change."""

import shutil

import pytest
from sound_records import complete, write_complete, write_reference
from synthetic import cells, write_run

from scaleproof.ground.records.run import MeasuredRun


@pytest.fixture(scope="session")
def template(tmp_path_factory) -> list[MeasuredRun]:
    """Three runs of two cells with everything that a run leaves behind, and their reference."""
    root = tmp_path_factory.mktemp("template") / "results/x"
    runs = []
    for cell, seconds in zip(cells(), (0.1, 0.06), strict=True):
        for repeat in (1, 2, 3):
            runs.append(complete(write_run(root / "runs", cell, repeat, seconds)))
            write_complete(runs[-1])
    write_reference(runs[0])
    return runs


@pytest.fixture
def sound(template, tmp_path) -> list[MeasuredRun]:
    """Copies of them that a test may change."""
    root = template[0].folder.parents[2]
    shutil.copytree(root, tmp_path / "results/x")
    return [MeasuredRun(tmp_path / "results/x" / run.folder.relative_to(root), run.metrics) for run in template]
