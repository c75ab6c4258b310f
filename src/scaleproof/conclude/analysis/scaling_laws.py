"""Laws of scaling, fitted to a series of cells: Amdahl, Gustafson, Karp and Flatt. Only where they are defined."""

import math

import numpy as np
from scipy.special import stdtrit

from scaleproof.ground.confidence import CONFIDENCE
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import Kind, LackOfFit, Law, ScalingLaw

LEAST_MISFIT = 0.005  # of the logarithm of a speed-up: a law need not hold to half a percent
FEWEST_SIZES = 3  # with the baseline; a line through fewer sizes fits anything
LAWS: dict[Kind, Law] = {"strong": "amdahl", "weak": "gustafson"}


def karp_flatt(speedup: Estimated | None, devices: int) -> Estimated | None:
    """Return the serial fraction that a measured speed-up S over one device stands for: (1/S - 1/N) / (1 - 1/N).

    Karp and Flatt, CACM 33(5), 1990. None unless 1 < S <= N: a program that gets slower has no serial fraction.
    """
    if devices < 2 or not speedup or speedup.value <= 1:
        return None

    def fraction_at(speedup_value: float) -> float:
        return (1 / speedup_value - 1 / devices) / (1 - 1 / devices)

    def bound_at(speedup_bound: float | None) -> float | None:
        return None if speedup_bound is None else min(max(fraction_at(speedup_bound), 0.0), 1.0)

    value = fraction_at(speedup.value)
    if not 0 <= value <= 1:
        return None
    # The fraction falls with the speed-up, so the bounds change places.
    return Estimated(value=value, low=bound_at(speedup.high), high=bound_at(speedup.low), n=speedup.n)


def fit_scaling_law(kind: Kind, rates: dict[int, dict[int, float]], confidence: float = CONFIDENCE) -> ScalingLaw:
    """Return the law of scaling fitted to a series, with its serial fraction f, or with `undefined`: why there is none.

    strong: Amdahl, S = 1 / (f + (1 - f) / N), AFIPS 1967. weak: Gustafson, S = N - f (N - 1), CACM 31(5), 1988. Each
    repeat gives one f, by least squares over the sizes; the interval is Student's t over repeats, as sizes share their
    baseline. `rates`: devices -> repeat -> tokens/s; only repeats that all sizes have count.
    """
    law = LAWS[kind]
    if len(rates) < FEWEST_SIZES:
        return ScalingLaw(law=law, undefined=f"{len(rates)} sizes; a fit needs {FEWEST_SIZES}")
    if min(rates) != 1:
        return ScalingLaw(law=law, undefined=f"the smallest size has {min(rates)} devices, not one")
    shared_repeats = sorted(set.intersection(*map(set, rates.values())))
    if not shared_repeats:
        return ScalingLaw(law=law, undefined="no repeat has runs of all sizes")

    sizes = [devices for devices in sorted(rates) if devices > 1]
    # For each repeat, devices -> S.
    speedups = [{devices: rates[devices][k] / rates[1][k] for devices in sizes} for k in shared_repeats]
    slower_sizes = [str(size) for size in sizes if np.mean([of_repeat[size] for of_repeat in speedups]) <= 1]
    if slower_sizes:
        return ScalingLaw(law=law, undefined=f"no faster than one device on {', '.join(slower_sizes)}")

    fractions = np.array([_serial_fraction(law, of_repeat) for of_repeat in speedups])
    fraction = _fraction_with_interval(fractions, confidence)
    misfit = _largest_misfit(law, fractions, speedups)
    limit = None
    # By Amdahl no number of devices is faster than 1/f; a law that does not fit is no basis for that.
    if law == "amdahl" and 0 < fraction.value <= 1 and not misfit:
        limit = 1 / fraction.value
    return ScalingLaw(law=law, fraction=fraction, limit=limit, lack_of_fit=misfit)


def _fraction_with_interval(fractions: np.ndarray, confidence: float) -> Estimated:
    """Return the mean of the serial fractions of all repeats; without a second repeat it has no interval."""
    value = float(fractions.mean())
    low = high = None
    n = len(fractions)
    if n > 1:
        half_width = float(stdtrit(n - 1, (1 + confidence) / 2)) * float(fractions.std(ddof=1)) / math.sqrt(n)
        low, high = value - half_width, value + half_width
    return Estimated(value=value, low=low, high=high, n=n)


def _largest_misfit(law: Law, fractions: np.ndarray, speedups: list[dict[int, float]]) -> LackOfFit | None:
    """Return the size at which the law misses the measured speed-ups most; None unless it misses some for certain.

    It is certain by Student's t over repeats, at the Bonferroni level of the sizes. Each repeat is compared with its
    own fit, so that what all sizes of a repeat share cancels.

    `fractions`: the serial fraction of each repeat; `speedups`: for each repeat, devices -> S.
    """
    if len(speedups) < 3:  # of two repeats the standard error says too little
        return None
    sizes = list(speedups[0])
    quantile = float(stdtrit(len(speedups) - 1, 1 - (1 - CONFIDENCE) / 2 / len(sizes)))

    certain_misfits: list[LackOfFit] = []
    for n in sizes:
        fitted_speedups = 1 / (fractions + (1 - fractions) / n) if law == "amdahl" else n - fractions * (n - 1)
        log_speedups = np.array([math.log(of_repeat[n]) for of_repeat in speedups])
        # Gustafson's speed-ups may be negative: then they have no logarithm.
        log_misfits = log_speedups - np.log(np.maximum(fitted_speedups, np.finfo(float).tiny))
        standard_error = float(log_misfits.std(ddof=1)) / math.sqrt(len(log_misfits))
        log_misfit = float(log_misfits.mean())
        if abs(log_misfit) > max(quantile * standard_error, LEAST_MISFIT):
            percent = 100 * math.expm1(log_misfit)
            certain_misfits.append(LackOfFit(devices=n, log_miss=log_misfit, percent=percent))
    return max(certain_misfits, key=lambda misfit: abs(misfit.log_miss), default=None)


def _serial_fraction(law: Law, speedups: dict[int, float]) -> float:
    """Return the serial fraction f of one repeat: the slope of a line through the origin, by least squares.

    By Amdahl 1/S - 1/N = f (1 - 1/N), by Gustafson N - S = f (N - 1). `speedups`: devices N -> S.
    """
    if law == "amdahl":
        points = [(1 - 1 / n, 1 / s - 1 / n) for n, s in speedups.items()]
    else:
        points = [(n - 1, n - s) for n, s in speedups.items()]
    return sum(x * y for x, y in points) / sum(x**2 for x, _ in points)
