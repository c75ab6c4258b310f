"""What a plan promised, kept beside the campaign, and what its runs took in the end."""

import json
from pathlib import Path

from pydantic import Field

from scaleproof.conclude.forecast.ledger import Record
from scaleproof.conclude.forecast.plan import Plan
from scaleproof.ground.files import read_record, write_json
from scaleproof.ground.records.run import MeasuredRun

PLANS = "plans"  # folder in a campaign's results


class PlannedCell(Record):
    """`runs` were still to be made; `run_seconds` of each."""

    runs: int
    run_seconds: float
    devices: int


class PlanRecord(Record):
    """plans/<time>.json: what was expected at `made_utc` of the runs that were left."""

    schema_version: str = "1.0"
    campaign: str
    made_utc: str
    cells: dict[str, PlannedCell] = Field(description="Cells with a duration and runs that were left.")


class Spent(Record):
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


def record_plan(folder: Path, campaign: str, plan: Plan, made_utc: str) -> Path | None:
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


def compare_with_spent(folder: Path, runs: dict[str, list[MeasuredRun]]) -> Spent | None:
    """Return what the oldest plan that was followed by runs promised, and what these took; None without such a plan.

    `folder`: of the plans; `runs`: of each cell. Raises UserError on a damaged plan.
    """
    for path in sorted(folder.glob("*.json")):  # their names are their times
        record = read_record(path, lambda data: PlanRecord.model_validate(json.loads(data)))
        followed = {}  # cell -> the runs that began after the plan, as many as were planned
        for cell, planned in record.cells.items():
            later = [run for run in runs.get(cell, ()) if run.metrics.timestamp_utc > record.made_utc]
            followed[cell] = sorted(later, key=lambda run: run.metrics.timestamp_utc)[: planned.runs]
        if any(followed.values()):
            return _planned_and_spent(record, followed)
    return None


def _planned_and_spent(record: PlanRecord, followed: dict[str, list[MeasuredRun]]) -> Spent:
    """Return the plan's seconds and device hours beside what the runs that `followed` it took."""
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
