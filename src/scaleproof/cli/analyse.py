"""From runs to conclusions: the tables of runs and cells, findings, charts, the report."""

import argparse
import itertools
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scaleproof import __version__
from scaleproof.cli.arguments import Group, add_campaign_command, add_command, add_results_option
from scaleproof.cli.values import count, folder, page_to_write, path, record_to_read
from scaleproof.ground.errors import UserError
from scaleproof.ground.files import write_atomic, write_json
from scaleproof.ground.snakemake_command import options_for, results_target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scaleproof.conclude.report.page_facts import PageInputs
    from scaleproof.ground.campaign.cells import Cell
    from scaleproof.ground.campaign.loaded import LoadedCampaign
    from scaleproof.ground.comparison import Compared
    from scaleproof.ground.findings.finding import Finding, Findings
    from scaleproof.ground.records.run import Run

    PlannedRuns = list[tuple[Path, Cell, int]]  # folder, cell and number of each run


# Packages are imported inside the commands: `campaign show` must not wait for pandas, nor a chart for torch.


def collect(args: argparse.Namespace) -> None:
    """Write runs.csv from all runs of a campaign, and print which are unreadable or of another campaign."""
    from scaleproof.conclude.analysis.run_tables import runs_table
    from scaleproof.ground.records.unreadable import is_readable

    loaded, planned = _load_planned_runs(args)

    def runs() -> "Iterator[Run]":
        for run in _read_each(loaded, planned):
            if not is_readable(run) and run.metrics.failure:
                print(f"scaleproof: {run.metrics.failure.reason}; its row has no figures", file=sys.stderr)
            if run.metrics.campaign != loaded.name:
                print(f"scaleproof: {run.folder}: of campaign {run.metrics.campaign}, says its record", file=sys.stderr)
            yield run

    write_atomic(args.results / loaded.name / "runs.csv", runs_table(runs()).to_csv(index=False))


def findings(args: argparse.Namespace) -> None:
    """Write findings.json with the findings of all checks in a campaign, and print each finding."""
    from scaleproof.conclude.analysis.ab_comparison import read_comparisons
    from scaleproof.conclude.analysis.campaign_findings import campaign_findings, with_forecasts
    from scaleproof.ground.findings.forecast_report import read_forecast
    from scaleproof.ground.records.excluded_nodes import read_excluded_nodes
    from scaleproof.ground.records.profile_schema import PROFILE, read_profile

    loaded, runs = _load_runs(args)
    folder = args.results / loaded.name
    _check_references(loaded, folder)
    profiles = [read_profile(folder / "traces" / cell.slug / PROFILE) for cell in loaded.traced]
    pairs = read_comparisons(folder, loaded.comparisons)
    audit_log = _audit_log if loaded.campaign.workload.command is not None else None
    all_findings = campaign_findings(loaded.name, runs, profiles, pairs, read_excluded_nodes(folder), audit_log)
    if loaded.campaign.forecast.enabled:
        all_findings = with_forecasts(all_findings, read_forecast(folder / "forecast.json"))
    write_json(folder / "findings.json", all_findings.model_dump(mode="json"))
    lines = (f"{one.severity} {one.code} in {', '.join(one.cells)}: {one.evidence}" for one in all_findings.findings)
    for line in dict.fromkeys(lines):  # repeats of a cell often have the same
        print(line)


def _check_references(loaded: "LoadedCampaign", folder: Path) -> None:
    """Raise UserError where the replay of a workload is not in the results: checks against it would find nothing."""
    from scaleproof.ground.errors import missing_file
    from scaleproof.measure.reference.schema import FOLDER, workload_name

    # Commands have no replay.
    for workload in dict.fromkeys(workload_name(cell.config) for cell in loaded.cells if cell.command is None):
        reference = folder / FOLDER / f"{workload}.json"
        if not reference.is_file():
            raise missing_file(reference)


def _audit_log(log: Path) -> "list[Finding]":
    """Return the findings of the audit in the log of a command. Returns [] where it can read no result."""
    from scaleproof.auditor.audit import audit_paths

    try:
        return audit_paths([log]).findings
    except UserError:
        return []


def analyse(args: argparse.Namespace) -> None:
    from scaleproof.conclude.analysis.scaling import scaling_report
    from scaleproof.ground.findings.finding import read_findings
    from scaleproof.ground.records.run import timed_runs
    from scaleproof.ground.records.series import read_series

    loaded, runs = _load_runs(args)
    folder, campaign = args.results / loaded.name, loaded.campaign
    all_findings = read_findings(folder / "findings.json")
    read_series(timed_runs(runs))  # gives each run its steps, read together: faster than each by itself
    report = scaling_report(
        loaded.name,
        campaign.title,
        runs,
        all_findings,
        margin=campaign.margin,
        question=loaded.question,
        repeat_until=campaign.repeat_until,
        snakemake=options_for(folder),
    )
    report.results = results_target(args.results)
    write_json(folder / "scaling_report.json", report)
    _write_tables(folder, runs, all_findings, campaign.target_loss)


def _write_tables(folder: Path, runs: "list[Run]", all_findings: "Findings", target_loss: Any) -> None:
    """Write cells.csv and losses.csv into `folder`. `target_loss`: of the campaign, a number or "derive"."""
    from scaleproof.conclude.analysis.loss_curves import curves_of, losses_table, times_to_loss
    from scaleproof.conclude.analysis.run_tables import cells_table, measured_by_cell

    curves = curves_of(measured_by_cell(runs))
    cells = cells_table(runs, all_findings, times_to_loss(curves, target_loss))
    write_atomic(folder / "cells.csv", cells.to_csv(index=False))
    write_atomic(folder / "losses.csv", losses_table(curves).to_csv(index=False, float_format="%.9g"))


def look(args: argparse.Namespace) -> None:
    """Write and print whether a campaign goes on after `--repeats` repeats. Raises UserError for a fixed number."""
    from scaleproof.conclude.analysis.scaling import scaling_report
    from scaleproof.ground.findings.finding import Findings

    loaded, runs = _load_runs(args, args.repeats)
    rule = loaded.campaign.repeat_until
    if rule is None:
        raise UserError(f"{args.campaign}: repeats is a number; there is nothing to decide")
    # Rates alone decide when repeats end. Findings of the checks are for the report.
    unchecked = Findings(campaign=loaded.name, checks=[], findings=[])
    title = loaded.campaign.title
    report = scaling_report(loaded.name, title, runs, unchecked, question=loaded.question, repeat_until=rule)
    decision = report.repeats
    write_json(args.out, decision)
    verdict = "goes on" if decision and decision.goes_on else f"ends: {decision and decision.why}"
    print(f"{loaded.name}: {args.repeats} repeats; {verdict}")


def comparison(args: argparse.Namespace) -> None:
    """Write comparison.json of the A/B pairs of a campaign, with its table and chart."""
    from scaleproof.conclude.analysis.ab_comparison import comparison_report, read_comparisons
    from scaleproof.conclude.report.charts import draw_comparison
    from scaleproof.conclude.report.tables.comparison import write_comparison
    from scaleproof.ground.campaign.loaded import LoadedCampaign
    from scaleproof.ground.findings.finding import read_findings

    loaded = LoadedCampaign(args.campaign, args.results)
    folder = args.results / loaded.name
    pairs = read_comparisons(folder, loaded.comparisons)
    comparisons = {name: (a, b, pairs[name]) for name, (_, a, b) in loaded.comparisons.items()}
    all_findings = read_findings(folder / "findings.json")
    report = comparison_report(loaded.name, comparisons, all_findings, loaded.cells)
    write_json(folder / "comparison.json", report)
    write_comparison(report, folder / "tables")
    draw_comparison(report.comparisons, folder / "charts")


def waterfall(args: argparse.Namespace) -> None:
    """Write waterfall.json, which says where scaling is lost, with its table and chart."""
    from scaleproof.conclude.analysis.waterfall import waterfall_report
    from scaleproof.conclude.report.charts import draw_waterfall
    from scaleproof.conclude.report.read_results import read_inputs, read_profiles
    from scaleproof.conclude.report.tables.waterfall import write_waterfall
    from scaleproof.ground.campaign.loaded import LoadedCampaign

    loaded = LoadedCampaign(args.campaign, args.results)
    folder = args.results / loaded.name
    _, cells, scaling = read_inputs(folder)  # without the table of runs
    report = waterfall_report(loaded.name, cells, scaling, read_profiles(folder, [cell.slug for cell in loaded.traced]))
    write_json(folder / "waterfall.json", report)
    write_waterfall(report.cells, loaded.name, folder / "tables")
    draw_waterfall(report.cells, folder / "charts")


def tables(args: argparse.Namespace) -> None:
    """Write the tables of all cells and of scaling into `tables` of a campaign's folder."""
    from scaleproof.conclude.report.read_results import read_inputs
    from scaleproof.conclude.report.tables.cells import write_tables
    from scaleproof.conclude.report.tables.scaling import write_series

    _, cells, report = read_inputs(args.folder)  # without the table of runs
    write_tables(cells, report, args.folder / "tables")
    for kind in ("strong", "weak"):
        write_series(report, kind, args.folder / "tables")


def charts(args: argparse.Namespace) -> None:
    """Write the charts of all cells and of scaling into `charts` of a campaign's folder."""
    from scaleproof.conclude.report.charts import CHARTS, draw
    from scaleproof.conclude.report.read_results import read_inputs
    from scaleproof.ground.findings.forecast_report import read_forecast

    inputs = read_inputs(args.folder)  # table of runs, table of cells, scaling report
    forecasts = read_forecast(args.forecast).forecasts if args.forecast else []
    for name in CHARTS:
        draw(name, *inputs, args.folder / "charts", forecasts)


def loss_charts(args: argparse.Namespace) -> None:
    from scaleproof.conclude.report.charts import draw_losses
    from scaleproof.conclude.report.read_results import read_losses

    inputs = read_losses(args.folder)  # losses.csv, cells.csv
    for against in ("step", "seconds"):
        draw_losses(against, *inputs, args.folder / "charts")


def report(args: argparse.Namespace) -> None:
    """Write report.html and manifest.json of a campaign, and print its answer."""
    from scaleproof.conclude.report.campaign_page import check_records, write_campaign_page
    from scaleproof.ground.records.lost_results import remove_left_over, unplanned_folders
    from scaleproof.verify.manifest import Demands, write_manifest

    loaded, planned = _load_planned_runs(args)
    folder = args.results / loaded.name
    remove_left_over(loaded, args.results)
    inputs = _page_inputs(args, loaded, planned)
    _check_references(loaded, folder)
    check_records(folder, inputs.runs_table)
    answer = write_campaign_page(inputs, loaded, args.results, folder / "report.html")
    demands = Demands.of(loaded.campaign, loaded.question, inputs.drawn)
    write_manifest(folder, __version__, demands, unplanned_folders(loaded, args.results))
    print(answer)


def pdf(args: argparse.Namespace) -> None:
    from scaleproof.conclude.report.paper import write_paper

    loaded, planned = _load_planned_runs(args)
    write_paper(_page_inputs(args, loaded, planned), args.results / loaded.name / "report.pdf")


def _page_inputs(args: argparse.Namespace, loaded: "LoadedCampaign", planned: "PlannedRuns") -> "PageInputs":
    """Read all inputs of the report of a campaign. Raises UserError where a file is missing or damaged."""
    from scaleproof.conclude.report.chart_catalog import charts_of
    from scaleproof.conclude.report.page_facts import PageInputs, collect_run_facts
    from scaleproof.conclude.report.read_results import read_inputs
    from scaleproof.measure.doctor.doctor import DOCTOR, read_report

    folder = args.results / loaded.name
    drawn = charts_of(loaded)
    planned_parts = {"comparison": loaded.comparisons, "traces": loaded.traced}
    files = [*(name for name, cells in planned_parts.items() if cells), *drawn]  # charts are named as their files
    return PageInputs.read(
        folder,
        read_inputs(folder, [cell.slug for cell in loaded.cells]),
        loaded.campaign.title,
        files,
        facts=collect_run_facts(_read(loaded, planned), read_report(args.results / DOCTOR)),
        drawn=drawn,
        campaign_file=str(args.campaign),
        anonymous=args.anonymous,
    )


def compare(args: argparse.Namespace) -> None:
    """Print how two results compare, and write the page of `--html`. Raises SystemExit(1) if no pair is comparable."""
    from dataclasses import asdict

    from scaleproof.auditor.compare_external import compare_external
    from scaleproof.auditor.read.text_files import check_root
    from scaleproof.cli.claims_files import refuse_claims_without_header
    from scaleproof.conclude.analysis.compare_runs import are_all_own, compare_results, missing_metrics
    from scaleproof.conclude.report.sentences.next_step import NOTHING_OPEN, step_of_comparison
    from scaleproof.conclude.report.sentences.ratios import compared_sentences, compared_verdict, intervals_note
    from scaleproof.ground.records.lost_results import lost_text

    if Path("-") in (args.a, args.b):
        raise UserError("compare reads files and folders, not standard input: write each log into a file of its own")
    for result in (args.a, args.b):
        if result.exists():  # the readers below have a hint at a path that does not exist
            check_root(result)

    if are_all_own(args.a, args.b):
        compared, one_sided_cells = compare_results(args.a, args.b, args.vary)
        if missing := missing_metrics(args.a, args.b):
            print(f"left out: {lost_text(missing)} (no {missing[0].name})", file=sys.stderr)
    else:
        for result in (args.a, args.b):
            refuse_claims_without_header(result)
        compared, one_sided_cells = [compare_external(args.a, args.b, args.vary)], []
    step = step_of_comparison(compared)
    if args.json:
        pairs = [asdict(pair) for pair in compared]
        print(json.dumps({"compared": pairs, "on_one_side": one_sided_cells, "next": step}, indent=2))
    else:
        for line in (compared_verdict(compared), *compared_sentences(compared), intervals_note(compared)):
            if line:
                print(line)
        if one_sided_cells:
            print(f"on one side alone: {', '.join(one_sided_cells)}")
        if step != NOTHING_OPEN:
            print(f"Next: {step}.")
    if args.html:
        _compare_page(args, compared, one_sided_cells)
    if all(pair.why for pair in compared):  # `why`: the reason why a pair is not comparable
        raise SystemExit(1)


def _compare_page(args: argparse.Namespace, compared: "list[Compared]", one_sided_cells: list[str]) -> None:
    """Write the page of a comparison. `one_sided_cells`: the cells that only one side has."""
    from scaleproof.conclude.analysis.compare_runs import are_all_own, read_runs_by_cell
    from scaleproof.conclude.report.compare_page import Side, compare_page

    runs_below = read_runs_by_cell if are_all_own(args.a, args.b) else lambda _: {}
    a, b = (Side(str(path), [*itertools.chain(*runs_below(path).values())]) for path in (args.a, args.b))
    vary = ["--vary", *args.vary] if args.vary else []
    words = ["scaleproof", "compare", str(args.a), str(args.b), *vary, "--html", str(args.html)]
    write_atomic(args.html, compare_page(compared, one_sided_cells, a, b, shlex.join(words)))
    print(f"{args.html}: the comparison as a page", file=sys.stderr)


def _load_runs(args: argparse.Namespace, repeats: int | None = None) -> "tuple[LoadedCampaign, list[Run]]":
    """Load the campaign of `args` and all of its runs, or the first `repeats` of each cell."""
    loaded, planned = _load_planned_runs(args, repeats)
    return loaded, _read(loaded, planned)


def _load_planned_runs(args: argparse.Namespace, repeats: int | None = None) -> "tuple[LoadedCampaign, PlannedRuns]":
    """Load the campaign of `args`. Returns it and its planned runs; `repeats`: only so many of each cell."""
    from scaleproof.ground.campaign.loaded import LoadedCampaign

    loaded = LoadedCampaign(args.campaign, args.results)
    return loaded, loaded.planned(args.results, repeats)


def _read_each(loaded: "LoadedCampaign", planned: "PlannedRuns") -> "Iterator[Run]":
    """Read the runs one by one, so that no caller must hold them all: ten thousand take 280 MB."""
    from scaleproof.ground.records.unreadable import read_or_mark_unreadable

    return (read_or_mark_unreadable(folder, loaded.name, cell, repeat) for folder, cell, repeat in planned)


def _read(loaded: "LoadedCampaign", planned: "PlannedRuns") -> "list[Run]":
    return list(_read_each(loaded, planned))


def add(commands: Group) -> None:
    doc = "compare any two results, ours or anybody's; exit code 1 where they are not comparable"
    example = (
        "scaleproof compare results/demo/runs/ddp-n1x2 results/demo/runs/zero2-n1x2 --vary strategy\n"
        "scaleproof compare before/metrics.json after/metrics.json --json\n"
        "scaleproof compare results/published/demo_a results/demo --html compare.html"
    )
    parser = add_command(commands, "compare", compare, doc, example)
    advice = "More than two are shown side by side by `scaleproof audit A B C`; repeats share a folder. "
    parser.set_defaults(for_more_words=advice)
    parser.add_argument("a", type=path, metavar="A", help="a run, cell or campaign, or anybody's log or folder of logs")
    parser.add_argument("b", type=path, metavar="B", help="the result that is compared with A")
    parser.add_argument("--vary", nargs="+", default=[], metavar="FIELD", help="what is meant to differ, e.g. strategy")
    parser.add_argument("--may-differ", dest="vary", nargs="+", help=argparse.SUPPRESS)  # its name in the first version
    parser.add_argument("--json", action="store_true", help="print JSON instead of sentences")
    help_text = "write a page: cells, chart, both machines side by side"
    parser.add_argument("--html", type=page_to_write, metavar="FILE", help=help_text)


def add_stages(stages: Group) -> None:
    for name, stage, doc in (
        ("collect", collect, "gather all runs into runs.csv"),
        ("findings", findings, "check all runs: findings.json"),
        ("analyse", analyse, "cells.csv, losses.csv and scaling_report.json"),
        ("comparison", comparison, "comparison.json with its table and chart"),
        ("waterfall", waterfall, "waterfall.json, the loss of scaling, with its table and chart"),
    ):
        add_results_option(add_campaign_command(stages, name, stage, doc))
    for name, stage, doc in (
        ("report", report, "report.html, and manifest.json with the hashes of the campaign's files"),
        ("pdf", pdf, "report.pdf: a short paper"),
    ):
        page = add_campaign_command(stages, name, stage, doc)
        add_results_option(page)
        page.add_argument("--anonymous", action="store_true", help="name hosts host1, host2 ...")
    parser = add_campaign_command(stages, "look", look, "decide whether a campaign with repeats.resolve goes on")
    add_results_option(parser)
    parser.add_argument("--repeats", type=count, required=True, metavar="N", help="of each cell, to look at")
    parser.add_argument("--out", type=path, required=True, metavar="FILE", help="JSON file to write")
    for name, stage, doc in (
        ("tables", tables, "the tables of all cells and of scaling as CSV, Markdown and LaTeX"),
        ("charts", charts, "the charts of all cells and of scaling as SVG and PNG"),
        ("loss_charts", loss_charts, "the training loss of all cells as SVG and PNG"),
    ):
        sub = add_command(stages, name, stage, doc)
        sub.add_argument("folder", type=folder, help="results/<campaign>")
        if name == "charts":
            sub.add_argument("--forecast", type=record_to_read, metavar="FILE", help="forecast.json, drawn as bands")
