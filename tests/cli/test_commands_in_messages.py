"""Every command that a message tells people to type exists, with its options and targets."""

import ast
import re

import pytest
from command_line import scaleproof
from typed_commands import ANY, fault

# After "scaleproof" in a sentence that is about the program.
PROSE = {
    "import",
    "measure",
    "only",
    "works",
    "itself",
    "would",
    "of",
    "for",
    "never",
    "recognises",
    "alone",
    "and",
    "is",
    "has",
    "on",
    "in",
    "reads",
    "ended",
}
FILLED = re.compile(r"\{\{.*?\}\}")  # in a template
FILLED_PATH = re.compile(r"(?<=/)\{\{.*?\}\}")
COMMAND = re.compile(
    r"\bscaleproof(?: [\w.{}/-]+)+|\bsnakemake (?:-[^\s`]+ )*(?:[\w=]+ )?(?:-- )?(?:results/|ANYTHING)[\w./*<>-]*"
)


def texts(tree: ast.Module) -> list[str]:
    """The strings of a module but its docstrings; what is filled in stands as a placeholder."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            found.append("".join(part.value if isinstance(part, ast.Constant) else ANY for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | inner:
            found.append(node.value)
    return found


def commands(text: str) -> list[str]:
    return [match[0].rstrip(".") for match in COMMAND.finditer(text)]


def is_prose(command: str) -> bool:
    return command.split()[0] == "scaleproof" and not PROSE.isdisjoint(command.split()[1:3])


def test_commands_in_messages_exist(repository):
    counted, faults = 0, {}
    for path in sorted((repository / "src/scaleproof").rglob("*.py")):
        for text in texts(ast.parse(path.read_text())):
            for command in (c for c in commands(text) if not is_prose(c)):
                counted += 1
                if why := fault(command, repository):
                    faults[f"{path.name}: {command}"] = why
    assert counted > 60
    assert not faults


def test_commands_in_pages_exist(repository):
    texts = "\n".join(path.read_text() for path in (repository / "src/scaleproof").glob("**/templates/*.j2"))
    told = [c for c in commands(FILLED.sub(f" {ANY} ", FILLED_PATH.sub(ANY, texts))) if not is_prose(c)]
    assert len(told) > 1
    assert {c: why for c in told if (why := fault(c, repository))} == {}


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (
            ["ab", "--", "pythn", "a.py", "--", "ls"],
            'command A: pythn: there is no such program here. Did you mean "pyt',
        ),
        (["ab", "--", "~/a.py", "--", "ls"], "only a shell replaces ~: "),
        (["model", "fetch", "https://huggingface.co/gpt2"], "allowed: owner/name, like Qwen/Qwen3-0.6B."),
        (["model", "fetch", "https://huggingface.co/Qwen/Qwen3-0.6B"], "; write Qwen/Qwen3-0.6B."),
    ],
)
def test_programs_and_models_are_named_as_they_can_be_typed(tmp_path, words, part):
    done = scaleproof(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert part in done.stderr
