"""Quantiles that say how far equal means lie apart by chance: Tukey's, of the largest and the smallest, and Dunnett's,
of the largest and a given one.

In a fiftieth of the time of scipy.stats, whose import alone takes a second.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import gammainccinv, gammaincinv, ndtr, stdtrit

# Nodes and weights on [-1, 1]: of the estimated standard deviation, and of the smallest of the means.
SD_NODES, SD_WEIGHTS = np.polynomial.legendre.leggauss(96)
MEAN_NODES, MEAN_WEIGHTS = np.polynomial.legendre.leggauss(192)
TAIL = 1e-15  # the probability that is left out at either end
FARTHEST = 8.5  # standard deviations of a mean: means beyond have a probability below TAIL
Z = FARTHEST * MEAN_NODES  # values of one standard normal mean, and their weights in an integral over its density
Z_WEIGHTS = FARTHEST * MEAN_WEIGHTS * np.exp(-(Z**2) / 2) / math.sqrt(2 * math.pi)


@lru_cache(maxsize=4096)
def studentized_range_quantile(confidence: float, k: int, freedom: int) -> float:
    """Return the value that the range of k equal means exceeds with probability 1 - `confidence`; k >= 2.

    The range goes from the smallest to the largest mean. It is in standard deviations of one mean, as estimated with
    `freedom` degrees of freedom.

    P(Q <= q) = E[H(q S)], S^2 a chi-square of v degrees over v, and H the distribution of the range of k standard
    normal values, H(w) = k * integral of phi(z) (Phi(z + w) - Phi(z))^(k-1) dz (Tukey 1953; Hsu 1996, appendix B). To
    seven digits where each of k >= 3 cells has two or more runs.
    """
    # Bonferroni's bound is the quantile of two means, and a little above the quantile of more.
    bound = math.sqrt(2) * float(stdtrit(freedom, 1 - (1 - confidence) / (k * (k - 1))))
    if k == 2:
        return bound
    return _quantile(lambda q: k * (ndtr(Z + q) - ndtr(Z)) ** (k - 1), confidence, freedom, bound)


@lru_cache(maxsize=4096)
def dunnett_quantile(confidence: float, k: int, freedom: int) -> float:
    """Return the d by which the largest of k - 1 means exceeds another, equal mean with probability 1 - `confidence`.

    It is in standard deviations of a difference of two means, as estimated with `freedom` degrees of freedom.

    One-sided, for equal numbers of runs: P(D <= d) = E[integral of phi(z) Phi(z + sqrt(2) d S)^(k-1) dz] (Dunnett
    1955; Hsu 1996, chapter 4), with the symbols of `studentized_range_quantile`. For k = 2 it is Student's.
    """
    if k == 2:
        return float(stdtrit(freedom, confidence))
    bound = float(stdtrit(freedom, 1 - (1 - confidence) / (k - 1)))  # Bonferroni's, a little above the quantile
    return _quantile(lambda d: ndtr(Z + math.sqrt(2) * d) ** (k - 1), confidence, freedom, bound)


def _quantile(
    given_means: Callable[[np.ndarray], np.ndarray], confidence: float, freedom: float, bound: float
) -> float:
    """Return the value that a statistic exceeds with probability 1 - `confidence`; it is between 0 and `bound`.

    `given_means`: what is integrated over Z, at values in true standard deviations.
    """
    sd, sd_weights = _sd_estimates(freedom)

    def probability(value: float) -> float:  # both integrals as sums over the nodes
        return float(sd_weights @ (given_means(value * sd[:, None]) @ Z_WEIGHTS))

    return solve_for_quantile(probability, confidence, bound)


def solve_for_quantile(probability: Callable[[float], float], confidence: float, bound: float) -> float:
    """Return the argument, between 0 and `bound`, at which a rising `probability` is `confidence`, to a part in 10^9.

    By bisection: scipy.optimize, which has better ways, takes most of a second to import.
    """
    low, high = 0.0, bound
    while high - low > 1e-9 * bound:
        middle = (low + high) / 2
        if probability(middle) < confidence:
            low = middle
        else:
            high = middle
    return high


def _sd_estimates(freedom: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the estimates of a standard deviation of 1, spread on a logarithmic scale, and their probabilities."""
    # The smallest and the largest estimate come from quantiles of chi-square, at TAIL from either end.
    smallest_log = 0.5 * math.log(2 * float(gammaincinv(freedom / 2, TAIL)) / freedom)
    largest_log = 0.5 * math.log(2 * float(gammainccinv(freedom / 2, TAIL)) / freedom)
    log_sd = smallest_log + (largest_log - smallest_log) * (SD_NODES + 1) / 2
    sd = np.exp(log_sd)
    weights = SD_WEIGHTS * np.exp(freedom * (log_sd - (sd**2 - 1) / 2))  # density of log chi, but for a factor
    return sd, weights / weights.sum()
