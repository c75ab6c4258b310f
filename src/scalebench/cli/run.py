"""Runs: make them, move them, take them away, and see whether a cluster can make them."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from scalebench.cli.arguments import Group, command, on_campaign
from scalebench.errors import UserError

if TYPE_CHECKING:
    from scalebench.campaign.cells import Cell

# Rooms are imported inside the commands: `campaign show` must not wait for pandas, nor a chart for torch.


def train(args: argparse.Namespace) -> None:
    from scalebench.campaign.loaded import LoadedCampaign
    from scalebench.launch.run import run_cell
    from scalebench.record.run import LOG

    try:
        loaded = LoadedCampaign(args.campaign)
        cell = loaded.cell(args.cell)
        _unchanged(args, f"cell {args.cell}", [cell])
        limit = loaded.campaign.resources.time_limit * 60
        with stoppable("this run will be made anew"):
            metrics = run_cell(cell, loaded.name, args.repeat, args.tokens, args.out, limit)
    except UserError as error:
        if args.out.is_dir():  # Snakemake makes it, and shows the log that it finds there
            (args.out / LOG).write_text(f"scalebench: {error}\n")
        raise
    if metrics.failure:
        print(
            f"{args.cell}/rep{args.repeat}: {metrics.failure.failure_class}: {metrics.failure.reason}", file=sys.stderr
        )
    else:
        print(f"{args.cell}/rep{args.repeat}: {metrics.window.tokens_per_s:,.0f} tokens/s")


def _unchanged(args: argparse.Namespace, what: str, cells: "Sequence[Cell]") -> None:
    """Refuse cells other than those of the workflow's plan: the campaign was edited while the job waited."""
    if args.fingerprints and args.fingerprints != [cell.fingerprint for cell in cells]:
        raise UserError(f"{args.campaign}: {what} was changed while the workflow ran; start snakemake again")


@contextmanager
def stoppable(consequence: str) -> Iterator[None]:
    """End with the signal's exit code, and say what becomes of the work, where a run was stopped."""
    from scalebench.launch.supervise import Interrupted

    try:
        yield
    except Interrupted as stopped:
        print(f"scalebench: {stopped}; {consequence}", file=sys.stderr)
        raise SystemExit(stopped.code) from None


def pairs(args: argparse.Namespace) -> None:
    from scalebench.campaign.loaded import LoadedCampaign
    from scalebench.launch.pairs import run_pairs
    from scalebench.launch.run import run_one_of_several

    loaded = LoadedCampaign(args.campaign)
    comparison, a, b = loaded.comparison(args.comparison)
    _unchanged(args, f"comparison {args.comparison}", [a, b])
    limit = loaded.campaign.resources.time_limit * 60
    with stoppable("pairs that were finished are kept"):
        run_pairs(
            *(comparison, a, b, args.out),
            lambda cell, k, out: run_one_of_several(cell, loaded.name, k, args.tokens, out, limit),
        )


def together(args: argparse.Namespace) -> None:
    from scalebench.campaign.loaded import LoadedCampaign, tokens_dir
    from scalebench.launch.run import run_one_of_several

    loaded = LoadedCampaign(args.campaign)
    _unchanged(args, "the campaign", loaded.cells)
    limit = loaded.campaign.resources.time_limit * 60
    for cell in sorted(loaded.cells, key=lambda c: -loaded.priority(c.slug, args.repeat)):
        print(f"{cell.slug}/rep{args.repeat}", flush=True)
        with stoppable("this repeat will be made anew"):
            tokens = tokens_dir(args.results, cell)
            run_one_of_several(cell, loaded.name, args.repeat, tokens, args.out / cell.slug, limit)


def adopt(args: argparse.Namespace) -> None:
    from scalebench.record.copy_run import adopt as copy_run

    copy_run(args.made, args.out)


def retry(args: argparse.Namespace) -> None:
    from scalebench.campaign.loaded import LoadedCampaign
    from scalebench.record.retry import forget

    loaded = LoadedCampaign(args.campaign)
    if args.cell:
        loaded.cell(args.cell)
    wanted = [folder for folder in loaded.runs(args.results) if args.cell in (None, folder.parent.name)]
    traces = [args.results / loaded.name / "traces" / c.slug for c in loaded.traced if args.cell in (None, c.slug)]
    gone = forget(args.results / loaded.name, wanted, args.cell is not None, traces)
    for folder in gone:
        print(f"removed {folder}")
    if gone:
        count = f"{len(gone)} run{'' if len(gone) == 1 else 's'}"  # a traced one is a run too
        print(
            f"{count} will be made anew by the next snakemake that builds {args.results / loaded.name / 'report.html'}"
        )
    else:
        print("no run failed: there is nothing to remove")


def cluster_check(args: argparse.Namespace) -> None:
    from scalebench.campaign.loaded import LoadedCampaign
    from scalebench.preflight.cluster_check import check

    checks = check(args.profile, args.results, LoadedCampaign(args.campaign) if args.campaign else None)
    for one in checks:
        print(one)
    wrong = sum(not one.ok for one in checks)
    if wrong:
        print(f"\n{wrong} thing{'' if wrong == 1 else 's'} to mend before a campaign is sent here", file=sys.stderr)
        raise SystemExit(1)


def _planned(stage: argparse.ArgumentParser) -> None:
    stage.add_argument(
        "--fingerprints", nargs="+", metavar="F", help="refuse to run if the cells are not these any more"
    )


def add(stages: Group) -> None:
    run = on_campaign(stages, "train", train, "make one run of one cell")
    run.add_argument("cell", help="slug of the cell, as `campaign show` lists it")
    run.add_argument("--repeat", type=int, default=1)
    run.add_argument("--tokens", type=Path, required=True, help="folder of train.bin and tokens.json")
    run.add_argument("--out", type=Path, required=True, help="folder of the run")
    _planned(run)

    ab = on_campaign(stages, "pairs", pairs, "make the pairs of one A/B comparison")
    ab.add_argument("comparison", help="name of the comparison, under `compare` in the campaign")
    ab.add_argument("--tokens", type=Path, required=True, help="folder of train.bin and tokens.json")
    ab.add_argument("--out", type=Path, required=True, help="folder of the pairs")
    _planned(ab)

    pair = on_campaign(stages, "together", together, "make one run of every cell, one after the other")
    pair.add_argument("--repeat", type=int, default=1)
    pair.add_argument("--results", type=Path, default=Path("results"), help="where the corpora are")
    pair.add_argument("--out", type=Path, required=True, help="folder of the runs")
    _planned(pair)
    taken = command(
        stages, "adopt", adopt, "put a run that was made together with others where a run of its own would be"
    )
    taken.add_argument("made", type=Path, help="folder of the run")
    taken.add_argument("--out", type=Path, required=True)

    cluster = stages.add_parser("cluster", help="look at a Slurm cluster before a campaign is sent there")
    preflight = command(
        cluster.add_subparsers(required=True, metavar="WHAT"),
        "check",
        cluster_check,
        "try what a campaign needs of the cluster, on compute nodes too",
    )
    preflight.add_argument("campaign", type=Path, nargs="?", help="a campaign whose jobs Slurm is asked about, too")
    preflight.add_argument("--profile", type=Path, default=Path("slurm"), help="the profile's folder")
    preflight.add_argument("--results", type=Path, default=Path("results"))

    again = on_campaign(
        stages, "retry", retry, "remove the runs that failed, so that the next snakemake makes them anew"
    )
    again.add_argument("--cell", help="remove all runs of this cell instead, measured ones too")
    again.add_argument("--results", type=Path, default=Path("results"))
