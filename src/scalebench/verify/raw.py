"""The raw files of a campaign: `training_metrics.json` and `steps.csv` of every run, read with json and csv alone."""

import csv
import hashlib
import json
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalebench.errors import first_fault, printable

METRICS = "training_metrics.json"
STEPS = "steps.csv"
COLUMNS = ("phase", "step", "rank", "step_time_s", "data_wait_s", "loss", "samples", "tokens")  # of steps.csv

# What reading a damaged file raises.
DAMAGES = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)


@dataclass(frozen=True)
class Difference:
    """Something that is not what the raw files say. `file` is relative to the campaign's folder."""

    file: str
    where: str
    problem: str

    def __str__(self) -> str:
        text = f"{self.file}: {f'{self.where}: ' if self.where else ''}{self.problem}"
        return printable(text.replace("\u00a0", " "))  # tables keep an interval on one line with it


@dataclass(frozen=True)
class Step:
    """One optimizer step over all ranks: times are those of the slowest rank, the loss is the mean over samples."""

    seconds: float
    data_wait_s: float
    loss: float
    samples: int
    tokens: int


@dataclass(frozen=True)
class RawRun:
    """`path`: of the metrics, relative to the campaign's folder. `window` and `warmup`: steps in their order."""

    path: str
    sha256: str
    metrics: dict[str, Any]
    window: list[Step]
    warmup: list[Step]
    ends: list[float]  # seconds since the window began at the end of each of its steps

    @property
    def cell(self) -> str:
        return str(self.metrics["cell"])

    @property
    def name(self) -> str:
        return f"{self.cell}/rep{self.metrics['repeat']}"

    @property
    def ok(self) -> bool:
        return bool(self.metrics["status"] == "ok")


def read_runs(folder: Path, pattern: str = "runs/*/rep*") -> tuple[list[RawRun], list[Difference]]:
    """All runs under `folder`, and what is wrong with their files."""
    runs: list[RawRun] = []
    differences: list[Difference] = []
    for place in sorted(folder.glob(pattern)):
        relative = f"{place.relative_to(folder)}/{METRICS}"
        try:
            runs.append(_read(place, relative))
        except FileNotFoundError as error:
            differences.append(Difference(relative, "", f"{Path(error.filename).name} is missing"))
            continue
        except DAMAGES as error:
            differences.append(Difference(relative, "", f"not readable: {first_fault(error)}"))
            continue
        differences += _inside(runs[-1], place)
    return runs, differences


def _read(place: Path, relative: str) -> RawRun:
    data = (place / METRICS).read_bytes()
    metrics = json.loads(data)
    window, warmup, ends = _steps(place / STEPS)
    for key in ("cell", "repeat", "status", "files"):
        metrics[key]
    return RawRun(relative, hashlib.sha256(data).hexdigest(), metrics, window, warmup, ends)


def _steps(path: Path) -> tuple[list[Step], list[Step], list[float]]:
    """Steps of the window and of the warm-up, and the end of each step of the window by the slowest rank's clock."""
    parts: dict[str, dict[int, list[tuple[float, ...]]]] = {"window": defaultdict(list), "warmup": defaultdict(list)}
    clocks: dict[int, float] = defaultdict(float)
    ends: dict[int, float] = {}
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        heading = next(lines, [])
        if not heading:
            raise ValueError(f"{path.name} is empty")
        if absent := [name for name in COLUMNS if name not in heading]:
            raise ValueError(f"{path.name} has no column {', '.join(absent)}")
        places = [heading.index(name) for name in COLUMNS]
        for line in lines:
            if not line:
                continue
            if len(line) != len(heading):
                raise ValueError(
                    f"{path.name}, line {lines.line_num}: {len(line)} values, not {len(heading)}; cut off?"
                )
            phase, *figures = (line[place] for place in places)
            step = int(figures[0])
            rank = int(figures[1])
            seconds = float(figures[2])
            entry = (seconds, float(figures[3]), float(figures[4]), int(figures[5]), int(figures[6]))
            parts[phase][step].append(entry)
            if phase == "window":
                clocks[rank] += seconds
                ends[step] = max(ends.get(step, 0.0), clocks[rank])
    merged = {phase: [_merge(steps[k]) for k in sorted(steps)] for phase, steps in parts.items()}
    return merged["window"], merged["warmup"], [ends[k] for k in sorted(ends)]


def _merge(rows: list[tuple[float, ...]]) -> Step:
    seconds, waits, losses, samples, tokens = zip(*rows, strict=True)
    total = sum(samples)
    loss = math.fsum(a * n for a, n in zip(losses, samples, strict=True)) / total
    return Step(max(seconds), max(waits), loss, int(total), int(sum(tokens)))


def _inside(run: RawRun, place: Path) -> list[Difference]:
    """Whether the metrics are those of the steps, to the nine digits that steps.csv has."""
    steps_file = run.path.replace(METRICS, STEPS)
    expected = run.metrics["files"].get(STEPS)
    if not run.ok and expected is None:
        return []
    sha256 = hashlib.sha256((place / STEPS).read_bytes()).hexdigest()
    if expected != sha256:
        return [Difference(steps_file, "sha256", f"is {sha256[:12]}, but {METRICS} says {str(expected)[:12]}")]
    if not run.ok:
        return []
    window, times = run.metrics["window"], [step.seconds for step in run.window]
    tokens = sum(step.tokens for step in run.window)
    rate = tokens / window["wall_time_sec"]
    figures = {
        "optimizer_steps": (window["optimizer_steps"], len(times) - window["skipped_optimizer_steps"]),
        "step_time_n": (window["step_time_n"], len(times)),
        "tokens_processed_global": (window["tokens_processed_global"], tokens),
        "tokens_per_sec_global": (window["tokens_per_sec_global"], rate),
        "step_time_mean_sec": (window["step_time_mean_sec"], math.fsum(times) / len(times)),
        "step_time_p50_sec": (window["step_time_p50_sec"], quantile(times, 0.5)),
        "step_time_min_sec": (window["step_time_min_sec"], min(times)),
        "step_time_max_sec": (window["step_time_max_sec"], max(times)),
        "train_loss_first": (window["train_loss_first"], run.window[0].loss),
        "train_loss_last": (window["train_loss_last"], run.window[-1].loss),
    }
    problems = []
    for name, (stated, computed) in figures.items():
        if not close(stated, computed, 1e-5):
            problems.append(Difference(run.path, f"window.{name}", f"is {stated}, but {STEPS} gives {computed:.9g}"))
    return problems


def quantile(values: list[float], part: float) -> float:
    """By linear interpolation between the two nearest of the sorted values."""
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def close(a: Any, b: Any, tolerance: float = 1e-9) -> bool:
    """Equal to a relative `tolerance`; None equals None alone."""
    if a is None or b is None:
        return a is b
    return math.isclose(float(a), float(b), rel_tol=tolerance, abs_tol=1e-12)
