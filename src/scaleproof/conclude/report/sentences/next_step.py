"""What to do where the answer is open: the key to set, the command, what it costs, or that it is not worth it."""

from collections.abc import Sequence

from scaleproof.conclude.analysis.ranking import DISTURBED, largest_group
from scaleproof.conclude.analysis.simultaneous import MOST_TIMES, POWER_IN_WORDS
from scaleproof.ground.comparison import NO_INTERVAL, UNDECIDED, Compared, claim_on
from scaleproof.ground.confidence import FEWEST_REPEATS
from scaleproof.ground.errors import plural
from scaleproof.ground.findings.shared_codes import RUN_COPIED
from scaleproof.ground.number_format import about, duration_text, rounded_up_percent
from scaleproof.ground.records.retry import ALL
from scaleproof.ground.records.scaling_report import Resolution, ScalingReport, SizeRanking
from scaleproof.ground.snakemake_command import HERE, force_tables, results_option

RELIABLY = f"reliably: {POWER_IN_WORDS}"
REPEATED_FOR = DISTURBED | {"machine-busy", "process-starved"}  # findings that runs on a quiet machine may not have

LARGEST_IN_QUESTION = 0.5  # nobody plans repeats to see a larger difference

Step = tuple[str, str | None]  # what to do, and what to know about it


def next_step(report: ScalingReport, group: SizeRanking | None, has_pairs: bool = False) -> Step | None:
    """Return what to do next, as a sentence and a remark; None where further runs settle nothing, or are planned.

    `group`: the ranking of the largest size with two comparable cells or more (`largest_group`), if there is one.
    `has_pairs`: cells are compared in A/B pairs.
    """
    if report.is_of_ab:
        return _step_of_ab(report)
    look = report.repeats  # the last look at the results, in a campaign whose results decide when repeats end
    if look and look.goes_on:
        return None

    question, series = report.question, report.series_of_sizes
    # Where nothing is compared, or steps are of unequal work, neither repeats nor a quiet machine would help.
    is_compared = question or group or series or has_pairs
    if not is_compared and len(report.points) < 2:  # runs that failed may be the others, which the page knows
        return None
    if not is_compared and (step := _step_of_question(report)):
        return step
    if not question and not group and series and series[0].has_unequal_work:
        batch = "global_batch, or of a command workload.per_step"
        return f"say in {_file(report)} how much work a step is ({batch}), and run {command(report)} again", None

    # A campaign with a question is not answered from the ranking, whatever disturbed its cells.
    disturbed = group.advice.disturbed if group else []
    if question:
        disturbed = [cell for cell in busy_cells(report) if cell in (question.subject, question.base)]
    if quiet := _on_a_quiet_machine(report, disturbed):
        return quiet

    # Repeats that ended at a limit left the answer open. Where they ended because it was decided, or because there was
    # nothing to compare, nothing is left to do.
    if look and look.why not in ("at_most", "minutes", "device_hours"):
        return None

    # Further repeats: for the question, else for the ranking, else for the first series of sizes.
    if question:
        return _step_of_further_repeats(report, question.resolve, question.ratio.n if question.ratio else 0)
    if group:
        n = min(entry.tokens_per_sec_global.n for entry in group.comparable)
        return _step_of_further_repeats(report, group.resolve, n)
    if not series:
        return _step_of_question(report)
    return _step_of_further_repeats(report, series[0].resolve, min(point.n for point in series[0].points))


def _on_a_quiet_machine(report: ScalingReport, disturbed_cells: Sequence[str] = ()) -> Step | None:
    """Return how to measure again what was disturbed; None where neither a cell of the ranking nor the answer was.

    Not more repeats, which would be disturbed again, but new runs of all such cells: a ratio needs two good ones.
    """
    question, cells = report.question, [point.cell for point in report.points]
    of_answer = [question.subject, question.base] if question else cells
    busy = [cell for cell in busy_cells(report) if cell in of_answer]
    if not disturbed_cells and not (busy and set(of_answer) <= set(busy)):
        return None
    names = list(dict.fromkeys([*disturbed_cells, *busy]))
    are_too_few = not report.repeats and _rounds(report) < FEWEST_REPEATS  # as many new runs would claim nothing
    fewest = f'set "repeats: {FEWEST_REPEATS}"' if are_too_few else ""
    if any("window-short" in point.findings for point in report.points if point.cell in names):  # as in new runs, too
        text = f"raise work.steps{fewest and f', {fewest}'} in {_file(report)} (window-short), and run"
        return f"{text} {command(report)} on a quiet machine", None
    # Up to two cells are named, even where they are all.
    retry = _retry_command(report, [ALL] if len(names) > 2 and set(names) == set(cells) else names)
    first = f"{fewest} in {_file(report)}; then " if fewest else ""
    return f"{first}on a quiet machine, {retry}, then {command(report)}", None


def _rounds(report: ScalingReport) -> int:
    """Return in how many rounds cells were measured, by their last repeat; 0 without a cell."""
    return max((repeat for point in report.points for repeat in point.repeats), default=0)


def busy_cells(report: ScalingReport) -> list[str]:
    """Return the cells with findings that runs on a quiet machine may not have."""
    return [point.cell for point in report.points if REPEATED_FOR & set(point.findings)]


def _blurred_cells(report: ScalingReport) -> list[str]:
    """Return the busy cells that are not told apart from the fastest one of the largest size, or are that cell."""
    group = None if report.question else largest_group(report.ranking)
    if not group:
        return []
    undecided = [entry.cell for entry in group.comparable if entry.fastest_over and entry.fastest_over.spans()]
    open_cells = {group.cells[0].cell, *undecided} if undecided else set()
    return [cell for cell in busy_cells(report) if cell in open_cells]


def next_step_beyond_repeats(report: ScalingReport, failures_may_decide: bool) -> Step:
    """Return what to do next where further repeats would settle nothing more, as a sentence and a remark.

    `failures_may_decide`: runs without numbers may decide what is open.
    """
    if report.is_of_ab:
        return _step_of_ab(report)
    if report.status == "invalid_comparison":
        cells = {point.cell for point in report.points if set(point.findings) & set(report.mismatches)}
        retry = _retry_command(report, sorted(cells))
        return f"scaleproof explain {report.mismatches[0]}; when that is mended, {retry}, then {command(report)}", None
    if not report.series or failures_may_decide:
        mended = "fix what made the runs fail, or use a machine that can run them"
        return f"{mended}; then {_retry_command(report)}, and {command(report)}", None
    if report.repeats and report.repeats.goes_on:
        return f"{command(report)} goes on with it", None
    if quiet := _on_a_quiet_machine(report, _blurred_cells(report)):
        return quiet
    text = f"more devices, a larger model or another machine may answer otherwise: vary them in {_file(report)}"
    return text, f"scaleproof plan {_file(report)} says what it costs"


def _step_of_ab(report: ScalingReport) -> Step:
    """Return what to do next after `scaleproof ab`, by a line of that command."""
    again = f"give the same scaleproof ab line, with --name {report.campaign}-2"
    if report.status == "invalid_comparison":
        return f"scaleproof explain {report.mismatches[0]}; when that is mended, {again}", None
    if not report.series:
        return f"add the option that the reason below names, or fix what made the runs fail; then {again}", None
    is_open = report.question is not None and report.question.status == "undecided"
    if _on_a_quiet_machine(report):
        return f"on a quiet machine, {again}{'; here, more --minutes add rounds' if is_open else ''}", None
    if is_open:
        further = "with more --minutes, which adds rounds, or longer runs (--seconds)"
        return f"give the same scaleproof ab line {further}", None
    return f"another machine or more devices may answer otherwise: there, {again}", None


def _step_of_question(report: ScalingReport) -> Step | None:
    """Return how to have two cells of different work compared, which no ranking has; None where no question can."""
    if len(report.points) < 2:
        return None
    first, *_, last = report.points
    protocols = {point.cell: series.protocol for series in report.series for point in series.points}
    if any(protocols[first.cell].get(key) != protocols[last.cell].get(key) for key in ("model", "vocab_size")):
        return None  # they have other parameters, and a question on them is not valid
    key = f'set "question: {{is: {last.cell}, better_than: {first.cell}}}" in {_file(report)}'
    return f"to compare two of them, {key} and run {command(report)} again", "nothing is measured again"


NOTHING_OPEN = "nothing is left to decide here; another machine may answer otherwise"


def step_of_comparison(compared: Sequence[Compared]) -> str:
    """Return what would decide a comparison of two results, or NOTHING_OPEN."""
    claims = [claim_on(cell) for cell in compared if cell.ratio is not None]
    undecided = [cell for cell in compared if claim_on(cell) == UNDECIDED]
    in_reach = [cell for cell in undecided if cell.is_decided_with(MOST_TIMES)]
    further = f"with {MOST_TIMES} times the runs and the same ratios"
    if not claims:
        return "remove what forbids a ratio; what is meant to differ is named with --vary"
    few = _too_few_runs(compared)
    sides = {cell.suspect_sides.get(code, "A and B") for cell in compared for code in REPEATED_FOR & set(cell.suspect)}
    if sides:
        which = min(sides) if len(sides) == 1 and sides <= {"A", "B"} else "both sides"
        return f"measure {which} again on a quiet machine{few and f', {few}'}"
    if few:
        return f"make {few}"
    if not undecided:
        return NOTHING_OPEN
    if not in_reach:
        return f"further runs are not worth their time: {further}, nothing more would be decided"
    return f"more runs of both sides: {further}, {len(in_reach)} of {len(undecided)} undecided would be decided"


def _too_few_runs(compared: Sequence[Compared]) -> str:
    """Return how many runs an open comparison needs, "3 runs or more on each side: A has 3, B 2"; "" for enough."""
    open_cells = [cell for cell in compared if cell.ratio is not None and claim_on(cell) in (UNDECIDED, NO_INTERVAL)]
    n_a, n_b = min((cell.runs for cell in open_cells), key=min, default=(FEWEST_REPEATS, FEWEST_REPEATS))
    if min(n_a, n_b) >= FEWEST_REPEATS:
        return ""
    once = ", since copies of one run count once" * any(RUN_COPIED.name in cell.suspect for cell in open_cells)
    return f"{FEWEST_REPEATS} runs or more on each side: A has {n_a}, B {n_b}{once}"


def _retry_command(report: ScalingReport, cells: Sequence[str] = ()) -> str:
    """Return the command that repeats all runs of these cells; without any, the failed runs."""
    options = "".join(f" --cell {cell}" for cell in cells)
    return f"scaleproof retry {_file(report)}{options}{results_option(report.results)}"


def _step_of_further_repeats(report: ScalingReport, resolve: Resolution | None, n: int) -> Step | None:
    """Return what further repeats would show and how to ask for them, or that they are not worth their time.

    Returns None where nothing can be said. `resolve`: the smallest difference that the repeats so far show
    (`detectable`), what `further` ones would show, and how many `repeats` the difference in question (`effect`) needs.
    `n`: repeats so far, of the cell with the fewest.
    """
    if resolve is None:
        if not 0 < n <= _rounds(report) < FEWEST_REPEATS:  # more rounds: a run of one of them has failed
            return None
        key = f'set "repeats: {FEWEST_REPEATS}" in {_file(report)}'
        return f"{key} and {_repeats_command(report, n, FEWEST_REPEATS)}", None

    needed_repeats = resolve.repeats  # to show the effect; None: more than 1,000
    effect_text, so_far_text = rounded_up_percent(resolve.effect), rounded_up_percent(resolve.detectable)
    is_effect_shown = resolve.detectable <= resolve.effect  # then only smaller differences are still undecided
    are_in_reach = needed_repeats is not None and needed_repeats <= MOST_TIMES * n
    if needed_repeats and are_in_reach and not is_effect_shown:
        line = _campaign_line(report, effect_text, n, needed_repeats)
        return f"to show differences of {effect_text} reliably instead of {so_far_text}, {line}", RELIABLY

    further = resolve.further
    # "5 %: about 120 repeats per cell, ...": what the effect would cost, unless it is shown already.
    price = f"{effect_text}: {_price_text(report, n, needed_repeats)}"
    show_nothing_more = further.repeats <= n or further.detectable >= min(LARGEST_IN_QUESTION, resolve.detectable)
    if show_nothing_more:
        text = f"further repeats are not worth their time: the {n} so far reliably show differences of {so_far_text}"
        return text if is_effect_shown else f"{text}; for {price}", RELIABLY
    further_text = rounded_up_percent(further.detectable)
    line = _campaign_line(report, further_text, n, further.repeats)
    text = f"to show differences of {further_text} reliably instead of {so_far_text}, {line}"
    return text if is_effect_shown else f"{text}. For {price}", RELIABLY


def _price_text(report: ScalingReport, n: int, needed_repeats: int | None) -> str:
    """Return in words what the needed repeats are, and how long they take. None: more than 1,000 repeats."""
    if not needed_repeats:
        return "not by repeats, these runs differ too much"
    time_text = _time_text(report, needed_repeats - n)
    return f"{about(needed_repeats)} repeats per cell{time_text}, so hardly by repeats on this machine"


def _campaign_line(report: ScalingReport, effect: str, n: int, repeats: int) -> str:
    """Return the line of the campaign file that asks for `repeats` instead of `n`, and the command.

    It asks for rounds (`at_least` to `at_most`), because results were looked at already: intervals of rounds are
    corrected for several looks. `effect`: the difference to show.
    """
    at_least = report.repeats.at_least if report.repeats else n
    key = f"repeats: {{resolve: {effect}, at_least: {at_least}, at_most: {repeats}}}"
    if report.repeats:  # the looks of this campaign have used up its chance of an error: it cannot have a further look
        return f'make a campaign in a new file, with "{key}"'
    # Snakemake does not miss a look whose table of runs is there: forced, it makes the look, and the rounds after it.
    return f'set "{key}" in {_file(report)} and {_repeats_command(report, n, repeats, force_tables(report.folder))}'


def _repeats_command(report: ScalingReport, n: int, repeats: int, options: str = "") -> str:
    """Return in words the command that goes from `n` to `repeats` repeats, and what the further ones cost.

    `options`: options of the command, before its target.
    """
    cell_count = len({point.cell for point in report.points})
    cells = f"each of the {cell_count} cells" if cell_count > 1 else "the cell"
    at_most = "at most " if repeats > FEWEST_REPEATS else ""
    cost = f"{at_most}{plural(repeats - n, 'more repeat')} of {cells}"
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
