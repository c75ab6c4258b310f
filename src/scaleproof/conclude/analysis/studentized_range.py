"""Quantiles of the studentized range, which say how far apart the largest and smallest of k equal means may be.

In a fiftieth of the time of scipy.stats, whose import alone takes a second.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammainccinv, gammaincinv, ndtr, stdtrit

# Nodes and weights on [-1, 1]: of the estimated standard deviation, and of the smallest of the means.
SD_NODES, SD_WEIGHTS = np.polynomial.legendre.leggauss(96)
MEAN_NODES, MEAN_WEIGHTS = np.polynomial.legendre.leggauss(192)
TAIL = 1e-15  # probability that is left out at either end
FARTHEST = 8.5  # standard deviations of a mean; what lies beyond has a probability below TAIL


@lru_cache(maxsize=4096)
def studentized_range(confidence: float, k: int, freedom: int) -> float:
    """Quantile of the range of k >= 2 means over an estimate of their standard deviation with `freedom` degrees.

    By Newton's method, where P(Q <= q) = E[H(q S)], S^2 a chi-square of v degrees over v, and H the distribution of the
    range of k standard normal values, H(w) = k * integral of phi(z) (Phi(z + w) - Phi(z))^(k-1) dz (Tukey 1953; Hsu
    1996, appendix B). To seven digits for the degrees of freedom that two or more runs of each of k >= 3 cells leave.
    """
    student = float(stdtrit(freedom, 1 - (1 - confidence) / (k * (k - 1))))
    q = math.sqrt(2) * student  # for two means the quantile itself, for more (Bonferroni) a little above it
    estimates = _estimates(freedom)
    low, high = 0.0, q
    while k > 2 and high - low > 1e-12 * high:
        probability, density = _distribution(q, k, *estimates)
        low, high = (low, q) if probability > confidence else (q, high)
        step = (probability - confidence) / density if density > 0 else math.inf
        if abs(step) <= 1e-12 * q:
            break
        q = q - step if low < q - step < high else (low + high) / 2
    return q


def _distribution(q: float, k: int, sd: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """P(Q <= q), and its derivative. `sd`, `weight`: of `_estimates`."""
    z = FARTHEST * MEAN_NODES
    z_weight = FARTHEST * MEAN_WEIGHTS * _normal(z)
    upper = z + q * sd[:, None]
    between = ndtr(upper) - ndtr(z)
    others = between ** (k - 2)
    probability = k * (others * between) @ z_weight
    density = k * (k - 1) * (others * _normal(upper)) @ z_weight
    return float(weight @ probability), float(weight @ (sd * density))


def _estimates(freedom: int) -> tuple[np.ndarray, np.ndarray]:
    """Estimates of a standard deviation of 1, evenly on a logarithmic scale, and their probabilities."""
    low, high = (
        0.5 * math.log(2 * float(inverse(freedom / 2, TAIL)) / freedom) for inverse in (gammaincinv, gammainccinv)
    )
    log_sd = low + (high - low) / 2 * (SD_NODES + 1)
    sd = np.exp(log_sd)
    weight = SD_WEIGHTS * np.exp(freedom * (log_sd - (sd**2 - 1) / 2))  # the chi density but for a factor
    return sd, weight / weight.sum()


def _normal(z: np.ndarray) -> np.ndarray:
    """Density of the standard normal distribution."""
    return np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
