"""Laws of scaling, fitted to a series of cells: Amdahl, Gustafson, Karp and Flatt. Only where they are defined."""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import stdtrit

from scaleproof.ground.confidence import CONFIDENCE
from scaleproof.ground.records.result_file import Estimated
from scaleproof.ground.records.scaling_report import Kind, LackOfFit, Law, ScalingLaw

LEAST_MISS = 0.005  # logarithm of a speed-up; a law need not hold to half a percent
FEWEST_SIZES = 3  # the baseline among them: a line through fewer fits anything
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
    sizes = [devices for devices in sorted(rates) if devices > 1]
    shared = sorted(set.intersection(*map(set, rates.values())))
    if not shared:
        return ScalingLaw(law=law, undefined="no repeat has runs of all sizes")
    speedups = [  # of each repeat: devices -> S
        {devices: rates[devices][repeat] / rates[1][repeat] for devices in sizes} for repeat in shared
    ]
    slower = [devices for devices in sizes if np.mean([of_repeat[devices] for of_repeat in speedups]) <= 1]
    if slower:
        return ScalingLaw(law=law, undefined=f"no faster than one device on {', '.join(map(str, slower))}")
    solve = {"amdahl": _amdahl_fraction, "gustafson": _gustafson_fraction}[law]
    fractions = np.array([solve(of_repeat) for of_repeat in speedups])
    value = float(fractions.mean())
    low = high = None
    repeats = len(shared)
    if repeats > 1:
        half = float(stdtrit(repeats - 1, (1 + confidence) / 2)) * float(fractions.std(ddof=1)) / math.sqrt(repeats)
        low, high = value - half, value + half
    lack = _find_lack_of_fit(law, fractions, speedups)
    # By Amdahl no number of devices is faster than 1/f; a law that misses is no basis for that.
    limit = 1 / value if law == "amdahl" and 0 < value <= 1 and not lack else None
    fraction = Estimated(value=value, low=low, high=high, n=repeats)
    return ScalingLaw(law=law, fraction=fraction, limit=limit, lack_of_fit=lack)


def _find_lack_of_fit(law: Law, fractions: np.ndarray, speedups: list[dict[int, float]]) -> LackOfFit | None:
    """Return the size at which the law misses the measured speed-ups most, where it misses them for certain; else None.

    `fractions`: of each repeat; `speedups`: of each repeat, devices -> S. Each repeat is held against its own fit, so
    that what all sizes of a repeat share cancels. Certain: by Student's t over repeats, at the Bonferroni level of the
    sizes.
    """
    if len(speedups) < 3:
        return None
    sizes = list(speedups[0])
    quantile = float(stdtrit(len(speedups) - 1, 1 - (1 - CONFIDENCE) / 2 / len(sizes)))
    certain_misses: list[LackOfFit] = []
    for n in sizes:
        law_at_n = 1 / (fractions + (1 - fractions) / n) if law == "amdahl" else n - fractions * (n - 1)
        logs = np.array([math.log(of_repeat[n]) for of_repeat in speedups])
        misses = logs - np.log(np.maximum(law_at_n, np.finfo(float).tiny))  # Gustafson's may be negative
        error = float(misses.std(ddof=1)) / math.sqrt(len(misses))
        miss = float(misses.mean())
        if abs(miss) > max(quantile * error, LEAST_MISS):
            certain_misses.append(LackOfFit(devices=n, log_miss=miss, percent=100 * math.expm1(miss)))
    return max(certain_misses, key=lambda lack: abs(lack.log_miss), default=None)


def _amdahl_fraction(speedups: dict[int, float]) -> float:
    """Return the serial fraction f by Amdahl: 1/S - 1/N = f (1 - 1/N). `speedups`: devices N -> S."""
    return _slope(speedups, lambda n: 1 - 1 / n, lambda n, s: 1 / s - 1 / n)


def _gustafson_fraction(speedups: dict[int, float]) -> float:
    """Return the serial fraction f by Gustafson: N - S = f (N - 1). `speedups`: as of `_amdahl_fraction`."""
    return _slope(speedups, lambda n: n - 1, lambda n, s: n - s)


def _slope(speedups: dict[int, float], x: Callable, y: Callable) -> float:
    """Return the slope of the line through the origin, by least squares, of y(N, S) over x(N)."""
    return sum(x(n) * y(n, s) for n, s in speedups.items()) / sum(x(n) ** 2 for n in speedups)
