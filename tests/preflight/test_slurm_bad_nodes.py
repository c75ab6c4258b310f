"""Nodes on which jobs fail twice are left out; nodes that are not to blame are not."""

from types import SimpleNamespace

import pytest

from scalebench.analysis.campaign_findings import campaign_findings
from scalebench.machine import slurm
from scalebench.preflight import slurm_bad_nodes
from scalebench.preflight.slurm_bad_nodes import BadNodes
from scalebench.record.excluded_nodes import excluded_nodes
from scalebench.record.host_names import hosts_left_out


def job_of(campaign: str | None) -> SimpleNamespace:
    """A job of Snakemake's, of a campaign or of none."""
    return SimpleNamespace(wildcards=SimpleNamespace(**({"campaign": campaign} if campaign else {})))


NOON, LATER = "2026-11-22T12:00:00", "2026-11-22T12:10:00"


def line(job, params, settings=None, failed_nodes=()) -> str:
    """The sbatch line, as far as it matters here."""
    return f"sbatch --exclude={','.join(sorted(failed_nodes))}"


def completed(text: str) -> str:
    """A job that ended well, as squeue prints it: `n2`, `n2:7` (what job 7 makes), with a time before it or at noon."""
    end, _, where = text.rpartition("@")
    node, _, job = where.partition(":")
    return f"{end or LATER}|{node}|rule_train_wildcards_{job}"


def sent(bad: BadNodes, job: SimpleNamespace, failed_nodes=(), comment: str = "") -> str:
    """The line of a job as it is submitted."""
    submit = bad.submit(line, lambda job: " --gres=gpu:1")
    return submit(job, {"comment_str": comment}, settings=None, failed_nodes=set(failed_nodes))


@pytest.fixture
def cluster(monkeypatch):
    """Where each job was, and where jobs have ended well, since noon if nothing else is said."""

    class Answers:
        nodes: dict[str, str] = {}  # noqa: RUF012  (one test, one instance)
        sound = ""
        refused: str | None = None
        questions: list[list[str]] = []  # noqa: RUF012

    def describe(job, patience):
        facts = {"EndTime": NOON, "Comment": "rule_train_wildcards_" + job}
        return facts | {"NodeList": answers.nodes[job]} if job in answers.nodes else {}

    def why_refused(words):
        answers.questions = [*answers.questions, words]
        return answers.refused

    answers = Answers()
    monkeypatch.setattr(slurm_bad_nodes, "describe", describe)
    monkeypatch.setattr(slurm_bad_nodes, "why_refused", why_refused)
    monkeypatch.setattr(
        slurm,
        "run_command",
        lambda *words: (
            "\n".join(completed(row) for row in answers.sound.split())
            if words[0] == "squeue"
            else words[-1].replace("n[1-2]", "n1 n2")
        ),
    )
    return answers


@pytest.mark.fault("a node on which every job fails", "left out after two, and named")
def test_a_node_on_which_two_jobs_failed_is_left_out(cluster, capsys):
    cluster.nodes, cluster.sound = {"7": "n1", "8": "n1"}, "n2:8\nn3"
    bad = BadNodes()
    bad.hear({"7": "FAILED"})
    assert bad.excluded == set()
    bad.hear({"7": "FAILED", "8": "FAILED"})
    assert bad.excluded == {"n1"}
    assert "node n1 is excluded from here on: jobs failed there (7 FAILED, 8 FAILED)" in capsys.readouterr().err
    assert sent(bad, job_of("sizes"), {"n4"}) == "sbatch --exclude=n1,n4"


def test_a_job_that_failed_goes_elsewhere_at_once(cluster):
    """The node that failed it is free again before any other, and would get it back."""
    cluster.nodes = {"7": "n1"}
    bad = BadNodes()
    bad.hear({"7": "FAILED"})
    again = "rule_train_wildcards_7"
    assert sent(bad, job_of("sizes"), {"n4"}, again) == "sbatch --exclude=n1,n4"
    assert cluster.questions == [["sbatch", "--exclude=n1,n4", "--gres=gpu:1", "--test-only", "--wrap=true"]]
    assert sent(bad, job_of("sizes"), {"n4"}, "rule_train_wildcards_8") == "sbatch --exclude=n4", "of another job"
    cluster.refused = "Requested node configuration is not available"
    assert sent(bad, job_of("sizes"), {"n4"}, again) == "sbatch --exclude=n4", "there is no other node for it"
    assert bad.excluded == set()


def test_what_ended_before_the_failures_says_nothing(cluster):
    """The node's file system may be gone since. That other jobs end well elsewhere says nothing, either."""
    cluster.nodes, cluster.sound = {"7": "n1", "8": "n1"}, "2026-11-22T11:59:59@n1 n2"
    bad = BadNodes()
    bad.hear({"7": "FAILED", "8": "FAILED"})
    assert bad.excluded == set()
    cluster.sound += " n2:7"
    bad.hear({"7": "FAILED", "8": "FAILED", "9": "COMPLETED"})
    assert bad.excluded == {"n1"}, "judged again when one of the two has ended well elsewhere"


def test_the_report_names_the_node(cluster, tmp_path):
    """Two drivers have met it; a third campaign, whose jobs none of them sent, is not told."""
    cluster.nodes, cluster.sound = {"7": "n1", "8": "n1", "9": "n1", "10": "n1"}, "n2:7 n2:9"
    for jobs in (("7", "8"), ("9", "10")):
        bad = BadNodes(tmp_path)
        for job in (job_of("sizes"), job_of(None)):
            sent(bad, job)
        assert excluded_nodes(tmp_path / "sizes") == [] or jobs == ("9", "10")
        bad.hear(dict.fromkeys(jobs, "FAILED"))
    nodes = excluded_nodes(tmp_path / "sizes")
    assert [(entry.node, list(entry.jobs)) for entry in nodes] == [("n1", ["7", "8", "9", "10"])]
    (finding,) = campaign_findings("sizes", [], excluded=nodes).findings
    assert (finding.code, finding.severity, finding.runs) == ("node-excluded", "note", ["n1"])
    assert "after 4 jobs had failed there (7 FAILED, 8 FAILED, 9 FAILED, 10 FAILED)" in finding.evidence
    assert list(hosts_left_out([finding.model_dump()])) == ["n1"]


def test_a_campaign_whose_jobs_are_sent_later_is_told(cluster, tmp_path):
    """The node failed the corpus' jobs, which are of no campaign."""
    cluster.nodes, cluster.sound = {"7": "n1", "8": "n1"}, "n2:7"
    bad = BadNodes(tmp_path)
    sent(bad, job_of(None))
    bad.hear({"7": "FAILED", "8": "FAILED"})
    for _ in range(2):
        sent(bad, job_of("sizes"))
    assert [entry.node for entry in excluded_nodes(tmp_path / "sizes")] == ["n1"]


def test_no_record_where_no_node_is_to_blame(cluster, tmp_path):
    cluster.nodes, cluster.sound = {"7": "n1", "8": "n1"}, "n1\nn2"
    bad = BadNodes(tmp_path)
    sent(bad, job_of("sizes"))
    bad.hear({"7": "FAILED", "8": "FAILED"})
    assert excluded_nodes(tmp_path / "sizes") == []
    assert campaign_findings("sizes", [], excluded=[]).findings == []


@pytest.mark.fault("jobs fail on all nodes", "no node is blamed")
def test_what_fails_everywhere_is_no_node_s_fault(cluster):
    cluster.nodes, cluster.sound = {"7": "n1", "8": "n1", "9": "n2", "10": "n2"}, ""
    bad = BadNodes()
    bad.hear(dict.fromkeys(("7", "8", "9", "10"), "FAILED"))
    assert bad.excluded == set()


def test_a_node_on_which_other_jobs_end_well_stays(cluster):
    cluster.nodes, cluster.sound = {"7": "n1", "8": "n1"}, "n1\nn2:7"
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
    assert sent(BadNodes(), job_of("sizes"), {"n3", "n7"}) == "sbatch --exclude=n3,n7"


def test_jobs_that_never_had_a_node(cluster):
    assert slurm.hosts("(null)") == []
    assert slurm.hosts("") == []
    assert slurm.hosts("n1,n3") == ["n1", "n3"]
