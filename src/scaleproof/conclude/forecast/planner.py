"""What a campaign will take: hours, cost, repeats, what may be left out, and what to measure next."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import ndtri

from scaleproof.conclude.forecast.interval import Interval


@dataclass(frozen=True)
class Price:
    """The price of a device hour, as the user gave it. None is built in: prices age in weeks."""

    amount: float
    currency: str
    date: str  # ISO 8601


@dataclass(frozen=True)
class Power:
    """Watts of one device, and where the figure comes from."""

    watts: float
    basis: str


@dataclass(frozen=True)
class CellPlan:
    """What all repeats of one cell take."""

    cell: str
    devices: int
    repeats: int
    run_seconds: float

    @property
    def device_hours(self) -> float:
        return self.devices * self.repeats * self.run_seconds / 3600

    def cost(self, price: Price) -> float:
        """Return the cost of all repeats, in the currency of `price`."""
        return self.device_hours * price.amount

    def kwh(self, power: Power) -> float:
        """Return the kWh of all repeats, as if devices always drew the `power` of timed steps: start-up draws less."""
        return self.device_hours * power.watts / 1000


@dataclass(frozen=True)
class WholeNodes:
    """What runs hold that have nodes to themselves. `per_node`: devices, the most that a cell has on a node."""

    per_node: int
    device_hours: float


@dataclass(frozen=True)
class Candidate:
    """A forecast that takes part in a decision. `rate`: tokens/s. `device_hours`: of measuring the cell."""

    cell: str
    rate: Interval
    device_hours: float

    @property
    def variance(self) -> float:
        """The variance of the logarithm of the rate, as if its distribution were normal."""
        # Half-width = quantile x standard deviation.
        return (self.rate.half_width / float(ndtri((1 + self.rate.level) / 2))) ** 2


def certainly_faster(a: Candidate, b: Candidate, level: float = 0.95) -> bool:
    """Return whether the whole interval of the ratio of rates, a over b, is above 1."""
    error = math.sqrt(a.variance + b.variance)
    return math.log(a.rate.value / b.rate.value) > float(ndtri((1 + level) / 2)) * error


def certainly_slower_cells(candidates: Sequence[Candidate]) -> list[str]:
    """Return the cells that another cell certainly beats, so that measuring them decides nothing.

    Cells with a wide forecast take no part.
    """
    comparable = [candidate for candidate in candidates if not candidate.rate.wide]
    level = 1 - 0.05 / max(len(comparable) - 1, 1)  # Bonferroni: each is compared with all others
    return [
        candidate.cell
        for candidate in comparable
        if any(certainly_faster(other, candidate, level) for other in comparable if other is not candidate)
    ]


def next_measurement(candidates: Sequence[Candidate]) -> str | None:
    """Return the cell to measure next, in order to learn which is the fastest; None if that is certain.

    Measuring a cell takes its variance away. Among the cells that may be the fastest, it is the cell with the most
    variance per device hour.
    """
    slower_cells = set(certainly_slower_cells(candidates))
    contenders = [candidate for candidate in candidates if candidate.cell not in slower_cells]
    if len(contenders) < 2:
        return None
    return max(contenders, key=lambda candidate: candidate.variance / max(candidate.device_hours, 1e-9)).cell


def beyond_budget(plans: Sequence[CellPlan], budget: float) -> list[str]:
    """Return the cells that do not fit into `budget` device hours, in the given order; a later, cheaper one may fit."""
    cells_beyond: list[str] = []
    spent_hours = 0.0
    for plan in plans:
        if spent_hours + plan.device_hours <= budget:
            spent_hours += plan.device_hours
        else:
            cells_beyond.append(plan.cell)
    return cells_beyond
