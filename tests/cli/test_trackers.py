"""The published demo for experiment trackers, read back with the library of each."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from command_line import scaleproof

from scaleproof import load_runs, to_frame
from scaleproof.cli import export
from scaleproof.conclude.report import trackers

TRACKERS = tuple(export.TRACKERS)


@pytest.fixture(scope="module")
def repository() -> Path:
    return Path(__file__).parents[2]


def test_each_tracker_is_written_and_described(repository):
    assert set(trackers.TRACKERS) == set(TRACKERS)
    for page, form in (("which.md", "| `scaleproof export {} "), ("environments.md", "`{}`")):
        text = (repository / "docs" / page).read_text()
        assert [tracker for tracker in TRACKERS if form.format(tracker) not in text] == [], page


@pytest.fixture(scope="module")
def libraries(repository, tmp_path_factory) -> Path:
    """A folder with the trackers' libraries. Where they cannot be had, tests are skipped; in CI they fail."""
    extras = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = [requirement for tracker in TRACKERS for requirement in extras[tracker]]
    folder = tmp_path_factory.mktemp("trackers")
    words = [repository / "envs/uv", "pip", "install", "--quiet", "--python", sys.executable, "--target", folder]
    done = subprocess.run([*words, *wanted], capture_output=True, text=True)
    if done.returncode and not os.environ.get("CI"):
        pytest.skip(f"the trackers' libraries cannot be installed: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def results(repository, tmp_path_factory) -> Path:
    """The published demo, with two runs of a cell."""
    folder = tmp_path_factory.mktemp("results") / "demo"
    shutil.copytree(next((repository / "results/published").glob("demo_*")), folder)
    return folder


@pytest.fixture(scope="module", params=TRACKERS)
def exported(request, libraries, results, tmp_path_factory) -> dict:
    """What the tracker's library reads of what was exported for it."""
    out = tmp_path_factory.mktemp("exported") / "new"
    environment = {**os.environ, "PYTHONPATH": str(libraries)}

    def answer(*words: object) -> str:
        done = subprocess.run(
            [sys.executable, *map(str, words)], env=environment, cwd=out.parent, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    said = answer("-m", "scaleproof", "export", request.param, results, out)
    assert said.startswith(f"{len(load_runs(results))} runs in {out}; next: ")
    return json.loads(answer(Path(__file__).parents[1] / "tracker_readers.py", request.param, out))


def test_every_run_is_there_and_the_table_of_cells(exported, results):
    places = {run.folder.relative_to(results) for run in load_runs(results)}
    names = {str(place.relative_to("runs") if place.parts[0] == "runs" else place) for place in places}
    assert set(exported) == names | {"cells"}
    assert "zero2-n1x2" in exported["cells"]["text"]


def test_figures_and_settings_are_those_of_the_runs(exported, results):
    frame = to_frame(results / "runs").set_index(["cell", "repeat"])
    for (cell, repeat), row in frame.iterrows():
        run = exported[f"{cell}/rep{repeat}"]
        for name in ("tokens_per_s", "step_time_p50_s", "validation_loss", "total_wall_time_s"):
            assert run["figures"][f"run/{name}"] == pytest.approx(row[name], rel=1e-6)
        assert run["settings"]["strategy"] == row["strategy"]
        assert run["settings"]["fingerprint"] == row["fingerprint"]
        assert int(run["settings"]["devices"]) == row["devices"]
        assert "run/mfu" not in run["figures"]  # of a CPU there is none


def test_losses_are_those_of_every_step(exported, results):
    for run in load_runs(results / "runs"):
        steps, losses = zip(*exported[run.name]["losses"], strict=True)
        work = run.metrics.config["work"]
        assert steps == tuple(range(work["warmup_steps"] + work["steps"]))
        assert losses == pytest.approx(run.losses.tolist(), rel=1e-6)


def test_a_tracker_that_is_not_installed_is_named(results, tmp_path):
    done = scaleproof("export", "wandb", results, "out", cwd=tmp_path)
    assert done.returncode == 2
    assert "wandb cannot be imported" in done.stderr
    assert 'Install it: pip install "wandb' in done.stderr
    assert "make setup" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_in_it_is_left_alone(results, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("")
    done = scaleproof("export", "mlflow", results, "out", cwd=tmp_path)
    assert done.returncode == 2
    assert '"out" is not empty; give a new folder' in done.stderr
