"""`scaleproof export`: results for programs that watch them, written after the runs."""

import argparse
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scaleproof.cli.arguments import Group, add_command, add_subcommands
from scaleproof.cli.values import file_to_write, new_folder, path
from scaleproof.ground.errors import UserError, damaged_file
from scaleproof.ground.files import sha256_of, write_atomic
from scaleproof.ground.json_faults import read_part

if TYPE_CHECKING:
    import pandas as pd

    from scaleproof.ground.records.scaling_report import ScalingReport

SUFFIX = ".prom"  # a node exporter reads no other files


class TrackerFiles(NamedTuple):
    """The files that are written for an experiment tracker."""

    noun: str
    next_command: str  # by which the tracker shows the files; {out} is their folder


TRACKERS = {
    "tensorboard": TrackerFiles("event files of TensorBoard", "tensorboard --logdir {out}"),
    "wandb": TrackerFiles("offline runs of Weights & Biases", "wandb sync {out}/wandb/offline-run-*"),
    "mlflow": TrackerFiles(
        "a file store of MLflow", "MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri {out}"
    ),
}


def prometheus(args: argparse.Namespace) -> None:
    """Write the cells of a campaign as a file for Prometheus's node exporter.

    Raises UserError unless the name of the file ends in .prom.
    """
    from scaleproof.conclude.report.trackers import prometheus as prometheus_text
    from scaleproof.verify.campaign import folder_of

    if args.out.suffix != SUFFIX:
        raise UserError(f"{args.out} must end in {SUFFIX}; as a table: scaleproof.to_frame(...).to_parquet(FILE)")
    cells, report = _read_reported(folder_of(args.results))
    write_atomic(args.out, prometheus_text(report.campaign, cells, report.unit))


def _read_reported(folder: Path) -> tuple["pd.DataFrame", "ScalingReport"]:
    """Read cells.csv and scaling_report.json. Raises UserError where they are no longer those of the report."""
    from scaleproof.conclude.report.read_results import read_inputs
    from scaleproof.ground.records.run import MANIFEST

    _, cells, report = read_inputs(folder)
    stated = read_part(folder / MANIFEST, lambda manifest: dict(manifest["files"])) or {}
    for name in ("cells.csv", "scaling_report.json"):
        if stated.get(name, "") not in ("", sha256_of(folder / name)):
            raise damaged_file(folder / name, "it was changed after the report was written")
    return cells, report


def to_tracker(args: argparse.Namespace) -> None:
    """Write all runs of a campaign, those of its A/B comparisons among them, for an experiment tracker.

    If that fails, the folder is left as it was: a part of the runs would look like all of them.
    """
    from scaleproof.conclude.report import trackers
    from scaleproof.ground.records.run import read_runs
    from scaleproof.verify.campaign import folder_of

    folder = folder_of(args.results)
    cells, report = _read_reported(folder)
    runs = trackers.export_runs(read_runs(folder), folder)
    folder_existed = args.out.exists()  # and was empty: `new_folder` takes no other
    try:
        trackers.TRACKERS[args.tracker](report.campaign, runs, cells, args.out)
    except BaseException:
        shutil.rmtree(args.out, ignore_errors=True)
        if folder_existed:
            args.out.mkdir()
        raise
    print(f"{len(runs)} runs in {args.out}; next: {TRACKERS[args.tracker].next_command.format(out=args.out)}")


def add(commands: Group) -> None:
    group = add_subcommands(commands, "export", "results for Prometheus, TensorBoard, Weights & Biases or MLflow")
    doc = "write all cells as gauges of Prometheus, for the textfile collector of a node exporter"
    parser = add_command(group, "prometheus", prometheus, doc, "scaleproof export prometheus results/demo demo.prom")
    parser.add_argument("results", type=path, metavar="RESULTS", help="results/<campaign>")
    parser.add_argument("out", type=partial(file_to_write, replaced=(SUFFIX,)), metavar="FILE.prom", help="a file")
    for tracker, files in TRACKERS.items():
        content = "loss, time and rate of every step, final figures, settings, and all cells"
        doc = f"write all runs as {files.noun}: {content}"
        example = f"scaleproof export {tracker} results/demo {tracker}-demo"
        parser = add_command(group, tracker, to_tracker, doc, example)
        parser.add_argument("results", type=path, metavar="RESULTS", help="results/<campaign>")
        parser.add_argument("out", type=new_folder, metavar="FOLDER", help="a folder that is new or empty")
        parser.set_defaults(tracker=tracker)
