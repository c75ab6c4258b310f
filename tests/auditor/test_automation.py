"""What CI and editors get of an audit: waived findings, annotations, SARIF, exit codes, and the files to copy."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from datetime import date, timedelta
from pathlib import Path

import pytest
import yaml
from command_line import scaleproof
from synthetic import cells, rewrite, write_run

from scaleproof.auditor.annotations import github, sarif
from scaleproof.auditor.audit import audit_paths
from scaleproof.auditor.audit_page import audit_page
from scaleproof.auditor.audit_text import audit_markdown, audit_text
from scaleproof.auditor.waivers import Waiver
from scaleproof.ground.records.run import METRICS

TABLE = "# Results\n\n| GPUs | tokens/s | speedup | efficiency |\n|---|---|---|---|\n"
FAULTY = TABLE + "| 1 | 1000 | 1.0 | 100% |\n| 4 | 3600 | 3.6 | 50% |\n"
SOUND = FAULTY.replace("50%", "90%")
ABSOLUTE = "(absolute)"
WAIVER = '[[waived]]\ncode = "{code}"\nplace = "{place}"\nreason = "known"\nuntil = {until}\n'


@pytest.fixture
def project(tmp_path):
    """A repository whose docs/results.md has one wrong efficiency, in line 6."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/results.md").write_text(FAULTY)
    return tmp_path


@pytest.mark.parametrize("sort_keys", [False, True])
def test_an_audit_beside_the_files_is_passed_over(project, sort_keys):
    """It quotes what it accuses: read as results, it would stand for the figure that no file has."""
    (project / "docs/claim.md").write_text(SOUND + "\nTrains 3.9x faster on 4 GPUs.\n")
    first = audit_paths([project])
    data = first.model_dump(mode="json")
    texts = {
        "audit.json": json.dumps(data, indent=2, sort_keys=sort_keys),
        "audit.sarif": sarif(first, [project], "1"),
        "sarif.json": sarif(first, [project], "1"),
        "audit.html": audit_page(first),
        "audit.md": audit_markdown(first),
        "audit.txt": audit_text(first),
        "audit": audit_text(first),
    }
    for name, text in texts.items():
        (project / "docs" / name).write_text(text)
    second = audit_paths([project])
    assert (second.findings, second.formats, second.scaling) == (first.findings, first.formats, first.scaling)
    assert len(second.not_read["not a result"]) + len(second.not_recognised) == len(texts)
    (project / "docs/audit.json").write_text(json.dumps({"readings": [{"gpus": 1, "tokens_per_s": 9}]}))
    assert audit_paths([project]).formats["JSON"] == 1


def waive(project, code="efficiency-not-in-table", place="docs/*.md", days=1):
    until = date.today() + timedelta(days=days)
    (project / "scaleproof.toml").write_text(WAIVER.format(code=code, place=place, until=until))


@pytest.mark.parametrize("place", ["docs/*.md", "docs/results.md:6", "docs/results.md", "results.md:6"])
def test_a_waived_finding_is_left_out_and_named(project, place):
    assert scaleproof("audit", "docs", cwd=project).returncode == 1
    waive(project, place=place)
    done = scaleproof("audit", "docs", cwd=project)
    assert done.returncode == 0
    assert "waived: efficiency-not-in-table in" in done.stderr
    assert "suspect" not in done.stdout
    assert "waived" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize("audited", [".", "results.csv"])  # a hook names files
def test_a_file_at_the_top_is_waived_however_it_is_given(project, audited):
    (project / "docs/results.md").unlink()
    (project / "results.csv").write_text("gpus,tokens_per_s,speedup\n1,1000,1\n2,1900,1.9\n8,7000,14\n")
    waive(project, "speedup-not-in-table", "results.csv:4")
    assert scaleproof("audit", audited, cwd=project).returncode == 0
    waive(project, "speedup-not-in-table", "results.csv:3")
    assert scaleproof("audit", audited, cwd=project).returncode == 1


@pytest.fixture
def campaigns(tmp_path, monkeypatch):
    """Two results whose runs have the same names, and wrong rates; the working folder is above them."""
    for name in ("demo", "other"):
        for repeat in (1, 2):
            run = write_run(tmp_path / "results" / name / "runs", cells()[0], repeat)
            rewrite(run, lambda data: data["window"].update(tokens_per_sec_per_device=9.0))
    monkeypatch.chdir(tmp_path)


def wrong_rates(audited):
    result = audit_paths([Path(audited)])
    findings = [finding for finding in result.findings if finding.code == "figure-not-reproduced"]
    return result.model_copy(update={"findings": findings})


@pytest.mark.parametrize("audited", [".", "results", "results/demo", "results/demo/runs/ddp-n1x1", ABSOLUTE])
def test_findings_on_own_runs_stand_at_their_metrics(campaigns, audited):
    audited = audited.replace(ABSOLUTE, f"{Path.cwd()}/results/demo/runs/ddp-n1x1/rep1")
    places = [f"results/{name}/runs/ddp-n1x1/rep{k}/{METRICS}" for name in ("demo", "other") for k in (1, 2)]
    results = json.loads(sarif(wrong_rates(audited), [Path(audited)], "0"))["runs"][0]["results"]
    uris = [result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in results]
    of_demo = places[:1] if audited.endswith("rep1") else places[:2]
    assert sorted(uris) == (places if audited in (".", "results") else of_demo)


def test_a_campaign_has_one_note_of_a_code(campaigns):
    lines = github(wrong_rates("."), [Path()]).splitlines()
    assert [line.split(",")[0] for line in sorted(lines)] == [
        f"::error file=results/{name}/runs/ddp-n1x1/rep1/{METRICS}" for name in ("demo", "other")
    ]
    assert all(line.endswith("(1 further finding of this code here)") for line in lines)
    (line,) = github(wrong_rates("results/demo/runs/ddp-n1x1/rep2"), [Path()]).splitlines()
    assert "further" not in line


@pytest.mark.parametrize("audited", [".", "results", "results/demo"])
@pytest.mark.parametrize("place", ["results/demo/*", "results/demo", "ddp-n1x1/*", "results/third/*"])
def test_a_pattern_of_a_folder_covers_the_runs_below_it(campaigns, audited, place):
    waiver = Waiver(code="figure-not-reproduced", place=place, reason="known", until=date.today())
    findings = wrong_rates(audited).findings
    covered = {finding.folder for finding in findings if waiver.covers(finding, [Path(audited)])}
    every = {finding.folder for finding in findings}
    expected = {"results/demo/runs"} if "demo" in place else every if place.startswith("ddp") else set()
    assert covered == expected


def test_a_waiver_of_one_of_two_places_waives_nothing_and_says_so(project):
    rows = "| 2 | 1000 | 1.0 | 50% |\n| 4 | 1900 | 1.9 | 47.5% |\n"  # one finding: all are divided by all devices
    (project / "docs/results.md").write_text(TABLE + rows)
    for place, code, remark in (("docs/results.md:5", 1, "covers no whole finding"), ("*", 0, "waived: ")):
        waive(project, code="baseline-below-one", place=place)
        done = scaleproof("audit", "docs", cwd=project)
        assert (done.returncode, remark in done.stderr) == (code, True)


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        ({"days": -1}, "has ended, and waives nothing"),
        ({"place": "other/*.md"}, "covers no whole finding"),
        ({"place": "docs/results.md:5"}, "covers no whole finding"),
        ({"code": "super-linear"}, "covers no whole finding"),
    ],
)
def test_a_waiver_that_does_not_hold_waives_nothing(project, change, remark):
    waive(project, **change)
    done = scaleproof("audit", "docs", cwd=project)
    assert done.returncode == 1
    assert remark in done.stderr
    assert "waived" not in done.stdout


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("code", "cdoe", 'unknown key "waived.1.cdoe". Did you mean "code"?'),
        ("place", "path", 'unknown key "waived.1.path". Did you mean "place"?'),
        ("efficiency-not", "efficency-not", 'Did you mean "efficiency-not-in-table"?'),
        ('reason = "known"\n', "", "waived.1.reason is missing"),
        ("until = 2", "until = 2027-13-01 # 2", "dates of the calendar do not"),
        ("until = 2", 'until = "x" # 2', "is not a date; write it as 2027-01-31"),
        ("[[waived]]", "", "It stands below a line [[waived]]. Allowed: waived"),
        ("[[waived]]", "[[waved]]", 'unknown key "waved". Did you mean "waived"?'),
        ('reason = "known"', 'reason = ""', "waived.1.reason cannot be ''; allowed: a text that is not empty"),
        ("[[waived]]", "[waived]", "waived is a list: each waiver begins with [[waived]]"),
        ("[[waived]]", "[waived", "is no TOML"),
        ('reason = "', 'reason = "C:\\Users', "'...' takes it as it is"),
        ('reason = "', 'reason = "C:\\my', "'...' takes it as it is"),
    ],
)
def test_a_damaged_file_of_waivers_is_one_message(project, before, after, message):
    waive(project)
    file = project / "scaleproof.toml"
    file.write_text(file.read_text().replace(before, after))
    done = scaleproof("audit", "docs", cwd=project)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_annotations_of_github_stand_at_file_and_line(project):
    done = scaleproof("audit", "docs", "--format", "github", cwd=project)
    (line,) = done.stdout.splitlines()
    assert line.startswith("::warning file=docs/results.md,line=6,title=efficiency-not-in-table::")
    assert "50%25" in line
    (project / "docs/results.md").write_text(SOUND)
    assert scaleproof("audit", "docs", "--format", "github", cwd=project).stdout == ""


@pytest.mark.parametrize("paths", [("README.md", "docs"), ("docs", "README.md"), ("./docs", "README.md")])
def test_a_finding_stands_at_its_file_whatever_else_was_audited(project, paths):
    (project / "README.md").write_text(SOUND)
    done = scaleproof("audit", *paths, "--format", "github", cwd=project)
    assert "::warning file=docs/results.md,line=6,title=efficiency-not-in-table::" in done.stdout.splitlines()[0]


SAME_NAMES = [("docs", "results.md"), ("other", "docs/results.md"), ("other/results.md", "docs/results.md")]


@pytest.mark.parametrize("paths", [*SAME_NAMES, ("other", "docs"), ("docs", "other", "docs/results.md")])
def test_files_of_equal_names_are_told_apart_in_every_format(project, monkeypatch, paths):
    """The path is printed as it was given: here with its folder. Only docs/results.md has a fault."""
    monkeypatch.chdir(project)
    Path("other").mkdir()
    Path("results.md").write_text(SOUND.replace("3600", "3612"))
    Path("other/results.md").write_text(SOUND.replace("3600", "3590"))
    for given in (paths, paths[::-1], [project / path for path in paths]):
        roots = [*map(Path, given)]
        place = str(project / "docs/results.md") if roots[0].is_absolute() else "docs/results.md"
        audit = audit_paths(roots)
        assert audit.findings[0].runs == [f"{place}:6"]
        assert f"{place}:6: " in audit_text(audit)
        assert github(audit, roots).startswith(f"::warning file={place},line=6,")
        (result,) = json.loads(sarif(audit, roots, ""))["runs"][0]["results"]
        assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": place}


def test_what_is_in_an_archive_or_is_no_file_stands_at_the_path_that_holds_it(project, monkeypatch):
    monkeypatch.chdir(project)
    (project / "a").mkdir()
    with zipfile.ZipFile("a/b.zip", "w") as archive:
        archive.writestr("results.md", FAULTY)
    (project / "docs/results.md").write_text(SOUND.replace("3600", "3612"))
    for roots in ([Path("docs"), Path("a")], [Path("a/b.zip"), Path("docs")], [Path("a")]):
        audit = audit_paths(roots)
        assert audit.findings[0].runs[0].endswith("b.zip!/results.md:6")
        assert github(audit, roots).startswith("::warning file=a/b.zip,line=1,")


def test_of_one_path_places_are_named_below_it(project):
    for given, place in (("docs", "results.md:6"), (".", "docs/results.md:6"), ("docs/results.md", "results.md:6")):
        assert audit_paths([project / given]).findings[0].runs == [place]


def test_runs_given_by_files_of_equal_names_are_told_apart_by_their_folders(tmp_path):
    """A folder that both lie in, here with a number of devices, says nothing of one run."""
    logs = {}
    for folder, rate in (("before", 4567), ("after", 5678)):
        logs[folder] = tmp_path / "1gpu_or_8gpus" / folder / "run1.log"
        logs[folder].parent.mkdir(parents=True)
        logs[folder].write_text("".join(f"step: {n} tokens/s: {rate + n}\n" for n in range(9)))
    audit = audit_paths([*logs.values()])
    assert audit.runs == [str(path) for path in logs.values()]
    assert any(finding.code == "devices-unknown" for finding in audit.findings)
    assert audit_paths([logs["before"]]).runs == ["run1.log"]


def test_standard_input_is_a_place_beside_files(project):
    (project / "other.md").write_text(SOUND)
    for paths in (["-"], ["other.md", "-"], ["-", "other.md"]):
        command = [sys.executable, "-m", "scaleproof", "audit", *paths, "--format", "github"]
        done = subprocess.run(command, cwd=project, input=FAULTY, capture_output=True, text=True, check=False)
        assert done.stdout.startswith("::warning file=-,line=6,title=efficiency-not-in-table::")


def test_sarif_names_rule_level_file_and_line(project):
    log = json.loads(scaleproof("audit", "docs/results.md", "--format", "sarif", cwd=project).stdout)
    (run,) = log["runs"]
    (result,) = run["results"]
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "efficiency-not-in-table"
    assert result["level"] == "warning"
    place = result["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "docs/results.md"}, "region": {"startLine": 6}}


@pytest.mark.parametrize(("least", "code"), [("invalid", 0), ("suspect", 1), ("note", 1)])
def test_the_severity_that_fails_can_be_chosen(project, least, code):
    assert scaleproof("audit", "docs", "--fail-on", least, cwd=project).returncode == code


def test_a_change_without_results_passes_where_that_is_allowed(tmp_path):
    (tmp_path / "README.md").write_text("# A project\n")
    assert scaleproof("audit", "README.md", cwd=tmp_path).returncode == 2
    assert scaleproof("audit", "README.md", "--allow-empty", cwd=tmp_path).returncode == 0
    assert scaleproof("audit", "nothing.md", "--allow-empty", cwd=tmp_path).returncode == 2, "a typo stays one"


def test_the_hook_fails_on_a_faulty_table_alone(project, repository):
    (hook,) = yaml.safe_load((repository / ".pre-commit-hooks.yaml").read_text())
    command = [*shlex.split(hook["entry"])[1:], "docs/results.md"]
    assert scaleproof(*command, cwd=project).returncode == 1
    (project / "docs/results.md").write_text(SOUND)
    assert scaleproof(*command, cwd=project).returncode == 0


def test_the_workflow_to_copy_fails_on_a_faulty_table_alone(project, repository):
    (project / "README.md").write_text("# A project\n")
    (project / "results").mkdir()
    workflow = yaml.safe_load((repository / ".github/examples/audit.yml").read_text())
    (command,) = _commands(workflow["jobs"]["audit"]["steps"])
    assert scaleproof(*command, cwd=project).returncode == 1
    (project / "docs/results.md").write_text(SOUND)
    assert scaleproof(*command, cwd=project).returncode == 0


def test_the_action_is_the_command_of_the_workflow(project, repository):
    steps = yaml.safe_load((repository / "action.yml").read_text())["runs"]["steps"]
    environment = {"PATHS": "docs", "FAIL_ON": "suspect"}
    for text, code in ((FAULTY, 1), (SOUND, 0)):
        (project / "docs/results.md").write_text(text)
        command = re.sub(r'"?\$(\w+)"?', lambda m: environment[m[1]], steps[-1]["run"])
        assert scaleproof(*shlex.split(command)[1:], cwd=project).returncode == code


def test_the_gate_to_copy_runs_in_a_new_project(tmp_path, repository):
    steps = yaml.safe_load((repository / ".github/examples/gate.yml").read_text())["jobs"]["gate"]["steps"]
    texts = [step["run"] for step in steps if "run" in step]
    subprocess.run(["bash", "-n", "-c", "\n".join(texts)], check=True)
    assert not any(text.startswith("make") for text in texts), "only a clone of scaleproof has our Makefile"
    assert scaleproof("init", "bench", cwd=tmp_path).returncode == 0
    (snakemake,) = (shlex.split(text)[1:] for text in texts if text.startswith("snakemake "))
    planned = [sys.executable, "-m", "snakemake", *snakemake, "--dry-run", "--quiet", "all"]
    subprocess.run(planned, cwd=tmp_path / "bench", check=True)
    ((command, result, *difference, option, baseline),) = _commands(steps)
    assert (command, result, option) == ("gate", snakemake[-1].removesuffix("/report.html"), "--baseline")
    assert difference == ["--difference", "10"], "a gate that can see nothing must not be green"
    (published,) = repository.glob(baseline)
    earlier = tmp_path / "bench" / published.relative_to(repository)
    shutil.copytree(published, earlier)
    done = scaleproof(command, str(published), option, str(earlier), cwd=tmp_path / "bench")
    assert done.returncode == 2, "one result is not three"
    assert "at least 3 earlier results" in done.stderr
    git = ["git", "-C", str(tmp_path / "bench")]
    subprocess.run([*git, "init", "--quiet"], check=True)
    status = subprocess.run([*git, "status", "--porcelain", "-uall"], capture_output=True, text=True, check=True).stdout
    assert "results/published/" in status, "earlier results can be committed"


def _commands(steps):
    """The words of each command of scaleproof among the steps of a job, without its name."""
    texts = [step["run"] for step in steps if step.get("run", "").startswith("scaleproof ")]
    return [shlex.split(text, comments=True)[1:] for text in texts]


def test_a_sentence_is_waived_by_its_own_line_and_the_first_line_says_so(project):
    """The row of the table that contradicts it is evidence; a waiver for that row covers no sentence."""
    sentence = "\nOur trainer is 2.9x faster on 4 GPUs.\n"
    table = "| GPUs | tokens/s |\n|---|---|\n| 1 | 11,200 |\n| 2 | 21,300 |\n| 4 | 41,800 |\n"
    (project / "docs/results.md").write_text(table + sentence)
    assert scaleproof("audit", "docs", cwd=project).stdout.startswith("found: 1 suspect")
    for line, code, first in ((5, 1, "found: 1 suspect"), (7, 0, "found: nothing, 1 waived")):
        waive(project, code="claim-not-in-data", place=f"docs/results.md:{line}")
        done = scaleproof("audit", "docs", cwd=project)
        assert (done.returncode, done.stdout.splitlines()[0]) == (code, first)


def test_of_the_rows_of_one_line_only_the_wrong_one_is_marked(tmp_path):
    cell = {"cell_type": "markdown", "metadata": {}, "source": FAULTY}
    (tmp_path / "a.ipynb").write_text(json.dumps({"nbformat": 4, "cells": [cell]}))
    audit = audit_paths([tmp_path])
    assert [line.mark for line in audit.scaling] == [line.mark for line in audit.readings] == ["", "suspect"]


def test_programs_read_figures_as_numbers(tmp_path):
    """In base units; a figure without a unit, whose value is unknown, has its text alone."""
    (tmp_path / "a.md").write_text("| GPUs | Step (ms) | Mem |\n|---|---|---|\n| 1 | 400 | 12 |\n| 2 | 250 | 13 |\n")
    (tmp_path / "train.log").write_text("".join(f"step: {n} tokens/s: 4567\n" for n in range(9)))
    audit = json.loads(audit_paths([tmp_path]).model_dump_json())
    run, first, second = audit["readings"]
    assert run["values"] == {"tokens_per_s": 4567}
    assert (first["values"], first["recomputed_range"]) == ({"devices": 1, "step_time_s": 0.4}, None)
    assert second["recomputed_range"] == [1.6, 1.6]
    assert [line["efficiency_range"] for line in audit["scaling"]] == [None, [0.8, 0.8]]
