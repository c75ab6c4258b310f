"""What a campaign needs before it can run: memory for the model's state, and time.

The time is by earlier runs of this machine where there are any, else by FLOPs and a probe.
"""

import json
import os
import socket
import statistics
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.campaign.strategies import is_deepspeed
from scaleproof.ground.campaign.transformers_model import TransformersModel
from scaleproof.ground.cores import available_cores
from scaleproof.ground.errors import plural
from scaleproof.ground.facts.counts import Counts
from scaleproof.ground.facts.counts import count_parameters_and_flops as counts_of_inventory
from scaleproof.ground.facts.memory import state_bytes
from scaleproof.ground.facts.peaks import NamedDevice, peak
from scaleproof.ground.number_format import bytes_text, integer, significant
from scaleproof.ground.records.run import METRICS
from scaleproof.measure.doctor.speed import Layer, MachineSpeed, this_machine
from scaleproof.measure.machine.gpus import Gpu, cuda_devices, usable_gpus
from scaleproof.measure.model.inventory import inventory_of


def counts_of_cell(cell: Cell) -> Counts | None:
    """Return parameters and FLOPs of a cell's model; None for commands, and for classifiers: their text decides."""
    if cell.command is not None or cell.workload.task == "classification":
        return None
    return counts_of_inventory(inventory_of(cell), cell.workload.seq_len)


def device_state_bytes(cell: Cell) -> float | None:
    """Return the bytes of weights, gradients and optimizer state on one device; None where the model is not known."""
    counts = counts_of_cell(cell)
    if counts is None:
        return None
    return state_bytes(cell.execution.strategy, cell.execution.precision, counts.parameters, cell.sharing_devices)


def describe_models(loaded: LoadedCampaign) -> str:
    """Return a line for each model of a campaign: its parameters, and the work of a token; "" without a model."""
    lines = {}  # label -> line, once for cells with the same model
    for cell in loaded.cells:
        counts = counts_of_cell(cell)
        if counts is None:
            continue
        model = cell.workload.model
        name = model if isinstance(model, str) else model.slug()
        label = f"{name}, {integer(cell.vocab_size)} entries, seq_len {integer(cell.workload.seq_len)}"
        tied_head = "" if isinstance(model, TransformersModel) else " (tied head)"
        parameters = f"{integer(counts.parameters)} parameters{tied_head}"
        work = f"{significant(counts.flops_per_token / 1e6, 3, grouped=True)} MFLOP a token"
        lines[label] = f"\n  {label}: {parameters}, {work}"
    return "\n\nModels:" + "".join(lines.values()) if lines else ""


def memory_note(loaded: LoadedCampaign, gpus: list[Gpu]) -> str:
    """Return a note on the column state/device: what it leaves out, and which cells cannot run on these `gpus`."""
    note = (
        "\n\nstate/device: weights, gradients and optimizer state by the formula of the ZeRO paper; activations, "
        "buffers and the allocator's reserve come on top."
    )
    note += host_memory_note(loaded, bool(gpus))
    capacity = min((gpu.memory for gpu in gpus if gpu.memory), default=None)
    if capacity is None:
        return note
    cells_on_gpus = [cell for cell in loaded.cells if cell.execution.device != "cpu"]
    too_large = [cell.slug for cell in cells_on_gpus if (device_state_bytes(cell) or 0) > capacity]
    if too_large:
        note += f"\nThe state alone is more than the {bytes_text(capacity)} of a device here: {', '.join(too_large)}"
    return note


def host_memory_note(loaded: LoadedCampaign, has_gpus: bool) -> str:
    """Return a line on the cells whose processes on CPUs hold more state than this machine has memory; else ""."""
    devices = ("cpu",) if has_gpus else ("cpu", "auto")  # settings by which a cell runs on CPUs here
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    too_large = []
    for cell in loaded.cells:
        state_of_node = (device_state_bytes(cell) or 0) * cell.execution.geometry.devices_per_node
        if cell.execution.device in devices and state_of_node > memory:
            too_large.append(f"{cell.slug} ({bytes_text(state_of_node)})")
    if not too_large:
        return ""
    return f"\nThe state of all processes is more than the {bytes_text(memory)} of this machine: {', '.join(too_large)}"


FORKED_SHARE = 0.17  # a forked start takes this share of a fresh one: for the process group, the model and the end
PEAK_SHARE = 0.3  # of a GPU's peak; large models reach more, small ones less
TYPICAL_GPU = "NVIDIA A100"  # stands for GPUs that are not visible from here
SLOWEST_PEAK = 2e13  # FLOP/s of a GPU without published figures
MOST_READ = 300  # files of earlier runs, the newest first
PATTERNS = ("*/runs/*/rep*", "*/compare/*/pair*/[ab]")


class StartKind(NamedTuple):
    """What decides how long a run takes to start: fresh or forked processes, and the engine that they import."""

    start: str
    engine: str


OF_COMMANDS = StartKind("", "")  # only earlier runs of the same command say how long it takes


@dataclass(frozen=True)
class PastRun:
    """An earlier run: what it is compared by, and its seconds. `flops`: FLOP/s of a device in its steps.

    `outside_s` and `flops` are those of a run whose ranks have cores of their own.
    """

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
    """Estimates by runs of this machine or of the campaign itself (`past`), else by the machine's `speed`.

    `named`: the GPU of another machine that the estimates are for; they know no run and no GPU of this one then.
    """

    past: tuple[PastRun, ...]
    gpus: tuple[Gpu, ...]
    speed: MachineSpeed = field(default_factory=MachineSpeed)
    named: NamedDevice | None = None

    def seconds(self, cell: Cell) -> float:
        """Return the seconds of a run from launch to its metrics: the median of its own runs, else by its parts."""
        kind = self._kind(cell)
        cell_times = [run.total_s for run in self.past if run.fingerprint == cell.fingerprint and run.kind == kind]
        return statistics.median(cell_times) if cell_times else self.outside(cell) + self._steps_s(cell)

    def outside(self, cell: Cell) -> float:
        """Return the seconds of a run outside of its steps: launch, set-up, validation."""
        device, kind = self.device(cell), self._kind(cell)
        if similar_runs := [run for run in self.past if run.device == device and run.kind == kind]:
            return self._crowding(cell) * statistics.median(run.outside_s for run in similar_runs)
        # A forked rank imports nothing anew.
        start_s = FORKED_SHARE * self.speed.start_s() if kind.start == "forked" else self.speed.start_s(kind.engine)
        return self._crowding(cell) * start_s

    def _crowding(self, cell: Cell) -> float:
        """Return how many ranks of the cell share a core here, at least 1."""
        device = "" if cell.command is not None else self.device(cell)
        return crowding(device, cell.execution.geometry.devices_per_node)

    def _kind(self, cell: Cell) -> StartKind:
        """Return what decides how long a run of the cell takes to start here."""
        if cell.command is not None:
            return OF_COMMANDS
        return kind_of(cell.execution.start, cell.execution.strategy, self.device(cell))

    def _steps_s(self, cell: Cell) -> float:
        """Return the seconds of warm-up and window by their FLOPs, else until a run is ended; unknown ones are 0."""
        counts = counts_of_cell(cell)
        if counts is None:
            return cell.work.seconds or 0.0
        tokens = (cell.work.steps + cell.work.warmup_steps) * cell.batch.global_ * cell.workload.seq_len
        flops = self._device_flops(cell) * cell.execution.geometry.n_devices / self._crowding(cell)
        return counts.flops_per_token * tokens / flops

    def step_s(self, cell: Cell) -> float:
        """Return the seconds of a step by its FLOPs; unknown shapes count as nothing."""
        return self._steps_s(cell) / (cell.work.steps + cell.work.warmup_steps)

    def _device_flops(self, cell: Cell) -> float:
        """Return FLOP/s of a device by earlier runs in the cell's precision, if possible of its model; else probed."""
        device, execution = self.device(cell), cell.execution
        same_precision = [run for run in self.past if run.device == device and run.precision == execution.precision]
        model = _model(cell.config)
        similar_runs = [run for run in same_precision if run.model == model] or same_precision
        if similar_runs:
            return statistics.median(run.flops for run in similar_runs)
        return self._probed_flops(cell, execution.precision, execution.threads_per_device)

    def replay_flops(self, cell: Cell) -> float:
        """Return FLOP/s of the replay of a cell: in fp32, on one GPU or on all cores."""
        return self._probed_flops(cell, "fp32", available_cores())

    def _probed_flops(self, cell: Cell, precision: str, threads: int) -> float:
        """Return FLOP/s of a device, probed with a layer of the cell's width; of an absent GPU, by its peak."""
        device, inventory = self.device(cell), inventory_of(cell)
        if device == "cuda" and not self.gpus:
            published_peak = peak(self.named.name if self.named else TYPICAL_GPU, precision)
            return PEAK_SHARE * (published_peak.flops if published_peak else SLOWEST_PEAK)
        # `attention_width` is a sum over blocks.
        width = inventory.attention_width // len(inventory.blocks)
        flops = self.speed.flops(Layer(device, precision, width, cell.workload.seq_len))  # of a GPU, or of one thread
        return flops if device == "cuda" else flops * threads

    def device(self, cell: Cell) -> str:
        """Return where the cell runs here: "cpu" or "cuda"."""
        if cell.execution.device == "auto":
            return "cuda" if self.gpus or self.named else "cpu"
        return cell.execution.device

    def basis(self, cells: Iterable[Cell]) -> str:
        """Return what the estimates of `cells` rest on, in words."""
        cells = list(cells)
        if all(cell.command is not None for cell in cells):  # the FLOPs of commands are unknown
            measured = {run.fingerprint for run in self.past}
            if all(cell.fingerprint in measured for cell in cells):
                return "estimated from earlier runs of these commands"
            if all(cell.fingerprint in measured or cell.work.seconds for cell in cells):
                return "each run is ended after work.seconds"
            return (
                "the time of a command is not known before its first run; of such a command this counts the start alone"
            )
        devices = {self.device(cell) for cell in cells}
        if comparable_runs := [run for run in self.past if run.device in devices]:
            return f"estimated from {plural(len(comparable_runs), 'earlier run')} of this machine"
        if not self.gpus and "cuda" in devices:
            device = self.named.name if self.named else "an A100, unless scaleproof plan --device names another"
            return f"a guess from FLOPs as on {device}; it may be wrong by a factor of 3"
        if not self.speed.measured:
            return "a guess from FLOPs as on a small node; it may be wrong by a factor of 3"
        start = significant(self.speed.start_s(), 2)
        return f"estimated from FLOPs by a probe of this machine, where a run takes {start} s to start"


def kind_of(start: str, strategy: str, device: str) -> StartKind:
    """Return how a run with this configuration starts: forked ranks are for CPUs alone."""
    engine = "deepspeed" if is_deepspeed(strategy) else ""
    return StartKind("forked" if start == "forked" and device == "cpu" else "fresh", engine)


def crowding(device: str, per_node: int) -> float:
    """Return how many of the ranks of a node would share a core of this machine, at least 1."""
    return max(1.0, per_node / available_cores()) if device == "cpu" else 1.0


def run_times(results: Path, campaign: str, probes: bool = True, named: NamedDevice | None = None) -> RunTimes:
    """Return what estimates the times of runs to come.

    It rests on the newest runs below `results`: those of this machine, and those of `campaign` on any machine.
    `probes`: whether this machine's speed is measured where it is needed and not known, which takes up to a minute.
    `named`: the GPU of another machine, of which none of these runs says anything.
    """
    if named:
        return RunTimes((), (), this_machine(probes), named)
    paths = [path for pattern in PATTERNS for path in results.glob(f"{pattern}/{METRICS}")]
    newest = sorted(paths, key=lambda path: path.stat().st_mtime, reverse=True)[:MOST_READ]
    runs = []
    for path in newest:
        # A damaged record is passed over: an estimate can do without it, and an audit names it.
        with suppress(OSError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError):
            runs.append(_past_run(json.loads(path.read_bytes()), socket.gethostname(), campaign))
    gpus, _ = usable_gpus(cuda_devices)
    return RunTimes(tuple(filter(None, runs)), tuple(gpus), this_machine(probes))


def _past_run(metrics: dict[str, Any], host: str, campaign: str) -> PastRun | None:
    """Return a run from the content of its metrics; None if it failed, or is of another machine and campaign."""
    is_related = metrics["host"]["hostname"] == host or metrics["campaign"] == campaign
    if metrics["status"] != "ok" or not is_related:
        return None
    execution, window = metrics["config"]["execution"], metrics["window"]
    if "reading" in metrics:
        return PastRun(
            fingerprint=metrics["fingerprint"],
            kind=OF_COMMANDS,
            device="",
            precision="",
            model="",
            total_s=float(metrics["total_wall_time_sec"]),
            outside_s=0.0,
            flops=0.0,
        )
    nodes, per_node = execution["geometry"].split("x")  # as "2x4"
    device = "cpu" if "cpu" in metrics["ranks"][0]["devices"] else "cuda"
    total_s = float(metrics["total_wall_time_sec"])
    ranks_per_core = crowding(device, int(per_node))
    work_flop = metrics["model"]["flops_per_token"] * window["tokens_processed_global"]
    return PastRun(
        fingerprint=metrics["fingerprint"],
        kind=kind_of(execution.get("start", "fresh"), execution["strategy"], device),
        device=device,
        precision=execution["precision"],
        model=_model(metrics["config"]),
        total_s=total_s,
        outside_s=max(total_s - window["wall_time_sec"] - metrics["startup"]["warmup_sec"], 0.0) / ranks_per_core,
        flops=ranks_per_core * work_flop / window["wall_time_sec"] / (int(nodes) * int(per_node)),
    )


def _model(config: dict[str, Any]) -> str:
    """Return the model of a configuration, as a text that is equal for the same model."""
    return str(config["workload"]["model"])
