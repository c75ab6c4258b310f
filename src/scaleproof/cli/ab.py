"""Two commands, one verdict: `scaleproof ab`."""

import argparse
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scaleproof.cli.arguments import Group, add_command
from scaleproof.cli.values import Number, campaign_name, count, file_name, log_reader, text
from scaleproof.ground.errors import UserError, no_such

if TYPE_CHECKING:
    from scaleproof.driver.ab_campaign import AbRequest

USAGE = "scaleproof ab [OPTIONS] -- COMMAND A -- COMMAND B"
SEPARATOR = "--"
WITHOUT_COMMANDS = f"two commands are compared, each behind {SEPARATOR}: {USAGE}"
METRICS = ("tokens/s", "samples/s", "steps/s", "time")
LEAST_MINUTES, MOST_MINUTES = 0.1, 100_000.0


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    place = list(words).index(SEPARATOR) if SEPARATOR in words else len(words)
    return list(words[:place]), list(words[place + 1 :])


def ab(args: argparse.Namespace) -> None:
    """Compare two commands until it is decided which is faster, and print the verdict.

    Raises SystemExit with the verdict's exit code, UserError for wrong input.
    """
    from dataclasses import asdict

    from scaleproof.conclude.report.sentences.ab import EXIT_CODES, AbAnswer
    from scaleproof.driver.ab import run_comparison
    from scaleproof.ground.snakemake_command import RESULTS

    campaign, verdict = run_comparison(_checked_request(args), args.name)
    page = RESULTS / campaign.stem / "report.html"
    report = str(page) if page.is_file() else None
    if args.json:
        answer = AbAnswer(**asdict(verdict), campaign=str(campaign), report=report)
        print(json.dumps(asdict(answer), indent=2))
    else:
        print(f"{verdict.sentence}\n{report}" if report else verdict.sentence)
    if code := EXIT_CODES[verdict.word]:
        raise SystemExit(code)


def _checked_request(args: argparse.Namespace) -> "AbRequest":
    """Return the comparison that the command line asks for. Raises UserError for wrong input."""
    from scaleproof.driver.ab_campaign import AbRequest
    from scaleproof.ground.campaign.command import BUILT_IN, free_axes
    from scaleproof.measure.command.program import absent_program

    times_whole_runs = args.metric == "time" or args.steps
    if args.seconds and times_whole_runs:
        raise UserError("--seconds ends runs early, and --steps or --metric time times them to their end")
    if args.minutes < LEAST_MINUTES:
        raise UserError(f"--minutes {args.minutes:g} is too short to start both programs; at least {LEAST_MINUTES}")
    if args.seconds and 2 * args.seconds > 60 * args.minutes:
        raise UserError(f"--seconds {args.seconds:g} for each of A and B are more than --minutes {args.minutes:g}")
    patterns = dict(_pattern(option) for option in args.pattern)
    if len(patterns) < len(args.pattern) or (patterns and args.figures != "auto"):  # a name given twice; both options
        raise UserError("--pattern is given once for each figure, and without --figures, which it would replace")
    a, b = split(args.programs)
    if not a or not b or SEPARATOR in b:  # there are none, one or three commands
        raise UserError(WITHOUT_COMMANDS)
    for name, words in (("A", a), ("B", b)):
        # Placeholders that are a whole word: other braces may be the program's own.
        unknown = free_axes(" ".join(word for word in words if re.fullmatch(r"(--?[\w-]+=)?\{\w+\}", word)))
        if fault := absent_program(words) or (unknown and no_such("placeholder", unknown[0], BUILT_IN)):
            raise UserError(f"command {name}: {fault}")
    return AbRequest(
        a,
        b,
        figures="whole" if times_whole_runs else args.figures,
        patterns=patterns,
        per_step=_per_step(args),
        steps=tuple(args.steps) if args.steps else None,
        seconds=args.seconds,
        warmup_steps=args.warmup_steps,
        geometry=args.geometry,
        difference=args.difference / 100,
        minutes=args.minutes,
        accept_differences=args.accept_differences,
        series=args.series,
    )


def _pattern(given: str) -> tuple[str, str]:
    """Split NAME=REGEX into the name of a figure and its regular expression. Raises UserError."""
    name, separator, pattern = given.partition("=")
    if not separator:
        raise UserError(f'--pattern "{given}": write NAME=REGEX, e.g. step_ms="time ([0-9.]+)ms"')
    return name, pattern


def _per_step(args: argparse.Namespace) -> tuple[str, Sequence[int]] | None:
    """Return the work of one step: ("tokens", [4096]) for both programs, ("tokens", [4096, 8192]) for A and B.

    Returns None where it is read from the logs. Raises UserError for another metric, or more than two amounts.
    """
    if not args.per_step:  # with --steps, runs of two lengths, steps are counted anyway
        return ("steps", [1]) if args.metric == "steps/s" and not args.steps else None
    unit = args.metric.removesuffix("/s") if args.metric else "tokens"
    if unit not in ("tokens", "samples"):
        raise UserError(f"--per-step is of tokens or samples; --metric is {args.metric}")
    if len(args.per_step) > 2:
        raise UserError(f"--per-step has {len(args.per_step)} numbers; give one, or one of A and one of B")
    return unit, args.per_step


def add(commands: Group) -> None:
    doc = (
        "is training program B faster than A? Alternates between them until that is decided, reads what they print, "
        "checks it, and says so in a line"
    )
    example = (
        "scaleproof ab -- torchrun train.py -- torchrun train.py --fused\n"
        "scaleproof ab --metric steps/s --minutes 5 -- python a.py -- python b.py\n"
        "scaleproof ab --steps 20 120 --json -- python a.py --steps {steps} -- python b.py --steps {steps}\n\n"
        "Exit codes: 0 B is faster; 3 B is slower; 4 as fast; 5 cannot tell yet; 1 not comparable, did not train, or "
        "failed; 2 wrong input."
    )
    parser = add_command(commands, "ab", ab, doc, example)
    parser.usage = USAGE
    parser.add_argument("--metric", choices=METRICS, help="what is compared (default: tokens/s, or as printed)")
    help_text = "tokens (or --metric samples/s: samples) of one step; two numbers: of A and of B"
    parser.add_argument("--per-step", type=Number(least=1, whole=True), nargs="+", metavar="N", help=help_text)
    help_text = "who reads the logs (default: auto)"
    parser.add_argument("--figures", type=log_reader, default="auto", metavar="READER", help=help_text)
    help_text = "a figure: step_ms, loss, ..."
    parser.add_argument("--pattern", type=text, action="append", default=[], metavar="NAME=REGEX", help=help_text)
    help_text = "time whole runs of two lengths, {steps} in both commands"
    parser.add_argument("--steps", type=count, nargs=2, metavar="N", help=help_text)
    help_text = "end each run after so long, what it printed until then counts (default: 4 %% of the minutes, or 10 %%)"
    parser.add_argument("--seconds", type=Number("seconds"), metavar="S", help=help_text)
    help_text = "first steps that do not count (default: 10)"
    parser.add_argument("--warmup-steps", type=Number(least=3, whole=True), metavar="N", help=help_text)
    help_text = "nodes x devices of both (default: 1x1)"
    parser.add_argument("--geometry", type=text, default="1x1", metavar="NxD", help=help_text)
    help_text = "the smallest that matters (default: 2)"
    parser.add_argument("--difference", type=Number("%", most=100), default=2.0, metavar="PERCENT", help=help_text)
    help_text = "all that it may take, the page with it (default: 10)"
    minutes = Number("minutes", most=MOST_MINUTES)
    parser.add_argument("--minutes", type=minutes, default=10.0, metavar="M", help=help_text)
    help_text = "compare watched programs of other models or precisions too"
    parser.add_argument("--accept-differences", action="store_true", help=help_text)
    parser.add_argument("--name", type=campaign_name, metavar="NAME", help="of the campaign (default: ab- and a hash)")
    help_text = "one error budget for all comparisons of this name"
    parser.add_argument("--series", type=file_name, metavar="NAME", help=help_text)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a sentence")
