"""The package as others install it: the wheel of this repository, in an environment of its own."""

import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

MOST_BYTES = 350e6  # of an environment with the base package
# A command that needs more than the base -> the extra that brings it.
NEEDED = {
    "doctor": "train",
    "stage corpus_fetch python-docs --out documents": "train",
    "cluster check": "workflow",
    "stage chart speedup .": "report",
    "publish {published} --author Nobody": "publish",
    "compare {published}/runs/ddp-n1x1 {published}/runs/ddp-n1x2 --vary geometry --html a.html": "report",
}
LOG = "".join(f"step {i} loss {9 - i / 50:.3f} tokens/s {{rate}}\n" for i in range(100))


def run(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return subprocess.run([*map(str, words)], cwd=cwd, env=env, capture_output=True, text=True)


def successful(*words: object, cwd: Path | None = None) -> str:
    done = run(*words, cwd=cwd)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def repository_root() -> Path:
    return Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(repository_root, tmp_path_factory) -> Path:
    """Built from the source distribution, so that this one is whole as well."""
    folder = tmp_path_factory.mktemp("dist")
    successful(repository_root / "envs/uv", "build", "--quiet", "--out-dir", folder, repository_root)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def environment(wheel, repository_root, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("base") / "venv"
    uv = repository_root / "envs/uv"
    successful(uv, "venv", "--quiet", folder)
    pins = ["--constraint", repository_root / "envs/requirements.lock"]
    successful(uv, "pip", "install", "--quiet", "--python", folder / "bin/python", *pins, wheel)
    return folder


@pytest.fixture
def scaleproof(environment, tmp_path):
    def command(*words: object, cwd: Path = tmp_path) -> subprocess.CompletedProcess[str]:
        return run(environment / "bin/scaleproof", *words, cwd=cwd)

    return command


@pytest.fixture
def published(repository) -> Path:
    return next(repository.glob("results/published/demo_*"))


def test_the_base_package_is_light(environment):
    installed = {path.name.partition("-")[0] for path in environment.rglob("*.dist-info")}
    assert not installed & {"torch", "snakemake", "pyarrow", "matplotlib", "transformers"}
    sizes = {file.stat().st_ino: file.stat().st_size for file in environment.rglob("*") if file.is_file()}
    assert sum(sizes.values()) < MOST_BYTES


def test_a_log_is_audited(scaleproof, tmp_path):
    (tmp_path / "train.log").write_text(LOG.format(rate=128_000))
    done = scaleproof("audit", "train.log", "--json")
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["formats"]


def test_own_results_are_audited_as_where_all_libraries_are(scaleproof, published):
    done = scaleproof("audit", published)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    assert "invalid" not in done.stdout


def test_two_logs_are_compared(scaleproof, tmp_path):
    for name, rate in (("a", 128_000), ("b", 150_000)):
        (tmp_path / f"{name}.log").write_text(LOG.format(rate=rate))
    done = scaleproof("compare", "a.log", "b.log")
    assert done.stdout.startswith("b.log runs at 1.17x the tokens/s of a.log"), done.stderr


def test_own_results_are_compared(scaleproof, published):
    cells = published / "runs/ddp-n1x2", published / "runs/zero2-n1x2"
    done = scaleproof("compare", *cells, "--vary", "strategy")
    assert done.returncode == 0, done.stderr
    assert "95 % CI" in done.stdout


def test_a_finding_is_explained(scaleproof):
    assert scaleproof("explain", "sawtooth-timer").stdout.startswith("## sawtooth-timer")


def test_published_results_are_verified(scaleproof, published):
    assert scaleproof("verify", published).stdout.startswith("PASS")


@pytest.mark.parametrize("words", NEEDED)
def test_what_needs_more_names_the_extra_in_one_line(scaleproof, published, words):
    done = scaleproof(*words.format(published=published).split(), cwd=published.parents[2])
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    assert f"Install it: pip install 'scaleproof[{NEEDED[words]}]'" in done.stderr


def test_the_wheel_has_the_workflow(wheel, repository):
    names = zipfile.ZipFile(wheel).namelist()
    for folder in ("workflow", "config/campaigns", "profiles"):
        files = [path for path in (repository / folder).rglob("*") if path.is_file()]
        missing = {f"scaleproof/workflow_files/{path.relative_to(repository)}" for path in files} - set(names)
        assert files
        assert not missing


def test_a_project_is_made_of_what_is_installed(scaleproof, environment, tmp_path):
    done = scaleproof("init", "bench")
    assert done.returncode == 0, done.stderr
    assert "pip install 'scaleproof[all]'" in done.stdout
    workflow = successful(environment / "bin/python", "-c", "import scaleproof; print(scaleproof.workflow_file())")
    assert Path(workflow.strip()).is_relative_to(environment)
    assert Path(workflow.strip()).is_file()
    (tmp_path / "bench/Snakefile").write_text("mine")
    again = scaleproof("init", "bench")
    assert again.returncode == 2
    assert "nothing was written" in again.stderr
    assert (tmp_path / "bench/Snakefile").read_text() == "mine"
