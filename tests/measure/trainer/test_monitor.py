"""What the hardware did during the window: a fake NVML stands in for devices that are not there."""

import threading
import time
from pathlib import Path

import pytest
import torch
from patience import wait_until
from sound_gpu_records import SOUND

from scaleproof.ground.records.open_sections import RankGpu
from scaleproof.measure.trainer import monitor
from scaleproof.measure.trainer.host_load import HostLoad, IdleClock
from scaleproof.measure.trainer.monitor import GpuMonitor, Monitor


class FakeNvml:
    """Devices with a constant draw; the energy counter runs by the clock, `factor` times as fast as it should.

    It is that clock as well, which ticks whenever it is read: what a machine does meanwhile makes no difference.
    """

    class NVMLError(Exception):
        pass

    def __init__(self, watts: float = 300.0, factor: float = 1.0, counter: bool = True, reasons: int = 0) -> None:
        self.watts, self.factor, self.counter, self.reasons = watts, factor, counter, reasons
        self.now = 0.0
        self.asked: list[str] = []

    def perf_counter(self) -> float:
        self.now += 0.01
        return self.now

    def nvmlDeviceGetHandleByUUID(self, uuid):
        self.asked.append(uuid)
        return uuid

    def nvmlDeviceGetPowerUsage(self, handle):
        return self.watts * 1e3

    def nvmlDeviceGetClockInfo(self, handle, kind):
        assert kind == 1
        return 1755

    def nvmlDeviceGetUtilizationRates(self, handle):
        return type("Rates", (), {"gpu": 97})

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return self.reasons

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        if not self.counter:
            raise self.NVMLError("not supported")
        return self.now * self.watts * self.factor * 1e3


@pytest.fixture
def watched(monkeypatch):
    """What is said of a device after some forty samples."""

    def watch(nvml: FakeNvml) -> dict:
        monkeypatch.setattr(monitor, "time", nvml)
        with GpuMonitor(nvml, ["GPU-a"], period=0.001) as watching:
            wait_until(lambda: len(watching.samples[0].times) >= 40)
        return watching.result()[0]

    return watch


def test_devices_are_named_by_uuid_and_sampled_at_both_ends(watched):
    nvml = FakeNvml()
    found = watched(nvml)
    assert nvml.asked == ["GPU-a"]
    assert found["samples"] > 40
    assert found["utilization_mean"] == pytest.approx(0.97)
    assert found["sm_clock_mhz_mean"] == found["sm_clock_mhz_min"] == 1755
    assert found["power_w_mean"] == pytest.approx(300)
    assert found["throttled"] == {}
    assert set(found) == set(RankGpu.__annotations__), "ground/records/open_sections.py"
    assert set(found) == set(SOUND), "sound_gpu_records.py: test_every_field asks which check sees a change of it"


def test_throttling_that_may_not_be_read_is_unknown_and_not_none(watched):
    nvml = FakeNvml()

    def refused(handle):
        raise nvml.NVMLError("Insufficient Permissions")

    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = refused
    assert watched(nvml)["throttled"] is None


def test_energy_is_the_counters_where_the_integral_agrees(watched):
    nvml = FakeNvml()
    found = watched(nvml)
    assert found["energy_j"] == found["energy_counter_j"]
    assert found["energy_j"] == pytest.approx(found["energy_integral_j"], rel=0.1)
    assert found["energy_j"] == pytest.approx(300 * nvml.now)


def test_energy_is_withheld_where_counter_and_integral_disagree(watched):
    found = watched(FakeNvml(factor=1.5))
    assert found["energy_j"] is None
    assert found["energy_counter_j"] > 1.3 * found["energy_integral_j"]


def test_a_device_without_a_counter_has_no_energy(watched):
    found = watched(FakeNvml(counter=False))
    assert found["energy_j"] is None
    assert found["energy_counter_j"] is None
    assert found["energy_integral_j"] > 0


def test_throttling_is_named_with_its_share(watched):
    assert watched(FakeNvml(reasons=0x4 | 0x40 | 0x1))["throttled"] == {"power_cap": 1.0, "thermal_hardware": 1.0}


def test_the_sampler_ends_with_the_window():
    nvml = FakeNvml()
    with GpuMonitor(nvml, ["GPU-a"], period=0.01) as watching:
        pass
    assert not watching.thread.is_alive()


def test_a_cpu_has_memory_and_no_gpus():
    with Monitor(torch.device("cpu"), []) as watching:
        pass
    result = watching.result()
    assert result["gpus"] is None
    assert result["rss_bytes"] > 10**7


def spin(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_load_is_processor_time_over_the_time_of_the_window():
    with HostLoad([]) as load:
        spin(0.05)
    result = load.result()
    length = result["window_end_monotonic_s"] - result["window_start_monotonic_s"]
    assert result["cpu_load"] == result["cpu_s"] / length
    assert result["cpu_s"] >= 0.04


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="only Linux counts how long a thread waits")
def test_sleeping_is_idle_and_neither_computing_nor_a_collective_is():
    # A virtual machine that is not run for a while is idle as well, but hardly each time.
    assert any(idle_while_working() < 0.15 for _ in range(20))
    clock = IdleClock()
    clock.start()
    threading.Event().wait(0.4)
    clock.stop()
    assert clock.idle_s > 0.35


def idle_while_working() -> float:
    clock = IdleClock()
    clock.start()
    spin(0.03)
    with clock.leave_out():
        threading.Event().wait(0.2)
    clock.stop()
    assert clock.busy_s >= 0.03
    return clock.idle_s
