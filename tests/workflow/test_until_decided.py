"""Snakemake adds rounds of repeats until the comparison is decided. Runs are synthetic; nothing is trained."""

import re
from collections import Counter

import pytest
from synthetic import write_run
from workflow_texts import TINY

from scaleproof.ground.campaign.cells import expand_cells
from scaleproof.ground.campaign.yaml_loader import load_campaign
from scaleproof.ground.snakemake_command import force_tables

SHARED = "resources: {time_limit: 1, same_allocation: true, minutes_per_job: 20}"  # three rounds of two cells
TABLE = "results/{}/runs.csv"


@pytest.fixture
def measured(built):
    """A campaign whose first three repeats are there, with step times times `factors`; made for one test."""

    def make(name, factors, repeats="repeats: {resolve: 3 %, at_least: 3, at_most: 5}"):
        text = TINY.replace("repeats: 1", repeats)
        path = built.campaign(name, text)
        for cell in expand_cells(load_campaign(path)[0]):
            for repeat, factor in enumerate(factors, start=1):
                seconds = 0.1 / cell.batch.n_devices * (factor if cell.batch.n_devices > 1 else 1)
                run = write_run(built.root / f"results/{name}/runs", cell, repeat, seconds, spread=0)
                (run.folder / "launcher_metadata.json").write_text("{}")
        return TABLE.format(name)

    return make


def test_a_decided_comparison_ends_after_the_first_look(built, measured):
    table = measured("quiet", (1.0, 1.001, 0.999))
    assert built.planned(table) == Counter(look=1, collect=1)
    said = built.build(table)
    assert "Look at 3 repeats of quiet: is its comparison decided?" in said
    assert built.planned(table) == Counter()
    assert (built.root / table).read_text().count("\n") == 1 + 2 * 3


def test_an_undecided_comparison_gets_another_round(built, measured):
    table = measured("noisy", (1.0, 2.5, 1.6))
    built.build("results/noisy/looks/3.json")
    assert built.planned(table) == Counter(train=2, look=1, collect=1)


def test_rounds_share_a_job_between_looks(built, measured):
    """Two more rounds after the look are one job; what a record says and is not there is made by its job again."""
    table = measured("shared", (1.0, 2.5, 1.6), "repeats: {resolve: 3 %, at_least: 3, at_most: 5}\n" + SHARED)
    record = built.root / "results/shared/together/rep1-3.json"
    assert built.planned("results/shared/looks/3.json") == Counter(shared_job=1, look=1)
    record.parent.mkdir()
    record.write_text('{"runs": []}')
    built.build("--allowed-rules", "look", "--", "results/shared/looks/3.json")
    assert built.planned(table) == Counter(shared_job=1, look=1, collect=1)
    (built.root / "results/shared/runs/ddp-n1x2/rep2/steps.csv").unlink()
    stale = built.command("scaleproof", "stale", "config/campaigns/shared.yaml").stdout
    assert "runs/ddp-n1x2/rep2 is no longer complete" in stale
    assert f"--forcerun {record.relative_to(built.root)} -- results/shared/report.html" in stale
    done = built.snakemake("-n", "results/shared/runs/ddp-n1x2/rep2/steps.csv")
    assert done.returncode == 2
    assert "results/shared/runs.csv, or for one job: results/shared/together/rep1-3.json" in done.stdout + done.stderr


def test_rounds_can_follow_a_fixed_number_of_repeats(built, measured):
    """As the report advises: the table of three repeats is there, and a look at them is due."""
    table = measured("open", (1.0, 2.5, 1.6), "repeats: 3")
    built.build(table)
    assert built.planned(table) == Counter()
    built.campaign("open", TINY.replace("repeats: 1", "repeats: {resolve: 3 %, at_least: 3, at_most: 5}"))
    stale = built.command("scaleproof", "stale", "config/campaigns/open.yaml").stdout
    assert "results/open/looks/3.json is missing" in stale
    advice = re.search(r"missing again: snakemake --cores 2 (.+) results/open/report.html", stale)[1]
    assert built.planned(*advice.split(), table)["look"] == 1
    tables = force_tables("results/open").split()
    assert built.planned(*tables, table) == Counter(reference=1, look=1, collect=1, findings=1), "as Next says"
    built.build("results/open/looks/3.json")
    assert built.planned(*tables, table) == Counter(reference=1, train=2, look=1, collect=1, findings=1), "and goes on"
