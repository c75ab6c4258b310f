"""Targets on Snakemake's command line that no rule makes: the nearest file that one makes."""

import os

import pytest

from scaleproof.driver.targets import check_targets
from scaleproof.ground.campaign import loaded
from scaleproof.ground.errors import UserError

PATTERNS = [
    f"results/{{campaign,[a-z0-9-]*}}/{rest}"
    for rest in (
        "report.html",
        "report.pdf",
        "charts/{chart}.svg",
        "tables/{table}.md",
        "runs/{cell}/rep{rep}/training_metrics.json",
    )
]
CHOICES = {"chart": ["speedup", "memory"], "table": ["scaling", "weak"]}


@pytest.fixture
def place(tmp_path, monkeypatch):
    folder = tmp_path / "config/campaigns"
    folder.mkdir(parents=True)
    (tmp_path / "config/corpora.yaml").write_text("python-docs: {source: python-docs}\n")
    (folder / "mine.yaml").write_text("title: x\nvary: {geometry: [1x1, 1x2]}\n")
    monkeypatch.chdir(tmp_path)
    loaded.load_named.cache_clear()
    loaded._corpora.cache_clear()
    yield tmp_path
    loaded.load_named.cache_clear()
    loaded._corpora.cache_clear()


@pytest.mark.parametrize(
    ("target", "part"),
    [
        ("mine", 'Did you mean "results/mine/report.html"?'),
        ("config/campaigns/mine.yaml", 'Did you mean "results/mine/report.html"?'),
        ("report.html", 'Did you mean "results/mine/report.html"? Campaigns: mine'),
        ("notes.txt", "Targets are files such as results/NAME/report.html; campaigns: mine"),
        ("result/mine/report.html", 'Did you mean "results/mine/report.html"?'),
        ("{cwd}/results/mine/report.html", 'Did you mean "results/mine/report.html"?'),
        ("mine/charts/speedup.svg", 'Did you mean "results/mine/charts/speedup.svg"?'),
        ("x/results/mine/report.pdf", 'Did you mean "results/mine/report.pdf"?'),
        ("results/mine/", 'Did you mean "results/mine/report.html"?'),
        ("results/mine/runs/ddp-n1x2", 'Did you mean "results/mine/runs/ddp-n1x2/rep1/training_metrics.json"?'),
        ("results/mine/report", 'Did you mean "results/mine/report.html"?'),
        ("results/mine.html", 'Did you mean "results/mine/report.html"?'),
        ("results/report.html", "the campaign is missing: results/NAME/report.html"),
        ("results/tables/scaling.md", 'Did you mean "results/mine/tables/scaling.md"? Campaigns: mine'),
        ("results/table/scalling.md", 'Did you mean "results/mine/tables/scaling.md"? Campaigns: mine'),
        ("tables/scaling.md", 'Did you mean "results/mine/tables/scaling.md"? Campaigns: mine'),
        ("results/charts/speedup.svg", 'Did you mean "results/mine/charts/speedup.svg"?'),
        (
            "results/runs/ddp-n1x2/rep1/steps.csv",
            "is missing: results/NAME/runs/ddp-n1x2/rep1/steps.csv. Campaigns: mine",
        ),
        ("results/mine/table/scaling.md", 'Did you mean "results/mine/tables/scaling.md"?'),
        ("results/other/x/y", 'there is no campaign "other"'),
        ("results/mine/reprot.pdf", 'Did you mean "results/mine/report.pdf"?'),
        ("results/mine/charts/speed_up.svg", 'Did you mean "results/mine/charts/speedup.svg"?'),
        ("results/index.htm", "scaleproof index writes it"),
        ("results/x/mine/report.pdf", 'Did you mean "mine"? (results/mine/report.pdf)'),
        ("results/mein/report.html", 'Did you mean "mine"? (results/mine/report.html)'),
        ("results/mine/runs/ddp-n1x2/rep0/steps.csv", "plans repeats 1 to 3"),
    ],
)
def test_the_nearest_target_is_said(place, target, part):
    with pytest.raises(UserError) as error:
        check_targets({target.format(cwd=place): False}, PATTERNS, CHOICES)
    assert part in str(error.value)


def test_a_campaign_may_be_named_like_a_folder_of_one(place):
    """What is there is no slip, and a word that is near to a campaign is that campaign misspelt."""
    (place / "config/campaigns/mine.yaml").rename(place / "config/campaigns/tables.yaml")
    with pytest.raises(UserError, match=r"report\.pdf"):
        check_targets({"results/tables/reprot.pdf": False}, PATTERNS, CHOICES)
    with pytest.raises(UserError, match=r'Did you mean "tables"\? \(results/tables/report.pdf\)'):
        check_targets({"results/tabels/report.pdf": False}, PATTERNS, CHOICES)


def odd_results(folder, kind):
    {
        "file": lambda: (folder / "results").touch(),
        "circle": lambda: (folder / "results").symlink_to("results"),
        "lost": lambda: (folder / "results").symlink_to("/disk/that/is/not/mounted"),
    }[kind]()


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("file", "results is a file; the folder of all results is expected there"),
        ("circle", "results is a link that leads back to itself; the folder"),
        ("lost", "results is a link to /disk/that/is/not/mounted, which leads nowhere; the folder"),
    ],
)
def test_results_that_are_no_folder_are_named(place, kind, part):
    odd_results(place, kind)
    with pytest.raises(UserError, match=part):
        check_targets({"results/mine/report.html": True}, PATTERNS, CHOICES)


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda file: file.symlink_to("odd.yaml"), "odd.yaml is a link that leads back to itself"),
        (lambda file: os.mkfifo(file), "odd.yaml is a pipe, not a regular file"),
        (lambda file: file.mkdir(), "odd.yaml: is a folder, not a campaign file"),
    ],
)
def test_a_campaign_that_is_no_file_is_named(place, make, part):
    make(place / "config/campaigns/odd.yaml")
    with pytest.raises(UserError, match=part):
        check_targets({"results/odd/report.html": False}, PATTERNS, CHOICES)
    with pytest.raises(UserError, match=r"Campaigns: mine$"):
        check_targets({"results/other/report.html": False}, PATTERNS, CHOICES)


def test_what_a_rule_makes_is_let_through(place):
    check_targets({"results/mine/report.html": True, "elsewhere/x.txt": True}, PATTERNS, {})
