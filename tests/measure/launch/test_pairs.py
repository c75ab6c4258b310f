"""A/B pairs: their order, and what an interrupted comparison keeps."""

from collections import Counter
from pathlib import Path

import pytest
from synthetic import campaign, write_run

from scaleproof.ground.campaign.cells import arms_of
from scaleproof.ground.code_dependencies import MEASURING, code_sha256
from scaleproof.ground.errors import UserError
from scaleproof.measure.launch.pairs import PAIRS, plan_pairs, run_pairs


def loaded_campaign(**changes):
    entry = {
        "name": "fused",
        "a": {"fused_optimizer": False},
        "b": {"fused_optimizer": True},
        "pairs": 6,
        "null_pairs": 4,
    }
    found = campaign(compare=[entry | changes], vary={})
    return found, found.compare[0]


def test_null_pairs_are_mixed_in_and_both_arms_start_equally_often():
    found = plan_pairs(loaded_campaign()[1])
    assert Counter(e["null"] for e in found) == {False: 6, True: 4}
    kinds = [e["null"] for e in found]
    assert kinds not in (sorted(kinds), sorted(kinds, reverse=True))
    assert Counter((e["null"], e["first"]) for e in found) == {
        (False, "a"): 3,
        (False, "b"): 3,
        (True, "a"): 2,
        (True, "b"): 2,
    }
    assert plan_pairs(loaded_campaign()[1]) == found, "the same in every invocation"


def test_each_pair_runs_both_arms_and_a_null_pair_runs_a_twice(tmp_path):
    given, comparison = loaded_campaign(pairs=2, null_pairs=2)
    a, b = arms_of(given, comparison)
    made = []
    entries = run_pairs(comparison, a, b, tmp_path, lambda cell, k, out: made.append((k, cell.slug, out.name)))
    assert (tmp_path / PAIRS).exists()
    assert len(made) == 8
    for entry in entries:
        mine = [(slug, arm) for k, slug, arm in made if k == entry["pair"]]
        assert mine[0][1] == entry["first"]
        assert {slug for slug, _ in mine} == ({a.slug} if entry["null"] else {a.slug, b.slug})


@pytest.mark.fault("an A/B comparison is interrupted", "whole pairs are kept")
def test_whole_pairs_of_an_interrupted_comparison_are_kept(tmp_path):
    given, comparison = loaded_campaign(pairs=2, null_pairs=2)
    a, b = arms_of(given, comparison)

    def run(cell, k, out: Path):
        made.append((k, out.name))
        source = write_run(tmp_path / f"made{len(made)}", cell, k)
        text = (source.folder / "training_metrics.json").read_text().replace("c" * 64, code_sha256(*MEASURING))
        out.mkdir(parents=True)
        (out / "training_metrics.json").write_text(text)

    made: list = []
    run_pairs(comparison, a, b, tmp_path / "out", run)
    (tmp_path / "out/pair3/a/training_metrics.json").unlink()
    (tmp_path / "out/pair3/b/training_metrics.json").unlink()
    for arm in "ab":
        (tmp_path / f"out/pair3/{arm}").rmdir()
    made.clear()
    run_pairs(comparison, a, b, tmp_path / "out", run)
    assert sorted(made) == [(3, "a"), (3, "b")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"b": {}, "a": {}}, "are the same cell"),
        ({"b": {"geometry": {"nodes": 1, "devices_per_node": 2}}}, "different geometries"),
        ({"b": {"tokenizer": "bpe-512"}}, "different corpora or tokenizers"),
    ],
)
def test_arms_that_cannot_be_paired(changes, message):
    with pytest.raises(UserError, match=message):
        arms_of(*loaded_campaign(**changes))
