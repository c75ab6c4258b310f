"""How long a run takes: from earlier runs of this machine where there are any, else from its FLOPs."""

import json
import socket
import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from scaleproof.conclude.forecast.requirements import counts_of
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.cores import available_cores
from scaleproof.ground.errors import plural
from scaleproof.ground.facts.peaks import peak
from scaleproof.ground.number_format import significant
from scaleproof.ground.records.run import METRICS
from scaleproof.measure.machine.gpus import Gpu, cuda_devices, usable

# Seconds of a run outside of its steps, on one node of a few cores: interpreter, imports, process group, model, tokens.
FRESH_S, FORKED_S = 7.0, 1.2
ENGINE_S = 2.0  # importing DeepSpeed
CORE_FLOPS = 3e10  # fp32 of one core with torch on the GPT-2 shapes of a campaign for CPUs
PEAK_SHARE = 0.3  # of a GPU's peak; large models reach more, small ones less
TYPICAL_GPU = "NVIDIA A100"  # where no GPU is visible from here
SLOWEST_PEAK = 2e13  # FLOP/s of a GPU that has no figures
MOST_READ = 300  # files of earlier runs, the newest first
PATTERNS = ("*/runs/*/rep*", "*/compare/*/pair*/[ab]")


class StartKind(NamedTuple):
    """What decides how long a run takes to start: fresh or forked processes, and the engine that they import."""

    start: str
    engine: str


@dataclass(frozen=True)
class PastRun:
    """An earlier run: what it is comparable by, its seconds, and `flops`: FLOP/s that a device reached in its steps."""

    campaign: str
    fingerprint: str
    kind: StartKind
    device: str  # cpu or cuda
    precision: str
    model: str
    total_s: float
    outside_s: float
    flops: float


@dataclass(frozen=True)
class RunTimes:
    """Estimates from the runs in `past`. They are of this machine, or of the campaign itself."""

    past: tuple[PastRun, ...]
    gpus: tuple[Gpu, ...]

    def seconds(self, cell: Cell) -> float:
        """Seconds of a run from launch to its metrics: as the cell's own runs took, else start-up plus steps."""
        kind = self._kind(cell)
        own_s = [run.total_s for run in self.past if run.fingerprint == cell.fingerprint and run.kind == kind]
        return statistics.median(own_s) if own_s else self.outside(cell) + self._steps_s(cell)

    def outside(self, cell: Cell) -> float:
        """Seconds of a run outside of its steps (launch, set-up, validation), as of past runs that start alike."""
        device, kind = self.device(cell), self._kind(cell)
        alike = [run for run in self.past if run.device == device and run.kind == kind]
        if alike:
            return statistics.median(run.outside_s for run in alike)
        return (FORKED_S if kind.start == "forked" else FRESH_S) + (ENGINE_S if kind.engine else 0.0)

    def _kind(self, cell: Cell) -> StartKind:
        """How a run of `cell` starts here."""
        return kind_of(cell.execution.start, cell.execution.strategy, self.device(cell))

    def _steps_s(self, cell: Cell) -> float:
        """Seconds of the steps of a run, of warm-up and window, by their FLOPs; 0 where the model's are not known."""
        counts = counts_of(cell)
        if counts is None:
            return 0.0
        tokens = (cell.work.steps + cell.work.warmup_steps) * cell.batch.global_ * cell.workload.seq_len
        return counts.flops_per_token * tokens / (self._flops(cell) * cell.execution.geometry.n_devices)

    def step_s(self, cell: Cell) -> float:
        """Seconds of a step by its FLOPs; 0 where the model's are not known."""
        return self._steps_s(cell) / (cell.work.steps + cell.work.warmup_steps)

    def _flops(self, cell: Cell) -> float:
        """FLOP/s of a device: of earlier runs of the same model, else of any model, in its precision; else a guess."""
        device, execution = self.device(cell), cell.execution
        comparable = [run for run in self.past if run.device == device and run.precision == execution.precision]
        model = _model(cell.config)
        nearest_runs = [run for run in comparable if run.model == model] or comparable
        if nearest_runs:
            return statistics.median(run.flops for run in nearest_runs)
        if device == "cpu":
            return CORE_FLOPS * execution.threads_per_device
        return self._usual_flops(execution.precision)

    def _usual_flops(self, precision: str) -> float:
        """A guess at the FLOP/s of a GPU: a share of its peak; of TYPICAL_GPU where none is visible from here."""
        gpu_peak = peak(self.gpus[0].name if self.gpus else TYPICAL_GPU, precision)
        return PEAK_SHARE * (gpu_peak.flops if gpu_peak else SLOWEST_PEAK)

    def replay_flops(self, cell: Cell) -> float:
        """FLOP/s of the replay of a cell (its training once more, as a check): in fp32, on one GPU or on all cores."""
        return CORE_FLOPS * available_cores() if self.device(cell) == "cpu" else self._usual_flops("fp32")

    def device(self, cell: Cell) -> str:
        """cpu or cuda: where the cell runs here."""
        if cell.execution.device == "auto":
            return "cuda" if self.gpus else "cpu"
        return cell.execution.device

    def basis(self, cells: Iterable[Cell]) -> str:
        """What the estimates of `cells` rest on, in words."""
        cells = list(cells)
        comparable = [run for run in self.past if any(run.device == self.device(cell) for cell in cells)]
        if comparable:
            return f"estimated from {plural(len(comparable), 'earlier run')} of this machine"
        as_on = " as on an A100" if not self.gpus and any(self.device(cell) == "cuda" for cell in cells) else ""
        return (
            f"a guess from FLOPs{as_on}, with {significant(FRESH_S, 6)} s of start-up per run; it "
            "may be wrong by a factor of 3"
        )


def kind_of(start: str, strategy: str, device: str) -> StartKind:
    """How a run starts. `start`: as configured, fresh or forked; forked ranks are for CPUs alone."""
    engine = "deepspeed" if strategy.startswith("zero") else ""
    return StartKind("forked" if start == "forked" and device == "cpu" else "fresh", engine)


def run_times(results: Path, campaign: str) -> RunTimes:
    """Estimates from the newest runs below `results`: of this machine, and of `campaign` from anywhere."""
    paths = [path for pattern in PATTERNS for path in results.glob(f"{pattern}/{METRICS}")]
    newest = sorted(paths, key=_changed, reverse=True)[:MOST_READ]
    runs = [run for path in newest if (run := _read(path, socket.gethostname(), campaign))]
    gpus, _ = usable(cuda_devices)
    return RunTimes(tuple(runs), tuple(gpus))


def _changed(path: Path) -> float:
    """When a file was last written, in seconds since 1970."""
    return path.stat().st_mtime


def _read(path: Path, host: str, campaign: str) -> PastRun | None:
    """A measured run of this machine or campaign; None otherwise: damaged files are for others to name."""
    try:
        return _past_run(json.loads(path.read_bytes()), host, campaign)
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError):
        return None


def _past_run(metrics: dict[str, Any], host: str, campaign: str) -> PastRun | None:
    """A run from the content of its metrics; None if it failed, or is of another machine and campaign."""
    is_own = metrics["host"]["hostname"] == host or metrics["campaign"] == campaign
    if metrics["status"] != "ok" or not is_own:
        return None
    execution, window = metrics["config"]["execution"], metrics["window"]
    nodes, per_node = execution["geometry"].split("x")
    device = "cpu" if "cpu" in metrics["ranks"][0]["devices"] else "cuda"
    total = float(metrics["total_wall_time_sec"])
    work = metrics["model"]["flops_per_token"] * window["tokens_processed_global"]
    return PastRun(
        campaign=metrics["campaign"],
        fingerprint=metrics["fingerprint"],
        kind=kind_of(execution.get("start", "fresh"), execution["strategy"], device),
        device=device,
        precision=execution["precision"],
        model=_model(metrics["config"]),
        total_s=total,
        outside_s=max(total - window["wall_time_sec"] - metrics["startup"]["warmup_sec"], 0.0),
        flops=work / window["wall_time_sec"] / (int(nodes) * int(per_node)),
    )


def _model(config: dict[str, Any]) -> str:
    """The model of a configuration as text: its name or its shape."""
    return str(config["workload"]["model"])
