"""Nodes on which jobs fail twice are left out; nodes that are not to blame are not."""

import pytest

from scalebench.preflight import slurm_bad_nodes
from scalebench.preflight.slurm_bad_nodes import BadNodes


@pytest.fixture
def cluster(monkeypatch):
    """Where each job was, and where jobs have ended well."""

    class Answers:
        nodes: dict[str, str] = {}  # noqa: RUF012  (one test, one instance)
        sound = ""

    answers = Answers()
    monkeypatch.setattr(
        slurm_bad_nodes,
        "describe",
        lambda job, patience: {"NodeList": answers.nodes[job]} if job in answers.nodes else {},
    )
    monkeypatch.setattr(
        slurm_bad_nodes,
        "run_command",
        lambda *words: answers.sound if words[0] == "squeue" else words[-1].replace("n[1-2]", "n1 n2"),
    )
    return answers


@pytest.mark.fault("a node on which every job fails", "left out after two, and named")
def test_a_node_on_which_two_jobs_failed_is_left_out(cluster, capsys):
    cluster.nodes, cluster.sound = {"7": "n1", "8": "n1", "9": "n2"}, "n2\nn3"
    bad = BadNodes()
    bad.hear({"7": "FAILED", "9": "COMPLETED"})
    assert bad.excluded == set()
    bad.hear({"7": "FAILED", "8": "FAILED", "9": "COMPLETED"})
    assert bad.excluded == {"n1"}
    assert "node n1 is excluded from here on: jobs failed there (7 FAILED, 8 FAILED)" in capsys.readouterr().err
    line = bad.submit(lambda job, params, settings=None, failed_nodes=None: ",".join(sorted(failed_nodes)))
    assert line(None, {}, settings=None, failed_nodes={"n4"}) == "n1,n4"


@pytest.mark.fault("jobs fail on all nodes", "no node is blamed")
def test_what_fails_everywhere_is_no_node_s_fault(cluster):
    cluster.nodes, cluster.sound = {"7": "n1", "8": "n1", "9": "n2", "10": "n2"}, ""
    bad = BadNodes()
    bad.hear(dict.fromkeys(("7", "8", "9", "10"), "FAILED"))
    assert bad.excluded == set()


def test_a_node_on_which_other_jobs_end_well_stays(cluster):
    cluster.nodes, cluster.sound = {"7": "n1", "8": "n1"}, "n1\nn2"
    bad = BadNodes()
    bad.hear({"7": "FAILED", "8": "FAILED"})
    assert bad.excluded == set()


def test_slurm_s_own_verdict_needs_no_comparison(cluster):
    cluster.nodes = {"7": "n[1-2]", "8": "n1"}
    bad = BadNodes()
    bad.hear({"7": "NODE_FAIL"})
    bad.hear({"8": "NODE_FAIL"})
    assert bad.excluded == {"n1"}, "n2 was in one lost job only"


def test_one_failure_heard_of_twice_counts_once(cluster):
    cluster.nodes = {"7": "n1"}
    bad = BadNodes()
    for _ in range(3):
        bad.hear({"7": "NODE_FAIL"})
    assert bad.excluded == set()


def test_the_profile_s_list_of_nodes_joins_those_that_failed():
    """A sweep's exclude.txt is read by the plugin's own option, into the set that `submit` adds to."""
    from snakemake_executor_plugin_slurm import Executor, ExecutorSettings

    assert ExecutorSettings(exclude_failed_nodes="n3,n7").exclude_failed_nodes == "n3,n7"
    assert "_failed_nodes" in Executor.__post_init__.__code__.co_names
    line = BadNodes().submit(lambda job, params, settings=None, failed_nodes=None: ",".join(sorted(failed_nodes)))
    assert line(None, {}, failed_nodes={"n3", "n7"}) == "n3,n7"


def test_jobs_that_never_had_a_node(cluster):
    assert slurm_bad_nodes.hosts("(null)") == []
    assert slurm_bad_nodes.hosts("") == []
    assert slurm_bad_nodes.hosts("n1,n3") == ["n1", "n3"]
