"""The environment files: nobody edited them, they are exact, and each holds what the code of its stage imports."""

import ast
import re
import subprocess
import sys
from importlib.metadata import packages_distributions

import pytest
import yaml
from architecture.test_architecture import RULES, rules, used
from packaging.utils import canonicalize_name

from scaleproof.ground.code_dependencies import PACKAGE

# Imported where present: GPUs are read through it, and the CPU has none.
OPTIONAL = {"nvidia-ml-py"}
# What the programs of a timed run import besides the launcher, and what they hand to libraries.
RANKS = ("trainer", "strategy", "model", "measure/corpus/reader.py", "measure/corpus/reader.py")


@pytest.fixture(autouse=True)
def in_repository(monkeypatch, repository):
    monkeypatch.chdir(repository)


@pytest.fixture
def generate(repository, monkeypatch):
    monkeypatch.syspath_prepend(repository / "envs")
    import generate

    return generate


@pytest.fixture
def lock(repository, monkeypatch):
    monkeypatch.syspath_prepend(repository / "envs")
    import lock

    return lock


def packages(path) -> dict[str, str]:
    """Canonical name -> pin of everything that an environment file asks pip for."""
    *_, pip = yaml.safe_load(path.read_text())["dependencies"]
    return {canonicalize_name(line.split("==")[0]): line for line in pip["pip"]}


def test_the_files_are_what_their_sources_say(generate, repository):
    """After a change of pyproject.toml or of the lock: make envs."""
    for name, text in generate.files(repository).items():
        assert (repository / "envs" / name).read_text() == text, f"envs/{name} has drifted; run: make envs"


def test_every_version_is_exact_and_the_one_of_the_lock(generate, repository):
    locked = set(generate.pinned((repository / "envs/requirements.lock").read_text()).values())
    for path in repository.glob("envs/*.yaml"):
        *conda, pip = yaml.safe_load(path.read_text())["dependencies"]
        assert all(re.fullmatch(r"[a-z]+=\d+(\.\d+)+", line) for line in conda), path
        assert set(pip["pip"]) <= locked, path


def test_a_version_that_is_not_exact_is_refused(generate):
    with pytest.raises(SystemExit, match="not an exact version; run: make lock"):
        generate.pinned("torch>=2.13\n")


def test_sources_that_disagree_are_named(generate, repository, tmp_path):
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs/requirements.lock").write_text("torch==2.12.0\n")
    project = (
        '[project]\nname = "x"\ndependencies = []\noptional-dependencies = {all = ["x[a]"], a = ["torch>=2.13"]}\n'
    )
    (tmp_path / "pyproject.toml").write_text(project)
    with pytest.raises(SystemExit, match=r"torch>=2\.13, the lock has torch==2\.12\.0; run: make lock"):
        generate.files(tmp_path)


def test_every_package_of_the_lock_has_checksums_but_torch_of_which_there_are_many_builds(repository):
    entries = re.split(r"\n(?=\w)", (repository / "envs/requirements.lock").read_text())[1:]
    assert len(entries) > 100
    assert [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry] == ["torch==2.13.0"]


def test_neither_the_lock_nor_the_installation_names_an_index(repository):
    for name in ("requirements.lock", "lock.py", "uv"):
        text = (repository / "envs" / name).read_text()
        assert not re.search(r"https?://|--(extra-)?index-url|--find-links", text), name


def test_an_entry_of_one_build_of_torch_is_no_part_of_the_lock(lock):
    of_builds = "nvidia-cublas==13.1 ; sys_platform == 'linux' \\\n    --hash=sha256:1\ntriton==3.7\n"
    torch = "torch==2.13.0 ; python_version >= '3.12' \\\n    --hash=sha256:3\ntorch==2.13.0+cpu\n"
    ours = "nvidia-ml-py==13.6 \\\n    --hash=sha256:2\n"
    assert lock.of_any_build(of_builds + ours + torch) == f"{ours}torch==2.13.0\n"


SETTINGS = """
:env:.find-links='/wheels /more'
global.extra-index-url='\\nfile:///one\\nfile:///two'
global.index-url='file:///first'
"""


def test_uv_gets_the_indexes_that_pip_is_set_up_with(repository, tmp_path):
    """uv reads nothing of pip's; what is set for uv itself stays."""
    (tmp_path / "python3").write_text(f"#!/bin/sh\ncat << 'END'{SETTINGS}END\n")
    (tmp_path / "uv").write_text('#!/bin/sh\necho "$@"; env | grep ^UV_ | sort\n')
    for program in tmp_path.iterdir():
        program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "UV_DEFAULT_INDEX": "file:///mine"}
    done = subprocess.run([repository / "envs/uv", "pip", "list"], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "pip list",
        "UV_DEFAULT_INDEX=file:///mine",
        "UV_FIND_LINKS=/wheels,/more",
        "UV_HTTP_TIMEOUT=180",
        "UV_INDEX= file:///one file:///two",
        "UV_INDEX_STRATEGY=unsafe-best-match",
    ]


@pytest.mark.parametrize("rule", RULES)
def test_an_environment_holds_what_the_code_of_its_rules_imports(rule, repository):
    environment = re.search(r'conda:\n +"../../(envs/\w+\.yaml)"', rules()[rule])
    assert environment, f"rule {rule} names no environment"
    code = {PACKAGE / name for name in used(rule) if name.endswith(".py")}
    if rule == "train":
        code |= {p for place in RANKS for p in [PACKAGE / place, *(PACKAGE / place).rglob("*.py")] if p.suffix == ".py"}
    distributions = packages_distributions()
    wanted = {
        canonicalize_name(d) for module in set().union(*map(imported, code)) for d in distributions.get(module, [])
    }
    missing = wanted - set(packages(repository / environment[1])) - OPTIONAL - {"scaleproof"}
    assert not missing, f"{environment[1]} lacks {sorted(missing)}, which rule {rule} imports"


def imported(path) -> set[str]:
    """Top-level modules outside the standard library that a file imports, in any function."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found - sys.stdlib_module_names


def test_the_script_beside_a_file_names_what_is_missing(repository):
    done = subprocess.run(["/bin/sh", repository / "envs/train.post-deploy.sh"], env={}, capture_output=True, text=True)
    assert done.returncode != 0
    assert "the Snakefile sets it to the folder of the repository" in done.stderr
