"""What to do where the answer is open: the key to set, the command, what it costs, or that it is not worth it."""

import math

from scaleproof.conclude.analysis.ranking import DISTURBED
from scaleproof.conclude.analysis.simultaneous import MOST_TIMES, POWER_IN_WORDS
from scaleproof.ground.confidence import FEWEST_REPEATS
from scaleproof.ground.errors import plural
from scaleproof.ground.number_format import duration_text
from scaleproof.ground.records.scaling_report import Resolution, ScalingReport, SizeRanking
from scaleproof.ground.snakemake_command import HERE, results_option

RELIABLY = f"reliably: {POWER_IN_WORDS}"
REPEATED_FOR = DISTURBED | {"machine-busy", "process-starved"}  # findings that runs on a quiet machine may not have

# Snakemake does not miss a look whose table of runs is there: forced, it makes the look, and the rounds after it.
FORCED = "--forcerun collect findings -- "

Step = tuple[str, str | None]  # what to do, and what to know about it


def next_step(report: ScalingReport, group: SizeRanking | None) -> Step | None:
    """Return what to do next, as a sentence and a remark; None where further runs settle nothing, or are planned."""
    look = report.repeats  # the last look at the results, in a campaign whose results decide when repeats end
    if look and look.goes_on:
        return None
    disturbed = group.advice.disturbed if group else []
    if disturbed and not report.question:  # a question is not answered from the group
        # More repeats would repeat the disturbance. All cells are named: a comparison is as bad as its worse side.
        others = (point.cell for point in report.points if REPEATED_FOR & set(point.findings))
        cells = _cell_options(list(dict.fromkeys([*disturbed, *others])))
        again = f"scaleproof retry {_file(report)} {cells}{results_option(report.results)}"
        return f"on a quiet machine, {again}, then {command(report)}", None
    if look and look.why not in ("at_most", "minutes", "device_hours"):  # decided, or nothing to compare
        return None
    if question := report.question:
        return _step_of_further_repeats(report, question.resolve, question.ratio.n if question.ratio else 0)
    if group:
        n = min(entry.tokens_per_sec_global.n for entry in group.comparable)
        return _step_of_further_repeats(report, group.resolve, n)
    first_series = next(iter(report.series_of_sizes), None)
    if first_series is None:
        return None
    return _step_of_further_repeats(report, first_series.resolve, min(point.n for point in first_series.points))


def next_step_beyond_repeats(report: ScalingReport) -> Step:
    """Return what to do next where further repeats would settle nothing more, as a sentence and a remark."""
    if report.status == "invalid_comparison":
        cells = {point.cell for point in report.points if set(point.findings) & set(report.mismatches)}
        again = f"scaleproof retry {_file(report)} {_cell_options(sorted(cells))}{results_option(report.results)}"
        return f"scaleproof explain {report.mismatches[0]}; when that is mended, {again}, then {command(report)}", None
    if not report.series:
        again = f"scaleproof retry {_file(report)}{results_option(report.results)}"
        return f"mend what made the runs fail; then {again}, and {command(report)}", None
    if report.repeats and report.repeats.goes_on:
        return f"{command(report)} goes on with it", None
    text = f"more devices, a larger model or another machine may answer otherwise: vary them in {_file(report)}"
    return text, f"scaleproof plan {_file(report)} says what it costs"


def _cell_options(names: list[str]) -> str:
    """Return the options of `scaleproof retry` for these cells."""
    return " ".join(f"--cell {name}" for name in names)


def _step_of_further_repeats(report: ScalingReport, resolve: Resolution | None, n: int) -> Step | None:
    """Return what further repeats would show and how to ask for them, or that they are not worth their time.

    None where nothing can be said. `resolve`: the differences that repeats show so far and that those in reach would
    show, and how many show the one in question (its `effect`). `n`: repeats so far, of the cell with the fewest.
    """
    if resolve is None:
        if not 0 < n < FEWEST_REPEATS:
            return None
        key = f'set "repeats: {FEWEST_REPEATS}" in {_file(report)}'
        return f"{key} and {_repeats_command(report, n, FEWEST_REPEATS)}", None
    in_reach, enough = resolve.further, resolve.repeats  # enough to show the effect; None: more than 1,000
    effect, now = rounded_up_percent(resolve.effect), rounded_up_percent(resolve.detectable)
    is_shown = resolve.detectable <= resolve.effect  # so that the difference which is open is a smaller one
    if enough and enough <= MOST_TIMES * n and not is_shown:
        line = _campaign_line(report, effect, n, enough)
        return f"to show differences of {effect} reliably instead of {now}, {line}", RELIABLY
    price = f"{effect}: more than 1,000 repeats per cell"
    if enough:
        two_digits = float(f"{enough:.2g}")
        price = f"{effect}: about {two_digits:,.0f} repeats per cell{_time_text(report, enough - n)}"
    if in_reach.repeats <= n or in_reach.detectable >= min(1, resolve.detectable):  # they would show nothing more
        text = f"further repeats are not worth their time: the {n} so far reliably show differences of {now}"
        return text if is_shown else f"{text}; for {price}", RELIABLY
    aim = rounded_up_percent(in_reach.detectable)
    line = _campaign_line(report, aim, n, in_reach.repeats)
    text = f"to show differences of {aim} reliably instead of {now}, {line}"
    return text if is_shown else f"{text}. For {price}", RELIABLY


def _campaign_line(report: ScalingReport, effect: str, n: int, repeats: int) -> str:
    """Return the line of the campaign file that asks for `repeats` instead of `n`, and the command.

    It asks for rounds of repeats, not for a number, so that intervals allow for the look that was taken. `effect`: the
    difference to show.
    """
    at_least = report.repeats.at_least if report.repeats else n
    key = f"repeats: {{resolve: {effect}, at_least: {at_least}, at_most: {repeats}}}"
    if report.repeats:  # this campaign has spent its chance of an error: a further look would claim too often
        return f'make a campaign in a new file, with "{key}"'
    return f'set "{key}" in {_file(report)} and {_repeats_command(report, n, repeats, FORCED)}'


def _repeats_command(report: ScalingReport, n: int, repeats: int, options: str = "") -> str:
    """Return in words the command that makes `repeats` of the `n` so far, and what the further ones cost.

    `options`: of the command, before its target.
    """
    cells = len({point.cell for point in report.points})
    most = "at most " if repeats > FEWEST_REPEATS else ""
    cost = f"{most}{plural(repeats - n, 'more repeat')} of {f'each of the {cells} cells' if cells > 1 else 'the cell'}"
    return f"run {command(report, options)} again: {cost}{_time_text(report, repeats - n)}"


def _time_text(report: ScalingReport, repeats: int) -> str:
    """Return ", " and the time that so many further repeats of all cells take; "" where it is not known."""
    seconds = report.seconds_per_repeat
    return f", {duration_text(repeats * seconds, 2)}" if seconds else ""


def command(report: ScalingReport, options: str = "") -> str:
    """Return the command that makes the report again, with further runs where the campaign asks for some."""
    return f"snakemake {report.snakemake or HERE} {options}{report.folder}/report.html"


def _file(report: ScalingReport) -> str:
    """Return the path of the campaign's file."""
    return f"config/campaigns/{report.campaign}.yaml"


def rounded_up_percent(part: float) -> str:
    """Return `part`, a difference that repeats show, rounded up in percent: "5 %", "0.5 %"."""
    if part > 1:
        return "more than 100 %"
    percent = 100 * part
    digits = 0 if percent >= 1 else 1  # behind the point
    up = math.ceil(percent * 10**digits - 1e-9) / 10**digits  # 5.000000001 is 5
    return f"{up:.{digits}f} %"
