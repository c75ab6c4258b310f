"""Reading a run folder."""

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.configurations import changed_keys
from scaleproof.ground.errors import UserError, describe_first_fault, path_fault, shortened
from scaleproof.ground.files import read_regular
from scaleproof.ground.json_faults import read_part
from scaleproof.ground.records.metrics import Failed, Measured, Timed, parse_metrics
from scaleproof.ground.records.recomputed_window import WindowFigures, merge_steps, window_figures
from scaleproof.ground.records.steps import loss_series, median, read_steps, step_ends_s, window_steps
from scaleproof.ground.records.watched import watched_folder
from scaleproof.ground.snakemake_command import (
    MEASURED_BESIDE,
    RESULTS,
    make_again_command,
    results_option,
    snakemake_command,
)

METRICS = "training_metrics.json"
BEGIN_OF_METRICS = rb'"schema_version": *"[3-9]\.'  # pattern of what this program, or a newer one, writes
STEPS = "steps.csv"
LAUNCHER = "launcher_metadata.json"
COMPLETE = "RUN_COMPLETE.txt"
LOG = "train.log"
CAPTURE_LOG = "capture.log"
BENCHMARK = "benchmark.tsv"  # of Snakemake: the seconds of the run's job
METRICS_SEAL = "metrics_sha256"  # in launcher_metadata.json: of the metrics as they were written
MANIFEST = "manifest.json"  # written with the report, of all files
CAPTURE = "capture.json"  # of a traced run, in a folder of its own
PAIRS = "pairs.json"  # of a comparison: its pairs of runs, each in a folder beside it


class DamagedMetrics(UserError):
    """A metrics file that is there and is not of schema 3."""


@dataclass(frozen=True, eq=False)
class Run:
    """One run: its folder, its metrics, and its raw series, read when asked for. Equal to itself alone."""

    folder: Path
    metrics: Timed | Failed
    label: str | None = None  # of an arm of a pair: both arms of an A/A pair have one cell and one number

    @property
    def name(self) -> str:
        """What findings and tables call this run: CELL/repN, or its `label`."""
        return self.label or f"{self.metrics.cell}/rep{self.metrics.repeat}"

    @property
    def ok(self) -> bool:
        """Whether this run has numbers."""
        return isinstance(self, TimedRun)

    @cached_property
    def steps(self) -> np.ndarray:
        """The rows of steps.csv. Raises UserError where the file is not the one that the metrics belong to."""
        return read_steps(self.steps_file().decode())

    def steps_file(self) -> bytes:
        """Return the bytes of steps.csv. Raises UserError where it is not the file that the metrics belong to."""
        path = self.folder / STEPS
        fault = f"{path}: no such file"
        if path.exists():
            data = read_regular(path)
            if hashlib.sha256(data).hexdigest() == self.metrics.files.get(STEPS):
                return data
            fault = f"{path} is not the file that {METRICS} beside it describes (its sha256 differs)"
        command = retry_command_of_run(path.parent, self.metrics.campaign)
        raise UserError(f"{fault}; measure it again: {command}")

    @cached_property
    def window(self) -> dict[str, np.ndarray]:
        """Column of steps.csv -> its values over all ranks, one for each timed step; see `window_steps`."""
        return window_steps(self.steps)

    @cached_property
    def step_times(self) -> np.ndarray:
        return self.window["step_time_s"]

    @cached_property
    def median_step_s(self) -> float:
        """The median time of the steps of the window, in seconds."""
        return median(self.step_times)

    @cached_property
    def losses(self) -> np.ndarray:
        """The loss of every step over all ranks, warm-up included."""
        return loss_series(self.steps)

    @cached_property
    def elapsed(self) -> np.ndarray:
        """Seconds since the window began, at the end of each of its steps."""
        return step_ends_s(self.steps)

    @cached_property
    def waits(self) -> np.ndarray:
        """Seconds that each rank waited for data, in each step, warm-up included."""
        return np.ascontiguousarray(self.steps["data_wait_s"])

    def take_series(self, **series: Any) -> None:
        """Fill the cached properties of these names with values that were read for many runs at once."""
        vars(self).update(series)


@dataclass(frozen=True, eq=False)
class TimedRun(Run):
    """A run with numbers, of any evidence level."""

    metrics: Timed

    @property
    def geometry(self) -> tuple[int, int]:
        """Nodes, and devices on each, as configured."""
        nodes, per_node = map(int, self.metrics.config["execution"]["geometry"].split("x"))  # "2x4"
        return nodes, per_node

    @cached_property
    def recomputed(self) -> WindowFigures:
        """Figures of the window, computed again from the raw series. Raises UserError as `steps` does."""
        rows = self.steps[self.steps["phase"] == "window"]
        merged = merge_steps((step, *figures) for _phase, step, _rank, *figures in rows.tolist())
        return window_figures(merged, self.metrics.window.wall_time_s)


@dataclass(frozen=True, eq=False)
class MeasuredRun(TimedRun):
    """A run of the trainer with numbers."""

    metrics: Measured

    @property
    def n_devices(self) -> int:
        """How many devices came up, over all ranks."""
        return self.metrics.n_devices

    @property
    def is_on_cpus(self) -> bool:
        return self.metrics.ranks[0]["device_name"] == "cpu"

    @property
    def is_classifier(self) -> bool:
        """Whether this run trained a classifier of documents, not a model of language."""
        return self.metrics.config["workload"].get("task") == "classification"


def measured_runs(runs: Iterable[Run]) -> list[MeasuredRun]:
    """Return the runs of the trainer that have numbers, in their order."""
    return [run for run in runs if isinstance(run, MeasuredRun)]


def timed_runs(runs: Iterable[Run]) -> list[TimedRun]:
    """Return the runs that have numbers, of any evidence level, in their order."""
    return [run for run in runs if isinstance(run, TimedRun)]


def retry_command(campaign: Path, cells: Iterable[str], results: Path = RESULTS, beside: Collection[Path] = ()) -> str:
    """Return the shell command that repeats `cells` and remakes the report, even where Snakemake takes them for done.

    `campaign`: its file; `cells`: also single runs, CELL/repK; none: all that failed or are damaged. `results`: the
    folder that has its results. `beside`: files that are measured again with them.
    """
    options = "".join(f" --cell {cell}" for cell in cells)
    report = results / campaign.stem / "report.html"
    again = make_again_command(report, beside) if beside else snakemake_command(report)
    return f"scaleproof retry {campaign}{options}{results_option(results)} && {again}"


def pairs_again_command(folder: Path, pairs: Iterable[str] = ()) -> str:
    """Return the shell command that measures pairs of a comparison again, those that do not fit its campaign any more.

    `folder`: results/NAME/compare/COMPARISON. `pairs`: names of its pairs that are damaged, and so removed before.
    """
    removed = " ".join(str(folder / pair) for pair in pairs)
    again = make_again_command(folder.parents[1] / "report.html", [folder / PAIRS])
    return f"rm -r {removed} && {again}" if removed else again


def beside_again(folder: Path, files: Iterable[str]) -> Iterator[str]:
    """Yield what to do about files that were measured beside the runs, and are missing, changed or damaged.

    `files`: relative to the `folder` of a campaign's results; others among them do not count.
    """
    paths = [Path(file) for file in files if file.split("/")[0] in MEASURED_BESIDE]
    pairs = [path for path in paths if path.parts[0] == "compare"]  # compare/COMPARISON/pair1/a/steps.csv
    for comparison in dict.fromkeys(path.parts[1] for path in pairs):
        place = folder / "compare" / comparison
        names = sorted({path.parts[2] for path in pairs if path.parts[1] == comparison and len(path.parts) > 3})
        command = pairs_again_command(place, [name for name in names if (place / name).is_dir()])
        yield f"Restore compare/{comparison}, or make again: {command}"
    if others := dict.fromkeys(path for path in paths if path not in pairs):
        # No rule makes the log and the benchmark of a trace alone.
        made = dict.fromkeys(
            folder / (path if path.suffix in (".json", ".csv") else path.with_name(CAPTURE)) for path in others
        )
        command = make_again_command(folder / "report.html", made)
        yield f"Restore {shortened(', '.join(map(str, others)), 200)}, or make again: {command}"


def keep_command(campaign: Path, results: Path) -> str:
    """Return the shell command that has Snakemake take a campaign's finished runs as they are."""
    return f"scaleproof keep {campaign}{results_option(results)}"


def retry_command_of_run(folder: Path, campaign: str = "", whole_cell: bool = False) -> str:
    """Return the shell command that repeats the run in `folder`. `campaign`: what the run's record says.

    A run in results/NAME/runs/CELL/REPEAT is of the campaign NAME, whatever its record says; one of a pair is repeated
    with the whole pair; for other folders the command names no run. `whole_cell`: measure the others of its cell, too.
    """
    results, runs = RESULTS, []
    if len(folder.parents) > 3 and folder.parents[2].name == "compare":  # .../compare/COMPARISON/pair1/a
        return pairs_again_command(folder.parents[1], [folder.parent.name])
    if len(folder.parents) > 3 and folder.parents[1].name == "runs":
        campaign, results = folder.parents[2].name, folder.parents[3]
        runs = [folder.parent.name if whole_cell else f"{folder.parent.name}/{folder.name}"]
    return retry_command(Path(f"config/campaigns/{campaign}.yaml"), runs, results)


def undo_text(campaign: Path | str) -> str:
    """Return what keeps the runs of a campaign whose file was changed. `campaign`: its file."""
    return f"to keep the old ones: undo the change in {campaign}, and make it in a copy of the file under another name"


def read_planned(folder: Path, cell: Cell, repeat: int) -> Run:
    """Return the run in `folder`. Raises UserError unless it is the one of `cell` that was planned there."""
    run = read_run(folder)
    metrics = run.metrics
    if (metrics.cell, metrics.repeat, metrics.fingerprint) != (cell.slug, repeat, cell.fingerprint):
        is_another_run = (metrics.cell, metrics.repeat) != (cell.slug, repeat)
        keys = changed_keys(metrics.config, cell.config)
        actual = run.name if is_another_run else f"a run of another configuration{keys and f' ({keys})'}"
        # With another configuration, all runs of the cell have it.
        command = retry_command_of_run(folder, metrics.campaign, whole_cell=not is_another_run)
        advice = "" if is_another_run else f"\n  {undo_text(f'config/campaigns/{metrics.campaign}.yaml')}"
        planned = f"the campaign plans {cell.slug}/rep{repeat} there"
        raise UserError(f"{folder / METRICS} is {actual}; {planned}. Measure it again: {command}{advice}")
    return run


def _elsewhere_text(folder: Path) -> str:
    """Return that the run of `folder` stands in another folder of its campaign, by the records there; else ""."""
    name = f"{folder.parent.name}/{folder.name}"
    for path in folder.parents[1].glob(f"*/{folder.name}/{METRICS}"):
        if read_part(path, lambda content: f"{content['cell']}/rep{content['repeat']}") == name:
            return f"; it is in {path.parent}: was the folder renamed? Name it as it was"
    return ""


def read_run(folder: Path) -> Run:
    """Return the run in `folder`. Raises UserError without metrics, DamagedMetrics for metrics not of schema 3."""
    path = folder / METRICS
    try:
        metrics = parse_metrics(read_regular(path))
    except FileNotFoundError:
        raise UserError(f"{path}: no such file; there is no run in this folder{_elsewhere_text(folder)}") from None
    except UserError as error:  # no regular file
        raise DamagedMetrics(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise DamagedMetrics(f"{path} is not a metrics file of schema 3: {describe_first_fault(error)}") from None
    if isinstance(metrics, Measured):
        return MeasuredRun(folder, metrics)
    return TimedRun(folder, metrics) if isinstance(metrics, Timed) else Run(folder, metrics)


def has_record(folder: Path) -> bool:
    """Return whether a run left its record in `folder`, damaged or not: it may be a link that leads nowhere."""
    return os.path.lexists(folder / METRICS)


def metrics_files(folder: Path) -> list[Path]:
    """Return all metrics files below a folder, by path."""
    return sorted(folder.rglob(f"{METRICS[:-1]}[n]"))  # by a pattern: a whole name leaves out links that lead nowhere


def read_runs(folder: Path) -> list[Run]:
    """Return all runs below a folder, by path. Raises UserError where there is none, or one is damaged."""
    files = metrics_files(folder)  # below `together` is a run that was made with others; `runs` has its copy
    folders = [file.parent for file in files if "together" not in file.relative_to(folder).parts]
    if not folders:
        if folder.is_dir():
            next(folder.iterdir(), None)  # raises where this user may not look into it, which `rglob` does not
        fault = path_fault(folder) or f": no run below; a run is a folder with {METRICS}"
        if watched := watched_folder(folder):
            fault = (
                f" is a record of scaleproof.watch, not a run; `scaleproof watched {watched}` reads it, and the lines "
            )
            fault += "of pandas that docs/python.md has for it"
        raise UserError(f"{folder}{fault}")
    return [read_run(place) for place in folders]
