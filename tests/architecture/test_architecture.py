"""The house itself: which room may import which, what a rule lists as its code, how large a file may grow."""

import argparse
import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scaleproof.cli import parser
from scaleproof.ground.code_dependencies import MEASURING, PACKAGE, _imported_files, import_closure

# House -> the houses that it may import besides itself. Everything else is never.
HOUSES: dict[str, set[str]] = {
    "ground": set(),
    "measure": {"ground"},
    "verify": {"ground"},
    "auditor": {"ground"},
    "conclude": {"ground", "measure", "verify"},
    "driver": {"ground", "measure", "conclude", "verify"},
    "cli": {"ground", "measure", "verify", "auditor", "conclude", "driver"},
}
# House -> libraries that it never imports, not in a function either.
NEVER = {
    "ground": {"torch", "pandas", "matplotlib", "snakemake"},
    "verify": {"torch", "pandas", "matplotlib", "snakemake"},
    "auditor": {"torch", "matplotlib", "snakemake"},
    "measure": {"matplotlib", "snakemake"},
    "conclude": {"snakemake"},
    "driver": {"torch", "matplotlib"},
    "cli": {"torch", "matplotlib", "snakemake"},
}
# Within a house a room imports rooms above it.
ROOMS = {
    "ground": ["campaign", "facts", "records", "findings"],
    "measure": [
        *("reference", "corpus", "model", "strategy", "machine", "trainer", "watch", "command", "launch"),
        *("doctor", "trace"),
    ],
    "conclude": ["checks", "analysis", "forecast", "report", "publication"],
    "auditor": ["read", "checks"],
}
# What a command imports to find its files and to check its input, without effect on what it writes.
FINDING = {
    "ground/campaign/__init__.py",
    "ground/campaign/batch.py",
    "ground/campaign/cell_checks.py",
    "ground/campaign/cells.py",
    "ground/campaign/command.py",
    "ground/campaign/config.py",
    "ground/campaign/corpora.py",
    "ground/campaign/execution.py",
    "ground/campaign/field.py",
    "ground/campaign/hub_names.py",
    "ground/campaign/geometry.py",
    "ground/campaign/loaded.py",
    "ground/campaign/question_cells.py",
    "ground/campaign/model_shapes.py",
    "ground/campaign/optimizer.py",
    "ground/campaign/question.py",
    "ground/campaign/repeats.py",
    "ground/campaign/campaign_paths.py",
    "ground/campaign/schema_nodes.py",
    "ground/campaign/joined_faults.py",
    "ground/campaign/allowed_words.py",
    "ground/campaign/look_alikes.py",
    "ground/campaign/corpus_hints.py",
    "ground/campaign/value_hints.py",
    "ground/campaign/shared_jobs.py",
    "ground/campaign/strategies.py",
    "ground/campaign/text_encoding.py",
    "ground/campaign/transformers_model.py",
    "driver/cluster/request.py",
    "ground/campaign/unmeasured.py",
    "ground/campaign/validation_messages.py",
    "ground/campaign/yaml_faults.py",
    "ground/campaign/yaml_loader.py",
    "ground/errors.py",
    "ground/file_kinds.py",
    "conclude/report/chart_catalog.py",
    "ground/snakemake_command.py",
    "ground/records/token_hashes.py",
}


def rules() -> dict[str, str]:
    """Name -> text of every rule."""
    text = "".join(p.read_text() for p in Path("workflow/rules").glob("*.smk"))
    parts = re.split(r"^(?:rule|checkpoint) (\w+):\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def listed(rule: str) -> set[str]:
    """The package's files behind `code=code_sha256(...)` of a rule."""
    entries = re.search(r"code=code_sha256\((.*?)\)", rules()[rule], re.DOTALL)[1]
    named = ast.literal_eval(f"[{' '.join(entries.replace('*MEASURING', '').split()).strip(', ')}]")
    found = import_closure(*(MEASURING if "MEASURING" in entries else ()), *named)
    return {str(Path(p).resolve().relative_to(PACKAGE)) for p in found}


def used(rule: str) -> set[str]:
    """The package's files that the rule's command imports, transitively."""
    trees = [ast.parse(path.read_text()) for path in (PACKAGE / "cli").glob("*.py")]
    functions = {n.name: n for tree in trees for n in tree.body if isinstance(n, ast.FunctionDef)}
    wanted, entries = [functions[rule]], set()
    while wanted:
        function = wanted.pop()
        for node in ast.walk(function):
            if isinstance(node, ast.ImportFrom) and node.module.startswith("scaleproof."):
                base = PACKAGE.joinpath(*node.module.split(".")[1:])
                inside = [base / f"{alias.name}.py" for alias in node.names]
                entries |= {p for p in (base.with_suffix(".py"), base / "__init__.py", *inside) if p.is_file()}
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
                wanted.append(functions[node.func.id])
    return {
        str(Path(p).resolve().relative_to(PACKAGE))
        for p in import_closure(*(str(e.relative_to(PACKAGE)) for e in entries))
    }


@pytest.fixture(autouse=True)
def in_repository(monkeypatch, repository):
    monkeypatch.chdir(repository)


def imports(path: Path) -> Iterator[tuple[str, ...]]:
    """The modules that a file imports anywhere, also in a function or for types alone, in parts."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (tuple(f"{node.module}.{alias.name}".split(".")) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)


# Who speaks to schedulers: the driver's room, and what a run sees of the job around it.
ROOM_OF_SCHEDULERS = ("driver/cluster/", "measure/machine/allocation.py")
SCHEDULERS = re.compile(r"slurm|sbatch|squeue|scontrol|scancel|kubectl|kubernetes|qstat|\bpbs\b", re.IGNORECASE)
COMMANDS = re.compile(r"""["'](sbatch|squeue|sacct|scontrol|scancel|sinfo|sacctmgr|kubectl|qstat|qsub|qdel)["' ]""")


def test_schedulers_are_known_in_one_room():
    """The others read other people's batch scripts, name a profile, or write a key of a stated schema."""
    files = [path for path in PACKAGE.rglob("*.py") if "workflow_files" not in path.parts]
    outside = [path for path in files if not str(path.relative_to(PACKAGE)).startswith(ROOM_OF_SCHEDULERS)]
    outside += [Path("workflow/Snakefile"), *Path("workflow/rules").glob("*.smk")]
    naming = [str(path) for path in outside if SCHEDULERS.search(path.read_text())]
    assert len(naming) <= 10, naming
    calling = [str(path) for path in outside if COMMANDS.search(path.read_text())]
    assert calling == [], "a scheduler's commands are started in its room alone"


def test_every_house_is_known_here():
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == set(HOUSES)


@pytest.mark.parametrize("house", HOUSES)
def test_a_house_imports_only_what_it_may(house):
    for path in (PACKAGE / house).rglob("*.py"):
        for parts in imports(path):
            if parts[0] == PACKAGE.name and parts[1] not in ("__version__",):
                assert parts[1] in HOUSES[house] | {house}, f"{path} imports {'.'.join(parts)}"
            assert parts[0] not in NEVER[house], f"{path} imports {'.'.join(parts)}"
            assert not parts[0].startswith("snakemake") or house == "driver", f"{path} imports {'.'.join(parts)}"


@pytest.mark.parametrize("house", ROOMS)
def test_rooms_import_only_rooms_above_them(house):
    rooms = ROOMS[house]
    assert {p.name for p in (PACKAGE / house).iterdir() if (p / "__init__.py").exists()} == set(rooms)
    for place, room in enumerate(rooms):
        for path in (PACKAGE / house / room).rglob("*.py"):
            above = {parts[2] for parts in imports(path) if parts[:2] == (PACKAGE.name, house) and len(parts) > 2}
            assert not above & set(rooms[place + 1 :]), f"{path} imports {above & set(rooms[place + 1 :])}"


# Imports of a function, of what imports its own file.
LATE = {"cli/__init__.py": "cli/commands.py"}


def test_imports_of_a_house_make_no_circle(repository):
    """Those inside functions, and for types alone, included."""
    graph = {}
    for path in PACKAGE.rglob("*.py"):
        bases = {PACKAGE.joinpath(*parts[1:at]) for parts in imports(path) for at in (len(parts) - 1, len(parts))}
        files = {file for base in bases for file in (base.with_suffix(".py"), base / "__init__.py")}
        here = str(path.relative_to(PACKAGE))
        graph[here] = {str(file.relative_to(PACKAGE)) for file in files if file.is_file() and file != path}
        graph[here] -= {LATE.get(here), "__init__.py"}
    list(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError


RULES = [
    "corpus_fetch",
    "gpt2_tokenizer",
    "corpus_tokenizer",
    "corpus_tokenise",
    "corpus_reread",
    "train",
    "reference",
    "shared_job",
    "collect",
    "findings",
    "look",
    "analyse",
    "waterfall",
    "tables",
    "charts",
    "loss_charts",
    "report",
    "pdf",
    "pairs",
    "comparison",
    "trace_capture",
    "trace_summary",
    "trace_report",
    "trace_charts",
    "sweep",
    "frontier",
    "forecast",
    "forecast_report",
]


def test_every_rule_is_known_here():
    assert sorted(rules()) == sorted(RULES)


def test_a_rule_calls_the_stage_of_its_name():
    for name, text in rules().items():
        assert re.findall(r'"scaleproof stage (\w+)', text) == [name]


def test_what_is_no_rule_is_no_stage():
    commands = {c.dest: c for c in parser()._actions if isinstance(c, argparse._SubParsersAction)}
    stages = next(iter(commands.values())).choices["stage"]
    group = next(a for a in stages._actions if isinstance(a, argparse._SubParsersAction))
    assert sorted(group.choices) == sorted(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_lists_the_code_that_its_command_runs(rule):
    missing = used(rule) - listed(rule) - FINDING
    assert not missing, f"rule {rule} does not notice edits of {sorted(missing)}"


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_lists_no_code_that_its_command_does_not_run(rule):
    unused = {p for p in listed(rule) if p.endswith(".py")} - used(rule)
    if rule in (
        "train",
        "shared_job",
        "pairs",
        "trace_capture",
        "sweep",
        "frontier",
    ):  # ranks are processes of their own
        unused -= {p for p in unused if p.startswith(("measure/", "ground/"))}
    assert not unused, f"an edit of {unused} would re-run rule {rule} for nothing"


def running(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only type checkers read."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        skipped = node.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" else []
        waiting += [child for child in ast.iter_child_nodes(node) if child not in skipped]


def test_a_table_does_not_depend_on_checks():
    """Types that are named in annotations alone are not code of a stage."""
    assert not {file for file in listed("tables") if file.startswith("conclude/checks/")}
    assert len(listed("tables")) <= 20


def test_imports_are_read_as_python_reads_them():
    for path in PACKAGE.rglob("*.py"):
        names = set()
        for node in running(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
        bases = [PACKAGE.joinpath(*name.split(".")[1:]) for name in names if name.split(".")[0] == PACKAGE.name]
        expected = {p for base in bases for p in (base.with_suffix(".py"), base / "__init__.py") if p.is_file()}
        own = {PACKAGE / "__init__.py"}  # a text may have an import of it, too
        assert _imported_files(path) - own == expected - own, path


@pytest.mark.parametrize(
    "module", ["scaleproof.ground.campaign.loaded", "scaleproof.ground.campaign.yaml_loader", "scaleproof.cli"]
)
def test_the_snakefile_cannot_reach_torch(module):
    heavy = ("torch", "transformers", "pandas", "datasets")
    code = f"import sys, {module}; sys.exit(any(m in sys.modules for m in {heavy}))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_the_launcher_and_the_analysis_need_no_torch():
    modules = ["measure.launch.run", "conclude.checks.all_checks", "conclude.analysis.scaling", "conclude.report.page"]
    lines = "; ".join(f"import scaleproof.{m}" for m in modules)
    code = f"import sys; {lines}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    "pattern", ["src/**/*.py", "tests/**/*.py", "workflow/**/*.smk", "benchmarks/**/*.py", "envs/*.py"]
)
def test_no_file_does_too_much(pattern, repository):
    for path in repository.glob(pattern):
        assert len(path.read_text().splitlines()) <= 400, path


@pytest.mark.parametrize(
    "pattern",
    [
        "Makefile",
        "Snakefile",
        "workflow/**/*",
        "config/**/*.yaml",
        "profiles/**/*.yaml",
        "envs/*.sh",
        "src/scaleproof/*/templates/*.css",
        "src/scaleproof/*/templates/*.js",
        "src/scaleproof/conclude/report/templates/*.css",
        "src/scaleproof/conclude/report/templates/*.js",
    ],
)
def test_lines_end_at_120_characters(pattern, repository):
    """ruff looks at Python; this looks at the rest that people edit."""
    for path in repository.glob(pattern):
        if path.is_file():
            long = [i for i, line in enumerate(path.read_text().splitlines(), 1) if len(line) > 120]
            assert not long, f"{path}: {long}"


def test_every_module_says_what_it_is_for():
    for path in PACKAGE.rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_style():
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "-q", "src", "tests", "benchmarks", "envs"], capture_output=True
    )
    assert done.returncode == 0, done.stdout.decode()
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "-q", "--check", "src", "tests", "benchmarks", "envs"]
    )
    assert done.returncode == 0, "run: ruff format"


def test_the_code_of_every_rule_exists():
    for path in Path("workflow/rules").glob("*.smk"):
        for entry in re.findall(r'"((?:[a-z_]+/)+[\w.]+\.(?:py|j2|css|js))"', path.read_text()):
            assert (PACKAGE / entry).is_file(), f"{path}: {entry}"
