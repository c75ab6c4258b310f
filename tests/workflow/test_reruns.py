"""Each artifact is rebuilt when, and only when, its inputs change. The real Snakemake decides."""

import re
from collections import Counter

import pytest
from workflow_texts import REFORMATTED

AFTER_TRAINING = Counter(collect=1, findings=1, analyse=1, waterfall=1, tables=1, charts=1, loss_charts=1, report=1)
REPORT = "results/tiny/report.html"


def test_the_whole_chain_was_built(built):
    results = built.root / "results"
    for name in (
        "corpora/prose/documents.parquet",
        "corpora/prose/bpe-512/train.bin",
        "tiny/runs/ddp-n1x2/rep1/training_metrics.json",
        "tiny/runs/ddp-n1x2/rep1/RUN_COMPLETE.txt",
        "tiny/runs.csv",
        "tiny/cells.csv",
        "tiny/findings.json",
        "tiny/scaling_report.json",
        "tiny/tables/scaling.md",
        "tiny/charts/speedup.png",
        "tiny/charts/loss_seconds.png",
        "tiny/losses.csv",
        "tiny/report.html",
    ):
        assert (results / name).stat().st_size > 0, name


def test_the_console_says_what_happens_in_words_and_in_commands(built):
    for sentence in (
        "Gather the documents of prose",
        "Train tiny ddp-n1x2, repeat 1: 8 = 4 x 1 x 2 samples a step",
        "scaleproof stage train config/campaigns/tiny.yaml ddp-n1x2 --repeat 1 --fingerprints ",
        "Draw the charts of tiny",
        "(100%) done",
    ):
        assert sentence in built.said


def test_a_second_run_does_nothing(built):
    assert built.planned(REPORT) == Counter()


def test_touching_does_nothing(built):
    for path in built.root.rglob("*"):
        if path.is_file() and ".snakemake" not in path.parts:
            path.touch()
    assert built.planned(REPORT) == Counter()


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("conclude/report/chart_style.py", Counter(waterfall=1, charts=1, loss_charts=1, report=1)),
        ("conclude/report/tables/cells.py", Counter(tables=1, report=1)),
        ("conclude/report/templates/report.html.j2", Counter(report=1)),
        ("ground/confidence.py", AFTER_TRAINING),
        ("conclude/checks/timing.py", AFTER_TRAINING - Counter(collect=1)),
        ("measure/trainer/timed_loop.py", AFTER_TRAINING + Counter(train=2)),
        ("measure/strategy/native.py", AFTER_TRAINING + Counter(train=2)),
        ("measure/launch/supervise.py", AFTER_TRAINING + Counter(train=2)),
        (
            "measure/corpus/tokenise.py",
            AFTER_TRAINING + Counter(train=2, corpus_tokenise=1, corpus_reread=1, reference=1),
        ),
        ("cli/analyse.py", Counter()),
    ],
)
def test_editing_code_re_runs_what_uses_it(built, edit, file, expected):
    edit(f"src/scaleproof/{file}", append="\nEDITED = True\n" if file.endswith(".py") else "<!-- edited -->\n")
    assert built.planned(REPORT) == expected


def test_comments_and_docstrings_re_run_nothing(built, edit):
    path = "src/scaleproof/measure/trainer/timed_loop.py"
    text = (built.root / path).read_text()
    assert text.startswith('"""')
    edit(path, '"""Another docstring. ' + text[3:], append="\n# edited\n")
    assert built.planned(REPORT) == Counter()


def test_results_of_older_code_can_be_kept(built):
    path = built.root / "src/scaleproof/measure/trainer/timed_loop.py"
    text = path.read_text()
    path.write_text(text + "\nEDITED = True\n")
    try:
        stale = built.command("scaleproof", "stale", "config/campaigns/tiny.yaml")
        assert stale.returncode == 1
        assert "2 of 2 runs would be measured again" in stale.stdout
        assert "to keep them: scaleproof keep config/campaigns/tiny.yaml" in stale.stdout
        kept = built.command("scaleproof", "keep", "config/campaigns/tiny.yaml")
        assert kept.returncode == 0, kept.stderr
        assert built.planned(REPORT) == Counter()
        assert built.command("scaleproof", "stale", "config/campaigns/tiny.yaml").returncode == 0
    finally:
        path.write_text(text)
        built.build("--touch", REPORT)


def test_reformatting_the_campaign_runs_nothing(built, edit):
    edit("config/campaigns/tiny.yaml", REFORMATTED)
    assert built.planned(REPORT) == Counter()


def test_naming_an_environment_runs_nothing(built, edit):
    """Results from before a rule named one, or from before its file changed, stay: only `--sdm conda` looks at it."""
    edit("envs/report.yaml", append="# edited\n")
    assert built.planned(REPORT) == Counter()
    for path in (built.root / "workflow/rules").glob("*.smk"):
        name = str(path.relative_to(built.root))
        edit(name, re.sub(r' +conda:\n +"[^"]+"\n', "", path.read_text()))
        assert "conda:" not in path.read_text()
    assert built.planned(REPORT) == Counter()


def test_another_title_is_in_report_and_tables_and_nothing_is_measured(built, edit):
    text = (built.root / "config/campaigns/tiny.yaml").read_text()
    edit("config/campaigns/tiny.yaml", text.replace("Does it scale?", "How well does it scale?"))
    assert built.planned(REPORT) == AFTER_TRAINING - Counter(collect=1, findings=1)


def test_another_target_loss_is_looked_for_and_nothing_is_measured(built, edit):
    edit("config/campaigns/tiny.yaml", append="target_loss: 5.5\n")
    assert built.planned(REPORT) == AFTER_TRAINING - Counter(collect=1, findings=1)


def test_another_time_limit_runs_nothing(built, edit):
    edit("config/campaigns/tiny.yaml", append="resources: {time_limit: 99}\n")
    assert built.planned(REPORT) == Counter()


def test_an_added_cell_runs_just_that(built, edit):
    edit("config/campaigns/tiny.yaml", append="cells: [{geometry: 1x2, micro_batch: 2}]\n")
    assert built.planned(REPORT) == AFTER_TRAINING + Counter(train=1)
    assert "Train tiny ddp-n1x2-mb2, repeat 1" in built.dry(REPORT)


def test_an_added_value_runs_just_its_cells(built, edit):
    text = (built.root / "config/campaigns/tiny.yaml").read_text()
    edit("config/campaigns/tiny.yaml", text.replace("[1x1, 1x2]", "[1x1, 1x2, 1x4]"))
    assert built.planned(REPORT) == AFTER_TRAINING + Counter(train=1)


def test_a_strategy_that_is_added_replays_nothing(built, edit):
    """Its cell is as small as the one that was replayed, and trains the same workload."""
    edit("config/campaigns/tiny.yaml", append="cells: [{geometry: 1x1, strategy: zero1}]\n")
    assert built.planned(REPORT) == AFTER_TRAINING + Counter(train=1)


def test_another_repeat_runs_just_that(built, edit):
    text = (built.root / "config/campaigns/tiny.yaml").read_text()
    edit("config/campaigns/tiny.yaml", text.replace("repeats: 1", "repeats: 2"))
    said = built.dry(REPORT)
    assert built.planned(REPORT) == AFTER_TRAINING + Counter(train=2)
    assert "repeat 1" not in said


def test_changed_work_re_runs_every_cell(built, edit):
    text = (built.root / "config/campaigns/tiny.yaml").read_text()
    edit("config/campaigns/tiny.yaml", text.replace("steps: 4", "steps: 5"))
    assert built.planned(REPORT) == AFTER_TRAINING + Counter(train=2, reference=1)


def test_a_changed_corpus_re_runs_everything(built, edit):
    edit("prose.txt", append="\nOne more document.\n")
    assert built.planned(REPORT) == AFTER_TRAINING + Counter(
        train=2, corpus_fetch=1, corpus_tokenizer=1, corpus_tokenise=1, corpus_reread=1, reference=1
    )


@pytest.mark.fault("a derived file is deleted", "it is made again alone")
def test_a_lost_file_is_rebuilt_alone(built):
    path = built.root / "results/tiny/charts/speedup.svg"
    content = path.read_bytes()
    path.unlink()
    try:
        assert built.planned("results/tiny/charts/speedup.svg") == Counter(charts=1)
    finally:
        path.write_bytes(content)


@pytest.mark.fault(
    "steps.csv of a finished run is deleted",
    "`scaleproof stale` names the run, and the command that measures it again, and no other",
)
def test_what_was_deleted_behind_a_report_is_named_and_made_again(built):
    """Snakemake looks no further than the files that a report is made from. The command in the message does."""
    lost = [built.root / "results/tiny" / name for name in ("runs/ddp-n1x2/rep1/steps.csv", "tables/weak.md")]
    contents = [(path, path.read_bytes()) for path in lost if path.is_file()]
    for path, _ in contents:
        path.unlink()
    try:
        assert built.planned(REPORT) == Counter()
        stale = built.command("scaleproof", "stale", "config/campaigns/tiny.yaml")
        assert stale.returncode == 1
        assert "results/tiny/runs/ddp-n1x2/rep1 is no longer complete; results/tiny/tables/weak.md" in stale.stdout
        command = re.search(r"to make what is missing again: snakemake --cores 2 (.+)", stale.stdout)[1]
        said = built.dry(*command.split())
        assert "Train tiny ddp-n1x2, repeat 1" in said
        assert "Train tiny ddp-n1x1" not in said
        assert "Write the report of tiny" in said
    finally:
        for path, content in contents:
            path.write_bytes(content)
            path.touch()


def test_a_target_builds_only_what_it_needs(make_copy):
    fresh = make_copy()
    chain = Counter(corpus_fetch=1, corpus_tokenizer=1, corpus_tokenise=1)
    assert fresh.planned("results/corpora/prose/bpe-512/train.bin") == chain
    measured = chain + Counter(train=2)
    assert fresh.planned("results/tiny/charts/speedup.svg") == measured + Counter(
        collect=1, findings=1, analyse=1, charts=1, corpus_reread=1, reference=1
    )
    assert fresh.planned("results/tiny/charts/loss_step.svg") == measured + Counter(
        collect=1, findings=1, analyse=1, loss_charts=1, corpus_reread=1, reference=1
    )
    assert fresh.planned("results/tiny/tables/scaling.csv") == measured + Counter(
        collect=1, findings=1, analyse=1, tables=1, corpus_reread=1, reference=1
    )
    assert fresh.planned("results/tiny/runs/ddp-n1x1/rep1/steps.csv") == chain + Counter(train=1)


def test_the_default_target_is_the_report_of_the_demo(make_copy):
    said = make_copy().dry()
    assert "The report of the demo: results/demo/report.html" in said
