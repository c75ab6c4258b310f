"""comparison.json from pairs of runs."""

import json

import pytest
from synthetic import campaign, rewrite, write_failure, write_run

from scalebench.analysis.ab_comparison import comparison_report, read_pairs
from scalebench.analysis.campaign_findings import campaign_findings
from scalebench.campaign.cells import arms


@pytest.fixture
def make(tmp_path):
    """A comparison whose arm B is `effect` times as fast; `change` edits its runs."""
    given = campaign(
        vary={}, compare=[{"name": "fused", "a": {"fused_optimizer": False}, "b": {"fused_optimizer": True}}]
    )
    a, b = arms(given, given.compare[0])

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
        pairs = read_pairs(tmp_path / "pairs.json")
        findings = campaign_findings("c", [], (), {"fused": pairs})
        entry = comparison_report("c", {"fused": (a, b, pairs)}, findings)["comparisons"][0]
        return entry | {"all_findings": findings}

    return run


def test_an_effect_is_found_through_drift(make):
    found = make()
    assert found["status"] == "ok"
    assert found["declared"] == {"execution.fused_optimizer": [False, True]}
    estimate = found["estimate"]
    assert (estimate["n"], len(estimate["null_ratios"])) == (5, 3)
    assert estimate["low"] < 1.1 < estimate["high"]
    assert estimate["claim"] == "faster"
    assert len(found["metrics_paths"]) == 16


def test_other_provenance_is_incomparable_and_give_no_number(make):
    found = make(change=lambda k, arm, run: rewrite(run, lambda d: d["env"].update(torch_version=arm)))
    assert found["status"] == "incomparable"
    assert "torch_version: a | b" in found["why"]
    assert found["estimate"] is None


def test_findings_name_the_arm_of_a_pair(make):
    def busy(k, arm, run):
        return rewrite(run, lambda d: d["host"].update(cpu_busy_before=0.5)) if k == 8 else run

    entry = make(change=busy)
    assert "machine-busy" in entry["findings"]
    busy_findings = [f for f in entry["all_findings"].of_comparison("fused") if f.code == "machine-busy"]
    names = [name for f in busy_findings for name in f.runs]
    assert len(names) == len(set(names)) == 2, "both arms of a null pair have one cell and one number"


def test_a_failed_check_gives_no_number(make):
    found = make(
        change=lambda k, arm, run: (
            rewrite(run, lambda d: d["window"].update(tokens_per_sec_global=1.0)) if (k, arm) == (1, "a") else run
        )
    )
    assert found["status"] == "invalid"
    assert "rate-times-time" in found["why"]


def test_pairs_with_a_failed_run_are_left_out_and_counted(make, tmp_path):
    def fail(k, arm, run):
        failed = k in (1, 2, 3, 4) and arm == "b"
        return write_failure(tmp_path / f"failed{k}", _cell(run), k) if failed else run

    def _cell(run):
        given = campaign(vary={}, cells=[], execution={"fused_optimizer": True})
        from scalebench.campaign.cells import expand

        return expand(given)[0]

    found = make(change=fail)
    assert found["status"] == "incomplete"
    assert "oom" in found["why"]
