"""`scaleproof watched`: what two lines in a training loop have recorded."""

import argparse
import os
from pathlib import Path

from scaleproof.cli.arguments import Group, add_command
from scaleproof.cli.values import folder
from scaleproof.ground.errors import plural
from scaleproof.ground.number_format import integer


def watched(args: argparse.Namespace) -> None:
    """Print what `scaleproof.watch` has recorded, with findings.

    Raises SystemExit(1) where one is above `note`, or a run did other work than the first.
    """
    from scaleproof.conclude.checks.watched import WatchedRun, of_watched, reasons_not_comparable
    from scaleproof.ground.findings.finding import codes_above_note
    from scaleproof.ground.records.watched import FOLDER, VARIABLE, read_watched

    folders = args.folders or [Path(os.environ.get(VARIABLE) or FOLDER)]  # where `watch` writes, if nothing is said
    names = [place.name for place in folders]
    if len(set(names)) < len(names):  # the usual name, in two folders
        names = [str(place) for place in folders]
    runs = [WatchedRun(name, read_watched(place)) for name, place in zip(names, folders, strict=True)]
    for run in runs:
        rate = "nothing counted"
        if run.tokens_per_s:
            rate = f"{integer(run.tokens_per_s)} tokens/s"
        elif run.samples_per_s:
            rate = f"{integer(run.samples_per_s)} samples/s"
        ranks, steps = plural(len(run.ranks), "rank"), plural(len(run.ranks[0].step_s), "optimizer step")
        print(f"{run.name}: {ranks}, {steps}, {rate} (evidence: watched)")
    different = [difference for run in runs[1:] for difference in reasons_not_comparable(runs[0], run)]
    for difference in different:
        print(f"not comparable: {difference}")
    findings = of_watched.findings(runs)
    for finding in findings:
        print(f"{finding.severity}: {finding.code}: {', '.join(finding.runs)}: {finding.evidence}. {finding.advice}")
    if different or codes_above_note(findings):
        raise SystemExit(1)


def add(commands: Group) -> None:
    """Add the command `watched` to `commands`."""
    doc = "what scaleproof.watch has recorded: steps, rates, checks that need no formula; exit code 1 with findings"
    example = (
        "scaleproof watched scaleproof-watch\n"
        "scaleproof watched ddp/scaleproof-watch zero2/scaleproof-watch      # and whether both did the same work"
    )
    parser = add_command(commands, "watched", watched, doc, example)
    help_text = "folders with watched.<rank>.json (default: where scaleproof.watch writes by default)"
    parser.add_argument("folders", nargs="*", type=folder, metavar="DIR", help=help_text)
