"""`scaleproof gate --history`: when did throughput change over a series of results of the same cells?

Each result is a session, in the order of its date. A series holds the mean rates of a cell (a configuration), or of all
cells, over sessions. A shift is the split of a series that Student's t finds the clearest; Bonferroni's bound over all
splits of all series keeps false alarms below 5 % for the whole history. The parts on both sides are searched again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from scaleproof.conclude.publication import gate
from scaleproof.ground.errors import UserError
from scaleproof.verify.campaign import folder_of
from scaleproof.verify.raw import RawRun, rate_of
from scaleproof.verify.recompute import log_interval

LEAST_SESSIONS = 5  # with fewer, a shift of 5 % is rarely clearer than chance
SHORTEST = 4  # sessions in a part that is searched again

Rate = tuple[float, float | None, float | None]  # tokens/s of a session, and bounds over its runs


@dataclass(frozen=True)
class DatedResult:
    """One result: its folder, the date and commit of its first run, and its cells."""

    folder: Path
    date: str
    commit: str
    rates: dict[str, Rate]


@dataclass(frozen=True)
class RateShift:
    """A change of a rate from one session on. `series`: the cell, or all cells together.

    `session`: index of the first session after the shift. `change`: the mean after over the mean before, less 1. `low`
    and `high`: the bounds of its 95 % interval.
    """

    series: str
    session: int
    change: float
    low: float
    high: float


@dataclass(frozen=True)
class History:
    """The sessions in the order of their dates, the cells that were searched, and the shifts of their rates.

    `left_out`: which cell of which session was not used, and why. `gone`: cells of the last but one session without
    numbers in the newest. `changed`: cell -> the keys in which its configuration differs between these two.
    """

    sessions: list[DatedResult]
    cells: list[str]
    shifts: list[RateShift]
    left_out: list[str]
    gone: list[str]
    changed: dict[str, str]

    @property
    def alarms(self) -> list[RateShift]:
        latest = {shift.series: shift for shift in sorted(self.shifts, key=lambda shift: shift.session)}
        return [shift for shift in latest.values() if shift.change < 0]


def find_history_shifts(folders: Sequence[Path], cell: str | None = None) -> History:
    """Return the shifts of rates over the results in `folders`, of one `cell` where it is named.

    Raises UserError where too little can be compared.
    """
    if len(folders) < LEAST_SESSIONS:
        raise UserError(f"a history needs at least {LEAST_SESSIONS} results, not {len(folders)}")
    gate.check_given_once(folders)
    results = sorted(map(_read_session, folders), key=lambda session_and_runs: session_and_runs[0].date)
    sessions = [session for session, _ in results]
    gate.check_copies(
        [session.folder for session in sessions],
        [{name: rate for name, (rate, _, _) in session.rates.items()} for session in sessions],
    )
    *_, (_, previous_runs), (newest, newest_runs) = results  # the last two sessions; of both, cell -> its first run
    if cell and cell not in newest_runs:
        cells_text = ", ".join(newest_runs)
        raise UserError(f'the newest result, {newest.folder}, has no cell "{cell}"; it has {cells_text}')

    candidates = [cell] if cell else list(newest_runs)
    left_out = _leave_out(results, {name: newest_runs[name] for name in candidates})  # removes rates in `sessions`
    cells = [name for name in candidates if sum(name in session.rates for session in sessions) >= LEAST_SESSIONS]
    if not cells:
        raise UserError(f"no cell has {LEAST_SESSIONS} comparable results; {'; '.join(left_out[:3])}")

    both = [name for name in candidates if name in previous_runs]
    changed = {name: gate.changes_between(previous_runs[name], newest_runs[name]) for name in both}
    return History(
        sessions=sessions,
        cells=cells,
        shifts=shifts_of(
            [{cell: rate for cell, (rate, _, _) in session.rates.items() if cell in cells} for session in sessions]
        ),
        left_out=left_out,
        gone=[] if cell else [name for name in previous_runs if name not in newest_runs],
        changed={name: keys for name, keys in changed.items() if keys},
    )


def _leave_out(
    results: Sequence[tuple[DatedResult, Mapping[str, RawRun]]], newest_runs: Mapping[str, RawRun]
) -> list[str]:
    """Remove rates of cells that cannot be compared with their newest runs, and return which, and why."""
    left_out = []
    for result, runs in results:
        for name, newest_run in newest_runs.items():
            if name not in runs:
                left_out.append(f"{result.folder}: no cell {name}")
                continue
            if keys := gate.differing_settings(runs[name], newest_run):
                left_out.append(f"{result.folder}: {name} is incomparable with the newest: {', '.join(keys)}")
                del result.rates[name]
    return left_out


def shifts_of(sessions: Sequence[Mapping[str, float]]) -> list[RateShift]:
    """Return the shifts in the rates of sessions, which are in the order of their dates.

    Half of ALPHA, the probability of a false alarm, is for all cells together, and half is shared by the cells; a
    campaign of one cell uses all of it. `sessions`: cell -> rate, for each session; a cell need not be in each.
    """
    cells = list(dict.fromkeys(chain.from_iterable(sessions)))
    alpha_of_cell = gate.ALPHA / 2 / len(cells) if len(cells) > 1 else gate.ALPHA
    shifts = []
    common_cells = []  # in all sessions
    for cell in cells:
        indices = [index for index, session in enumerate(sessions) if cell in session]
        logs = np.log([sessions[index][cell] for index in indices])
        shifts += _find_shifts(cell, logs, indices, alpha_of_cell)
        if len(indices) == len(sessions):
            common_cells.append(cell)

    if len(common_cells) > 1:
        name = f"{len(common_cells)} cells together"
        logs = np.log([[session[cell] for cell in common_cells] for session in sessions])
        shifts += _find_shifts(name, logs.mean(axis=1), list(range(len(sessions))), gate.ALPHA / 2)
    return sorted(shifts, key=lambda shift: (shift.session, shift.series))


def _find_shifts(series: str, logs: np.ndarray, sessions: list[int], alpha: float) -> list[RateShift]:
    """Return the clearest shift of a series, or both of a rate that changed and came back; then those of its parts.

    It is circular binary segmentation (Olshen et al. 2004) with Student's t. Half of `alpha`, the probability of
    a false alarm, is for either kind of split: a shift that stays, or a time between two shifts. `logs`: logarithms of
    the rates. `sessions`: the index of the session of each rate.
    """
    n = len(logs)
    if n < SHORTEST:
        return []

    # Each array has an element for each split: into a part (inside), and the rest (outside).
    # A part that begins at index 0 is the rest of another one: as each split is meant once, parts begin later.
    begins, ends = np.triu_indices(n, k=1) + np.array([[1], [1]])  # begin and end (the index after the last), 1 to n
    centred = logs - logs.mean()
    sums = np.concatenate([[0.0], np.cumsum(centred)])
    n_inside, n_outside = ends - begins, n - (ends - begins)
    sum_inside = sums[ends] - sums[begins]  # the sum outside is the same, negative
    differences = sum_inside / n_inside + sum_inside / n_outside  # of the means inside and outside
    squares_within = (centred**2).sum() - sum_inside**2 / n_inside - sum_inside**2 / n_outside
    errors = np.sqrt(np.maximum(squares_within, 1e-18) / (n - 2) * (1 / n_inside + 1 / n_outside))
    splits_of_kind = np.where(ends == n, n - 1, (n - 1) * (n - 2) / 2)  # ends == n: a shift that stays to the end
    # Two-sided, by Bonferroni for all splits of a kind and for two kinds.
    p_values = 2 * student.sf(np.abs(differences) / errors, n - 2) * splits_of_kind * 2

    clearest = int(np.argmin(p_values))
    if p_values[clearest] >= alpha:
        return []
    change = float(differences[clearest])
    half = float(student.ppf(0.975, n - 2) * errors[clearest])
    begin, end = int(begins[clearest]), int(ends[clearest])
    shifts = [_shift_as_ratios(series, sessions[begin], change, half)]
    if end < n:  # the rate comes back
        shifts.append(_shift_as_ratios(series, sessions[end], -change, half))
    for part in (slice(0, begin), slice(begin, end), slice(end, n)):
        shifts += _find_shifts(series, logs[part], sessions[part], alpha)
    return shifts


def _shift_as_ratios(series: str, session: int, change: float, half: float) -> RateShift:
    """Return a shift as ratios. `change` and `half`, the half-width of its interval, are logarithms."""
    return RateShift(
        series=series,
        session=session,
        change=math.expm1(change),
        low=math.expm1(change - half),
        high=math.expm1(change + half),
    )


def _read_session(path: Path) -> tuple[DatedResult, dict[str, RawRun]]:
    """Return the result in the folder `path`, and the first run of each of its cells. Raises UserError without runs."""
    folder = folder_of(path)
    runs_of_cell = gate.measured_cells(folder)
    if not runs_of_cell:
        raise UserError(f"{folder} has no run with numbers")
    rates: dict[str, Rate] = {}
    for cell, runs in runs_of_cell.items():
        rate = rate_of(*runs)
        below, above = log_interval([rate_of(run) for run in runs])  # factors; None for a single run
        rates[cell] = rate, below and rate * below, above and rate * above

    all_runs = [run for runs in runs_of_cell.values() for run in runs]
    first_run = min(all_runs, key=lambda run: str(run.metrics["timestamp_utc"]))
    session = DatedResult(
        folder=folder,
        date=str(first_run.metrics["timestamp_utc"]),
        commit=str(first_run.metrics["git_commit"]),
        rates=rates,
    )
    return session, {cell: runs[0] for cell, runs in runs_of_cell.items()}  # all repeats have the same settings
