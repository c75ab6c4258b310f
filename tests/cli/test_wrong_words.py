"""Wrong commands, paths and files on the command line: one message with what is meant, and nothing is written."""

import io
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from command_line import scaleproof
from synthetic import cells, write_run

COMMANDS = [
    (["validate", "x.yaml"], '"scaleproof campaign validate"'),
    (["show", "x.yaml"], '"scaleproof campaign show"'),
    (["check", "mine"], '"scaleproof corpus check"'),
    (["list"], '"scaleproof corpus list"'),
    (["diff", "a", "b"], '"scaleproof trace diff"'),
    (["train", "x.yaml"], '"scaleproof stage train"'),
    (["run", "x.yaml"], '"snakemake --cores 2 results/<campaign>/report.html"'),
    (["report", "results/demo"], '"snakemake --cores 2 results/<campaign>/report.html"'),
    (["version"], 'Did you mean "--version"?'),
    (["help"], 'Did you mean "--help"?'),
    (["clean"], 'there is no "clean". Allowed: '),
    (["auditt"], 'Did you mean "audit"?'),
    (["ba"], 'Did you mean "ab"?'),
    (["reprot"], 'Did you mean "snakemake --cores 2 results/<campaign>/report.html"?'),
    (["stage", "cahrts"], 'Did you mean "charts"?'),
    ([], "a command is missing; allowed: init, doctor, campaign, model, corpus"),
    (["campaign"], "a command is missing; allowed: validate, show, schema"),
    (["campaign", "lint", "x.yaml"], 'there is no "lint". Allowed: validate, show, schema'),
    (["campaign", "config/x.yaml"], "A command comes first: scaleproof campaign validate config/x.yaml."),
    (["results/demo"], "A command comes first: scaleproof audit results/demo."),
    (["-v"], '"-v" is not expected. Did you mean "--version"?'),
    (["audit", "results", "\N{EM DASH}html=x"], "begins with a long dash; an option has two hyphens: --html=x"),
    (["--verison"], '"--verison" is not expected. Did you mean "--version"?'),
    (["why", "results/demo"], "required: FIGURE. Example: scaleproof why results/demo"),
    (["model", "fetch", "qwen"], 'cannot be "qwen"; allowed: owner/name, like Qwen/Qwen3-0.6B.'),
    (["ab", "--", "python", "nope.py", "--", "python", "b.py"], "command A: nope.py: there is no such file in "),
    (["ab", "--", __file__, "--", "python", "b.py"], "the file may not be executed: python "),
    (["ab", "--seconds", "400", "--", "python", "a.py", "--", "python", "b.py"], "are more than --minutes 10"),
    (["ab", "--pattern", "step=a(.)", "--pattern", "step=b(.)", "--", "ls", "--", "ls"], "once for each figure"),
    (["ab", "--pattern", "step=a(.)", "--figures", "NanoGPT", "--", "ls", "--", "ls"], "without --figures"),
    (["ab", "--figures", "NanoGTP", "--", "python", "--", "python"], 'Did you mean "NanoGPT"?'),
    (["ab", "--minutes", "0.001", "--", "python", "--", "python"], "is too short to start both programs; at least 0.1"),
    (["ab", "--name", "../x", "--", "python", "--", "python"], 'argument --name: cannot be "../x"; allowed: a name, w'),
    (["ab", "--series", "", "--", "python", "--", "python"], 'argument --series: cannot be ""; allowed: a name, wit'),
    (["plan", "x.yaml", "--price", "2,50EUR"], "write 2.50."),
    (["plan", "x.yaml", "--budget", "1,5"], "(device hours); write 1.5."),
    (["ab", "--difference", "2%", "--", "ls", "--", "ls"], "(%); write 2."),
    (["compare", "-", "-"], "compare reads files and folders, not standard input"),
    (["model", "fetch", "Qwen/Qwen3-0.6B@main"], "; write Qwen/Qwen3-0.6B --revision main"),
    (["model", "fetch", "."], "is a file or folder of this machine; the hub is asked for owner/name"),
    (["audit", ".", "--html", "\x1b[31m"], "'\\x1b[31m' has a character that is not printed; give another name"),
    (["audit", ".", "--html", "x.pdf"], "what is written is no .pdf; give a name with .html"),
    (["audit", ".", "--json", "--format", "github"], "not allowed with argument --json"),
]


@pytest.mark.parametrize(("words", "part"), COMMANDS)
def test_a_wrong_command_is_answered_with_the_one_that_is_meant(tmp_path, words, part):
    done = scaleproof(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert part in done.stderr


def test_words_of_a_code_may_be_apart(tmp_path):
    assert scaleproof("explain", "machine", "busy", cwd=tmp_path).stdout.startswith("## machine-busy")
    both = scaleproof("explain", "efficiency", "super-linear", cwd=tmp_path).stdout
    assert both.startswith("speed-up over the ratio of the numbers of devices\n\n## super-linear")
    assert scaleproof("explain", "scaling", "efficiency", cwd=tmp_path).stdout == both.partition("\n")[0] + "\n"
    assert 'Did you mean "machine-busy"?' in scaleproof("explain", "machine", "bussy", cwd=tmp_path).stderr


def test_words_and_columns_of_a_report_are_explained(tmp_path):
    beginnings = {
        "undecided": "The interval of the ratio contains 1",
        "vs fastest": "tokens/s over that of the fastest",
        "fastest over this": "tokens/s of the fastest cell of the same size over that of this one",
        "time to loss": "seconds in the window",
        "margin": "Key of a campaign: By which part a",
    }
    for words, beginning in beginnings.items():
        assert scaleproof("explain", *words.split(), cwd=tmp_path).stdout.startswith(beginning)
    assert 'Did you mean "incomparable"?' in scaleproof("explain", "incomparabel", cwd=tmp_path).stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with the results of one campaign, two runs of a cell."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "config").mkdir()
    cell = cells()[0]
    for repeat in (1, 2):
        write_run(folder / "results/demo/runs", cell, repeat, seed=1)
    (folder / "config/corpora.yaml").write_text("mine: {source: text, files: [x.txt]}\n")
    for name in ("empty", "hidden", "slurm", "traced"):
        (folder / name).mkdir()
    (folder / "hidden/.keep").touch()
    (folder / "results/published/demo_cpu_2026").mkdir(parents=True)
    (folder / "loop").symlink_to("loop")
    (folder / "lost").symlink_to("../gone.txt")
    (folder / "config/campaign.yaml").write_text("title: x\n")
    (folder / "slurm/profile.v9+.yaml").write_text("executor: slurm\n")
    (folder / "traced/capture.json").write_text("{}")
    for name in ("nothing.txt", "nothing.yaml", "nothing.toml", "go.sh"):
        (folder / name).touch()
    (folder / "results.zip").write_bytes(b"PK")
    (folder / "notes.txt").write_text("Dear reader,\n")
    (folder / "heading.csv").write_text("gpus,tokens/s\n")
    os.mkfifo(folder / "pipe")
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    return folder


RUN = "results/demo/runs/ddp-n1x1/rep1"
STEPS = f"{RUN}/steps.csv"
PATHS = [
    (["audit", "resluts/demo"], 'no such file or folder. Did you mean "results/demo"?'),
    (["audit", "nowhere"], "no such file or folder. In .: config, empty"),
    (["audit", "heading.csv"], "a table needs a row with a rate or a time above 0, below a heading that names it"),
    (
        ["audit", "config/campaign.yaml"],
        "among 1 file; of a campaign, name its results, results/NAME; settings alone are no result",
    ),
    (["audit", "picture.png"], "figures in pictures are not read; docs/audit.md lists what is recognised"),
    (["compare", "ddp-n1x1", "results/demo"], 'Did you mean "results/demo/runs/ddp-n1x1"?'),
    (["compare", "traced", "results/demo"], "(a trace, which is compared by: scaleproof trace"),
    (["compare", "results/demo", "empty"], "empty: no run below whose rate can be compared"),
    (["verify", "results/dmo"], 'no such file or folder; give results/<campaign>. Did you mean "results/demo"?'),
    (["verify", "results"], "Results there: results/demo"),
    (["verify", "results/demo/runs/ddp-n1x1/rep1"], 'Did you mean "results/demo"?'),
    (["verify", "config/campaigns/demo.yaml"], 'Did you mean "results/demo"?'),
    (["index", "nowhere"], "nowhere: no such file or folder. In .: config, empty"),
    (["index", "picture.png"], "picture.png is a file; a folder is expected"),
    (["index", "results/demo"], "results/demo is of one campaign; the folder of all results is results"),
    (["compare", "/", "results/demo"], "/: this is a part of the operating system; name the folder of the results"),
    (["why", "cells/x/n", "results/demo"], "the words are in the wrong order: scaleproof why results/demo cells"),
    (["export", "prometheus", "new.prom", "results/demo"], "order: scaleproof export prometheus results/demo new.prom"),
    (["export", "mlflow", "new", "results/demo"], "the words are in the wrong order: scaleproof export mlflow results"),
    (["export", "mlflow", "results/demo", "results"], '"results" is not empty; give a new folder'),
    (["compare", "demo", "results/demo"], 'Did you mean "results/demo"?'),
    (["audit", "results/demo\n"], '"results/demo\\n" has a line break in it, as of a script; take it away'),
    (
        ["publish", "results/demo", "--author", "J", "--notes", "notes.txt"],
        'for its content write --notes "$(cat notes',
    ),
    (["compare", "demo_cpu_2026", "results/demo"], 'Did you mean "results/published/demo_cpu_2026"?'),
    (["audit", "demo"], 'demo: no such file or folder. Did you mean "results/demo"?'),
    (["audit", "results\\demo"], 'Did you mean "results/demo"?'),
    (["campaign", "show", "config/corpora.yaml"], "corpora.yaml is a table of corpora, no campaign; a campaign"),
    (["retry", "x.yaml", "--cell", ""], 'argument --cell: cannot be ""; allowed: one line of text that is not blank'),
    (["trace", "diff", "results/demo/runs", "hidden"], "no trace in this folder"),
    (["trace", "summary", "results/dmo"], "no such file; allowed: .sqlite (nsys export)"),
    (["trace", "summary", "results/demo"], "no trace in this folder"),
    (["trace", "diff", "results/demo/runs", "results/demo/runs"], "no trace in this folder"),
    (["publish", "results/demo", "--author", "J", "--out", "picture.png"], "picture.png is a file; a folder is exp"),
    (["why", "results/demo", "cells/ddp-n1x9/speedup"], 'no run of "ddp-n1x9" is in results/demo/runs. Did you'),
    (["why", "results/demo", "tokens_per_s"], "Figures: cells/ddp-n1x1/tokens_per_s"),
    (["why", "results/demo", "cells/ddp-n1x1/speed"], "scaling_report.json: no such file; build it with: snakemake"),
    (["audit", "results/demo", "--html", "results"], '"results" is a folder; give the name of a file in it'),
    (["audit", "results/demo", "--html", "resluts/x.html"], 'no folder "resluts". Did you mean "results"?'),
    (["gate", "results/demo", "--baseline", *["results/demo"] * 3], "results/demo is given twice"),
    (["gate", "--history", *["results/demo"] * 5], "results/demo is given twice"),
    (["stage", "charts", "results/demo", "--forecast", "notes.txt"], "notes.txt is no record, which ends with .json"),
    (["audit", "nothing.txt"], "nothing.txt is empty; a table, a log or a record of results is expected"),
    (["audit", "nothing.txt", "nothing.yaml"], "nothing.txt, nothing.yaml are empty; a table"),
    (["audit", "loop"], "loop is a link that leads back to itself"),
    (["audit", "lost"], "lost is a link to ../gone.txt, which leads nowhere"),
    (["audit", "pipe"], "pipe is a pipe, not a regular file; what a program prints is read like this: PROGRAM | "),
    (["audit", "notes.txt/x"], "notes.txt/x: notes.txt is a file, not a folder"),
    (["audit", "results", "--html", "notes.txt"], "notes.txt is there, and would be lost; allowed: a new name, or one"),
    (["audit", "results", "--html", f"{RUN}/training_metrics.json"], "and would be lost; allowed: a new name, or one"),
    (
        ["doctor", "--out", STEPS],
        "steps.csv is there, and would be lost; allowed: a new name, or one that ends in .json",
    ),
    (["audit", "results", "--html", "notes.txt/x.html"], "notes.txt is a file; a folder is expected"),
    (["compare", "nothing.txt", "results/demo"], "nothing.txt is empty; a table, a log or a record of results"),
    (["compare", "results/demo", "loop"], "loop is a link that leads back to itself"),
    (["verify", "nothing.txt"], "it is an empty file; give results/<campaign>. Results there: results/demo"),
    (["verify", "results.zip"], "results.zip is no campaign's results: it is an archive; unpack it; give results/"),
    (["plan", "x.yaml", "--price", "$2.5"], "allowed: a number above 0, up to 100,000,000; write 2.5."),
    (["verify", "notes.txt"], "there is no folder runs; give results/<campaign>"),
    (["verify", "loop"], "is a link that leads back to itself; give results/<campaign>. Results there: results/demo"),
    (["verify", "lost"], "is a link to ../gone.txt, which leads nowhere; give results/<campaign>."),
    (["ab", "--", "./go.sh", "--", "python", "b.py"], "the file may not be executed: bash ./go.sh, or chmod +x"),
    (["verify", "loop/x"], "loop is a link that leads back to itself; give results/<campaign>"),
    (["index", "loop"], "loop is a link that leads back to itself"),
    (["campaign", "show", "nothing.yaml"], "nothing.yaml is empty: a campaign is expected, with lines such as"),
    (
        ["plan", "nothing.toml"],
        "nothing.toml is empty, and is no campaign file, which ends with .yaml and has a title",
    ),
    (["retry", "loop"], "loop is a link that leads back to itself"),
    (["campaign", "show", "x.yaml", "--results", "loop"], "loop is a link that leads back to itself"),
    (
        ["cluster", "check", "--profile", "notes.txt"],
        "notes.txt: a mapping is expected, with lines such as",
    ),
    (["cluster", "check", "--profile", "loop"], "loop is a link that leads back to itself (profiles: slurm"),
    (
        ["trace", "diff", "/", "/"],
        "/: no trace in this folder; give results/<campaign>/traces/<cell> or files; allowed: ",
    ),
    (["trace", "diff", "results/demo", "config"], "in this folder; give results/<campaign>/traces/<cell> or files"),
    (["trace", "diff", "nothing.txt", "nothing.txt"], "nothing.txt: the file is empty"),
    (["trace", "diff", "loop", "loop"], "loop is a link that leads back to itself; allowed: .sqlite"),
    (["trace", "summary", "notes.txt", "--out", "loop"], "loop is a link that leads back to itself"),
    (["audit", STEPS], "the series of a run; name the run's folder, results/demo/runs/ddp-n1x1/rep1"),
    (["compare", STEPS, "results/demo"], "the series of a run; name the run's folder, results/demo/runs/ddp-n1x1/rep1"),
    (["audit", "config/corpora.yaml"], "no benchmark result among 1 file; of a campaign, name its results"),
    (["audit", "https://example.org/x"], "is an address; download it"),
    (["audit", "x" * 300], "has a name of more than 255 bytes"),
    (["plan", "x.yaml", "--price", "2,50"], 'cannot be "2,50"; allowed: a number above 0'),
    (["plan", "x.yaml", "--price", "2", "--price", "3"], "argument --price: is given twice"),
    (["plan", "x.yaml", "--currency", "euros"], "allowed: three capital letters, like USD or EUR"),
    (["plan", "x.yaml", "--price-date", "1.12.2026"], "YEAR-MONTH-DAY, like 2026-11-01"),
    (["sweep", "x.yaml", "--link", "400Gb/s"], "allowed: a number above 0, up to"),
    (["frontier", "x.yaml", "ddp", "--limit", "4"], "allowed: a number with MB, GB or TB, like 4GB"),
    (["frontier", "x.yaml", "--cell", "ddp-n1x2"], '"--cell" is no option here: give CELL alone.'),
    (["index", "results", "--json"], '"--json" is not expected.'),
    (["compare", "a", "b", "--foo", "c"], '"--foo" is not expected. Options: --help, --vary, --json, --html'),
    (["verify", "results/demo", "more"], '"more" is one word too many; scaleproof verify takes RESULTS.'),
    (["audit", "a.md", "--json", "a.json"], '--json takes no value; write "a.json" before it, or "> a.json" for the'),
    (["audit", "a.md", "--fail-on"], "argument --fail-on: needs a value, one of invalid, suspect, note\n"),
    (["cluster", "check", "slurm"], "slurm is a profile, not a campaign file; give it as --profile slurm"),
    (["compare", "a", "b", "--vary"], "argument --vary: needs a value, FIELD: what is meant to differ"),
    (["audit", "results/demo", "--json=yes"], "argument --json: takes no value"),
    (["campaign", "show", "x.yaml", "--results", "resluts"], 'Did you mean "results"?'),
]


@pytest.mark.parametrize(("words", "part"), PATHS)
def test_a_wrong_path_is_answered_with_what_is_there(place, words, part):
    before = sorted(place.rglob("*"))
    done = scaleproof(*words, cwd=place)
    assert done.returncode == 2, done
    assert part in done.stderr, done.stderr
    assert sorted(place.rglob("*")) == before


def test_a_copy_of_results_is_no_session_of_its_own(place, tmp_path):
    for name in ("a", "b", "c"):
        shutil.copytree(place / "results/demo", tmp_path / name)
    done = scaleproof("gate", place / "results/demo", "--baseline", "a", "b", "c", cwd=tmp_path)
    assert "to the last digit" in done.stderr


def steps_cut(folder: Path) -> None:
    path = folder / "runs/ddp-n1x1/rep1/steps.csv"
    path.write_bytes(path.read_bytes()[:-20])


def column_renamed(folder: Path) -> None:
    path = folder / "runs/ddp-n1x1/rep1/steps.csv"
    path.write_text(path.read_text().replace("loss", "los", 1))


def metrics_are_a_list(folder: Path) -> None:
    (folder / "runs/ddp-n1x1/rep1/training_metrics.json").write_text("[]")


def report_is_binary(folder: Path) -> None:
    (folder / "report.html").write_bytes(b"\xff")


def manifest_cut(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"files": ')


def metrics_are_a_pointer(folder: Path) -> None:
    metrics = next(folder.glob("runs/*/*/training_metrics.json"))
    metrics.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n")


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        (metrics_are_a_pointer, "training_metrics.json: not readable: a pointer of Git LFS, not the file itself"),
        (steps_cut, "steps.csv, line "),
        (column_renamed, "steps.csv has no column loss"),
        (report_is_binary, "report.html: not readable: it is not UTF-8 text"),
        (metrics_are_a_list, "training_metrics.json: not readable: it is cut off, or not what this version writes"),
        (manifest_cut, "manifest.json: not readable: no JSON, or cut off"),
    ],
)
def test_a_damaged_file_is_described_in_words(place, tmp_path, damage, part):
    folder = shutil.copytree(place / "results/demo", tmp_path / "demo")
    damage(folder)
    done = scaleproof("verify", folder, cwd=tmp_path)
    assert done.returncode == 1
    assert part in done.stdout
    assert "Error(" not in done.stdout


@pytest.mark.parametrize("words", [("plan", "x.yaml"), ("stale",), ("doctor", "--no-ranks")])
def test_results_that_are_no_folder_are_told_before_anything_is_done(tmp_path, words):
    (tmp_path / "results").symlink_to("results")
    done = scaleproof(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "results" in done.stderr
    assert "is a link that leads back to itself" in done.stderr


def test_an_empty_file_beside_a_good_one_is_named_and_the_good_one_read(place):
    done = scaleproof("audit", "nothing.txt", "results/demo", cwd=place)
    assert "read: metrics JSON" in done.stdout
    assert "nothing.txt: it is empty" in done.stdout


@pytest.mark.parametrize("stream", [io.TextIOWrapper(io.BytesIO(b"\n")), None], ids=["empty", "closed"])
def test_nothing_on_standard_input_is_told(place, monkeypatch, stream):
    monkeypatch.setattr("sys.stdin", stream)
    done = scaleproof("audit", "-", cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert "standard input is empty; a table, a log or a record of results is expected" in done.stderr


def test_a_page_may_be_written_again(place, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("an old page")
    scaleproof("audit", "results/demo", "--html", page, cwd=place)
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_damaged_steps_are_named_where_runs_are_compared(place, tmp_path):
    folder = shutil.copytree(place / "results/demo", tmp_path / "demo")
    steps_cut(folder)
    done = scaleproof("compare", folder / "runs/ddp-n1x1/rep1", folder / "runs/ddp-n1x1/rep2", cwd=tmp_path)
    assert done.returncode == 1
    assert "invalid: record-unusable: ddp-n1x1/rep1: " in done.stdout
    assert "steps.csv" in done.stdout


def test_a_record_without_a_part_is_named(place, tmp_path):
    folder = shutil.copytree(place / "results/demo", tmp_path / "demo")
    path = folder / "runs/ddp-n1x1/rep1/training_metrics.json"
    path.write_text(path.read_text().replace('"device_name"', '"device"'))
    done = scaleproof("compare", path.parent, folder / "runs/ddp-n1x1/rep2", cwd=tmp_path)
    assert done.returncode == 2
    words = "rep1/training_metrics.json is not a metrics file of schema 3: ranks.0.device_name is missing"
    assert words in done.stderr


def test_a_table_is_not_made_of_words(repository, tmp_path):
    published = next((repository / "results/published").glob("demo_*"))
    folder = shutil.copytree(published, tmp_path / "results/demo")
    assert scaleproof("stage", "tables", folder, cwd=tmp_path).returncode == 0
    path = folder / "scaling_report.json"
    path.write_text(re.sub('"low": [0-9.]+', '"low": "few"', path.read_text()))
    done = scaleproof("stage", "tables", folder, cwd=tmp_path)
    assert done.returncode == 2
    place = "series.0.runs.1x1.tokens_per_sec_global.low"
    assert f"scaling_report.json is damaged ({place} cannot be 'few'; allowed: a valid number" in done.stderr


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("cell,,evidence", "a column has no name"),
        ("cell,evidence\ncell,evidence", "the names of its columns stand in it twice"),
    ],
)
def test_a_table_with_a_wrong_first_line_is_named(repository, tmp_path, line, part):
    published = next((repository / "results/published").glob("demo_*"))
    folder = shutil.copytree(published, tmp_path / "results/demo")
    names, rows = (folder / "cells.csv").read_text().split("\n", 1)
    first = line.replace("cell,evidence", names) if "\n" in line else names.replace("cell,evidence", line, 1)
    (folder / "cells.csv").write_text(f"{first}\n{rows}")
    done = scaleproof("stage", "tables", folder, cwd=tmp_path)
    assert done.returncode == 2
    assert f"cells.csv is damaged ({part})" in done.stderr


def test_a_damaged_report_is_no_wrong_name_of_a_figure(place, tmp_path):
    folder = shutil.copytree(place / "results/demo", tmp_path / "demo")
    (folder / "scaling_report.json").write_text(json.dumps({}))
    done = scaleproof("why", folder, "cells/ddp-n1x1/speedup", cwd=tmp_path)
    assert done.returncode == 2
    assert "scaling_report.json is damaged (it has no" in done.stderr
    assert scaleproof("why", folder, "cells/ddp-n1x1/tokens_per_s", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("", "it is empty"),
        ("{", "no JSON, or cut off (line 1, column 1: it ends there)"),
        ("{}", " is missing"),
    ],
)
def test_a_damaged_profile_says_where(tmp_path, content, part):
    (tmp_path / "profile_summary.json").write_text(content)
    done = scaleproof("trace", "diff", tmp_path, tmp_path, cwd=tmp_path)
    assert done.returncode == 2
    assert part in done.stderr
    assert "validation error" not in done.stderr
