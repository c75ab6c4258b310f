"""The workflow as a module of somebody else's, as snakedeploy writes it: own config, a prefix, and no word of ours."""

import re
import shutil
import subprocess

import pytest
import yaml
from workflow_texts import COMPARE, TINY

from scaleproof.ground.snakemake_command import force_tables

SNAKEFILE = """
configfile: "config/config.yaml"


module scaleproof:
    snakefile:
        "{workflow}"
    prefix:
        "bench"
    config:
        config


use rule * from scaleproof as scaleproof_*


rule all:
    default_target: True
    input:
        "bench/results/tiny/report.html",
"""
ALL = TINY.replace("[1x1, 1x2]", "[1x1]") + COMPARE + "trace: {cells: all, steps: 1, tool: torch.profiler}\n"
COMMANDED = "title: c\nworkload: {command: python loop.py --steps 3}\nvary: {geometry: [1x1]}\nrepeats: 3\n"
UNTIL = TINY.replace("repeats: 1", "repeats: {resolve: 3 %, at_least: 3, at_most: 5}")


@pytest.fixture(scope="module")
def foreign(make_copy, tmp_path_factory, sentences):
    """A repository of somebody else's, who has a copy of this one elsewhere."""
    copy = make_copy()
    root = tmp_path_factory.mktemp("foreign")
    (root / "config/campaigns").mkdir(parents=True)
    (root / "Snakefile").write_text(SNAKEFILE.format(workflow=copy.root / "workflow/Snakefile"))
    shutil.copy(copy.root / "config/config.yaml", root / "config")
    (root / "prose.txt").write_text("\n".join(sentences))
    corpora = {"prose": {"source": "text", "files": ["prose.txt"], "document": "line"}}
    (root / "config/corpora.yaml").write_text(yaml.safe_dump(corpora))
    (root / "loop.py").write_text("print('step 1 loss 2.0')\n")  # it stays where it is
    copy.root = root
    for name, text in (("tiny", TINY), ("all", ALL), ("until", UNTIL), ("commanded", COMMANDED)):
        copy.campaign(name, text)
    return copy


def test_a_campaign_comes_to_its_report_below_the_prefix(foreign):
    said = foreign.build()
    assert "Train tiny ddp-n1x2, repeat 1" in said
    results = foreign.root / "bench/results/tiny"
    page = (results / "report.html").read_text()
    assert "<h1>Does it scale?</h1>" in page
    assert "<code>snakemake --cores 2 bench/results/tiny/report.html</code>" in page
    assert "scaleproof verify bench/results/tiny" in page
    assert " results/tiny" not in page, "no command without the prefix"
    own = {"Snakefile", "config", "prose.txt", "loop.py"}
    assert {path.name for path in foreign.root.iterdir()} == own | {"bench", ".snakemake"}
    verified = foreign.command("scaleproof", "verify", str(results))
    assert verified.returncode == 0, verified.stdout[-2000:]
    assert foreign.planned() == {}
    derived = foreign.planned(
        *force_tables(results.relative_to(foreign.root)).split(), "bench/results/tiny/report.html"
    )
    assert {"scaleproof_collect", "scaleproof_findings", "scaleproof_report"} <= set(derived), "as verify advises"
    assert "scaleproof_train" not in derived


def test_commands_find_the_results_below_the_prefix(foreign):
    where = ("--results", "bench/results")
    kept = foreign.command("scaleproof", "keep", "config/campaigns/tiny.yaml", *where)
    assert kept.stdout.startswith("2 runs of tiny kept"), kept.stderr
    (foreign.root / "bench/results/tiny/runs/ddp-n1x1/rep1/steps.csv").unlink()
    stale = foreign.command("scaleproof", "stale", *where).stdout
    assert "bench/results/tiny/runs/ddp-n1x1/rep1 is no longer complete" in stale
    advice = re.search(r"missing again: snakemake --cores 2 (.+)", stale)[1]
    assert foreign.planned(*advice.split())["scaleproof_train"] == 1


@pytest.mark.parametrize("name", ["all", "until", "commanded"])
def test_what_else_a_campaign_may_have_is_planned_below_the_prefix(foreign, name):
    said = foreign.dry(f"bench/results/{name}/report.html")
    assert not [line for line in said.splitlines() if " results/" in line.replace("bench/results/", "")]


def test_another_campaign_is_named_as_in_the_repository_itself(foreign):
    done = foreign.snakemake("bench/results/tinny/report.html")
    assert done.returncode == 2
    assert 'Did you mean "tiny"?' in done.stderr


def test_nothing_is_printed_that_snakemake_would_not_print(foreign, tmp_path):
    """The same rules without a module around them: a workflow of one rule says as much where nothing is to be done."""
    (tmp_path / "Snakefile").write_text('rule all:\n    output: "a"\n    shell: "touch {output}"\n')
    done = [subprocess.run(["snakemake", "--cores", "1"], cwd=tmp_path, capture_output=True, text=True) for _ in "12"]
    plain, ours = done[1], foreign.snakemake()
    assert (ours.returncode, ours.stdout) == (0, plain.stdout)
    assert [first_word(line) for line in ours.stderr.splitlines()] == [
        first_word(line) for line in plain.stderr.splitlines()
    ]


def first_word(line: str) -> str:
    return line.split(" ")[0]
