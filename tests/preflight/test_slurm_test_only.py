"""What Slurm is asked about a campaign before its jobs are submitted."""

from types import SimpleNamespace

import pytest
from synthetic import campaign, cells

from scalebench.campaign.cells import arms
from scalebench.errors import UserError
from scalebench.preflight import slurm_test_only
from scalebench.preflight.snakemake_profile import SnakemakeProfile

COMPARE = [
    {"name": "fused", "a": {"fused_optimizer": False}, "b": {"fused_optimizer": True}, "pairs": 2, "null_pairs": 2}
]


def profile(folder, text: str) -> SnakemakeProfile:
    (folder / "profile.v9+.yaml").write_text(text)
    return SnakemakeProfile(folder)


def loaded_campaign(**parts) -> SimpleNamespace:
    given = campaign(compare=COMPARE, **parts)
    own = cells(**parts)
    return SimpleNamespace(
        campaign=given, cells=own, comparisons={"fused": (given.compare[0], *arms(given, given.compare[0]))}
    )


@pytest.mark.parametrize(
    "changed", ["set-resources:\n  train: {gres: \"'gpu:h100:1'\"}\n", "set-resources: [\"train:gres='gpu:h100:1'\"]\n"]
)
def test_the_question_holds_what_the_profile_says(tmp_path, changed):
    site = profile(tmp_path, f"default-resources: {{slurm_partition: gpu, constraint: ib, mem_mb: 1}}\n{changed}")
    (_, request, _), *_ = slurm_test_only.requests(loaded_campaign(vary={"geometry": ["2x1"]}))
    line = slurm_test_only.command(slurm_test_only.as_sent(request, site.replaced("train")), site.resources("train"))
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


def test_no_devices_are_asked_for_where_the_profile_says_so(tmp_path):
    site = profile(tmp_path, "set-resources: {train: {gres: \"''\"}}")
    (_, request, _), *_ = slurm_test_only.requests(loaded_campaign())
    sent = slurm_test_only.as_sent(request, site.replaced("train"))
    assert not [word for word in slurm_test_only.command(sent, site.resources("train")) if word.startswith("--gres")]
    assert slurm_test_only.describe_request(sent) == "1 node with 4 cores, 8000 MB for 17 minutes"


def test_equal_requests_are_asked_about_once_and_pairs_for_all_their_time(tmp_path, monkeypatch):
    site = profile(tmp_path, "default-resources: {slurm_partition: gpu}\n")
    asked = []

    def answer(line, **options):
        asked.append(line)
        late = "--time=136" in line
        return SimpleNamespace(
            returncode=int(late), stderr="sbatch: x\nallocation failure: Requested time limit is invalid\n"
        )

    monkeypatch.setattr(slurm_test_only.subprocess, "run", answer)
    found = list(
        slurm_test_only.refusals(loaded_campaign(vary={"precision": ["fp32", "bf16"], "geometry": ["1x1"]}), site)
    )
    assert len(asked) == 2
    assert found[0][1:] == ("ddp-fp32-n1x1 and 1 more", None)
    assert found[1][1:] == ("the 4 pairs of fused", "Requested time limit is invalid")
    assert found[1][0].endswith("for 136 minutes")


def test_partitions_that_rules_are_sent_to(tmp_path):
    site = profile(tmp_path, "set-resources: {tokenizer: {slurm_partition: cpu}, tokenise: {slurm_partition: cpu}}")
    assert site.partitions == {"cpu": ["tokenizer", "tokenise"]}


def test_a_folder_without_a_profile(tmp_path):
    with pytest.raises(UserError, match=r"profile\.v9\+\.yaml is missing there"):
        SnakemakeProfile(tmp_path)
