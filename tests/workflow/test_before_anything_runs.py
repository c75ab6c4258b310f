"""What a dry run already says of a campaign that cannot come to anything."""

import pytest
from workflow_texts import TINY

TARGET = "results/tiny/report.html"


@pytest.fixture(scope="module")
def project(make_copy):
    return make_copy()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"%PDF-1.4\n" + bytes(range(256)), "prose.files: prose.txt is a PDF, not text"),
        ("in UTF-16\n".encode("utf-16"), "prose.files: prose.txt is no text file in UTF-8"),
    ],
)
def test_own_text_that_cannot_be_read_ends_a_dry_run(project, content, words):
    text = project.root / "prose.txt"
    before = text.read_bytes()
    text.write_bytes(content)
    refused = project.snakemake("-n", TARGET)
    text.write_bytes(before)
    assert refused.returncode == 2
    assert words in refused.stderr
    assert project.planned(TARGET)["corpus_fetch"] == 1


def test_a_campaign_that_no_machine_can_run_is_not_planned(project):
    path = project.campaign("tiny", TINY.replace("geometry: [1x1, 1x2]", "geometry: [1x2]\n  strategy: [single]"))
    commands = (["plan", str(path)], ["campaign", "validate", str(path)])
    answers = [project.snakemake("-n", TARGET), *(project.command("scaleproof", *words) for words in commands)]
    project.campaign("tiny", TINY)
    for refused in answers:
        assert refused.returncode == 2
        assert "no cell can run on any machine; single-n1x2: single is one device" in refused.stderr


def test_nodes_that_a_profile_does_not_ask_for_are_told(project):
    for geometry, is_warned in (("2x1", True), ("1x2", False)):
        project.campaign("wide", TINY.replace("1x2", geometry))
        for profile in ("cluster-generic", "slurm"):
            plan = project.dry("--profile", f"profiles/{profile}", "--jobs", "2", "results/wide/report.html")
            assert plan.count("warning: 2 nodes in the campaign, and") == (is_warned and profile != "slurm")


def test_a_search_on_this_cpu_needs_its_limit_before_anything_runs(project):
    searched = TINY.replace("work:\n", "work:\n  micro_batch: largest\n")
    for limit, code in (("", 2), ("frontier: {limit_gb: 1}\n", 0), ("", 0)):
        device = "auto" if limit or code else "cuda"  # one for GPUs needs no limit: its runs say that none is here
        text = searched.replace("execution: {", f"execution: {{device: {device}, ").replace(", start: forked", "")
        assert device in text
        project.campaign("searched", text + limit)
        planned = project.snakemake("-n", "results/searched/report.html")
        assert planned.returncode == code, planned.stderr
        assert ("frontier.limit_gb is missing: the micro-batch of" in planned.stderr) == (code == 2)


def test_cells_that_share_cores_are_named_with_n(project):
    large = TINY.replace("global_batch: 8", "global_batch: 64")
    for geometry, jobs, is_said in (("1x64", "", True), ("1x64", "same_allocation: true", True), ("1x1", "", False)):
        project.campaign("crowded", large.replace("1x1, 1x2", geometry) + f"resources: {{{jobs}}}\n")
        plan = project.dry("results/crowded/report.html")
        assert ("cores, which is no scaling: ddp-n1x64" in plan) == is_said
