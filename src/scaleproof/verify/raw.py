"""The raw files of a campaign: `training_metrics.json` and `steps.csv` of every run, read with json and csv alone.

The window of a run are its timed steps, after its warm-up.
"""

import csv
import hashlib
import io
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from scaleproof.ground.campaign.cells import fingerprint_of
from scaleproof.ground.errors import describe_first_fault, plural, printable
from scaleproof.ground.files import read_regular
from scaleproof.ground.json_faults import UNREADABLE, fault_of_heading
from scaleproof.ground.number_format import significant
from scaleproof.ground.records.metrics import current_names, parse_metrics
from scaleproof.ground.records.recomputed_window import Row, Step, merge_steps, window_figures
from scaleproof.ground.records.run import LAUNCHER, LOG, METRICS_SEAL
from scaleproof.ground.records.run_sections import Window
from scaleproof.verify.contents import DAMAGES, as_written, missing_text, parse_json

Parsed = TypeVar("Parsed")
METRICS = "training_metrics.json"
STEPS = "steps.csv"
COLUMNS = ("phase", "step", "rank", "step_time_s", "data_wait_s", "loss", "samples", "tokens")  # of steps.csv
PHASES = ("window", "warmup")
PLACES = "runs/*/rep*"  # of the runs in a campaign's folder
TOLERANCE = 1e-6  # relative, of a recomputed figure: sums and quantiles are of other code
TOLERANCE_OF_STEPS = 1e-5  # relative, of a figure from the nine digits of steps.csv


@dataclass(frozen=True)
class Difference:
    """Something that is not what the raw files say.

    `file`: relative to the campaign's folder; `where`: the field or row in it, "" for the whole file; `problem`: the
    rest of the sentence; `former_name`: of a folder that was renamed since, else "".
    """

    file: str
    where: str
    problem: str
    former_name: str = ""

    def __str__(self) -> str:
        parts = [self.file, self.where, self.problem] if self.where else [self.file, self.problem]
        return printable(": ".join(parts).replace("\u00a0", " "))  # tables keep an interval on one line with it


@dataclass(frozen=True)
class RawRun:
    """One run as its raw files have it.

    `path`, `sha256`: of the metrics, relative to the campaign's folder. `window` and `warmup`: steps in their order.
    """

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
    def tokens(self) -> float:
        """Tokens of the window."""
        return float(self.metrics["window"]["tokens_processed_global"])

    @property
    def seconds(self) -> float:
        """Seconds of the window."""
        return float(self.metrics["window"]["wall_time_sec"])

    @property
    def job_seconds(self) -> float:
        """Seconds of the whole run."""
        return float(self.metrics["total_wall_time_sec"])

    @property
    def nodes(self) -> int:
        return int(self.metrics["config"]["execution"]["geometry"].split("x")[0])

    @property
    def devices(self) -> int:
        """Devices of all nodes."""
        return self.nodes * int(self.metrics["config"]["execution"]["geometry"].split("x")[1])

    @property
    def batch(self) -> int | None:
        """Samples of a step; for a command its `per_step` (samples, tokens or steps), None where it is not stated."""
        if "reading" in self.metrics:
            per_step = self.metrics["reading"]["per_step"]
            return None if per_step is None else round(per_step)
        return int(self.metrics["config"]["work"]["global_batch"])

    @property
    def ok(self) -> bool:
        return bool(self.metrics["status"] == "ok")


def read_runs(folder: Path, pattern: str = PLACES) -> tuple[list[RawRun], list[Difference]]:
    """Return all readable runs in `folder`, and the faults of all runs' files. `pattern`: glob of the runs' folders."""
    runs: list[RawRun] = []
    differences: list[Difference] = []
    for run_folder in sorted(folder.glob(pattern)):
        relative = str(run_folder.relative_to(folder))
        try:
            metrics, sha256 = _parse_file(run_folder, METRICS, _parse_metrics)
            (window, warmup, ends), steps_sha256 = _parse_file(run_folder, STEPS, _parse_steps)
            run = RawRun(f"{relative}/{METRICS}", sha256, metrics, window, warmup, ends, steps_sha256)
            if pattern == PLACES and run.name != f"{run_folder.parent.name}/{run_folder.name}":
                raise _Damaged(METRICS, f"is the record of {run.name}")
            launcher = _launcher_of(run_folder)
            inconsistencies = _inconsistencies(run, launcher) or [*_contradictions_of_launcher(launcher, run)]
        except _Damaged as damaged:
            differences.append(Difference(f"{relative}/{damaged.file}", "", damaged.problem))
        except DAMAGES as error:
            differences.append(Difference(f"{relative}/{METRICS}", "", f"{UNREADABLE}: {describe_first_fault(error)}"))
        else:  # a run that can be read is returned, also with inconsistencies
            runs.append(run)
            differences += inconsistencies
    return runs, differences


def rate_of(*runs: RawRun) -> float:
    """Return the tokens/s of some runs: all tokens over all time of their windows."""
    return math.fsum(run.tokens for run in runs) / math.fsum(run.seconds for run in runs)


def cells_at_fault(differences: Iterable[Difference]) -> set[str]:
    """Return the cells with a run whose own files are at fault: no figure follows from them."""
    paths = (Path(difference.file).parts for difference in differences)
    # Paths are runs/<cell>/<repeat>/<file>; the cell is that of the path, also where the folder was renamed.
    return {parts[1] for parts in paths if parts[0] == "runs" and len(parts) > 1}


class _Damaged(Exception):
    """A file of a run that cannot be read."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(problem)
        self.file, self.problem = file, problem


def _parse_file(run_folder: Path, file: str, parse: Callable[[bytes], Parsed]) -> tuple[Parsed, str]:
    """Return what `parse` makes of a file in the folder of a run as it was written, and its sha256. Raises _Damaged."""
    try:
        data = as_written(read_regular(run_folder / file))
        return parse(data), hashlib.sha256(data).hexdigest()
    except FileNotFoundError:
        raise _Damaged(file, missing_text(run_folder / file)) from None
    except DAMAGES as error:
        problem = describe_first_fault(error).removeprefix(f"{run_folder / file}").strip()
        raise _Damaged(file, f"{UNREADABLE}: {problem}") from None


def _parse_metrics(data: bytes) -> dict[str, Any]:
    """Return the metrics in `data`, as JSON, with today's names of versions. Raises where they have another schema."""
    data = data.rstrip()  # without the end of line that `as_written` adds: a cut text stops where it was cut
    metrics: dict[str, Any] = parse_json(data)
    if not isinstance(metrics, dict):
        raise TypeError(f"{METRICS} is no object")
    parse_metrics(data)  # raises where a field is missing or wrong
    metrics["env"] = current_names(metrics.get("env") or {})
    return metrics


def _parse_steps(data: bytes) -> tuple[list[Step], list[Step], list[float]]:
    """Parse steps.csv into (steps of the window, steps of the warm-up, end of each window step in seconds).

    Ends are in seconds since the window began; a step ends when its slowest rank does. Raises ValueError.
    """
    rows: dict[str, list[Row]] = {phase: [] for phase in PHASES}
    clocks: dict[int, float] = defaultdict(float)  # rank -> seconds since the window began
    ends: dict[int, float] = {}  # step -> seconds since the window began
    lines = csv.reader(io.StringIO(data.decode(), newline=""))
    heading = next(lines, [])
    positions = _positions_of_columns(heading)
    for line in lines:
        if not line:
            continue
        if len(line) != len(heading):
            cause = "a decimal comma?" if len(line) > len(heading) else "cut off?"
            raise ValueError(f"{STEPS}, line {lines.line_num}: {len(line)} values, not {len(heading)}; {cause}")
        try:
            phase, rank, row = _parse_row([line[position] for position in positions])
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{STEPS}, line {lines.line_num}: {error}") from None
        rows[phase].append(row)
        if phase == "window":
            step, seconds, *_ = row
            clocks[rank] += seconds
            ends[step] = max(ends.get(step, 0.0), clocks[rank])
    return merge_steps(rows["window"]), merge_steps(rows["warmup"]), [ends[step] for step in sorted(ends)]


def _positions_of_columns(heading: list[str]) -> list[int]:
    """Return the position of each of COLUMNS in the heading of steps.csv. Raises ValueError where one is absent."""
    if not heading:
        raise ValueError(f"{STEPS} is empty")
    if len(heading) < 2:
        raise ValueError(fault_of_heading(heading[0]))
    if absent := [name for name in COLUMNS if name not in heading]:
        raise ValueError(f"{STEPS} has no column {', '.join(absent)}")
    return [heading.index(name) for name in COLUMNS]


def _parse_row(values: list[str]) -> tuple[str, int, Row]:
    """Return phase, rank and step of a row of steps.csv; a failed run's loss may be NaN. Raises ValueError."""
    fault = f"{', '.join(values)[:200]} is no row of {', '.join(COLUMNS)}"
    phase, *texts = values
    try:
        step_text, rank_text, seconds_text, wait_text, loss_text, samples_text, tokens_text = texts
        step, rank, samples, tokens = map(int, (step_text, rank_text, samples_text, tokens_text))
        seconds, wait, loss = map(float, (seconds_text, wait_text, loss_text))
    except ValueError:
        raise ValueError(fault) from None
    are_times = 0 < seconds < math.inf and abs(wait) < math.inf
    are_counts = step >= 0 and rank >= 0 and samples > 0 and tokens > 0
    if phase not in PHASES or not are_times or not are_counts:
        raise ValueError(fault)
    return phase, rank, (step, seconds, wait, loss, samples, tokens)


def _inconsistencies(run: RawRun, launcher: Mapping[str, Any]) -> list[Difference]:
    """Return where a run's metrics are not those of its steps or configuration: the first fault, as others follow.

    `launcher`: the fields of its launcher_metadata.json, among them the hash that the metrics had.
    """
    steps_file = run.path.replace(METRICS, STEPS)
    expected_sha256 = run.metrics["files"].get(STEPS)
    if not run.ok and expected_sha256 is None:  # it failed before it recorded its steps
        return []
    if expected_sha256 != run.steps_sha256:
        sealed_sha256 = launcher.get(METRICS_SEAL, run.sha256)
        if sealed_sha256 != run.sha256:  # the hash of steps.csv that they state is not to be relied on
            problem = f"is {run.sha256[:12]}, but {LAUNCHER} says {str(sealed_sha256)[:12]}"
            return [Difference(run.path, "sha256", problem)]
        digits = 64 if run.steps_sha256[:12] == str(expected_sha256)[:12] else 12
        problem = f"is {run.steps_sha256[:digits]}, but {METRICS} says {str(expected_sha256)[:digits]}"
        if run.ok and len(run.window) < (steps := run.metrics["window"]["step_time_n"]):
            problem += f"; cut off: it has {len(run.window)} of {plural(steps, 'step')}"
        return [Difference(steps_file, "sha256", problem)]
    if run.metrics["fingerprint"] != fingerprint_of(run.metrics["config"]):
        return [Difference(run.path, "fingerprint", "is not that of the configuration beside it")]
    if not run.ok:  # a failed run has no figures to compare
        return []
    if not run.window:
        return [Difference(steps_file, "", "has no step of the window")]

    is_of_program = run.metrics.get("evidence") in ("printed", "watched")  # such a program need not print a loss
    if not is_of_program and not all(math.isfinite(step.loss) for step in (*run.warmup, *run.window)):
        return [Difference(steps_file, "loss", "is not a finite number everywhere")]
    return _wrong_figures(run, is_of_program)


def _wrong_figures(run: RawRun, is_of_program: bool) -> list[Difference]:
    """Return the figures of a run's window that are not those of its steps, to the nine digits of steps.csv."""
    window = run.metrics["window"]
    figures = vars(window_figures(run.window, window["wall_time_sec"]))
    if is_of_program:
        # NaN, the only figure that differs from itself, stands for a loss that was not printed.
        figures = {name: None if figure != figure else figure for name, figure in figures.items()}
        del figures["data_wait_mean_s"]  # a program from outside does not tell it
    else:
        figures["optimizer_steps"] = len(run.window) - window["skipped_optimizer_steps"]

    figures["tokens_per_s_per_device"] = figures["tokens_per_s"] / run.devices
    # Where both rates are of another time, and the steps add up to nearly that one, the time is wrong.
    rate, rate_of_all = window["tokens_per_sec_global"], window["tokens_per_sec_per_device"] * run.devices
    steps_s, rates_s = math.fsum(step.seconds for step in run.window), figures["tokens"] / rate
    is_nearer = abs(rates_s - steps_s) < abs(run.seconds - steps_s)
    if (
        is_nearer
        and close(rate, rate_of_all, TOLERANCE_OF_STEPS)
        and not close(rates_s, run.seconds, TOLERANCE_OF_STEPS)
    ):
        problem = f"is {run.seconds}, but by both rates it is {significant(rates_s, 9)}"
        return [Difference(run.path, "window.wall_time_sec", problem)]

    differences = []
    for field, computed in figures.items():
        name = Window.model_fields[field].alias or field  # as it stands in the file
        if not close(window[name], computed, TOLERANCE_OF_STEPS):
            gives = "none" if computed is None else significant(computed, 9)
            differences.append(Difference(run.path, f"window.{name}", f"is {window[name]}, but {STEPS} gives {gives}"))
    return differences


def _contradictions_of_launcher(launcher: Mapping[str, Any], run: RawRun) -> Iterator[Difference]:
    """Yield the fields of launcher_metadata.json that the metrics have too, with another value."""
    metrics = run.metrics
    expected = metrics["env"] | (metrics.get("scheduler") or {})
    expected |= {"rank0_host": metrics["host"]["hostname"], "git_commit": metrics["git_commit"]}
    if metrics.get("ranks"):  # failed runs and commands record none
        expected["world_size"] = len(metrics["ranks"])
    in_both = {name: value for name, value in expected.items() if name in launcher}
    yield from check_values(run.path.replace(METRICS, LAUNCHER), "", launcher, in_both, f"{METRICS} has")


def logs_are_gone(folder: Path) -> bool:
    """Return whether a run in `folder` has no log, which is no evidence and need not be kept."""
    return not all((run / LOG).is_file() for run in folder.glob(PLACES))


def _launcher_of(run_folder: Path) -> dict[str, Any]:
    """Return the fields of a run's launcher_metadata.json; none where it is missing. Raises _Damaged."""
    if not (run_folder / LAUNCHER).is_file():  # the check of the manifest says so
        return {}
    return _parse_file(run_folder, LAUNCHER, _parse_launcher)[0]


def _parse_launcher(data: bytes) -> dict[str, Any]:
    """Return the fields of launcher_metadata.json and those of its sections in one mapping. Raises DAMAGES."""
    launcher: dict[str, Any] = parse_json(data)
    if not isinstance(launcher, dict):
        raise TypeError(f"{LAUNCHER} is no object")
    sections = [section for section in launcher.values() if isinstance(section, dict)]
    return launcher | {name: value for section in sections for name, value in section.items()}


def folder_before(path: str, name: str) -> str:
    """Return the folder before a file, "results/demo/" of "results/demo/runs/ddp-n1x2/rep1/x.json".

    `name`: a name with as many parts as the file has in its results, such as "runs/ddp-n1x2/rep1/x.json".
    """
    parts = path.split("/")
    return path.removesuffix("/".join(parts[-len(name.split("/")) :]))


def check_values(
    file: str, where: str, stated: Any, expected: Any, source: str = "the raw files give", tolerance: float = TOLERANCE
) -> Iterator[Difference]:
    """Yield a difference where `stated` is not `expected`; of mappings, for each field that `expected` has.

    Figures may differ by `tolerance`. `source`: what gives the expected values, with its verb.
    """
    if isinstance(expected, Mapping) and isinstance(stated, Mapping):
        for name, value in expected.items():
            yield from check_values(file, f"{where}, {name}".lstrip(", "), stated.get(name), value, source, tolerance)
        return
    is_equal = close(stated, expected, tolerance) if isinstance(expected, float) else stated == expected
    if not is_equal:
        kind = " (a text)" * (isinstance(stated, str) and isinstance(expected, float))
        yield Difference(file, where, f"is {in_words(stated)}{kind}, {source} {in_words(expected)}")


def in_words(value: Any) -> str:
    """Return a value as it stands in a message: a figure with ten digits, without its interval."""
    if isinstance(value, Mapping):
        return in_words(value.get("value", "something"))
    if isinstance(value, float):
        return significant(value, 10)
    return "none" if value is None else str(value)[:80]


def close(a: Any, b: Any, tolerance: float = 1e-9) -> bool:
    """Return whether two numbers are equal to a relative `tolerance`, or both None; no other value equals anything."""
    if a is None or b is None:
        return a is b
    are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (a, b))
    return are_numbers and math.isclose(float(a), float(b), rel_tol=tolerance, abs_tol=1e-12)
