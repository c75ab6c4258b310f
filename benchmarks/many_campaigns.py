"""The intervals of thousands of simulated campaigns at once: the rules of the report over arrays.

A page takes 4 to 54 ms, which is hours for all noises, cells and repeats. These functions have the same rules in a
thousandth of that; `coverage.py` holds them against printed pages. Shapes: campaigns x cells x repeats; the first cell
is the one device.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, fdtrc, stdtrit
from simulated_campaigns import Draw, Random

from scaleproof.conclude.analysis.studentized_range import studentized_range_quantile
from scaleproof.ground import confidence
from scaleproof.ground.confidence import CONFIDENCE


def drawn(random: Random, draw: Draw, k: int, n: int, trials: int) -> np.ndarray:
    """Logarithms of the rates of `trials` campaigns of k cells and one device."""
    return np.array([draw(random, k + 1, n) for _ in range(trials)])


def values(logs: np.ndarray) -> np.ndarray:
    """Logarithms of the printed rates, all work over all time: campaigns x cells."""
    return -np.log(np.exp(-logs).mean(axis=2))


@dataclass(frozen=True)
class Families:
    """Each campaign's cells with each other: campaigns x cells x cells, logarithms."""

    log_ratio: np.ndarray
    half: np.ndarray

    @property
    def misses(self) -> np.ndarray:
        """Which intervals leave out a ratio of 1."""
        return np.abs(self.log_ratio) > self.half + 1e-12


def families(logs: np.ndarray) -> Families:
    """The simultaneous intervals of `compare_all`, for repeats that match."""
    k, n = logs.shape[1:]
    squares = (_residual(logs) ** 2).sum(axis=2)
    freedom = (k - 1) * (n - 1)
    pooled = np.sqrt(2 * squares.sum(axis=1) / freedom / n)
    tukey = studentized_range_quantile(CONFIDENCE, k, freedom) / math.sqrt(2) * pooled
    alone, at_all_pairs = (float(stdtrit(n - 1, 1 - (1 - CONFIDENCE) / 2 / claims)) for claims in (1, k * (k - 1) // 2))
    quantile = np.where(_unequal(squares, n, confidence.UNEQUAL_NOISE), at_all_pairs, alone)
    half = np.maximum(tukey[:, None, None], quantile[:, None, None] * _of_pairs(logs))
    centre = values(logs)
    return Families(centre[:, :, None] - centre[:, None, :], half)


def speed_up_halves(logs: np.ndarray) -> np.ndarray:
    """Half-widths of the single interval of the second cell over the first, as of `paired_ratio`."""
    k, n = logs.shape[1:]
    squares = (_residual(logs) ** 2).sum(axis=2)
    own = (logs[:, 1] - logs[:, 0]).var(axis=1, ddof=1) / 2
    freedom = (k - 1) * (n - 1)
    rest_freedom = freedom - (n - 1)
    rest = (squares.sum(axis=1) - own * (n - 1)) / rest_freedom
    alone = _unequal(squares, n, confidence.UNEQUAL_NOISE) | _noisier(own, n - 1, rest, rest_freedom)
    variance = np.where(alone, own, squares.sum(axis=1) / freedom)
    return _student(np.where(alone, n - 1, freedom)) * np.sqrt(2 * variance / n)


def rate_halves(logs: np.ndarray) -> np.ndarray:
    """Half-widths of the interval of the second cell's rate, as of `pooled_rate`."""
    k, n = logs.shape[1:]
    by_round = k * logs.mean(axis=1).var(axis=1, ddof=1)
    by_run = (_residual(logs) ** 2).sum(axis=(1, 2)) / ((k - 1) * (n - 1))
    total = by_round + (k - 1) * by_run
    own = logs[:, 1].var(axis=1, ddof=1)
    alone = _noisier(own, n - 1, (total - own) / (k - 1), (k - 1) * (n - 1))
    freedom = (n - 1) * total**2 / (by_round**2 + (k - 1) * by_run**2)
    return _student(np.where(alone, n - 1, freedom)) * np.sqrt(np.where(alone, own, total / k) / n)


def _residual(logs: np.ndarray) -> np.ndarray:
    """What is left after the means of the cells and of the rounds."""
    residual: np.ndarray = (
        logs - logs.mean(axis=2, keepdims=True) - logs.mean(axis=1, keepdims=True) + logs.mean((1, 2), keepdims=True)
    )
    return residual


def _of_pairs(logs: np.ndarray) -> np.ndarray:
    """Standard error of each log ratio by the runs of the pair alone."""
    n = logs.shape[2]
    centred = logs - logs.mean(axis=2, keepdims=True)
    shared = centred @ centred.transpose(0, 2, 1)
    own = np.einsum("tii->ti", shared)
    squares = np.maximum(own[:, :, None] + own[:, None, :] - 2 * shared, 0.0)
    of_pairs: np.ndarray = np.sqrt(squares / (n - 1) / n)
    return of_pairs


def _unequal(squares: np.ndarray, n: int, level: float) -> np.ndarray:
    """Where Bartlett's test finds unequal noise; nowhere for two cells. `squares`: campaigns x cells."""
    k = squares.shape[1]
    if k < 3:
        return np.zeros(len(squares), dtype=bool)
    log_variance = np.log(squares / (n - 1))
    pooled = np.log(squares.sum(axis=1) / k / (n - 1))
    statistic = (n - 1) * (k * pooled - log_variance.sum(axis=1))
    correction = 1 + (k / (n - 1) - 1 / k / (n - 1)) / (3 * (k - 1))
    unequal: np.ndarray = chdtrc(k - 1, statistic / correction) < level
    return unequal


def _noisier(own: np.ndarray, own_freedom: int, rest: np.ndarray, rest_freedom: int) -> np.ndarray:
    """Where a cell or pair is noisier than the rest."""
    noisier: np.ndarray = fdtrc(own_freedom, rest_freedom, own / rest) < confidence.OWN_NOISE
    return noisier


def _student(freedom: np.ndarray) -> np.ndarray:
    quantile: np.ndarray = stdtrit(freedom, (1 + CONFIDENCE) / 2)
    return quantile
