"""Forecasts: sweep collectives, forecast what was not measured, plan what it takes, find the largest micro-batch."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scaleproof.cli.arguments import (
    Group,
    add_campaign_command,
    add_command,
    add_fingerprints_option,
    add_results_option,
)
from scaleproof.cli.prepare import better_splits, count_tables_and_charts
from scaleproof.cli.run import check_before_run, look_up_planned, stoppable
from scaleproof.cli.values import Number, count, currency, device, file_to_read, memory, past_day, path, text
from scaleproof.ground.errors import UserError, missing_file
from scaleproof.ground.files import write_json

if TYPE_CHECKING:
    from scaleproof.conclude.forecast.campaign_forecast import ForecastEvidence
    from scaleproof.conclude.forecast.sweep_file import Sweep
    from scaleproof.ground.campaign.cells import Cell
    from scaleproof.ground.campaign.loaded import LoadedCampaign

PER_NODE = 8  # devices, where a table and its options do not say

# Packages are imported inside the commands: `campaign show` must not wait for scipy, nor a chart for torch.


def sweep_groups(args: argparse.Namespace) -> None:
    """Measure collectives in the groups of a campaign or in `--group`, or read them from files of nccl-tests.

    Raises UserError where a campaign has no group, or `--nccl-tests` has files for several groups.
    """
    from scaleproof.conclude.forecast.sweep import group_called, groups_of, measure_sweep
    from scaleproof.conclude.forecast.sweep_file import merge_sweeps, pair_rows, read_nccl_tests
    from scaleproof.conclude.report.charts.node_pairs import draw_node_pairs
    from scaleproof.ground.campaign.loaded import LoadedCampaign
    from scaleproof.ground.findings.forecast_report import SweepLink

    loaded = LoadedCampaign(args.campaign)
    groups = groups_of(loaded)
    if args.group:
        group, cell = group_called(loaded, args.group)
        groups = {group: cell}
    if not groups:
        raise UserError(f"{args.campaign}: every cell is one device; there is no communication to sweep")

    folder = args.results / loaded.name / "sweep"
    if args.nccl_tests:
        if len(groups) > 1:
            names = ", ".join(str(group) for group in groups)
            raise UserError(f"--nccl-tests needs --group: which ranks did it run on? Groups: {names}")
        (group,) = groups
        sweeps = [read_nccl_tests(file, group) for file in args.nccl_tests]
        _publish_sweep(merge_sweeps(sweeps), folder / str(group))
        return

    link = SweepLink(bytes_per_s=args.link * 1e9, source=args.link_source) if args.link else None
    for group, cell in groups.items():  # group of ranks -> a cell that trains on them
        with stoppable("the sweep will be made again"):
            result = measure_sweep(loaded, group, cell, folder / str(group), args.launches, link)
        _publish_sweep(result, folder / str(group))
        draw_node_pairs(pair_rows(result), folder / str(group))


def sweep(args: argparse.Namespace) -> None:
    from scaleproof.conclude.forecast.sweep import group_called, measure_sweep
    from scaleproof.ground.campaign.loaded import LoadedCampaign

    loaded = LoadedCampaign(args.campaign, args.results)
    group, cell = group_called(loaded, args.group)
    with stoppable("the sweep will be made again"):
        result = measure_sweep(loaded, group, cell, args.out, loaded.campaign.forecast.launches)
    _publish_sweep(result, args.out)


def forecast_cells(args: argparse.Namespace) -> None:
    """Forecast the cells that have not run, from a campaign's runs or from a table, and print the forecasts."""
    if args.table:
        _forecast_table(args)
        return
    if args.campaign is None:
        raise UserError("forecast needs a campaign file, or --from TABLE")
    if args.campaign.is_file() and args.campaign.suffix not in (".yaml", ".yml"):
        raise UserError(f"{args.campaign} is no campaign file; a table is given as --from {args.campaign}")

    from scaleproof.conclude.forecast.campaign_forecast import make_forecasts
    from scaleproof.conclude.forecast.ledger import seal_ahead
    from scaleproof.conclude.forecast.plan import plan_pilots
    from scaleproof.conclude.forecast.requirements import run_times
    from scaleproof.conclude.forecast.text import forecasts_text, pilots_text

    evidence = read_evidence(args.campaign, args.results)
    forecasts = make_forecasts(evidence)
    print(forecasts_text(forecasts))
    if pilots := plan_pilots(evidence, run_times(args.results, evidence.loaded.name)):
        print(f"\n{pilots_text(pilots)}")
    print(seal_ahead(args.results / evidence.loaded.name / "forecasts", forecasts, evidence.runs))
    _score(evidence, args.results)


def _forecast_table(args: argparse.Namespace) -> None:
    """Print forecasts from a table. Raises UserError without a forecast, or with a campaign as well."""
    from scaleproof.auditor.read.rates_by_size import rates_by_size, unread_rows_text
    from scaleproof.conclude.forecast.table_forecast import disturbances_of, forecast_rates, is_of_cpus, table_text

    if args.campaign is not None:
        raise UserError("a forecast is made from a campaign or from a table (--from), not from both")
    per_node = args.devices_per_node or PER_NODE
    series = rates_by_size(args.table, per_node)
    forecasts = forecast_rates(series, args.devices or (), per_node, is_of_cpus(args.table))
    text_of_all = table_text(forecasts, disturbances_of(args.table))
    if all(forecast.rate is None for forecast in forecasts):
        raise UserError(f"{args.table}: {text_of_all}")
    print(text_of_all)
    if args.devices_per_node is None and series != rates_by_size(args.table, 1):
        print(f"a node counts as {PER_NODE} devices, which {args.table} does not say: --devices-per-node N")
    for size in args.devices or ():
        if size > per_node and size % per_node:
            whole = -(-size // per_node) * per_node
            print(f"{size} devices are forecast as {whole}: whole nodes of {per_node} devices (--devices-per-node)")
    if unread := unread_rows_text(args.table, per_node):
        print(f"{args.table}: {unread}")


def forecast(args: argparse.Namespace) -> None:
    """Forecast the held-out cells, as a stage of the workflow: their runs wait for `--out`, which names the file."""
    from scaleproof.conclude.forecast.campaign_forecast import make_forecasts
    from scaleproof.conclude.forecast.ledger import write_forecasts

    evidence = read_evidence(args.campaign, args.results)
    file = write_forecasts(args.results / evidence.loaded.name / "forecasts", make_forecasts(evidence))
    write_json(args.out, {"forecasts": file.name})


def forecast_report(args: argparse.Namespace) -> None:
    """Score earlier forecasts, and write forecast.json with its table and charts."""
    from scaleproof.conclude.forecast.report_data import make_forecast_report
    from scaleproof.conclude.report.charts.forecast import draw_forecast
    from scaleproof.conclude.report.charts.node_pairs import draw_node_pairs
    from scaleproof.conclude.report.tables.forecast import write_forecast

    evidence = read_evidence(args.campaign, args.results)
    _score(evidence, args.results)
    evidence = read_evidence(args.campaign, args.results)  # its ledger has the new scores now
    folder = args.results / evidence.loaded.name
    report = make_forecast_report(evidence, folder / "forecasts")
    write_json(folder / "forecast.json", report)
    write_forecast(report.forecasts, report.campaign, folder / "tables")
    draw_forecast(report.forecasts, folder / "charts")
    for sweep in report.sweeps:
        draw_node_pairs(sweep.node_pairs, folder / "sweep" / sweep.group)


def plan(args: argparse.Namespace) -> None:
    """Print and record the time, money and memory that a campaign takes, and print what it has spent."""
    from datetime import date

    from scaleproof.conclude.forecast.plan import make_plan
    from scaleproof.conclude.forecast.planner import Price
    from scaleproof.conclude.forecast.requirements import run_times
    from scaleproof.conclude.forecast.spent import PLANS, compare_with_spent, record_plan
    from scaleproof.conclude.forecast.text import held_text, plan_text, spent_text
    from scaleproof.driver.as_sent import check_possible
    from scaleproof.driver.campaign_preview import remarks
    from scaleproof.driver.planned_work import planned_work
    from scaleproof.ground.files import now_utc
    from scaleproof.measure.machine.gpus import cuda_devices, usable_gpus

    price = None if args.price is None else Price(args.price, args.currency, args.price_date or f"{date.today()}")
    evidence = read_evidence(args.campaign, args.results)
    check_possible(evidence.loaded)
    times = run_times(args.results, evidence.loaded.name, named=args.device)
    result = make_plan(evidence, price, args.budget, args.watts, args.count_memory, times)
    folder = args.results / evidence.loaded.name / PLANS
    print(plan_text(evidence.loaded, result), *better_splits(evidence.loaded, args.results), sep="\n")
    work = planned_work(evidence.loaded, args.results, count_tables_and_charts(evidence.loaded), times=times)
    notes = remarks(evidence.loaded, usable_gpus(cuda_devices)[0], elsewhere=args.device is not None)
    print(f"all of the campaign, with what is done already and the report: {work.text}{notes}")
    print(held_text(result, work.seconds))
    if comparison := compare_with_spent(folder, evidence.runs):
        print(spent_text(comparison))
    record_plan(folder, evidence.loaded.name, result, now_utc())


def frontier_of_cell(args: argparse.Namespace) -> None:
    """Find the largest micro-batch that fits (`scaleproof frontier`). Raises UserError where tokens are missing."""
    from scaleproof.conclude.forecast.frontier import limit_of
    from scaleproof.ground.campaign.loaded import LoadedCampaign, frontier_file, tokens_dir
    from scaleproof.measure.machine.gpus import cuda_devices

    loaded = LoadedCampaign(args.campaign, args.results)
    cell = loaded.cell(args.cell)
    limit = limit_of(cell, cuda_devices(), args.limit or _stated_limit_bytes(loaded))
    tokens = tokens_dir(args.results, cell)
    if not (tokens / "train.bin").is_file():
        raise missing_file(tokens / "train.bin")
    out = frontier_file(args.results, loaded.name, cell.slug)
    _find_frontier(loaded, cell, tokens, out, limit, args.fastest or cell.searched == "fastest")


def frontier(args: argparse.Namespace) -> None:
    """Find the micro-batch of a cell whose micro_batch is `largest` or `fastest`, as a stage of the workflow.

    A cell that cannot run here gets the smallest micro-batch: its run then ends as a row that says why.
    """
    from scaleproof.conclude.forecast.frontier import NoTrial, limit_of, micro_batches
    from scaleproof.ground.campaign.loaded import LoadedCampaign
    from scaleproof.measure.machine.gpus import cuda_devices

    loaded = LoadedCampaign(args.campaign, args.results)
    (cell,) = look_up_planned(args.campaign, f"cell {args.cell}", args.fingerprints, lambda: [loaded.cell(args.cell)])
    limit = _stated_limit_bytes(loaded)
    try:
        limit_of(cell, cuda_devices(), limit)  # raises UserError where nothing limits the memory of a device
        _find_frontier(loaded, cell, args.tokens, args.out, limit, cell.searched == "fastest")
    except NoTrial as error:
        print(f"{cell.slug}: no trial, {error}; its run will say so as well")
        smallest = micro_batches(cell, 0)[0]  # 0: the corpus does not matter where a micro-batch is searched
        answer = {"micro_batch": smallest, "planned_fingerprint": cell.planned_fingerprint, "reason": str(error)}
        write_json(args.out, answer)


def _find_frontier(
    loaded: "LoadedCampaign", cell: "Cell", tokens: Path, out: Path, limit: float | None, compare_speed: bool
) -> None:
    """Find the largest micro-batch of a cell by trials, write it to `out` and print it.

    `limit`: bytes of memory of a device; None: all memory of the GPU. `compare_speed`: time a half and a quarter, too.
    """
    from dataclasses import asdict

    from scaleproof.conclude.forecast.frontier import find_frontier
    from scaleproof.conclude.forecast.text import frontier_text

    check_before_run(cell, tokens)
    with stoppable("no trial was kept"):
        answer = find_frontier(cell, loaded.name, tokens, out.parent, limit, loaded.time_limit_s, compare_speed)
    best = answer.fastest if cell.searched == "fastest" else answer.largest
    # Where no micro-batch fits, the cell runs with the smallest, and its row says so.
    micro_batch = best or min(trial.micro_batch for trial in answer.trials)
    facts = {"campaign": loaded.name, "cell": cell.slug, "planned_fingerprint": cell.planned_fingerprint}
    write_json(out, asdict(answer) | facts | {"micro_batch": micro_batch})
    print(frontier_text(cell.slug, answer))


def _stated_limit_bytes(loaded: "LoadedCampaign") -> float | None:
    """Return the bytes of a device that the campaign allows. Returns None where it states no limit."""
    limit_gb = loaded.campaign.frontier.limit_gb
    return None if limit_gb is None else limit_gb * 1e9


def read_evidence(campaign: Path, results: Path) -> "ForecastEvidence":
    """Read all inputs for forecasts of a campaign, and check its runs. Raises UserError."""
    from scaleproof.conclude.checks.all_checks import audit
    from scaleproof.conclude.forecast.campaign_forecast import ForecastEvidence, read_command_times, read_measured
    from scaleproof.conclude.forecast.ledger import LEDGER, read_ledger
    from scaleproof.conclude.forecast.sweep_file import read_sweeps
    from scaleproof.ground.campaign.loaded import LoadedCampaign

    loaded = LoadedCampaign(campaign, results)
    damaged: list[str] = []
    measured = read_measured(loaded, results, damaged)
    command_times_s = read_command_times(loaded, results, damaged)
    for fault in damaged:
        print(f"warning: left out: {fault}", file=sys.stderr)
    findings = audit(loaded.name, [run for runs in measured.values() for run in runs])
    ledger = read_ledger(results / "forecasts" / LEDGER)
    sweeps = read_sweeps(results / loaded.name / "sweep")
    return ForecastEvidence(loaded, measured, findings, sweeps, ledger, command_times_s)


def _score(evidence: "ForecastEvidence", results: Path) -> None:
    """Score the forecasts of measured cells, add them to the ledger, and print how many were inside their interval."""
    from scaleproof.conclude.forecast.campaign_forecast import measured_outcomes
    from scaleproof.conclude.forecast.ledger import LEDGER, add_to_ledger, read_forecasts, score_forecasts

    measured, nodes = measured_outcomes(evidence)
    files = read_forecasts(results / evidence.loaded.name / "forecasts")
    scores = [score for forecasts in files for score in score_forecasts(forecasts, measured, nodes)]
    if scores:
        add_to_ledger(results / "forecasts" / LEDGER, scores)
        inside = sum(score.inside for score in scores)
        print(f"scored {len(scores)} forecasts of {evidence.loaded.name}: {inside} inside their interval")


def _publish_sweep(result: "Sweep", folder: Path) -> None:
    """Write a sweep into `folder`, with the rates of pairs of nodes, and print it."""
    from scaleproof.conclude.forecast.sweep_file import SWEEP, write_node_pairs
    from scaleproof.conclude.forecast.text import sweep_text

    write_json(folder / SWEEP, result.model_dump(mode="json"))
    write_node_pairs(result, folder)
    print(sweep_text(result))


def add(commands: Group) -> None:
    """Add `sweep`, `forecast`, `frontier` and `plan` to `commands`."""
    _add_sweep(commands)
    _add_forecast(commands)
    _add_frontier(commands)
    _add_plan(commands)


def _add_sweep(commands: Group) -> None:
    doc = "measure collectives over sizes, in the groups that the campaign's cells use"
    example = (
        "scaleproof sweep config/campaigns/demo.yaml\n"
        "scaleproof sweep config/campaigns/mine.yaml --group 2x8 --link 50 --link-source 'NDR InfiniBand, 400 Gb/s'\n"
        "scaleproof sweep config/campaigns/mine.yaml --group 1x8 --nccl-tests all_reduce.json all_gather.json"
    )
    parser = add_campaign_command(commands, "sweep", sweep_groups, doc, example)
    help_text = "only this group, as a cell's geometry is written (2x8)"
    parser.add_argument("--group", type=text, metavar="KxG", help=help_text)
    parser.add_argument("--launches", type=count, default=3, metavar="N", help="fresh launches (default: 3)")
    help_text = "what the link is said to carry, in one direction"
    parser.add_argument("--link", type=Number("GB/s"), metavar="GB/s", help=help_text)
    source = "given by the user"
    parser.add_argument("--link-source", needs="--link", type=text, default=source, metavar="TEXT", help="who says so")
    help_text = "read files of `all_reduce_perf -J FILE` instead"
    parser.add_argument("--nccl-tests", type=file_to_read, nargs="+", metavar="FILE", help=help_text)
    add_results_option(parser)


def _add_forecast(commands: Group) -> None:
    doc = "forecast the cells that have not run from those that have, in a dated file; score earlier forecasts"
    example = (
        "scaleproof forecast config/campaigns/demo.yaml\n"
        "scaleproof forecast --from scaling.csv --devices 64 128 --devices-per-node 8"
    )
    parser = add_command(commands, "forecast", forecast_cells, doc, example)
    parser.add_argument("campaign", type=path, nargs="?", metavar="CAMPAIGN", help="campaign file")
    help_text = "instead: a file with a table of devices and rates (CSV, Markdown, spreadsheet, JSON, notebook, ...)"
    parser.add_argument("--from", dest="table", type=file_to_read, metavar="TABLE", help=help_text)
    help_text = "with --from: so many devices; sizes in TABLE are scored (default: twice and four times the largest)"
    parser.add_argument("--devices", needs="--from", type=count, nargs="+", metavar="N", help=help_text)
    help_text = "with --from: where links between nodes begin, and the devices of each of its nodes (default: 8)"
    parser.add_argument("--devices-per-node", needs="--from", type=count, metavar="N", help=help_text)
    add_results_option(parser)


def _add_frontier(commands: Group) -> None:
    doc = "the largest micro-batch of a cell that fits, by a few short trials, each in fresh processes"
    example = "scaleproof frontier config/campaigns/demo.yaml ddp-n1x2 --limit 2GB --fastest"
    parser = add_campaign_command(commands, "frontier", frontier_of_cell, doc, example)
    parser.add_argument("cell", metavar="CELL", help="slug of the cell, as `campaign show` lists it")
    help_text = "memory of a device (default: the GPU's; needed on a CPU)"
    parser.add_argument("--limit", type=memory, metavar="GB", help=help_text)
    parser.add_argument("--fastest", action="store_true", help="also compare the speed of a half and a quarter of it")
    add_results_option(parser)


def _add_plan(commands: Group) -> None:
    doc = "what the campaign takes: step time, run time, device hours, cost, what fits, what may be left out"
    example = (
        "scaleproof plan config/campaigns/demo.yaml\n"
        "scaleproof plan config/campaigns/h100_speed.yaml --price 2.5 --currency EUR "
        "--price-date 2026-11-01 --budget 40"
    )
    parser = add_campaign_command(commands, "plan", plan, doc, example)
    parser.add_argument("--price", type=Number(most=1e8), metavar="X", help="of a device hour")
    help_text = "of the price (default: USD)"
    parser.add_argument("--currency", needs="--price", type=currency, default="USD", metavar="CODE", help=help_text)
    help_text = "when the price was true (default: today)"
    parser.add_argument("--price-date", needs="--price", type=past_day, metavar="DATE", help=help_text)
    help_text = "power of a device (default: as measured, where there is an energy counter)"
    parser.add_argument("--watts", type=Number("W", least=1, most=100_000), metavar="W", help=help_text)
    help_text = "GPU that is planned for, with its memory: 'H100 80GB' (default: those here, else an A100)"
    parser.add_argument("--device", type=device, metavar="NAME", help=help_text)
    help_text = "count memory that no run has measured by torch's trackers (10 s, and some for each cell)"
    parser.add_argument("--count-memory", action="store_true", help=help_text)
    help_text = "device hours, not money, that may be spent"
    parser.add_argument("--budget", type=Number("device hours"), metavar="H", help=help_text)
    add_results_option(parser)


def add_stages(stages: Group) -> None:
    parser = add_campaign_command(stages, "sweep", sweep, "a sweep of the collectives of one group")
    parser.add_argument("group", help="the group, as a cell's geometry is written")
    parser.add_argument("--out", type=path, required=True, metavar="DIR", help="folder of the sweep")
    add_results_option(parser)

    doc = "the micro-batch of a cell that says largest or fastest"
    parser = add_campaign_command(stages, "frontier", frontier, doc)
    parser.add_argument("cell", help="slug of the cell")
    add_fingerprints_option(parser)
    parser.add_argument("--tokens", type=path, required=True, metavar="DIR", help="folder of the cell's token files")
    parser.add_argument("--out", type=path, required=True, metavar="FILE", help="frontier.json")
    add_results_option(parser)

    parser = add_campaign_command(stages, "forecast", forecast, "the forecast of the held-out cells")
    parser.add_argument("--out", type=path, required=True, metavar="FILE", help="which file of forecasts it is")
    add_results_option(parser)

    doc = "forecast.json: forecasts with bands, scores"
    parser = add_campaign_command(stages, "forecast_report", forecast_report, doc)
    add_results_option(parser)
