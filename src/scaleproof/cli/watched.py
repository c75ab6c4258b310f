"""`scaleproof watched`: what two lines in a training loop have recorded."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from scaleproof.cli.arguments import Group, add_command
from scaleproof.cli.values import folder
from scaleproof.ground.errors import plural
from scaleproof.ground.number_format import integer

if TYPE_CHECKING:
    from scaleproof.conclude.checks.watched import WatchedRun


def watched(args: argparse.Namespace) -> None:
    """Print what `scaleproof.watch` has recorded in each folder, with findings.

    Raises SystemExit(1) where a finding is above `note`, or a run did other work than the first run.
    """
    from scaleproof.conclude.checks.watched import WatchedRun, of_watched
    from scaleproof.conclude.checks.watched_work import reasons_not_comparable
    from scaleproof.ground.findings.finding import codes_above_note
    from scaleproof.ground.losses import compare_losses
    from scaleproof.ground.records.watched import FOLDER, VARIABLE, read_watched

    folders = args.folders or [Path(os.environ.get(VARIABLE) or FOLDER)]  # where `watch` writes by default
    are_names_unique = len({place.name for place in folders}) == len(folders)
    names = [place.name if are_names_unique else str(place) for place in folders]
    runs = [WatchedRun(name, read_watched(place)) for name, place in zip(names, folders, strict=True)]

    for run in runs:
        ranks, steps = plural(len(run.ranks), "rank"), plural(len(run.ranks[0].step_s), "optimizer step")
        print(f"{run.name}: {ranks}, {steps}, {_rate_text(run)} (evidence: watched)")
    for run in runs[1:]:
        _, losses_text = compare_losses(runs[0].name, run.name, [runs[0].losses], [run.losses])
        print(losses_text or f"Losses were not compared: {runs[0].name} or {run.name} has none.")
    differences = [difference for run in runs[1:] for difference in reasons_not_comparable(runs[0], run)]
    for difference in differences:
        print(f"not comparable: {difference}")

    findings = of_watched.findings(runs)
    for finding in findings:
        print(f"{finding.severity}: {finding.code}: {', '.join(finding.runs)}: {finding.evidence}. {finding.advice}")
    if differences or codes_above_note(findings):
        raise SystemExit(1)


def _rate_text(run: "WatchedRun") -> str:
    """Return the rate of a run with its unit: "12,345 tokens/s"."""
    if run.tokens_per_s:
        return f"{integer(run.tokens_per_s)} tokens/s"
    return f"{integer(run.samples_per_s)} samples/s" if run.samples_per_s else "nothing counted"


def add(commands: Group) -> None:
    doc = "what scaleproof.watch has recorded: steps, rates, checks that need no formula; exit code 1 with findings"
    example = (
        "scaleproof watched scaleproof-watch\n"
        "scaleproof watched ddp/scaleproof-watch zero2/scaleproof-watch      # and whether both did the same work"
    )
    parser = add_command(commands, "watched", watched, doc, example)
    help_text = "folders with watched.<rank>.json (default: where scaleproof.watch writes by default)"
    parser.add_argument("folders", nargs="*", type=folder, metavar="DIR", help=help_text)
