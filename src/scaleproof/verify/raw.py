"""The raw files of a campaign: `training_metrics.json` and `steps.csv` of every run, read with json and csv alone."""

import csv
import hashlib
import io
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from scaleproof.ground.errors import first_fault, printable
from scaleproof.ground.files import read_regular
from scaleproof.ground.number_format import significant
from scaleproof.ground.records.metrics import current_names, parse_metrics
from scaleproof.ground.records.recomputed_window import Row, Step, merged_steps, window_figures
from scaleproof.ground.records.run_sections import Window
from scaleproof.verify.contents import DAMAGES, parsed_json

Parsed = TypeVar("Parsed")
METRICS = "training_metrics.json"
STEPS = "steps.csv"
COLUMNS = ("phase", "step", "rank", "step_time_s", "data_wait_s", "loss", "samples", "tokens")  # of steps.csv
PHASES = ("window", "warmup")
PLACES = "runs/*/rep*"  # of the runs in a campaign's folder


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
class RawRun:
    """`path`: of the metrics, relative to the campaign's folder. `window` and `warmup`: steps in their order."""

    path: str
    sha256: str
    metrics: dict[str, Any]
    window: list[Step]
    warmup: list[Step]
    ends: list[float]  # seconds since the window began at the end of each of its steps
    steps_sha256: str

    @property
    def cell(self) -> str:
        return str(self.metrics["cell"])

    @property
    def name(self) -> str:
        return f"{self.cell}/rep{self.metrics['repeat']}"

    @property
    def ok(self) -> bool:
        return bool(self.metrics["status"] == "ok")


def read_runs(folder: Path, pattern: str = PLACES) -> tuple[list[RawRun], list[Difference]]:
    """All runs under `folder`, and what is wrong with their files."""
    runs: list[RawRun] = []
    differences: list[Difference] = []
    for place in sorted(folder.glob(pattern)):
        relative = str(place.relative_to(folder))
        try:
            run = _read(place, relative)
            if pattern == PLACES and run.name != f"{place.parent.name}/{place.name}":
                raise _Damaged(METRICS, f"is the record of {run.name}")
            problems = _inside(run)
        except _Damaged as damaged:
            differences.append(Difference(f"{relative}/{damaged.file}", "", damaged.problem))
            continue
        except DAMAGES as error:
            differences.append(Difference(f"{relative}/{METRICS}", "", f"not readable: {first_fault(error)}"))
            continue
        runs.append(run)
        differences += problems
    return runs, differences


def cells_at_fault(differences: Iterable[Difference]) -> set[str]:
    """The cells with a run whose own files are at fault: nothing follows from them."""
    places = [Path(difference.file).parts for difference in differences]  # runs/<cell>/<repeat>/<file>
    return {place[1] for place in places if place[0] == "runs" and len(place) == 4}


class _Damaged(Exception):
    """A file of a run that cannot be read."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(problem)
        self.file, self.problem = file, problem


def _content(place: Path, file: str, parse: Callable[[bytes], Parsed]) -> tuple[Parsed, str]:
    """What `parse` makes of a file of the run in `place`, and the file's sha256. Raises _Damaged."""
    try:
        data = read_regular(place / file)
        return parse(data), hashlib.sha256(data).hexdigest()
    except FileNotFoundError:
        raise _Damaged(file, "is missing") from None
    except DAMAGES as error:
        problem = first_fault(error).removeprefix(f"{place / file}").strip()
        raise _Damaged(file, f"not readable: {problem}") from None


def _metrics(data: bytes) -> dict[str, Any]:
    """The metrics as they stand in the file, which must be of our schema."""
    metrics: dict[str, Any] = parsed_json(data)
    if not isinstance(metrics, dict):
        raise TypeError(f"{METRICS} is no object")
    parse_metrics(data)
    metrics["env"] = current_names(metrics.get("env") or {})
    return metrics


def _read(place: Path, relative: str) -> RawRun:
    metrics, sha256 = _content(place, METRICS, _metrics)
    (window, warmup, ends), sha256_of_steps = _content(place, STEPS, _steps)
    return RawRun(f"{relative}/{METRICS}", sha256, metrics, window, warmup, ends, sha256_of_steps)


def _steps(data: bytes) -> tuple[list[Step], list[Step], list[float]]:
    """Steps of the window and of the warm-up, and the end of each step of the window by the slowest rank's clock."""
    parts: dict[str, list[Row]] = {phase: [] for phase in PHASES}
    clocks: dict[int, float] = defaultdict(float)
    ends: dict[int, float] = {}
    lines = csv.reader(io.StringIO(data.decode(), newline=""))
    heading = next(lines, [])
    if not heading:
        raise ValueError(f"{STEPS} is empty")
    if absent := [name for name in COLUMNS if name not in heading]:
        raise ValueError(f"{STEPS} has no column {', '.join(absent)}")
    places = [heading.index(name) for name in COLUMNS]
    for line in lines:
        if not line:
            continue
        if len(line) != len(heading):
            raise ValueError(f"{STEPS}, line {lines.line_num}: {len(line)} values, not {len(heading)}; cut off?")
        try:
            phase, rank, row = _row([line[place] for place in places])
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{STEPS}, line {lines.line_num}: {error}") from None
        parts[phase].append(row)
        if phase == "window":
            step, seconds = row[:2]
            clocks[rank] += seconds
            ends[step] = max(ends.get(step, 0.0), clocks[rank])
    return merged_steps(parts["window"]), merged_steps(parts["warmup"]), [ends[step] for step in sorted(ends)]


def _row(values: list[str]) -> tuple[str, int, Row]:
    """Phase, rank, and the step of this rank. Raises ValueError. The loss of a run that failed may be NaN."""
    try:
        phase, *numbers = values
        step, rank, samples, tokens = (int(number) for number in (*numbers[:2], *numbers[-2:]))
        seconds, wait, loss = (float(number) for number in numbers[2:-2])
        sound = 0 < seconds < math.inf and abs(wait) < math.inf and step >= 0 <= rank and samples > 0 < tokens
    except ValueError:
        sound = False
    if not sound or phase not in PHASES:
        raise ValueError(f"{', '.join(values)[:200]} is no row of {', '.join(COLUMNS)}")
    return phase, rank, (step, seconds, wait, loss, samples, tokens)


def _inside(run: RawRun) -> list[Difference]:
    """Whether the metrics are those of the steps, to the nine digits that steps.csv has, and of one configuration."""
    steps_file = run.path.replace(METRICS, STEPS)
    expected = run.metrics["files"].get(STEPS)
    if not run.ok and expected is None:
        return []
    if expected != run.steps_sha256:
        problem = f"is {run.steps_sha256[:12]}, but {METRICS} says {str(expected)[:12]}"
        return [Difference(steps_file, "sha256", problem)]
    if run.metrics["fingerprint"] != fingerprint_of(run.metrics["config"]):
        return [Difference(run.path, "fingerprint", "is not that of the configuration beside it")]
    if not run.ok:
        return []
    if not run.window:
        return [Difference(steps_file, "", "has no step of the window")]
    printed = run.metrics.get("evidence") in ("printed", "watched")  # programs need not print a loss
    if not printed and not all(math.isfinite(step.loss) for step in (*run.warmup, *run.window)):
        return [Difference(steps_file, "loss", "is not a finite number everywhere")]
    window = run.metrics["window"]
    figures = vars(window_figures(run.window, window["wall_time_sec"]))
    if printed:
        figures = {name: None if figures[name] != figures[name] else figures[name] for name in figures}
        del figures["data_wait_mean_s"]
    else:
        figures["optimizer_steps"] = len(run.window) - window["skipped_optimizer_steps"]
    problems = []
    for field, computed in figures.items():
        name = Window.model_fields[field].alias or field  # as it stands in the file
        if not close(window[name], computed, 1e-5):
            gives = "none" if computed is None else significant(computed, 9)
            problems.append(Difference(run.path, f"window.{name}", f"is {window[name]}, but {STEPS} gives {gives}"))
    return problems


def fingerprint_of(config: dict[str, Any]) -> str:
    """By which two runs of one configuration are known."""
    text = json.dumps(config, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def flat(content: Mapping[str, object], at: str = "") -> Iterator[tuple[str, object]]:
    """The values of nested dictionaries under their dotted names."""
    for key, value in content.items():
        if isinstance(value, dict):
            yield from flat(value, f"{at}{key}.")
        else:
            yield f"{at}{key}", value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def close(a: Any, b: Any, tolerance: float = 1e-9) -> bool:
    """Equal to a relative `tolerance`; None equals None alone, and what is no number equals nothing."""
    if a is None or b is None:
        return a is b
    if not _is_number(a) or not _is_number(b):
        return False
    return math.isclose(float(a), float(b), rel_tol=tolerance, abs_tol=1e-12)
