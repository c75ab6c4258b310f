"""What to do where the answer is open: the key to set, the command, what it costs, or that it is not worth it."""

import math
from typing import Any

from scalebench.analysis.simultaneous import FEWEST, MOST_TIMES
from scalebench.errors import plural
from scalebench.report.number_format import duration

Entry = dict[str, Any]  # of scaling_report.json
SURE = "At least four times out of five"


def next_step(report: Entry, group: Entry | None) -> str | None:
    """One or two sentences; None where runs answer nothing that further ones could settle, or more are on their way.

    `group`: the ranking that is concluded from.
    """
    until = report.get("repeats")
    if until and until["goes_on"]:
        return None
    disturbed = group["recommendation"]["disturbed"] if group else []
    if disturbed and not report.get("question"):
        return _quiet(report, disturbed)
    if until and until["why"] not in ("at_most", "minutes", "device_hours"):
        return None
    if report.get("question"):
        return _further(report, report["question"]["resolve"], _n_of_question(report["question"]))
    if group:
        return _further(report, group["resolve"], min(e["tokens_per_sec_global"]["n"] for e in group["cells"]))
    series = next((s for s in report["series"] if len(s["runs"]) > 1), None)
    if series is None:
        return None
    return _further(report, series["resolve"], min(point["n"] for point in series["runs"].values()))


def _quiet(report: Entry, disturbed: list[str]) -> str:
    """How to measure again what something disturbed: more repeats of it would be repeats of the disturbance."""
    if len(disturbed) == 1:
        return (
            f"Next, on a quiet machine: scalebench retry {_file(report)} --cell {disturbed[0]}, then {_command(report)}"
        )
    folder = f"results/{report['campaign']}"
    looks = f" and {folder}/looks" if report.get("repeats") else ""
    return f"Next, on a quiet machine: remove {folder}/runs{looks}, then {_command(report)}"


def _n_of_question(question: Entry) -> int:
    return question["ratio"]["n"] if question["ratio"] else 0


def _further(report: Entry, resolve: Entry | None, n: int) -> str | None:
    """Which repeats settle what, as a line of the campaign file. `n`: repeats so far, of the cell with the fewest."""
    if resolve is None:
        if not 0 < n < FEWEST:
            return None
        return f'Next: set "repeats: {FEWEST}" in {_file(report)} and {_again(report, n, FEWEST)}'
    effect = rounded_up(resolve["effect"])
    further = resolve["further"]
    enough = resolve["repeats"]
    if enough and enough <= MOST_TIMES * n:
        return f"{_line(report, effect, n, enough)}. {SURE} that settles a difference of {effect}"
    number = f"about {float(f'{enough:.2g}'):,.0f}" if enough else "more than 1,000"
    named = effect if report.get("question") or report.get("repeats") else f"the margin of {effect}"
    small = f"{named} is too small to settle here: to be as sure of it takes {number} repeats per cell"
    now = f"the {n} repeats so far: {rounded_up(resolve['detectable'])}"
    if further["repeats"] <= n or further["detectable"] >= min(1.0, resolve["detectable"]):
        return f"Next: nothing that repeats can settle. Differences that show four times out of five, {now}; {small}"
    aim = rounded_up(further["detectable"])
    line = _line(report, aim, n, further["repeats"])
    return f"{line}. {SURE} that settles a difference of {aim} ({now}); {small}"


def _line(report: Entry, effect: str, n: int, repeats: int) -> str:
    """The line of the campaign file and the command. Rounds, not a number: looking twice has its price in claims."""
    key = f"repeats: {{resolve: {effect}, at_least: {n}, at_most: {repeats}}}"
    if report.get("repeats"):  # this campaign has spent what it may: a further look would claim too often
        key = key.replace(f"at_least: {n}", f"at_least: {report['repeats']['at_least']}")
        return f'Next: a campaign in a new file, with "{key}"'
    return f'Next: set "{key}" in {_file(report)} and {_again(report, n, repeats)}'


def _again(report: Entry, n: int, repeats: int) -> str:
    """The command, and what the further repeats cost."""
    seconds = report.get("seconds_per_repeat")
    cells = len({point["cell"] for series in report["series"] for point in series["runs"].values()})
    most = "at most " if repeats > FEWEST else ""
    cost = f"{most}{plural(repeats - n, 'more repeat')} of {plural(cells, 'cell')}"
    cost += f", about {duration((repeats - n) * seconds, 2)}" if seconds else ""
    return f"run {_command(report)} again ({cost})"


def _command(report: Entry) -> str:
    return f"snakemake --cores 2 results/{report['campaign']}/report.html"


def _file(report: Entry) -> str:
    return f"config/campaigns/{report['campaign']}.yaml"


def rounded_up(part: float) -> str:
    """A difference in percent that is no smaller than `part`, which is what the repeats show: "5 %", "0.5 %"."""
    if part > 1:
        return "more than 100 %"
    percent = 100 * part
    digits = 0 if percent >= 1 else 1
    up = math.ceil(percent * 10**digits - 1e-9) / 10**digits
    return f"{up:.{digits}f} %"
