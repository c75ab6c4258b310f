"""A corpus of the hub through the real Snakemake: downloaded once, tokenised, and kept apart by revision and budget."""

import io
import json
import sys
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from webserver import on_hub, serving

ROW = """
far:
  source: hub
  repository: someone/far
  revision: {revision}
  files: [a.parquet]
  format: parquet
  budget: {budget}
"""


@pytest.fixture(scope="module")
def hub(sentences):
    with serving() as server:
        for revision, texts in (("a" * 40, sentences), ("b" * 40, sentences[::-1])):
            out = io.BytesIO()
            pq.write_table(pa.table({"text": texts}), out)
            on_hub(server, "someone/far", revision, "a.parquet", out.getvalue())
        yield server


@pytest.fixture(scope="module")
def copy(make_copy, hub):
    made = make_copy()
    made.env = made.env | {"HF_ENDPOINT": hub.url}
    made.table = (made.root / "config/corpora.yaml").read_text()
    return made


def table(copy, revision="a" * 40, budget="100 documents"):
    (copy.root / "config/corpora.yaml").write_text(copy.table + ROW.format(revision=revision, budget=budget))


def test_a_corpus_of_the_hub(copy, hub):
    table(copy)
    tokens = "results/corpora/far@aaaaaaaaaaaa-100documents/bpe-300/tokens.json"
    copy.build(tokens)
    described = json.loads((copy.root / tokens).read_text())
    assert (described["corpus"], described["revision"]) == ("far", "a" * 40)
    assert described["train"]["documents"] + described["val"]["documents"] == 100
    assert copy.planned(tokens) == Counter()
    first = len(hub.seen)
    table(copy, budget="50 documents")
    copy.build("results/corpora/far@aaaaaaaaaaaa-50documents/corpus.json")
    assert len(hub.seen) == first, "the file is there already"
    table(copy, revision="b" * 40)
    copy.build("results/corpora/far@bbbbbbbbbbbb-100documents/corpus.json")
    assert [path.split("/")[1] for path, _ in hub.seen[first:]] == ["datasets", "store"]
    assert (copy.root / tokens).exists()


def test_a_folder_that_the_table_no_longer_means(copy):
    table(copy)
    done = copy.snakemake("results/corpora/far@cccccccccccc-100documents/corpus.json")
    assert done.returncode == 2
    assert "far is now far@aaaaaaaaaaaa-100documents, not far@cccccccccccc" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_a_hub_that_cannot_be_reached_is_said_in_the_log(copy, monkeypatch):
    table(copy)
    (copy.root / "config/corpora.yaml").write_text(copy.table + ROW.format(revision="d" * 40, budget="1 documents"))
    done = copy.snakemake("results/corpora/far@dddddddddddd-1documents/corpus.json")
    assert done.returncode == 1
    log = (copy.root / "results/corpora/far@dddddddddddd-1documents/fetch.log").read_text()
    assert "a.parquet could not be downloaded" in log
    assert "no such file there (HTTP 404)" in log
    assert "Traceback" not in log


# What Snakemake makes of the rules; no command line says which rules are local.
LOCAL_RULES = """
from pathlib import Path
from snakemake.api import OutputSettings, SnakemakeApi
from snakemake.settings.types import ConfigSettings, DAGSettings, ResourceSettings
with SnakemakeApi(OutputSettings()) as api:
    made = api.workflow(ResourceSettings(cores=1), ConfigSettings(), snakefile=Path("Snakefile"))
    made.dag(DAGSettings(targets={"results/corpora/python-docs/corpus.json"}))
    for rule in made._workflow.rules:
        if "corpora" in str(rule.output):
            print("RULE", rule.name, rule.name in made._workflow._localrules)
"""


def test_what_needs_the_network_or_no_time_runs_where_snakemake_runs(copy):
    done = copy.command(sys.executable, "-c", LOCAL_RULES)
    rules = dict(line.split()[1:] for line in done.stdout.splitlines() if line.startswith("RULE"))
    assert rules == {
        "corpus_fetch": "True",
        "gpt2_tokenizer": "True",
        "corpus_tokenizer": "False",
        "corpus_tokenise": "False",
        "corpus_reread": "True",
        "no_such_file": "True",  # takes no time
    }, done.stderr
