"""A node on which every job fails, as the file system of the repository is not mounted there."""

import json

import pytest
from workflow_texts import TINY

from scaleproof.ground.records.excluded_nodes import read_excluded_nodes

QUICK = ("--seconds-between-status-checks", "2", "--latency-wait", "5")
REPEATED = (
    TINY.replace("[1x1, 1x2]", "[1x1]").replace("repeats: 1", "repeats: 3").replace("{start: forked}", "{device: cpu}")
)


@pytest.fixture
def without_files(checkout):
    """The first node, on which nothing of the repository is."""
    checkout.cluster.hide("n1", checkout.root)
    yield "n1"
    checkout.cluster.show("n1", checkout.root)


@pytest.mark.long
@pytest.mark.parametrize("name", ["repeated", "arrays"])
@pytest.mark.fault(
    "the file system of the repository is not mounted on a node",
    "its jobs go elsewhere; the campaign is complete, and the report names the node",
)
def test_a_campaign_is_finished_on_the_other_nodes(checkout, without_files, name):
    checkout.campaign(name, REPEATED)
    together = ("--scaleproof-array-jobs", "train") if name == "arrays" else ()
    done = checkout.snakemake(f"results/{name}/report.html", *QUICK, *together)
    assert done.returncode == 0, done.stderr[-5000:]
    assert f"node {without_files} is excluded from here on" in done.stderr
    campaign = checkout.root / "results" / name
    assert (": scaleproof-train, 3 tasks" in done.stderr) == (name == "arrays")
    runs = [json.loads(path.read_text()) for path in campaign.glob("runs/*/rep*/training_metrics.json")]
    assert [(run["status"], run["ranks"][0]["host"]) for run in runs] == [("ok", "n2")] * 3
    (excluded,) = read_excluded_nodes(campaign)
    assert excluded.node == without_files
    findings = json.loads((campaign / "findings.json").read_text())["findings"]
    assert [f["runs"] for f in findings if f["code"] == "node-excluded"] == [[without_files]]
    page = (campaign / "report.html").read_text()
    assert f"left this node out after {len(excluded.jobs)} jobs" in page
