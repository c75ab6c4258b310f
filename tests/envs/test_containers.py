"""The two image recipes: what can be said about them without building them."""

import re
import subprocess
import tomllib
from fnmatch import fnmatch

from packaging.specifiers import SpecifierSet

PYTHON = {"ubuntu24.04": "3.12", "ubuntu22.04": "3.10"}  # what `python3` is there


def recipes(repository) -> tuple[str, str]:
    return (repository / "envs/Dockerfile").read_text(), (repository / "envs/apptainer.def").read_text()


def test_these_are_all(repository):
    """A further recipe: into `recipes`, so that it is held against the lock and the files that it copies."""
    found = {path.name for pattern in ("Dockerfile*", "*.def") for path in (repository / "envs").glob(pattern)}
    assert found - {"Dockerfile.dockerignore"} == {"Dockerfile", "apptainer.def"}


def test_both_start_from_the_same_exact_image_whose_python_will_do(repository):
    docker, apptainer = recipes(repository)
    image = re.search(r"^FROM (.+)$", docker, re.MULTILINE)[1]
    assert re.search(r"^From: (.+)$", apptainer, re.MULTILINE)[1] == image
    system = re.fullmatch(r"nvidia/cuda:\d+\.\d+\.\d+-devel-(ubuntu\d\d\.\d\d)", image)[1]
    wanted = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["requires-python"]
    assert PYTHON[system] in SpecifierSet(wanted)


def test_every_file_that_they_copy_is_there_and_reaches_the_build(repository):
    docker, apptainer = recipes(repository)
    copied = [p for line in re.findall(r"^COPY (.+)$", docker, re.MULTILINE) for p in line.split()[:-1]]
    copied += [line.split()[0] for line in apptainer.split("%files\n")[1].split("\n\n")[0].splitlines()]
    ignored = (repository / "envs/Dockerfile.dockerignore").read_text().splitlines()
    let_in = [line[1:] for line in ignored if line.startswith("!")]
    for path in copied:
        assert (repository / path).exists(), path
        assert any(fnmatch(path, pattern) or path.startswith(f"{pattern}/") for pattern in let_in), path


def test_both_install_by_the_lock_and_end_in_the_demo(repository):
    docker, apptainer = recipes(repository)
    for text in recipes(repository):
        assert "make .venv/.ready" in text
        assert "requirements.lock" in text
        assert "pip install" not in text
    assert docker.rstrip().endswith('CMD ["make", "demo"]')
    assert apptainer.rstrip().endswith(" demo")


def test_the_container_runs_the_demo_without_installing_anything_again(repository):
    """The environment in the image is older than the checkout, and cannot be written to."""
    _, apptainer = recipes(repository)
    command = re.search(r"exec (make .+)", apptainer)[1]
    done = subprocess.run([*command.split(), "--dry-run"], cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "snakemake --cores 2" in done.stdout
    assert "pip" not in done.stdout
