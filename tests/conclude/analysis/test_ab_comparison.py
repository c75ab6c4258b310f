"""comparison.json from pairs of runs."""

import json

import pytest
from synthetic import campaign, cells, rewrite, write_failure, write_run

from scaleproof.conclude.analysis.ab_comparison import comparison_report, do_same_work, read_pairs
from scaleproof.conclude.analysis.campaign_findings import campaign_findings
from scaleproof.ground.campaign.cells import arms_of
from scaleproof.ground.errors import UserError


@pytest.fixture
def make(tmp_path):
    """A comparison whose arm B is `effect` times as fast; `change` edits its runs."""
    given = campaign(
        vary={}, compare=[{"name": "fused", "a": {"fused_optimizer": False}, "b": {"fused_optimizer": True}}]
    )
    a, b = arms_of(given, given.compare[0])

    def run(effect=1.1, change=lambda k, arm, run: run):
        entries = []
        for k in range(1, 9):
            null, pair = k > 5, {}
            for arm, cell in (("a", a), ("b", a if null else b)):
                seconds = 0.1 * (1 + 0.05 * k) / (effect if arm == "b" and not null else 1)
                made = write_run(tmp_path / f"pair{k}{arm}", cell, k, seconds, seed=ord(arm))
                pair[arm] = str(change(k, arm, made).folder)
            entries.append({"pair": k, "null": null, "first": "a", **pair})
        (tmp_path / "pairs.json").write_text(json.dumps({"comparison": "fused", "pairs": entries}))
        pairs = read_pairs(tmp_path / "pairs.json", a, b)
        findings = campaign_findings("c", [], (), {"fused": pairs})
        entry = comparison_report("c", {"fused": (a, b, pairs)}, findings, cells()).comparisons[0]
        return entry, findings

    run.arms = (a, b)
    return run


def test_an_effect_is_found_through_drift(make):
    found, _ = make()
    assert found.status == "ok"
    assert found.declared == {"execution.fused_optimizer": [False, True]}
    estimate = found.estimate
    assert (estimate.n, len(estimate.null_ratios)) == (5, 3)
    assert estimate.low < 1.1 < estimate.high
    assert estimate.claim == "faster"
    assert len(found.metrics_paths) == 16


def test_other_provenance_is_incomparable_and_give_no_number(make):
    found, _ = make(change=lambda k, arm, run: rewrite(run, lambda d: d["env"].update(torch_version=arm)))
    assert found.status == "incomparable"
    assert "torch_version: a | b" in found.why
    assert found.estimate is None


def test_pairs_of_another_configuration_are_refused_with_what_measures_them_again(make):
    def with_other_steps(k, arm, run):
        return rewrite(run, lambda data: data.update(fingerprint="0" * 16)) if (k, arm) == (8, "b") else run

    with pytest.raises(UserError, match=r"of another configuration than .* snakemake .*--forcerun .*pairs\.json -- "):
        make(change=with_other_steps)


def test_a_run_of_the_other_arm_is_held_against_what_pairs_json_says_of_its_pair(make, tmp_path):
    make()
    (a, b), path = make.arms, tmp_path / "pairs.json"
    written = json.loads(path.read_text())
    for number, kind, letter in ((2, "a null pair, of A twice", "B"), (7, "a pair of A and B", "A")):
        entries = [entry | {"null": entry["null"] ^ (entry["pair"] == number)} for entry in written["pairs"]]
        path.write_text(json.dumps({"pairs": entries}))
        words = f"pairs.json calls pair {number} {kind}, but {tmp_path}/.*pair{number}b.* is a run of {letter}. Restore"
        with pytest.raises(UserError, match=words):
            read_pairs(path, a, b)
    first = written["pairs"][0]
    path.write_text(json.dumps({"pairs": [first | {"a": first["b"], "b": first["a"]}]}))
    with pytest.raises(UserError, match=r"calls pair 1 a pair of A and B, but .*pair1b.* is a run of B"):
        read_pairs(path, a, b)


def test_findings_name_the_arm_of_a_pair(make):
    def busy(k, arm, run):
        return rewrite(run, lambda d: d["host"].update(cpu_busy_before=0.5)) if k == 8 else run

    entry, findings = make(change=busy)
    assert "machine-busy" in entry.findings
    busy_findings = [f for f in findings.of_comparison("fused") if f.code == "machine-busy"]
    names = [name for f in busy_findings for name in f.runs]
    assert len(names) == len(set(names)) == 2, "both arms of a null pair have one cell and one number"


def test_a_failed_check_gives_no_number(make):
    found, _ = make(
        change=lambda k, arm, run: (
            rewrite(run, lambda d: d["window"].update(tokens_per_sec_global=1.0)) if (k, arm) == (1, "a") else run
        )
    )
    assert found.status == "invalid"
    assert "rate-times-time" in found.why


def test_pairs_with_a_failed_run_are_left_out_and_counted(make, tmp_path):
    def fail(k, arm, run):
        failed = k in (1, 2, 3, 4) and arm == "b"
        return write_failure(tmp_path / f"failed{k}", _cell(run), k) if failed else run

    def _cell(run):
        given = campaign(vary={}, cells=[], execution={"fused_optimizer": True})
        from scaleproof.ground.campaign.cells import expand_cells

        return expand_cells(given)[0]

    found, _ = make(change=fail)
    assert found.status == "incomplete"
    assert "oom" in found.why


def test_arms_have_their_rates_and_the_cells_that_do_the_same_work(make):
    arms_of = make(effect=2)[0].arms
    assert (arms_of.a.tokens_per_s.n, arms_of.b.tokens_per_s.n) == (11, 5)
    assert arms_of.b.tokens_per_s.value > 1.5 * arms_of.a.tokens_per_s.value
    assert arms_of.a.same_work == [], "no cell goes without the fused optimizer"
    assert arms_of.b.same_work == ["ddp-n1x1"]


def test_on_one_device_the_strategy_may_differ_and_nothing_else():
    one, two = cells(vary={"geometry": ["1x1", "1x2"], "strategy": ["ddp"]})
    other_one, other_two = cells(vary={"geometry": ["1x1", "1x2"], "strategy": ["fsdp"]})
    assert do_same_work(one, one)
    assert do_same_work(one, other_one)
    assert not do_same_work(two, other_two)
    assert not do_same_work(one, two)
    (seeded,) = cells(vary={"geometry": ["1x1"], "strategy": ["fsdp"], "seed": [7]})
    assert not do_same_work(one, seeded)
