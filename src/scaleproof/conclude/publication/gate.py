"""`scaleproof gate`: has throughput become worse than in earlier results of the same cells on the same kind of machine?

Each earlier result is one session. The spread between sessions is what a new session is held against: runs of one
session share its state of the machine, so that their spread alone would raise false alarms.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import t as student

from scaleproof.conclude.checks.all_checks import audit
from scaleproof.ground.errors import UserError, plural, shortened
from scaleproof.ground.number_format import fixed
from scaleproof.ground.records.run import read_run
from scaleproof.verify.campaign import folder_of, verify
from scaleproof.verify.manifest import MANIFEST
from scaleproof.verify.raw import RawRun, flat, read_runs
from scaleproof.verify.recompute import by_cell

LEAST_SESSIONS = 3  # two differences of sessions are the least that a spread can be estimated from
ALPHA = 0.05  # probability of a false alarm of the whole gate; half for all cells together, half for single ones

Rates = dict[str, float]  # cell -> tokens/s, all tokens over all time


@dataclass(frozen=True)
class RateChange:
    """`change`: new over the mean of the earlier sessions, less 1. `bound`: a loss below it is an alarm."""

    name: str
    change: float
    bound: float

    @property
    def worse(self) -> bool:
        return self.change < self.bound

    def __str__(self) -> str:
        word = "FAIL" if self.worse else "ok  "
        return (
            f"{word}  {self.name}: {fixed(100 * self.change, 2, signed=True)} % (an alarm is below "
            f"{fixed(100 * self.bound, 2, signed=True)} %)"
        )


def judge(new: Rates, sessions: Sequence[Mapping[str, float]]) -> list[RateChange]:
    """All cells together, then each one. `sessions`: rates of the same cells in earlier results, at least three.

    The geometric mean over cells finds a loss that all share; Bonferroni's bound over cells, a loss of one of them.
    One-sided prediction bounds of Student's t over sessions, on logarithms.
    """
    cells = sorted(new)
    together = [statistics.fmean(math.log(session[cell]) for cell in cells) for session in sessions]
    own = statistics.fmean(math.log(new[cell]) for cell in cells)
    verdicts = [_verdict(f"{len(cells)} cells together", own, together, ALPHA / 2)]
    for cell in cells if len(cells) > 1 else ():
        logs = [math.log(session[cell]) for session in sessions]
        verdicts.append(_verdict(cell, math.log(new[cell]), logs, ALPHA / 2 / len(cells)))
    return verdicts


def _verdict(name: str, new: float, logs: list[float], alpha: float) -> RateChange:
    """`new`: logarithm of a rate; `logs`: those of the earlier sessions; `alpha`: probability of a false alarm."""
    n = len(logs)
    spread = statistics.stdev(logs) * math.sqrt(1 + 1 / n)
    bound = float(student.ppf(alpha, n - 1)) * spread
    return RateChange(name, math.expm1(new - statistics.fmean(logs)), math.expm1(bound))


@dataclass(frozen=True)
class Gate:
    """`faults`: why the new result is no pass whatever its rates are: cells that are gone, failed or changed, and what
    is wrong with its own numbers. `left_out`: what was not compared and why; `new`: cells that no earlier result has.
    """

    verdicts: list[RateChange]
    faults: list[str]
    left_out: list[str]
    new: list[str]

    @property
    def worse(self) -> bool:
        return bool(self.faults) or any(verdict.worse for verdict in self.verdicts)


def gate(results: Path, baselines: Sequence[Path]) -> Gate:
    """A new result against earlier ones. Raises UserError where nothing can be compared, or a baseline is damaged."""
    if len(baselines) < LEAST_SESSIONS:
        raise UserError(
            f"a gate needs at least {LEAST_SESSIONS} earlier results, not {len(baselines)}: the spread between "
            "sessions is not known from fewer; for two results use scaleproof compare"
        )
    folder = folder_of(results)
    earlier = [measured_cells(path) for path in baselines]
    faults = faults_of(folder)
    runs, _ = read_runs(folder)
    new = {cell: ok for cell, group in by_cell(runs).items() if (ok := [run for run in group if run.ok])}
    if not new and not faults and not any(earlier):
        raise UserError(f"{results} has no run with numbers")
    _check_copies([results, *baselines], [new, *earlier])
    known = dict.fromkeys(cell for session in earlier for cell in session)
    faults += [_gone(cell, runs) for cell in known if cell not in new]
    left_out, common = [], []
    for cell in new:
        before = [session[cell][0] for session in earlier if cell in session]
        own = circumstances(new[cell][0])
        machine = sorted({key for run in before for key in differing_keys(own, circumstances(run))})
        if changed := next((text for run in before if (text := changed_keys(run, new[cell][0]))), ""):
            faults.append(f"{cell}: its configuration is not that of the earlier results: {changed}")
        elif machine:
            left_out.append(f"{cell}: incomparable: {', '.join(machine)}")
        elif 0 < len(before) < len(earlier):
            left_out.append(f"{cell}: not in {len(earlier) - len(before)} of {len(earlier)} earlier results")
        elif before:
            common.append(cell)
    if not common and not faults:
        raise UserError(f"no cell of {results} can be compared with all earlier results; {'; '.join(left_out[:3])}")
    sessions = [{cell: rate_of(session[cell]) for cell in common} for session in earlier]
    verdicts = judge({cell: rate_of(new[cell]) for cell in common}, sessions) if common else []
    return Gate(verdicts, faults, left_out, [cell for cell in new if cell not in known])


def faults_of(folder: Path) -> list[str]:
    """What is wrong with a result itself: that it does not verify, and `invalid` findings about its runs."""
    # Where no report was made there are raw files alone.
    differences = verify(folder)[0] if (folder / MANIFEST).is_file() else read_runs(folder)[1]
    if differences:
        more = f" and {plural(len(differences) - 1, 'difference')} more" if len(differences) > 1 else ""
        return [f"{folder} does not verify: {differences[0]}{more}"]
    runs = [read_run((folder / run.path).parent) for run in read_runs(folder)[0]]
    invalid = [finding for finding in audit(folder.name, runs).findings if finding.severity == "invalid"]
    cells: dict[str, list[str]] = {}
    for finding in invalid:
        cells.setdefault(finding.code, []).extend(finding.cells)
    where = f"see: scaleproof audit {folder}"
    return [f"{', '.join(dict.fromkeys(named))}: invalid: {code}; {where}" for code, named in cells.items()]


def _gone(cell: str, runs: list[RawRun]) -> str:
    """What became of a cell that has no numbers."""
    failures = [run.metrics["failure"] for run in runs if run.cell == cell]
    if not failures:
        return f"{cell}: is gone; earlier results have it"
    reasons = dict.fromkeys(f"{failure['class']}: {failure['reason']}" for failure in failures)
    count = "its run" if len(failures) == 1 else f"all of its {len(failures)} runs"
    return f"{cell}: {count} failed: {shortened('; '.join(reasons), 300)}"


def changed_keys(before: RawRun, now: RawRun) -> str:
    """The keys in which two configurations differ, with both values; "" where they are one."""
    if before.metrics["fingerprint"] == now.metrics["fingerprint"]:
        return ""
    a, b = (dict(flat(run.metrics["config"])) for run in (before, now))
    keys = [key for key in dict.fromkeys((*a, *b)) if a.get(key) != b.get(key)]
    return shortened(", ".join(f"{key} {a.get(key)} -> {b.get(key)}" for key in keys), 300)


def _check_copies(paths: Sequence[Path], sessions: Sequence[Mapping[str, list[RawRun]]]) -> None:
    """One measurement under two names would narrow the spread between sessions to nothing. Raises UserError."""
    seen: dict[tuple[str, float], Path] = {}
    for path, session in zip(paths, sessions, strict=True):
        rates = {cell: rate_of(runs) for cell, runs in session.items()}
        for cell, rate in rates.items():
            if (cell, rate) in seen:
                other = seen[(cell, rate)]
                same = "is given twice" if path.resolve() == other.resolve() else f"has the same runs as {other}"
                raise UserError(f"{path} {same} (cell {cell}); each result must be a measurement of its own")
        seen |= dict.fromkeys(rates.items(), path)


def measured_cells(results: Path) -> dict[str, list[RawRun]]:
    """The runs with numbers of each cell of an earlier result. Raises UserError where its raw files are damaged."""
    folder = folder_of(results)
    runs, differences = read_runs(folder)
    if differences:
        raise UserError(f"{folder} cannot be compared with: {differences[0]}; see: scaleproof verify {folder}")
    return {cell: ok for cell, group in by_cell(runs).items() if (ok := [run for run in group if run.ok])}


def rate_of(runs: list[RawRun]) -> float:
    """tokens/s: all tokens of the windows over all their time."""
    seconds = math.fsum(run.metrics["window"]["wall_time_sec"] for run in runs)
    return sum(step.tokens for run in runs for step in run.window) / seconds


def circumstances(run: RawRun) -> dict[str, Any]:
    """The configuration and the class of the machine; not versions, whose effect a gate is there to see."""
    metrics = run.metrics
    return {
        "configuration": metrics["fingerprint"],
        "processor": metrics["hardware"]["cpu_model"],
        "processors": metrics["hardware"]["cpu_allowed"],
        "devices": sorted(rank["device_name"] for rank in metrics["ranks"]),
    }


def differing_keys(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """What forbids a comparison of two cells' circumstances; empty where nothing does."""
    return [key for key in a if a[key] != b[key]]
