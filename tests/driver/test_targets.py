"""Targets that no rule makes are answered with what a rule makes."""

import re
from pathlib import Path

import pytest

from scaleproof.driver.targets import other_names, refuse_cell, refuse_target, rule_of_any_text
from scaleproof.ground.campaign.loaded import load_named
from scaleproof.ground.errors import UserError

CELL = "{cell,[a-z0-9][a-z0-9.-]*}"
MADE = [
    "corpora/{corpus,[a-z-]+}/{tokenizer,gpt2|bytes|bpe-[0-9]+}/train.bin",
    "corpora/{corpus,[a-z-]+}/{tokenizer,gpt2|bytes|bpe-[0-9]+}/val.bin",
    f"{{campaign,[a-z]+}}/runs/{CELL}/rep{{rep,0|[1-9][0-9]*}}/steps.csv",
    f"{{campaign,[a-z]+}}/traces/{CELL}/capture.json",
    "{campaign,[a-z]+}/compare/{comparison,[a-z]+}/pairs.json",
    "{campaign,[a-z]+}/charts/speedup.svg",
    "{campaign,[a-z]+}/report.html",
]
NAMES = {
    "corpus": ["python-docs"],
    "campaign": ["demo"],
    "runs/cell": ["ddp-n1x1", "ddp-n1x2"],
    "traces/cell": ["ddp-n1x2"],
    "rep": ["1", "2"],
    "comparison": ["accumulation"],
}


@pytest.mark.parametrize(
    ("path", "meant"),
    [
        ("demo/compare/acumulation.html", 'Did you mean "results/demo/compare/accumulation/pairs.json"?'),
        ("demo/compare/acumulation.html/pairs.json", 'Did you mean "results/demo/compare/accumulation/pairs.json"?'),
        ("demo/runs/ddp-n1x2/7/steps.csv", "In results/demo/runs/ddp-n1x2: rep1, rep2"),
        ("demo/runs/dpp-n1x2/rep1/step.csv", 'Did you mean "results/demo/runs/ddp-n1x2/rep1/steps.csv"?'),
        ("demo/traces/zzz/capture.json", "In results/demo/traces: ddp-n1x2"),
        ("demo/runs/traces", "In results/demo/runs: ddp-n1x1, ddp-n1x2"),
        ("demo/speedup.svg", 'Did you mean "results/demo/charts/speedup.svg"?'),
        ("demo/report.html/page", 'Did you mean "results/demo/report.html"?'),
        ("corpora/nosuch/train.bin", "train.bin. In results/corpora: python-docs"),
        ("corpora/python-docs/gpt-2/train.bin", 'Did you mean "results/corpora/python-docs/gpt2/train.bin"?'),
        ("published/demo/report.html", "report.html. It is written by: scaleproof publish results/NAME --author NAME"),
        ("corpora/python-docs/bpe-77/trian.bin", 'Did you mean "results/corpora/python-docs/bpe-77/train.bin"?'),
    ],
)
def test_what_is_named_can_be_made(path, meant):
    with pytest.raises(UserError) as fault:
        refuse_target(f"results/{path}", path, MADE, NAMES)
    assert meant in str(fault.value)
    named = re.findall(r'Did you mean "results/(.*?)"', str(fault.value))
    assert not [file for file in named if re.fullmatch(other_names(MADE), file)]


def test_what_a_campaign_has_none_of_is_not_named():
    with pytest.raises(UserError) as fault:
        refuse_target("results/demo/foo", "demo/foo", MADE, {**NAMES, "comparison": [], "runs/cell": []})
    assert str(fault.value) == "no rule makes results/demo/foo. In results/demo: traces, charts, report.html"


def test_a_run_that_shares_its_job_is_led_to_all_runs():
    with pytest.raises(UserError, match=r"several in a job \(resources\); all of them: results/demo/runs.csv\. In"):
        refuse_target("results/demo/runs/x/rep1/m.json", "demo/runs/x/rep1/m.json", MADE, {**NAMES, "runs/cell": []})


def test_a_wildcard_stands_for_what_it_allows():
    others = re.compile(other_names([*MADE, "{user}_{kind}.txt"]))
    made = ["demo/runs/ddp-n1x2/rep1/steps.csv", "corpora/python-docs/bpe-5/val.bin", "a_b.txt"]
    assert not any(others.fullmatch(file) for file in made)
    assert all(others.fullmatch(file) for file in ("demo/runs/ddp-n1x2/rep01/steps.csv", "corpora/a/bpe/val.bin", "a"))


@pytest.mark.parametrize(("folder", "is_named"), [("workflow", True), (".", False)])
def test_a_snakemake_in_a_folder_of_the_clone_is_sent_to_the_clone(tmp_path, monkeypatch, folder, is_named):
    (tmp_path / "config/campaigns").mkdir(parents=True)
    (tmp_path / "workflow").mkdir()
    monkeypatch.chdir(tmp_path / folder)
    with pytest.raises(UserError) as unknown:
        load_named("demo")
    hint = f"; this is {tmp_path}/workflow, and campaigns are in {tmp_path}/config/campaigns: cd {tmp_path}"
    assert str(unknown.value).endswith(f'there is no campaign "demo". Campaigns: none{hint * is_named}')


def test_campaigns_of_one_folder_below_and_one_that_strayed_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clone/config/campaigns").mkdir(parents=True)
    with pytest.raises(UserError, match=f"campaigns are in {tmp_path}/clone/config/campaigns: cd {tmp_path}/clone$"):
        load_named("below")
    (tmp_path / "other/config/campaigns").mkdir(parents=True)  # which of both is meant, nobody knows
    with pytest.raises(UserError, match=r"without config/campaigns$"):
        load_named("of_two")
    monkeypatch.chdir(tmp_path / "clone")
    for file, names_it in (("title: x\n", True), ("scheduler: slurm\n", False)):
        Path("config/strayed.yaml").write_text(file)
        with pytest.raises(UserError) as unknown:
            load_named("strayed", Path(str(names_it)))
        assert ("; config/strayed.yaml is there: move it to config/campaigns" in str(unknown.value)) == names_it


def test_a_cell_as_a_target_is_answered_with_its_run(repository, monkeypatch):
    monkeypatch.chdir(repository)
    campaigns = ["demo", "cpu_matrix", "h100_speed"]
    with pytest.raises(UserError, match="ddp-n1x1 is a cell, not a target; what makes a run of it: snakemake results/"):
        refuse_cell("ddp-n1x1", campaigns)
    refuse_cell("ddp-n9x9", campaigns)
    refuse_cell("demo", [*campaigns, "no-such-campaign"])


def test_a_rule_of_any_campaign_names_its_file():
    text = rule_of_any_text("train", MADE[2], ["b", "a"])
    assert text.endswith(": snakemake CAMPAIGN/runs/CELL/repREP/steps.csv (CAMPAIGN: a, b)")
    assert "(CAMPAIGN" not in rule_of_any_text("corpus", MADE[0], ["a"])
