"""Before anything is measured: look at a campaign, make its tokens."""

import argparse
import os
import sys
from pathlib import Path

from scalebench.cli.arguments import Group, command, on_campaign

# Rooms are imported inside the commands: `campaign show` must not wait for pandas, nor a chart for torch.


def campaign_validate(args: argparse.Namespace) -> None:
    from scalebench.campaign.loaded import LoadedCampaign

    loaded = LoadedCampaign(args.campaign)
    loaded.check_files()
    runs = len(loaded.cells) * loaded.campaign.repeats
    print(f"{args.campaign}: valid; {len(loaded.cells)} cells x {loaded.campaign.repeats} repeats = {runs} runs")


def campaign_show(args: argparse.Namespace) -> None:
    from scalebench.campaign.loaded import LoadedCampaign
    from scalebench.preflight.campaign_preview import show

    loaded = LoadedCampaign(args.campaign)
    loaded.check_files()
    print(show(loaded))


def schema(args: argparse.Namespace) -> None:
    from scalebench.campaign.config import Campaign
    from scalebench.campaign.corpora import CorpusTable
    from scalebench.campaign.yaml_loader import schema_text

    print(schema_text({"campaign": Campaign, "corpora": CorpusTable}[args.what]), end="")


def corpus_fetch(args: argparse.Namespace) -> None:
    from scalebench.campaign.loaded import corpus_called
    from scalebench.corpus.documents import fetch
    from scalebench.corpus.remote import Remote

    found = fetch(args.corpus, corpus_called(args.corpus), args.out, Remote.of(os.environ, args.downloads))
    print(f"{found['documents']:,} documents, {found['bytes']:,} bytes")
    if found["replaced_characters"]:
        print(f"warning: {found['replaced_characters']:,} places were not UTF-8 and hold U+FFFD now", file=sys.stderr)


def corpus_tokenizer(args: argparse.Namespace) -> None:
    from scalebench.corpus.encode import read
    from scalebench.corpus.tokenizer import train as train_tokenizer

    train_tokenizer(args.tokenizer, read(args.corpus_dir / "documents.parquet"), args.out)


def corpus_merges(args: argparse.Namespace) -> None:
    from scalebench.corpus.remote import Remote
    from scalebench.corpus.tokenizer import from_merges

    from_merges(Remote.of(os.environ, args.downloads).merges(), args.out)


def corpus_tokenise(args: argparse.Namespace) -> None:
    from scalebench.corpus.tokenise import tokenise

    found = tokenise(args.corpus_dir, args.tokenizer, args.out, args.processes)
    print(f"{found['train']['tokens']:,} training and {found['val']['tokens']:,} validation tokens, {found['dtype']}")


def add(stages: Group) -> None:
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
    merges = command(corpus, "merges", corpus_merges, "download the tokenizer of GPT-2")
    tokenizer = command(corpus, "tokenizer", corpus_tokenizer, "train a tokenizer on a corpus")
    tokenizer.add_argument("tokenizer", help="bpe-<n> or bytes")
    tokenizer.add_argument("corpus_dir", type=Path, help="folder of documents.parquet")
    tokens = command(corpus, "tokenise", corpus_tokenise, "encode a corpus into train.bin and val.bin")
    tokens.add_argument("corpus_dir", type=Path, help="folder of documents.parquet")
    tokens.add_argument("tokenizer", type=Path, help="tokenizer.json")
    tokens.add_argument("--processes", type=int, default=None, help="default: one per core")
    for sub in (fetch, merges):
        sub.add_argument("--downloads", type=Path, default=Path("results/downloads"), help="where files are kept")
    for sub in (fetch, merges, tokenizer, tokens):
        sub.add_argument("--out", type=Path, required=True)
