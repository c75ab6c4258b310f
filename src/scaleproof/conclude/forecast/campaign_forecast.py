"""The forecasts of a campaign: what its measured cells say of the other cells."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scaleproof.conclude.forecast import law
from scaleproof.conclude.forecast.collective import Group
from scaleproof.conclude.forecast.interval import (
    HalfWidths,
    Interval,
    conformal_half_widths,
    half_widths_by_largest_sizes,
    widen_by_noise,
)
from scaleproof.conclude.forecast.law import hold_largest_out
from scaleproof.conclude.forecast.ledger import Entry, Forecasts, Score, past_residuals
from scaleproof.conclude.forecast.sweep_file import Sweep
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.cores import available_cores
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import now_utc
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.records.grouping import lists_by_key
from scaleproof.ground.records.run import METRICS, DamagedMetrics, MeasuredRun, Run, TimedRun, has_record, read_run
from scaleproof.ground.snakemake_command import snakemake_command


@dataclass(frozen=True)
class ForecastEvidence:
    """What a campaign has: measured runs by cell, findings, sweeps, and the ledger of all campaigns."""

    loaded: LoadedCampaign
    runs: dict[str, list[MeasuredRun]]
    findings: Findings | None
    sweeps: list[Sweep]
    ledger: list[Score]
    command_times_s: Mapping[str, Sequence[float]] = field(default_factory=dict)  # cell of a command -> of its runs

    @property
    def any_run(self) -> MeasuredRun | None:
        """A run of the campaign, for what is the same in all runs; None where nothing is measured."""
        return next((runs[0] for runs in self.runs.values() if runs), None)

    @property
    def device(self) -> str:
        """The name of the device that ran; "cpu" for any CPU, and where nothing ran."""
        run = self.any_run
        if run is None or "cpu" in run.metrics.ranks[0]["devices"]:
            return "cpu"
        return str(run.metrics.ranks[0].get("device_name", "cuda"))

    @property
    def backend(self) -> str:
        """The backend that the ranks recorded; older versions did not record it, and had gloo on CPUs, else NCCL."""
        run = self.any_run
        recorded = run.metrics.ranks[0].get("backend") if run else None
        if recorded:
            return str(recorded)
        return "gloo" if self.device == "cpu" else "nccl"

    @property
    def machine(self) -> str:
        """The class of the machine: device and backend. Residuals of one class are comparable."""
        run = self.any_run
        if run is None:
            return "unknown"
        model = run.metrics.hardware.get("cpu_model", "cpu") if self.device == "cpu" else self.device
        return f"{model} {self.backend}"


def read_measured(
    loaded: LoadedCampaign, results: Path, damaged: list[str] | None = None
) -> dict[str, list[MeasuredRun]]:
    """Return cell -> its runs of the built-in trainer with numbers so far. Faults of others are added to `damaged`."""
    finished = _finished_runs(loaded, results, damaged, of_commands=False)
    return lists_by_key((cell.slug, run) for cell, run in finished if isinstance(run, MeasuredRun))


def read_command_times(
    loaded: LoadedCampaign, results: Path, damaged: list[str] | None = None
) -> dict[str, list[float]]:
    """Return cell of a command -> the seconds that each of its runs with numbers took. `damaged`: as above."""
    finished = _finished_runs(loaded, results, damaged, of_commands=True)
    timed = ((cell, run) for cell, run in finished if isinstance(run, TimedRun))
    return lists_by_key((cell.slug, run.metrics.total_wall_time_s) for cell, run in timed)


def _finished_runs(
    loaded: LoadedCampaign, results: Path, damaged: list[str] | None, *, of_commands: bool
) -> Iterator[tuple[Cell, Run]]:
    """Yield the runs made so far, of commands or of the trainer: none damaged, none of another configuration."""
    for folder, cell, _ in loaded.planned(results):
        if (cell.command is not None) != of_commands or not has_record(folder):
            continue  # the other kind, or not made yet
        try:
            run = read_run(folder)
        except DamagedMetrics as error:
            if damaged is not None:
                damaged.append(str(error))
            continue
        if run.metrics.fingerprint == cell.fingerprint:
            yield cell, run


def split_cells(evidence: ForecastEvidence) -> tuple[list[Cell], list[Cell]]:
    """Return the cells from which forecasts are made (the basis), and the cells that are forecast.

    The first are measured cells with a geometry of `forecast.from` (any geometry where it names none), and not of
    `forecast.hold_out`. The second are the cells with a geometry of `forecast.hold_out`; where it names none, the
    unmeasured cells.
    """
    cells = evidence.loaded.cells
    settings = evidence.loaded.campaign.forecast
    geometries_of_basis = {str(geometry) for geometry in settings.from_}  # as "2x4"
    held_out_geometries = {str(geometry) for geometry in settings.hold_out}
    measured = [cell for cell in cells if cell.slug in evidence.runs]
    basis = [cell for cell in measured if str(cell.execution.geometry) not in held_out_geometries]
    if geometries_of_basis:
        basis = [cell for cell in basis if str(cell.execution.geometry) in geometries_of_basis]
    if held_out_geometries:
        targets = [cell for cell in cells if str(cell.execution.geometry) in held_out_geometries]
    else:
        targets = [cell for cell in cells if cell.slug not in evidence.runs]
    return basis, targets


@dataclass(frozen=True)
class Calibration:
    """The measured steps of each series, of which forecasts are made, and why some cells cannot be used."""

    steps: dict[str, list[law.MeasuredStep]]  # series key -> steps of its cells
    unusable: dict[str, law.Unsupported]  # series key -> why a run of it cannot be used
    has_two_sizes: bool  # whether a series has, of cells that can be used or not
    evidence: ForecastEvidence

    @property
    def held_out(self) -> list[law.HeldOut]:
        """The largest size of each series of the campaign that has two sizes, forecast from the smaller ones."""
        largest_sizes = [hold_largest_out(steps) for steps in self.steps.values()]
        return [largest for largest in largest_sizes if largest is not None]

    def entry(self, cell: Cell) -> Entry:
        """Return the forecast of the seconds of a step of `cell`, or its refusal."""
        steps = self.steps.get(law.series_key(cell), [])
        entry = Entry(
            cell=cell.slug,
            strategy=cell.execution.strategy,
            devices=law.group_of(cell).size,
            largest_measured=max((step.group.size for step in steps), default=None),
        )
        try:
            interval = self._step_interval(cell, steps)
        except law.Unsupported as refusal:
            why = {"refusal": refusal.code, "reason": refusal.reason, "measure": refusal.measure}
            return entry.model_copy(update=why)
        # `likely`: the two bounds at 80 %, or None; an entry has a field for each.
        fields = {name: getattr(interval, name) for name in ("value", "low", "high", "level", "construction", "n")}
        fields["likely_low"], fields["likely_high"] = interval.likely or (None, None)
        return entry.model_copy(update=fields)

    def _step_interval(self, cell: Cell, steps: list[law.MeasuredStep]) -> Interval:
        """Return the forecast seconds of a step of `cell`, with their interval.

        `steps`: the measured steps of the cell's strategy and settings on other numbers of devices. Raises Unsupported
        with a code, a reason and what to measure, where they do not carry a forecast.
        """
        if cell.is_open:
            raise law.Unsupported(
                "micro-batch-open",
                f"the micro-batch of {cell.slug} is the {cell.searched} that fits, and no trial has found it yet",
                f"scaleproof frontier, or snakemake: it searches before {cell.slug} runs",
            )
        _check_cores(cell, self.evidence.backend)
        target = law.target_of(cell)
        if reason := self.unusable.get(law.series_key(cell)):
            if not self.has_two_sizes:  # what no further run of this cell lifts comes first
                self._half_widths([target], target.group)
            raise reason

        sizes = law.nearest_steps(steps, target)  # one measured step for each number of devices, the fewest first
        law.check_support(cell.execution.strategy, sizes, target)
        # Samples of a device in a step over its samples per second.
        seconds = target.micro_batch * target.accumulation / law.expected_rate(sizes, target.group.size)
        half_widths, construction, n = self._half_widths(sizes, target.group)
        noise_variance = sizes[-1].variance or 0.0  # of the largest size; unknown for one run
        return Interval.around(seconds, widen_by_noise(half_widths, noise_variance), construction, n)

    def _half_widths(self, sizes: Sequence[law.Target], group: Group) -> tuple[HalfWidths, str, int]:
        """Return the half-widths of a forecast's interval, their construction, and n, the number of residuals.

        The first source that exists counts: residuals of past campaigns on this class of machines, if enough for 95 %;
        on GPUs the public series, widened if the law errs more in this campaign; else its errors in this campaign.
        Raises Unsupported without a source. `sizes`: measured steps, the largest last. `group`: the devices that are
        forecast.
        """
        # How often the largest measured size has to be doubled to reach the devices that are forecast.
        distance = law.doublings(group.size, sizes[-1].group.size)
        residuals = past_residuals(self.evidence.ledger, self.evidence.machine, group.level)
        if by_ledger := conformal_half_widths(residuals, distance):
            return by_ledger, "conformal", len(residuals)

        largest_sizes = self.held_out
        if self.evidence.backend == "nccl":
            return law.half_widths(sizes, group).times(law.stretch_factor(largest_sizes)), "public series", law.TABLES

        if half := half_widths_by_largest_sizes([largest.residual_per_doubling for largest in largest_sizes], distance):
            return half, "leave-largest-out", len(largest_sizes)
        raise law.Unsupported(
            "no-interval",
            "public series are of GPUs and TPUs, and no series of this campaign has two sizes: nothing says how "
            "wrong the forecast is",
            "run one strategy on a further size",
        )


def calibrate(evidence: ForecastEvidence, basis: Sequence[Cell]) -> Calibration:
    """Return the measured steps of all series, from the runs of the cells of the `basis`.

    A cell with an invalid or disturbed run is not used: no forecast is made of its series, and the result says why.
    """
    steps: dict[str, list[law.MeasuredStep]] = {}
    unusable: dict[str, law.Unsupported] = {}
    all_sizes: dict[str, set[int]] = {}
    for cell in basis:
        key = law.series_key(cell)
        all_sizes.setdefault(key, set()).add(law.group_of(cell).size)
        try:
            law.check_usable(cell, evidence.findings)
        except law.Unsupported as reason:
            unusable.setdefault(key, reason)
        else:
            steps.setdefault(key, []).append(law.measured_step(cell, evidence.runs[cell.slug]))
    return Calibration(steps, unusable, any(len(sizes) > 1 for sizes in all_sizes.values()), evidence)


def make_forecasts(evidence: ForecastEvidence) -> Forecasts:
    """Return the forecasts of the campaign's cells. Raises UserError if no cell is measured, or none is left."""
    basis, targets = split_cells(evidence)
    loaded = evidence.loaded
    by_table = f"scaleproof forecast --from results/{loaded.name}/cells.csv, where its runs allow one"
    if not basis and any(cell.command is not None for cell in loaded.cells):
        problem = "a campaign's forecast knows built-in models, not commands. What a command's table allows"
        raise UserError(f"{loaded.path}: {problem}: {by_table}")
    if not basis:
        raise UserError(
            f"{loaded.path}: no run to forecast from; make some first: "
            f"{snakemake_command(f'results/{loaded.name}/report.html')}"
        )
    if not targets:
        advice = "add a size under vary.geometry, or hold one out (forecast.hold_out)"
        raise UserError(f"{loaded.path}: every cell is measured; nothing is left to forecast: {advice}")
    runs = [run for cell in basis for run in evidence.runs[cell.slug]]
    calibration = calibrate(evidence, basis)
    return Forecasts(
        campaign=loaded.name,
        made_utc=now_utc(),
        machine=evidence.machine,
        calibrated_on={run.name: hashlib.sha256((run.folder / METRICS).read_bytes()).hexdigest() for run in runs},
        entries=[calibration.entry(cell) for cell in targets],
    )


def measured_outcomes(evidence: ForecastEvidence) -> tuple[dict[str, tuple[float, str]], dict[str, int]]:
    """Return, to score forecasts, measured cell -> (seconds of a step, time of its first run), and cell -> nodes."""
    outcomes = {}
    for cell in evidence.loaded.cells:
        if cell.slug in evidence.runs:
            runs = evidence.runs[cell.slug]
            first_run_utc = min(run.metrics.timestamp_utc for run in runs)
            outcomes[cell.slug] = (law.measured_step(cell, runs).seconds, first_run_utc)
    return outcomes, {cell.slug: law.group_of(cell).nodes for cell in evidence.loaded.cells}


def _check_cores(cell: Cell, backend: str) -> None:
    """Raise Unsupported where ranks of this machine's CPU would share cores: then no rank is a whole device."""
    execution = cell.execution
    needed = execution.geometry.devices_per_node * execution.threads_per_device
    # Ranks on CPUs use gloo; ranks on one node are taken to run on this machine.
    if backend == "gloo" and execution.geometry.nodes == 1 and needed > available_cores():
        raise law.Unsupported(
            "shared-cores",
            f"{execution.geometry} needs {needed} cores, this machine has {available_cores()}: ranks would share them",
            "run it on a machine with enough cores",
        )
