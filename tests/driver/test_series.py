"""Comparisons that share one error budget."""

import json
from types import SimpleNamespace

from scaleproof.driver import ab
from scaleproof.driver.ab import run_comparison
from scaleproof.driver.ab_campaign import AbRequest, make_campaign


def test_a_series_gives_each_comparison_its_part(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ab, "run_snakemake", lambda *_, **__: None)
    monkeypatch.setattr(ab, "read_verdict", lambda *_: ab.AbVerdict("same", "as fast"))
    crash = SimpleNamespace(failure_class="crash")
    failed = SimpleNamespace(metrics=SimpleNamespace(failure=crash, total_wall_time_s=None))
    monkeypatch.setattr(ab, "read_run", lambda place: failed)
    entries = tmp_path / "results/series/tuning.json"
    for name in ("b", "c", "d"):
        run_comparison(AbRequest(["a"], [name], series="tuning"))
    parts = [entry["level"] for entry in json.loads(entries.read_text()).values()]
    assert parts == sorted(parts, reverse=True)
    assert sum(parts) < 0.05
    run_comparison(AbRequest(["a"], ["b"], series="tuning"))
    assert len(json.loads(entries.read_text())) == 3, "asked again, it spends nothing more"
    assert make_campaign(AbRequest(["a"], ["b"]), 9, parts[0])["repeats"]["chance"] == parts[0]
