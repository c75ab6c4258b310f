"""`scaleproof gate`: has throughput become worse than in earlier results of the same cells on the same kind of machine?

Each earlier result, a campaign with runs of several cells, is one session. A new session is judged by the spread
between sessions, because runs of one session share a state of the machine: their spread would raise false alarms.
Before that a result is verified, with its checks made again: findings that were left out are differences, too.
"""

import math
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from scaleproof.conclude.analysis.campaign_findings import campaign_findings
from scaleproof.conclude.analysis.power import POWER
from scaleproof.conclude.checks.all_checks import RULES_VERSION, audit
from scaleproof.conclude.publication.made_again import compare_with_rewritten, is_written_again, records_in
from scaleproof.ground.configurations import changed_keys
from scaleproof.ground.errors import UserError, plural, shortened
from scaleproof.ground.findings.finding import Finding, read_findings
from scaleproof.ground.number_format import fixed
from scaleproof.ground.records.run import MANIFEST, Run, read_run
from scaleproof.verify.campaign import folder_of, verify
from scaleproof.verify.contents import REPORT
from scaleproof.verify.manifest import LINE_ENDS
from scaleproof.verify.printed import numbers
from scaleproof.verify.raw import Difference, RawRun, rate_of, read_runs
from scaleproof.verify.recompute import measured_by_cell

FINDINGS = "findings.json"
OF_RUNS = ("runs", "scaling")  # what findings concern that follow from the runs alone


def verify_and_audit(path: Path, say: Callable[[str], object] | None = None) -> tuple[list[Difference], int, int]:
    """Verify a campaign, and make its page, tables and checks again.

    Returns the differences, the number of runs, and the number of recomputed figures. `say`: is told, where nothing
    else differs, that other code wrote the page, or why it was compared in part or not at all. Raises UserError where
    `path` is no campaign's results.
    """
    differences, run_count, figure_count = verify(path)
    folder, records = folder_of(path), list[Run]()
    # Page and tables cannot be made again from files that are damaged themselves.
    if all(is_written_again(difference.file) for difference in differences):
        records = records_in(folder)
        rewritten = compare_with_rewritten(folder, records)
        differences = rewritten.added_to(differences)
        if say and rewritten.reservation and differences == rewritten.differences:
            say(rewritten.reservation)
    if (folder / FINDINGS).exists() and not (any(map(_rules_out_findings, differences)) or why_rules_differ(folder)):
        differences += findings_left_out(folder, records)
    return differences, run_count, figure_count


def _rules_out_findings(difference: Difference) -> bool:
    """Return whether findings cannot be looked for again: findings.json cannot be read, or runs may be damaged.

    What repeats findings.json differs where that was changed.
    """
    if LINE_ENDS in difference.problem:  # one difference may stand for many files, runs among them
        return True
    if difference.file == FINDINGS:
        return not difference.where
    return difference.file not in (REPORT, "cells.csv") and not is_written_again(difference.file)


def findings_left_out(folder: Path, records: Sequence[Run] = ()) -> list[Difference]:
    """Return the findings on the runs in `folder` that findings.json lacks, or has with other severity or figures."""
    stated: dict[tuple[str, ...], list[Finding | None]] = {}  # two checks may say one code of the same runs
    for finding in read_findings(folder / FINDINGS).findings:
        stated.setdefault(_finding_key(finding), []).append(finding)
    made_again = campaign_findings(folder.name, records or records_in(folder)).findings
    of_runs = [(stated.get(_finding_key(again), [None]), again) for again in made_again if again.concerns in OF_RUNS]
    problems = [(again.code, min((_fault_of_stated(one, again) for one in same), key=len)) for same, again in of_runs]
    return [Difference(FINDINGS, code, problem) for code, problem in problems if problem]


def _fault_of_stated(stated: Finding | None, finding: Finding) -> str:
    """Return in words that a finding is left out, or how `stated` differs from it; "" where it does not."""
    about = ", ".join(finding.runs or finding.cells)
    if stated is None:  # a note may be left out
        return "" if finding.severity == "note" else f"is left out: {about}: {finding.evidence}"
    if stated.cells != finding.cells:
        return f"is of {', '.join(stated.cells)}, by its files of {', '.join(finding.cells)}"
    if stated.severity == finding.severity and numbers(stated.evidence) == numbers(finding.evidence):
        return ""
    says = f'says "{stated.evidence[:80]}" ({stated.severity}) of {about}'
    return f'{says}, its files "{finding.evidence[:80]}" ({finding.severity})'


def why_rules_differ(folder: Path) -> str:
    """Return a sentence that findings.json in `folder` was made by other rules than today's; "" where it was not."""
    version = read_findings(folder / FINDINGS).rules_version
    return "" if version == RULES_VERSION else f"{FINDINGS} is of rules {version}, this version has {RULES_VERSION}"


def _finding_key(finding: Finding) -> tuple[str, ...]:
    """Return what a finding is known by: its code, then in order the runs that it is about, or else the cells."""
    return (finding.code, *sorted(finding.runs or finding.cells))


LEAST_SESSIONS = 3  # two differences of sessions are the least that a spread can be estimated from
MOST_SESSIONS = 100  # that are asked for
ALPHA = 0.05  # probability of a false alarm of the whole gate; half for all cells together, half for single ones

Rates = dict[str, float]  # cell -> tokens/s, all tokens over all time


@dataclass(frozen=True)
class RateChange:
    """The change of one rate since the earlier sessions; `name`: the cell, or all cells together.

    `change`: new over the mean of the earlier sessions, less 1. `deviation`: of the logarithms of their rates. `alpha`:
    the probability of a false alarm.
    """

    name: str
    change: float
    deviation: float
    sessions: int
    alpha: float

    @property
    def bound(self) -> float:
        """A change below it is an alarm: the lower prediction bound of Student's t for a further session."""
        return math.expm1(-self._least_fall(self.sessions))

    @property
    def seen(self) -> float:
        """The loss that raises an alarm with the probability POWER, as a part of the rate: 0.03 for 3 %."""
        return -math.expm1(-self._least_fall(self.sessions, POWER))

    @property
    def worse(self) -> bool:
        """Whether the change is an alarm."""
        return self.change < self.bound

    def results_to_see(self, loss: float) -> int | None:
        """Return with how many earlier results in all `loss` is seen; None where MOST_SESSIONS do not suffice."""
        fall = -math.log1p(-loss)
        enough = (n for n in range(self.sessions, MOST_SESSIONS + 1) if self._least_fall(n, POWER) <= fall)
        return next(enough, None)

    def _least_fall(self, sessions: int, power: float = 0.5) -> float:
        """Return which fall of the logarithm is an alarm with the probability `power`.

        A new session scatters around the mean of n by s * sqrt(1 + 1 / n) (Hahn and Meeker: Statistical Intervals,
        1991). A fall of t(1 - alpha) times that raises an alarm in half of the cases; t(power) more, with `power`.
        """
        quantiles = student.ppf(1 - self.alpha, sessions - 1) + student.ppf(power, sessions - 1)
        return float(quantiles) * self.deviation * math.sqrt(1 + 1 / sessions)

    def hides(self, loss: float) -> bool:
        """Whether the rate fell by more than `loss` without an alarm: a real loss cannot be told from chance."""
        return not self.worse and self.change < -loss

    def line(self, loss: float) -> str:
        """Return a line of what the command prints. `loss`: what a rate may fall by, as a part of it."""
        word = "FAIL" if self.worse else "cannot tell" if self.hides(loss) else "ok  "
        return (
            f"{word}  {self.name}: {fixed(100 * self.change, 2, signed=True)} % (an alarm is below "
            f"{fixed(100 * self.bound, 2, signed=True)} %)"
        )


def what_is_seen(together: RateChange, loss: float) -> str:
    """Return a sentence: which loss of all cells the gate sees, and how many results it takes to see `loss`."""
    text = f"a loss of {fixed(100 * together.seen, 1)} % in all cells would raise an alarm 8 times in 10"
    if together.seen <= loss:
        return text
    needed = together.results_to_see(loss)  # None: no number of results suffices
    more = f"about {plural(needed - together.sessions, 'more earlier result')}" if needed else "a quieter machine"
    return f"{text}; for one of {fixed(100 * loss, 1)} % it takes {more}"


def rate_changes(new: Rates, sessions: Sequence[Mapping[str, float]]) -> list[RateChange]:
    """Return how rates have changed, with the bound of an alarm: first the mean over cells, then each cell.

    `sessions`: rates of the same cells in earlier results, at least three. The geometric mean over cells, tested with
    half of ALPHA, shows a common loss. The cells, which share the other half (Bonferroni), show losses of their own.
    One-sided prediction bounds of Student's t over sessions, on logarithms.
    """
    cells = sorted(new)
    together = [statistics.fmean(math.log(session[cell]) for cell in cells) for session in sessions]
    new_together = statistics.fmean(math.log(new[cell]) for cell in cells)
    name = cells[0] if len(cells) == 1 else f"{len(cells)} cells together"
    verdicts = [_rate_change(name, new_together, together, ALPHA / 2)]
    if len(cells) == 1:  # it would be the same verdict
        return verdicts
    for cell in cells:
        logs = [math.log(session[cell]) for session in sessions]
        verdicts.append(_rate_change(cell, math.log(new[cell]), logs, ALPHA / 2 / len(cells)))
    return verdicts


def _rate_change(name: str, new: float, logs: list[float], alpha: float) -> RateChange:
    """Return the change of a rate against earlier sessions.

    `new`, `logs`: logarithms of the new and the earlier rates; `alpha`: probability of a false alarm.
    """
    change = math.expm1(new - statistics.fmean(logs))
    return RateChange(name, change, statistics.stdev(logs), len(logs), alpha)


@dataclass(frozen=True)
class Gate:
    """The outcome of a gate. `verdicts`: the changes of rates, where any could be compared.

    `faults`: why the new result is no pass whatever its rates are: cells that are gone, failed or changed, and what
    is wrong with its own numbers. `left_out`: what was not compared and why; `new`: cells that no earlier result has.
    """

    verdicts: list[RateChange]
    faults: list[str]
    left_out: list[str]
    new: list[str]

    @property
    def worse(self) -> bool:
        """Whether the gate does not let the new result pass."""
        return bool(self.faults) or any(verdict.worse for verdict in self.verdicts)


def compare_with_baselines(results: Path, baselines: Sequence[Path]) -> Gate:
    """Return the outcome of the gate for the new result in `results`, by the earlier ones in `baselines`.

    Raises UserError where nothing can be compared, or a baseline is damaged.
    """
    folder = folder_of(results)
    runs, differences = read_runs(folder)
    new = measured_by_cell(runs)
    earlier = _read_baselines(results, new, baselines)
    faults = faults_of(folder, runs, differences)
    if not new and not any(earlier) and not faults:
        raise UserError(f"{results} has no run with numbers")

    known = dict.fromkeys(chain.from_iterable(earlier))  # the cells of all earlier results
    faults += [_why_gone(cell, runs) for cell in known if cell not in new]
    left_out: list[str] = []
    common: list[str] = []
    for cell in new:
        if cell not in known:  # `Gate.new` names it
            continue
        run = new[cell][0]  # all runs of a cell have one configuration
        earlier_runs = [session[cell][0] for session in earlier if cell in session]
        # A changed configuration is a fault; another machine only leaves the cell out.
        changes = list(filter(None, (changes_between(earlier_run, run) for earlier_run in earlier_runs)))
        why_left_out = _why_left_out(run, earlier_runs, len(earlier))
        if changes:
            faults.append(f"{cell}: its configuration is not that of the earlier results: {changes[0]}")
        elif why_left_out:
            left_out.append(f"{cell}: {why_left_out}")
        else:
            common.append(cell)
    if not common and not faults:
        raise UserError(f"no cell of {results} can be compared with all earlier results; {'; '.join(left_out[:3])}")

    verdicts: list[RateChange] = []
    if common:
        sessions = [_rates_of(session, common) for session in earlier]
        verdicts = rate_changes(_rates_of(new, common), sessions)
    return Gate(verdicts, faults, left_out, new=[cell for cell in new if cell not in known])


def _rates_of(session: Mapping[str, list[RawRun]], cells: Sequence[str]) -> Rates:
    """Return the rates of some cells of a result. `session`: cell -> its runs."""
    return {cell: rate_of(*session[cell]) for cell in cells}


def _why_left_out(run: RawRun, earlier_runs: Sequence[RawRun], result_count: int) -> str:
    """Return why a run cannot be compared with earlier runs, such as another machine; "" where it can.

    `earlier_runs`: of its cell, one of each of the `result_count` earlier results that have the cell.
    """
    differing = set(chain.from_iterable(differing_settings(run, earlier_run) for earlier_run in earlier_runs))
    if differing:
        return f"incomparable: {', '.join(sorted(differing))}"
    missing_count = result_count - len(earlier_runs)
    return f"not in {missing_count} of {result_count} earlier results" if missing_count else ""


def _read_baselines(
    results: Path, new: Mapping[str, list[RawRun]], baselines: Sequence[Path]
) -> list[dict[str, list[RawRun]]]:
    """Return each earlier result as cell -> its runs. `new`: those of the new `results`.

    Raises UserError where they are too few, one is damaged, or one is a copy.
    """
    check_given_once([results, *baselines])
    earlier = [measured_cells(path) for path in baselines]
    if len(baselines) < LEAST_SESSIONS:
        raise UserError(
            f"a gate needs at least {LEAST_SESSIONS} earlier results, not {len(baselines)}: the spread between "
            "sessions is not known from fewer; for two results use scaleproof compare"
        )
    rates = [{cell: rate_of(*runs) for cell, runs in session.items()} for session in (new, *earlier)]
    check_copies([results, *baselines], rates)  # before all that takes long
    for path in baselines:
        folder = folder_of(path)  # without a manifest measured_cells has read all that there is
        if (folder / MANIFEST).is_file() and (faults := faults_of(folder, *read_runs(folder))):
            raise UserError(f"{path} cannot be compared with: {faults[0]}")
    return earlier


def faults_of(folder: Path, raw_runs: Sequence[RawRun], differences: list[Difference]) -> list[str]:
    """Return what is wrong with a result itself: that it does not verify, or `invalid` findings about its runs.

    `raw_runs`, `differences`: its runs, and what is wrong with their files.
    """
    has_report = (folder / MANIFEST).is_file()  # else there are raw files alone
    if has_report:
        differences, _, _ = verify_and_audit(folder)
    if differences:
        more = f" and {plural(len(differences) - 1, 'difference')} more" if len(differences) > 1 else ""
        return [f"{folder} does not verify: {differences[0]}{more}"]

    cells_of_code: dict[str, dict[str, None]] = {}  # code of an invalid finding -> its cells, as an ordered set
    for finding in audit(folder.name, [read_run((folder / run.path).parent) for run in raw_runs]).findings:
        if finding.severity == "invalid":
            cells_of_code.setdefault(finding.code, {}).update(dict.fromkeys(finding.cells))
    return [
        f"{', '.join(cells)}: invalid: {code}; see: scaleproof audit {folder}" for code, cells in cells_of_code.items()
    ]


def _why_gone(cell: str, runs: list[RawRun]) -> str:
    """Return why a cell has no numbers in the new result: it is gone, or all of its runs failed."""
    failures = [run.metrics["failure"] for run in runs if run.cell == cell]
    if not failures:
        return f"{cell}: is gone; earlier results have it"
    reasons = dict.fromkeys(f"{failure['class']}: {failure['reason']}" for failure in failures)
    count = "its run" if len(failures) == 1 else f"all of its {len(failures)} runs"
    return f"{cell}: {count} failed: {shortened('; '.join(reasons), 300)}"


def changes_between(before: RawRun, now: RawRun) -> str:
    """Return the keys in which two runs' configurations differ, with both values; "" where they are one."""
    if before.metrics["fingerprint"] == now.metrics["fingerprint"]:
        return ""
    return changed_keys(before.metrics["config"], now.metrics["config"])


def check_given_once(folders: Sequence[Path]) -> None:
    """Raise UserError where two of `folders` are one, given as itself or as a file in it."""
    seen: set[str] = set()
    for given in folders:
        path = given.parent if (given.parent / "runs").is_dir() else given
        if os.path.realpath(path) in seen:
            raise UserError(f"{path} is given twice; each result must be a measurement of its own")
        seen.add(os.path.realpath(path))


def check_copies(paths: Sequence[Path], sessions: Sequence[Mapping[str, float]]) -> None:
    """Raise UserError where two results have one rate of a cell, to the last digit: they are one measurement.

    It would narrow the spread between sessions to nothing. `sessions`: for each path, the rate of each cell.
    """
    path_of: dict[tuple[str, float], Path] = {}  # (cell, rate) -> the first result that has it
    for path, rates in zip(paths, sessions, strict=True):
        for cell, rate in rates.items():
            if (cell, rate) in path_of:
                same = f"has the rate of {path_of[(cell, rate)]} in cell {cell}, to the last digit"
                raise UserError(f"{path} {same}; each result must be a measurement of its own")
        path_of |= dict.fromkeys(rates.items(), path)


def measured_cells(results: Path) -> dict[str, list[RawRun]]:
    """Return the runs with numbers of each cell of a result. Raises UserError where its raw files are damaged."""
    folder = folder_of(results)
    runs, differences = read_runs(folder)
    if differences:
        raise UserError(f"{folder} cannot be compared with: {differences[0]}; see: scaleproof verify {folder}")
    return measured_by_cell(runs)


def _setting_of(run: RawRun) -> dict[str, Any]:
    """Return what the runs of a gate must have in common: configuration and kind of machine, name -> value.

    Versions of software may differ: a gate is there to see their effect.
    """
    metrics = run.metrics
    return {
        "configuration": metrics["fingerprint"],
        "processor": metrics["hardware"]["cpu_model"],
        "processors": metrics["hardware"]["cpu_allowed"],
        "devices": sorted(rank["device_name"] for rank in metrics["ranks"]),
    }


def differing_settings(a: RawRun, b: RawRun) -> list[str]:
    """Return in what the configurations or the kinds of machine of two runs differ: what forbids to compare them."""
    settings_of_a, settings_of_b = _setting_of(a), _setting_of(b)
    return [name for name, value in settings_of_a.items() if settings_of_b[name] != value]
