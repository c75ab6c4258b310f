"""A broken campaign file gets one clear message: file, line, key, what is allowed, the nearest name; exit code 2."""

from pathlib import Path

import pytest
from command_line import Done, scaleproof

GOOD = """title: Does it scale?
work:
  global_batch: 16
vary:
  geometry: [1x1, 1x2]
"""

# name -> (file, parts of the message)
BROKEN: dict[str, tuple[str, list[str]]] = {
    "empty": ("", ["broken.yaml is empty: a campaign is expected", "title"]),
    "nothing but a comment": ("# later\n", ["broken.yaml has no key: a campaign is expected", "title"]),
    "a list": ("# mine\n- title: x\n", ['line 2: a list stands here; take the "- "', "a mapping is expected"]),
    "no title": ("repeats: 2\n", ["title is missing", "The question"]),
    "a backslash": ('title: "C:\\users"\n', ["line 1, column 13", "expected escape sequence", "takes it as it is"]),
    "a comment for a title": ("title: #1\n", ["line 1", 'title has no value (empty, null or behind a "#")']),
    "merged with a list": (GOOD + "trace:\n  <<: [5]\n", ["line 7", "after <<: stands an alias of a section"]),
    "bytes": ("title: x\nwork: !!binary aGVsbG8=\n", ["work: tags such as !!binary are not allowed"]),
    "a variable": ("title: x\nwork: {steps: ${STEPS}}\n", ["line 2", "variables (${X}) are not filled in"]),
    "an entry twice": (
        GOOD + "cells: [{strategy: fsdp}, {strategy: fsdp}]\n",
        ["an entry above makes it"],
    ),
    "a wide colon": ("title: x\nwork\uff1a {steps: 5}\n", ["line 2", 'only looks like one: write "work: {steps".']),
    "no blank": (
        "title: x\nwork:\n  steps:\u00a05\n  seed: 1\n",
        ["line 3", "the blank behind it only looks like one"],
    ),
    "a blank in quotes": ('title: x\n"work ": {steps: 5}\n', ["line 2", 'Write "work", without the blanks']),
    "forked on CUDA": (
        "title: x\nexecution: {device: cuda, start: forked}\n",
        ["line 2", "execution.start forked is for the CPU, as a forked process cannot use CUDA"],
    ),
    "empty key": (GOOD + "execution: {'': 3}\n", ["line 6", 'unknown key execution."".', "Allowed here: strategy"]),
    "empty section": (GOOD + "'': 3\n", ["line 6", 'unknown key "".']),
    "unknown section": (GOOD + "wrok: {}\n", ["line 6", "unknown key wrok", 'Did you mean "work"?']),
    "unknown key": (
        "title: x\nwork:\n  global_bach: 8\n",
        ["line 3", "unknown key work.global_bach", '"global_batch"', "accumulation"],
    ),
    "key of another section": (
        "title: x\nexecution:\n  steps: 8\n",
        ["line 3", "unknown key execution.steps. It belongs under work"],
    ),
    "minutes where seconds are": (
        "title: x\nworkload: {command: p}\nwork: {seconds: 1 min}\n",
        ["work.seconds cannot be", "Write 60 (seconds)."],
    ),
    "a number as the work of a step": (
        "title: x\nworkload: {command: p, per_step: 8192}\n",
        ["workload.per_step cannot be 8192", "Write {tokens: 8192}."],
    ),
    "a range of repeats": ("title: x\nrepeats: 3-5\n", ["Write {resolve: 3 %, at_least: 3, at_most: 5}."]),
    "values without their key": ("title: x\nvary: [ddp, fsdp]\n", ["Write {strategy: [ddp, fsdp]}."]),
    "values of two keys without them": ("title: x\nvary: [ddp, bf16]\n", ["allowed: a mapping of strategy"]),
    "a word to leave out": ("title: x\nexclude: ddp\n", ["Write [{strategy: ddp}]."]),
    "a cell where a geometry is": (
        "title: x\nforecast: {enabled: true, hold_out: [ddp-n1x2]}\n",
        ["forecast.hold_out[0] cannot be", "Write 1x2."],
    ),
    "cells of a forecast": (
        "title: x\nforecast: {enabled: true, cells: [1x2]}\n",
        ['unknown key forecast.cells. Did you mean "hold_out"?'],
    ),
    "key of a section at the top": ("title: x\nprecision: fp32\n", ["line 2", "It belongs under execution"]),
    "another word of another section": (
        "title: x\nwork:\n  lr: 1e-3\n",
        ["line 3", "unknown key work.lr. It belongs under work.optimizer, as learning_rate."],
    ),
    "another word for the geometry": (
        "title: x\nresources:\n  gpus: 4\n",
        ["line 3", "unknown key resources.gpus. It belongs under execution, as geometry."],
    ),
    "the geometry by a key of the trace": (
        "title: x\nresources:\n  nodes: 2\n",
        ["line 3", "unknown key resources.nodes. It belongs under execution, as geometry."],
    ),
    "another word in an inner section": (
        "title: x\nwork: {grad_clip: 1.0}\n",
        ["unknown key work.grad_clip. It belongs under work.optimizer, as max_grad_norm."],
    ),
    "a word of a key": ("title: x\nrepeats: {resolve: 3 %, hours: 2}\n", ['Did you mean "device_hours"?']),
    "another program's precision": ("title: x\nvary: {precision: [16-mixed]}\n", ['Did you mean "fp16"?']),
    "thousands of tokens": ("title: x\nworkload: {seq_len: 1k}\n", ["(tokens).\n"]),
    "repeats of a comparison": (
        "title: x\ncompare: [{name: x, baseline: {}, candidate: {strategy: fsdp}, repeats: 4}]\n",
        ['Did you mean "pairs"?', 'Did you mean "a"?', 'Did you mean "b"?'],
    ),
    "one value of an axis of a command": (
        "title: x\nworkload: {command: 'p {bs}'}\nvary: {bs: 8}\n",
        [
            "line 3: vary.bs cannot be 8; allowed: a list of at least 1 entry, each text, a number, true or false; "
            "a mapping",
            "Write [8].",
        ],
    ),
    "an optimizer by its name": ("title: x\nwork: {optimizer: adam}\n", ["Write {name: adamw}."]),
    "a device by its number": ("title: x\nexecution: {device: 'gpu:0'}\n", ['Did you mean "cuda"?']),
    "seconds of a limit": ("title: x\nresources: {time_limit: 30s}\n", ["Write 0.5 (minutes)."]),
    "a number as a quotient": ("title: x\nwork: {optimizer: {learning_rate: 1/1000}}\n", ["<= 1000. Write 0.001.\n"]),
    "a percentage of a part": ("title: x\nresources: {witness: 25%}\n", ["(part of the steps). Write 0.25.\n"]),
    "a command in place of the workload": ("title: x\nworkload: python t.py\n", ["Write {command: python t.py}."]),
    "another word for the command": ("title: x\nworkload: {cmd: t.py}\n", ['Did you mean "command"?']),
    "a number in quotes of a word processor": ("title: x\nrepeats: “3”\n", ['cannot be "“3”"; ', "Write 3.\n"]),
    "geometries without a comma": ("title: x\nvary: {geometry: [1x2 1x4]}\n", ["Several stand apart: 1x2, 1x4."]),
    "words of a command": ("title: x\nworkload: {command: [p, t.py]}\n", ["Write p t.py."]),
    "a number beyond all": ("title: x\nwork: {steps: 1e400}\n", ["work.steps cannot be infinite; allowed: a whole"]),
    "a template": ("title: x\n{% for x in y %}\n- {{ x }}\n", ["line 2: templates (Jinja) are not filled in"]),
    "a value of a template": ("title: x\nwork: {steps: {{ n }}}\n", ["line 2: ", "({{ x }}) are not filled in"]),
    "true in quotes": ("title: x\nexecution: {compile: 'true'}\n", ["reduce-overhead. Write true.\n"]),
    "a list in braces without brackets": (
        "title: x\nvary: {strategy: ddp, fsdp, zero2, geometry: [1x2]}\n",
        ['vary.strategy cannot be "ddp, fsdp, zero2"', "Write [ddp, fsdp, zero2].\n"],
    ),
    "a key without a value after a sound one": (
        "title: x\nvary: {strategy: [ddp], fsdp, geometry: [1x2]}\n",
        ["unknown key vary.fsdp."],
    ),
    "a page": ("<!DOCTYPE html>\n<p>title: x</p>\n", ["broken.yaml is a page (HTML), not YAML; download the raw file"]),
    "another program's file": (
        "schema_version: 1\nfiles: {}\n",
        ["broken.yaml is no campaign; it has schema_version, files; allowed: title, workload"],
    ),
    "the config of Snakemake": ("anonymous: false\n", ["broken.yaml is no campaign; it has anonymous; allowed: "]),
    "a text in quotes of a word processor": (
        "title: “ZeRO: which?”\n",
        ["line 1", "(“ and ” are no quotes in YAML: type \" or ')"],
    ),
    "a list without brackets": (
        "title: x\nvary:\n  strategy: ddp, fsdp\n",
        ["line 3", "zero3-offload. Write [ddp, fsdp]."],
    ),
    "words that are no list": ("title: x\nvary:\n  strategy: ddp and more\n", ["line 3", "zero3-offload.\n"]),
    "strategies in one text": ("title: x\nvary:\n  strategy: [ddp fsdp]\n", ["Several stand apart: ddp, fsdp."]),
    "a list to exclude": (
        GOOD + "exclude: [{strategy: [ddp, fsdp]}]\n",
        ["Write an entry for each: [{strategy: ddp}, {strategy: fsdp}]."],
    ),
    "a strategy for an arm": ("title: x\ncompare: [{name: a, a: ddp, b: {}}]\n", ["Write {strategy: ddp}."]),
    "a key of the profile": ("title: x\nresources: {partition: a}\n", ["the profile's business: slurm_partition in"]),
    "names of cells": (
        "title: x\ncells:\n  - ddp-n1x2\n  - zero3-n2x4\n",
        [". Write {strategy: ddp, geometry: 1x2}.", 'cells[1] cannot be "zero3-n2x4". Write {strategy: zero3, g'],
    ),
    "keys of two kinds of shapes": (
        "title: x\nworkload:\n  model: {layers: 4, width: 8, heads: 2, d_model: 8}\n",
        ["line 3: unknown key workload.model.d_model. It does not go with layers, width, heads. Allowed here: layers,"],
    ),
    "another word for a device": (
        "title: x\nexecution:\n  device: gpu\n",
        ["line 3", 'execution.device cannot be "gpu"', 'Did you mean "cuda"?'],
    ),
    "a device that is not supported": (
        "title: x\nexecution:\n  device: tpu\n",
        ["line 3", 'execution.device cannot be "tpu"; allowed: auto; cpu; cuda.\n'],
    ),
    "a cell traced twice": (
        "title: x\ntrace:\n  cells: [ddp-n1x1, ddp-n1x1]\n",
        ["line 3", 'trace.cells: "ddp-n1x1" is named twice'],
    ),
    "unknown nested key": (
        "title: x\nwork:\n  optimizer:\n    lr: 1\n",
        ["line 4", "work.optimizer.lr", "learning_rate"],
    ),
    "unknown axis": ("title: x\nvary:\n  strategi: [ddp]\n", ["line 3", "vary.strategi", '"strategy"']),
    "unknown strategy": (
        "title: x\nexecution:\n  strategy: fdsp\n",
        ["line 3", 'execution.strategy cannot be "fdsp"', "ddp", 'Did you mean "fsdp"?'],
    ),
    "unknown strategy in vary": ("title: x\nvary:\n  strategy: [dp3]\n", ["line 3", "vary.strategy[0]", "ddp"]),
    "a strategy with one wrong letter": ("title: x\nexecution:\n  strategy: dpp\n", ["line 3", 'Did you mean "ddp"?']),
    "a key without its s": ("title: x\nwork:\n  step: 20\n", ["line 3", 'Did you mean "steps"?']),
    "a key of another section": ("title: x\nwork:\n  corpus: a\n", ["line 3", "It belongs under workload."]),
    "unknown model": ("title: x\nworkload:\n  model: gpt2-smal\n", ["line 3", "workload.model", '"gpt2-small"']),
    "a name in capitals": ("title: x\nworkload:\n  corpus: Python-Docs\n", ["line 3", 'Write "python-docs".']),
    "several values where one goes": (
        "title: x\nexecution:\n  strategy: [ddp, zero3]\n",
        ["line 3", "Several values go under vary: {strategy: [ddp, zero3]}."],
    ),
    "a list of one": ("title: x\nexecution:\n  device: [cpu]\n", ["line 3", "auto; cpu; cuda. Write cpu."]),
    "two lengths of ours": ("title: x\nwork:\n  steps: [50, 150]\n", ["line 3", "two lengths are for a command"]),
    "a space that is none": ("title: x\nwork:\n\u00a0\u00a0steps: 5\n", ["line 3", "a no-break space stands"]),
    "unknown corpus": (
        "title: x\nworkload:\n  corpus: python-doc\n",
        ['workload.corpus: there is no corpus "python-doc"', '"python-docs"'],
    ),
    "not a number": (
        "title: x\nwork:\n  steps: many\n",
        ["line 3", 'work.steps cannot be "many"', "whole number >= 2"],
    ),
    "a fraction": ("title: x\nwork:\n  steps: 2.5\n", ["line 3", "work.steps cannot be 2.5", "whole number"]),
    "too small": ("title: x\nrepeats: 0\n", ["line 2", "repeats cannot be 0", ">= 1"]),
    "yes is no number": ("title: x\nrepeats: yes\n", ["line 2", 'repeats cannot be "yes"']),
    "bad batch word": (
        "title: x\nwork:\n  micro_batch: auto\n",
        ["line 3", "work.micro_batch", "whole number >= 1 and <= 1000000000 (samples); derive"],
    ),
    "bad geometry": ("title: x\nexecution:\n  geometry: 2\n", ["line 3", "execution.geometry", "1x2 or 2x4"]),
    "zero devices": ("title: x\nexecution:\n  geometry: 1x0\n", ["line 3", 'execution.geometry cannot be "1x0"']),
    "bad tokenizer": ("title: x\nworkload:\n  tokenizer: gtp2\n", ["line 3", "workload.tokenizer", "bpe-2048"]),
    "tiny tokenizer": ("title: x\nworkload:\n  tokenizer: bpe-100\n", ["bpe-100 is too small", "bpe-257"]),
    "empty axis": ("title: x\nvary:\n  geometry: []\n", ["line 3", "vary.geometry", "a list of at least 1"]),
    "axis without a list": ("title: x\nvary:\n  geometry: 1x1\n", ["line 3", "vary.geometry", "a list"]),
    "tensor parallelism": ("title: x\nexecution: {tensor_model_parallel_size: 2}\n", ["Only data parallelism"]),
    "Lightning's trainer": ("title: x\ntrainer: {devices: 2}\n", ["line 2", 'Did you mean "execution"?']),
    "Python": ("from a import B\nX = 1  # two\nfp16 = dict(a=1)\n", ["line 1: this is Python, not YAML"]),
    "TOML": ("title: x\n[work]\nsteps = 1\n", ["line 2: this is TOML or INI, not YAML"]),
    "no Python": ("title: import times\nvary: 3\n", ["line 2", "vary"]),
    "merged twice": (
        "a: &a {}\nb: &b {}\nwork:\n  <<: *a\n  <<: *b\n",
        ["line 5", "<< is given twice; several aliases stand in one list, <<: [*a, *b]"],
    ),
    "commas in a number": (
        "title: x\nwork: {steps: 1,000,000}\n",
        ["line 2", "without commas, 1000000, and a list in"],
    ),
    "keys of two kinds of model": (
        "title: x\nworkload: {model: {config: a.json, layers: 2, width: 8, heads: 1}}\n",
        ["line 2: unknown key workload.model.config. It does not go with layers, width, heads. Allowed here: layers,"],
    ),
    "given twice": ("title: x\nrepeats: 2\nrepeats: 3\n", ["line 3", "repeats is given twice"]),
    "not YAML": ("title: [x\nrepeats: 2\n", ["line 2", "not valid YAML"]),
    "tab": ("title: x\nwork:\n\tsteps: 3\n", ["line 3", "not valid YAML"]),
    "does not divide": (
        "title: x\nwork: {global_batch: 16}\nvary: {geometry: [1x3]}\n",
        ["cell ddp-n1x3", "16 / (1 x 3)", "15 or 18"],
    ),
    "arithmetic": (
        "title: x\nwork: {global_batch: 16, micro_batch: 3, accumulation: 2}\n",
        ["cell ddp-n1x1", "3 x 2 x 1 = 6", "16", "derive"],
    ),
    "nothing given": ("title: x\nwork: {global_batch: derive}\n", ["both `derive`"]),
    "too long": ("title: x\nworkload: {seq_len: 2000}\n", ["seq_len 2000", "context of 1024"]),
    "heads": (
        "title: x\nworkload: {model: {layers: 2, width: 100, heads: 3}}\n",
        ["width 100 is not a multiple of heads 3"],
    ),
    "odd buckets": (
        "title: x\nexecution: {strategy: zero2, bucket_elements: 5}\n",
        ["cell zero2-n1x1", "bucket_elements 5 is odd", "e.g. 6"],
    ),
    "bad shape": ("title: x\nworkload: {model: {layer: 2}}\n", ["workload.model.layer", '"layers"']),
    "infinite": ("title: x\nwork: {optimizer: {learning_rate: 1e999}}\n", ["line 2", "work.optimizer.learning_rate"]),
    "infinite limit": ("title: x\nresources: {time_limit: 1e999}\n", ["line 2", "resources.time_limit"]),
    "large seed": ("title: x\nwork: {seed: 99999999999}\n", ["line 2", "work.seed"]),
    "betas": ("title: x\nwork: {optimizer: {betas: [2, 3]}}\n", ["line 2", "work.optimizer.betas"]),
    "huge tokenizer": ("title: x\nworkload: {tokenizer: bpe-99999999999}\n", ["bpe-99999999999 is too large"]),
    "blank title": ("title: '   '\n", ["line 1", "title"]),
    "a list as a key": ("title: x\n? [a, b]\n: 1\n", ["line 2", "a key must be a word"]),
    "contains itself": ("title: &a [*a]\n", ["anchor that contains itself"]),
    "exclude misses": (GOOD + "exclude: [{geometry: 1x4}]\n", ["exclude", "1x4", "matches no combination"]),
    "exclude all": (GOOD + "exclude: [{geometry: 1x1}, {geometry: 1x2}]\n", ["nothing is left to run"]),
    "a task without its model": (
        "title: x\nworkload: {task: classification}\n",
        ["a GPT-2 cannot be trained for classification", "encoder-small"],
    ),
    "a model without its task": (
        "title: x\nworkload: {model: encoder-small}\n",
        ["an encoder cannot be trained for language-modelling", "gpt2-tiny"],
    ),
    "a task without labels": (
        "title: x\nworkload: {task: classification, model: encoder-small, corpus: python-docs}\n",
        ["python-docs", "has no labels", "Corpora with labels: ag_news"],
    ),
    "bad encoder": (
        "title: x\nworkload: {task: classification, model: {d_model: 32, head: 2}}\n",
        ["workload.model.head", '"heads"'],
    ),
    "encoder's heads": (
        "title: x\nworkload: {task: classification, corpus: ag_news, model: {d_model: 30, heads: 4}}\n",
        ["d_model 30 is not a multiple of heads 4"],
    ),
    "encoder's attention": (
        "title: x\nworkload: {task: classification, corpus: ag_news, model: encoder-small}\nexecution: {attention: "
        "eager}\n",
        ["encoders have sdpa only"],
    ),
    "an encoder's loss compiled": (
        "title: x\nworkload: {task: classification, corpus: ag_news, model: encoder-small}\nexecution: {compile: "
        "loss}\n",
        ["execution.compile: loss is for language models alone"],
    ),
    "gradients in bf16 of an fp32 cell": (
        "title: x\nexecution: {reduce_dtype: bf16}\n",
        ["execution.reduce_dtype bf16 is for precision bf16, and the cell's is fp32"],
    ),
    "same cell twice": (
        GOOD + "cells: [{geometry: 1x2}]\n",
        ["line 6", "ddp-n1x2 is there already", "`vary` makes it"],
    ),
}


@pytest.fixture
def validate(tmp_path: Path, repository: Path):
    def run(text: str | bytes) -> Done:
        path = tmp_path / "broken.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return scaleproof("campaign", "validate", str(path), cwd=repository)

    return run


@pytest.mark.parametrize("name", BROKEN)
def test_broken_file(validate, name):
    text, parts = BROKEN[name]
    done = validate(text)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert "broken.yaml" in done.stderr
    for part in parts:
        assert part in done.stderr, (part, done.stderr)


def test_not_utf8(validate):
    done = validate(b"title: \xff\xfe\n")
    assert done.returncode == 2
    assert "not UTF-8" in done.stderr


def test_every_fault_is_named_at_once(validate):
    done = validate("title: x\nwork: {stepz: 3, steps: 1}\nrepeats: -1\n")
    assert done.returncode == 2
    assert [line.split(", line ")[1][0] for line in done.stderr.splitlines()] == ["2", "2", "3"]


def test_an_anchor_may_be_used_twice(validate):
    done = validate("title: x\nwork: &a {steps: 5}\nexecution: &a {strategy: ddp}\nvary: {strategy: [ddp]}\n")
    assert (done.returncode, done.stderr) == (0, "")


def test_missing_file_names_the_nearest(repository):
    done = scaleproof("campaign", "validate", "config/campaigns/dmo.yaml", cwd=repository)
    assert done.returncode == 2
    assert 'Did you mean "config/campaigns/demo.yaml"?' in done.stderr


def test_a_good_file_passes(validate):
    done = validate(GOOD)
    assert done.returncode == 0
    assert "2 cells x 3 repeats = 6 runs" in done.stdout


@pytest.mark.parametrize("name", ["Demo.yaml", "corpora.yaml", "published.yaml", "x.yml", "a b.yaml"])
def test_a_name_that_cannot_be_a_folder_of_results(tmp_path, repository, name):
    (tmp_path / name).write_text(GOOD)
    done = scaleproof("campaign", "validate", str(tmp_path / name), cwd=repository)
    assert done.returncode == 2
    assert "cannot be the name of a campaign" in done.stderr
    assert "lower-case letters" in done.stderr


CORPORA = {
    "no such file": ("mine: {source: text, files: [nowhere/*.txt]}", ['mine.files: "nowhere/*.txt" matches no file']),
    "label that is the text": ("mine: {source: csv, files: [x], field: y, label: y}", ["line 1", '"y" is the text']),
    "label of a text": ("mine: {source: text, files: [x], label: y}", ["line 1", "`label` needs rows with fields"]),
    "columns of a parquet": ("mine: {source: parquet, files: [x], columns: [y]}", ["line 1", "`columns` is for csv"]),
    "field that is no column": (
        "mine: {source: csv, files: [x], columns: [y, text], label: z}",
        ["line 1", '"z" (field, label) is none of `columns`: y, text'],
    ),
    "no files": ("mine: {source: jsonl}", ["line 1", "needs `files`"]),
    "bad source": ("mine: {source: json, files: [x]}", ["line 1", "mine.source", 'Did you mean "jsonl"?']),
    "unknown key": ("mine: {source: text, file: x}", ["line 1", "unknown key mine.file", '"files"']),
    "not a web address": (
        "mine: {source: http, urls: ['ftp://x/y'], revision: v1, files: [a.txt], format: text}",
        ["line 1", 'urls: "ftp://x/y" is no address'],
    ),
    "bad name": ("My Corpus: {source: python-docs}", ["line 1", '"My Corpus" cannot be a name']),
    "not a table": ("- mine", ["line 1: a list stands here", "a mapping is expected"]),
    "nothing": ("", ["has no key: a table of corpora is expected"]),
}


@pytest.mark.parametrize("name", CORPORA)
def test_broken_table_of_corpora(tmp_path, name):
    table, parts = CORPORA[name]
    (tmp_path / "config").mkdir()
    (tmp_path / "config/corpora.yaml").write_text(table + "\n")
    (tmp_path / "mine.yaml").write_text("title: x\nworkload: {corpus: mine}\n")
    done = scaleproof("campaign", "validate", "mine.yaml", cwd=tmp_path)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    for part in ["config/corpora.yaml", *parts]:
        assert part in done.stderr, (part, done.stderr)


def test_a_key_that_is_missing_because_it_is_misspelt_is_told_once(tmp_path):
    (tmp_path / "mine.yaml").write_text("titel: x\n")
    done = scaleproof("campaign", "validate", "mine.yaml", cwd=tmp_path)
    assert done.stderr.startswith('scaleproof: mine.yaml, line 1: unknown key titel. Did you mean "title"?')
    assert done.stderr.count("\n") == 1
    (tmp_path / "mine.yaml").write_text("steps: 5\n")
    assert "title is missing" in scaleproof("campaign", "validate", "mine.yaml", cwd=tmp_path).stderr
