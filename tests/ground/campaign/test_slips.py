"""Slips of people who copy from elsewhere: the answer names the slip, and what it says to write is accepted."""

from pathlib import Path

import pytest

from scaleproof.ground.campaign.campaign_paths import RESERVED, no_campaign_error
from scaleproof.ground.campaign.loaded import _rename_advice
from scaleproof.ground.campaign.look_alikes import LATIN, OTHERS, look_alike_text, plain_letters
from scaleproof.ground.campaign.yaml_loader import load_campaign, load_corpora
from scaleproof.ground.errors import UserError

GOOD = "title: x\nwork:\n  global_batch: 8\n  steps: 15\nvary:\n  strategy: [ddp, zero2]\nrepeats: 6\n"
WORK = "work:\n  global_batch: 8\n  steps: 15\n"


def before_each_line(mark):
    return "".join(f"{mark}{line}\n" for line in GOOD.splitlines())


# File -> the message behind its name, or a part of it.
REFUSED = [
    (before_each_line("> "), ": the > of a quotation stands before each line; take them away"),
    (before_each_line(">>"), ": the > of a quotation stands before each line; take them away"),
    ("Ann wrote:\n\n" + before_each_line("> "), "before most lines; take them away, and lines that are no part of"),
    (before_each_line("| "), ": the | of a table or quotation stands before each line; take them away"),
    (before_each_line("* "), ": a bullet stands before each line; take them away"),
    (before_each_line("7:"), ": a line number stands before each line; take them away"),
    ("@@ -1,2 +1,2 @@\n title: x\n-repeats: 3\n+repeats: 6\n", ", line 1: this is a diff, not YAML"),
    (
        "- title: a\n- workload: {model: gpt2-tiny}\n- repeats: 3\n",
        ', line 1: a list stands here; take the "- " before title, workload, repeats away: a mapping',
    ),
    ("title: a\n- workload: {}\n- repeats: 3\n", ', line 2: take the "- " before workload, repeats away'),
    ("- title: a\nrepeats: 3\n", ', line 1: take the "- " before title away'),
    (
        "title: x\nwork:\n  - global_batch: 8\n  - steps: 9\n",
        'Take the "- " (or the brackets) before global_batch, ste',
    ),
    (GOOD.replace("zero2]", "zero2];"), ', line 6, column 25: ";" stands behind the value; take it away, as lines'),
    (GOOD.replace("zero2]", "zero2], # two"), ', line 6, column 25: "," stands behind the value; take it away'),
    (GOOD.replace("title: x", 'title: "x";'), ', line 1, column 11: ";" stands behind the value; take it away'),
    ("title: x\nwork:\n  global_batch = 8;\n  steps = 9 # few\n", ", lines 3 and 4: write global_batch: 8, steps: 9"),
    ("title = x\nrepeats = 6\n", ", lines 1 and 2: write title: x, repeats: 6"),
    (GOOD.replace("repeats: 6", "repeats := 6"), ", line 7: write repeats: 6"),
    (GOOD.replace("  steps: 15", "  steps = 15"), ", line 4: write steps: 15"),
    ("title: x\nwork: {global_batch = 8}\n", "unknown key work.global_batch = 8. Write global_batch: 8."),
    ("title: x\nwork: global_batch = 8, steps = 9\n", "Write {global_batch: 8, steps: 9}."),
    (GOOD.replace("work:", "w\u043erk:"), 'key w\u043erk. Did you mean "work"? Its "\u043e" is Cyrillic (U+043E).'),
    (
        GOOD.replace("steps", "\u0455t\u0435ps"),
        'Did you mean "steps"? Its "\u0455", "\u0435" are Cyrillic (U+0455, U+04',
    ),
    (GOOD.replace("ddp", "dd\u03c1"), 'Its "\u03c1" is Greek (U+03C1). Write ddp.'),
    (GOOD.replace("ddp", "\uff44dp"), 'Its "\uff44" is full-width (U+FF44). Write ddp.'),
    ("title: x\nexecution: {geometry: 1\u04452}\n", 'Its "\u0445" is Cyrillic (U+0445). Write 1x2.'),
    (GOOD.replace("title: x", "title: &quot;x&quot;"), ', line 1: "&quot;" is HTML; type the character itself: "'),
    (GOOD.replace("[ddp,", "[&#39;ddp&#39;,"), ', line 6: "&#39;" is HTML; type the character itself: \''),
    ("From: Ann\nSubject: Re: this\n\n" + GOOD, ", line 1: this is a mail, not YAML"),
    (GOOD.replace("15", "1.5k"), "Write 1500."),
    ("config = dict(\n  repeats=3,\n)\n", ": a mapping is expected, with lines such as 'key: value'"),
    ("title: x\nworkload: {corpus: a/b.txt}\n", "b: {source: text, files: [a/b.txt], document: paragraph}; then"),
    (GOOD + "include: demo.yaml\n", "unknown key include. No other file is read: vary lists what differs"),
    (GOOD + "base: demo\n", "unknown key base. No other file is read"),
    (GOOD + "imports: [a.yaml, b.yaml]\n", "unknown key imports. No other file is read"),
    (GOOD + "<<: !include demo.yaml\n", "such as *base; a campaign reads no other file)"),
    (GOOD + "execution: !include e.yaml\n", "are not allowed; a campaign reads no other file, so write its lines here"),
    (GOOD + "include: [{strategy: fsdp}]\n", 'unknown key include. Did you mean "cells"?'),
    (
        "title: x\nworkload: {model: bert-base-uncased}\n",
        '"encoder-small"? encoder-small goes with task: classification, and a corpus with labels such as ag_news.',
    ),
    (
        "title: x\nworkload: {model: roberta-base}\n",
        ". A model of the hub has its owner before it: scaleproof model fetch OWNER/roberta-base prints what to write.",
    ),
    (
        "title: x\nworkload: {model: t5-small}\n",
        "config, module. A model of the hub has its owner before it: scaleproof",
    ),
    (
        "title: x\nworkload: {model: resnet50}\n",
        "config, module. resnet50 is no model of language, and these alone are",
    ),
    ("title: x\nworkload: {model: google/vit-base-patch16-224}\n", "these alone are trained here; your own program tr"),
    ("title: x\nworkload: {model: vicuna-7b}\n", "scaleproof model fetch OWNER/vicuna-7b prints what to write."),
    (GOOD + "max_seq_length: 9\n", "unknown key max_seq_length. It belongs under workload, as seq_len."),
    (GOOD + "ds_config: ds.json\n", "Other settings of a strategy's library cannot be changed; leave it out."),
    (GOOD + "repetitions: 9\n", 'unknown key repetitions. Did you mean "repeats"?'),
    (GOOD + "cells: [{max_steps: 9}]\n", "It belongs under work or trace, as steps. It is the same for all cells"),
    (GOOD + "cells: [{lr: 0.1}]\n", "It belongs under work.optimizer, as learning_rate. It is the same for all cells"),
    (GOOD.replace("vary:", "vary:\n  fp16: true"), "unknown key vary.fp16. Write precision: [fp16]."),
    (GOOD + "cells: [{frobnicate: 9}]\n", "unknown key cells[0].frobnicate. Allowed here: "),
    ("title: x\nworkload: {model: gpt2-lrge}\n", 'config, module. Did you mean "gpt2-large"?'),
    ("title: x\nworkload: {task: classification, model: gpt2}\n", "gpt2-small goes with task: language-modelling; enc"),
    (GOOD.replace("zero2]", "zero-offload]"), 'Did you mean "zero2-offload"?'),
    (GOOD + "execution: {precision: fp64}\n", "allowed: fp32; tf32; bf16; fp16.\n"),
    (GOOD + "execution: {torch_dtype: bfloat16}\n", 'Did you mean "precision"?'),
    (GOOD + "execution: {offload_optimizer: true}\n", 'Did you mean "strategy"?'),
    (GOOD + "execution: {threads: 2}\n", 'Did you mean "threads_per_device"?'),
    (WORK.replace("global_batch", "local_batch_size") + "title: x\n", 'Did you mean "micro_batch"?'),
    (GOOD + "workload: {model: gpt2-1.5b}\n", 'Did you mean "gpt2-xl"?'),
    (GOOD + "work/steps: 20\n", "unknown key work/steps. It belongs under work."),
    (GOOD + "trace/cells: all\n", "unknown key trace/cells. It belongs under trace."),
    (GOOD + "execution: {g\u00e9om\u00e9trie: 1x2}\n", 'Did you mean "geometry"?'),
    (GOOD + "num_epochs: 1\n", "unknown key num_epochs. A run has steps, not epochs: work.steps."),
    (GOOD.replace("  steps", "  tokens: 5\n  steps"), "It follows from steps, global_batch and seq_len; leave it out."),
    (GOOD + "statistics: {confidence: 0.99}\n", "Every figure is measured, with intervals of 95 %; leave it out."),
    (GOOD + "output: {format: html}\n", "unknown key output. Results go to results/"),
    (GOOD + "baseline: ddp-n1x1\n", 'Did you mean "question"?'),
    (GOOD + "workload: {model: {hub: a/b, revision: main}}\n", "prints the commit: scaleproof model fetch OWNER/NAME."),
    (GOOD.replace("repeats: 6", "repeats => 6"), ", line 7: write repeats: 6"),
    (GOOD + "[[cells]]\nstrategy = 'ddp'\n", ", line 8: this is TOML or INI, not YAML"),
    ("/* mine */\n" + GOOD, ', line 1: "/*" begins no comment in YAML, but "#" does; a text needs quotes'),
    ("-- mine\n" + GOOD, ', line 1: "--" begins no comment'),
    ('{\n  // mine\n  "title": "x"\n}\n', ', line 2: "//" begins no comment'),
    ('{"title":"x", // short\n"repeats":6}\n', ', line 1: "//" begins no comment'),
    (GOOD + "-- \nAnn\n", ', line 8: "--" begins no comment'),
    ("%YAML 1.2\n" + GOOD, ', line 1: a line "---" is missing below the lines that begin with %'),
    ("**title**: x\n", ", line 1: a mark of Markdown (**) is no YAML"),
    ('{"title": "x", "repeats": 5}}\n', ", line 1, column 29: not valid YAML: this bracket closes none"),
    ("  title: x\nrepeats: 5\n", "(keys of one section begin in one column, and have a colon"),
    (before_each_line("[10:32] Ann: "), ": a time stands before each line; take them away"),
    (GOOD.replace("[ddp, zero2]", "ddp and zero2"), "Write [ddp, zero2]."),
    (GOOD.replace("ddp, zero2", "ddp\u3001zero2"), "Several stand apart: ddp, zero2."),
    (GOOD.replace("[ddp, zero2]", "\uff3bddp, zero2\uff3d"), "Write [ddp, zero2]."),
    (GOOD + "cells: [{strategy: [ddp, fsdp]}]\n", "Write an entry for each: [{strategy: ddp}, {strategy: fsdp}]."),
    (GOOD.replace("  steps", "  eval_steps: 5\n  steps"), "The validation loss is taken once, at the end"),
    (GOOD + "models: [gpt2-tiny, gpt2-small]\n", "unknown key models. It belongs under vary, as model."),
    (GOOD.replace("  strategy", "  warmup_steps: [3, 5]\n  strategy"), "the same for all cells: another value needs a"),
    (GOOD + "question: {is: zero2, better_than: ddp, by: 1.05}\n", "a number >= 0 and < 1 (part of the tokens/s).\n"),
    (GOOD.replace("title: x", "title: 42"), "that is not blank. Put it into quotes."),
    (GOOD + "workload: {model: gpt2\u2011tiny}\n", 'Its "\u2011" is a non-breaking hyphen (U+2011). Write gpt2-tiny.'),
    (GOOD.replace("zero2", "zero*"), "zero2-offload; zero3-offload.\n"),
    (GOOD + "execution: {zero_allow_untested_optimizer: true}\n", "execution.zero_allow_untested_optimizer. Allowed"),
    (GOOD + "execution: {param_dtype: bf16}\n", 'Did you mean "precision"?'),
    (GOOD + "execution: {cpu_offload: true}\n", 'Did you mean "strategy"?'),
    (GOOD + "workload: {max_tokens: 128}\n", 'Did you mean "seq_len"?'),
    (
        GOOD.replace("  steps", "  optimizer: {fused: true}\n  steps"),
        "It belongs under execution, as fused_optimizer.",
    ),
    (GOOD.replace("repeats", "\x0brepeats"), ", line 7: a character U+000B stands where the line begins"),
    (GOOD.replace("15", "10k"), "(optimizer steps). Write 10000."),
    (GOOD + "repeats: 7\n", ", line 8: repeats is given twice, first in line 7"),
    ("mine: {source: text}\nother:\n  source: text\n", " is a table of corpora, no campaign; a campaign names one of"),
]


@pytest.mark.parametrize(("text", "part"), REFUSED)
def test_a_slip_is_named(tmp_path, text, part):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as fault:
        load_campaign(path)
    assert part in f"{fault.value}\n"
    if part.startswith((",", ":")):
        assert str(fault.value).startswith(f"{path}{part}")
    assert "is it a pasted prompt" not in str(fault.value)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        GOOD.replace("title: x", "title: steps = 15, или нет; wоrk"),
        "title: >\n  > x\n  > y\n  1: a\n  steps = 15",
        GOOD.replace("[ddp, zero2]", "\n    - ddp\n    - zero2"),
        GOOD + "# > x\n# steps = 9;\n",
        "%YAML 1.2\n---\n" + GOOD,
        GOOD.replace("title: x", "title: >\n  // x, -- y\n  ; **z**").replace("[ddp, zero2]", "[\n    ddp, zero2]"),
        GOOD.replace("6", "{resolve: 1.5 %}"),
        GOOD + "cells:\n- strategy: fsdp\n- strategy: single\n",
        "title: x\nworkload: {task: classification, model: encoder-small, corpus: ag_news}\n",
        "title: x\nworkload: {command: 'p {include}'}\nvary: {include: [a.yaml, b.yaml]}\n",
    ],
)
def test_what_resembles_a_slip_is_read(tmp_path, text):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert load_campaign(path)[0].title


def test_of_a_classification_the_model_alone_is_suggested(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("title: x\nworkload: {task: classification, model: bert-base-uncased, corpus: ag_news}\n")
    with pytest.raises(UserError, match=r'Did you mean "encoder-small"\?$'):
        load_campaign(path)


OF_LOAD = "path: Salesforce/wikitext, name: wikitext-2-raw-v1, split: train"
ROWS = [
    (
        f"source: dataset, {OF_LOAD}",
        "mine.path: in place of path, name, split write load: [Salesforce/wikitext, wikitext-2-raw-v1, train], "
        "revision: main",
    ),
    (f"source: dataset, {OF_LOAD}, revision: v1", "split write load: [Salesforce/wikitext, wikitext-2-raw-v1, train]"),
    (f"source: huggingface, {OF_LOAD}", "wikitext-2-raw-v1, train], source: dataset, revision: main"),
    ("source: dataset, dataset: a/b, split: test", "in place of dataset, split write load: [a/b, default, test], rev"),
    ("source: hub, path: a/b, revision: v1, files: [x.txt], format: text", 'unknown key mine.path. Did you mean "fi'),
    ("source: text, files: [a.txt], validation_fraction: 10", "(part of them). Write 0.1 for 10 %."),
    ("source: text, files: [a.txt], validation_fraction: 1", "(part of them)."),
    (f"source: text, files: [a.txt], known: {{a.txt: {{sha256: {'AB' * 32}}}}}", f"Write {'ab' * 32}."),
    ("source: hub, repository: a/b, revision: 1.5, files: [a.txt], format: text", "Put it into quotes."),
    ("source: jsonl, files: [a.jsonl], document: line", "`document` is for text: of jsonl, parquet and csv"),
    ("source: text, files: [a.txt], tokenizer: bytes", "It belongs into a campaign: workload: {tokenizer: ...}. All"),
]


@pytest.mark.parametrize(("row", "part"), ROWS)
def test_a_row_of_a_corpus_is_answered_with_what_to_write(tmp_path, row, part):
    path = tmp_path / "corpora.yaml"
    path.write_text(f"mine: {{{row}}}\n")
    fault = load_corpora(path)[1]["mine"]
    assert part in fault
    assert len(fault.splitlines()) == 1


@pytest.mark.parametrize("start", ["- ", "-   "])
def test_a_row_of_a_corpus_is_no_entry_of_a_list(tmp_path, start):
    path = tmp_path / "corpora.yaml"
    path.write_text(f"first:\n  source: text\n  files:\n  - a.txt\n{start}mine:\n    source: text\n")
    words = 'is an entry of a list, and what stands above are keys: take the "- " away'
    with pytest.raises(UserError, match=rf'^{path}, line 5: "- mine" {words}'):
        load_corpora(path)


def test_what_to_write_for_the_arguments_of_load_dataset_is_sound(tmp_path):
    path = tmp_path / "corpora.yaml"
    path.write_text("mine: {source: dataset, load: [Salesforce/wikitext, wikitext-2-raw-v1, train], revision: main}\n")
    assert [*load_corpora(path)[0]] == ["mine"]


def test_html_within_a_text_or_a_comment_is_accepted(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace("title: x", "title: R&amp;D, a &lt; b # from: &quot;x&quot;"))
    assert load_campaign(path)[0].title == "R&amp;D, a &lt; b"


def test_the_keys_of_a_row_that_are_not_indented_are_one_fault(tmp_path):
    path = tmp_path / "corpora.yaml"
    path.write_text("mine:\nsource: text\nfiles: [a.txt]\nyours: {source: text, files: [b.txt]}\nempty:\n")
    rows, faults = load_corpora(path)
    assert [*rows] == ["yours"]
    assert faults.pop("mine") == f"{path}, line 1: mine: its keys need two blanks before them: source, files"
    assert [*faults] == ["empty"]


def test_a_folder_of_runs_means_its_campaign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Path("results/demo/runs/ddp-n1x2")
    run.mkdir(parents=True)
    Path("config/campaigns").mkdir(parents=True)
    Path("config/campaigns/demo.yaml").write_text("title: x\n")
    hint = 'not a campaign file. Did you mean "config/campaigns/demo.yaml"?'
    assert hint in str(no_campaign_error(run))
    assert "Did you mean" not in str(no_campaign_error(Path("results/others/runs")))


def test_the_table_of_corpora_is_no_campaign_whose_file_is_gone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (*RESERVED, "mine"):
        (tmp_path / "results" / name).mkdir(parents=True)
    path = tmp_path / "corpora.yaml"
    path.write_text("mine:\n  source: text\n  files: [a.txt]\n")
    assert str(no_campaign_error(path)).startswith(f"{path} is a table of corpora, no campaign; a campaign names")
    path.write_text("anonymous: true\n")
    assert "is no campaign file, which ends with .yaml" in str(no_campaign_error(path))
    for name in RESERVED:
        assert "is gone" not in str(no_campaign_error(tmp_path / f"{name}.yml"))
    assert "mine.yaml, is gone" in str(no_campaign_error(tmp_path / "mine.yaml"))


@pytest.mark.parametrize("locale", ["utf-8", "ascii"])
@pytest.mark.parametrize(
    ("name", "new"), [("gr\u00f6\u00dfe", "grosse"), ("Gr\u00f6\u00dfe 2", "grosse-2"), ("size", "")]
)
def test_a_name_of_other_letters_is_made_readable_under_any_locale(locale, name, new):
    stem = name.encode().decode(locale, "surrogateescape")  # as Python reads it from a folder
    assert _rename_advice(Path(f"{stem}.yaml")) == (f' Rename it to "{new}.yaml".' if new else "")


def test_letters_that_look_latin():
    assert len(OTHERS) == len(LATIN)
    assert plain_letters("w\u043erk") == "work"
    for text in ("work", "w\u00f6rk", "\u0440\u0430\u0431\u043e\u0442\u0430", "stra\u200btegy", ""):
        assert look_alike_text(text) == ""


@pytest.mark.parametrize(("budget", "hint"), [("1.5 GB", "Write 1500 MB."), ("0.5GiB", "Write 500 MB."), ("2 GB", "")])
def test_a_budget_is_a_whole_number(tmp_path, budget, hint):
    path = tmp_path / "corpora.yaml"
    path.write_text(f"mine: {{source: text, files: [a.txt], budget: {budget}}}\n")
    rows, faults = load_corpora(path)
    assert hint in str(faults.get("mine", ""))
    assert ("mine" in rows) == (not hint)
