"""A folder to work in: `scaleproof init`."""

import argparse
import shlex
from importlib.util import find_spec
from pathlib import Path

from scaleproof.cli.arguments import Group, add_command
from scaleproof.cli.values import folder_to_write

NEEDED = ("snakemake", "torch")  # libraries without which no campaign runs


def init(args: argparse.Namespace) -> None:
    """Make a project in a folder, and print its files and what to type next."""
    from scaleproof.driver.new_project import new_project

    for name in new_project(args.folder):
        print(args.folder / name)
    print()
    if args.folder != Path():
        folder = str(args.folder)
        print(f"cd {shlex.quote('./' * folder.startswith('-') + folder)}")
    if not all(find_spec(library) for library in NEEDED):
        print("pip install 'scaleproof[all]'")
    print("scaleproof campaign show config/campaigns/demo.yaml\nsnakemake --cores 2")


def add(commands: Group) -> None:
    doc = "make a folder of campaigns that the installed workflow measures: Snakefile, a campaign, profiles"
    parser = add_command(commands, "init", init, doc, "scaleproof init my-benchmarks")
    help_text = "a new folder, or one without such files (default: this one)"
    parser.add_argument("folder", type=folder_to_write, nargs="?", default=".", metavar="FOLDER", help=help_text)
