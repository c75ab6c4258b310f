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
    """A cell of a plan. `runs`: still to be made. `run_seconds`: of each run."""

    runs: int
    run_seconds: float
    devices: int


class PlanRecord(Record):
    """plans/<time>.json: what was expected at `made_utc` of the remaining runs."""

    schema_version: str = "1.0"
    campaign: str
    made_utc: str
    cells: dict[str, PlannedCell] = Field(description="Cells with a duration and runs that were left.")


class Spent(Record):
    """Runs that were made after a plan: seconds and device hours, planned and spent."""

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
    """Write the plan of the remaining runs; None where no run remains or nothing is known about them."""
    cells = {}  # those with a duration and runs that are left
    for row in plan.rows:
        remaining_runs = row.plan.repeats - row.repeats_done if row.plan else 0
        if row.plan and remaining_runs > 0:
            cells[row.cell] = PlannedCell(runs=remaining_runs, run_seconds=row.plan.run_seconds, devices=row.devices)
    if not cells:
        return None
    path = folder / f"{made_utc.replace(':', '').replace('-', '')}.json"
    record = PlanRecord(campaign=campaign, made_utc=made_utc, cells=cells)
    write_json(path, record.model_dump(mode="json"))
    return path


def compare_with_spent(folder: Path, runs: dict[str, list[MeasuredRun]]) -> Spent | None:
    """Return what the oldest plan with later runs promised, and what these runs took; None without such a plan.

    `folder`: the folder of the plans. `runs`: cell -> its runs. Raises UserError on a damaged plan.
    """
    for path in sorted(folder.glob("*.json")):  # their names are their times
        record = read_record(path, lambda data: PlanRecord.model_validate(json.loads(data)))
        later_runs = {}  # cell -> the runs that began after the plan, as many as were planned
        for cell, planned in record.cells.items():
            later = [run for run in runs.get(cell, ()) if run.metrics.timestamp_utc > record.made_utc]
            later_runs[cell] = sorted(later, key=lambda run: run.metrics.timestamp_utc)[: planned.runs]
        if any(later_runs.values()):  # else nothing has tested this plan
            return _planned_and_spent(record, later_runs)
    return None


def _planned_and_spent(record: PlanRecord, later_runs: dict[str, list[MeasuredRun]]) -> Spent:
    """Return the seconds and device hours of a plan beside what the runs after it took. `later_runs`: by cell."""
    planned_s = {cell: record.cells[cell].run_seconds * len(runs) for cell, runs in later_runs.items()}
    spent_s = {cell: sum(run.metrics.total_wall_time_s for run in runs) for cell, runs in later_runs.items()}
    devices = {cell: record.cells[cell].devices for cell in later_runs}
    return Spent(
        made_utc=record.made_utc,
        runs=sum(len(runs) for runs in later_runs.values()),
        planned_s=sum(planned_s.values()),
        spent_s=sum(spent_s.values()),
        planned_device_hours=sum(planned_s[cell] * devices[cell] for cell in later_runs) / 3600,
        spent_device_hours=sum(spent_s[cell] * devices[cell] for cell in later_runs) / 3600,
    )
