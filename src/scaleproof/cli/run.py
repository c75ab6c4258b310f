"""Runs: start them, copy them, remove those that failed, and see whether a cluster can start them."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from scaleproof.cli.arguments import (
    Group,
    add_campaign_command,
    add_command,
    add_fingerprints_option,
    add_results_option,
    add_subcommands,
)
from scaleproof.cli.libraries import check_this_folder, check_torch, import_torch
from scaleproof.cli.values import count, path, text
from scaleproof.ground.errors import UserError, nearest_path, plural, shortened
from scaleproof.ground.files import write_json
from scaleproof.ground.number_format import duration_text, number, seconds
from scaleproof.ground.snakemake_command import PROFILE, snakemake_command

if TYPE_CHECKING:
    from scaleproof.ground.campaign.cells import Cell
    from scaleproof.ground.campaign.loaded import LoadedCampaign
    from scaleproof.ground.campaign.shared_jobs import SharedJob
    from scaleproof.ground.records.metrics import Failed, Timed
    from scaleproof.ground.records.printed_log import PrintedLog
    from scaleproof.measure.trainer.request import PlannedRun

Planned = TypeVar("Planned", "Cell", "SharedJob")

# Packages are imported inside the commands: `campaign show` must not wait for pandas, nor a chart for torch.


def train(args: argparse.Namespace) -> None:
    """Make one run of a cell and print its rate. Raises UserError, whose message is in the run's log as well."""
    from scaleproof.ground.campaign.loaded import LoadedCampaign, tokens_of_run
    from scaleproof.ground.records.run import LOG, METRICS
    from scaleproof.measure.launch.run import run_cell

    try:
        loaded = LoadedCampaign(args.campaign, args.results)
        (cell,) = look_up_planned(
            args.campaign, f"cell {args.cell}", args.fingerprints, lambda: [loaded.cell(args.cell)]
        )
        if not args.fingerprints and (args.out / METRICS).is_file():  # typed by hand; Snakemake has removed it before
            raise UserError(f"--out {args.out} has a finished run, which would be lost; give a new folder")
        with stoppable("this run will be repeated"):
            plan = _plan_run(loaded, cell, args.repeat, args.tokens or tokens_of_run(args.results, cell))
            metrics = run_cell(plan, args.out, read=args.read_log)
            _refuse_broken_torch(loaded.cell(args.cell), metrics, args.out)
    except UserError as error:
        # Snakemake makes the folder, and shows the log that it finds there; a finished run keeps its own.
        if args.out.is_dir() and not (args.out / METRICS).is_file():
            with suppress(OSError):  # of a full disk; the console has the message
                (args.out / LOG).write_text(f"scaleproof: {error}\n")
        raise
    _print_outcome(f"{args.cell}/rep{args.repeat}", metrics, loaded, args.results, args.out)


def _print_outcome(name: str, metrics: "Timed | Failed", loaded: "LoadedCampaign", results: Path, folder: Path) -> None:
    """Print the rate of the run `name` and what is left of the campaign, or why it failed, and the log in `folder`."""
    from scaleproof.ground.records.metrics import Failed
    from scaleproof.ground.records.run import LOG

    if isinstance(metrics, Failed):
        text = f"{metrics.failure.failure_class}: {metrics.failure.reason} (log: {folder / LOG})"
    else:
        text = f"{_rate_text(metrics)}{_remaining_text(loaded, results, metrics)}"
    print(f"{name}: {text}", flush=True)


def _rate_text(metrics: "Timed") -> str:
    """Return the rate of a run, and whether the launcher's clock gives it because nothing of the log was read."""
    from scaleproof.ground.records.metrics import Printed

    rate = f"{number(metrics.window.tokens_per_s, 4)} {metrics.unit}/s"
    if isinstance(metrics, Printed) and metrics.reading.reader == "progress":
        return f"{rate} by the launcher's clock: no time and no rate in its log is read (key: figures)"
    return rate


def _plan_run(loaded: "LoadedCampaign", cell: "Cell", repeat: int, tokens: Path) -> "PlannedRun":
    """Return the plan of a run of `cell`. The first repeat makes some steps again at its end, to be checked.

    Raises ImportError where torch is missing or does not serve, before each run would end in it, and UserError where a
    token file was changed.
    """
    from scaleproof.measure.trainer.request import PlannedRun

    check_before_run(cell, tokens)
    witness_steps = loaded.count_witness_steps(cell, loaded.campaign.fewest_repeats) if repeat == 1 else 0
    return PlannedRun(cell, loaded.name, tokens, loaded.time_limit_s, repeat, witness_steps)


def check_before_run(cell: "Cell", tokens: Path) -> None:
    """Raise as `_plan_run`, of a cell that is no command."""
    from scaleproof.ground.records.token_hashes import check_token_files

    if cell.command is None:
        check_torch()
        check_this_folder()
        check_token_files(tokens)


def _refuse_broken_torch(cell: "Cell", metrics: "Timed | Failed", out: Path) -> None:
    """Remove a run in `out` that crashed because torch cannot be imported, and raise ImportError: so would each run."""
    from scaleproof.ground.records.run import LAUNCHER, METRICS, STEPS

    failure = metrics.failure
    # A crash of no rank is one of the launcher, which imports torch first.
    if cell.command is not None or failure is None or failure.failure_class != "crash" or failure.rank is not None:
        return
    try:
        import_torch()
    except ImportError:
        for name in (METRICS, STEPS, LAUNCHER):
            (out / name).unlink(missing_ok=True)
        raise


def _remaining_text(loaded: "LoadedCampaign", results: Path, latest: "Timed") -> str:
    """Describe the runs that are left, each as long as `latest`: "; 5 of 12 runs left, about 4 min".

    The first run reads files that later ones find in memory: after it, "or less". Returns "" if no run is left, and on
    a cluster, where runs go side by side and the time is not known.
    """
    from scaleproof.ground.records.run import METRICS

    planned = loaded.planned(results)
    missing = [folder for folder, *_ in planned if not (folder / METRICS).is_file()]
    if not missing or latest.scheduler:
        return ""
    time = duration_text(len(missing) * latest.total_wall_time_s, 2) + " or less" * (len(missing) + 1 == len(planned))
    return f"; {len(missing)} of {plural(len(planned), 'run')} left, about {time}"


def look_up_planned(
    file: Path, what: str, planned: Sequence[str] | None, look_up: Callable[[], Sequence[Planned]]
) -> Sequence[Planned]:
    """Return the items that `look_up` finds in the campaign's file, if these still have the `planned` fingerprints.

    `planned`: one fingerprint for each item, from the workflow; None for a command that was typed by hand, where
    nothing is compared. `what`: the items in words. Raises UserError where the campaign was edited meanwhile.
    """
    try:
        items = look_up()
    except UserError:
        if not planned:
            raise
        items = []  # gone since the workflow planned it: raises below
    if planned and list(planned) != [item.planned_fingerprint for item in items]:
        raise _changed(file, what)
    return items


def _changed(file: Path, what: str) -> UserError:
    """Return the error for an item `what` that the campaign's file no longer has as it was planned."""
    return UserError(f"{file}: {what} was changed while the workflow ran; start snakemake again")


@contextmanager
def stoppable(consequence: str) -> Iterator[None]:
    """Run the `with` block. Where a signal stops it, print the `consequence` and end with the signal's exit code."""
    from scaleproof.measure.launch.supervise import Interrupted

    try:
        yield
    except Interrupted as stopped:
        print(f"scaleproof: {stopped}; {consequence}", file=sys.stderr)
        raise SystemExit(stopped.code) from None


def reference(args: argparse.Namespace) -> None:
    """Replay the first steps of a workload. Raises UserError where the campaign has no workload named as `--out`."""
    from scaleproof.ground.campaign.loaded import LoadedCampaign, tokens_of_run
    from scaleproof.measure.launch.replay import reason_for_none, replay_cell
    from scaleproof.measure.launch.replayed_cells import cells_by_workload

    loaded = LoadedCampaign(args.campaign, args.results)
    workload = args.out.stem  # by this name runs look for their replay
    cell = cells_by_workload(loaded.cells).get(workload)
    if cell is None:
        raise _changed(args.campaign, f"workload {workload}")
    tokens = args.tokens or tokens_of_run(args.results, cell)
    check_before_run(cell, tokens)
    why_not = reason_for_none(loaded.cells, workload)
    replayed = replay_cell(cell, loaded.name, tokens, loaded.time_limit_s, why_not)
    write_json(args.out, replayed.model_dump(mode="json"))
    steps = f"{len(replayed.losses)} of {replayed.total_steps} steps"
    remark = f"\n{workload}: {replayed.shortened}" if replayed.shortened else ""
    print(f"{workload}: {steps} in {seconds(replayed.seconds, 1)}{remark}")


def pairs(args: argparse.Namespace) -> None:
    """Make all pairs of one A/B comparison. Raises UserError where it was changed meanwhile."""
    from scaleproof.ground.campaign.loaded import LoadedCampaign, tokens_of_run
    from scaleproof.measure.launch.pairs import first_pair, run_pairs
    from scaleproof.measure.launch.run import run_one_of_several
    from scaleproof.measure.trainer.request import PlannedRun

    loaded = LoadedCampaign(args.campaign, args.results)
    name = args.comparison
    a, b = look_up_planned(args.campaign, f"comparison {name}", args.fingerprints, lambda: loaded.comparison(name)[1:])
    comparison = loaded.comparisons[name][0]
    tokens = args.tokens or tokens_of_run(args.results, a)
    check_before_run(a, tokens)
    witnessed_pair = first_pair(comparison)  # number of the first A/B pair: its runs make steps again, to be checked

    def make(cell: "Cell", pair: int, out: Path) -> "Timed | Failed":
        """Make the run of one arm of pair number `pair`, and publish it in `out`."""
        witness_steps = loaded.count_witness_steps(cell, comparison.pairs) if pair == witnessed_pair else 0
        plan = PlannedRun(cell, loaded.name, tokens, loaded.time_limit_s, pair, witness_steps)
        metrics = run_one_of_several(plan, out, args.read_log)
        _refuse_broken_torch(cell, metrics, out)
        return metrics

    with stoppable("pairs that were finished are kept"):
        run_pairs(comparison, a, b, args.out, make)


def shared_job(args: argparse.Namespace) -> None:
    """Make the missing runs of one job, one after the other, and print the outcome of each."""
    from scaleproof.ground.campaign.loaded import LoadedCampaign, run_dir, tokens_of_run
    from scaleproof.measure.launch.run import run_one_of_several
    from scaleproof.measure.launch.shared_job import run_shared_job

    loaded = LoadedCampaign(args.campaign, args.results)
    (job,) = look_up_planned(args.campaign, f"job {args.job}", args.fingerprints, lambda: [loaded.shared_job(args.job)])

    def make(cell: "Cell", repeat: int, out: Path) -> "Timed | Failed":
        """Make one run of the job, and publish it in `out`."""
        plan = _plan_run(loaded, cell, repeat, tokens_of_run(args.results, cell))
        metrics = run_one_of_several(plan, out, args.read_log)
        _refuse_broken_torch(cell, metrics, out)
        _print_outcome(f"{cell.slug}/rep{repeat}", metrics, loaded, args.results, out)
        return metrics

    with stoppable("the runs that this job has finished are kept; it will be sent once more for the others"):
        run_shared_job(job, lambda cell, repeat: run_dir(args.results, loaded.name, cell.slug, repeat), make, args.out)


def retry(args: argparse.Namespace) -> None:
    """Remove failed runs and traces, or all that `--cell` names, and print what repeats them. Raises UserError."""
    from scaleproof.ground.campaign.campaign_paths import check_same_folder
    from scaleproof.ground.campaign.loaded import LoadedCampaign
    from scaleproof.ground.records.retry import ALL, remove_failed
    from scaleproof.ground.records.run import METRICS

    loaded = LoadedCampaign(args.campaign, args.results)
    folder = args.results / loaded.name
    args.cell = [name.strip() for names in args.cell for name in names.split(",")]  # of slugs none has a comma
    if ALL in args.cell:
        args.cell = [cell.slug for cell in loaded.cells]
    check_same_folder(args.campaign, args.results)
    runs = _chosen_runs(loaded, args)
    traces = [folder / "traces" / cell.slug for cell in loaded.traced if not args.cell or cell.slug in args.cell]
    results_before = sorted(folder.iterdir())
    command = snakemake_command(folder / "report.html")  # reads the profile from records that are removed below
    if (folder / "report.pdf").exists():
        command += f" {folder / 'report.pdf'}"

    removed = remove_failed(folder, runs, bool(args.cell), traces)
    for place in removed:
        print(f"removed {place}")
    if not removed:
        missing = [run for run in runs if not (run / METRICS).exists()]
        repeated = f"; {plural(len(missing), 'run')} without a result, made by: {command}" if missing else ""
        print(f"no run failed: there is nothing to remove{repeated}")
        return
    if computed := ", ".join(result.name for result in results_before if not result.exists()):
        print(f"removed what was computed with them, which is made again: {computed}")
    repeated = f"{plural(len(removed), 'run')} will be repeated"
    if set(removed) & set(traces):
        repeated = "these runs and traces are made again"
    if loaded.campaign.resources.same_allocation and "--profile" in command:  # a queue may give its job other nodes
        repeated += " (on other nodes with all runs of their repeats: resources.same_allocation)"
    print(f"{repeated} by: {command}")


def _chosen_runs(loaded: "LoadedCampaign", args: argparse.Namespace) -> list[Path]:
    """Return the folders of the runs that `--cell` names, as CELL or CELL/rep1. Without `--cell`, returns all folders.

    Raises UserError where a name means no run, or the campaign has no folder of results.
    """
    from scaleproof.ground.records.retry import ALL
    from scaleproof.ground.records.run import METRICS

    slugs = [cell.slug for cell in loaded.cells]
    for name in args.cell:
        slug, _, repeat = name.partition("/")
        if not slug or "/" in repeat or name.removeprefix("rep").isdecimal():
            parts = Path(name).parts
            named = [parts[place : place + 2] for place, part in enumerate(parts) if part in slugs]  # with their runs
            nearest_slugs = " or ".join(map("/".join, named))
            hint = f' Did you mean "{nearest_slugs}"?' if nearest_slugs else f" Cells: {', '.join(slugs)}"
            raise UserError(f"--cell {shortened(name)}: a cell is named by its slug, and a run as CELL/rep1.{hint}")
        left = args.results / loaded.name / "runs" / slug
        if slug not in slugs and any(left.glob(f"*/{METRICS}")):
            gone = f"{slug} is no cell of {args.campaign} any more"
            raise UserError(f"--cell {name}: {gone}; to take its runs out of the results: mv {left} ANOTHER_FOLDER")
        if name.casefold() == ALL:
            raise UserError(f'--cell {name}: there is no such cell. Did you mean "{ALL}"?')
        loaded.cell(slug)  # raises UserError where there is no such cell

    if not (folder := args.results / loaded.name).is_dir():
        nowhere = f"no such folder; no run of {args.campaign} is there (option --results)."
        raise UserError(f"{folder}: {nowhere}{nearest_path(folder)}")

    folders = {f"{run.parent.name}/{run.name}": run for run in loaded.runs(args.results)}  # CELL/rep1 -> its folder
    for name in sorted(args.cell):
        if "/" in name and name not in folders:
            repeats = ", ".join(run for run in folders if Path(run).parent == Path(name).parent)
            raise UserError(f"--cell {name}: the campaign plans no such run; of this cell: {repeats}")
    chosen = {*args.cell} or folders.keys()
    return [folder for run, folder in folders.items() if {run, run.partition("/")[0]} & chosen]


def cluster_check(args: argparse.Namespace) -> None:
    """Print a verdict on each thing that a campaign needs of a cluster. Raises SystemExit(1) after a bad verdict."""
    from scaleproof.driver.cluster.check import check_cluster, verdict_text
    from scaleproof.ground.campaign.loaded import LoadedCampaign

    verdicts = check_cluster(args.profile, args.results, LoadedCampaign(args.campaign) if args.campaign else None)
    for verdict in verdicts:
        print(verdict_text(verdict))
    if fault_count := sum(not verdict.ok for verdict in verdicts):
        print(f"\n{plural(fault_count, 'thing')} to fix before a campaign is sent here", file=sys.stderr)
        raise SystemExit(1)


def add(commands: Group) -> None:
    doc = "remove failed runs and traces, so that the next snakemake repeats them"
    example = (
        "scaleproof retry config/campaigns/demo.yaml                     # what failed\n"
        "scaleproof retry config/campaigns/demo.yaml --cell ddp-n1x2     # all runs of one cell\n"
        "scaleproof retry config/campaigns/demo.yaml --cell ddp-n1x2/rep1\n"
        "snakemake --cores 2 results/demo/report.html"
    )
    parser = add_campaign_command(commands, "retry", retry, doc, example)
    help_text = "remove all runs of this cell, or of all, or this run (CELL/rep1), measured ones too; may be repeated"
    parser.add_argument("--cell", type=text, action="append", default=[], metavar="CELL", help=help_text)
    add_results_option(parser)

    cluster = add_subcommands(commands, "cluster", "look at a cluster before a campaign is sent there")
    doc = "try what a campaign needs of the cluster, on compute nodes too; exit code 1 if something must be fixed"
    example = "scaleproof cluster check config/campaigns/v100_two_node_buckets.yaml"
    parser = add_command(cluster, "check", cluster_check, doc, example)
    help_text = "a campaign whose jobs the scheduler is asked about"
    parser.add_argument("campaign", type=path, nargs="?", metavar="CAMPAIGN", help=help_text)
    help_text = f"the profile's folder or name (default: {PROFILE})"
    parser.add_argument("--profile", type=path, default=Path(PROFILE), metavar="DIR", help=help_text)
    add_results_option(parser)


def _read_log(log: Path, reader: str) -> "PrintedLog | None":
    """Read the log of a command with the auditor's `reader`. Returns None where no reader knows a line of it.

    The code that measures is handed this function. If it imported the readers, they would be code of the measurement,
    and an edit of a reader would have all runs measured again. Each record names its reader.
    """
    from scaleproof.auditor.read.printed_log import printed_log

    return printed_log(log, reader)


def add_stages(stages: Group) -> None:
    parser = add_campaign_command(stages, "train", train, "one run of one cell")
    parser.add_argument("cell", help="slug of the cell, as `campaign show` lists it")
    parser.add_argument("--repeat", type=count, default=1, metavar="K", help="number of the repeat (default: 1)")
    _add_training_options(parser)
    parser.add_argument("--out", type=path, required=True, metavar="DIR", help="folder of the run")
    add_fingerprints_option(parser)

    parser = add_campaign_command(stages, "reference", reference, "the first steps of a workload, replayed")
    _add_training_options(parser)
    parser.add_argument("--out", type=path, required=True, metavar="FILE", help="file to write")

    parser = add_campaign_command(stages, "pairs", pairs, "all pairs of one A/B comparison")
    parser.add_argument("comparison", help="name of the comparison, under `compare` in the campaign")
    _add_training_options(parser)
    parser.add_argument("--out", type=path, required=True, metavar="DIR", help="folder of the pairs")
    add_fingerprints_option(parser)

    parser = add_campaign_command(stages, "shared_job", shared_job, "several runs one after the other in one job")
    parser.set_defaults(read_log=_read_log)
    parser.add_argument("job", help="name of the job: of its record in results/CAMPAIGN/together")
    add_results_option(parser)
    parser.add_argument("--out", type=path, required=True, metavar="FILE", help="the job's record")
    add_fingerprints_option(parser)


def _add_training_options(stage: argparse.ArgumentParser) -> None:
    add_results_option(stage)
    stage.set_defaults(read_log=_read_log)
    help_text = "folder of train.bin, val.bin and tokens.json (default: the cell's own)"
    stage.add_argument("--tokens", type=path, metavar="DIR", help=help_text)
