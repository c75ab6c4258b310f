"""Console blocks of documents: what is typed behind `$`, and what is shown below it.

`...` on a line of its own stands for any lines, within a line for any text. `$ cat NAME` of a file that is not there
makes it: the lines below are its contents; so does a block of another language below `<!-- file: NAME -->`. A command
without output below it must only end well. A block that costs too much to run has its reason in a comment right above
it, which no reader sees: `<!-- not run: measures for three minutes -->`.
"""

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from command_line import scaleproof

FILE = r"^<!-- file: (?P<file>\S+) -->\n```\w+"
CONSOLE = r"(?:^<!-- not run: (?P<reason>.+) -->\n)?^```console"
BLOCK = re.compile(rf"(?:{FILE}|{CONSOLE})\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
PROMPT = "$ "
COMMENT = re.compile(r"\s+#\s.*$")  # behind a command, for the reader
LINKED = ("Snakefile", "docs", "profiles", "src", "workflow")


@dataclass(frozen=True)
class Step:
    """A command and the lines that are shown below it."""

    command: str
    shown: str


@dataclass(frozen=True)
class Block:
    """The steps of a block, the line on which it begins, and why it is not run."""

    line: int
    reason: str | None
    steps: list[Step]


def blocks(text: str) -> list[Block]:
    """All console blocks of a document, and the files that it has."""
    return [
        Block(
            text.count("\n", 0, m.start()) + 1,
            m["reason"],
            [Step(f"cat {m['file']}", m["text"])] if m["file"] else _steps(m["text"]),
        )
        for m in BLOCK.finditer(text)
    ]


def _steps(text: str) -> list[Step]:
    assert text.startswith(PROMPT), f"a console block begins with {PROMPT!r}: {text[:40]!r}"
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [Step(COMMENT.sub("", first), shown) for first, _, shown in (part.partition("\n") for part in parts)]


def furnish(folder: Path, repository: Path) -> None:
    """What a reader's clone has: the repository, and results/demo, for which the published demo stands."""
    published = repository / "results/published"
    (folder / "results").mkdir()
    for name in LINKED:
        (folder / name).symlink_to(repository / name)
    (folder / "results/published").symlink_to(published)
    shutil.copytree(repository / "config", folder / "config")
    shutil.copytree(next(published.glob("demo_*")), folder / "results/demo")


def fault(step: Step, folder: Path) -> str | None:
    """How what `step` does in `folder` differs from what is shown; None where it does not."""
    words = shlex.split(step.command)
    if words[0] == "cat" and not (folder / words[1]).exists():
        (folder / words[1]).parent.mkdir(parents=True, exist_ok=True)
        (folder / words[1]).write_text(step.shown)
        return None
    if words[0] == "cat":
        return difference(step.shown, (folder / words[1]).read_text())
    assert words[0] == "scaleproof", f"only cat and scaleproof are run; say why not: <!-- not run: ... --> ({words[0]})"
    done = scaleproof(*words[1:], cwd=folder)
    printed = done.stdout + done.stderr
    if done.returncode not in (0, 1) and not step.shown:
        return f"ends with {done.returncode}: {printed}"
    return difference(step.shown, printed) if step.shown else None


def difference(shown: str, printed: str) -> str | None:
    """None where `shown`, with `...` for anything, is what is printed."""
    pattern = "".join(_pattern(line) for line in shown.rstrip().splitlines())
    text = "".join(f"{line.rstrip()}\n" for line in printed.rstrip().splitlines())
    return None if re.fullmatch(pattern, text) else f"shown:\n{shown}\nprinted:\n{printed}"


def _pattern(line: str) -> str:
    if line.strip() == "...":
        return r"(?:.*\n)*?"
    return re.escape(line.rstrip()).replace(re.escape("..."), ".*") + r"\n"
