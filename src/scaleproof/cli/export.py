"""`scaleproof export`: results for programs that watch them."""

import argparse
from functools import partial

from scaleproof.cli.arguments import Group, command
from scaleproof.cli.values import file_to_write, path
from scaleproof.ground.errors import UserError

SUFFIX = ".prom"  # the only one that a node exporter reads


def export(args: argparse.Namespace) -> None:
    """Write the cells of a campaign for Prometheus. Raises UserError for a file that its exporter would not read."""
    from scaleproof.conclude.report.prometheus import prometheus
    from scaleproof.conclude.report.read_results import read_inputs
    from scaleproof.ground.files import write_atomic

    if args.out.suffix != SUFFIX:
        raise UserError(f"{args.out} must end in {SUFFIX}; as a table: scaleproof.to_frame(...).to_parquet(FILE)")
    _, cells, report = read_inputs(args.results)
    write_atomic(args.out, prometheus(report.campaign, cells))


def add(commands: Group) -> None:
    """Add the command `export` to `commands`."""
    doc = "write all cells as gauges of Prometheus, for the textfile collector of a node exporter"
    parser = command(commands, "export", export, doc, "scaleproof export results/demo demo.prom")
    parser.add_argument("results", type=path, metavar="RESULTS", help="results/<campaign>")
    parser.add_argument("out", type=partial(file_to_write, replaced=(SUFFIX,)), metavar="FILE.prom", help="a file")
