"""Planted faults on real ranks: each is named. The whole list: `python benchmarks/planted_faults.py`."""

from pathlib import Path

import pytest
from faults import planted, planted_settings, ranks  # noqa: F401  (planted_settings registers)

from scalebench.audit.campaign.all_checks import audit

FAST = [fault for fault in planted.FAULTS if fault.fast]
HARMLESS = {
    "window-short",
    "machine-busy",
    "process-starved",
    "process-idle",
    "step-stalled",
    "data-wait",
    "single-run",
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ranks.load()
    return tmp_path_factory.mktemp("results") / "faults"


def named(results: Path, tokens: Path, name: str, keys: dict, patch) -> dict[str, str]:
    cell = ranks.cell(**keys)
    ranks.write_reference(cell, tokens, results / "reference")
    run = ranks.run(cell, tokens, results / "runs" / name.replace(" ", "-") / "rep1", patch)
    return {finding.code: finding.evidence for finding in audit("faults", [run]).findings}


@pytest.mark.parametrize("kind", ["ddp 1x2", "fsdp"])
def test_a_sound_run_is_not_accused(results, tokens, kind):
    codes = named(results, tokens, f"sound {kind}", planted.SOUND[kind], lambda: None)
    assert set(codes) <= HARMLESS | {"state-differs", "ranks-slow-by-turns", "ranks-start-apart"}, codes


@pytest.mark.parametrize("fault", FAST, ids=lambda fault: fault.name)
def test_a_planted_fault_is_named(results, tokens, fault):
    codes = named(results, tokens, fault.name, fault.keys, fault.patch)
    assert set(codes) & set(fault.codes), codes
