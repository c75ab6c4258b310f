"""Broken input, failing runs, a driver that is killed: what is said, and what is kept."""

import json
import shutil
import signal
import subprocess

import pytest
from patience import alive, wait_until
from workflow_texts import COMPARE

REPORT = "results/tiny/report.html"


def said(done) -> str:
    return done.stdout + done.stderr


def test_a_campaign_that_does_not_exist(built):
    done = built.snakemake("results/tinny/report.html")
    assert done.returncode == 2
    assert 'there is no campaign "tinny"' in said(done)
    assert 'Did you mean "tiny"?' in said(done)
    assert "Traceback" not in said(done)


def test_a_cell_that_does_not_exist(built):
    done = built.snakemake("results/tiny/runs/ddp-n1x3/rep1/training_metrics.json")
    assert done.returncode == 2
    assert 'there is no cell "ddp-n1x3"' in said(done)
    assert "Cells: ddp-n1x1, ddp-n1x2" in said(done)


@pytest.mark.fault("a broken campaign file", "one message with file and line; other campaigns go on")
def test_a_broken_campaign_is_named_and_disturbs_no_other(built):
    path = built.campaign("broken", "title: x\nwork: {stepz: 4}\n")
    try:
        done = built.snakemake("results/broken/report.html")
        assert done.returncode == 2
        assert "config/campaigns/broken.yaml, line 2: unknown key work.stepz" in said(done)
        assert 'Did you mean "steps"?' in said(done)
        assert "Traceback" not in said(done)
        assert "Nothing to be done" in said(built.snakemake(REPORT))
    finally:
        path.unlink()


def test_an_unknown_corpus(built):
    path = built.campaign("broken", "title: x\nworkload: {corpus: prosa}\n")
    try:
        done = built.snakemake("results/broken/report.html")
        assert done.returncode == 2
        assert 'there is no corpus "prosa"' in said(done)
        assert 'Did you mean "prose"?' in said(done)
    finally:
        path.unlink()


@pytest.mark.parametrize(
    "command",
    [
        "stage train config/campaigns/tiny.yaml ddp-n1x1 --fingerprints 0 --tokens x --out y",
        "stage shared_job config/campaigns/tiny.yaml rep1-1 --fingerprints 0 --out y",
    ],
)
@pytest.mark.fault("a campaign is edited while its jobs wait", "they end, saying so; nothing is mixed")
def test_a_cell_that_changed_since_the_dag_was_made_is_not_run(built, command):
    done = built.command("scaleproof", *command.split())
    assert done.returncode == 2
    assert "was changed while the workflow ran" in done.stderr


@pytest.fixture(scope="module")
def failed(built):
    """The folder of a campaign in which one cell has failed: the other cell is measured, and the report is made."""
    text = (built.root / "config/campaigns/tiny.yaml").read_text()
    built.campaign("failing", text.replace("[1x1, 1x2]", "[1x1, 2x1]"))
    built.build("results/failing/report.html")
    return built.root / "results/failing"


def test_a_failed_cell_is_a_row_and_the_campaign_goes_on(failed):
    table = (failed / "tables/scaling.md").read_text()
    row, measured = sorted((line for line in table.splitlines() if line.startswith("| ddp")), key=lambda r: "1x1" in r)
    assert "not_applicable: 2 nodes need a cluster" in row
    assert "0 of 1" in row
    assert "1 of 1" not in measured
    page = (failed / "report.html").read_text()
    assert "<strong>ddp-n2x1/rep1</strong>" in page
    assert "ddp-n1x1/rep1" in page


@pytest.mark.fault("failed runs are to be repeated", "`scaleproof retry`, then snakemake")
def test_failed_runs_are_repeated_on_request(built, failed, tmp_path):
    """`retry` takes the failed runs away and nothing else; the next Snakemake makes them again."""
    report = "results/failing/report.html"
    shutil.copytree(failed, tmp_path / "failing")
    done = built.command("scaleproof", "retry", "config/campaigns/failing.yaml")
    assert done.returncode == 0
    assert "removed results/failing/runs/ddp-n2x1/rep1" in done.stdout
    assert "1 run will be repeated" in done.stdout
    computed = next(line for line in done.stdout.splitlines() if line.startswith("removed what was computed"))
    assert "report.html" in computed
    assert built.planned(report)["train"] == 1
    built.command("scaleproof", "retry", "config/campaigns/failing.yaml", "--cell", "ddp-n1x1")
    assert built.planned(report)["train"] == 2
    shutil.copytree(tmp_path / "failing", failed, dirs_exist_ok=True)


@pytest.mark.fault("a run fails, the report is made", "a row; said at the end; exit code 3")
def test_failed_runs_are_said_at_the_end_and_by_the_exit_code(built):
    """A run that is stopped by its time limit is a row of the report; the console and the exit code say so, too."""
    text = (built.root / "config/campaigns/tiny.yaml").read_text().replace("[1x1, 1x2]", "[1x1]")
    text = text.replace("start: forked", "start: fresh")  # a forked run may be over before the limit is looked at
    built.campaign("stopped", text + "resources: {time_limit: 0.001}\n")
    done = built.snakemake("results/stopped/report.html")
    assert done.returncode == 3, done.stderr[-3000:]
    assert "1 of 1 run of stopped failed (rows of the report):\n  ddp-n1x1/rep1: timeout: " in done.stderr
    repair = "What repairs them: scaleproof explain timeout\nThen repeat them with: "
    assert f"{repair}scaleproof retry config/campaigns/stopped.yaml && snakemake" in done.stderr
    assert (built.root / "results/stopped/report.html").is_file()


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        ("results/TINY/report.html", 'Did you mean "tiny"?'),
        ("results/tinny/report.html", 'Did you mean "tiny"?'),
        ("results/tiny/charts/speedup.jpg", 'Did you mean "results/tiny/charts/speedup.png"? In results/tiny/charts: '),
        ("results/tiny/tables/scalings.csv", 'Did you mean "results/tiny/tables/scaling.csv"?'),
        ("results/tiny/speedup.svg", 'Did you mean "results/tiny/charts/speedup.svg"?'),
        ("results/tiny", 'Did you mean "results/tiny/report.html"?'),
        ("results/TINY/foo.csv", 'Did you mean "tiny"?'),
        ("results/tiny/charts/zzz.svg", "no rule makes results/tiny/charts/zzz.svg. In results/tiny/charts: "),
        ("results/doctor.jsn", "no rule makes results/doctor.jsn.\n"),
        ("results/tiny.html", 'no rule makes results/tiny.html. Did you mean "results/tiny/report.html"?'),
        ("results/my tiny/report.html", 'there is no campaign "my tiny". Did you mean "tiny"?'),
        ("results/tiny/reference/foo.json", 'there is no workload "foo". Allowed: model-'),
        ("results/tiny/looks/3.json", "takes no looks: its number of repeats is fixed (key: repeats.resolve)"),
        ("results/tiny/charts/comparison.svg", "compares nothing in pairs (key: compare)"),
        ("results/tiny/charts/trace-steps.svg", "traces no cell (key: trace.cells)"),
        ("results/tiny/forecast.json", "has no forecasts: write forecast: {hold_out: [GEOMETRY]} into it"),
        ("results/corpora/prose/bpe-256/train.bin", "bpe-256 is too small: the 256 bytes and end-of-text need bpe-257"),
        ("results/published/tiny/report.html", "It is written by: scaleproof publish results/NAME"),
        ("results/tiny/sweep/7x7/sweep.json", 'there is no group of devices "7x7". Allowed: 1x2'),
        (
            "results/tiny/frontier/ddp-n1x1/frontier.json",
            "looks for no micro-batch of ddp-n1x1 (key: work.micro_batch)",
        ),
        ("results/tiny/runs/ddp-n1x1/rep9/steps.csv", "plans repeats 1 to 1"),
        ("results/tiny/runs/ddp-n1x1/rep0/steps.csv", "plans repeats 1 to 1"),
        ("results/corpora/nosuch/train.bin", "no rule makes results/corpora/nosuch/train.bin. In results/corpora: "),
        ("results/tiny/runs/ddp-n1x1/rep01/steps.csv", 'Did you mean "results/tiny/runs/ddp-n1x1/rep1/steps.csv"?'),
        ("tiny/report.html", 'no rule makes tiny/report.html. Did you mean "results/tiny/report.html"?'),
        ("config/campaigns/tiny.yaml", 'Did you mean "results/tiny/report.html"?'),
        ("results/tiny/tables", "no rule makes results/tiny/tables. In results/tiny/tables: "),
        ("results/tiny.yaml", 'Did you mean "results/tiny/report.html"?'),
        ("results/tinny.yaml", 'Did you mean "tiny"?'),
        ("tiny/foo.csv", "no rule makes tiny/foo.csv. In results/tiny: "),
        (r"results\tiny\report.html", 'Did you mean "results/tiny/report.html"?'),
        ("report.html", 'there is no target "report.html".'),
        ("ddp-n1x2", "ddp-n1x2 is a cell, not a target; what makes a run of it: snakemake results/"),
        ("ddp-n9x9", 'there is no target "ddp-n9x9". Allowed: results/'),
        ("--forcerun=trian", 'there is no rule "trian". Did you mean "train"?'),
        ("results/tiny/traces/ddp-n1x1/capture.json", "does not trace ddp-n1x1 (key: trace.cells)"),
    ],
)
@pytest.mark.fault(
    "a wrong target on snakemake's command line", "what the campaign, or the folder, has instead; exit code 2"
)
def test_a_target_that_is_not_made(built, target, meant):
    done = built.snakemake(target)
    assert done.returncode == 2
    assert meant in said(done)
    assert "Traceback" not in said(done)


@pytest.mark.parametrize(("target", "is_told"), [("report", True), ("all", False), ("results/tiny/report.html", False)])
def test_a_rule_of_any_campaign_is_no_target(built, target, is_told):
    done = built.snakemake("-n", target)
    told = "report is a rule for any campaign; name the file that it is to make: snakemake results/CAMPAIGN/report.html"
    assert (told in said(done)) == is_told
    assert (done.returncode == 1) == is_told


@pytest.mark.parametrize("options", [("--forcerun", "collect"), ("-n",)])
@pytest.mark.parametrize(("rule", "code"), [("trian", 2), ("report", 0), ("results/tiny/report.html", 0)])
def test_a_rule_that_is_left_out_is_one(built, rule, code, options):
    done = built.snakemake(*options, "--omit-from", rule, "--", "results/tiny/report.html")
    assert ('there is no rule "trian". Did you mean "train"?' in said(done)) == (code == 2), said(done)
    assert (done.returncode == 0) == (code == 0), said(done)


def test_a_rule_whose_threads_an_option_sets_is_one_or_of_another_workflow(built):
    done = built.snakemake("-n", "--set-threads", "trian=2", "align=2", "--", "results/tiny/report.html")
    assert '--set-threads: the workflow has no rule "trian". Did you mean "train"?' in said(done)
    assert done.returncode == 2
    assert built.snakemake("-n", "--set-threads", "align=2", "--", "results/tiny/report.html").returncode == 0


def test_a_rule_of_the_user_may_make_files_in_the_folder_of_a_campaign(make_copy):
    copy = make_copy()
    text = 'rule mine:\n    output: "results/tiny/extra/mine.csv"\n    shell: "touch {output}"\n'
    text += 'rule theirs:\n    input: "results/tiny/notes.md"\n    output: "notes.md"\n    shell: "cp {input} ."\n'
    text += 'rule missing:\n    input: "data.csv"\n    output: "made.csv"\n    shell: "cp {input} {output}"\n'
    text += 'rule tiny:\n    output: "tiny/mine.csv"\n    shell: "touch {output}"\n'
    (copy.root / "Snakefile").write_text((copy.root / "Snakefile").read_text() + "\n\n" + text)
    (copy.root / "results/tiny").mkdir(parents=True, exist_ok=True)
    (copy.root / "results/tiny/notes.md").write_text("mine")
    copy.build("results/tiny/extra/mine.csv", "notes.md", "tiny/mine.csv")
    assert (copy.root / "notes.md").read_text() == "mine"
    assert (copy.root / "results/tiny/extra/mine.csv").is_file()
    assert "Missing input files for rule missing" in said(copy.snakemake("made.csv"))


def test_a_comparison_is_made_in_pairs_and_told(built):
    text = (built.root / "config/campaigns/tiny.yaml").read_text().replace("[1x1, 1x2]", "[1x1]")
    built.campaign("pairs", text + COMPARE)
    report = "results/pairs/report.html"
    built.build(report)
    found = json.loads((built.root / "results/pairs/comparison.json").read_text())["comparisons"][0]
    assert found["status"] == "ok", found
    assert (found["pairs"], found["estimate"]["n"]) == (4, 2)
    page = (built.root / report).read_text()
    assert "A against B" in page
    assert "fused: ddp-n1x1-" in page
    assert built.planned(report) == {}
    built.campaign("pairs", text + COMPARE.replace("pairs: 2, null", "pairs: 4, null"))
    planned = built.planned(report)  # whole pairs are kept by the command itself
    assert [planned[rule] for rule in ("pairs", "comparison", "findings", "report")] == [1, 1, 1, 1]
    assert "train" not in planned


@pytest.mark.fault(
    "snakemake is killed (`kill -9`) during a training",
    "the run's processes end; no finished run is lost; after `--unlock` the next snakemake goes on",
)
def test_killing_the_driver_loses_no_finished_run(make_copy):
    copy = make_copy()
    driver = subprocess.Popen(
        ["snakemake", "--cores", "2", REPORT],
        cwd=copy.root,
        env=copy.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    runs = [copy.root / f"results/tiny/runs/ddp-n1x{n}/rep1" for n in (1, 2)]
    # One run is finished and the other one is under way.
    wait_until(
        lambda: (
            any((r / "training_metrics.json").exists() for r in runs) and any(list(r.glob(".attempt-*")) for r in runs)
        ),
        driver,
    )
    finished, cut = sorted(runs, key=lambda r: not (r / "training_metrics.json").exists())
    before = (finished / "training_metrics.json").stat().st_mtime_ns
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    wait_until(lambda: not alive(str(copy.root)))
    assert not (cut / "training_metrics.json").exists(), "a run that was cut off left no result"

    assert copy.snakemake("--unlock", REPORT).returncode == 0
    assert copy.planned(REPORT)["train"] == 1
    copy.build(REPORT)
    assert (finished / "training_metrics.json").stat().st_mtime_ns == before
    assert (cut / "training_metrics.json").exists()
