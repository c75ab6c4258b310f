"""Nodes on which jobs fail twice are left out; nodes that are not to blame are not."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import snakemake_executor_plugin_slurm as plugin

from scaleproof.conclude.analysis.campaign_findings import campaign_findings
from scaleproof.driver import slurm_bad_nodes
from scaleproof.driver.slurm_bad_nodes import BadNodes
from scaleproof.ground.records.excluded_nodes import excluded_nodes
from scaleproof.ground.records.host_names import hosts_left_out
from scaleproof.measure.machine import slurm


def job_of(campaign: str | None, makes: str = "runs") -> SimpleNamespace:
    """A job of Snakemake's, of a campaign or of none, that makes one file."""
    return SimpleNamespace(
        wildcards=SimpleNamespace(**({"campaign": campaign} if campaign else {})), output=[f"results/{makes}"]
    )


NOON, LATER = "2026-11-22T12:00:00", "2026-11-22T12:10:00"


def line(job, params, settings=None, failed_nodes=()) -> str:
    """The sbatch line, as far as it matters here."""
    return f"sbatch --exclude={','.join(sorted(failed_nodes))}"


def completed(text: str) -> str:
    """A job that ended well, as squeue prints it: `n2`, `n2:27` (job 27), with a time before it or after noon."""
    end, _, where = text.rpartition("@")
    node, _, job = where.partition(":")
    return f"{end or LATER}|{node}|{job}"


def sent(bad: BadNodes, job: SimpleNamespace, failed_nodes=()) -> str:
    """The line of a job as it is submitted."""
    submit = bad.submit(line, lambda job: " --gres=gpu:1")
    return submit(job, {}, settings=None, failed_nodes=set(failed_nodes))


def queued(results: Path = Path("results")) -> BadNodes:
    """Jobs 7 to 10 are in the queue, and 27 to 30, which make the same."""
    reported = []
    bad = BadNodes(results)
    tell = bad.submitted(lambda executor, job: reported.append(job.external_jobid))
    for number in (7, 8, 9, 10, 27, 28, 29, 30):
        tell(None, SimpleNamespace(external_jobid=str(number), job=job_of("sizes", makes=str(number % 20))))
    assert len(reported) == 8, "Snakemake is told as well"
    return bad


def after_failures(*jobs: str, state: str = "FAILED") -> BadNodes:
    """What is known when these jobs have failed."""
    bad = queued()
    bad.hear(dict.fromkeys(jobs, state))
    return bad


@pytest.fixture
def cluster(monkeypatch):
    """Where each job was, and where jobs have ended well, since noon if nothing else is said."""

    class Answers:
        nodes: dict[str, str] = {}  # noqa: RUF012  (one test, one instance)
        sound = ""
        refused: str | None = None
        questions: list[list[str]] = []  # noqa: RUF012

    def describe(job, patience):
        return {"EndTime": NOON, "NodeList": answers.nodes[job]} if job in answers.nodes else {}

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
    cluster.nodes, cluster.sound = {"7": "n1", "8": "n1"}, "n2:28\nn3"
    bad = after_failures("7")
    assert bad.excluded == set()
    bad.hear({"7": "FAILED", "8": "FAILED"})
    assert bad.excluded == {"n1"}
    assert "node n1 is excluded from here on: jobs failed there (7 FAILED, 8 FAILED)" in capsys.readouterr().err
    assert sent(bad, job_of("sizes"), {"n4"}) == "sbatch --exclude=n1,n4"


def test_a_job_that_failed_goes_elsewhere_at_once(cluster):
    """The node that failed it is free again before any other, and would get it back."""
    cluster.nodes = {"7": "n1"}
    bad = after_failures("7")
    again = job_of("sizes", makes="7")
    assert sent(bad, again, {"n4"}) == "sbatch --exclude=n1,n4"
    assert cluster.questions == [["sbatch", "--exclude=n1,n4", "--gres=gpu:1", "--test-only", "--wrap=true"]]
    assert sent(bad, job_of("sizes", makes="8"), {"n4"}) == "sbatch --exclude=n4", "of another job"
    cluster.refused = "Requested node configuration is not available"
    assert sent(bad, again, {"n4"}) == "sbatch --exclude=n4", "there is no other node for it"
    assert bad.excluded == set()


class Resources(dict):
    """What a job asks for, by key and by attribute, as the plugin reads it."""

    __getattr__ = dict.__getitem__


@pytest.mark.parametrize(
    ("number", "makes"),
    [("12", "sizes/together/rounds-1.json"), ("12_3", "sizes/runs/ddp-n1x1/rep3/training_metrics.json")],
    ids=["several runs in a job", "task of an array"],
)
def test_the_plugin_s_own_line_sends_every_kind_of_job_elsewhere(cluster, number, makes):
    cluster.nodes = {number: "n1"}
    job, bad = job_of("sizes", makes), BadNodes()
    job.resources, job.threads = Resources(mem_mb=1000, runtime=9, nodes=1, gres="gpu:1"), 1
    params = dict.fromkeys(("run_uuid", "slurm_logfile", "comment_str", "account", "partition", "workdir"), "x")
    submit = bad.submit(plugin.get_submit_command, plugin.set_gres_string)
    assert "--exclude" not in submit(job, params)
    bad.submitted(lambda executor, job: None)(None, SimpleNamespace(external_jobid=number, job=job))
    bad.hear({number: "FAILED"})
    assert "--exclude=n1" in submit(job, params).split()


def test_a_failure_that_is_heard_of_before_its_number_is_kept(cluster):
    """The plugin submits in a thread of its own, and may look at the queue before Snakemake is told."""
    cluster.nodes = {"7": "n1", "40": "n1"}
    bad = after_failures("40")
    again = job_of("sizes", makes="late")
    assert sent(bad, again) == "sbatch --exclude="
    bad.submitted(lambda executor, job: None)(None, SimpleNamespace(external_jobid="40", job=again))
    bad.hear({"40": "FAILED"})
    assert sent(bad, again) == "sbatch --exclude=n1"


def test_what_ended_before_the_failures_says_nothing(cluster):
    """The node's file system may be gone since. That other jobs end well elsewhere says nothing, either."""
    cluster.nodes, cluster.sound = {"7": "n1", "8": "n1"}, "2026-11-22T11:59:59@n1 n2"
    bad = after_failures("7", "8")
    assert bad.excluded == set()
    cluster.sound += " n2:27"
    bad.hear({"7": "FAILED", "8": "FAILED", "9": "COMPLETED"})
    assert bad.excluded == {"n1"}, "judged again when one of the two has ended well elsewhere"


def test_the_report_names_the_node(cluster, tmp_path):
    """Two drivers have met it; a third campaign, whose jobs none of them sent, is not told."""
    cluster.nodes, cluster.sound = {"7": "n1", "8": "n1", "9": "n1", "10": "n1"}, "n2:27 n2:29"
    for jobs in (("7", "8"), ("9", "10")):
        bad = queued(tmp_path)
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
    cluster.nodes, cluster.sound = {"7": "n1", "8": "n1"}, "n2:27"
    bad = queued(tmp_path)
    sent(bad, job_of(None))
    bad.hear({"7": "FAILED", "8": "FAILED"})
    for _ in range(2):
        sent(bad, job_of("sizes"))
    assert [entry.node for entry in excluded_nodes(tmp_path / "sizes")] == ["n1"]


@pytest.mark.parametrize(
    ("nodes", "sound"),
    [
        ({"7": "n1", "8": "n1", "9": "n2", "10": "n2"}, ""),
        ({"7": "n1", "8": "n1"}, "n1\nn2:27"),  # other jobs end well there
        ({"7": "n1", "8": "n1"}, "n2:29\nn3:30"),  # only other jobs end well elsewhere
    ],
)
@pytest.mark.fault("jobs fail on all nodes", "no node is blamed")
def test_what_fails_everywhere_is_no_node_s_fault(cluster, tmp_path, nodes, sound):
    cluster.nodes, cluster.sound = nodes, sound
    bad = queued(tmp_path)
    sent(bad, job_of("sizes"))
    bad.hear(dict.fromkeys(nodes, "FAILED"))
    assert bad.excluded == set()
    assert excluded_nodes(tmp_path / "sizes") == []
    assert campaign_findings("sizes", [], excluded=[]).findings == []


def test_slurm_s_own_verdict_needs_no_comparison(cluster):
    cluster.nodes = {"7": "n[1-2]", "8": "n1"}
    bad = after_failures("7", state="NODE_FAIL")
    bad.hear({"8": "NODE_FAIL"})
    assert bad.excluded == {"n1"}, "n2 was in one lost job only"
