"""Planted faults on real ranks: each is named. The whole list: `python benchmarks/planted_faults.py`."""

from pathlib import Path

import pytest
from faults import (  # noqa: F401  (they register)
    planted,
    planted_beside,
    planted_blind_spots,
    planted_settings,
    planted_unnoticed,
    planted_window,
    planted_work,
    ranks,
)
from patience import OF_A_BUSY_MACHINE

from scaleproof.conclude.checks.all_checks import ALSO, audit

FAST = [fault for fault in planted.FAULTS if fault.fast]
# Right about every run here: tiny models, short windows, one run of each cell.
BY_DESIGN = {"window-short", "single-run", "state-differs", "data-wait", "replay-in-part"}
ATTEMPTS = 3
QUIET = 0.03  # part of the machine's CPU time that others may use on a machine that is called quiet


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    ranks.load()
    return tmp_path_factory.mktemp("results") / "faults"


def named(results: Path, tokens: Path, name: str, keys: dict, patch, large=False) -> tuple[dict[str, str], set[str]]:
    """Findings about a run by code, and those of them that a sound run may have on this machine, as busy as it was.

    `large`: as of a large model, three steps are replayed; all are witnessed.
    """
    cell = ranks.cell(**keys)
    if large:
        results = results / "large"
    ranks.write_reference(cell, tokens, results / "reference", 3 if large else None)
    steps = cell.work.warmup_steps + cell.work.steps if large else 0
    with ranks.OtherLoad() as others:
        run = ranks.run(cell, tokens, results / "runs" / name.replace(" ", "-") / "rep1", patch, steps)
    codes = {}
    for finding in audit("faults", [run]).findings:
        with_it = finding.evidence.partition(ALSO)[2].split(", ")  # what the finding explains, too
        codes |= {code: finding.evidence for code in (finding.code, *with_it) if code}
    return codes, BY_DESIGN | (OF_A_BUSY_MACHINE if others.share > QUIET else set())


def accused(results: Path, tokens: Path, name: str, keys: dict, large: bool = False) -> dict[str, str]:
    """Wrong findings about a sound run, by code.

    What a neighbour on the same host does to caches and clocks, nobody here sees: a finding that is right on a busy
    machine is wrong only if it comes again in each of three runs.
    """
    again: dict[str, str] = {}
    for attempt in range(ATTEMPTS):
        codes, allowed = named(results, tokens, f"{name} {attempt}", keys, lambda: None, large)
        wrong = {code: evidence for code, evidence in codes.items() if code not in allowed}
        if not wrong or not set(wrong) <= OF_A_BUSY_MACHINE:
            return wrong
        again = {code: wrong[code] for code in wrong if not attempt or code in again}
    return again


@pytest.mark.parametrize("kind", ["ddp 1x2", "fsdp", "steep", "steep, one device", "steep in bf16"])
def test_a_sound_run_is_not_accused(results, tokens, kind):
    assert accused(results, tokens, f"sound {kind}", planted.SOUND[kind]) == {}


WITNESSED = ("ddp 1x2", "short warm-up", "fsdp", "zero1", "zero3", "zero3, short warm-up", "bf16", "steep")


@pytest.mark.parametrize("kind", WITNESSED)
def test_a_sound_run_with_a_witness_is_not_accused(results, tokens, kind):
    assert accused(results, tokens, f"witnessed {kind}", planted.SOUND[kind], large=True) == {}


@pytest.mark.parametrize("fault", FAST, ids=lambda fault: fault.name)
def test_a_planted_fault_is_named(results, tokens, fault):
    for attempt in range(ATTEMPTS):
        codes, allowed = named(results, tokens, f"{fault.name} {attempt}", fault.keys, fault.patch, fault.large)
        if set(codes) & set(fault.codes) or allowed == BY_DESIGN:  # other programs may hide a fault of time
            break
    assert set(codes) & set(fault.codes), codes


def test_what_faults_replace_is_there():
    """Also of those that run in benchmarks/planted_faults.py alone: functions change their names."""
    for module, name in planted.REPLACED:
        owner, last = planted.owner_of(module, name)
        assert hasattr(owner, last), f"{module}.{name}"
