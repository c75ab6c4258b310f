"""Is this machine's CPU fit to measure? Checks of `scaleproof doctor` that need no GPU."""

import importlib.util
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import psutil

from scaleproof.ground.cores import available_cores
from scaleproof.ground.errors import shortened
from scaleproof.ground.verdict import Verdict, judged, not_here
from scaleproof.measure.doctor.doctor import Look

MOST_STOLEN = 0.02  # share of the CPU's time that the hypervisor may take: more shows in step times
MOST_SPREAD = 0.10  # spread of equal pieces of work: more hides differences between strategies
MOST_TICK_S = 1e-6
LEAST_FREE_GB, LEAST_WRITE_MB_S = 5.0, 50.0
PROBE_MB = 64
OF_THREADS = re.compile("(OMP|GOMP|KMP|MKL)_")
COUNTS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
NUMBERS = re.compile(r"\s*\+?[1-9][0-9]*\s*(,\s*\+?[1-9][0-9]*\s*)*")


def checks_of_cpu(folder: Path) -> list[Look]:
    """Return the checks of the CPU. `folder`: where results are written."""
    import torch  # noqa: F401 - a torch that is broken is no fault of the machine, and no check says anything without

    return [
        Look("cores", "cpu", lambda: judge_cores(available_cores(), cpu_quota(), threads_per_core())),
        Look("steal and frequency", "cpu", check_steal),
        Look("steadiness", "cpu", check_steadiness),
        Look("clock", "cpu", check_clock),
        Look("disk", "cpu", lambda: check_disk(folder)),
        Look("OpenMP", "cpu", check_openmp),
        Look("compiler", "cpu", check_compiler),
    ]


def judge_cores(allowed: int, quota: float | None, threads: int | None = None) -> Verdict:
    """Judge whether ranks get the whole time of the `allowed` cores.

    `quota`: the CPU time that a control group grants, in cores; None where there is no limit. `threads`: hardware
    threads of a core; None where the system does not say.
    """
    values = {"cores": allowed, "threads_per_core": threads}
    if quota is not None and quota < allowed:
        return judged(
            False,
            f"{allowed} cores may be used, but a control group grants the time of {quota:g}",
            "ranks would be throttled within steps: raise the quota, or bind the process to that many cores (taskset)",
            quota=quota,
            **values,
        )
    evidence = f"{allowed} cores"
    if threads and threads > 1:
        evidence = f"{allowed} logical CPUs, {threads} hardware threads per core"
    return judged(True, evidence, "", **values)


def threads_per_core() -> int | None:
    """Return the hardware threads of a core of this machine. Returns None where the system does not say."""
    logical, physical = psutil.cpu_count(), psutil.cpu_count(logical=False)
    return logical // physical if logical and physical else None


def cpu_quota(path: Path = Path("/sys/fs/cgroup/cpu.max")) -> float | None:
    """Return the CPU time that this control group (version 2) grants, in cores. Returns None without a limit."""
    try:
        limit, period = path.read_text().split()
    except (OSError, ValueError):
        return None
    return None if limit == "max" else int(limit) / int(period)


def check_steal(seconds: float = 1.0) -> Verdict:
    """Judge the share of CPU time that the hypervisor takes while this process keeps a core busy for `seconds`."""
    before = psutil.cpu_times()  # of the whole machine, in seconds
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
    after = psutil.cpu_times()
    total_s = sum(after) - sum(before)
    stolen_s = getattr(after, "steal", 0.0) - getattr(before, "steal", 0.0)
    frequency = psutil.cpu_freq()
    return judge_steal(stolen_s / total_s if total_s else 0.0, frequency.current if frequency else None)


def judge_steal(share: float, mhz: float | None) -> Verdict:
    """Judge whether the hypervisor took little of the CPU's time (`share`). `mhz`: the clock now; None: unknown."""
    clock_text = f"{mhz:.0f} MHz now" if mhz else "frequency unknown"
    advice = "other virtual machines take this one's time: measure on a machine of your own, or with more repeats"
    evidence = f"{share:.1%} of the CPU time was taken by the hypervisor; {clock_text}"
    return judged(share <= MOST_STOLEN, evidence, advice, steal_share=share, mhz=mhz)


def check_steadiness(pieces: int = 60) -> Verdict:
    """Judge how much the times of equal pieces of work vary. Each piece takes some milliseconds."""
    matrix = np.random.default_rng(1).standard_normal((160, 160))
    times = []
    for _ in range(pieces):
        began = time.perf_counter()
        for _ in range(10):
            matrix @ matrix
        times.append(time.perf_counter() - began)
    return judge_steadiness(times[5:])  # the first pieces are warm-up


def judge_steadiness(times: list[float]) -> Verdict:
    """Judge whether equal work takes equal `times` (seconds). The largest tenth is left out as interruptions."""
    undisturbed_times = sorted(times)[: max(2, len(times) - len(times) // 10)]
    spread = pstdev(undisturbed_times) / fmean(undisturbed_times)
    advice = "something else runs here (top shows what), or the clock changes (cpupower frequency-info)"
    evidence = f"equal pieces of work vary by {spread:.1%} (standard deviation)"
    return judged(spread <= MOST_SPREAD, evidence, advice, spread=spread)


def check_clock() -> Verdict:
    """Judge whether the smallest step of perf_counter is small enough."""
    tick_s = min(_clock_tick_s() for _ in range(1000))
    advice = "the system's clock source is slow (cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
    evidence = f"the smallest step of perf_counter is {tick_s * 1e9:.0f} ns"
    return judged(tick_s <= MOST_TICK_S, evidence, advice, resolution_s=tick_s)


def _clock_tick_s() -> float:
    """Return the seconds by which perf_counter advances when it next changes."""
    began = now = time.perf_counter()
    while now == began:
        now = time.perf_counter()
    return now - began


def check_disk(folder: Path) -> Verdict:
    """Judge room and speed of the disk of `folder`, by writing PROBE_MB of random bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f".doctor-{os.getpid()}"
    block = os.urandom(1 << 20)
    try:
        began = time.perf_counter()
        with path.open("wb") as file:
            for _ in range(PROBE_MB):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        seconds = time.perf_counter() - began
    finally:
        path.unlink(missing_ok=True)
    return judge_disk(shutil.disk_usage(folder).free / 1e9, PROBE_MB / seconds)


def judge_disk(free_gb: float, mb_per_s: float) -> Verdict:
    """Judge whether a disk has room for results and token files, and is fast enough for them."""
    evidence = f"{free_gb:.0f} GB free, {mb_per_s:.0f} MB/s written"
    advice = (
        f"results and token files want {LEAST_FREE_GB:g} GB and {LEAST_WRITE_MB_S:g} MB/s: put results/ on another disk"
    )
    is_sound = free_gb >= LEAST_FREE_GB and mb_per_s >= LEAST_WRITE_MB_S
    return judged(is_sound, evidence, advice, free_gb=free_gb, write_mb_s=mb_per_s)


def check_openmp() -> Verdict:
    """Judge whether two threads of torch run on two cores."""
    import torch

    if available_cores() < 2:
        return not_here("one core: threads have nowhere to go")
    threads_before = torch.get_num_threads()
    try:
        one_thread_s = _time_product_s(torch, 1)
        two_threads_s = _time_product_s(torch, 2)
    finally:
        torch.set_num_threads(threads_before)
    return judge_openmp(one_thread_s / two_threads_s, os.environ)


def _time_product_s(torch: Any, threads: int) -> float:
    """Return the shortest of six times, in seconds, of a product of 700 x 700 matrices with so many threads."""
    torch.set_num_threads(threads)
    matrix = torch.ones(700, 700)
    shortest_s = float("inf")
    for _ in range(6):
        began = time.perf_counter()
        matrix @ matrix
        shortest_s = min(shortest_s, time.perf_counter() - began)
    return shortest_s


def judge_openmp(speedup: float, variables: Mapping[str, str]) -> Verdict:
    """Judge whether two threads are fast enough beside one thread.

    `speedup`: how many times as fast; `variables`: the environment, whose settings of threads may be at fault.
    """
    settings = {name: value for name, value in variables.items() if value and OF_THREADS.match(name)}
    broken = [f"{name}={settings[name]}" for name in COUNTS if not NUMBERS.fullmatch(settings.get(name, "1"))]
    evidence = f"two threads are {speedup:.2f} times as fast as one"
    if broken:
        evidence += f"; {shortened(', '.join(broken))} is no number of threads"
        advice = "unset it, or give a number from 1: our trainer sets its own, but a command of yours gets it"
        return judged(False, evidence, advice, speedup=speedup)
    advice = "threads share a core, or others use it: cells with threads_per_device above 1 would not be faster"
    if settings:
        advice += f"; {', '.join(f'{name}={value}' for name, value in sorted(settings.items()))} may bind or limit them"
    return judged(speedup >= 1.3, evidence, advice, speedup=speedup)


def check_compiler() -> Verdict:
    """Judge whether the host has what torch.compile needs: torch, and $CXX, else g++."""
    if importlib.util.find_spec("torch") is None:
        return judged(False, "torch is not installed", "install the environment (docs/environments.md)")
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        return not_here("g++ is not installed: cells with compile: true do not run on this CPU")
    return judged(True, "g++ is there for torch.compile", "")
