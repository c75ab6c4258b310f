"""The command line: one thin command per stage, so that every step of the pipeline can be run by hand."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from scalebench import __version__
from scalebench.errors import UserError, nearest

# Rooms are imported inside the commands: `campaign show` must not wait for pandas, nor a chart for torch.


def campaign_validate(args: argparse.Namespace) -> None:
    from scalebench.campaign.dag import Study

    study = Study(args.campaign)
    study.check_files()
    runs = len(study.cells) * study.campaign.repeats
    print(f"{args.campaign}: valid; {len(study.cells)} cells x {study.campaign.repeats} repeats = {runs} runs")


def campaign_show(args: argparse.Namespace) -> None:
    from scalebench.campaign.dag import Study
    from scalebench.report.preview import show

    study = Study(args.campaign)
    study.check_files()
    print(show(study))


def schema(args: argparse.Namespace) -> None:
    from scalebench.campaign.config import Campaign
    from scalebench.campaign.corpora import CorpusTable
    from scalebench.campaign.load import schema_text

    print(schema_text({"campaign": Campaign, "corpora": CorpusTable}[args.what]), end="")


def corpus_fetch(args: argparse.Namespace) -> None:
    from scalebench.campaign.dag import corpus_called
    from scalebench.corpus.documents import fetch

    found = fetch(args.corpus, corpus_called(args.corpus), args.out)
    print(f"{found['documents']:,} documents, {found['bytes']:,} bytes")
    if found["replaced_characters"]:
        print(f"warning: {found['replaced_characters']:,} places were not UTF-8 and hold U+FFFD now", file=sys.stderr)


def corpus_tokenizer(args: argparse.Namespace) -> None:
    from scalebench.corpus.encode import read
    from scalebench.corpus.tokenizer import train as train_tokenizer

    train_tokenizer(args.tokenizer, read(args.corpus_dir / "documents.parquet"), args.out)


def corpus_tokenise(args: argparse.Namespace) -> None:
    from scalebench.corpus.tokenise import tokenise

    found = tokenise(args.corpus_dir, args.tokenizer, args.out, args.processes)
    print(f"{found['train']['tokens']:,} training and {found['val']['tokens']:,} validation tokens, {found['dtype']}")


def train(args: argparse.Namespace) -> None:
    from scalebench.campaign.dag import Study
    from scalebench.launch.run import run_cell
    from scalebench.launch.watch import Interrupted
    from scalebench.record.run import LOG

    try:
        study = Study(args.campaign)
        cell = study.cell(args.cell)
        if args.fingerprint and args.fingerprint != cell.fingerprint:
            raise UserError(
                f"{args.campaign}: cell {args.cell} was changed while the workflow ran; start snakemake again"
            )
        limit = study.campaign.resources.time_limit * 60
        metrics = run_cell(cell, study.name, args.repeat, args.tokens, args.out, limit)
    except Interrupted as stopped:
        print(f"scalebench: {stopped}; this run will be made anew", file=sys.stderr)
        raise SystemExit(stopped.code) from None
    except UserError as error:
        if args.out.is_dir():  # Snakemake makes it, and shows the log that it finds there
            (args.out / LOG).write_text(f"scalebench: {error}\n")
        raise
    if metrics.failure:
        print(
            f"{args.cell}/rep{args.repeat}: {metrics.failure.failure_class}: {metrics.failure.reason}", file=sys.stderr
        )
    else:
        print(f"{args.cell}/rep{args.repeat}: {metrics.window.tokens_per_sec_global:,.0f} tokens/s")


def pairs(args: argparse.Namespace) -> None:
    from scalebench.campaign.dag import Study
    from scalebench.launch.pairs import run_pairs
    from scalebench.launch.run import run_cell
    from scalebench.launch.watch import Interrupted

    study = Study(args.campaign)
    comparison, a, b = study.comparison(args.comparison)
    limit = study.campaign.resources.time_limit * 60
    try:
        run_pairs(
            comparison, a, b, args.out, lambda cell, k, out: run_cell(cell, study.name, k, args.tokens, out, limit)
        )
    except Interrupted as stopped:
        print(f"scalebench: {stopped}; pairs that were finished are kept", file=sys.stderr)
        raise SystemExit(stopped.code) from None


def comparison(args: argparse.Namespace) -> None:
    import json

    from scalebench.analysis.arms import comparison_report
    from scalebench.campaign.dag import Study
    from scalebench.record.write import write_json
    from scalebench.report.charts import draw_comparison
    from scalebench.report.tables import write_comparison

    study = Study(args.campaign)
    folder = args.results / study.name
    found = {name: (a, b, folder / "compare" / name / "pairs.json") for name, (_, a, b) in study.comparisons.items()}
    report = comparison_report(study.name, found)
    write_json(folder / "comparison.json", report)
    write_comparison(json.loads((folder / "comparison.json").read_text()), folder / "tables")
    draw_comparison(report["comparisons"], folder / "charts")


def together(args: argparse.Namespace) -> None:
    from scalebench.campaign.dag import Study, tokens_dir
    from scalebench.launch.run import run_cell
    from scalebench.launch.watch import Interrupted

    study = Study(args.campaign)
    limit = study.campaign.resources.time_limit * 60
    for cell in sorted(study.cells, key=lambda c: -study.priority(c.slug, args.repeat)):
        print(f"{cell.slug}/rep{args.repeat}", flush=True)
        try:
            run_cell(cell, study.name, args.repeat, tokens_dir(args.results, cell), args.out / cell.slug, limit)
        except Interrupted as stopped:
            print(f"scalebench: {stopped}; this repeat will be made anew", file=sys.stderr)
            raise SystemExit(stopped.code) from None


def adopt(args: argparse.Namespace) -> None:
    from scalebench.record.adopt import adopt as copy_run

    copy_run(args.made, args.out)


def retry(args: argparse.Namespace) -> None:
    from scalebench.campaign.dag import Study
    from scalebench.record.retry import forget

    study = Study(args.campaign)
    if args.cell:
        study.cell(args.cell)
    wanted = [folder for folder in study.runs(args.results) if args.cell in (None, folder.parent.name)]
    gone = forget(args.results / study.name, wanted, anyway=args.cell is not None)
    for folder in gone:
        print(f"removed {folder}")
    if gone:
        count = f"{len(gone)} run{'' if len(gone) == 1 else 's'}"
        print(
            f"{count} will be made anew by the next snakemake that builds {args.results / study.name / 'report.html'}"
        )
    else:
        print("no run failed: there is nothing to remove")


def collect(args: argparse.Namespace) -> None:
    from scalebench.analysis.collect import runs_table
    from scalebench.record.write import write_atomic

    study, runs = _runs(args)
    write_atomic(args.results / study.name / "runs.csv", runs_table(runs).to_csv(index=False))


def findings(args: argparse.Namespace) -> None:
    from scalebench.audit.checks import audit
    from scalebench.record.write import write_json

    study, runs = _runs(args)
    found = audit(study.name, runs)
    write_json(args.results / study.name / "findings.json", found.model_dump(mode="json"))
    for f in found.findings:
        print(f"{f.severity} {f.code} in {', '.join(f.cells)}: {f.evidence}")


def analyse(args: argparse.Namespace) -> None:
    from scalebench.analysis.collect import cells_table
    from scalebench.analysis.scaling import scaling_report
    from scalebench.record.write import write_atomic, write_json

    study, runs = _runs(args)
    folder = args.results / study.name
    found = _findings(folder)
    write_atomic(folder / "cells.csv", cells_table(runs, found).to_csv(index=False))
    write_json(folder / "scaling_report.json", scaling_report(study.name, study.campaign.title, runs, found))


def table(args: argparse.Namespace) -> None:
    from scalebench.report.inputs import read_inputs
    from scalebench.report.tables import write_tables

    _, cells, report = read_inputs(args.folder)
    write_tables(cells, report, args.folder / "tables")


def chart(args: argparse.Namespace) -> None:
    from scalebench.report.charts import CHARTS, draw
    from scalebench.report.inputs import read_inputs

    if args.chart not in CHARTS:
        raise UserError(f'there is no chart "{args.chart}".{nearest(args.chart, CHARTS)} Charts: {", ".join(CHARTS)}')
    draw(args.chart, *read_inputs(args.folder), args.folder / "charts")


def report(args: argparse.Namespace) -> None:
    from scalebench.report.answer import answer
    from scalebench.report.inputs import read_comparisons, read_inputs
    from scalebench.report.page import write_page

    study, runs = _runs(args)
    folder = args.results / study.name
    comparisons = read_comparisons(folder) if study.comparisons else []
    inputs = read_inputs(folder)
    write_page(runs, *inputs, _findings(folder), comparisons, folder / "charts", folder / "report.html")
    print(answer(inputs[-1], comparisons))


def cluster_check(args: argparse.Namespace) -> None:
    from scalebench.launch.preflight import check

    checks = check(args.profile, args.results)
    for one in checks:
        print(one)
    wrong = sum(not one.ok for one in checks)
    if wrong:
        print(f"\n{wrong} thing{'' if wrong == 1 else 's'} to mend before a campaign is sent here", file=sys.stderr)
        raise SystemExit(1)


def _runs(args: argparse.Namespace) -> tuple:
    from scalebench.campaign.dag import Study
    from scalebench.record.run import read_planned

    study = Study(args.campaign)
    planned = study.planned(args.results)
    return study, [read_planned(folder, cell.slug, k, cell.fingerprint) for folder, cell, k in planned]


def _findings(folder: Path):  # noqa: ANN202  (the type would import the room)
    from scalebench.audit.finding import Findings

    if not (folder / "findings.json").is_file():
        raise UserError(
            f"{folder}/findings.json: no such file; make it with: snakemake --cores 2 {folder}/findings.json"
        )
    return Findings.model_validate_json((folder / "findings.json").read_text())


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="scalebench", description=__doc__)
    top.add_argument("--version", action="version", version=f"scalebench {__version__}")
    stages = top.add_subparsers(title="stages, in the order of the pipeline", required=True, metavar="STAGE")

    def command(group: argparse._SubParsersAction, name: str, run: Callable, doc: str) -> argparse.ArgumentParser:
        sub = group.add_parser(name, help=doc, description=doc)
        sub.set_defaults(run=run)
        return sub

    def on_campaign(group: argparse._SubParsersAction, name: str, run: Callable, doc: str) -> argparse.ArgumentParser:
        sub = command(group, name, run, doc)
        sub.add_argument("campaign", type=Path, help="campaign file, e.g. config/campaigns/demo.yaml")
        return sub

    campaign = stages.add_parser("campaign", help="look at a campaign before anything runs").add_subparsers(
        required=True, metavar="WHAT"
    )
    on_campaign(campaign, "validate", campaign_validate, "check a campaign file")
    on_campaign(campaign, "show", campaign_show, "list the cells of a campaign: batch arithmetic, tokens, processes")
    schemas = command(campaign, "schema", schema, "print the JSON schema that editors complete campaign files with")
    schemas.add_argument("what", choices=("campaign", "corpora"), nargs="?", default="campaign")

    corpus = stages.add_parser("corpus", help="documents, tokenizer, tokens").add_subparsers(
        required=True, metavar="WHAT"
    )
    fetch = command(corpus, "fetch", corpus_fetch, "gather the documents of a corpus")
    fetch.add_argument("corpus", help="a name in config/corpora.yaml")
    tokenizer = command(corpus, "tokenizer", corpus_tokenizer, "train a tokenizer on a corpus")
    tokenizer.add_argument("tokenizer", help="bpe-<n>")
    tokenizer.add_argument("corpus_dir", type=Path, help="folder of documents.parquet")
    tokens = command(corpus, "tokenise", corpus_tokenise, "encode a corpus into train.bin and val.bin")
    tokens.add_argument("corpus_dir", type=Path, help="folder of documents.parquet")
    tokens.add_argument("tokenizer", type=Path, help="tokenizer.json")
    tokens.add_argument("--processes", type=int, default=None, help="default: one per core")
    for sub in (fetch, tokenizer, tokens):
        sub.add_argument("--out", type=Path, required=True)

    run = on_campaign(stages, "train", train, "make one run of one cell")
    run.add_argument("cell", help="slug of the cell, as `campaign show` lists it")
    run.add_argument("--repeat", type=int, default=1)
    run.add_argument("--tokens", type=Path, required=True, help="folder of train.bin and tokens.json")
    run.add_argument("--out", type=Path, required=True, help="folder of the run")
    run.add_argument("--fingerprint", help="refuse to run if the cell is not this one any more")

    ab = on_campaign(stages, "pairs", pairs, "make the pairs of one A/B comparison")
    ab.add_argument("comparison", help="name of the comparison, under `compare` in the campaign")
    ab.add_argument("--tokens", type=Path, required=True, help="folder of train.bin and tokens.json")
    ab.add_argument("--out", type=Path, required=True, help="folder of the pairs")

    pair = on_campaign(stages, "together", together, "make one run of every cell, one after the other")
    pair.add_argument("--repeat", type=int, default=1)
    pair.add_argument("--results", type=Path, default=Path("results"), help="where the corpora are")
    pair.add_argument("--out", type=Path, required=True, help="folder of the runs")
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
    preflight.add_argument("--profile", type=Path, default=Path("slurm"), help="the profile's folder")
    preflight.add_argument("--results", type=Path, default=Path("results"))

    again = on_campaign(
        stages, "retry", retry, "remove the runs that failed, so that the next snakemake makes them anew"
    )
    again.add_argument("--cell", help="remove all runs of this cell instead, measured ones too")
    again.add_argument("--results", type=Path, default=Path("results"))

    for name, stage, doc in (
        ("collect", collect, "gather all runs into runs.csv"),
        ("findings", findings, "check all runs: findings.json"),
        ("analyse", analyse, "cells.csv and scaling_report.json"),
        ("comparison", comparison, "comparison.json with its table and chart"),
        ("report", report, "report.html"),
    ):
        on_campaign(stages, name, stage, doc).add_argument("--results", type=Path, default=Path("results"))
    command(stages, "table", table, "the scaling table as CSV, Markdown and LaTeX").add_argument(
        "folder", type=Path, help="results/<campaign>"
    )
    charts = command(stages, "chart", chart, "draw one chart as SVG and PNG")
    charts.add_argument("chart", help="ranking, throughput, speedup or step_time")
    charts.add_argument("folder", type=Path, help="results/<campaign>")
    return top


def main() -> None:
    args = parser().parse_args()
    try:
        args.run(args)
    except UserError as error:
        print(f"scalebench: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except OSError as error:  # a full disk, a folder that may not be written: nothing that a traceback would explain
        print(f"scalebench: {error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
