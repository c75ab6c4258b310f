"""The list of all files of the package with their tests, docs/map.md: `python tests/code_map.py`.

An entry says what a file is about, by its docstring, which findings it makes, and which tests import it, or name one
of these findings or many of its words: what fails first when it is wrong.
"""

import ast
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PAGE = ROOT / "docs/map.md"
SHOWN = 3  # tests in a line; no count of the others, which every new test would change
RARE = 3, 6  # files of the package and tests that may have a word which tells something of both
KNOWS = 2.0  # a test that shares so many words with a file, a word of n files and m tests counted 1/(n m), knows it
HEAD = """# Every file, and its tests

Written by `python tests/code_map.py`, and compared with the code by a test. Search it for the word of your change; then
read [architecture.md](architecture.md#where-is-it-and-what-witnesses-it), which says what belongs together.
Paths are from `src/scaleproof/`; the tests after an arrow import the file themselves, or name one of its findings or
many of its words: its own test first, then the one that shares most words with it. A file without an arrow is tested
through those that use it.
"""


def page() -> str:
    """The whole page: a section for each room, a line for each file."""
    imported, texts, shared = tests_by_module(), test_texts(), words_shared()
    sections = [HEAD]
    for folder in rooms():
        files = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py" or _has_code(path)]
        if files:
            title = folder.relative_to(SOURCE / "scaleproof").as_posix()
            lines = [_entry(path, imported.get(module_name(path), set()), texts, shared[path]) for path in files]
            sections.append("\n".join([f"## {title}\n", *lines]) + "\n")
    return "\n".join(sections)


def rooms() -> list[Path]:
    """The houses and their rooms, in alphabetical order."""
    package = SOURCE / "scaleproof"
    return sorted({path.parent for path in package.rglob("*.py")} - {package})


def module_name(path: Path) -> str:
    """`scaleproof.ground.files` of src/scaleproof/ground/files.py."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_texts() -> dict[str, str]:
    """What stands in each test file, by its path from the top."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}


def tests_by_module() -> dict[str, set[str]]:
    """Test files by the module that they import."""
    witnesses: dict[str, set[str]] = {}
    for test, text in test_texts().items():
        for name in imported_names(ast.parse(text)):
            witnesses.setdefault(name, set()).add(test)
    return witnesses


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Everything that could be a module: `a.b` and `a.b.c` of `from a.b import c`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def words_shared() -> dict[Path, Counter[str]]:
    """How much each test file knows of each file of the package: the rare words of both, each by its rarity."""
    of_files = {path: set(words(path.read_text())) for path in (SOURCE / "scaleproof").rglob("*.py")}
    of_tests = {test: set(words(text)) for test, text in test_texts().items()}
    files_with = Counter(word for found in of_files.values() for word in found)
    tests_with: dict[str, list[str]] = {}
    for test, found in of_tests.items():
        for word in found:
            tests_with.setdefault(word, []).append(test)

    shared = {}
    for path, found in of_files.items():
        shared[path] = Counter[str]()
        for word in sorted(found):  # so that sums of the same numbers are equal each time
            tests = tests_with.get(word, [])
            if files_with[word] <= RARE[0] and len(tests) <= RARE[1]:
                for test in tests:
                    shared[path][test] += 1 / files_with[word] / len(tests)
    return shared


def words(text: str) -> Iterator[str]:
    """The names in a program, and the words of its texts but for docstrings."""
    tree = ast.parse(text)
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield from re.findall(r"[A-Za-z_][\w-]{3,}", node.value)
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def _has_code(path: Path) -> bool:
    """Whether an `__init__.py` holds more than its docstring and `__all__`."""
    return any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in ast.parse(path.read_text()).body)


def _entry(path: Path, tests: set[str], texts: dict[str, str], shared: Counter[str]) -> str:
    tree = ast.parse(path.read_text())
    about = ast.get_docstring(tree) or ""
    sentences = re.split(r"(?<=[.?]) |\n\n", about.strip(), maxsplit=2)
    asks = sentences[0].endswith("?") and len(sentences) > 1  # the answer says more
    sentence = " ".join(sentences[: 1 + asks]).replace("\n", " ").rstrip(".:")
    codes = codes_raised(tree)
    named = f" ({', '.join(f'`{code}`' for code in codes)})" if codes else ""
    naming = {test for test, text in texts.items() if any(f'"{code}"' in text for code in codes)}
    return "\n".join([_wrapped(f"- `{path.name}`: {sentence}{named}"), *_arrow(path, tests | naming, shared)])


def codes_raised(tree: ast.AST) -> list[str]:
    """The codes of the findings that a file describes: the first argument of each `Code(...)` and `finds(...)`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    calls = [call for call in calls if ast.unparse(call.func).rpartition(".")[2] in ("Code", "finds")]
    return [ast.literal_eval(call.args[0]) for call in calls if call.args and isinstance(call.args[0], ast.Constant)]


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _arrow(path: Path, tests: set[str], shared: Counter[str]) -> list[str]:
    """The line of a file's tests, or none: the test of its name, those that know its words, those of its own room."""
    room = path.parent.relative_to(SOURCE / "scaleproof").as_posix()
    knowing = {test: count for test, count in shared.items() if count >= KNOWS}

    def distance(test: str) -> tuple[bool, float, bool, str]:
        is_own = Path(test).stem == f"test_{path.stem}"
        return not is_own, -knowing.get(test, 0.0), not test.startswith(f"tests/{room}/"), test

    nearest = sorted(tests | set(knowing), key=distance)
    others = " and more" if len(nearest) > SHOWN else ""
    if not nearest:
        return []
    return ["  " + _wrapped("→ " + ", ".join(f"`{test}`" for test in nearest[:SHOWN]) + others).replace("\n", "\n  ")]


if __name__ == "__main__":
    PAGE.write_text(page())
