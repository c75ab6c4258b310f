"""`scalebench gate`: has throughput become worse than in earlier results of the same cells on the same kind of machine?

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

from scalebench.errors import UserError
from scalebench.verify.campaign import folder_of
from scalebench.verify.raw import RawRun, read_runs
from scalebench.verify.recompute import by_cell

LEAST_SESSIONS = 3  # two differences of sessions are the least that a spread can be estimated from
ALPHA = 0.05  # probability of a false alarm of the whole gate; half for all cells together, half for single ones

Rates = dict[str, float]  # cell -> tokens/s, all tokens over all time


@dataclass(frozen=True)
class Verdict:
    """`change`: new over the mean of the earlier sessions, less 1. `bound`: a loss below it is an alarm."""

    name: str
    change: float
    bound: float

    @property
    def worse(self) -> bool:
        return self.change < self.bound

    def __str__(self) -> str:
        word = "FAIL" if self.worse else "ok  "
        return f"{word}  {self.name}: {100 * self.change:+.2f} % (an alarm is below {100 * self.bound:+.2f} %)"


def judge(new: Rates, sessions: Sequence[Mapping[str, float]]) -> list[Verdict]:
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


def _verdict(name: str, new: float, logs: list[float], alpha: float) -> Verdict:
    n = len(logs)
    spread = statistics.stdev(logs) * math.sqrt(1 + 1 / n)
    bound = float(student.ppf(alpha, n - 1)) * spread
    return Verdict(name, math.expm1(new - statistics.fmean(logs)), math.expm1(bound))


def gate(results: Path, baselines: Sequence[Path]) -> tuple[list[Verdict], list[str]]:
    """The verdicts, and what was not compared and why. Raises UserError where nothing can be compared."""
    if len(baselines) < LEAST_SESSIONS:
        raise UserError(
            f"a gate needs at least {LEAST_SESSIONS} earlier results, not {len(baselines)}: the spread between "
            "sessions is not known from fewer; for two results use scalebench compare"
        )
    new = _cells(results)
    earlier = [_cells(path) for path in baselines]
    _check_copies([results, *baselines], [new, *earlier])
    left_out = []
    common = []
    for cell, (_, circumstances) in new.items():
        missing = sum(cell not in session for session in earlier)
        differing = sorted(
            {key for session in earlier if cell in session for key in differing_keys(circumstances, session[cell][1])}
        )
        if missing:
            left_out.append(f"{cell}: not in {missing} of {len(earlier)} earlier results")
        elif differing:
            left_out.append(f"{cell}: incomparable: {', '.join(differing)}")
        else:
            common.append(cell)
    if not common:
        raise UserError(f"no cell of {results} can be compared with all earlier results; {'; '.join(left_out[:3])}")
    sessions = [{cell: session[cell][0] for cell in common} for session in earlier]
    return judge({cell: new[cell][0] for cell in common}, sessions), left_out


def _check_copies(paths: Sequence[Path], sessions: Sequence[Mapping[str, tuple[float, Any]]]) -> None:
    """One measurement under two names would narrow the spread between sessions to nothing. Raises UserError."""
    seen: dict[tuple[str, float], Path] = {}
    for path, session in zip(paths, sessions, strict=True):
        for cell, (rate, _) in session.items():
            if (cell, rate) in seen:
                other = seen[(cell, rate)]
                same = "is given twice" if path.resolve() == other.resolve() else f"has the same runs as {other}"
                raise UserError(f"{path} {same} (cell {cell}); each result must be a measurement of its own")
        seen |= {(cell, rate): path for cell, (rate, _) in session.items()}


def _cells(results: Path) -> dict[str, tuple[float, dict[str, Any]]]:
    """Cell -> its rate, and what must be equal for a comparison."""
    groups = by_cell(read_runs(folder_of(results))[0])
    measured = {cell: [run for run in runs if run.ok] for cell, runs in groups.items()}
    return {cell: (rate_of(runs), circumstances(runs[0])) for cell, runs in measured.items() if runs}


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
