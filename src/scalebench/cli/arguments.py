"""How a command is declared: what it is called, what it does, an example, and the options that several share."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from scalebench.errors import nearest, shortened

Group = argparse._SubParsersAction


class Parser(argparse.ArgumentParser):
    """An argument parser that names the nearest command, choice or option when it does not know a word."""

    def __init__(self, *args: Any, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)  # an abbreviation would change its meaning with the next option
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **options)

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            message = f'there is no "{value}".{nearest(value, choices)} Allowed: {", ".join(choices)}'
            raise argparse.ArgumentError(action, message)

    def error(self, message: str) -> NoReturn:
        """End with exit code 2; what a word has of control characters is spelled out."""
        super().error(shortened(message, 1000))

    def unknown(self, words: list[str]) -> NoReturn:
        """End with exit code 2 and name the words that no option or argument of the command takes."""
        options = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
        hints = [f'"{word}" is not expected.{nearest(word.partition("=")[0], options)}' for word in words]
        self.error(f"{' '.join(hints)} Options: {', '.join(options)}")


def command(
    group: Group, name: str, run: Callable[[argparse.Namespace], None], doc: str, example: str = ""
) -> argparse.ArgumentParser:
    """Add the command `name`, which calls `run` with the parsed arguments. `example`: lines for the end of its help."""
    epilog = "Example:\n" + "\n".join(f"  {line}" for line in example.splitlines()) if example else None
    sub: argparse.ArgumentParser = group.add_parser(name, help=doc, description=doc, epilog=epilog)
    sub.set_defaults(run=run, parser=sub)
    return sub


def on_campaign(
    group: Group, name: str, run: Callable[[argparse.Namespace], None], doc: str, example: str = ""
) -> argparse.ArgumentParser:
    """A command whose first argument is a campaign file."""
    sub = command(group, name, run, doc, example)
    sub.add_argument("campaign", type=path, metavar="CAMPAIGN", help="campaign file, e.g. config/campaigns/demo.yaml")
    return sub


def subcommands(group: Group, name: str, doc: str) -> Group:
    """A group of commands with a common first word."""
    return group.add_parser(name, help=doc, description=doc).add_subparsers(required=True, metavar="COMMAND")


def path(text: str) -> Path:
    """An argument that is a path; the empty text, which would be the working folder, is refused."""
    if not text:
        raise argparse.ArgumentTypeError("a path is empty")
    if "\0" in text:
        raise argparse.ArgumentTypeError("a path cannot contain a NUL character")
    return Path(text)


def count(text: str) -> int:
    """An argument that is a whole number from 1 to 1,000,000."""
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text[:8]) <= 10**6 or len(text) > 7:
        raise argparse.ArgumentTypeError(f'"{text}" is not allowed; allowed: a whole number from 1 to 1000000')
    return int(text)


def results_option(parser: argparse.ArgumentParser) -> None:
    """`--results`: where the results are, if they are not in the folder of that name."""
    parser.add_argument(
        "--results", type=path, default=Path("results"), metavar="DIR", help="folder of all results (default: results)"
    )


def fingerprints_option(parser: argparse.ArgumentParser) -> None:
    """`--fingerprints`: the cells as they were when the workflow planned this job."""
    parser.add_argument(
        "--fingerprints", nargs="+", metavar="F", help="refuse to run if these are no longer the cells' fingerprints"
    )
