"""`scaleproof export`: results for programs that draw or watch them."""

import argparse
from functools import partial

from scaleproof.cli.arguments import Group, command
from scaleproof.cli.values import file_to_write, path
from scaleproof.ground.errors import UserError

SUFFIXES = (".prom", ".parquet")


def export(args: argparse.Namespace) -> None:
    """Write the cells of a campaign for Prometheus, or its runs as Parquet. Raises UserError for other files."""
    if args.out.suffix not in SUFFIXES:
        raise UserError(f"{args.out}: its ending says what is written; allowed: {', '.join(SUFFIXES)}")
    if args.out.suffix == ".parquet":
        import scaleproof
        from scaleproof.ground.files import whole_file

        frame = scaleproof.to_frame(args.results)
        with whole_file(args.out) as part:
            frame.to_parquet(part, index=False)
        return
    from scaleproof.conclude.report.prometheus import prometheus
    from scaleproof.conclude.report.read_results import read_inputs
    from scaleproof.ground.files import write_atomic

    _, cells, report = read_inputs(args.results)
    write_atomic(args.out, prometheus(report.campaign, cells))


def add(commands: Group) -> None:
    """Add the command `export` to `commands`."""
    doc = "write results for other programs: cells as gauges of Prometheus (.prom), runs as a table (.parquet)"
    example = "scaleproof export results/demo demo.prom\nscaleproof export results/demo demo.parquet"
    parser = command(commands, "export", export, doc, example)
    parser.add_argument("results", type=path, metavar="RESULTS", help="results/<campaign>")
    parser.add_argument(
        "out", type=partial(file_to_write, replaced=SUFFIXES), metavar="FILE", help="*.prom or *.parquet"
    )
