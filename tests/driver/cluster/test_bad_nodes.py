"""Nodes on which jobs fail twice are left out; nodes that are not to blame are not."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_scheduler import FakeScheduler

from scaleproof.conclude.analysis.campaign_findings import campaign_findings
from scaleproof.driver.cluster.bad_nodes import BadNodes
from scaleproof.driver.cluster.scheduler import JobEnd, SoundJob, Submission
from scaleproof.ground.findings.finding import Findings
from scaleproof.ground.records.excluded_nodes import read_excluded_nodes


def job_of(campaign: str | None, makes: str = "runs") -> SimpleNamespace:
    """A job of Snakemake's, of a campaign or of none, that makes one file."""
    return SimpleNamespace(
        wildcards=SimpleNamespace(**({"campaign": campaign} if campaign else {})), output=[f"results/{makes}"]
    )


NOON, LATER = "2026-11-22T12:00:00", "2026-11-22T12:10:00"


def completed(text: str) -> SoundJob:
    """A job that ended well: `n2`, `n2:27` (job 27), with a time before it or after noon."""
    end, _, where = text.rpartition("@")
    node, _, job = where.partition(":")
    return SoundJob(end or LATER, [node], job)


def sound(text: str) -> list[SoundJob]:
    return [completed(word) for word in text.split()]


PLAN = Submission("scaleproof-x", Path("x.sh"), Path("x.log"), Path(), {})


def exclusion(bad: BadNodes, job: SimpleNamespace) -> str:
    """The nodes that a job is kept from."""
    return ",".join(sorted(bad.excluded_for(job, PLAN)))


def queued(cluster, results: Path = Path("results"), given: tuple[str, ...] = ()) -> BadNodes:
    """Jobs 7 to 10 are in the queue, and 27 to 30, which make the same."""
    bad = BadNodes(cluster, given, results)
    for number in (7, 8, 9, 10, 27, 28, 29, 30):
        bad.note_submitted(str(number), job_of("sizes", makes=str(number % 20)))
    return bad


def fail(bad: BadNodes, nodes: dict[str, str], state: str = "FAILED") -> BadNodes:
    """These jobs have failed on these nodes, at noon."""
    for job, node in nodes.items():
        bad.note_failed(job, state, JobEnd(state, state, nodes=node.split(), ended=NOON))
    bad.judge()
    return bad


@pytest.fixture
def cluster():
    return FakeScheduler()


@pytest.mark.parametrize(("unstarted", "excluded"), [(True, {"n1"}), (False, set())])
def test_a_node_that_starts_no_job_is_left_out(cluster, unstarted, excluded):
    """Slurm cancels such jobs; those that a person cancels say nothing of their node."""
    bad = queued(cluster)
    for job in ("7", "8"):
        bad.note_failed(job, "CANCELLED", JobEnd("", "", nodes=["n1"], ended=NOON, unstarted=unstarted))
    bad.judge()
    assert bad.excluded == excluded


@pytest.mark.fault("a node on which every job fails", "left out after two, and named")
def test_a_node_on_which_two_jobs_failed_is_left_out(cluster, capsys):
    cluster.sound = sound("n2:28\nn3")
    bad = fail(queued(cluster, given=("n4",)), {"7": "n1"})
    assert bad.excluded == {"n4"}
    fail(bad, {"8": "n1"})
    assert bad.excluded == {"n1", "n4"}
    assert "node n1 is excluded from here on: jobs failed there (7 FAILED, 8 FAILED)" in capsys.readouterr().err
    assert exclusion(bad, job_of("sizes")) == "n1,n4"


@pytest.mark.parametrize("number", ["12", "12_3"], ids=["a job", "task of an array"])
def test_a_job_that_failed_goes_elsewhere_at_once(cluster, number):
    """The node that failed it is free again before any other, and would get it back."""
    again, bad = job_of("sizes", makes="runs/1"), queued(cluster, given=("n4",))
    assert exclusion(bad, again) == "n4"
    bad.note_submitted(number, again)
    fail(bad, {number: "n1"})
    assert exclusion(bad, again) == "n1,n4"
    assert [question.excluded for question in cluster.questions] == [{"n1", "n4"}]
    assert exclusion(bad, job_of("sizes", makes="8")) == "n4", "of another job"
    cluster.has_room = False
    assert exclusion(bad, again) == "n4", "there is no other node for it"
    assert bad.excluded == {"n4"}


def test_nothing_is_left_out_without_a_reason(cluster):
    bad = fail(queued(cluster), {"7": "n1"}, state="TIMEOUT")
    assert exclusion(bad, job_of("sizes", makes="7")) == ""


def test_what_ended_before_the_failures_says_nothing(cluster):
    """The node's file system may be gone since. That other jobs end well elsewhere says nothing, either."""
    cluster.sound = sound("2026-11-22T11:59:59@n1 n2")
    bad = fail(queued(cluster), {"7": "n1", "8": "n1"})
    assert bad.excluded == set()
    cluster.sound += sound(" n2:27")
    bad.judge()
    assert bad.excluded == {"n1"}, "judged again when one of the two has ended well elsewhere"


def test_the_report_names_the_node(cluster, tmp_path):
    """Two drivers have met it; a third campaign, whose jobs none of them sent, is not told."""
    cluster.sound = sound("n2:27 n2:29")
    for jobs in (("7", "8"), ("9", "10")):
        bad = queued(cluster, tmp_path)
        bad.note_submitted("40", job_of(None))
        assert read_excluded_nodes(tmp_path / "sizes") == [] or jobs == ("9", "10")
        fail(bad, dict.fromkeys(jobs, "n1"))
    nodes = read_excluded_nodes(tmp_path / "sizes")
    assert [(entry.node, list(entry.jobs)) for entry in nodes] == [("n1", ["7", "8", "9", "10"])]
    (finding,) = campaign_findings("sizes", [], excluded=nodes).findings
    assert (finding.code, finding.severity, finding.runs) == ("node-excluded", "note", ["n1"])
    assert "after 4 jobs had failed there (7 FAILED, 8 FAILED, 9 FAILED, 10 FAILED)" in finding.evidence
    assert Findings(campaign="c", checks=[], findings=[finding]).hosts_left_out == {"n1"}


def test_a_campaign_whose_jobs_are_sent_later_is_told(cluster, tmp_path):
    """The node failed the corpus' jobs, which are of no campaign."""
    cluster.sound = sound("n2:27")
    bad = BadNodes(cluster, results=tmp_path)
    for number in ("7", "8", "27"):
        bad.note_submitted(number, job_of(None, makes=str(int(number) % 20)))
    fail(bad, {"7": "n1", "8": "n1"})
    for number in ("41", "42"):
        bad.note_submitted(number, job_of("sizes"))
    assert [entry.node for entry in read_excluded_nodes(tmp_path / "sizes")] == ["n1"]


@pytest.mark.parametrize(
    ("nodes", "ended_well"),
    [
        ({"7": "n1", "8": "n1", "9": "n2", "10": "n2"}, ""),
        ({"7": "n1", "8": "n1"}, "n1\nn2:27"),  # other jobs end well there
        ({"7": "n1", "8": "n1"}, "n2:29\nn3:30"),  # only other jobs end well elsewhere
    ],
)
@pytest.mark.fault("jobs fail on all nodes", "no node is blamed")
def test_what_fails_everywhere_is_no_node_s_fault(cluster, tmp_path, nodes, ended_well):
    cluster.sound = sound(ended_well)
    bad = fail(queued(cluster, tmp_path), nodes)
    assert bad.excluded == set()
    assert read_excluded_nodes(tmp_path / "sizes") == []
    assert campaign_findings("sizes", [], excluded=[]).findings == []


def test_slurm_s_own_verdict_needs_no_comparison(cluster):
    bad = fail(queued(cluster), {"7": "n1 n2", "8": "n1"}, state="NODE_FAIL")
    assert bad.excluded == {"n1"}, "n2 was in one lost job only"
