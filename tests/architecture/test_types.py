"""The type checker has nothing to say about the package (`mypy`, configured in pyproject.toml), and what houses hand to
each other is typed: no `Any`, and so no `dict[str, Any]`, in a signature that another house sees."""

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

# Signatures that say Any, and why they may. The list only gets shorter.
OF_YAML = "what a campaign's file holds is anything until its schema has looked at it"
OF_CELL = "the configuration of a cell: keys differ between strategies, workloads and versions"
OF_CORPUS = "tokens.json of a corpus, which a record copies with whatever its source says"
OF_REQUEST = "provenance: sections of a record that are open (records/open_sections.py)"
UNTYPED = {
    "ground.campaign.cells.Cell.config": OF_CELL,
    "ground.campaign.field.key": "it hands on what pydantic's own Field takes and returns",
    "ground.campaign.yaml_loader.read_yaml": OF_YAML,
    "ground.errors.describe_first_fault": "exceptions of pydantic and others, known by what they have",
    "ground.facts.traffic.moved_bytes": "what a probe counted: calls and bytes, beside names of dtypes",
    "ground.findings.registry.codes_of": "registers of any subject; Check does not vary with its subject",
    "ground.records.run.Run.take_series": "arrays of several kinds, by the names of the run's own properties",
    "ground.records.run_sections.TrainingConfig.for_cell": "fields of the model itself, which checks them",
    "measure.corpus.documents.gather_documents": OF_CORPUS,
    "measure.corpus.remote.Remote.download": OF_CORPUS,
    "measure.corpus.tokenise.tokenise_corpus": OF_CORPUS,
    "measure.launch.attempt.write_request": OF_REQUEST,
    "measure.machine.provenance.provenance_fields": OF_REQUEST,
    "measure.trace.diff.diff_rows": "rows of a table of traces, for the terminal alone",
    "measure.trace.diff.summarise_diff": "rows of a table of traces, for the terminal alone",
    "measure.trace.diff.diff_table": "rows of a table of traces, for the terminal alone",
    "measure.trace.readers.interconnect.read_interconnect": "evidence of three tools, which is only printed",
    "measure.trainer.__main__.main": "what a program of ranks makes is its own affair",
    "measure.trainer.request.Request.description": OF_REQUEST,
    "measure.trainer.request.Request.known": OF_REQUEST,
    "measure.trainer.request.Request.for_cell": OF_REQUEST,
    "verify.stated.environment_of": "sections of records, each with keys of its own",
}


def test_mypy_reports_nothing(repository):
    cache = repository / ".mypy_cache"  # shared with calls by hand: a second one takes a second
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=repository)
    assert done.returncode == 0, done.stdout


@pytest.fixture
def modules(repository):
    """Name without the package's -> syntax tree."""
    package = repository / "src/scaleproof"
    places = {path: path.relative_to(package).with_suffix("").parts for path in package.rglob("*.py")}
    return {".".join(parts): ast.parse(path.read_text()) for path, parts in places.items() if len(parts) > 1}


def house(module: str) -> str:
    return module.partition(".")[0]


def crossing(modules: dict[str, ast.Module]) -> set[str]:
    """What a house imports from another: "measure.trace.diff.diff_table"."""
    names = set()
    for importer, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scaleproof."):
                module = str(node.module).removeprefix("scaleproof.")
                if house(module) != house(importer):
                    names |= {f"{module}.{alias.name}" for alias in node.names}
    return names


def signatures(modules: dict[str, ast.Module]) -> Iterator[tuple[str, str, ast.FunctionDef]]:
    """Each public function and method of a public class: its name, the name that is imported for it, itself."""
    for module, tree in modules.items():
        for top in tree.body:
            if isinstance(top, ast.FunctionDef | ast.ClassDef) and not top.name.startswith("_"):
                inside = top.body if isinstance(top, ast.ClassDef) else [top]
                for function in inside:
                    if isinstance(function, ast.FunctionDef) and not function.name.startswith("_"):
                        imported = f"{module}.{top.name}"
                        yield imported if function is top else f"{imported}.{function.name}", imported, function


def says_any(function: ast.FunctionDef) -> bool:
    a = function.args
    arguments = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    annotations = [function.returns, *(argument.annotation for argument in arguments)]
    nodes = [node for annotation in annotations if annotation for node in ast.walk(annotation)]
    quoted = [
        ast.parse(n.value, mode="eval") for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)
    ]
    nodes += [node for tree in quoted for node in ast.walk(tree)]
    return any(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)


def untyped(modules: dict[str, ast.Module]) -> list[str]:
    seen = crossing(modules)
    return sorted(
        name
        for name, imported, function in signatures(modules)
        if says_any(function) and (house(name) == "ground" or imported in seen)
    )


def test_what_crosses_houses_is_typed(modules):
    assert untyped(modules) == sorted(UNTYPED)


@pytest.mark.parametrize(
    "signature", ["(report: dict[str, Any])", "() -> 'list[Any]'", "(*rows: Any)", "(a, /, *, b: Any = 1)"]
)
def test_an_untyped_signature_is_noticed(signature):
    sound = ast.parse("from scaleproof.conclude.made import f, K\ndef g(x: int) -> str: ...")
    made = ast.parse(f"def f{signature}: ...\ndef own(x: Any): ...\nclass K:\n    def method(self) -> Any: ...")
    assert untyped({"cli.uses": sound, "conclude.made": made}) == ["conclude.made.K.method", "conclude.made.f"]
    assert untyped({"ground.made": made}) == ["ground.made.K.method", "ground.made.f", "ground.made.own"]
