"""How a command is declared: what it is called, what it does, an example, and the options that several share."""

import argparse
import itertools
import os
import re
import sys
from collections.abc import Callable, Collection
from typing import Any, NoReturn

from scaleproof.cli.values import RESULTS, chart_to_write, file_to_read, folder, page_to_write, path, results_folder
from scaleproof.ground.errors import did_you_mean, nearest_name, shortened

Group = argparse._SubParsersAction

# Words that people try as commands, for what the workflow does.
WORKFLOW_WORDS = (
    *("run", "launch", "start", "execute", "bench", "benchmark"),
    *("report", "build", "submit", "plot", "charts"),
)
# Shell -> its function that completes the names of files and folders, for shtab.
OF_FILES = {"bash": "_shtab_compgen_files", "zsh": "_files", "tcsh": "f"}


class _Once(argparse._StoreAction):
    """Stores the value of an option that may be given once: of two values, the first would be lost without a word."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, name: str | None = None
    ) -> None:
        """Store the value. Raises ArgumentError where the option was given before."""
        given = namespace.__dict__.setdefault("given", set())
        if name is not None and self.dest in given:  # None: a positional argument
            hint = "; give all its values after one of them" if self.nargs == "+" else ""
            raise argparse.ArgumentError(self, f"is given twice{hint}")
        given.add(self.dest)
        super().__call__(parser, namespace, values, name)


class Parser(argparse.ArgumentParser):
    """An argument parser that names the nearest command, choice or option when it does not know a word."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """Make a parser as ArgumentParser does, but without abbreviations, and with each option at most once."""
        options.setdefault("allow_abbrev", False)  # else a new option could change what an abbreviation means
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **options)
        for name in (None, "store"):
            self.register("action", name, _Once)

    @property
    def known(self) -> dict[str, argparse.Action]:
        """The command's options, each by each of its names."""
        return {name: action for action in self._actions for name in action.option_strings}

    def add_argument(self, *names: Any, needs: str = "", **options: Any) -> argparse.Action:
        """Add an argument as ArgumentParser does. Where it takes a file, shells complete the names of files.

        `needs`: the option without which this option would mean nothing.
        """
        action = super().add_argument(*names, **options)
        action.needs = needs  # type: ignore[attr-defined]
        if action.type in (path, folder, file_to_read, page_to_write, chart_to_write, results_folder):
            action.complete = OF_FILES  # type: ignore[attr-defined]  # shtab's own attribute
        return action

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Check that `value` is one of the choices. Raises ArgumentError, with the nearest one."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        if not isinstance(action, argparse._SubParsersAction):
            hint = did_you_mean(value, choices)
        else:
            hint = _command_hint(self.prog, action, str(value))
            first_word = sys.argv[1] if len(sys.argv) > 1 else ""
            if first_word.startswith("-"):  # an unknown option, whose value may have been taken for the command
                if (command := first_word.strip("-")) in choices:
                    hint = f' Did you mean "{shortened(" ".join([self.prog, command, *sys.argv[2:]]))}"?'
                hint = f' "{first_word}" is no option before a command.{hint}'
        raise argparse.ArgumentError(action, f'there is no "{value}".{hint} Allowed: {", ".join(choices)}')

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        """Count the words that belong to an argument. Raises ArgumentError, which says what value is missing."""
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError:
            meaning = f": {action.help}" if not action.choices else ""
            values = f"{action.nargs} values" if isinstance(action.nargs, int) else "a value"
            for word, next_word in itertools.pairwise(sys.argv):
                if word in action.option_strings and next_word[:1] == "-":  # argparse did not take it as the value
                    is_option = next_word.partition("=")[0] in self.known
                    meaning += f'; not "{next_word}"' + f", which is written {word}={next_word}" * (not is_option)
            raise argparse.ArgumentError(action, f"needs {values}, {_value_placeholder(action)}{meaning}") from None

    def error(self, message: str) -> NoReturn:
        """End with exit code 2 and argparse's `message`. Messages of the commonest slips get clearer words."""
        groups = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
        options = [word for word in sys.argv[1:end] if re.match("--?[a-z]", word)]
        # An unknown option may be why a word seems to be missing, or have its value taken for an argument.
        unknown = [word for word in options if word.partition("=")[0] not in self.known]
        is_about_positional = message.startswith("argument ") and not message.startswith("argument --")
        value_of_flag = re.fullmatch(r"argument (\S+): ignored explicit argument (.*)", message, re.DOTALL)  # --json=1

        if message.endswith("required: COMMAND") and groups:
            command = groups[0].choices.get(unknown[0].strip("-")) if unknown else None
            if command is not None:  # "--gate", and nothing after it
                command.error(f'"{unknown[0]}" is no option but a command, without hyphens: {command.prog}')
            # The description is a sentence of its own, so that the next one begins with a capital.
            hint = f"{_describe_strange_option(unknown[0], self.known)} A" if unknown else "a"
            message = f"{hint} command is missing; allowed: {', '.join(groups[0].choices)}"
        elif "are required:" in message:
            hints = [_describe_strange_option(word, self.known) for word in unknown[:3]]
            for word in options:
                if getattr(self.known.get(word), "nargs", None) == "+":  # it may have taken the missing arguments
                    hints.append(f"{word} takes all words after it: write it at the end.")
            message = " ".join(part for part in (*hints, f"{message}.", self._example()) if part)
        elif value_of_flag:
            message = f"argument {value_of_flag[1]}: takes no value, and {value_of_flag[2]} is one; leave it out"
        elif is_about_positional and unknown and not groups:  # it may have got the value of the unknown option
            self.reject_unknown(unknown)
        elif is_about_positional:
            self.check_order()
        super().error(shortened(message, 1000))

    def _example(self) -> str:
        """Return the first example of the help in one line, "Example: scaleproof ...".

        Returns "" where there is none.
        """
        heading_and_first = (self.epilog or "").splitlines()[:2]
        return " ".join(" ".join(heading_and_first).split())

    def check_needs(self, given: Collection[str]) -> None:
        """End with exit code 2 where an option is `given` without the option that it needs."""
        for action in self._actions:
            needs = getattr(action, "needs", "")
            if needs and action.dest in given and self.known[needs].dest not in given:
                self.error(f"{action.option_strings[-1]} belongs to {needs}, which is not given")

    def check_order(self) -> None:
        """End with exit code 2 where the two words of a command, a path and what is no path yet, are swapped."""
        # The positional arguments that must be given.
        arguments = [action for action in self._actions if not action.option_strings and action.nargs is None]
        words = [shortened(word) for word in sys.argv if not word.startswith("-")][len(self.prog.split()) :]
        are_two = len(arguments) == 2 and len(words) >= 2 and arguments[1].type not in (path, folder, file_to_read)
        if are_two and os.path.exists(words[1]) and not os.path.exists(words[0]):
            self.error(f"the words are in the wrong order: {self.prog} {words[1]} {words[0]}")

    def reject_unknown(self, words: list[str]) -> NoReturn:
        """End with exit code 2 and name the `words` that no option or argument of the command takes."""
        arguments = {action.dest: _value_placeholder(action) for action in self._actions if not action.option_strings}
        strange = [word for word in words if word.startswith("-") and len(word) > 1]
        if not strange:
            placeholders = " ".join(arguments.values()) or "no argument"
            advice = self.get_default("for_more_words") or ""
            fault = f'"{words[0]}" is one word too many; {self.prog} takes {placeholders}'
            word_before = sys.argv[sys.argv.index(words[0]) - 1] if words[0] in sys.argv else ""
            if word_before in self.known:  # a flag, as options with a value have taken theirs
                fault = f'{word_before} takes no value; write "{words[0]}" before it, or "> {words[0]}" for the output'
            self.error(f"{fault}. {advice}{self._example()}")
        for word in strange:
            if name := arguments.get(word.strip("-").partition("=")[0]):  # "--campaign" for the argument `campaign`
                usage = " ".join(self.format_usage().split())
                self.error(f'"{word}" is no option here: give {name} alone. {usage}')
        faults = " ".join(_describe_strange_option(word, self.known) for word in strange)
        options = [name for name in self.known if name.startswith("--") and self.known[name].help != argparse.SUPPRESS]
        self.error(f"{faults} Options: {', '.join(options)}")


def _value_placeholder(action: argparse.Action) -> str:
    if action.metavar:
        return str(action.metavar)
    return f"one of {', '.join(map(str, action.choices))}" if action.choices else action.dest


def _describe_strange_option(word: str, known: dict[str, argparse.Action]) -> str:
    """Describe an option that the command does not know, with a hint. `known`: the command's options by name."""
    name = word.partition("=")[0]
    if os.path.lexists(word):
        return f'"{shortened(word)}" is taken for an option; for the file write ./{shortened(word)}.'
    if name in known:
        return f'"{name}" stands before the command; write it at the end.'
    options = [option for option in known if option.startswith("--")]
    letters = name.strip("-")
    with_same_letter = [option for option in options if option[2:3] == letters[:1]]
    is_short_for_one = len(letters) == 1 and len(with_same_letter) == 1
    hint = f' Did you mean "{with_same_letter[0]}"?' if is_short_for_one else did_you_mean(name, options)
    return f'"{shortened(word)}" is not expected.{hint}'


def _command_hint(prog: str, group: Group, word: str) -> str:
    """Return a hint at the command that `word` may mean: ` Did you mean "scaleproof campaign validate"?`; else "".

    `prog`: the words before it, "scaleproof" or "scaleproof campaign"; `group` has the commands that may follow.
    """
    command, *rest = re.split("[ =]", word, maxsplit=1)
    if rest and command in group.choices:  # "verify results/demo" in quotes, verify=results/demo
        return f" Several words are written as one; write: {prog} {command} {rest[0]}."
    nearest = nearest_name(word, [*group.choices, *WORKFLOW_WORDS])
    if word.casefold() in WORKFLOW_WORDS or nearest in {*WORKFLOW_WORDS} - {*group.choices}:
        return ' Did you mean "snakemake --cores 2 results/<campaign>/report.html"?'
    inside = [
        f'"{prog} {name} {word}"'
        for name, parser in group.choices.items()
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction) and word in action.choices
    ]
    if inside:  # `word` is the second word of a command without the first
        return f" Did you mean {' or '.join(inside[:3])}?"
    if word.endswith(".yaml") and "campaign" in group.choices:
        return f" A command comes first: {prog} campaign show {word}."
    if "/" in word or "." in word:  # a file lacks the command that reads it
        words = sys.argv[sys.argv.index(word) :] if word in sys.argv else [word]
        # Without the options, which may be those of another command.
        files = " ".join(itertools.takewhile(lambda one: not one.startswith("-"), words))
        first = "audit" if "audit" in group.choices else next(iter(group.choices))
        return f" A command comes first: {prog} {first} {files}."
    return did_you_mean(word, [*group.choices, "--help", "--version"])


def add_command(
    group: Group, name: str, run: Callable[[argparse.Namespace], None], doc: str, example: str = ""
) -> argparse.ArgumentParser:
    epilog = "Example:\n" + "\n".join(f"  {line}" for line in example.splitlines()) if example else None
    sub: argparse.ArgumentParser = group.add_parser(name, help=doc, description=doc, epilog=epilog)
    sub.set_defaults(run=run, parser=sub)
    return sub


def add_campaign_command(
    group: Group, name: str, run: Callable[[argparse.Namespace], None], doc: str, example: str = ""
) -> argparse.ArgumentParser:
    sub = add_command(group, name, run, doc, example)
    sub.add_argument("campaign", type=path, metavar="CAMPAIGN", help="campaign file, e.g. config/campaigns/demo.yaml")
    return sub


def add_subcommands(group: Group, name: str, doc: str) -> Group:
    """Add the word `name`, with which several commands begin. Returns the group to which they are added."""
    return group.add_parser(name, help=doc, description=doc).add_subparsers(required=True, metavar="COMMAND")


def add_results_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--results",
        type=results_folder,
        default=str(RESULTS),  # as text, so that it is checked like one that is given
        metavar="DIR",
        help="folder of all results (default: results)",
    )


def add_fingerprints_option(parser: argparse.ArgumentParser) -> None:
    help_text = "refuse to run if these are no longer the cells' fingerprints"
    parser.add_argument("--fingerprints", nargs="+", metavar="F", help=help_text)
