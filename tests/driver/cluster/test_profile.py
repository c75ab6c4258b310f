"""What a profile says of Snakemake: wrong keys and values are named with their line, before anything is sent."""

from pathlib import Path

import pytest

from scaleproof.driver.cluster.profile import SnakemakeProfile, check_profile_of_call
from scaleproof.driver.snakemake_view import run_snakemake
from scaleproof.ground.errors import UserError


@pytest.mark.parametrize("key", ["default-resources: {slurm_acount: abc}", "set-resources: {train: {constrain: x}}"])
def test_a_misspelt_resource_of_a_profile_is_named(tmp_path, key):
    (tmp_path / "profile.v9+.yaml").write_text("executor: scaleproof\n" + key + "\n")
    with pytest.raises(UserError, match=r'Did you mean "(slurm_account|constraint)"'):
        SnakemakeProfile(tmp_path).resources("train")


@pytest.mark.parametrize("value", ["", "null", "''"])
def test_a_resource_without_a_value_is_named(tmp_path, value):
    (tmp_path / "profile.v9+.yaml").write_text(
        f"executor: scaleproof\ndefault-resources:\n  slurm_partition: {value}\n"
    )
    with pytest.raises(UserError, match=r"line 3.*default-resources.slurm_partition cannot be .*; allowed: a word"):
        SnakemakeProfile(tmp_path).resources("train")


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ("executor: slurmm", "slurm"),
        ("executor: scaleproof\nset-resources: {trian: {mem_mb: 1}}", "train"),
        ("executor: scaleproof\nset-resources: {trainn: {mem_mb: 1}}", "train"),
    ],
)
def test_a_misspelt_executor_and_a_short_rule_are_named(tmp_path, settings, name):
    (tmp_path / "profile.v9+.yaml").write_text(f"{settings}\n")
    with pytest.raises(UserError, match=f'Did you mean "{name}"?'):
        SnakemakeProfile(tmp_path)


@pytest.mark.parametrize(
    "settings",
    [
        "executor: cluster-generic",
        "set-resources: {trim: {mem_mb: 1}, pair: {mem_mb: 1}, train2: {mem_mb: 1}}",
        "__use_yte__: true\njobs: ?4 * 5",
    ],
)
def test_executors_and_rules_of_others_are_left_alone(tmp_path, settings):
    (tmp_path / "profile.v9+.yaml").write_text(f"{settings}\n")
    assert SnakemakeProfile(tmp_path).settings


@pytest.mark.parametrize(
    "key", ["set-resources: {corpus_tokeniser: {mem_mb: 1}}", "set-threads: {corpus_tokenize: 32}"]
)
def test_a_misspelt_rule_of_a_profile_is_named(tmp_path, key):
    (tmp_path / "profile.v9+.yaml").write_text(f"executor: scaleproof\n{key}\n")
    with pytest.raises(UserError, match=r'the workflow has no rule .* Did you mean "corpus_tokeni[sz]er?"'):
        SnakemakeProfile(tmp_path)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("set-threads: {train: four}", "line 2: set-threads.train cannot be 'four'; allowed: a whole number >= 1"),
        ("jobs: many", "line 2: jobs cannot be 'many'; allowed: a whole number >= 1 or unlimited"),
        ("jobs: 0", "line 2: jobs cannot be 0; allowed: a whole number >= 1 or unlimited"),
        ("seconds-between-status-checks: 0", "seconds-between-status-checks cannot be 0; allowed: a whole number >= 1"),
        ("scaleproof-same-failures: -1", "cannot be -1; allowed: a whole number >= 0"),
        ("cluster: sbatch", 'line 2: snakemake has no option "cluster"'),
        ("latency-wait: 60s", "line 2: latency-wait cannot be '60s'; allowed: a whole number"),
        ("default-resources: {mem_mb: 4GB}", "default-resources.mem_mb cannot be '4GB'; allowed: a whole number .MB"),
        ("set-resources: {train: {runtime: two hours}}", "train.runtime cannot be 'two hours'; allowed: a whole"),
        (
            "default-resources:\n  gres: gpu:a100:4",
            "line 3: default-resources.gres reaches no job that measures: how many devices .* config: {gpu_type: NAME}",
        ),
        (
            "set-resources:\n- train:slurm_extra=--nice",
            "set-resources.train.slurm_extra cannot be set: it comes from",
        ),
        (
            "default-resources: {partition: gpu}",
            'knows "partition". Did you mean "slurm_partition"',
        ),
        ("max-jobz: 5", 'line 2: snakemake has no option "max-jobz". Those of a plugin need it installed'),
        ("slurm-requeue: true", 'line 2: snakemake has no option "slurm-requeue". Those of a plugin'),
        ("keep-going: maybe", "line 2: keep-going cannot be 'maybe'; allowed: true, false"),
        ("scheduler: ilpp", "line 2: scheduler cannot be 'ilpp'; allowed: greedy, ilp"),
        (
            "scaleproof-exclude-nodes: [n3, n7]",
            "line 2: scaleproof-exclude-nodes cannot .* several as one text: a,b",
        ),
        ("scaleproof-variables: {A: 1}", "line 2: scaleproof-variables cannot be .* a word or a number"),
        ("scaleproof-array-jobs: trian", 'line 2: the workflow has no rule "trian". Did you mean "train"'),
        ("resources: {gpu: z}", "line 2: resources: Resource 'gpu' was given value 'z'"),
        ("slurm_account: ml", r'no option "slurm_account"\. It goes under default-resources of the profile'),
        (
            "partition: gpu",
            r'no option "partition"\. It goes under default-resources of the profile, as slurm_partition',
        ),
        ("default-resources:\n- slurm_partition: gpu", "line 2: default-resources .* or a list of NAME=VALUE"),
        ("default-resources: {slurm_account: <account>}", "cannot be '<account>'; allowed: what this placeholder"),
        ("scaleproof-variables: MY MODE; rm", "line 2: scaleproof-variables cannot be 'MODE;'; allowed: names of"),
        ("default-resources:\n  slurm_partitoin: gpu", 'line 3: no scheduler knows "slurm_partitoin"'),
    ],
)
def test_a_wrong_value_of_a_profile_is_named_with_its_line(tmp_path, key, message):
    (tmp_path / "profile.v9+.yaml").write_text(f"executor: scaleproof\n{key}\n")
    with pytest.raises(UserError, match=message):
        SnakemakeProfile(tmp_path).resources("train")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "profile.v9[+].yaml is empty: a profile is expected, with lines such as 'executor: scaleproof'"),
        ("- jobs", "profile.v9[+].yaml, line 1: a list stands here; .*: a mapping is expected"),
        ("jobs", "profile.v9[+].yaml: a mapping is expected"),
        ("jobs: 2\nexecutor: slurm", "line 2: executor cannot be 'slurm'; allowed: cluster-.* its plugin: pip install"),
    ],
)
def test_a_profile_that_sends_nothing_is_named(tmp_path, text, message):
    (tmp_path / "profile.v9+.yaml").write_text(text)
    with pytest.raises(UserError, match=message):
        SnakemakeProfile(tmp_path)


@pytest.mark.parametrize(
    "key",
    [
        *("jobs: unlimited", "jobs: 20", "cores: all", "latency-wait: 60", "retries: 1", "config: {}"),
        "scaleproof-variables: MY_MODE, SITE_*",
        *("keep-going: 'yes'", "scaleproof-array-jobs: train,pairs", "quiet: [rules]", "groups: {a: b}"),
    ],
)
def test_numbers_of_a_profile_are_taken(tmp_path, key):
    (tmp_path / "profile.v9+.yaml").write_text(f"executor: scaleproof\n{key}\n")
    assert SnakemakeProfile(tmp_path).resources("train") == {}


@pytest.mark.parametrize("value", ["90", "2h", "1 h 30m", "60 * attempt", "max(10, input.size_mb)"])
def test_times_and_expressions_of_snakemake_are_taken(tmp_path, value):
    (tmp_path / "profile.v9+.yaml").write_text(f"executor: scaleproof\ndefault-resources: {{runtime: '{value}'}}\n")
    assert SnakemakeProfile(tmp_path).resources("train") == {"runtime": value}


@pytest.mark.parametrize("words", [["snakemake", "--profile", "mine", "x"], ["snakemake", "--profile=mine"]])
def test_the_profile_of_a_call_is_checked(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    file = tmp_path / "mine/profile.v9+.yaml"
    file.write_text("executor: scaleproof\nset-resources: {trian: {runtime: 60}}\n")
    with pytest.raises(UserError, match=r'mine/profile.v9\+.yaml, line 2: .* Did you mean "train"'):
        check_profile_of_call(words)
    file.write_text(
        "executor: scaleproof\nset-resources: {train: {runtime: 60}}\ndefault-resources: {slurm_extra: -v}\n"
    )
    check_profile_of_call(words)
    check_profile_of_call(["snakemake", "--cores", "2", "x"])


def test_a_profile_by_a_variable_is_checked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "slrum")
    fault = r"the variable SNAKEMAKE_PROFILE: slrum: no such profile\. "
    with pytest.raises(UserError, match=f"{fault}There are no profiles in "):
        check_profile_of_call(["snakemake"])
    for folder in ("profiles/slurm", "profiles/lsf"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "config.yaml").write_text("jobs: 2\n")
    with pytest.raises(UserError, match=rf'{fault}Did you mean "profiles/slurm".*: profiles/lsf, profiles/slurm\)$'):
        check_profile_of_call(["snakemake"])
    (tmp_path / "slurm").symlink_to("profiles/slurm")
    with pytest.raises(UserError, match=rf'{fault}Did you mean "slurm"'):
        check_profile_of_call(["snakemake"])
    with pytest.raises(UserError, match="the variable SNAKEMAKE_PROFILE"):
        run_snakemake(Path("mine.yaml"), [])
    check_profile_of_call(["snakemake", "--profile", "none"])


def test_a_profile_may_be_named_by_its_file(tmp_path, monkeypatch):
    """As Snakemake takes it."""
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("executor: scaleproof\njobs: 20\n")
    check_profile_of_call(["snakemake", "--profile", "mine.yaml"])
    Path("mine.yaml").write_text("executor: scaleproof\njobs: many\n")
    with pytest.raises(UserError, match=r"mine\.yaml, line 2: jobs cannot be 'many'"):
        check_profile_of_call(["snakemake", "--profile", "mine.yaml"])


def test_other_rules_of_a_profile_are_of_other_workflows(tmp_path):
    rules = "{train: 1, corpus_tokenise: input.size / 9, scaleproof_train: 1, align: 4, book: 1}"
    (tmp_path / "profile.v9+.yaml").write_text(f"executor: scaleproof\nset-threads: {rules}\n")
    assert SnakemakeProfile(tmp_path).settings["set-threads"]["align"] == 4
