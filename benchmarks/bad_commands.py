"""Bad command lines, from the parser's own commands and options; and bad targets of Snakemake."""

import argparse
from random import Random

from bad_cases import DEMO, MINE, OTHER, RESULTS, RUN, TRACE, Case, misspelt

from scaleproof.cli import parser
from scaleproof.cli.values import Number

# A line of words of each command that would be right.
VALID: dict[str, list[str]] = {
    "campaign validate": [MINE],
    "campaign show": [DEMO],
    "campaign schema": [],
    "corpus list": [],
    "corpus check": ["python-docs"],
    "stale": [DEMO],
    "keep": [DEMO],
    "init": ["new-project"],
    "doctor": ["--no-ranks"],
    "retry": [DEMO, "--cell", "ddp-n1x2"],
    "cluster check": [DEMO],
    "trace capture": [DEMO, "ddp-n1x2", "--steps", "3"],
    "trace summary": [TRACE],
    "trace diff": [TRACE, f"{RESULTS}/traces/zero2-n1x2"],
    "trace interconnect": ["README.md"],
    "compare": [RUN, OTHER, "--vary", "strategy"],
    "sweep": [DEMO, "--group", "1x2"],
    "forecast": [DEMO],
    "frontier": [DEMO, "ddp-n1x2", "--limit", "1GB"],
    "plan": [DEMO, "--price", "2.5"],
    "rehearse": [DEMO],
    "ab": [],  # no programs, which a sample would start: what is wrong with its words is said before
    "watched": [RUN],
    "model fetch": ["openai-community/gpt2"],
    "audit": [RESULTS],
    "explain": ["machine-busy"],
    "verify": [RESULTS],
    "why": [RESULTS, "cells/ddp-n1x2/tokens_per_s"],
    "publish": [RESULTS, "--author", "Jane Doe"],
    "gate": ["--history", *[RESULTS] * 5],
    "index": ["results"],
    "export prometheus": [RESULTS, "cells.prom"],
    "export tensorboard": [RESULTS, "new-folder"],
    "export wandb": [RESULTS, "new-folder"],
    "export mlflow": [RESULTS, "new-folder"],
}


def commands() -> dict[str, argparse.ArgumentParser]:
    """Every command but the workflow's stages, by its words."""
    made: dict[str, argparse.ArgumentParser] = {}

    def walk(one: argparse.ArgumentParser, words: tuple[str, ...]) -> None:
        groups = [action for action in one._actions if isinstance(action, argparse._SubParsersAction)]
        if not groups:
            made[" ".join(words)] = one
        for name, inner in groups[0].choices.items() if groups else ():
            if name != "stage":
                walk(inner, (*words, name))

    walk(parser(), ())
    return made


COMMANDS = commands()
assert set(COMMANDS) == set(VALID), set(COMMANDS) ^ set(VALID)
BAD_PATHS: list[tuple[str, str]] = [
    ("nowhere/at/all", "nowhere"),
    ("results/dmo", "demo"),
    ("config/campaigns/dmeo.yaml", "demo"),
    ("empty", "empty"),
    ("empty.txt", "empty.txt"),
    ("binary.bin", "binary.bin"),
    ("pipe", "pipe"),
    ("circle", "circle"),
    ("README.md/x", "README.md"),
    ("x" * 300, "xxx"),
    ("", ""),
    ("/dev/null", "/dev/null"),
    ("/", "/"),
    ("config", "config"),
]


def command_line(random: Random) -> Case:
    """A command with one thing wrong: a word, an option, a value, or how many there are."""
    name, one = random.choice([(name, one) for name, one in COMMANDS.items() if name != "doctor"])
    words = [*name.split(), *VALID[name]]
    options = [a for a in one._actions if a.option_strings and a.dest != "help" and a.help != argparse.SUPPRESS]
    kind = random.choice(
        ["word", "option", "flag", "value", "value", "value", "path", "path", "many", "missing", "twice"]
    )
    if kind == "word":
        group = parser() if " " not in name or random.random() < 0.5 else None
        at = 0 if group else 1
        every = [key.split()[at] for key in COMMANDS if len(key.split()) > at]
        words[at] = misspelt(random, words[at], every)
        return Case(words, [VALID and name.split()[at], "llowed"])
    if kind == "option" and options:
        names = [option.option_strings[0] for option in options]
        chosen = random.choice(names)
        word = f"--{misspelt(random, chosen[2:], [n[2:] for n in names])}"
        return Case([*words, word, "1"], [chosen])
    if kind == "flag" and (valued := [option for option in options if option.nargs != 0]):
        at = random.choice(valued).option_strings[0]
        return Case([*words, at], [at, "value"])
    if kind == "value" and options:
        return _value(random, words, random.choice(options))
    if kind == "path":
        places = [at for at, word in enumerate(words) if ("/" in word or word == "results") and at >= len(name.split())]
        if places:
            at = random.choice(places)
            words[at], must = random.choice(BAD_PATHS)
            return Case(words, [(must, "is given twice", "no figure", "cannot be reached")], codes=(0, 1, 2))
    if kind == "many":
        takes_more = any(a.nargs in ("*", "+") for a in one._actions)
        return Case(
            [*words, "superfluous"],
            [("superfluous", "is given twice", "summarised alone", "each behind --")],
            codes=(0, 1, 2) if takes_more else (2,),
        )
    if kind == "missing" and VALID[name]:
        at = random.randrange(len(name.split()), len(words))
        return Case(words[:at] + words[at + 1 :], [], codes=(0, 1, 2))
    if kind == "twice" and (single := [a for a in options if isinstance(a, argparse._StoreAction)]):
        at = random.choice(single).option_strings[0]
        return Case([*words, at, "1", at, "1"], [at])
    return command_line(random)


def _value(random: Random, words: list[str], option: argparse.Action) -> Case:
    """A wrong value of an option."""
    name = option.option_strings[0]
    if option.nargs == 0:
        return Case([*words, f"{name}=yes"], [name, "takes no value"])
    if option.choices:
        choices = [str(choice) for choice in option.choices]
        chosen = random.choice(choices)
        word = misspelt(random, chosen, choices) if random.random() < 0.7 else "nonsense"
        return Case([*_without(words, name), name, word], [name, *choices])
    if isinstance(option.type, Number):
        if option.nargs == 2:
            return Case([*_without(words, name), name, "1"], [name, "2 values"])
        word = random.choice(
            ["abc", "0", "-3", "1e99", "nan", "inf", " ", "", "1.5.2", "10 x", "½", "0x10", "--", "ten", "2,5x"]
        )
        if word == "--":
            return Case([*_without(words, name), name, word], [name])
        return Case([*_without(words, name), name, word], [name, "allowed"])
    kind = getattr(option.type, "__name__", "")
    bad = {
        "memory": ["4", "4GiB", "lots", "-1GB", "0GB", "", "GB"],
        "past_day": ["soon", "2999-01-01", "2026-13-01", "01.11.2026", "2026/11/01", "", "2026"],
        "campaign_name": ["", "../x", "My test"],
        "file_name": ["", "../x", "a/b", "/tmp/x", ".."],
        "log_reader": ["NanoGTP", "", "megatron-lm"],
        "currency": ["dollars", "$", "eur", "", "12"],
        "url": ["github.com/x", "ftp://x", "", "x"],
        "text": ["", "  "],
        "results_folder": ["resluts", "README.md", "", "pipe", "circle", "x" * 300],
        "folder": ["resluts", "README.md", "", "pipe", "circle"],
        "file_to_write": ["nowhere/x.html", "results", "pipe", "", "resluts/x.html", "README.md"],
        "folder_to_write": ["README.md", "nowhere/at", "", "pipe"],
        "file_to_read": ["nowhere.json", "results", "pipe", "", "REDME.md"],
    }.get(kind, ["", "no-such-thing", "\x1b[31m"])
    known = kind in (
        "file_name",
        "campaign_name",
        "log_reader",
        "memory",
        "past_day",
        "currency",
        "url",
        "text",
        "results_folder",
        "folder",
        "file_to_write",
    )
    return Case(
        [*_without(words, name), name, random.choice(bad)],
        [name] if known else [],
        codes=(0, 1, 2) if not known else (2,),
    )


def _without(words: list[str], option: str) -> list[str]:
    """The words without an option and its value."""
    return words[: words.index(option)] + words[words.index(option) + 2 :] if option in words else words
