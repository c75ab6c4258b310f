"""How a stage of the command line is declared."""

import argparse
from collections.abc import Callable
from pathlib import Path

Group = argparse._SubParsersAction


def command(group: Group, name: str, run: Callable, doc: str) -> argparse.ArgumentParser:
    sub = group.add_parser(name, help=doc, description=doc)
    sub.set_defaults(run=run)
    return sub


def on_campaign(group: Group, name: str, run: Callable, doc: str) -> argparse.ArgumentParser:
    sub = command(group, name, run, doc)
    sub.add_argument("campaign", type=Path, help="campaign file, e.g. config/campaigns/demo.yaml")
    return sub
