"""`scaleproof cluster check` on clusters that are answers of commands: sites that are not like the tests' own."""

import getpass
import subprocess
from types import SimpleNamespace

import pytest
from synthetic import campaign, cells

from scaleproof.driver import cluster_check, slurm_test_only
from scaleproof.ground.campaign.cells import arms
from scaleproof.ground.errors import UserError
from scaleproof.measure.machine import slurm

CONFIG = "SLURM_VERSION = 23.11\nClusterName = box\nMinJobAge = {age} sec\nMaxArraySize = 1001"
PROFILE = (
    "executor: scaleproof-slurm\njobs: 20\nseconds-between-status-checks: 30\n"
    "default-resources: {slurm_partition: gpu}\n"
)
COMPARE = [{"name": "fused", "a": {"fused_optimizer": False}, "b": {"fused_optimizer": True}, "pairs": 2}]


def site(monkeypatch, tmp_path, sinfo: str, profile: str = PROFILE, sacct: bool = False, limits: str = "", age=300):
    """A check on a cluster whose commands answer so; the checks as text."""
    answers = {
        "sinfo": sinfo,
        "scontrol": CONFIG.format(age=age),
        "sacctmgr": limits,
        "sacct": "JobID" if sacct else "",
    }
    monkeypatch.setattr(slurm, "run_command", lambda *command: answers.get(command[0], ""))
    monkeypatch.setattr(slurm_test_only, "why_refused", lambda line: None)
    monkeypatch.setattr(cluster_check, "_nodes", lambda *arguments: [])
    (tmp_path / "profile.v9+.yaml").write_text(profile)
    own = cells(vary={"geometry": ["1x1", "2x1"]})
    given = campaign(compare=COMPARE, vary={"geometry": ["1x1", "2x1"]})
    loaded = SimpleNamespace(
        campaign=given,
        cells=own,
        comparisons={"fused": (given.compare[0], *arms(given, given.compare[0]))},
        traced=own,
        shared_jobs={},
    )
    return [cluster_check.line(verdict) for verdict in cluster_check.check(tmp_path, tmp_path / "results", loaded)]


def failed(checks: list[str]) -> list[str]:
    return [check for check in checks if check.startswith("FAIL")]


def test_a_site_without_sacct(monkeypatch, tmp_path):
    checks = site(monkeypatch, tmp_path, "gpu|up|4|1-00:00:00|gpu:h100:4")
    assert failed(checks) == []
    assert any("no accounting (sacct does not answer)" in check for check in checks)


@pytest.mark.fault("MinJobAge is shorter than the interval between looks", "`cluster check` says what to write")
def test_a_site_that_forgets_its_jobs_too_soon(monkeypatch, tmp_path):
    (line,) = failed(site(monkeypatch, tmp_path, "gpu|up|4|infinite|gpu:4", age=30))
    assert "set seconds-between-status-checks to 15 or less" in line


@pytest.mark.fault("a partition's limit is shorter than a job, and not enforced", "`cluster check` says so")
def test_a_partition_that_is_too_short_for_a_job(monkeypatch, tmp_path):
    """Slurm takes such a job where it does not enforce limits, and never starts it."""
    lines = failed(site(monkeypatch, tmp_path, "gpu|up|4|10:00|gpu:4"))
    assert any("ddp-n1x1: 17 minutes, partition gpu gives at most 10" in line for line in lines), lines
    assert any("pairs of fused" in line and "its runs are one job" in line for line in lines)


def test_the_queue_is_estimated_before_anything_is_submitted(monkeypatch, tmp_path):
    checks = site(monkeypatch, tmp_path, "gpu|up|4|infinite|gpu:4")
    (line,) = [check for check in checks if "node hours" in check]
    # 2 cells x 3 repeats, a comparison, a trace each, a reference; 17 minutes a run, on 1 or 2 nodes.
    assert "10 jobs (6 train, 1 pairs, 2 trace_capture, 1 reference)" in line
    assert "20 in the queue at a time" in line


@pytest.mark.fault("the profile queues more jobs than the site allows", "`cluster check` says what to write")
def test_more_jobs_than_a_user_may_have(monkeypatch, tmp_path):
    (line,) = failed(site(monkeypatch, tmp_path, "gpu|up|4|infinite|gpu:4", sacct=True, limits="\n8\n50"))
    assert "20 in the queue at a time, but you may have 8" in line
    assert "`jobs: 8`" in line


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("30", 30),
        ("30:00", 30),
        ("2:00:00", 120),
        ("1-00:00:00", 1440),
        ("1-12", 2160),
        ("infinite", float("inf")),
        ("n/a", float("inf")),
    ],
)
def test_slurm_s_time_limits(text, minutes):
    assert slurm.minutes(text) == minutes


def test_the_limit_asked_for_is_this_user_s(monkeypatch):
    asked = []
    monkeypatch.setattr(slurm, "run_command", lambda *command: asked.append(command) or "")
    assert slurm.submit_limit("physics") is None
    assert f"users={getpass.getuser()}" in asked[0]
    assert "accounts=physics" in asked[0]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{gpu_typ: h100}", 'unknown key "gpu_typ" under config of the profile. Did you mean "gpu_type"?'),
        ("{scheduler: slrum}", 'Did you mean "slurm"?'),
        ("{gpu_option: gpus}", "Allowed: gres, gpus-per-node, none"),
        ("{exclusive: perhaps}", "allowed: true, false"),
        ("{gpu_type: 'h100; rm -rf /'}", "allowed: letters, digits"),
    ],
)
def test_a_profile_with_a_wrong_word(monkeypatch, tmp_path, config, message):
    with pytest.raises(UserError, match="profile") as error:
        site(monkeypatch, tmp_path, "gpu|up|4|infinite|gpu:4", PROFILE + f"config: {config}\n")
    assert message in str(error.value)


def test_a_wrong_profile_is_told_where_there_is_no_slurm(tmp_path):
    (tmp_path / "profile.v9+.yaml").write_text(PROFILE + "config: {scheduler: slrum}\n")
    with pytest.raises(UserError, match='Did you mean "slurm"'):
        cluster_check.check(tmp_path, tmp_path)


def test_no_command_of_slurm_is_a_message(monkeypatch, tmp_path):
    def missing(*arguments, **options):
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", missing)
    (tmp_path / "profile.v9+.yaml").write_text(PROFILE)
    with pytest.raises(UserError, match="no Slurm here"):
        cluster_check.check(tmp_path, tmp_path)


@pytest.mark.fault("cluster check, where a profile gives jobs less time than their runs", "a line with both numbers")
def test_a_profile_that_gives_too_little_time(monkeypatch, tmp_path):
    sinfo = "gpu|up|4|1-00:00:00|gpu:h100:4"
    short = PROFILE + "set-resources: {train: {runtime: 15}}\n"
    for line in (lines := failed(site(monkeypatch, tmp_path, sinfo, short))):
        assert "a job of train 15 minutes, but a run may take 15 (resources.time_limit)" in line
    assert len(lines) == 2, "one for each size"
    for sound in ("{train: {runtime: 16}}", "{corpus_tokenise: {runtime: 1}}"):
        assert failed(site(monkeypatch, tmp_path, sinfo, f"{PROFILE}set-resources: {sound}\n")) == []


def test_a_greeting_in_braces_is_no_answer_of_a_node():
    output = '{welcome to the cluster}\n{"host": "n1", "python": "3.11"}\n{"motd": "be kind"}\n'
    assert cluster_check._answers(output) == [{"host": "n1", "python": "3.11"}]
