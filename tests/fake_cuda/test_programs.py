"""Programs of ranks on CUDA, whole and as they are: timed runs, the doctor, trials of memory, sweeps, traces."""

import pytest

from scaleproof.measure.doctor import doctor_steps

COLLECTIVES = ["all_reduce", "broadcast", "all_gather", "reduce_scatter"]
FRONTIER = {"limit_bytes": 0, "steps": 2}
SWEEP = {"collectives": COLLECTIVES, "sizes": [4096], "pair_nbytes": 4096, "warmup": 1, "calls": 3, "limit_s": 1}
TRACE = {"tool": "nsys", "steps": 2}  # by nsys: what torch's profiler asks of CUDA cannot be played


@pytest.mark.parametrize(
    ("strategy", "geometry", "precision"),
    [
        ("single", "1x1", "fp32"),
        ("ddp", "1x2", "bf16"),
        ("fsdp", "1x2", "fp16"),
        ("zero1", "1x2", "tf32"),
        ("dp", "1x2", "bf16"),
    ],
)
def test_a_run_is_measured_from_its_set_up_to_its_record(machine, strategy, geometry, precision):
    world = 1 if strategy in ("single", "dp") else 2
    metrics = machine.run("timed_run", world, strategy=strategy, geometry=geometry, precision=precision)[0]
    assert metrics["status"] == "ok"
    assert metrics["window"]["clock"] == "cuda_events"
    assert metrics["window"]["step_time_n"] == 12
    state, predicted = (metrics["memory"][name] for name in ("state_bytes", "state_bytes_predicted"))
    assert state == pytest.approx(predicted, rel=0.02, abs=2**20), "DeepSpeed has buffers of gradients"
    assert metrics["energy"]["joules"] > 0
    assert metrics["utilization"]["peak_source"].startswith("NVIDIA H200")
    devices = [device for rank in metrics["ranks"] for device in rank["devices"]]
    assert len(set(devices)) == len(devices) == int(geometry[-1])
    assert {rank["backend"] for rank in metrics["ranks"]} == {"nccl"}
    assert [len(of_rank["witness"]["losses"]) for of_rank in metrics["census"]] == [2] * world


def test_a_run_on_amds_devices_is_measured_as_on_others(machine):
    metrics = machine.run("run_on_amd", 2)[0]
    assert metrics["status"] == "ok"
    assert [rank["devices"] for rank in metrics["ranks"]] == [["GPU-cc858db4078d02a6"], ["GPU-74a1000000000001"]]
    assert [rank["gpus"][0]["power_w_mean"] for rank in metrics["ranks"]] == [700, 700]
    assert metrics["utilization"]["peak_source"].startswith("AMD Instinct MI300X")


def test_a_compiled_cell_is_looked_at_where_it_fits_as_it_is_written(machine):
    """Else its probed step is kept by the host, and none is witnessed."""
    assert machine.run("looks_at_a_compiled_cell") == [[3, False, 0, True]]


def test_a_layer_is_timed_on_the_device(machine):
    (rate,) = machine.run("speed_of_a_layer")
    assert 1e6 < rate < 1e13


def test_a_device_whose_memory_runs_out_says_so(machine):
    (failed,) = machine.run("timed_run", strategy="single", memory=3_000_000)
    assert failed["failure"] == "oom"
    assert failed["reason"].startswith("CUDA out of memory")


def test_the_doctor_looks_at_every_device_and_at_their_pairs(machine):
    (entries,) = machine.run("doctor_of_devices")
    status = {entry["name"]: entry["status"] for entry in entries}
    of_each = ("clocks and power", "energy", "matmul rate", "copy bandwidth")
    assert {f"{name}: device {number}" for name in of_each for number in range(2)} <= set(status)
    of_this_cpu = ("matmul rate", "copy bandwidth", "pairs of devices", "event clock")  # slow, and busy with others
    failed = {name for name, verdict in status.items() if verdict != "PASS" and not name.startswith(of_this_cpu)}
    assert failed == {"clocks and power: device 1"}, "which does not say its clock"


def test_copies_between_devices_are_timed_where_they_run(machine):
    assert machine.run("doctor_of_pairs") == [[0, 0, 1]]


def test_what_nvml_does_not_tell_is_missing_and_nothing_else_is(machine):
    (seen,) = machine.run("doctor_without_permission")
    assert seen["readable"] == "not readable: power, clock, utilization, throttling"
    assert "compute mode unknown" in seen["modes"]
    assert seen["unknown"] == "FAIL"
    assert seen["monitor"]["gpus"] is None
    assert seen["none"] == ["FAIL"] + ["not here"] * 10


@pytest.mark.parametrize("world", [1, 2])
def test_the_doctor_looks_at_steps(machine, world):
    answer = machine.run("doctor_of_steps", world)[0]
    expected = doctor_steps.STRATEGIES if world > 1 else ("single", *doctor_steps.STRATEGIES)
    assert list(answer["verdicts"]) == list(expected)
    assert {status for status, _ in answer["verdicts"].values()} == {"PASS"}, answer["verdicts"]
    assert (answer["all_reduce_s"] is None) == (world == 1)


def test_a_trial_of_memory_measures_the_device(machine):
    trial = machine.run("other_program", 2, kind="frontier", settings=FRONTIER, strategy="ddp", geometry="1x2")[0]
    assert trial["base"] < trial["nbytes"] < 2**24
    assert trial["retries"] == 0


def test_a_sweep_times_every_collective(machine):
    swept = machine.run("other_program", 2, kind="sweep", settings=SWEEP, strategy="ddp", geometry="1x2")[0]
    assert [call["collective"] for call in swept["calls"]] == COLLECTIVES
    assert all(len(call["seconds"]) == 3 and min(call["seconds"]) > 0 for call in swept["calls"])


def test_a_trace_is_taken(machine):
    traced = machine.run("other_program", 2, kind="trace", settings=TRACE, strategy="ddp", geometry="1x2")[0]
    assert len(traced["step_time_s"]) == 2
    assert traced["collectives"]["allreduce"]["bytes"] == 4 * traced["parameters"]
