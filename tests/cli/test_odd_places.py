"""Commands in odd places, and options that need others: one message with what is meant."""

import argparse
import re
import subprocess
import sys

import pytest
from command_line import scaleproof

from scaleproof.cli.values import page_to_write
from scaleproof.driver import new_project
from scaleproof.ground.campaign.look_alikes import valid_name
from scaleproof.ground.errors import nearest_name, printable
from scaleproof.measure.machine import allocation

WORDS = [
    (["config/x.yaml", "validate"], "A command comes first: scaleproof campaign show config/x.yaml."),
    (["campaign show config/x.yaml"], "Several words are written as one; write: scaleproof campaign show config"),
    (["verify=results/demo"], "written as one; write: scaleproof verify results/demo."),
    (["--verify", "results/demo"], 'before a command. Did you mean "scaleproof verify results/demo"? Allowed'),
    (["--gate", "r", "--baseline", "b"], 'Did you mean "scaleproof gate r --baseline b"?'),
    (["--audit", "x"], 'Did you mean "scaleproof audit x"?'),
    (["--foo", "results/demo"], "before a command. A command comes first: scaleproof audit results/demo."),
    (["frontier", "x.yaml", "y", "--limit", "-4GB"], 'not "-4GB", which is written --limit=-4GB'),
    (["frontier", "x.yaml", "y", "--limit=-4GB"], 'argument --limit: cannot be "-4GB"; allowed: a number with MB'),
    (["ab", "--steps", "100", "--", "ls", "--", "ls"], "two lengths, {steps} in both commands\n"),
    (["publish", "x", "--author", "-x"], 'not "-x", which is written --author=-x'),
    (["publish", "x", "--author", "--notes"], 'not "--notes"\n'),
    (["launch", "x.yaml"], 'Did you mean "snakemake --cores 2'),
    (
        ["ab", "--", "python a.py | tee a.log", "--", "ls"],
        "no shell reads the command: bash -c 'python a.py | tee a.log'",
    ),
    (["audit", "~no-such-user/x"], "begins with ~, which a shell replaces: write the path itself"),
    (["audit", "~/nothing"], '"~/nothing" begins with ~, which a shell replaces: write /'),
    (["audit", ".", "--link", "https://x.org"], "--link belongs to --html, which is not given"),
    (
        ["audit", ".", "--world-size", "=4"],
        '--world-size is "=4"; allowed: a number from 1 to 999,999,999, or NAME=NUMBER',
    ),
    (["forecast", "x.yaml", "--devices", "8"], "--devices belongs to --from, which is not given"),
    (["plan", "x.yaml", "--watts", "1e-7"], 'cannot be "1e-7"; allowed: a number from 1 to 100,000 (W)'),
    (["plan", "x.yaml", "--device", "RTX 409"], 'or without, like "H100 80GB". Did you mean "RTX 4090"?\n'),
    (["plan", "x.yaml", "--device", "RTX 9090"], 'with its memory or without, like "H100 80GB".\n'),
    (["plan", "x.yaml", "--price-date", "2026-01-01"], "--price-date belongs to --price, which is not given"),
    (["explain", "super-linear", "machine-bussy"], 'no finding or word "machine-bussy". Did you mean "machine-busy"?'),
    (["plan", "x.yaml", "--price", "2", "--price-date", "2999-01-01"], "allowed: a date up to today"),
    (["cluster", "check", "--profile", "slrum"], "slrum: no such profile. There are no profiles in "),
    (["audit", ".", "--world-size", "2", "--world-size", "4"], "--world-size is 2 and 4 for all runs"),
    (["ab", "--", "ls", "--n={stepz}", "--", "ls"], 'A: there is no placeholder "stepz". Did you mean "steps"?'),
    (["ab", "--", "ls", "--", "ls", "{lr}"], 'command B: there is no placeholder "lr". Allowed: devices, nodes'),
    (["ab", "--", "cd", "x", "--", "python", "b.py"], "no shell reads the command: bash -c 'cd ...'"),
    (["ab", "--", "python a.py", "--", "python b.py"], "without quotes: -- python a.py"),
    (["ab", "--per-step", "1", "2", "3", "--", "ls", "--", "ls"], "--per-step has 3 numbers"),
    (["ab", "--name", "My test", "--", "ls", "--", "ls"], 'argument --name: cannot be "My test"; allowed: lower-case'),
    (["forecast", "--devices", "64,128", "--from", "x.csv"], "1 to 1,000,000; without commas, several with blanks"),
    (["plan", "x.yaml", "--budget", "1,000"], 'cannot be "1,000"; allowed: a number above 0'),
    (["plan", "x.yaml", "--budget", "1,000"], "; write 1000, without commas"),
    (["explain", ""], 'argument CODE: cannot be ""; allowed: one line of text that is not blank'),
    (["model", "fetch", "https://huggingface.co/a/b"], "allowed: owner/name, like Qwen/Qwen3-0.6B; write a/b."),
    (["campaign", "show", "demo"], "Campaign files: none; `scaleproof init NAME` makes a folder with one"),
    (["gate", "results/demo", "--cell", "ddp"], "--cell belongs to --history, which is not given"),
    (["compare", "--vary", "strategy", "a", "b"], "--vary takes all words after it: write it at the end."),
    (["compare", "a.log", "b.log", "c.log"], "shown side by side by `scaleproof audit A B C`"),
    (["compare", "--foo", "--vary", "x", "y"], "is not expected. --vary takes all words after it"),
    (["export", "mlflow", "a", "--out", "b"], '"--out" is no option here: give FOLDER alone.'),
    (["watched"], "scaleproof-watch: no watched.*.json; scaleproof.watch writes one for each rank"),
    (["publish", "a", "--author", "Jane\nDoe"], "allowed: one line of text that is not blank."),
]


@pytest.mark.parametrize(("words", "part"), WORDS)
def test_words_that_do_not_belong_together(tmp_path, words, part):
    done = scaleproof(*words, cwd=tmp_path)
    assert (done.returncode, part in done.stderr) == (2, True), done.stderr


def test_an_option_is_taken_where_what_it_needs_is_given_too(tmp_path):
    done = scaleproof("plan", "x.yaml", "--price", "2", "--price-date", "2026-01-01", cwd=tmp_path)
    assert "x.yaml: no such campaign file" in done.stderr


def test_results_of_a_campaign_whose_file_is_gone_are_named(tmp_path):
    (tmp_path / "results/mine").mkdir(parents=True)
    done = scaleproof("stale", "config/campaigns/mine.yaml", cwd=tmp_path)
    assert "; of results/mine the campaign's file, config/campaigns/mine.yaml, is gone" in done.stderr


@pytest.mark.parametrize("path", [".", "results/demo"])
def test_a_folder_that_was_removed_is_told_as_that(tmp_path, path):
    command = f"cd {tmp_path}; mkdir gone; cd gone; rmdir ../gone; {sys.executable} -m scaleproof audit {path}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.returncode, "the folder that this shell is in was removed" in done.stderr) == (2, True)


def test_python_without_docstrings_is_refused():
    done = [
        subprocess.run([sys.executable, option, "-m", "scaleproof", "explain", "low"], capture_output=True, text=True)
        for option in ("-O", "-OO")
    ]
    assert [one.returncode for one in done] == [0, 2]
    assert done[1].stderr.startswith("scaleproof: PYTHONOPTIMIZE=2")


def test_a_campaign_with_another_ending_is_found(tmp_path):
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "config/campaigns/mine.yml").write_text("title: x\n")
    done = scaleproof("campaign", "show", "config/campaigns/mine.yaml", cwd=tmp_path)
    assert "config/campaigns/mine.yml is there: rename it" in done.stderr


def test_a_pointer_of_git_lfs_is_no_campaign(tmp_path):
    (tmp_path / "mine.yaml").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:ab\n")
    done = scaleproof("campaign", "show", "mine.yaml", cwd=tmp_path)
    assert "mine.yaml is a pointer of Git LFS, not the file itself" in done.stderr


def test_tokens_are_looked_for_before_a_device_is_waited_for(tmp_path, monkeypatch):
    (tmp_path / "config").mkdir()
    (tmp_path / "config/corpora.yaml").write_text("python-docs: {source: python-docs, licence: PSF-2.0}\n")
    (tmp_path / "mine.yaml").write_text("title: x\n")
    monkeypatch.setattr("scaleproof.measure.launch.run.hold_devices", lambda *_: pytest.fail("waited"))
    cell = (
        scaleproof("stage", "train", "mine.yaml", "x", "--out", "r1", cwd=tmp_path).stderr.rpartition(": ")[2].strip()
    )
    done = scaleproof("stage", "train", "mine.yaml", cell, "--tokens", "nothere", "--out", "r1", cwd=tmp_path)
    assert "nothere/tokens.json: no such file" in done.stderr
    done = scaleproof("stage", "train", "mine.yaml", cell, "--out", "r1", cwd=tmp_path)
    assert re.search("results/corpora/python-docs/[a-z0-9-]+/tokens.json: no such file; build it with", done.stderr)


def test_a_number_of_5000_digits_has_a_line(tmp_path):
    (tmp_path / "mine.yaml").write_text(f"title: x\nrepeats: {5000 * '9'}\n")
    done = scaleproof("campaign", "show", "mine.yaml", cwd=tmp_path)
    assert "mine.yaml, line 2: not valid YAML: a number has more than 4,300 digits" in done.stderr


def test_an_export_of_results_that_no_campaign_has(tmp_path):
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "config/campaigns/mine.yaml").write_text("title: x\n")
    (tmp_path / "results/mine").mkdir(parents=True)
    done = [scaleproof("export", "prometheus", f"results/{name}", "x.prom", cwd=tmp_path) for name in ("mine", "mind")]
    assert "build it with: snakemake" in done[0].stderr
    assert """results/mind is no campaign's results: """ in done[1].stderr
    assert 'Did you mean "results/mine"?' in done[1].stderr


def test_a_file_of_the_web_is_a_row_of_its_own_kind(tmp_path):
    (tmp_path / "mine.yaml").write_text("title: x\nworkload: {corpus: https://example.org/d/a.txt}\n")
    done = scaleproof("campaign", "show", "mine.yaml", cwd=tmp_path)
    assert "a: {source: http, urls: [https://example.org/d], revision: v1, format: text, files: [a.txt]" in done.stderr


def test_a_project_is_made_whole_or_not_at_all(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(new_project, "SNAKEFILE", tmp_path / "is not there")
        assert scaleproof("init", "new", cwd=tmp_path).returncode == 2
    assert not [place for place in tmp_path.rglob("*") if place.is_file()]
    assert scaleproof("init", "new", cwd=tmp_path).returncode == 0


def test_a_name_that_is_suggested_keeps_its_letters():
    assert valid_name("Überblick été") == "uberblick-ete"


def test_what_a_scheduler_prints_need_not_be_text():
    assert allocation.run_command("printf", r"a = \377") == "a = \N{REPLACEMENT CHARACTER}"
    assert allocation.run_command("sleep", "5", timeout_s=1) == ""


def test_a_path_in_place_of_a_cell_is_answered_with_the_cell(tmp_path):
    (tmp_path / "mine.yaml").write_text("title: x\n")
    (tmp_path / "config").mkdir()
    (tmp_path / "config/corpora.yaml").write_text("python-docs: {source: python-docs}\n")
    for given, meant in (
        ("results/mine/runs/ddp-n1x1", "ddp-n1x1"),
        ("results/mine/runs/ddp-n1x1/rep2", "ddp-n1x1/rep2"),
        ("ddp-n1x1/rep2/", "ddp-n1x1/rep2"),  # the cell alone would lose its other runs
    ):
        done = scaleproof("retry", "mine.yaml", "--cell", given, cwd=tmp_path)
        assert (done.returncode, f'Did you mean "{meant}"?' in done.stderr) == (2, True), done.stderr


def test_stale_in_another_folder_names_that_of_the_campaigns(tmp_path):
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    done = scaleproof("stale", cwd=tmp_path / "docs")
    assert (done.returncode, f": cd {tmp_path}\n" in done.stderr) == (2, True), done.stderr


def test_standard_input_without_an_end_is_not_read_on(tmp_path, monkeypatch):
    monkeypatch.setattr("scaleproof.cli.audit.MOST_PIPED", 1 << 20)
    with open("/dev/zero") as endless:
        monkeypatch.setattr("sys.stdin", endless)
        done = scaleproof("audit", "-", cwd=tmp_path)
    assert (done.returncode, "standard input has more than 1 MiB; write it to a file" in done.stderr) == (2, True)


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_refused_run_leaves_the_log_of_a_finished_one(repository, tmp_path, is_finished):
    (tmp_path / "train.log").write_text("measured\n")
    if is_finished:
        (tmp_path / "training_metrics.json").write_text("{}")
    options = ["--repeat", "1", "--tokens", str(tmp_path), "--fingerprints", "0" * 16, "--out", str(tmp_path)]
    done = scaleproof("stage", "train", "config/campaigns/demo.yaml", "ddp-n1x2", *options, cwd=repository)
    assert done.returncode == 2, done.stderr
    assert ((tmp_path / "train.log").read_text() == "measured\n") == is_finished
    del options[4:6]  # the fingerprint, which Snakemake gives
    done = scaleproof("stage", "train", "config/campaigns/demo.yaml", "ddp-n1x2", *options, cwd=repository)
    assert ("has a finished run, which would be lost; give a new folder" in done.stderr) == is_finished


def test_an_index_names_what_it_could_not_read(tmp_path):
    (tmp_path / "results/mine").mkdir(parents=True)
    (tmp_path / "results/mine/report.html").write_text("<h1>x</h1>")
    done = scaleproof("index", cwd=tmp_path)
    assert "1 campaign; not in it: mine/scaling_report.json (missing), " in done.stdout
    (tmp_path / "results/mine/scaling_report.json").write_text("{")
    assert "mine/scaling_report.json (damaged), " in scaleproof("index", cwd=tmp_path).stdout
    (tmp_path / "results/begun/runs").mkdir(parents=True)
    assert ", begun/report.html (missing); scaleproof" in scaleproof("index", cwd=tmp_path).stdout
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    done = scaleproof("index", cwd=tmp_path / "docs")
    assert (done.returncode, f": cd {tmp_path}" in done.stderr) == (2, True), done.stderr


def test_stale_names_results_that_are_of_no_campaign(tmp_path):
    (tmp_path / "config/campaigns").mkdir(parents=True)
    run = tmp_path / "results/renamed/runs/ddp-n1x1/rep1"
    run.mkdir(parents=True)
    (run / "training_metrics.json").write_text('{"campaign": "demo"}')
    (tmp_path / "results/mine").mkdir()
    done = scaleproof("stale", cwd=tmp_path)
    line = "results/renamed: there is no config/campaigns/renamed.yaml; its runs are of the campaign demo"
    assert done.stdout == f"{line}: put that file back, or move this folder away\n"


def test_stale_without_campaigns_says_so(tmp_path):
    assert scaleproof("stale", cwd=tmp_path).stdout.endswith("; there is no folder config/campaigns here\n")
    (tmp_path / "config/campaigns").mkdir(parents=True)
    assert scaleproof("stale", cwd=tmp_path).stdout == "results: no campaign has results\n"
    (tmp_path / "config/campaigns").rmdir()
    (tmp_path / "config/campaigns").touch()
    done = scaleproof("stale", cwd=tmp_path)
    assert (done.returncode, done.stderr.endswith("; config/campaigns is a file, not a folder\n")) == (2, True), done


def test_workers_are_no_work():
    assert nearest_name("num_workers", ["title", "work", "workload"]) is None
    assert nearest_name("works", ["title", "work", "workload"]) == "work"


def test_a_name_in_bytes_is_spelled_out_in_its_letters():
    """Where the locale is ASCII, Python gives names as bytes of no character."""
    assert printable("d\udcc3\udca4mo") == "d\u00e4mo"
    assert printable("d\udce4mo \t\ud800") == r"d\xe4mo \t\ud800"
    assert printable("d\u00e4mo\n", besides="\n") == "d\u00e4mo\n"


def test_a_file_whose_name_begins_with_a_hyphen(tmp_path):
    (tmp_path / "-x.csv").touch()
    done = scaleproof("audit", "-x.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert '"-x.csv" is taken for an option; for the file write ./-x.csv' in done.stderr


def test_a_pattern_in_quotes_is_expanded_by_an_audit_alone(tmp_path):
    for name in ("a.csv", "b.csv", "[x].csv"):
        (tmp_path / name).write_text("gpus,tokens_per_s\n1,100\n2,190\n")
    assert "read: CSV (3)" in scaleproof("audit", "*.csv", cwd=tmp_path).stdout
    assert "read: CSV (1)" in scaleproof("audit", "[x].csv", cwd=tmp_path).stdout, "it is the name of a file"
    for words, part in (
        (["audit", "*.tsv"], "*.tsv: the pattern matches no file or folder here."),
        (["compare", "*.csv", "b.csv"], "*.csv: no such file or folder, and a pattern is expanded by the shell alone"),
        (["compare", "c.csv", "b.csv"], "c.csv: no such file or folder."),
    ):
        done = scaleproof(*words, cwd=tmp_path)
        assert (done.returncode, part in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(("kind", "code"), [("speedpu", 2), ("throughput", 0)])
def test_an_audit_with_a_mistake_in_its_claims_file_has_not_looked_at_them(tmp_path, kind, code):
    (tmp_path / "a.log").write_text("".join(f"step: {k} loss: {9 - k} tokens/s: 12{k}\n" for k in range(5)))
    claim = f"{{kind: {kind}, value: 122, of: a.log}}"
    (tmp_path / "claims.yaml").write_text(f'scaleproof_claims: "1.0"\nclaims: [{claim}]\n')
    done = scaleproof("audit", tmp_path, cwd=tmp_path)
    assert (done.returncode, 'Did you mean "speedup"?' in done.stdout) == (code, code == 2), done.stdout


def test_a_file_of_a_campaign_is_not_written_over(tmp_path):
    (tmp_path / "manifest.json").write_text('{"files": {"report.html": "8a7f", "charts/a.svg": "11c0"}}')
    for name in ("report.html", "audit.html"):
        (tmp_path / name).touch()
    with pytest.raises(argparse.ArgumentTypeError, match="is a file of a campaign's results, and would be lost"):
        page_to_write(str(tmp_path / "report.html"))
    assert page_to_write(str(tmp_path / "audit.html")).name == "audit.html"


def test_results_that_are_seen_from_a_folder_above_are_told_with_it(tmp_path):
    for folder in ("results/mine/runs", "config"):
        (tmp_path / folder).mkdir(parents=True)
    done = scaleproof("verify", "results/mine", cwd=tmp_path / "config")
    assert f"give results/<campaign>. They are seen from {tmp_path}: cd {tmp_path}\n" in done.stderr
    done = scaleproof("verify", "results/other", cwd=tmp_path / "config")
    assert "seen from" not in done.stderr


def test_a_file_in_place_of_the_folder_config_is_told(tmp_path):
    (tmp_path / "config").touch()
    done = scaleproof("corpus", "list", cwd=tmp_path)
    assert done.stderr == "scaleproof: config/corpora.yaml: config is a file, not a folder\n"
