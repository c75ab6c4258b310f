"""All commands. People use about a dozen; `scaleproof stage` has those that only the workflow calls."""

import argparse
import os
import re
import sys

from scaleproof import __version__
from scaleproof.cli import (
    ab,
    analyse,
    audit,
    doctor,
    export,
    forecast,
    new_project,
    prepare,
    rehearse,
    trace,
    verify,
    watched,
)
from scaleproof.cli import run as training
from scaleproof.cli.arguments import Parser, add_subcommands
from scaleproof.ground.errors import UserError

STAGED = (prepare, training, trace, analyse, forecast)  # modules with commands that the workflow calls
MODULES = (new_project, doctor, *STAGED, rehearse, ab, audit, watched, verify, export)
LONG_DASH = re.compile(r"[–—]+[a-z][a-z=-]*")  # an option whose "--" a text program has made a dash
DESCRIPTION = "Which way of spreading training over devices pays off, by how much, and how sure are we?"
EPILOG = """Example:
  scaleproof campaign show config/campaigns/demo.yaml   # what would run, and how long it may take
  snakemake --cores 2 results/demo/report.html          # run it
  scaleproof audit results/demo                         # check its numbers

Exit codes: 0 success; 1 a check failed (findings, not comparable, not ready); 2 wrong input, with one message; 130, 143
stopped (Ctrl-C, SIGTERM).
"""


def parser(stages_alone: bool = False) -> argparse.ArgumentParser:
    """Return the parser of the command line.

    `stages_alone`: without the commands that people type. The workflow starts thousands of commands, and a small parser
    is made sooner.
    """
    top = Parser(prog="scaleproof", description=DESCRIPTION, epilog=EPILOG)
    top.add_argument("-V", "--version", action="version", version=f"scaleproof {__version__}")
    top.set_defaults(parser=top)
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    if not stages_alone:
        for module in MODULES:
            module.add(commands)
    stages = add_subcommands(
        commands, "stage", "the steps of the workflow: each rule of it calls the stage of its name"
    )
    for module in STAGED:
        module.add_stages(stages)
    return top


def run() -> None:
    """Run the command of the command line. Raises UserError for wrong input, SystemExit as argparse does."""
    if sys.flags.optimize > 1:
        raise UserError("PYTHONOPTIMIZE=2 (python -OO) takes away texts that commands print: unset PYTHONOPTIMIZE")
    os.getcwd()  # raises where the working folder was removed: any file that is named would seem to be missing
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a file name that is not UTF-8 must not end in a traceback
            stream.reconfigure(errors="backslashreplace")

    words: list[str] = sys.argv[1:]
    programs: list[str] = []  # the words of the two commands that `ab` compares
    if words[:1] == ["ab"]:
        words, programs = ab.split(words)
    _check_hyphens(words)

    args, unknown = parser(stages_alone=words[:1] == ["stage"]).parse_known_args(words)
    args.programs = programs
    if args.run is ab.ab and unknown and re.match("[^-]|--?[ab]([= ]|$)", unknown[0]):  # a command without its "--"
        raise UserError(ab.WITHOUT_COMMANDS)
    if unknown:
        args.parser.reject_unknown(unknown)
    args.parser.check_needs(getattr(args, "given", ()))
    args.parser.check_order()
    args.run(args)


def _check_hyphens(words: list[str]) -> None:
    """End with exit code 2 for a second "--", or for a long dash where an option has two hyphens."""
    if words.count("--") > 1:  # argparse would take the second one for an argument
        parser().error('"--" is allowed once')
    for word in words:
        if LONG_DASH.fullmatch(word):
            name = word.lstrip("–—")
            parser().error(f'"{word}" begins with a long dash; an option has two hyphens: --{name}')
