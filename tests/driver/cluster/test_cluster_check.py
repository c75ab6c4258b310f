"""`scaleproof cluster check` on clusters that are answers of commands: sites that are not like the tests' own."""

import getpass
import subprocess
from types import SimpleNamespace

import pytest
from synthetic import campaign, cells

from scaleproof.driver.cluster import check as cluster_check
from scaleproof.driver.cluster import questions
from scaleproof.driver.cluster.site import check_resource_names
from scaleproof.ground.campaign.cells import arms_of
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.errors import UserError
from scaleproof.measure.machine import allocation

CONFIG = "SLURM_VERSION = 23.11\nClusterName = box\nMinJobAge = {age} sec\nMaxArraySize = 1001"
PROFILE = (
    "executor: scaleproof\njobs: 20\nseconds-between-status-checks: 30\ndefault-resources: {slurm_partition: gpu}\n"
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
    monkeypatch.setattr(allocation, "run_command", lambda *command, **_: answers.get(command[0], ""))
    monkeypatch.setattr(questions, "why_refused", lambda line: None)
    monkeypatch.setattr(cluster_check, "try_nodes", lambda *arguments: [])
    (tmp_path / "profile.v9+.yaml").write_text(profile)
    own = cells(vary={"geometry": ["1x1", "2x1"]})
    given = campaign(compare=COMPARE, vary={"geometry": ["1x1", "2x1"]})
    loaded = SimpleNamespace(
        campaign=given,
        cells=own,
        comparisons={"fused": (given.compare[0], *arms_of(given, given.compare[0]))},
        traced=own,
        shared_jobs={},
    )
    return [
        cluster_check.verdict_text(verdict)
        for verdict in cluster_check.check_cluster(tmp_path, tmp_path / "results", loaded)
    ]


def failed(checks: list[str]) -> list[str]:
    return [check for check in checks if check.startswith("FAIL")]


def test_a_site_without_sacct(monkeypatch, tmp_path):
    checks = site(monkeypatch, tmp_path, "gpu|up|4|1-00:00:00|gpu:h100:4|64|512000")
    assert failed(checks) == []
    assert any("no accounting (sacct does not answer)" in check for check in checks)


@pytest.mark.fault("MinJobAge is shorter than the interval between looks", "`cluster check` says what to write")
def test_a_site_that_forgets_its_jobs_too_soon(monkeypatch, tmp_path):
    (line,) = failed(site(monkeypatch, tmp_path, "gpu|up|4|infinite|gpu:4|64|512000", age=30))
    assert "set seconds-between-status-checks to 15 or less" in line


def test_a_site_that_never_forgets_its_jobs(monkeypatch, tmp_path):
    """A MinJobAge of 0 prevents that records are purged (slurm.conf)."""
    assert failed(site(monkeypatch, tmp_path, "gpu|up|4|infinite|gpu:4|64|512000", age=0)) == []


@pytest.mark.fault("a partition's limit is shorter than a job, and not enforced", "`cluster check` says so")
def test_a_partition_that_is_too_short_for_a_job(monkeypatch, tmp_path):
    """Slurm takes such a job where it does not enforce limits, and never starts it."""
    lines = failed(site(monkeypatch, tmp_path, "gpu|up|4|10:00|gpu:4|64|512000"))
    assert any("ddp-n1x1: 17 minutes, partition gpu gives at most 10" in line for line in lines), lines
    assert any("pairs of fused" in line and "its runs are one job" in line for line in lines)


def test_the_queue_is_estimated_before_anything_is_submitted(monkeypatch, tmp_path):
    checks = site(monkeypatch, tmp_path, "gpu|up|4|infinite|gpu:4|64|512000")
    (line,) = [check for check in checks if "node hours" in check]
    # 2 cells x 3 repeats, a comparison, a trace each, a reference, tokens; 17 minutes a run, on 1 or 2 nodes.
    rules = "6 train, 1 pairs, 2 trace_capture, 1 reference, 1 corpus_tokenizer, 1 corpus_tokenise"
    assert f"12 jobs ({rules})" in line
    assert "20 in the queue at a time" in line


@pytest.mark.fault("the profile queues more jobs than the site allows", "`cluster check` says what to write")
def test_more_jobs_than_a_user_may_have(monkeypatch, tmp_path):
    (line,) = failed(site(monkeypatch, tmp_path, "gpu|up|4|infinite|gpu:4|64|512000", sacct=True, limits="\n8\n50"))
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
    assert allocation.limit_minutes(text) == minutes


@pytest.mark.fault("a QOS lets a user submit fewer jobs than the profile queues", "`cluster check` says what to write")
@pytest.mark.parametrize(
    ("qos", "partition", "limit"), [("", "gpu", None), ("gold", "gpu", 2), ("", "limited", 2), ("none", "gpu", None)]
)
def test_the_limits_of_a_qos_count(monkeypatch, qos, partition, limit):
    """That of the jobs, else the usual one, and that of the partition."""

    def answer(*command):
        if "associations" in command:
            return "|normal\n|normal"
        if "qos" in command:
            limits = {"gold": "2", "normal": "", "none": ""}
            return "\n".join(limits[name] for name in command[-2].split(","))
        return f"PartitionName={partition} QoS={'gold' if partition == 'limited' else 'N/A'}"

    monkeypatch.setattr(allocation, "run_command", answer)
    assert allocation.ask_submit_limit("", qos, partition) == limit


@pytest.mark.fault("a request is larger than any node", "`cluster check` says which number, and what there is")
def test_the_number_that_is_too_large_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(
        cluster_check, "ask_why_refused", lambda request, profile: "Requested node configuration is not available"
    )
    small = failed(site(monkeypatch, tmp_path, "gpu|up|1|1-00:00:00|gpu:h100:4(S:0-1)|3|512000"))
    (line,) = [line for line in small if "Slurm refuses ddp-n2x1:" in line]
    assert "is not available; no node has 4 cores: 3; the partition has 1 node\n" in line
    assert "change geometry or resources" in line


def test_the_nodes_of_a_partition_are_counted(monkeypatch, tmp_path):
    """ddp-n2x1 needs two: two of two kinds are enough."""
    monkeypatch.setattr(cluster_check, "ask_why_refused", lambda request, profile: "no")
    two = "gpu|up|1|infinite|gpu:4|64|512000\ngpu|up|1|infinite|gpu:8|32|512000"
    checks = site(monkeypatch, tmp_path, two)
    assert any("partition gpu: 2 nodes" in check for check in checks)
    assert not any("the partition has" in line for line in failed(checks))


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu:4", 4),
        ("gpu:h100:8(S:0-1),nvme:2", 8),
        ("(null)", 0),
        (" --gpus-per-node=a100:2", 2),
        ("--gpus-per-node=3", 3),
    ],
)
def test_gpus_in_what_slurm_writes(text, gpus):
    assert cluster_check.gpus_in(text) == gpus


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("Invalid account or account/partition combination specified", "slurm_account"),
        ("Invalid qos specification", "qos"),
        ("Invalid feature specification", "constraint"),
        ("Requested time limit is invalid (missing or exceeds some limit)", "resources.time_limit"),
        ("Invalid generic resource (gres) specification", "gpu_type: h100"),
        ("exclusive jobs are not allowed in partition one; Unspecified error", "exclusive: false"),
        ("Unspecified error", "change geometry or resources"),
    ],
)
def test_each_reason_has_its_cure(reason, advice):
    assert advice in questions.cure_for(reason)


def test_the_limit_asked_for_is_this_user_s(monkeypatch):
    asked = []
    monkeypatch.setattr(allocation, "run_command", lambda *command: asked.append(command) or "")
    assert allocation.ask_submit_limit("physics") is None
    assert f"users={getpass.getuser()}" in asked[0]
    assert "accounts=physics" in asked[0]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            "{gpu_typ: h100}",
            'a profile). Did you mean "gpu_type"? Allowed: ',
        ),
        ("{scheduler: slrum}", 'Did you mean "slurm"?'),
        ("{gpu_option: gpus}", "Allowed: gres, gpus-per-node, none"),
        ("{exclusive: perhaps}", "allowed: true, false"),
        ("{gpu_type: 'h100; rm -rf /'}", "allowed: letters, digits"),
    ],
)
def test_a_profile_with_a_wrong_word(monkeypatch, tmp_path, config, message):
    with pytest.raises(UserError, match="profile") as error:
        site(monkeypatch, tmp_path, "gpu|up|4|infinite|gpu:4|64|512000", PROFILE + f"config: {config}\n")
    assert message in str(error.value)


def test_a_wrong_profile_is_told_where_there_is_no_slurm(tmp_path):
    (tmp_path / "profile.v9+.yaml").write_text(PROFILE + "config: {scheduler: slrum}\n")
    with pytest.raises(UserError, match='Did you mean "slurm"'):
        cluster_check.check_cluster(tmp_path, tmp_path)


@pytest.mark.parametrize("settings", ["executor: cluster-generic\n", PROFILE + "config: {scheduler: queue}\n"])
def test_a_profile_of_another_queue_is_not_checked(tmp_path, settings):
    (tmp_path / "profile.v9+.yaml").write_text(settings)
    with pytest.raises(UserError, match="sends no job to Slurm, which is what is checked"):
        cluster_check.check_cluster(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("submit", "line"),
    [
        ("qsub -l select={nodes} {name}", "qsub -l select=1 train"),
        ("qsub -l mem={mem_md}mb", 'scaleproof-submit has {mem_md}. Did you mean "mem_mb"? Allowed: '),
    ],
)
def test_what_another_queue_would_be_sent_is_printed(tmp_path, repository, submit, line):
    queue = PROFILE + f"config: {{scheduler: queue}}\nscaleproof-submit: '{submit}'\n"
    (tmp_path / "profile.v9+.yaml").write_text(queue)
    for name, is_of_two_nodes in (("v100_two_node_buckets", True), ("h100_zero_precision", False)):
        loaded = LoadedCampaign(repository / f"config/campaigns/{name}.yaml")
        with pytest.raises(UserError) as refused:
            cluster_check.check_cluster(tmp_path, tmp_path, loaded)
        train = str(refused.value).partition(" train (")[2]
        assert train.partition("): ")[2].startswith(line)
        assert ("\n    2 nodes in the campaign, and this profile asks for 1, as only" in train) == is_of_two_nodes


def test_a_key_that_the_default_profile_overrides_is_named(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "profiles/default").mkdir(parents=True)
    (tmp_path / "profiles/default/profile.yaml").write_text("scheduler: greedy\nprintshellcmds: true\n")
    lines = site(
        monkeypatch, tmp_path, "gpu|up|4|infinite|gpu:4|64|512000", PROFILE + "scheduler: ilp\nprintshellcmds: true\n"
    )
    (line,) = [line for line in lines if "profiles/default" in line]
    assert line.startswith("FAIL  scheduler: ilp has no effect: profiles/default/profile.yaml says greedy, and wins")


def test_a_scontrol_that_prints_something_else(monkeypatch, tmp_path):
    monkeypatch.setattr(cluster_check.allocation, "ask_slurm_config", dict)
    monkeypatch.setattr(cluster_check, "run_scheduler_command", lambda *_: (0, "hello", ""))
    (tmp_path / "profile.v9+.yaml").write_text(PROFILE)
    with pytest.raises(UserError, match="`scontrol show config`: it printed no NAME = VALUE"):
        cluster_check.check_cluster(tmp_path, tmp_path)


def test_no_command_of_slurm_is_a_message(monkeypatch, tmp_path):
    def missing(*arguments, **options):
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "run", missing)
    (tmp_path / "profile.v9+.yaml").write_text(PROFILE)
    with pytest.raises(UserError, match="no Slurm here"):
        cluster_check.check_cluster(tmp_path, tmp_path)


def test_what_would_be_asked_is_said_without_slurm(monkeypatch, tmp_path, repository):
    monkeypatch.chdir(repository)
    monkeypatch.setattr(cluster_check.allocation, "ask_slurm_config", dict)
    answer = (1, "", "scontrol: error: no route\nscontrol: fatal: Could not establish a configuration source\n")
    monkeypatch.setattr(cluster_check, "run_scheduler_command", lambda *_: answer)
    to_cpu = "set-resources: {corpus_tokenise: {slurm_partition: cpu}}\n"
    (tmp_path / "profile.v9+.yaml").write_text(PROFILE + "config: {gpu_type: h100}\n" + to_cpu)
    campaign = tmp_path / "sizes.yaml"
    campaign.write_text(
        "title: sizes\nworkload: {model: gpt2-tiny, corpus: python-docs, tokenizer: bpe-2048, seq_len: 128}\n"
        "work: {global_batch: 8, steps: 25}\nvary: {geometry: [1x2]}\nrepeats: 2\n"
    )
    with pytest.raises(UserError, match="no Slurm here") as error:
        cluster_check.check_cluster(tmp_path, tmp_path, LoadedCampaign(campaign))
    assert "`scontrol show config`: no route; Could not establish a configuration source; run this" in str(error.value)
    (line,) = [line for line in str(error.value).splitlines() if " train " in line]
    assert line.startswith("  2 train (ddp-n1x2): sbatch --partition=gpu --nodes=1 ")
    assert "--gres=gpu:h100:2" in line
    tokenising = [line for line in str(error.value).splitlines() if " corpus_token" in line]
    assert [line.split("sbatch ")[1].split()[0] for line in tokenising] == ["--partition=gpu", "--partition=cpu"]
    assert not any("--gres" in line for line in tokenising)
    assert "a run may take" not in str(error.value)
    (tmp_path / "profile.v9+.yaml").write_text(PROFILE + "set-resources: {train: {runtime: 1}}\n")
    with pytest.raises(UserError, match="a job of train 1 minutes, but a run may take 15"):
        cluster_check.check_cluster(tmp_path, tmp_path, LoadedCampaign(campaign))


def test_resources_of_a_site_are_no_misspelt_ones():
    check_resource_names(["mem_gb", "mem_mb", "disk_mb", "disk_gb", "licenses", "gpu", "gpus", "tmpdir", "slurm_extra"])


@pytest.mark.fault("cluster check, where a profile gives jobs less time than their runs", "a line with both numbers")
def test_a_profile_that_gives_too_little_time(monkeypatch, tmp_path):
    sinfo = "gpu|up|4|1-00:00:00|gpu:h100:4|64|512000"
    short = PROFILE + "set-resources: {train: {runtime: 15}}\n"
    for line in (lines := failed(site(monkeypatch, tmp_path, sinfo, short))):
        assert "a job of train 15 minutes, but a run may take 15 (resources.time_limit)" in line
    assert len(lines) == 2, "one for each size"
    for sound in ("{train: {runtime: 16}}", "{corpus_tokenise: {runtime: 1}}"):
        assert failed(site(monkeypatch, tmp_path, sinfo, f"{PROFILE}set-resources: {sound}\n")) == []
