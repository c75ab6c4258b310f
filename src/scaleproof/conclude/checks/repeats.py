"""Do the repeats behave like a sample: one state, no drift, independent of each other?

A cell has few repeats, so all cells speak together: the logarithm of each rate relative to the mean of its cell.
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from scipy.special import stdtrit

from scaleproof.ground.findings.registry import Flag, of_timed
from scaleproof.ground.number_format import fixed, percent, signed_percent, significant
from scaleproof.ground.records.grouping import runs_by_cell
from scaleproof.ground.records.run import TimedRun

FEWEST_REPEATS = 3
FEWEST_RUNS = 12  # of all cells together, below which a pattern is chance
GAP = 0.04  # between two states, of the rate; closer ones make no difference
CLEAR = 5.0  # times the scatter within the states
DRIFT = 0.03  # of the rate, from the first round to the last
CHANCE = 6e-5  # of a slope that is nothing but noise
CORRELATED = 0.5  # of a repeat with the one before it
FEWEST_ROUNDS = 12  # below, a correlation between repeats cannot be told from chance
CORRELATED_ERRORS = 3.0  # standard errors of a correlation between repeats


def lag_one(values: np.ndarray) -> float:
    """Return the correlation of each value with the one before it, after a straight line through all is taken out.

    0 if there is no variation. Source: Box and Jenkins, Time Series Analysis, chapter 2.
    """
    places = np.arange(len(values), dtype=float)
    places -= places.mean()
    centred = values - values.mean()
    slope = float((places * centred).sum() / (places**2).sum())
    residual = centred - places * slope
    total = float((residual**2).sum())
    return float((residual[1:] * residual[:-1]).sum()) / total if total > 0 else 0.0


def _rate_deviations(runs: list[TimedRun]) -> dict[int, list[float]]:
    """Return repeat -> logarithms of its rates, each relative to the mean of its cell, of cells with enough repeats."""
    deviations: dict[int, list[float]] = defaultdict(list)
    for repeats in runs_by_cell(runs).values():
        if len(repeats) >= FEWEST_REPEATS:
            logs = np.log([run.metrics.window.tokens_per_s for run in repeats])
            for run, value in zip(repeats, logs - logs.mean(), strict=True):
                deviations[run.metrics.repeat].append(float(value))
    return deviations


@of_timed.finds("drift-over-repeats", "suspect", drift=percent(DRIFT))
def machine_did_not_drift(runs: list[TimedRun]) -> Iterator[Flag]:
    """Later repeats are faster or slower than earlier ones in all cells: the machine changed meanwhile.

    Ratios paired by repeat cancel it, rates and their intervals do not.

    Detected: A line through all rates relative to their cell's mean, by repeat: {drift} or more from first to last,
    which chance gives in 6 of 100,000 campaigns without one.
    Seen: Laptops that warm up; nodes whose neighbours start work.
    Repair: Compare cells by ratios, or run the campaign again when the machine has settled.
    """
    deviations = _rate_deviations(runs)
    # A line is fitted through these points: numbers of repeats, and the deviations of their cells' rates.
    repeats = np.array([repeat for repeat, values in deviations.items() for _ in values], dtype=float)
    values = np.array([value for of_repeat in deviations.values() for value in of_repeat])
    if len(values) < FEWEST_RUNS or len(deviations) < FEWEST_REPEATS:
        return
    centred = repeats - repeats.mean()
    slope = float((centred * values).sum() / (centred**2).sum())
    residual = values - slope * centred
    cells = len({run.metrics.cell for run in runs})  # each has a mean of its own, at most so many
    freedom = max(1, len(values) - cells - 1)
    error = float(np.sqrt((residual**2).sum() / freedom / (centred**2).sum()))
    change = float(np.expm1(slope * (repeats.max() - repeats.min())))
    # Student's t: is the slope beyond chance?
    if abs(change) >= DRIFT and abs(slope) > error * stdtrit(freedom, 1 - CHANCE / 2):
        yield Flag(f"rates change by {signed_percent(change, 1)} from the first repeat to the last, over all cells")


@of_timed.finds("two-clock-states", "suspect", gap=percent(GAP), clear=significant(CLEAR, 6))
def machine_has_one_state(runs: list[TimedRun]) -> Iterator[Flag]:
    """Runs fall into two groups of rates with nothing between: the machine has two states (clocks, placement, memory),
    and a few repeats may all be in one of them. Their interval is then narrow and wrong.

    Detected: Rates relative to the best of their cell, sorted: a gap of {gap}, {clear} times the spread on either side
    of it, with a quarter of the runs or more on each.
    Seen: Simulated: intervals of three repeats hold the truth in 49 to 74 %.
    Repair: Fix the clocks (or pin the cores) and run the cells again; else use more repeats.
    """
    cells = {
        cell: [float(np.log(run.metrics.window.tokens_per_s)) for run in repeats]
        for cell, repeats in runs_by_cell(runs).items()
    }
    # Relative to the fastest run of the cell: with two states, the groups then lie at 0 and at the gap below it.
    values = sorted(value - max(logs) for logs in cells.values() if len(logs) >= FEWEST_REPEATS for value in logs)
    if len(values) < FEWEST_RUNS:
        return
    gaps = [after - before for before, after in pairwise(values)]
    place = int(np.argmax(gaps)) + 1  # of the first value above the largest gap
    slow = np.array(values[:place])
    fast = np.array(values[place:])
    if min(len(slow), len(fast)) < len(values) / 4:  # a few odd runs are no state of the machine
        return
    scatter = max(float(slow.std()), float(fast.std()), 1e-4)  # not 0, where few runs happen to be alike
    distance = float(fast.mean() - slow.mean())
    if gaps[place - 1] >= GAP and distance > CLEAR * scatter:
        slower = -np.expm1(-distance)
        yield Flag(f"{len(slow)} of {len(values)} runs are {percent(slower, 1)} slower than the others, none between")


@of_timed.finds(
    "repeats-correlated",
    "suspect",
    correlated=significant(CORRELATED, 6),
    correlated_errors=significant(CORRELATED_ERRORS, 6),
    fewest_rounds=FEWEST_ROUNDS,
)
def repeats_do_not_resemble_the_one_before(runs: list[TimedRun]) -> Iterator[Flag]:
    """Repeats resemble the repeat before them, in all cells: something that changes slowly moves the rates.

    Such repeats are not independent, so intervals of rates are too short. Ratios paired by repeat cancel it.

    Detected: Rates relative to their cell's mean, averaged over the cells of each repeat, a line taken out: a
    correlation with the repeat before of {correlated} or more, {correlated_errors} standard errors (1 / sqrt(repeats)),
    from {fewest_rounds} repeats on. Fewer repeats cannot show it.
    Seen: Simulated: with a correlation of 0.7, intervals of 95 % hold the truth in 60 to 88 %.
    Repair: Compare cells by ratios; for rates run the campaign again at another time.
    """
    deviations = _rate_deviations(runs)
    if len(deviations) < FEWEST_ROUNDS:
        return
    correlation = lag_one(np.array([np.mean(deviations[repeat]) for repeat in sorted(deviations)]))
    if correlation >= CORRELATED and correlation * np.sqrt(len(deviations)) > CORRELATED_ERRORS:
        yield Flag(f"{len(deviations)} repeats correlate with the repeat before them: {fixed(correlation, 2)}")
