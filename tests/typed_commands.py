"""Commands that documents and messages tell people to type: is there such a command, such an option, such a file?"""

import argparse
import re
import shlex
from functools import cache
from pathlib import Path

from snakemake.cli import get_argument_parser

from scaleproof.cli import parser

ANY = "ANYTHING"  # stands for what a message fills in

# Without one of these snakemake ends with "cores have to be specified".
COUNTED = {"--cores", "-n", "--profile", "--touch", "--report", "--summary"}
# Options that take all words up to the next one.
LISTS = {"--config", "--forcerun", "--sdm"}


def fault(command: str, repository: Path) -> str | None:
    """What is wrong with the first word, an option or a target of `command`; None where nothing is."""
    lexer = shlex.shlex(re.sub(r"<\w+>", ANY, command), posix=True, punctuation_chars="&|;<>()")
    lexer.whitespace_split = True
    words = list(lexer)
    words = words[: next((i for i, word in enumerate(words) if set(word) <= set("&|;<>()#")), len(words))]
    check = {"scaleproof": of_scaleproof, "snakemake": of_snakemake, "make": of_make}[words[0]]
    return check(words[1:], repository)


def of_scaleproof(words: list[str], repository: Path) -> str | None:
    """Commands, options and choices; values are not read."""
    here = parser()
    while groups := [a for a in here._actions if isinstance(a, argparse._SubParsersAction)]:
        if not words or words[0] == ANY or words[0].startswith("-"):
            break
        if words[0] not in groups[0].choices:
            return f'"{here.prog}" has no command "{words[0]}"'
        here, words = groups[0].choices[words[0]], words[1:]
    for word in words:
        if word == "--":  # what follows is another program's
            break
        if word.startswith("--") and word.partition("=")[0] not in here.known:
            return f'"{here.prog}" has no option {word}'
    return None


def of_snakemake(words: list[str], repository: Path) -> str | None:
    """Options, and targets below results/: a rule makes them."""
    options = _options_of_snakemake()
    for word in words:
        if word.startswith("-") and word != "--" and word.partition("=")[0] not in options:
            return f"snakemake has no option {word}"
        if word.startswith("results/") and not any(re.fullmatch(p, word) for p in _patterns(repository)):
            return f"no rule makes {word}"
    targets = [word for word in words if word.endswith(".html")]
    if targets and not LISTS.isdisjoint(words) and "--" not in words:
        return f"what follows {', '.join(LISTS.intersection(words))} is taken for more of it; -- ends that"
    filled_in = words[0] == ANY  # options_for(...) says with which profile, or cores, the campaign was run
    return "snakemake needs --cores" if targets and not filled_in and COUNTED.isdisjoint(words) else None


@cache
def _options_of_snakemake() -> set[str]:
    return set(get_argument_parser()._option_string_actions)


def of_make(words: list[str], repository: Path) -> str | None:
    targets = re.findall(r"^([\w-]+):", (repository / "Makefile").read_text(), re.MULTILINE)
    named = [word for word in words if re.fullmatch(r"[a-z-]+", word)]
    return next((f"make has no target {word}" for word in named if word not in targets), None)


def _patterns(repository: Path) -> list[str]:
    """The outputs of all rules; a placeholder stands for any part of a path."""
    texts = "".join(path.read_text() for path in (repository / "workflow/rules").glob("*.smk"))
    outputs = [re.sub(r"\{\{(\w+)\}\}", r"{\1}", path) for path in re.findall(r'"(results/[^"]+)"', texts)]
    return [re.sub(r"\\\{\w+[^}]*\\\}", lambda _: r"[^/]+", re.escape(output)) for output in outputs]
