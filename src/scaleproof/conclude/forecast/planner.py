"""What a campaign will take, in hours and cost, what may be left out, what to measure next; what it took in the end."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field
from scipy.special import ndtri

from scaleproof.conclude.forecast.interval import Interval
from scaleproof.ground.files import read_record, write_json
from scaleproof.ground.records.run import MeasuredRun

if TYPE_CHECKING:
    from scaleproof.conclude.forecast.plan import Plan


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

    @property
    def device_hours(self) -> float:
        """Of all repeats."""
        return self.devices * self.repeats * self.run_seconds / 3600

    def cost(self, price: Price) -> float:
        """Of all repeats, in the currency of `price`."""
        return self.device_hours * price.amount

    def kwh(self, power: Power) -> float:
        """Of all repeats and devices, as if these drew the power of timed steps all the time: start-up draws less."""
        return self.device_hours * power.watts / 1000


@dataclass(frozen=True)
class Candidate:
    """A forecast that takes part in a decision: tokens/s with its interval, and the device hours of measuring it."""

    cell: str
    rate: Interval
    device_hours: float

    @property
    def variance(self) -> float:
        """Of the logarithm of the rate, as if its interval were a normal one."""
        return (self.rate.half_width / float(ndtri((1 + self.rate.level) / 2))) ** 2


def certainly_faster(a: Candidate, b: Candidate, level: float = 0.95) -> bool:
    """Whether the interval of log(rate a / rate b) is above 0."""
    error = math.sqrt(a.variance + b.variance)
    return math.log(a.rate.value / b.rate.value) > float(ndtri((1 + level) / 2)) * error


def dispensable(candidates: Sequence[Candidate]) -> list[str]:
    """Cells that are certainly slower than some other one: their forecast decides that already, unless it is wide."""
    usable = [candidate for candidate in candidates if not candidate.rate.wide]
    level = 1 - 0.05 / max(len(usable) - 1, 1)  # Bonferroni: each is compared with all others
    return [
        candidate.cell
        for candidate in usable
        if any(certainly_faster(other, candidate, level) for other in usable if other is not candidate)
    ]


def next_measurement(candidates: Sequence[Candidate]) -> str | None:
    """The cell whose measurement narrows the answer, which cell is fastest, most per device hour.

    Of the cells that may be fastest it is the one with the largest variance, which measuring takes away, for its price.
    None where the fastest is certain already.
    """
    beaten = set(dispensable(candidates))
    contenders = [candidate for candidate in candidates if candidate.cell not in beaten]
    if len(contenders) < 2:
        return None
    return max(contenders, key=lambda candidate: candidate.variance / max(candidate.device_hours, 1e-9)).cell


def beyond_budget(plans: Sequence[CellPlan], budget: float) -> list[str]:
    """Cells for which, in the given order, nothing is left of `budget` device hours."""
    beyond: list[str] = []
    spent = 0.0
    for plan in plans:
        if spent + plan.device_hours <= budget:
            spent += plan.device_hours
        else:
            beyond.append(plan.cell)
    return beyond


PLANS = "plans"  # folder in a campaign's results


class SpendingRecord(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PlannedCell(SpendingRecord):
    """`runs` are those that were still to be made; `run_seconds` of one of them."""

    runs: int
    run_seconds: float
    devices: int


class PlanRecord(SpendingRecord):
    """plans/<time>.json: what was expected at `made_utc` of the runs that were left."""

    schema_version: str = "1.0"
    campaign: str
    made_utc: str
    cells: dict[str, PlannedCell] = Field(description="Cells with a duration and runs that were left.")


class Spent(SpendingRecord):
    """Runs that were made after a plan: seconds and device hours as planned, and as they were."""

    made_utc: str
    runs: int
    planned_s: float
    spent_s: float
    planned_device_hours: float
    spent_device_hours: float

    @property
    def error(self) -> float:
        """planned / spent - 1, of the seconds."""
        return self.planned_s / self.spent_s - 1


def record_plan(folder: Path, campaign: str, plan: "Plan", made_utc: str) -> Path | None:
    """Write the plan of the runs that are left; None where none is left or nothing is known about them."""
    cells = {
        row.cell: PlannedCell(runs=left, run_seconds=row.plan.run_seconds, devices=row.devices)
        for row in plan.rows
        if row.plan and (left := row.plan.repeats - row.repeats_done) > 0
    }
    if not cells:
        return None
    path = folder / f"{made_utc.replace(':', '').replace('-', '')}.json"
    record = PlanRecord(campaign=campaign, made_utc=made_utc, cells=cells)
    write_json(path, record.model_dump(mode="json"))
    return path


def spent(folder: Path, runs: dict[str, list[MeasuredRun]]) -> Spent | None:
    """The oldest plan that runs followed, beside what these took; None where there is none.

    `folder`: of the plans; `runs`: of each cell. Raises UserError on a damaged plan.
    """
    for path in sorted(folder.glob("*.json")):  # their names are their times
        record = read_record(path, lambda data: PlanRecord.model_validate(json.loads(data)))
        followed = {  # as many runs as were planned
            cell: _after(runs.get(cell, ()), record.made_utc)[: planned.runs] for cell, planned in record.cells.items()
        }
        if any(followed.values()):
            return _against(record, followed)
    return None


def _after(runs: Sequence[MeasuredRun], when: str) -> list[MeasuredRun]:
    """The runs that began after a time (ISO 8601), in their order."""
    later = [run for run in runs if run.metrics.timestamp_utc > when]
    return sorted(later, key=lambda run: run.metrics.timestamp_utc)


def _against(record: PlanRecord, followed: dict[str, list[MeasuredRun]]) -> Spent:
    """The plan's seconds and device hours beside those of the runs that `followed` it."""
    planned = {cell: record.cells[cell].run_seconds * len(runs) for cell, runs in followed.items()}
    took = {cell: sum(run.metrics.total_wall_time_s for run in runs) for cell, runs in followed.items()}
    devices = {cell: record.cells[cell].devices for cell in followed}
    return Spent(
        made_utc=record.made_utc,
        runs=sum(len(runs) for runs in followed.values()),
        planned_s=sum(planned.values()),
        spent_s=sum(took.values()),
        planned_device_hours=sum(planned[cell] * devices[cell] for cell in followed) / 3600,
        spent_device_hours=sum(took[cell] * devices[cell] for cell in followed) / 3600,
    )
