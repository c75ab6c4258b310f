"""Compute of one device against its micro-batch and accumulation, from runs on one device."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import nnls

from scaleproof.conclude.forecast.collective import Unsupported

BEYOND = 2  # micro-batches up to so many times the largest measured one


@dataclass(frozen=True)
class Sample:
    """Mean seconds of a step of one device. `variance`: of the logarithm of that mean; None with one repeat."""

    micro_batch: int
    accumulation: int
    seconds: float
    variance: float | None = None

    @property
    def row(self) -> tuple[float, float, float]:
        return (self.accumulation, self.accumulation * self.micro_batch, 1.0)


@dataclass(frozen=True)
class Compute:
    """t(B, a) = a (c0 + k B) + u: launches and whatever does not grow, time per sample, and the update.

    The three are fitted with relative weights and bounds at 0. What the fit misses at a measured point is added between
    the points, so a measured point is met exactly and a floor for small batches is followed.
    """

    samples: tuple[Sample, ...]

    @cached_property
    def _rows(self) -> np.ndarray:
        return np.array([s.row for s in self.samples])

    @cached_property
    def _parameters(self) -> np.ndarray:
        weights = np.array([1 / s.seconds for s in self.samples])
        return nnls(self._rows * weights[:, None], np.ones(len(self.samples)))[0]

    def step(self, micro_batch: int, accumulation: int) -> float:
        """Seconds of a step. Raises Unsupported where the samples do not determine it."""
        self.check(micro_batch, accumulation)
        target = np.array(Sample(micro_batch, accumulation, 1.0).row)
        return float(target @ self._parameters) * math.exp(self._missed(micro_batch, accumulation))

    def parts(self, micro_batch: int, accumulation: int) -> tuple[float, float]:
        """Seconds of one micro-batch, and of the update with everything that comes once a step."""
        total = self.step(micro_batch, accumulation)
        update = min(float(self._parameters[2]), total / 2)
        return (total - update) / accumulation, update

    def check(self, micro_batch: int, accumulation: int) -> None:
        sizes = [s.micro_batch for s in self.samples]
        needed = f"run one device with micro_batch {micro_batch}, accumulation {accumulation}"
        if not sizes:
            raise Unsupported("no-single-device", "nothing was measured on one device", needed)
        if not min(sizes) <= micro_batch <= BEYOND * max(sizes):
            raise Unsupported(
                "micro-batch-outside",
                f"micro-batch {micro_batch} is outside of {min(sizes)} to {BEYOND * max(sizes)}, "
                f"{BEYOND} times the largest measured one",
                needed,
            )
        target = np.array(Sample(micro_batch, accumulation, 1.0).row)
        coordinates = np.linalg.lstsq(self._rows.T, target, rcond=None)[0]
        if not np.allclose(self._rows.T @ coordinates, target, rtol=1e-6):
            raise Unsupported(
                "compute-undetermined",
                f"micro-batch {micro_batch} x accumulation {accumulation} cannot be had from "
                + ", ".join(f"{s.micro_batch} x {s.accumulation}" for s in self.samples),
                needed,
            )

    def variance(self, micro_batch: int, accumulation: int) -> float:
        """Of the logarithm of `step`, by the repeats alone: of the sample that is nearest in size."""
        near = min(self.samples, key=lambda s: abs(math.log(s.row[1] / (micro_batch * accumulation))))
        return near.variance or 0.0

    def _missed(self, micro_batch: int, accumulation: int) -> float:
        """log(measured / fit), between the measured micro-batches linear in log B; of the nearest outside."""
        by_size: dict[int, list[float]] = {}
        exact = [s for s in self.samples if (s.micro_batch, s.accumulation) == (micro_batch, accumulation)]
        for sample in exact or self.samples:
            fit = float(np.array(sample.row) @ self._parameters)
            by_size.setdefault(sample.micro_batch, []).append(math.log(sample.seconds / fit))
        sizes = sorted(by_size)
        means = [float(np.mean(by_size[size])) for size in sizes]
        return float(np.interp(math.log(micro_batch), np.log(sizes), means))


def slowest_of(spread: float, size: int) -> float:
    """Seconds by which the slowest of `size` ranks is later than their mean: sigma sqrt(2 ln N), for normal spreads."""
    return spread * math.sqrt(2 * math.log(size)) if size > 1 else 0.0


def rank_spread(times: Sequence[Sequence[float]]) -> float:
    """Standard deviation of ranks within a step, in seconds. `times`: a row a step, a column a rank."""
    table = np.asarray(times, dtype=float)
    if table.ndim != 2 or table.shape[1] < 2:
        return 0.0
    own = table - table.mean(axis=1, keepdims=True)
    return float(math.sqrt((own**2).sum() / (table.shape[0] * (table.shape[1] - 1))))
