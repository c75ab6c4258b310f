"""Bad campaigns, tables of corpora, own texts and cluster profiles, from their schemas and from good ones."""

from random import Random
from typing import Any

import yaml
from bad_cases import MINE, NUMBERS, REPOSITORY, STRANGE, Case, Special, leaves, misspelt, put

from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.campaign.corpora import Corpus
from scaleproof.ground.errors import nearest_name

DOCUMENT: dict[str, Any] = {
    "title": "Does it scale?",
    "workload": {
        "model": {"layers": 2, "width": 64, "heads": 2, "context": 128},
        "corpus": "mine",
        "tokenizer": "bytes",
        "seq_len": 32,
    },
    "work": {
        "global_batch": 16,
        "steps": 5,
        "optimizer": {"learning_rate": 0.001, "betas": [0.9, 0.95]},
        "schedule": {"name": "cosine"},
    },
    "execution": {"precision": "fp32", "device": "cpu"},
    "vary": {"strategy": ["ddp", "zero1"], "geometry": ["1x1", "1x2"]},
    "exclude": [{"strategy": "zero1", "geometry": "1x1"}],
    "compare": [{"name": "fused", "b": {"fused_optimizer": False}, "pairs": 2}],
    "trace": {"cells": ["ddp-n1x2"], "steps": 2},
    "question": {"is": "zero1", "better_than": "ddp", "on": "1x2"},
    "repeats": {"resolve": "3 %", "at_most": 8},
    "resources": {"time_limit": 5},
}
MINE_ROW: dict[str, Any] = {"source": "csv", "files": ["notes/d.csv"], "field": "body", "budget": "10 MB"}
CAMPAIGN = yaml.safe_dump(DOCUMENT, sort_keys=False).encode()
CORPORA = (REPOSITORY / "config/corpora.yaml").read_text()
ROWS = b"k,body\n1,some words\n2,more of them\n"
SCHEMA = Campaign.model_json_schema()
CORPUS_SCHEMA = {"$defs": Corpus.model_json_schema().get("$defs", {})} | Corpus.model_json_schema()


def _node(schema: dict, place: tuple) -> list[dict]:
    """What a JSON schema has at a place."""
    nodes = [schema]
    for step in (*place, None):
        flat: list[dict] = []
        while nodes:
            node = nodes.pop(0)
            if "$ref" in node:
                nodes.append(schema["$defs"][node["$ref"].rsplit("/", 1)[1]])
            elif "anyOf" in node:
                nodes += node["anyOf"]
            else:
                flat.append(node)
        if step is None:
            return flat
        for node in flat:
            inner = node.get("properties", {}).get(step) if isinstance(step, str) else node.get("items")
            nodes += [inner] if inner else []
    return []


def document(random: Random, good: Any, schema: dict, at: str) -> tuple[Any, list[Any], str]:
    """A document with one thing wrong, what its answer must have, and what is wrong. `at`: dotted place of `good`."""
    sections = [()] + [p for p in leaves(good) if isinstance(_at(good, p), dict)]
    place = random.choice(sections)
    keys = sorted({name for node in _node(schema, place) for name in node.get("properties", {})})
    if not keys:
        return document(random, good, schema, at)
    name = random.choice(keys)
    key = (*place, name)
    dotted = at + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in key)
    dotted = dotted.lstrip(".")
    kind = random.choice(["misspelt", "misspelt", "value", "value", "value", "word", "section"])
    if kind == "misspelt":
        word = misspelt(random, name, keys)
        made = put(good, key, 1, word) if name in (_at(good, place) or {}) else put(good, (*place, word), 1)
        return made, ["unknown key", (f'"{name}"', f"{name}", "It belongs")], f"{dotted} as {word}"
    options = _node(schema, key)
    words = [str(w) for option in options for w in option.get("enum", [option["const"]] if "const" in option else [])]
    if kind == "word" and words:
        chosen = random.choice([w for w in words if len(w) > 2] or words)
        near = misspelt(random, chosen, words)
        hint = chosen if nearest_name(near, words) == chosen else ""
        return put(good, key, near), [dotted, hint, *words], f"{dotted}: {near}"
    if kind == "section":
        elsewhere = random.choice(["steps", "strategy", "learning_rate", "pairs", "tool", "time_limit", "resolve"])
        if elsewhere in keys:
            return document(random, good, schema, at)
        hint = "It belongs" if schema is SCHEMA else elsewhere
        return put(good, (*place, elsewhere), 3), ["unknown key", hint], f"{elsewhere} in {dotted}"
    value = random.choice(NUMBERS if any(o.get("type") in ("integer", "number") for o in options) else STRANGE)
    section = dotted.split("[")[0].rpartition(".")[0] or dotted  # what is wrong with a shape is said of it
    return put(good, key, value), [(dotted.split("[")[0], f"`{name}`", section, "cell")], f"{dotted}: {value!r}"[:150]


def _at(node: Any, place: tuple) -> Any:
    for step in place:
        node = node[step]
    return node


def written(made: Any) -> bytes:
    return yaml.safe_dump(made, sort_keys=False, allow_unicode=True).encode()


def campaign(random: Random) -> Case:
    """A campaign with one key or value wrong."""
    made, must, note = document(random, DOCUMENT, SCHEMA, "")
    files = {MINE: written(made), "config/corpora.yaml": corpora(MINE_ROW), "notes/d.csv": ROWS}
    return Case(["campaign", "validate", MINE], [MINE, *must], files, (0, 2), note)


def corpora(row: Any) -> bytes:
    """The repository's table with the row of `mine`."""
    return (CORPORA + "\n" + yaml.safe_dump({"mine": row}, sort_keys=False, allow_unicode=True)).encode()


def corpus(random: Random) -> Case:
    """A row of the table of corpora with one key or value wrong."""
    made, must, note = document(random, MINE_ROW, CORPUS_SCHEMA, "mine")
    files: dict[str, bytes | Special] = {"config/corpora.yaml": corpora(made), "notes/d.csv": ROWS}
    return Case(["corpus", "check", "mine"], ["config/corpora.yaml", *must], files, (0, 2), note)


TITLE = "title: x\n"
COMMAND = "workload: {command: 'python t.py%s', per_step: {steps: 1}}\n"
# Keys of a campaign -> what its answer must have, besides the file.
MEANT: dict[str, list[Any]] = {
    "repeats: # 3": ["repeats has no value"],
    "repeats: {resolve: 3}": ["Write 3 %."],
    "work: {schedule: {final_fraction: 10 %}}": ["Write 0.1."],
    "vary: {geometry: [1x1, 1x2]}\nquestion: {is: ddp-n1x1, better_than: ddp-n1x2, on: 1x2}": [
        "question.on",
        "ddp-n1x1",
    ],
    "repeats: {resolve: 2.5 percent}": ["Write 2.5 %."],
    "margin: 3,5 %": ["Write 3.5 %."],
    "work.seed: 3": ["work.seed. It belongs under work."],
    "repeats: 3# 5 are better": ["Write 3."],
    "work: {steps: 1\u00a0500}": ["Write 1500."],
    "resources: {time_limit: '1,5 h'}": ["Write 90 (minutes)."],
    "vary: {strategy: [ddp\uff0c zero2]}": ["Several stand apart: ddp, zero2."],
    "%margin: 2": ["begins no comment in YAML"],
    "question: {is: ddp}": ["compared with nothing", "ddp-n1x1"],
    "question: {is: ddp, better_than: ddp}": ["compared with itself"],
    "work: {optimizer: AdamW}": ["Write {name: adamw}"],
    "work: {seconds: 90000}": ["work.seconds"],
    "workload: {command: python t.py, figures: NanoGTP}": ['"NanoGPT"'],
    "workload: {command: python t.py, figures: megatron}": ['"Megatron"'],
    COMMAND % " {x}" + "vary: {x: [A, a]}": ["vary.x", '"A" and "a"'],
    COMMAND % " {x}" + "vary: {x: [1, 1]}": ["vary.x lists x1 twice"],
    COMMAND % " {x}": ["{x} has no value"],
    COMMAND % " > log.txt": ["bash -c"],
    COMMAND % " | tee log": ["bash -c"],
    COMMAND % "" + "vary: {strategy: [ddp, fsdp]}": ["vary.strategy"],
    "workload: {command: cd x && python t.py}": ["bash -c"],
    "workload: {command: LR=1 python t.py}": ["LR=1"],
    "cells: [{learning_rate: 1}]": ["cells[0].learning_rate", "work.optimizer"],
    "<<<<<<< HEAD\nrepeats: 3": ["merge conflict"],
}


def meant(random: Random) -> Case:
    """A campaign whose author meant something that can be said: a percentage, a reader, a shell, another section."""
    text, must = random.choice(list(MEANT.items()))
    return Case(["campaign", "validate", MINE], [MINE, *must], {MINE: f"{TITLE}{text}\n".encode()}, (2,), text)


def text_of_yaml(random: Random) -> Case:
    """A campaign whose text is damaged: a line cut, indented, doubled, a character too many or too few."""
    lines = CAMPAIGN.decode().splitlines()
    at = random.randrange(len(lines))
    column = random.randrange(len(lines[at]))
    line = lines[at]
    lines[at] = random.choice(
        [
            line[:column],
            " " + line,
            "\t" + line,
            line.replace(":", "", 1),
            line.replace(": ", ":", 1),
            line.replace(":", " =", 1),
            line + "\n" + line,
            line[:column] + random.choice("{}[]\"'%@`*&!|>#,?:-") + line[column:],
            line + ": x",
            "- " + line,
            "<<<<<<< HEAD",
            "\x00" + line,
        ]
    )
    files: dict[str, bytes | Special] = {
        MINE: "\n".join(lines).encode(),
        "config/corpora.yaml": corpora(MINE_ROW),
        "notes/d.csv": ROWS,
    }
    return Case(["campaign", "validate", MINE], [(MINE, "config/corpora.yaml")], files, (0, 2), lines[at][:100])


def text_of_corpus(random: Random) -> Case:
    """Own files that are not what the table says."""
    form = random.choice(["csv", "jsonl", "text", "parquet"])
    good = {"csv": ROWS, "jsonl": b'{"body": "a b"}\n{"body": "c d"}\n', "text": b"some words\n", "parquet": b"PAR1"}[
        form
    ]
    at = random.randrange(len(good))
    bad = random.choice(
        [
            b"",
            good[:at],
            good[at:],
            b"\xff" + good,
            b"\x00" * 50,
            good.replace(b"body", b"bdy"),
            good.replace(b",", b";"),
            good.replace(b'"', b"'"),
            b"\n" + good,
            b"[" + good,
            b"\x1f\x8b\x08" + good,
            good.replace(b"b", b"\x80"),
            Special.PIPE,
            Special.FOLDER,
            Special.CIRCLE,
            Special.NOWHERE,
            Special.GONE,
        ]
    )
    row = {"source": form, "files": ["notes/d.csv"]} | ({"field": "body"} if form != "text" else {})
    files = {"config/corpora.yaml": corpora(row), "notes/d.csv": bad}
    return Case(
        ["corpus", "check", "mine"], ["config/corpora.yaml", "notes/d.csv"], files, (0, 2), f"{form}: {bad!r}"[:90]
    )


PROFILE = yaml.safe_load((REPOSITORY / "slurm/profile.v9+.yaml").read_text())


def profile(random: Random) -> Case:
    """A profile for a cluster with a key or value wrong."""
    place = random.choice(leaves(PROFILE))
    name = str(place[-1])
    made = (
        put(PROFILE, place, 1, misspelt(random, name, list(PROFILE)))
        if random.random() < 0.4
        else put(PROFILE, place, random.choice(STRANGE))
    )
    if random.random() < 0.3:
        config = {"gpu_type": "h100", "gpu_option": "gres", "exclusive": True, "scheduler": "slurm"}
        key = random.choice(list(config))
        made = PROFILE | {
            "config": put(config, (key,), random.choice(["x y", 3, misspelt(random, str(config[key]), [])]))
        }
    files: dict[str, bytes | Special] = {
        "slurm/profile.v9+.yaml": random.choice([written(made)] * 6 + [b"", b"[", b"- x", Special.PIPE, Special.GONE])
    }
    return Case(
        ["cluster", "check"], [("profile", "no Slurm here")], files, (1, 2), f"profile {'.'.join(map(str, place))}"
    )
