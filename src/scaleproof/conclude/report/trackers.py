"""The runs of a campaign for experiment trackers, by their own libraries, and its cells as a Prometheus text file.

A library is imported when it is asked for. Names are those of runs.csv; the figures of a whole run begin with `run/`.
The text file is for the textfile collector of a node exporter:
https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from scaleproof.conclude.analysis.run_tables import add_pair_columns, runs_table
from scaleproof.conclude.report.read_results import row_dicts
from scaleproof.ground.columns import COLUMNS
from scaleproof.ground.records.run import Run

GROUPS = ("rate", "figure", "ratio", "learnt")  # of columns that are measured
# Of the value of a label.
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def is_measured(name: str) -> bool:
    """Return whether the column of this name, of runs.csv or cells.csv, holds a figure that was measured."""
    return name in COLUMNS and COLUMNS[name].group in GROUPS and not COLUMNS[name].is_text


def _named(name: str, unit: str) -> str:
    """Return a column's name, or a text on it, with `unit` for "tokens": a command may count samples."""
    return name.replace("tokens", unit)


def prometheus(campaign: str, cells: pd.DataFrame, unit: str = "tokens") -> str:
    """Return a text file for Prometheus: each measured column of `cells` (cells.csv) and its two bounds as gauges.

    A gauge is called `scaleproof_` and the column's name; it has a value for each cell that has one. `unit`: of the
    work that rates count.
    """
    rows = row_dicts(cells)
    lines: list[str] = []
    for column in COLUMNS.values():
        if not is_measured(column.name):
            continue
        unit_text = f" ({column.unit})" if column.unit else ""
        text = _named(f"{column.definition or column.heading or column.name}{unit_text}", unit)
        for suffix, prefix in (("", ""), ("_low", "lower bound: "), ("_high", "upper bound: ")):
            values = {row["cell"]: row.get(f"{column.name}{suffix}") for row in rows}
            lines += _gauge_lines(_named(f"{column.name}{suffix}", unit), prefix + text, campaign, values)
    return "".join(f"{line}\n" for line in lines)


def _gauge_lines(name: str, text: str, campaign: str, values: Mapping[str, Any]) -> list[str]:
    """Return the lines of a gauge: its help `text`, its type, a value for each cell that has one; [] without values."""
    value_lines = []
    for cell, value in values.items():
        if isinstance(value, int | float):
            labels = f'campaign="{campaign.translate(ESCAPES)}",cell="{cell.translate(ESCAPES)}"'
            value_lines.append(f"scaleproof_{name}{{{labels}}} {float(value)!r}")
    if not value_lines:
        return []
    help_text = text.replace("\\", r"\\").replace("\n", " ")  # quotes stay as they are
    return [f"# HELP scaleproof_{name} {help_text}", f"# TYPE scaleproof_{name} gauge", *value_lines]


CELLS = "cells"  # the name of the campaign's table
MOST_AT_ONCE = 1000  # metrics in one call of MLflow


@dataclass(frozen=True)
class Point:
    """A step of a run, with its figures. `seconds`: from the begin of the window to the end of the step."""

    step: int
    seconds: float
    figures: dict[str, float]


@dataclass(frozen=True)
class ExportedRun:
    """One run: what is known before it runs (`settings`), its final `figures`, and its steps."""

    name: str
    cell: str
    ok: bool
    began: float  # seconds since 1970
    seconds: float  # of the whole run
    settings: dict[str, Any]
    figures: dict[str, float]
    points: list[Point]

    @property
    def last_step(self) -> int:
        """The last recorded step; figures of the whole run are logged at it. It is 0 without any step."""
        return self.points[-1].step if self.points else 0


Write = Callable[[str, Sequence[ExportedRun], pd.DataFrame, Path], None]


def export_runs(runs: Sequence[Run], folder: Path) -> list[ExportedRun]:
    """Return the runs of the campaign whose results are in `folder`, named by their paths below it."""
    tracked_runs = []
    for run, row in zip(runs, row_dicts(add_pair_columns(runs_table(runs))), strict=True):
        # Column of runs.csv -> value: settings, and figures that were measured.
        known = {name: value for name, value in row.items() if value is not None and name != "metrics"}
        path = run.folder.relative_to(folder)
        unit = getattr(run.metrics, "unit", "tokens")  # a failed run has none
        tracked_runs.append(
            ExportedRun(
                name=str(path.relative_to("runs") if path.is_relative_to("runs") else path),
                cell=run.metrics.cell,
                ok=run.ok,
                began=datetime.fromisoformat(run.metrics.timestamp_utc).timestamp(),
                seconds=run.metrics.total_wall_time_s or 0.0,
                settings={name: value for name, value in known.items() if not is_measured(name)},
                figures={f"run/{_named(name, unit)}": float(known[name]) for name in known if is_measured(name)},
                points=list(_run_points(run, unit)) if "steps" in known else [],  # else no step was timed
            )
        )
    return tracked_runs


def _run_points(run: Run, unit: str) -> Iterator[Point]:
    """Yield the steps of a run in order; steps of the warm-up have a loss alone, since only the window is timed."""
    window = run.window
    losses = run.losses.tolist()
    n_warmup = len(losses) - len(run.elapsed)
    for step, loss in enumerate(losses[:n_warmup]):
        yield Point(step, 0.0, {"loss": loss})
    # Seconds of a step, tokens/s, seconds since the begin of the window.
    columns = (window["step_time_s"], window["tokens"] / window["step_time_s"], run.elapsed)
    rows = zip(*(column.tolist() for column in columns), losses[n_warmup:], strict=True)
    for step, (seconds, rate, elapsed, loss) in enumerate(rows, start=n_warmup):
        yield Point(step, elapsed, {"loss": loss, "step_time_s": seconds, _named("tokens_per_s", unit): rate})


def tensorboard(campaign: str, runs: Sequence[ExportedRun], cells: pd.DataFrame, out: Path) -> None:
    """Write event files: scalars and hyperparameters of each run, and the table of cells as a text."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING
    from tensorboard.plugins.hparams.summary_v2 import HParam, Metric, hparams_config_pb, hparams_pb
    from tensorboard.plugins.text.metadata import create_summary_metadata
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    def write(folder: Path, *events: Event) -> None:  # as one event file
        writer = EventFileWriter(str(folder))
        for event in events:
            writer.add_event(event)
        writer.close()

    def scalars(time: float, step: int, figures: dict[str, float]) -> Event:  # `time`: seconds since 1970
        values = [Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]
        return Event(wall_time=time, step=step, summary=Summary(value=values))

    for run in runs:
        settings = {name: x if isinstance(x, bool | int | float) else str(x) for name, x in run.settings.items()}
        write(
            out / run.name,
            Event(wall_time=run.began, summary=hparams_pb(settings, run.name, run.began)),
            *(scalars(run.began + point.seconds, point.step, point.figures) for point in run.points),
            scalars(run.began + run.seconds, run.last_step, run.figures),
        )
    settings_names = dict.fromkeys(chain.from_iterable(run.settings for run in runs))
    figure_names = dict.fromkeys(chain.from_iterable(run.figures for run in runs))
    config = hparams_config_pb([HParam(name) for name in settings_names], [Metric(tag=name) for name in figure_names])
    table = cells.dropna(axis="columns", how="all").to_markdown(index=False)
    text = Summary.Value(
        tag=CELLS,
        metadata=create_summary_metadata(f"all cells of {campaign}", ""),
        tensor=TensorProto(dtype=DT_STRING, string_val=[table.encode()]),
    )
    began = min(run.began for run in runs)
    write(out, Event(wall_time=began, summary=config), Event(wall_time=began, summary=Summary(value=[text])))


def wandb(campaign: str, runs: Sequence[ExportedRun], cells: pd.DataFrame, out: Path) -> None:
    """Write offline runs of Weights & Biases, grouped by cell, and one with the table of cells. Nothing is sent."""
    import wandb  # the library; in here it hides this function's name

    # Record nothing of this process, which only exports: neither the load of its machine nor its output or code.
    quiet = wandb.Settings(
        silent=True, console="off", disable_code=True, disable_git=True, x_disable_stats=True, x_save_requirements=False
    )
    for run in runs:
        tracked_run = wandb.init(
            project=campaign,
            name=run.name,
            group=run.cell,
            config=run.settings,
            dir=out,
            mode="offline",
            settings=quiet,
        )
        for point in run.points:
            tracked_run.log(point.figures, step=point.step)
        tracked_run.summary.update(run.figures)
        tracked_run.finish(exit_code=0 if run.ok else 1)
    table = wandb.init(project=campaign, name=CELLS, job_type="table", dir=out, mode="offline", settings=quiet)
    table.log({CELLS: wandb.Table(dataframe=cells, allow_mixed_types=True)})
    table.finish()


def mlflow(campaign: str, runs: Sequence[ExportedRun], cells: pd.DataFrame, out: Path) -> None:
    """Write a file store of MLflow, with an experiment for the campaign, and a run with the table of cells."""
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")  # else MLflow insists on a database
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    client = MlflowClient(tracking_uri=out.resolve().as_uri())
    experiment = client.create_experiment(campaign)
    for run in runs:
        run_id = client.create_run(experiment, round(1e3 * run.began), {"cell": run.cell}, run.name).info.run_id
        client.log_batch(run_id, params=[Param(name, str(value)) for name, value in run.settings.items()])
        metrics = []
        for point in run.points:
            step_end_ms = round(1e3 * (run.began + point.seconds))
            metrics += [Metric(name, value, step_end_ms, point.step) for name, value in point.figures.items()]
        end_ms = round(1e3 * (run.began + run.seconds))
        metrics += [Metric(name, value, end_ms, run.last_step) for name, value in run.figures.items()]
        for first in range(0, len(metrics), MOST_AT_ONCE):
            client.log_batch(run_id, metrics[first : first + MOST_AT_ONCE])
        client.set_terminated(run_id, "FINISHED" if run.ok else "FAILED", end_ms)
    table = client.create_run(experiment, run_name=CELLS).info.run_id
    client.log_text(table, cells.to_csv(index=False), f"{CELLS}.csv")
    client.set_terminated(table)


TRACKERS: dict[str, Write] = {"tensorboard": tensorboard, "wandb": wandb, "mlflow": mlflow}
