"""The house itself: which room may import which, what a rule lists as its code, how large a file may grow."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scalebench.campaign.dag import MEASURING, PACKAGE, SHARED, sources

# From top to bottom; a room imports rooms above it. `record` stands above the trainer: it is the contract that
# trainer and launcher write and everybody below reads.
ORDER = ["campaign", "corpus", "model", "strategy", "record", "trainer", "launch", "audit", "analysis", "report"]
# The modules that a stage's command in cli.py calls.
STAGES = {
    "fetch": ["campaign/dag.py", "corpus/documents.py"],
    "tokenizer": ["corpus/tokenizer.py", "corpus/encode.py"],
    "tokenise": ["corpus/tokenise.py"],
    "train": ["campaign/dag.py", "launch/run.py", "trainer/__main__.py", "trainer/measure.py"],
    "collect": ["campaign/dag.py", "analysis/collect.py"],
    "findings": ["campaign/dag.py", "audit/checks.py"],
    "analyse": ["campaign/dag.py", "analysis/collect.py", "analysis/scaling.py"],
    "table": ["report/tables.py", "report/inputs.py"],
    "chart": ["report/charts.py", "report/inputs.py"],
    "page": ["campaign/dag.py", "report/page.py", "report/inputs.py"],
}


def imports(path: Path) -> set[Path]:
    """The package's files that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "scalebench":
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "scalebench"]
        else:
            continue
        for name in names:
            base = PACKAGE.parent / name.replace(".", "/")
            found |= {p for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()}
    return found - {PACKAGE / "__init__.py"}


def closure(entries: list[Path]) -> set[Path]:
    seen, waiting = set(), list(entries)
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += imports(path)
    return seen


def listed(rule: str) -> set[Path]:
    """The files behind `code=sources(...)` of a rule."""
    text = "".join(p.read_text() for p in Path("workflow/rules").glob("*.smk"))
    block = re.search(rf"^rule {rule}:\n(.*?)(?=^rule |\Z)", text, re.MULTILINE | re.DOTALL)[1]
    rooms = re.search(r"code=sources\((.*?)\)", block)[1]
    return {
        Path(p).resolve() for p in sources(*(MEASURING if "MEASURING" in rooms else ast.literal_eval(f"[{rooms}]")))
    }


@pytest.fixture(autouse=True)
def in_repository(monkeypatch, repository):
    monkeypatch.chdir(repository)


def test_rooms_import_only_rooms_above_them():
    assert {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists()} == set(ORDER)
    for place, room in enumerate(ORDER):
        for path in (PACKAGE / room).rglob("*.py"):
            for target in imports(path):
                parts = target.relative_to(PACKAGE).parts
                allowed = parts[0] in ORDER[: place + 1] or parts[0] in SHARED
                assert allowed, f"{path} imports {target}"


@pytest.mark.parametrize("rule", STAGES)
def test_a_rule_lists_the_code_that_its_stage_imports(rule):
    needed = closure([PACKAGE / entry for entry in STAGES[rule]])
    missing = needed - listed(rule)
    assert not missing, f"rule {rule} does not notice edits of {sorted(map(str, missing))}"


@pytest.mark.parametrize("rule", STAGES)
def test_a_rule_lists_no_room_that_its_stage_does_not_use(rule):
    needed = closure([PACKAGE / entry for entry in STAGES[rule]])
    rooms = {p.relative_to(PACKAGE).parts[0] for p in listed(rule)} - set(SHARED)
    unused = rooms - {p.relative_to(PACKAGE).parts[0] for p in needed}
    assert not unused, f"an edit in {unused} would re-run rule {rule} for nothing"


def test_every_rule_is_known_here():
    text = "".join(p.read_text() for p in Path("workflow/rules").glob("*.smk"))
    assert set(re.findall(r"^rule (\w+):", text, re.MULTILINE)) == set(STAGES)


@pytest.mark.parametrize("module", ["scalebench.campaign.dag", "scalebench.campaign.load", "scalebench.cli"])
def test_the_snakefile_cannot_reach_torch(module):
    code = f"import sys, {module}; sys.exit(any(m in sys.modules for m in ('torch', 'transformers', 'pandas', 'datasets')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_launcher_and_the_analysis_need_no_torch():
    modules = ["launch.run", "audit.checks", "analysis.scaling", "report.page", "report.charts"]
    lines = "; ".join(f"import scalebench.{m}" for m in modules)
    code = f"import sys; {lines}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("pattern", ["src/**/*.py", "tests/**/*.py", "workflow/**/*.smk", "benchmarks/**/*.py"])
def test_no_file_does_too_much(pattern, repository):
    for path in repository.glob(pattern):
        assert len(path.read_text().splitlines()) <= 400, path


def test_every_module_says_what_it_is_for():
    for path in PACKAGE.rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_style():
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "-q", "src", "tests", "benchmarks"], capture_output=True
    )
    assert done.returncode == 0, done.stdout.decode()
    done = subprocess.run([sys.executable, "-m", "ruff", "format", "-q", "--check", "src", "tests", "benchmarks"])
    assert done.returncode == 0, "run: ruff format"
