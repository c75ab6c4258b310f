"""Thousands of generated inputs: campaigns, corpora, records, command lines, targets. An answer or one message.

No input may end in a traceback, take long, or write outside the folder that it was given. Inputs are the same in every
session (`derandomize`); to try others: SCALEPROOF_FUZZ=10000 pytest tests/cli/test_fuzz.py
"""

import copy
import json
import os
import time
from pathlib import Path

import pytest
import yaml
from command_line import Done, scaleproof
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic import cells, rewrite, write_failure, write_run

from scaleproof.cli import parser
from scaleproof.ground.campaign import loaded
from scaleproof.ground.campaign.config import SECTIONS
from scaleproof.ground.errors import UserError
from scaleproof.measure.corpus.check import check_corpus

EXAMPLES = int(os.environ.get("SCALEPROOF_FUZZ", "0"))
DUMPER = getattr(yaml, "CDumper", yaml.Dumper)
LONGEST_S = 3.0  # of CPU, of one input
CAMPAIGN = {
    "title": "Does it scale?",
    "workload": {
        "model": {"layers": 2, "width": 64, "heads": 2},
        "corpus": "mine",
        "tokenizer": "bytes",
        "seq_len": 32,
    },
    "work": {"global_batch": 16, "steps": 5, "optimizer": {"betas": [0.9, 0.95]}, "schedule": {"name": "cosine"}},
    "execution": {"precision": "fp32", "device": "cpu"},
    "vary": {"strategy": ["ddp", "zero1"], "geometry": ["1x1", "1x2"]},
    "exclude": [{"strategy": "zero1", "geometry": "1x1"}],
    "compare": [{"name": "fused", "b": {"fused_optimizer": False}, "pairs": 2, "null_pairs": 2}],
    "trace": {"cells": ["ddp-n1x2"], "steps": 2},
    "repeats": 2,
    "resources": {"time_limit": 5},
}
CORPORA = {
    "mine": {"source": "text", "files": ["notes.txt"], "document": "line"},
    "news": {"source": "csv", "files": ["news.csv"], "field": ["title", "body"], "label": "class"},
    "far": {
        "source": "http",
        "urls": ["http://localhost/x"],
        "revision": "v1",
        "files": ["a-{00..03}.txt"],
        "format": "text",
    },
}
WORDS = [
    "",
    " ",
    "fp32",
    "BF16",
    "DDP",
    "nccl",
    "gpu",
    "derive",
    "1x2",
    "0x0",
    "1x99999",
    "99999999x2",
    "../x",
    "/etc/passwd",
    "\x1b[31mred",
    "a\nb",
    "<script>",
    "$(id)",
    "\\input{x}",
    "=1+1",
    "é" * 50,
    "x" * 300,
    "bpe-99999999999999999999",
    "~",
    "*",
    "**/*",
    "{0..9}",
    "{0..999999999}",
    "\ud800",
]
NUMBERS = [
    0,
    1,
    -1,
    2,
    3,
    10**6,
    10**9,
    10**12,
    10**18,
    10**40,
    2**31,
    2**64,
    0.5,
    -0.5,
    1e-300,
    1e300,
    float("inf"),
    float("nan"),
]
SECTION_KEYS = sorted({name for model in SECTIONS.values() for name in model.model_fields} | set(CAMPAIGN))
scalars = st.one_of(
    st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(WORDS), st.text(max_size=20), st.integers()
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(SECTION_KEYS), st.text(max_size=10)), inner, max_size=4),
    ),
    max_leaves=6,
)
# A place in a document, as numbers that are taken modulo what is there, and what becomes of it.
edits = st.lists(
    st.tuples(st.lists(st.integers(0, 30), min_size=1, max_size=4), st.integers(0, 3), values), min_size=1, max_size=3
)


def fuzz(examples: int):
    """Settings of a fuzz test with so many inputs in the suite."""
    return settings(
        max_examples=EXAMPLES or examples,
        deadline=None,
        derandomize=not EXAMPLES,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def edited(document: object, changes: list[tuple[list[int], int, object]]) -> object:
    """The document with values replaced, removed, added or wrapped in a list."""
    document = copy.deepcopy(document)
    for places, kind, value in changes:
        node = document
        for depth, place in enumerate(places):
            keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
            if not keys:
                break
            key = keys[place % len(keys)]
            if depth == len(places) - 1 or not isinstance(node[key], dict | list):
                if kind == 0 or (kind == 2 and isinstance(node, list)):
                    node[key] = value
                elif kind == 1:
                    del node[key]
                elif kind == 2:
                    node[SECTION_KEYS[place % len(SECTION_KEYS)]] = value
                else:
                    node[key] = [node[key]]
                break
            node = node[key]
    return document


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder as a repository is: a table of corpora, two files of text, campaigns."""
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "config/campaigns").mkdir(parents=True)
    (folder / "config/corpora.yaml").write_text(yaml.safe_dump(CORPORA))
    (folder / "notes.txt").write_text("one\ntwo\nthree\n")
    (folder / "news.csv").write_text("class,title,body\n1,a,b\n2,c,d\n")
    (folder / "config/campaigns/good.yaml").write_text(yaml.safe_dump(CAMPAIGN))
    return folder


def answered(*words: str | Path, cwd: Path) -> Done:
    """The answer, which must be one: an exit code of ours, in time, with a message if it is 2."""
    began = time.process_time()
    done = scaleproof(*words, cwd=cwd)
    assert time.process_time() - began < LONGEST_S, words
    assert done.returncode in (0, 1, 2), words
    assert done.returncode != 2 or (done.stderr + done.stdout).strip(), words
    assert "\x1b" not in done.stdout + done.stderr, words
    assert "Traceback" not in done.stderr
    return done


def as_yaml(document: object) -> bytes:
    """The document as its author may write it, with JSON's notation now and then."""
    try:
        return yaml.dump(document, allow_unicode=True, Dumper=DUMPER).encode("utf-8", "surrogatepass")
    except UnicodeEncodeError:  # half a surrogate pair, which libyaml does not take
        return yaml.dump(document, allow_unicode=True, Dumper=yaml.Dumper).encode("utf-8", "surrogatepass")


def read(place: Path, path: Path) -> None:
    """Read a campaign as every command does, its corpora too: it is valid, or there is one message."""
    began = time.process_time()
    before = Path.cwd()
    text = "valid"
    os.chdir(place)
    try:
        campaign = loaded.LoadedCampaign(path)
        for name, corpus in campaign.corpora.items():
            check_corpus(name, corpus)
    except UserError as error:
        text = str(error)
    finally:
        os.chdir(before)
    assert text.strip()
    assert len(text) < 20_000
    assert "\x1b" not in text
    assert time.process_time() - began < LONGEST_S


@fuzz(250)
@given(edits)
def test_any_campaign(place, changes):
    path = place / "config/campaigns/mine.yaml"
    path.write_bytes(as_yaml(edited(CAMPAIGN, changes)))
    read(place, path)


@fuzz(300)
@given(st.binary(max_size=60), st.integers(0, 400), st.integers(0, 30))
def test_any_bytes_in_a_campaign(place, data, at, cut):
    text = yaml.safe_dump(CAMPAIGN).encode()
    path = place / "config/campaigns/mine.yaml"
    path.write_bytes(text[:at] + data + text[at + cut :])
    read(place, path)


@fuzz(100)
@given(edits)
def test_any_table_of_corpora(place, changes):
    table = place / "config/corpora.yaml"
    before = table.read_bytes()
    try:
        table.write_bytes(as_yaml(edited(CORPORA, changes)))
        loaded._corpus_table.cache_clear()
        read(place, place / "config/campaigns/good.yaml")
    finally:
        table.write_bytes(before)
        loaded._corpus_table.cache_clear()


NAMES = sorted({word for name in parser()._subparsers._group_actions[0].choices for word in [name]})
words = st.one_of(
    st.sampled_from(
        [
            *NAMES,
            "validate",
            "show",
            "check",
            "list",
            "summary",
            "diff",
            "--json",
            "--cell",
            "--steps",
            "--help",
            "--",
            "config/campaigns/good.yaml",
            "config",
            ".",
            "nowhere",
            "notes.txt",
            "--results",
            "results",
        ]
    ),
    st.sampled_from([w for w in WORDS if "\0" not in w]),
    st.text(st.characters(exclude_characters="\0"), max_size=8),
)
HARMLESS = ("campaign", "compare", "explain", "retry", "corpus", "audit", "trace")


@fuzz(60)
@given(st.sampled_from(HARMLESS), st.lists(words, max_size=4))
def test_any_command_line(place, first, rest):
    if first == "trace" and rest[:1] == ["capture"]:
        return
    answered(first, *rest, cwd=place)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """Runs of two cells, one of them failed."""
    folder = tmp_path_factory.mktemp("records")
    one, two = cells()[:2]
    return [write_run(folder / "a", one), write_run(folder / "b", two), write_failure(folder / "c", two)]


@fuzz(20)
@given(edits, st.integers(0, 2))
def test_any_record(records, changes, which):
    run = records[which]
    path = run.folder / "training_metrics.json"
    before = path.read_text()
    try:
        path.write_bytes(json.dumps(edited(json.loads(before), changes)).encode("utf-8", "surrogatepass"))
        answered("audit", run.folder, cwd=run.folder)
        answered("compare", records[0].folder, records[1].folder, "--may-differ", "execution", cwd=run.folder)
    finally:
        path.write_text(before)


BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "more than 10,000 keys and values"),
        (BOMB + "title: *a11\n", "more than 10,000 keys and values"),
        ("title: x\nvary: {strategy: [" + "ddp," * 100_000 + "]}\n", "more than 10,000 keys and values"),
        ("# " + "x" * 2_000_000 + "\ntitle: x\n", "larger than 1,000,000 bytes"),
        ("[" * 10_000 + "]" * 10_000, "nested too deeply"),
        ("x: " + "{a: " * 3000 + "1" + "}" * 3000, "nested too deeply"),
        ("title: x\nrepeats: 1000000000\n", "allowed: a whole number >= 1 and <= 10000"),
        (
            "title: x\nrepeats: 10000\nvary: {seed: [" + ",".join(map(str, range(200))) + "]}\n",
            "200 cells x 10,000 repeats",
        ),
        (
            "title: x\nvary: {seed: [" + ",".join(map(str, range(2000))) + "], micro_batch: [1,2,4,8,16,32]}\n",
            "12,000 cells",
        ),
        ("title: x\nworkload: {model: {layers: 10000, width: 1000000, heads: 1}}\n", "parameters; at most 1e+13"),
        ("title: x\nwork: {global_batch: 1000000000000}\n", "<= 1000000000"),
        ('title: "one\\e[31m red"\n', "character 4 is U+001B; allowed: one line of text"),
        ('title: "one\\n\\\\input{/etc/passwd}"\n', "character 4 is U+000A"),
        ("title: x\nwork: {schedule: {ramp_steps: 1000}}\n", "ramp_steps 1000 is more than the run has"),
        ("title: x\nwork: {schedule: {final_fraction: 0}}\n", "final_fraction is where linear and cosine end"),
        ("title: x\nexecution: {precision: BF16}\n", 'Did you mean "bf16"?'),
        ("title: x\nexecution: {precision: float32}\n", 'Did you mean "fp32"?'),
        ("title: x\nexecution: {strategy: DDP}\n", 'Did you mean "ddp"?'),
        ("title: x\nexecution: {device: nccl}\n", 'Did you mean "cuda"?'),
        ("title: x\nREPEATS: 3\n", 'Did you mean "repeats"?'),
        ("title: x\nwork: {learning_rate: 1}\n", "It belongs under work.optimizer"),
        ("title: x\nexecution: {nodes: 2}\n", 'Did you mean "geometry"?'),
        ("title: x\nvary: {strategy: ddp}\n", "Write [ddp]."),
        ("title: x\nwork: {optimizer: {betas: [0.9]}}\n", "a list of 2"),
    ],
)
@pytest.mark.fault("alias bombs, depth, size, absurd numbers in a campaign", "one message, exit code 2")
def test_known_faults(place, text, message):
    path = place / "config/campaigns/mine.yaml"
    path.write_text(text)
    done = answered("campaign", "validate", path, cwd=place)
    assert done.returncode == 2, done
    assert message in done.stderr


@pytest.mark.fault("a pipe in place of a file", "refused, not waited for")
def test_a_pipe_is_not_waited_for(place, records):
    os.mkfifo(place / "config/campaigns/pipe.yaml")
    assert "not a regular file" in answered("campaign", "validate", "config/campaigns/pipe.yaml", cwd=place).stderr
    run = rewrite(records[0])
    steps = run.folder / "steps.csv"
    data = steps.read_bytes()
    steps.unlink()
    os.mkfifo(steps)
    try:
        answered("audit", run.folder, cwd=place)
    finally:
        steps.unlink()
        steps.write_bytes(data)
