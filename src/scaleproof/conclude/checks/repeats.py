"""Do the repeats behave like a sample: one state, no drift, independent of each other?

A cell has few repeats, so all cells speak together: the logarithm of each rate relative to the mean of its cell.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from scipy.special import stdtrit

from scaleproof.ground.findings.registry import Flag, of_timed
from scaleproof.ground.number_format import fixed, percent, significant
from scaleproof.ground.records.grouping import runs_by_cell
from scaleproof.ground.records.run import TimedRun

FEWEST_REPEATS = 3
FEWEST_RUNS = 12  # with fewer runs of all cells together a pattern may be chance
GAP = 0.04  # two states are apart by this share of the rate or more; closer states make no difference
CLEAR = 5.0  # and by so many times the scatter within the states
DRIFT = 0.03  # a change by this share of the rate, from the first round to the last, is a drift
CHANCE = 6e-5  # the probability that noise alone is taken for a drift
CORRELATED = 0.5  # the least correlation of a repeat with the repeat before it
FEWEST_ROUNDS = 12  # with fewer rounds a correlation between repeats cannot be told from chance
CORRELATED_ERRORS = 3.0  # the least correlation, too, in its standard errors


def lag_one(values: np.ndarray) -> float:
    """Return the correlation of each value with the one before it, after a straight line through all is taken out.

    0 if there is no variation. Source: Box and Jenkins, Time Series Analysis, chapter 2.
    """
    centred_indices = np.arange(len(values), dtype=float)
    centred_indices -= centred_indices.mean()
    centred_values = values - values.mean()
    slope = float((centred_indices * centred_values).sum() / (centred_indices**2).sum())
    residuals = centred_values - centred_indices * slope
    sum_of_squares = float((residuals**2).sum())
    return float((residuals[1:] * residuals[:-1]).sum()) / sum_of_squares if sum_of_squares > 0 else 0.0


def _rate_deviations(runs: list[TimedRun]) -> dict[int, list[float]]:
    """Return repeat -> for each cell with enough repeats, the log rate of this repeat less the cell's mean."""
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
    repeats = np.array([repeat for repeat, of_repeat in deviations.items() for _ in of_repeat], dtype=float)
    values = np.array([value for of_repeat in deviations.values() for value in of_repeat])
    if len(values) < FEWEST_RUNS or len(deviations) < FEWEST_REPEATS:
        return
    centred_repeats = repeats - repeats.mean()
    slope = float((centred_repeats * values).sum() / (centred_repeats**2).sum())
    residuals = values - slope * centred_repeats
    # Each cell with points has used up a degree of freedom for its mean, the slope one more.
    mean_count = sum(len(of_cell) >= FEWEST_REPEATS for of_cell in runs_by_cell(runs).values())
    degrees_of_freedom = max(1, len(values) - mean_count - 1)
    standard_error = float(np.sqrt((residuals**2).sum() / degrees_of_freedom / (centred_repeats**2).sum()))

    change = float(np.expm1(slope * (repeats.max() - repeats.min())))
    is_beyond_chance = abs(slope) > standard_error * stdtrit(degrees_of_freedom, 1 - CHANCE / 2)  # by Student's t
    if abs(change) >= DRIFT and is_beyond_chance:
        yield Flag(
            f"rates change by {fixed(100 * change, 1, signed=True)}% from the first repeat to the last, over all cells"
        )


@of_timed.finds("two-clock-states", "suspect", gap=percent(GAP), clear=significant(CLEAR, 6))
def machine_has_one_state(runs: list[TimedRun]) -> Iterator[Flag]:
    """Runs fall into two groups of rates with nothing between: the machine has two states (clocks, placement, memory),
    and a few repeats may all be in one of them. Their interval is then narrow and wrong.

    Detected: Rates relative to the best of their cell, sorted: a gap of {gap}, {clear} times the spread on either side
    of it, with a quarter of the runs or more on each.
    Seen: Simulated: intervals of three repeats hold the truth in 49 to 74 %.
    Repair: Fix the clocks (or pin the cores) and run the cells again; else use more repeats.
    """
    # Relative to the fastest run of the cell: with two states, the groups then lie at 0 and at the gap below it.
    values: list[float] = []
    for repeats in runs_by_cell(runs).values():
        if len(repeats) >= FEWEST_REPEATS:
            logs = [float(np.log(run.metrics.window.tokens_per_s)) for run in repeats]
            values += [log - max(logs) for log in logs]
    if len(values) < FEWEST_RUNS:
        return
    values.sort()

    gaps = np.diff(values)
    slow_count = int(np.argmax(gaps)) + 1  # the runs below the largest gap
    slow_values, fast_values = np.array(values[:slow_count]), np.array(values[slow_count:])
    if min(len(slow_values), len(fast_values)) < len(values) / 4:  # a few odd runs are no state of the machine
        return
    scatter = max(float(slow_values.std()), float(fast_values.std()), 1e-4)  # not 0, where few runs happen to be alike
    distance = float(fast_values.mean() - slow_values.mean())
    if gaps.max() >= GAP and distance > CLEAR * scatter:
        slower = -np.expm1(-distance)
        yield Flag(f"{slow_count} of {len(values)} runs are {percent(slower, 1)} slower than the others, none between")


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
