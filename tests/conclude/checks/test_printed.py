"""Checks of somebody's program: each fires on its fault and on nothing else."""

import shlex
import sys
from pathlib import Path

import pytest
import small_programs
from patience import HANGS

from scaleproof.auditor.read.printed_log import printed_log
from scaleproof.conclude.checks.all_checks import audit
from scaleproof.conclude.checks.printed import losses_of_sizes, sizes_learn_alike
from scaleproof.conclude.report.page_facts import collect_run_facts, protocol_facts
from scaleproof.ground.campaign.cells import Cell, expand_cells
from scaleproof.ground.campaign.config import Campaign
from scaleproof.ground.records.run import Run, TimedRun, read_run
from scaleproof.measure.launch.run import run_cell
from scaleproof.measure.trainer.request import PlannedRun

OWN = {
    "printed-time-too-long",
    "printed-time-incomplete",
    "did-not-train",
    "clocks-rank-differently",
    "counts-differ",
    "start-up-timed",
    "machine-busy",
}
ARGUMENTS = {
    "sound": "--ms 30",
    "hidden": "--ms 16 --hidden-ms 16",
    "constant": "--ms 16 --loss 3.1234",
    "coarse": "--ms 16 --loss 3.1",
    "zero": "--ms 16 --zero-from 0",
    "learned": "--ms 16 --zero-from 5",  # within the warm-up
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, TimedRun]:
    """A run of each kind of program, by its name."""
    folder = small_programs.write(tmp_path_factory.mktemp("programs"))
    command = f"{shlex.quote(sys.executable)} {folder}/nanogpt.py {{kind}}"
    campaign = {"title": "x", "workload": {"command": command}, "vary": {"kind": ARGUMENTS}}
    return {
        cell.slug.removesuffix("-n1x1"): _run(cell, folder) for cell in expand_cells(Campaign.model_validate(campaign))
    }


def _made(cell: Cell, folder: Path) -> Run:
    run_cell(PlannedRun(cell, "mine", folder, HANGS), folder / cell.slug / "rep1", read=printed_log)
    return read_run(folder / cell.slug / "rep1")


def _run(cell: Cell, folder: Path) -> TimedRun:
    run = _made(cell, folder)
    assert isinstance(run, TimedRun)
    return with_others(run, 0.01)  # whatever else goes on here


def with_others(run: TimedRun, share: float | None) -> TimedRun:
    """The run as if other programs had used this part of the machine's CPU time in it."""
    host = run.metrics.host | {"others_cpu": share}
    return TimedRun(run.folder, run.metrics.model_copy(update={"host": host}))


def codes(*runs: TimedRun) -> set[str]:
    return OWN & {finding.code for finding in audit("mine", runs).findings}


def with_clock(run: TimedRun, seconds: float) -> TimedRun:
    """The run as if the launcher had seen its window take so long."""
    clock = run.metrics.second_clock.model_copy(update={"window_s": seconds})
    return TimedRun(run.folder, run.metrics.model_copy(update={"second_clock": clock}))


def test_a_sound_program_has_no_finding(runs):
    assert codes(with_clock(runs["sound"], runs["sound"].step_times[1:].sum() * 1.05)) == set()


def test_a_printed_time_that_cannot_be(runs):
    assert codes(with_clock(runs["sound"], 0.4)) == set()  # too short to say: lines may have come all at once
    assert codes(with_clock(runs["sound"], 0.55)) == {"printed-time-too-long"}


def test_a_printed_time_that_cannot_be_in_a_short_window(runs):
    """Whenever its lines came, no more time passed than from the program's start to the last of them."""
    run = with_clock(runs["sound"], 0.0)  # all lines at once
    printed_s = float(run.steps["step_time_s"][1:].sum())
    for last_line_s, found in ((printed_s / 1.5 - 0.2, {"printed-time-too-long"}), (printed_s, set())):
        reading = run.metrics.reading.model_copy(update={"last_line_s": last_line_s})
        assert codes(TimedRun(run.folder, run.metrics.model_copy(update={"reading": reading}))) == found


def test_a_busy_machine_is_named(runs):
    for share, found in ((0.3, {"machine-busy"}), (0.2, set()), (None, set())):
        assert codes(with_others(runs["coarse"], share)) & {"machine-busy"} == found


def test_time_that_a_program_leaves_out(runs):
    assert codes(runs["hidden"]) == {"printed-time-incomplete"}
    alike = with_clock(runs["sound"], runs["sound"].step_times[1:].sum())
    assert "clocks-rank-differently" in codes(alike, runs["hidden"])


def test_a_loss_that_is_no_number(runs):
    """One that is a number again, or lines that print none, are no finding."""
    for lost, found in ((3, {"did-not-train"}), (2, set())):
        reading = runs["coarse"].metrics.reading.model_copy(update={"losses_lost": lost})
        run = TimedRun(runs["coarse"].folder, runs["coarse"].metrics.model_copy(update={"reading": reading}))
        assert codes(run) & {"did-not-train"} == found


def test_a_loss_that_does_not_move(runs):
    assert "did-not-train" in codes(runs["constant"])
    assert "did-not-train" not in codes(runs["coarse"])  # small steps may be rounded away


def test_a_loss_that_is_zero_from_the_first_line_on(runs):
    assert "did-not-train" in codes(runs["zero"])
    assert "did-not-train" not in codes(runs["learned"])


@pytest.mark.parametrize(("per_step", "found"), [({}, {"counts-differ"}), ({"per_step": {"steps": 1}}, set())])
def test_programs_that_count_to_different_numbers(tmp_path, per_step, found):
    """A larger batch is counted less often; unless somebody says what a step is, their rates do not compare."""
    folder = small_programs.write(tmp_path)
    command = f"{shlex.quote(sys.executable)} {folder}/counting.py {{count}} 20"
    vary = {"count": {"batch_8": "60", "batch_16": "50", "same_batch": "60"}}
    campaign = Campaign.model_validate({"title": "x", "workload": {"command": command} | per_step, "vary": vary})
    first, other, alike = (_run(cell, folder) for cell in expand_cells(campaign))
    assert codes(first, other) == found
    assert codes(first, alike) == set()


def test_programs_that_changed_between_runs_are_named(runs):
    program = runs["sound"].metrics.program
    other = program.model_copy(update={"files": dict.fromkeys(program.files, "0" * 64)})
    edited = TimedRun(runs["sound"].folder, runs["sound"].metrics.model_copy(update={"program": other, "repeat": 2}))
    found_codes = {f.code: f.evidence for f in audit("mine", [runs["sound"], edited]).findings}
    assert "nanogpt.py" in found_codes["provenance-differs"]


WATCHED = """
import sys, torch
from torch import nn
import scaleproof

network = nn.Linear(64, 64, bias="bias" in sys.argv)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
with torch.autocast("cpu", torch.bfloat16, enabled="bf16" in sys.argv):
    for batch in scaleproof.watch(list(torch.randn(9 if "short" in sys.argv else 12, 4, 64)), network, optimizer):
        network(batch).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
DIFFERENCES = {
    "again": None,
    "bf16": "dtypes of matrix products: float32 in plain-n1x1, bfloat16 in bf16-n1x1",
    "bias": "parameters: 4096 in plain-n1x1, 4160 in bias-n1x1",
    "short": "optimizer steps: 12 in plain-n1x1, 9 in short-n1x1",
}


def test_watched_programs_that_do_other_work_are_named(tmp_path):
    """A way to be faster than an honest program that no printed figure shows."""
    (tmp_path / "train.py").write_text(WATCHED)
    command = f"{shlex.quote(sys.executable)} {tmp_path}/train.py {{kind}}"
    campaign = {"title": "x", "workload": {"command": command}, "work": {"warmup_steps": 3}}
    vary = {"kind": ["plain", *DIFFERENCES]}
    cells = expand_cells(Campaign.model_validate(campaign | {"vary": vary}))
    plain, *others = (_run(cell, tmp_path) for cell in cells)
    for other, evidence in zip(others, DIFFERENCES.values(), strict=True):
        differing = [f for f in audit("mine", [plain, other]).findings if f.code == "watched-work-differs"]
        assert [finding.evidence.startswith(evidence or "-") for finding in differing] == [True] * (
            evidence is not None
        )


def test_watched_programs_that_are_ended_may_differ_in_their_number_of_steps(tmp_path):
    """Ended after the same time, the faster one has made more of them; its record is whole."""
    (tmp_path / "train.py").write_text(WATCHED.replace("network(batch)", "time.sleep(0.03); network(batch)"))
    text = (
        (tmp_path / "train.py")
        .read_text()
        .replace("12, 4, 64", "9999, 4, 64")
        .replace("import sys", "import sys, time")
    )
    (tmp_path / "train.py").write_text(text)
    command = f"{shlex.quote(sys.executable)} {tmp_path}/train.py {{kind}}"
    for seconds in (12.0, 60.0, 240.0):  # a busy machine may not have imported torch by then
        work = {"warmup_steps": 3, "seconds": seconds}
        campaign = {"title": "x", "workload": {"command": command}, "work": work, "vary": {"kind": ["plain"]}}
        (cell,) = expand_cells(Campaign.model_validate(campaign))
        plain = _made(cell, tmp_path / str(seconds))
        if isinstance(plain, TimedRun):
            break
    assert isinstance(plain, TimedRun)
    (rank,) = plain.metrics.watched
    assert len(rank.step_s) > 5
    assert plain.metrics.reading.ended_after_s >= seconds
    shorter = {"cell": "other", "watched": [rank.model_copy(update={"step_s": rank.step_s[:-2]})]}
    by_itself = {"reading": plain.metrics.reading.model_copy(update={"ended_after_s": None})}
    for end, found in (({}, False), (by_itself, True)):
        both = [TimedRun(plain.folder, plain.metrics.model_copy(update=end | cell)) for cell in ({}, shorter)]
        assert any(f.code == "watched-work-differs" for f in audit("mine", both).findings) == found


def on_devices(run: TimedRun, devices: int, cell: str, factor: float = 1.0) -> TimedRun:
    """The run as one on so many devices, which printed its losses times `factor`."""
    execution = run.metrics.config["execution"] | {"geometry": f"1x{devices}"}
    metrics = run.metrics.model_copy(update={"cell": cell, "config": run.metrics.config | {"execution": execution}})
    other = TimedRun(run.folder, metrics)
    other.take_series(window=run.window | {"loss": run.window["loss"] * factor})
    return other


@pytest.mark.parametrize(("factor", "differ"), [(1.0, False), (1.005, False), (0.9, True)])
def test_losses_on_more_devices_are_held_against_those_on_one(runs, factor, differ):
    one, two = on_devices(runs["sound"], 1, "p-n1x1"), on_devices(runs["sound"], 2, "p-n1x2", factor)
    ((cells, differs, text),) = losses_of_sizes([two, one])
    assert (cells, differs) == (["p-n1x1", "p-n1x2"], differ)
    assert ("first at step 10 (" in text) == differ
    assert ("Losses agree in 30 equal steps" in text) != differ
    assert len(list(sizes_learn_alike([one, two]))) == differ
    facts = dict(protocol_facts([one, two]))
    assert facts["Losses"] == text
    assert facts["Command"].endswith("nanogpt.py --ms 30"), "the placeholder is filled in"
    assert collect_run_facts([one, two]).losses == [(["p-n1x1", "p-n1x2"], text)]


def test_losses_of_two_programs_or_of_other_work_are_not_compared(runs):
    one, two = on_devices(runs["sound"], 1, "p-n1x1"), on_devices(runs["constant"], 2, "q-n1x2")
    assert list(losses_of_sizes([one, two])) == [], "another program"
    assert "Losses" not in dict(protocol_facts([one, two]))
    reading = one.metrics.reading.model_copy(update={"per_step": 512.0})
    two = on_devices(runs["sound"], 2, "p-n1x2")
    larger = TimedRun(two.folder, two.metrics.model_copy(update={"reading": reading}))
    ((_, differs, text),) = losses_of_sizes([one, larger])
    assert (differs, text) == (False, "Losses were not compared: a step of p-n1x1 is other work than one of p-n1x2.")
    assert collect_run_facts([one, larger]).losses == [], "nothing to answer with"
