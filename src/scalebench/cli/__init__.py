"""The command line: one thin command per stage, so that every step of the pipeline can be run by hand."""

import argparse
import sys

from scalebench import __version__
from scalebench.cli import analyse, audit, prepare, run, trace
from scalebench.errors import UserError


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="scalebench", description=__doc__)
    top.add_argument("--version", action="version", version=f"scalebench {__version__}")
    stages = top.add_subparsers(title="stages, in the order of the pipeline", required=True, metavar="STAGE")
    for part in (prepare, run, trace, analyse, audit):
        part.add(stages)
    return top


def main() -> None:
    args = parser().parse_args()
    try:
        args.run(args)
    except UserError as error:
        print(f"scalebench: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except OSError as error:  # a full disk, a folder that may not be written: nothing that a traceback would explain
        print(f"scalebench: {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
        raise SystemExit(2) from None
