"""The plan of a campaign: what each cell takes, whether it fits, what may be left out and what to measure next."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from scaleproof.conclude.analysis.ranking import concluded_from
from scaleproof.conclude.analysis.scaling import scaling_report
from scaleproof.conclude.checks.memory import device_bytes
from scaleproof.conclude.forecast.campaign_forecast import Calibration, ForecastEvidence, calibrate
from scaleproof.conclude.forecast.interval import LEVEL, Interval
from scaleproof.conclude.forecast.law import Unsupported, group_of, measured_step, series_key, step_seconds
from scaleproof.conclude.forecast.memory import FAR, Peak, fit_memory, memory_inputs, memory_verdict, tracked_memory
from scaleproof.conclude.forecast.planner import (
    Candidate,
    CellPlan,
    Power,
    Price,
    WholeNodes,
    beyond_budget,
    certainly_slower_cells,
    next_measurement,
)
from scaleproof.conclude.forecast.requirements import RunTimes
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.campaign.strategies import is_deepspeed
from scaleproof.ground.errors import UserError
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.records.run import MeasuredRun
from scaleproof.ground.records.scaling_report import Resolution
from scaleproof.measure.machine.applicable import reason_anywhere

PILOT_STEPS = 10
ONE_RUN_SPREAD = 0.10  # of a step's time, where a cell was run once and nothing says how runs differ


@dataclass(frozen=True)
class PlanRow:
    """The plan of one cell, in seconds, bytes and hours. A figure is None where `refusal` has the reason."""

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
    counted: bool = False  # is the memory by torch's trackers, and not by measured runs?
    no_memory: str = ""  # why the memory is not known

    @property
    def is_counted(self) -> bool:
        """Whether the cell is in the totals: not without a duration, nor where it does not fit and was never run."""
        return self.plan is not None and (self.fits != "does not fit" or self.repeats_done > 0)


@dataclass(frozen=True)
class Plan:
    """All cells, and what follows from them. `remaining_s`: how long the runs take that are still to be made."""

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
    estimate: str | None = None  # what the time of estimated rows rests on
    whole_nodes: WholeNodes | None = None  # None where runs may share a node with others


def make_plan(
    evidence: ForecastEvidence,
    price: Price | None = None,
    budget: float | None = None,
    watts: float | None = None,
    count_memory: bool = False,
    times: RunTimes | None = None,
) -> Plan:
    """Return the plan of what to measure next, from what is measured now.

    `budget`: device hours. `watts`: power of a device, if the user gives it. `count_memory`: count memory by torch's
    trackers, which takes seconds, where no run says it. `times`: estimates for runs that are neither measured nor
    forecast, as `campaign show` prints them; without them such runs have no time.
    """
    loaded = evidence.loaded
    measured_cells = [cell for cell in loaded.cells if cell.slug in evidence.runs]
    calibration = calibrate(evidence, measured_cells) if measured_cells else None
    rows = [_plan_row(cell, evidence, calibration, watts, times) for cell in loaded.cells]
    if count_memory:
        rows = _count_unknown_memory(evidence, rows, _device_memory(evidence, times))
    estimated_cells = [loaded.cell(row.cell) for row in rows if row.basis == "estimated"]
    estimate = times.basis(estimated_cells) if times and estimated_cells else None
    return replace(_plan_of_rows(evidence, rows, price, budget), estimate=estimate)


def _plan_row(
    cell: Cell, evidence: ForecastEvidence, calibration: Calibration | None, watts: float | None, times: RunTimes | None
) -> PlanRow:
    """Return the row of a cell, with its memory as far as runs have measured it. Other arguments: as in `make_plan`."""
    runs = evidence.runs.get(cell.slug, [])
    devices = group_of(cell).size
    figures = _step_figures(cell, runs, calibration)
    basis = figures.basis
    seconds = _run_seconds(cell, runs, evidence, figures.step) if figures.step else None
    command_times_s = evidence.command_times_s.get(cell.slug, [])
    if command_times_s:  # runs of a command are timed as a whole
        seconds, basis = float(np.mean(command_times_s)), "measured"
    elif seconds is None and times and not reason_anywhere(cell):
        seconds, basis = times.seconds(cell), "estimated"
    most_repeats, limit_s = evidence.loaded.campaign.most_repeats, evidence.loaded.time_limit_s
    memory_bytes, fits, no_memory = _memory_figures(cell, evidence, _device_memory(evidence, times))
    return PlanRow(
        cell=cell.slug,
        devices=devices,
        step=figures.step,
        tokens_per_s=figures.step.inverse(cell.batch.global_ * cell.workload.seq_len) if figures.step else None,
        basis=basis,
        refusal=figures.refusal,
        measure=figures.measure,
        memory_bytes=memory_bytes,
        fits=fits,
        # Without a duration there is no plan of the cell.
        plan=None if seconds is None else CellPlan(cell.slug, devices, most_repeats, min(seconds, limit_s)),
        repeats_done=len(runs) or len(command_times_s),
        power=_device_power(cell, evidence, watts),
        no_memory=no_memory,
    )


def _count_unknown_memory(evidence: ForecastEvidence, rows: list[PlanRow], capacity: float | None) -> list[PlanRow]:
    """Return the rows, with memory by torch's trackers where it was unknown and can be counted.

    `capacity`: bytes of a device, None where that is not known.
    """
    cells = {cell.slug: cell for cell in evidence.loaded.cells if not cell.is_open}  # open: without a micro-batch yet
    unknown_cells = [row.cell for row in rows if row.memory_bytes is None and row.cell in cells]
    answers = {}  # cell -> its memory, or the reason why it cannot be counted
    if unknown_cells:
        answers = dict(zip(unknown_cells, tracked_memory([cells[slug] for slug in unknown_cells]), strict=True))
    counted_rows = []
    for row in rows:
        answer = answers.get(row.cell)
        if answer and answer.peak is not None:
            fits = memory_verdict(answer.peak, capacity) if capacity else "unknown"
            counted_rows.append(replace(row, memory_bytes=answer.peak, fits=fits, counted=True))
        elif answer:
            counted_rows.append(replace(row, no_memory=answer.reason or row.no_memory))
        else:
            counted_rows.append(row)
    return counted_rows


def _plan_of_rows(evidence: ForecastEvidence, rows: list[PlanRow], price: Price | None, budget: float | None) -> Plan:
    """Return the plan with totals over its rows, what forecasts decide already, and what to measure next."""
    plans: list[CellPlan] = []
    kwhs: list[float] = []
    candidates: list[Candidate] = []
    remaining_s: list[float] = []
    for row in rows:
        if not row.is_counted or row.plan is None:
            continue
        plans.append(row.plan)
        remaining_s.append(row.plan.run_seconds * max(row.plan.repeats - row.repeats_done, 0))
        if row.power:
            kwhs.append(row.plan.kwh(row.power))
        if row.tokens_per_s and row.repeats_done == 0:
            candidates.append(Candidate(row.cell, row.tokens_per_s, row.plan.device_hours))
    leave_out = _cells_to_leave_out(rows, candidates)
    undecided_plans = [plan for plan in plans if plan.cell not in leave_out]
    # A sum over some of the cells would be too small.
    is_power_known = bool(plans) and len(kwhs) == len(plans)
    return Plan(
        rows=tuple(rows),
        remaining_s=sum(remaining_s),
        device_hours=sum(plan.device_hours for plan in plans),
        cost=sum(plan.cost(price) for plan in plans) if price else None,
        price=price,
        leave_out=leave_out,
        measure_next=next_measurement(candidates),
        resolve=_resolution(evidence),
        budget=budget,
        beyond_budget=tuple(beyond_budget(undecided_plans, budget)) if budget else (),
        kwh=sum(kwhs) if is_power_known else None,
        whole_nodes=_whole_nodes(evidence.loaded, plans),
    )


def _whole_nodes(loaded: LoadedCampaign, plans: Sequence[CellPlan]) -> WholeNodes | None:
    """Return what the runs of `plans` hold with nodes to themselves; in one allocation all hold the most nodes."""
    resources = loaded.campaign.resources
    if not resources.exclusive:
        return None
    geometries = {cell.slug: cell.execution.geometry for cell in loaded.cells}
    per_node = max(geometry.devices_per_node for geometry in geometries.values())
    most_nodes = max(geometry.nodes for geometry in geometries.values())
    nodes = {slug: most_nodes if resources.same_allocation else geometry.nodes for slug, geometry in geometries.items()}
    hours = sum(plan.device_hours / plan.devices * per_node * nodes[plan.cell] for plan in plans)
    return WholeNodes(per_node, hours)


def _cells_to_leave_out(rows: list[PlanRow], candidates: list[Candidate]) -> tuple[str, ...]:
    """Return the candidates, cells without runs, that are certainly slower than another one or a measured cell."""
    repeated = [row for row in rows if row.repeats_done > 1]  # one run says too little of a cell's spread
    # A measured cell costs nothing more.
    measured = [Candidate(row.cell, row.tokens_per_s, 0.0) for row in repeated if row.tokens_per_s]
    measured_names = {candidate.cell for candidate in measured}
    # Measured cells only beat others: they need no further decision.
    return tuple(cell for cell in certainly_slower_cells([*candidates, *measured]) if cell not in measured_names)


def _resolution(evidence: ForecastEvidence) -> Resolution | None:
    """Return which differences further repeats would show, as the report says; None if it compares nothing."""
    loaded = evidence.loaded
    findings = evidence.findings or Findings(campaign=loaded.name, checks=[], findings=[])
    runs = list(chain.from_iterable(evidence.runs.values()))
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
    """Return the plan of a pilot, a run of PILOT_STEPS steps, for each unmeasured cell whose devices are available.

    They are if their group was swept. A few steps on the devices themselves say more than any law. Held-out cells have
    no pilot, because they run anyway. `times`: estimates how long a run takes.
    """
    swept_groups = {sweep.group for sweep in evidence.sweeps}
    held_out_geometries = evidence.loaded.campaign.forecast.hold_out
    pilots = []
    for cell in evidence.loaded.cells:
        runs_anyway = cell.slug in evidence.runs or cell.execution.geometry in held_out_geometries
        can_run = group_of(cell) in swept_groups and not cell.is_open  # open: without a micro-batch yet
        if can_run and not runs_anyway:
            short_cell = replace(cell, work=cell.work.model_copy(update={"steps": PILOT_STEPS}))
            pilots.append(CellPlan(cell.slug, group_of(cell).size, repeats=1, run_seconds=times.seconds(short_cell)))
    return pilots


def _device_power(cell: Cell, evidence: ForecastEvidence, given_watts: float | None) -> Power | None:
    """Return the power of a device: as given, else by counters of the cell's runs, else of other runs, if any."""
    if given_watts is not None:
        return Power(given_watts, "given")
    if cell_watts := _counter_watts(evidence.runs.get(cell.slug, [])):
        return Power(float(np.mean(cell_watts)), "measured")
    other_watts = list(chain.from_iterable(map(_counter_watts, evidence.runs.values())))
    return Power(float(np.mean(other_watts)), "measured in other cells") if other_watts else None


def _counter_watts(runs: Sequence[MeasuredRun]) -> list[float]:
    """Return the mean watts of a device in the window (the timed steps) for each run with an energy counter."""
    return [
        run.metrics.energy.joules / run.metrics.window.wall_time_s / run.n_devices
        for run in runs
        if run.metrics.energy.joules is not None
    ]


def predicted_step(cell: Cell, runs: Sequence[MeasuredRun]) -> Interval:
    """Return the seconds of a step in a further run of `cell`: a prediction interval by Student's t over its `runs`.

    From one run it is 10 % (ONE_RUN_SPREAD) either way.
    """
    n = len(runs)
    seconds = measured_step(cell, runs).seconds
    half = ONE_RUN_SPREAD
    if n > 1:  # Student's prediction of one further run from the mean of n
        spread = float(np.log([step_seconds(run) for run in runs]).std(ddof=1))
        half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * spread * float(np.sqrt(1 + 1 / n))
    return Interval(
        value=seconds,
        low=seconds * float(np.exp(-half)),
        high=seconds * float(np.exp(half)),
        level=LEVEL,
        construction="measured",
        n=n,
    )


class _StepFigures(NamedTuple):
    """Seconds of a `step` and their `basis`, or why there are none: then the basis is the code of the refusal."""

    step: Interval | None
    basis: str
    refusal: str | None = None
    measure: str | None = None


def _step_figures(cell: Cell, runs: Sequence[MeasuredRun], calibration: Calibration | None) -> _StepFigures:
    """Return the seconds of a step of a cell, or why there are none, and which measurement helps."""
    if runs:
        return _StepFigures(predicted_step(cell, runs), "measured")
    if reason := reason_anywhere(cell):
        return _StepFigures(None, "not-applicable", refusal=reason)
    if cell.command is not None:
        return _StepFigures(None, "command", refusal="forecasts know built-in models, not commands")
    if calibration is None:
        advice = "run one repeat of the campaign, then plan again"
        return _StepFigures(None, "nothing-measured", refusal="nothing is measured", measure=advice)
    entry = calibration.entry(cell)
    if entry.interval is None:
        return _StepFigures(None, entry.refusal or "", refusal=entry.reason, measure=entry.measure)
    return _StepFigures(entry.interval, "forecast")


def _run_seconds(cell: Cell, runs: Sequence[MeasuredRun], evidence: ForecastEvidence, step: Interval) -> float:
    """Return the wall time of a run whose steps take `step`, as was measured, or forecast from measured cells.

    That of a cell with `runs` is their mean. Else the rest is the longest among runs with the same engine, or any runs.
    """
    if runs:
        return float(np.mean([run.metrics.total_wall_time_s for run in runs]))
    has_deepspeed = is_deepspeed(cell.execution.strategy)
    all_runs = list(chain.from_iterable(evidence.runs.values()))
    same_engine = [run for run in all_runs if is_deepspeed(run.metrics.training_config.strategy) == has_deepspeed]
    rest_s = max(_rest_seconds(run) for run in same_engine or all_runs)
    # Without the first step of the warm-up, which is in the rest (`_rest_seconds`).
    further_steps = max(cell.work.warmup_steps - 1, 0) + cell.work.steps
    return max(rest_s, 0.0) + further_steps * step.value


def _rest_seconds(run: MeasuredRun) -> float:
    """Return the seconds of a run for start-up, validation, closing, and its first step, which is a longer one."""
    metrics = run.metrics
    outside_s = metrics.total_wall_time_s - metrics.window.wall_time_s - metrics.startup.warmup_s
    return outside_s + metrics.startup.first_step_s


def _memory_figures(cell: Cell, evidence: ForecastEvidence, capacity: float | None) -> tuple[float | None, str, str]:
    """Return a device's peak bytes, whether they fit ("unknown" without `capacity`), and why they are unknown."""
    if cell.is_open:
        return None, "unknown", "its micro-batch is still to be found by trials"

    peaks = []  # of all cells in the series of `cell`, itself included
    for slug, runs in evidence.runs.items():  # of ten thousand cells few have runs
        relative = evidence.loaded.cell(slug)
        for run in runs:
            reserved = run.metrics.memory.max_cuda_reserved_bytes
            if reserved is not None and series_key(relative) == series_key(cell):
                peaks.append(Peak(relative.batch.micro, group_of(relative).size, float(reserved)))
    if not peaks:
        return None, "unknown", "no run on a GPU has measured it; --count-memory counts it"

    try:
        model = fit_memory(memory_inputs(cell), peaks)
        peak_bytes = model.predict(cell.batch.micro, group_of(cell).size)
    except Unsupported as error:
        return None, "unknown", error.reason
    if not capacity:
        return peak_bytes, "unknown", ""
    is_far = cell.batch.micro > FAR * model.largest
    return peak_bytes, memory_verdict(peak_bytes, capacity, far=is_far), ""


def _device_memory(evidence: ForecastEvidence, times: RunTimes | None) -> float | None:
    """Return the bytes of the named GPU, else of the smallest that ran; None where none is known."""
    if times and times.named:
        return times.named.memory
    known_bytes: list[float] = []
    for runs in evidence.runs.values():
        for run in runs:
            gpus = run.metrics.hardware.get("gpus") or []
            known_bytes += filter(None, [device_bytes(gpu.get("memory", "")) for gpu in gpus])  # 0: not known
    return min(known_bytes, default=None)
