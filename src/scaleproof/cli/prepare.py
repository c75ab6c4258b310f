"""Before anything is measured: look at a campaign, look at the corpora, make tokens."""

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from scaleproof.cli.arguments import Group, add_campaign_command, add_command, add_results_option, add_subcommands
from scaleproof.cli.values import count, file_to_read, folder, hub_name, path
from scaleproof.cli.values import text as text_type
from scaleproof.ground.errors import UserError, plural
from scaleproof.ground.files import write_json
from scaleproof.ground.number_format import integer, significant
from scaleproof.ground.snakemake_command import RESULTS

if TYPE_CHECKING:
    from scaleproof.ground.campaign.loaded import LoadedCampaign

# Kind of file -> module and class of its model.
MODELS = {
    "campaign": "ground.campaign.config:Campaign",
    "corpora": "ground.campaign.corpora:CorpusTable",
    "training_metrics": "ground.records.metrics:Measured",
    "findings": "ground.findings.finding:Findings",
    "scaling_report": "ground.records.scaling_report:ScalingReport",
    "claims": "ground.records.claims:ClaimsReport",
    "comparison": "ground.records.comparison_report:ComparisonReport",
    "traces": "ground.records.traces_report:TracesReport",
    "waterfall": "ground.records.waterfall_report:WaterfallReport",
    "forecast": "ground.findings.forecast_report:ForecastReport",
    "profile_summary": "ground.records.profile_schema:Profile",
    "audit": "auditor.audit:Audit",
    "compare": "ground.comparison:Comparisons",
    "ab": "conclude.report.sentences.ab:AbAnswer",
    "manifest": "verify.manifest:Manifest",
    "pairs": "measure.launch.pairs:Pairs",
    "reference": "measure.reference.schema:Reference",
    "sweep": "conclude.forecast.sweep_file:Sweep",
    "doctor": "measure.doctor.doctor:Report",
}

# Packages are imported inside the commands: `campaign show` must not wait for pandas, nor a chart for torch.


def campaign_validate(args: argparse.Namespace) -> None:
    """Check a campaign, and print what will run and how long it takes. Raises UserError where it is not valid."""
    from scaleproof.driver.campaign_preview import cells_text, command_text, remarks
    from scaleproof.driver.planned_work import planned_work
    from scaleproof.measure.corpus.downloads import lines_of_downloads
    from scaleproof.measure.machine.gpus import cuda_devices, usable_gpus

    loaded = load_checked_campaign(args.campaign, args.results)
    print(f"{args.campaign}: valid; {cells_text(loaded.campaign, len(loaded.cells))}")
    if loaded.campaign.workload.command is not None:
        print(command_text(loaded.campaign, len(loaded.cells)))
    for line in lines_of_downloads(loaded):
        print(line)
    work = planned_work(loaded, args.results, count_tables_and_charts(loaded), probes=False)  # no test of speed: quick
    print(f"{work.text}{remarks(loaded, usable_gpus(cuda_devices)[0])}")


def campaign_show(args: argparse.Namespace) -> None:
    """Print the cells of a campaign, and how long it takes. Raises UserError where it is not valid."""
    from scaleproof.driver.campaign_preview import preview_campaign
    from scaleproof.driver.planned_work import planned_work

    loaded = load_checked_campaign(args.campaign, args.results)
    print(preview_campaign(loaded))
    print(f"\n{planned_work(loaded, args.results, count_tables_and_charts(loaded)).text}")
    for line in better_splits(loaded, args.results):
        print(line)


def better_splits(loaded: "LoadedCampaign", results: Path) -> list[str]:
    """Return advice in lines: numbers of repeats (or pairs) and steps that show smaller differences in the same time.

    It is computed from the runs so far; without runs there is none. Damaged pairs are left out: the report names them.
    """
    folder = results / loaded.name
    if not (folder / "runs").is_dir():
        return []
    from scaleproof.conclude.analysis.ab_comparison import read_pairs
    from scaleproof.conclude.analysis.design import best_split, best_split_of_pairs
    from scaleproof.conclude.forecast.campaign_forecast import read_measured
    from scaleproof.conclude.forecast.text import split_text

    splits = {"repeats": best_split(read_measured(loaded, results))}
    for name, (_, a, b) in loaded.comparisons.items():
        pairs = folder / "compare" / name / "pairs.json"
        if pairs.is_file():
            with contextlib.suppress(UserError):
                splits[f"pairs of {name}"] = best_split_of_pairs(read_pairs(pairs, a, b))
    return [split_text(what, *split) for what, split in splits.items() if split]


def count_tables_and_charts(loaded: "LoadedCampaign") -> int:
    from scaleproof.conclude.report.chart_catalog import charts_of, tables_of

    of_traces = 4 if loaded.traced else 0  # timeline, communication, steps, kernels
    return len(charts_of(loaded)) + len(tables_of(loaded)) + of_traces


def load_checked_campaign(campaign: Path, results: Path) -> "LoadedCampaign":
    """Load a campaign, and check its corpora and models. Raises UserError."""
    from scaleproof.driver.as_sent import check_possible
    from scaleproof.ground.campaign.loaded import LoadedCampaign
    from scaleproof.measure.model.inventory import inventory_of

    loaded = LoadedCampaign(campaign, results)
    check_possible(loaded)
    _check_corpora(loaded, results)
    for cell in loaded.cells:
        try:
            parameters = inventory_of(cell).parameters
        except UserError as error:
            raise loaded.placed(UserError(f"cell {cell.slug}: {error}", error.key)) from None
        weights_gb = 4 * parameters / cell.execution.geometry.n_devices / 1e9
        limit_gb = loaded.campaign.frontier.limit_gb
        if cell.searched and limit_gb and limit_gb < weights_gb:
            fault = f"frontier.limit_gb {limit_gb:g} is less than the weights of {cell.slug}"
            raise loaded.placed(UserError(f"{fault}, {significant(weights_gb)} GB a device", ("frontier", "limit_gb")))
    return loaded


def _check_corpora(loaded: "LoadedCampaign", results: Path) -> None:
    """Raise UserError where a corpus differs from its row in the table, or is too small for a tokenizer or a step."""
    from scaleproof.ground.campaign.cells import tokens_of
    from scaleproof.ground.campaign.config import tokenizer_entries
    from scaleproof.ground.campaign.loaded import tokens_dir
    from scaleproof.measure.corpus.check import (
        check_corpus,
        most_trainable_entries,
        size_of_text,
        size_of_tokens,
        small_text,
    )
    from scaleproof.measure.corpus.reader import check_samples, samples_in
    from scaleproof.measure.corpus.tokenizer import FEWEST, error_for_small_text

    for name, corpus in loaded.corpora.items():
        for line in check_corpus(name, corpus):
            print(f"warning: {line}", file=sys.stderr)
        cells = [cell for cell in loaded.cells if tokens_of(cell)[0] == name]  # `tokens_of`: corpus, tokenizer
        tokenizers = [tokens_of(cell)[1] for cell in cells]
        entries = {tokenizer: tokenizer_entries(tokenizer) for tokenizer in tokenizers if tokenizer.startswith("bpe-")}
        text, _ = small_text(name, corpus) or (None, 0)  # None for a corpus that is too large to be read now

        # Tokens that are made already are counted; without them the text gives an upper limit, for any tokenizer.
        sizes = {folder: size_of_tokens(folder) for folder in {tokens_dir(results, cell) for cell in cells}}
        most_size = size_of_text(text, corpus.validation_fraction) if text is not None else None
        for cell in cells:
            token_size = sizes[tokens_dir(results, cell)]
            size, at_most = (token_size, "") if token_size else (most_size, "at most ")
            try:
                if size:
                    check_samples(samples_in(size, cell.workload), cell.batch.global_, at_most)
            except UserError as error:
                raise loaded.placed(UserError(f"cell {cell.slug}: {error}", error.key)) from None

        # Counted up to the largest tokenizer that a cell needs: more entries would only take time.
        most_entries = most_trainable_entries(text, max(entries.values(), default=FEWEST)) if text else None
        for tokenizer, n_entries in entries.items():
            if most_entries is not None and n_entries > most_entries:
                raise loaded.placed(error_for_small_text(tokenizer, most_entries))


def stale(args: argparse.Namespace) -> None:
    """Print what of each campaign would be measured again, and which of its files are lost or changed.

    Measured again are runs, and what is measured beside them, such as traces. Raises SystemExit(1) for any of these.
    """
    from scaleproof.driver.stale import stale_runs
    from scaleproof.driver.stale_text import stale_text
    from scaleproof.ground.campaign.campaign_paths import CAMPAIGNS, check_same_folder, other_folder_hint
    from scaleproof.ground.campaign.loaded import LoadedCampaign

    campaigns = list(dict.fromkeys(args.campaigns))
    if not campaigns:  # all that have results
        files = sorted(CAMPAIGNS.glob("*.yaml"))
        campaigns = [file for file in files if (args.results / file.stem).is_dir()]  # its runs may be lost
    for campaign in args.campaigns:
        check_same_folder(campaign, args.results)
        LoadedCampaign(campaign)  # raises UserError for any campaign, before Snakemake is asked about the first
    answers = [stale_runs(campaign, args.results) for campaign in campaigns]
    text = "\n".join(stale_text(answer) for answer in answers)
    nothing = f"{args.results}: no campaign has results"
    if not text and (hint := other_folder_hint()):
        raise UserError(f"{nothing}{hint}")
    strays = "" if args.campaigns else "\n".join(_lines_of_strays(args.results))
    texts = "\n".join(filter(None, (text, strays)))
    print(texts or nothing + ("" if CAMPAIGNS.is_dir() else f"; there is no folder {CAMPAIGNS} here"))
    if any(answer.has_faults for answer in answers):
        raise SystemExit(1)


def _lines_of_strays(results: Path) -> Iterator[str]:
    """Yield a line for each folder of runs that is of no campaign here, as of a renamed one."""
    from scaleproof.ground.campaign.campaign_paths import CAMPAIGNS
    from scaleproof.ground.json_faults import read_part
    from scaleproof.ground.records.run import METRICS

    for runs in sorted(results.glob("*/runs")):
        file = CAMPAIGNS / f"{runs.parent.name}.yaml"
        record = min(runs.glob(f"*/*/{METRICS}"), default=None)
        name = read_part(record, lambda content: str(content["campaign"])) if record else None
        if name and not file.is_file():
            cure = "put that file back, or move this folder away"
            yield f"{runs.parent}: there is no {file}; its runs are of the campaign {name}: {cure}"


def keep(args: argparse.Namespace) -> None:
    """Let Snakemake take the finished runs of a campaign as they are. Raises UserError where a run does not fit."""
    from scaleproof.driver.keep import keep, rest_text
    from scaleproof.ground.campaign.campaign_paths import check_same_folder
    from scaleproof.ground.campaign.loaded import LoadedCampaign

    if args.results.is_absolute() or ".." in args.results.parts:  # outside of Snakemake's working folder
        where = f"cd {args.results.parent}"
        raise UserError(f"--results {args.results}: snakemake makes results below its own folder; first: {where}")
    check_same_folder(args.campaign, args.results)
    loaded = LoadedCampaign(args.campaign, args.results)
    runs = keep(loaded, args.results)
    print(f"{plural(len(runs), 'run')} of {loaded.name} kept; {rest_text(loaded, args.results)}")


def campaign_schema(args: argparse.Namespace) -> None:
    from scaleproof.ground.campaign.yaml_loader import schema_text

    print(schema_text(resolve_name(f"scaleproof.{MODELS[args.what]}")), end="")


def corpus_list(args: argparse.Namespace) -> None:
    from scaleproof.ground.campaign.loaded import corpora
    from scaleproof.measure.corpus.downloads import describe_corpora_table

    print(describe_corpora_table(corpora()))


def corpus_check(args: argparse.Namespace) -> None:
    """Check that a corpus holds what its row says. Raises UserError where it does not."""
    from scaleproof.ground.campaign.loaded import corpus_called
    from scaleproof.measure.corpus.check import ask_hub, check_corpus, most_trainable_entries, small_text
    from scaleproof.measure.corpus.remote import Remote

    corpus = corpus_called(args.corpus)
    damages = check_corpus(args.corpus, corpus)
    hub_answer = ask_hub(args.corpus, corpus, Remote.from_environment(os.environ, RESULTS / "downloads"))
    text, empty = small_text(args.corpus, corpus) or (None, 0)
    most_entries = most_trainable_entries(text) if text else None
    size = f"a small text, on which tokenizers up to bpe-{most_entries} can be trained" if most_entries else ""
    left_out = f"{plural(empty, 'empty document')} of {empty + len(text)} left out" if text and empty else ""
    print("; ".join(part for part in (f"{args.corpus}: valid", hub_answer, size, left_out) if part), *damages, sep="\n")


def model_fetch(args: argparse.Namespace) -> None:
    """Fetch the config.json of a model, and print the line that a campaign needs."""
    from scaleproof.measure.corpus.remote import Remote
    from scaleproof.measure.model.fetch import fetch_config

    remote = Remote.from_environment(os.environ, Path())
    line = fetch_config(args.model, args.revision, remote.endpoint, remote.token)
    print(f"write into the campaign, under workload:\n  {line}")


def corpus_fetch(args: argparse.Namespace) -> None:
    from scaleproof.ground.campaign.loaded import corpus_called
    from scaleproof.measure.corpus.documents import gather_documents
    from scaleproof.measure.corpus.remote import Remote

    remote = Remote.from_environment(os.environ, args.downloads)
    description = gather_documents(args.corpus, corpus_called(args.corpus), args.out, remote)
    print(f"{plural(description['documents'], 'document')}, {integer(description['bytes'])} bytes")
    if description["replaced_characters"]:
        count_text = integer(description["replaced_characters"])
        print(f"warning: {count_text} places were not UTF-8 and hold U+FFFD now", file=sys.stderr)


def corpus_tokenizer(args: argparse.Namespace) -> None:
    from scaleproof.measure.corpus.tokenizer import train_tokenizer
    from scaleproof.measure.corpus.unchanged import read_unchanged

    train_tokenizer(args.tokenizer, read_unchanged(args.corpus_dir), args.out)


def gpt2_tokenizer(args: argparse.Namespace) -> None:
    from scaleproof.measure.corpus.remote import Remote
    from scaleproof.measure.corpus.tokenizer import write_gpt2_tokenizer

    write_gpt2_tokenizer(Remote.from_environment(os.environ, args.downloads).fetch_gpt2_merges(), args.out)


def corpus_tokenise(args: argparse.Namespace) -> None:
    """Encode a corpus into train.bin and val.bin, and print how many tokens they have."""
    from scaleproof.measure.corpus.tokenise import tokenise_corpus
    from scaleproof.measure.corpus.unchanged import check_unchanged

    check_unchanged(args.corpus_dir)
    tokens = tokenise_corpus(args.corpus_dir, args.tokenizer, args.out, args.processes)
    train, val = tokens["train"]["tokens"], tokens["val"]["tokens"]
    print(f"{integer(train)} training and {integer(val)} validation tokens, {tokens['dtype']}")


def corpus_reread(args: argparse.Namespace) -> None:
    """Compare token files with the documents of their corpus, and the documents with their source.

    The comparison is written as JSON, and its differences are printed.
    """
    from scaleproof.ground.campaign.loaded import corpus_of_folder
    from scaleproof.measure.reference.corpus_reader import read_corpus

    _, corpus = corpus_of_folder(args.tokens.parent.name)
    reading = read_corpus(args.tokens, corpus, args.downloads)
    write_json(args.out, reading.model_dump(mode="json"))
    print(f"{plural(reading.read, 'document')} of {integer(reading.documents)} read again")
    reason_unread = f": {reading.unread}" if reading.unread else ""
    print(f"{integer(reading.compared or 0)} compared with their source{reason_unread}")
    for difference in reading.differences:
        print(difference)


def add(commands: Group) -> None:
    """Add `campaign`, `model`, `corpus`, `stale` and `keep` to `commands`."""
    campaign = add_subcommands(commands, "campaign", "look at a campaign before anything runs")
    example = "scaleproof campaign validate config/campaigns/demo.yaml"
    doc = "check a campaign file and what it names; count what will run and estimate the time"
    add_results_option(add_campaign_command(campaign, "validate", campaign_validate, doc, example))
    doc = "list the cells of a campaign: batch arithmetic, tokens, memory, processes, what cannot run here"
    example = "scaleproof campaign show config/campaigns/demo.yaml"
    add_results_option(add_campaign_command(campaign, "show", campaign_show, doc, example))
    doc = "print the JSON schema of a file: of campaigns, with which editors complete them, or of a result"
    example = (
        "scaleproof campaign schema > config/campaign.schema.json\n"
        "scaleproof campaign schema scaling_report     # results/NAME/scaling_report.json\n"
        "scaleproof campaign schema audit              # scaleproof audit --json; likewise compare and ab"
    )
    parser = add_command(campaign, "schema", campaign_schema, doc, example)
    help_text = f"{', '.join(MODELS)} (default: campaign)"
    parser.add_argument("what", choices=list(MODELS), nargs="?", default="campaign", metavar="FILE", help=help_text)

    model = add_subcommands(commands, "model", "look at models of the Hugging Face hub")
    doc = "fetch the config.json of a model, once, and print the line that a campaign needs; no weights"
    parser = add_command(model, "fetch", model_fetch, doc, "scaleproof model fetch Qwen/Qwen3-0.6B")
    parser.add_argument("model", type=hub_name, help="owner/name on the hub, or on HF_ENDPOINT")
    parser.add_argument("--revision", type=text_type, default="main", help="a branch or a commit (default: main)")

    corpus = add_subcommands(commands, "corpus", "look at the corpora of config/corpora.yaml")
    doc = "list the corpora with their sources and sizes"
    add_command(corpus, "list", corpus_list, doc, "scaleproof corpus list")
    doc = "open the files of a corpus, or ask the hub for them, and check that they hold what its row says"
    parser = add_command(corpus, "check", corpus_check, doc, "scaleproof corpus check python-docs")
    parser.add_argument("corpus", help="a name in config/corpora.yaml")
    doc = "what an upgrade or an edit would measure again, why, and how many device hours"
    example = (
        "scaleproof stale                                "
        "# all campaigns with results; exit code 1 if anything is stale\n"
        "scaleproof stale config/campaigns/demo.yaml"
    )
    parser = add_command(commands, "stale", stale, doc, example)
    help_text = "campaign files (default: all with results)"
    parser.add_argument("campaigns", nargs="*", type=path, metavar="CAMPAIGN", help=help_text)
    add_results_option(parser)
    doc = "let snakemake take finished runs as they are: those copied from another folder, and those of older code"
    add_results_option(add_campaign_command(commands, "keep", keep, doc, "scaleproof keep config/campaigns/demo.yaml"))


def add_stages(stages: Group) -> None:
    parser = add_command(stages, "corpus_fetch", corpus_fetch, "gather the documents of a corpus")
    parser.add_argument("corpus", help="a name in config/corpora.yaml")
    parser.add_argument("--out", type=path, required=True, metavar="DIR", help="folder of documents.parquet")
    _downloads_option(parser)
    parser = add_command(stages, "gpt2_tokenizer", gpt2_tokenizer, "download the tokenizer of GPT-2")
    parser.add_argument("--out", type=path, required=True, metavar="FILE", help="tokenizer.json to write")
    _downloads_option(parser)
    parser = add_command(stages, "corpus_tokenizer", corpus_tokenizer, "train a tokenizer on a corpus")
    parser.add_argument("tokenizer", help="bpe-<n> or bytes")
    parser.add_argument("corpus_dir", type=folder, help="folder of documents.parquet")
    parser.add_argument("--out", type=path, required=True, metavar="FILE", help="tokenizer.json to write")
    parser = add_command(stages, "corpus_tokenise", corpus_tokenise, "encode a corpus into train.bin and val.bin")
    parser.add_argument("corpus_dir", type=folder, help="folder of documents.parquet")
    parser.add_argument("tokenizer", type=file_to_read, help="tokenizer.json")
    parser.add_argument("--processes", type=count, metavar="N", help="how many at a time (default: one per core)")
    parser.add_argument("--out", type=path, required=True, metavar="DIR", help="folder of the token files")
    doc = "hold token files against the documents of their corpus"
    parser = add_command(stages, "corpus_reread", corpus_reread, doc)
    parser.add_argument("tokens", type=folder, help="folder of train.bin, val.bin and tokens.json")
    parser.add_argument("--out", type=path, required=True, metavar="FILE", help="second_reading.json to write")
    _downloads_option(parser)


def _downloads_option(parser: argparse.ArgumentParser) -> None:
    help_text = "where downloaded files stay (default: results/downloads)"
    parser.add_argument("--downloads", type=path, default=RESULTS / "downloads", metavar="DIR", help=help_text)
