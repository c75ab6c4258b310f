"""What a campaign will take: hours, cost, repeats, what may be left out, and what to measure next."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import ndtri

from scaleproof.conclude.forecast.interval import Interval


@dataclass(frozen=True)
class Duration:
    """Seconds of one run outside of its steps, and of a step.

    Launch, set-up and first step are the longest that were seen.
    """

    launch: float
    setup: float
    first_step: float
    step: Interval
    steps: int
    warmup_steps: int
    validation: float = 0.0

    @property
    def outside(self) -> float:
        return self.launch + self.setup + self.first_step + self.validation

    def seconds(self, step: float) -> float:
        """Wall time of a run whose steps take `step` seconds each."""
        return self.outside + (max(self.warmup_steps - 1, 0) + self.steps) * step

    @property
    def run(self) -> tuple[float, float, float]:
        """Value, low and high of a run's wall time."""
        return self.seconds(self.step.value), self.seconds(self.step.low), self.seconds(self.step.high)


@dataclass(frozen=True)
class Price:
    """Of a device hour, as the user gave it. No price list is built in: they age in weeks."""

    amount: float
    currency: str
    date: str  # ISO 8601


@dataclass(frozen=True)
class Power:
    """Watts of one device, and where the figure is from."""

    watts: float
    basis: str


@dataclass(frozen=True)
class CellPlan:
    """What one cell takes over all repeats."""

    cell: str
    devices: int
    repeats: int
    run_seconds: float
    run_low: float
    run_high: float

    @property
    def hours(self) -> float:
        """Of wall time, runs one after the other."""
        return self.repeats * self.run_seconds / 3600

    @property
    def device_hours(self) -> float:
        return self.devices * self.hours

    def cost(self, price: Price) -> float:
        return self.device_hours * price.amount

    def kwh(self, power: Power) -> float:
        """Of all devices, as if they drew the power of the window all the time: start-up draws less."""
        return self.device_hours * power.watts / 1000


def cell_plan(cell: str, devices: int, repeats: int, duration: Duration) -> CellPlan:
    return CellPlan(cell, devices, repeats, *duration.run)


@dataclass(frozen=True)
class Candidate:
    """A forecast that takes part in a decision: tokens/s with its interval, and the device hours of measuring it."""

    cell: str
    rate: Interval
    device_hours: float
    shared_variance: float = 0.0  # of log rate, in common with the other candidates: the same calibration

    @property
    def variance(self) -> float:
        """Of the logarithm of the rate, as if its interval were a normal one."""
        return (self.rate.half_width / float(ndtri((1 + self.rate.level) / 2))) ** 2


def certainly_faster(a: Candidate, b: Candidate, level: float = 0.95) -> bool:
    """Whether the interval of log(rate a / rate b) is above 0: what both share cancels."""
    shared = min(a.shared_variance, b.shared_variance, a.variance, b.variance)
    variance = max(a.variance + b.variance - 2 * shared, 0.0)
    return math.log(a.rate.value / b.rate.value) > float(ndtri((1 + level) / 2)) * math.sqrt(variance)


def dispensable(candidates: Sequence[Candidate]) -> list[str]:
    """Cells that some other one is certainly faster than: a forecast decides already. A wide forecast decides nothing.

    The level is divided by the number of candidates (Bonferroni): one of many comparisons is wrong sooner.
    """
    usable = [c for c in candidates if not c.rate.wide]
    level = 1 - 0.05 / max(len(usable) - 1, 1)
    return [c.cell for c in usable if any(certainly_faster(other, c, level) for other in usable if other is not c)]


def next_measurement(candidates: Sequence[Candidate]) -> tuple[str, float] | None:
    """The cell whose measurement narrows the answer most per device hour, and by how much: (cell, variance per hour).

    The answer is which of the cells is fastest: of those that may be, the variance of the differences that vanishes
    when the cell's own part is known. None where one is certain already.
    """
    out = set(dispensable(candidates))
    contenders = [c for c in candidates if c.cell not in out]
    if len(contenders) < 2:
        return None
    others = len(contenders) - 1
    gains = [(max(c.variance - c.shared_variance, 0.0) * others / max(c.device_hours, 1e-9), c) for c in contenders]
    gain, best = max(gains, key=lambda pair: pair[0])
    return best.cell, gain


def within_budget(plans: Sequence[CellPlan], budget: float) -> tuple[list[str], list[str]]:
    """Cells in the given order until `budget` device hours are spent, and those that are left."""
    taken: list[str] = []
    left: list[str] = []
    spent = 0.0
    for plan in plans:
        if spent + plan.device_hours <= budget:
            spent += plan.device_hours
            taken.append(plan.cell)
        else:
            left.append(plan.cell)
    return taken, left
