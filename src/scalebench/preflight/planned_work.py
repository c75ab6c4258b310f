"""Everything that a campaign will run, counted, and a rough estimate of its time."""

import math
from dataclasses import dataclass
from pathlib import Path

from scalebench.campaign.cells import Cell
from scalebench.campaign.loaded import LoadedCampaign
from scalebench.errors import UserError, plural
from scalebench.machine.gpus import Gpu, cuda_devices
from scalebench.model.peaks import peak
from scalebench.preflight.requirements import counts_of
from scalebench.record.run import METRICS, read_run
from scalebench.reference.schema import workload_name

START_S = 12.0  # processes, imports, tokens, warm-up of the libraries: seen on laptops
CORE_FLOPS = 1.5e10  # fp32 of one core with torch on GPT-2 shapes of a campaign for CPUs
PEAK_SHARE = 0.3  # of a GPU's peak; large models reach more, small ones less
UNKNOWN_GPU_FLOPS = 2e13
ENOUGH = 3  # finished runs from which the others are estimated


@dataclass(frozen=True)
class Planned:
    """How many runs of each kind a campaign makes, and how long they may take."""

    timed: int  # with `repeats.resolve` at most
    fewest: int  # timed runs before the first look at the results
    compared: int  # runs in the pairs of A/B comparisons
    traced: int
    replayed: int  # workloads whose first steps are replayed as a reference
    swept: int  # groups of devices in which collectives are timed
    seconds: float
    basis: str  # what the estimate rests on

    @property
    def text(self) -> str:
        """One sentence: "18 timed runs, 24 runs in A/B pairs and 1 trace: about 15 minutes (...)"."""
        several = f"{self.fewest:,} to " if self.fewest < self.timed else ""
        parts = [several + plural(self.timed, "timed run")]
        parts += [plural(self.compared, "run") + " in A/B pairs"] if self.compared else []
        parts += [plural(self.traced, "trace")] if self.traced else []
        parts += [plural(self.replayed, "reference")] if self.replayed else []
        parts += [plural(self.swept, "sweep of collectives", "sweeps of collectives")] if self.swept else []
        counts = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
        most = "at most " if several else ""
        return f"{counts}: {most}about {duration(self.seconds)} one after the other ({self.basis})"


def planned_work(loaded: LoadedCampaign, results: Path) -> Planned:
    """Count the runs of a campaign and estimate their time: from its finished runs, else from its work."""
    repeats = loaded.campaign.most_repeats
    pairs = [(c.pairs + c.null_pairs, a, b) for c, a, b in loaded.comparisons.values()]
    compared = sum(2 * number for number, _, _ in pairs)
    finished = _finished_s(loaded, results)
    timed = len(loaded.cells) * repeats
    if len(finished) >= ENOUGH:
        mean_s = sum(finished) / len(finished)
        seconds = mean_s * (timed + compared + len(loaded.traced))
        basis = f"estimated from {plural(len(finished), 'finished run')}"
    else:
        gpus = cuda_devices()
        seconds = sum(_run_s(cell, gpus) for cell in loaded.cells) * repeats
        seconds += sum(number * (_run_s(a, gpus) + _run_s(b, gpus)) for number, a, b in pairs)
        seconds += sum(_run_s(cell, gpus) for cell in loaded.traced)
        basis = f"a guess from FLOPs, with {START_S:g} s of start-up per run; a single run may differ by a factor of 3"
    forecast = loaded.campaign.forecast
    swept = len(loaded.communicating_groups) if forecast.enabled and forecast.launches else 0
    replayed = len({workload_name(cell.config) for cell in loaded.cells})
    seconds += START_S * (swept + replayed)
    fewest = len(loaded.cells) * loaded.campaign.fewest_repeats
    return Planned(timed, fewest, compared, len(loaded.traced), replayed, swept, seconds, basis)


def duration(seconds: float) -> str:
    """As people say it: 40 seconds, 8 minutes, 2.5 hours, 3 days."""
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 1.5 * size:
            amount = seconds / size
            number = f"{amount:.1f}".removesuffix(".0") if amount < 10 and unit != "minute" else f"{amount:,.0f}"
            return f"{number} {unit}s"
    return plural(math.ceil(seconds), "second")


def _finished_s(loaded: LoadedCampaign, results: Path) -> list[float]:
    """Seconds of the campaign's measured runs, from start to metrics; damaged ones are for others to name."""
    seconds = []
    for folder in loaded.runs(results):
        if not (folder / METRICS).is_file():
            continue
        try:
            metrics = read_run(folder).metrics
        except (UserError, OSError):
            continue
        if metrics.status == "ok":
            seconds.append(metrics.total_wall_time_s)
    return seconds


def _run_s(cell: Cell, gpus: list[Gpu]) -> float:
    """Seconds of one run by its FLOPs, at most the model's; unknown shapes count as start-up alone."""
    counts = counts_of(cell)
    if counts is None:
        return START_S
    tokens = (cell.work.steps + cell.work.warmup_steps) * cell.batch.global_ * cell.workload.seq_len
    on_gpu = cell.execution.device == "cuda" or (cell.execution.device == "auto" and bool(gpus))
    if on_gpu:
        known = peak(gpus[0].name, cell.execution.precision) if gpus else None
        rate = PEAK_SHARE * (known.flops if known else UNKNOWN_GPU_FLOPS)
    else:
        rate = CORE_FLOPS * cell.execution.threads_per_device
    return START_S + counts.flops_per_token * tokens / (rate * cell.execution.geometry.n_devices)
