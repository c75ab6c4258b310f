"""The plan of a campaign: what each cell takes, whether it fits, what may be left out and what to measure next."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from scaleproof.conclude.analysis.ranking import concluded_from
from scaleproof.conclude.analysis.scaling import scaling_report
from scaleproof.conclude.checks.memory import device_bytes
from scaleproof.conclude.forecast.campaign_forecast import Calibration, ForecastEvidence, calibrate, rate_interval
from scaleproof.conclude.forecast.interval import LEVEL, Interval
from scaleproof.conclude.forecast.law import Unsupported, group_of, measured_step, series_key, step_seconds
from scaleproof.conclude.forecast.memory import FAR, Peak, fit_memory, memory_inputs, memory_verdict, tracked_memory
from scaleproof.conclude.forecast.planner import (
    Candidate,
    CellPlan,
    Power,
    Price,
    beyond_budget,
    certainly_slower_cells,
    next_measurement,
)
from scaleproof.conclude.forecast.requirements import RunTimes
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.strategies import is_deepspeed
from scaleproof.ground.errors import UserError
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.ground.records.scaling_report import Resolution

PILOT_STEPS = 10
ONE_RUN_SPREAD = 0.10  # of a step's time, where a cell was run once and nothing says how runs differ


@dataclass(frozen=True)
class PlanRow:
    """One cell. Seconds, bytes and hours; None with a reason in `refusal`."""

    cell: str
    devices: int
    step: Interval | None
    tokens_per_s: Interval | None
    basis: str  # measured, forecast, estimated, or the code of the refusal
    refusal: str | None
    measure: str | None
    memory_bytes: float | None
    fits: str  # fits, undecided, does not fit, unknown
    plan: CellPlan | None
    repeats_done: int
    power: Power | None = None
    counted: bool = False  # memory by torch's trackers, not by measured runs
    no_memory: str = ""  # why the memory is not known


@dataclass(frozen=True)
class Plan:
    """All cells, and what follows from them; `remaining_s`: of the runs that are not there yet."""

    rows: tuple[PlanRow, ...]
    remaining_s: float
    device_hours: float
    cost: float | None
    price: Price | None
    leave_out: tuple[str, ...]
    measure_next: str | None
    resolve: Resolution | None  # what further repeats would show, as the report has it
    budget: float | None  # device hours
    beyond_budget: tuple[str, ...]
    kwh: float | None = None  # None where the power of a device is not known
    estimate: str | None = None  # what the time of the rows that are estimated rests on


def make_plan(
    evidence: ForecastEvidence,
    price: Price | None = None,
    budget: float | None = None,
    watts: float | None = None,
    count_memory: bool = False,
    times: RunTimes | None = None,
) -> Plan:
    """Return the plan of what to measure next, from what is measured now.

    `budget`: device hours. `watts`: of a device, if the user gives it. `count_memory`: count memory by torch's
    trackers, which takes seconds, where no run says it. `times`: estimates for runs that are neither measured nor
    forecast, as `campaign show` prints them; without it such runs have no time.
    """
    loaded = evidence.loaded
    known = [cell for cell in loaded.cells if cell.slug in evidence.runs]
    calibration = calibrate(evidence, known) if known else None
    rows = [_plan_row(cell, evidence, calibration, watts, times) for cell in loaded.cells]
    if count_memory:
        rows = _count_unknown_memory(evidence, rows)
    estimated = [loaded.cell(row.cell) for row in rows if row.basis == "estimated"]
    estimate = times.basis(estimated) if times and estimated else None
    return replace(_plan_of_rows(evidence, rows, price, budget), estimate=estimate)


def _plan_row(
    cell: Cell, evidence: ForecastEvidence, calibration: Calibration | None, watts: float | None, times: RunTimes | None
) -> PlanRow:
    """Return the row of a cell, with its memory as far as runs have measured it; other arguments as of `make_plan`."""
    runs, devices = evidence.runs.get(cell.slug, []), group_of(cell).size
    step, basis, reason, measure = _step_figures(cell, runs, calibration)
    seconds = _run_seconds(cell, runs, evidence, step) if step else None
    if seconds is None and times:
        seconds, basis = times.seconds(cell), "estimated"
    most_repeats = evidence.loaded.campaign.most_repeats
    memory_bytes, fits, no_memory = _memory_figures(cell, evidence)
    return PlanRow(
        cell=cell.slug,
        devices=devices,
        step=step,
        tokens_per_s=rate_interval(cell, step) if step else None,
        basis=basis,
        refusal=reason,
        measure=measure,
        memory_bytes=memory_bytes,
        fits=fits,
        plan=None if seconds is None else CellPlan(cell.slug, devices, most_repeats, seconds),
        repeats_done=len(runs),
        power=_device_power(cell, evidence, watts),
        no_memory=no_memory,
    )


def _count_unknown_memory(evidence: ForecastEvidence, rows: list[PlanRow]) -> list[PlanRow]:
    """Return the rows, with memory by torch's trackers where it was unknown and can be counted."""
    cells = {cell.slug: cell for cell in evidence.loaded.cells if not cell.is_open}  # open: without a micro-batch yet
    unknown = [row.cell for row in rows if row.memory_bytes is None and row.cell in cells]
    answers = dict(zip(unknown, tracked_memory([cells[slug] for slug in unknown]), strict=True)) if unknown else {}
    capacity = _smallest_gpu_bytes(evidence)
    counted = []
    for row in rows:
        nbytes = answers[row.cell].peak if row.cell in answers else None
        if nbytes is not None:
            fits = memory_verdict(nbytes, capacity) if capacity else "unknown"
            row = replace(row, memory_bytes=nbytes, fits=fits, counted=True)
        elif row.cell in answers:
            row = replace(row, no_memory=answers[row.cell].reason or row.no_memory)
        counted.append(row)
    return counted


def _plan_of_rows(evidence: ForecastEvidence, rows: list[PlanRow], price: Price | None, budget: float | None) -> Plan:
    """Return the plan with totals over its rows, what forecasts decide already, and what to measure next."""
    plans = [row.plan for row in rows if row.plan]
    remaining_s = sum(row.plan.run_seconds * max(row.plan.repeats - row.repeats_done, 0) for row in rows if row.plan)
    candidates = [
        Candidate(row.cell, row.tokens_per_s, row.plan.device_hours)
        for row in rows
        if row.tokens_per_s and row.plan and row.repeats_done == 0
    ]
    leave_out = _cells_to_leave_out(rows, candidates)
    undecided = [plan for plan in plans if plan.cell not in leave_out]
    kwhs = [row.plan.kwh(row.power) for row in rows if row.plan and row.power]
    return Plan(
        rows=tuple(rows),
        remaining_s=remaining_s,
        device_hours=sum(plan.device_hours for plan in plans),
        cost=sum(plan.cost(price) for plan in plans) if price else None,
        price=price,
        leave_out=leave_out,
        measure_next=next_measurement(candidates),
        resolve=_resolution(evidence),
        budget=budget,
        beyond_budget=tuple(beyond_budget(undecided, budget)) if budget else (),
        kwh=sum(kwhs) if kwhs and len(kwhs) == len(plans) else None,  # None where the power of a run is unknown
    )


def _cells_to_leave_out(rows: list[PlanRow], candidates: list[Candidate]) -> tuple[str, ...]:
    """Return the candidates, cells without runs, that are certainly slower than another one or a measured cell."""
    # One run says too little of a cell's spread. What is measured costs nothing more.
    settled = [Candidate(row.cell, row.tokens_per_s, 0.0) for row in rows if row.tokens_per_s and row.repeats_done > 1]
    unmeasured = {candidate.cell for candidate in candidates}
    return tuple(name for name in certainly_slower_cells([*candidates, *settled]) if name in unmeasured)


def _resolution(evidence: ForecastEvidence) -> Resolution | None:
    """Return what further repeats would show of the report's comparison, by its formula; None without a comparison."""
    loaded = evidence.loaded
    findings = evidence.findings or Findings(campaign=loaded.name, checks=[], findings=[])
    runs = [run for runs in evidence.runs.values() for run in runs]
    try:
        report = scaling_report(
            loaded.name,
            loaded.campaign.title,
            runs,
            findings,
            margin=loaded.campaign.margin,
            question=loaded.question,
            repeat_until=loaded.campaign.repeat_until,
        )
    except UserError:  # a damaged record, which the report names
        return None
    compared = concluded_from(report)
    return compared.resolve if compared else None


def plan_pilots(evidence: ForecastEvidence, times: RunTimes) -> list[CellPlan]:
    """Return the plan of a pilot, a run of PILOT_STEPS steps, for each unmeasured cell whose devices can be had.

    Devices whose links were swept can be had. A few steps on the very devices say more than any law. Held-out cells
    have no pilot, because they run anyway. `times`: estimates how long a run takes.
    """
    swept = {sweep.group for sweep in evidence.sweeps}
    held_out = evidence.loaded.campaign.forecast.hold_out
    planned = []
    for cell in evidence.loaded.cells:
        runs_anyway = cell.slug in evidence.runs or cell.execution.geometry in held_out
        can_run = group_of(cell) in swept and not cell.is_open  # open: without a micro-batch yet
        if can_run and not runs_anyway:
            short = replace(cell, work=cell.work.model_copy(update={"steps": PILOT_STEPS}))
            planned.append(CellPlan(cell.slug, group_of(cell).size, repeats=1, run_seconds=times.seconds(short)))
    return planned


def _device_power(cell: Cell, evidence: ForecastEvidence, given: float | None) -> Power | None:
    """Return the power of a device: as given in watts, else by counters of the cell's runs, else of others, if any."""
    if given is not None:
        return Power(given, "given")
    cell_watts = _counter_watts(evidence.runs.get(cell.slug, []))
    if cell_watts:
        return Power(float(np.mean(cell_watts)), "measured")
    other_watts = [watts for runs in evidence.runs.values() for watts in _counter_watts(runs)]
    return Power(float(np.mean(other_watts)), "measured in other cells") if other_watts else None


def _counter_watts(runs: Sequence[MeasuredRun]) -> list[float]:
    """Return the mean watts of a device in the window (the timed steps), of each run that has an energy counter."""
    return [
        run.metrics.energy.joules / run.metrics.window.wall_time_s / run.n_devices
        for run in runs
        if run.metrics.energy.joules is not None
    ]


def predicted_step(cell: Cell, runs: Sequence[MeasuredRun]) -> Interval:
    """Return the seconds of a step in a further run of `cell`: a prediction interval by Student's t over its `runs`.

    From one run it is 10 % (ONE_RUN_SPREAD) either way.
    """
    seconds, n = measured_step(cell, runs).seconds, len(runs)
    half = ONE_RUN_SPREAD
    if n > 1:  # of one further run from the mean of n
        spread = float(np.log([step_seconds(run) for run in runs]).std(ddof=1))
        half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * spread * float(np.sqrt(1 + 1 / n))
    return Interval(seconds, seconds * float(np.exp(-half)), seconds * float(np.exp(half)), LEVEL, "measured", n)


def _step_figures(
    cell: Cell, runs: Sequence[MeasuredRun], calibration: Calibration | None
) -> tuple[Interval | None, str, str | None, str | None]:
    """Return (seconds of a step, what they rest on, why there are none, which measurement helps).

    The last two are None where there are seconds; without seconds the second is the code of the refusal.
    """
    if runs:
        return predicted_step(cell, runs), "measured", None, None
    if calibration is None:
        return None, "nothing-measured", "nothing is measured", "run one repeat of the campaign, then plan again"
    entry = calibration.entry(cell)
    if entry.interval is None:
        return None, entry.refusal or "", entry.reason, entry.measure
    return entry.interval, "forecast", None, None


def _run_seconds(cell: Cell, runs: Sequence[MeasuredRun], evidence: ForecastEvidence, step: Interval) -> float | None:
    """Return the wall time of a run whose steps take `step`; None where no run says how long the rest of it takes.

    The rest: the mean over the cell's own `runs`; else the longest of runs with the same engine; else of any runs.
    """
    has_deepspeed = is_deepspeed(cell.execution.strategy)
    all_runs = [run for runs_of_cell in evidence.runs.values() for run in runs_of_cell]
    alike = [run for run in all_runs if is_deepspeed(run.metrics.training_config.strategy) == has_deepspeed]
    nearest_runs = list(runs) or alike or all_runs
    if not nearest_runs:
        return None
    rest_s = [  # start-up, validation, closing, and the first step of the warm-up, which is longer than others
        run.metrics.total_wall_time_s
        - run.metrics.window.wall_time_s
        - run.metrics.startup.warmup_s
        + run.metrics.startup.first_step_s
        for run in nearest_runs
    ]
    rest = float(np.mean(rest_s)) if runs else max(rest_s)
    further_steps = max(cell.work.warmup_steps - 1, 0) + cell.work.steps
    return max(rest, 0.0) + further_steps * step.value


def _memory_figures(cell: Cell, evidence: ForecastEvidence) -> tuple[float | None, str, str]:
    """Return the peak bytes of a device, whether they fit, and why they are unknown ("" if they are known).

    Whether they fit is "unknown" unless the memory of the GPUs is known.
    """
    if cell.is_open:
        return None, "unknown", "its micro-batch is still to be found by trials"
    peaks = []  # measured in the cell's series, at any size and micro-batch
    for relative in evidence.loaded.cells:
        for run in evidence.runs.get(relative.slug, []):
            reserved = run.metrics.memory.max_cuda_reserved_bytes
            if reserved is not None and series_key(relative) == series_key(cell):
                peaks.append(Peak(relative.batch.micro, group_of(relative).size, float(reserved)))
    if not peaks:
        return None, "unknown", "no run on a GPU has measured it; --count-memory counts it"
    try:
        model = fit_memory(memory_inputs(cell), peaks)
        used = model.predict(cell.batch.micro, group_of(cell).size)
    except Unsupported as error:
        return None, "unknown", error.reason
    capacity = _smallest_gpu_bytes(evidence)
    if not capacity:
        return used, "unknown", ""
    return used, memory_verdict(used, capacity, far=cell.batch.micro > FAR * model.largest), ""


def _smallest_gpu_bytes(evidence: ForecastEvidence) -> float | None:
    """Return the bytes of the smallest GPU that ran; None where none did, or none states its memory."""
    gpus = [gpu for runs in evidence.runs.values() for run in runs for gpu in run.metrics.hardware.get("gpus") or []]
    stated_bytes = [device_bytes(gpu.get("memory", "")) for gpu in gpus]
    return min((nbytes for nbytes in stated_bytes if nbytes), default=None)
