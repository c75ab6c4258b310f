"""What Slurm is asked about a campaign before its jobs are submitted."""

import re
from types import SimpleNamespace

import pytest
from synthetic import campaign, cells

from scaleproof.driver.cluster import questions, slurm
from scaleproof.driver.cluster.profile import SnakemakeProfile, check_profile
from scaleproof.ground.campaign.cells import arms_of
from scaleproof.ground.campaign.shared_jobs import may_share_jobs, plan_shared_jobs
from scaleproof.ground.errors import UserError

COMPARE = [
    {"name": "fused", "a": {"fused_optimizer": False}, "b": {"fused_optimizer": True}, "pairs": 2, "null_pairs": 2}
]


def profile(folder, text: str) -> SnakemakeProfile:
    (folder / "profile.v9+.yaml").write_text(text)
    return SnakemakeProfile(folder)


def loaded_campaign(traced: bool = False, **parts) -> SimpleNamespace:
    given = campaign(compare=COMPARE, **parts)
    own = cells(**parts)
    return SimpleNamespace(
        campaign=given,
        cells=own,
        comparisons={"fused": (given.compare[0], *arms_of(given, given.compare[0]))},
        traced=own[:1] if traced else [],
        shared_jobs={job.name: job for job in plan_shared_jobs(given, lambda repeat: own)}
        if may_share_jobs(given)
        else {},
    )


@pytest.mark.parametrize(
    "changed", ["set-resources:\n  train: {gres: \"'gpu:h100:1'\"}\n", "set-resources: [\"train:gres='gpu:h100:1'\"]\n"]
)
def test_the_question_holds_what_the_profile_says(tmp_path, changed):
    site = profile(tmp_path, f"default-resources: {{slurm_partition: gpu, constraint: ib, mem_mb: 1}}\n{changed}")
    (_, request, *_), *_ = questions.measuring_jobs(loaded_campaign(vary={"geometry": ["2x1"]}))
    sent = questions.with_profile_values(site.site.resources(request), site.replaced("train"))
    line = questions.question_to_sbatch(sent, site.resources("train"))
    assert line == [
        *(
            "sbatch",
            "--test-only",
            "--partition=gpu",
            "--constraint=ib",
            "--nodes=2",
            "--ntasks=2",
            "--cpus-per-task=4",
        ),
        *("--mem=8000", "--time=17", "--gres=gpu:h100:1", "--no-kill", "--exclusive", "--wrap=true"),
    ]


def test_a_replay_asks_for_one_node_whatever_its_cell_has():
    """It is one process."""
    by_rule = {
        rule: request for rule, request, *_ in questions.measuring_jobs(loaded_campaign(vary={"geometry": ["2x4"]}))
    }
    assert (by_rule["train"].nodes, by_rule["reference"].nodes) == (2, 1)
    assert by_rule["reference"].memory_mb == by_rule["train"].memory_mb
    assert (by_rule["train"].exclusive, by_rule["reference"].exclusive) == (True, False), "it is not timed"


def test_no_devices_are_asked_for_where_the_profile_says_so(tmp_path):
    site = profile(tmp_path, "set-resources: {train: {gres: \"''\"}}")
    (_, request, *_), *_ = questions.measuring_jobs(loaded_campaign())
    sent = questions.with_profile_values(site.site.resources(request), site.replaced("train"))
    assert not [
        word for word in questions.question_to_sbatch(sent, site.resources("train")) if word.startswith("--gres")
    ]
    assert questions.describe_request(sent) == "1 node with 4 cores, 8000 MB for 17 minutes"


def test_equal_requests_are_asked_about_once_and_pairs_for_all_their_time(tmp_path, monkeypatch):
    site = profile(tmp_path, "default-resources: {slurm_partition: gpu}\n")
    asked = []

    def answer(line, environment, timeout):
        asked.append(line)
        return int("--time=136" in line), "", "sbatch: x\nallocation failure: Requested time limit is invalid\n"

    monkeypatch.setattr(slurm, "run_scheduler_command", answer)
    loaded = loaded_campaign(vary={"precision": ["fp32", "bf16"], "geometry": ["1x1"]})
    first, second, *_ = questions.queue_requests(loaded, site)  # and the reference, and tokens
    answers = [questions.ask_why_refused(request, site) for request in (first, second)]
    assert len(asked) == 2
    assert (first.who, first.jobs, answers[0]) == ("ddp-fp32-n1x1 and 1 more", 6, None)
    assert (second.who, second.jobs, answers[1]) == ("the 4 pairs of fused", 1, "x; Requested time limit is invalid")
    assert questions.describe_request(second.resources).endswith("for 136 minutes")
    assert first.node_hours == pytest.approx(6 * 17 / 60)


def test_several_runs_in_one_job_are_asked_about_with_the_time_of_all(tmp_path):
    resources = {"time_limit": 8, "minutes_per_job": 60}
    loaded = loaded_campaign(vary={"geometry": ["1x1", "2x4"]}, repeats=8, resources=resources)
    requests = questions.queue_requests(loaded, profile(tmp_path, "default-resources: {slurm_partition: gpu}\n"))
    shared = [request for request in requests if request.rule == "shared_job"]
    assert not [request for request in requests if request.rule == "train"]
    assert [(r.nodes, r.minutes, r.jobs, r.names) for r in shared] == [
        (1, 60, 1, ("the 6 runs of job 1x1-rep1-6",)),
        (1, 20, 1, ("the 2 runs of job 1x1-rep7-8",)),
        (2, 60, 1, ("the 6 runs of job 2x4-rep1-6",)),
        (2, 20, 1, ("the 2 runs of job 2x4-rep7-8",)),
    ]


def test_a_trace_is_a_job_too(tmp_path):
    rules = [rule for rule, *_ in questions.measuring_jobs(loaded_campaign(traced=True))]
    assert rules.count("trace_capture") == 1


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ("{}", ["--gres=gpu:1", "--no-kill", "--exclusive"]),
        ("{gpu_type: h100}", ["--gres=gpu:h100:1", "--no-kill", "--exclusive"]),
        ("{gpu_option: gpus-per-node}", ["--no-kill", "--exclusive", "--gpus-per-node=1"]),
        ("{gpu_option: gpus-per-node, gpu_type: h100}", ["--no-kill", "--exclusive", "--gpus-per-node=h100:1"]),
        ("{gpu_option: none}", ["--no-kill", "--exclusive"]),
        ("{exclusive: false}", ["--gres=gpu:1", "--no-kill"]),
        ("[exclusive=false, gpu_type=h100]", ["--gres=gpu:h100:1", "--no-kill"]),
    ],
)
def test_a_site_s_way_of_asking(tmp_path, config, options):
    """The options are those that the rules give as resources as well."""
    site = profile(tmp_path, f"config: {config}\n")
    request, *_ = questions.queue_requests(loaded_campaign(), site)
    line = questions.question_to_sbatch(request.resources, site.resources("train"))
    known = ("--gres", "--gpus", "--no-kill", "--exclusive")
    assert [word for word in line if word.startswith(known)] == options
    (_, plain, *_), *_ = questions.measuring_jobs(loaded_campaign())
    sent = site.site.resources(plain)
    assert (sent["gres"], sent["slurm_extra"]) == (request.resources["gres"], request.resources["slurm_extra"])


def test_partitions_that_rules_are_sent_to(tmp_path):
    site = profile(tmp_path, "set-resources: {tokenizer: {slurm_partition: cpu}, tokenise: {slurm_partition: cpu}}")
    assert site.partitions == {"cpu": ["tokenizer", "tokenise"]}


def test_a_folder_without_a_profile(tmp_path):
    with pytest.raises(UserError, match=r"profile\.v9\+\.yaml is missing there"):
        SnakemakeProfile(tmp_path)


def test_the_site_s_own_words_are_kept(tmp_path):
    """As job_submit.lua writes them, before sbatch's general ones."""
    said = (
        "sbatch: error: exclusive jobs are not allowed in partition one\n"
        "sbatch: error: ask hpc@site for help\n\n"
        "allocation failure: Unspecified error\n"
    )
    command = ["sh", "-c", f"echo '{said}' >&2; exit 1"]
    reason = "exclusive jobs are not allowed in partition one; ask hpc@site for help; Unspecified error"
    assert slurm.why_refused(command) == reason
    assert slurm.why_refused(["sh", "-c", "exit 3"]) == "exit code 3"
    assert slurm.why_refused(["sh", "-c", "echo 'sbatch: Job 5 to start at noon' >&2"]) is None


def test_a_controller_that_does_not_answer_is_said(monkeypatch):
    """The driver, which asks before it sends a job elsewhere, must not end of it."""
    monkeypatch.setattr(slurm, "ANSWER_S", 0.2)
    assert slurm.why_refused(["sleep", "600"]) == "sleep does not answer within 0.2 s"


def test_a_profile_is_looked_for_where_snakemake_looks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for folder in ("slurm", "profiles/default", "home/.config/snakemake/mine"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "profile.yaml").write_text("jobs: 4\n")
    check_profile("slurm")
    check_profile("mine")
    with pytest.raises(UserError, match=r'default: no such profile\. Did you mean "profiles/default"\?'):
        check_profile("default")
    (tmp_path / "slurm/profile.yaml").write_text("jobs: [4\n")
    with pytest.raises(UserError, match=r"slurm/profile\.yaml, line 2, column 1: not valid YAML"):
        check_profile("slurm")
    with pytest.raises(
        UserError, match=r'slurmm: no such profile\. Did you mean "slurm"\? \(profiles: profiles/default, slurm\)'
    ):
        check_profile("slurmm")


@pytest.mark.parametrize(
    ("profile", "hint", "is_project"),
    [("slurm", "", False), ("slrum", "", False), ("slrum", ' Did you mean "slurm"?', True)],
)
def test_elsewhere_than_in_a_project_the_place_of_profiles_is_said(tmp_path, monkeypatch, profile, hint, is_project):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if is_project:
        (tmp_path / "slurm").mkdir()
        (tmp_path / "slurm/profile.yaml").write_text("jobs: 4\n")
    end = " (profiles: slurm)" if is_project else f" There are no profiles in {tmp_path}: cd to a clone, or to a folder"
    with pytest.raises(UserError, match=re.escape(f"{profile}: no such profile.{hint}{end}")):
        check_profile(profile)
