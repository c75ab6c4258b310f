"""What `campaign validate` counts, and how long it says that it takes."""

import json
import re
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from synthetic import write_run

from scaleproof.conclude.forecast.requirements import RunTimes, counts_of_cell, run_times
from scaleproof.driver import planned_work as planned_work_module
from scaleproof.driver.planned_work import planned_work
from scaleproof.driver.stale import stale_runs
from scaleproof.driver.stale_text import stale_text
from scaleproof.ground.campaign.cells import Cell
from scaleproof.ground.campaign.geometry import Geometry
from scaleproof.ground.campaign.loaded import LoadedCampaign
from scaleproof.ground.facts.peaks import named_device
from scaleproof.ground.files import write_atomic
from scaleproof.measure.doctor.speed import USUAL, MachineSpeed
from scaleproof.measure.reference.schema import Reference

TEXT = """title: x
work: {global_batch: 8}
vary: {geometry: [1x1, 1x2]}
compare: [{name: fused, b: {fused_optimizer: false}, pairs: 4, null_pairs: 2}]
trace: {cells: [ddp-n1x2]}
repeats: 4
"""


@pytest.fixture
def loaded(tmp_path, repository, monkeypatch) -> LoadedCampaign:
    monkeypatch.chdir(repository)
    (tmp_path / "mine.yaml").write_text(TEXT)
    return LoadedCampaign(tmp_path / "mine.yaml")


def test_what_cannot_run_is_not_counted(loaded, tmp_path):
    strategies = TEXT.replace("{geometry: [1x1, 1x2]}", "{geometry: [1x1, 1x2], strategy: [single, ddp]}")
    loaded.path.write_text(strategies)
    assert planned_work(LoadedCampaign(loaded.path), tmp_path).timed == 12, "single-n1x2 is a row"
    loaded.path.write_text(strategies.replace("work:", "execution: {device: cuda}\nwork:"))
    assert planned_work(LoadedCampaign(loaded.path), tmp_path).timed == 12, "of another machine, too"


def test_everything_that_runs_is_counted(loaded, tmp_path):
    plan = planned_work(loaded, tmp_path)
    assert (plan.timed, plan.compared, plan.traced, plan.replayed) == (8, 12, 1, 1)
    assert "8 timed runs, 12 runs in A/B pairs, 1 trace, 4 witnesses (53 seconds) and 1 reference: about" in plan.text
    assert plan.seconds > 19 * 10
    assert "intervals" not in plan.text


def test_repeats_that_are_too_few_for_intervals_are_said_so(loaded, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(TEXT.replace("repeats: 4", "repeats: 1"))
    text = planned_work(LoadedCampaign(path), tmp_path).text
    assert text.endswith("\nratios of cells have intervals from 3 repeats on (key: repeats)")


def made(loaded, results, campaign: str, step: float = 0.1) -> None:
    """A run of each cell and of each arm of the comparison, with steps of `step` seconds."""
    (_, a, b) = next(iter(loaded.comparisons.values()))
    for cell in (*loaded.cells, a, b):
        write_run(results / campaign / "runs", cell, 1, step_time=step)


def test_a_copied_campaign_is_told_to_measure_anew(loaded, tmp_path):
    made(loaded, tmp_path, "demo")
    own = (
        f"\n{tmp_path}/demo has runs of the same configuration; mine is a campaign of its own, whose runs are measured"
    )
    assert own in planned_work(loaded, tmp_path).text
    assert stale_text(stale_runs(loaded.path, tmp_path)).endswith(f"{own} anew")
    loaded.path.write_text(f"{TEXT}execution: {{threads_per_device: 2}}\n")
    assert "of its own" not in planned_work(LoadedCampaign(loaded.path), tmp_path).text
    made(loaded, tmp_path, "mine")
    assert "of its own" not in planned_work(loaded, tmp_path).text


def test_a_cell_that_ran_takes_as_long_again(loaded, tmp_path):
    made(loaded, tmp_path, "demo")
    times = run_times(tmp_path, "synthetic")
    cell = loaded.cells[1]
    (own,) = (run for run in times.past if run.fingerprint == cell.fingerprint)
    assert times.seconds(cell) == own.total_s
    assert times.basis(loaded.cells) == "estimated from 4 earlier runs of this machine"


def test_runs_of_another_machine_are_no_basis(loaded, tmp_path, monkeypatch):
    made(loaded, tmp_path, "other")
    assert run_times(tmp_path, "mine").past == ()
    monkeypatch.setattr("socket.gethostname", lambda: "node")
    assert len(run_times(tmp_path, "mine").past) == 4


def test_steps_of_other_work_follow_from_the_rate(loaded, tmp_path):
    made(loaded, tmp_path, "synthetic")
    (cell, *_) = loaded.cells
    longer = Cell(cell.slug, cell.workload, cell.work.model_copy(update={"steps": 300}), cell.execution)
    times = run_times(tmp_path, "synthetic")
    flops = statistics.median(run.flops for run in times.past)
    tokens = (300 + cell.work.warmup_steps) * cell.batch.global_ * cell.workload.seq_len
    expected = times.outside(cell) + counts_of_cell(cell).flops_per_token * tokens / flops
    assert times.seconds(longer) == pytest.approx(expected)


def test_a_damaged_file_is_left_to_others(loaded, tmp_path):
    made(loaded, tmp_path, "synthetic")
    for text in ("{", "[]", '{"status": "ok"}'):
        min(tmp_path.glob("synthetic/runs/*/rep1/training_metrics.json")).write_text(text)
        assert len(run_times(tmp_path, "synthetic").past) == 3


def test_a_gpu_that_is_not_here_is_taken_for_a_usual_one(tmp_path, repository, monkeypatch):
    """With 2e13 FLOP/s for any GPU that is not visible a run of these took 19 minutes."""
    monkeypatch.chdir(repository)
    plan = planned_work(LoadedCampaign(Path("config/campaigns/h100_speed.yaml")), tmp_path)
    assert 24 < plan.seconds / plan.timed < 144
    assert "as on an A100" in plan.text


def test_a_replay_takes_what_its_steps_take(tmp_path, repository, monkeypatch):
    """16 cores would need 25 minutes for three steps: they are cut, on an A100 too; a tiny model makes all."""
    monkeypatch.chdir(repository)
    speed = LoadedCampaign(Path("config/campaigns/h100_speed.yaml"))
    demo = LoadedCampaign(Path("config/campaigns/demo.yaml"))
    monkeypatch.setattr("scaleproof.conclude.forecast.requirements.available_cores", lambda: 16)

    def seconds(loaded: LoadedCampaign, device: str) -> float:
        cell = loaded.cells[0]
        execution = cell.execution.model_copy(update={"device": device})
        on = Cell(cell.slug, cell.workload, cell.work, execution)
        return planned_work_module._replay_s(tmp_path / "none.json", on, run_times(tmp_path, "mine"))

    most = 3 * 120 + USUAL["start"]
    assert seconds(speed, "cpu") == seconds(speed, "cuda") == most, "three times, two minutes each"
    assert USUAL["start"] + 0.1 < seconds(demo, "cpu") < USUAL["start"] + 30


def test_a_replay_that_was_made_takes_as_long_again(loaded, tmp_path):
    (cell, *_) = loaded.cells
    times = run_times(tmp_path, "mine")
    path = tmp_path / "reference.json"
    fields = {"train_sha256": "", "device": "cpu", "torch_version": "2", "losses": [], "total_steps": 1}
    reference = Reference(workload="x", parameters=1, step_checksums={}, seconds=77.0, **fields)
    path.write_text(reference.model_dump_json())
    assert planned_work_module._replay_s(path, cell, times) == USUAL["start"] + 77.0


def test_the_demo_takes_a_few_minutes(tmp_path, repository, monkeypatch):
    """Without any earlier run: the sum of what its parts take on two quiet cores."""
    monkeypatch.chdir(repository)
    monkeypatch.setattr("scaleproof.driver.planned_work.available_cores", lambda: 2)
    demo = LoadedCampaign(Path("config/campaigns/demo.yaml"))
    assert 200 < planned_work(demo, tmp_path, drawn=20).seconds < 270
    forked = Path("config/campaigns/demo.yaml").read_text().replace("start: forked", "start: fresh")
    (tmp_path / "demo.yaml").write_text(forked)
    fresh = planned_work(LoadedCampaign(tmp_path / "demo.yaml"), tmp_path, drawn=20).seconds
    assert fresh > 1.4 * planned_work(demo, tmp_path, drawn=20).seconds


def test_without_earlier_runs_the_estimate_is_by_a_probe_of_this_machine(loaded, tmp_path):
    (cell, *_) = loaded.cells
    speeds = tmp_path / "speeds.json"
    layer = '{"device": "cpu", "precision": "fp32", "width": 128, "seq_len": 128}'
    speeds.write_text(json.dumps({"start": 3.0, f"train {layer}": 1e9}))
    times = RunTimes((), (), MachineSpeed(speeds))
    tokens = (cell.work.steps + cell.work.warmup_steps) * cell.batch.global_ * cell.workload.seq_len
    assert times.seconds(cell) == pytest.approx(3.0 + counts_of_cell(cell).flops_per_token * tokens / 1e9)
    assert times.basis([cell]) == "estimated from FLOPs by a probe of this machine, where a run takes 3 s to start"
    assert "as on a small node" in RunTimes((), ()).basis([cell])

    (tmp_path / "command.yaml").write_text('title: x\nworkload: {command: "python3 train.py"}\n')
    basis = times.basis(LoadedCampaign(tmp_path / "command.yaml").cells)
    assert basis.startswith("the time of a command is not known before its first run"), "nor are its FLOPs"


def test_a_command_takes_as_long_as_its_earlier_runs_or_until_it_is_ended(tmp_path):
    path = tmp_path / "command.yaml"
    text = 'title: x\nworkload: {command: "python3 train.py {kind}"}\nvary: {kind: [a, b]}\n'
    path.write_text(text)
    for cell, seconds in zip(LoadedCampaign(path).cells, (40.0, 60.0), strict=True):
        record = {
            "host": {"hostname": "elsewhere"},
            "campaign": "command",
            "status": "ok",
            "fingerprint": cell.fingerprint,
            "config": cell.config,
            "window": {},
            "reading": {},
            "total_wall_time_sec": seconds,
        }
        write_atomic(tmp_path / f"command/runs/{cell.slug}/rep1/training_metrics.json", json.dumps(record))
    times = run_times(tmp_path, "command", probes=False)
    cells = LoadedCampaign(path).cells
    assert [times.seconds(cell) for cell in cells] == [40.0, 60.0]
    assert times.basis(cells) == "estimated from earlier runs of these commands"

    path.write_text(text.replace("[a, b]", "[a, c]"))
    assert times.basis(LoadedCampaign(path).cells).startswith("the time of a command is not known before its first run")
    path.write_text(text.replace("[a, b]", "[c, d]") + "work: {seconds: 300}\n")
    cells = LoadedCampaign(path).cells
    assert times.basis(cells) == "each run is ended after work.seconds"
    assert 300 < times.seconds(cells[0]) < 330


def test_processes_that_share_cores_take_longer(loaded, tmp_path, monkeypatch):
    """By the cores that there are, whether the earlier runs had some of their own or shared them."""
    made(loaded, tmp_path, "synthetic")
    cell = loaded.cells[1]
    wide = replace(
        cell, execution=cell.execution.model_copy(update={"geometry": Geometry(nodes=1, devices_per_node=8)})
    )
    seconds = {}
    for cores in (2, 8, 64):
        monkeypatch.setattr("scaleproof.conclude.forecast.requirements.available_cores", lambda cores=cores: cores)
        times = run_times(tmp_path, "synthetic")
        seconds[cores] = times.seconds(wide)
    assert seconds[2] == pytest.approx(4 * seconds[8])
    assert seconds[8] == pytest.approx(seconds[64])
    on_gpus = replace(wide, execution=wide.execution.model_copy(update={"device": "cuda"}))
    assert times.outside(on_gpus) == USUAL["start"]


def test_traced_steps_are_counted(loaded, tmp_path):
    def seconds(keys: str) -> float:
        loaded.path.write_text(TEXT.replace("[ddp-n1x2]", f"[ddp-n1x2]{keys}"))
        return planned_work(LoadedCampaign(loaded.path), tmp_path).seconds

    assert seconds(", steps: 5") == seconds("")
    assert seconds(", steps: 905") > seconds("") + 90


def test_what_is_counted_is_what_can_run(loaded, tmp_path):
    times = run_times(tmp_path, "mine")
    strategies = TEXT.replace("{geometry: [1x1, 1x2]}", "{geometry: [1x1, 1x2], strategy: [single, ddp]}")
    loaded.path.write_text(strategies.replace("[ddp-n1x2]", "all"))
    for work in (planned_work(LoadedCampaign(loaded.path), tmp_path, times=each) for each in (times, None)):
        assert (work.timed, work.traced) == (12, 3), "single-n1x2 runs nowhere"
        assert "none of them can run here" not in work.text
    loaded.path.write_text(f"{TEXT}execution: {{threads_per_device: 4000}}\n")
    for each in (times, None):
        work = planned_work(LoadedCampaign(loaded.path), tmp_path, times=each)
        assert "(elsewhere, as none of them can run here; " in work.text


def test_what_is_counted_for_a_named_device_is_not_what_can_run_here(loaded, tmp_path):
    loaded.path.write_text("title: x\nvary: {geometry: [1x1, 2x1]}\nrepeats: 4\n")
    named = RunTimes((), (), named=named_device("H100 80GB"))
    for times, timed in ((run_times(tmp_path, "mine"), 4), (named, 8)):
        work = planned_work(LoadedCampaign(loaded.path), tmp_path, times=times)
        assert (work.timed, "elsewhere" in work.text) == (timed, False)


@pytest.mark.parametrize(("minutes", "is_said"), [(0.1, True), (60, False)])
def test_minutes_that_the_first_repeats_use_up_are_said(loaded, tmp_path, minutes, is_said):
    made(loaded, tmp_path, "mine", step=1.0)
    until = f"{{resolve: 3 %, at_least: 6, at_most: 12, minutes: {minutes}}}"
    (tmp_path / "mine.yaml").write_text(re.sub("repeats: .*", f"repeats: {until}", TEXT))
    text = planned_work(LoadedCampaign(tmp_path / "mine.yaml"), tmp_path).text
    assert (f"more than repeats.minutes ({minutes}): no further repeat would begin" in text) == is_said


@pytest.mark.parametrize(("minutes", "is_said"), [(0.1, True), (0.02, True), (15, False)])
def test_a_time_limit_that_stops_every_run_is_said(loaded, tmp_path, minutes, is_said):
    made(loaded, tmp_path, "mine", step=1.0)
    path = tmp_path / "mine.yaml"
    path.write_text(f"{TEXT}resources: {{time_limit: {minutes}}}\n")
    work = planned_work(LoadedCampaign(path), tmp_path)
    limit = "1.2" if minutes == 0.02 else "6"
    assert (f"resources.time_limit stops it after {limit} seconds" in work.text) == is_said
    assert (work.witnessed == 0) == is_said, "a run that is stopped has no witness"
    if is_said:
        assert work.seconds < 8 * (6 + 1.3) + 12 * (6 + 0.3) + 60
